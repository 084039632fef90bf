//! Kernels of one's own in `ein!`: a mixture-of-experts layer whose router keeps the `K` best
//! experts of each token by a Rust function, and a sort.
//!
//! `cargo run --example topk` runs both on four devices.

use eindecomp::kernel::{Call, KernelResult};
use eindecomp::{Cluster, MemoryMode, Session, ein};
use ndarray::{Array, arr2};

/// Experts that each token goes to.
const K: usize = 2;

ein! {
    /// The `K` largest elements of each row, largest first, and where they are. Rows may be split
    /// over devices; a row stays whole.
    #[kernel = kernels::topk]
    pub extern fn topk<dim B, dim N>(x: f32[B, N]) -> (f32[B, K], i64[B, K]) splits(B);

    /// Each row in ascending order; NaN last.
    #[kernel = kernels::sort]
    pub extern fn sort<dim B, dim N>(x: f32[B, N]) -> f32[B, N] splits(B);

    /// Each token through its `K` best experts, weighted by the softmax of their scores.
    pub fn experts<dim T, dim D, dim F, dim E>(
        x: f32[T, D],
        #[weight] router: f32[E, D],
        #[weight] up: f32[E, F, D],
        #[weight] down: f32[E, D, F],
    ) -> (f32[T, D], i64[T, K]) {
        let score[t, e] = sum[d] x[t, d] * router[e, d];
        let (best, expert) = topk(score);
        let z[t] = logsumexp[k] best[t, k];
        let share[t, k] = exp(best[t, k] - z[t]);
        let h[t, k, f] = gelu(sum[d] x[t, d] * up[expert[t, k], f, d]);
        let y[t, d] = sum[k, f] share[t, k] * h[t, k, f] * down[expert[t, k], d, f];
        (y, expert)
    }

    /// The rows of `x` in order, and the middle of each.
    pub fn middle<dim B, dim N>(x: f32[B, N]) -> (f32[B, N], f32[B]) where N >= 1 {
        let sorted = sort(x);
        let m[b] = sorted[b, N / 2];
        (sorted, m)
    }
}

mod kernels {
    use super::{Call, K, KernelResult};

    /// Called once per tile and result; the result that is not wanted is `None`.
    pub fn topk(call: &mut Call<'_>) -> KernelResult {
        let x = call.input::<f32>(0)?;
        let n = x.shape[1];
        if n < K {
            return Err(format!("the best {K} of {n} are wanted").into());
        }
        let order: Vec<Vec<usize>> = x.elements.chunks(n).map(descending).collect();
        if let Some(values) = call.output::<f32>(0)? {
            for (row, out) in values.elements.chunks_mut(K).enumerate() {
                for (out, &at) in out.iter_mut().zip(&order[row]) {
                    *out = x.elements[row * n + at];
                }
            }
        }
        if let Some(places) = call.output::<i64>(1)? {
            for (row, out) in places.elements.chunks_mut(K).enumerate() {
                for (out, &at) in out.iter_mut().zip(&order[row]) {
                    *out = at as i64;
                }
            }
        }
        Ok(())
    }

    /// Places of the elements, largest first; the first one of equals first.
    fn descending(row: &[f32]) -> Vec<usize> {
        let mut order: Vec<usize> = (0..row.len()).collect();
        order.sort_by(|&a, &b| row[b].total_cmp(&row[a]));
        order
    }

    pub fn sort(call: &mut Call<'_>) -> KernelResult {
        let x = call.input::<f32>(0)?;
        if let Some(y) = call.output::<f32>(0)? {
            y.elements.copy_from_slice(x.elements);
            let n = x.shape[1].max(1);
            for row in y.elements.chunks_mut(n) {
                row.sort_by(f32::total_cmp);
            }
        }
        Ok(())
    }
}

fn main() -> Result<(), eindecomp::Error> {
    let session = Session::builder()
        .cluster(Cluster::cpus(4))
        .memory(MemoryMode::Private)
        .build()?;

    let dims = experts::Dims {
        t: 8,
        d: 6,
        f: 5,
        e: 4,
    };
    let wave = |n: usize, scale: f32| (0..n).map(move |i| (i as f32 * scale).sin());
    let array3 = |shape: [usize; 3], scale| {
        let data = wave(shape.iter().product(), scale).collect();
        Array::from_shape_vec(shape, data).expect("as many elements as the shape has")
    };
    let weights = experts::Weights {
        router: Array::from_iter(wave(24, 1.7))
            .into_shape_with_order([4, 6])
            .expect("as many elements as the shape has"),
        up: array3([4, 5, 6], 0.9),
        down: array3([4, 6, 5], 1.3),
    };
    let mut layer = session.compile(experts::graph(), dims)?.load(weights)?;
    println!("{}", layer.explain()?);
    let x = Array::from_iter(wave(48, 0.37))
        .into_shape_with_order([8, 6])
        .expect("as many elements as the shape has");
    let outputs = layer.run(experts::Inputs { x })?;
    for (token, experts) in outputs.expert.rows().into_iter().enumerate() {
        println!("token {token} goes to experts {experts}");
    }

    let dims = middle::Dims { b: 2, n: 3 };
    let mut middle_of = session.compile(middle::graph(), dims)?;
    let x = arr2(&[[3.0, -1.0, 2.0], [0.5, 0.25, 1.0]]);
    let outputs = middle_of.run(middle::Inputs { x })?;
    println!("{} with {} in the middle", outputs.sorted, outputs.m);
    Ok(())
}
