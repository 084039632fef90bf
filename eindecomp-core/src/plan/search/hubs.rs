//! Variables with many neighbours, as what every layer reads: they make every table of an elimination larger.
//!
//! Cut in copies, one per edge, each at its part of the cost, they leave a problem that bounds; held at single values, one
//! that is a search. Where the two meet there is nothing else to do. Else marginals with one hub whole and the
//! others cut discard values.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::elimination::Order;
use super::exact::{self, Budget};
use super::marginals::{Marginals, marginals};
use super::problem::{Problem, RawEdge, VarId};
use super::progress::Progress;
use super::proof::{Fold, Proof, Proved};
use super::survivors::restrict;
use super::{INFEASIBLE, Solution};
use crate::quick::Table;

/// So many neighbours make a hub.
pub(super) const DEGREE: usize = 16;
/// With more of them the rest is not what is wide.
const MOST: usize = 12;
/// Additions that are done rather than cutting hubs.
const EASY: u64 = 100_000_000;
/// Most variables of a part that depends on one hub alone.
const PENDANT: usize = 16;

/// What is left to search.
pub(super) struct Narrowed {
    /// The best assignment so far, and what bounds all.
    pub best: Solution,
    /// Per variable: the values that a cheaper one may have.
    pub kept: Vec<Vec<u32>>,
    /// Additions done.
    pub work: u64,
}

impl Narrowed {
    /// The cheapest assignment over what is left, if the budget allows, and the additions done in all.
    pub fn close(
        self,
        problem: &Problem,
        budget: Budget,
        progress: &dyn Progress,
    ) -> (Solution, u64) {
        let Narrowed {
            mut best,
            kept,
            work,
        } = self;
        if best.is_optimal() {
            return (best, work);
        }
        let (found, more) = exact::optimal(&restrict(problem, &kept), budget, progress);
        if let Some(found) = found {
            if found.cost < best.cost {
                best.cost = found.cost;
                let chosen = found.assignment.iter().zip(&kept);
                best.assignment = chosen.map(|(&x, kept)| kept[x as usize]).collect();
            }
            // what was left out costs at least as much as what was known; its marginals are not written down
            best.bound = best.cost;
        }
        (best, work + more)
    }
}

/// Narrows a problem with variables of at least so many neighbours, limits aside; `None` if there are none, or what is left
/// without them does not fit the budget. What is easily eliminated is solved so.
pub(super) fn narrow(
    problem: &Problem,
    degree: usize,
    budget: Budget,
    progress: &dyn Progress,
) -> Option<Narrowed> {
    let hubs = Hubs::of(problem, degree, budget, progress)?;
    let all = |v: VarId| (0..problem.domain(v) as u32).collect::<Vec<_>>();
    let mut kept: Vec<Vec<u32>> = problem.ids().map(all).collect();
    let easy = Budget {
        work: EASY.min(budget.work / 8),
        ..budget
    };
    let (found, mut work) = exact::ordered(problem, Order::Small, easy, progress);
    if let Some(best) = found {
        return Some(Narrowed { best, kept, work });
    }
    let (cut, at) = hubs.cut(None);
    let (found, more) = exact::optimal(&cut, budget, progress);
    work += more;
    let found = found?;
    let first = vec![0; problem.variables()];
    let mut best = Solution {
        cost: problem.cost(&first),
        assignment: first,
        bound: found.cost,
        stopped: false,
        proved: (found.proved).and_then(|proved| hubs.proved(proved, &at)),
    };
    let mut hold = |values: &BTreeMap<VarId, u32>, best: &mut Solution| -> Option<()> {
        let mut held: Vec<Vec<u32>> = problem.ids().map(all).collect();
        for (v, &x) in values {
            held[v.at()] = vec![x];
        }
        let (found, more) = exact::optimal(&restrict(problem, &held), budget, progress);
        work += more;
        let found = found?;
        if found.cost < best.cost {
            best.cost = found.cost;
            let chosen = found.assignment.iter().zip(&held);
            best.assignment = chosen.map(|(&x, held)| held[x as usize]).collect();
        }
        Some(())
    };
    let voted = hubs.own.keys().map(|&hub| {
        let mut votes = BTreeMap::new();
        for copy in &at[hub.at()] {
            *votes.entry(found.assignment[copy.at()]).or_insert(0) += 1;
        }
        let most = votes
            .into_iter()
            .max_by_key(|&(x, n)| (n, std::cmp::Reverse(x)));
        (hub, most.map_or(0, |(x, _)| x))
    });
    let voted = voted.collect();
    hold(&voted, &mut best)?;
    if best.is_optimal() {
        return Some(Narrowed { best, kept, work });
    }
    let (bound, least) = hubs.least(budget, progress);
    best.bound = best.bound.max(bound).min(best.cost);
    let mut cheapest = voted.clone();
    for (hub, x) in &mut cheapest {
        let costs = least[hub.at()].iter().zip(0u32..);
        *x = costs.min().map_or(*x, |(_, x)| x);
    }
    if cheapest != voted {
        hold(&cheapest, &mut best)?;
    }
    for ((kept, least), &own) in kept.iter_mut().zip(&least).zip(&best.assignment) {
        kept.retain(|&x| x == own || least[x as usize] < best.cost);
    }
    Some(Narrowed { best, kept, work })
}

