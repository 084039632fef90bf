/// A slip of the finger.
mod first {
    use eindecomp::ein;

    ein! {
        struct Layer<dim D> { weight: f32[D] }
        fn f<dim D>(l: Layer<D>) -> f32[D] {
            let y[d] = l.wieght[d];
            y
        }
    }
}

/// None like it.
mod second {
    use eindecomp::ein;

    ein! {
        struct Layer<dim D> { weight: f32[D], bias: f32[D] }
        fn f<dim D>(l: Layer<D>) -> f32[D] {
            let y[d] = l.gamma[d];
            y
        }
    }
}

fn main() {}
