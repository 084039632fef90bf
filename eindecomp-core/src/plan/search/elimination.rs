//! Min-sum elimination over factors: exact while its tables fit, with a certified bound beyond.
//!
//! A variable is eliminated by replacing every factor over it by one over its neighbours: the
//! least sum over its values (a min-plus product at degree 2). Factors are over classes of values:
//! first the least of each class that no other variable tells apart, then the product. The order
//! is greedy ([`Order`]): by the size of the pairs that are new, or by that of the table as well.
//! Tables are hash-consed, less their least entry, and each product is memoised by the identity of
//! its factors, so that repeated layers are solved once. Where a product would pass the
//! [`Budget`], its factors are split into groups that fit (mini-buckets): the bound stays valid.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

use super::INFEASIBLE;
use super::algebra::{Algebra, Factor};
use super::exact::Budget;
use super::hubs;
use super::maps::MapId;
use super::problem::Problem;
use crate::quick::Table;

/// What an eliminated variable is chosen by: factors over it. A variable whose factors were split
/// has several.
#[derive(Debug)]
pub(super) struct Cluster {
    pub variable: u32,
    pub factors: Vec<Factor>,
}

/// Which variable is next. Neither order is the better one everywhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Order {
    /// Weighted min-fill: degrees 0 and 1 cost nothing, then whatever adds the smallest new pairs.
    Fill,
    /// Small tables before all: those of variables that many others share, as the masks of attention, stay out
    /// of each other's.
    Small,
}

/// What new pairs count beside the table, in [`Order::Small`].
const PAIRS: u64 = 8;

/// By which variables are chosen: too large last, then the size of the pairs that eliminating one
/// adds, then of its table; of equals the one whose costs stand for fewest steps, so that a chain of equal layers is folded by
/// halves, with few distinct tables.
type Rank = (Reverse<bool>, u64, u64, u32);

/// An elimination under way, or done.
pub(super) struct Elimination {
    budget: Budget,
    choose: Order,
    domains: Vec<usize>,
    pub algebra: Algebra,
    factors: Vec<Option<Factor>>,
    /// Per variable: the factors over it, and such as are no more.
    of: Vec<Vec<usize>>,
    /// Per variable, ascending: those that share a factor with it, and what those factors see of them.
    neighbours: Vec<Vec<(u32, MapId)>>,
    /// Per variable: do many others depend on it, and is what it costs kept apart? Not if what each cluster sent is asked for.
    hubs: Vec<bool>,
    /// Per variable: the most eliminations, one on the other, that its costs stand for.
    depth: Vec<u32>,
    /// Per variable not yet eliminated: its place in the order.
    rank: Vec<Option<Rank>>,
    /// Every variable at its place, or an earlier one that it had before.
    order: BinaryHeap<Reverse<(Rank, u32)>>,
    pub clusters: Vec<Cluster>,
    /// What is left of the costs when every factor is over no variable.
    pub constant: u128,
    pub feasible: bool,
    /// Was a product split?
    pub split: bool,
    /// Are factors over the same variables one? Not if what each cluster sent is asked for.
    merge: bool,
}

impl Elimination {
    pub fn new(problem: &Problem, budget: Budget, choose: Order, merge: bool) -> Elimination {
        let n = problem.variables();
        let mut state = Elimination {
            budget,
            choose,
            domains: problem.ids().map(|v| problem.domain(v)).collect(),
            algebra: Algebra::of(problem),
            factors: Vec::new(),
            of: vec![Vec::new(); n],
            neighbours: vec![Vec::new(); n],
            hubs: vec![false; n],
            depth: vec![0; n],
            rank: vec![None; n],
            order: BinaryHeap::new(),
            clusters: Vec::new(),
            constant: 0,
            feasible: true,
            split: false,
            merge,
        };
        for v in problem.ids() {
            let map = state.algebra.maps.identity(problem.domain(v));
            state.add(Factor {
                scope: vec![(v.0, map)],
                table: problem.unary(v),
                from: None,
            });
        }
        let mut turned = Table::default();
        for e in problem.raw_edges() {
            let (mut scope, mut table) = (
                vec![(e.from.0, e.pair.rows), (e.to.0, e.pair.columns)],
                e.pair.table,
            );
            if e.from > e.to {
                scope.reverse();
                let columns = state.algebra.maps.classes(e.pair.columns);
                table = *turned.entry((table, columns)).or_insert_with(|| {
                    let old = state.algebra.tables.get(table).clone();
                    let column = |c| old.iter().skip(c).step_by(columns).copied();
                    let new: Vec<u64> = (0..columns).flat_map(column).collect();
                    state.algebra.tables.intern(new)
                });
            }
            state.add(Factor {
                scope,
                table,
                from: None,
            });
        }
        state.refresh_all();
        state
    }

