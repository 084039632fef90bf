// Errors with one place and with two are told in one run.
use eindecomp::ein;

ein! {
    fn mixed<dim M, dim K, dim N>(a: f32[M, 512], b: f32[256, N], c: f32[K]) -> f32[M, N] {
        let d[m, n] = sum[k] a[m, k] * b[k, n];
        let e[k] = c[kk];
        let f[k] = g[k];
        let g[k] = c[k, k];
        d
    }
}

fn main() {}
