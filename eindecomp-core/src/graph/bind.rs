//! Binding: a graph whose every extent is a number.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

use super::canon::Lazy;
use super::{Clause, EinGraph, NodeId, Op, Store, Window};
use crate::ein::dim::DimError;
use crate::ein::{Dim, Expr};

/// One way in which bound dims do not fit a graph.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BindError {
    /// A dim without a value.
    #[error("dim `{0}` is not bound")]
    Unbound(Arc<str>),
    /// A clause that does not hold.
    #[error("`{} {} {}` does not hold{at}: {left} against {right} ({})", clause.left, clause.cmp.symbol(), clause.right, clause.origin)]
    Clause {
        /// The clause.
        clause: Clause,
        /// Value of its left side.
        left: i64,
        /// Value of its right side.
        right: i64,
        /// The dims in it.
        at: At,
    },
    /// An extent below 0.
    #[error("axis {axis} of `{tensor}` would have extent {extent} = {value}{at}")]
    Negative {
        /// The tensor.
        tensor: Arc<str>,
        /// The axis, from 0.
        axis: usize,
        /// The extent.
        extent: Dim,
        /// Its value.
        value: i64,
        /// The dims in it.
        at: At,
    },
    /// A tensor whose element count does not fit.
    #[error("`{tensor}` would have more than 2^48 elements{at}")]
    TooLarge {
        /// The tensor.
        tensor: Arc<str>,
        /// The dims in its shape.
        at: At,
    },
    /// A clause of which a side has no value.
    #[error("`{} {} {}` has no value{at}: {source} ({})", clause.left, clause.cmp.symbol(), clause.right, clause.origin)]
    ClauseValue {
        /// The clause.
        clause: Clause,
        /// The dims in it.
        at: At,
        /// Why.
        #[source]
        source: DimError,
    },
    /// An extent without a value.
    #[error("`{tensor}`{at}: {source}")]
    Dim {
        /// The tensor.
        tensor: Arc<str>,
        /// The dims in the extent.
        at: At,
        /// Why.
        #[source]
        source: DimError,
    },
}

/// Values of dims: ` at D = 10, H = 3`, or nothing where there are none.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct At(pub Vec<(Arc<str>, i64)>);

impl At {
    /// Those of the dims in some extents.
    fn of<'d>(extents: impl IntoIterator<Item = &'d Dim>, dims: &BTreeMap<Arc<str>, i64>) -> At {
        let mut symbols = BTreeSet::new();
        let extents = extents.into_iter();
        extents.for_each(|extent| extent.collect_symbols(&mut symbols));
        let values = symbols.into_iter();
        let values = values.filter_map(|name| dims.get_key_value(&name));
        At(values.map(|(name, &value)| (name.clone(), value)).collect())
    }
}

impl fmt::Display for At {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (nth, (name, value)) in self.0.iter().enumerate() {
            let before = if nth == 0 { " at" } else { "," };
            write!(f, "{before} {name} = {value}")?;
        }
        Ok(())
    }
}

impl BindError {
    /// The dims that it depends on.
    pub fn at(&self) -> &[(Arc<str>, i64)] {
        match self {
            BindError::Unbound(_) => &[],
            BindError::Clause { at, .. }
            | BindError::ClauseValue { at, .. }
            | BindError::Negative { at, .. }
            | BindError::TooLarge { at, .. }
            | BindError::Dim { at, .. } => &at.0,
        }
    }

    /// Does it follow from the other, or say the same of another place?
    fn follows(&self, first: &BindError) -> bool {
        use BindError::{Clause, ClauseValue, Dim, Negative};
        match (first, self) {
            (Clause { clause: a, .. }, Clause { clause: b, .. }) => {
                (&a.left, a.cmp, &a.right) == (&b.left, b.cmp, &b.right)
            }
            (
                ClauseValue { source: a, .. } | Dim { source: a, .. },
                ClauseValue { source: b, .. } | Dim { source: b, .. },
            ) => a == b,
            (Clause { clause, .. }, ClauseValue { source, .. } | Dim { source, .. }) => {
                matches!(source, DimError::Divisor { divisor, .. } if *divisor == clause.left)
            }
            (Clause { clause, .. }, Negative { extent, .. }) => {
                *extent == &clause.left - &clause.right
            }
            (Negative { extent: a, .. }, Negative { extent: b, .. }) => a == b,
            _ => false,
        }
    }
}

/// Adds an error whose cause is not told yet, in place of those that follow from it.
fn tell(errors: &mut Vec<BindError>, error: BindError) {
    if !errors.iter().any(|first| error.follows(first)) {
        errors.retain(|told| !told.follows(&error));
        errors.push(error);
    }
}

/// An [`EinGraph`] with numbers for extents, and those numbers as `usize`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BoundGraph {
    graph: EinGraph,
    shapes: Vec<Vec<usize>>,
    labels: Vec<Vec<usize>>,
    pub(super) canon: Lazy,
}

impl Deref for BoundGraph {
    type Target = EinGraph;
    fn deref(&self) -> &EinGraph {
        &self.graph
    }
}

pub(crate) const MAX_ELEMENTS: u64 = 1 << 48;

