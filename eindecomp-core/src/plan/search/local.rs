//! Descent from an assignment: one variable at a time, until none improves.

use super::INFEASIBLE;
use super::problem::{Edge, Problem};

/// Improves `assignment` in place: in variable order, each variable takes its cheapest value given
/// its neighbours (equal: it keeps its own), until a whole round changes nothing. Limits are not
/// looked at.
pub(super) fn descend(problem: &Problem, assignment: &mut [u32]) {
    let mut around: Vec<Vec<Edge>> = vec![Vec::new(); assignment.len()];
    for e in problem.edges() {
        around[e.from.at()].push(e);
        around[e.to.at()].push(e);
    }
    // a feasible value before any cost
    let price = |c: u64| match c {
        INFEASIBLE => 1u128 << 100,
        c => c.into(),
    };
    loop {
        let mut changed = false;
        for v in problem.ids() {
            let mut costs: Vec<u128> = problem.costs(v).iter().map(|&c| price(c)).collect();
            for e in &around[v.at()] {
                for (x, cost) in costs.iter_mut().enumerate() {
                    *cost += price(match e.from == v {
                        true => e.cost(x as u32, assignment[e.to.at()]),
                        false => e.cost(assignment[e.from.at()], x as u32),
                    });
                }
            }
            let own = assignment[v.at()] as usize;
            let best = (0..costs.len()).min_by_key(|&x| costs[x]).unwrap_or(own);
            if costs[best] < costs[own] {
                assignment[v.at()] = best as u32;
                changed = true;
            }
        }
        if !changed {
            return;
        }
    }
}