    /// Eliminates every variable. `go_on` is asked before each, with the work done so far; after a no, products
    /// are split as if the budget was spent.
    pub fn run(&mut self, go_on: &mut dyn FnMut(u64) -> bool) {
        let all = self.budget.work;
        let mut spent = 0;
        while let Some(v) = self.next() {
            if self.budget.work > 0 {
                spent = all - self.budget.work;
            }
            if !go_on(spent) {
                self.budget.work = 0;
                self.split = true;
            }
            self.eliminate(v);
        }
        go_on(spent);
    }

    /// Eliminates every variable, unless a product would be split, or `go_on`, asked before each with the work done so
    /// far, says no: was each eliminated?
    pub fn run_whole(&mut self, go_on: &mut dyn FnMut(u64) -> bool) -> bool {
        let all = self.budget.work;
        while let Some(v) = self.next() {
            if self.split || !go_on(all - self.budget.work) {
                return false;
            }
            self.eliminate(v);
        }
        !self.split
    }

    /// What is left of the budget's work.
    pub fn left(&self) -> u64 {
        self.budget.work
    }

    /// Adds a factor; where factors merge, one over the same classes is added to it.
    fn add(&mut self, mut factor: Factor) {
        let maps = &self.algebra.maps;
        factor.scope.retain(|s| maps.classes(s.1) > 1);
        let few = factor.scope.iter().map(|s| s.0);
        let Some(few) = few.min_by_key(|&v| self.of[v as usize].len()) else {
            match self.algebra.tables.get(factor.table)[0] {
                INFEASIBLE => self.feasible = false,
                cost => self.constant += u128::from(cost),
            }
            return;
        };
        if self.merge {
            let same = self.of[few as usize].iter().copied().find(|&f| {
                let old = self.factors[f].as_ref();
                old.is_some_and(|f| f.scope == factor.scope)
            });
            if let Some(at) = same
                && let Some(old) = self.factors[at].take()
            {
                self.factors[at] = self.algebra.sum(&[old, factor]);
                return;
            }
        }
        for &(v, _) in &factor.scope {
            self.of[v as usize].push(self.factors.len());
        }
        self.factors.push(Some(factor));
    }

    /// Neighbours and ranks of every variable.
    fn refresh_all(&mut self) {
        for v in 0..self.of.len() {
            let factors = self.of[v].iter().filter_map(|&f| self.factors[f].as_ref());
            let mut around = self.algebra.scope(factors);
            around.retain(|s| s.0 != v as u32);
            self.neighbours[v] = around;
        }
        let many = |near: &Vec<_>| self.merge && near.len() >= hubs::DEGREE;
        self.hubs = self.neighbours.iter().map(many).collect();
        (0..self.of.len() as u32).for_each(|v| self.rank_again(v));
    }

    /// Neighbours among `changed`, whose factors were replaced by such over some of them, and the ranks that depend on
    /// these: of variables beyond them only those with two neighbours that are new to each other.
    fn refresh(&mut self, changed: &[u32]) {
        let mut affected = changed.to_vec();
        for (i, &v) in changed.iter().enumerate() {
            for &u in &changed[i + 1..] {
                let seen = self.seen_together(v, u);
                let known = self.near(v, u).is_some();
                for (v, (u, map)) in [(v, (u, seen.map(|s| s[1]))), (u, (v, seen.map(|s| s[0])))] {
                    let near = &mut self.neighbours[v as usize];
                    match (near.binary_search_by_key(&u, |n| n.0), map) {
                        (Ok(at), Some(map)) => near[at].1 = map,
                        (Ok(at), None) => drop(near.remove(at)),
                        (Err(at), Some(map)) => near.insert(at, (u, map)),
                        (Err(_), None) => {}
                    }
                }
                if seen.is_some() != known {
                    let count = |v: u32| self.neighbours[v as usize].len();
                    let (few, many) = if count(v) < count(u) { (v, u) } else { (u, v) };
                    let both = self.neighbours[few as usize].iter().map(|n| n.0);
                    affected.extend(both.filter(|&w| self.near(w, many).is_some()));
                }
            }
        }
        affected.sort_unstable();
        affected.dedup();
        affected.into_iter().for_each(|v| self.rank_again(v));
    }

