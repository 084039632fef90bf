//! Instances of the ASPLOS 2025 / EuroSys 2025 contest on intra-operator parallelism
//! (github.com/google/iopddl): one strategy per node at least cost, under a limit on memory over time.
//!
//! ```text
//! {"problem": {
//!   "nodes": {"intervals": [[from, to], …], "costs": [[…], …], "usages": [[…], …]},
//!   "edges": {"nodes": [[a, b], …], "costs": [[…], …]},
//!   "usage_limit": 100
//! }}
//! ```
//!
//! Costs of an edge are row-major over the strategies of its ends. A node uses memory from `from` up to
//! and without `to`.

use std::collections::BTreeSet;

use serde::Deserialize;

use super::{INFEASIBLE, Problem, VarId};

/// Why a text is no instance.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum InstanceError {
    /// Not the JSON of one.
    #[error("it is no instance: {0}")]
    Json(#[from] serde_json::Error),
    /// Lists that are not of one length.
    #[error("there are {expected} {of}, but {actual} {what}")]
    Lists {
        /// What there is one of for each.
        of: &'static str,
        /// How many.
        expected: usize,
        /// The list.
        what: &'static str,
        /// Its length.
        actual: usize,
    },
    /// A node without a strategy.
    #[error("node {0} has no strategy")]
    Empty(usize),
    /// Not one usage per strategy.
    #[error("node {node} has {expected} strategies, but {actual} usages")]
    Usages {
        /// The node.
        node: usize,
        /// Strategies.
        expected: usize,
        /// Usages.
        actual: usize,
    },
    /// An edge of a node that does not exist, or from a node to itself.
    #[error("edge {edge} joins nodes {} and {} of {nodes}", ends[0], ends[1])]
    Ends {
        /// The edge.
        edge: usize,
        /// Its ends.
        ends: [usize; 2],
        /// Nodes of the instance.
        nodes: usize,
    },
    /// Not one cost per pair of strategies.
    #[error("edge {edge} has {expected} pairs of strategies, but {actual} costs")]
    Pairs {
        /// The edge.
        edge: usize,
        /// Pairs.
        expected: usize,
        /// Costs.
        actual: usize,
    },
}

#[derive(Deserialize)]
struct File {
    problem: Instance,
}

#[derive(Deserialize)]
struct Instance {
    nodes: Nodes,
    edges: Edges,
    usage_limit: Option<u64>,
}

#[derive(Deserialize)]
struct Nodes {
    intervals: Vec<[u64; 2]>,
    costs: Vec<Vec<u64>>,
    usages: Vec<Vec<u64>>,
}

#[derive(Deserialize)]
struct Edges {
    nodes: Vec<[usize; 2]>,
    costs: Vec<Vec<u64>>,
}

fn one_each(
    of: &'static str,
    expected: usize,
    what: &'static str,
    actual: usize,
) -> Result<(), InstanceError> {
    match expected == actual {
        true => Ok(()),
        false => Err(InstanceError::Lists {
            of,
            expected,
            what,
            actual,
        }),
    }
}

/// What marks a forbidden strategy or pair. The contest's evaluator adds it like any cost, so that an assignment with one
/// is worse than every assignment without.
const FORBIDDEN: u64 = 1_000_000_000_000_000_000;

fn allowed(cost: u64) -> u64 {
    if cost < FORBIDDEN { cost } else { INFEASIBLE }
}

