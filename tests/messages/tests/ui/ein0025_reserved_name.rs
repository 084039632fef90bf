/// A block.
mod first {
    use eindecomp::ein;

    ein! {
        fn prod<dim N>(x: f32[N]) -> f32[N] {
            let y[n] = x[n];
            y
        }
    }
}

/// A parameter.
mod second {
    use eindecomp::ein;

    ein! {
        fn f<dim N>(max: f32[N]) -> f32[N] {
            let y[n] = max[n];
            y
        }
    }
}

fn main() {}
