//! Expressions, as written.

use std::fmt;

use super::{CmpOp, Dtype, Ident, IndexDecl, Path};
use crate::syntax::token::Span;

/// An expression.
#[derive(Clone, Debug, PartialEq)]
pub struct Expr {
    /// What it is.
    pub kind: ExprKind,
    /// All of it.
    pub span: Span,
}

impl Expr {
    /// Direct sub-expressions, those in accesses included.
    pub fn children(&self) -> Vec<&Expr> {
        match &self.kind {
            ExprKind::Lit(_) | ExprKind::Name(_) => Vec::new(),
            ExprKind::Access { subs, .. } => {
                let mut out = Vec::with_capacity(subs.len());
                subs.iter().for_each(|sub| sub.collect(&mut out));
                out
            }
            ExprKind::Call { args, .. } | ExprKind::Tuple(args) => args.iter().collect(),
            ExprKind::Unary(_, a) | ExprKind::Cast(a, _) | ExprKind::Paren(a) => vec![a],
            ExprKind::Binary(_, a, b) => vec![a, b],
            ExprKind::If {
                cond,
                then,
                otherwise,
            } => [cond, then]
                .into_iter()
                .chain(otherwise)
                .map(|e| &**e)
                .collect(),
            ExprKind::Reduce(reduce) => {
                let filter = reduce.filter.iter();
                match &reduce.body {
                    ReduceBody::Product(body) => filter.chain([body]).collect(),
                    ReduceBody::Args(args) => filter.chain(args).collect(),
                }
            }
        }
    }

    /// [`Expr::children`], to be changed.
    pub(in crate::syntax) fn children_mut(&mut self) -> Vec<&mut Expr> {
        fn within<'e>(subs: &'e mut [Sub], out: &mut Vec<&'e mut Expr>) {
            for sub in subs {
                match sub {
                    Sub::Expr(e) => out.push(e),
                    Sub::Merged(parts, _) => within(parts, out),
                    Sub::Rest(_) => {}
                }
            }
        }
        match &mut self.kind {
            ExprKind::Lit(_) | ExprKind::Name(_) => Vec::new(),
            ExprKind::Access { subs, .. } => {
                let mut out = Vec::new();
                within(subs, &mut out);
                out
            }
            ExprKind::Call { args, .. } | ExprKind::Tuple(args) => args.iter_mut().collect(),
            ExprKind::Unary(_, a) | ExprKind::Cast(a, _) | ExprKind::Paren(a) => vec![a],
            ExprKind::Binary(_, a, b) => vec![a, b],
            ExprKind::If {
                cond,
                then,
                otherwise,
            } => {
                let all = [cond, then].into_iter().chain(otherwise);
                all.map(|e| &mut **e).collect()
            }
            ExprKind::Reduce(reduce) => {
                let filter = reduce.filter.iter_mut();
                match &mut reduce.body {
                    ReduceBody::Product(body) => filter.chain([body]).collect(),
                    ReduceBody::Args(args) => filter.chain(args).collect(),
                }
            }
        }
    }
}

/// What an expression is.
#[derive(Clone, Debug, PartialEq)]
pub enum ExprKind {
    /// A literal.
    Lit(Lit),
    /// A rank-0 tensor, index, dim, const, host value, or an argument: `x`, `l.w1`, `a::D`.
    Name(Place),
    /// `x[i, j]`, `l.w1[f, d]`, with its `else`.
    Access {
        /// What is read.
        place: Place,
        /// Where in it.
        subs: Vec<Sub>,
        /// The value outside.
        default: Option<Outside>,
    },
    /// `exp(x)`, `norm(x, g)`: a scalar function, or a block as the value of a `let`.
    Call {
        /// What is called.
        path: Path,
        /// Its arguments.
        args: Vec<Expr>,
    },
    /// `sum[k] …`
    Reduce(Box<Reduce>),
    /// `-a`, `!a`
    Unary(UnaryOp, Box<Expr>),
    /// `a + b`
    Binary(BinaryOp, Box<Expr>, Box<Expr>),
    /// `a as f16`
    Cast(Box<Expr>, Dtype),
    /// `(a)`
    Paren(Box<Expr>),
    /// `(a, b)`: an aggregation's arguments.
    Tuple(Vec<Expr>),
    /// `if c { a } else { b }`
    If {
        /// The condition.
        cond: Box<Expr>,
        /// The value where it holds.
        then: Box<Expr>,
        /// The value elsewhere; another `If` without braces for `else if`. Every right program has
        /// one.
        otherwise: Option<Box<Expr>>,
    },
}

