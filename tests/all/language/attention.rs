//! Attention: masks, grouped heads, rotary positions, packed sequences.

use eindecomp::ein;

use crate::language::{Case, Random, each, softmax};

ein! {
    /// Attention in which some positions are padding.
    pub fn bert<dim B, dim S, dim D, dim H>(
        q: f32[B, S, H, D / H],
        k: f32[B, S, H, D / H],
        v: f32[B, S, H, D / H],
        mask: bool[B, S],
    ) -> f32[B, S, D]
    where D % H == 0
    {
        let l[b, h, s, t] = if mask[b, t] {
            (sum[e] q[b, s, h, e] * k[b, t, h, e]) * rsqrt((D / H) as f32)
        } else {
            -inf
        };
        let m[b, h, s] = max[t] l[b, h, s, t];
        let x[b, h, s, t] = exp(l[b, h, s, t] - m[b, h, s]);
        let z[b, h, s] = sum[t] x[b, h, s, t];
        let o[b, s, (h, e)] = sum[t] x[b, h, s, t] / z[b, h, s] * v[b, t, h, e];
        o
    }

    /// Queries of several heads share keys and values; a query sees the positions before it.
    pub fn grouped<dim B, dim S, dim T, dim N, dim G, dim E>(
        q: f32[B, S, N * G, E],
        k: f32[B, T, N, E],
        v: f32[B, T, N, E],
    ) -> f32[B, S, N * G, E]
    where T >= S
    {
        let l[b, n, g, s, t] = if t <= s + (T - S) {
            sum[e; f32] q[b, s, (n, g), e] * k[b, t, n, e]
        } else {
            -inf
        };
        let m[b, n, g, s] = max[t] l[b, n, g, s, t];
        let x[b, n, g, s, t] = exp(l[b, n, g, s, t] - m[b, n, g, s]);
        let z[b, n, g, s] = sum[t] x[b, n, g, s, t];
        let a[b, n, g, s, t] = x[b, n, g, s, t] / z[b, n, g, s];
        let o[b, s, (n, g), e] = sum[t] a[b, n, g, s, t] * v[b, t, n, e];
        o
    }

    /// The same, by the head of keys and values that belongs to a head of queries.
    pub fn shared<dim B, dim S, dim T, dim H, dim K, dim E>(
        q: f32[B, S, H, E],
        k: f32[B, T, K, E],
        v: f32[B, T, K, E],
    ) -> f32[B, S, H, E]
    where H % K == 0, T >= S
    {
        let l[b, h, s, t] = if t <= s + (T - S) {
            sum[e; f32] q[b, s, h, e] * k[b, t, h / (H / K), e]
        } else {
            -inf
        };
        let m[b, h, s] = max[t] l[b, h, s, t];
        let x[b, h, s, t] = exp(l[b, h, s, t] - m[b, h, s]);
        let z[b, h, s] = sum[t] x[b, h, s, t];
        let a[b, h, s, t] = x[b, h, s, t] / z[b, h, s];
        let o[b, s, h, e] = sum[t] a[b, h, s, t] * v[b, t, h / (H / K), e];
        o
    }

    /// Pairs of neighbouring channels are turned by an angle per position.
    pub fn rotary<dim B, dim S, dim H, dim E>(
        x: f32[B, S, H, E],
        cs: f32[S, E / 2],
        sn: f32[S, E / 2],
    ) -> f32[B, S, H, E]
    where E % 2 == 0
    {
        let y[b, s, h, (i in E / 2, c in 2)] = x[b, s, h, 2 * i + c] * cs[s, i]
            + (if c == 0 { -1.0 } else { 1.0 }) * x[b, s, h, 2 * i + 1 - c] * sn[s, i];
        y
    }

    /// Several sequences in one: a position sees those before it in its own sequence.
    pub fn packed<dim T, dim E>(q: f32[T, E], k: f32[T, E], v: f32[T, E], seg: i64[T]) -> f32[T, E] {
        let l[s, t] = if seg[s] == seg[t] && t <= s { sum[e] q[s, e] * k[t, e] } else { -inf };
        let m[s] = max[t] l[s, t];
        let x[s, t] = exp(l[s, t] - m[s]);
        let z[s] = sum[t] x[s, t];
        let a[s, t] = x[s, t] / z[s];
        let o[s, e] = sum[t] a[s, t] * v[t, e];
        o
    }
}

