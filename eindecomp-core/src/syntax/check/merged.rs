//! Merged reads against their axes: the members' extents multiply to the axis.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::body::BodyCx;
use super::dims::too_long;
use super::extents::{MergedUse, Use};
use super::fixes::exchanged;
use super::prove::Equality;
use super::tree::{Index, IndexId};
use crate::ein::Dim;
use crate::syntax::diag::{Code, Diag, Fix};

/// The product of the members is the axis.
pub(super) fn check_merged(
    cx: &mut BodyCx<'_>,
    read: &MergedUse,
    indices: &[Index],
    bare: &[Use],
    wanted: &BTreeMap<IndexId, Dim>,
) {
    let members = read.members.iter().map(|m| &indices[m.at()].extent);
    let Some(product) = Dim::try_product(members) else {
        cx.errors.push(too_long(read.span));
        return;
    };
    let names: Vec<&str> = read
        .members
        .iter()
        .map(|m| &*indices[m.at()].name)
        .collect();
    let names = names.join(", ");
    let what = format!("`({names})` covers its axis");
    let axis = &read.axis;
    let fewer = fewer_members(cx, read, indices);
    let differ = || {
        let text = format!(
            "merged axis `({names})` is {product}, but its axis in `{}` is {axis}",
            read.access
        );
        let help = format!("the ranges of `({names})` multiply to {axis}");
        let diag = Diag::new(Code::ExtentMismatch, read.span, text);
        match fewer.clone() {
            Some(fix) => diag.fix(fix),
            None => diag.help(help),
        }
    };
    let diag = match cx.equal(&product, axis, &what, differ) {
        Equality::Equal => return,
        Equality::Differ => differ(),
        Equality::Unknown => {
            let text = format!(
                "cannot prove `{product}` == `{axis}`: `({names})` is the first, its axis in `{}` the second",
                read.access
            );
            let fix = member_elsewhere(cx, read, indices, bare, wanted);
            let fix = fix.or(fewer).or_else(|| cx.equal_clause(&product, axis));
            Diag::new(Code::UnprovenExtent, read.span, text).fixes(fix)
        }
    };
    cx.errors.push(diag);
}

/// Some members alone, if only these are as many as the axis has.
fn fewer_members(cx: &BodyCx<'_>, read: &MergedUse, indices: &[Index]) -> Option<Fix> {
    let _helping = cx.facts.helping();
    let count = read.members.len();
    let parts = (1..count).flat_map(|n| read.members.windows(n));
    let mut fitting = parts.filter(|members| {
        let extents = members.iter().map(|m| &indices[m.at()].extent);
        Dim::try_product(extents).is_some_and(|product| cx.facts.equal(&product, &read.axis))
    });
    let (only, None) = (fitting.next()?, fitting.next()) else {
        return None;
    };
    let names = |members: &[IndexId]| -> String {
        let names: Vec<&str> = members.iter().map(|m| &*indices[m.at()].name).collect();
        match names[..] {
            [one] => one.to_owned(),
            _ => format!("({})", names.join(", ")),
        }
    };
    let group = names(&read.members);
    let mut subs = read.access.subs.clone();
    let at = subs.iter().position(|sub| *sub == group)?;
    subs[at] = names(only);
    let help = format!("did you mean `{}[{}]`?", read.access.place, subs.join(", "));
    Some(Fix::replace(read.span, subs[at].clone(), &help))
}

/// A member of a merged axis and another index in each other's place where the member is read alone, if the members then
/// are as many as the axis has, and the other index runs over what the result is declared with.
fn member_elsewhere(
    cx: &BodyCx<'_>,
    read: &MergedUse,
    indices: &[Index],
    bare: &[Use],
    wanted: &BTreeMap<IndexId, Dim>,
) -> Option<Fix> {
    let alone = |id: IndexId| bare.iter().filter(|u| u.index == id).count() == 1;
    let pairs = bare.iter().flat_map(|u| bare.iter().map(move |v| (u, v)));
    let mut pairs = pairs.filter(|(u, v)| {
        let here = Arc::ptr_eq(&u.access, &v.access) && u.axis != v.axis;
        let members = read.members.iter().map(|m| match *m == u.index {
            true => &v.extent,
            false => &indices[m.at()].extent,
        });
        let product = Dim::try_product(members);
        here && read.members.contains(&u.index)
            && !read.members.contains(&v.index)
            && alone(u.index)
            && alone(v.index)
            && product.is_some_and(|product| cx.facts.equal(&product, &read.axis))
            && wanted
                .get(&v.index)
                .is_none_or(|wanted| cx.facts.equal(wanted, &u.extent))
    });
    let (u, v) = pairs.next()?;
    let places = [(u.axis, u.span), (v.axis, v.span)];
    let (shown, edits) = exchanged(&u.access.place, &u.access.subs, places);
    let help = format!("did you mean {shown}?");
    Some(Fix { help, edits })
}
