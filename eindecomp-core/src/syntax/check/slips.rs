//! Positions that leave their axis by a slip in their arithmetic: `i + 1 % N` for `(i + 1) % N`, and
//! two indices or branches in each other's place, or the stride of another axis.

use std::sync::Arc;

use super::fixes::exchanged;
use super::prove::Facts;
use super::ranges::{Walk, index_facts, of_data, poly};
use super::together::{Kind, Outside};
use super::tree::{Expr, ExprKind, IndexId, Read, Sub};
use super::walk::{named, path_to};
use crate::ein::{Dim, ScalarFn};
use crate::syntax::ast;
use crate::syntax::diag::Fix;
use crate::syntax::token::Span;

/// `(i + 1) % N` for `i + 1 % N` on an axis of `N`; the help is that code alone.
pub(super) fn rounded(e: &Expr, text: &str, axis: &Dim, names: &[Arc<str>]) -> Option<Fix> {
    let ExprKind::Call(ScalarFn::ADD | ScalarFn::SUB, sides) = &e.kind else {
        return None;
    };
    let [_, last] = &sides[..] else { return None };
    let ExprKind::Call(ScalarFn::REM, args) = &last.kind else {
        return None;
    };
    let [step, period] = &args[..] else {
        return None;
    };
    let (sum, period) = text
        .rsplit_once(" % ")
        .filter(|_| poly(period, names) == Some(axis.clone()))?;
    let help = format!("`({sum}) % {period}`");
    let end = step.span.end;
    Some(Fix::before(e.span, "(", &help).and(Span::new(end, end), ")"))
}

/// A position of a read: its indices with their places, its axis, and what it is.
type Position<'p> = (Vec<(Span, IndexId)>, &'p Dim, Dim);

impl Walk<'_, '_> {
    /// Another index in place of one in a position that leaves its axis: one that nothing else reads, or, for an index
    /// by itself, the one that runs over this axis.
    pub(super) fn instead(
        &self,
        read: &Read,
        text: (&str, &[String]),
        facts: &Facts,
    ) -> Option<Fix> {
        let axes = &read.place.ty.tensor()?.axes;
        let stands = |id: IndexId| {
            let mut subs = read.subs.iter();
            subs.any(|sub| matches!(sub, Sub::Expr(e) if e.indices().iter().any(|(_, i)| *i == id)))
        };
        let unread = |id: IndexId| {
            let mut places = Vec::new();
            if let Some(value) = self.cx.value() {
                named(value, &self.names[id.at()], &mut places);
            }
            places.is_empty()
        };
        let merged = |sub: &Sub| !matches!(sub, Sub::Expr(_));
        if read.subs.iter().any(merged) {
            return None;
        }
        let positions = read.subs.iter().zip(axes).enumerate();
        let mut wrong = positions.filter_map(|(nth, (sub, axis))| {
            let Sub::Expr(e) = sub else { return None };
            let at = poly(e, &self.names)?;
            (!facts.inside(&at, axis)).then_some((nth, e, axis, at))
        });
        let (nth, e, axis, at) = wrong.next()?;
        let bare = matches!(e.kind, ExprKind::Index(_));
        let indices = e.indices();
        let (old, new) = indices.iter().find_map(|(_, old)| {
            let mut others = self.active.iter().copied().filter(|id| !stands(*id));
            let new = others.find(|id| {
                let (from, to) = (&self.names[old.at()], &self.names[id.at()]);
                let at = at.try_substitute(&|s| (*s == **from).then(|| Dim::sym(to.clone())));
                let own = bare && self.cx.facts.equal(&self.indices[id.at()].extent, axis);
                (unread(*id) || own) && at.is_some_and(|at| facts.inside(&at, axis))
            })?;
            Some((*old, new))
        })?;
        let (from, to) = (&self.names[old.at()], &self.names[new.at()]);
        let mut shown = text.1.to_vec();
        shown[nth] = renamed(&shown[nth], &[(from, to)]);
        let help = format!("did you mean `{}[{}]`?", text.0, shown.join(", "));
        let places = indices.iter().filter(|(_, id)| *id == old);
        let edits = places.map(|(span, _)| (*span, to.to_string())).collect();
        Some(Fix { help, edits })
    }

