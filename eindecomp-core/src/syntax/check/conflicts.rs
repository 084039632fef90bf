//! Uses of one index that run over several extents: the error, on the use that is wrong.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::body::BodyCx;
use super::extents::{Access, Decl, Shifted, Use, Uses};
use super::fixes::{quotients_in, range};
use super::groups::grouped;
use super::guards::Guards;
use super::meant::{Meant, Reading};
use super::orders::{order_of_names, other_order};
use super::parts::{off_by, part};
use super::prove::Equality;
use super::ranges::{index_facts, poly};
use super::renamed::exchanged_names;
use super::tree::{IndexId, Type};
use super::unequal::{DIFFERENT, beginning, declared_instead, looked_up, members};
use crate::ein::Dim;
use crate::ein::dim::Atom;
use crate::syntax::ast::{self, CmpOp};
use crate::syntax::diag::{Code, Diag, Fix};
use crate::syntax::token::Span;

/// Where an extent is said.
#[derive(Clone)]
pub(super) struct Place {
    pub(super) extent: Dim,
    pub(super) span: Span,
    text: String,
    pub(super) access: Option<Arc<Access>>,
}

impl Place {
    fn of(u: &Use) -> Place {
        Place {
            extent: u.extent.clone(),
            span: u.span,
            text: match &u.meant {
                Some(meant) => format!("in `{meant}`"),
                None => format!("in `{}`", u.access),
            },
            access: Some(u.access.clone()),
        }
    }
}

/// Reports every index whose bare uses disagree with each other or with its `in`. Returns those
/// uses with the indices that are meant.
pub(super) fn settle<'u>(
    cx: &mut BodyCx<'_>,
    decls: &[Decl],
    all: &'u Uses,
    wanted: &BTreeMap<IndexId, Dim>,
) -> Cow<'u, [Use]> {
    let mut bare = Cow::Borrowed(&all.bare[..]);
    let (mut told, mut moved) = (BTreeSet::new(), BTreeMap::new());
    // What is meant of one index may show that another one is wrong, before it too.
    for at in (0..decls.len()).chain(0..decls.len()) {
        let index = IndexId(at as u16);
        if told.contains(&index) {
            continue;
        }
        let declared = decls[at].extent.as_ref().map(|(extent, _)| extent);
        let uses = bare.iter().filter(|u| u.index == index).map(|u| &u.extent);
        // An index that is moved is held against the declared result.
        let declared =
            declared.or_else(|| wanted.get(&index).filter(|_| moved.contains_key(&index)));
        let mut extents = declared.into_iter().chain(uses);
        let first = extents.next();
        if extents.all(|extent| Some(extent) == first) {
            continue;
        }
        let facts = cx.facts.clone();
        let mut reading = Reading {
            facts: &facts,
            decls,
            all,
            bare,
            wanted,
        };
        let before = cx.errors.len();
        if let Some(place) = reference(&reading, index, moved.contains_key(&index))
            && disagreeing(cx, &mut reading, index, &place)
        {
            told.insert(index);
        }
        if let Some(first) = moved.get(&index) {
            join(&mut cx.errors, *first, before);
        }
        let written = all.bare.iter().map(|u| u.index);
        let changed = written.zip(reading.bare.iter().map(|u| u.index));
        for (a, b) in changed.filter(|(a, b)| a != b) {
            for index in [a, b] {
                if moved.insert(index, before).is_none() {
                    told.remove(&index);
                }
            }
        }
        bare = reading.bare;
    }
    bare
}

/// What follows from a change that error number `first` proposes is made with it: the change of an error since number
/// `since`, which is no error of its own then.
fn join(errors: &mut Vec<Diag>, first: usize, since: usize) {
    let since = since.max(first + 1).min(errors.len());
    let mut more = errors.split_off(since);
    for at in (0..more.len()).rev() {
        let fixes = (&errors[first].fixes[..], &more[at].fixes[..]);
        if let ([fix], [next]) = fixes {
            let next = Fix {
                help: next
                    .help
                    .replacen("did you mean", "write", 1)
                    .replacen('?', ".", 1),
                ..next.clone()
            };
            errors[first].fixes = vec![fix.clone().then(next)];
            more.remove(at);
        }
    }
    errors.extend(more);
}

