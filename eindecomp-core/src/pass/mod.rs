//! Passes: graph → graph, in one ordered list ([`Pipeline::default`]).
//!
//! Passes run on bound graphs, since what pays depends on extents. The driver verifies each
//! result, and refuses one that changes what goes in or comes out. A pass keeps values up to
//! rounding, and exactly where sums and products are exact.

mod contraction;
mod dead;

pub use contraction::ContractionOrder;
pub use dead::DeadStatements;

use std::sync::Arc;

use crate::ein::{DType, EinSum};
use crate::graph::{
    BindError, BoundGraph, EinGraph, GraphBuilder, GraphError, NodeId, Op, Store, Violation,
};

/// What a pass made of a graph.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Rewrite {
    /// Nothing to do.
    Unchanged,
    /// This graph instead.
    Changed(EinGraph),
}

/// A rewriting of graphs.
pub trait Pass {
    /// What it is called in traces and errors.
    fn name(&self) -> &'static str;

    /// The rewritten graph, if there is something to rewrite.
    ///
    /// # Errors
    /// Only if the pass has a fault: a statement that it made was refused.
    fn run(&self, graph: &BoundGraph) -> Result<Rewrite, GraphError>;
}

/// A fault of a pass.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PassError {
    /// It made a statement that does not fit.
    #[error("pass {pass}: {source}")]
    Graph {
        /// The pass.
        pass: &'static str,
        /// Why it was refused.
        source: Box<GraphError>,
    },
    /// It made a graph that does not verify.
    #[error("pass {pass} broke {} rules, first: {}", violations.len(), violations[0])]
    Rules {
        /// The pass.
        pass: &'static str,
        /// The rules, at least one.
        violations: Vec<Violation>,
    },
    /// It made a graph whose extents are no numbers.
    #[error("pass {pass} broke {} extents, first: {}", errors.len(), errors[0])]
    Bind {
        /// The pass.
        pass: &'static str,
        /// The extents, at least one.
        errors: Vec<BindError>,
    },
    /// It changed an input or an output.
    #[error("pass {pass} changed the inputs or outputs of the graph")]
    Interface {
        /// The pass.
        pass: &'static str,
    },
}

/// An ordered list of passes.
pub struct Pipeline {
    passes: Vec<Box<dyn Pass>>,
}

impl Default for Pipeline {
    /// Every pass, in order.
    fn default() -> Pipeline {
        Pipeline::new(vec![Box::new(DeadStatements), Box::new(ContractionOrder)])
    }
}

impl Pipeline {
    /// These passes, in this order.
    pub fn new(passes: Vec<Box<dyn Pass>>) -> Pipeline {
        Pipeline { passes }
    }

    /// The first `n` passes alone, to find the one that is at fault.
    pub fn stop_after(mut self, n: usize) -> Pipeline {
        self.passes.truncate(n);
        self
    }

    /// Runs every pass once.
    ///
    /// # Errors
    /// A fault of a pass; none comes from the user's graph.
    pub fn run(&self, mut graph: BoundGraph) -> Result<BoundGraph, PassError> {
        for pass in &self.passes {
            let name = pass.name();
            let _span = tracing::debug_span!("pass", name).entered();
            let rewrite = pass.run(&graph).map_err(|e| PassError::Graph {
                pass: name,
                source: Box::new(e),
            })?;
            let Rewrite::Changed(changed) = rewrite else {
                continue;
            };
            changed.verify().map_err(|violations| PassError::Rules {
                pass: name,
                violations,
            })?;
            let bound = changed
                .bind(&Default::default())
                .map_err(|errors| PassError::Bind { pass: name, errors })?;
            if interface(&bound) != interface(&graph) {
                return Err(PassError::Interface { pass: name });
            }
            let (before, after) = (graph.nodes().len(), bound.nodes().len());
            tracing::debug!(before, after, "rewritten");
            graph = bound;
        }
        Ok(graph)
    }
}

