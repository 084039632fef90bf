/// A forgotten semicolon.
mod first {
    use eindecomp::ein;

    ein! {
        fn copy<dim N>(x: f32[N]) -> f32[N] {
            let y[n] = x[n]
            y
        }
    }
}

/// Half an expression.
mod second {
    use eindecomp::ein;

    ein! {
        fn copy<dim N>(x: f32[N]) -> f32[N] {
            let y[n] = x[n] +;
            y
        }
    }
}

fn main() {}
