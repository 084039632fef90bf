//! Two indices of a statement that are called as each other's axes, everywhere but in one access.

use std::sync::Arc;

use super::body::BodyCx;
use super::extents::Use;
use super::meant::Reading;
use super::tree::IndexId;
use super::walk;
use crate::syntax::ast::{LeftIndex, StmtKind};
use crate::syntax::diag::Fix;
use crate::syntax::token::Span;

/// The names of an index and of another one exchanged, but where the index is read as it is called: there alone it
/// disagrees with its other uses, and the other one runs over the axis that it is called like.
pub(super) fn exchanged_names(
    cx: &BodyCx<'_>,
    reading: &Reading<'_, '_>,
    index: IndexId,
    odd: Vec<&Use>,
) -> Option<Fix> {
    let (first, rest) = odd.split_first()?;
    let access = &first.access;
    let here = |u: &Use| Arc::ptr_eq(&u.access, access);
    if !rest.is_empty() || !reading.alike(index, &first.extent) {
        return None;
    }
    let of = |wanted: IndexId| {
        let uses = reading.bare.iter().filter(move |u| u.index == wanted);
        uses.filter(|u| !here(u))
    };
    let own = of(index).next()?.extent.clone();
    let other = (0..reading.decls.len()).map(|at| IndexId(at as u16));
    let mut other = other.filter(|other| {
        let all = |id, extent| {
            let mut uses = of(id);
            let declared = reading.declared(id);
            uses.all(|u| reading.equal(&u.extent, extent))
                && declared.is_none_or(|declared| reading.equal(declared, extent))
        };
        let unseen = !reading.bare.iter().any(|u| u.index == *other && here(u));
        *other != index
            && unseen
            && reading.alike(*other, &own)
            && of(*other).next().is_some()
            && all(index, &own)
            && all(*other, &first.extent)
    });
    let other = other.next()?;
    let (a, b) = (&reading.decls[index.at()], &reading.decls[other.at()]);
    if a.reduced || b.reduced {
        return None;
    }
    let StmtKind::Let { pat, value, .. } = &cx.stmt?.kind else {
        return None;
    };
    let mut edits = Vec::new();
    for (name, instead) in [(&a.name, &b.name), (&b.name, &a.name)] {
        let mut places: Vec<Span> = Vec::new();
        for decl in pat.indices.iter().flatten() {
            let LeftIndex::Index(decl) = decl else {
                return None;
            };
            places.extend((decl.name.name == *name).then_some(decl.name.span));
        }
        walk::named(value, name, &mut places);
        places.retain(|place| !access.span.contains(*place));
        edits.extend(places.into_iter().map(|place| (place, instead.to_string())));
    }
    let help = format!(
        "exchange `{}` and `{}` everywhere but in `{access}`",
        b.name, a.name
    );
    Some(Fix { help, edits })
}
