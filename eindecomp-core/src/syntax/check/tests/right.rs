//! Programs that must be accepted.

use super::accepts;

#[test]
fn section_1() {
    let checked = accepts(
        "pub fn matmul<dim M, dim K, dim N>(a: bf16[M, K], b: bf16[K, N]) -> bf16[M, N] {
            let c[m, n]: bf16 = sum[k; f32] a[m, k] * b[k, n];
            c
        }
        pub struct Layer<dim D, dim F> {
            #[name = \"encoder.layer.{}.mlp.fc1.weight\"] w1: f32[F, D],
            #[name = \"encoder.layer.{}.mlp.fc2.weight\"] w2: f32[D, F],
        }
        pub fn mlp<dim B, dim S, dim D, dim F>(x: f32[B, S, D], #[weight] l: Layer<D, F>) -> f32[B, S, D] {
            let h[b, s, f] = gelu(sum[d] x[b, s, d] * l.w1[f, d]);
            let y[b, s, d] = x[b, s, d] + sum[f] h[b, s, f] * l.w2[d, f];
            y
        }
        pub fn model<dim B, dim S>(x: f32[B, S, D_MODEL], #[weight] layers: [Layer<D_MODEL, D_FF>; N_LAYERS])
            -> f32[B, S, D_MODEL]
        {
            let mut x = x;
            for l in layers { x = mlp(x, l); }
            x
        }",
    );
    let model = checked.block("model").unwrap();
    let consts: Vec<&str> = model.consts.keys().map(|k| &**k).collect();
    assert_eq!(consts, ["D_FF", "D_MODEL", "N_LAYERS"]);
    assert!(model.obligations.is_empty());
    assert!(model.clauses.is_empty(), "{:?}", model.clauses);
    assert!(checked.warnings.is_empty(), "{:?}", checked.warnings);
}

#[test]
fn bert_mask() {
    accepts(
        "fn f<dim B, dim S, dim D, dim H>(q: f32[B,S,H,D/H], k: f32[B,S,H,D/H], mask: bool[B,S]) -> f32[B,H,S,S] where D % H == 0 {
            let l[b,h,s,t] = if mask[b,t] { (sum[e] q[b,s,h,e] * k[b,t,h,e]) * rsqrt((D/H) as f32) } else { -inf };
            l
        }",
    );
}

#[test]
fn grouped_query_attention() {
    accepts(
        "fn f<dim B, dim S, dim T, dim N, dim G, dim E>(q: f32[B,S,N*G,E], k: f32[B,T,N,E]) -> f32[B,N,G,S,T] where T >= S {
            let l[b,n,g,s,t] = if t <= s + (T - S) { sum[e; f32] q[b,s,(n,g),e] * k[b,t,n,e] } else { -inf };
            l
        }",
    );
}

#[test]
fn rope_pairs() {
    accepts(
        "fn f<dim B, dim S, dim H, dim E>(x: f32[B,S,H,E], cs: f32[S,E/2], sn: f32[S,E/2]) -> f32[B,S,H,E] where E % 2 == 0 {
            let y[b,s,h,(i in E/2, c in 2)] = x[b,s,h,2*i+c] * cs[s,i] + (if c == 0 {-1.0} else {1.0}) * x[b,s,h,2*i+1-c] * sn[s,i];
            y
        }",
    );
}

#[test]
fn swiglu_and_same_index_twice() {
    accepts(
        "fn f<dim T, dim D, dim F>(x: f32[T,D], w1: f32[D,F], w3: f32[D,F]) -> f32[T,F] {
            let a[t,f] = silu(sum[d] x[t,d] * w1[d,f]) * sum[d] x[t,d] * w3[d,f];
            a
        }",
    );
}

#[test]
fn convolution_with_stride_and_padding() {
    accepts(
        "fn f<dim N, dim C, dim O, dim Y, dim X>(x: f32[N,C,Y,X], w: f32[O,C,3,3]) -> f32[N,O,(Y-1)/2+1,(X-1)/2+1] {
            let y[n,o,i in (Y-1)/2+1,j in (X-1)/2+1] = sum[c,u,v] (x[n,c,2*i+u-1,2*j+v-1] else 0.0) * w[o,c,u,v];
            y
        }",
    );
}

#[test]
fn cross_entropy_and_gather() {
    accepts(
        "fn f<dim B, dim V>(z: f32[B,V], y: u32[B]) -> f32[B] {
            let n[b] = (logsumexp[v] z[b,v]) - z[b, y[b]];
            n
        }",
    );
}

