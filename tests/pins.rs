//! `#[whole]` and `#[split(…)]`: plans keep them, results are the same, and what does not fit is an
//! error with names.

#![allow(missing_docs, reason = "tests")]

use eindecomp::{Cluster, Error, Session, ein};
use eindecomp_core::plan::planner::PlanError;
use ndarray::Array2;

ein! {
    pub fn pinned<dim B, dim D, dim F>(x: f32[B, D], #[weight] w: f32[F, D]) -> f32[B, F] {
        #[whole]
        let z[b, d] = 2.0 * x[b, d];
        #[split(b = 2, d = 2)]
        let h[b, f] = sum[d] z[b, d] * w[f, d];
        #[split(f = 8)]
        let y[b, f] = relu(h[b, f]);
        y
    }
}

fn session(devices: u32) -> Session {
    let session = Session::builder()
        .cluster(Cluster::cpus(devices))
        .workers(2);
    session.no_cache().build().unwrap()
}

/// `(h, parts of its indices)` and so on of the pinned statements.
fn parts(devices: u32) -> Vec<(String, Vec<(String, u32)>)> {
    let dims = [("B", 4), ("D", 6), ("F", 8)].map(|(name, n)| (name.into(), n));
    let graph = pinned::graph().into_graph().unwrap();
    let session = session(devices);
    let program = session.compile_graph(graph, dims.into()).unwrap();
    let graph = program.graph();
    let pinned = graph.ids().filter(|(_, node)| !node.pins.is_empty());
    pinned
        .map(|(id, node)| {
            let join = program.plan().nodes[id.at()].join.as_ref().unwrap();
            let labels = node.einsum().unwrap().labels.iter();
            let names = labels.map(|label| label.name.to_string());
            let parts = names.zip(join.parts.iter().copied());
            (node.name.to_string(), parts.collect())
        })
        .collect()
}

#[test]
fn plans_keep_pins() {
    let found = parts(8);
    let of = |tensor: &str| {
        let found = found.iter().find(|(name, _)| name == tensor);
        found
            .unwrap_or_else(|| panic!("{tensor} in {found:?}"))
            .1
            .clone()
    };
    let part = |tensor: &str, index: &str| {
        let parts = of(tensor);
        parts.iter().find(|(name, _)| name == index).unwrap().1
    };
    assert!(of("z").iter().all(|(_, parts)| *parts == 1), "{found:?}");
    assert_eq!((part("h", "b"), part("h", "d")), (2, 2), "{found:?}");
    assert_eq!(part("y", "f"), 8, "{found:?}");
}

#[test]
fn results_are_those_of_one_device() {
    let w = Array2::from_shape_fn((8, 6), |(f, d)| (f as f32 - 3.0) * 0.25 + d as f32 * 0.5);
    let x = Array2::from_shape_fn((4, 6), |(b, d)| b as f32 * 0.5 - d as f32);
    let dims = pinned::Dims { b: 4, d: 6, f: 8 };
    let program = session(8).compile(pinned::graph(), dims).unwrap();
    let mut program = program.load(pinned::Weights { w: w.clone() }).unwrap();
    let outputs = program.run(pinned::Inputs { x: x.clone() }).unwrap();
    let want = (&x * 2.0).dot(&w.t()).mapv(|v| v.max(0.0));
    assert_eq!(outputs.y, want);
}

#[test]
fn pins_that_do_not_fit_are_told_by_name() {
    let refused = |devices: u32, dims: pinned::Dims| {
        let error = session(devices).compile(pinned::graph(), dims).err();
        match error.expect("no such split") {
            Error::Plan(PlanError::Pins {
                tensor,
                devices,
                pins,
            }) => (tensor.to_string(), devices, pins),
            other => panic!("{other}"),
        }
    };
    // Too few devices, and too small an index.
    let few = refused(2, pinned::Dims { b: 4, d: 6, f: 8 });
    let small = refused(8, pinned::Dims { b: 4, d: 6, f: 4 });
    assert_eq!((few.0.as_str(), few.1), ("h", 2));
    assert_eq!(few.2, "`b` of 4 in 2, `d` of 6 in 2");
    assert_eq!((small.0.as_str(), small.1), ("y", 8));
    assert_eq!(small.2, "`f` of 4 in 8");
}
