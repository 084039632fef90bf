//! Construction of EinGraphs: every node is checked as it is added.

use std::sync::Arc;

use super::places::{Place, Places};
use super::{Clause, EinGraph, Node, NodeId, Op, Output, Pin, Role, Store, last_version};
use crate::ein::{Aggregation, DType, Dim, EinSum, Expr, Value};
use crate::kernel::{KernelFn, Kernels};

/// Why a node or a graph was refused.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum GraphError {
    /// A name that no tensor of the graph has.
    #[error("the graph has no tensor `{0}`")]
    NoTensor(Arc<str>),
    /// An operand that is not (yet) in the graph.
    #[error("`{statement}` reads {node}, which is not in the graph")]
    NoNode {
        /// The statement.
        statement: Arc<str>,
        /// The tensor it reads.
        node: NodeId,
    },
    /// A numbered literal that does not exist.
    #[error("`{statement}` uses literal ${slot}, which does not exist")]
    NoSlot {
        /// The statement.
        statement: Arc<str>,
        /// The literal.
        slot: u32,
    },
    /// Number of index expressions is not the rank.
    #[error("`{tensor}` has {rank} axes, but `{statement}` gives {given} indices")]
    Rank {
        /// The statement.
        statement: Arc<str>,
        /// The tensor it reads.
        tensor: Arc<str>,
        /// Its rank.
        rank: usize,
        /// Number of index expressions.
        given: usize,
    },
    /// A bare index whose extent differs from the axis it reads.
    #[error(
        "index `{label}` of `{statement}` is {extent}, but axis {axis} of `{tensor}` is {actual}"
    )]
    Extent {
        /// The statement.
        statement: Arc<str>,
        /// The index.
        label: Arc<str>,
        /// Its extent.
        extent: Dim,
        /// The tensor it reads.
        tensor: Arc<str>,
        /// The axis, from 0.
        axis: usize,
        /// The axis' extent.
        actual: Dim,
    },
    /// Functions and operands do not fit: the expression has no element type.
    #[error(
        "`{statement}`: the {what} has no element type: some function does not fit its arguments"
    )]
    DType {
        /// The statement.
        statement: Arc<str>,
        /// Body, filter or index.
        what: &'static str,
    },
    /// The expression's element type is not the one that is needed there.
    #[error("`{statement}`: the {what} is {actual}, but {expected} is needed")]
    DTypeMismatch {
        /// The statement.
        statement: Arc<str>,
        /// Body, filter, index or result.
        what: &'static str,
        /// What it is.
        actual: DType,
        /// What it must be.
        expected: DType,
    },
    /// Two inputs or two outputs of one name.
    #[error("the name `{0}` is used twice")]
    Duplicate(Arc<str>),
    /// Two functions for opaque kernels of one name.
    #[error("there are two kernels called `{0}`")]
    Kernel(Arc<str>),
    /// A graph without a result.
    #[error("the graph has no output")]
    NoOutput,
    /// A new version of a state that is none.
    #[error("`{statement}` is no new version of {state}: {what}")]
    Store {
        /// The statement.
        statement: Arc<str>,
        /// The state.
        state: NodeId,
        /// What is wrong.
        what: &'static str,
    },
}

crate::debug_is_text!(GraphError);

/// Builds an [`EinGraph`].
#[derive(Clone, Debug, Default)]
pub struct GraphBuilder {
    nodes: Vec<Node>,
    outputs: Vec<Output>,
    slots: Vec<Value>,
    clauses: Vec<Clause>,
    kernels: Kernels,
    places: Places,
    /// Where the statement stands whose vertices are added.
    place: Option<Place>,
    /// Statements of the blocks that were appended.
    statements: usize,
}

impl GraphBuilder {
    /// An empty graph.
    pub fn new() -> GraphBuilder {
        GraphBuilder::default()
    }

    /// Continues a finished graph (its outputs are dropped).
    pub fn from_graph(graph: EinGraph) -> GraphBuilder {
        GraphBuilder {
            nodes: graph.nodes,
            outputs: Vec::new(),
            slots: graph.slots,
            clauses: graph.clauses,
            kernels: graph.kernels,
            places: graph.places,
            place: None,
            statements: 0,
        }
    }

    /// Counts the statements of a block that is appended, unless there are more than `most` then.
    pub(super) fn count_statements(&mut self, statements: usize, most: usize) -> bool {
        let sum = self.statements.saturating_add(statements);
        let fits = sum <= most;
        if fits {
            self.statements = sum;
        }
        fits
    }

    /// No nodes, but the numbered literals, clauses, kernels and places of `graph`: what a pass starts from.
    pub fn like(graph: &EinGraph) -> GraphBuilder {
        GraphBuilder {
            slots: graph.slots.clone(),
            clauses: graph.clauses.clone(),
            kernels: graph.kernels.clone(),
            places: graph.places.clone(),
            ..GraphBuilder::default()
        }
    }

