//! Search beyond elimination: where tables do not fit, or limits bind on what elimination solves easily.
//!
//! Two duals bound the cost: elimination with prices on the limits, where it is exact without
//! them, and, without limits, message passing. Each step decodes an assignment, repairs what passes a limit, and
//! improves it by local search; prices follow the subgradient, what is used beyond the limits, by
//! Polyak's step length.

use super::check;
use super::dual::Passes;
use super::exact::{self, Budget};
use super::limits::Usage;
use super::local::Local;
use super::problem::Problem;
use super::progress::{Progress, Status, Unwatched};
use super::proof::{Elimination, Proof, Proved};
use super::survivors::{restrict, survivors};
use super::{Aim, INFEASIBLE, Solution};

/// Steps after which elimination is tried over the values that may still be cheaper.
const CLOSE: [usize; 4] = [3, 10, 30, 100];
/// What earlier steps count in the mean of what is used.
const SMOOTH: f64 = 0.7;
/// Steps without a better assignment or bound after which the search ends; fewer where each is a whole elimination.
const PATIENCE: usize = 100;
const EXACT_PATIENCE: usize = 20;
/// The part of the gap by which a bound has to rise there.
const TRIFLE: u128 = 100;

/// Improves on `start`, what elimination found and proved.
pub(super) fn solve(
    problem: &Problem,
    budget: Budget,
    progress: &dyn Progress,
    start: Solution,
    exact: bool,
    aim: Aim,
) -> Solution {
    let mut search = Relaxed {
        problem,
        budget,
        progress,
        aim,
        best: start,
        work: 0,
    };
    search.run(exact);
    search.best
}

/// A bound by messages alone, limits aside: what is more than `until` is not looked for.
pub(super) fn bound(
    problem: &Problem,
    budget: Budget,
    until: u128,
    progress: &dyn Progress,
) -> u128 {
    let mut passes = Passes::new(problem, until as f64);
    let (mut bound, mut work) = (0, 0);
    let status = |work, bound| Status {
        work,
        best: None,
        bound,
    };
    while bound < until && work < budget.work && progress.keep_going(&status(work, bound)) {
        for _ in 0..BETWEEN {
            passes.pass(true);
            passes.pass(false);
        }
        work += (2 * BETWEEN * passes.work).max(1);
        let now = check::dual_bound(problem, &passes.dual()).unwrap_or(0);
        // at this rate it never comes to that
        let slow = now.saturating_sub(bound) < until.saturating_sub(now) / HOPE;
        bound = now.max(bound);
        if slow {
            break;
        }
    }
    bound
}

/// Passes to and fro between two looks at the bound.
const BETWEEN: u64 = 5;
/// Looks after which a bound is to be there.
const HOPE: u128 = 20;

struct Relaxed<'a> {
    problem: &'a Problem,
    budget: Budget,
    progress: &'a dyn Progress,
    aim: Aim,
    best: Solution,
    work: u64,
}

