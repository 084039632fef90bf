//! The programs that are timed, as their peers in other libraries write them.

use eindecomp::ein;

ein! {
    pub fn matmul<dim M, dim K, dim N>(a: f32[M, K], b: f32[K, N]) -> f32[M, N] {
        let c[m, n] = sum[k] a[m, k] * b[k, n];
        c
    }

    /// (A·B) + (C·(D·E)).
    pub fn chain<dim N>(a: f32[N, N], b: f32[N, N], c: f32[N, N], d: f32[N, N], e: f32[N, N]) -> f32[N, N] {
        let de[k, j] = sum[l] d[k, l] * e[l, j];
        let y[i, j] = (sum[k] a[i, k] * b[k, j]) + sum[k] c[i, k] * de[k, j];
        y
    }

    /// Squared distances, as written.
    pub fn l2dist<dim N, dim M, dim K>(x: f32[N, K], y: f32[M, K]) -> f32[N, M] {
        let d[i, j] = sum[k] sq(x[i, k] - y[j, k]);
        d
    }

    pub fn maxplus<dim N, dim K, dim M>(x: f32[N, K], y: f32[K, M]) -> f32[N, M] {
        let z[i, j] = max[k] (x[i, k] + y[k, j]);
        z
    }

    pub fn log_sum_exp<dim N, dim K, dim M>(x: f32[N, K], y: f32[K, M]) -> f32[N, M] {
        let z[i, j] = logsumexp[k] (x[i, k] + y[k, j]);
        z
    }

    pub fn attn_scores<dim B, dim H, dim L, dim M, dim D>(q: f32[B, H, L, D], k: f32[B, H, M, D]) -> f32[B, H, L, M] {
        let s[b, h, l, m] = sum[d] q[b, h, l, d] * k[b, h, m, d];
        s
    }

    pub fn tensor4d<dim A, dim B, dim C, dim D, dim E, dim F>(p: f32[A, B, E, F], q: f32[C, F, E, D]) -> f32[A, B, C, D] {
        let r[a, b, c, d] = sum[e, f] p[a, b, e, f] * q[c, f, e, d];
        r
    }

    /// One step of gradient descent on the mean squared error of three layers, written out.
    pub fn ffnn_step<dim B, dim I, dim H, dim J, dim O>(
        #[state] w1: f32[I, H],
        #[state] w2: f32[H, J],
        #[state] w3: f32[J, O],
        x: f32[B, I],
        y: f32[B, O],
    ) -> f32[] {
        let h1[b, h] = relu(sum[i] x[b, i] * w1[i, h]);
        let h2[b, j] = relu(sum[h] h1[b, h] * w2[h, j]);
        let r[b, o] = (sum[j] h2[b, j] * w3[j, o]) - y[b, o];
        let loss[] = mean[b, o] sq(r[b, o]);
        let g3[b, o] = r[b, o] * (2.0 / (B * O) as f32);
        let d2[b, j] = sum[o] g3[b, o] * w3[j, o];
        let g2[b, j] = if h2[b, j] > 0.0 { d2[b, j] } else { 0.0 };
        let d1[b, h] = sum[j] g2[b, j] * w2[h, j];
        let g1[b, h] = if h1[b, h] > 0.0 { d1[b, h] } else { 0.0 };
        w3[j, o] = w3[j, o] - 0.001 * sum[b] h2[b, j] * g3[b, o];
        w2[h, j] = w2[h, j] - 0.001 * sum[b] h1[b, h] * g2[b, j];
        w1[i, h] = w1[i, h] - 0.001 * sum[b] x[b, i] * g1[b, h];
        loss
    }

    /// Weights of a LLaMA-style block; heads of `E`, the halves of a head are rotated.
    pub struct Block<dim H, dim E, dim F> {
        q: f32[H * E, H * E],
        k: f32[H * E, H * E],
        v: f32[H * E, H * E],
        o: f32[H * E, H * E],
        gate: f32[H * E, F],
        up: f32[H * E, F],
        down: f32[F, H * E],
        norm1: f32[H * E],
        norm2: f32[H * E],
    }

    fn norm<dim B, dim S, dim D>(x: f32[B, S, D], g: f32[D]) -> f32[B, S, D] {
        let r[b, s] = rsqrt((mean[d] sq(x[b, s, d])) + 1e-5);
        let y[b, s, d] = x[b, s, d] * r[b, s] * g[d];
        y
    }

    /// One projection into heads.
    fn heads<dim B, dim S, dim D, dim H, dim E>(x: f32[B, S, D], w: f32[D, H * E]) -> f32[B, S, H, E] {
        let y[b, s, h in H, e in E] = sum[d] x[b, s, d] * w[d, (h, e)];
        y
    }

    fn rope<dim B, dim S, dim H, dim E>(x: f32[B, S, H, E], cos: f32[S, E / 2], sin: f32[S, E / 2]) -> f32[B, S, H, E]
    where E % 2 == 0
    {
        let y[b, s, h, (c in 2, i in E / 2)] = x[b, s, h, (c, i)] * cos[s, i]
            + (if c == 0 { -1.0 } else { 1.0 }) * x[b, s, h, (1 - c, i)] * sin[s, i];
        y
    }

    fn feed_forward<dim B, dim S, dim D, dim F>(x: f32[B, S, D], g: f32[D], gate: f32[D, F], up: f32[D, F], down: f32[F, D])
        -> f32[B, S, D]
    {
        let n = norm(x, g);
        let a[b, s, f] = silu(sum[d] n[b, s, d] * gate[d, f]) * sum[d] n[b, s, d] * up[d, f];
        let y[b, s, d] = x[b, s, d] + sum[f] a[b, s, f] * down[f, d];
        y
    }

    /// Queries, keys and values by head, the first two rotated.
    fn projections<dim B, dim S, dim H, dim E, dim F>(
        x: f32[B, S, H * E],
        w: Block<H, E, F>,
        cos: f32[S, E / 2],
        sin: f32[S, E / 2],
    ) -> (f32[B, S, H, E], f32[B, S, H, E], f32[B, S, H, E])
    where E % 2 == 0
    {
        let n = norm(x, w.norm1);
        let q: f32[B, S, H, E] = heads(n, w.q);
        let k: f32[B, S, H, E] = heads(n, w.k);
        let v: f32[B, S, H, E] = heads(n, w.v);
        let q = rope(q, cos, sin);
        let k = rope(k, cos, sin);
        (q, k, v)
    }

    fn after_attention<dim B, dim S, dim H, dim E, dim F>(x: f32[B, S, H * E], o: f32[B, S, H, E], w: Block<H, E, F>)
        -> f32[B, S, H * E]
    {
        let y[b, s, d] = x[b, s, d] + sum[h, e] o[b, s, h, e] * w.o[(h, e), d];
        let z = feed_forward(y, w.norm2, w.gate, w.up, w.down);
        z
    }

    pub fn block<dim B, dim S, dim H, dim E, dim F>(
        x: f32[B, S, H * E],
        #[weight] w: Block<H, E, F>,
        #[weight] cos: f32[S, E / 2],
        #[weight] sin: f32[S, E / 2],
    ) -> f32[B, S, H * E]
    where E % 2 == 0
    {
        let (q, k, v) = projections(x, w, cos, sin);
        let o[b, s, h, e] = softmax_sum[t where t <= s] (
            (sum[c] q[b, s, h, c] * k[b, t, h, c]) * rsqrt(E as f32),
            v[b, t, h, e],
        );
        let z = after_attention(x, o, w);
        z
    }

    /// One token through the block: it is stored at `pos`, and all of the cache is read.
    pub fn decode<dim B, dim S, dim H, dim E, dim F, dim C>(
        x: f32[B, S, H * E],
        #[weight] w: Block<H, E, F>,
        #[weight] cos: f32[S, E / 2],
        #[weight] sin: f32[S, E / 2],
        #[state] keys: f32[B, H, C, E],
        #[state] values: f32[B, H, C, E],
        pos: i64,
    ) -> f32[B, S, H * E]
    where E % 2 == 0
    {
        let (q, k, v) = projections(x, w, cos, sin);
        keys[b, h, pos + s, e] = k[b, s, h, e];
        values[b, h, pos + s, e] = v[b, s, h, e];
        let o[b, s, h, e] = softmax_sum[t] (
            (sum[c] q[b, s, h, c] * keys[b, h, t, c]) * rsqrt(E as f32),
            values[b, h, t, e],
        );
        let z = after_attention(x, o, w);
        z
    }
}
