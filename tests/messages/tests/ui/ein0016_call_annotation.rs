/// Another size.
mod first {
    use eindecomp::ein;

    ein! {
        fn copy<dim N>(a: f32[N]) -> f32[N] {
            let y[n] = a[n];
            y
        }
        fn model<dim N>(a: f32[N]) -> f32[N] {
            let y: f32[2 * N] = copy(a);
            a
        }
    }
}

/// Another dtype.
mod second {
    use eindecomp::ein;

    ein! {
        fn index<dim N>(a: f32[N]) -> i64[] {
            let y[] = argmax[n] a[n];
            y
        }
        fn model<dim N>(a: f32[N]) -> f32[N] {
            let y: f32[] = index(a);
            a
        }
    }
}

fn main() {}
