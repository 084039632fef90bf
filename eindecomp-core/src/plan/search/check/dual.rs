//! The sum of every variable's and every edge's least entry, after costs were moved, less what the limits are worth.

use std::ops::Range;

use super::super::dual::Dual;
use super::super::limits::Usage;
use super::super::problem::{Edge, Problem};
use super::{Wrong, over_time};

/// What a dual proves: no assignment costs less.
///
/// # Errors
/// [`Wrong::Proof`] if it has not one entry per class of every edge and per position.
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
        return Err(Wrong::Proof);
    }
    let scaled = |cost: u64| i128::from(cost) << dual.scale;
    let asked = over_time(&dual.prices);
    // below 2⁹⁶: the sum of 2³² prices at most
    let price = |positions: &Range<u32>| asked(positions) as i128;
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
            return Err(Wrong::Proof);
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
