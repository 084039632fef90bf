//! The paper's method (EinDecomp, arXiv 2410.02682, §8): dynamic programming along longest paths.
//!
//! Until every variable has a value: take the longest path (most variables; of several, from the
//! lowest number, always on to the lowest one) of edges `a → b` between variables without one, and
//! choose along it exactly, counting edges to variables that have a value and between neighbours
//! on the path. Other edges are ignored while choosing; the result's cost counts them. Equal
//! costs: the first value.

use std::collections::BTreeMap;

use super::Solution;
use super::problem::{Problem, VarId};

/// Chooses along longest paths. Variables must be numbered so that edges go upwards.
pub fn solve(problem: &Problem) -> Solution {
    let n = problem.variables();
    // edges between the same two variables as one
    let mut edges: BTreeMap<(usize, usize), Vec<u64>> = BTreeMap::new();
    for e in problem.edges() {
        let (height, width) = (problem.domain(e.from), problem.domain(e.to));
        let sum = edges
            .entry((e.from.at(), e.to.at()))
            .or_insert_with(|| vec![0; height * width]);
        for (at, s) in sum.iter_mut().enumerate() {
            let cost = e.cost((at / width) as u32, (at % width) as u32);
            *s = s.saturating_add(cost);
        }
    }
    let mut around: Vec<Vec<(usize, usize)>> = vec![Vec::new(); n];
    let mut next: Vec<Vec<usize>> = vec![Vec::new(); n];
    for &(a, b) in edges.keys() {
        around[a].push((a, b));
        around[b].push((a, b));
        next[a].push(b);
    }
    let domain = |v: usize| problem.domain(VarId(v as u32));
    let mut chosen: Vec<Option<u32>> = vec![None; n];
    while let Some(path) = longest(&next, &chosen) {
        // own cost and that of edges to variables with a value
        let local = |v: usize, chosen: &[Option<u32>]| {
            let mut costs = problem.costs(VarId(v as u32)).to_vec();
            for &(a, b) in &around[v] {
                let other = if a == v { b } else { a };
                let Some(y) = chosen[other] else { continue };
                let (y, table) = (y as usize, &edges[&(a, b)]);
                for (x, cost) in costs.iter_mut().enumerate() {
                    let at = if a == v {
                        x * domain(b) + y
                    } else {
                        y * domain(b) + x
                    };
                    *cost = cost.saturating_add(table[at]);
                }
            }
            costs
        };
        let mut best = local(path[0], &chosen);
        let mut back: Vec<Vec<u32>> = Vec::new();
        for step in path.windows(2) {
            let (table, width) = (&edges[&(step[0], step[1])], domain(step[1]));
            let mut from = vec![0u32; width];
            let mut least = vec![u64::MAX; width];
            for (x, &cost) in best.iter().enumerate() {
                for y in 0..width {
                    let sum = cost.saturating_add(table[x * width + y]);
                    if sum < least[y] {
                        (least[y], from[y]) = (sum, x as u32);
                    }
                }
            }
            for (l, own) in least.iter_mut().zip(local(step[1], &chosen)) {
                *l = l.saturating_add(own);
            }
            back.push(from);
            best = least;
        }
        let mut x = (0..best.len()).min_by_key(|&x| best[x]).unwrap_or(0) as u32;
        for (at, &v) in path.iter().enumerate().rev() {
            chosen[v] = Some(x);
            if at > 0 {
                x = back[at - 1][x as usize];
            }
        }
    }
    let assignment: Vec<u32> = chosen.into_iter().map(|x| x.unwrap_or(0)).collect();
    Solution {
        cost: problem.cost(&assignment),
        bound: problem.trivial_bound(),
        stopped: false,
        proved: None,
        assignment,
    }
}

/// The longest path among variables without a value.
fn longest(next: &[Vec<usize>], chosen: &[Option<u32>]) -> Option<Vec<usize>> {
    let mut length = vec![0usize; next.len()];
    for v in (0..next.len()).rev().filter(|&v| chosen[v].is_none()) {
        length[v] = 1 + next[v].iter().map(|&w| length[w]).max().unwrap_or(0);
    }
    let start = (0..next.len())
        .filter(|&v| length[v] > 0)
        .min_by_key(|&v| (std::cmp::Reverse(length[v]), v))?;
    let mut path = vec![start];
    let mut at = start;
    while length[at] > 1 {
        at = *next[at]
            .iter()
            .find(|&&w| length[w] + 1 == length[at])
            .expect("a successor has the remaining length");
        path.push(at);
    }
    Some(path)
}
