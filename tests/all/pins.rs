//! `#[whole]`, `#[split(…)]`, pinned owners and constraints: plans keep them, results are the same, and what
//! does not fit is an error with names.

use std::num::NonZeroU32;

use eindecomp::{Cluster, Error, Pin, Session, ein};
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
    gives_the_result(&session(8), None);
}

#[test]
fn constraints_and_pinned_owners_change_no_result() {
    let number = |n| NonZeroU32::new(n).unwrap();
    let small = Session::builder()
        .cluster(Cluster::cpus(4))
        .min_tile(number(2))
        .oversubscribe(number(2));
    let small = small.workers(2).no_cache().build().unwrap();
    let owner = Pin::Owner {
        parts: vec![2, 2],
        devices: Some(vec![0, 2, 1, 3]),
    };
    gives_the_result(&small, Some(owner.clone()));
    let missing = small.compile(pinned::graph().pin("nothing", owner), DIMS);
    assert!(matches!(missing.err(), Some(Error::MissingTensor { name, .. }) if name == "nothing"));
}

const DIMS: pinned::Dims = pinned::Dims { b: 4, d: 6, f: 16 };

fn gives_the_result(session: &Session, y: Option<Pin>) {
    let w = Array2::from_shape_fn((16, 6), |(f, d)| (f as f32 - 3.0) * 0.25 + d as f32 * 0.5);
    let x = Array2::from_shape_fn((4, 6), |(b, d)| b as f32 * 0.5 - d as f32);
    let graph = match &y {
        Some(pin) => pinned::graph().pin("y", pin.clone()),
        None => pinned::graph(),
    };
    let program = session.compile(graph, DIMS).unwrap();
    let mut program = program.load(pinned::Weights { w: w.clone() }).unwrap();
    let outputs = program.run(pinned::Inputs { x: x.clone() }).unwrap();
    if let Some(Pin::Owner { parts, devices }) = y {
        let program = program.program();
        let at = program
            .graph()
            .nodes()
            .iter()
            .position(|n| &*n.name == "y")
            .unwrap();
        let owner = program.plan().nodes[at].owner.as_ref().unwrap();
        assert_eq!(
            (&owner.parts, Some(&owner.devices)),
            (&parts, devices.as_ref())
        );
        let told = program.explain().unwrap().to_string();
        assert!(
            told.contains("as asked: tiles of at least 2, 2 calls per device"),
            "{told}"
        );
    }
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
