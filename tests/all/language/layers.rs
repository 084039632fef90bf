//! Layers: a gated feed-forward, an LSTM cell.

use eindecomp::ein;

use crate::language::{Case, Random, each};

ein! {
    /// A gated feed-forward.
    pub fn swiglu<dim T, dim D, dim F>(
        x: f32[T, D],
        #[weight] w1: f32[D, F],
        #[weight] w3: f32[D, F],
        #[weight] w2: f32[F, D],
    ) -> f32[T, D] {
        let a[t, f] = silu(sum[d] x[t, d] * w1[d, f]) * sum[d] x[t, d] * w3[d, f];
        let y[t, d] = sum[f] a[t, f] * w2[f, d];
        y
    }

    /// Output and memory after one input; gates are in the order input, forget, memory, output.
    pub fn lstm<dim N, dim D, dim H>(
        x: f32[N, D],
        h: f32[N, H],
        c0: f32[N, H],
        w: f32[4 * H, D],
        r: f32[4 * H, H],
        b: f32[4 * H],
    ) -> (f32[N, H], f32[N, H]) {
        let z[n, g in 4, j in H] = (sum[d] x[n, d] * w[(g, j), d])
            + (sum[k] h[n, k] * r[(g, j), k])
            + b[(g, j)];
        let c[n, j] = sigmoid(z[n, 1, j]) * c0[n, j] + sigmoid(z[n, 0, j]) * tanh(z[n, 2, j]);
        let o[n, j] = sigmoid(z[n, 3, j]) * tanh(c[n, j]);
        (o, c)
    }

    /// Two inputs, one after the other.
    pub fn two_steps<dim N, dim D, dim H>(
        x: f32[N, D],
        y: f32[N, D],
        h: f32[N, H],
        c0: f32[N, H],
        #[weight] w: f32[4 * H, D],
        #[weight] r: f32[4 * H, H],
        #[weight] b: f32[4 * H],
    ) -> (f32[N, H], f32[N, H]) {
        let (o, c): (f32[N, H], f32[N, H]) = lstm(x, h, c0, w, r, b);
        let (o, c): (f32[N, H], f32[N, H]) = lstm(y, o, c, w, r, b);
        (o, c)
    }
}

fn sigmoid(x: f64) -> f64 {
    1.0 / (1.0 + (-x).exp())
}

#[test]
fn gated_feed_forward() {
    let (t, d, f) = (6, 5, 8);
    let mut random = Random(11);
    let x = random.floats([t, d]);
    let [w1, w3] = [0; 2].map(|_| random.floats([d, f]));
    let w2 = random.floats([f, d]);
    let hidden = each([t, f], |[t, f]| {
        let times = |w: &ndarray::Array2<f32>| -> f64 {
            (0..d).map(|d| f64::from(x[[t, d]] * w[[d, f]])).sum()
        };
        times(&w1) * sigmoid(times(&w1)) * times(&w3)
    });
    let want = each([t, d], |[t, d]| {
        (0..f)
            .map(|i| hidden[t * f + i] * f64::from(w2[[i, d]]))
            .sum()
    });
    Case {
        graph: swiglu::graph,
        dims: || swiglu::Dims { t: 6, d: 5, f: 8 },
        inputs: Box::new(move || swiglu::Inputs { x: x.clone() }),
        weights: Box::new(move || swiglu::Weights {
            w1: w1.clone(),
            w3: w3.clone(),
            w2: w2.clone(),
        }),
    }
    .gives(&[want]);
}

#[test]
fn lstm_cell_by_an_annotated_call() {
    let (n, d, h) = (3, 5, 4);
    let mut random = Random(12);
    let [x, y] = [0; 2].map(|_| random.floats([n, d]));
    let [h0, c0] = [0; 2].map(|_| random.floats([n, h]));
    let (w, r, b) = (
        random.floats([4 * h, d]),
        random.floats([4 * h, h]),
        random.floats([4 * h]),
    );
    let step = |x: &ndarray::Array2<f32>, o: &[f64], c: &[f64]| -> (Vec<f64>, Vec<f64>) {
        let gate = |g: usize, [n, j]: [usize; 2]| -> f64 {
            let row = g * h + j;
            let of_x: f64 = (0..d).map(|d| f64::from(x[[n, d]] * w[[row, d]])).sum();
            let of_h: f64 = (0..h).map(|k| o[n * h + k] * f64::from(r[[row, k]])).sum();
            of_x + of_h + f64::from(b[row])
        };
        let memory = each([n, h], |at| {
            let kept = sigmoid(gate(1, at)) * c[at[0] * h + at[1]];
            kept + sigmoid(gate(0, at)) * gate(2, at).tanh()
        });
        let out = each([n, h], |at| {
            sigmoid(gate(3, at)) * memory[at[0] * h + at[1]].tanh()
        });
        (out, memory)
    };
    let values = |a: &ndarray::Array2<f32>| a.iter().map(|&v| f64::from(v)).collect::<Vec<_>>();
    let (o, c) = step(&x, &values(&h0), &values(&c0));
    let (o, c) = step(&y, &o, &c);
    Case {
        graph: two_steps::graph,
        dims: || two_steps::Dims { n: 3, d: 5, h: 4 },
        inputs: Box::new(move || two_steps::Inputs {
            x: x.clone(),
            y: y.clone(),
            h: h0.clone(),
            c0: c0.clone(),
        }),
        weights: Box::new(move || two_steps::Weights {
            w: w.clone(),
            r: r.clone(),
            b: b.clone(),
        }),
    }
    .gives(&[o, c]);
}
