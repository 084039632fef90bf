/// A symbolic length.
mod first {
    use eindecomp::ein;

    ein! {
        fn g<dim N>(a: f32[N]) -> f32[N] {
            let y[n] = a[n] * 0.5;
            y
        }
        fn f<dim N>(a: f32[N]) -> f32[N] {
            let mut x = a;
            for i in 0..N { x = g(x); }
            x
        }
    }
}

/// Over a tensor.
mod second {
    use eindecomp::ein;

    ein! {
        fn g<dim N>(a: f32[N]) -> f32[N] {
            let y[n] = a[n] * 0.5;
            y
        }
        fn f<dim N>(a: f32[N]) -> f32[N] {
            let mut x = a;
            for l in a { x = g(x); }
            x
        }
    }
}

fn main() {}
