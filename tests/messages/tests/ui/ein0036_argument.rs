/// An expression.
mod first {
    use eindecomp::ein;

    ein! {
        fn double<dim N>(x: f32[N]) -> f32[N] {
            let y[n] = 2.0 * x[n];
            y
        }
        fn model<dim N>(a: f32[N], b: f32[N]) -> f32[N] {
            let y = double(a + b);
            y
        }
    }
}

/// An element where the tensor is meant.
mod second {
    use eindecomp::ein;

    ein! {
        fn double<dim N>(x: f32[N]) -> f32[N] {
            let y[n] = 2.0 * x[n];
            y
        }
        fn model<dim N>(a: f32[N]) -> f32[N] {
            let y = double(a[n]);
            y
        }
    }
}

fn main() {}
