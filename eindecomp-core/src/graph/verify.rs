//! The rules of an EinGraph. [`GraphBuilder`](super::GraphBuilder) keeps them as it goes; passes
//! and files are checked again.
//!
//! 1. The EinSum is one: every label is once in the output or among the reduced ones, in that
//!    order; there are reduced labels iff there is an aggregation; operand numbers exist, and a
//!    gather goes through earlier ones. An opaque kernel is a whole body: it reduces nothing, reads
//!    and writes each axis by one label, and splits labels of the result, at most once in an operand;
//!    labels that only operands have come last.
//! 2. It fits the nodes before it: operands precede uses, one integer index per axis, a bare
//!    index has the axis' extent (or the access an `else`); functions, filter and aggregation fit
//!    the element types, and the result can be stored.
//! 3. The node's shape and element type are those of its EinSum.
//! 4. Inputs have different names.
//! 5. There is an output; outputs exist and have different names.
//! 6. Symbols are identifiers, possibly joined by `::`.
//! 7. A pin names a label of its node, or gives parts for every axis and a device for every tile; it asks for
//!    at least one part.
//! 8. A store is the newest version before it at each point outside its windows, of the state's
//!    element type; windows follow from operands of rank 0 alone.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::builder::{check, check_store};
use super::{EinGraph, GraphError, Node, NodeId, Op, Pin};
use crate::ein::{EinSum, EinSumError};

/// A rule of this module that does not hold.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Violation {
    /// Rule 1.
    #[error("rule 1: {node} `{name}`: {source}")]
    EinSum {
        /// The node.
        node: NodeId,
        /// Its name.
        name: Arc<str>,
        /// What is wrong.
        source: EinSumError,
    },
    /// Rules 2, 4, 5 and 8.
    #[error("rule {rule}: {source}")]
    Graph {
        /// Number of the rule.
        rule: u8,
        /// What is wrong.
        source: GraphError,
    },
    /// Rule 3.
    #[error("rule 3: {node} `{name}` does not have its EinSum's shape and element type")]
    Result {
        /// The node.
        node: NodeId,
        /// Its name.
        name: Arc<str>,
    },
    /// Rule 6.
    #[error("rule 6: `{0}` cannot be the name of a dim")]
    Symbol(Arc<str>),
    /// Rule 7.
    #[error("rule 7: {node} `{name}` cannot be pinned so: {pin}")]
    Pin {
        /// The node.
        node: NodeId,
        /// Its name.
        name: Arc<str>,
        /// The pin.
        pin: Pin,
    },
}

impl EinGraph {
    /// Checks every rule.
    ///
    /// # Errors
    /// All that do not hold, in node order.
    pub fn verify(&self) -> Result<(), Vec<Violation>> {
        let mut found = Vec::new();
        let mut inputs = BTreeSet::new();
        for (id, node) in self.ids() {
            match &node.op {
                Op::Input(_) => {
                    if !inputs.insert(&node.name) {
                        found.push(Violation::Graph {
                            rule: 4,
                            source: GraphError::Duplicate(node.name.clone()),
                        });
                    }
                }
                Op::EinSum(e) => self.verify_einsum(id, node, e, &mut found),
            }
            let misfits = node.pins.iter().filter(|pin| !fits(node, pin));
            found.extend(misfits.map(|pin| Violation::Pin {
                node: id,
                name: node.name.clone(),
                pin: pin.clone(),
            }));
        }
        let mut outputs = BTreeSet::new();
        let mut rule5 = |source| found.push(Violation::Graph { rule: 5, source });
        for output in self.outputs() {
            if !outputs.insert(&output.name) {
                rule5(GraphError::Duplicate(output.name.clone()));
            }
            if output.node.at() >= self.nodes().len() {
                rule5(GraphError::NoNode {
                    statement: output.name.clone(),
                    node: output.node,
                });
            }
        }
        if outputs.is_empty() {
            rule5(GraphError::NoOutput);
        }
        let symbols = self.symbols();
        found.extend(
            symbols
                .into_iter()
                .filter(|s| !s.split("::").all(is_identifier))
                .map(Violation::Symbol),
        );
        if found.is_empty() { Ok(()) } else { Err(found) }
    }

    fn verify_einsum(&self, id: NodeId, node: &Node, e: &EinSum, found: &mut Vec<Violation>) {
        let name = || node.name.clone();
        if let Err(source) = EinSum::new(e.clone().into_spec()) {
            found.push(Violation::EinSum {
                node: id,
                name: name(),
                source,
            });
            return;
        }
        if let Err(source) = check(&self.nodes()[..id.at()], self.slots().len(), &node.name, e) {
            found.push(Violation::Graph { rule: 2, source });
        }
        if let Some(store) = &node.store
            && let Err(source) = check_store(&self.nodes()[..id.at()], &node.name, e, store)
        {
            found.push(Violation::Graph { rule: 8, source });
        }
        if node.shape != e.shape() || node.dtype != e.dtype {
            found.push(Violation::Result {
                node: id,
                name: name(),
            });
        }
    }
}

/// Does a pin fit its node?
fn fits(node: &Node, pin: &Pin) -> bool {
    match pin {
        Pin::Whole => node.einsum().is_some(),
        Pin::Split(label, parts) => {
            let labels = node.einsum().map_or(&[][..], |e| &e.labels);
            *parts > 0 && labels.iter().any(|l| l.name == *label)
        }
        Pin::Owner { parts, devices } => {
            let tiles = (parts.iter()).try_fold(1usize, |n, &d| n.checked_mul(d as usize));
            let one_each = |devices: &Vec<u32>| Some(devices.len()) == tiles;
            parts.len() == node.shape.len()
                && tiles.is_some_and(|n| n > 0)
                && devices.as_ref().is_none_or(one_each)
        }
    }
}

/// A letter or `_`, then letters, digits and `_`.
pub(super) fn is_identifier(name: &str) -> bool {
    let mut chars = name.chars();
    chars.next().is_some_and(|c| c.is_alphabetic() || c == '_')
        && chars.all(|c| c.is_alphanumeric() || c == '_')
}
