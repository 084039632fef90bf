//! Uses of one index that run over several extents: the error, on the use that is wrong.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::body::BodyCx;
use super::extents::{Access, Decl, Shifted, Use, Uses};
use super::meant::{Meant, Reading};
use super::orders::{order_of_names, other_order};
use super::otherwise::other_help;
use super::parts::part;
use super::prove::Equality;
use super::ranges::poly;
use super::tree::{IndexId, Type};
use super::unequal::DIFFERENT;
use crate::ein::Dim;
use crate::syntax::ast::CmpOp;
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
            // What is mended there runs over as much as the others; the rest is told by itself.
            let edits: Vec<Span> = diag
                .fixes
                .iter()
                .flat_map(|fix| &fix.edits)
                .map(|e| e.0)
                .collect();
            let touched = |at: &usize| {
                let access = &reading.bare[*at].access;
                edits.iter().any(|edit| access.span.contains(*edit))
            };
            let (mended, rest): (Vec<usize>, Vec<usize>) = odd.iter().partition(|at| touched(at));
            let mended = if mended.is_empty() { &odd } else { &mended };
            for at in mended.iter().filter(|_| !diag.fixes.is_empty()) {
                reading.bare.to_mut()[*at].extent = known.extent.clone();
            }
            let more = mended.len() < odd.len() && !rest.is_empty() && !diag.fixes.is_empty();
            cx.errors.push(diag);
            if more {
                disagreeing(cx, reading, index, place);
            }
            return true;
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
    // A state is not stored into itself.
    let target = reading.all.target.as_ref();
    let stored = |name: &str| target.is_some_and(|target| target.place == name);
    let mut found = cx
        .unread()
        .filter(|(name, ty)| ty.dtype == access.dtype && !stored(name));
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