type Interface = Vec<(Arc<str>, Vec<usize>, DType)>;

/// Names, shapes and element types of inputs and outputs; which states are stored into.
fn interface(graph: &BoundGraph) -> (Interface, Interface, Vec<bool>) {
    let tensor = |name: &Arc<str>, id| {
        let shape = graph.shape(id).to_vec();
        (name.clone(), shape, graph.node(id).dtype)
    };
    let inputs = graph.ids().filter(|(_, n)| n.role().is_some());
    let outputs = graph.outputs().iter();
    (
        inputs.map(|(id, n)| tensor(&n.name, id)).collect(),
        outputs.map(|o| tensor(&o.name, o.node)).collect(),
        graph.states().map(|(state, last)| state != last).collect(),
    )
}

/// A graph being built from another one, node by node.
struct Rebuild<'a> {
    old: &'a EinGraph,
    new: GraphBuilder,
    /// Old node → new node, for those done so far.
    map: Vec<Option<NodeId>>,
}

impl<'a> Rebuild<'a> {
    fn of(old: &'a EinGraph) -> Rebuild<'a> {
        Rebuild {
            old,
            new: GraphBuilder::like(old),
            map: vec![None; old.nodes().len()],
        }
    }

    /// What an old node became; nodes are asked for after they are made.
    fn node(&self, old: NodeId) -> NodeId {
        self.map[old.at()].expect("operands precede uses")
    }

    /// Takes a node over.
    fn copy(&mut self, id: NodeId) -> Result<(), GraphError> {
        let node = self.old.node(id);
        let new = match &node.op {
            Op::Input(role) => {
                let (name, shape) = (node.name.clone(), node.shape.clone());
                let new = self.new.input(name, *role, node.dtype, shape)?;
                self.new.pin(new, node.pins.iter().cloned());
                new
            }
            Op::EinSum(e) => {
                let mut spec = e.clone().into_spec();
                for operand in &mut spec.operands {
                    operand.node = self.node(operand.node);
                }
                let e = EinSum::new(spec).expect("only nodes were renumbered");
                let (name, pins) = (node.name.clone(), node.pins.clone());
                match &node.store {
                    None => self.new.einsum(name, e, pins)?,
                    Some(store) => {
                        let state = self.node(store.state);
                        let store = Store {
                            state,
                            ..store.clone()
                        };
                        self.new.store(name, e, store, pins)?
                    }
                }
            }
        };
        self.map[id.at()] = Some(new);
        Ok(())
    }

    fn finish(mut self) -> Result<EinGraph, GraphError> {
        for output in self.old.outputs() {
            let node = self.node(output.node);
            self.new.output(output.name.clone(), node)?;
        }
        self.new.finish()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::graph::testing::random_graph;
    use crate::reference::run;

    #[test]
    fn dead_statements_go_and_inputs_stay() {
        let graph = EinGraph::parse(
            r#"eingraph {
                %0 "x" = input f32[4]
                %1 "unused" = input f32[2]
                %2 "dead" = %0[i] -> f32[i=4]
                %3 "y" = exp(%0[i]) -> f32[i=4]
                output "y" = %3
            }"#,
        );
        let bound = graph.unwrap().bind(&Default::default()).unwrap();
        let done = Pipeline::default().run(bound.clone()).unwrap();
        let text = bound.to_string();
        let text = text.replace("  %2 \"dead\" = %0[i] -> f32[i=4]\n", "");
        assert_eq!(done.to_string(), text.replace("%3", "%2"));
        assert_eq!(
            Pipeline::default().stop_after(0).run(bound.clone()),
            Ok(bound)
        );
    }

    proptest! {
        #[test]
        fn values_are_kept(seed: u64, statements in 1..6usize) {
            let sample = random_graph(seed, statements);
            let before = sample.bound();
            let after = Pipeline::default().run(before.clone()).unwrap();
            prop_assert_eq!(run(&before, &sample.inputs), run(&after, &sample.inputs));
        }
    }
}
