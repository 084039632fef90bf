//! Extents of indices: from their `in`, else from their bare uses, else from merged reads.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use super::body::BodyCx;
use super::dims::too_long;
use super::fixes::{other_index, range, swap, swap_both, swap_gather};
use super::outside::inside;
use super::padding::pad;
use super::parts::part;
use super::prove::Equality;
use super::ranges::{index_facts, poly};
use super::tree::{Clause, Expr, Index, IndexId, Origin};
use crate::ein::{DType, Dim};
use crate::syntax::ast::CmpOp;
use crate::syntax::diag::{Code, Diag, Fix};
use crate::syntax::token::Span;

/// An index as declared.
pub(super) struct Decl {
    pub(super) name: Arc<str>,
    pub(super) span: Span,
    /// Its `in`.
    pub(super) extent: Option<(Dim, Span)>,
    pub(super) reduced: bool,
    /// Something on the right mentions it.
    pub(super) used_right: bool,
}

/// An access as written, without its `else`.
pub(super) struct Access {
    pub(super) place: String,
    pub(super) subs: Vec<String>,
    pub(super) dtype: DType,
    /// All of it, with its `else`.
    pub(super) span: Span,
}

impl fmt::Display for Access {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}[{}]", self.place, self.subs.join(", "))
    }
}

/// A position with arithmetic in it.
pub(super) struct Shifted {
    pub(super) at: Expr,
    /// Which axis it reads, and that axis' extent.
    pub(super) axis: usize,
    pub(super) extent: Dim,
    /// It has an `else`, or stands under a condition on one of its indices.
    pub(super) guarded: bool,
    pub(super) access: Arc<Access>,
}

/// What the right side of a statement says of its indices.
#[derive(Default)]
pub(super) struct Uses {
    pub(super) bare: Vec<Use>,
    pub(super) merged: Vec<MergedUse>,
    pub(super) shifted: Vec<Shifted>,
    /// Where a store goes, as if that were read.
    pub(super) target: Option<Arc<Access>>,
    /// Indices with a use that could not be read: nothing is said of their extents.
    pub(super) poisoned: BTreeSet<IndexId>,
}

/// A bare use of an index.
pub(super) struct Use {
    pub(super) index: IndexId,
    /// Which axis it reads, and that axis' extent.
    pub(super) axis: usize,
    pub(super) extent: Dim,
    pub(super) span: Span,
    /// Under an `else` or a guard on the index: only gives the extent if nothing else does.
    pub(super) weak: bool,
    pub(super) access: Arc<Access>,
}

/// A merged read.
pub(super) struct MergedUse {
    pub(super) members: Vec<IndexId>,
    pub(super) axis: Dim,
    pub(super) span: Span,
    pub(super) access: Arc<Access>,
}

/// Where an extent comes from.
struct Source {
    extent: Dim,
    span: Span,
    text: String,
    access: Option<Arc<Access>>,
}