#[test]
fn mixture_of_experts() {
    accepts(
        "fn f<dim T, dim E, dim D, dim F>(x: f32[T,D], g: f32[T,E], w: f32[E,D,F]) -> (i64[T], f32[T,F]) {
            let a[t] = argmax[e] g[t,e];
            let c[t] = argmax[e where e != a[t]] g[t,e];
            let u[t,f] = sum[d] x[t,d] * w[a[t],d,f];
            (c, u)
        }",
    );
}

#[test]
fn packed_sequences_minplus_hmm_heat() {
    accepts(
        "fn packed<dim S>(q: f32[S,S], seg: i32[S]) -> f32[S,S] {
            let l[s,t] = if seg[s] == seg[t] && t <= s { q[s,t] } else { -inf };
            l
        }
        fn minplus<dim N>(d: f32[N,N]) -> f32[N,N] {
            let d2[i,j] = min[k] (d[i,k] + d[k,j]);
            d2
        }
        fn hmm<dim B, dim N, dim V>(p: f32[B,N], a: f32[N,N], e: f32[N,V], obs: u32[B]) -> f32[B,N] {
            let y[b,j] = (logsumexp[i] (p[b,i] + a[i,j])) + e[j, obs[b]];
            y
        }
        fn heat<dim Y, dim X>(u: f32[Y,X], c: f32) -> f32[Y,X] {
            let v[i,j] = u[i,j] + c * ((u[i-1,j] else 0.0) + (u[i+1,j] else 0.0));
            let w[i in Y,j] = v[(i-1) % Y, j] + v[(i+1) % Y, j];
            w
        }",
    );
}

#[test]
fn guards_are_facts() {
    accepts(
        "fn f<dim N, dim D>(x: f32[N, D]) -> f32[N, D] {
            let y[n, d] = if n >= 1 { x[n - 1, d] } else { x[n, d] };
            let z[n in N, d] = if n < 1 { 0.0 } else { y[n - 1, d] };
            let w[n in N, d] = sum[m in N where m + n < N && m <= n] z[n - m, d];
            w
        }
        fn g<dim N, dim M>(x: f32[N]) -> f32[M] where M <= N {
            let y[m in M] = x[0 + m] + x[N - 1 - m];
            y
        }",
    );
}

#[test]
fn scalar_functions_inline_and_literals_adapt() {
    accepts(
        "fn mish(x) = x * tanh(softplus(x));
        fn scaled(x, y) = mish(x) * y + 0.5;
        fn f<dim N>(x: f16[N], eps: f16, #[host] k: f16) -> f16[N] {
            let y[n] = scaled(x[n], 2.0) + eps * k;
            y
        }",
    );
}

#[test]
fn attention_block_with_heads_split_and_merged() {
    accepts(
        "fn attn<dim B, dim S, dim D>(x: f32[B,S,D], wq: f32[D,D], bq: f32[D], wo: f32[D,D]) -> f32[B,S,D]
            where D % HEADS == 0
        {
            let q[b,s,h in HEADS,e] = (sum[d] x[b,s,d] * wq[(h,e),d]) + bq[(h,e)];
            let c[b,s,(h,e)] = q[b,s,h,e] * 2.0;
            let y[b,s,d] = x[b,s,d] + sum[c2] c[b,s,c2] * wo[d,c2];
            y
        }
        fn outer<dim B, dim S>(x: f32[B,S,256], wq: f32[256,256], bq: f32[256], wo: f32[256,256]) -> f32[B,S,256] {
            let y = attn(x, wq, bq, wo);
            y
        }",
    );
}

#[test]
fn loops_carry_tuples() {
    let checked = accepts(
        "struct Cell<dim D> { w: f32[D, D], b: f32[D] }
        struct Net<dim D> { cells: [Cell<D>; LAYERS], out: f32[D] }
        fn step<dim D>(x: f32[D], c: Cell<D>) -> (f32[D], f32[D]) {
            let y[i] = tanh(sum[j] c.w[i, j] * x[j]);
            let z[i] = y[i] + c.b[i];
            (y, z)
        }
        fn f<dim D>(x: f32[D], #[weight] cells: [Cell<D>; LAYERS]) -> (f32[D], f32[D]) {
            let mut x = x;
            let mut a = x;
            for c in cells { (x, a) = step(x, c); }
            for _i in 0 .. 3 { x = again(x); }
            (x, a)
        }
        fn again<dim D>(x: f32[D]) -> f32[D] { let y[i] = x[i] * x[i]; y }",
    );
    assert_eq!(checked.structs.len(), 2);
}