/// Lower bounds per value, of a problem with such variables; `None` if there are none.
pub(super) fn bounds(
    problem: &Problem,
    degree: usize,
    budget: Budget,
    progress: &dyn Progress,
) -> Option<Marginals> {
    let hubs = Hubs::of(problem, degree, budget, progress)?;
    let (bound, least) = hubs.least(budget, progress);
    Some(Marginals::of(bound, &least))
}

struct Hubs<'a> {
    problem: &'a Problem,
    /// Their costs, with the least of what depends on them alone.
    own: BTreeMap<VarId, Arc<[u64]>>,
    /// Per variable: the one that it depends on alone.
    pendant: Vec<Option<VarId>>,
    /// Those variables, part by part.
    parts: Vec<VarId>,
}

impl Hubs<'_> {
    fn of<'a>(
        problem: &'a Problem,
        degree: usize,
        budget: Budget,
        progress: &dyn Progress,
    ) -> Option<Hubs<'a>> {
        let mut around: Vec<Vec<VarId>> = vec![Vec::new(); problem.variables()];
        for e in problem.raw_edges() {
            around[e.from.at()].push(e.to);
            around[e.to.at()].push(e.from);
        }
        for near in &mut around {
            near.sort_unstable();
            near.dedup();
        }
        let is = |v: &VarId| around[v.at()].len() >= degree;
        let hubs: Vec<VarId> = problem.ids().filter(is).collect();
        if hubs.is_empty() || hubs.len() > MOST {
            return None;
        }
        let own = hubs
            .iter()
            .map(|&v| (v, problem.costs(v).clone()))
            .collect();
        let mut hubs = Hubs {
            problem,
            own,
            pendant: vec![None; problem.variables()],
            parts: Vec::new(),
        };
        let mut seen: Vec<bool> = problem.ids().map(|v| is(&v)).collect();
        for start in problem.ids() {
            if seen[start.at()] {
                continue;
            }
            let (mut part, mut at, mut next_to) = (vec![start], 0, BTreeSet::new());
            seen[start.at()] = true;
            while let Some(&v) = part.get(at) {
                at += 1;
                for &u in &around[v.at()] {
                    if is(&u) {
                        next_to.insert(u);
                    } else if !std::mem::replace(&mut seen[u.at()], true) {
                        part.push(u);
                    }
                }
            }
            if let (Some(&hub), 1, true) = (next_to.first(), next_to.len(), part.len() <= PENDANT) {
                hubs.absorb(hub, &part, budget, progress);
            }
        }
        Some(hubs)
    }

    /// Adds to the costs of a hub the least of a part that depends on it alone.
    fn absorb(&mut self, hub: VarId, part: &[VarId], budget: Budget, progress: &dyn Progress) {
        let mut small = self.problem.without_variables();
        let mut at = Table::default();
        let Some(own) = self.own.get_mut(&hub) else {
            return;
        };
        self.parts.extend(part);
        at.insert(hub, small.add_variable(own.clone()));
        for &v in part {
            at.insert(v, small.add_variable(self.problem.costs(v).clone()));
            self.pendant[v.at()] = Some(hub);
        }
        for e in self.problem.raw_edges() {
            if [e.from, e.to].iter().any(|v| part.contains(v)) {
                small.add_pair(at[&e.from], at[&e.to], e.pair);
            }
        }
        let found = marginals(&small, Order::Small, budget, progress);
        let values = 0..own.len() as u32;
        let least = |x| u64::try_from(found.least(at[&hub], x)).unwrap_or(INFEASIBLE);
        *own = values.map(least).collect();
    }

    /// No assignment costs less, nor one with a value: by every hub whole in turn.
    fn least(&self, budget: Budget, progress: &dyn Progress) -> (u128, Vec<Vec<u128>>) {
        let none = |v: VarId| vec![0; self.problem.domain(v)];
        let mut all: Vec<Vec<u128>> = self.problem.ids().map(none).collect();
        let mut bound = 0;
        let share = budget.share(self.own.len() as u64);
        for &hub in self.own.keys() {
            let (cut, at) = self.cut(Some(hub));
            let found = marginals(&cut, Order::Small, share, progress);
            bound = found.bound.max(bound);
            for (all, at) in all.iter_mut().zip(&at) {
                let &[at] = &at[..] else { continue };
                for (x, least) in (0..).zip(all) {
                    *least = found.least(at, x).max(*least);
                }
            }
        }
        (bound, all)
    }

    /// What is proved of the problem with every hub cut, as a proof about the whole one; `at` is what its variables are there.
    fn proved(&self, of: Proved, at: &[Vec<VarId>]) -> Option<Proved> {
        let Proof::Elimination(mut by) = of.by else {
            return None;
        };
        let mut whole = Table::default();
        for (v, copies) in self.problem.ids().zip(at) {
            let is_cut = self.own.contains_key(&v);
            whole.extend(copies.iter().map(|&copy| (copy, (v, is_cut))));
        }
        let left = by.order.drain(..).filter_map(|fold| match fold {
            Fold::Least(copy) => whole.get(&copy).filter(|v| !v.1).map(|v| Fold::Least(v.0)),
            Fold::Cut(_) => None,
        });
        let mut order: Vec<Fold> = self.parts.iter().rev().copied().map(Fold::Least).collect();
        order.push(Fold::Cut(self.own.keys().copied().collect()));
        order.extend(left);
        by.order = order;
        Some(Proved {
            bound: of.bound,
            by: Proof::Elimination(by),
        })
    }

    /// The problem with every hub but one cut in copies, and what each variable is there: several copies, or none if it
    /// depends on another hub alone.
    fn cut(&self, but: Option<VarId>) -> (Problem, Vec<Vec<VarId>>) {
        let mut out = self.problem.without_variables();
        let gone = |v: VarId| self.pendant[v.at()].is_some_and(|hub| Some(hub) != but);
        let lasting = |e: &&RawEdge| !gone(e.from) && !gone(e.to);
        let mut edges: Table<VarId, u64> = Table::default();
        for e in self.problem.raw_edges().iter().filter(lasting) {
            for v in [e.from, e.to] {
                *edges.entry(v).or_default() += 1;
            }
        }
        let own = |v: &VarId| self.own.get(v).filter(|_| Some(*v) != but);
        let is_cut = |v: &VarId| own(v).is_some() && edges.contains_key(v);
        let mut at: Vec<Vec<VarId>> = vec![Vec::new(); self.problem.variables()];
        for v in self.problem.ids().filter(|v| !gone(*v) && !is_cut(v)) {
            let costs = own(&v).unwrap_or(self.problem.costs(v)).clone();
            at[v.at()].push(out.add_variable(costs));
        }
        for e in self.problem.raw_edges().iter().filter(lasting) {
            let [from, to] = [e.from, e.to].map(|v| {
                if !is_cut(&v) {
                    return at[v.at()][0];
                }
                // the first copy costs what every value costs and division leaves as well
                let (parts, first) = (edges[&v], at[v.at()].is_empty());
                let own = &self.own[&v];
                let least = own.iter().copied().min().unwrap_or(0);
                let part = |&c: &u64| match c {
                    INFEASIBLE => c,
                    c if first => c - (c - least) / parts * (parts - 1),
                    c => (c - least) / parts,
                };
                let costs: Vec<u64> = own.iter().map(part).collect();
                let copy = out.add_variable(costs);
                at[v.at()].push(copy);
                copy
            });
            out.add_pair(from, to, e.pair);
        }
        (out, at)
    }
}
