/// A sum over bools.
mod first {
    use eindecomp::ein;

    ein! {
        fn f<dim N>(p: bool[N]) -> i64 {
            let y[] = sum[n] p[n];
            y
        }
    }
}

/// An exponential of integers.
mod second {
    use eindecomp::ein;

    ein! {
        fn f<dim N>(a: i64[N]) -> f32[N] {
            let y[n] = exp(a[n]);
            y
        }
    }
}

fn main() {}
