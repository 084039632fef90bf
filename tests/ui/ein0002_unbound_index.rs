use eindecomp::ein;

ein! {
    fn product<dim M, dim K, dim N>(a: f32[M, K], b: f32[K, N]) -> f32[M, N] {
        let c[m, n] = sum[k] a[m, k] * b[kk, n];
        c
    }
}

fn main() {}
