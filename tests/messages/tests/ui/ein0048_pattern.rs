/// A function of a whole tensor.
mod first {
    use eindecomp::ein;

    ein! {
        fn f<dim N>(a: f32[N]) -> f32[N] {
            let y = exp(a);
            y
        }
    }
}

/// A number without brackets.
mod second {
    use eindecomp::ein;

    ein! {
        fn f(a: f32) -> f32 {
            let z = a * 2.0;
            z
        }
    }
}

fn main() {}
