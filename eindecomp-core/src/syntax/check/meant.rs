//! Which index is meant where the uses of one disagree: the least change of one access with which
//! every index that it touches runs over one extent.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use super::extents::{Access, Decl, Shifted, Use, Uses};
use super::fixes::exchanged;
use super::prove::Facts;
use super::ranges::{index_facts, poly};
use super::tree::{Expr, ExprKind, IndexId};
use crate::ein::Dim;
use crate::syntax::ast::CmpOp;
use crate::syntax::diag::Fix;
use crate::syntax::names::{are_distinct, is_like};
use crate::syntax::token::Span;

/// Accesses of more axes are not put in another order as a whole.
const MAX_PERMUTED: usize = 6;

/// Another index or, of a gather's axis, another extent for uses by number.
type Changes = Vec<(usize, IndexId)>;

/// What a statement says of its indices.
pub(super) struct Reading<'s, 'u> {
    pub(super) facts: &'s Facts,
    pub(super) decls: &'s [Decl],
    pub(super) all: &'s Uses,
    /// The bare uses, with the indices that are meant as far as that is told.
    pub(super) bare: Cow<'u, [Use]>,
    /// The extents of left indices where the result is declared.
    pub(super) wanted: &'s BTreeMap<IndexId, Dim>,
}

/// What is meant, by the number of the use that is wrong.
pub(super) struct Meant {
    pub(super) wrong: usize,
    pub(super) fix: Fix,
    /// The indices of the access stay the same, in another order.
    pub(super) permutes: bool,
    change: Change,
}

enum Change {
    Indices(Changes),
    /// The uses read axes of these extents.
    Axes(Vec<(usize, Dim)>),
}

impl Reading<'_, '_> {
    /// The uses of an index that give its extent, by number: those under conditions only where
    /// there are no others.
    pub(super) fn uses(&self, index: IndexId) -> Vec<usize> {
        let mine = (0..self.bare.len()).filter(|&at| self.bare[at].index == index);
        let mine: Vec<usize> = mine.collect();
        let only_weak = self.decls[index.at()].extent.is_none();
        let only_weak = only_weak && mine.iter().all(|&at| self.bare[at].weak);
        let counts = |at: &usize| only_weak || !self.bare[*at].weak;
        mine.into_iter().filter(counts).collect()
    }

    /// The indices on the left.
    pub(super) fn left(&self) -> impl Iterator<Item = &Decl> {
        self.decls.iter().filter(|decl| !decl.reduced)
    }

    /// The extent of an index that its uses do not give.
    pub(super) fn declared(&self, index: IndexId) -> Option<&Dim> {
        let range = self.decls[index.at()].extent.as_ref();
        range
            .map(|(extent, _)| extent)
            .or_else(|| self.wanted.get(&index))
    }

    /// Is an index called like an extent?
    pub(super) fn alike(&self, index: IndexId, extent: &Dim) -> bool {
        is_like(extent, &self.decls[index.at()].name)
    }

    pub(super) fn equal(&self, a: &Dim, b: &Dim) -> bool {
        a == b || self.facts.equal(a, b)
    }

    /// What is meant where the uses of an index disagree; of accesses that could be meant otherwise,
    /// one of the uses `odd` first.
    pub(super) fn meant(&self, index: IndexId, odd: &[usize]) -> Option<Meant> {
        let uses = self.uses(index);
        let rest = uses.iter().filter(|at| !odd.contains(at));
        let order: Vec<usize> = odd.iter().rev().chain(rest.rev()).copied().collect();
        let mut best: Option<((bool, bool, usize, usize), Meant)> = None;
        for &wrong in &order {
            for changes in self.candidates(wrong) {
                let Some(gain) = self.gain(&changes) else {
                    continue;
                };
                // What the author wrote stays, if it can.
                let permutes = permutes(&self.bare, &changes);
                if permutes && !self.whole(&changes) {
                    continue;
                }
                let score = (permutes, gain > 0, usize::MAX - changes.len(), gain);
                if best.as_ref().is_none_or(|(other, _)| *other < score) {
                    let meant = Meant {
                        wrong,
                        fix: self.renamed(&changes),
                        permutes,
                        change: Change::Indices(changes),
                    };
                    best = Some((score, meant));
                }
            }
        }
        best.map(|(_, meant)| meant)
            .or_else(|| order.iter().find_map(|&wrong| self.gather(wrong)))
            .or_else(|| self.both(index, &order))
            .or_else(|| self.transposed(&order))
            .or_else(|| self.exchanged_in(index, odd))
    }

