//! One wrong program per code.

use super::errors;

#[test]
fn show() {
    for source in [
        "fn f(a: f32[4, 512], b: f32[256, 3]) -> f32[4, 3] { let c[m, n] = sum[k] a[m, k] * b[k, n]; c }",
        "fn f<dim M, dim K>(a: f32[M, K]) -> f32[M] { let c[m] = sum[k] a[m, kk]; c }",
        "fn f<dim M, dim K>(a: f32[M, K], b: f32[K]) -> f32[M] { let c[m] = (sum[k] a[m, k]) + b[k]; c }",
        "fn f<dim B, dim S, dim H, dim E>(q: f32[B, S, H, E]) -> f32[B, S, E] { let c[b, s, e] = q[b, s, e]; c }",
        "fn f<dim M, dim N>(a: f32[M]) -> f32[M, N] { let c[m, n] = a[m]; c }",
        "fn f<dim K, dim D>(a: f32[K], b: f32[D]) -> f32[K] { let c[k] = a[k] * b[k]; c }",
        "fn f<dim Y, dim X>(img: f32[Y, X]) -> f32[Y, X] { let c[y, x] = sum[ky in 3] img[y + ky - 1, x]; c }",
        "fn f<dim T, dim S>(a: f32[T]) -> f32[S] { let c[s in S] = a[T - S + s]; c }",
        "fn f<dim D, dim H>(a: f32[D]) -> f32[D] { let q[h in H, e] = a[(h, e)]; a }",
        "fn f<dim N>(a: f32[N]) -> f16[N] { let q: f16[N] = a; q }",
        "fn f<dim N>(a: f32[N]) -> f16 { let q[] = sum[n; f16] a[n]; q }",
        "fn f<dim V, dim D, dim S>(w: f32[V, D], ids: f32[S]) -> f32[S, D] { let x[s, d] = w[ids[s], d]; x }",
        "fn f<dim N>(a: f32[N]) -> f32[N] { let y[n] = a[n] + z[n]; let z[n] = a[n]; y }",
        "fn g<dim N>(a: f32[N], b: f32[N]) -> f32[N] { let y[n] = a[n] + b[n]; y } fn f(a: f32[512], b: f32[384]) -> f32[512] { let y = g(a, b); y }",
        "fn f<dim N>(a: f32[N], t: f32) -> f32 { let y[] = max[n] a[n] * t; y }",
        "fn f<dim N>(a: f32[N], b: f32[N]) -> f32 { let y[] = sum[j] a[j] / sum[j] b[j]; y }",
        "fn f<dim N>(a: f32[N], b: f32[N]) -> bf16 { let y[] = sum[j] a[j] * b[j] as bf16; y }",
        "fn f<dim N>(a: f32[N]) -> f32[N] { let y[n] = a[n] * 2; y }",
        "fn f<dim N>(a: f32[N], b: i64[N]) -> f32[N] { let y[n] = a[n] * b[n]; y }",
        "fn f<dim N>(a: f32[N]) -> f32[N] { let y[n] = swish(a[n]) + mean2(a[n]); y }",
        "fn f<dim N>(a: f32[N]) -> f32 { let y[] = average[n] a[n]; y }",
        "fn f<dim N>(a: f32[N]) -> f32[N] { let y[n] = sum[n] a[n]; y }",
        "fn f<dim N>(a: f32[N]) -> f32[N] { let y[n] = a[n] * SCALE; y }",
        "fn f<dim N>(a: f32[N]) -> f32 { let mut x = a; for i in 0..N { x = f(x); } x }",
        "fn g<dim N>(a: f32[N]) -> f32[N] where N >= 3 { let y[n] = a[n]; y } fn f<dim M>(a: f32[M]) -> f32[M] { let x = a; x = g(x); x }",
        "fn f<dim N>(a: f32[N]) -> f32[N] where N >= 3, N < 2 { let y[n] = b.c[n]; y }",
    ] {
        println!("{}", errors(source));
    }
}
