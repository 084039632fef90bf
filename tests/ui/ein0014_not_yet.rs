/// State.
mod first {
    use eindecomp::ein;

    ein! {
        fn f<dim N>(#[state] a: f32[N]) -> f32[N] {
            a
        }
    }
}

/// A store.
mod second {
    use eindecomp::ein;

    ein! {
        fn f<dim N>(b: f32[N]) -> f32[N] {
            let y[n] = b[n];
            y[0] = 1.0;
            y
        }
    }
}

fn main() {}