    /// The index and another one in each other's place in every one of several accesses that disagree.
    fn exchanged_in(&self, index: IndexId, odd: &[usize]) -> Option<Meant> {
        let odd_access = |u: &Use| {
            let mut odd = odd.iter().map(|at| &self.bare[*at].access);
            odd.any(|access| Arc::ptr_eq(access, &u.access))
        };
        let mut others = (0..self.decls.len()).map(|at| IndexId(at as u16));
        others.find_map(|other| {
            let changes = self.bare.iter().enumerate().filter(|(_, u)| odd_access(u));
            let changes = changes.filter_map(|(at, u)| match u.index {
                id if id == index => Some((at, other)),
                id if id == other => Some((at, index)),
                _ => None,
            });
            let changes: Changes = changes.collect();
            let visible = |(at, id): &(usize, IndexId)| self.bare[*at].access.visible.contains(id);
            let both = changes.iter().any(|(_, id)| *id == index);
            let several = self.changed(&changes).len() > 1;
            let settled = |id| self.settled(id, &changes);
            let fits = other != index
                && both
                && several
                && changes.iter().all(visible)
                && settled(index)
                && settled(other);
            fits.then(|| Meant {
                wrong: odd[0],
                fix: self.renamed(&changes),
                permutes: true,
                change: Change::Indices(changes),
            })
        })
    }

    /// Two indices of an access in each other's place where another access of one of them is wrong too: both
    /// then disagree with less.
    fn transposed(&self, order: &[usize]) -> Option<Meant> {
        let pairs = order.iter().flat_map(|&wrong| {
            let here = move |at: &usize| {
                let (a, b) = (&self.bare[wrong], &self.bare[*at]);
                Arc::ptr_eq(&a.access, &b.access) && a.index != b.index
            };
            let others = (0..self.bare.len()).filter(here);
            others.map(move |at| (wrong, at))
        });
        pairs.into_iter().find_map(|(wrong, at)| {
            let (own, other) = (self.bare[wrong].index, self.bare[at].index);
            let changes = vec![(wrong, other), (at, own)];
            let wrong_with = |changes: &Changes| -> usize {
                let odd = [own, other].map(|index| self.odd(index, changes));
                odd.iter().sum()
            };
            let less = wrong_with(&changes) + 2 <= wrong_with(&Vec::new());
            let like = |at: usize, index| usize::from(self.alike(index, &self.bare[at].extent));
            let named = like(wrong, other) + like(at, own) >= like(wrong, own) + like(at, other);
            (less && named).then(|| Meant {
                wrong,
                fix: self.renamed(&changes),
                permutes: true,
                change: Change::Indices(changes),
            })
        })
    }

    /// How many uses of an index disagree with its own extent, or else with most of them, with the changes made.
    fn odd(&self, index: IndexId, changes: &Changes) -> usize {
        let now = |at: usize| {
            let change = changes.iter().find(|(other, _)| *other == at);
            change.map_or(self.bare[at].index, |(_, index)| *index)
        };
        let mine = (0..self.bare.len()).filter(|&at| now(at) == index);
        let mine: Vec<&Dim> = mine.map(|at| &self.bare[at].extent).collect();
        let unlike = |extent: &Dim| mine.iter().filter(|e| !self.equal(e, extent)).count();
        match self.declared(index) {
            Some(extent) => unlike(extent),
            None => mine.iter().map(|extent| unlike(extent)).min().unwrap_or(0),
        }
    }

