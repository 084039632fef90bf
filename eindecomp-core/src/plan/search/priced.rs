//! Search under limits.
//!
//! A price is asked for what is used at a position. Messages over the edges bound what assignments cost with these prices,
//! and the cheapest of each step says where prices rise and fall: by multiplicative weights (Arora, Hazan, Kale
//! 2012), which need no scale. What a step decodes is repaired where it passes a limit; between the steps, trees around the best
//! assignment are rearranged at these prices.
//!
//! Few positions matter: they are those at which some assignment that would have been taken passes a limit, and of every
//! run of such positions the worst. Everything else sees the limits at these alone.

use super::check;
use super::dual::Passes;
use super::elimination::Order;
use super::exact::{self, Budget};
use super::local::Local;
use super::problem::Problem;
use super::progress::Progress;
use super::proof::{Proof, Proved};
use super::{Aim, Solution};

/// Additions that are done to see whether limits bind at all.
const EASY: u64 = 100_000_000;
/// How far prices follow what is used: at first, from step to step, and at least.
const STRIDE: f64 = 0.5;
const DECAY: f64 = 0.99;
const LEAST_STRIDE: f64 = 0.01;
/// What earlier steps count in the mean of what is used.
const SMOOTH: f64 = 0.5;
/// The first price and the least one of all that a limit allows, as parts of the bound.
const FIRST_PRICE: f64 = 1e-4;
const LEAST_PRICE: f64 = 1e-9;
/// Passes to and fro before the first step.
const WARM: usize = 10;
/// Steps from one repair to the next, and from one search around the best assignment to the next.
const REPAIRED: usize = 10;
const REARRANGED: usize = 20;
/// Entries looked at by such a search, in passes of messages: as many as steps were made, and at most so many.
const SEARCHED: u64 = 200;
/// The search ends when so many times the work that led to the best assignment, so many passes of messages and such a part
/// of the budget brought none that is better.
const PATIENCE: u64 = 4;
const PASSES: u64 = 500;
const PATIENT: u64 = 1 << 16;

/// The cheapest assignment that was found within the limits, and a bound.
pub(super) fn solve(
    problem: &Problem,
    budget: Budget,
    progress: &dyn Progress,
    aim: Aim,
) -> Solution {
    let first = vec![0; problem.variables()];
    let mut search = Priced {
        problem,
        budget,
        progress,
        aim,
        best: Solution {
            cost: problem.cost(&first),
            assignment: first,
            bound: 0,
            stopped: false,
            proved: None,
        },
        work: 0,
        pass: 0,
        steps: 0,
        found: 0,
        prices: Vec::new(),
        moved: Vec::new(),
        stride: STRIDE,
        draft: None,
    };
    let mut goes_on = !search.without_limits();
    while goes_on {
        goes_on = search.at_positions();
    }
    search.best
}

struct Priced<'a> {
    problem: &'a Problem,
    budget: Budget,
    progress: &'a dyn Progress,
    aim: Aim,
    best: Solution,
    work: u64,
    /// That of a pass of messages.
    pass: u64,
    steps: usize,
    /// The work that had been done when the best assignment was found.
    found: u64,
    /// Positions that matter, ascending, with their prices.
    prices: Vec<(u32, f64)>,
    /// What messages moved so far.
    moved: Vec<[Vec<f64>; 2]>,
    stride: f64,
    /// What was found, but passes limits at positions that were not looked at.
    draft: Option<Vec<u32>>,
}

