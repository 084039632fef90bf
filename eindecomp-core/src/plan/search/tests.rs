use proptest::prelude::*;

use super::*;

/// Random problems: up to 7 variables of up to 5 values, small costs (so that ties are common),
/// any pairs joined, in both directions and more than once, some entries infeasible.
fn problems() -> impl Strategy<Value = Problem> {
    let cost = || prop_oneof![12 => 0u64..6, 1 => Just(INFEASIBLE)];
    let domains = prop::collection::vec(1usize..=5, 1..=7);
    (domains, prop::collection::vec((0u32..7, 0u32..7), 0..12))
        .prop_flat_map(move |(domains, pairs)| {
            let n = domains.len() as u32;
            let pairs: Vec<(u32, u32)> = pairs
                .into_iter()
                .filter(|&(a, b)| a < n && b < n && a != b)
                .collect();
            let unary: Vec<_> = domains
                .iter()
                .map(|&d| prop::collection::vec(cost(), d))
                .collect();
            let tables: Vec<_> = pairs
                .iter()
                .map(|&(a, b)| {
                    prop::collection::vec(cost(), domains[a as usize] * domains[b as usize])
                })
                .collect();
            (Just(pairs), unary, tables)
        })
        .prop_map(|(pairs, unary, tables)| {
            let mut problem = Problem::new();
            for costs in unary {
                problem.add_variable(costs);
            }
            for ((a, b), table) in pairs.into_iter().zip(tables) {
                problem.add_edge(VarId(a), VarId(b), table);
            }
            problem
        })
}

proptest! {
    #[test]
    fn exact_is_exhaustive(problem in problems()) {
        let exact = exact::solve(&problem, Budget::default());
        let all = exhaustive::solve(&problem, u128::MAX).unwrap();
        prop_assert_eq!(exact.cost, all.cost);
        prop_assert_eq!(exact.bound, all.cost);
        prop_assert_eq!(problem.cost(&exact.assignment), exact.cost);
    }

    #[test]
    fn bounds_hold_when_tables_do_not_fit(problem in problems(), cells in 0u64..30, work in 0u64..300) {
        let budget = Budget { table_bytes: 8 * cells, work };
        let found = exact::solve(&problem, budget);
        let all = exhaustive::solve(&problem, u128::MAX).unwrap();
        prop_assert_eq!(problem.cost(&found.assignment), found.cost);
        prop_assert!(found.bound <= all.cost && all.cost <= found.cost);
    }

    #[test]
    fn linearized_is_bounded(problem in problems()) {
        let found = linearized::solve(&problem);
        let all = exhaustive::solve(&problem, u128::MAX).unwrap();
        prop_assert!(found.bound <= all.cost && all.cost <= found.cost);
    }
}

/// `layers` copies of a residual block: width 2 at any depth, equal tables in every layer.
fn layers(layers: u32, domain: usize) -> Problem {
    let table = |seed: usize| -> Vec<u64> {
        let cell = |i: usize| ((i * 7919 + seed * 104_729) % 1009) as u64;
        (0..domain * domain).map(cell).collect()
    };
    let mut problem = Problem::new();
    let mut last = problem.add_variable(table(0)[..domain].to_vec());
    for _ in 0..layers {
        let new: Vec<VarId> = (1..=4)
            .map(|s| problem.add_variable(table(s)[..domain].to_vec()))
            .collect();
        for (s, pair) in [last, new[0], new[1], new[2], new[3]]
            .windows(2)
            .enumerate()
        {
            problem.add_edge(pair[0], pair[1], table(10 + s));
        }
        problem.add_edge(last, new[2], table(20));
        problem.add_edge(new[0], new[3], table(21));
        last = new[3];
    }
    problem
}

#[test]
fn repeated_layers_are_solved_exactly() {
    let found = exact::solve(&layers(60, 40), Budget::default());
    assert!(found.is_optimal());
    assert_eq!(found, exact::solve(&layers(60, 40), Budget::default()));
}

#[test]
fn values_that_no_edge_tells_apart_are_one() {
    let mut problem = Problem::new();
    let a = problem.add_variable([5, 3, 3]);
    let b = problem.add_variable([0, 0]);
    problem.add_edge(a, b, [1, 2, 1, 2, 1, 2]);
    let small = compact::compact(&problem);
    assert_eq!(small.kept, [vec![1], vec![0, 1]]);
    assert_eq!(exact::solve(&problem, Budget::default()).assignment, [1, 0]);
}

#[test]
fn nothing_feasible_is_said_so() {
    let mut problem = Problem::new();
    problem.add_variable([INFEASIBLE, INFEASIBLE]);
    let found = exact::solve(&problem, Budget::default());
    assert!(!found.is_feasible() && found.is_optimal());
    assert!(!exhaustive::solve(&problem, 10).unwrap().is_feasible());
    assert!(exact::solve(&Problem::new(), Budget::default()).is_optimal());
}
