//! Extents as written.

use super::{Ident, Path};
use crate::syntax::token::Span;

/// An extent.
#[derive(Clone, Debug, PartialEq)]
pub struct Dim {
    /// What it is.
    pub kind: DimKind,
    /// All of it.
    pub span: Span,
}

impl Dim {
    /// The names in it that are no longer paths.
    pub(in crate::syntax) fn names(&self) -> Vec<&Ident> {
        match &self.kind {
            DimKind::Name(path) => path.as_ident().into_iter().collect(),
            DimKind::Int(_) | DimKind::Rest(_) => Vec::new(),
            DimKind::Neg(inner) | DimKind::Paren(inner) => inner.names(),
            DimKind::Binary(_, a, b) => [a.names(), b.names()].concat(),
        }
    }
}

/// What an extent is.
#[derive(Clone, Debug, PartialEq)]
pub enum DimKind {
    /// An integer.
    Int(u64),
    /// A declared dim or a Rust const.
    Name(Path),
    /// `..L`
    Rest(Ident),
    /// `-a`
    Neg(Box<Dim>),
    /// `a + b`
    Binary(DimOp, Box<Dim>, Box<Dim>),
    /// `(a)`
    Paren(Box<Dim>),
}

/// Integer arithmetic on extents; division and remainder are Euclidean.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DimOp {
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
}

impl DimOp {
    /// The operator as written.
    pub fn symbol(self) -> &'static str {
        match self {
            DimOp::Add => "+",
            DimOp::Sub => "-",
            DimOp::Mul => "*",
            DimOp::Div => "/",
            DimOp::Rem => "%",
        }
    }
}