/// The extents of all indices; errors are reported. `wanted` are the extents that a left index has
/// where the statement's result is declared.
pub(super) fn solve(
    cx: &mut BodyCx<'_>,
    decls: Vec<Decl>,
    uses: &Uses,
    wanted: &BTreeMap<IndexId, Dim>,
) -> Option<Vec<Index>> {
    let Uses {
        merged, poisoned, ..
    } = uses;
    let before = cx.errors.len();
    let mut known: Vec<Option<Source>> = Vec::new();
    let mut swapped = Vec::new();
    for (at, decl) in decls.iter().enumerate() {
        let declared = decl.extent.as_ref().map(|(extent, span)| Source {
            extent: extent.clone(),
            span: *span,
            text: format!("by its `in {extent}`"),
            access: None,
        });
        let index = IndexId(at as u16);
        let wanted = wanted.get(&index);
        known.push(from_uses(
            cx,
            (&decls, index),
            declared,
            wanted,
            uses,
            &mut swapped,
        ));
    }
    let mut failed = BTreeSet::new();
    loop {
        let mut progress = false;
        for (at, read) in merged.iter().enumerate() {
            let unknown: Vec<IndexId> = read
                .members
                .iter()
                .copied()
                .filter(|m| known[m.at()].is_none())
                .collect();
            let [last] = unknown[..] else { continue };
            if failed.contains(&at) {
                continue;
            }
            let others = read.members.iter().filter(|m| **m != last);
            let extents = others.filter_map(|m| known[m.at()].as_ref());
            let product = Dim::try_product(extents.map(|s| &s.extent));
            if product.is_none() {
                cx.errors.push(too_long(read.span));
            }
            match product.and_then(|product| quotient(cx, read, &decls, last, &product)) {
                Some(extent) => {
                    let text = format!("in `{}`", read.access);
                    known[last.at()] = Some(Source {
                        extent,
                        span: read.span,
                        text,
                        access: None,
                    });
                }
                None => drop(failed.insert(at)),
            }
            progress = true;
        }
        if !progress {
            break;
        }
    }
    let (mut indices, mut told_of) = (Some(Vec::new()), BTreeSet::new());
    for (at, (decl, source)) in decls.iter().zip(&known).enumerate() {
        match (source, &mut indices) {
            (Some(source), Some(indices)) => indices.push(Index {
                name: decl.name.clone(),
                extent: source.extent.clone(),
                span: decl.span,
            }),
            (Some(_), None) => {}
            (None, _) => {
                indices = None;
                let named = |read: &MergedUse| read.members.contains(&IndexId(at as u16));
                // One error for a merged axis.
                let told = merged
                    .iter()
                    .any(|read| named(read) && read.members.iter().any(|m| told_of.contains(m)));
                let excused = told
                    || poisoned.contains(&IndexId(at as u16))
                    || merged
                        .iter()
                        .enumerate()
                        .any(|(n, r)| failed.contains(&n) && named(r));
                if !excused {
                    told_of.insert(IndexId(at as u16));
                    let merged = merged.iter().any(named);
                    let mut diag = unknown(decl, merged);
                    let index = IndexId(at as u16);
                    let shouted = match decl.used_right {
                        true => None,
                        false => cx.shouted(&decl.name),
                    };
                    let wanted = wanted.get(&index);
                    let ranged = || range_of(cx, &decls, &known, index, uses, wanted);
                    // A position of a store takes no `in`.
                    let stored = uses.target.is_some() && !decl.reduced;
                    match shouted.or_else(ranged).filter(|_| !stored) {
                        Some(fix) => diag = diag.fix(fix),
                        None if stored => {
                            let help =
                                format!("read an axis by `{}` alone in the value", decl.name);
                            diag = diag.help(help);
                        }
                        None => {
                            let help = format!("give it a range: `{} in …`", decl.name);
                            diag = diag.help(help);
                        }
                    }
                    cx.errors.push(diag);
                }
            }
        }
    }
    let indices = indices?;
    for read in merged {
        check_merged(cx, read, &indices);
    }
    (cx.errors.len() == before).then_some(indices)
}

fn unknown(decl: &Decl, merged: bool) -> Diag {
    let name = &decl.name;
    let text = if merged {
        format!(
            "the extent of index `{name}` is unknown: its merged axis has another unknown index"
        )
    } else if decl.used_right {
        format!("index `{name}` stands in arithmetic only, so its extent is unknown")
    } else if decl.reduced {
        format!("reduced index `{name}` is not used, so its extent is unknown")
    } else {
        format!("output index `{name}` is not on the right, so its extent is unknown")
    };
    Diag::new(Code::UnknownExtent, decl.span, text)
}

/// The `in` that gives an index its extent: that of the declared result, else the dim of its name,
/// else what keeps its accesses in bounds. Accesses that then leave their axis are padded.
fn range_of(
    cx: &BodyCx<'_>,
    decls: &[Decl],
    known: &[Option<Source>],
    index: IndexId,
    uses: &Uses,
    wanted: Option<&Dim>,
) -> Option<Fix> {
    let decl = &decls[index.at()];
    let names: Vec<Arc<str>> = decls.iter().map(|d| d.name.clone()).collect();
    let mine: Vec<(Dim, &Shifted)> = uses
        .shifted
        .iter()
        .filter_map(|s| Some((poly(&s.at, &names)?, s)))
        .filter(|(at, _)| at.symbols().contains(&decl.name))
        .collect();
    let one = Dim::from(1);
    let step = Dim::sym(decl.name.clone());
    // `i + c` with the largest `c` stays below the axis.
    let fitting = |(at, shifted): &(Dim, &Shifted)| {
        let mut largest = at - &step;
        for (name, source) in names.iter().zip(known) {
            let last = &source.as_ref()?.extent - &one;
            largest = largest.try_substitute(&|s| (*s == **name).then(|| last.clone()))?;
        }
        let free = names.iter().all(|name| !largest.symbols().contains(name));
        free.then(|| &shifted.extent - &largest)
    };
    let extent = wanted
        .cloned()
        .or_else(|| cx.dims.named(&decl.name.to_uppercase()))
        .or_else(|| mine.iter().find_map(fitting))?;
    let mut facts = cx.facts.clone();
    for (name, source) in names.iter().zip(known) {
        let of = source.as_ref().map(|s| &s.extent);
        let of = of.or_else(|| (*name == decl.name).then_some(&extent));
        if let Some(of) = of {
            index_facts(&mut facts, name, of);
        }
    }
    let mut fix = range(&decl.name, decl.span, &extent.to_string());
    for (at, shifted) in mine {
        let text = &shifted.access.subs[shifted.axis];
        let inside = inside(&facts, text, &at, &shifted.extent);
        if !shifted.guarded && !inside.is_empty() {
            let pad = pad(cx, &shifted.access, &inside).into_iter().next()?;
            fix.help = format!("{}, and {}", fix.help, pad.help);
            fix.edits.extend(pad.edits);
        }
    }
    Some(fix)
}

