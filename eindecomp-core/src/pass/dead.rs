//! Drops statements that no output and no state needs. Inputs stay: they are what a run is given.

use super::{Pass, Rebuild, Rewrite};
use crate::graph::{BoundGraph, GraphError};

/// The pass of this module.
pub struct DeadStatements;

impl Pass for DeadStatements {
    fn name(&self) -> &'static str {
        "dead_statements"
    }

    fn run(&self, graph: &BoundGraph) -> Result<Rewrite, GraphError> {
        let mut needed = vec![false; graph.nodes().len()];
        for output in graph.outputs() {
            needed[output.node.at()] = true;
        }
        for (_, last) in graph.states() {
            needed[last.at()] = true;
        }
        for (at, node) in graph.nodes().iter().enumerate().rev() {
            match node.einsum() {
                Some(e) if needed[at] => {
                    for operand in &e.operands {
                        needed[operand.node.at()] = true;
                    }
                }
                Some(_) => {}
                None => needed[at] = true,
            }
        }
        let mut rebuild = Rebuild::of(graph);
        let mut did = Vec::new();
        for (id, node) in graph.ids() {
            match needed[id.at()] {
                true => rebuild.copy(id)?,
                false => did.push(format!("`{}` dropped", node.name)),
            }
        }
        rebuild.rewrite(did)
    }
}