#[test]
fn bert_mask() {
    let (b, s, h, e) = (2, 7, 3, 4);
    let mut random = Random(1);
    let [q, k, v] = [0; 3].map(|_| random.floats([b, s, h, e]));
    let mut mask = random.bools([b, s]);
    for b in 0..b {
        mask[[b, 1]] = true;
    }
    let want = each([b, s, h, e], |[b, i, h, c]| {
        let score = |t: usize| {
            let dot: f64 = (0..e)
                .map(|e| f64::from(q[[b, i, h, e]] * k[[b, t, h, e]]))
                .sum();
            match mask[[b, t]] {
                true => dot / (e as f64).sqrt(),
                false => f64::NEG_INFINITY,
            }
        };
        let p = softmax(&(0..s).map(score).collect::<Vec<_>>());
        (0..s).map(|t| p[t] * f64::from(v[[b, t, h, c]])).sum()
    });
    Case {
        graph: bert::graph,
        dims: || bert::Dims {
            b: 2,
            s: 7,
            d: 12,
            h: 3,
        },
        inputs: Box::new(move || bert::Inputs {
            q: q.clone(),
            k: k.clone(),
            v: v.clone(),
            mask: mask.clone(),
        }),
        weights: Box::new(|| bert::Weights {}),
    }
    .gives(&[want]);
}

#[test]
fn grouped_queries_causal() {
    let (b, s, t, n, g, e) = (2, 5, 8, 2, 3, 4);
    let mut random = Random(2);
    let q = random.floats([b, s, n * g, e]);
    let [k, v] = [0; 2].map(|_| random.floats([b, t, n, e]));
    let (queries, keys, values) = (q.clone(), k.clone(), v.clone());
    let want = each([b, s, n * g, e], |[b, i, head, c]| {
        let score = |at: usize| match at <= i + (t - s) {
            true => (0..e)
                .map(|e| f64::from(q[[b, i, head, e]] * k[[b, at, head / g, e]]))
                .sum(),
            false => f64::NEG_INFINITY,
        };
        let p = softmax(&(0..t).map(score).collect::<Vec<f64>>());
        let values = (0..t).map(|t| p[t] * f64::from(v[[b, t, head / g, c]]));
        values.sum()
    });
    Case {
        graph: grouped::graph,
        dims: || grouped::Dims {
            b: 2,
            s: 5,
            t: 8,
            n: 2,
            g: 3,
            e: 4,
        },
        inputs: Box::new(move || grouped::Inputs {
            q: q.clone(),
            k: k.clone(),
            v: v.clone(),
        }),
        weights: Box::new(|| grouped::Weights {}),
    }
    .gives(std::slice::from_ref(&want));
    Case {
        graph: shared::graph,
        dims: || shared::Dims {
            b: 2,
            s: 5,
            t: 8,
            h: 6,
            k: 2,
            e: 4,
        },
        inputs: Box::new(move || shared::Inputs {
            q: queries.clone(),
            k: keys.clone(),
            v: values.clone(),
        }),
        weights: Box::new(|| shared::Weights {}),
    }
    .gives(&[want]);
}

#[test]
fn rotary_pairs() {
    let (b, s, h, e) = (2, 5, 3, 6);
    let mut random = Random(3);
    let x = random.floats([b, s, h, e]);
    let [cs, sn] = [0; 2].map(|_| random.floats([s, e / 2]));
    let want = each([b, s, h, e], |[b, s, h, d]| {
        let (c, n) = (f64::from(cs[[s, d / 2]]), f64::from(sn[[s, d / 2]]));
        let (own, other) = (f64::from(x[[b, s, h, d]]), f64::from(x[[b, s, h, d ^ 1]]));
        own * c + if d % 2 == 0 { -other * n } else { other * n }
    });
    Case {
        graph: rotary::graph,
        dims: || rotary::Dims {
            b: 2,
            s: 5,
            h: 3,
            e: 6,
        },
        inputs: Box::new(move || rotary::Inputs {
            x: x.clone(),
            cs: cs.clone(),
            sn: sn.clone(),
        }),
        weights: Box::new(|| rotary::Weights {}),
    }
    .gives(&[want]);
}

#[test]
fn packed_sequences() {
    let (t, e) = (11, 3);
    let mut random = Random(4);
    let [q, k, v] = [0; 3].map(|_| random.floats([t, e]));
    let seg = ndarray::Array1::from_iter((0..t).map(|i| (i / 4) as i64));
    let of = seg.clone();
    let want = each([t, e], |[s, c]| {
        let score = |at: usize| match of[s] == of[at] && at <= s {
            true => (0..e).map(|e| f64::from(q[[s, e]] * k[[at, e]])).sum(),
            false => f64::NEG_INFINITY,
        };
        let p = softmax(&(0..t).map(score).collect::<Vec<f64>>());
        (0..t).map(|t| p[t] * f64::from(v[[t, c]])).sum()
    });
    Case {
        graph: packed::graph,
        dims: || packed::Dims { t: 11, e: 3 },
        inputs: Box::new(move || packed::Inputs {
            q: q.clone(),
            k: k.clone(),
            v: v.clone(),
            seg: seg.clone(),
        }),
        weights: Box::new(|| packed::Weights {}),
    }
    .gives(&[want]);
}
