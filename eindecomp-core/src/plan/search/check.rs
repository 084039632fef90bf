//! An independent check of what a search says: costs and bounds from the problem alone.
//!
//! Nothing here is shared with the searches but the problem itself.

use std::ops::Range;

use super::dual::Dual;
use super::limits::Usage;
use super::problem::{Edge, Problem};

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
    /// A bound that the dual does not reach.
    #[error("the dual proves {actual}, not {stated}")]
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
    /// A dual of another problem.
    #[error("the dual does not fit the problem")]
    Dual,
}

/// Checks a solution: the cost is that of the assignment, the bound not above it, and where there
/// is a dual, it proves the bound.
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
    if let Some(dual) = &solution.dual {
        let actual = bound(problem, dual)?;
        if actual < solution.bound {
            return Err(Wrong::Bound {
                stated: solution.bound,
                actual,
            });
        }
    }
    Ok(())
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

/// What a dual proves: no assignment costs less.
///
/// # Errors
/// [`Wrong::Dual`] if it has not one entry per class of every edge and per position.
pub fn bound(problem: &Problem, dual: &Dual) -> Result<u128, Wrong> {
    let limits = problem.limits();
    let pairs = problem
        .usages()
        .iter()
        .filter_map(|(positions, usage)| match usage {
            Usage::Pair(e) => Some((problem.edge(e), Some(positions.clone()))),
            Usage::Value(..) => None,
        });
    let links: Vec<(Edge, Option<Range<u32>>)> =
        problem.edges().map(|e| (e, None)).chain(pairs).collect();
    if dual.prices.len() != limits.len() || dual.moved.len() != links.len() || dual.scale > 30 {
        return Err(Wrong::Dual);
    }
    let scaled = |cost: u64| i128::from(cost) << dual.scale;
    let mut sums = vec![0i128; limits.len() + 1];
    for (t, &price) in dual.prices.iter().enumerate() {
        sums[t + 1] = sums[t] + i128::from(price);
    }
    let price = |r: &Range<u32>| sums[r.end as usize] - sums[r.start as usize];
    let mut own: Vec<Vec<i128>> = problem
        .ids()
        .map(|v| problem.costs(v).iter().map(|&c| scaled(c)).collect())
        .collect();
    for (positions, usage) in problem.usages() {
        if let Usage::Value(v, table) = usage {
            for (c, &u) in own[v.at()]
                .iter_mut()
                .zip(problem.tables.get(*table).iter())
            {
                *c += price(positions) * i128::from(u);
            }
        }
    }
    let mut total = 0i128;
    for ((e, positions), [rows, columns]) in links.iter().zip(&dual.moved) {
        if rows.len() * e.width != e.table.len() || columns.len() != e.width {
            return Err(Wrong::Dual);
        }
        let mut least = i128::MAX;
        for (line, &r) in e.table.chunks_exact(e.width).zip(rows) {
            for (&cost, &c) in line.iter().zip(columns) {
                let cost = match positions {
                    None => scaled(cost),
                    Some(positions) => price(positions) * i128::from(cost),
                };
                least = least.min(cost - i128::from(r) - i128::from(c));
            }
        }
        total += least;
        for (own, &class) in own[e.from.at()].iter_mut().zip(e.rows) {
            *own += i128::from(rows[class as usize]);
        }
        for (own, &class) in own[e.to.at()].iter_mut().zip(e.columns) {
            *own += i128::from(columns[class as usize]);
        }
    }
    total += own
        .iter()
        .filter_map(|costs| costs.iter().min())
        .sum::<i128>();
    let worth = |(&price, &limit): (&u64, &u64)| i128::from(price) * i128::from(limit);
    total -= dual.prices.iter().zip(limits).map(worth).sum::<i128>();
    // rounded up: costs are whole
    let unit = 1i128 << dual.scale;
    Ok(u128::try_from((total + unit - 1).div_euclid(unit)).unwrap_or(0))
}