impl Relaxed<'_> {
    fn run(&mut self, exact: bool) {
        let limits: Vec<f64> = self.problem.limits().iter().map(|&l| l as f64).collect();
        let mut local = Local::new(self.problem, self.best.assignment.clone(), self.progress);
        let mut passes = Passes::new(self.problem, local.total * 16.0);
        // beyond the bound by how much the prices aim, as a share of it
        let (mut aim, mut since) = (0.1f64, 0);
        // the prices of the best bound, and the mean of what is used beyond the limits
        let (mut centre, mut reached) = (passes.prices.clone(), f64::NEG_INFINITY);
        let mut excess = vec![0.0; limits.len()];
        // more than any feasible assignment costs, in spite of rounding
        let most = (self.problem.most() * 1.001) as u128 + 1;
        for step in 0.. {
            let patience = match exact && self.best.is_feasible() {
                true => EXACT_PATIENCE,
                false => PATIENCE,
            };
            if self.aim.is_met(&self.best) || since > patience || !self.go_on() {
                return;
            }
            let before = (self.best.cost, self.best.bound);
            let (assignment, value) = match exact {
                true => self.by_elimination(&passes.prices),
                false => self.by_messages(&mut passes, step),
            };
            let used = self.problem.usage(&assignment);
            self.improve(&mut local, assignment, &passes);
            if !exact && !self.problem.is_limited() && CLOSE.contains(&step) {
                self.close();
            }
            let fits = used.iter().zip(&limits).all(|(&u, l)| u as f64 <= *l);
            if exact && fits && passes.prices.iter().all(|p| *p == 0.0) {
                return;
            }
            // the mean counts the last step most: what one assignment uses swings
            let mean = if step == 0 { 0.0 } else { SMOOTH };
            for ((e, &u), l) in excess.iter_mut().zip(&used).zip(&limits) {
                *e = mean * *e + (1.0 - mean) * (u as f64 - l);
            }
            if value > reached {
                (reached, centre) = (value, passes.prices.clone());
                aim = (aim * 1.1).min(1.0);
            } else {
                aim = (aim * 0.9).max(1e-5);
            }
            let active = |(e, p): (&f64, &f64)| if *e > 0.0 || *p > 0.0 { e * e } else { 0.0 };
            let norm: f64 = excess.iter().zip(&centre).map(active).sum();
            if norm > 0.0 {
                let target = (reached * (1.0 + aim) + 1.0).min(self.best.cost as f64);
                let stride = (target - reached).max(0.0) / norm;
                let prices = centre.iter().zip(&excess);
                let prices = prices.map(|(p, e)| (p + stride * e).max(0.0)).collect();
                passes.set_prices(prices);
            }
            // whole eliminations are worth their time while they close the gap by more than a trifle
            let above = match self.best.is_feasible() {
                true => self.best.cost,
                false if self.best.bound > most => {
                    self.best.bound = u128::MAX;
                    return;
                }
                false => most,
            };
            let trifle = match exact {
                true => above.saturating_sub(self.best.bound) / TRIFLE,
                false => 0,
            };
            let better = self.best.cost < before.0 || self.best.bound > before.1 + trifle;
            since = if better { 0 } else { since + 1 };
        }
    }

    /// Eliminates over the values that may still be cheaper.
    fn close(&mut self) {
        let Some(Proved {
            by: Proof::Dual(dual),
            ..
        }) = &self.best.proved
        else {
            return;
        };
        let kept = survivors(self.problem, dual, self.best.cost);
        let small = restrict(self.problem, &kept);
        let (found, work) = exact::optimal(&small, self.budget.share(4), self.progress);
        self.work += work;
        let Some(found) = found else { return };
        if found.cost < self.best.cost {
            let pairs = found.assignment.iter().zip(&kept);
            self.best.assignment = pairs.map(|(&x, kept)| kept[x as usize]).collect();
            self.best.cost = found.cost;
        }
        // what was left out costs at least as much as what was known; it is not written down
        self.best.bound = self.best.cost;
    }

    fn go_on(&mut self) -> bool {
        self.best.stopped = !self.progress.keep_going(&self.best.status(self.work));
        self.work < self.budget.work && !self.best.stopped
    }

    /// The cheapest assignment at these prices, by elimination, and its cost with prices.
    fn by_elimination(&mut self, prices: &[f64]) -> (Vec<u32>, f64) {
        let Priced { priced, by, worth } = Priced::of(self.problem, prices);
        let scale = by.scale;
        let found = exact::split(&priced, self.budget, &Unwatched);
        self.work += found.work.max(1);
        let unit = f64::from(1u32 << scale);
        // rounded up: costs are whole
        let left = found.solution.bound.saturating_sub(worth);
        let bound = left.div_ceil(1 << scale);
        if bound > self.best.bound {
            let proved = found.solution.proved.and_then(|of| {
                let Proof::Elimination(found) = of.by else {
                    return None;
                };
                let order = found.order;
                Some(Proved {
                    bound,
                    by: Proof::Elimination(Elimination { order, ..by }),
                })
            });
            self.best.raise(bound, proved);
        }
        let value = (found.solution.bound as f64 - worth as f64) / unit;
        (found.solution.assignment, value)
    }

    fn by_messages(&mut self, passes: &mut Passes, step: usize) -> (Vec<u32>, f64) {
        for _ in 0..if step == 0 { 10 } else { 2 } {
            passes.pass(true);
            passes.pass(false);
            self.work += 2 * passes.work;
            if !self.go_on() {
                break;
            }
        }
        let dual = passes.dual();
        let bound = check::dual_bound(self.problem, &dual).unwrap_or(0);
        if bound > self.best.bound {
            let by = Proof::Dual(dual);
            self.best.raise(bound, Some(Proved { bound, by }));
        }
        (passes.decode(), bound as f64)
    }

    fn improve(&mut self, local: &mut Local, assignment: Vec<u32>, passes: &Passes) {
        let from = local.work;
        local.status = self.best.status(self.work);
        local.set(assignment);
        let asked = passes.asked();
        if local.repair(&asked) {
            local.descend(true, self.problem.ids());
            self.keep(local);
        }
        if self.best.is_feasible() {
            if local.chosen != self.best.assignment {
                local.set(self.best.assignment.clone());
            }
            let until = local.work + REARRANGED * passes.work;
            local.rearrange(&asked, until);
            self.keep(local);
        }
        self.work += local.work - from;
    }

    fn keep(&mut self, local: &Local) {
        let cost = self.problem.cost(&local.chosen);
        if cost < self.best.cost {
            self.best.cost = cost;
            self.best.assignment.clone_from(&local.chosen);
        }
    }
}

