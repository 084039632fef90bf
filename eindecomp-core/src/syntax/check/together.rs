//! Reads of one tensor in one statement that all leave it, as one error.

use std::sync::Arc;

use super::extents::Access;
use crate::syntax::diag::{Diag, Fix};
use crate::syntax::names::count;

/// What a change of a read out of range does.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Kind {
    /// Corrects the condition around it.
    Guard,
    /// Reads an element that is there.
    Element,
    /// Says more of the sizes.
    Clause,
    /// Gives an index another range.
    Range,
    /// Gives it a value outside.
    Pad,
}

/// A read out of range: its error without changes, and those by kind.
pub(super) struct Outside {
    pub(super) access: Arc<Access>,
    pub(super) diag: Diag,
    pub(super) fixes: Vec<(Kind, Fix)>,
}

/// The errors, one per tensor.
pub(super) fn together(mut found: Vec<Outside>) -> Vec<Diag> {
    let mut out = Vec::new();
    while !found.is_empty() {
        let first = found.remove(0);
        let same = |other: &Outside| other.access.place == first.access.place;
        let (more, rest): (Vec<Outside>, Vec<Outside>) = found.into_iter().partition(same);
        found = rest;
        out.push(match more.is_empty() {
            true => {
                let fixes = first.fixes.into_iter().map(|(_, fix)| fix);
                first.diag.fixes(fixes)
            }
            false => one(first, &more),
        });
    }
    out
}

fn one(first: Outside, more: &[Outside]) -> Diag {
    let mut others: Vec<String> = more.iter().map(|o| o.access.to_string()).collect();
    others.dedup();
    others.retain(|other| *other != first.access.to_string());
    let mut diag = first.diag;
    if let Some(next) = others.first() {
        let rest = others.len() - 1;
        diag.message += &match rest {
            0 => format!("; so does `{next}`"),
            _ => format!(
                "; so do `{next}` and {}",
                count(rest, "more read", "more reads")
            ),
        };
    }
    let mut kinds: Vec<Kind> = first.fixes.iter().map(|(kind, _)| *kind).collect();
    kinds.dedup();
    let of = |fixes: &[(Kind, Fix)], kind: Kind| -> Option<Fix> {
        let found = fixes.iter().find(|(k, _)| *k == kind)?;
        Some(found.1.clone())
    };
    for kind in kinds {
        let rest: Option<Vec<Fix>> = more.iter().map(|o| of(&o.fixes, kind)).collect();
        let all = of(&first.fixes, kind).zip(rest);
        diag = diag.fixes(all.and_then(|(fix, rest)| merged(fix, &rest)));
    }
    match diag.fixes.is_empty() {
        true => diag,
        // What the first alone would need is not enough.
        false => Diag { help: None, ..diag },
    }
}

/// All of the changes at once, if none is in another's way.
fn merged(mut fix: Fix, more: &[Fix]) -> Option<Fix> {
    let mut different = false;
    for (span, text) in more.iter().flat_map(|fix| &fix.edits) {
        let clash = |(s, t): &&(crate::syntax::token::Span, String)| {
            (s.start < span.end && span.start < s.end) || *s == *span && *t != *text
        };
        if fix.edits.contains(&(*span, text.clone())) {
            continue;
        }
        if fix.edits.iter().find(clash).is_some() {
            return None;
        }
        fix.edits.push((*span, text.clone()));
        different = true;
    }
    if different {
        fix.help += ", and so the other reads";
    }
    Some(fix)
}
