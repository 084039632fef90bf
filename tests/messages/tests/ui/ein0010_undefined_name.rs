/// A slip of the finger.
mod first {
    use eindecomp::ein;

    ein! {
        fn scale<dim N>(weight: f32[N]) -> f32[N] {
            let y[n] = wieght[n];
            y
        }
    }
}

/// Used before it is defined.
mod second {
    use eindecomp::ein;

    ein! {
        fn late<dim N>(a: f32[N]) -> f32[N] {
            let y[n] = a[n] + z[n];
            let z[n] = a[n];
            y
        }
    }
}

fn main() {}