    /// Two indices of a read in each other's place, if all of its positions then are inside.
    pub(super) fn swapped(
        &self,
        read: &Read,
        text: (&str, &[String]),
        facts: &Facts,
    ) -> Option<Fix> {
        let axes = &read.place.ty.tensor()?.axes;
        let mut places: Vec<Position<'_>> = Vec::new();
        for (sub, axis) in read.subs.iter().zip(axes) {
            let Sub::Expr(e) = sub else { return None };
            places.push((e.indices(), axis, poly(e, &self.names)?));
        }
        let mut used: Vec<IndexId> = places
            .iter()
            .flat_map(|p| &p.0)
            .map(|(_, id)| *id)
            .collect();
        used.sort_unstable();
        used.dedup();
        let pairs = used.iter().enumerate();
        let mut pairs = pairs.flat_map(|(nth, a)| used[nth + 1..].iter().map(move |b| (*a, *b)));
        let (a, b) = pairs.find(|(a, b)| {
            let (x, y) = (&self.names[a.at()], &self.names[b.at()]);
            places.iter().all(|(_, axis, at)| {
                let other = |s: &str| match s {
                    _ if *s == **x => Some(Dim::sym(y.clone())),
                    _ if *s == **y => Some(Dim::sym(x.clone())),
                    _ => None,
                };
                let at = at.try_substitute(&other);
                at.is_some_and(|at| facts.inside(&at, axis))
            })
        })?;
        let other = |id: IndexId| match id {
            _ if id == a => Some(&self.names[b.at()]),
            _ if id == b => Some(&self.names[a.at()]),
            _ => None,
        };
        let named = places.iter().flat_map(|(named, ..)| named);
        let edits = named.filter_map(|(span, id)| Some((*span, other(*id)?.to_string())));
        let edits: Vec<(Span, String)> = edits.collect();
        let (place, subs) = text;
        let (a, b) = (&self.names[a.at()], &self.names[b.at()]);
        let shown = subs.iter().map(|sub| renamed(sub, &[(a, b), (b, a)]));
        let shown = shown.collect::<Vec<_>>().join(", ");
        let help = format!("did you mean `{place}[{shown}]`?");
        Some(Fix { help, edits })
    }

    /// A position, such as the number of a round in a loop or `t - 1`, and an index that stands in this
    /// read alone in each other's place, if the position then is inside.
    pub(super) fn turned(
        &self,
        read: &Read,
        text: (&str, &[String]),
        facts: &Facts,
    ) -> Option<Fix> {
        let axes = &read.place.ty.tensor()?.axes;
        let (uses, _) = self.meant?;
        let alone = |id: IndexId| {
            let shifted = uses
                .shifted
                .iter()
                .any(|s| s.at.indices().iter().any(|(_, i)| *i == id));
            !shifted && uses.bare.iter().filter(|u| u.index == id).count() == 1
        };
        let places: Vec<(&Expr, &Dim)> = (read.subs.iter().zip(axes))
            .filter_map(|(sub, axis)| match sub {
                Sub::Expr(e) => Some((e, axis)),
                _ => None,
            })
            .collect();
        if places.len() != axes.len() {
            return None;
        }
        let mut positions = places.iter().enumerate().filter_map(|(nth, (e, axis))| {
            let at = poly(e, &self.names)?;
            let bare = matches!(e.kind, ExprKind::Index(_));
            let free = !bare && at.as_const().is_none();
            (free && !facts.inside(&at, axis)).then_some((nth, at))
        });
        let (number, other) = positions.find_map(|(nth, at)| {
            let other = places.iter().position(|(e, axis)| {
                matches!(e.kind, ExprKind::Index(id) if alone(id)) && facts.inside(&at, axis)
            })?;
            Some((nth, other))
        })?;
        let (place, subs) = text;
        let turned = [number, other].map(|at| (at, places[at].0.span));
        let (shown, edits) = exchanged(place, subs, turned);
        let help = format!("did you mean {shown}?");
        Some(Fix { help, edits })
    }

    /// The branches of the `if` at `span` in each other's place, if all of their reads then are inside:
    /// told with the reads out of range since number `before`.
    pub(super) fn turned_branches(
        &mut self,
        (span, before): (Span, usize),
        (then, otherwise): (&Expr, &Expr),
        (yes, no): (&Facts, &Facts),
    ) {
        let mut path = Vec::new();
        let found = self.cx.value();
        let found = found.is_some_and(|value| path_to(value, span, &mut path));
        let Some(ast::ExprKind::If {
            cond,
            then: first,
            otherwise: Some(second),
        }) = path.last().filter(|_| found).map(|e| &e.kind)
        else {
            return;
        };
        let nested = matches!(second.kind, ast::ExprKind::If { .. });
        if nested || !self.reads_inside(then, no) || !self.reads_inside(otherwise, yes) {
            return;
        }
        let help = format!("did you mean `if {cond} {{ {second} }} else {{ {first} }}`?");
        let fix = Fix::replace(first.span, second.to_string(), &help);
        let fix = fix.and(second.span, first.to_string());
        // One tensor's reads are mended together.
        let first = &self.outside[before];
        let one = |o: &Outside| o.access.place == first.access.place && !o.fixes.is_empty();
        if !self.outside[before..].iter().all(one) {
            self.outside.truncate(before + 1);
            let outside = &mut self.outside[before];
            outside.diag.help = None;
            outside.fixes = vec![(Kind::Guard, fix)];
        }
    }

