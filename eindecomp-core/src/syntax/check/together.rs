//! What has one cause as one error: reads of one tensor in one statement that all leave it, a dim
//! that is not declared, an index that is mixed up.

use std::sync::Arc;

use super::body::BodyCx;
use super::extents::Access;
use crate::ein::Dim;
use crate::syntax::ast::CmpOp;
use crate::syntax::diag::{Code, Diag, Fix};
use crate::syntax::names::count;
use crate::syntax::token::Span;

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
    pub(super) axis: usize,
    pub(super) diag: Diag,
    pub(super) fixes: Vec<(Kind, Fix)>,
    /// The one inequality of sizes that would keep it inside: the first is at least the second.
    pub(super) needed: Option<(Dim, Dim)>,
    /// The position around whose middle a window is as long before as behind, in place of what stands there.
    pub(super) centred: Option<(Span, String)>,
}

impl Outside {
    fn clause(&self) -> Option<&Fix> {
        let mut fixes = self.fixes.iter();
        Some(&fixes.find(|(kind, _)| *kind == Kind::Clause)?.1)
    }

    /// Is the same position of another tensor wrong in the same way, or does the same change mend both?
    fn is_like(&self, other: &Outside) -> bool {
        let position = |one: &Outside| one.access.subs.get(one.axis).cloned();
        let helps = |one: &Outside| {
            one.fixes
                .iter()
                .map(|(_, fix)| fix.help.clone())
                .collect::<Vec<_>>()
        };
        let edits = |one: &Outside| {
            one.fixes
                .iter()
                .map(|(_, fix)| fix.edits.clone())
                .collect::<Vec<_>>()
        };
        let alike = position(self) == position(other) && helps(self) == helps(other);
        !self.fixes.is_empty() && (alike || edits(self) == edits(other))
    }

    /// What has to be at least 0.
    fn least(&self) -> Option<Dim> {
        let (left, right) = self.needed.as_ref()?;
        Some(left - right)
    }
}

/// Pads a window of one read at both ends instead of behind its last element, if that is meant of all of its axes.
pub(super) fn centre(found: &mut [Outside]) {
    let centred: Option<Vec<(usize, Span, String)>> = (found.iter())
        .map(|o| o.centred.clone().map(|(span, text)| (o.axis, span, text)))
        .collect();
    let (Some(centred), Some(first)) = (centred, found.first()) else {
        return;
    };
    let mut subs = first.access.subs.clone();
    for (axis, _, text) in &centred {
        subs[*axis] = text.clone();
    }
    let (old, new) = (
        first.access.to_string(),
        format!("{}[{}]", first.access.place, subs.join(", ")),
    );
    let pads = found.iter_mut().flat_map(|o| &mut o.fixes);
    for (_, fix) in pads.filter(|(kind, fix)| *kind == Kind::Pad && fix.help.contains(" else ")) {
        fix.help = fix
            .help
            .replace(&old, &new)
            .replace("to pad", "to pad at both ends");
        fix.edits
            .extend(centred.iter().map(|(_, span, text)| (*span, text.clone())));
    }
}

/// Where one read needs a size to be at least, and another at most, as large as another: it is this.
fn as_equal(cx: &BodyCx<'_>, found: &mut [Outside]) {
    for at in 0..found.len() {
        let Some((needed, (left, right))) = found[at].least().zip(found[at].needed.clone()) else {
            continue;
        };
        let opposite = |other: &Outside| other.least().is_some_and(|least| least == -&needed);
        let same = |least: &Dim| *least == needed || *least == -&needed;
        // Another element may be meant.
        let element = |one: &Outside| one.fixes.iter().any(|(kind, _)| *kind == Kind::Element);
        let mut all = found[at..]
            .iter()
            .filter(|one| one.least().as_ref().is_some_and(same));
        if !found[at + 1..].iter().any(opposite) || all.any(element) {
            continue;
        }
        let Some(fix) = cx.add_clauses(&[(left, CmpOp::Eq, right)]) else {
            continue;
        };
        for one in found[at..].iter_mut() {
            if one.least().as_ref().is_some_and(same) {
                one.fixes = vec![(Kind::Clause, fix.clone())];
                one.needed = None;
            }
        }
    }
}

/// The errors, one per tensor, or per clause that is missing.
pub(super) fn together(cx: &BodyCx<'_>, mut found: Vec<Outside>) -> Vec<Diag> {
    let mut out = Vec::new();
    as_equal(cx, &mut found);
    while !found.is_empty() {
        let first = found.remove(0);
        let clause = |other: &Outside| {
            let both = first.clause().zip(other.clause());
            both.is_some_and(|(own, other)| own.edits == other.edits)
        };
        let same = |other: &Outside| {
            other.access.place == first.access.place || clause(other) || first.is_like(other)
        };
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
    // Of the same read, its other positions.
    let here = first.access.to_string();
    let others = more.iter().map(|o| match o.access.to_string() {
        access if access == here => o.access.subs[o.axis].clone(),
        access => access,
    });
    let mut others: Vec<String> = others.collect();
    others.dedup();
    others.retain(|other| *other != first.access.subs[first.axis]);
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
        let own = of(&first.fixes, kind);
        // What says of the sizes all that another needs, mends it too.
        let enough = |fix: &&Fix| {
            let own = own.as_ref().map_or(&[][..], |own| &own.edits);
            fix.edits.iter().all(|edit| own.contains(edit))
        };
        let same = |o: &Outside| of(&o.fixes, kind).or_else(|| o.clause().filter(enough).cloned());
        let rest: Option<Vec<Fix>> = more.iter().map(same).collect();
        let all = own.clone().zip(rest);
        diag = diag.fixes(all.and_then(|(fix, rest)| merged(fix, &rest)));
    }
    match diag.fixes.is_empty() {
        true => diag,
        // What the first alone would need is not enough.
        false => Diag { help: None, ..diag },
    }
}

/// Leaves out errors about extents, among those since number `before`, that an index has because it
/// is another one that is meant, which is told.
pub(super) fn without_mixed_up(errors: &mut Vec<Diag>, before: usize) {
    let told = errors[before..].iter();
    let told = told.filter(|e| e.code == Code::FactorInReduction);
    let edits = told.flat_map(|e| &e.fixes).flat_map(|fix| &fix.edits);
    let places: Vec<Span> = edits.map(|(span, _)| *span).collect();
    let follows = |e: &Diag| {
        let extents = matches!(e.code, Code::ExtentMismatch | Code::UnprovenExtent);
        let second = e.secondary.as_ref().map(|(span, _)| *span);
        extents && (places.contains(&e.primary) || second.is_some_and(|s| places.contains(&s)))
    };
    let mut at = 0;
    errors.retain(|e| {
        at += 1;
        at <= before || !follows(e)
    });
}

/// All of the changes at once, if none is in another's way.
fn merged(mut fix: Fix, more: &[Fix]) -> Option<Fix> {
    let mut different = false;
    for (span, text) in more.iter().flat_map(|fix| &fix.edits) {
        let clash = |(s, t): &&(Span, String)| s.overlaps(*span) || *s == *span && *t != *text;
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