/// The extent by the `in` or the bare uses, which must all agree. An access whose indices are
/// mixed up is reported once and put into `swapped`.
fn from_uses(
    cx: &mut BodyCx<'_>,
    (decls, index): (&[Decl], IndexId),
    declared: Option<Source>,
    wanted: Option<&Dim>,
    all: &Uses,
    swapped: &mut Vec<Arc<Access>>,
) -> Option<Source> {
    let uses = &all.bare;
    let decl = &decls[index.at()];
    let mine = || uses.iter().filter(|u| u.index == index);
    let weak_only = declared.is_none() && mine().all(|u| u.weak);
    let mut source = declared;
    for u in mine().filter(|u| weak_only || !u.weak) {
        let Some(first) = &source else {
            let (extent, span) = (u.extent.clone(), u.span);
            source = Some(Source {
                extent,
                span,
                text: format!("in `{}`", u.access),
                access: Some(u.access.clone()),
            });
            continue;
        };
        let what = format!("index `{}` is one extent", decl.name);
        let name = &decl.name;
        let (a, b) = (&first.extent, &u.extent);
        let facts = &cx.facts;
        let here = format!("`{name}` is {a} here");
        let differ = || {
            let text = format!(
                "index `{name}` is {a} {} but {b} in `{}`",
                first.text, u.access
            );
            Diag::new(Code::ExtentMismatch, u.span, text).secondary(first.span, &*here)
        };
        let answer = facts.equality(a, b);
        if matches!(answer, Equality::Equal) {
            continue;
        }
        let accesses = [Some(&u.access), first.access.as_ref()];
        let mixed = accesses.into_iter().flatten().find_map(|access| {
            let fix = swap(facts, decls, uses, index, access)
                .or_else(|| swap_gather(facts, decls, all, index, access))?;
            Some((access.clone(), fix))
        });
        let over_consts = cx.dims.only_consts(&facts.normal(&(a - b)));
        let mine: Vec<&Use> = mine().filter(|u| weak_only || !u.weak).collect();
        let part = part(cx, decl, &mine, wanted);
        let different = "use two indices if these are different axes";
        let mut diag = differ();
        if matches!(answer, Equality::Unknown) && over_consts {
            cx.equal(a, b, &what, || diag.help(different));
            continue;
        }
        let both = || {
            let first = first.access.as_ref()?;
            let distinct = !Arc::ptr_eq(first, &u.access);
            distinct.then(|| swap_both(facts, decls, uses, index, [first, &u.access]))?
        };
        let moved = other_index(facts, decls, uses, u).or_else(|| match &mixed {
            Some(_) => None,
            None => both(),
        });
        if let Some(fix) = moved {
            diag = diag.fix(fix);
        } else if let Some((access, fix)) = mixed {
            if swapped.iter().any(|other| Arc::ptr_eq(other, &access)) {
                break;
            }
            swapped.push(access);
            diag = diag.fix(fix);
        } else if let Some(at) = stored(all, first, u) {
            let offset = cx.offset(at, name);
            diag = match offset {
                Some(fix) => diag.fix(fix),
                None => diag.help(format!(
                    "to store a part, say where: `pos + {name}`, with a parameter `pos: i64`"
                )),
            };
        } else if let Some(fix) = only_one(first, u) {
            diag = diag.fix(fix);
        } else if matches!(answer, Equality::Differ) || part.is_some() {
            diag = diag.fixes(part).help(different);
        } else {
            let sizes = a.as_symbol().is_some() && b.as_symbol().is_some();
            diag = match cx.add_clause(a, CmpOp::Eq, b) {
                Some(fix) if sizes => diag.fix(fix).help("or use one dim for both"),
                Some(fix) => diag.fix(fix),
                None if sizes => diag.help("use one dim for both"),
                None => diag.help(different),
            };
        }
        if matches!(answer, Equality::Unknown) {
            diag.code = Code::UnprovenExtent;
            diag.message = format!(
                "cannot prove `{a}` == `{b}`: index `{name}` is `{a}` {} but `{b}` in `{}`",
                first.text, u.access
            );
        }
        cx.errors.push(diag);
        break;
    }
    source
}

