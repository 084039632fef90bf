/// State and kernels.
mod first {
    use eindecomp::ein;

    ein! {
        fn f<dim N>(#[state] a: f32[N]) -> f32[N] {
            a
        }
        extern fn g<dim N>(a: f32[N]) -> f32[N] splits(N);
    }
}

/// Aggregations and stores.
mod second {
    use eindecomp::ein;

    ein! {
        fn f<dim N>(b: f32[N]) -> f32[N] {
            let y[n] = softmax_sum[m] (b[m], b[m]);
            let z[n] = welford[m] (b[m]);
            y[0] = 1.0;
            y
        }
    }
}

fn main() {}
