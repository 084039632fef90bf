//! One plan of one graph, carried out: tasks verified, bytes counted, results compared with the
//! reference bit for bit.

use std::collections::BTreeMap;
use std::sync::Arc;

use eindecomp_core::graph::{BoundGraph, GraphBuilder, Op, Pin, Role};
use eindecomp_core::plan::Plan;
use eindecomp_core::reference::{self, RefTensor};
use eindecomp_core::task::lower::lower;
use eindecomp_core::task::traffic::moved_bytes;
use eindecomp_core::task::verify::verify;
use eindecomp_runtime::{Executor, MemoryMode, Tensor, Workers};

use super::{comparable, to_reference, to_runtime};

/// Values of inputs, by name.
pub type Inputs = BTreeMap<Arc<str>, RefTensor>;

/// Runs the plan twice; bytes moved must be those planned, results those of the reference, or
/// neither has a result.
///
/// # Panics
/// If they are not; `what` is named.
pub fn check(
    graph: &Arc<BoundGraph>,
    inputs: &Inputs,
    plan: &Plan,
    mode: MemoryMode,
    workers: &Arc<Workers>,
    what: &str,
) {
    let want = reference::run(graph, inputs).map(comparable);
    let tasks = lower(graph, plan).expect("tasks");
    let arenas = tasks.arenas.clone();
    verify(graph, plan, &tasks).unwrap_or_else(|e| panic!("{what}: {e}\n{}", graph.graph()));
    let mut executor =
        Executor::new(graph.clone(), Arc::new(tasks), workers.clone(), mode).expect("an executor");
    let is_data = |name: &str| {
        let mut nodes = graph.nodes().iter();
        nodes.any(|n| n.role() == Some(Role::Data) && &*n.name == name)
    };
    let all = inputs.iter().map(|(n, t)| (n.to_string(), to_runtime(t)));
    let (data, weights): (BTreeMap<String, Tensor>, BTreeMap<_, _>) =
        all.partition(|(n, _)| is_data(n));
    executor.load(&weights).expect("weights");
    for run in 0..2 {
        match (&want, executor.run(&data, false)) {
            (Ok(want), Ok((got, trace))) => {
                let got = comparable(got.iter().map(to_reference).collect());
                assert_eq!(&got, want, "{what}, run {run} of\n{}", graph.graph());
                let received = trace.traffic.received.iter();
                let pairs: Vec<_> = received.map(|(&(a, b), m)| (a, b, m.total())).collect();
                let planned = moved_bytes(graph, plan.hierarchy, &plan.nodes).expect("a plan");
                assert_eq!(pairs, planned.iter().collect::<Vec<_>>(), "{what}: bytes");
                if mode == MemoryMode::Arena {
                    assert_eq!(trace.peaks, arenas, "{what}: memory");
                }
            }
            (Err(_), Err(_)) => {}
            (want, got) => panic!("{what}: reference {want:?}, runtime {got:?}"),
        }
    }
}

/// Small whole numbers for every input of a graph, so that sums are exact in every order;
/// integers are in 0..`below`.
pub fn small_inputs(graph: &BoundGraph, below: i64) -> Inputs {
    let mut all = Inputs::new();
    for (seed, (id, node)) in graph.ids().filter(|(_, n)| n.role().is_some()).enumerate() {
        let shape = graph.shape(id).to_vec();
        let n: usize = shape.iter().product();
        let value = |i: usize| {
            let x = ((7 * i + 3 * seed + i / 5) % 11) as i64;
            match node.dtype.is_float() {
                true => (x - 5) as f64,
                false => x.rem_euclid(below) as f64,
            }
        };
        let data: Vec<f64> = (0..n).map(value).collect();
        let tensor = RefTensor::from_f64(node.dtype, shape, &data).expect("as many values");
        all.insert(node.name.clone(), tensor);
    }
    all
}

/// The graph with more pins on one vertex, by its position.
pub fn pinned(graph: &BoundGraph, at: usize, pins: &[Pin]) -> BoundGraph {
    let mut new = GraphBuilder::like(graph.graph());
    for (id, node) in graph.ids() {
        let name = node.name.clone();
        let added = match &node.op {
            Op::Input(role) => new.input(name, *role, node.dtype, node.shape.clone()),
            Op::EinSum(e) => {
                let more = if id.at() == at { pins } else { &[] };
                let pins = node.pins.iter().chain(more).cloned().collect();
                new.einsum(name, e.clone(), pins)
            }
        };
        added.expect("as before");
    }
    for output in graph.outputs() {
        new.output(output.name.clone(), output.node)
            .expect("as before");
    }
    let graph = new.finish().expect("as before");
    graph.bind(&BTreeMap::new()).expect("numbers stay numbers")
}
