/// By its name in NumPy.
mod first {
    use eindecomp::ein;

    ein! {
        fn f<dim N>(a: float32[N]) -> f32[N] {
            let y[n] = a[n];
            y
        }
    }
}

/// A slip of the finger.
mod second {
    use eindecomp::ein;

    ein! {
        struct Layer<dim D> { w: f32[D] }
        fn f<dim D>(l: Layr<D>) -> f32[D] {
            let y[d] = l.w[d];
            y
        }
    }
}

fn main() {}
