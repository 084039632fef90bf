//! What to do where the uses of an index disagree, and no other index is meant.

use std::sync::Arc;

use super::body::BodyCx;
use super::conflicts::Place;
use super::extents::{Decl, Shifted, Use, Uses};
use super::fixes::{quotients_in, range};
use super::groups::grouped;
use super::guards::Guards;
use super::meant::Reading;
use super::parts::{off_by, part};
use super::prove::Equality;
use super::ranges::{index_facts, poly};
use super::renamed::exchanged_names;
use super::tree::IndexId;
use super::unequal::{DIFFERENT, beginning, declared_instead, looked_up, members};
use crate::ein::Dim;
use crate::ein::dim::Atom;
use crate::syntax::ast::{self, CmpOp};
use crate::syntax::diag::{Diag, Fix};
use crate::syntax::token::Span;

/// Adds to an error about an index how its uses agree where no other index is meant.
pub(super) fn other_help(
    cx: &BodyCx<'_>,
    reading: &Reading<'_, '_>,
    (index, odd): (IndexId, &[usize]),
    (known, wrong): (&Place, &Place),
    diag: Diag,
) -> Diag {
    let _helping = cx.facts.helping();
    let decl = &reading.decls[index.at()];
    let (name, a, b) = (&decl.name, &known.extent, &wrong.extent);
    if let Some(at) = stored(reading.all, known, wrong) {
        if let Some(fix) = cx
            .offset(at, name)
            .or_else(|| only_fitting(cx, reading, odd))
        {
            return diag.fix(fix);
        }
        // One axis of a store is stored into in part, hardly two.
        if !cx.stores_in_part() {
            return diag.help(format!(
                "to store a part, say where: `pos + {name}`, with a parameter `pos: i64`"
            ));
        }
    }
    if let Some(fix) = only_one(known, wrong) {
        return diag.fix(fix);
    }
    if let Some(fix) = in_branches(cx, reading, index, (known, wrong)) {
        return diag.fix(fix);
    }
    let padded = wrong.access.as_ref().is_none_or(|access| access.padded);
    if let (None, false, Some(help)) = (&decl.extent, padded, repeated(name, a, b)) {
        return diag.help(help);
    }
    let uses: Vec<&Use> = reading
        .uses(index)
        .into_iter()
        .map(|at| &reading.bare[at])
        .collect();
    let odd_places = odd;
    // An axis of groups has no index of its own.
    let alone = |u: &Use| !reading.equal(&u.extent, b) || u.index == index;
    let group = reading.bare.iter().all(alone);
    let odd = || odd.iter().map(|at| &reading.bare[*at]);
    let group = group.then(|| grouped(cx, decl, a, odd())).flatten();
    if let Some(fix) = group.as_ref().filter(|group| group.exact) {
        return diag.fix(fix.fix.clone());
    }
    if let Some(fix) = kept_inside(cx, reading, decl, (a, odd().collect())) {
        return diag.fix(fix);
    }
    if let Some(help) = group_of(decl, wrong) {
        return diag.help(help);
    }
    if let Some(help) = interior(reading, index) {
        return diag.help(help);
    }
    let part = part(cx, decl, &uses, reading.wanted.get(&index));
    // What is written at the index is meant, unless the result is declared so too.
    let declared = || cx.axis_of(decl.span);
    let given = decl.extent.is_none() || declared().is_some_and(|d| reading.equal(d.extent, a));
    let off = given.then(|| {
        let mut odd = odd();
        let (only, none) = (odd.next()?, odd.next());
        none.is_none().then(|| off_by(cx, only, a))?
    });
    if let Some(fix) = off.flatten() {
        return diag.fix(fix).fixes(part).help(DIFFERENT);
    }
    if matches!(cx.facts.equality(a, b), Equality::Differ) || part.is_some() {
        return diag.fixes(part).help(DIFFERENT);
    }
    let all: Vec<&Use> = odd().collect();
    let fix = exchanged_names(cx, reading, index, odd().collect())
        .or_else(|| looked_up(cx, (a, &all)))
        .or_else(|| beginning(cx, reading, index, (known, wrong)))
        .or_else(|| members(reading, index, wrong))
        .or_else(|| group.map(|group| group.fix))
        .or_else(|| declared_instead(cx, reading, index, (a, b), odd().collect()))
        .or_else(|| cx.equal_clause(a, b))
        .or_else(|| only_fitting(cx, reading, odd_places));
    match fix {
        Some(fix) => diag.fix(fix),
        None => diag.help(cx.two_sizes(a, b, "another axis")),
    }
}

/// What to do where an index that reads part of an axis by itself stands in positions before that part too.
fn interior(reading: &Reading<'_, '_>, index: IndexId) -> Option<String> {
    let decl = &reading.decls[index.at()];
    let (own, _) = decl.extent.as_ref()?;
    let names: Vec<Arc<str>> = reading.decls.iter().map(|d| d.name.clone()).collect();
    let step = Dim::sym(decl.name.clone());
    let before = |s: &Shifted| {
        let offset = &poly(&s.at, &names)? - &step;
        let n = offset.as_const().filter(|n| *n < 0 && !s.guarded)?;
        let short = reading.facts.holds(own, CmpOp::Lt, &s.extent);
        short.then_some(-n)
    };
    let first = reading.all.shifted.iter().filter_map(before).max()?;
    let name = &decl.name;
    Some(format!(
        "if the result is the interior, count from there: `{name} + {first}` for `{name}` in every read"
    ))
}

