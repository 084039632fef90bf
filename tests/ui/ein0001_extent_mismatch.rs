use eindecomp::ein;

ein! {
    fn product<dim M, dim N>(a: f32[M, 512], b: f32[256, N]) -> f32[M, N] {
        let c[m, n] = sum[k] a[m, k] * b[k, n];
        c
    }
}

fn main() {}
