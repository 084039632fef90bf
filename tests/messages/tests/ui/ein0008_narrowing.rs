/// An accumulator that is too narrow.
mod first {
    use eindecomp::ein;

    ein! {
        fn norm<dim N>(a: f32[N]) -> f16 {
            let z[] = sum[n; f16] a[n];
            z
        }
    }
}

/// A product into an accumulator that is too narrow.
mod second {
    use eindecomp::ein;

    ein! {
        fn dot<dim N>(a: f32[N], b: bf16[N]) -> bf16 {
            let z[] = sum[n; bf16] a[n] * b[n];
            z
        }
    }
}

fn main() {}