    /// What the factors over both of two variables see of them; `None` if there are none.
    fn seen_together(&mut self, v: u32, u: u32) -> Option<[MapId; 2]> {
        let few = match self.of[v as usize].len() < self.of[u as usize].len() {
            true => v,
            false => u,
        };
        let mut seen: Option<[MapId; 2]> = None;
        for &f in &self.of[few as usize] {
            let Some(factor) = &self.factors[f] else {
                continue;
            };
            if let (Some(a), Some(b)) = (factor.map(v), factor.map(u)) {
                let maps = &mut self.algebra.maps;
                seen = Some(match seen {
                    Some([c, d]) => [maps.join(a, c), maps.join(b, d)],
                    None => [a, b],
                });
            }
        }
        seen
    }

    fn near(&self, v: u32, u: u32) -> Option<MapId> {
        let near = &self.neighbours[v as usize];
        let at = near.binary_search_by_key(&u, |n| n.0).ok()?;
        Some(near[at].1)
    }

    fn rank_again(&mut self, v: u32) {
        let rank = self.rank_of(v);
        let old = self.rank[v as usize].replace(rank);
        // most ranks only grow: a later place is looked up when it is its turn
        if old.is_none_or(|old| rank < old) {
            self.order.push(Reverse((rank, v)));
        }
    }

    /// The variable to eliminate next.
    fn next(&mut self) -> Option<u32> {
        loop {
            let Reverse((rank, v)) = self.order.pop()?;
            match self.rank[v as usize] {
                Some(now) if now == rank => return Some(v),
                Some(now) if now > rank => self.order.push(Reverse((now, v))),
                _ => {}
            }
        }
    }

    fn rank_of(&self, v: u32) -> Rank {
        let size = |m: &MapId| self.algebra.maps.classes(*m) as u64;
        let (around, deep) = (&self.neighbours[v as usize], self.depth[v as usize]);
        let sizes = around.iter().map(|(_, m)| size(m));
        let cells = sizes.fold(1u64, u64::saturating_mul);
        if cells.saturating_mul(8) > self.budget.table_bytes {
            return (Reverse(false), cells, 0, deep);
        }
        let mut fill = 0u64;
        for (i, (a, m)) in around.iter().enumerate() {
            for (b, n) in around.iter().skip(i + 1) {
                if self.near(*a, *b).is_none() {
                    fill = fill.saturating_add(size(m) * size(n));
                }
            }
        }
        match self.choose {
            Order::Fill => (Reverse(true), fill, cells, deep),
            Order::Small => {
                let size = fill.saturating_mul(PAIRS).saturating_add(cells);
                (Reverse(true), size, fill, deep)
            }
        }
    }

    fn eliminate(&mut self, v: u32) {
        let mut factors = Vec::new();
        for f in std::mem::take(&mut self.of[v as usize]) {
            let Some(factor) = self.factors[f].take() else {
                continue;
            };
            factors.push(factor);
        }
        let groups = self.groups(factors, v);
        if groups.is_empty() {
            // a single value, or none that costs anything
            self.clusters.push(Cluster {
                variable: v,
                factors: Vec::new(),
            });
        }
        for group in groups {
            let is_hub = |u: u32| self.hubs[u as usize];
            let product = self.algebra.eliminate(&group, v, &is_hub);
            self.budget.work = self.budget.work.saturating_sub(product.work);
            match product.least {
                INFEASIBLE => self.feasible = false,
                cost => self.constant += u128::from(cost),
            }
            let (mut factor, hubs) = (product.factor, product.hubs);
            factor.from = Some(self.clusters.len());
            self.clusters.push(Cluster {
                variable: v,
                factors: group,
            });
            if !factor.scope.is_empty() {
                self.add(factor);
            }
            hubs.into_iter().for_each(|factor| self.add(factor));
        }
        self.rank[v as usize] = None;
        let around = std::mem::take(&mut self.neighbours[v as usize]).into_iter();
        let around: Vec<u32> = around.map(|n| n.0).collect();
        let depth = self.depth[v as usize] + 1;
        for &u in &around {
            let near = &mut self.neighbours[u as usize];
            if let Ok(at) = near.binary_search_by_key(&v, |n| n.0) {
                near.remove(at);
            }
            let deep = &mut self.depth[u as usize];
            *deep = depth.max(*deep);
        }
        self.refresh(&around);
    }

