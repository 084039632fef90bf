use proptest::prelude::*;

use super::contract::Contraction;
use super::survivors::restrict;
use super::*;

/// Random problems: up to 7 variables of up to 5 values, small costs (so that ties are common),
/// any pairs joined, in both directions and more than once, some entries infeasible; costs that
/// floats cannot hold in some.
fn problems() -> impl Strategy<Value = Problem> {
    prop_oneof![3 => problems_in(1), 1 => problems_in((1 << 55) + 1)]
}

fn problems_in(unit: u64) -> impl Strategy<Value = Problem> {
    let cost =
        move || prop_oneof![12 => (0u64..6).prop_map(move |c| c * unit), 1 => Just(INFEASIBLE)];
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

/// The problem with every other value of a variable infeasible.
fn fix(problem: &Problem, v: VarId, x: u32) -> Problem {
    let mut fixed = Problem::new();
    for u in problem.ids() {
        let mut costs = problem.costs(u).to_vec();
        if u == v {
            for (y, cost) in costs.iter_mut().enumerate() {
                if y != x as usize {
                    *cost = INFEASIBLE;
                }
            }
        }
        fixed.add_variable(costs);
    }
    for e in problem.edges() {
        let table = fixed.pair_table(e.rows, e.columns, e.table);
        fixed.add_pair(e.from, e.to, table);
    }
    fixed
}

/// The problem with up to 4 positions, usages over random ranges, and limits that bind or not.
fn limited() -> impl Strategy<Value = Problem> {
    let usage = (
        any::<prop::sample::Index>(),
        0u32..4,
        0u32..5,
        prop::collection::vec(0u64..5, 25),
    );
    let usages = prop::collection::vec(usage, 0..8);
    (problems(), prop::collection::vec(0u64..12, 4), usages).prop_map(
        |(mut problem, limits, usages)| {
            problem.set_limits(limits);
            let edges: Vec<(VarId, VarId)> = problem.edges().map(|e| (e.from, e.to)).collect();
            for (index, from, to, used) in usages {
                if let Some(at) = index.index(8).checked_sub(4).filter(|at| *at < edges.len()) {
                    let (a, b) = edges[at];
                    let (rows, columns) = (problem.domain(a), problem.domain(b));
                    let table = problem.dense(rows, columns, &used[..rows * columns]);
                    problem.add_pair_usage(a, b, from..to.max(from).min(4), table);
                } else {
                    let v = VarId(index.index(problem.variables()) as u32);
                    problem.add_usage(v, from..to.max(from).min(4), &used[..problem.domain(v)]);
                }
            }
            problem
        },
    )
}

/// Bounds above the optimum with what proves a lower one, as it is and changed.
fn forged(proved: &Proved, optimum: u128) -> Vec<Proved> {
    let Some(bound) = optimum.checked_add(1) else {
        return Vec::new();
    };
    let by = &proved.by;
    let mut all = vec![by.clone()];
    if let Proof::Contraction {
        steps,
        positions,
        of,
    } = by
    {
        for at in 0..steps.len() {
            let mut steps = steps.clone();
            match &mut steps[at] {
                Step::Values(_, kept) => drop(kept.pop()),
                Step::Decided(_, by, _) => drop(by.pop()),
                Step::Moved(_, [rows, _]) => rows.iter_mut().for_each(|r| *r += 1),
            }
            all.push(Proof::Contraction {
                steps,
                positions: positions.clone(),
                of: of.clone(),
            });
        }
    }
    if let Proof::Elimination(by) = by {
        let half = by.order.len() / 2;
        let twice = by.order.iter().chain(&by.order).cloned().collect();
        for order in [by.order[half..].to_vec(), twice] {
            let by = by.clone();
            all.push(Proof::Elimination(Elimination { order, ..by }));
        }
    }
    if let Proof::Dual(dual) = by {
        let mut dual = dual.clone();
        for side in dual.moved.iter_mut().flatten().flatten() {
            *side += 1000;
        }
        all.push(Proof::Dual(dual));
    }
    let with = |by| Proved { bound, by };
    all.into_iter().map(with).collect()
}

/// Ends a search that asks more often than any of small problems has to.
#[derive(Default)]
struct Asked(std::cell::Cell<u32>);

impl Progress for Asked {
    fn keep_going(&self, _: &Status) -> bool {
        self.0.set(self.0.get() + 1);
        self.0.get() < 200_000
    }
}

proptest! {
    #[test]
    fn limits_over_time_are_kept(problem in limited()) {
        let all = exhaustive::solve(&problem, u128::MAX).unwrap();
        let [whole, part] = [(); 2].map(|()| Asked::default());
        let contracted = super::limited(&problem, Budget::default(), &part, Aim::Optimal);
        for found in [solve(&problem, Budget::default(), &whole), contracted] {
            // it ends by itself, long before its work is spent, also where nothing is feasible
            prop_assert!(!found.stopped);
            prop_assert_eq!(check::check(&problem, &found), Ok(()));
            prop_assert!(found.bound <= all.cost && all.cost <= found.cost);
            if let Some(proved) = found.proved {
                for forged in forged(&proved, all.cost) {
                    prop_assert!(check::check_bound(&problem, &forged, u64::MAX).is_err(), "{:?}", forged);
                }
            }
        }
    }

    #[test]
    fn contracted_problems_have_the_same_optimum(problem in limited()) {
        let all = exhaustive::solve(&problem, u128::MAX).unwrap();
        let Some(small) = Contraction::of(&problem) else {
            prop_assert!(!all.is_feasible());
            return Ok(());
        };
        let found = exhaustive::solve(&small.problem, u128::MAX).unwrap();
        prop_assert_eq!(found.cost.saturating_add(small.constant), all.cost);
        if found.is_feasible() {
            prop_assert_eq!(problem.cost(&small.expand(&found.assignment)), all.cost);
        }
    }

    #[test]
    fn classes_are_their_values(rows in prop::collection::vec(0u32..3, 1..6), columns in prop::collection::vec(0u32..3, 1..6), cells in prop::collection::vec(0u64..2, 9)) {
        let count = |map: &[u32]| *map.iter().max().unwrap() as usize + 1;
        let (height, width) = (count(&rows), count(&columns));
        let mut problem = Problem::new();
        let a = problem.add_variable(vec![0; rows.len()]);
        let b = problem.add_variable(vec![0; columns.len()]);
        let table = problem.pair_table(&rows, &columns, &cells[..height * width]);
        problem.add_pair(a, b, table);
        let dense: Vec<u64> = rows.iter().flat_map(|&r| columns.iter().map(move |&c| (r, c)))
            .map(|(r, c)| cells[r as usize * width + c as usize]).collect();
        prop_assert_eq!(problem.dense(rows.len(), columns.len(), dense.clone()), table);
        let edge = problem.edges().next().unwrap();
        for (at, cost) in dense.iter().enumerate() {
            let (x, y) = (at / columns.len(), at % columns.len());
            prop_assert_eq!(edge.cost(x as u32, y as u32), *cost);
        }
    }

    #[test]
    fn exact_is_exhaustive(problem in problems()) {
        let exact = solve(&problem, Budget::default(), &Unwatched);
        let all = exhaustive::solve(&problem, u128::MAX).unwrap();
        prop_assert_eq!(exact.cost, all.cost);
        prop_assert_eq!(exact.bound, all.cost);
        prop_assert_eq!(problem.cost(&exact.assignment), exact.cost);
        prop_assert_eq!(check::check(&problem, &exact), Ok(()));
        prop_assert_eq!(check::confirmed(&problem, &exact), all.cost);
    }

    #[test]
    fn hubs_are_narrowed_to_what_may_be_cheaper(problem in problems(), degree in 1usize..4, cells in 1u64..30) {
        let all = exhaustive::solve(&problem, u128::MAX).unwrap();
        let small = Budget { table_bytes: 8 * cells, ..Budget::default() };
        for budget in [Budget::default(), small] {
            if let Some(found) = hubs::bounds(&problem, degree, budget, &Unwatched) {
                for v in problem.ids() {
                    for x in 0..problem.domain(v) as u32 {
                        let with = exhaustive::solve(&fix(&problem, v, x), u128::MAX).unwrap();
                        prop_assert!(found.least(v, x) <= with.cost);
                    }
                }
            }
            let Some(found) = hubs::narrow(&problem, degree, budget, &Unwatched) else { continue };
            prop_assert!(found.best.bound <= all.cost);
            prop_assert_eq!(problem.cost(&found.best.assignment), found.best.cost);
            prop_assert_eq!(check::check(&problem, &found.best), Ok(()));
            prop_assert!(found.best.proved.is_some());
            let left = exhaustive::solve(&restrict(&problem, &found.kept), u128::MAX).unwrap();
            prop_assert_eq!(left.cost.min(found.best.cost), all.cost);
            let (closed, _) = found.close(&problem, Budget::default(), &Unwatched);
            prop_assert_eq!((closed.cost, closed.bound), (all.cost, all.cost));
        }
    }

    #[test]
    fn marginals_are_those_of_all_assignments(problem in problems()) {
        let found = marginals(&problem, Budget::default(), &Unwatched);
        prop_assert!(found.exact);
        for v in problem.ids() {
            for x in 0..problem.domain(v) as u32 {
                let fixed = fix(&problem, v, x);
                let all = exhaustive::solve(&fixed, u128::MAX).unwrap();
                prop_assert_eq!(found.least(v, x), all.cost);
            }
        }
    }

    #[test]
    fn marginals_bound_when_tables_do_not_fit(problem in problems(), cells in 0u64..30, work in 0u64..300) {
        let budget = Budget { table_bytes: 8 * cells, work };
        let found = marginals(&problem, budget, &Unwatched);
        for v in problem.ids() {
            for x in 0..problem.domain(v) as u32 {
                let all = exhaustive::solve(&fix(&problem, v, x), u128::MAX).unwrap();
                prop_assert!(found.least(v, x) <= all.cost);
            }
        }
    }

    #[test]
    fn bounds_hold_when_tables_do_not_fit(problem in problems(), cells in 0u64..30, work in 0u64..300) {
        let budget = Budget { table_bytes: 8 * cells, work };
        let all = exhaustive::solve(&problem, u128::MAX).unwrap();
        for search in [solve, nearly] {
            let found = search(&problem, budget, &Unwatched);
            prop_assert_eq!(check::check(&problem, &found), Ok(()));
            prop_assert!(found.bound <= all.cost && all.cost <= found.cost);
        }
        for until in [all.cost / 2, all.cost, u128::MAX] {
            prop_assert!(bound(&problem, budget, until, &Unwatched) <= all.cost);
        }
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
    let found = solve(&layers(60, 40), Budget::default(), &Unwatched);
    assert!(found.is_optimal());
    assert_eq!(found, solve(&layers(60, 40), Budget::default(), &Unwatched));
}

#[test]
fn values_that_no_edge_tells_apart_are_one() {
    let mut problem = Problem::new();
    let a = problem.add_variable([5, 3, 3]);
    let b = problem.add_variable([0, 0]);
    problem.add_edge(a, b, [1, 2, 1, 2, 1, 2]);
    let edge = problem.edges().next().unwrap();
    assert_eq!(
        (edge.rows, edge.columns, edge.table),
        (&[0, 0, 0][..], &[0, 1][..], &[1, 2][..])
    );
    assert_eq!(
        solve(&problem, Budget::default(), &Unwatched).assignment,
        [1, 0]
    );
}

#[test]
fn nothing_feasible_is_said_so() {
    let mut problem = Problem::new();
    problem.add_variable([INFEASIBLE, INFEASIBLE]);
    let found = solve(&problem, Budget::default(), &Unwatched);
    assert!(!found.is_feasible() && found.is_optimal());
    assert!(!exhaustive::solve(&problem, 10).unwrap().is_feasible());
    assert!(solve(&Problem::new(), Budget::default(), &Unwatched).is_optimal());
}

/// Groups of variables of which one decides the others, each in an order of its own; all groups use memory in the
/// middle. The least cost is that of a knapsack.
#[test]
fn groups_in_one_memory_are_packed_best() {
    const LIMIT: usize = 60;
    let mut dice = 1u64;
    let mut roll = |below: u64| {
        dice = dice.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (dice >> 33) % below
    };
    let mut problem = Problem::new();
    problem.set_limits([[LIMIT as u64; 11], [1000; 11]].concat());
    let mut packed = vec![Some(0u64); LIMIT + 1];
    for _ in 0..10 {
        let values = 2 + roll(4) as usize;
        let (mut costs, mut used) = (vec![0u64; values], vec![0u64; values]);
        let mut last: Option<(VarId, Vec<usize>)> = None;
        for _ in 0..12 {
            let mut order: Vec<usize> = (0..values).collect();
            order.rotate_left(roll(values as u64) as usize);
            let own: Vec<u64> = (0..values).map(|_| roll(50)).collect();
            let needed: Vec<u64> = (0..values).map(|_| roll(2)).collect();
            let v = problem.add_variable(own.clone());
            // before, at or after the middle, and at it alone
            problem.add_usage(v, roll(10) as u32..11, &needed);
            problem.add_usage(v, 11..12 + roll(9) as u32, &vec![1; values]);
            for (x, &group) in order.iter().enumerate() {
                costs[group] += own[x];
                used[group] += needed[x];
            }
            if let Some((before, known)) = last {
                let pair = |x: usize, y: usize| match known[x] == order[y] {
                    true => 0,
                    false => INFEASIBLE,
                };
                let table: Vec<u64> = (0..values * values)
                    .map(|at| pair(at / values, at % values))
                    .collect();
                problem.add_edge(before, v, table);
            }
            last = Some((v, order));
        }
        let with = |room: usize| {
            let options = costs.iter().zip(&used);
            let fitting = options.filter(|(_, used)| **used as usize <= room);
            fitting
                .filter_map(|(c, &used)| Some(packed[room - used as usize]? + c))
                .min()
        };
        packed = (0..=LIMIT).map(with).collect();
    }
    let least = packed[LIMIT].unwrap();
    let small = Contraction::of(&problem).unwrap();
    assert!(small.problem.variables() <= 10);
    let found = super::limited(&problem, Budget::default(), &Unwatched, Aim::Optimal);
    assert_eq!(check::check(&problem, &found), Ok(()));
    assert_eq!(found.cost, least.into());
    assert!(found.bound <= found.cost);
}

/// The second value of `b` has lost all that `a` allows with it when `a` decides `b`: `b` does not decide `a`.
#[test]
fn a_value_without_support_decides_nothing() {
    let mut problem = Problem::new();
    let a = problem.add_variable(vec![INFEASIBLE, 0, INFEASIBLE, 5]);
    let [b, c] = [(); 2].map(|()| problem.add_variable(vec![0, 0]));
    let pair = problem.pair_table(&[0, 1, 0, 1], &[0, 1], &[0, 0, 0, INFEASIBLE]);
    problem.add_pair(a, b, pair);
    let other = problem.dense(2, 2, vec![0, 1, 1, 0]);
    problem.add_pair(b, c, other);
    let small = Contraction::of(&problem).unwrap();
    let found = exhaustive::solve(&small.problem, u128::MAX).unwrap();
    assert_eq!((found.cost, small.constant), (0, 0));
    assert_eq!(small.expand(&found.assignment), [1, 0, 0]);
}
