//! Aggregations over records: a variance in one pass, attention in one statement.

use eindecomp::ein;

use crate::language::{Case, Random, each, softmax};

ein! {
    /// Mean and variance in one pass (Welford).
    agg welford(x: f32) {
        state { n: f32 = 0.0, mu: f32 = 0.0, m2: f32 = 0.0 }
        lift { n: 1.0, mu: x, m2: 0.0 }
        merge(a, b) {
            let n = a.n + b.n;
            let r = b.n / max(n, 1.0);
            let d = b.mu - a.mu;
            { n: n, mu: a.mu + d * r, m2: a.m2 + b.m2 + d * d * a.n * r }
        }
        finish { mean: mu, var: m2 / n }
    }

    /// Twice the mean, by an aggregation of one result and a `let`.
    agg double_mean(x: f32) {
        state { n: f32 = 0.0, total: f32 = 0.0 }
        lift { n: 1.0, total: x }
        merge(a, b) { { n: a.n + b.n, total: a.total + b.total } }
        finish { let m = total / n; 2.0 * m }
    }

    /// Rows with mean 0 and variance 1.
    pub fn normal<dim B, dim D>(x: f32[B, D]) -> (f32[B, D], f32[B], f32[B]) {
        let (m, v)[b] = welford[d] (x[b, d]);
        let y[b, d] = (x[b, d] - m[b]) * rsqrt(v[b]);
        let twice[b] = double_mean[d] (x[b, d]);
        (y, v, twice)
    }

    /// Causal attention whose scores are never stored: masked by scores of −inf, and by a `where`.
    pub fn attend<dim S, dim T, dim H, dim E>(
        q: f32[S, H, E],
        k: f32[T, H, E],
        v: f32[T, H, E],
    ) -> (f32[S, H, E], f32[S, H, E])
    where
        T >= S,
    {
        let o[s, h, d] = softmax_sum[t] (
            if t <= s + (T - S) { (sum[e] q[s, h, e] * k[t, h, e]) * rsqrt(E as f32) } else { -inf },
            v[t, h, d],
        );
        let w[s, h, d] = softmax_sum[t where t <= s + (T - S)] (
            (sum[e] q[s, h, e] * k[t, h, e]) * rsqrt(E as f32), v[t, h, d],
        );
        (o, w)
    }
}

#[test]
fn variance_in_one_pass() {
    let (b, d) = (6, 37);
    let x = Random(61).floats([b, d]);
    let row = |b: usize| (0..d).map(move |d| [b, d]);
    let mean = |b: usize| row(b).map(|at| f64::from(x[at])).sum::<f64>() / d as f64;
    let var = |b: usize| {
        let squares = row(b).map(|at| (f64::from(x[at]) - mean(b)).powi(2));
        squares.sum::<f64>() / d as f64
    };
    let want = each([b, d], |[b, d]| {
        (f64::from(x[[b, d]]) - mean(b)) / var(b).sqrt()
    });
    let vars = each([b], |[b]| var(b));
    let given = x.clone();
    Case {
        graph: normal::graph,
        dims: || normal::Dims { b: 6, d: 37 },
        inputs: Box::new(move || normal::Inputs { x: given.clone() }),
        weights: Box::new(|| normal::Weights {}),
    }
    .gives(&[want, vars, each([b], |[b]| 2.0 * mean(b))]);
}

#[test]
fn attention_in_one_statement() {
    let (s, t, h, e) = (5, 9, 3, 4);
    let mut random = Random(62);
    let q = random.floats([s, h, e]);
    let (k, v) = (random.floats([t, h, e]), random.floats([t, h, e]));
    let weights = |i: usize, h: usize| {
        let score = |j: usize| {
            let dot = (0..e).map(|e| f64::from(q[[i, h, e]]) * f64::from(k[[j, h, e]]));
            match j <= i + (t - s) {
                true => dot.sum::<f64>() / (e as f64).sqrt(),
                false => f64::NEG_INFINITY,
            }
        };
        softmax(&(0..t).map(score).collect::<Vec<_>>())
    };
    let want = each([s, h, e], |[i, h, e]| {
        let weighed = weights(i, h).into_iter().enumerate();
        weighed.map(|(j, w)| w * f64::from(v[[j, h, e]])).sum()
    });
    let (q, k, v) = (q.clone(), k.clone(), v.clone());
    Case {
        graph: attend::graph,
        dims: || attend::Dims {
            s: 5,
            t: 9,
            h: 3,
            e: 4,
        },
        inputs: Box::new(move || attend::Inputs {
            q: q.clone(),
            k: k.clone(),
            v: v.clone(),
        }),
        weights: Box::new(|| attend::Weights {}),
    }
    .gives(&[want.clone(), want]);
}
