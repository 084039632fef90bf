//! Extents of indices: from their `in`, else from their bare uses, else from merged reads.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::body::BodyCx;
use super::prove::Equality;
use super::tree::{Clause, Index, IndexId, Origin};
use crate::ein::Dim;
use crate::syntax::ast::CmpOp;
use crate::syntax::diag::{Code, Diag};
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

/// A bare use of an index.
pub(super) struct Use {
    pub(super) index: IndexId,
    /// The axis it reads.
    pub(super) extent: Dim,
    pub(super) span: Span,
    /// Under an `else` or a guard on the index: only gives the extent if nothing else does.
    pub(super) weak: bool,
    pub(super) access: Arc<str>,
}

/// A merged read.
pub(super) struct MergedUse {
    pub(super) members: Vec<IndexId>,
    pub(super) axis: Dim,
    pub(super) span: Span,
    pub(super) access: Arc<str>,
}

/// Where an extent comes from.
struct Source {
    extent: Dim,
    span: Span,
    text: String,
}

/// The extents of all indices; errors are reported. `poisoned` indices have uses that could not
/// be read, so nothing is said of them.
pub(super) fn solve(
    cx: &mut BodyCx<'_>,
    decls: Vec<Decl>,
    uses: Vec<Use>,
    merged: Vec<MergedUse>,
    poisoned: &BTreeSet<IndexId>,
) -> Option<Vec<Index>> {
    let before = cx.errors.len();
    let mut known: Vec<Option<Source>> = Vec::new();
    for (at, decl) in decls.iter().enumerate() {
        let declared = decl.extent.as_ref().map(|(extent, span)| Source {
            extent: extent.clone(),
            span: *span,
            text: format!("by its `in {extent}`"),
        });
        known.push(from_uses(cx, decl, IndexId(at as u16), declared, &uses));
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
            let product = Dim::product(
                others
                    .filter_map(|m| known[m.at()].as_ref())
                    .map(|s| &s.extent),
            );
            match quotient(cx, read, &decls, last, &product) {
                Some(extent) => {
                    let text = format!("in `{}`", read.access);
                    known[last.at()] = Some(Source {
                        extent,
                        span: read.span,
                        text,
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
    let mut indices = Some(Vec::new());
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
                let excused = poisoned.contains(&IndexId(at as u16))
                    || merged
                        .iter()
                        .enumerate()
                        .any(|(n, r)| failed.contains(&n) && named(r));
                if !excused {
                    let diag = unknown(cx, decl, merged.iter().any(named));
                    cx.errors.push(diag);
                }
            }
        }
    }
    let indices = indices?;
    for read in &merged {
        check_merged(cx, read, &indices);
    }
    (cx.errors.len() == before).then_some(indices)
}

fn unknown(cx: &BodyCx<'_>, decl: &Decl, merged: bool) -> Diag {
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
    let upper: Arc<str> = name.to_uppercase().into();
    let known = cx.dims.dims.contains(&upper) || cx.dims.defs.contains_key(&upper);
    let range = if known { &*upper } else { "…" };
    Diag::new(Code::UnknownExtent, decl.span, text)
        .help(format!("give it a range: `{name} in {range}`"))
}

/// The extent by the `in` or the bare uses, which must all agree.
fn from_uses(
    cx: &mut BodyCx<'_>,
    decl: &Decl,
    index: IndexId,
    declared: Option<Source>,
    uses: &[Use],
) -> Option<Source> {
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
            });
            continue;
        };
        let what = format!("index `{}` is one extent", decl.name);
        let name = &decl.name;
        let (a, b) = (&first.extent, &u.extent);
        let differ = || {
            let text = format!(
                "index `{name}` is {a} {} but {b} in `{}`",
                first.text, u.access
            );
            Diag::new(Code::ExtentMismatch, u.span, text)
                .secondary(first.span, format!("`{name}` is {a} here"))
                .help(format!(
                    "use two indices if these are different axes; or `0 + {name}` to read a part"
                ))
        };
        let diag = match cx.equal(a, b, &what, differ) {
            Equality::Equal => continue,
            Equality::Differ => differ(),
            Equality::Unknown => {
                let text = format!(
                    "cannot prove `{a}` == `{b}`: index `{name}` is `{a}` {} but `{b}` in `{}`",
                    first.text, u.access
                );
                Diag::new(Code::UnprovenExtent, u.span, text)
                    .secondary(first.span, format!("`{name}` is {a} here"))
                    .help(format!("use one dim, or add `where {a} == {b}`"))
            }
        };
        cx.errors.push(diag);
        break;
    }
    source
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
            let (origin, span) = (Origin::Access(read.access.clone()), read.span);
            let clause = Clause {
                left,
                cmp,
                right,
                origin,
                span,
            };
            cx.require_or(clause, diag);
        } else {
            let help = match remainder.as_const() {
                None => format!("add `where {remainder} == 0`"),
                Some(_) => format!("{} is not a multiple of {product}", read.axis),
            };
            cx.errors
                .push(Diag::new(Code::MergedAxis, read.span, text("may not")).help(help));
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
    let product = Dim::product(read.members.iter().map(|m| &indices[m.at()].extent));
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
        Diag::new(Code::ExtentMismatch, read.span, text)
    };
    let diag = match cx.equal(&product, axis, &what, differ) {
        Equality::Equal => return,
        Equality::Differ => differ(),
        Equality::Unknown => {
            let text = format!(
                "cannot prove `{product}` == `{axis}`: `({names})` is the first, its axis in `{}` the second",
                read.access
            );
            let help = format!("add `where {product} == {axis}`");
            Diag::new(Code::UnprovenExtent, read.span, text).help(help)
        }
    };
    cx.errors.push(diag);
}
