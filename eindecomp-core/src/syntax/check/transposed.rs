//! A tensor read with a merged axis and another one in each other's place.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use super::body::BodyCx;
use super::extents::{Decl, Uses};
use super::meant::Reading;
use super::prove::Equality;
use super::tree::IndexId;
use crate::ein::Dim;
use crate::syntax::diag::{Code, Diag, Fix};

/// Reports the merged axes that belong in another's place, by what is said elsewhere of the indices
/// of both. Returns the uses as they are meant.
pub(super) fn turn<'u>(
    cx: &mut BodyCx<'_>,
    decls: &[Decl],
    uses: &'u Uses,
    wanted: &BTreeMap<IndexId, Dim>,
) -> Cow<'u, Uses> {
    let mut turned = Cow::Borrowed(uses);
    for at in 0..uses.merged.len() {
        let facts = cx.facts.clone();
        let reading = Reading {
            facts: &facts,
            decls,
            all: uses,
            bare: Cow::Borrowed(&turned.bare),
            wanted,
        };
        let Some((other, diag)) = misplaced(&reading, at) else {
            continue;
        };
        cx.errors.push(diag);
        let turned = turned.to_mut();
        std::mem::swap(&mut turned.merged[at].axis, &mut turned.bare[other].extent);
    }
    turned
}

/// The bare use that is in the place of merged axis `at`, and the error.
fn misplaced(reading: &Reading<'_, '_>, at: usize) -> Option<(usize, Diag)> {
    let merged = &reading.all.merged[at];
    let elsewhere = |index: IndexId| {
        let uses = reading.uses(index).into_iter();
        let uses = uses.map(|at| &reading.bare[at]);
        let mut uses = uses.filter(|u| !Arc::ptr_eq(&u.access, &merged.access));
        let used = uses.next().map(|u| &u.extent);
        used.or_else(|| reading.declared(index)).cloned()
    };
    let members: Option<Vec<Dim>> = merged.members.iter().map(|m| elsewhere(*m)).collect();
    let product = members.and_then(|members| Dim::try_product(members.iter()));
    let equal = |a: &Dim, b: &Dim| reading.equal(a, b);
    let other = (0..reading.bare.len()).find(|&at| {
        let u = &reading.bare[at];
        let own = elsewhere(u.index);
        let wrong = own.as_ref().is_some_and(|own| !equal(own, &u.extent))
            || (product.as_ref()).is_some_and(|product| !equal(product, &merged.axis));
        let right = own.as_ref().is_none_or(|own| equal(own, &merged.axis))
            && (product.as_ref()).is_none_or(|product| equal(product, &u.extent));
        Arc::ptr_eq(&u.access, &merged.access) && wrong && right
    })?;
    let u = &reading.bare[other];
    let names = merged.members.iter().map(|m| &*reading.decls[m.at()].name);
    let group = format!("({})", names.collect::<Vec<_>>().join(", "));
    let mut subs = u.access.subs.clone();
    let place = subs.iter().position(|sub| *sub == group)?;
    subs.swap(place, u.axis);
    let (access, axis) = (&u.access, &merged.axis);
    let index = &reading.decls[u.index.at()].name;
    let (found, needed, what) = match &product {
        Some(product) => (product.clone(), axis, &group),
        None => (elsewhere(u.index)?, &u.extent, &index.to_string()),
    };
    let (code, text) = match reading.facts.equality(&found, needed) {
        Equality::Unknown => (
            Code::UnprovenExtent,
            format!(
                "cannot prove `{found}` == `{needed}`: `{what}` is the first, its axis in `{access}` the second"
            ),
        ),
        _ => (
            Code::ExtentMismatch,
            format!("`{what}` is {found}, but its axis in `{access}` is {needed}"),
        ),
    };
    let span = if product.is_some() {
        merged.span
    } else {
        u.span
    };
    let help = format!("did you mean `{}[{}]`?", access.place, subs.join(", "));
    let fix = Fix::replace(merged.span, index.to_string(), &help).and(u.span, group);
    Some((other, Diag::new(code, span, text).fix(fix)))
}