#[test]
fn mean_with_where_and_casts() {
    accepts(
        "fn f<dim B, dim S, dim D>(x: f32[B,S,D], mask: bool[B,S]) -> (f32[B,D], i64[B]) {
            let m[b, d] = mean[s where mask[b,s]] x[b,s,d];
            let n[b] = sum[s] (mask[b,s] as i64);
            (m, n)
        }",
    );
}

#[test]
fn a_const_of_a_callee_may_be_called_as_a_dim_of_the_caller() {
    let checked = accepts(
        "fn g<dim D>(x: f32[D, N]) -> f32[D] { let y[d] = sum[n] x[d, n]; y }
        fn f<dim N>(x: f32[N, 4]) -> f32[N] { let y = g(x); y }",
    );
    let f = checked.block("f").unwrap();
    assert_eq!(f.obligations.len(), 1);
    assert_eq!(f.obligations[0].clause.to_string(), "self::N == 4");
}

#[test]
fn positions_may_come_from_numbers_indices_and_values() {
    let checked = accepts(
        "fn f<dim N, dim D>(x: f32[N, N, D], pos: i64, #[host] k: i64) -> f32[N] {
            let a[i] = x[i, i, 0 + 0] else 0.0;
            let b[i] = a[i] * (i as f32) + x[pos, k, pos % 2];
            let c[i in N] = b[clamp(i - 1, 0, N - 1)] + b[min(i + 1, N - 1)] + b[max(i - 1, 0)];
            let d[i in N, j in 2] = c[(2 * i + j) / 2] + c[(i + N) % N];
            let e[i] = sum[j] d[i, j];
            e
        }",
    );
    assert!(checked.warnings.is_empty(), "{:?}", checked.warnings);
}

#[test]
fn warnings() {
    let checked = accepts(
        "fn f<dim N>(x: f32[N], unused: f32[N], _meant: f32[N]) -> f32[N] {
            let lost[n] = x[n];
            let y[n] = x[n] + sum[k in 3] 1.0;
            y
        }",
    );
    let said: Vec<&str> = checked.warnings.iter().map(|w| &*w.message).collect();
    let want = [
        "`unused` is never read",
        "`lost` is never read",
        "index `k` is reduced but not used",
    ];
    assert_eq!(said, want);
}

#[test]
fn ranks_are_chosen_by_the_arguments() {
    let checked = accepts(
        "fn norm<dim ..L, dim C>(x: f32[..L, C], g: f32[C]) -> f32[..L, C] {
            let s[..l] = sum[c] sq(x[..l, c]);
            let y[..l, c] = x[..l, c] * rsqrt(s[..l]) * g[c];
            y
        }
        fn f<dim B, dim S, dim D>(x: f32[B, S, D], g: f32[D]) -> (f32[B, S, D], f32[D]) {
            let a = norm(x, g);
            let b = norm(g, g);
            (a, b)
        }",
    );
    assert!(checked.block("norm/2").is_some());
    assert!(checked.block("norm/3").is_none(), "nobody calls it");
    let more = checked.with_instance("norm/3").unwrap();
    assert!(more.block("norm/3").unwrap().body.is_some());
    for name in ["norm", "norm/7", "norm/f32", "norm/1/f32", "f/1", "g"] {
        assert!(checked.with_instance(name).is_none(), "{name}");
    }
}

#[test]
fn several_open_ranks() {
    let checked = accepts(
        "fn outer<dim ..L, dim ..M>(x: f32[..L], y: f32[..M]) -> f32[..L, ..M] {
            let z[..l, ..m] = x[..l] * y[..m];
            z
        }
        fn scale<dim ..L, dim ..M, dim C>(x: f32[..L, C, ..M], g: f32[..M, C]) -> f32[..L, C, ..M] {
            let y[..l, c, ..m] = x[..l, c, ..m] * g[..m, c];
            y
        }
        fn f<dim A, dim B, dim C>(x: f32[A, B, C], y: f32[C], g: f32[C, B]) -> (f32[A, B, C, C], f32[A, B, C], f32[C]) {
            let z = outer(x, y);
            let s = scale(x, g);
            let one[] = 1.0;
            let t = outer(one, y);
            (z, s, t)
        }",
    );
    for name in ["outer/1/1", "outer/3/1", "outer/0/1", "scale/1/1"] {
        assert!(checked.block(name).is_some(), "{name}");
    }
}

