//! Conditions that tell one position apart where all behind it, or before it, are meant.

use super::{Facts, Guards, Outside};
use crate::ein::Dim;
use crate::syntax::ast::{CmpOp, ExprKind};
use crate::syntax::diag::Fix;

impl Guards<'_> {
    /// `i < N` for an `i != N` around the access, and `i >= N` for an `i == N` that fails there: an end of the axis is
    /// told apart, and more stands behind it.
    pub(in crate::syntax::check) fn behind(
        &self,
        plain: &Facts,
        outside: &Outside<'_>,
    ) -> Option<Fix> {
        let mut known = plain.clone();
        let bounds = self.conditions.iter();
        let bounds = bounds.flat_map(|c| self.bounds(c.test, c.holds));
        bounds.for_each(|bound| known.assume_nonneg(&bound));
        let inside = |a: &Dim, cmp: CmpOp, b: &Dim| {
            let mut facts = known.clone();
            facts.assume(a, cmp, b);
            !known.refuted(a, cmp, b) && facts.inside(outside.at, outside.extent)
        };
        let conditions = self.conditions.iter().rev();
        let mut alone = conditions.filter(|condition| condition.reads.is_empty());
        alone.find_map(|condition| {
            let mut unequal = self.unequal(condition).into_iter();
            unequal.find_map(|(e, a, b)| {
                let ExprKind::Binary(_, left, right) = &e.kind else {
                    return None;
                };
                let said = |cmp: CmpOp| match condition.holds {
                    true => cmp.symbol(),
                    false => cmp.negated().symbol(),
                };
                let mut cmps = [CmpOp::Lt, CmpOp::Gt].into_iter();
                let text = match cmps.find(|cmp| inside(&a, *cmp, &b)) {
                    Some(cmp) => format!("{left} {} {right}", said(cmp)),
                    None => {
                        // A position so many behind the last one is told apart.
                        let end = outside.at - outside.extent;
                        let mut apart = [&a - &b, &b - &a].into_iter();
                        let behind = apart.any(|apart| (&apart - &end).as_const().is_some());
                        let ends = behind && inside(outside.at, CmpOp::Lt, outside.extent);
                        ends.then(|| {
                            let (text, extent) = (outside.text, outside.extent);
                            format!("{text} {} {extent}", said(CmpOp::Lt))
                        })?
                    }
                };
                Some(Fix::replace(e.span, text, "did you mean {}?"))
            })
        })
    }
}