    /// A left index that nothing mentions in place of one of the uses of another, the last that
    /// leaves all as it should be.
    pub(super) fn left_out(&self, index: IndexId) -> Option<Fix> {
        self.declared(index)?;
        let mut last = (0..self.bare.len()).rev().map(|at| vec![(at, index)]);
        let changes = last.find(|changes| {
            let u = &self.bare[changes[0].0];
            u.access.visible.contains(&index)
                && !self.stands_in(index, &u.access, &[])
                && [index, u.index]
                    .iter()
                    .all(|index| self.settled(*index, changes))
        })?;
        Some(self.renamed(&changes))
    }

    /// From here on it is as it is meant.
    pub(super) fn take(&mut self, meant: Meant) -> Fix {
        match meant.change {
            Change::Indices(changes) => {
                for (access, subs) in self.changed(&changes) {
                    let text: Arc<str> = format!("{}[{}]", access.place, subs.join(", ")).into();
                    let uses = self.bare.to_mut().iter_mut();
                    let uses = uses.filter(|u| Arc::ptr_eq(&u.access, &access));
                    uses.for_each(|u| u.meant = Some(text.clone()));
                }
                for (at, index) in changes {
                    self.bare.to_mut()[at].index = index;
                }
            }
            Change::Axes(extents) => {
                for (at, extent) in extents {
                    self.bare.to_mut()[at].extent = extent;
                }
            }
        }
        meant.fix
    }

    /// Other indices for a use, and for one more of its access, that agree with the other accesses.
    fn candidates(&self, wrong: usize) -> Vec<Changes> {
        let access = &self.bare[wrong].access;
        let here: Vec<usize> = (0..self.bare.len())
            .filter(|&at| Arc::ptr_eq(&self.bare[at].access, access))
            .collect();
        let fitting = |at: usize| -> Vec<IndexId> {
            let visible = access.visible.iter().copied();
            let other = visible.filter(|index| *index != self.bare[at].index);
            other.filter(|index| self.fits(*index, at)).collect()
        };
        let mut out = Vec::new();
        // All of them, where one index alone fits each.
        let only = here.iter().map(|&at| {
            let (own, others) = (self.bare[at].index, fitting(at));
            match (self.fits(own, at), &others[..]) {
                (true, []) => Some((at, own)),
                (false, [other]) => Some((at, *other)),
                _ => None,
            }
        });
        let all: Option<Changes> = only.collect();
        let all = all.filter(|all| {
            let indices: Vec<IndexId> = all.iter().map(|(_, index)| *index).collect();
            let outside = |index: &IndexId| self.stands_in(*index, access, &here);
            are_distinct(&indices) && !indices.iter().any(outside)
        });
        out.extend(all.map(|all| {
            let changed = |(at, index): &(usize, IndexId)| self.bare[*at].index != *index;
            all.into_iter().filter(changed).collect::<Changes>()
        }));
        out.extend(self.permuted(&here));
        for index in fitting(wrong) {
            if !self.stands_in(index, access, &[wrong]) {
                out.push(vec![(wrong, index)]);
            }
            for &second in here.iter().filter(|&&at| at != wrong) {
                let places = [wrong, second];
                for other in fitting(second) {
                    let distinct = other != index
                        && !self.stands_in(index, access, &places)
                        && !self.stands_in(other, access, &places);
                    if distinct {
                        out.push(vec![(wrong, index), (second, other)]);
                    }
                }
            }
        }
        out
    }

    /// The indices of an access in another order, where each runs over its axis: of those that fit an axis, the
    /// first as written.
    fn permuted(&self, here: &[usize]) -> Option<Changes> {
        let indices: Vec<IndexId> = here.iter().map(|&at| self.bare[at].index).collect();
        let (mut left, mut order) = (indices.clone(), Vec::new());
        let one = here.first().map(|&at| self.bare[at].access.subs.len())?;
        if one != here.len()
            || here.len() < 3
            || here.len() > MAX_PERMUTED
            || !are_distinct(&indices)
        {
            return None;
        }
        self.placed(here, &mut left, &mut order).then_some(())?;
        let changes = here.iter().copied().zip(order);
        let changed = |(at, index): &(usize, IndexId)| self.bare[*at].index != *index;
        Some(changes.filter(changed).collect())
    }

