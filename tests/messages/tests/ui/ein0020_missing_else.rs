/// A relu.
mod first {
    use eindecomp::ein;

    ein! {
        fn relu<dim N>(x: f32[N]) -> f32[N] {
            let y[n] = if x[n] > 0.0 { x[n] };
            y
        }
    }
}

/// The second of two conditions.
mod second {
    use eindecomp::ein;

    ein! {
        fn sign<dim N>(x: f32[N]) -> i64[N] {
            let y[n] = if x[n] > 0.0 { 1 } else if x[n] < 0.0 { -1 };
            y
        }
    }
}

fn main() {}
