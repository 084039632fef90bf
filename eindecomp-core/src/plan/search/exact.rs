//! Min-sum elimination: exact while its tables fit, with a certified bound beyond.
//!
//! A variable is eliminated by replacing every table over it by one table over its neighbours: the
//! least sum over its values (a min-plus product at degree 2). The order is weighted min-fill:
//! degrees 0 and 1 cost nothing, then whatever adds the fewest new pairs. Tables are hash-consed
//! and each product is memoised by the identity of its factors, so that repeated layers are
//! solved once. Where a product would pass the [`Budget`], its factors are split into groups that
//! fit (mini-buckets): the bound stays valid, and the assignment is improved by descent.
//!
//! Ties: in the reverse of the elimination order, each variable takes its first optimal value.

use std::cmp::Reverse;
use std::collections::{BTreeSet, HashMap};

use super::compact::{Compact, compact};
use super::local::descend;
use super::problem::{Problem, VarId};
use super::tables::{TableId, Tables};
use super::{INFEASIBLE, Solution};

/// What elimination may use. Both are counted, not measured, so that results do not depend on the
/// machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Budget {
    /// Bytes of one table.
    pub table_bytes: u64,
    /// Additions, over the whole search.
    pub work: u64,
}

impl Default for Budget {
    /// 64 MiB and 10¹⁰ additions: some ten seconds at most.
    fn default() -> Budget {
        Budget {
            table_bytes: 64 << 20,
            work: 10_000_000_000,
        }
    }
}

/// A table over some variables, row-major in ascending variable order.
#[derive(Clone, Debug)]
struct Factor {
    scope: Vec<u32>,
    table: TableId,
}

/// What an eliminated variable is chosen by, once its neighbours are.
struct Bucket {
    variable: u32,
    /// Its factors, with the variable as the last axis; `scope` is without it.
    factors: Vec<Factor>,
}

/// The cheapest assignment, if the budget allows; else a good one, with a bound.
pub fn solve(problem: &Problem, budget: Budget) -> Solution {
    let Compact {
        problem: small,
        kept,
    } = compact(problem);
    let mut state = Elimination::new(&small, budget);
    while let Some(v) = state.next() {
        state.eliminate(v);
    }
    let mut chosen = state.decode(small.variables());
    if state.split {
        descend(&small, &mut chosen);
    }
    let assignment: Vec<u32> = chosen
        .iter()
        .zip(&kept)
        .map(|(&x, kept)| kept[x as usize])
        .collect();
    let cost = problem.cost(&assignment);
    Solution {
        assignment,
        cost,
        bound: match state.constant {
            // every sum reached the ceiling, so nothing is feasible
            INFEASIBLE if cost == u128::MAX => u128::MAX,
            bound => u128::from(bound),
        },
    }
}

type ProductKey = (Vec<usize>, usize, Vec<(TableId, Vec<usize>)>);

struct Elimination {
    budget: Budget,
    domains: Vec<usize>,
    tables: Tables,
    factors: Vec<Option<Factor>>,
    /// Per variable: the factors over it.
    of: Vec<Vec<usize>>,
    /// Per variable: those that share a factor with it.
    neighbours: Vec<BTreeSet<u32>>,
    /// Per variable not yet eliminated: its place in the order.
    rank: Vec<Option<(Reverse<bool>, u64, u64)>>,
    products: HashMap<ProductKey, TableId>,
    sums: HashMap<(TableId, TableId), TableId>,
    turned: HashMap<(TableId, usize, usize), TableId>,
    buckets: Vec<Bucket>,
    /// The sum of factors over no variable.
    constant: u64,
    /// Was a product split?
    split: bool,
}

