//! The EinGraph: a DAG of inputs and EinSums, topological by construction.
//!
//! * `builder`-style construction: [`GraphBuilder`];
//! * numbered rules: [`verify`](EinGraph::verify) in `verify.rs`;
//! * text: `display.rs` prints, `parse.rs` (tokens: `lex.rs`) reads the same dump back;
//! * `canon.rs`: the α-renamed form that plan keys are made of;
//! * `bind.rs`: [`BoundGraph`], every extent a number;
//! * [`from_syntax`]: a checked block of the language;
//! * [`Store`]: new versions of states (`store.rs`);
//! * `places.rs`: where in the user's files vertices come from;
//! * `einsum_str.rs`: `graph.einsum_str("bhld,bhmd->bhlm", &[q, k])`.

mod bind;
mod builder;
mod canon;
mod display;
mod dot;
mod einsum_str;
pub mod from_syntax;
mod lex;
mod parse;
mod places;
mod store;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
mod verify;

pub(crate) use bind::MAX_ELEMENTS;
pub use bind::{At, BindError, BoundGraph};
pub use builder::{GraphBuilder, GraphError};
pub use einsum_str::{EinsumStrError, EinsumStrErrorKind};
pub use parse::{ParseError, ParseErrorKind};
pub use places::{Lines, Place};
pub use store::{Outside, Ranges, Store, Window};
pub use verify::Violation;

use std::fmt;
use std::sync::Arc;

use crate::ein::{DType, Dim, EinSum, Value};
use crate::kernel::{KernelFn, Kernels};
use places::Places;

/// A tensor of one graph: the position of its node.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, serde::Serialize, serde::Deserialize,
)]
pub struct NodeId(pub u32);

impl NodeId {
    /// As a position in [`EinGraph::nodes`].
    pub fn at(self) -> usize {
        self.0 as usize
    }
}

impl fmt::Display for NodeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "%{}", self.0)
    }
}

/// What an input is to the runs of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Role {
    /// Given at each run.
    Data,
    /// Given once, kept across runs (`#[weight]`).
    Weight,
    /// Kept across runs and updated by stores (`#[state]`).
    State,
}

/// What makes a tensor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Op {
    /// Given from outside.
    Input(Role),
    /// Computed.
    EinSum(EinSum),
}

/// A user's constraint on the plan of one tensor.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Pin {
    /// No label is split.
    Whole,
    /// The named label is split in so many parts; 1 forbids to split it.
    Split(Arc<str>, u32),
    /// Who has the tensor between its producer and its readers; of a weight: that it is in one copy.
    Owner {
        /// Parts per axis.
        parts: Vec<u32>,
        /// The device of every tile, row-major; `None`: any.
        devices: Option<Vec<u32>>,
    },
}

/// `whole`, `split b in 4`, `owner [4, 1] on [0, 1, 2, 3]`
impl fmt::Display for Pin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Pin::Whole => f.write_str("whole"),
            Pin::Split(label, parts) => write!(f, "split {label} in {parts}"),
            Pin::Owner { parts, devices } => {
                write!(f, "owner {parts:?}")?;
                match devices {
                    Some(devices) => write!(f, " on {devices:?}"),
                    None => Ok(()),
                }
            }
        }
    }
}

/// A vertex and the tensor it makes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    /// What makes it.
    pub op: Op,
    /// Extents of its axes.
    pub shape: Vec<Dim>,
    /// Stored element type.
    pub dtype: DType,
    /// What people call it: the parameter's path or the statement's tensor.
    pub name: Arc<str>,
    /// Constraints on its plan.
    pub pins: Vec<Pin>,
    /// Where it differs from the version before, if it is a new version of a state.
    pub store: Option<Store>,
}

impl Node {
    /// The EinSum, unless it is an input.
    pub fn einsum(&self) -> Option<&EinSum> {
        match &self.op {
            Op::EinSum(e) => Some(e),
            Op::Input(_) => None,
        }
    }

    /// The role, if it is an input.
    pub fn role(&self) -> Option<Role> {
        match &self.op {
            Op::Input(role) => Some(*role),
            Op::EinSum(_) => None,
        }
    }
}

/// Comparison in a [`Clause`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Cmp {
    /// `==`
    Eq,
    /// `<=`
    Le,
    /// `>=`
    Ge,
    /// `<`
    Lt,
    /// `>`
    Gt,
}

impl Cmp {
    /// As written.
    pub fn symbol(self) -> &'static str {
        match self {
            Cmp::Eq => "==",
            Cmp::Le => "<=",
            Cmp::Ge => ">=",
            Cmp::Lt => "<",
            Cmp::Gt => ">",
        }
    }

    /// Does it hold between two numbers?
    pub fn holds(self, a: i64, b: i64) -> bool {
        match self {
            Cmp::Eq => a == b,
            Cmp::Le => a <= b,
            Cmp::Ge => a >= b,
            Cmp::Lt => a < b,
            Cmp::Gt => a > b,
        }
    }
}

