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
use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::INFEASIBLE;
use super::exact::Budget;
use super::kernel::{self, Axis, Part};
use super::maps::{MapId, Maps};
use super::problem::Problem;
use super::tables::{TableId, Tables};
use crate::quick::Table;

/// A table over classes of some variables, row-major in ascending variable order.
#[derive(Clone, Debug)]
pub(super) struct Factor {
    pub scope: Vec<(u32, MapId)>,
    pub table: TableId,
    /// The cluster that sent it, if it is no cost of the problem.
    pub from: Option<usize>,
}

impl Factor {
    fn map(&self, v: u32) -> Option<MapId> {
        let at = self.scope.binary_search_by_key(&v, |s| s.0).ok()?;
        Some(self.scope[at].1)
    }
}

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
/// adds, then of its table.
type Rank = (Reverse<bool>, u64, u64);

/// Memoised operations on tables.
#[derive(Debug, Default)]
pub(super) struct Algebra {
    pub tables: Tables,
    pub maps: Maps,
    products: Table<ProductKey, (TableId, u64)>,
    sums: Table<SumKey, TableId>,
}

/// A factor in a product: its table and, per axis, which one of the space it is and what entry
/// each value has.
type PartKey = (TableId, Vec<(usize, MapId)>);
/// Extents, number of joint classes of the eliminated variable, parts; costs of single values.
type ProductKey = (Vec<usize>, usize, Vec<PartKey>, Vec<PartKey>, MapId);
type SumKey = (Vec<usize>, Vec<PartKey>);

impl Algebra {
    pub fn of(problem: &Problem) -> Algebra {
        Algebra {
            tables: problem.tables.clone(),
            maps: problem.maps.clone(),
            ..Algebra::default()
        }
    }

    /// Every variable of the factors, with the coarsest map that tells apart what they do.
    pub fn scope<'a>(
        &mut self,
        factors: impl IntoIterator<Item = &'a Factor>,
    ) -> BTreeMap<u32, MapId> {
        let mut scope: BTreeMap<u32, MapId> = BTreeMap::new();
        for &(u, map) in factors.into_iter().flat_map(|f| &f.scope) {
            let joint = scope.entry(u).or_insert(map);
            *joint = self.maps.join(*joint, map);
        }
        scope
    }

    /// The factor as part of a product over `scope` and, last, `v`.
    fn part(&mut self, f: &Factor, scope: &[(u32, MapId)], v: Option<(u32, MapId)>) -> PartKey {
        let axis = |&(u, map): &(u32, MapId)| {
            let joint = v.filter(|v| v.0 == u);
            let (at, fine) = match joint {
                Some((_, fine)) => (scope.len(), fine),
                None => {
                    let at = scope.binary_search_by_key(&u, |s| s.0).unwrap_or(0);
                    (at, scope[at].1)
                }
            };
            (at, self.maps.translate(fine, map))
        };
        (f.table, f.scope.iter().map(axis).collect())
    }

    /// The least sum of the factors over the values of `v`, less its least entry, which comes
    /// apart, and the work that was not memoised, in additions.
    pub fn eliminate(&mut self, factors: &[Factor], v: u32) -> (Factor, u64, u64) {
        let (own, pairs): (Vec<_>, Vec<_>) = factors.iter().partition(|f| f.scope.len() == 1);
        let mut scope = self.scope(pairs.iter().copied());
        let joint = scope.remove(&v);
        let scope: Vec<(u32, MapId)> = scope.into_iter().collect();
        let single = own.iter().filter_map(|f| f.map(v));
        let values = single
            .chain(joint)
            .next()
            .map_or(0, |m| self.maps.get(m).len());
        let joint = joint.unwrap_or_else(|| self.maps.blind(values));
        let identity = self.maps.identity(values);
        let mut parts: Vec<PartKey> = pairs
            .iter()
            .map(|f| self.part(f, &scope, Some((v, joint))))
            .collect();
        let mut own: Vec<PartKey> = own
            .iter()
            .map(|f| self.part(f, &[], Some((v, identity))))
            .collect();
        parts.sort_unstable();
        own.sort_unstable();
        let extents: Vec<usize> = scope.iter().map(|s| self.maps.classes(s.1)).collect();
        let d = self.maps.classes(joint);
        let key = (extents, d, parts, own, joint);
        let mut work = 0;
        let (table, least) = match self.products.get(&key) {
            Some(&found) => found,
            None => {
                let cells = key.0.iter().map(|&n| n as u64).product::<u64>();
                work = cells * d as u64 + values as u64 * key.3.len() as u64;
                let single = kernel::sum(&[values], &self.parts(&key.3));
                let mut least = vec![INFEASIBLE; d];
                for (&class, cost) in self.maps.get(joint).iter().zip(single) {
                    let least = &mut least[class as usize];
                    *least = cost.min(*least);
                }
                let mut parts = self.parts(&key.2);
                parts.push(Part {
                    table: &least,
                    axes: vec![Axis {
                        at: key.0.len(),
                        map: None,
                        entries: d,
                    }],
                });
                let mut product = kernel::min_sum(&key.0, d, &parts);
                let least = product.iter().copied().min().unwrap_or(0);
                if least < INFEASIBLE {
                    for c in product.iter_mut().filter(|c| **c < INFEASIBLE) {
                        *c -= least;
                    }
                }
                let made = (self.tables.intern(product), least);
                self.products.insert(key, made);
                made
            }
        };
        let factor = Factor {
            scope,
            table,
            from: None,
        };
        (factor, least, work)
    }

    fn parts<'a>(&'a self, keys: &'a [PartKey]) -> Vec<Part<'a>> {
        let axis = |&(at, map): &(usize, MapId)| Axis {
            at,
            map: (!self.maps.is_identity(map)).then(|| self.maps.get(map)),
            entries: self.maps.classes(map),
        };
        let part = |(table, axes): &'a PartKey| Part {
            table: self.tables.get(*table),
            axes: axes.iter().map(axis).collect(),
        };
        keys.iter().map(part).collect()
    }

    /// The sum of factors over the same variables.
    pub fn sum(&mut self, factors: &[Factor]) -> Option<Factor> {
        let (first, rest) = factors.split_first()?;
        if rest.is_empty() {
            return Some(first.clone());
        }
        let scope: Vec<(u32, MapId)> = self.scope(factors).into_iter().collect();
        let mut parts: Vec<PartKey> = factors.iter().map(|f| self.part(f, &scope, None)).collect();
        parts.sort_unstable();
        let extents: Vec<usize> = scope.iter().map(|s| self.maps.classes(s.1)).collect();
        let key = (extents, parts);
        let table = match self.sums.get(&key) {
            Some(&found) => found,
            None => {
                let sum = kernel::sum(&key.0, &self.parts(&key.1));
                let table = self.tables.intern(sum);
                self.sums.insert(key, table);
                table
            }
        };
        Some(Factor {
            scope,
            table,
            from: None,
        })
    }

    /// The sum of factors over `v` alone, per value.
    pub fn values(&self, factors: &[Factor], values: usize) -> Vec<u64> {
        let mut costs = vec![0u64; values];
        for f in factors {
            let table = self.tables.get(f.table);
            match f.scope.first() {
                Some(&(_, map)) => {
                    for (c, &class) in costs.iter_mut().zip(self.maps.get(map)) {
                        *c = c.saturating_add(table[class as usize]);
                    }
                }
                None => costs
                    .iter_mut()
                    .for_each(|c| *c = c.saturating_add(table[0])),
            }
        }
        costs
    }
}

