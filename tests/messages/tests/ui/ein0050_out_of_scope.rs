/// Complex numbers.
mod first {
    use eindecomp::ein;

    ein! {
        fn f<dim N>(c: complex64[N]) -> f32[N] {
            let y[n in N] = 1.0;
            y
        }
    }
}

/// Complex numbers of another name.
mod second {
    use eindecomp::ein;

    ein! {
        fn f<dim N>(c: c64[N]) -> f32[N] {
            let y[n in N] = 1.0;
            y
        }
    }
}

fn main() {}
