/// An output index that is nowhere on the right.
mod first {
    use eindecomp::ein;

    ein! {
        fn spread<dim M, dim N>(a: f32[M]) -> f32[M, N] {
            let c[m, n] = a[m];
            c
        }
    }
}

/// As many as the result says.
mod second {
    use eindecomp::ein;

    ein! {
        fn spread<dim M>(a: f32[M]) -> f32[M, 4] {
            let c[m, n] = a[m];
            c
        }
    }
}

fn main() {}