impl EinGraph {
    /// The graph with every symbol replaced by its value.
    ///
    /// # Errors
    /// Every unbound symbol, failed clause and impossible extent, in one list, each cause once.
    pub fn bind(&self, dims: &BTreeMap<Arc<str>, i64>) -> Result<BoundGraph, Vec<BindError>> {
        let mut errors: Vec<BindError> = symbols(self)
            .into_iter()
            .filter(|s| !dims.contains_key(s))
            .map(BindError::Unbound)
            .collect();
        if !errors.is_empty() {
            return Err(errors);
        }
        let env = |s: &str| dims.get(s).copied();
        for clause in &self.clauses {
            let at = At::of([&clause.left, &clause.right], dims);
            match (clause.left.eval(&env), clause.right.eval(&env)) {
                (Ok(left), Ok(right)) if !clause.cmp.holds(left, right) => {
                    tell(
                        &mut errors,
                        BindError::Clause {
                            clause: clause.clone(),
                            left,
                            right,
                            at,
                        },
                    );
                }
                (Err(source), _) | (_, Err(source)) => {
                    tell(
                        &mut errors,
                        BindError::ClauseValue {
                            clause: clause.clone(),
                            at,
                            source,
                        },
                    );
                }
                _ => {}
            }
        }
        let of = |s: &str| env(s).map(Dim::from);
        let mut graph = self.clone();
        graph.clauses.clear();
        let (mut shapes, mut labels) = (Vec::new(), Vec::new());
        for node in &mut graph.nodes {
            let mut elements = 1u64;
            let name = node.name.clone();
            let mut number = |axis: usize, extent: &Dim| match extent.eval(&env) {
                Err(source) => {
                    tell(
                        &mut errors,
                        BindError::Dim {
                            tensor: name.clone(),
                            at: At::of([extent], dims),
                            source,
                        },
                    );
                    0
                }
                Ok(value) if value < 0 => {
                    tell(
                        &mut errors,
                        BindError::Negative {
                            tensor: name.clone(),
                            axis,
                            extent: extent.clone(),
                            value,
                            at: At::of([extent], dims),
                        },
                    );
                    0
                }
                Ok(value) => value as usize,
            };
            let shape: Vec<usize> = node
                .shape
                .iter()
                .enumerate()
                .map(|(a, d)| number(a, d))
                .collect();
            // An axis of 0 does not make room for the others: products of some axes are used too.
            for &n in &shape {
                elements = elements.saturating_mul(n.max(1) as u64);
            }
            let extents = match &node.op {
                Op::Input(_) => Vec::new(),
                Op::EinSum(e) => e
                    .labels
                    .iter()
                    .enumerate()
                    .map(|(a, l)| number(a, &l.extent))
                    .collect(),
            };
            for (axis, window) in node.store.iter().flat_map(|s| s.windows.iter().enumerate()) {
                if let Some((_, length)) = window.parts() {
                    number(axis, length);
                }
            }
            if elements > MAX_ELEMENTS {
                let (tensor, at) = (node.name.clone(), At::of(&node.shape, dims));
                errors.push(BindError::TooLarge { tensor, at });
            }
            node.shape = shape.iter().map(|&n| Dim::from(n as i64)).collect();
            if let Op::EinSum(e) = &mut node.op {
                e.substitute(&of);
            }
            node.store = node.store.as_ref().map(|s| bind_store(s, &of));
            shapes.push(shape);
            labels.push(extents);
        }
        if errors.is_empty() {
            Ok(BoundGraph {
                graph,
                shapes,
                labels,
                canon: Lazy::default(),
            })
        } else {
            Err(errors)
        }
    }
}

impl BoundGraph {
    /// Extents of a tensor's axes.
    pub fn shape(&self, node: NodeId) -> &[usize] {
        &self.shapes[node.at()]
    }

    /// Extents of an EinSum's labels, in label order; empty for an input.
    pub fn label_extents(&self, node: NodeId) -> &[usize] {
        &self.labels[node.at()]
    }

    /// Points of an EinSum's iteration space, [`u128::MAX`] if they are more; 1 for an input.
    pub fn points(&self, node: NodeId) -> u128 {
        let extents = self.label_extents(node).iter();
        // An empty axis makes no points of any number.
        match extents.clone().any(|&n| n == 0) {
            true => 0,
            false => extents.fold(1, |points: u128, &n| points.saturating_mul(n as u128)),
        }
    }

    /// Number of elements of a tensor.
    pub fn elements(&self, node: NodeId) -> usize {
        self.shape(node).iter().product()
    }

    /// Bytes of a tensor as stored.
    pub fn bytes(&self, node: NodeId) -> u64 {
        self.elements(node) as u64 * self.node(node).dtype.size() as u64
    }

    /// The EinGraph.
    pub fn graph(&self) -> &EinGraph {
        &self.graph
    }
}

fn bind_store(store: &Store, of: &dyn Fn(&str) -> Option<Dim>) -> Store {
    let mut start = |e: Expr| e.substitute(of);
    let mut window = |w: &Window| w.map(&mut start, &|d| d.substitute(of));
    Store {
        windows: store.windows.iter().map(&mut window).collect(),
        ..*store
    }
}

/// Every symbol of a graph.
pub(super) fn symbols(graph: &EinGraph) -> BTreeSet<Arc<str>> {
    let mut out = BTreeSet::new();
    for clause in &graph.clauses {
        clause.left.collect_symbols(&mut out);
        clause.right.collect_symbols(&mut out);
    }
    for node in &graph.nodes {
        node.shape.iter().for_each(|d| d.collect_symbols(&mut out));
        if let Op::EinSum(e) = &node.op {
            let labels = e.labels.iter();
            labels.for_each(|l| l.extent.collect_symbols(&mut out));
            let filter = e.reduce.iter().flat_map(|r| &r.filter);
            for expr in e
                .operands
                .iter()
                .flat_map(|o| &o.index)
                .chain([&e.body])
                .chain(filter)
            {
                expr.visit(&mut |x| {
                    if let Expr::Dim(d) = x {
                        d.collect_symbols(&mut out);
                    }
                });
            }
        }
    }
    out
}
