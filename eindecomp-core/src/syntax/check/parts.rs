//! Indices that read axes of several lengths: a parameter that is declared too short or too long, else
//! the longer ones in part, or the shorter ones padded.

use super::body::BodyCx;
use super::extents::{Access, Decl, Use};
use super::fixes::range;
use super::padding::pad;
use super::walk;
use crate::ein::Dim;
use crate::syntax::ast::CmpOp;
use crate::syntax::diag::Fix;
use crate::syntax::token::Span;

/// What makes all `uses` of an index agree on its own extent: that of its `in`, else that of the
/// declared result, else the least one of a reduced index.
pub(super) fn part(
    cx: &BodyCx<'_>,
    decl: &Decl,
    uses: &[&Use],
    wanted: Option<&Dim>,
) -> Option<Fix> {
    let facts = &cx.facts;
    let at_most = |a: &Dim, b: &Dim| facts.holds(a, CmpOp::Le, b);
    let least = || {
        let mut extents = uses.iter().map(|u| &u.extent);
        extents.find(|extent| uses.iter().all(|u| at_most(extent, &u.extent)))
    };
    let declared = decl.extent.as_ref().map(|(extent, _)| extent);
    let extent = match declared.or(wanted) {
        Some(extent) => extent,
        None if decl.reduced => least()?,
        None => return None,
    };
    let equal = |u: &&&Use| facts.equal(&u.extent, extent);
    let (own, others): (Vec<&Use>, Vec<&Use>) = uses.iter().partition(|u| equal(u));
    let given = declared.is_some() || !own.is_empty();
    if others.iter().all(|u| at_most(extent, &u.extent)) {
        let shown = others.iter().map(|u| {
            let mut subs = u.access.subs.clone();
            subs[u.axis] = format!("0 + {}", decl.name);
            format!("`{}[{}]`", u.access.place, subs.join(", "))
        });
        let help = format!("{} to read a part", shown.collect::<Vec<_>>().join(" and "));
        let mut fix = match given {
            true => Fix {
                help,
                edits: Vec::new(),
            },
            false => {
                let range = range(&decl.name, decl.span, &extent.to_string());
                Fix {
                    help: format!("{}, and {help}", range.help),
                    ..range
                }
            }
        };
        let starts = others.iter().map(|u| Span::new(u.span.start, u.span.start));
        fix.edits.extend(starts.map(|start| (start, "0 + ".into())));
        return Some(fix);
    }
    if !given || !others.iter().all(|u| at_most(&u.extent, extent)) {
        return None;
    }
    let pads = others.iter().map(|u| padded(cx, decl, u));
    let pads = pads.collect::<Option<Vec<Fix>>>()?.into_iter();
    pads.reduce(|mut all, fix| {
        all.help += &format!(", and {}", fix.help);
        all.edits.extend(fix.edits);
        all
    })
}

/// The parameter of a use, which nothing else reads, declared as long as the others where its length
/// is off by a number.
pub(super) fn off_by(cx: &BodyCx<'_>, u: &Use, extent: &Dim) -> Option<Fix> {
    let off = cx
        .facts
        .normal(&(&u.extent - extent))
        .as_const()
        .filter(|n| *n != 0);
    let sized = u.extent.as_const().is_none() && off.is_some();
    let mut params = cx.ast.params.iter();
    let param = params.find(|param| param.name.as_str() == u.access.place)?;
    let own = cx.lookup(param.name.as_str())?;
    let whole = cx.vars[own.at()].span == param.name.span;
    if !sized || !whole || walk::uses(cx.ast, param.name.as_str()) > 1 {
        return None;
    }
    cx.declared_axis(param, u.axis, extent)
}

/// A value outside of what a use of an index reads, or a condition in the reduction around it.
fn padded(cx: &BodyCx<'_>, decl: &Decl, u: &Use) -> Option<Fix> {
    let mut subs = u.access.subs.clone();
    subs[u.axis] = format!("0 + {}", decl.name);
    let shifted = (Span::new(u.span.start, u.span.start), "0 + ".to_owned());
    if u.access.padded {
        return Some(Fix {
            help: format!("`{}[{}]` to pad", u.access.place, subs.join(", ")),
            edits: vec![shifted],
        });
    }
    let access = Access {
        place: u.access.place.clone(),
        subs,
        visible: Vec::new(),
        ..*u.access
    };
    let inside = [format!("{} < {}", decl.name, u.extent)];
    let mut fix = pad(cx, &access, &inside).into_iter().next()?;
    let wraps = |(span, _): &(Span, String)| span.start == access.span.start;
    if fix.edits.iter().any(wraps) {
        fix.edits.push(shifted);
    }
    Some(fix)
}
