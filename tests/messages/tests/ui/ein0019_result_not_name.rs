/// A product as result.
mod first {
    use eindecomp::ein;

    ein! {
        fn product<dim M, dim K, dim N>(a: f32[M, K], b: f32[K, N]) -> f32[M, N] {
            sum[k] a[m, k] * b[k, n]
        }
    }
}

/// A number as result.
mod second {
    use eindecomp::ein;

    ein! {
        fn total<dim N>(a: f32[N]) -> f32[] {
            sum[n] a[n]
        }
    }
}

fn main() {}