/// What the uses of an index are held against: its `in`, else a use of the declared result's extent,
/// of the extent of its name, of the most common extent, else the first. An index that is `moved` is as the result is
/// declared, if none of its uses is.
fn reference(reading: &Reading<'_, '_>, index: IndexId, moved: bool) -> Option<Place> {
    let uses = reading.uses(index);
    if let Some((extent, span)) = &reading.decls[index.at()].extent {
        return Some(Place {
            extent: extent.clone(),
            span: *span,
            text: format!("by its `in {extent}`"),
            access: None,
        });
    }
    let extent = |at: usize| &reading.bare[at].extent;
    let first = *uses.first()?;
    if let Some(declared) = reading.wanted.get(&index).filter(|_| moved)
        && !uses.iter().any(|at| reading.equal(extent(*at), declared))
    {
        return Some(Place {
            extent: declared.clone(),
            span: reading.decls[index.at()].span,
            text: "as the result is declared".to_owned(),
            access: None,
        });
    }
    if uses.iter().all(|at| extent(*at) == extent(first)) {
        return Some(Place::of(&reading.bare[first]));
    }
    let find = |wanted: &dyn Fn(usize) -> bool| uses.iter().copied().find(|at| wanted(*at));
    let target = |at: usize| {
        let target = reading.all.target.as_ref();
        target.is_some_and(|target| Arc::ptr_eq(target, &reading.bare[at].access))
    };
    let declared = reading.wanted.get(&index);
    let same = |at: usize| {
        (uses.iter())
            .filter(|o| reading.equal(extent(at), extent(**o)))
            .count()
    };
    let most = uses.iter().map(|at| same(*at)).max()?;
    let at = find(&target)
        .or_else(|| find(&|at| declared.is_some_and(|d| reading.equal(d, extent(at)))))
        .or_else(|| find(&|at| reading.alike(index, extent(at))))
        .or_else(|| find(&|at| same(at) == most))?;
    Some(Place::of(&reading.bare[at]))
}

