/// Every kind of name.
mod first {
    use eindecomp::ein;

    ein! {
        fn f<dim N, dim N>(a: f32[N], a: f32[N]) -> f32[N] {
            let y[n, n] = a[n];
            a
        }
        fn f(x: f32) -> f32 {
            x
        }
    }
}

/// A field.
mod second {
    use eindecomp::ein;

    ein! {
        struct Layer<dim D> { w: f32[D], w: f32[D] }
        fn f<dim D>(x: f32[D]) -> f32[D] {
            let y[d] = x[d];
            y
        }
    }
}

fn main() {}
