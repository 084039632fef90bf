use eindecomp::ein;

ein! {
    fn product<dim M, dim K, dim D, dim N>(a: f32[M, K], b: f32[D, N]) -> f32[M, N] {
        let c[m, n] = sum[k] a[m, k] * b[k, n];
        c
    }
}

fn main() {}
