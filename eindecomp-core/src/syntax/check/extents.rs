//! Extents of indices: from their `in`, else from their bare uses, else from merged reads.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use super::body::BodyCx;
use super::conflicts::settle;
use super::dims::too_long;
use super::fixes::{exchanged, range};
use super::meant::Reading;
use super::merged::check_merged;
use super::outside::inside;
use super::padding::pad;
use super::ranges::{index_facts, poly};
use super::slips::rounded;
use super::transposed::turn;
use super::tree::{Clause, Expr, ExprKind, Index, IndexId, Origin};
use super::unused::not_used;
use crate::ein::dim::Atom;
use crate::ein::{DType, Dim, ScalarFn};
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
    /// It reduces tensors that do not depend on it.
    pub(super) idle: bool,
}

impl Decl {
    /// Where its extent is said, or itself.
    pub(super) fn range(&self) -> Span {
        self.extent.as_ref().map_or(self.span, |(_, span)| *span)
    }
}

/// An access as written, without its `else`.
pub(super) struct Access {
    pub(super) place: String,
    pub(super) subs: Vec<String>,
    pub(super) dtype: DType,
    /// All of it, with its `else`.
    pub(super) span: Span,
    /// It has an `else`.
    pub(super) padded: bool,
    /// The indices in scope.
    pub(super) visible: Vec<IndexId>,
}

impl fmt::Display for Access {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}[{}]", self.place, self.subs.join(", "))
    }
}

/// A position with arithmetic in it.
#[derive(Clone)]
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
#[derive(Clone, Default)]
pub(super) struct Uses {
    pub(super) bare: Vec<Use>,
    pub(super) merged: Vec<MergedUse>,
    pub(super) shifted: Vec<Shifted>,
    /// Indices beside arithmetic in a merged read, with all of it as written.
    pub(super) mixed: Vec<(IndexId, Arc<str>)>,
    /// Where a store goes, as if that were read.
    pub(super) target: Option<Arc<Access>>,
    /// Errors about indices that nothing uses, where nothing else is wrong.
    pub(super) idle: Vec<Diag>,
    /// Indices with a use that could not be read: nothing is said of their extents.
    pub(super) poisoned: BTreeSet<IndexId>,
}

/// A bare use of an index.
#[derive(Clone)]
pub(super) struct Use {
    pub(super) index: IndexId,
    /// Which axis it reads, and that axis' extent.
    pub(super) axis: usize,
    pub(super) extent: Dim,
    pub(super) span: Span,
    /// Under a guard on the index: only gives the extent if nothing else does.
    pub(super) weak: bool,
    pub(super) access: Arc<Access>,
    /// Its access as it is meant, where that is told.
    pub(super) meant: Option<Arc<str>>,
}

/// A merged read.
#[derive(Clone)]
pub(super) struct MergedUse {
    pub(super) members: Vec<IndexId>,
    pub(super) axis: Dim,
    pub(super) span: Span,
    pub(super) access: Arc<Access>,
}

/// The extents of all indices; errors are reported. `wanted` are the extents that a left index has
/// where the statement's result is declared.
pub(super) fn solve(
    cx: &mut BodyCx<'_>,
    decls: Vec<Decl>,
    uses: &Uses,
    wanted: &BTreeMap<IndexId, Dim>,
) -> Option<Vec<Index>> {
    let before = cx.errors.len();
    let found = found(cx, decls, uses, wanted).all()?;
    (cx.errors.len() == before).then_some(found)
}

/// The indices of a statement whose extents are known.
#[derive(Default)]
pub(super) struct Found {
    pub(super) indices: Vec<Option<Index>>,
    /// Those which are not known otherwise than by the range that their error proposes.
    pub(super) open: Vec<Open>,
}

/// An index without an extent, as its error proposes it.
pub(super) struct Open {
    pub(super) id: IndexId,
    pub(super) index: Index,
    /// Which error.
    pub(super) error: usize,
    /// The range alone.
    pub(super) range: Fix,
}

impl Found {
    /// All of them.
    pub(super) fn all(&self) -> Option<Vec<Index>> {
        self.indices.iter().cloned().collect()
    }
}

