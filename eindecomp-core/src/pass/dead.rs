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
        Rebuild::each(graph, |_, id| {
            let node = graph.node(id);
            let dead = !needed[id.at()] && node.role().is_none();
            Ok(dead.then(|| format!("`{}` dropped", node.name)))
        })
    }
}
