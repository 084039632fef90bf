//! Positions that start on their axis and run past its end: one of their indices is too long, or the
//! axis is padded.
//!
//! Which of both is meant:
//! * an index whose `in` is not the extent that the result is declared with, has that extent, if the
//!   positions then stay inside;
//! * a result as long as the axis that it is read from (over the stride) is padded: each of its
//!   elements has a place of its own there, and the rest of the window is past the end;
//! * otherwise a window of a written length, `sum[k in 4]`, is shortened, and without one an index on
//!   the left, where the result is declared too.
//!
//! What starts before its axis, `x[i + k - 1]`, is padded on purpose.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::body::BodyCx;
use super::extents::{Shifted, Uses};
use super::fixes::{exchanged, range};
use super::parts::off_by;
use super::prove::Facts;
use super::ranges::{Walk, index_facts, poly};
use super::tree::{Index, IndexId, Type};
use super::walk;
use crate::ein::Dim;
use crate::syntax::ast::{self, CmpOp, Ident, IndexDecl, LeftIndex, StmtKind};
use crate::syntax::diag::Fix;
use crate::syntax::token::Span;

/// The axis of a declared result that an index on the left runs over.
pub(super) struct Axis<'w> {
    pub(super) extent: &'w Dim,
    /// That as written.
    span: Span,
}

/// What is meant by a position that runs past the end.
pub(super) enum Length {
    /// One of its indices has the extent that the result is declared with.
    AsDeclared(Fix),
    /// One of its indices is shorter.
    Shorter(Fix),
    /// The same, where nothing says how long the tensor has to be: the range.
    Perhaps(String),
    /// Its axis is padded.
    Padded,
}

