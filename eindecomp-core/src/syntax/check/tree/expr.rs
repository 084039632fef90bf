//! Checked expressions: accesses, reductions, aggregations.

use std::fmt;
use std::sync::Arc;

use super::{Place, VarId};
use crate::ein::{Agg, DType, Dim, ScalarFn, Value};
use crate::syntax::token::Span;

/// An index of one statement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct IndexId(pub u16);

impl IndexId {
    /// As a position in [`Statement::indices`](super::Statement::indices).
    pub fn at(self) -> usize {
        self.0 as usize
    }
}

/// An index: name and extent. Two reductions may each have one of the same name.
#[derive(Clone, Debug, PartialEq)]
pub struct Index {
    /// As written.
    pub name: Arc<str>,
    /// How many values it runs over.
    pub extent: Dim,
    /// Where it is declared.
    pub span: Span,
}

/// A checked expression.
#[derive(Clone, Debug, PartialEq)]
pub struct Expr {
    /// What it is.
    pub kind: ExprKind,
    /// Its element type.
    pub dtype: DType,
    /// Where it stands.
    pub span: Span,
}

/// What a checked expression is.
#[derive(Clone, Debug, PartialEq)]
pub enum ExprKind {
    /// A literal.
    Lit(Value),
    /// A `#[host]` parameter.
    Host(VarId),
    /// An element of a tensor.
    Read(Box<Read>),
    /// The value of an index.
    Index(IndexId),
    /// The value of an extent.
    Dim(Dim),
    /// A scalar function.
    Call(ScalarFn, Vec<Expr>),
    /// A conversion to the expression's type.
    Cast(Box<Expr>),
    /// `if`, lazy.
    If(Box<Expr>, Box<Expr>, Box<Expr>),
    /// A reduction.
    Reduce(Box<Reduce>),
    /// The arguments of an aggregation over records, as the whole body of its reduction.
    Tuple(Vec<Expr>),
    /// In the definition of an aggregation over records: an argument or component, by number.
    Arg(usize),
}

impl Expr {
    /// Direct sub-expressions, those in accesses included.
    pub fn children(&self) -> Vec<&Expr> {
        match &self.kind {
            ExprKind::Call(_, args) | ExprKind::Tuple(args) => args.iter().collect(),
            ExprKind::Cast(e) => vec![e],
            ExprKind::If(c, a, b) => vec![c, a, b],
            ExprKind::Reduce(r) => r.filter.iter().chain([&r.body]).collect(),
            ExprKind::Read(r) => {
                let mut out = Vec::with_capacity(r.subs.len());
                for sub in &r.subs {
                    match sub {
                        Sub::Expr(e) => out.push(e),
                        Sub::Merged(..) => {}
                        Sub::Mixed(mixed) => out.extend(&mixed.members),
                    }
                }
                out
            }
            _ => Vec::new(),
        }
    }

    /// It and every expression in it, in the order in which they stand.
    pub fn nodes(&self) -> Vec<&Expr> {
        let (mut nodes, mut left) = (Vec::new(), vec![self]);
        while let Some(e) = left.pop() {
            nodes.push(e);
            left.extend(e.children().into_iter().rev());
        }
        nodes
    }

    /// The indices in it by themselves, and where they stand.
    pub fn indices(&self) -> Vec<(Span, IndexId)> {
        let index = |e: &Expr| match e.kind {
            ExprKind::Index(id) => Some((e.span, id)),
            _ => None,
        };
        self.nodes().into_iter().filter_map(index).collect()
    }

    /// Does its value depend on that of a tensor or host parameter?
    pub fn has_data(&self) -> bool {
        let is_data = |e: &&Expr| matches!(e.kind, ExprKind::Read(_) | ExprKind::Host(_));
        self.nodes().iter().any(is_data)
    }
}

/// A read access.
#[derive(Clone, Debug, PartialEq)]
pub struct Read {
    /// The tensor.
    pub place: Place,
    /// Where in it, one per axis.
    pub subs: Vec<Sub>,
    /// The value outside.
    pub otherwise: Option<Value>,
    /// In bounds only where an enclosing `if` or `where` holds.
    pub guarded: bool,
}

/// One position of an access.
#[derive(Clone, Debug, PartialEq)]
pub enum Sub {
    /// An integer expression.
    Expr(Expr),
    /// A merged axis, the last index running fastest.
    Merged(Vec<IndexId>, Span),
    /// A merged axis with arithmetic in a member.
    Mixed(Mixed),
}

/// A merged axis of which some members are no bare indices.
#[derive(Clone, Debug, PartialEq)]
pub struct Mixed {
    /// Positions in each member, the last one running fastest.
    pub members: Vec<Expr>,
    /// How many values each has.
    pub extents: Vec<Dim>,
    /// Where it stands.
    pub span: Span,
}

/// A reduction.
#[derive(Clone, Debug, PartialEq)]
pub struct Reduce {
    /// The aggregation.
    pub agg: Aggregation,
    /// The reduced indices.
    pub indices: Vec<IndexId>,
    /// `where …`
    pub filter: Option<Expr>,
    /// Element type of partial results; of an aggregation over records, that of its result.
    pub acc: DType,
    /// What is reduced.
    pub body: Expr,
}

/// What a reduction does.
#[derive(Clone, Debug, PartialEq)]
pub enum Aggregation {
    /// A row of the table.
    Row(Agg),
    /// An aggregation over records, and which of its results.
    Record(Arc<RecordAgg>, usize),
}

impl PartialEq<Agg> for Aggregation {
    fn eq(&self, other: &Agg) -> bool {
        matches!(self, Aggregation::Row(agg) if agg == other)
    }
}

impl fmt::Display for Aggregation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Aggregation::Row(agg) => write!(f, "{agg}"),
            Aggregation::Record(record, _) => f.write_str(&record.name),
        }
    }
}

/// An aggregation over records: a user's, or `softmax_sum`.
#[derive(Clone, Debug, PartialEq)]
pub struct RecordAgg {
    /// Its name.
    pub name: Arc<str>,
    /// Its arguments.
    pub args: Vec<(Arc<str>, DType)>,
    /// The components of its state.
    pub state: Vec<Component>,
    /// Its results, over the components.
    pub results: Vec<Expr>,
}

/// A component of a state.
#[derive(Clone, Debug, PartialEq)]
pub struct Component {
    /// Its name.
    pub name: Arc<str>,
    /// Its element type.
    pub dtype: DType,
    /// Its value for no element.
    pub identity: Value,
    /// Its value for one element, over the arguments.
    pub lift: Expr,
    /// Its value for two states, over their components: those of the second after those of the
    /// first.
    pub merge: Expr,
}
