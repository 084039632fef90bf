/// A Rust const as a factor.
mod first {
    use eindecomp::ein;

    const SCALE: usize = 3;
    const HEADS: usize = 3;
    ein! {
        fn f<dim N>(a: f32[N]) -> f32[N] {
            let y[n] = a[n] * SCALE;
            y
        }
    }
}

/// A Rust const in a sum.
mod second {
    use eindecomp::ein;

    const SCALE: usize = 3;
    const HEADS: usize = 3;
    ein! {
        fn f<dim N>(a: f16[N]) -> f16[N] {
            let y[n]: f16 = (HEADS + 1.0) * a[n];
            y
        }
    }
}

fn main() {}
