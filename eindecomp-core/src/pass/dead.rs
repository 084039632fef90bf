//! Drops statements that no output and no state needs. Inputs stay: they are what a run is given.

use super::rebuild::{needed, statements};
use super::{Pass, Rebuild, Rewrite};
use crate::graph::{BoundGraph, GraphError};

/// The pass of this module.
pub struct DeadStatements;

impl Pass for DeadStatements {
    fn name(&self) -> &'static str {
        "dead_statements"
    }

    fn run(&self, graph: &BoundGraph) -> Result<Rewrite, GraphError> {
        let needed = needed(graph, &statements(graph));
        let mut rebuild = Rebuild::of(graph);
        let mut did = Vec::new();
        for (id, node) in graph.ids() {
            match needed[id.at()] || node.role().is_some() {
                true => rebuild.copy(id)?,
                false => did.push(format!("`{}` dropped", node.name)),
            }
        }
        rebuild.rewrite(did)
    }
}