    /// Gives each place one of the indices that are left.
    fn placed(&self, here: &[usize], left: &mut Vec<IndexId>, order: &mut Vec<IndexId>) -> bool {
        let Some(&at) = here.get(order.len()) else {
            return true;
        };
        for nth in 0..left.len() {
            if !self.fits(left[nth], at) {
                continue;
            }
            let index = left.remove(nth);
            order.push(index);
            if self.placed(here, left, order) {
                return true;
            }
            order.pop();
            left.insert(nth, index);
        }
        false
    }

    /// Does an index run over the extent of a use in all that stands elsewhere?
    fn fits(&self, index: IndexId, at: usize) -> bool {
        let Use { extent, access, .. } = &self.bare[at];
        let elsewhere = |u: &&Use| !Arc::ptr_eq(&u.access, access);
        let uses = self.uses(index).into_iter().map(|at| &self.bare[at]);
        let mut extents = uses.filter(elsewhere).map(|u| &u.extent);
        let declared = self.declared(index);
        declared.is_none_or(|declared| self.equal(declared, extent))
            && extents.all(|other| self.equal(other, extent))
    }

    /// Does an index stand in an access, other than in these places?
    fn stands_in(&self, index: IndexId, access: &Arc<Access>, besides: &[usize]) -> bool {
        let here = |other: &Arc<Access>| Arc::ptr_eq(other, access);
        let mut bare = self.bare.iter().enumerate();
        bare.any(|(at, u)| u.index == index && here(&u.access) && !besides.contains(&at))
            || (self.all.merged.iter()).any(|m| here(&m.access) && m.members.contains(&index))
            || (self.all.shifted.iter())
                .any(|s| here(&s.access) && s.at.indices().iter().any(|(_, id)| *id == index))
    }

    /// How many more indices are called like their axes with changes of one access, if all that
    /// they touch agree and keep an extent then, and no fewer are called so.
    fn gain(&self, changes: &Changes) -> Option<usize> {
        let old = changes.iter().map(|(at, _)| self.bare[*at].index);
        let touched: Vec<IndexId> = old.chain(changes.iter().map(|(_, index)| *index)).collect();
        touched
            .iter()
            .all(|index| self.settled(*index, changes))
            .then_some(())?;
        let like = |at: usize, index| usize::from(self.alike(index, &self.bare[at].extent));
        let before: usize = changes
            .iter()
            .map(|(at, _)| like(*at, self.bare[*at].index))
            .sum();
        let after: usize = changes.iter().map(|(at, index)| like(*at, *index)).sum();
        after.checked_sub(before)
    }

    /// Has every index of an access one extent with the changes of it made?
    fn whole(&self, changes: &Changes) -> bool {
        let Some((first, _)) = changes.first() else {
            return true;
        };
        let access = &self.bare[*first].access;
        let mut here = self.bare.iter().filter(|u| Arc::ptr_eq(&u.access, access));
        here.all(|u| self.settled(u.index, changes))
    }

    /// Has an index one extent with the changes made?
    fn settled(&self, index: IndexId, changes: &Changes) -> bool {
        let now = |at: usize| {
            let change = changes.iter().find(|(other, _)| *other == at);
            change.map_or(self.bare[at].index, |(_, index)| *index)
        };
        let mine = (0..self.bare.len()).filter(|&at| now(at) == index);
        let mine: Vec<&Use> = mine.map(|at| &self.bare[at]).collect();
        let merged = || self.all.merged.iter().any(|m| m.members.contains(&index));
        let ranged = self.decls[index.at()].extent.is_some();
        // A reduction over what nothing reads is not meant.
        let idle = || {
            let mut positions = self.all.shifted.iter().flat_map(|s| s.at.indices());
            self.decls[index.at()].reduced && !positions.any(|(_, id)| id == index)
        };
        if mine.is_empty() && !merged() && (!ranged || idle()) {
            return false;
        }
        let strong = mine.iter().filter(|u| !u.weak).map(|u| &u.extent);
        let mut extents = self.declared(index).into_iter().chain(strong);
        let Some(first) = extents.next() else {
            return true;
        };
        extents.all(|extent| self.equal(first, extent))
    }

