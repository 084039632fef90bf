//! Weights that are packed when they are loaded give the same results as those that are packed in every run.

use std::sync::Arc;

use eindecomp_core::graph::{BoundGraph, EinGraph};
use eindecomp_core::plan::Cluster;
use eindecomp_core::plan::planner::{PlanOptions, plan};
use eindecomp_core::task::lower::lower;
use eindecomp_runtime::{Executor, MemoryMode, Workers};

use crate::support::run::{check, small_inputs};

/// Weights on either side, with merged and several axes, in a statement with other folds, in one of another ring, and
/// two that stay as they are: one that two statements read, one that is read as a whole by each of its elements.
const SOURCE: &str = "
    fn f<dim B, dim D, dim H, dim E, dim F>(
        x: f32[B, D],
        #[weight] q: f32[D, H, E],
        #[weight] g: f32[F, D],
        #[weight] u: f32[F, D],
        #[weight] o: f32[D, H * E],
        #[weight] t: f32[D, F],
        #[weight] twice: f32[D, D],
        #[weight] few: f32[D, D],
    ) -> (f32[B, H, E], f32[B, F], f32[B, D], f32[B, F], f32[B, D], f32[B, D]) {
        let a[b, h, e] = sum[d] x[b, d] * q[d, h, e];
        let s[b, f] = min(relu(sum[d] g[f, d] * x[b, d]), 3.0) * min(max(sum[d] x[b, d] * u[f, d], -3.0), 3.0);
        let l[b, h, e] = min(a[b, h, e], 1.0);
        let z[b, d] = x[b, d] + (sum[h, e] o[d, (h, e)] * l[b, h, e]);
        let m[b, f] = max[c] (x[b, c] + t[c, f]);
        let v[b, d] = sum[c] x[b, c] * twice[c, d];
        let w[b, d] = sum[c] x[b, c] * twice[d, c] + few[d, d];
        (a, s, z, m, v, w)
    }";

fn graph(b: i64) -> BoundGraph {
    let graph = EinGraph::from_text(SOURCE, "f", &Default::default()).expect("a program");
    let dims = [("B", b), ("D", 288), ("H", 2), ("E", 32), ("F", 96)];
    let dims = dims.map(|(name, extent)| (name.into(), extent));
    graph.bind(&dims.into()).expect("its dims")
}

#[test]
fn results_are_those_of_weights_as_they_are() {
    let workers = Arc::new(Workers::new(2).expect("workers"));
    let graph = Arc::new(graph(9));
    let inputs = small_inputs(&graph, 2);
    for devices in [1, 3, 4] {
        let plan = plan(&graph, &Cluster::cpus(devices), &PlanOptions::default()).expect("a plan");
        for mode in MemoryMode::ALL {
            let what = format!("{mode:?} on {devices}");
            check(&graph, &inputs, &plan, mode, &workers, &what);
        }
    }
}

#[test]
fn only_large_contractions_pack() {
    let workers = Arc::new(Workers::new(2).expect("workers"));
    let packed = |b: i64, mode: MemoryMode| {
        let graph = Arc::new(graph(b));
        let plan = plan(&graph, &Cluster::cpus(1), &PlanOptions::default()).expect("a plan");
        let tasks = Arc::new(lower(&graph, &plan).expect("tasks"));
        let executor = Executor::new(graph, tasks, workers.clone(), mode).expect("an executor");
        executor
            .packed()
            .map(|(name, _)| name.to_owned())
            .collect::<Vec<_>>()
    };
    assert_eq!(packed(9, MemoryMode::Arena), ["q", "g", "u", "o", "t"]);
    // A few rows read a matrix where it is; boxes of one tensor overlap.
    assert_eq!(packed(2, MemoryMode::Arena), ["t"; 0]);
    assert_eq!(packed(9, MemoryMode::Shared), ["t"; 0]);
}
