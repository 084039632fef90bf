//! Elimination: optimal while its tables fit a budget, else a good assignment with a bound.

use super::Solution;
use super::elimination::Elimination;
use super::local::descend;
use super::problem::Problem;
use super::progress::{Progress, Status};

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

/// The cheapest assignment, if the budget and `progress` allow; else a good one, with a bound.
/// Limits are not looked at: see [`super::solve`].
pub(super) fn solve(problem: &Problem, budget: Budget, progress: &dyn Progress) -> Solution {
    let mut stopped = false;
    let mut state = Elimination::new(problem, budget, true);
    state.run(&mut |work| {
        stopped |= !progress.keep_going(&Status {
            work,
            best: None,
            bound: 0,
        });
        !stopped
    });
    let mut assignment = state.decode();
    if state.split {
        descend(problem, &mut assignment);
    }
    let cost = problem.cost(&assignment);
    Solution {
        cost,
        bound: if state.feasible {
            state.constant
        } else {
            u128::MAX
        },
        assignment,
        stopped: stopped && state.split,
    }
}
