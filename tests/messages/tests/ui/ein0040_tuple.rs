/// As a value.
mod first {
    use eindecomp::ein;

    ein! {
        fn f<dim N>(a: f32[N]) -> f32[N] {
            let y[n] = (a[n], a[n]);
            y
        }
    }
}

/// Of a reduction.
mod second {
    use eindecomp::ein;

    ein! {
        fn f<dim N>(a: f32[N], b: f32[N]) -> f32 {
            let y[] = sum[n] (a[n], b[n]);
            y
        }
    }
}

fn main() {}