/// [`solve`], as far as they are known where some uses are wrong.
pub(super) fn found(
    cx: &mut BodyCx<'_>,
    decls: Vec<Decl>,
    uses: &Uses,
    wanted: &BTreeMap<IndexId, Dim>,
) -> Found {
    let before = cx.errors.len();
    let turned = turn(cx, &decls, uses, wanted);
    let uses = &*turned;
    let Uses {
        merged, poisoned, ..
    } = uses;
    let bare = settle(cx, &decls, uses, wanted);
    let mut known: Vec<Option<Dim>> = (decls.iter().enumerate())
        .map(|(at, decl)| known(decl, IndexId(at as u16), &bare))
        .collect();
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
            let product = Dim::try_product(extents);
            if product.is_none() {
                cx.errors.push(too_long(read.span));
            }
            match product.and_then(|product| quotient(cx, read, &decls, last, &product)) {
                Some(extent) => known[last.at()] = Some(extent),
                None => drop(failed.insert(at)),
            }
            progress = true;
        }
        if !progress {
            break;
        }
    }
    let (mut out, mut told_of) = (Found::default(), BTreeSet::new());
    for (at, (decl, extent)) in decls.iter().zip(&known).enumerate() {
        out.indices
            .push(extent.as_ref().map(|extent| index(decl, extent)));
        match extent {
            Some(_) => {}
            None => {
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
                    let index = IndexId(at as u16);
                    let mixed = uses.mixed.iter().find(|(id, _)| *id == index);
                    let mixed = mixed.map(|(_, text)| &**text);
                    let mut diag = unknown(decl, merged, mixed);
                    let shouted = match decl.used_right {
                        true => None,
                        false => cx.shouted(&decl.name),
                    };
                    let reading = Reading {
                        facts: &cx.facts,
                        decls: &decls,
                        all: uses,
                        bare: bare.clone(),
                        wanted,
                    };
                    let left_out = match decl.used_right || decl.reduced {
                        true => None,
                        false => reading.left_out(index),
                    };
                    let ranged = || range_of(cx, &decls, &known, index, uses, wanted);
                    let ranged = match decl.idle || shouted.is_some() {
                        true => None,
                        false => ranged(),
                    };
                    if let Some((extent, _, Some(range))) = &ranged
                        && left_out.is_none()
                        && uses.target.is_none()
                    {
                        out.open.push(Open {
                            id: index,
                            index: self::index(decl, extent),
                            error: cx.errors.len(),
                            range: range.clone(),
                        });
                    }
                    // A position of a store takes no `in`.
                    let stored = uses.target.is_some() && !decl.reduced;
                    let sized = || {
                        let size = decl.name.to_uppercase();
                        let modulus = |e: &&Expr| {
                            let ExprKind::Call(ScalarFn::REM | ScalarFn::DIV, args) = &e.kind
                            else {
                                return false;
                            };
                            matches!(args[1].kind, ExprKind::Index(id) if id == index)
                        };
                        let mut places = uses.shifted.iter().flat_map(|s| s.at.nodes());
                        places.find(modulus)?;
                        cx.dims.named(&size)?;
                        Some(Fix::replace(decl.span, size, "did you mean {}?"))
                    };
                    diag = match stored {
                        true => match sized() {
                            Some(fix) => diag.fix(fix),
                            None => diag.help(format!(
                                "read an axis by `{}` alone in the value",
                                decl.name
                            )),
                        },
                        false => match shouted
                            .or_else(|| ranged.map(|(_, fix, _)| fix))
                            .or_else(|| parts_of(decl, index, uses, &known))
                        {
                            Some(fix) => diag.fixes(left_out).fix(fix),
                            None if decl.idle => diag.help(not_used(&decl.name)),
                            None => diag.help(format!("give it a range: `{} in …`", decl.name)),
                        },
                    };
                    cx.errors.push(diag);
                }
            }
        }
    }
    if let Some(indices) = out.all() {
        for read in merged {
            check_merged(cx, read, &indices, &bare, wanted);
        }
        if cx.errors.len() == before {
            cx.errors.extend(uses.idle.iter().cloned());
        }
    }
    out
}

fn index(decl: &Decl, extent: &Dim) -> Index {
    Index {
        name: decl.name.clone(),
        extent: extent.clone(),
        span: decl.span,
    }
}

