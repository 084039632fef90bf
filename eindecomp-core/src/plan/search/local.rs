//! Local search from an assignment: repair where limits are passed, then moves of one variable and
//! of two neighbours, each within the limits.

use std::collections::{HashSet, VecDeque};
use std::ops::Range;

use super::INFEASIBLE;
use super::limits::Usage;
use super::problem::{Edge, Problem, VarId};
use super::progress::{Progress, Status};
use super::slack::Slack;

/// What a variable's value has a part in using.
#[derive(Clone, Copy)]
pub(super) enum Use<'a> {
    Own(&'a [u64]),
    Pair(Edge<'a>),
}

/// An assignment that is being improved.
pub(super) struct Local<'a> {
    pub(super) problem: &'a Problem,
    pub(super) around: Vec<Vec<Edge<'a>>>,
    pub(super) uses: Vec<Vec<(Range<u32>, Use<'a>)>>,
    pub(super) slack: Slack,
    pub chosen: Vec<u32>,
    /// The cost, limits aside.
    pub total: u128,
    /// Every change since it was last emptied: a variable and its value before.
    pub(super) trail: Vec<(VarId, u32)>,
    /// Per block of positions: the variables that use something there.
    pub(super) users: Vec<Vec<u32>>,
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
const ASKED: u64 = 1 << 20;

/// A feasible entry before any cost.
pub(super) fn price(cost: u64) -> u128 {
    match cost {
        INFEASIBLE => 1 << 100,
        cost => cost.into(),
    }
}

impl<'a> Local<'a> {
    /// Asks `progress` now and then, and does little after it said no.
    pub fn new(problem: &'a Problem, chosen: Vec<u32>, progress: &'a dyn Progress) -> Local<'a> {
        let mut local = Local {
            problem,
            around: vec![Vec::new(); chosen.len()],
            uses: vec![Vec::new(); chosen.len()],
            slack: Slack::new(&[]),
            chosen: Vec::new(),
            total: 0,
            trail: Vec::new(),
            users: vec![Vec::new(); problem.limits().len() / BLOCK + 1],
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
        for e in problem.edges() {
            local.around[e.from.at()].push(e);
            local.around[e.to.at()].push(e);
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
                let first = positions.start as usize / BLOCK;
                let blocks = first..(positions.end as usize - 1) / BLOCK + 1;
                local.users[blocks].iter_mut().for_each(|u| u.push(v.0));
            }
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
        let own = |v: VarId| self.problem.costs(v)[self.chosen[v.at()] as usize];
        let pairs = self.problem.edges();
        let pairs = pairs.map(|e| self.entry(&e, e.from, self.chosen[e.from.at()]));
        self.total = self.problem.ids().map(own).chain(pairs).map(price).sum();
        for v in self.problem.ids() {
            for (positions, used) in &self.uses[v.at()] {
                let amount = match used {
                    Use::Own(used) => used[self.chosen[v.at()] as usize],
                    Use::Pair(e) if e.from == v => self.entry(e, v, self.chosen[v.at()]),
                    Use::Pair(_) => 0,
                };
                self.slack.take(positions, amount.into());
            }
        }
    }

    pub(super) fn entry(&self, e: &Edge, v: VarId, x: u32) -> u64 {
        match e.from == v {
            true => e.cost(x, self.chosen[e.to.at()]),
            false => e.cost(self.chosen[e.from.at()], x),
        }
    }

    /// Per value: its cost given the others, edges to those of `but` left out.
    pub(super) fn costs(&mut self, v: VarId, but: &dyn Fn(VarId) -> bool) -> Vec<u128> {
        let mut costs: Vec<u128> = self.problem.costs(v).iter().map(|&c| price(c)).collect();
        for e in &self.around[v.at()] {
            let other = if e.from == v { e.to } else { e.from };
            if but(other) {
                continue;
            }
            for (x, cost) in costs.iter_mut().enumerate() {
                *cost += price(self.entry(e, v, x as u32));
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
                Use::Pair(e) => self.entry(e, v, x),
            });
            (positions, i128::from(new) - i128::from(old))
        })
    }

    pub(super) fn put(&mut self, v: VarId, x: u32) {
        let changes: Vec<(Range<u32>, i128)> =
            self.more(v, x).map(|(r, m)| (r.clone(), m)).collect();
        for (positions, more) in changes {
            self.slack.take(&positions, more);
        }
        let own = self.chosen[v.at()];
        let costs = self.problem.costs(v);
        for (x, sign) in [(own, false), (x, true)] {
            let pairs = self.around[v.at()].iter().map(|e| self.entry(e, v, x));
            let all: u128 = pairs.chain([costs[x as usize]]).map(price).sum();
            self.total = if sign {
                self.total + all
            } else {
                self.total - all
            };
        }
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
        let old: Vec<(VarId, u32)> = moves
            .iter()
            .map(|&(v, _)| (v, self.chosen[v.at()]))
            .collect();
        if let [(v, x)] = *moves
            && self
                .more(v, x)
                .any(|(r, more)| more > 0 && self.slack.least(r) < more.min(0))
        {
            return false;
        }
        let mut grown: Vec<Range<u32>> = Vec::new();
        for &(v, x) in moves {
            let more = self.more(v, x).filter(|(_, more)| *more > 0);
            grown.extend(more.map(|(r, _)| r.clone()));
            self.put(v, x);
        }
        if grown.iter().all(|r| self.slack.least(r) >= 0) {
            return true;
        }
        for (v, x) in old.into_iter().rev() {
            self.put(v, x);
        }
        false
    }

    /// Changes values until the limits are kept, those first that cost least per unit freed where
    /// too much is used; `asked` is the price of a value elsewhere. Gives up where nothing helps.
    pub fn repair(&mut self, asked: &dyn Fn(VarId, u32) -> f64) -> bool {
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
            for v in self.users[t as usize / BLOCK]
                .clone()
                .into_iter()
                .map(VarId)
            {
                let values = self.problem.domain(v);
                if !self.goes_on((values * self.uses[v.at()].len()) as u64) {
                    return false;
                }
                let uses = |r: &Range<u32>| r.contains(&t);
                if !self.uses[v.at()].iter().any(|(r, _)| uses(r)) {
                    continue;
                }
                let freed = |x: u32| -> i128 {
                    let here = self.more(v, x).filter(|(r, _)| uses(r));
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
                let worth = |x: u32| costs[x as usize] as f64 + asked(v, x);
                for (x, freed) in freeing {
                    let least = freed.min(-slack) as f64;
                    options.push(((worth(x) - worth(own)) / least, v, x));
                }
            }
            options.sort_by(|a, b| a.0.total_cmp(&b.0).then((a.1, a.2).cmp(&(b.1, b.2))));
            let mut changed = vec![];
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
                changed.push(v);
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
                let near = self.around[v.at()].iter().flat_map(|e| [e.from, e.to]);
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
        let mut better: Vec<u32> = (0..costs.len() as u32)
            .filter(|&x| costs[x as usize] < own)
            .collect();
        better.sort_by_key(|&x| costs[x as usize]);
        better.into_iter().any(|x| self.attempt(&[(v, x)]))
    }

    fn move_two(&mut self, v: VarId) -> bool {
        let mut near: Vec<VarId> = self.around[v.at()]
            .iter()
            .map(|e| if e.from == v { e.to } else { e.from })
            .collect();
        near.sort_unstable();
        near.dedup();
        let mine = self.costs(v, &|_| false);
        for u in near {
            let (a, b) = (self.problem.domain(v), self.problem.domain(u));
            if a * b > PAIRS {
                continue;
            }
            let joint: Vec<Edge> = self.around[v.at()]
                .iter()
                .filter(|e| e.from == u || e.to == u)
                .copied()
                .collect();
            let own = self.chosen[v.at()];
            let theirs = self.costs(u, &|w| w == v);
            let y = self.chosen[u.at()];
            let between = |x: u32, y: u32| -> u128 {
                let cost = |e: &Edge| match e.from == v {
                    true => e.cost(x, y),
                    false => e.cost(y, x),
                };
                joint.iter().map(|e| price(cost(e))).sum()
            };
            let mine: Vec<u128> = (0..a as u32)
                .map(|x| mine[x as usize] - between(x, y))
                .collect();
            let now = mine[own as usize] + theirs[y as usize] + between(own, y);
            let mut better: Vec<(u128, u32, u32)> = Vec::new();
            for x in (0..a as u32).filter(|&x| mine[x as usize] < now) {
                for z in (0..b as u32).filter(|&z| mine[x as usize] + theirs[z as usize] < now) {
                    let cost = mine[x as usize] + theirs[z as usize] + between(x, z);
                    if cost < now {
                        better.push((cost, x, z));
                    }
                }
            }
            self.work += (a * b) as u64;
            better.sort_unstable();
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

/// Positions that share a list of users.
pub(super) const BLOCK: usize = 64;
/// Most pairs of values that are tried of two neighbours.
const PAIRS: usize = 1 << 14;

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
