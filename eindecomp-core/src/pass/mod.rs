//! Passes: graph → graph, in one ordered list ([`Pipeline::default`]).
//!
//! Passes run on bound graphs, since what pays depends on extents. The driver verifies each
//! result, and refuses one that changes what goes in or comes out. A pass keeps values up to
//! rounding and the sign of a zero (`0 + -0` is 0, so a factor taken out of a sum may decide it), and
//! otherwise exactly where sums and products are exact.

mod common;
mod contraction;
mod dead;
mod fusion;
mod inline;
mod operands;
mod order;
mod rebuild;
mod simplify;
mod softmax;
#[cfg(test)]
mod testing;

pub use common::CommonStatements;
pub use contraction::ContractionOrder;
pub use dead::DeadStatements;
pub use fusion::ElementwiseFusion;
pub use operands::ContractionOperands;
pub use simplify::Identities;
pub use softmax::SoftmaxSum;

use std::sync::Arc;

use crate::ein::DType;
use crate::graph::{BindError, BoundGraph, EinGraph, GraphError, Violation};
use rebuild::Rebuild;

/// What a pass made of a graph.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Rewrite {
    /// Nothing to do.
    Unchanged,
    /// This graph instead.
    Changed {
        /// The graph.
        graph: EinGraph,
        /// What was done, one phrase per statement, for people.
        did: Vec<String>,
    },
}

/// What a pass did to a graph.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "plan", derive(serde::Serialize))]
pub struct Passed {
    /// The pass.
    pub pass: &'static str,
    /// What was done, one phrase per statement, for people; never empty.
    pub did: Vec<String>,
}

/// A rewriting of graphs.
pub trait Pass: Send + Sync {
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
        Pipeline::new(vec![
            Box::new(DeadStatements),
            Box::new(Identities),
            Box::new(CommonStatements),
            Box::new(SoftmaxSum),
            Box::new(ElementwiseFusion),
            Box::new(ContractionOperands),
            Box::new(ContractionOrder),
        ])
    }
}

/// A name that no pass has.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[error("there is no pass `{name}`; in order they are: {}", known.join(", "))]
pub struct UnknownPass {
    /// As given.
    pub name: String,
    /// Those that there are.
    pub known: Vec<&'static str>,
}

crate::debug_is_text!(UnknownPass);

impl Pipeline {
    /// These passes, in this order.
    pub fn new(passes: Vec<Box<dyn Pass>>) -> Pipeline {
        Pipeline { passes }
    }

    /// The names of the passes, in order.
    pub fn names(&self) -> Vec<&'static str> {
        self.passes.iter().map(|pass| pass.name()).collect()
    }

    /// Every pass up to the one that is named, to find the one that is at fault; none for `none`, all
    /// without a name.
    ///
    /// # Errors
    /// No pass is called so.
    pub fn up_to(name: Option<&str>) -> Result<Pipeline, UnknownPass> {
        let mut all = Pipeline::default();
        let Some(name) = name else { return Ok(all) };
        let known = all.names();
        let kept = match known.iter().position(|pass| *pass == name) {
            Some(at) => at + 1,
            None if name == "none" => 0,
            None => {
                let name = name.to_owned();
                return Err(UnknownPass { name, known });
            }
        };
        all.passes.truncate(kept);
        Ok(all)
    }

    /// Runs every pass once: the graph, and what passes did that did something.
    ///
    /// # Errors
    /// A fault of a pass; none comes from the user's graph.
    pub fn run(&self, mut graph: BoundGraph) -> Result<(BoundGraph, Vec<Passed>), PassError> {
        let mut passed = Vec::new();
        for pass in &self.passes {
            let name = pass.name();
            let _span = tracing::debug_span!("pass", name).entered();
            let rewrite = pass.run(&graph).map_err(|e| PassError::Graph {
                pass: name,
                source: Box::new(e),
            })?;
            let Rewrite::Changed {
                graph: changed,
                did,
            } = rewrite
            else {
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
            passed.push(Passed { pass: name, did });
            graph = bound;
        }
        Ok((graph, passed))
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

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::ein::Value;
    use crate::graph::testing::random_graph;
    use crate::reference::{RefError, RefTensor, run};

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
        let (done, passed) = Pipeline::default().run(bound.clone()).unwrap();
        let text = bound.to_string();
        let text = text.replace("  %2 \"dead\" = %0[i] -> f32[i=4]\n", "");
        assert_eq!(done.to_string(), text.replace("%3", "%2"));
        let did = passed.iter().map(|p| (p.pass, p.did.join("; ")));
        let dropped = ("dead_statements", "`dead` dropped".to_owned());
        assert_eq!(did.collect::<Vec<_>>(), [dropped]);
        let none = Pipeline::up_to(Some("none")).unwrap();
        assert_eq!(none.run(bound.clone()), Ok((bound, Vec::new())));
    }

    #[test]
    fn a_pipeline_stops_after_a_pass() {
        let all = Pipeline::default().names();
        for (at, name) in all.iter().enumerate() {
            let some = Pipeline::up_to(Some(name)).unwrap();
            assert_eq!(some.names(), all[..=at]);
        }
        let error = Pipeline::up_to(Some("fuse")).err().unwrap();
        assert!(
            error
                .to_string()
                .starts_with("there is no pass `fuse`; in order they are: dead_statements")
        );
    }

    /// What a pass keeps: zeros without their sign.
    fn kept(results: Result<Vec<RefTensor>, RefError>) -> Result<Vec<RefTensor>, RefError> {
        let unsigned = |v: &Value| match *v {
            Value::Float(0.0) => Value::Float(0.0),
            v => v,
        };
        let tensor = |t: &RefTensor| {
            let data = t.data().iter().map(unsigned).collect();
            RefTensor::new(t.dtype(), t.shape().to_vec(), data)
        };
        results?.iter().map(tensor).collect()
    }

    proptest! {
        #[test]
        fn values_are_kept(seed: u64, statements in 1..6usize) {
            let sample = random_graph(seed, statements);
            let before = sample.bound();
            for name in Pipeline::default().names() {
                let some = Pipeline::up_to(Some(name)).unwrap();
                let (after, _) = some.run(before.clone()).unwrap();
                prop_assert_eq!(
                    kept(run(&before, &sample.inputs)), kept(run(&after, &sample.inputs)),
                    "after {}\n{}\n{}", name, before.graph(), after.graph()
                );
            }
        }
    }
}
