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
        if needed.iter().all(|&n| n) {
            return Ok(Rewrite::Unchanged);
        }
        let mut rebuild = Rebuild::of(graph);
        for (id, _) in graph.ids().filter(|(id, _)| needed[id.at()]) {
            rebuild.copy(id)?;
        }
        rebuild.finish().map(Rewrite::Changed)
    }
}
