//! Networks of many tensors: one einsum string, no order of which anybody could write down.

use std::collections::BTreeMap;

use eindecomp::{CacheMode, Cluster, Session};
use eindecomp_core::ein::{DType, Dim};
use eindecomp_core::graph::{EinGraph, GraphBuilder, NodeId, Role};
use eindecomp_runtime::{Data, Tensor};

/// The domino tilings of a board as a network: a label of extent 2 is an edge between two squares, 1 if a domino
/// lies over it; a square's tensor is 1 where exactly one of its edges is.
fn tilings(rows: usize, columns: usize) -> (EinGraph, BTreeMap<String, Tensor>) {
    let label = |x: usize, y: usize, down: bool| {
        char::from_u32(0x4e00 + 2 * (x * columns + y) as u32 + u32::from(down)).unwrap()
    };
    let mut graph = GraphBuilder::new();
    let (mut terms, mut nodes, mut inputs) = (Vec::new(), Vec::<NodeId>::new(), BTreeMap::new());
    for (x, y) in (0..rows).flat_map(|x| (0..columns).map(move |y| (x, y))) {
        let mut labels = String::new();
        labels.extend((x > 0).then(|| label(x - 1, y, true)));
        labels.extend((x + 1 < rows).then(|| label(x, y, true)));
        labels.extend((y > 0).then(|| label(x, y - 1, false)));
        labels.extend((y + 1 < columns).then(|| label(x, y, false)));
        let rank = labels.chars().count();
        let name = format!("x{}", nodes.len());
        let covered = (0..1u32 << rank).map(|edges| f64::from(u8::from(edges.count_ones() == 1)));
        let tensor = Tensor::new(vec![2; rank], Data::F64(covered.collect())).unwrap();
        inputs.insert(name.clone(), tensor);
        let shape = vec![Dim::from(2); rank];
        nodes.push(graph.input(name, Role::Data, DType::F64, shape).unwrap());
        terms.push(labels);
    }
    let y = graph.einsum_str(&(terms.join(",") + "->"), &nodes).unwrap();
    graph.output("y", y).unwrap();
    (graph.finish().unwrap(), inputs)
}

/// Kasteleyn's numbers (1961).
#[test]
fn dominoes_on_boards() {
    for (rows, columns, devices, count) in [
        (2, 40, 1, 165_580_141.0),
        (8, 8, 1, 12_988_816.0),
        (8, 8, 4, 12_988_816.0),
        (7, 7, 2, 0.0),
    ] {
        let (graph, inputs) = tilings(rows, columns);
        let session = Session::builder()
            .cluster(Cluster::cpus(devices))
            .cache_mode(CacheMode::Off)
            .build()
            .unwrap();
        let mut program = session.compile_graph(graph, BTreeMap::new()).unwrap();
        let y = &program.run(&inputs).unwrap()["y"];
        assert_eq!(
            y.data(),
            &Data::F64(vec![count]),
            "{rows} × {columns} on {devices}"
        );
    }
}