    /// The accesses with changes, with their subscripts then.
    fn changed(&self, changes: &Changes) -> Vec<(Arc<Access>, Vec<String>)> {
        let mut shown: Vec<(Arc<Access>, Vec<String>)> = Vec::new();
        for (at, index) in changes {
            let (u, name) = (&self.bare[*at], &self.decls[index.at()].name);
            let place = shown
                .iter()
                .position(|(access, _)| Arc::ptr_eq(access, &u.access));
            let place = place.unwrap_or_else(|| {
                shown.push((u.access.clone(), u.access.subs.clone()));
                shown.len() - 1
            });
            shown[place].1[u.axis] = name.to_string();
        }
        shown
    }

    /// The changes as one of the program; they may be in several accesses.
    fn renamed(&self, changes: &Changes) -> Fix {
        let edits = changes.iter().map(|(at, index)| {
            let name = self.decls[index.at()].name.to_string();
            (self.bare[*at].span, name)
        });
        let edits = edits.collect();
        let shown: Vec<String> = (self.changed(changes).iter())
            .map(|(access, subs)| format!("`{}[{}]`", access.place, subs.join(", ")))
            .collect();
        let help = format!("did you mean {}?", shown.join(" and "));
        Fix { help, edits }
    }

    /// The index and a position of its access that may be anywhere change places.
    fn gather(&self, wrong: usize) -> Option<Meant> {
        let u = &self.bare[wrong];
        let reads = |e: &Expr| matches!(e.kind, ExprKind::Read(_));
        // The number of a round in a loop, or an index of that axis moved under a condition.
        let there = |s: &Shifted| {
            let indices = s.at.indices();
            let at = indices.is_empty().then(|| poly(&s.at, &[])).flatten();
            let inside = at.is_some_and(|at| {
                at.as_const().is_none()
                    && self.facts.nonneg(&at)
                    && self.facts.holds(&at, CmpOp::Lt, &u.extent)
            });
            let over = |(_, id): &(Span, IndexId)| {
                let own = self.declared(*id);
                *id != u.index && own.is_some_and(|own| self.equal(own, &u.extent))
            };
            inside
                || self.stays(s, &u.extent)
                || s.guarded && !indices.is_empty() && indices.iter().all(over)
        };
        let anywhere =
            |s: &&Shifted| s.at.nodes().into_iter().any(reads) || s.access.padded || there(s);
        let gathers = self.all.shifted.iter().filter(anywhere);
        let mut gathers = gathers.filter(|s| Arc::ptr_eq(&s.access, &u.access));
        let mut moved = self.bare.to_vec();
        let other = gathers.find(|s| {
            moved[wrong].extent = s.extent.clone();
            let moved = Reading {
                bare: Cow::Borrowed(&moved),
                ..*self
            };
            moved.settled(u.index, &Vec::new())
        })?;
        let places = [(u.axis, u.span), (other.axis, other.at.span)];
        let (shown, edits) = exchanged(&u.access.place, &u.access.subs, places);
        let help = format!("did you mean {shown}?");
        Some(Meant {
            wrong,
            fix: Fix { help, edits },
            permutes: true,
            change: Change::Axes(vec![(wrong, other.extent.clone())]),
        })
    }

    /// Does a position with arithmetic leave its axis, and stay inside one of this extent?
    fn stays(&self, s: &Shifted, extent: &Dim) -> bool {
        let names: Vec<Arc<str>> = self.decls.iter().map(|d| d.name.clone()).collect();
        let mut facts = self.facts.clone();
        for (_, id) in s.at.indices() {
            let declared = self.declared(id).cloned();
            let elsewhere = |u: &&Use| u.index == id && !Arc::ptr_eq(&u.access, &s.access);
            let used = || Some(self.bare.iter().find(elsewhere)?.extent.clone());
            let Some(own) = declared.or_else(used) else {
                return false;
            };
            index_facts(&mut facts, &names[id.at()], &own);
        }
        let at = poly(&s.at, &names);
        at.is_some_and(|at| !facts.inside(&at, &s.extent) && facts.inside(&at, extent))
    }

