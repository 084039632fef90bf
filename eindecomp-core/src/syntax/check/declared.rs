//! Declared types against those that are found.

use super::body::BodyCx;
use super::prove::Equality;
use super::tree::{Type, listed};
use super::types::resolve;
use crate::ein::Dim;
use crate::syntax::ast::RType;
use crate::syntax::diag::{Code, Diag};
use crate::syntax::token::Span;

impl BodyCx<'_> {
    /// An annotation as types.
    pub(super) fn annotation(&mut self, ty: &RType) -> Option<Vec<Type>> {
        let types: Vec<Option<Type>> = ty
            .types
            .iter()
            .map(|t| resolve(t, &mut self.dims, self.items.declared, &mut self.errors))
            .collect();
        types.into_iter().collect()
    }

    /// Reports a declared type that is not the one found; `place` is where that stands.
    pub(super) fn same_types(
        &mut self,
        declared: &[Type],
        found: &[Type],
        span: Span,
        code: Code,
        place: Option<(Span, &str)>,
    ) -> Option<()> {
        let show = |types: &[Type]| match types {
            [one] => format!("`{one}`"),
            many => format!("`({})`", listed(many)),
        };
        let text = format!(
            "{} is declared, but the value is {}",
            show(declared),
            show(found)
        );
        let mut diag = Diag::new(code, span, text);
        if let Some((place, note)) = place {
            diag = diag.secondary(place, note);
        }
        let equal = declared.len() == found.len()
            && declared
                .iter()
                .zip(found)
                .all(|(a, b)| self.same_type(a, b, &diag));
        if !equal {
            let declare = self.declare(found, span);
            self.errors.push(diag.fixes(declare));
        }
        equal.then_some(())
    }

    /// Equal element types and provably equal extents? `diag` is the error if they are not, should
    /// that depend on consts.
    pub(super) fn same_type(&mut self, a: &Type, b: &Type, diag: &Diag) -> bool {
        let mut dims = |a: &Dim, b: &Dim| {
            let answer = self.equal(a, b, "the extents of one axis", || diag.clone());
            matches!(answer, Equality::Equal)
        };
        match (a, b) {
            (Type::Tensor(a), Type::Tensor(b)) => {
                a.dtype == b.dtype
                    && a.axes.len() == b.axes.len()
                    && a.axes.iter().zip(&b.axes).all(|(a, b)| dims(a, b))
            }
            (Type::Struct(a), Type::Struct(b)) => {
                a.name == b.name && a.args.iter().zip(&b.args).all(|(a, b)| dims(a, b))
            }
            (Type::Array(a, n), Type::Array(b, m)) => dims(n, m) && self.same_type(a, b, diag),
            _ => false,
        }
    }
}
