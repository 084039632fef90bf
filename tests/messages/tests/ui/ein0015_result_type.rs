/// Another size.
mod first {
    use eindecomp::ein;

    ein! {
        fn copy<dim N, dim M>(a: f32[N]) -> f32[M] {
            let y[n] = a[n];
            y
        }
    }
}

/// Another dtype.
mod second {
    use eindecomp::ein;

    ein! {
        fn cast<dim N>(a: f32[N]) -> f16[N] {
            let y[n] = a[n] * 2.0;
            y
        }
    }
}

fn main() {}
