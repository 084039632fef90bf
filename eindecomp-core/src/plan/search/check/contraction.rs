//! Contraction once more, step by step: each is allowed for a reason that is looked for here.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use super::super::INFEASIBLE;
use super::super::limits::Usage;
use super::super::problem::{Edge, Problem, VarId};
use super::super::proof::Step;
use super::Wrong;

/// What the steps leave, with limits at these positions alone, and what it costs less than the whole problem; `None` if no
/// assignment is feasible.
pub(super) fn left(
    problem: &Problem,
    steps: &[Step],
    positions: &[u32],
) -> Result<Option<(Problem, u128)>, Wrong> {
    let ascending = positions.windows(2).all(|w| w[0] < w[1]);
    if !ascending
        || positions
            .last()
            .is_some_and(|&t| t as usize >= problem.limits().len())
    {
        return Err(Wrong::Proof);
    }
    let mut left = Left::of(problem);
    for step in steps {
        let right = match step {
            Step::Values(v, kept) => left.keep(v.0, kept),
            Step::Decided(v, by, values) => left.decide(v.0, by, values),
            Step::Moved([a, b], [rows, columns]) => left.move_costs((a.0, b.0), rows, columns),
        };
        right.ok_or(Wrong::Proof)?;
    }
    // without a limit nothing costs more
    let all = left.problem();
    Ok(all.map(|(problem, constant)| (problem.limited_at(positions), constant)))
}

/// Positions, and what each value uses there.
type Uses = Vec<(Range<u32>, Vec<u64>)>;

struct Left {
    /// Per variable and value; no value: it is gone.
    costs: Vec<Vec<u64>>,
    /// By both variables, the smaller first: row-major. Their other ends are `near`.
    tables: BTreeMap<(u32, u32), Vec<u64>>,
    near: Vec<BTreeSet<u32>>,
    /// Disjoint, and nothing that every value uses.
    uses: Vec<Uses>,
    /// What is left of every limit by what is used anyhow.
    room: Vec<i128>,
    /// What pairs use, and which variables are in one.
    pairs: Vec<(Range<u32>, [u32; 2], Vec<u64>)>,
    paired: BTreeSet<u32>,
    constant: u128,
    feasible: bool,
}

/// A sum that is infeasible only if a part is: a cost that no number holds may count as less.
fn plus(a: u64, b: u64) -> u64 {
    match a == INFEASIBLE || b == INFEASIBLE {
        true => INFEASIBLE,
        false => a.saturating_add(b).min(INFEASIBLE - 1),
    }
}

/// Row-major, per pair of values.
fn written_out(e: &Edge) -> Vec<u64> {
    let row = |&r: &u32| &e.table[r as usize * e.width..][..e.width];
    let cells =
        |row: &'_ [u64]| -> Vec<u64> { e.columns.iter().map(|&c| row[c as usize]).collect() };
    e.rows.iter().map(row).flat_map(cells).collect()
}

fn key(v: u32, u: u32) -> (u32, u32) {
    (v.min(u), v.max(u))
}

impl Left {
    fn of(problem: &Problem) -> Left {
        let n = problem.variables();
        let mut left = Left {
            costs: problem.ids().map(|v| problem.costs(v).to_vec()).collect(),
            tables: BTreeMap::new(),
            near: vec![BTreeSet::new(); n],
            uses: vec![Uses::new(); n],
            room: problem.limits().iter().map(|&l| l.into()).collect(),
            pairs: Vec::new(),
            paired: BTreeSet::new(),
            constant: 0,
            feasible: true,
        };
        for e in problem.edges() {
            left.add(e.from.0, e.to.0, written_out(&e));
        }
        for (positions, usage) in problem.usages() {
            match usage {
                Usage::Value(v, table) => {
                    let used = problem.tables.get(*table).to_vec();
                    left.uses[v.at()].push((positions.clone(), used));
                }
                Usage::Pair(raw) => {
                    let ends = [raw.from.0, raw.to.0];
                    left.paired.extend(ends);
                    let used = written_out(&problem.edge(raw));
                    left.pairs.push((positions.clone(), ends, used));
                }
            }
        }
        (0..n as u32).for_each(|v| left.flatten(v));
        left
    }