impl Elimination {
    fn new(problem: &Problem, budget: Budget) -> Elimination {
        let n = problem.variables();
        let ids = (0..n as u32).map(VarId);
        let mut state = Elimination {
            budget,
            domains: ids.clone().map(|v| problem.domain(v)).collect(),
            tables: Tables::default(),
            factors: Vec::new(),
            of: vec![Vec::new(); n],
            neighbours: vec![BTreeSet::new(); n],
            rank: vec![None; n],
            products: HashMap::new(),
            sums: HashMap::new(),
            turned: HashMap::new(),
            buckets: Vec::new(),
            constant: 0,
            split: false,
        };
        for v in ids {
            let table = state.tables.intern(problem.costs(v).clone());
            state.add(Factor {
                scope: vec![v.0],
                table,
            });
        }
        for (a, b, table) in problem.edges() {
            let mut id = state.tables.intern(table.clone());
            if a > b {
                id = state.turn(id, problem.domain(a), 1);
            }
            state.add(Factor {
                scope: vec![a.0.min(b.0), a.0.max(b.0)],
                table: id,
            });
        }
        let all: BTreeSet<u32> = (0..n as u32).collect();
        state.refresh(&all);
        state
    }

    /// The table `[outer, d, inner]` as `[outer, inner, d]`.
    fn turn(&mut self, table: TableId, d: usize, inner: usize) -> TableId {
        // with inner = 1 there is an outer axis to turn around: [d, inner] of a whole table
        let (d, inner) = if inner == 1 {
            (d, self.tables.get(table).len() / d)
        } else {
            (d, inner)
        };
        if let Some(&id) = self.turned.get(&(table, d, inner)) {
            return id;
        }
        let old = self.tables.get(table);
        let mut new = Vec::with_capacity(old.len());
        for block in old.chunks_exact(d * inner) {
            for i in 0..inner {
                new.extend(block.iter().skip(i).step_by(inner));
            }
        }
        let id = self.tables.intern(new);
        self.turned.insert((table, d, inner), id);
        id
    }

    /// Adds a factor; one over the same variables is added to it.
    fn add(&mut self, factor: Factor) {
        let Some(&first) = factor.scope.first() else {
            self.constant = self
                .constant
                .saturating_add(self.tables.get(factor.table)[0]);
            return;
        };
        let same = self.of[first as usize].iter().copied().find(|&f| {
            self.factors[f]
                .as_ref()
                .is_some_and(|f| f.scope == factor.scope)
        });
        if let Some(at) = same {
            let old = self.factors[at].take().map_or(factor.table, |f| f.table);
            let table = self.sum(old, factor.table);
            self.factors[at] = Some(Factor { table, ..factor });
            return;
        }
        for &v in &factor.scope {
            self.of[v as usize].push(self.factors.len());
        }
        self.factors.push(Some(factor));
    }

    fn sum(&mut self, a: TableId, b: TableId) -> TableId {
        let key = (a.min(b), a.max(b));
        if let Some(&id) = self.sums.get(&key) {
            return id;
        }
        let (x, y) = (self.tables.get(a), self.tables.get(b));
        let sum: Vec<u64> = x
            .iter()
            .zip(y.iter())
            .map(|(x, y)| x.saturating_add(*y))
            .collect();
        let id = self.tables.intern(sum);
        self.sums.insert(key, id);
        id
    }

    /// Recomputes neighbours of `changed`, and the ranks that depend on them.
    fn refresh(&mut self, changed: &BTreeSet<u32>) {
        let mut affected = changed.clone();
        for &v in changed {
            let scopes = self.of[v as usize]
                .iter()
                .filter_map(|&f| self.factors[f].as_ref());
            let mut around: BTreeSet<u32> = scopes.flat_map(|f| &f.scope).copied().collect();
            around.remove(&v);
            affected.extend(&around);
            self.neighbours[v as usize] = around;
        }
        for v in affected {
            self.rank[v as usize] = Some(self.rank_of(v));
        }
    }

    /// Too large last, then the size of the pairs that eliminating `v` adds, then of its table.
    fn rank_of(&self, v: u32) -> (Reverse<bool>, u64, u64) {
        let size = |u: &u32| self.domains[*u as usize] as u64;
        let around = &self.neighbours[v as usize];
        let cells = around.iter().fold(1u64, |n, u| n.saturating_mul(size(u)));
        let fits = cells.saturating_mul(8) <= self.budget.table_bytes;
        let mut fill = 0u64;
        for (i, a) in around.iter().enumerate() {
            for b in around.iter().skip(i + 1) {
                if !self.neighbours[*a as usize].contains(b) {
                    fill = fill.saturating_add(size(a) * size(b));
                }
            }
        }
        if fits {
            (Reverse(true), fill, cells)
        } else {
            (Reverse(false), cells, fill)
        }
    }

