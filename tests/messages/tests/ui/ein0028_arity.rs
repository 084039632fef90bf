/// A maximum of one.
mod first {
    use eindecomp::ein;

    ein! {
        fn f<dim N>(a: f32[N]) -> f32[N] {
            let y[n] = max(a[n]);
            y
        }
    }
}

/// A block.
mod second {
    use eindecomp::ein;

    ein! {
        fn g<dim N>(a: f32[N]) -> f32[N] {
            let y[n] = a[n];
            y
        }
        fn f<dim N>(a: f32[N]) -> f32[N] {
            let z = g(a, a);
            z
        }
    }
}

fn main() {}
