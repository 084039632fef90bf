//! Min-marginals: for every value of every variable, the least cost of an assignment with it.
//!
//! An elimination sends one message per cluster upwards; a second pass sends one downwards to each
//! of them, by the same memoised products. What the factors of a cluster and its message from
//! above sum to is then the marginal of its variable.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::INFEASIBLE;
use super::algebra::{Algebra, Factor};
use super::elimination::{Elimination, Order};
use super::exact::Budget;
use super::problem::{Problem, VarId};
use super::progress::{Progress, Status};

/// Lower bounds on the cost of assignments with a value: exact if `exact`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Marginals {
    /// No assignment costs less; `u128::MAX` if none is feasible.
    pub bound: u128,
    /// Is every number the cost of some assignment?
    pub exact: bool,
    /// Per variable and value: beyond `bound`.
    beyond: Vec<Arc<[u64]>>,
}

impl Marginals {
    /// Lower bounds, of all assignments and of those with a value.
    pub(super) fn of(bound: u128, least: &[Vec<u128>]) -> Marginals {
        let beyond = |&cost: &u128| match cost {
            u128::MAX => INFEASIBLE,
            cost => u64::try_from(cost.saturating_sub(bound)).unwrap_or(INFEASIBLE - 1),
        };
        let beyond = |costs: &Vec<u128>| costs.iter().map(beyond).collect();
        Marginals {
            bound,
            exact: false,
            beyond: least.iter().map(beyond).collect(),
        }
    }

    /// No assignment with value `x` of `v` costs less; `u128::MAX` if none is feasible.
    pub fn least(&self, v: VarId, x: u32) -> u128 {
        match self.beyond[v.at()][x as usize] {
            INFEASIBLE => u128::MAX,
            beyond => self.bound.saturating_add(beyond.into()),
        }
    }
}

/// The min-marginals of every variable, without limits. Beyond the budget they are lower bounds.
pub(super) fn marginals(
    problem: &Problem,
    order: Order,
    budget: Budget,
    progress: &dyn Progress,
) -> Marginals {
    let mut state = Elimination::new(problem, budget, order, false);
    state.run(&mut |work| {
        progress.keep_going(&Status {
            work,
            best: None,
            bound: 0,
        })
    });
    let (clusters, algebra) = (&state.clusters, &mut state.algebra);
    let mut parents = vec![None; clusters.len()];
    for (at, cluster) in clusters.iter().enumerate() {
        for sent in cluster.factors.iter().filter_map(|f| f.from) {
            parents[sent] = Some(at);
        }
    }
    let mut above: Vec<Vec<Factor>> = vec![Vec::new(); clusters.len()];
    let mut beyond: Vec<Option<Arc<[u64]>>> = vec![None; problem.variables()];
    for (at, cluster) in clusters.iter().enumerate().rev() {
        let scope = |f: &Factor| f.scope.iter().map(|s| s.0).collect::<Vec<_>>();
        let own: BTreeSet<u32> = cluster.factors.iter().flat_map(scope).collect();
        if let Some(parent) = parents[at] {
            let others = clusters[parent].factors.iter();
            let others = others.filter(|f| f.from != Some(at));
            let all = others.chain(&above[parent]).cloned().collect();
            let shared = |v: u32| v != cluster.variable && own.contains(&v);
            above[at] = project(algebra, all, &shared);
        }
        let all = cluster.factors.iter().chain(&above[at]).cloned().collect();
        let left = project(algebra, all, &|v| v == cluster.variable);
        let values = problem.domain(VarId(cluster.variable));
        let mut costs = algebra.values(&left, values);
        let least = costs.iter().copied().min().unwrap_or(0);
        if least < INFEASIBLE {
            for c in costs.iter_mut().filter(|c| **c < INFEASIBLE) {
                *c -= least;
            }
        }
        // clusters of a variable that was split: each of them bounds
        if let Some(others) = &beyond[cluster.variable as usize] {
            for (c, other) in costs.iter_mut().zip(others.iter()) {
                *c = (*c).max(*other);
            }
        }
        let table = algebra.tables.intern(costs);
        beyond[cluster.variable as usize] = Some(algebra.tables.get(table).clone());
    }
    Marginals {
        bound: if state.feasible {
            state.constant
        } else {
            u128::MAX
        },
        exact: !state.split,
        beyond: beyond.into_iter().flatten().collect(),
    }
}

/// The factors with every variable but those of `keep` eliminated, one factor per set of
/// variables.
fn project(
    algebra: &mut Algebra,
    mut factors: Vec<Factor>,
    keep: &dyn Fn(u32) -> bool,
) -> Vec<Factor> {
    loop {
        let scope = algebra.scope(&factors).into_iter().map(|s| s.0);
        let scope: Vec<u32> = scope.collect();
        // the one with the fewest neighbours first
        let next = scope.into_iter().filter(|&v| !keep(v)).min_by_key(|&v| {
            let over = factors.iter().filter(|f| f.scope.iter().any(|s| s.0 == v));
            let around: BTreeSet<u32> = over.flat_map(|f| f.scope.iter().map(|s| s.0)).collect();
            (around.len(), v)
        });
        let Some(v) = next else {
            break;
        };
        let (over, rest): (Vec<_>, Vec<_>) = factors
            .into_iter()
            .partition(|f| f.scope.iter().any(|s| s.0 == v));
        factors = rest;
        let product = algebra.eliminate(&over, v, &|_| false).factor;
        if !product.scope.is_empty() {
            factors.push(product);
        }
    }
    factors.sort_by(|a, b| {
        let scope = |f: &Factor| f.scope.iter().map(|s| s.0).collect::<Vec<_>>();
        scope(a).cmp(&scope(b))
    });
    let same = |a: &Factor, b: &Factor| {
        let variables = a.scope.iter().map(|s| s.0);
        variables.eq(b.scope.iter().map(|s| s.0))
    };
    let groups: Vec<Vec<Factor>> = factors.chunk_by(same).map(<[Factor]>::to_vec).collect();
    groups.iter().filter_map(|g| algebra.sum(g)).collect()
}