    fn domain(&self, v: u32) -> usize {
        self.costs.get(v as usize).map_or(0, Vec::len)
    }

    /// Adds to the costs of pairs, `v` in rows.
    fn add(&mut self, v: u32, u: u32, table: Vec<u64>) {
        let (d, e) = (self.domain(v), self.domain(u));
        let new: Vec<u64> = match v < u {
            true => table,
            false => (0..d * e).map(|at| table[at % d * e + at / d]).collect(),
        };
        self.near[v as usize].insert(u);
        self.near[u as usize].insert(v);
        let old = self
            .tables
            .entry(key(v, u))
            .or_insert_with(|| vec![0; new.len()]);
        old.iter_mut()
            .zip(new)
            .for_each(|(old, new)| *old = plus(*old, new));
    }

    fn cost(&self, (v, x): (u32, usize), (u, y): (u32, usize)) -> u64 {
        let table = &self.tables[&key(v, u)];
        match v < u {
            true => table[x * self.domain(u) + y],
            false => table[y * self.domain(v) + x],
        }
    }

    /// The costs of pairs of two neighbours, no longer theirs, with `v` in rows.
    fn take(&mut self, v: u32, u: u32) -> Vec<u64> {
        let (d, e) = (self.domain(v), self.domain(u));
        let cell = |at: usize| self.cost((v, at / e), (u, at % e));
        let table = (0..d * e).map(cell).collect();
        self.tables.remove(&key(v, u));
        self.near[v as usize].remove(&u);
        self.near[u as usize].remove(&v);
        table
    }

    /// Makes the uses of a variable disjoint, and takes what every value uses from the limits.
    fn flatten(&mut self, v: u32) {
        let uses = std::mem::take(&mut self.uses[v as usize]);
        let mut turns: Vec<(u32, bool, usize)> = Vec::new();
        for (n, (at, _)) in uses.iter().enumerate() {
            turns.extend([(at.start, true, n), (at.end, false, n)]);
        }
        turns.sort_unstable();
        let mut sums = vec![0u128; self.domain(v)];
        for (n, &(t, begins, of)) in turns.iter().enumerate() {
            for (sum, &used) in sums.iter_mut().zip(&uses[of].1) {
                match begins {
                    true => *sum += u128::from(used),
                    false => *sum -= u128::from(used),
                }
            }
            let Some(&(next, ..)) = turns.get(n + 1).filter(|next| next.0 > t) else {
                continue;
            };
            let least = sums.iter().copied().min().unwrap_or(0);
            if least > 0 {
                let room = &mut self.room[t as usize..next as usize];
                room.iter_mut().for_each(|r| *r -= least.cast_signed());
            }
            // more than a number holds may count as less
            let beyond = |sum: &u128| u64::try_from(sum - least).unwrap_or(u64::MAX);
            let used: Vec<u64> = sums.iter().map(beyond).collect();
            match self.uses[v as usize].last_mut() {
                Some((at, last)) if at.end == t && *last == used => at.end = next,
                _ if used.iter().all(|&u| u == 0) => {}
                _ => self.uses[v as usize].push((t..next, used)),
            }
        }
    }

    /// Leaves a variable these values, if each of the others is not feasible, or not better than one of these.
    fn keep(&mut self, v: u32, kept: &[u32]) -> Option<()> {
        let d = self.domain(v);
        let ascending = kept.windows(2).all(|w| w[0] < w[1]);
        if kept.is_empty() || !ascending || kept.last().is_some_and(|&x| x as usize >= d) {
            return None;
        }
        let gone = (0..d).filter(|&x| kept.binary_search(&(x as u32)).is_err());
        let values = kept.iter().map(|&y| y as usize);
        for x in gone {
            let better = |y| !self.paired.contains(&v) && self.is_never_worse(v, y, x);
            if !self.is_infeasible(v, x) && !values.clone().any(better) {
                return None;
            }
        }
        let pick = |all: &[u64]| -> Vec<u64> { values.clone().map(|x| all[x]).collect() };
        let lines = |all: &[u64]| -> Vec<u64> {
            let width = all.len() / d;
            let line = |x: usize| &all[x * width..][..width];
            values.clone().flat_map(line).copied().collect()
        };
        let columns = |all: &[u64]| -> Vec<u64> { all.chunks_exact(d).flat_map(pick).collect() };
        for &u in &self.near[v as usize] {
            let table = self.tables.get_mut(&key(v, u))?;
            *table = if v < u { lines(table) } else { columns(table) };
        }
        for (_, ends, used) in &mut self.pairs {
            if ends[0] == v {
                *used = lines(used);
            } else if ends[1] == v {
                *used = columns(used);
            }
        }
        for (_, used) in &mut self.uses[v as usize] {
            *used = pick(used);
        }
        self.costs[v as usize] = pick(&self.costs[v as usize]);
        self.flatten(v);
        Some(())
    }