    /// Adds an input.
    ///
    /// # Errors
    /// [`GraphError::Duplicate`] if an input has that name.
    pub fn input(
        &mut self,
        name: impl Into<Arc<str>>,
        role: Role,
        dtype: DType,
        shape: Vec<Dim>,
    ) -> Result<NodeId, GraphError> {
        let name = name.into();
        if self
            .nodes
            .iter()
            .any(|n| n.role().is_some() && n.name == name)
        {
            return Err(GraphError::Duplicate(name));
        }
        Ok(self.push(Node {
            op: Op::Input(role),
            shape,
            dtype,
            name,
            pins: Vec::new(),
            store: None,
        }))
    }

    /// Adds constraints on the plan of a node; an unknown one has none.
    pub fn pin(&mut self, node: NodeId, pins: impl IntoIterator<Item = Pin>) {
        if let Some(node) = self.nodes.get_mut(node.at()) {
            node.pins.extend(pins);
        }
    }

    /// A numbered literal outside the plan key; structural values ([`Value::is_structural`])
    /// become constants in the key.
    pub fn literal(&mut self, value: Value, dtype: DType) -> Expr {
        if value.is_structural() {
            return Expr::Const(value, dtype);
        }
        self.slots.push(value);
        Expr::Slot(self.slots.len() as u32 - 1, dtype)
    }

    /// The next numbered literal, as dumps list them.
    pub(super) fn push_slot(&mut self, value: Value) {
        self.slots.push(value);
    }

    /// Adds an EinSum.
    ///
    /// # Errors
    /// An operand that does not exist, a wrong rank, a bare index whose extent is not the
    /// axis', or element types that do not fit.
    pub fn einsum(
        &mut self,
        name: impl Into<Arc<str>>,
        einsum: EinSum,
        pins: Vec<Pin>,
    ) -> Result<NodeId, GraphError> {
        let name = name.into();
        check(&self.nodes, self.slots.len(), &name, &einsum)?;
        let (shape, dtype) = (einsum.shape(), einsum.dtype);
        Ok(self.push(Node {
            op: Op::EinSum(einsum),
            shape,
            dtype,
            name,
            pins,
            store: None,
        }))
    }

    /// The function of the opaque kernel `name`.
    ///
    /// # Errors
    /// [`GraphError::Kernel`] if the graph has another one of that name.
    pub fn kernel(&mut self, name: &str, kernel: KernelFn) -> Result<(), GraphError> {
        match self.kernels.add(name, kernel) {
            true => Ok(()),
            false => Err(GraphError::Kernel(name.into())),
        }
    }

    /// Adds a new version of a state: [`GraphBuilder::einsum`] with what makes it one.
    ///
    /// # Errors
    /// As [`GraphBuilder::einsum`]; [`GraphError::Store`].
    pub fn store(
        &mut self,
        name: impl Into<Arc<str>>,
        einsum: EinSum,
        store: Store,
        pins: Vec<Pin>,
    ) -> Result<NodeId, GraphError> {
        let name = name.into();
        check_store(&self.nodes, &name, &einsum, &store)?;
        let id = self.einsum(name, einsum, pins)?;
        self.nodes[id.at()].store = Some(store);
        Ok(id)
    }

    /// The newest version of a state so far; other tensors are their only one.
    pub fn version(&self, node: NodeId) -> NodeId {
        match self.node(node).and_then(Node::role) {
            Some(Role::State) => last_version(&self.nodes, node),
            _ => node,
        }
    }

    /// Adds a condition on dims.
    pub fn clause(&mut self, clause: Clause) {
        if !self.clauses.contains(&clause) {
            self.clauses.push(clause);
        }
    }

    /// Names a result.
    ///
    /// # Errors
    /// [`GraphError::Duplicate`] if a result has that name, [`GraphError::NoNode`].
    pub fn output(&mut self, name: impl Into<Arc<str>>, node: NodeId) -> Result<(), GraphError> {
        let name = name.into();
        if node.at() >= self.nodes.len() {
            return Err(GraphError::NoNode {
                statement: name,
                node,
            });
        }
        if self.outputs.iter().any(|o| o.name == name) {
            return Err(GraphError::Duplicate(name));
        }
        self.outputs.push(Output { name, node });
        Ok(())
    }

    /// A node added so far.
    pub fn node(&self, id: NodeId) -> Option<&Node> {
        self.nodes.get(id.at())
    }

    /// The graph.
    ///
    /// # Errors
    /// [`GraphError::NoOutput`].
    pub fn finish(self) -> Result<EinGraph, GraphError> {
        if self.outputs.is_empty() {
            return Err(GraphError::NoOutput);
        }
        let GraphBuilder {
            nodes,
            outputs,
            slots,
            clauses,
            kernels,
            places,
            ..
        } = self;
        Ok(EinGraph {
            nodes,
            outputs,
            slots,
            clauses,
            kernels,
            places,
        })
    }