    fn next(&self) -> Option<u32> {
        let ranks = self.rank.iter().enumerate();
        let best = ranks.filter_map(|(v, r)| Some((r.as_ref()?, v))).min()?;
        Some(best.1 as u32)
    }

    fn eliminate(&mut self, v: u32) {
        let mut factors = Vec::new();
        for f in std::mem::take(&mut self.of[v as usize]) {
            let Some(factor) = self.factors[f].take() else {
                continue;
            };
            for &u in factor.scope.iter().filter(|&&u| u != v) {
                self.of[u as usize].retain(|&g| g != f);
            }
            factors.push(self.without(factor, v));
        }
        for group in self.groups(&factors, v) {
            let product = self.product(&group, v);
            self.add(product);
        }
        self.rank[v as usize] = None;
        let around = std::mem::take(&mut self.neighbours[v as usize]);
        self.refresh(&around);
        self.buckets.push(Bucket {
            variable: v,
            factors,
        });
    }

    /// The factor with `v` as the last axis and out of the scope.
    fn without(&mut self, mut factor: Factor, v: u32) -> Factor {
        let at = factor.scope.iter().position(|&u| u == v).unwrap_or(0);
        let inner = factor.scope[at + 1..]
            .iter()
            .map(|&u| self.domains[u as usize])
            .product();
        factor.scope.remove(at);
        if inner > 1 {
            factor.table = self.turn(factor.table, self.domains[v as usize], inner);
        }
        factor
    }

    /// The factors in as few groups as the budget allows, each over few enough variables.
    fn groups(&mut self, factors: &[Factor], v: u32) -> Vec<Vec<Factor>> {
        let d = self.domains[v as usize] as u64;
        let limit = (self.budget.table_bytes / 8).min(self.budget.work / d);
        let cells = |scope: &BTreeSet<u32>| {
            let size = |u: &u32| self.domains[*u as usize] as u64;
            scope.iter().fold(1u64, |n, u| n.saturating_mul(size(u)))
        };
        let mut order: Vec<&Factor> = factors.iter().collect();
        order.sort_by_key(|f| (Reverse(self.tables.get(f.table).len()), f.scope.clone()));
        let mut groups: Vec<(BTreeSet<u32>, Vec<Factor>)> = Vec::new();
        for factor in order {
            let joined = groups.iter_mut().find_map(|(scope, group)| {
                let union: BTreeSet<u32> = scope.iter().chain(&factor.scope).copied().collect();
                (union.len() == scope.len() || cells(&union) <= limit)
                    .then_some((union, scope, group))
            });
            match joined {
                Some((union, scope, group)) => {
                    *scope = union;
                    group.push(factor.clone());
                }
                None => groups.push((factor.scope.iter().copied().collect(), vec![factor.clone()])),
            }
        }
        self.split |= groups.len() > 1;
        groups.into_iter().map(|(_, group)| group).collect()
    }

    /// min over `v` of the factors' sum, memoised by the factors' identity.
    fn product(&mut self, group: &[Factor], v: u32) -> Factor {
        let scope: BTreeSet<u32> = group.iter().flat_map(|f| &f.scope).copied().collect();
        let scope: Vec<u32> = scope.into_iter().collect();
        let axes = |f: &Factor| -> Vec<usize> {
            let at = |u: &u32| scope.binary_search(u).unwrap_or(0);
            f.scope.iter().map(at).collect()
        };
        let extents: Vec<usize> = scope.iter().map(|&u| self.domains[u as usize]).collect();
        let d = self.domains[v as usize];
        let mut parts: Vec<(TableId, Vec<usize>)> =
            group.iter().map(|f| (f.table, axes(f))).collect();
        parts.sort_unstable();
        let key = (extents, d, parts);
        if let Some(&table) = self.products.get(&key) {
            return Factor { scope, table };
        }
        let tables: Vec<(&[u64], &[usize])> = key
            .2
            .iter()
            .map(|(t, axes)| (&**self.tables.get(*t), &axes[..]))
            .collect();
        let least = min_sum(&key.0, d, &tables);
        let work = (least.len() as u64).saturating_mul(d as u64);
        self.budget.work = self.budget.work.saturating_sub(work);
        let table = self.tables.intern(least);
        self.products.insert(key, table);
        Factor { scope, table }
    }

