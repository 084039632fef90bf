/// A slip of the finger.
mod first {
    use eindecomp::ein;

    ein! {
        fn product<dim M, dim K, dim N>(a: f32[M, K], b: f32[K, N]) -> f32[M, N] {
            let c[m, n] = sum[k] a[m, kk] * b[k, n];
            c
        }
    }
}

/// A sum that ends too early.
mod second {
    use eindecomp::ein;

    ein! {
        fn biased<dim M, dim K>(a: f32[M, K], b: f32[K]) -> f32[M] {
            let c[m] = sum[k] a[m, k] + b[k];
            c
        }
    }
}

fn main() {}