fn unknown(decl: &Decl, merged: bool, mixed: Option<&str>) -> Diag {
    let name = &decl.name;
    let text = if let Some(read) = mixed {
        format!(
            "the extent of index `{name}` is unknown: another member of the merged axis `{read}` is no index"
        )
    } else if merged {
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

/// The range of the first of two unknown members of a merged axis of so many parts: of `4·H`, 4.
fn parts_of(decl: &Decl, index: IndexId, uses: &Uses, known: &[Option<Dim>]) -> Option<Fix> {
    uses.merged.iter().find_map(|read| {
        let [first, second] = read.members[..] else {
            return None;
        };
        let open = known[first.at()].is_none() && known[second.at()].is_none();
        let mut terms = read.axis.terms();
        let (Some((monomial, parts)), None) = (terms.next(), terms.next()) else {
            return None;
        };
        let several = first == index && open && parts > 1 && !monomial.is_empty();
        several.then(|| range(&decl.name, decl.span, &parts.to_string()))
    })
}

/// The `in` that gives an index its extent: that of the declared result, else the dim of its name,
/// else what keeps its accesses in bounds. Accesses that then leave their axis are padded. The extent, all of the change,
/// and the range alone, unless more than padding has to be changed with it.
fn range_of(
    cx: &BodyCx<'_>,
    decls: &[Decl],
    known: &[Option<Dim>],
    index: IndexId,
    uses: &Uses,
    results: &BTreeMap<IndexId, Dim>,
) -> Option<(Dim, Fix, Option<Fix>)> {
    let decl = &decls[index.at()];
    let name = decl.name.to_uppercase();
    let named = cx.dims.named(&name);
    // A factor of the merged axis is the extent of its name, whatever stands there in the result.
    let mut merged = uses.merged.iter();
    let merged = merged.find(|read| read.members.contains(&index));
    let divides = |by: &Dim| merged.is_some_and(|read| is_factor(by, &read.axis));
    let own = Some(named.clone().unwrap_or_else(|| Dim::sym(name))).filter(divides);
    let wanted = results.get(&index);
    let wanted = wanted.filter(|wanted| own.is_none() || divides(wanted));
    let wanted = wanted.or(own.as_ref());
    let declared = |(nth, extent): (usize, &Option<Dim>)| {
        let other = IndexId(nth as u16);
        let result = || results.get(&other).filter(|_| other != index).cloned();
        extent.clone().or_else(result)
    };
    let known: Vec<Option<Dim>> = known.iter().enumerate().map(declared).collect();
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
        for (name, extent) in names.iter().zip(&known) {
            if !largest.symbols().contains(name) {
                continue;
            }
            let last = extent.as_ref()? - &one;
            largest = largest.try_substitute(&|s| (*s == **name).then(|| last.clone()))?;
        }
        let free = names.iter().all(|name| !largest.symbols().contains(name));
        free.then(|| &shifted.extent - &largest)
    };
    // Windows that begin `c` apart, `c * i + u`, are as long where that fits: none is read twice, and nothing is left out.
    let window = |read: &(Dim, &Shifted)| {
        let longest = fitting(read)?;
        let (at, others) = (&read.0, names.iter().filter(|name| **name != decl.name));
        let stride = |name: &Arc<str>| {
            let next = &Dim::sym(name.clone()) + &one;
            let there = at.try_substitute(&|s| (*s == **name).then(|| next.clone()))?;
            (&there - at).as_const().filter(|&c| c > 1).map(Dim::from)
        };
        let fits = |stride: &Dim| cx.facts.holds(stride, CmpOp::Le, &longest);
        Some(others.filter_map(stride).find(fits).unwrap_or(longest))
    };
    // What a condition keeps inside runs over all of the axis.
    let whole_axis = |(at, shifted): &(Dim, &Shifted)| {
        let rest = (at - &step).symbols();
        (!rest.contains(&decl.name)).then(|| shifted.extent.clone())
    };
    let facts_with = |extent: &Dim| {
        let mut facts = cx.facts.clone();
        for (name, of) in names.iter().zip(&known) {
            let of = of.as_ref();
            let of = of.or_else(|| (*name == decl.name).then_some(extent));
            if let Some(of) = of {
                index_facts(&mut facts, name, of);
            }
        }
        facts
    };
    let declared = wanted.and_then(|wanted| {
        let facts = facts_with(wanted);
        let past = |(at, shifted): &&(Dim, &Shifted)| {
            let axis = &shifted.extent;
            let same = facts.equal(wanted, axis);
            !shifted.guarded && !same && facts.nonneg(at) && !facts.holds(at, CmpOp::Lt, axis)
        };
        let fit = mine.iter().find(past).and_then(fitting)?;
        let facts = facts_with(&fit);
        let inside = |(at, shifted): &(Dim, &Shifted)| facts.inside(at, &shifted.extent);
        let axis = cx.axis_of(decl.span).filter(|_| mine.iter().all(inside))?;
        let range = range(&decl.name, decl.span, &fit.to_string());
        let fix = axis.redeclared(range, &fit);
        Some((fit, fix, None))
    });
    if declared.is_some() {
        return declared;
    }
    let keeps_inside = |extent: &&Dim| {
        let facts = facts_with(extent);
        let inside = |(at, shifted): &(Dim, &Shifted)| facts.inside(at, &shifted.extent);
        mine.iter().filter(|(_, s)| !s.guarded).all(inside)
    };
    let guarded = mine.iter().all(|(_, s)| s.guarded);
    // A statement on the way to the result has its extents.
    let of_result = || {
        let types = cx.block.results.iter().filter_map(|r| r.ty.tensor());
        let mut axes = types.flat_map(|t| &t.axes);
        axes.find(|axis| !guarded && axis.as_symbol().is_none() && keeps_inside(axis))
    };
    let extent = wanted
        .cloned()
        .or_else(|| named.as_ref().filter(keeps_inside).cloned())
        .or_else(|| of_result().cloned())
        .or(named)
        .or_else(|| mine.iter().find(|_| guarded).and_then(whole_axis))
        .or_else(|| mine.iter().find_map(window))?;
    let facts = facts_with(&extent);
    let settled = |at: &Dim| {
        let symbols = at.symbols();
        let open = |(name, of): (&Arc<str>, &Option<Dim>)| {
            of.is_none() && *name != decl.name && symbols.contains(name)
        };
        !names.iter().zip(&known).any(open)
    };
    let range = range(&decl.name, decl.span, &extent.to_string());
    let (mut fix, mut plain) = (range.clone(), true);
    for (at, shifted) in mine {
        let text = &shifted.access.subs[shifted.axis];
        let inside = inside(&facts, text, &at, &shifted.extent);
        if let Some(rounded) = rounded(&shifted.at, text, &shifted.extent, &names) {
            fix.help = format!("{}, and {}", fix.help, rounded.help);
            fix.edits.extend(rounded.edits);
        } else if let Some(turned) = turned(cx, uses, shifted, &extent, results) {
            plain = false;
            fix.help = format!("{}, and {}", fix.help, turned.help);
            fix.edits.extend(turned.edits);
        } else if !shifted.guarded && !inside.is_empty() && settled(&at) {
            let pad = pad(cx, &shifted.access, &inside).into_iter().next()?;
            fix.help = format!("{}, and {}", fix.help, pad.help);
            fix.edits.extend(pad.edits);
        }
    }
    let range = plain.then_some(range);
    Some((extent, fix, range))
}

/// Is a size a factor of each term of another?
fn is_factor(size: &Dim, of: &Dim) -> bool {
    let factor = |(monomial, _): (&[Atom], i64)| {
        let mut atoms = monomial.iter();
        atoms.any(|atom| matches!(atom, Atom::Sym(s) if Some(s) == size.as_symbol()))
    };
    of.terms().all(factor)
}

/// A position of an index over `extent`, and the index that stands on an axis of that extent, in each
/// other's place, where the declared result says so of both.
fn turned(
    cx: &BodyCx<'_>,
    uses: &Uses,
    shifted: &Shifted,
    extent: &Dim,
    results: &BTreeMap<IndexId, Dim>,
) -> Option<Fix> {
    let equal = |a: &Dim, b: &Dim| cx.facts.equal(a, b);
    let other = uses.bare.iter().find(|u| {
        let own = results.get(&u.index);
        Arc::ptr_eq(&u.access, &shifted.access)
            && equal(&u.extent, extent)
            && own.is_some_and(|own| equal(own, &shifted.extent) && !equal(own, extent))
    })?;
    let places = [(shifted.axis, shifted.at.span), (other.axis, other.span)];
    let (shown, edits) = exchanged(&shifted.access.place, &shifted.access.subs, places);
    let help = format!("read {shown}");
    Some(Fix { help, edits })
}

/// The extent by the `in` or by the bare uses, which agree: those under conditions only where there
/// is nothing else.
fn known(decl: &Decl, index: IndexId, bare: &[Use]) -> Option<Dim> {
    let declared = decl.extent.as_ref().map(|(extent, _)| extent);
    let mine = || bare.iter().filter(|u| u.index == index);
    let strong = || mine().find(|u| !u.weak).or_else(|| mine().next());
    declared.or_else(|| strong().map(|u| &u.extent)).cloned()
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