/// The access of the one use that disagrees, of the only other tensor that it fits.
fn only_fitting(cx: &BodyCx<'_>, reading: &Reading<'_, '_>, odd: &[usize]) -> Option<Fix> {
    let [only] = odd[..] else { return None };
    let access = &reading.bare[only].access;
    if access.subs.len() < 2 {
        return None;
    }
    let mut found = cx.tensors().filter_map(|(name, ty)| {
        let mut reads = reading.bare.iter();
        let beside = reads.any(|u| u.access.place == name);
        let other = ty.dtype == access.dtype && !beside;
        other.then(|| reading.of_another(only, name, &ty.axes))?
    });
    let (first, none) = (found.next(), found.next());
    first.filter(|_| none.is_none()).map(|meant| meant.fix)
}

/// The range of the declared result where conditions keep each use of an index in a part of it; the second of
/// two parts, one behind the other, starts where the first ends.
fn in_branches(
    cx: &BodyCx<'_>,
    reading: &Reading<'_, '_>,
    index: IndexId,
    (known, wrong): (&Place, &Place),
) -> Option<Fix> {
    let (decl, wanted) = (&reading.decls[index.at()], reading.wanted.get(&index)?);
    let mut uses = reading.bare.iter().filter(|u| u.index == index);
    if decl.extent.is_some() || uses.any(|u| !u.weak) {
        return None;
    }
    let fix = range(&decl.name, decl.span, &wanted.to_string());
    let (a, b) = (&known.extent, &wrong.extent);
    if !reading.equal(wanted, &(a + b)) {
        return Some(fix);
    }
    let ast::ExprKind::If { cond, .. } = &cx.value()?.kind else {
        return None;
    };
    let first = cond.to_string() == format!("{} < {a}", decl.name);
    let mut subs = wrong.access.as_ref()?.subs.clone();
    let at = subs.iter().position(|sub| *sub == *decl.name)?;
    subs[at] = match a.terms().count() {
        1 => format!("{} - {a}", decl.name),
        _ => format!("{} - ({a})", decl.name),
    };
    let place = &wrong.access.as_ref()?.place;
    let help = format!("{}, and read `{place}[{}]`", fix.help, subs.join(", "));
    let fix = Fix { help, ..fix };
    first.then(|| fix.and(wrong.span, subs[at].clone()))
}

/// How a table of a part of an axis is read by the index of the axis.
fn repeated(name: &str, whole: &Dim, part: &Dim) -> Option<String> {
    let mut quotients = Vec::new();
    quotients_in(part, &mut quotients);
    let mut ways = quotients.into_iter();
    let (_, by) = ways.find(|(a, by)| a == whole && a.floor_div(by) == *part)?;
    by.as_const()?;
    Some(format!(
        "read it at `{name} / {by}` where {by} neighbours share an element, at `{name} % ({part})` where it is \
         repeated, under `where {} == 0`",
        whole.rem(&by)
    ))
}

/// Positions of part of an axis, `0 + e`, for an index over `extent` that conditions keep inside of the axes
/// that it reads.
fn kept_inside(
    cx: &BodyCx<'_>,
    reading: &Reading<'_, '_>,
    decl: &Decl,
    (extent, odd): (&Dim, Vec<&Use>),
) -> Option<Fix> {
    let names: Vec<Arc<str>> = reading.decls.iter().map(|d| d.name.clone()).collect();
    let mut facts = cx.facts.clone();
    index_facts(&mut facts, &decl.name, extent);
    let at = Dim::sym(decl.name.clone());
    let kept =
        |u: &&Use| u.weak && Guards::of(cx, u.access.span, &names).keep(&facts, &at, &u.extent);
    if !odd.iter().all(kept) {
        return None;
    }
    let text = format!("0 + {}", decl.name);
    let shown = odd.iter().map(|u| {
        let mut subs = u.access.subs.clone();
        subs[u.axis].clone_from(&text);
        format!("`{}[{}]`", u.access.place, subs.join(", "))
    });
    let shown: Vec<String> = shown.collect();
    Some(Fix {
        help: format!("did you mean {}?", shown.join(" and ")),
        edits: odd.iter().map(|u| (u.span, text.clone())).collect(),
    })
}

/// How one of several groups of an axis is read, by an index over one of `C / G` where the axis is `C`.
fn group_of(decl: &Decl, wrong: &Place) -> Option<String> {
    let (own, _) = decl.extent.as_ref()?;
    let access = wrong.access.as_ref()?;
    let groups = own
        .terms()
        .next()
        .and_then(|(monomial, _)| match monomial {
            [Atom::Div(whole, groups)] if **whole == wrong.extent => {
                groups.as_const().is_none().then_some(groups)
            }
            _ => None,
        })?;
    let name = &decl.name;
    let at = access.subs.iter().position(|sub| *sub == **name)?;
    let mut subs = access.subs.clone();
    subs[at] = format!("g * ({own}) + {name}");
    let shown = format!("{}[{}]", access.place, subs.join(", "));
    Some(format!(
        "`{name}` runs over one of {groups} groups: `{shown}` reads group `g`"
    ))
}

/// 0 in place of an index that reads an axis of 1, which does not broadcast.
fn only_one(known: &Place, wrong: &Place) -> Option<Fix> {
    let one = [wrong, known]
        .into_iter()
        .find(|p| p.extent.as_const() == Some(1))?;
    let access = one.access.as_ref()?;
    let help = format!("an axis of 1 does not broadcast: {{}} in `{access}`");
    Some(Fix::replace(one.span, "0", &help))
}

/// Where an index stands in the target of a store, if that is one of two places that disagree.
fn stored(uses: &Uses, known: &Place, wrong: &Place) -> Option<Span> {
    let target = uses.target.as_ref()?;
    let is = |p: &&&Place| p.access.as_ref().is_some_and(|a| Arc::ptr_eq(target, a));
    [wrong, known].iter().find(is).map(|place| place.span)
}
