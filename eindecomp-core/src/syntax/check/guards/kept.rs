//! Positions that a condition is about as it is written, and conditions that are right though no proof finds it.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::{BodyCx, Condition, Guards, Outside, unheld};
use crate::ein::Dim;
use crate::ein::dim::Atom;
use crate::syntax::ast::{BinaryOp, Expr, ExprKind, Sub};
use crate::syntax::check::prove::Facts;
use crate::syntax::check::walk::{mentions, named, reads_in};

/// Sizes from 1 up to this are tried.
pub(in crate::syntax::check) const LARGEST: i64 = 5;
/// More values than this of everything together are not tried.
const MOST_TRIED: usize = 4_000;

/// What small sizes say about a position.
#[derive(Clone, Copy, PartialEq)]
pub(in crate::syntax::check) enum Tried {
    /// Some lead outside.
    Outside,
    /// None does.
    Inside,
    /// They are too many, or do not say.
    Unknown,
}

impl<'e> Guards<'e> {
    /// Do small sizes lead outside under the conditions?
    pub(in crate::syntax::check) fn tried(&self, plain: &Facts, outside: &Outside<'_>) -> Tried {
        let mut given = plain.known().to_vec();
        for condition in &self.conditions {
            given.extend(self.bounds(condition.test, condition.holds));
        }
        let (at, extent) = (plain.normal(outside.at), plain.normal(outside.extent));
        let mut wanted: BTreeSet<Arc<str>> = at.symbols();
        wanted.extend(extent.symbols());
        // What is said of others has no part in it.
        while let Some(more) = given.iter().find_map(|d| {
            let symbols = d.symbols();
            let touches = !symbols.is_disjoint(&wanted) && !symbols.is_subset(&wanted);
            touches.then_some(symbols)
        }) {
            wanted.extend(more);
        }
        given.retain(|d| d.symbols().is_subset(&wanted));
        let symbols: Vec<Arc<str>> = wanted.into_iter().collect();
        let base = LARGEST as usize;
        let count = u32::try_from(symbols.len())
            .ok()
            .and_then(|n| base.checked_pow(n));
        let Some(count) = count.filter(|count| *count <= MOST_TRIED) else {
            return Tried::Unknown;
        };
        let mut seen = false;
        for nth in 0..count {
            let value = |name: &str| {
                let place = symbols.iter().position(|s| **s == *name)?;
                let digit = (nth / base.pow(place as u32) % base) as i64;
                // An index starts at 0.
                let index = self.indices.iter().any(|index| **index == *name);
                Some(if index { digit } else { digit + 1 })
            };
            let holds = |d: &Dim| d.eval(&value).is_ok_and(|v| v >= 0);
            if !given.iter().all(holds) {
                continue;
            }
            let (Ok(at), Ok(extent)) = (at.eval(&value), extent.eval(&value)) else {
                return Tried::Unknown;
            };
            if at < 0 || at >= extent {
                return Tried::Outside;
            }
            seen = true;
        }
        if seen { Tried::Inside } else { Tried::Unknown }
    }

    /// Is the position out of reach of the proofs, which are of sums?
    pub(in crate::syntax::check) fn is_hard(outside: &Outside<'_>) -> bool {
        let hard = |(monomial, _): (&[Atom], i64)| !matches!(monomial, [] | [Atom::Sym(_)]);
        outside.at.terms().any(hard)
    }

    /// The position that a condition keeps inside, of more indices than the one that leaves its axis, where another
    /// condition in its place would take away all use of an index, or what keeps another read of the tensor inside;
    /// none of the two where that is a read of another tensor.
    pub(in crate::syntax::check) fn kept(
        &self,
        cx: &BodyCx<'_>,
        plain: &Facts,
        (outside, tensor): (&Outside<'_>, &str),
    ) -> Option<Option<Dim>> {
        let value = cx.value()?;
        let mut facts = plain.clone();
        let conditions = self.conditions.iter();
        let bounds = conditions.flat_map(|c| self.bounds(c.test, c.holds));
        bounds.for_each(|bound| facts.assume_nonneg(&bound));
        let own = self.indices_of(outside.at);
        for test in self.conditions.iter().flat_map(Condition::parts) {
            let ExprKind::Binary(BinaryOp::Cmp(_), a, b) = &test.kind else {
                continue;
            };
            for meant in [a, b].into_iter().filter_map(|e| self.poly(e)) {
                let indices = self.indices_of(&meant);
                let about = indices.len() > own.len() && own.is_subset(&indices);
                if !about || !facts.inside(&meant, outside.extent) {
                    continue;
                }
                let mut others = indices.difference(&own);
                let reads = self.read_at(value, &meant);
                // With another index in place of a number, of what is read nowhere.
                let apart = self.indices_of(&(&meant - outside.at)).is_disjoint(&own);
                if others.any(|index| used_once(value, index, test))
                    || reads.iter().any(|t| t == tensor)
                    || reads.is_empty() && apart && outside.at.as_symbol().is_none()
                {
                    return Some(Some(meant));
                }
                if !reads.is_empty() {
                    return Some(None);
                }
            }
        }
        None
    }

    pub(super) fn indices_of(&self, d: &Dim) -> BTreeSet<Arc<str>> {
        let mut symbols = d.symbols();
        symbols.retain(|s| self.indices.contains(s));
        symbols
    }

    /// The tensors that an expression reads at this position.
    fn read_at(&self, value: &Expr, at: &Dim) -> Vec<String> {
        let mut reads = Vec::new();
        reads_in(value, &mut reads);
        let here = |sub: &Sub| matches!(sub, Sub::Expr(e) if self.poly(e).as_ref() == Some(at));
        let reads = reads.into_iter().filter(|(_, subs)| subs.iter().any(here));
        reads.map(|(place, _)| place.to_string()).collect()
    }
}

impl<'e> Condition<'e> {
    /// What it says, each for itself.
    fn parts(&self) -> Vec<&'e Expr> {
        match self.holds {
            true => super::conjuncts(unheld(self.test)),
            false => super::chained(unheld(self.test), BinaryOp::Or),
        }
    }
}

/// Does nothing but this condition name an index?
fn used_once(value: &Expr, index: &str, test: &Expr) -> bool {
    let (mut all, mut here) = (Vec::new(), Vec::new());
    named(value, index, &mut all);
    named(test, index, &mut here);
    mentions(test, &[index]) && all.len() == here.len()
}
