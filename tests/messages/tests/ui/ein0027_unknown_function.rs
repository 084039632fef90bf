/// By its other name.
mod first {
    use eindecomp::ein;

    ein! {
        fn f<dim N>(a: f32[N]) -> f32[N] {
            let y[n] = swish(a[n]);
            y
        }
    }
}

/// A start of the name.
mod second {
    use eindecomp::ein;

    ein! {
        fn f<dim N>(a: f32[N]) -> f32[N] {
            let y[n] = sigm(a[n]);
            y
        }
    }
}

fn main() {}