/// Entries looked at in each step by rearranging trees, in passes of messages.
const REARRANGED: u64 = 4;

/// A problem without limits: costs times a power of two plus the prices of what is used, which are whole.
struct Priced {
    priced: Problem,
    /// That power, and the prices.
    by: Elimination,
    /// What the limits are worth.
    worth: u128,
}

impl Priced {
    fn of(problem: &Problem, prices: &[f64]) -> Priced {
        let most: f64 = problem
            .ids()
            .map(|v| problem.costs(v).iter().filter(|c| **c < INFEASIBLE).max())
            .chain(
                problem
                    .edges()
                    .map(|e| e.table.iter().filter(|c| **c < INFEASIBLE).max()),
            )
            .flatten()
            .map(|&c| c as f64)
            .sum();
        let scale = (50.0 - most.max(1.0).log2()).clamp(0.0, 20.0) as u32;
        let unit = f64::from(1u32 << scale);
        let mut sums = vec![0.0; prices.len() + 1];
        for (t, price) in prices.iter().enumerate() {
            sums[t + 1] = sums[t] + price;
        }
        // prices as they are used: whole
        let whole: Vec<u128> = sums.iter().map(|s| u128::from((s * unit) as u64)).collect();
        let over = |r: &std::ops::Range<u32>| whole[r.end as usize] - whole[r.start as usize];
        let scaled = |c: u64| match c {
            INFEASIBLE => INFEASIBLE,
            // a cap on costs or prices keeps a bound
            c => c.saturating_mul(1 << scale).min(INFEASIBLE - 1),
        };
        let asked = |price: u128, used: u64| {
            let most = u128::from(INFEASIBLE >> 8);
            price.saturating_mul(used.into()).min(most) as u64
        };
        let mut own: Vec<Vec<u64>> = problem
            .ids()
            .map(|v| problem.costs(v).iter().map(|&c| scaled(c)).collect())
            .collect();
        for (positions, usage) in problem.usages() {
            if let Usage::Value(v, table) = usage {
                for (c, &u) in own[v.at()]
                    .iter_mut()
                    .zip(problem.tables.get(*table).iter())
                {
                    *c = c.saturating_add(asked(over(positions), u));
                }
            }
        }
        let mut out = Problem::new();
        for costs in own {
            out.add_variable(costs);
        }
        for e in problem.edges() {
            let table: Vec<u64> = e.table.iter().map(|&c| scaled(c)).collect();
            let pair = out.pair_table(e.rows, e.columns, &table);
            out.add_pair(e.from, e.to, pair);
        }
        for (positions, usage) in problem.usages() {
            if let Usage::Pair(e) = usage {
                let e = problem.edge(e);
                let table: Vec<u64> = e.table.iter().map(|&u| asked(over(positions), u)).collect();
                let pair = out.pair_table(e.rows, e.columns, &table);
                out.add_pair(e.from, e.to, pair);
            }
        }
        let prices = whole.windows(2).map(|w| (w[1] - w[0]) as u64);
        let prices: Vec<u64> = prices.collect();
        let worth = prices
            .iter()
            .zip(problem.limits())
            .map(|(&p, &l)| u128::from(p) * u128::from(l));
        Priced {
            priced: out,
            worth: worth.fold(0, u128::saturating_add),
            by: Elimination {
                scale,
                prices,
                order: Vec::new(),
            },
        }
    }
}
