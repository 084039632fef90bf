//! Choosing one value per variable at least total cost: the searches of the planner.
//!
//! Files: `problem` (what is solved), `limits` (usage over time), `tables` (hash-consed cost
//! tables), `maps` (classes of values), `kernel` (the min-plus product), `elimination`, `exact`
//! (elimination as a search), `marginals`, `local` (descent from an incumbent), `exhaustive`,
//! `linearized` (the paper's longest-path dynamic programming), `progress`.

pub mod exhaustive;
pub mod linearized;
pub mod problem;

mod elimination;
mod exact;
mod kernel;
mod limits;
mod local;
mod maps;
mod marginals;
mod progress;
mod tables;

pub use exact::Budget;
pub use marginals::{Marginals, marginals};
pub use problem::{Edge, INFEASIBLE, PairTable, Problem, VarId};
pub use progress::{Progress, Status, Unwatched};

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
}

impl Solution {
    /// Does it use no [`INFEASIBLE`] entry and keep the limits?
    pub fn is_feasible(&self) -> bool {
        self.cost < u128::MAX
    }

    /// Is it proved that nothing costs less?
    pub fn is_optimal(&self) -> bool {
        self.cost == self.bound
    }
}

/// The cheapest assignment, if the budget and `progress` allow; else the best that was found, with
/// a bound.
pub fn solve(problem: &Problem, budget: Budget, progress: &dyn Progress) -> Solution {
    exact::solve(problem, budget, progress)
}

#[cfg(test)]
mod tests;
