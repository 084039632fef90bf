//! Choosing one value per variable at least total cost: the searches of the planner.
//!
//! Files: `problem` (what is solved), `tables` (hash-consed cost tables), `compact` (dominance),
//! `exact` (elimination), `local` (descent from an incumbent), `exhaustive`, `linearized` (the
//! paper's longest-path dynamic programming).

pub mod exact;
pub mod exhaustive;
pub mod linearized;
pub mod problem;

mod compact;
mod local;
mod tables;

pub use exact::Budget;
pub use problem::{INFEASIBLE, Problem, VarId};

/// What a search found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Solution {
    /// The value of every variable, by variable number.
    pub assignment: Vec<u32>,
    /// Its cost ([`Problem::cost`]); `u128::MAX` if it uses an [`INFEASIBLE`] entry.
    pub cost: u128,
    /// No assignment costs less.
    pub bound: u128,
}

impl Solution {
    /// Does it use no [`INFEASIBLE`] entry?
    pub fn is_feasible(&self) -> bool {
        self.cost < u128::MAX
    }

    /// Is it proved that nothing costs less?
    pub fn is_optimal(&self) -> bool {
        self.cost == self.bound
    }
}

#[cfg(test)]
mod tests;