/// A condition on dims that is checked when they are bound.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Clause {
    /// Left side.
    pub left: Dim,
    /// Comparison.
    pub cmp: Cmp,
    /// Right side.
    pub right: Dim,
    /// Where it comes from, for the message (a statement or a declaration with its line).
    pub origin: Arc<str>,
}

/// A named result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Output {
    /// Its name in `Outputs`.
    pub name: Arc<str>,
    /// The tensor.
    pub node: NodeId,
}

/// A DAG of inputs and EinSums. Made by [`GraphBuilder`], which keeps its rules.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EinGraph {
    nodes: Vec<Node>,
    outputs: Vec<Output>,
    slots: Vec<Value>,
    clauses: Vec<Clause>,
    kernels: Kernels,
    places: Places,
}

impl EinGraph {
    /// Where the statement stands that the tensor called `name` comes from, `src/model.rs:12`, if it was read from a
    /// file. Dumps do not have it.
    pub fn place(&self, name: &str) -> Option<&Place> {
        self.places.of(name)
    }

    /// Functions of opaque kernels, by name. Dumps do not have them.
    pub fn kernels(&self) -> &Kernels {
        &self.kernels
    }

    /// With a function for the opaque kernel `name`, instead of one that it has.
    #[must_use]
    pub fn with_kernel(mut self, name: impl Into<Arc<str>>, kernel: KernelFn) -> EinGraph {
        self.kernels.set(name, kernel);
        self
    }

    /// With a constraint on the plan of every tensor called `name`.
    ///
    /// # Errors
    /// [`GraphError::NoTensor`].
    pub fn with_pin(mut self, name: &str, pin: Pin) -> Result<EinGraph, GraphError> {
        let mut found = false;
        for node in self.nodes.iter_mut().filter(|n| &*n.name == name) {
            node.pins.push(pin.clone());
            found = true;
        }
        match found {
            true => Ok(self),
            false => Err(GraphError::NoTensor(name.into())),
        }
    }

    /// With every tensor whose path is `name` or ends in it (`scores`, `3.h.scores`) as a result behind the
    /// others: `watched scores 0`, `watched scores 1`, in the order of the graph. No result that the language
    /// names has a blank in its name.
    ///
    /// # Errors
    /// [`GraphError::NoTensor`].
    pub fn watched(mut self, name: &str) -> Result<EinGraph, GraphError> {
        let ends = |path: &str| {
            path.strip_suffix(name)
                .map(|p| p.is_empty() || p.ends_with('.'))
        };
        let named = self
            .ids()
            .filter(|(_, node)| ends(&node.name) == Some(true));
        let outputs = named.enumerate().map(|(at, (node, _))| Output {
            name: format!("watched {name} {at}").into(),
            node,
        });
        let outputs: Vec<Output> = outputs.collect();
        match outputs.is_empty() {
            true => Err(GraphError::NoTensor(name.into())),
            false => {
                self.outputs.extend(outputs);
                Ok(self)
            }
        }
    }

    /// Every vertex, operands before uses.
    pub fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    /// One vertex.
    pub fn node(&self, id: NodeId) -> &Node {
        &self.nodes[id.at()]
    }

    /// Every vertex with its id.
    pub fn ids(&self) -> impl Iterator<Item = (NodeId, &Node)> {
        self.nodes
            .iter()
            .enumerate()
            .map(|(i, n)| (NodeId(i as u32), n))
    }

    /// The named results, in order.
    pub fn outputs(&self) -> &[Output] {
        &self.outputs
    }

    /// Values of the numbered literals.
    pub fn slots(&self) -> &[Value] {
        &self.slots
    }

    /// Conditions on dims.
    pub fn clauses(&self) -> &[Clause] {
        &self.clauses
    }

    /// Every state with its last version, which is the state itself where nothing is stored.
    pub fn states(&self) -> impl Iterator<Item = (NodeId, NodeId)> {
        let states = self.ids().filter(|(_, n)| n.role() == Some(Role::State));
        states.map(|(id, _)| (id, last_version(&self.nodes, id)))
    }

    /// Every symbol in extents, index expressions and clauses, sorted.
    pub fn symbols(&self) -> std::collections::BTreeSet<Arc<str>> {
        bind::symbols(self)
    }
}

/// The newest version of a state.
fn last_version(nodes: &[Node], state: NodeId) -> NodeId {
    let newer = |n: &Node| n.store.as_ref().is_some_and(|s| s.state == state);
    let last = nodes.iter().rposition(newer);
    last.map_or(state, |at| NodeId(at as u32))
}