    /// Does every read in an expression stay inside of its axes?
    fn reads_inside(&self, e: &Expr, facts: &Facts) -> bool {
        let mut facts = facts.clone();
        if let ExprKind::Reduce(reduce) = &e.kind {
            for id in &reduce.indices {
                let index = &self.indices[id.at()];
                index_facts(&mut facts, &index.name, &index.extent);
            }
        }
        let here = match &e.kind {
            ExprKind::Read(read) if read.otherwise.is_none() => {
                let axes = read.place.ty.tensor().map_or(&[][..], |t| &t.axes);
                let inside = |(sub, axis): (&Sub, &Dim)| match sub {
                    Sub::Expr(e) => of_data(e) || self.inside(e, axis, &facts),
                    Sub::Merged(..) => true,
                    Sub::Mixed(_) => false,
                };
                read.subs.iter().zip(axes).all(inside)
            }
            _ => true,
        };
        here && e
            .children()
            .into_iter()
            .all(|e| self.reads_inside(e, &facts))
    }

    /// `i * W + j` for `i * H + j`, where `j` runs over `W`: the extent of the last index in place of
    /// another dim, if the position then is inside. Indices in another order are in each other's place.
    pub(super) fn strided(
        &self,
        read: &Read,
        text: (&str, &[String]),
        facts: &Facts,
    ) -> Option<Fix> {
        let axes = &read.place.ty.tensor()?.axes;
        let mut positions = read.subs.iter().zip(axes).enumerate();
        positions.find_map(|(axis, (sub, extent))| {
            let Sub::Expr(e) = sub else { return None };
            let (named, sizes) = (e.indices(), strides(e));
            let (_, last) = named.last()?;
            let size = self.indices[last.at()].extent.as_symbol()?.clone();
            let ([written], true) = (&sizes[..], named.is_sorted_by_key(|(_, id)| *id)) else {
                return None;
            };
            let at = poly(e, &self.names)?;
            let at = at.try_substitute(&|s| (*s == **written).then(|| Dim::sym(size.clone())))?;
            let inside = *written != size && facts.inside(&at, extent);
            let mut shown = text.1.to_vec();
            shown[axis] = renamed(&shown[axis], &[(written, &size)]);
            let help = format!("did you mean `{}[{}]`?", text.0, shown.join(", "));
            let is_written = |e: &&Expr| as_symbol(e) == Some(written);
            let places = e.nodes().into_iter().filter(is_written);
            let edits = places.map(|e| (e.span, size.to_string())).collect();
            inside.then_some(Fix { help, edits })
        })
    }
}

/// The dims that stand as factors.
fn strides(e: &Expr) -> Vec<Arc<str>> {
    let factors = |e: &'_ Expr| match &e.kind {
        ExprKind::Call(ScalarFn::MUL, factors) => {
            factors.iter().filter_map(as_symbol).cloned().collect()
        }
        _ => Vec::new(),
    };
    e.nodes().into_iter().flat_map(factors).collect()
}

/// The dim that the expression is.
fn as_symbol(e: &Expr) -> Option<&Arc<str>> {
    match &e.kind {
        ExprKind::Dim(dim) => dim.as_symbol(),
        _ => None,
    }
}

/// A text with the second name of each pair in place of the first.
pub(super) fn renamed(text: &str, names: &[(&str, &str)]) -> String {
    let is_name = |ch: char| ch.is_alphanumeric() || ch == '_';
    let mut out = String::new();
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let end = match is_name(first) {
            true => rest.find(|ch| !is_name(ch)).unwrap_or(rest.len()),
            false => first.len_utf8(),
        };
        let (word, after) = rest.split_at(end);
        let other = names.iter().find(|(old, _)| *old == word);
        out += other.map_or(word, |(_, new)| new);
        rest = after;
    }
    out
}
