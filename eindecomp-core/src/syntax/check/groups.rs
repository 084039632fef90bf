//! Heads in groups: `H` of them read an axis of `K`, each the element of its group.

use super::body::BodyCx;
use super::extents::{Decl, Use};
use super::fixes::quotients_in;
use crate::ein::Dim;
use crate::syntax::ast::CmpOp;
use crate::syntax::diag::Fix;

/// `index / divisor` in place of an index.
pub(super) struct Grouped {
    pub(super) fix: Fix,
    /// The groups are known to be of one size.
    pub(super) exact: bool,
}

/// What the members of `whole` are divided by to give their group, one of `groups`; with the clause
/// that says so where it is not known that they are as large as each other.
pub(super) fn divisor(cx: &BodyCx<'_>, whole: &Dim, groups: &Dim) -> Option<(Dim, Option<Fix>)> {
    let zero = Dim::from(0);
    let remainder = cx.facts.normal(&whole.rem(groups));
    let clause = match cx.facts.holds(&remainder, CmpOp::Eq, &zero) {
        true => None,
        // A size that is a sum is hardly one of groups.
        false if whole.terms().count() > 1 => return None,
        false => Some(cx.add_clause(&remainder, CmpOp::Eq, &zero)?),
    };
    let size = cx.facts.normal(&whole.floor_div(groups));
    (size.as_const() != Some(1)).then_some((size, clause))
}

/// An index divided by the size of its group.
pub(super) fn quotient(index: &str, size: &Dim) -> String {
    format!("{index} / {}", factor(size))
}

/// An extent behind `/`, `%` or `*`.
pub(super) fn factor(extent: &Dim) -> String {
    match extent.as_symbol().is_some() || extent.as_const().is_some() {
        true => extent.to_string(),
        false => format!("({extent})"),
    }
}

/// The element of the group in place of an index over `whole`, in accesses of axes that are shorter:
/// for one that is no sum's, among others.
pub(super) fn grouped<'u>(
    cx: &BodyCx<'_>,
    decl: &Decl,
    whole: &Dim,
    odd: impl Iterator<Item = &'u Use>,
) -> Option<Grouped> {
    let odd: Vec<&Use> = odd.collect();
    let groups = &odd.first()?.extent;
    // Where each element stands for as many, as in up-sampling, any axis may be of groups.
    let mut parts = Vec::new();
    quotients_in(groups, &mut parts);
    let repeats = parts.is_empty()
        && cx.facts.holds(&whole.rem(groups), CmpOp::Eq, &Dim::from(0))
        && cx
            .facts
            .normal(&whole.floor_div(groups))
            .as_const()
            .is_some();
    let inner = |u: &Use| u.access.subs.len() > 2 && u.axis + 1 < u.access.subs.len();
    let sized = whole.as_symbol().is_some() && groups.as_symbol().is_some();
    let divides = sized && cx.facts.holds(&whole.rem(groups), CmpOp::Eq, &Dim::from(0));
    let fits = |u: &&Use| u.extent == *groups && (repeats || divides || inner(u));
    if decl.reduced || groups.as_const() == Some(1) || !odd.iter().all(fits) {
        return None;
    }
    let (size, clause) = divisor(cx, whole, groups)?;
    let text = quotient(&decl.name, &size);
    let shown: Vec<String> = (odd.iter())
        .map(|u| {
            let mut subs = u.access.subs.clone();
            subs[u.axis] = text.clone();
            format!("`{}[{}]`", u.access.place, subs.join(", "))
        })
        .collect();
    let fix = Fix {
        help: format!("did you mean {}?", shown.join(" and ")),
        edits: odd.iter().map(|u| (u.span, text.clone())).collect(),
    };
    let exact = clause.is_none();
    let fix = clause.into_iter().fold(fix, Fix::then);
    Some(Grouped { fix, exact })
}
