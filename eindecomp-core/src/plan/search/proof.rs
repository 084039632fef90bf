//! What proves a bound: enough for [`check`](super::check) to find it again from the problem alone.

use super::Dual;
use super::problem::VarId;

/// A bound, and why no assignment costs less.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Proved {
    /// No assignment costs less.
    pub bound: u128,
    /// Why.
    pub by: Proof,
}

/// Why no assignment costs less than a bound.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Proof {
    /// What is moved between variables and edges, and prices of what is used.
    Dual(Dual),
    /// Dynamic programming at prices of what is used.
    Elimination(Elimination),
    /// What is left of the problem bounds all of it.
    Contraction {
        /// What was done to it.
        steps: Vec<Step>,
        /// The positions whose limits are looked at, ascending.
        positions: Vec<u32>,
        /// What is proved of what is left.
        of: Box<Proof>,
    },
}

/// Dynamic programming along an order of all variables.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Elimination {
    /// Costs are multiplied by 2 to this power.
    pub scale: u32,
    /// Per position of the limits, in units of 2⁻ˢᶜᵃˡᵉ: the price of one unit used. Empty: limits are not looked at.
    pub prices: Vec<u64>,
    /// What is done with every variable, in this order.
    pub order: Vec<Fold>,
}

/// What is done with variables.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fold {
    /// All that depends on a variable gives way to its least over the values, per values of the others.
    Least(VarId),
    /// Each of these variables becomes as many as there are costs that depend on it and others: each with one of these, and
    /// its share of what the variable costs alone (the first has what every value costs and division leaves as well). They may differ, which is
    /// what makes it a bound; all of them are eliminated.
    Cut(Vec<VarId>),
}

/// What contraction does to a variable, or between two.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// It keeps these values: no feasible assignment has another, or none that is cheaper than all with one of these.
    Values(VarId, Vec<u32>),
    /// Others decide its value: per value of theirs, row-major. It is part of the other one, or eliminated.
    Decided(VarId, Vec<(VarId, usize)>, Vec<u32>),
    /// So much of every feasible pair of values becomes a cost of the values: of the first variable, and of the second.
    Moved([VarId; 2], [Vec<u64>; 2]),
}