    /// Is a value never part of a feasible assignment: by its cost, by a neighbour's, or by what it uses?
    fn is_infeasible(&self, v: u32, x: usize) -> bool {
        let alone = |&u: &u32| (0..self.domain(u)).all(|y| self.cost((v, x), (u, y)) == INFEASIBLE);
        let over = |(at, used): &(Range<u32>, Vec<u64>)| {
            let room = &self.room[at.start as usize..at.end as usize];
            room.iter().any(|&r| i128::from(used[x]) > r)
        };
        self.costs[v as usize][x] == INFEASIBLE
            || self.near[v as usize].iter().any(alone)
            || self.uses[v as usize].iter().any(over)
    }

    /// Does an assignment with value `x` never get worse, in cost or in what it uses, with `y` instead?
    fn is_never_worse(&self, v: u32, y: usize, x: usize) -> bool {
        let costs = &self.costs[v as usize];
        if costs[y] == INFEASIBLE || self.uses[v as usize].iter().any(|(_, u)| u[y] > u[x]) {
            return false;
        }
        let mut more = i128::from(costs[y]) - i128::from(costs[x]);
        for &u in &self.near[v as usize] {
            let mut most = None;
            for z in 0..self.domain(u) {
                let [new, old] = [y, x].map(|x| self.cost((v, x), (u, z)));
                match (new == INFEASIBLE, old == INFEASIBLE) {
                    (_, true) => {}
                    (true, false) => return false,
                    (false, false) => {
                        most = most.max(Some(i128::from(new) - i128::from(old)));
                    }
                }
            }
            // no pair with `x` is feasible: whatever is left out
            more += most.unwrap_or(0);
        }
        more <= 0
    }

    /// Makes a variable part of another one that leaves it one value, or eliminates it.
    fn decide(&mut self, v: u32, by: &[(VarId, usize)], values: &[u32]) -> Option<()> {
        let near: Vec<u32> = self.near.get(v as usize)?.iter().copied().collect();
        let d = self.domain(v);
        if d == 0 || self.paired.contains(&v) {
            return None;
        }
        match (&near[..], by) {
            (&[], []) => self.pay(v, &[]),
            (_, []) if d == 1 => {
                for u in near {
                    let table = self.take(u, v);
                    self.add_own(u, &table);
                }
                self.pay(v, &[]);
            }
            (&[u], [_]) if self.uses[v as usize].is_empty() => {
                let table = self.take(u, v);
                let least: Vec<u64> = table
                    .chunks_exact(d)
                    .map(|row| self.least(v, &[row]))
                    .collect();
                self.add_own(u, &least);
            }
            (&[u, w], [_, _]) => {
                let [left, right] = [u, w].map(|u| self.take(u, v));
                let all = &*self;
                let row = |a| right.chunks_exact(d).map(move |b| all.least(v, &[a, b]));
                let least = left.chunks_exact(d).flat_map(row).collect();
                self.add(u, w, least);
            }
            (_, &[(into, _)]) => return self.substitute(v, into.0, values),
            _ => return None,
        }
        // what every value uses is taken from the limits
        if !self.uses[v as usize].is_empty() {
            return None;
        }
        self.costs[v as usize].clear();
        Some(())
    }

