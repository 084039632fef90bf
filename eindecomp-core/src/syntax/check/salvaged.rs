//! What is right in a value with an error elsewhere: its reads stay in their axes all the same, and what is known of its
//! operands alone is told.

use super::body::BodyCx;
use super::expr::StmtCx;
use super::ranges;
use super::ranges::Accesses;
use super::tree::{Expr, ExprKind, Index, IndexId};
use super::walk::accessed;
use crate::ein::{DType, ScalarFn};
use crate::syntax::ast::{self, BinaryOp};
use crate::syntax::diag::Code;
use crate::syntax::token::Span;

impl StmtCx<'_, '_> {
    /// Keeps the parts of what is wrong as a whole, unless a condition says where they are evaluated.
    pub(super) fn keep(&mut self, parts: impl IntoIterator<Item = Expr>) {
        if self.guards.is_empty() && self.inline.is_empty() && self.definition.is_none() {
            self.kept.extend(parts);
        }
    }

    /// All of the parts, or `None` if one is wrong; the others are kept then.
    pub(super) fn all(&mut self, parts: Vec<Option<Expr>>) -> Option<Vec<Expr>> {
        if parts.iter().all(Option::is_some) {
            return parts.into_iter().collect();
        }
        self.keep(parts.into_iter().flatten());
        None
    }

    /// Reports what is wrong with a function of operands, one of which has an unbound index and nothing else that is
    /// wrong since error number `before`: their types are known.
    pub(super) fn of_types(
        &mut self,
        before: usize,
        function: ScalarFn,
        made: &[Option<Expr>; 2],
        texts: &[&ast::Expr; 2],
        span: Span,
    ) {
        let mut new = self.cx.errors[before..].iter();
        if !new.all(|error| error.code == Code::UnboundIndex) {
            return;
        }
        let known = made.iter().zip(texts);
        let types = known.map(|(made, text)| match made {
            Some(e) => Some(e.clone()),
            None => Some(Expr {
                // It is a number of this type, and nothing more is known.
                kind: ExprKind::Arg(0),
                dtype: self.type_said(text)?,
                span: text.span,
            }),
        });
        if let Some(types) = types.collect::<Option<Vec<Expr>>>() {
            let kept = self.kept.len();
            self.apply(function, types, texts, span);
            self.kept.truncate(kept);
        }
    }

    /// The element type of what reads tensors of one alone.
    fn type_said(&self, e: &ast::Expr) -> Option<DType> {
        if let Some((place, subs)) = accessed(e) {
            let ty = self.cx.type_of(place)?;
            return (ty.axes.len() == subs.len()).then_some(ty.dtype);
        }
        match &e.kind {
            ast::ExprKind::Paren(inner) => self.type_said(inner),
            ast::ExprKind::Binary(BinaryOp::Add | BinaryOp::Sub | BinaryOp::Mul, a, b) => {
                let (a, b) = (self.type_said(a)?, self.type_said(b)?);
                (a == b).then_some(a)
            }
            _ => None,
        }
    }
}

impl BodyCx<'_> {
    /// Reports the reads of kept parts that leave their axes.
    pub(super) fn prove_kept(&mut self, kept: Vec<Expr>, indices: &[Index], accesses: &Accesses) {
        let all = (0..indices.len()).map(|at| IndexId(at as u16));
        let all = [all.collect()];
        for mut part in kept {
            ranges::prove(self, indices, &all, &mut part, accesses, None);
        }
    }
}