#[test]
fn dtypes_are_chosen_by_the_arguments() {
    let checked = accepts(
        "fn norm<dim ..L, dim N, T: Float>(x: T[..L, N], g: T[N], eps: T) -> T[..L, N] {
            let s[..l] = sum[n; T] sq(x[..l, n]);
            let y[..l, n]: T = x[..l, n] * rsqrt((s[..l] as T) + eps) * g[n] * 2.0;
            y
        }
        fn count<dim N, T: Int, U: Float>(x: T[N], y: U[N]) -> (T, U) {
            let s[] = sum[n] x[n];
            let t[]: U = sum[n] y[n];
            (s, t)
        }
        fn f<dim A, dim B, dim N>(x: bf16[A, B, N], g: bf16[N], i: u8[N], d: f64[N]) -> (bf16[A, B, N], f64[N], u8, bf16) {
            let a = norm(x, g, 0.5);
            let b = norm(d, d, 0.5);
            let (c, e) = count(i, g);
            (a, b, c, e)
        }",
    );
    for name in [
        "norm/2/bf16",
        "norm/0/f64",
        "norm/1/f64",
        "count/u8/bf16",
        "count/i64/f32",
    ] {
        assert!(checked.block(name).is_some(), "{name}");
    }
    assert!(checked.block("norm/2/f32").is_none());
    let types = |name: &str| checked.block(name).unwrap().results[0].ty.to_string();
    assert_eq!(types("norm/1/f16"), "f16[L0, N]");
}

#[test]
fn generic_blocks_call_generic_blocks() {
    let checked = accepts(
        "fn f<dim B, dim N>(x: f16[B, N]) -> f16[B, N] { let y = twice(x); y }
        fn twice<dim ..L, T: Float>(x: T[..L]) -> T[..L] { let y = double(x); let z = double(y); z }
        fn double<dim ..L, T: Float>(x: T[..L]) -> T[..L] { let y[..l] = 2.0 * x[..l]; y }",
    );
    assert!(checked.block("double/2/f16").is_some());
    let more = checked.with_instance("twice/4/bf16").unwrap();
    assert!(more.block("double/4/bf16").is_some());
}

#[test]
fn defined_dims_and_clauses_prove_merged_reads() {
    accepts(
        "fn a<dim S, dim D, dim H>(x: f32[S, D], w: f32[D, D]) -> f32[S, H, E]
            where D % H == 0, dim E = D / H
        {
            let q[s, h in H, e] = sum[d] x[s, d] * w[(h, e), d];
            let y[s, (h, e in E)] = q[s, h, e];
            let z[s, h in H, e] = y[s, (h, e)];
            z
        }
        fn gqa<dim S, dim T, dim Q, dim N, dim E>(q: f32[S, Q, E], k: f32[T, N, E]) -> f32[N, Q / N, S, T]
            where Q % N == 0
        {
            let l[n, g, s, t] = sum[e] q[s, (n, g), e] * k[t, n, e];
            l
        }
        fn by_product<dim P, dim M, dim N>(x: f32[P], m: f32[M], n: f32[N]) -> f32[M, N] where P == M * N {
            let y[i, j] = x[(i, j)] * m[i] * n[j];
            y
        }
        fn lstm<dim B, dim D, dim H>(x: f32[B, D], w: f32[4 * H, D], b: f32[4 * H], c0: f32[B, H]) -> (f32[B, H], f32[B, H]) {
            let z[n, g in 4, h] = (sum[d] x[n, d] * w[(g, h), d]) + b[(g, h)];
            let c[n, h] = sigmoid(z[n, 1, h]) * c0[n, h] + sigmoid(z[n, 0, h]) * tanh(z[n, 2, h]);
            let o[n, h] = sigmoid(z[n, 3, h]) * tanh(c[n, h]);
            (o, c)
        }",
    );
}

#[test]
fn bools_and_integers() {
    accepts(
        "fn f<dim N, dim M>(x: f32[N, M], ids: u32[N], p: bool[N]) -> (bool[N], i64[N], u32, i64[N]) {
            let a[i] = any[j] (x[i, j] > 0.0);
            let b[i] = a[i] && !p[i] || ids[i] == 3 && true;
            let n[i] = if b[i] { ids[i] } else { i };
            let s[] = sum[i] ids[i];
            let k[i] = argmin[j] x[i, j];
            (b, n, s, k)
        }",
    );
}
