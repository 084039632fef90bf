/// A count times a value.
mod first {
    use eindecomp::ein;

    ein! {
        fn f<dim N>(a: f32[N], b: i64[N]) -> f32[N] {
            let y[n] = a[n] * b[n];
            y
        }
    }
}

/// Two kinds of half.
mod second {
    use eindecomp::ein;

    ein! {
        fn f<dim N>(a: f16[N], b: bf16[N]) -> f32[N] {
            let y[n] = a[n] * b[n];
            y
        }
    }
}

fn main() {}