impl Priced<'_> {
    /// Is it done without a look at the limits?
    fn without_limits(&mut self) -> bool {
        let free = self.problem.limited_at(&[]);
        let easy = Budget {
            work: EASY.min(self.budget.work / 8),
            ..self.budget
        };
        let (found, work) = exact::ordered(&free, Order::Small, easy, self.progress);
        self.work += work;
        let Some(found) = found else { return false };
        self.best.raise(found.bound, found.proved.clone());
        if self.problem.cost(&found.assignment) == found.cost {
            self.best = found;
            return true;
        }
        let passed = passed(self.problem, &found.assignment);
        self.add(passed, found.bound as f64);
        false
    }

    fn go_on(&mut self) -> bool {
        self.best.stopped = !self.progress.keep_going(&self.best.status(self.work));
        let patience = (self.budget.work / PATIENT)
            .saturating_add(PASSES.saturating_mul(self.pass))
            .saturating_add(PATIENCE.saturating_mul(self.found));
        let patient = self.work - self.found <= patience;
        patient
            && self.work < self.budget.work
            && !self.best.stopped
            && !self.aim.is_met(&self.best)
    }

    /// Searches while the same positions matter; does the search go on after that?
    fn at_positions(&mut self) -> bool {
        let positions: Vec<u32> = self.prices.iter().map(|p| p.0).collect();
        let view = self.problem.limited_at(&positions);
        let mut passes = Passes::new(&view, 2.0 * view.most() + 1.0);
        self.pass = passes.work;
        passes.resume(std::mem::take(&mut self.moved));
        passes.set_prices(self.prices.iter().map(|p| p.1).collect());
        if self.steps == 0 {
            for _ in 0..WARM {
                passes.pass(true);
                passes.pass(false);
            }
        }
        let mut local = Local::new(&view, self.best.assignment.clone(), self.progress);
        let mut excess = vec![0.0; positions.len()];
        let mut last = Vec::new();
        while self.go_on() {
            self.steps += 1;
            passes.pass(true);
            passes.pass(false);
            self.work += (2 * passes.work).max(1);
            let chosen = passes.decode();
            let used = view.usage(&chosen);
            let fits = used.iter().zip(view.limits()).all(|(&u, &l)| u <= l.into());
            let mut new = Vec::new();
            if let Some(draft) = self.draft.take() {
                local.set(draft);
                new = self.repaired(&mut local, &passes);
            }
            if (fits || self.steps.is_multiple_of(REPAIRED)) && chosen != last {
                local.set(chosen.clone());
                new.extend(self.repaired(&mut local, &passes));
                last = chosen;
            }
            if self.steps.is_multiple_of(REARRANGED) {
                let dual = passes.dual();
                let bound = check::dual_bound(&view, &dual).unwrap_or(0);
                if bound > self.best.bound {
                    let by = Proof::Dual(dual.spread(self.problem, &positions));
                    self.best.raise(bound, Some(Proved { bound, by }));
                }
                new.extend(self.rearranged(&mut local, &passes));
            }
            let value = passes.value();
            self.reprice(&mut passes, &mut excess, &used, value);
            let known = |t: &u32| positions.binary_search(t).is_ok();
            new.retain(|t| !known(t));
            if !new.is_empty() {
                self.moved = passes.moved();
                self.add(new, value);
                return true;
            }
        }
        false
    }

    /// Prices follow what is used beyond the limits.
    fn reprice(&mut self, passes: &mut Passes, excess: &mut [f64], used: &[u128], value: f64) {
        let least = LEAST_PRICE * value.abs().max(1.0);
        for (((excess, &used), (t, price)), asked) in excess
            .iter_mut()
            .zip(used)
            .zip(&mut self.prices)
            .zip(&passes.prices)
        {
            let limit = (self.problem.limits()[*t as usize] as f64).max(1.0);
            // what is passed many times over says no more than what is passed twice
            let over = (used as f64 / limit - 1.0).min(1.0);
            *excess = SMOOTH * *excess + (1.0 - SMOOTH) * over;
            *price = (asked * (self.stride * *excess).exp()).max(least / limit);
        }
        passes.set_prices(self.prices.iter().map(|p| p.1).collect());
        self.stride = (self.stride * DECAY).max(LEAST_STRIDE);
    }

    /// Makes positions matter.
    fn add(&mut self, mut new: Vec<u32>, value: f64) {
        new.sort_unstable();
        new.dedup();
        let first = FIRST_PRICE * value.abs().max(1.0);
        let limit = |t: u32| (self.problem.limits()[t as usize] as f64).max(1.0);
        self.prices
            .extend(new.into_iter().map(|t| (t, first / limit(t))));
        self.prices.sort_unstable_by_key(|p| p.0);
        self.stride = self.stride.max(STRIDE / 5.0);
    }

    /// Repairs what was decoded, and descends from there.
    fn repaired(&mut self, local: &mut Local, passes: &Passes) -> Vec<u32> {
        let from = local.work;
        local.status = self.best.status(self.work);
        let mut new = Vec::new();
        if local.repair(&passes.asked()) {
            local.descend(false, self.problem.ids());
            new = self.keep(local);
        }
        self.work += local.work - from;
        new
    }

    /// Searches around the best assignment.
    fn rearranged(&mut self, local: &mut Local, passes: &Passes) -> Vec<u32> {
        if !self.best.is_feasible() {
            return Vec::new();
        }
        local.status = self.best.status(self.work);
        local.set(self.best.assignment.clone());
        let from = local.work;
        let until = from + SEARCHED.min(self.steps as u64) * passes.work;
        local.rearrange(&passes.asked(), until);
        self.work += local.work - from;
        self.keep(local)
    }

    /// Keeps an assignment that is better than the best; where it passes limits at positions that are not looked at, it says
    /// at which.
    fn keep(&mut self, local: &Local) -> Vec<u32> {
        if local.total >= self.best.cost as f64 {
            return Vec::new();
        }
        let cost = self.problem.cost(&local.chosen);
        if cost < self.best.cost {
            self.best.cost = cost;
            self.best.assignment.clone_from(&local.chosen);
            self.found = self.work;
            return Vec::new();
        }
        self.draft = Some(local.chosen.clone());
        passed(self.problem, &local.chosen)
    }
}

/// Of every run of positions where an assignment passes limits, the worst one.
fn passed(problem: &Problem, assignment: &[u32]) -> Vec<u32> {
    let used = problem.usage(assignment);
    let over = |(&u, &l): (&u128, &u64)| u.saturating_sub(l.into());
    let over: Vec<(u128, u32)> = used
        .iter()
        .zip(problem.limits())
        .map(over)
        .zip(0..)
        .collect();
    let runs = over.split(|o| o.0 == 0);
    runs.filter_map(|run| run.iter().max_by_key(|o| o.0))
        .map(|o| o.1)
        .collect()
}
