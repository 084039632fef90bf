//! A smaller problem with the same optimum, limits included.
//!
//! Values that no feasible assignment has, or that another one dominates, are left out; a variable whose value
//! another one's decides, by pairs that are infeasible otherwise, becomes part of it; one that uses nothing and has
//! at most two neighbours is eliminated. What every value costs or uses anyhow is taken from edges, variables and
//! limits. Positions that cannot be passed, or not before a neighbour is, go.

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::ops::Range;

use super::limits::Usage;
use super::problem::{Problem, VarId};
use super::proof::{Proof, Proved, Step};

mod positions;
mod rules;

/// The smaller problem, and the way back.
pub(super) struct Contraction {
    pub problem: Problem,
    /// What its assignments cost less.
    pub constant: u128,
    steps: Vec<Step>,
    /// Per variable of the smaller problem: which one it was.
    kept: Vec<u32>,
    /// Per position of the smaller problem: which one it was.
    positions: Vec<u32>,
    variables: usize,
}

impl Contraction {
    /// `None` if no assignment is feasible.
    pub fn of(problem: &Problem) -> Option<Contraction> {
        let mut state = State::of(problem);
        loop {
            while let Some(v) = state.queue.pop_front() {
                state.queued[v as usize] = false;
                state.visit(v)?;
            }
            if !state.fitting(problem.limits())? {
                return state.finish(problem);
            }
        }
    }

    /// The assignment of the whole problem.
    pub fn expand(&self, chosen: &[u32]) -> Vec<u32> {
        let mut all = vec![0; self.variables];
        for (&v, &x) in self.kept.iter().zip(chosen) {
            all[v as usize] = x;
        }
        for step in self.steps.iter().rev() {
            match step {
                Step::Values(v, values) => {
                    let x = &mut all[v.at()];
                    *x = values[*x as usize];
                }
                Step::Decided(v, by, values) => {
                    let row =
                        |at, &(u, domain): &(VarId, usize)| at * domain + all[u.at()] as usize;
                    all[v.at()] = values[by.iter().fold(0, row)];
                }
                Step::Moved(..) => {}
            }
        }
        all
    }

    /// What is proved of the smaller problem, as a proof about the whole one.
    pub fn proved(self, of: Proved) -> Proved {
        Proved {
            bound: of.bound.saturating_add(self.constant),
            by: Proof::Contraction {
                steps: self.steps,
                positions: self.positions,
                of: Box::new(of.by),
            },
        }
    }
}

type Uses = Vec<(Range<u32>, Vec<u64>)>;

struct State {
    /// Per variable; empty: it is gone.
    costs: Vec<Vec<u64>>,
    uses: Vec<Uses>,
    near: Vec<BTreeSet<u32>>,
    /// By both ends, the smaller first: row-major.
    tables: HashMap<(u32, u32), Vec<u64>>,
    /// Pairs that use something. Their variables only lose values.
    pairs: Vec<(Range<u32>, [u32; 2], Vec<u64>)>,
    pinned: Vec<bool>,
    /// Whose uses may overlap.
    scattered: Vec<bool>,
    /// Used anyhow: the change at every position.
    base: Vec<i128>,
    constant: u128,
    steps: Vec<Step>,
    queue: VecDeque<u32>,
    queued: Vec<bool>,
}

fn key(v: u32, u: u32) -> (u32, u32) {
    (v.min(u), v.max(u))
}

fn transposed<T: Copy>(table: &[T], width: usize) -> Vec<T> {
    let column = |c| table.iter().skip(c).step_by(width).copied();
    (0..width).flat_map(column).collect()
}

impl State {
    fn of(problem: &Problem) -> State {
        let n = problem.variables();
        let mut state = State {
            costs: problem.ids().map(|v| problem.costs(v).to_vec()).collect(),
            uses: vec![Uses::new(); n],
            near: vec![BTreeSet::new(); n],
            tables: HashMap::new(),
            pairs: Vec::new(),
            pinned: vec![false; n],
            scattered: vec![true; n],
            base: vec![0; problem.limits().len() + 1],
            constant: 0,
            steps: Vec::new(),
            queue: (0..n as u32).collect(),
            queued: vec![true; n],
        };
        for e in problem.edges() {
            let (a, b) = (e.from.0, e.to.0);
            let row = |&r: &u32| &e.table[r as usize * e.width..][..e.width];
            let cell = |r| e.columns.iter().map(move |&c| row(r)[c as usize]);
            let table = e.rows.iter().flat_map(cell).collect();
            state.add(a, b, table);
        }
        for (positions, usage) in problem.usages() {
            match usage {
                Usage::Value(v, table) => {
                    let used = problem.tables.get(*table).to_vec();
                    state.uses[v.at()].push((positions.clone(), used));
                }
                Usage::Pair(raw) => {
                    let e = problem.edge(raw);
                    let (rows, columns) = (e.rows.len() as u32, e.columns.len() as u32);
                    let row = |x| (0..columns).map(move |y| e.cost(x, y));
                    let ends = [raw.from.0, raw.to.0];
                    ends.iter().for_each(|&v| state.pinned[v as usize] = true);
                    let used = (0..rows).flat_map(row).collect();
                    state.pairs.push((positions.clone(), ends, used));
                }
            }
        }
        state
    }

