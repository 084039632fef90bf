//! Values that choose what is read: targets of a loss, experts.

use eindecomp::ein;

use crate::language::{Case, Random, each, log_sum_exp};

ein! {
    /// The loss of each example.
    pub fn cross_entropy<dim B, dim V>(z: f32[B, V], y: i64[B]) -> f32[B] {
        let n[b] = (logsumexp[v] z[b, v]) - z[b, y[b]];
        n
    }

    /// The two experts that the gate likes best, mixed by its softmax over them.
    pub fn two_experts<dim T, dim E, dim D, dim F>(
        x: f32[T, D],
        #[weight] gate: f32[D, E],
        #[weight] w: f32[E, D, F],
    ) -> (f32[T, F], i64[T], i64[T])
    where E >= 2
    {
        let g[t, e] = sum[d] x[t, d] * gate[d, e];
        let a[t] = argmax[e] g[t, e];
        let c[t] = argmax[e where e != a[t]] g[t, e];
        let u[t, f] = sum[d] x[t, d] * w[a[t], d, f];
        let v[t, f] = sum[d] x[t, d] * w[c[t], d, f];
        let p[t] = sigmoid(g[t, a[t]] - g[t, c[t]]);
        let y[t, f] = p[t] * u[t, f] + (1.0 - p[t]) * v[t, f];
        (y, a, c)
    }
}

#[test]
fn cross_entropy_loss() {
    let (b, v) = (9, 7);
    let mut random = Random(31);
    let (z, y) = (random.floats([b, v]), random.below([b], v as u64));
    let want = each([b], |[b]| {
        let sum = log_sum_exp((0..v).map(|v| f64::from(z[[b, v]])));
        sum - f64::from(z[[b, y[b] as usize]])
    });
    Case {
        graph: cross_entropy::graph,
        dims: || cross_entropy::Dims { b: 9, v: 7 },
        inputs: Box::new(move || cross_entropy::Inputs {
            z: z.clone(),
            y: y.clone(),
        }),
        weights: Box::new(|| cross_entropy::Weights {}),
    }
    .gives(&[want]);
}

#[test]
fn mixture_of_the_best_two() {
    let (t, e, d, f) = (10, 5, 4, 6);
    let mut random = Random(32);
    let x = random.floats([t, d]);
    let (gate, w) = (random.floats([d, e]), random.floats([e, d, f]));
    let score =
        |t: usize, e: usize| -> f64 { (0..d).map(|d| f64::from(x[[t, d]] * gate[[d, e]])).sum() };
    let best = |t: usize, but: Option<usize>| {
        let others = (0..e).filter(|&e| Some(e) != but);
        let largest = others.max_by(|&i, &j| score(t, i).total_cmp(&score(t, j)));
        largest.expect("two experts")
    };
    let want = each([t, f], |[t, f]| {
        let first = best(t, None);
        let second = best(t, Some(first));
        let by = |e: usize| -> f64 { (0..d).map(|d| f64::from(x[[t, d]] * w[[e, d, f]])).sum() };
        let p = 1.0 / (1.0 + (score(t, second) - score(t, first)).exp());
        p * by(first) + (1.0 - p) * by(second)
    });
    let first = each([t], |[t]| best(t, None) as f64);
    let second = each([t], |[t]| best(t, Some(best(t, None))) as f64);
    let shared = x.clone();
    let (gates, experts) = (gate.clone(), w.clone());
    Case {
        graph: two_experts::graph,
        dims: || two_experts::Dims {
            t: 10,
            e: 5,
            d: 4,
            f: 6,
        },
        inputs: Box::new(move || two_experts::Inputs { x: shared.clone() }),
        weights: Box::new(move || two_experts::Weights {
            gate: gates.clone(),
            w: experts.clone(),
        }),
    }
    .gives(&[want, first, second]);
}
