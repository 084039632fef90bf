//! Elimination: optimal while its tables fit a budget, else a good assignment with a bound.

use super::Solution;
use super::elimination::{Cluster, Elimination, Order};
use super::local::Local;
use super::problem::{Problem, VarId};
use super::progress::{Progress, Status, Unwatched};
use super::proof::{self, Fold, Proof, Proved};

/// What a search may use. Both are counted, not measured, so that results do not depend on the
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

impl Budget {
    /// One of so many parts of the work.
    pub(super) fn share(self, parts: u64) -> Budget {
        Budget {
            work: self.work / parts,
            ..self
        }
    }

    /// What is left after so much work.
    pub(super) fn without(self, work: u64) -> Budget {
        Budget {
            work: self.work.saturating_sub(work),
            ..self
        }
    }
}

/// What elimination found.
pub(super) struct Found {
    pub solution: Solution,
    /// Additions done.
    pub work: u64,
}

/// The cheapest assignment, limits aside; `None` if the budget or `progress` does not allow it.
pub(super) fn optimal(
    problem: &Problem,
    budget: Budget,
    progress: &dyn Progress,
) -> (Option<Solution>, u64) {
    let (found, spent) = ordered(problem, Order::Small, budget, progress);
    if found.is_some() {
        return (found, spent);
    }
    let (found, more) = ordered(problem, Order::Fill, budget.without(spent), progress);
    (found, spent + more)
}

/// The same in one order alone.
pub(super) fn ordered(
    problem: &Problem,
    order: Order,
    budget: Budget,
    progress: &dyn Progress,
) -> (Option<Solution>, u64) {
    let mut state = Elimination::new(problem, budget, order, true);
    let whole = state.run_whole(&mut |work| go_on(progress, work));
    let found = whole.then(|| solution(problem, &state, state.decode()));
    (found, budget.work - state.left())
}

/// A good assignment with a bound, by elimination of split products; limits aside.
pub(super) fn split(problem: &Problem, budget: Budget, progress: &dyn Progress) -> Found {
    let (mut stopped, mut work) = (false, 0);
    let mut state = Elimination::new(problem, budget, Order::Fill, true);
    state.run(&mut |done| {
        work = done;
        stopped |= !go_on(progress, done);
        !stopped
    });
    let mut local = Local::new(problem, state.decode(), &Unwatched);
    local.descend(false, problem.ids());
    let mut solution = solution(problem, &state, local.chosen);
    solution.stopped = stopped;
    Found { solution, work }
}

fn go_on(progress: &dyn Progress, work: u64) -> bool {
    progress.keep_going(&Status {
        work,
        best: None,
        bound: 0,
    })
}

fn solution(problem: &Problem, state: &Elimination, assignment: Vec<u32>) -> Solution {
    let bound = match state.feasible {
        true => state.constant,
        false => u128::MAX,
    };
    let least = |c: &Cluster| Fold::Least(VarId(c.variable));
    let by = proof::Elimination {
        order: state.clusters.iter().map(least).collect(),
        ..proof::Elimination::default()
    };
    Solution {
        cost: problem.cost(&assignment),
        bound,
        assignment,
        stopped: false,
        // which costs were together where products were split is not written down
        proved: (!state.split).then_some(Proved {
            bound,
            by: Proof::Elimination(by),
        }),
    }
}