impl Walk<'_, '_> {
    fn axis_of(&self, id: IndexId) -> Option<Axis<'_>> {
        self.cx.axis_of(self.indices[id.at()].span)
    }

    fn left_decl(&self, id: IndexId) -> Option<&IndexDecl> {
        self.cx.left_decl(self.indices[id.at()].span)
    }

    /// What is meant by the position `at` of an axis, whose last value is `high`.
    pub(super) fn length(&self, at: &Dim, axis: &Dim, high: &Dim) -> Length {
        let over = &(high - axis) + &Dim::from(1);
        let used: Vec<(IndexId, Dim)> = (self.active.iter())
            .filter_map(|id| Some((*id, self.stride(at, *id)?)))
            .collect();
        let as_declared = used.iter().find_map(|(id, _)| {
            let extent = self.axis_of(*id)?.extent;
            let other = !self.cx.facts.equal(&self.indices[id.at()].extent, extent);
            other.then(|| self.in_part(at, axis, *id, extent))?
        });
        if let Some(fix) = as_declared {
            return Length::AsDeclared(fix);
        }
        let window = used.len() > 1;
        let as_long = |(id, stride): &&(IndexId, Dim)| self.is_as_long(*id, stride, axis);
        let same = used.iter().find(as_long);
        if same.is_some_and(|(id, _)| window || self.axis_of(*id).is_some()) {
            return Length::Padded;
        }
        let narrower = used
            .iter()
            .find_map(|used| self.narrower(at, axis, used, &over));
        if let Some(fix) = narrower {
            return Length::Shorter(fix);
        }
        let on_left = |id: IndexId| self.stores || self.left_decl(id).is_some();
        let mut shorter = used.iter().filter_map(|(id, stride)| {
            on_left(*id).then_some(())?;
            let extent = self.shorter(at, axis, (*id, stride), &over)?;
            Some((*id, extent))
        });
        let Some((id, extent)) = shorter.next() else {
            return Length::Padded;
        };
        let index = &self.indices[id.at()];
        let text = extent.to_string();
        match self.axis_of(id) {
            None => Length::Perhaps(format!("`{} in {text}`", index.name)),
            Some(declared) => match self.in_part(at, axis, id, &extent) {
                Some(fix) => Length::Shorter(declared.redeclared(fix, &extent)),
                None => Length::Padded,
            },
        }
    }

    /// By how much the position rises with an index.
    fn stride(&self, at: &Dim, id: IndexId) -> Option<Dim> {
        let name = &self.indices[id.at()].name;
        let put = |n| at.try_substitute(&|s| (*s == **name).then(|| Dim::from(n)));
        let slope = &put(1)? - &put(0)?;
        let linear = at == &(&put(0)? + &slope.try_mul(&Dim::sym(name.clone()))?);
        let sizes = slope.symbols();
        let sized = !self.names.iter().any(|name| sizes.contains(name));
        (linear && sized && slope.as_const() != Some(0)).then_some(slope)
    }

    /// Has an index on the left as many values as it takes with its stride to run over the axis?
    fn is_as_long(&self, id: IndexId, stride: &Dim, axis: &Dim) -> bool {
        let extent = &self.indices[id.at()].extent;
        let equal = |a: &Dim, b: &Dim| self.cx.facts.equal(a, b);
        let steps = axis + &(stride - &Dim::from(1));
        let on_left = self.left_decl(id).is_some();
        on_left
            && (stride
                .try_mul(extent)
                .is_some_and(|whole| equal(&whole, axis))
                || equal(extent, &axis.floor_div(stride))
                || equal(extent, &steps.floor_div(stride)))
    }

    /// The window of a written length that stays inside.
    fn narrower(
        &self,
        at: &Dim,
        axis: &Dim,
        (id, stride): &(IndexId, Dim),
        over: &Dim,
    ) -> Option<Fix> {
        let index = &self.indices[id.at()];
        let decl = walk::declared(self.cx.value()?, index.span)?;
        let bare = self.meant?.0.bare.iter().any(|u| u.index == *id);
        let extent = self.shorter(at, axis, (*id, stride), over)?;
        let written = decl.extent.as_ref().filter(|_| !bare)?;
        let help = format!("did you mean `{} in {extent}`?", index.name);
        Some(Fix::replace(written.span, extent.to_string(), &help))
    }

    /// The extent of an index with which the position stays inside.
    fn shorter(
        &self,
        at: &Dim,
        axis: &Dim,
        (id, stride): (IndexId, &Dim),
        over: &Dim,
    ) -> Option<Dim> {
        let extent = &self.indices[id.at()].extent;
        let by = &(over + &(stride - &Dim::from(1))).floor_div(stride);
        // Where quotients are in the way, one element less is what is meant.
        let shorter = match by.as_const() {
            Some(_) => [by.clone(), by.clone()],
            None => [Dim::from(1), by.clone()],
        };
        let shorter = shorter.into_iter().map(|by| extent - &by);
        // Still a number, or still as long as sizes make it; none at all is not meant.
        let alike = |shorter: &Dim| match (shorter.as_const(), extent.as_const()) {
            (Some(n), Some(_)) => n > 0,
            (n, known) => n.is_some() == known.is_some(),
        };
        // As many steps as the axis has, and no difference of two lengths.
        let last = &(over + axis) - &Dim::from(1);
        let rest = &last - &stride.try_mul(&(extent - &Dim::from(1)))?;
        let steps = (&(axis - &rest) + &(stride - &Dim::from(1))).floor_div(stride);
        let steps = (stride.as_const() > Some(1) && by.as_const().is_none()).then_some(steps);
        let mut fitting = steps.into_iter().chain(shorter).filter(alike);
        fitting.find(|shorter| self.stays(at, axis, id, shorter).is_some())
    }

    /// The facts with an index of this extent, if the position is inside by them.
    fn stays(&self, at: &Dim, axis: &Dim, id: IndexId, extent: &Dim) -> Option<Facts> {
        let mut facts = self.cx.facts.clone();
        for other in &self.active {
            let Index {
                name, extent: own, ..
            } = &self.indices[other.at()];
            index_facts(&mut facts, name, if *other == id { extent } else { own });
        }
        facts.inside(at, axis).then_some(facts)
    }

    /// An index of a position in this range, and over parts of other axes, if the position then is
    /// inside.
    pub(super) fn in_part(&self, at: &Dim, axis: &Dim, id: IndexId, extent: &Dim) -> Option<Fix> {
        let index = &self.indices[id.at()];
        let facts = self.stays(at, axis, id, extent)?;
        let bare = self.meant?.0.bare.iter().filter(|u| u.index == id);
        let longer: Vec<_> = bare.filter(|u| !facts.equal(&u.extent, extent)).collect();
        if !longer
            .iter()
            .all(|u| facts.holds(extent, CmpOp::Le, &u.extent))
        {
            return None;
        }
        let mut fix = self.ranged(id, index, extent)?;
        if let Some(first) = longer.first() {
            let read = first.access.to_string();
            fix.help += &format!(", and `0 + {}` to read a part of `{read}`", index.name);
        }
        let starts = longer.iter().map(|u| Span::new(u.span.start, u.span.start));
        fix.edits.extend(starts.map(|start| (start, "0 + ".into())));
        Some(fix)
    }

    /// The range of an index on the left.
    fn ranged(&self, id: IndexId, index: &Index, extent: &Dim) -> Option<Fix> {
        let (decl, text) = (self.left_decl(id), extent.to_string());
        let name = &index.name;
        Some(match &decl?.extent {
            None => range(name, index.span, &text),
            Some(written) => {
                let help = format!("write `{name} in {text}`");
                Fix::replace(written.span, text, &help)
            }
        })
    }
}