/// An elimination under way, or done.
pub(super) struct Elimination {
    budget: Budget,
    choose: Order,
    domains: Vec<usize>,
    pub algebra: Algebra,
    factors: Vec<Option<Factor>>,
    /// Per variable: the factors over it.
    of: Vec<Vec<usize>>,
    /// Per variable, ascending: those that share a factor with it, and what those factors see of them.
    neighbours: Vec<Vec<(u32, MapId)>>,
    /// Per variable not yet eliminated: its place in the order.
    rank: Vec<Option<Rank>>,
    order: BTreeSet<(Rank, u32)>,
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
            rank: vec![None; n],
            order: BTreeSet::new(),
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
        let mut turned = HashMap::new();
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
        while let Some((_, v)) = self.order.pop_first() {
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
        while let Some((_, v)) = self.order.pop_first() {
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
            around.remove(&(v as u32));
            self.neighbours[v] = around.into_iter().collect();
        }
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
        match self.rank[v as usize].replace(rank) {
            Some(old) if old == rank => return,
            Some(old) => drop(self.order.remove(&(old, v))),
            None => {}
        }
        self.order.insert((rank, v));
    }

    fn rank_of(&self, v: u32) -> Rank {
        let size = |m: &MapId| self.algebra.maps.classes(*m) as u64;
        let around = &self.neighbours[v as usize];
        let sizes = around.iter().map(|(_, m)| size(m));
        let cells = sizes.fold(1u64, u64::saturating_mul);
        if cells.saturating_mul(8) > self.budget.table_bytes {
            return (Reverse(false), cells, 0);
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
            Order::Fill => (Reverse(true), fill, cells),
            Order::Small => {
                let size = fill.saturating_mul(PAIRS).saturating_add(cells);
                (Reverse(true), size, fill)
            }
        }
    }

    fn eliminate(&mut self, v: u32) {
        let mut factors = Vec::new();
        for f in std::mem::take(&mut self.of[v as usize]) {
            let Some(factor) = self.factors[f].take() else {
                continue;
            };
            for &(u, _) in factor.scope.iter().filter(|s| s.0 != v) {
                self.of[u as usize].retain(|&g| g != f);
            }
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
            let (mut product, least, work) = self.algebra.eliminate(&group, v);
            self.budget.work = self.budget.work.saturating_sub(work);
            match least {
                INFEASIBLE => self.feasible = false,
                cost => self.constant += u128::from(cost),
            }
            product.from = Some(self.clusters.len());
            self.clusters.push(Cluster {
                variable: v,
                factors: group,
            });
            if !product.scope.is_empty() {
                self.add(product);
            }
        }
        self.rank[v as usize] = None;
        let around = std::mem::take(&mut self.neighbours[v as usize]).into_iter();
        let around: Vec<u32> = around.map(|n| n.0).collect();
        for &u in &around {
            self.neighbours[u as usize].retain(|n| n.0 != v);
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
        let all = self.algebra.scope(&order).into_iter().filter(|s| s.0 != v);
        let sizes = all.map(|(_, m)| self.algebra.maps.classes(m) as u64);
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
        for split in self.clusters.chunk_by(same).rev() {
            let v = split[0].variable;
            let mut costs = vec![0u64; self.domains[v as usize]];
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