    fn domain(&self, v: u32) -> usize {
        self.costs[v as usize].len()
    }

    fn push(&mut self, v: u32) {
        if !std::mem::replace(&mut self.queued[v as usize], true) {
            self.queue.push_back(v);
        }
    }

    fn push_near(&mut self, v: u32) {
        let near: Vec<u32> = self.near[v as usize].iter().copied().collect();
        near.into_iter().for_each(|u| self.push(u));
    }

    /// Adds to the costs of pairs of `v` (rows) and `u`.
    fn add(&mut self, v: u32, u: u32, table: Vec<u64>) {
        let table = match v < u {
            true => table,
            false => transposed(&table, self.domain(u)),
        };
        if self.near[v as usize].insert(u) {
            self.near[u as usize].insert(v);
            self.tables.insert(key(v, u), table);
        } else if let Some(sum) = self.tables.get_mut(&key(v, u)) {
            for (s, c) in sum.iter_mut().zip(table) {
                *s = s.saturating_add(c);
            }
        }
    }

    /// The table of two neighbours, which it leaves, with `v` in rows.
    fn take(&mut self, v: u32, u: u32) -> Vec<u64> {
        let table = self.tables.remove(&key(v, u)).unwrap_or_default();
        self.near[v as usize].remove(&u);
        self.near[u as usize].remove(&v);
        match v < u {
            true => table,
            false => transposed(&table, self.domain(v)),
        }
    }

    /// Makes the uses of a variable disjoint, and none of them what every value uses.
    fn flatten(&mut self, v: u32) {
        if !std::mem::replace(&mut self.scattered[v as usize], false) {
            return;
        }
        let uses = std::mem::take(&mut self.uses[v as usize]);
        let mut ends: Vec<(u32, bool, usize)> = Vec::with_capacity(2 * uses.len());
        for (n, (r, _)) in uses.iter().enumerate() {
            ends.extend([(r.start, true, n), (r.end, false, n)]);
        }
        ends.sort_unstable();
        let mut sum = vec![0u128; self.domain(v)];
        let mut out = Uses::new();
        let mut ends = ends.into_iter().peekable();
        while let Some((t, begins, n)) = ends.next() {
            for (s, u) in sum.iter_mut().zip(&uses[n].1) {
                let u = u128::from(*u);
                *s = if begins { *s + u } else { *s - u };
            }
            let Some(&(next, ..)) = ends.peek().filter(|e| e.0 > t) else {
                continue;
            };
            let least = sum.iter().copied().min().unwrap_or(0);
            self.base[t as usize] += least.cast_signed();
            self.base[next as usize] -= least.cast_signed();
            let beyond = |s: &u128| u64::try_from(s - least).unwrap_or(u64::MAX);
            let used: Vec<u64> = sum.iter().map(beyond).collect();
            if used.iter().all(|&u| u == 0) {
                continue;
            }
            match out.last_mut() {
                Some((r, last)) if r.end == t && *last == used => r.end = next,
                _ => out.push((t..next, used)),
            }
        }
        self.uses[v as usize] = out;
    }

    fn visit(&mut self, v: u32) -> Option<()> {
        if self.domain(v) == 0 {
            return Some(());
        }
        self.supported(v)?;
        self.normalise(v);
        if self.pinned[v as usize] {
            self.flatten(v);
            return Some(());
        }
        if self.domain(v) > 1 && self.decides(v) {
            return Some(());
        }
        self.flatten(v);
        if self.domain(v) == 1 {
            self.fix(v);
            return Some(());
        }
        let degree = self.near[v as usize].len();
        if self.uses[v as usize].is_empty() && degree <= 2 && self.eliminate(v) {
            return Some(());
        }
        self.dominated(v);
        Some(())
    }

    fn keep(&mut self, v: u32, kept: Vec<u32>) {
        let d = self.domain(v);
        if kept.len() == d {
            return;
        }
        let pick = |all: &[u64]| -> Vec<u64> { kept.iter().map(|&x| all[x as usize]).collect() };
        let lines = |all: &[u64], width: usize| -> Vec<u64> {
            let line = |&x: &u32| &all[x as usize * width..][..width];
            kept.iter().flat_map(line).copied().collect()
        };
        self.costs[v as usize] = pick(&self.costs[v as usize]);
        for (_, used) in &mut self.uses[v as usize] {
            *used = pick(used);
        }
        for &u in &self.near[v as usize] {
            let Some(table) = self.tables.get_mut(&key(v, u)) else {
                continue;
            };
            *table = match v < u {
                true => lines(table, table.len() / d),
                false => table.chunks_exact(d).flat_map(pick).collect(),
            };
        }
        for (_, ends, used) in &mut self.pairs {
            if ends[0] == v {
                *used = lines(used, used.len() / d);
            } else if ends[1] == v {
                *used = used.chunks_exact(d).flat_map(pick).collect();
            }
        }
        self.scattered[v as usize] = true;
        self.steps.push(Step::Values(VarId(v), kept));
        self.push(v);
        self.push_near(v);
    }
}
