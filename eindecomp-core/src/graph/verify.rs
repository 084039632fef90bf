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
//!    at least one part, and for nothing that an earlier one excludes.
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
    #[error("rule 7: {node} `{name}` cannot be pinned so, {pin}: {why}")]
    Pin {
        /// The node.
        node: NodeId,
        /// Its name.
        name: Arc<str>,
        /// The pin.
        pin: Pin,
        /// Why not.
        why: String,
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
            for (at, pin) in node.pins.iter().enumerate() {
                let why = misfit(node, pin).or_else(|| contradiction(pin, &node.pins[..at]));
                found.extend(why.map(|why| Violation::Pin {
                    node: id,
                    name: node.name.clone(),
                    pin: pin.clone(),
                    why,
                }));
            }
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

/// Why a pin does not fit its node.
fn misfit(node: &Node, pin: &Pin) -> Option<String> {
    let no_statement = "it is an input, which no statement computes";
    match pin {
        Pin::Whole => node.einsum().is_none().then(|| no_statement.into()),
        Pin::Split(_, 0) => Some("there are no 0 parts".into()),
        Pin::Split(label, _) => {
            let Some(e) = node.einsum() else {
                return Some(no_statement.into());
            };
            let names: Vec<&str> = e.labels.iter().map(|l| &*l.name).collect();
            let missing = !names.contains(&&**label);
            missing.then(|| format!("its indices are {}", names.join(", ")))
        }
        Pin::Owner { parts, devices } => {
            let tiles = (parts.iter()).try_fold(1usize, |n, &d| n.checked_mul(d as usize));
            let (rank, given) = (node.shape.len(), parts.len());
            match (tiles, devices) {
                _ if given != rank => Some(format!("it has {rank} axes, not {given}")),
                (Some(0), _) => Some("there are no 0 parts".into()),
                (None, _) => Some("these are too many tiles".into()),
                (Some(tiles), Some(devices)) if devices.len() != tiles => {
                    let devices = devices.len();
                    Some(format!(
                        "{tiles} tiles are on as many devices, not on {devices}"
                    ))
                }
                _ => None,
            }
        }
    }
}

/// Why a pin cannot be kept beside earlier ones of its node.
fn contradiction(pin: &Pin, before: &[Pin]) -> Option<String> {
    let contradicts = |other: &&Pin| match (pin, *other) {
        (Pin::Split(a, n), Pin::Split(b, m)) => a == b && n != m,
        (Pin::Whole, Pin::Split(_, n)) | (Pin::Split(_, n), Pin::Whole) => *n > 1,
        _ => false,
    };
    let other = before.iter().find(contradicts)?;
    Some(format!("it is also pinned {other}"))
}

/// A letter or `_`, then letters, digits and `_`.
pub(super) fn is_identifier(name: &str) -> bool {
    let mut chars = name.chars();
    chars.next().is_some_and(|c| c.is_alphabetic() || c == '_')
        && chars.all(|c| c.is_alphanumeric() || c == '_')
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is wrong with pins of `y`, and of its operand.
    fn told(x: &str, y: &str) -> Vec<String> {
        let graph = EinGraph::parse(&format!(
            "eingraph {{\n  %0 \"x\" = input f32[4, 6]{x}\n  %1 \"y\" = sum[d=6; f32] %0[b, d] -> f32[b=4]{y}\n  output \"y\" = %1\n}}"
        ));
        let found = graph.map(|graph| graph.verify().err().unwrap_or_default());
        let told = found.unwrap().into_iter().map(|v| v.to_string());
        told.collect()
    }

    #[test]
    fn pins_that_do_not_fit_say_why() {
        assert_eq!(
            told("", " pin split(\"b\", 2) pin split(\"d\", 3)"),
            [""; 0]
        );
        for (x, y, why) in [
            (
                "",
                "split(\"q\", 2)",
                "%1 `y` cannot be pinned so, split q in 2: its indices are b, d",
            ),
            (
                "",
                "split(\"b\", 0)",
                "%1 `y` cannot be pinned so, split b in 0: there are no 0 parts",
            ),
            (
                "whole",
                "",
                "%0 `x` cannot be pinned so, whole: it is an input, which no statement computes",
            ),
            (
                "",
                "owner([2, 2])",
                "%1 `y` cannot be pinned so, owner [2, 2]: it has 1 axes, not 2",
            ),
            (
                "",
                "owner([2], [0])",
                "%1 `y` cannot be pinned so, owner [2] on [0]: 2 tiles are on as many devices, not on 1",
            ),
            (
                "",
                "split(\"b\", 2) pin split(\"b\", 4)",
                "%1 `y` cannot be pinned so, split b in 4: it is also pinned split b in 2",
            ),
            (
                "",
                "split(\"b\", 2) pin whole",
                "%1 `y` cannot be pinned so, whole: it is also pinned split b in 2",
            ),
        ] {
            let pin = |text: &str| match text {
                "" => String::new(),
                text => format!(" pin {text}"),
            };
            assert_eq!(told(&pin(x), &pin(y)), [format!("rule 7: {why}")]);
        }
    }
}
