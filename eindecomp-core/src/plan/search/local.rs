//! Descent from an assignment: one variable at a time, until none improves.

use std::sync::Arc;

use super::problem::{Problem, VarId};

/// Improves `assignment` in place: in variable order, each variable takes its cheapest value given
/// its neighbours (equal: it keeps its own), until a whole round changes nothing.
pub(super) fn descend(problem: &Problem, assignment: &mut [u32]) {
    // per variable: neighbour, table, is this variable its row
    type Around<'a> = Vec<(VarId, &'a Arc<[u64]>, bool)>;
    let mut around: Vec<Around> = vec![Vec::new(); assignment.len()];
    for (a, b, table) in problem.edges() {
        around[a.at()].push((b, table, true));
        around[b.at()].push((a, table, false));
    }
    loop {
        let mut changed = false;
        for v in (0..assignment.len() as u32).map(VarId) {
            let mut costs: Vec<u128> = problem.costs(v).iter().map(|&c| c.into()).collect();
            for &(u, table, rows) in &around[v.at()] {
                let (y, width) = (assignment[u.at()] as usize, problem.domain(u));
                for (x, cost) in costs.iter_mut().enumerate() {
                    let at = if rows {
                        x * width + y
                    } else {
                        y * problem.domain(v) + x
                    };
                    *cost += u128::from(table[at]);
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
