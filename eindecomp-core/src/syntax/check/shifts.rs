//! Positions that run over as many elements as the axis has, or over as many beside it: they are off
//! by a shift.

use std::sync::Arc;

use super::extents::Access;
use super::prove::Facts;
use super::ranges::{Walk, poly};
use crate::ein::Dim;
use crate::ein::dim::Atom;
use crate::syntax::ast::CmpOp;
use crate::syntax::diag::Fix;

/// A position and its axis.
pub(super) struct Range<'r> {
    pub(super) at: &'r Dim,
    pub(super) low: &'r Dim,
    pub(super) high: &'r Dim,
    pub(super) extent: &'r Dim,
}

impl Range<'_> {
    /// Is it outside for all values of its indices?
    pub(super) fn is_away(&self, facts: &Facts) -> bool {
        let zero = Dim::from(0);
        facts.holds(self.low, CmpOp::Ge, self.extent) || facts.holds(self.high, CmpOp::Lt, &zero)
    }
}

impl Walk<'_, '_> {
    /// The position that is meant, inside of the axis.
    pub(super) fn shifted(&self, range: &Range<'_>, facts: &Facts) -> Option<Dim> {
        let Range {
            at,
            low,
            high,
            extent,
        } = range;
        let one = Dim::from(1);
        let away = range.is_away(facts);
        let mut indices = self.active.iter().map(|id| &self.indices[id.at()].name);
        // The element before or behind is read on purpose.
        let offset = |name: &Arc<str>| (*at - &Dim::sym(name.clone())).as_const();
        let beside = indices.any(|name| offset(name).is_some_and(|n| n != 0));
        let length = &(*high - *low) + &one;
        let whole = facts.holds(&length, CmpOp::Eq, extent);
        // What passes over the first elements and leaves the axis behind the last ones.
        let behind = low.as_const().is_some_and(|n| n > 0);
        let first = ((whole || behind) && (away || !beside || low.as_const().is_none()))
            .then(|| *at - *low);
        // The wrong sign, or the part behind the last one.
        let opposite = || {
            let offset = self.free_part(at);
            &(*at - &offset) - &offset
        };
        let end = || {
            let behind = facts.holds(low, CmpOp::Ge, extent);
            match behind {
                true => *at - &(&(*high + &one) - *extent),
                false => *at - *low,
            }
        };
        // A number more behind an offset of sizes.
        let more = || {
            let offset = self.free_part(at);
            let number = offset.terms().find(|(monomial, _)| monomial.is_empty());
            let number = number.filter(|_| offset.as_const().is_none());
            number.map(|(_, n)| *at - &Dim::from(n))
        };
        let first = first.or_else(more);
        let beyond = away.then(|| [opposite(), end()]);
        let mut meant = self
            .repeated(range)
            .into_iter()
            .chain(first)
            .chain(beyond.into_iter().flatten());
        meant
            .find(|meant| meant != *at && facts.inside(meant, extent))
            .map(|meant| facts.normal(&meant))
    }

    /// Does another access of the statement read the tensor at this position in the axis?
    pub(super) fn is_read(&self, access: &Arc<Access>, axis: usize, at: &Dim) -> bool {
        let Some((uses, _)) = self.meant else {
            return false;
        };
        uses.shifted.iter().any(|s| {
            let beside = !Arc::ptr_eq(&s.access, access) && s.access.place == access.place;
            let mut pairs = s.access.subs.iter().zip(&access.subs).enumerate();
            let same = beside && s.axis == axis && pairs.all(|(nth, (a, b))| nth == axis || a == b);
            same && poly(&s.at, &self.names).as_ref() == Some(at)
        })
    }

    /// The position with one of its indices taken off instead of added, if it then is inside.
    pub(super) fn flipped(&self, at: &Dim, extent: &Dim, facts: &Facts) -> Option<Dim> {
        let mut indices = self.active.iter().map(|id| &self.indices[id.at()]);
        indices.find_map(|index| {
            let step = Dim::sym(index.name.clone());
            let flipped = &(at - &step) - &step;
            let number = index.extent.as_const().is_some() && at.symbols().contains(&index.name);
            (number && facts.inside(&flipped, extent)).then_some(flipped)
        })
    }

    /// `t / 2` for `2 * t`, where each element is read as often as the position is multiplied by.
    fn repeated(&self, range: &Range<'_>) -> Option<Dim> {
        let mut terms = range.at.terms();
        let ([Atom::Sym(name)], factor) = terms.next().filter(|_| terms.next().is_none())? else {
            return None;
        };
        let mut indices = self.active.iter().map(|id| &self.indices[id.at()]);
        let index = indices.find(|index| index.name == *name)?;
        let by = Dim::from(factor);
        let as_often = by.try_mul(range.extent)?;
        let often = factor > 1 && self.cx.facts.equal(&index.extent, &as_often);
        often.then(|| Dim::sym(name.clone()).floor_div(&by))
    }

    /// The clause by which the positions are no more than the axis has.
    pub(super) fn fills(&self, range: &Range<'_>) -> Option<Fix> {
        let length = &(range.high - range.low) + &Dim::from(1);
        self.cx.add_clause(range.extent, CmpOp::Ge, &length)
    }

    /// The terms without an index.
    pub(super) fn free_part(&self, at: &Dim) -> Dim {
        let zero = Dim::from(0);
        let gone = at.try_substitute(&|s| {
            let index = self.names.iter().any(|name| **name == *s);
            index.then(|| zero.clone())
        });
        gone.unwrap_or(zero)
    }
}
