//! An independent check of what a search says: costs and bounds from the problem alone.
//!
//! Nothing here is shared with the searches but the problem itself and what proofs are written in.

mod contraction;
mod cost;
mod dual;
mod elimination;
mod product;

use std::ops::Range;

use super::limits::Usage;
use super::problem::{Edge, Problem};
use super::proof::{Proof, Proved};
pub use dual::bound as dual_bound;

/// Why a solution is not what it says.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Wrong {
    /// Too many or too few values, or one that its variable does not have.
    #[error("variable {0} has no such value")]
    Value(usize),
    /// Another cost.
    #[error("the assignment costs {actual}, not {stated}")]
    Cost {
        /// What was said.
        stated: u128,
        /// What it is.
        actual: u128,
    },
    /// A bound that its proof does not reach.
    #[error("what is said to prove a bound of {stated} proves {actual}")]
    Bound {
        /// What was said.
        stated: u128,
        /// What is proved.
        actual: u128,
    },
    /// A bound above the cost of an assignment.
    #[error("the bound {bound} is above the cost {cost}")]
    Above {
        /// The bound.
        bound: u128,
        /// The cost.
        cost: u128,
    },
    /// A proof of another problem, or with a step that nothing allows.
    #[error("the proof does not fit the problem")]
    Proof,
}

/// Checks a solution: the cost is that of the assignment, the bound not above it, and what is proved of the bound is.
///
/// # Errors
/// The first thing that is wrong.
pub fn check(problem: &Problem, solution: &super::Solution) -> Result<(), Wrong> {
    let actual = cost(problem, &solution.assignment)?;
    if actual != solution.cost {
        return Err(Wrong::Cost {
            stated: solution.cost,
            actual,
        });
    }
    if solution.bound > actual {
        return Err(Wrong::Above {
            bound: solution.bound,
            cost: actual,
        });
    }
    match &solution.proved {
        Some(proved) if proved.bound > solution.bound => Err(Wrong::Bound {
            stated: proved.bound,
            actual: solution.bound,
        }),
        Some(proved) => check_bound(problem, proved, u64::MAX).map(drop),
        None => Ok(()),
    }
}

/// Checks a bound with its proof. Was it, or would that have taken more than `work` additions?
///
/// # Errors
/// [`Wrong::Bound`] if the proof proves less, [`Wrong::Proof`] if it proves nothing.
pub fn check_bound(problem: &Problem, proved: &Proved, work: u64) -> Result<bool, Wrong> {
    match bound(problem, &proved.by, work)? {
        Some(actual) if actual < proved.bound => Err(Wrong::Bound {
            stated: proved.bound,
            actual,
        }),
        found => Ok(found.is_some()),
    }
}

/// The part of a solution's bound that its proof gives again, by so many additions as pay beside a search. A proof that does
/// not hold, which is a defect of the search, is logged, and gives nothing.
pub fn confirmed(problem: &Problem, solution: &super::Solution) -> u128 {
    let Some(proved) = &solution.proved else {
        return 0;
    };
    match check_bound(problem, proved, BESIDE) {
        Ok(true) => proved.bound.min(solution.bound),
        Ok(false) => 0,
        Err(wrong) => {
            tracing::error!(%wrong, "the search said that it proved what it did not");
            0
        }
    }
}

/// Additions: about a second.
const BESIDE: u64 = 400_000_000;

/// What a proof proves: no assignment costs less. `None` if that takes more than `work` additions.
///
/// # Errors
/// [`Wrong::Proof`].
pub fn bound(problem: &Problem, proof: &Proof, work: u64) -> Result<Option<u128>, Wrong> {
    match proof {
        Proof::Dual(dual) => dual::bound(problem, dual).map(Some),
        Proof::Elimination(by) => elimination::least(problem, by, work),
        Proof::Contraction {
            steps,
            positions,
            of,
        } => {
            let Some((left, constant)) = contraction::left(problem, steps, positions)? else {
                return Ok(Some(u128::MAX));
            };
            let found = bound(&left, of, work)?;
            Ok(found.map(|found| found.saturating_add(constant)))
        }
    }
}

/// What one unit costs that is used at some positions, by the prices of all.
fn over_time(prices: &[u64]) -> impl Fn(&Range<u32>) -> u128 {
    let mut sums = vec![0u128; prices.len() + 1];
    for (t, &price) in prices.iter().enumerate() {
        sums[t + 1] = sums[t] + u128::from(price);
    }
    move |positions| sums[positions.end as usize] - sums[positions.start as usize]
}

fn cost(problem: &Problem, assignment: &[u32]) -> Result<u128, Wrong> {
    if assignment.len() != problem.variables() {
        return Err(Wrong::Value(assignment.len().min(problem.variables())));
    }
    let mut terms = Vec::new();
    for (v, &x) in problem.ids().zip(assignment) {
        let cost = problem.costs(v).get(x as usize);
        terms.push(*cost.ok_or(Wrong::Value(v.at()))?);
    }
    for e in problem.edges() {
        terms.push(entry(&e, assignment));
    }
    let mut used = vec![0u128; problem.limits().len()];
    for (positions, usage) in problem.usages() {
        let amount = match usage {
            Usage::Value(v, table) => problem.tables.get(*table)[assignment[v.at()] as usize],
            Usage::Pair(e) => entry(&problem.edge(e), assignment),
        };
        for t in positions.clone() {
            used[t as usize] += u128::from(amount);
        }
    }
    let over = used
        .iter()
        .zip(problem.limits())
        .any(|(&u, &l)| u > l.into());
    if over || terms.contains(&super::INFEASIBLE) {
        return Ok(u128::MAX);
    }
    Ok(terms.into_iter().map(u128::from).sum())
}

fn entry(e: &Edge, assignment: &[u32]) -> u64 {
    let row = e.rows[assignment[e.from.at()] as usize];
    let column = e.columns[assignment[e.to.at()] as usize];
    e.table[row as usize * e.width + column as usize]
}