/// Reports the uses of an index that disagree with `place`; over consts that is an obligation. Is there one?
fn disagreeing(
    cx: &mut BodyCx<'_>,
    reading: &mut Reading<'_, '_>,
    index: IndexId,
    place: &Place,
) -> bool {
    let name = &reading.decls[index.at()].name;
    let (mut odd, mut said) = (Vec::new(), false);
    for at in reading.uses(index) {
        let u = &reading.bare[at];
        if u.extent == place.extent {
            continue;
        }
        match cx.facts.equality(&place.extent, &u.extent) {
            Equality::Equal => {}
            Equality::Unknown
                if cx
                    .dims
                    .only_consts(&cx.facts.normal(&(&place.extent - &u.extent))) =>
            {
                let what = format!("index `{name}` is one extent");
                let text = differ(name, place, &Place::of(u));
                let diag = Diag::new(Code::ExtentMismatch, u.span, text)
                    .secondary(place.span, format!("`{name}` is {} here", place.extent));
                let ordered = order_of_names(cx, &u.access, u.axis, &place.extent);
                let meant = || Some(reading.meant(index, &[at])?.fix);
                let diag = match ordered.or_else(meant) {
                    Some(fix) => diag.fix(fix),
                    None => diag.help(DIFFERENT),
                };
                cx.equal(&place.extent, &u.extent, &what, || diag);
                said = true;
            }
            Equality::Differ | Equality::Unknown => odd.push(at),
        }
    }
    let Some(&first) = odd.first() else {
        return said;
    };
    let order = odd.iter().find_map(|at| {
        let u = &reading.bare[*at];
        Some((
            *at,
            other_order(cx, &u.access.place, &u.extent, &place.extent)
                .or_else(|| order_of_names(cx, &u.access, u.axis, &place.extent))?,
        ))
    });
    if let Some((at, fix)) = order {
        let diag = disagreement(cx, name, place, &Place::of(&reading.bare[at]));
        cx.errors.push(diag.fix(fix));
        return true;
    }
    let meant = reading.meant(index, &odd);
    let meant = match meant {
        Some(meant) if !meant.permutes => {
            Some(another_tensor(cx, reading, meant.wrong).unwrap_or(meant))
        }
        Some(meant) => Some(meant),
        None => odd.iter().find_map(|at| another_tensor(cx, reading, *at)),
    };
    if let (None, Some(fix)) = (&meant, other_range(cx, reading, index, &odd)) {
        let axis = Place::of(&reading.bare[first]);
        let diag = disagreement(cx, name, &axis, place);
        cx.errors.push(diag.fix(fix));
        return true;
    }
    if let Some(definition) = elsewhere(cx, reading, &odd, place) {
        let diag = disagreement(cx, name, place, &Place::of(&reading.bare[first]));
        cx.errors.push(match (definition, meant) {
            (Definition::Wrong(fix), _) => diag.fix(fix),
            (Definition::Perhaps(fix), Some(meant)) => diag.help(format!(
                "{} Or, where it is defined, {}",
                meant.fix.help,
                fix.help.trim_start_matches("did you mean ")
            )),
            (Definition::Perhaps(fix), None) => diag.fix(fix),
        });
        return true;
    }
    let wrong = Place::of(&reading.bare[meant.as_ref().map_or(first, |meant| meant.wrong)]);
    let known = match meant {
        // What is held against is wrong itself.
        Some(_) if wrong.span == place.span => Place::of(&reading.bare[first]),
        _ => place.clone(),
    };
    let diag = disagreement(cx, name, &known, &wrong);
    let diag = match meant {
        Some(meant) => diag.fix(reading.take(meant)),
        None => {
            let diag = other_help(cx, reading, (index, &odd), (&known, &wrong), diag);
            // What is mended there runs over as much as the others.
            for at in odd.iter().filter(|_| !diag.fixes.is_empty()) {
                reading.bare.to_mut()[*at].extent = known.extent.clone();
            }
            diag
        }
    };
    cx.errors.push(diag);
    true
}

/// The statement that defines a tensor as it may be meant.
enum Definition {
    /// Whatever reads the tensor disagrees with it.
    Wrong(Fix),
    /// One read does.
    Perhaps(Fix),
}

/// The reduction of the statement that defines the one tensor that disagrees, over another index: every read has the
/// index for an axis that is reduced there.
fn elsewhere(
    cx: &BodyCx<'_>,
    reading: &Reading<'_, '_>,
    odd: &[usize],
    place: &Place,
) -> Option<Definition> {
    let [only] = odd[..] else { return None };
    let u = &reading.bare[only];
    let name = &u.access.place;
    let var = &cx.vars[cx.lookup(name)?.at()];
    let ty = var.ty.as_ref()?;
    let mut wanted = ty.tensor()?.clone();
    *wanted.axes.get_mut(u.axis)? = place.extent.clone();
    let reads = cx.reads_of(name);
    let index = &u.access.subs[u.axis];
    let same = |subs: &Vec<String>| subs.get(u.axis) == Some(index);
    if !reads.iter().all(same) {
        return None;
    }
    let fix = cx.reduced_otherwise(var.span, ty, &Type::Tensor(wanted), index)?;
    Some(match reads.len() {
        1 => Definition::Perhaps(fix),
        _ => Definition::Wrong(fix),
    })
}

/// The access of a use, of a tensor that nothing reads instead of its own.
fn another_tensor(cx: &BodyCx<'_>, reading: &Reading<'_, '_>, wrong: usize) -> Option<Meant> {
    let access = &reading.bare[wrong].access;
    let mut found = cx.unread().filter(|(_, ty)| ty.dtype == access.dtype);
    found.find_map(|(name, ty)| reading.of_another(wrong, name, &ty.axes))
}

