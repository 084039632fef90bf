//! Choosing one value per variable at least total cost: the searches of the planner.
//!
//! Files: `problem` (what is solved), `limits` (usage over time), `tables` (hash-consed cost
//! tables), `maps` (classes of values), `kernel` (the min-plus product), `algebra` (factors), `elimination`, `exact`
//! (elimination as a search), `marginals`, `hubs` (what many depend on); beyond its width: `relaxed`,
//! with `dual` (message passing, prices), `survivors` (values that may still be cheaper), `local` and `trees` (search around an incumbent); under limits:
//! `contract` (a smaller problem with the same optimum) and `priced`, with `slack` (what is left of the limits); `exhaustive`, `linearized` (the paper's longest-path dynamic programming);
//! `proof` and `check` (costs and bounds once more, independently), `progress`; `iopddl` (problems from files).

pub mod check;
pub mod exhaustive;
pub mod iopddl;
pub mod linearized;
pub mod problem;

mod algebra;
mod contract;
mod dual;
mod elimination;
mod exact;
mod hubs;
mod kernel;
mod limits;
mod local;
mod maps;
mod marginals;
mod priced;
mod progress;
mod proof;
mod relaxed;
mod slack;
mod survivors;
mod tables;
mod trees;

use contract::Contraction;
pub use dual::Dual;
use elimination::Order;
pub use exact::Budget;
pub use marginals::Marginals;
pub use problem::{Edge, INFEASIBLE, PairTable, Problem, VarId};
pub(crate) use progress::Watch;
pub use progress::{Progress, Status, Unwatched};
pub use proof::{Elimination, Fold, Proof, Proved, Step};

/// What a search found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Solution {
    /// The value of every variable, by variable number.
    pub assignment: Vec<u32>,
    /// Its cost ([`Problem::cost`]); `u128::MAX` if it uses an [`INFEASIBLE`] entry or more than a
    /// limit.
    pub cost: u128,
    /// No assignment costs less.
    pub bound: u128,
    /// Did [`Progress`] end the search early? Then another run may find more.
    pub stopped: bool,
    /// What [`check`] can find again: the bound, or a lower one if how it was found is not written down. `None`: nothing.
    pub proved: Option<Proved>,
}

impl Solution {
    /// Does it use no [`INFEASIBLE`] entry and keep the limits?
    pub fn is_feasible(&self) -> bool {
        self.cost < u128::MAX
    }

    /// A better bound, and what is proved of it.
    fn raise(&mut self, bound: u128, proved: Option<Proved>) {
        self.bound = bound.max(self.bound);
        let of = |p: &Option<Proved>| p.as_ref().map(|p| p.bound);
        if of(&proved) > of(&self.proved) {
            self.proved = proved;
        }
    }

    /// How far the search is that has found it by so much work.
    fn status(&self, work: u64) -> Status {
        Status {
            work,
            best: self.is_feasible().then_some(self.cost),
            bound: self.bound,
        }
    }

    /// Is it proved that nothing costs less?
    pub fn is_optimal(&self) -> bool {
        self.cost == self.bound
    }

    /// Is it proved that nothing costs less by more than a part in [`NEAR`]?
    fn is_near(&self) -> bool {
        self.cost.saturating_sub(self.bound) <= self.cost / NEAR
    }
}

const NEAR: u128 = 1024;

/// When a search has found enough.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Aim {
    Optimal,
    Near,
}

impl Aim {
    fn is_met(self, by: &Solution) -> bool {
        match self {
            Aim::Optimal => by.is_optimal(),
            Aim::Near => by.is_near(),
        }
    }
}

/// The cheapest assignment, if the budget and `progress` allow; else the best that was found, with
/// a bound.
pub fn solve(problem: &Problem, budget: Budget, progress: &dyn Progress) -> Solution {
    search(problem, budget, progress, Aim::Optimal)
}

/// As [`solve`], content with an assignment that costs a thousandth more.
pub fn nearly(problem: &Problem, budget: Budget, progress: &dyn Progress) -> Solution {
    search(problem, budget, progress, Aim::Near)
}

