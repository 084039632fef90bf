//! Other semirings: shortest paths, a hidden Markov model.

use eindecomp::ein;

use crate::language::{Case, Random, each, log_sum_exp};

ein! {
    /// Shortest ways of at most twice as many steps.
    pub fn twice<dim N>(d: f32[N, N]) -> f32[N, N] {
        let d2[i, j] = min[k] (d[i, k] + d[k, j]);
        d2
    }

    /// Shortest ways of at most 8 steps.
    pub fn shortest<dim N>(d: f32[N, N]) -> f32[N, N] {
        let mut d = d;
        for s in 0..3 { d = twice(d); }
        d
    }

    /// Log-probabilities of the states after one more observation.
    pub fn forward<dim B, dim S, dim O>(
        p: f32[B, S],
        a: f32[S, S],
        e: f32[S, O],
        obs: i64[B],
    ) -> f32[B, S] {
        let y[b, j] = (logsumexp[i] (p[b, i] + a[i, j])) + e[j, obs[b]];
        y
    }
}

#[test]
fn min_plus() {
    let n = 9;
    let mut d = Random(41).floats([n, n]).mapv(|x| (x + 1.0) * 8.0);
    for i in 0..n {
        d[[i, i]] = 0.0;
        d[[i, (i + 3) % n]] = f32::INFINITY;
    }
    let mut want = each([n, n], |at| f64::from(d[at]));
    for _ in 0..3 {
        let before = want;
        want = each([n, n], |[i, j]| {
            let ways = (0..n).map(|k| before[i * n + k] + before[k * n + j]);
            ways.fold(f64::INFINITY, f64::min)
        });
    }
    Case {
        graph: shortest::graph,
        dims: || shortest::Dims { n: 9 },
        inputs: Box::new(move || shortest::Inputs { d: d.clone() }),
        weights: Box::new(|| shortest::Weights {}),
    }
    .gives(&[want]);
}

#[test]
fn hidden_markov_model() {
    let (b, s, o) = (5, 7, 3);
    let mut random = Random(42);
    let (p, a, e) = (
        random.floats([b, s]),
        random.floats([s, s]),
        random.floats([s, o]),
    );
    let obs = random.below([b], o as u64);
    let want = each([b, s], |[b, j]| {
        let from = (0..s).map(|i| f64::from(p[[b, i]] + a[[i, j]]));
        log_sum_exp(from) + f64::from(e[[j, obs[b] as usize]])
    });
    Case {
        graph: forward::graph,
        dims: || forward::Dims { b: 5, s: 7, o: 3 },
        inputs: Box::new(move || forward::Inputs {
            p: p.clone(),
            a: a.clone(),
            e: e.clone(),
            obs: obs.clone(),
        }),
        weights: Box::new(|| forward::Weights {}),
    }
    .gives(&[want]);
}