/// A name with fields.
#[derive(Clone, Debug, PartialEq)]
pub struct Place {
    /// The name.
    pub path: Path,
    /// Fields of structs, outermost first.
    pub fields: Vec<Ident>,
    /// All of it.
    pub span: Span,
}

impl Place {
    /// The name, if it is a single identifier without fields.
    pub fn as_ident(&self) -> Option<&Ident> {
        if self.fields.is_empty() {
            self.path.as_ident()
        } else {
            None
        }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.path)?;
        self.fields
            .iter()
            .try_for_each(|field| write!(f, ".{field}"))
    }
}

/// One position of an access.
#[derive(Clone, Debug, PartialEq)]
pub enum Sub {
    /// An index expression; a tensor inside is a gather.
    Expr(Expr),
    /// `..l`
    Rest(Ident),
    /// `(h, e)`: a merged axis.
    Merged(Vec<Sub>, Span),
}

impl Sub {
    /// The expressions in it.
    pub(in crate::syntax) fn exprs(&self) -> Vec<&Expr> {
        let mut out = Vec::new();
        self.collect(&mut out);
        out
    }

    fn collect<'e>(&'e self, out: &mut Vec<&'e Expr>) {
        match self {
            Sub::Expr(e) => out.push(e),
            Sub::Rest(_) => {}
            Sub::Merged(parts, _) => parts.iter().for_each(|part| part.collect(out)),
        }
    }

    /// Its place.
    pub fn span(&self) -> Span {
        match self {
            Sub::Expr(expr) => expr.span,
            Sub::Rest(name) => name.span,
            Sub::Merged(_, span) => *span,
        }
    }
}

/// The value of an access outside its tensor: `else -1.0`.
#[derive(Clone, Debug, PartialEq)]
pub struct Outside {
    /// Whether a `-` stands before it.
    pub negative: bool,
    /// The magnitude: a number or `inf`.
    pub lit: Lit,
    /// Without the `else`.
    pub span: Span,
}

/// A reduction.
#[derive(Clone, Debug, PartialEq)]
pub struct Reduce {
    /// The aggregation; a built-in one or a user's.
    pub agg: Path,
    /// The reduced indices.
    pub indices: Vec<IndexDecl>,
    /// `where …`
    pub filter: Option<Expr>,
    /// `; f32`
    pub acc: Option<Dtype>,
    /// What is reduced.
    pub body: ReduceBody,
}

/// What a reduction reduces.
#[derive(Clone, Debug, PartialEq)]
pub enum ReduceBody {
    /// The product after a built-in aggregation.
    Product(Expr),
    /// The arguments of a user's aggregation.
    Args(Vec<Expr>),
}

/// A literal.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Lit {
    /// An integer.
    Int(u64),
    /// A float.
    Float(f64),
    /// `inf`
    Inf,
    /// `nan`
    Nan,
    /// `true`, `false`
    Bool(bool),
}

/// An operator before its operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UnaryOp {
    /// `-`
    Neg,
    /// `!`
    Not,
}

/// An operator between its operands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BinaryOp {
    /// `+`
    Add,
    /// `-`
    Sub,
    /// `*`
    Mul,
    /// `/`
    Div,
    /// `%`
    Rem,
    /// A comparison.
    Cmp(CmpOp),
    /// `&&`
    And,
    /// `||`
    Or,
}

impl BinaryOp {
    /// The operator as written.
    pub fn symbol(self) -> &'static str {
        match self {
            BinaryOp::Add => "+",
            BinaryOp::Sub => "-",
            BinaryOp::Mul => "*",
            BinaryOp::Div => "/",
            BinaryOp::Rem => "%",
            BinaryOp::Cmp(cmp) => cmp.symbol(),
            BinaryOp::And => "&&",
            BinaryOp::Or => "||",
        }
    }
}