    /// Chooses in the reverse of the elimination order.
    fn decode(&self, variables: usize) -> Vec<u32> {
        let mut chosen = vec![0u32; variables];
        for bucket in self.buckets.iter().rev() {
            let d = self.domains[bucket.variable as usize];
            let mut costs = vec![0u64; d];
            for factor in &bucket.factors {
                let row = factor.scope.iter().fold(0, |row, &u| {
                    row * self.domains[u as usize] + chosen[u as usize] as usize
                });
                let slice = &self.tables.get(factor.table)[row * d..][..d];
                for (c, t) in costs.iter_mut().zip(slice) {
                    *c = c.saturating_add(*t);
                }
            }
            let best = (0..d).min_by_key(|&x| costs[x]).unwrap_or(0);
            chosen[bucket.variable as usize] = best as u32;
        }
        chosen
    }
}

/// Over a space of `extents`, row-major: the least over x < `d` of the tables' sum. Each table is
/// row-major over its own axes of the space and x.
fn min_sum(extents: &[usize], d: usize, tables: &[(&[u64], &[usize])]) -> Vec<u64> {
    let mut levels: Vec<Vec<Strided>> = vec![Vec::new(); extents.len() + 1];
    for &(data, axes) in tables {
        let mut strides = vec![0; extents.len()];
        let mut step = d;
        for &axis in axes.iter().rev() {
            strides[axis] = step;
            step *= extents[axis];
        }
        levels[axes.last().map_or(0, |a| a + 1)].push(Strided { data, strides });
    }
    let mut sums = vec![vec![0u64; d]; extents.len() + 1];
    for table in &levels[0] {
        add(&mut sums[0], &table.data[..d]);
    }
    let mut out = Vec::with_capacity(extents.iter().product());
    fill(
        extents,
        &levels,
        &mut vec![0; extents.len()],
        0,
        &mut sums,
        &mut out,
    );
    out
}

#[derive(Clone)]
struct Strided<'a> {
    data: &'a [u64],
    strides: Vec<usize>,
}

impl Strided<'_> {
    fn at(&self, point: &[usize], d: usize) -> &[u64] {
        let start: usize = point.iter().zip(&self.strides).map(|(p, s)| p * s).sum();
        &self.data[start..][..d]
    }
}

/// `sums[depth]` holds the sum of every table whose axes are all below `depth`.
fn fill(
    extents: &[usize],
    levels: &[Vec<Strided>],
    point: &mut Vec<usize>,
    depth: usize,
    sums: &mut [Vec<u64>],
    out: &mut Vec<u64>,
) {
    let Some(&extent) = extents.get(depth) else {
        out.push(sums[depth].iter().copied().min().unwrap_or(INFEASIBLE));
        return;
    };
    let d = sums[depth].len();
    let here = &levels[depth + 1];
    for x in 0..extent {
        point[depth] = x;
        if let ([table], true) = (&here[..], depth + 1 == extents.len()) {
            out.push(least_sum(&sums[depth], table.at(point, d)));
            continue;
        }
        let (below, above) = sums.split_at_mut(depth + 1);
        above[0].clone_from(&below[depth]);
        for table in here {
            add(&mut above[0], table.at(point, d));
        }
        fill(extents, levels, point, depth + 1, sums, out);
    }
    point[depth] = 0;
}

fn add(sum: &mut [u64], more: &[u64]) {
    for (s, m) in sum.iter_mut().zip(more) {
        *s = s.saturating_add(*m);
    }
}

/// min (a + b), in four independent chains.
fn least_sum(a: &[u64], b: &[u64]) -> u64 {
    let mut least = [INFEASIBLE; 4];
    let (xs, ys) = (a.chunks_exact(4), b.chunks_exact(4));
    let rest = xs.remainder().iter().zip(ys.remainder());
    let rest = rest.map(|(x, y)| x.saturating_add(*y)).min();
    for (x, y) in xs.zip(ys) {
        for i in 0..4 {
            least[i] = least[i].min(x[i].saturating_add(y[i]));
        }
    }
    least.into_iter().chain(rest).min().unwrap_or(INFEASIBLE)
}
