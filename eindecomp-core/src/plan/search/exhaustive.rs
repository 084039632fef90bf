//! Every assignment, in lexicographic order: what the other searches are tested against.

use super::problem::{Edge, Problem, VarId};
use super::{INFEASIBLE, Solution};

/// The lexicographically first of the cheapest assignments, or `None` if there are more than
/// `limit` assignments. Prefixes that already cost as much as the best so far are cut.
pub fn solve(problem: &Problem, limit: u128) -> Option<Solution> {
    let n = problem.variables();
    let mut count = 1u128;
    for v in (0..n as u32).map(VarId) {
        count = count.checked_mul(problem.domain(v) as u128)?;
    }
    if count > limit {
        return None;
    }
    // per variable: its edges to earlier ones
    let mut earlier: Vec<Vec<Edge>> = vec![Vec::new(); n];
    for e in problem.edges() {
        earlier[e.from.at().max(e.to.at())].push(e);
    }
    let mut search = Search {
        problem,
        earlier,
        prefix: Vec::with_capacity(n),
        best: vec![0; n],
        cost: u128::MAX,
    };
    search.extend(0);
    Some(Solution {
        assignment: search.best,
        cost: search.cost,
        bound: search.cost,
        stopped: false,
        proved: None,
    })
}

struct Search<'a> {
    problem: &'a Problem,
    earlier: Vec<Vec<Edge<'a>>>,
    prefix: Vec<u32>,
    best: Vec<u32>,
    cost: u128,
}

impl Search<'_> {
    fn extend(&mut self, spent: u128) {
        let v = self.prefix.len();
        if v == self.problem.variables() {
            if self.problem.cost(&self.prefix) == u128::MAX {
                return;
            }
            self.cost = spent;
            self.best.clone_from(&self.prefix);
            return;
        }
        for x in 0..self.problem.domain(VarId(v as u32)) {
            self.prefix.push(x as u32);
            let pair = |e: &Edge| e.cost(self.prefix[e.from.at()], self.prefix[e.to.at()]);
            let pairs = self.earlier[v].iter().map(pair);
            let own = self.problem.costs(VarId(v as u32))[x];
            let total = pairs.chain([own]).try_fold(spent, |sum, c| {
                (c != INFEASIBLE).then(|| sum + u128::from(c))
            });
            if let Some(total) = total.filter(|&t| t < self.cost) {
                self.extend(total);
            }
            self.prefix.pop();
        }
    }
}
