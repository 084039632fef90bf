//! Local search from an assignment: repair where limits are passed, then moves of one variable and
//! of two neighbours, each within the limits.
//!
//! Costs are floats, what is infeasible costs more than all others together: what is found is counted again by
//! who keeps it.

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::ops::Range;

use super::INFEASIBLE;
use super::limits::Usage;
use super::problem::{Edge, Problem, RawEdge, VarId};
use super::progress::{Progress, Status};
use super::slack::Slack;

/// What a variable's value has a part in using.
#[derive(Clone, Copy)]
enum Use<'a> {
    Own(&'a [u64]),
    Pair(Edge<'a>),
}

/// A neighbour: what the edges to it cost, per value of the neighbour (rows) and of the variable's own.
#[derive(Clone, Copy)]
pub(super) struct Near {
    pub other: VarId,
    table: usize,
}

/// An assignment that is being improved.
pub(super) struct Local<'a> {
    pub(super) problem: &'a Problem,
    own: Vec<Vec<f64>>,
    tables: Vec<Vec<f64>>,
    pub(super) around: Vec<Vec<Near>>,
    uses: Vec<Vec<(Range<u32>, Use<'a>)>>,
    pub(super) slack: Slack,
    pub chosen: Vec<u32>,
    /// The cost, limits aside.
    pub total: f64,
    /// Every change since it was last emptied: a variable and its value before.
    pub(super) trail: Vec<(VarId, u32)>,
    /// Per position: the variables that use something there.
    pub(super) users: Vec<Vec<VarId>>,
    /// Entries looked at.
    pub work: u64,
    /// Where the search is, as `progress` is told.
    pub status: Status,
    progress: &'a dyn Progress,
    /// What was looked at since `progress` was asked, and whether it said no.
    unasked: u64,
    stopped: bool,
}

/// What is looked at before it is asked whether the search goes on: some 10 ms.
const ASKED: u64 = 1 << 22;
/// A cost that is less by so small a part is not less: sums are rounded.
const ROUNDED: f64 = 1e-14;

impl<'a> Local<'a> {
    /// Asks `progress` now and then, and does little after it said no.
    pub fn new(problem: &'a Problem, chosen: Vec<u32>, progress: &'a dyn Progress) -> Local<'a> {
        let n = chosen.len();
        let most = problem.most();
        let price = |&c: &u64| match c {
            INFEASIBLE => most + 1.0,
            c => c as f64,
        };
        let own = |v| problem.costs(v).iter().map(price).collect();
        let mut local = Local {
            problem,
            own: problem.ids().map(own).collect(),
            tables: Vec::new(),
            around: vec![Vec::new(); n],
            uses: vec![Vec::new(); n],
            slack: Slack::new(&[]),
            chosen: Vec::new(),
            total: 0.0,
            trail: Vec::new(),
            users: vec![Vec::new(); problem.limits().len()],
            work: 0,
            status: Status {
                work: 0,
                best: None,
                bound: 0,
            },
            progress,
            unasked: 0,
            stopped: false,
        };
        let mut between: BTreeMap<[VarId; 2], Vec<RawEdge>> = BTreeMap::new();
        for e in problem.raw_edges() {
            between
                .entry([e.from.min(e.to), e.from.max(e.to)])
                .or_default()
                .push(*e);
        }
        let mut made = HashMap::new();
        for (ends, edges) in between {
            let kinds: Vec<_> = edges.iter().map(|e| (e.pair, e.from == ends[0])).collect();
            let tables = *made.entry(kinds).or_insert_with(|| {
                let [rows, columns] = ends.map(|v| problem.domain(v));
                let mut sum = vec![0.0; rows * columns];
                for e in edges.iter().map(|e| problem.edge(e)) {
                    for (at, sum) in sum.iter_mut().enumerate() {
                        let [x, y] = [at / columns, at % columns].map(|x| x as u32);
                        *sum += price(&if e.from == ends[0] {
                            e.cost(x, y)
                        } else {
                            e.cost(y, x)
                        });
                    }
                }
                let turned = (0..columns).flat_map(|c| sum.iter().skip(c).step_by(columns));
                local.tables.push(turned.copied().collect());
                local.tables.push(sum);
                local.tables.len() - 2
            });
            for (side, v) in ends.into_iter().enumerate() {
                let near = Near {
                    other: ends[1 - side],
                    table: tables + side,
                };
                local.around[v.at()].push(near);
            }
        }
        for (positions, usage) in problem.usages() {
            match usage {
                Usage::Value(v, table) => {
                    let used = Use::Own(problem.tables.get(*table));
                    local.uses[v.at()].push((positions.clone(), used));
                }
                Usage::Pair(e) => {
                    for v in [e.from, e.to] {
                        let used = Use::Pair(problem.edge(e));
                        local.uses[v.at()].push((positions.clone(), used));
                    }
                }
            }
        }
        for v in problem.ids() {
            for (positions, _) in &local.uses[v.at()] {
                let at = positions.start as usize..positions.end as usize;
                local.users[at].iter_mut().for_each(|u| u.push(v));
            }
        }
        for users in &mut local.users {
            users.dedup();
        }
        local.set(chosen);
        local
    }

    /// After so much more was looked at: does the search go on?
    pub(super) fn goes_on(&mut self, looked_at: u64) -> bool {
        self.unasked += looked_at;
        if self.unasked >= ASKED && !self.stopped {
            self.unasked = 0;
            self.stopped = !self.progress.keep_going(&self.status);
        }
        !self.stopped
    }

    /// Starts from another assignment.
    pub fn set(&mut self, chosen: Vec<u32>) {
        self.slack = Slack::new(self.problem.limits());
        self.chosen = chosen;
        self.trail.clear();
        self.total = 0.0;
        for v in self.problem.ids() {
            let x = self.chosen[v.at()];
            let earlier = self.around[v.at()].iter().filter(|n| n.other < v);
            let pairs: f64 = earlier.map(|n| self.line(v, n)[x as usize]).sum();
            self.total += self.own[v.at()][x as usize] + pairs;
            for (positions, used) in &self.uses[v.at()] {
                let amount = match used {
                    Use::Own(used) => used[x as usize],
                    Use::Pair(e) if e.from == v => self.together(e, v, x),
                    Use::Pair(_) => 0,
                };
                self.slack.take(positions, amount.into());
            }
        }
    }

    fn together(&self, e: &Edge, v: VarId, x: u32) -> u64 {
        match e.from == v {
            true => e.cost(x, self.chosen[e.to.at()]),
            false => e.cost(self.chosen[e.from.at()], x),
        }
    }

    /// Per value of `v`: what the edges to a neighbour cost, which has the value `y`.
    pub(super) fn line_at(&self, v: VarId, near: &Near, y: u32) -> &[f64] {
        let d = self.own[v.at()].len();
        &self.tables[near.table][y as usize * d..][..d]
    }

    /// The same with the value that the neighbour has.
    fn line(&self, v: VarId, near: &Near) -> &[f64] {
        self.line_at(v, near, self.chosen[near.other.at()])
    }

    /// Per value: its cost given the others, edges to those of `but` left out.
    pub(super) fn costs(&mut self, v: VarId, but: &dyn Fn(VarId) -> bool) -> Vec<f64> {
        let mut costs = self.own[v.at()].clone();
        for near in &self.around[v.at()] {
            if !but(near.other) {
                let line = self.line(v, near);
                costs.iter_mut().zip(line).for_each(|(c, l)| *c += l);
            }
        }
        self.work += (costs.len() * (self.around[v.at()].len() + 1)) as u64;
        costs
    }

    /// What one variable's other value would use more.
    fn more(&self, v: VarId, x: u32) -> impl Iterator<Item = (&Range<u32>, i128)> {
        let own = self.chosen[v.at()];
        self.uses[v.at()].iter().map(move |(positions, used)| {
            let [old, new] = [own, x].map(|x| match used {
                Use::Own(used) => used[x as usize],
                Use::Pair(e) => self.together(e, v, x),
            });
            (positions, i128::from(new) - i128::from(old))
        })
    }

    pub(super) fn put(&mut self, v: VarId, x: u32) {
        let own = self.chosen[v.at()];
        for n in 0..self.uses[v.at()].len() {
            let (positions, used) = &self.uses[v.at()][n];
            let [old, new] = [own, x].map(|x| match used {
                Use::Own(used) => used[x as usize],
                Use::Pair(e) => self.together(e, v, x),
            });
            self.slack
                .take(positions, i128::from(new) - i128::from(old));
        }
        let costs = &self.own[v.at()];
        let mut change = costs[x as usize] - costs[own as usize];
        for near in &self.around[v.at()] {
            let line = self.line(v, near);
            change += line[x as usize] - line[own as usize];
        }
        self.total += change;
        self.work += 2 * self.around[v.at()].len() as u64;
        self.trail.push((v, own));
        self.chosen[v.at()] = x;
    }

    /// Takes back every change of the trail.
    pub(super) fn undo(&mut self) {
        for (v, x) in std::mem::take(&mut self.trail).into_iter().rev() {
            self.put(v, x);
        }
        self.trail.clear();
    }

    /// Takes the values, unless that passes a limit which was kept.
    fn attempt(&mut self, moves: &[(VarId, u32)]) -> bool {
        if let [(v, x)] = *moves {
            let passes = |(r, more)| more > 0 && self.slack.least(r) < more;
            if self.more(v, x).any(passes) {
                return false;
            }
            self.put(v, x);
            return true;
        }
        let kept = self.trail.len();
        let mut grown: Vec<Range<u32>> = Vec::new();
        for &(v, x) in moves {
            let more = self.more(v, x).filter(|(_, more)| *more > 0);
            grown.extend(more.map(|(r, _)| r.clone()));
            self.put(v, x);
        }
        if grown.iter().all(|r| self.slack.least(r) >= 0) {
            return true;
        }
        while self.trail.len() > kept {
            if let Some((v, x)) = self.trail.pop() {
                self.put(v, x);
                self.trail.pop();
            }
        }
        false
    }

    /// Changes values until the limits are kept, those first that cost least per unit freed where
    /// too much is used; `asked` is the price of a value elsewhere. Gives up where nothing helps.
    pub fn repair(&mut self, asked: &[Vec<f64>]) -> bool {
        let mut rounds = 0;
        loop {
            let (t, slack) = self.slack.tightest();
            if slack >= 0 {
                return true;
            }
            rounds += 1;
            if rounds > 20 + 2 * self.problem.limits().len() {
                return false;
            }
            let mut options: Vec<(f64, VarId, u32)> = Vec::new();
            for n in 0..self.users[t as usize].len() {
                let v = self.users[t as usize][n];
                let values = self.problem.domain(v);
                if !self.goes_on((values * self.uses[v.at()].len()) as u64) {
                    return false;
                }
                let freed = |x: u32| -> i128 {
                    let here = self.more(v, x).filter(|(r, _)| r.contains(&t));
                    here.map(|(_, more)| -more).sum()
                };
                let freeing: Vec<(u32, i128)> = (0..values as u32)
                    .map(|x| (x, freed(x)))
                    .filter(|f| f.1 > 0)
                    .collect();
                if freeing.is_empty() {
                    continue;
                }
                let costs = self.costs(v, &|_| false);
                let own = self.chosen[v.at()];
                let worth = |x: u32| costs[x as usize] + asked[v.at()][x as usize];
                for (x, freed) in freeing {
                    let least = freed.min(-slack) as f64;
                    options.push(((worth(x) - worth(own)) / least, v, x));
                }
            }
            options.sort_by(|a, b| a.0.total_cmp(&b.0).then((a.1, a.2).cmp(&(b.1, b.2))));
            let mut changed = HashSet::new();
            for (_, v, x) in options {
                if !self.goes_on(self.uses[v.at()].len() as u64) {
                    return false;
                }
                if changed.contains(&v) {
                    continue;
                }
                // no limit that is kept may be passed; one that is passed may not be passed by more
                let before = self.slack.tightest().1;
                let own = self.chosen[v.at()];
                let worse = self
                    .more(v, x)
                    .filter(|(_, more)| *more > 0)
                    .any(|(r, more)| self.slack.least(r) - more < 0);
                if worse {
                    continue;
                }
                self.put(v, x);
                if self.slack.tightest().1 < before {
                    self.put(v, own);
                    continue;
                }
                changed.insert(v);
                if self.slack.least(&(t..t + 1)) >= 0 {
                    break;
                }
            }
            if changed.is_empty() {
                return false;
            }
        }
    }

    /// Moves of one variable, then of two neighbours, until none improves, from those of `first`
    /// on.
    pub fn descend(&mut self, pairs: bool, first: impl IntoIterator<Item = VarId>) {
        let mut queue: VecDeque<VarId> = first.into_iter().collect();
        let mut queued: HashSet<VarId> = queue.iter().copied().collect();
        while let Some(v) = queue.pop_front() {
            queued.remove(&v);
            if self.problem.domain(v) == 1 {
                continue;
            }
            let work = self.work;
            if !self.goes_on(0) {
                return;
            }
            let moved = self.move_one(v) || (pairs && self.move_two(v));
            self.unasked += self.work - work;
            if moved {
                let near = self.around[v.at()].iter().map(|n| n.other);
                for u in near.chain([v]) {
                    if queued.insert(u) {
                        queue.push_back(u);
                    }
                }
            }
        }
    }

    fn move_one(&mut self, v: VarId) -> bool {
        let costs = self.costs(v, &|_| false);
        let own = costs[self.chosen[v.at()] as usize];
        let less = own - own.abs() * ROUNDED;
        let mut better: Vec<u32> = (0..costs.len() as u32)
            .filter(|&x| costs[x as usize] < less)
            .collect();
        better.sort_by(|&x, &y| costs[x as usize].total_cmp(&costs[y as usize]));
        better.into_iter().any(|x| self.attempt(&[(v, x)]))
    }

    fn move_two(&mut self, v: VarId) -> bool {
        let all = self.costs(v, &|_| false);
        let own = self.chosen[v.at()];
        for n in 0..self.around[v.at()].len() {
            let near = self.around[v.at()][n];
            let u = near.other;
            let (a, b) = (self.problem.domain(v), self.problem.domain(u));
            if a * b > PAIRS {
                continue;
            }
            let theirs = self.costs(u, &|w| w == v);
            let y = self.chosen[u.at()];
            let with = self.line_at(v, &near, y);
            let mine: Vec<f64> = all.iter().zip(with).map(|(a, w)| a - w).collect();
            let now = all[own as usize] + theirs[y as usize];
            let less = now - now.abs() * ROUNDED;
            let mut better: Vec<(f64, u32, u32)> = Vec::new();
            for (z, theirs) in (0u32..).zip(&theirs).filter(|t| *t.1 < less) {
                let line = self.line_at(v, &near, z);
                for (x, (mine, between)) in (0u32..).zip(mine.iter().zip(line)) {
                    let cost = mine + theirs + between;
                    if cost < less {
                        better.push((cost, x, z));
                    }
                }
            }
            self.work += (a * b) as u64;
            better.sort_unstable_by(|a, b| a.0.total_cmp(&b.0).then((a.1, a.2).cmp(&(b.1, b.2))));
            better.truncate(TRIED);
            if better
                .into_iter()
                .any(|(_, x, z)| self.attempt(&[(v, x), (u, z)]))
            {
                return true;
            }
        }
        false
    }
}

/// Most pairs of values that are looked at of two neighbours, and that are tried.
const PAIRS: usize = 1 << 14;
const TRIED: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::search::progress::Unwatched;

    struct Stop;

    impl Progress for Stop {
        fn keep_going(&self, _: &Status) -> bool {
            false
        }
    }

    #[test]
    fn it_ends_where_it_is_when_progress_says_no() {
        let mut problem = Problem::new();
        let v = problem.add_variable(vec![9, 1]);
        let after = |progress: &dyn Progress| {
            let mut local = Local::new(&problem, vec![0], progress);
            local.unasked = ASKED;
            local.descend(true, [v]);
            local.chosen[0]
        };
        assert_eq!((after(&Unwatched), after(&Stop)), (1, 0));
    }
}