fn search(problem: &Problem, budget: Budget, progress: &dyn Progress, aim: Aim) -> Solution {
    if problem.is_limited() {
        let easy = Budget {
            work: EASY.min(budget.work / 4),
            ..budget
        };
        return match exact::ordered(problem, Order::Small, easy, progress) {
            (Some(found), _) if found.is_optimal() => found,
            (Some(found), work) => {
                let budget = budget.without(work);
                relaxed::solve(problem, budget, progress, found, true, aim)
            }
            (None, work) => limited(problem, budget.without(work), progress, aim),
        };
    }
    let narrowed = hubs::narrow(problem, hubs::DEGREE, budget.share(16), progress);
    if let Some(narrowed) = narrowed {
        if aim.is_met(&narrowed.best) {
            return narrowed.best;
        }
        let (best, done) = narrowed.close(problem, budget.share(4), progress);
        if aim.is_met(&best) {
            return best;
        }
        let mut found = wide(problem, budget.without(done), progress, aim);
        found.raise(best.bound, best.proved);
        if best.cost < found.cost {
            (found.cost, found.assignment) = (best.cost, best.assignment);
        }
        return found;
    }
    wide(problem, budget, progress, aim)
}

/// The same under limits, where elimination is not easy: of what is left after contraction.
fn limited(problem: &Problem, budget: Budget, progress: &dyn Progress, aim: Aim) -> Solution {
    let Some(small) = Contraction::of(problem) else {
        return Solution {
            assignment: vec![0; problem.variables()],
            cost: u128::MAX,
            bound: u128::MAX,
            stopped: false,
            proved: None,
        };
    };
    let found = priced::solve(&small.problem, budget, progress, aim);
    let assignment = small.expand(&found.assignment);
    Solution {
        cost: problem.cost(&assignment),
        assignment,
        bound: found.bound.saturating_add(small.constant),
        stopped: found.stopped,
        proved: found.proved.map(|proved| small.proved(proved)),
    }
}

/// No assignment costs less, limits aside. What is more than `until` is not looked for.
pub fn bound(problem: &Problem, budget: Budget, until: u128, progress: &dyn Progress) -> u128 {
    let (found, work) = exact::ordered(problem, Order::Small, budget.share(4), progress);
    if let Some(found) = found {
        return found.bound;
    }
    let budget = budget.without(work);
    let narrowed = hubs::narrow(problem, hubs::DEGREE, budget.share(4), progress);
    match narrowed.map(|n| n.best) {
        Some(best) if best.is_optimal() || best.bound >= until => best.bound,
        best => {
            let found = relaxed::bound(problem, budget, until, progress);
            found.max(best.map_or(0, |b| b.bound))
        }
    }
}

/// The min-marginals of every variable, without limits. Beyond the budget, or where many variables depend on one, they are
/// lower bounds.
pub fn marginals(problem: &Problem, budget: Budget, progress: &dyn Progress) -> Marginals {
    let bounds = hubs::bounds(problem, hubs::DEGREE, budget, progress);
    bounds.unwrap_or_else(|| marginals::marginals(problem, Order::Fill, budget, progress))
}

/// As [`solve`], without regard to what many variables depend on.
fn wide(problem: &Problem, budget: Budget, progress: &dyn Progress, aim: Aim) -> Solution {
    let (found, mut work) = exact::optimal(problem, budget.share(4), progress);
    let exact = found.is_some();
    let start = match found {
        Some(found) if found.is_optimal() => return found,
        Some(found) => found,
        None => {
            let small = Budget {
                table_bytes: budget.table_bytes.min(SPLIT_BYTES),
                ..budget.share(8)
            };
            let found = exact::split(problem, small, progress);
            work += found.work;
            found.solution
        }
    };
    relaxed::solve(problem, budget.without(work), progress, start, exact, aim)
}

/// Additions that elimination of a problem with limits is done in, for it to be repeated at every step.
const EASY: u64 = 4_000_000;
/// Bytes of a table where products are split: they bound, others search.
const SPLIT_BYTES: u64 = 1 << 20;

#[cfg(test)]
mod tests;
