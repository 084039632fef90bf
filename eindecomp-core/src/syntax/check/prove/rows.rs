//! Indices that count rows and columns at once: of `p` in `A * B`, `p / B` is below `A` and `p % B` below `B`.

use std::sync::Arc;

use super::{Facts, split};
use crate::ein::Dim;
use crate::ein::dim::Atom;
use crate::syntax::ast::CmpOp;

impl Facts {
    /// The facts and a goal with each such index as `row * B + column`; `None` if the goal has none.
    pub(super) fn by_rows(&self, goal: &Dim) -> Option<(Facts, Dim)> {
        let mut facts = self.clone();
        let atoms = goal.terms().flat_map(|(monomial, _)| monomial);
        for (index, by) in atoms.filter_map(divided) {
            if facts.value(index).is_some()
                || by.as_const().is_some()
                || by.symbols().contains(index)
            {
                continue;
            }
            let mut bounds = self.bounds(index, false).into_iter();
            let found = bounds.find_map(|last| {
                let (rows, rest) = split(&(&last + &Dim::from(1)), by);
                (rest.as_const() == Some(0)).then_some((last, rows))
            });
            let Some((last, rows)) = found else { continue };
            // no index has such a name
            let row = Dim::sym(format!("{index} / {by}"));
            let column = Dim::sym(format!("{index} % {by}"));
            let place = &(&row * by) + &column;
            // that the index is below its extent follows from the two, which are searched sooner
            let known = &last - &place;
            facts.define(index.clone(), place);
            facts.change().nonneg.retain(|fact| *fact != known);
            facts.assume(&row, CmpOp::Lt, &rows);
            facts.assume(&column, CmpOp::Lt, by);
        }
        let by_rows = facts.normal(goal);
        (by_rows != *goal).then_some((facts, by_rows))
    }
}

/// A symbol that is divided, and by what.
fn divided(atom: &Atom) -> Option<(&Arc<str>, &Dim)> {
    match atom {
        Atom::Div(a, b) | Atom::Rem(a, b) => Some((a.as_symbol()?, b)),
        Atom::Sym(_) => None,
    }
}
