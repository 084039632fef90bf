//! A scorer of documents, from development to production. README.md walks the whole way.
//!
//! In development the session plans what it does not find. In production (`--no-default-features`) the
//! planner is not in the binary: plans are those in `plans/`, and a missing one is an error.

use std::time::Instant;

use ed::{Buckets, CacheMode, Cluster, Session, ein, include_plans};
use ndarray::{Array, Array3};

/// Features of a token.
const D: usize = 32;
/// Hidden features.
const F: usize = 128;

ein! {
    /// Each document's score: attention over its tokens, a feed-forward layer, and the mean.
    pub fn score<dim B, dim S>(
        x: f32[B, S, D],
        #[weight] q: f32[D, D],
        #[weight] k: f32[D, D],
        #[weight] v: f32[D, D],
        #[weight] up: f32[F, D],
        #[weight] down: f32[F],
    ) -> f32[B] {
        let qs[b, s, e] = sum[d] x[b, s, d] * q[e, d];
        let ks[b, t, e] = sum[d] x[b, t, d] * k[e, d];
        let vs[b, t, e] = sum[d] x[b, t, d] * v[e, d];
        let a[b, s, e] = softmax_sum[t] (sum[f] qs[b, s, f] * ks[b, t, f], vs[b, t, e]);
        let h[b, s, f] = gelu(sum[e] a[b, s, e] * up[f, e]);
        let y[b, s] = sum[f] h[b, s, f] * down[f];
        let r[b] = mean[s] y[b, s];
        r
    }
}

// What `cargo eindecomp` plans.
ed::blocks! { score }

/// The plans in `plans/`: one per bucket of document lengths.
fn session() -> Result<Session, ed::Error> {
    let builder = Session::builder()
        .cluster(Cluster::cpus(4))
        .buckets("S", Buckets::List(vec![16, 64]))
        .plans(include_plans!("plans"));
    match cfg!(feature = "planner") {
        true => builder.build(),
        false => builder.cache_mode(CacheMode::Frozen).build(),
    }
}

/// Some numbers between -1 and 1.
fn numbers<S: ndarray::ShapeBuilder<Dim: ndarray::Dimension>>(shape: S) -> Array<f32, S::Dim> {
    let mut n = 0u32;
    Array::from_shape_simple_fn(shape, || {
        n = n.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (n >> 8) as f32 / (1 << 23) as f32 - 1.0
    })
}

fn main() -> Result<(), ed::Error> {
    let start = Instant::now();
    let session = session()?;
    let begun = Instant::now();
    let program = session.compile(score::graph(), score::Dims { b: 2, s: 16 })?;
    let compiled = begun.elapsed();
    let mut model = program.load(score::Weights {
        q: numbers((D, D)),
        k: numbers((D, D)),
        v: numbers((D, D)),
        up: numbers((F, D)),
        down: numbers(F),
    })?;
    for (n, s) in [9, 16, 40].into_iter().enumerate() {
        let x: Array3<f32> = numbers((2, s, D));
        let scores = model.run(score::Inputs { x })?.r;
        if n == 0 {
            let first = start.elapsed();
            println!("compiled in {compiled:.1?}, first result after {first:.1?}");
        }
        let report = model.program().report();
        println!(
            "{s:2} tokens: scores {scores:.3}, plan {} for S = {}",
            report.origin, report.dims["S"]
        );
    }
    Ok(())
}