    /// Makes a variable part of another one, where every value of that one leaves it one that is feasible.
    fn substitute(&mut self, v: u32, into: u32, values: &[u32]) -> Option<()> {
        let (d, e) = (self.domain(into), self.domain(v));
        if !self.near[v as usize].contains(&into)
            || values.len() != d
            || values.iter().any(|&y| y as usize >= e)
        {
            return None;
        }
        let between = self.take(into, v);
        let costs = &self.costs[v as usize];
        let mut own = Vec::with_capacity(d);
        for (row, &y) in between.chunks_exact(e).zip(values) {
            let others = (0u32..).zip(row).filter(|o| o.0 != y);
            if others.into_iter().any(|o| *o.1 < INFEASIBLE) {
                return None;
            }
            own.push(plus(row[y as usize], costs[y as usize]));
        }
        self.add_own(into, &own);
        for u in self.near[v as usize].clone() {
            let (table, width) = (self.take(v, u), self.domain(u));
            let line = |&y: &u32| &table[y as usize * width..][..width];
            let table = values.iter().flat_map(line).copied().collect();
            self.add(into, u, table);
        }
        for (at, used) in std::mem::take(&mut self.uses[v as usize]) {
            let used = values.iter().map(|&y| used[y as usize]).collect();
            self.uses[into as usize].push((at, used));
        }
        self.flatten(into);
        self.costs[v as usize].clear();
        Some(())
    }

    /// The least of the sum of what a variable costs alone and with others.
    fn least(&self, v: u32, with: &[&[u64]]) -> u64 {
        let own = self.costs[v as usize].iter().enumerate();
        let sums = own.map(|(z, &c)| with.iter().fold(c, |sum, line| plus(sum, line[z])));
        sums.min().unwrap_or(INFEASIBLE)
    }

    fn pay(&mut self, v: u32, with: &[&[u64]]) {
        let least = self.least(v, with);
        self.feasible &= least < INFEASIBLE;
        self.constant += u128::from(least);
    }

    fn add_own(&mut self, v: u32, more: &[u64]) {
        let costs = self.costs[v as usize].iter_mut().zip(more);
        costs.for_each(|(cost, &more)| *cost = plus(*cost, more));
    }

    /// Moves costs from the pairs of two variables, no more than each has, to their values.
    fn move_costs(&mut self, (a, b): (u32, u32), rows: &[u64], columns: &[u64]) -> Option<()> {
        let (d, e) = (self.domain(a), self.domain(b));
        let table = self.tables.get_mut(&(a, b))?;
        if rows.len() != d || columns.len() != e {
            return None;
        }
        for (line, &r) in table.chunks_exact_mut(e).zip(rows) {
            for (cost, &c) in line.iter_mut().zip(columns) {
                if *cost < INFEASIBLE {
                    *cost = cost.checked_sub(r)?.checked_sub(c)?;
                }
            }
        }
        // what no value changes is no edge
        let &first = table.first()?;
        if first < INFEASIBLE && table.iter().all(|&c| c == first) {
            self.constant += u128::from(first);
            self.take(a, b);
        }
        self.add_own(a, rows);
        self.add_own(b, columns);
        Some(())
    }

    /// What is left, at the same positions.
    fn problem(self) -> Option<(Problem, u128)> {
        let room = self.room.iter().map(|&r| u64::try_from(r).ok());
        let room = room
            .collect::<Option<Vec<u64>>>()
            .filter(|_| self.feasible)?;
        let mut out = Problem::new();
        out.set_limits(room);
        let mut at = vec![VarId(0); self.costs.len()];
        for (v, costs) in self
            .costs
            .into_iter()
            .enumerate()
            .filter(|c| !c.1.is_empty())
        {
            at[v] = out.add_variable(costs);
            for (positions, used) in &self.uses[v] {
                out.add_usage(at[v], positions.clone(), used);
            }
        }
        for ((a, b), table) in self.tables {
            out.add_edge(at[a as usize], at[b as usize], table);
        }
        for (positions, [a, b], used) in self.pairs {
            let [a, b] = [a, b].map(|v| at[v as usize]);
            let pair = out.dense(out.domain(a), out.domain(b), used);
            out.add_pair_usage(a, b, positions, pair);
        }
        Some((out, self.constant))
    }
}
