//! Wrong programs: every code, its place and its words.

use super::shown;

#[test]
fn ein0001_extent_mismatch() {
    let source = "fn f(a: f32[4, 512], b: f32[256, 3]) -> f32[4, 3] { let c[m, n] = sum[k] a[m, k] * b[k, n]; c }";
    insta::assert_snapshot!(shown(source), @r"
    EIN0001 `k`: index `k` is 512 in `a[m, k]` but 256 in `b[k, n]`
      second `k`: `k` is 512 here
      help: use two indices if these are different axes; or `0 + k` to read a part
    ");
}

#[test]
fn ein0002_unbound_index() {
    let source = "fn f<dim M, dim K>(a: f32[M, K]) -> f32[M] { let c[m] = sum[k] a[m, kk]; c }";
    insta::assert_snapshot!(shown(source), @r"
    EIN0002 `kk`: index `kk` is neither on the left nor reduced
      help: did you mean `k`?
    ");
}

#[test]
fn ein0002_after_a_reduction() {
    let source = "fn f<dim M, dim K>(a: f32[M, K], b: f32[K]) -> f32[M] { let c[m] = (sum[k] a[m, k]) + b[k]; c }";
    insta::assert_snapshot!(shown(source), @r"
    EIN0002 `k`: index `k` is neither on the left nor reduced
      help: the reduction over `k` ends before this; put its whole body in parentheses
    ");
}

#[test]
fn ein0002_not_reduced() {
    let source = "fn f<dim M, dim K>(a: f32[M, K]) -> f32[M] { let c[m] = a[m, j] * a[m, j]; c }";
    insta::assert_snapshot!(shown(source), @r"
    EIN0002 `j`: index `j` is neither on the left nor reduced
      help: put it on the left, or reduce it: `sum[j] …`
    ");
}

#[test]
fn ein0003_rank() {
    let source = "fn f<dim B, dim S, dim H, dim E>(q: f32[B, S, H, E]) -> f32[B, S, E] { let c[b, s, e] = q[b, s, e]; c }";
    insta::assert_snapshot!(shown(source), @r"
    EIN0003 `q[b, s, e]`: `q` has 4 axes [B, S, H, E], but 3 indices are given
      help: axis `H` is missing: `q[b, s, ?, e]`
    ");
}

#[test]
fn ein0003_too_many_and_none() {
    let source =
        "fn f<dim B>(q: f32[B]) -> f32[B] { let c[b, s] = q[b, s]; let d[b] = q + q[b]; d }";
    insta::assert_snapshot!(shown(source), @r"
    EIN0003 `q[b, s]`: `q` has 1 axis [B], but 2 indices are given
      help: leave out 1 of them
    EIN0003 `q`: this has 1 axis [B], but no index is given
    ");
}

#[test]
fn ein0004_output_extent() {
    let source = "fn f<dim M, dim N>(a: f32[M]) -> f32[M, N] { let c[m, n] = a[m]; c }";
    insta::assert_snapshot!(shown(source), @r"
    EIN0004 `n`: output index `n` is not on the right, so its extent is unknown
      help: give it a range: `n in N`
    ");
}

#[test]
fn ein0004_arithmetic_only() {
    let source = "fn f<dim Y>(a: f32[Y]) -> f32[Y] { let c[y] = a[y - 1] else 0.0; c }";
    insta::assert_snapshot!(shown(source), @r"
    EIN0004 `y`: index `y` stands in arithmetic only, so its extent is unknown
      help: give it a range: `y in Y`
    ");
}

#[test]
fn ein0004_reduced() {
    let source = "fn f<dim N>(a: f32[N]) -> f32[N] { let c[n] = a[n] * sum[k] 1.0; c }";
    insta::assert_snapshot!(shown(source), @r"
    EIN0004 `k`: reduced index `k` is not used, so its extent is unknown
      help: give it a range: `k in …`
    ");
}

#[test]
fn ein0005_two_dims() {
    let source = "fn f<dim K, dim D>(a: f32[K], b: f32[D]) -> f32[K] { let c[k] = a[k] * b[k]; c }";
    insta::assert_snapshot!(shown(source), @r"
    EIN0005 `k`: cannot prove `K` == `D`: index `k` is `K` in `a[k]` but `D` in `b[k]`
      second `k`: `k` is K here
      help: use one dim, or add `where K == D`
    ");
}

#[test]
fn ein0006_padding() {
    let source =
        "fn f<dim Y>(img: f32[Y]) -> f32[Y] { let c[y in Y] = sum[ky in 3] img[y + ky - 1]; c }";
    insta::assert_snapshot!(shown(source), @r"
    EIN0006 `y + ky - 1`: `y + ky - 1` ranges over -1..=Y, outside axis 0 of `img` (0..Y)
      help: `(img[y + ky - 1] else 0.0)` to pad
    ");
}

#[test]
fn ein0006_missing_clause() {
    let source = "fn f<dim T, dim S>(a: f32[T]) -> f32[S] { let c[s in S] = a[T - S + s]; c }";
    insta::assert_snapshot!(shown(source), @r"
    EIN0006 `T - S + s`: `T - S + s` ranges over -S + T..=T - 1, outside axis 0 of `a` (0..T)
      help: add `where T >= S`, or `(a[T - S + s] else 0.0)` to pad
    ");
}

#[test]
fn ein0006_guard_of_data() {
    let source = "fn f<dim N>(a: f32[N], p: bool[N]) -> f32[N] { let c[n] = if p[n] { a[n + 1] } else { 0.0 }; c }";
    insta::assert_snapshot!(shown(source), @r"
    EIN0006 `n + 1`: `n + 1` ranges over 1..=N, outside axis 0 of `a` (0..N)
      help: `(a[n + 1] else 0.0)` to pad
    ");
}

#[test]
fn ein0007_merged() {
    let source = "fn f<dim D, dim H>(a: f32[D]) -> f32[D] { let q[h in H, e] = a[(h, e)]; a }";
    insta::assert_snapshot!(shown(source), @r"
    EIN0007 `(h, e)`: merged axis `(h, e)` needs e = D / H, but `H` may not divide `D`
      help: add `where D % H == 0`
    ");
}

#[test]
fn ein0008_narrowing() {
    let source = "fn f<dim N>(a: f32[N]) -> f16 { let q[] = sum[n; f16] a[n]; q }";
    insta::assert_snapshot!(shown(source), @r"
    EIN0008 `a[n]`: this f32 value would be narrowed to f16
      help: `(a[n]) as f16`
    ");
}

#[test]
fn ein0009_float_gather() {
    let source =
        "fn f<dim V, dim S>(w: f32[V], ids: f32[S]) -> f32[S] { let x[s] = w[ids[s]] + w[1.5]; x }";
    insta::assert_snapshot!(shown(source), @r"
    EIN0009 `ids[s]`: a gather index must be an integer tensor; `ids` is f32
      help: declare `ids: u32[S]`
    EIN0009 `1.5`: an index must be an integer, but `1.5` is a float
      help: write an integer
    ");
}

#[test]
fn ein0010_before_definition() {
    let source = "fn f<dim N>(a: f32[N]) -> f32[N] { let y[n] = a[n] + z[n]; let z[n] = a[n]; y }";
    insta::assert_snapshot!(shown(source), @r"
    EIN0010 `z`: `z` is used before it is defined
      second `z`: it is defined here
    ");
}

#[test]
fn ein0010_near_name() {
    let source = "fn f<dim N>(weight: f32[N]) -> f32[N] { let y[n] = wieght[n]; y }";
    insta::assert_snapshot!(shown(source), @r"
    EIN0010 `wieght`: `wieght` is not defined here
      help: did you mean `weight`?
    ");
}

#[test]
fn ein0010_dim() {
    let source = "fn f<dim N>(a: f32[n]) -> f32[N] { let y[n in N] = a[n]; y }";
    insta::assert_snapshot!(shown(source), @r"
    EIN0010 `n`: dim `n` is not declared
      help: did you mean `N`? dims are written in upper case
    ");
}

#[test]
fn ein0011_argument() {
    let source = "fn g<dim N>(a: f32[N], b: f32[N]) -> f32[N] { let y[n] = a[n] + b[n]; y } fn f(a: f32[512], b: f32[384]) -> f32[512] { let y = g(a, b); y }";
    insta::assert_snapshot!(shown(source), @r"
    EIN0011 `b`: axis 0 of `b` of block `g` is `N` = `512`, but this argument's is `384`
      second `N`: declared here
    ");
}

#[test]
fn ein0014_not_yet() {
    let source = "fn f<dim N>(#[state] a: f32[N]) -> f32[N] { a } extern fn g<dim N>(a: f32[N]) -> f32[N] splits(N);";
    insta::assert_snapshot!(shown(source), @r"
    EIN0014 `#[state]`: `#[state]` is not supported yet
    EIN0014 `g`: `extern fn` is not supported yet
    ");
}

#[test]
fn an_instance_is_told_where_the_first_is_right() {
    let source = "fn f<dim N, T: Float>(x: T[N], w: f32[N]) -> T[N] { let y[n] = x[n] * w[n]; y }";
    insta::assert_snapshot!(shown(source), @r"");
    let source = "fn f<dim N, T: Int>(x: T[N]) -> T[N] { let y[n] = x[n] + 300; y }";
    insta::assert_snapshot!(shown(source), @r"");
    let source = "fn f<dim ..L, T: Float>(x: T[..L]) -> T[..L] { let y[..l] = x[..l, k]; y }";
    insta::assert_snapshot!(shown(source), @r"");
}

#[test]
fn calls_of_generic_blocks() {
    let source = "fn g<dim ..L, T: Float>(a: T[..L], b: T[..L]) -> T[..L] { let y[..l] = a[..l] + b[..l]; y }
        fn f<dim N>(a: i64[N], b: f32[N], c: f64[N], d: f32[N, N]) -> i64[N] {
            let w = g(a, a); let x = g(b, c); let y = g(b, d); let z = g(b); a
        }";
    insta::assert_snapshot!(shown(source), @r"");
    let source = "fn g<dim ..L, T: Float>(x: T) -> T { x } fn f(x: f32) -> f32 { let y = g(x); y }";
    insta::assert_snapshot!(shown(source), @r"");
}

#[test]
fn generics_that_nothing_determines() {
    let source = "fn g<dim N, T: Float, U: Float>(x: T[N]) -> U[N] { let y[n]: U = x[n]; y }
        fn h<dim N, dim ..L>(x: f32[N]) -> f32[..L, N] { x }
        fn k<dim N>(x: f32[..M, N]) -> f32[N] { let y[..m, n] = x[..m, n]; y }
        struct S<dim N, T: Float> { x: f32[N] }";
    insta::assert_snapshot!(shown(source), @r"");
}

#[test]
fn ein0014_not_yet_in_a_body() {
    let source = "fn f<dim N>(b: f32[N]) -> f32[N] { let y[n] = softmax_sum[m] (b[m], b[m]); let z[n] = welford[m] (b[m]); y[0] = 1.0; y }";
    insta::assert_snapshot!(shown(source), @r"
    EIN0014 `softmax_sum`: `softmax_sum` is not supported yet
    EIN0014 `welford`: an aggregation of one's own is not supported yet
    EIN0014 `y`: a store into state is not supported yet
    ");
}

#[test]
fn ein0015_result() {
    let source = "fn f<dim N, dim M>(a: f32[N]) -> f32[M] { let y[n] = a[n]; y }";
    insta::assert_snapshot!(shown(source), @r"
    EIN0015 `y`: `y` is `f32[N]`, but `f32[M]` is declared
      second `f32[M]`: declared here
    ");
}

#[test]
fn ein0016_annotation() {
    let source = "fn g<dim N>(a: f32[N]) -> f32[N] { a } fn f<dim N>(a: f32[N]) -> f32[N] { let y: f32[2 * N] = g(a); y }";
    insta::assert_snapshot!(shown(source), @r"
    EIN0016 `f32[2 * N]`: `f32[2*N]` is declared, but the value is `f32[N]`
      second `f32[N]`: declared here
    ");
}

#[test]
fn ein0017_carried() {
    let source = "fn g<dim N>(a: f32[N]) -> f32[2 * N] { let y[(n, k in 2)] = a[n]; y } fn f<dim N>(a: f32[N]) -> f32[N] { let mut x = a; for _i in 0 .. 3 { x = g(x); } x }";
    insta::assert_snapshot!(shown(source), @r"
    EIN0017 `g`: `x` is `f32[N]`, but would become `f32[2*N]`
      second `x`: declared here
    ");
}

#[test]
fn ein0018_reduced_output() {
    let source = "fn f<dim N>(a: f32[N, N]) -> f32[N] { let y[n] = sum[n] a[n, m]; y }";
    insta::assert_snapshot!(shown(source), @r"
    EIN0018 `n`: index `n` is both on the left and reduced
      second `n`: first here
      help: did you mean `sum[m] …`?
    ");
}

#[test]
fn ein0021_factor() {
    let source = "fn f<dim N>(a: f32[N], t: f32) -> f32 { let y[] = logsumexp[n] a[n] * t; y }";
    insta::assert_snapshot!(shown(source), @r"
    EIN0021 `t`: `t` does not depend on the indices that this `logsumexp` reduces
      help: `(logsumexp[n] a[n]) * t`, or `logsumexp[n] (a[n] * t)` if it is meant
    ");
}

#[test]
fn ein0022_nested() {
    let source =
        "fn f<dim N>(a: f32[N], b: f32[N]) -> f32 { let y[] = sum[j] a[j] / sum[j] b[j]; y }";
    insta::assert_snapshot!(shown(source), @r"
    EIN0022 `sum[j] b[j]`: a reduction stands unparenthesised inside another's body
      help: `(sum[j] a[j]) / sum[j] b[j]`
    ");
}

#[test]
fn ein0022_rebinds() {
    let source =
        "fn f<dim N>(a: f32[N], b: f32[N]) -> f32 { let y[] = sum[j] a[j] * (sum[j] b[j]); y }";
    insta::assert_snapshot!(shown(source), @r"
    EIN0022 `j`: this reduction rebinds index `j` of the one around it
      second `j`: first here
      help: use another index
    ");
}

#[test]
fn ein0023_narrowing_factor() {
    let source =
        "fn f<dim N>(a: f32[N], b: f32[N]) -> bf16 { let y[] = sum[j] a[j] * b[j] as bf16; y }";
    insta::assert_snapshot!(shown(source), @r"
    EIN0023 `b[j] as bf16`: this narrows only `b[j]` to bf16, not the result
      help: `(sum[j] a[j] * b[j]) as bf16`, or `sum[j] (a[j] * b[j] as bf16)` if it is meant
    ");
}

#[test]
fn ein0024_twice() {
    let source = "fn f<dim N, dim N>(a: f32[N], a: f32[N]) -> f32[N] { let y[n, n] = a[n]; a } fn f(x: f32) -> f32 { x }";
    insta::assert_snapshot!(shown(source), @r"
    EIN0024 `N`: dim `N` is declared twice
      second `N`: first here
    EIN0024 `a`: parameter `a` is declared twice
      second `a`: first here
    EIN0024 `n`: index `n` stands twice on the left
      second `n`: first here
    EIN0024 `f`: item `f` is declared twice
      second `f`: first here
    ");
}

#[test]
fn ein0025_reserved() {
    let source = "fn prod<dim N>(max: f32[N]) -> f32[N] { let min[mean in N] = 1.0; min }";
    insta::assert_snapshot!(shown(source), @r"
    EIN0025 `prod`: `prod` is an aggregation and cannot be declared as anything else
      help: call it `prod_` or something more telling
    EIN0025 `max`: `max` is an aggregation and cannot be declared as anything else
      help: call it `max_` or something more telling
    EIN0025 `min`: `min` is an aggregation and cannot be declared as anything else
      help: call it `min_` or something more telling
    EIN0025 `mean`: `mean` is an aggregation and cannot be declared as anything else
      help: call it `mean_` or something more telling
    ");
}

#[test]
fn ein0026_aggregation() {
    let source = "fn f<dim N>(a: f32[N]) -> f32 { let y[] = average[n] a[n]; y }";
    insta::assert_snapshot!(shown(source), @r"
    EIN0026 `average`: there is no aggregation `average`
      help: did you mean `mean`?
    ");
}

#[test]
fn ein0027_function() {
    let source =
        "fn f<dim N>(a: f32[N]) -> f32[N] { let y[n] = swish(a[n]) + frob(a[n]); let z = g(y); z }";
    insta::assert_snapshot!(shown(source), @r"
    EIN0027 `swish`: there is no function `swish`
      help: did you mean `silu`?
    EIN0027 `frob`: there is no function `frob`
    EIN0027 `g`: there is no block `g` in this `ein!`
      help: if it stands in another `ein!`, give its result a type: `let y: f32[…] = …`
    ");
}

#[test]
fn ein0028_arity() {
    let source = "fn g<dim N>(a: f32[N]) -> f32[N] { a } fn f<dim N>(a: f32[N]) -> f32[N] { let y[n] = max(a[n]); let z = g(a, a); z }";
    insta::assert_snapshot!(shown(source), @r"
    EIN0028 `max`: `max` takes 2 arguments, but 1 is given
    EIN0028 `g`: block `g` takes 1 argument, but 2 are given
      second `g`: declared here
    ");
}

#[test]
fn ein0029_common_dtype() {
    let source = "fn f<dim N>(a: f32[N], b: i64[N]) -> f32[N] { let y[n] = a[n] * b[n]; y }";
    insta::assert_snapshot!(shown(source), @r"
    EIN0029 `b[n]`: `a[n]` is f32 and `b[n]` is i64, which have no common dtype
      second `a[n]`: this is f32
      help: `b[n] as f32`
    ");
}

#[test]
fn ein0030_integer_literal() {
    let source = "fn f<dim N>(a: f32[N]) -> f32[N] { let y[n] = a[n] * 2 + sqrt(3); y }";
    insta::assert_snapshot!(shown(source), @r"
    EIN0030 `2`: an integer literal stands where f32 is needed
      help: write `2.0`
    EIN0030 `3`: an integer literal stands where f32 is needed
      help: write `3.0`
    ");
}

#[test]
fn ein0031_rule() {
    let source = "fn f<dim N>(a: i64[N], p: bool[N]) -> f32 { let y[] = sum[n] p[n]; let z[n] = exp(a[n]); let q[n] = if a[n] { 1.0 } else { 0.0 }; y }";
    insta::assert_snapshot!(shown(source), @r"
    EIN0031 `p[n]`: `sum` is not defined for bool
      help: `(p[n]) as i64`
    EIN0031 `exp(a[n])`: `exp` is not defined for i64
      help: `a[n] as f32`
    EIN0031 `a[n]`: a condition is a bool, but this is i64
      help: compare it: `a[n] != 0`
    ");
}

#[test]
fn ein0032_type() {
    let source = "struct Layer<dim D> { w: f32[D] } fn f<dim N>(a: float[N], b: Layr<N>, c: complex64[N]) -> f32[N] { a }";
    insta::assert_snapshot!(shown(source), @r"
    EIN0032 `float`: there is no dtype `float`
      help: did you mean `f32`?
    EIN0032 `Layr`: there is no struct `Layr`
      help: did you mean `Layer`?
    EIN0050 `complex64`: complex numbers are outside the language
    ");
}

#[test]
fn ein0033_field() {
    let source = "struct Layer<dim D> { weight: f32[D] } fn f<dim N>(l: Layer<N>) -> f32[N] { let y[n] = l.wieght[n] + l[n]; y }";
    insta::assert_snapshot!(shown(source), @r"
    EIN0033 `wieght`: struct `Layer` has no field `wieght`
      help: did you mean `weight`?
    EIN0033 `l`: `l` is `Layer<N>`, which has no elements to read
      help: name a field of it
    ");
}

#[test]
fn ein0034_callee_clause() {
    let source = "fn g<dim D, dim H>(a: f32[D], b: f32[H]) -> f32[D] where D % H == 0 { a } fn f<dim X, dim Y>(a: f32[X], b: f32[Y]) -> f32[X] { let y = g(a, b); y }";
    insta::assert_snapshot!(shown(source), @r"
    EIN0034 `g`: block `g` needs `D % H == 0`, that is `X % Y == 0`, which does not follow
      second `D % H == 0`: needed here
      help: add `where X % Y == 0`
    ");
}

#[test]
fn ein0036_argument() {
    let source = "fn g(#[host] k: f32, a: f32) -> f32 { let y[] = a * k; y } fn f(a: f32) -> f32 { let y = g(a, a); let z = g(1.0, a + a); y }";
    insta::assert_snapshot!(shown(source), @r"
    EIN0036 `a`: `k` of block `g` is `#[host]`, so it takes a literal or host value
    EIN0036 `a + a`: an argument is a name, a field, or a literal or host value
      help: give it a name: `let t[…] = a + a;`
    ");
}

#[test]
fn ein0039_recursion() {
    let source = "fn f<dim N>(a: f32[N]) -> f32[N] { let y = g(a); y } fn g<dim N>(a: f32[N]) -> f32[N] { let y = f(a); y }";
    insta::assert_snapshot!(shown(source), @r"
    EIN0039 `f`: block `f` calls itself
    EIN0039 `g`: block `g` calls itself
    ");
}

#[test]
fn ein0040_tuple() {
    let source = "fn f<dim N>(a: f32[N]) -> f32[N] { let y[n] = (a[n], a[n]); y }";
    insta::assert_snapshot!(shown(source), @r"EIN0040 `(a[n], a[n])`: a tuple stands in accesses and in an aggregation's arguments only");
}

#[test]
fn ein0043_attribute() {
    let source = "fn f<dim N>(a: f32[N], #[host] h: f32[N]) -> f32[N] { a } fn g<dim N>(a: f32[N]) -> f32[N] { #[split(m = 2)] let y[n] = a[n]; y }";
    insta::assert_snapshot!(shown(source), @r"
    EIN0043 `f32[N]`: a `#[host]` parameter is a number: it has no axes
    EIN0043 `m`: the statement has no index `m`
    ");
}

#[test]
fn ein0042_literal() {
    let source = "fn f(a: u8) -> u8 { let y[] = a + 300; y }";
    insta::assert_snapshot!(shown(source), @r"EIN0042 `300`: the literal `300` does not fit u8");
}

#[test]
fn ein0041_unfolds_to_too_much() {
    let source = "fn d(x) = x + x; fn f(a: f32) -> f32 { let y[] = d(d(d(d(d(d(d(d(d(d(d(d(d(d(d(d(a)))))))))))))))); y }";
    insta::assert_snapshot!(shown(source), @r"EIN0041 `d`: the scalar functions of this statement unfold to too much");
}

#[test]
fn ein0039_scalar_recursion() {
    let source = "fn d(x) = d(x) + d(x); fn f(a: f32) -> f32 { let y[] = d(a); y }";
    insta::assert_snapshot!(shown(source), @r"EIN0039 `d`: `d` calls itself");
}

#[test]
fn ein0044_not_mutable() {
    let source = "fn g<dim N>(a: f32[N]) -> f32[N] { a } fn f<dim M>(a: f32[M]) -> f32[M] { let x = a; x = g(x); x }";
    insta::assert_snapshot!(shown(source), @r"
    EIN0044 `x`: `x` is assigned, but not declared `mut`
      second `x`: declared here
      help: `let mut x`
    ");
}

#[test]
fn ein0045_const_value() {
    let source = "fn f<dim N>(a: f32[N]) -> f32[N] { let y[n] = a[n] * SCALE; y }";
    insta::assert_snapshot!(shown(source), @r"
    EIN0045 `SCALE`: the Rust const `SCALE` needs a cast as a value
      help: `SCALE as f32`
    ");
}

#[test]
fn ein0046_extent() {
    let source = "fn f<dim N>(a: f32[N - N - 1], b: f32[N / 0]) -> f32 { let y[] = 1.0; y }";
    insta::assert_snapshot!(shown(source), @r"
    EIN0046 `f32[N - N - 1]`: the extent `-1` is negative
    EIN0046 `0`: a divisor must be at least 1, but this one is 0
    ");
}

#[test]
fn ein0047_loop() {
    let source = "fn g<dim N>(a: f32[N]) -> f32[N] { a } fn f<dim N>(a: f32[N]) -> f32[N] { let mut x = a; for i in 0 .. N { x = g(x); } for l in a { x = g(x); } x }";
    insta::assert_snapshot!(shown(source), @r"
    EIN0047 `N`: a `for` needs a constant range, but `N` is a dim
      help: recurrences of symbolic length are outside the language
    EIN0047 `a`: `a` is `f32[N]`, but a `for` needs an array
      second `l`: to give this its values
    ");
}

#[test]
fn ein0048_pattern() {
    let source = "fn g<dim N>(a: f32[N]) -> (f32[N], f32[N]) { let b[n] = a[n]; (a, b) } fn f<dim N>(a: f32[N]) -> f32[N] { let y = exp(a); let z = 1.0; let w = g(a); let v[n] = g(a); y }";
    insta::assert_snapshot!(shown(source), @r"
    EIN0048 `y`: `y` needs its indices on the left
      help: `exp` works on elements: `let y[i] = exp(x[i]);`
    EIN0048 `z`: `z` needs its indices on the left
      help: a tensor of rank 0 is `let z[] = …`
    EIN0048 `w`: `g` has 2 results, but 1 name is bound
    EIN0048 `g`: `g` is a block, so its result needs a name of its own
      help: put `let y = g(a);` before
    ");
}

#[test]
fn ein0049_clause_false() {
    let source = "fn f<dim N>(a: f32[N]) -> f32[N] where N >= 3, N < 2 { let y[n] = b[n]; y }";
    insta::assert_snapshot!(shown(source), @r"
    EIN0049 `N < 2`: `N < 2` can never hold
    EIN0010 `b`: `b` is not defined here
    ");
}

#[test]
fn errors_are_sorted_and_do_not_cascade() {
    let source = "fn f<dim N>(a: f32[N]) -> f32[N] { let x[n] = a[k]; let y[n] = x[n] * x[n]; let z[n] = y[n] + q[n]; let w[n] = z[n] + undefined; w }";
    insta::assert_snapshot!(shown(source), @r"
    EIN0002 `k`: index `k` is neither on the left nor reduced
      help: put it on the left, or reduce it: `sum[k] …`
    EIN0010 `q`: `q` is not defined here
    EIN0010 `undefined`: `undefined` is not defined here
    ");
}

#[test]
fn deep_programs_do_not_exhaust_the_stack() {
    let nested = |open: &str, close: &str, n: usize| {
        let value = format!("{}a[n]{}", open.repeat(n), close.repeat(n));
        format!("fn f<dim N>(a: f32[N]) -> f32[N] {{ let y[n] = {value}; y }}")
    };
    for source in [
        nested("a[n] + ", "", 500),
        nested("(1.0 + ", ")", 120),
        nested("exp(", ")", 120),
        nested("if a[n] > 0.0 { ", " } else { 1.0 }", 60),
    ] {
        assert_eq!(shown(&source), "");
    }
}
