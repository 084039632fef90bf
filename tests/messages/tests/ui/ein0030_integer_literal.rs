/// A factor.
mod first {
    use eindecomp::ein;

    ein! {
        fn f<dim N>(a: f32[N]) -> f32[N] {
            let y[n] = a[n] * 2;
            y
        }
    }
}

/// A negative one.
mod second {
    use eindecomp::ein;

    ein! {
        fn f<dim N>(a: f32[N]) -> f32[N] {
            let y[n] = max(a[n], -1) + sqrt(3);
            y
        }
    }
}

fn main() {}