impl BodyCx<'_> {
    /// Notes, where a result has another's axes, the indices that stand in each other's place in each of
    /// several accesses.
    fn note_turned(
        &mut self,
        name: &Ident,
        indices: &[Index],
        uses: &Uses,
        wanted: &BTreeMap<IndexId, Dim>,
    ) {
        let equal = |a: &Dim, b: &Dim| self.facts.equal(a, b);
        let odd = |id: &IndexId| {
            wanted
                .get(id)
                .filter(|w| !equal(&indices[id.at()].extent, w))
        };
        if wanted.keys().all(|id| odd(id).is_none()) {
            return;
        }
        let (mut edits, mut shown, mut turned) = (Vec::new(), Vec::new(), 0);
        for (nth, first) in uses.bare.iter().enumerate() {
            let other = uses.bare[nth + 1..].iter().find(|second| {
                let meant = odd(&first.index).zip(odd(&second.index));
                Arc::ptr_eq(&first.access, &second.access)
                    && meant
                        .is_some_and(|(a, b)| equal(a, &second.extent) && equal(b, &first.extent))
            });
            let Some(second) = other else { continue };
            let (access, places) = (&first.access, [first, second].map(|u| (u.axis, u.span)));
            let (turned_access, own) = exchanged(&access.place, &access.subs, places);
            edits.extend(own);
            shown.push(turned_access);
            turned += 2;
        }
        let all = uses.bare.iter().filter(|u| odd(&u.index).is_some()).count();
        let moved = |s: &Shifted| s.at.indices().iter().any(|(_, id)| odd(id).is_some());
        if shown.len() > 1 && turned == all && !uses.shifted.iter().any(moved) {
            let help = format!("did you mean {}?", shown.join(" and "));
            self.ranged.insert(name.span, Fix { help, edits });
        }
    }

    /// Notes the range that an index needs to have the declared extent, if it is read under
    /// conditions alone, or the length of the parameter that alone gives it another one, if the positions
    /// with arithmetic then run to the end of their axis.
    pub(super) fn note_ranges(
        &mut self,
        name: &Ident,
        indices: &[Index],
        all: &Uses,
        wanted: &BTreeMap<IndexId, Dim>,
    ) {
        for (id, extent) in wanted {
            let index = &indices[id.at()];
            let other = !self.facts.equal(&index.extent, extent);
            let uses = || all.bare.iter().filter(|u| u.index == *id);
            let weak = uses().all(|u| u.weak);
            let fix = match weak {
                _ if !other => None,
                true => Some(range(&index.name, index.span, &extent.to_string())),
                false => {
                    let mut uses = uses();
                    let (only, none) = (uses.next(), uses.next());
                    let only = only.filter(|_| none.is_none() && fills(*id, extent, indices, all));
                    only.and_then(|only| off_by(self, only, extent))
                }
            };
            self.ranged.extend(fix.map(|fix| (name.span, fix)));
        }
        if !self.ranged.contains_key(&name.span) {
            self.note_turned(name, indices, all, wanted);
        }
    }

    /// The index that is declared on the left at `place`.
    pub(super) fn left_decl(&self, place: Span) -> Option<&IndexDecl> {
        let StmtKind::Let { pat, .. } = &self.stmt?.kind else {
            return None;
        };
        let mut axes = pat.indices.iter().flatten();
        axes.find_map(|axis| declared_at(axis, place))
    }

    /// The axis of the declared result that the index on the left at `place` has for itself.
    pub(super) fn axis_of(&self, place: Span) -> Option<Axis<'_>> {
        let StmtKind::Let { pat, .. } = &self.stmt?.kind else {
            return None;
        };
        let [name] = &pat.names[..] else { return None };
        let left = pat.indices.as_ref()?;
        let axis = left
            .iter()
            .position(|index| matches!(index, LeftIndex::Index(decl) if decl.name.span == place))?;
        let names = &self.ast.result.as_ref()?.names;
        let at = names.iter().position(|n| n.name == name.name)?;
        let written = self.ast.ret.types.get(at)?;
        let ast::TypeKind::Tensor {
            axes: Some(axes), ..
        } = &written.kind
        else {
            return None;
        };
        let Type::Tensor(result) = &self.block.results.get(at)?.ty else {
            return None;
        };
        let whole = result.axes.len() == left.len() && axes.len() == left.len();
        whole.then(|| Axis {
            extent: &result.axes[axis],
            span: axes[axis].span,
        })
    }
}