    /// Where the statement stands whose vertices are added from now on.
    pub(super) fn stand_at(&mut self, place: Option<Place>) {
        self.place = place;
    }

    fn push(&mut self, node: Node) -> NodeId {
        if let Some(place) = &self.place {
            self.places.add(&node.name, place);
        }
        self.nodes.push(node);
        NodeId(self.nodes.len() as u32 - 1)
    }
}

/// The rules of a store against the nodes before it.
pub(super) fn check_store(
    nodes: &[Node],
    name: &Arc<str>,
    e: &EinSum,
    store: &Store,
) -> Result<(), GraphError> {
    let state = store.state;
    let wrong = |what| {
        let statement = name.clone();
        Err(GraphError::Store {
            statement,
            state,
            what,
        })
    };
    let Some(input) = nodes.get(state.at()) else {
        return wrong("there is no such state");
    };
    if input.role() != Some(Role::State) {
        return wrong("it is no state");
    }
    if !store.fits(e) {
        return wrong("it is not the version before outside its windows");
    }
    if e.operands[store.old].node != last_version(nodes, state) {
        return wrong("it does not follow the newest version");
    }
    if e.dtype != input.dtype {
        return wrong("it has another element type");
    }
    Ok(())
}

/// The rules of one EinSum against the nodes before it.
pub(super) fn check(
    nodes: &[Node],
    slots: usize,
    name: &Arc<str>,
    e: &EinSum,
) -> Result<(), GraphError> {
    let statement = || name.clone();
    let operand_dtype = |n: usize| {
        e.operands
            .get(n)
            .and_then(|o| nodes.get(o.node.at()))
            .map(|n| n.dtype)
    };
    let dtype = |what, expr: &Expr| {
        let mut missing = None;
        expr.visit(&mut |x| match x {
            Expr::Slot(s, _) if *s as usize >= slots => missing = Some(*s),
            _ => {}
        });
        match missing {
            Some(slot) => Err(GraphError::NoSlot {
                statement: statement(),
                slot,
            }),
            None => expr.dtype(&operand_dtype).ok_or(GraphError::DType {
                statement: statement(),
                what,
            }),
        }
    };
    let expect = |what, actual: DType, expected: DType| match actual == expected {
        true => Ok(()),
        false => Err(GraphError::DTypeMismatch {
            statement: statement(),
            what,
            actual,
            expected,
        }),
    };
    for operand in &e.operands {
        let Some(tensor) = nodes.get(operand.node.at()) else {
            return Err(GraphError::NoNode {
                statement: statement(),
                node: operand.node,
            });
        };
        if tensor.shape.len() != operand.index.len() {
            return Err(GraphError::Rank {
                statement: statement(),
                tensor: tensor.name.clone(),
                rank: tensor.shape.len(),
                given: operand.index.len(),
            });
        }
        for (axis, (index, extent)) in operand.index.iter().zip(&tensor.shape).enumerate() {
            let actual = dtype("index", index)?;
            if !actual.is_int() {
                return Err(GraphError::DTypeMismatch {
                    statement: statement(),
                    what: "index",
                    actual,
                    expected: DType::I64,
                });
            }
            if let Expr::Index(l) = index {
                let label = &e.labels[l.at()];
                if operand.otherwise.is_none() && label.extent != *extent {
                    return Err(GraphError::Extent {
                        statement: statement(),
                        label: label.name.clone(),
                        extent: label.extent.clone(),
                        tensor: tensor.name.clone(),
                        axis,
                        actual: extent.clone(),
                    });
                }
            }
        }
    }
    let result = match &e.reduce {
        None => dtype("body", &e.body)?,
        Some(r) => {
            if let Some(filter) = &r.filter {
                expect("filter", dtype("filter", filter)?, DType::Bool)?;
            }
            match &r.agg {
                Aggregation::Row(agg) => {
                    let body = dtype("body", &e.body)?;
                    if agg.row().boolean {
                        expect("body", body, DType::Bool)?;
                    }
                }
                Aggregation::Record(record) => {
                    let args = e.body.arguments();
                    for (arg, wanted) in args.iter().zip(&record.args) {
                        expect("argument", dtype("argument", arg)?, *wanted)?;
                    }
                }
            }
            let result = r.result(&e.body, &operand_dtype);
            result.ok_or_else(|| GraphError::DType {
                statement: statement(),
                what: "reduction",
            })?
        }
    };
    let storable = result == e.dtype
        || (result.is_float() == e.dtype.is_float()
            && result != DType::Bool
            && e.dtype != DType::Bool);
    if storable {
        Ok(())
    } else {
        expect("result", result, e.dtype)
    }
}
