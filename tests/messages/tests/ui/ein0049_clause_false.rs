/// Two that exclude each other.
mod first {
    use eindecomp::ein;

    ein! {
        fn f<dim N>(a: f32[N]) -> f32[N] where N >= 3, N < 2 {
            let y[n] = a[n];
            y
        }
    }
}

/// Below zero.
mod second {
    use eindecomp::ein;

    ein! {
        fn f<dim N>(a: f32[N]) -> f32[N] where N < 0 {
            let y[n] = a[n];
            y
        }
    }
}

fn main() {}
