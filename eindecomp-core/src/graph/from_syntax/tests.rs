use super::*;
use crate::graph::BoundGraph;

fn graph(source: &str, block: &str, consts: &[(&str, i64)]) -> EinGraph {
    let consts = consts.iter().map(|(n, v)| (Arc::from(*n), *v)).collect();
    match EinGraph::from_text(source, block, &consts) {
        Ok(graph) => graph,
        Err(TextError::Program(diags)) => {
            let shown: String = diags.iter().map(|d| d.render(source).to_string()).collect();
            panic!("{shown}")
        }
        Err(error) => panic!("{error}"),
    }
}

fn bound(graph: &EinGraph, dims: &[(&str, i64)]) -> BoundGraph {
    graph.bind(&dims.iter().map(|(n, v)| (Arc::from(*n), *v)).collect()).unwrap()
}

#[test]
fn a_reduction_is_one_vertex_and_inner_ones_float() {
    let graph = graph(
        "fn f<dim T, dim D, dim F>(x: f32[T,D], w1: f32[D,F], w3: f32[D,F]) -> f32[T,F] {
            let a[t,f] = silu(sum[d] x[t,d] * w1[d,f]) * sum[d] x[t,d] * w3[d,f];
            a
        }",
        "f",
        &[],
    );
    insta::assert_snapshot!(graph, @"");
}