/// The range that an index is meant to have where all of its uses agree: on an axis of its name, or of
/// the declared result, or, where nothing is declared, on one that is shorter by a number.
fn other_range(
    cx: &BodyCx<'_>,
    reading: &Reading<'_, '_>,
    index: IndexId,
    odd: &[usize],
) -> Option<Fix> {
    let decl = &reading.decls[index.at()];
    let (own, range) = decl.extent.as_ref()?;
    let uses: Vec<&Use> = reading
        .uses(index)
        .into_iter()
        .map(|at| &reading.bare[at])
        .collect();
    let axis = &uses.first()?.extent;
    let agree = odd.len() == uses.len() && uses.iter().all(|u| reading.equal(&u.extent, axis));
    let off = || {
        cx.facts
            .normal(&(own - axis))
            .as_const()
            .is_some_and(|n| n > 0)
    };
    let other = match cx.axis_of(decl.span) {
        Some(declared) => reading.equal(declared.extent, axis),
        None => off() && !decl.reduced,
    };
    let part = || part(cx, decl, &uses, reading.wanted.get(&index));
    // Positions with arithmetic that would leave their axis keep the range.
    let facts = &cx.facts;
    let names: Vec<Arc<str>> = reading.decls.iter().map(|d| d.name.clone()).collect();
    let past = |s: &Shifted| {
        let at = poly(&s.at, &names).filter(|at| at.symbols().contains(&decl.name));
        let last = axis - &Dim::from(1);
        let at = at.and_then(|at| at.try_substitute(&|n| (*n == *decl.name).then(|| last.clone())));
        !s.guarded && at.is_some_and(|at| facts.refuted(&at, CmpOp::Lt, &s.extent))
    };
    if agree && other && reading.all.shifted.iter().any(past) {
        let part = part()?;
        return Some(match cx.axis_of(decl.span) {
            Some(declared) => declared.redeclared(part, own),
            None => part,
        });
    }
    let part = || part().is_some();
    let meant = agree && (other || reading.alike(index, axis) && !part());
    let help = format!("did you mean `{} in {axis}`?", decl.name);
    meant.then(|| Fix::replace(*range, axis.to_string(), &help))
}

/// The error on the place that is wrong.
fn disagreement(cx: &BodyCx<'_>, name: &str, known: &Place, wrong: &Place) -> Diag {
    let (a, b) = (&known.extent, &wrong.extent);
    let (code, text) = match cx.facts.equality(a, b) {
        Equality::Unknown => (
            Code::UnprovenExtent,
            format!(
                "cannot prove `{a}` == `{b}`: index `{name}` is `{a}` {} but `{b}` {}",
                known.text, wrong.text
            ),
        ),
        _ => (Code::ExtentMismatch, differ(name, known, wrong)),
    };
    Diag::new(code, wrong.span, text).secondary(known.span, format!("`{name}` is {a} here"))
}

fn differ(name: &str, known: &Place, wrong: &Place) -> String {
    let (a, b) = (&known.extent, &wrong.extent);
    format!(
        "index `{name}` is {a} {} but {b} {}",
        known.text, wrong.text
    )
}

/// What to do where no other index is meant.
fn other_help(
    cx: &BodyCx<'_>,
    reading: &Reading<'_, '_>,
    (index, odd): (IndexId, &[usize]),
    (known, wrong): (&Place, &Place),
    diag: Diag,
) -> Diag {
    let decl = &reading.decls[index.at()];
    let (name, a, b) = (&decl.name, &known.extent, &wrong.extent);
    if let Some(at) = stored(reading.all, known, wrong) {
        return match cx.offset(at, name) {
            Some(fix) => diag.fix(fix),
            None => diag.help(format!(
                "to store a part, say where: `pos + {name}`, with a parameter `pos: i64`"
            )),
        };
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