impl Axis<'_> {
    /// A change of an index' range, with the axis declared as long as that.
    pub(super) fn redeclared(&self, fix: Fix, extent: &Dim) -> Fix {
        let help = format!("{}, and declare `{extent}` in the result", fix.help);
        Fix { help, ..fix }.and(self.span, extent.to_string())
    }
}

/// The index that is declared at `place`.
fn declared_at(axis: &LeftIndex, place: Span) -> Option<&IndexDecl> {
    match axis {
        LeftIndex::Index(decl) => (decl.name.span == place).then_some(decl),
        LeftIndex::Merged(members, _) => members.iter().find_map(|m| declared_at(m, place)),
        LeftIndex::Rest(_) => None,
    }
}

/// Does a position with arithmetic run to the last element of its axis with an index of this extent?
fn fills(id: IndexId, extent: &Dim, indices: &[Index], uses: &Uses) -> bool {
    let names: Vec<Arc<str>> = indices.iter().map(|i| i.name.clone()).collect();
    let mut shifted = uses
        .shifted
        .iter()
        .filter_map(|s| Some((poly(&s.at, &names)?, s)));
    shifted.any(|(at, shifted)| {
        let last = indices
            .iter()
            .enumerate()
            .try_fold(at.clone(), |at, (nth, index)| {
                let own = if nth == id.at() {
                    extent
                } else {
                    &index.extent
                };
                at.try_substitute(&|s| (*s == *index.name).then(|| own - &Dim::from(1)))
            });
        at.symbols().contains(&names[id.at()])
            && last.is_some_and(|last| &last + &Dim::from(1) == shifted.extent)
    })
}