    /// The factors in as few groups as the budget allows, each over few enough classes.
    fn groups(&mut self, factors: Vec<Factor>, v: u32) -> Vec<Vec<Factor>> {
        let d = self.domains[v as usize] as u64;
        let limit = (self.budget.table_bytes / 8).min(self.budget.work / d);
        let mut order = factors;
        order.sort_by(|a, b| {
            let key = |f: &Factor| (Reverse(f.scope.len()), f.table);
            key(a).cmp(&key(b)).then_with(|| a.scope.cmp(&b.scope))
        });
        let all = self.neighbours[v as usize].iter();
        let sizes = all.map(|(_, m)| self.algebra.maps.classes(*m) as u64);
        if !order.is_empty() && sizes.fold(1, u64::saturating_mul) <= limit {
            return vec![order];
        }
        let mut groups: Vec<(BTreeMap<u32, MapId>, Vec<Factor>)> = Vec::new();
        for factor in order {
            let mut into = None;
            for (at, (scope, _)) in groups.iter().enumerate() {
                let mut union = scope.clone();
                for &(u, map) in &factor.scope {
                    let joint = union.entry(u).or_insert(map);
                    *joint = self.algebra.maps.join(*joint, map);
                }
                let others = union.iter().filter(|s| *s.0 != v);
                let size = |m: &MapId| self.algebra.maps.classes(*m) as u64;
                let cells = others.fold(1u64, |n, (_, m)| n.saturating_mul(size(m)));
                let free = union
                    .iter()
                    .all(|(u, m)| *u == v || scope.get(u) == Some(m));
                if free || cells <= limit {
                    into = Some((at, union));
                    break;
                }
            }
            match into {
                Some((at, union)) => {
                    groups[at].0 = union;
                    groups[at].1.push(factor);
                }
                None => groups.push((factor.scope.iter().copied().collect(), vec![factor])),
            }
        }
        self.split |= groups.len() > 1;
        groups.into_iter().map(|(_, group)| group).collect()
    }

    /// Chooses in the reverse of the elimination order: each variable the first of its cheapest
    /// values.
    pub fn decode(&self) -> Vec<u32> {
        let mut chosen = vec![0u32; self.domains.len()];
        let (maps, tables) = (&self.algebra.maps, &self.algebra.tables);
        let same = |a: &Cluster, b: &Cluster| a.variable == b.variable;
        let mut costs = Vec::new();
        for split in self.clusters.chunk_by(same).rev() {
            let v = split[0].variable;
            costs.clear();
            costs.resize(self.domains[v as usize], 0u64);
            for factor in split.iter().flat_map(|c| &c.factors) {
                let (mut start, mut step, mut own) = (0, 1, (0, &[][..]));
                for &(u, map) in factor.scope.iter().rev() {
                    if u == v {
                        own = (step, maps.get(map));
                    } else {
                        start += step * maps.get(map)[chosen[u as usize] as usize] as usize;
                    }
                    step *= maps.classes(map);
                }
                let table = &tables.get(factor.table)[start..];
                for (c, &class) in costs.iter_mut().zip(own.1) {
                    *c = c.saturating_add(table[class as usize * own.0]);
                }
            }
            let best = (0..costs.len()).min_by_key(|&x| costs[x]).unwrap_or(0);
            chosen[v as usize] = best as u32;
        }
        chosen
    }
}