/// The problem of an instance: a variable per node, in order, with its strategies as values. Most is
/// used where some interval begins, so these alone are positions.
///
/// # Errors
/// A text that is no instance.
pub fn read(text: &[u8]) -> Result<Problem, InstanceError> {
    let Instance {
        nodes,
        edges,
        usage_limit,
    } = serde_json::from_slice::<File>(text)?.problem;
    let count = nodes.costs.len();
    one_each("nodes", count, "intervals", nodes.intervals.len())?;
    one_each("nodes", count, "lists of usages", nodes.usages.len())?;
    let joined = edges.nodes.len();
    one_each("edges", joined, "lists of costs", edges.costs.len())?;

    let used = nodes.intervals.iter().filter(|[from, to]| from < to);
    let starts: BTreeSet<u64> = used.map(|[from, _]| *from).collect();
    let starts: Vec<u64> = starts.into_iter().collect();
    let position = |time: u64| starts.partition_point(|&start| start < time) as u32;
    let mut problem = Problem::new();
    problem.set_limits(vec![usage_limit.unwrap_or(u64::MAX); starts.len()]);
    let lists = nodes.costs.into_iter().zip(nodes.usages);
    for (node, ((costs, usages), [from, to])) in lists.zip(nodes.intervals).enumerate() {
        let (expected, actual) = (costs.len(), usages.len());
        if expected == 0 {
            return Err(InstanceError::Empty(node));
        }
        if actual != expected {
            return Err(InstanceError::Usages {
                node,
                expected,
                actual,
            });
        }
        let costs: Vec<u64> = costs.into_iter().map(allowed).collect();
        let variable = problem.add_variable(costs);
        if from < to {
            problem.add_usage(variable, position(from)..position(to), &usages);
        }
    }
    for (edge, (ends, costs)) in edges.nodes.into_iter().zip(edges.costs).enumerate() {
        let [a, b] = ends;
        if a == b || a.max(b) >= count {
            return Err(InstanceError::Ends {
                edge,
                ends,
                nodes: count,
            });
        }
        let [a, b] = ends.map(|end| VarId(end as u32));
        let expected = problem.domain(a).saturating_mul(problem.domain(b));
        if costs.len() != expected {
            return Err(InstanceError::Pairs {
                edge,
                expected,
                actual: costs.len(),
            });
        }
        let costs: Vec<u64> = costs.into_iter().map(allowed).collect();
        problem.add_edge(a, b, costs);
    }
    Ok(problem)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::search::{Budget, Unwatched, solve};

    const INSTANCE: &str = r#"{"problem": {"name": "small",
        "nodes": {
            "intervals": [[0, 3000000000000], [1, 1000], [5, 5]],
            "costs": [[4, 0], [3, 1], [7]],
            "usages": [[1, 6], [2, 5], [100]]
        },
        "edges": {"nodes": [[0, 1], [2, 1]], "costs": [[0, 9, 0, 0], [0, 2]]},
        "usage_limit": 8
    }}"#;

    #[test]
    fn instances_are_solved_within_their_limit() {
        let problem = read(INSTANCE.as_bytes()).unwrap();
        let budget = Budget {
            table_bytes: 1 << 20,
            work: 1 << 20,
        };
        // [1, 1] would cost 10, but both use 11 of 8 from 1 to 1000
        let found = solve(&problem, budget, &Unwatched);
        assert_eq!((found.cost, found.assignment), (10, vec![1, 0, 0]));
        let free = INSTANCE.replace("\"usage_limit\": 8", "\"usage_limit\": null");
        let found = solve(&read(free.as_bytes()).unwrap(), budget, &Unwatched);
        assert_eq!((found.cost, found.bound), (10, 10));
    }

    #[test]
    fn slips_are_told() {
        let told = |from: &str, to: &str| {
            assert!(INSTANCE.contains(from), "{from}");
            let error = read(INSTANCE.replacen(from, to, 1).as_bytes()).err();
            error.expect("a slip").to_string()
        };
        let error = told("[[4, 0], [3, 1], [7]]", "[[4, 0], [3, 1]]");
        assert_eq!(error, "there are 2 nodes, but 3 intervals");
        let error = told("[7]", "[]");
        assert_eq!(error, "node 2 has no strategy");
        let error = told("[2, 5]", "[2, 5, 6]");
        assert_eq!(error, "node 1 has 2 strategies, but 3 usages");
        let error = told("[2, 1]]", "[2, 3]]");
        assert_eq!(error, "edge 1 joins nodes 2 and 3 of 3");
        let error = told("[0, 9, 0, 0]", "[0, 9, 0]");
        assert_eq!(error, "edge 0 has 4 pairs of strategies, but 3 costs");
        let error = told("\"usage_limit\": 8", "\"usage_limit\": -8");
        assert!(
            error.starts_with("it is no instance: invalid value"),
            "{error}"
        );
        let error = read("[".repeat(1 << 20).as_bytes()).err().unwrap();
        assert!(
            error.to_string().starts_with("it is no instance"),
            "{error}"
        );
    }
}
