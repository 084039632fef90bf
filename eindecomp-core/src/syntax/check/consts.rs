//! Rust consts in values: they are cast with what they count together with.

use super::dims::is_const;
use super::dtype::cast;
use super::expr::StmtCx;
use crate::ein::DType;
use crate::syntax::ast::{BinaryOp, Expr, ExprKind, Lit, UnaryOp};
use crate::syntax::diag::Code;
use crate::syntax::token::Span;

impl StmtCx<'_, '_> {
    /// Says of errors since number `before` about consts without a cast that the arithmetic around
    /// is cast, as far as it counts in integers.
    pub(super) fn mend_consts(&mut self, before: usize, value: &Expr) {
        for at in before..self.cx.errors.len() {
            let error = &self.cx.errors[at];
            let casts = |text: &str| text.starts_with(" as ");
            let cast_alone =
                matches!(&error.fixes[..], [fix] if fix.edits.iter().all(|(_, text)| casts(text)));
            if error.code != Code::DimValue || !cast_alone {
                continue;
            }
            let around = self.counting(value, error.primary);
            if let Some(around) = around.filter(|around| around.span != error.primary) {
                self.cx.errors[at].fixes = vec![cast(around, DType::F32)];
            }
        }
    }

    /// The largest expression around `place` that counts.
    fn counting<'e>(&self, e: &'e Expr, place: Span) -> Option<&'e Expr> {
        if !e.span.contains(place) {
            return None;
        }
        if self.counts_in(e) {
            return Some(e);
        }
        let children = e.children().into_iter();
        children.rev().find_map(|e| self.counting(e, place))
    }

    /// Is it arithmetic of indices, dims, consts and integers?
    fn counts_in(&self, e: &Expr) -> bool {
        match &e.kind {
            ExprKind::Lit(Lit::Int(_)) => true,
            ExprKind::Name(name) => {
                let index = |name: &str| self.visible_index(name).is_some();
                let dim = || self.cx.dims.known(&name.path).is_some() || is_const(&name.path);
                let hidden = |name: &str| self.cx.lookup(name).is_some();
                let ident = name.as_ident().map(|name| name.as_str());
                let counts = ident.is_some_and(index) || !ident.is_some_and(hidden) && dim();
                name.fields.is_empty() && counts
            }
            ExprKind::Paren(inner) | ExprKind::Unary(UnaryOp::Neg, inner) => self.counts_in(inner),
            ExprKind::Binary(op, a, b) => {
                let arithmetic = !matches!(op, BinaryOp::Cmp(_) | BinaryOp::And | BinaryOp::Or);
                arithmetic && self.counts_in(a) && self.counts_in(b)
            }
            _ => false,
        }
    }
}
