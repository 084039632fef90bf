//! Aggregations of one's own, and attention as one statement.

use eindecomp::ein;

use crate::{Case, Random, each, softmax};

ein! {
    /// Variance in one pass: count, mean and squared deviations of what has been seen.
    agg welford(x: f32) {
        state { n: f32 = 0.0, mu: f32 = 0.0, m2: f32 = 0.0 }
        lift { n: 1.0, mu: x, m2: 0.0 }
        merge(a, b) {
            let n = a.n + b.n;
            let r = b.n / max(n, 1.0);
            let d = b.mu - a.mu;
            { n: n, mu: a.mu + d * r, m2: a.m2 + b.m2 + d * d * a.n * r }
        }
        finish { m2 / n }
    }

    /// The variance of each row.
    pub fn variance<dim B, dim D>(x: f32[B, D]) -> f32[B] {
        let v[b] = welford[d] (x[b, d]);
        v
    }

    /// Causal attention whose scores are stored nowhere.
    pub fn attention<dim S, dim T, dim E>(q: f32[S, E], k: f32[T, E], v: f32[T, E]) -> f32[S, E]
    where T >= S
    {
        let o[s, c] = softmax_sum[t where t <= s + (T - S)] (sum[e] q[s, e] * k[t, e], v[t, c]);
        o
    }
}

#[test]
fn variance_in_one_pass() {
    let (b, d) = (5, 11);
    let x = Random(61).floats([b, d]);
    let want = each([b], |[b]| {
        let row: Vec<f64> = (0..d).map(|d| f64::from(x[[b, d]])).collect();
        let mean = row.iter().sum::<f64>() / d as f64;
        row.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / d as f64
    });
    Case {
        graph: variance::graph,
        dims: || variance::Dims { b: 5, d: 11 },
        inputs: Box::new(move || variance::Inputs { x: x.clone() }),
        weights: Box::new(|| variance::Weights {}),
    }
    .gives(&[want]);
}

#[test]
fn attention_as_one_statement() {
    let (s, t, e) = (6, 9, 4);
    let mut random = Random(62);
    let q = random.floats([s, e]);
    let [k, v] = [0; 2].map(|_| random.floats([t, e]));
    let want = each([s, e], |[s, c]| {
        let score = |t: usize| (0..e).map(|e| f64::from(q[[s, e]] * k[[t, e]])).sum();
        let seen = s + (9 - 6) + 1;
        let p = softmax(&(0..seen).map(score).collect::<Vec<f64>>());
        (0..seen).map(|t| p[t] * f64::from(v[[t, c]])).sum()
    });
    Case {
        graph: attention::graph,
        dims: || attention::Dims { s: 6, t: 9, e: 4 },
        inputs: Box::new(move || attention::Inputs {
            q: q.clone(),
            k: k.clone(),
            v: v.clone(),
        }),
        weights: Box::new(|| attention::Weights {}),
    }
    .gives(&[want]);
}
