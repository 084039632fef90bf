//! Graphviz text of an EinGraph.

use petgraph::dot::{Config, Dot};
use petgraph::graph::DiGraph;

use super::{EinGraph, Op};

impl EinGraph {
    /// The graph in Graphviz' DOT language: a vertex per tensor, an edge per operand.
    pub fn dot(&self) -> String {
        let mut graph = DiGraph::<String, &str>::with_capacity(self.nodes.len(), self.nodes.len());
        let vertices: Vec<_> = self
            .ids()
            .map(|(id, node)| {
                let shape: Vec<String> = node.shape.iter().map(|d| d.to_string()).collect();
                let what = match &node.op {
                    Op::Input(role) => role.keyword().to_string(),
                    Op::EinSum(e) => e
                        .reduce
                        .as_ref()
                        .map_or(String::new(), |r| r.agg.to_string()),
                };
                let shape = format!("{}[{}]", node.dtype, shape.join(", "));
                graph.add_node(format!("{id} {} {what}\n{shape}", node.name))
            })
            .collect();
        for (id, node) in self.ids() {
            for operand in node.einsum().iter().flat_map(|e| &e.operands) {
                graph.add_edge(vertices[operand.node.at()], vertices[id.at()], "");
            }
        }
        format!("{}", Dot::with_config(&graph, &[Config::EdgeNoLabel]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn vertices_and_edges_are_listed() {
        let graph = EinGraph::parse(
            r#"eingraph {
                %0 "x" = input f32[B, 2]
                %1 "y" = max[j=2; f32] %0[i, j] * %0[i, j] -> f32[i=B]
                output "y" = %1
            }"#,
        );
        let text = graph.unwrap().dot();
        assert_eq!(text.matches("->").count(), 2, "{text}");
        assert!(text.contains("%1 y max"), "{text}");
    }
}