    /// The access as it is written, but of another tensor, of these axes.
    pub(super) fn of_another(&self, wrong: usize, name: &str, axes: &[Dim]) -> Option<Meant> {
        let access = &self.bare[wrong].access;
        let here = |other: &Arc<Access>| Arc::ptr_eq(other, access);
        let plain = !self.all.merged.iter().any(|m| here(&m.access))
            && axes.len() == access.subs.len()
            && (self.all.shifted.iter().filter(|s| here(&s.access)))
                .all(|s| self.equal(&s.extent, &axes[s.axis]));
        let places = (0..self.bare.len()).filter(|&at| here(&self.bare[at].access));
        let extents = places.map(|at| (at, axes.get(self.bare[at].axis).cloned()));
        let extents = extents.map(|(at, extent)| Some((at, extent?)));
        let extents: Vec<(usize, Dim)> = extents.collect::<Option<_>>().filter(|_| plain)?;
        let mut moved = self.bare.to_vec();
        for (at, extent) in &extents {
            moved[*at].extent = extent.clone();
        }
        let moved = Reading {
            bare: Cow::Borrowed(&moved),
            ..*self
        };
        let settled = |at: usize| moved.settled(self.bare[at].index, &Vec::new());
        extents.iter().all(|(at, _)| settled(*at)).then_some(())?;
        let start = access.span.start;
        let span = Span::new(start, start + access.place.len() as u32);
        let help = format!("did you mean `{name}[{}]`?", access.subs.join(", "));
        Some(Meant {
            wrong,
            fix: Fix::replace(span, name, &help),
            permutes: false,
            change: Change::Axes(extents),
        })
    }

    /// The index and another one change places between two accesses, where each is called like the axis
    /// that the other one reads.
    fn exchange(&self, index: IndexId, order: &[usize]) -> Option<Meant> {
        let pairs = order.iter().flat_map(|&wrong| {
            let others = (0..self.bare.len()).filter(move |&at| {
                let (a, b) = (&self.bare[wrong], &self.bare[at]);
                let apart = !Arc::ptr_eq(&a.access, &b.access) && b.index != index;
                apart && self.alike(b.index, &a.extent) && self.alike(index, &b.extent)
            });
            others.map(move |at| (wrong, at))
        });
        pairs.into_iter().find_map(|(wrong, at)| {
            let other = self.bare[at].index;
            let changes = vec![(wrong, other), (at, index)];
            let visible = |at: usize, id| self.bare[at].access.visible.contains(&id);
            let fits = visible(wrong, other) && visible(at, index);
            (fits && self.gain(&changes).is_some()).then(|| Meant {
                wrong,
                fix: self.renamed(&changes),
                permutes: true,
                change: Change::Indices(changes),
            })
        })
    }

    /// The index moves to the axis of its name in two accesses.
    fn both(&self, index: IndexId, order: &[usize]) -> Option<Meant> {
        let moved = |wrong: usize| {
            let u = &self.bare[wrong];
            let mut here = (0..self.bare.len()).filter(|&at| {
                let other = &self.bare[at];
                Arc::ptr_eq(&other.access, &u.access) && other.index != index
            });
            let other = here.find(|&at| self.alike(index, &self.bare[at].extent))?;
            Some([(wrong, self.bare[other].index), (other, index)])
        };
        if let Some(meant) = self.exchange(index, order) {
            return Some(meant);
        }
        for (nth, &wrong) in order.iter().enumerate() {
            for &second in &order[nth + 1..] {
                let one = Arc::ptr_eq(&self.bare[wrong].access, &self.bare[second].access);
                let changes = moved(wrong).zip(moved(second)).filter(|_| !one);
                let Some((a, b)) = changes else { continue };
                let changes = [b, a].concat();
                if self.gain(&changes).is_some() {
                    return Some(Meant {
                        wrong,
                        fix: self.renamed(&changes),
                        permutes: true,
                        change: Change::Indices(changes),
                    });
                }
            }
        }
        None
    }
}

/// Do the indices of an access change places among each other?
fn permutes(bare: &[Use], changes: &Changes) -> bool {
    let mut old: Vec<IndexId> = changes.iter().map(|(at, _)| bare[*at].index).collect();
    let mut new: Vec<IndexId> = changes.iter().map(|(_, index)| *index).collect();
    old.sort_unstable();
    new.sort_unstable();
    old == new
}