/// 0 in place of an index that reads an axis of 1, which does not broadcast.
fn only_one(first: &Source, second: &Use) -> Option<Fix> {
    let (span, access) = match (first.extent.as_const(), second.extent.as_const()) {
        (_, Some(1)) => (second.span, &second.access),
        (Some(1), _) => (first.span, first.access.as_ref()?),
        _ => return None,
    };
    let help = format!("an axis of 1 does not broadcast: {{}} in `{access}`");
    Some(Fix::replace(span, "0", &help))
}

/// Where an index stands in the target of a store, if that is one of two places that disagree.
fn stored(uses: &Uses, first: &Source, second: &Use) -> Option<Span> {
    let target = uses.target.as_ref()?;
    if Arc::ptr_eq(target, &second.access) {
        return Some(second.span);
    }
    let first_is = first
        .access
        .as_ref()
        .is_some_and(|access| Arc::ptr_eq(target, access));
    first_is.then_some(first.span)
}

/// The extent of the one unknown member of a merged read.
fn quotient(
    cx: &mut BodyCx<'_>,
    read: &MergedUse,
    decls: &[Decl],
    last: IndexId,
    product: &Dim,
) -> Option<Dim> {
    if read.members.iter().filter(|m| **m == last).count() != 1 {
        return None;
    }
    let zero = Dim::from(0);
    let remainder = read.axis.rem(product);
    if !cx.facts.holds(&remainder, CmpOp::Eq, &zero) {
        let names: Vec<&str> = read.members.iter().map(|m| &*decls[m.at()].name).collect();
        let text = |may: &str| {
            format!(
                "merged axis `({})` needs {} = {}, but `{product}` {may} divide `{}`",
                names.join(", "),
                decls[last.at()].name,
                quotient_text(&read.axis, product),
                read.axis
            )
        };
        if cx.dims.only_consts(&remainder) {
            let diag = Diag::new(Code::MergedAxis, read.span, text("does not"));
            let (left, cmp, right) = (remainder, CmpOp::Eq, zero);
            let access = read.access.to_string().into();
            let (origin, span) = (Origin::Access(access), read.span);
            let clause = Clause {
                left,
                cmp,
                right,
                origin,
                span,
            };
            cx.require_or(clause, diag);
        } else {
            let known = remainder.as_const().is_some();
            let diag = Diag::new(
                Code::MergedAxis,
                read.span,
                text(if known { "does not" } else { "may not" }),
            );
            let fix = cx.add_clause(&remainder, CmpOp::Eq, &zero);
            let fix = fix.filter(|_| !known);
            cx.errors.push(match known {
                true => diag.help(format!("{} is no multiple of {product}", read.axis)),
                false => diag.fixes(fix),
            });
            return None;
        }
    }
    Some(cx.facts.normal(&read.axis.floor_div(product)))
}

fn quotient_text(axis: &Dim, product: &Dim) -> String {
    let shown = |d: &Dim| {
        let plain = d.as_symbol().is_some() || d.as_const().is_some();
        if plain {
            d.to_string()
        } else {
            format!("({d})")
        }
    };
    format!("{} / {}", shown(axis), shown(product))
}

/// The product of the members is the axis.
fn check_merged(cx: &mut BodyCx<'_>, read: &MergedUse, indices: &[Index]) {
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
    let differ = || {
        let text = format!(
            "merged axis `({names})` is {product}, but its axis in `{}` is {axis}",
            read.access
        );
        let help = format!("the ranges of `({names})` multiply to {axis}");
        Diag::new(Code::ExtentMismatch, read.span, text).help(help)
    };
    let diag = match cx.equal(&product, axis, &what, differ) {
        Equality::Equal => return,
        Equality::Differ => differ(),
        Equality::Unknown => {
            let text = format!(
                "cannot prove `{product}` == `{axis}`: `({names})` is the first, its axis in `{}` the second",
                read.access
            );
            let fix = cx.add_clause(&product, CmpOp::Eq, axis);
            Diag::new(Code::UnprovenExtent, read.span, text).fixes(fix)
        }
    };
    cx.errors.push(diag);
}
