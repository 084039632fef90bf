//! Scalar expressions: the ⊗ of an EinSum, and the index expressions of its accesses.

use std::sync::Arc;

use super::{DType, Dim, LabelId, Reduce, ScalarFn, Value};

/// A scalar expression over the operands and indices of one EinSum.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Expr {
    /// The value of operand number n at its access.
    Operand(usize),
    /// A literal that is part of the plan key.
    Const(Value, DType),
    /// A numbered literal of the graph ([`crate::graph::EinGraph::slots`]) outside the plan key.
    Slot(u32, DType),
    /// The value of an index, i64.
    Index(LabelId),
    /// The value of an extent, i64.
    Dim(Dim),
    /// A scalar function.
    Call(ScalarFn, Vec<Expr>),
    /// Conversion as Rust's `as`.
    Cast(DType, Box<Expr>),
    /// `if`, lazy: the branch not taken reads nothing.
    If(Box<Expr>, Box<Expr>, Box<Expr>),
    /// The arguments of a record aggregation, as the whole body of what it reduces.
    Tuple(Vec<Expr>),
    /// A reduction inside an argument of a record aggregation, over labels of its own.
    Fold(Box<Fold>),
    /// A whole body: the result of an opaque kernel on the operands.
    Opaque(Opaque),
}

/// An [`Expr::Fold`].
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Fold {
    /// The ⊕.
    pub reduce: Reduce,
    /// What it reduces.
    pub body: Expr,
}

/// An opaque kernel with its join-agg spec, which is all that planning knows of it: it may be run
/// on tiles of the labels in `splits`; every other label stays whole.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Opaque {
    /// The kernel's name.
    pub kernel: Arc<str>,
    /// Which of its results this is, from 0.
    pub result: u16,
    /// The labels that may be split, in canonical label order.
    pub splits: Vec<LabelId>,
    /// Element type of the result.
    pub dtype: DType,
}

impl Expr {
    /// `self * other` and its like.
    pub fn call(f: ScalarFn, args: impl Into<Vec<Expr>>) -> Expr {
        Expr::Call(f, args.into())
    }

    /// An i64 literal.
    pub fn int(v: i64) -> Expr {
        Expr::Const(Value::Int(v), DType::I64)
    }

    /// Direct sub-expressions.
    pub fn children(&self) -> Vec<&Expr> {
        let mut all = Vec::new();
        self.each_child(&mut |child| all.push(child));
        all
    }

    fn each_child<'a>(&'a self, f: &mut dyn FnMut(&'a Expr)) {
        match self {
            Expr::Call(_, args) | Expr::Tuple(args) => args.iter().for_each(f),
            Expr::Cast(_, e) => f(e),
            Expr::If(c, a, b) => [c, a, b].into_iter().for_each(|e| f(e)),
            Expr::Fold(fold) => fold.reduce.filter.iter().chain([&fold.body]).for_each(f),
            _ => {}
        }
    }

    /// Calls `f` on this expression and everything below it, parents first.
    pub fn visit<'a>(&'a self, f: &mut dyn FnMut(&'a Expr)) {
        f(self);
        self.each_child(&mut |child| child.visit(f));
    }

    /// The expression rebuilt bottom-up: `f` may replace each node after its children.
    pub fn map(self, f: &mut dyn FnMut(Expr) -> Expr) -> Expr {
        let inner = match self {
            Expr::Call(s, args) => Expr::Call(s, args.into_iter().map(|a| a.map(f)).collect()),
            Expr::Cast(d, e) => Expr::Cast(d, Box::new(e.map(f))),
            Expr::If(c, a, b) => {
                Expr::If(Box::new(c.map(f)), Box::new(a.map(f)), Box::new(b.map(f)))
            }
            Expr::Tuple(items) => Expr::Tuple(items.into_iter().map(|a| a.map(f)).collect()),
            Expr::Fold(mut fold) => {
                fold.reduce.filter = fold.reduce.filter.map(|e| e.map(f));
                fold.body = fold.body.map(f);
                Expr::Fold(fold)
            }
            leaf => leaf,
        };
        f(inner)
    }

    /// Each symbol of its dims replaced by what `of` gives for it.
    pub fn substitute(self, of: &dyn Fn(&str) -> Option<Dim>) -> Expr {
        self.map(&mut |e| match e {
            Expr::Dim(d) => Expr::Dim(d.substitute(of)),
            other => other,
        })
    }

    /// Is there a dim in it that is no number?
    pub fn is_symbolic(&self) -> bool {
        let mut found = false;
        self.visit(&mut |e| found |= matches!(e, Expr::Dim(d) if d.as_const().is_none()));
        found
    }

    /// The element type, given the operands'. `None` if some function does not fit its arguments.
    pub fn dtype(&self, operands: &dyn Fn(usize) -> Option<DType>) -> Option<DType> {
        match self {
            Expr::Operand(n) => operands(*n),
            Expr::Const(_, d) | Expr::Slot(_, d) => Some(*d),
            Expr::Index(_) | Expr::Dim(_) => Some(DType::I64),
            Expr::Opaque(o) => Some(o.dtype),
            Expr::Cast(d, e) => e.dtype(operands).map(|_| *d),
            Expr::Call(f, args) => {
                let args: Option<Vec<_>> = args.iter().map(|a| a.dtype(operands)).collect();
                f.result_dtype(&args?)
            }
            Expr::If(c, a, b) => {
                let (c, a, b) = (c.dtype(operands)?, a.dtype(operands)?, b.dtype(operands)?);
                (c == DType::Bool).then_some(())?;
                a.common(b)
            }
            Expr::Tuple(_) => None,
            Expr::Fold(f) => {
                let fits = f
                    .reduce
                    .filter
                    .iter()
                    .all(|p| p.dtype(operands) == Some(DType::Bool));
                f.reduce.result(&f.body, operands).filter(|_| fits)
            }
        }
    }

    /// The arguments of a record aggregation; any other body is its own only one.
    pub fn arguments(&self) -> &[Expr] {
        match self {
            Expr::Tuple(items) => items,
            other => std::slice::from_ref(other),
        }
    }
}
