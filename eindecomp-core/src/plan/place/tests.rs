use proptest::prelude::*;

use super::*;
use crate::ein::Agg;
use crate::graph::Pin;
use crate::graph::testing::random_graph;
use crate::plan::samples::{Sample, ffn, matmul, records, transformer};
use crate::plan::search::Unwatched;
use crate::plan::{PlanOptions, Residency};
use crate::task::traffic::moved_bytes;

fn solve(
    graph: &BoundGraph,
    devices: u32,
    residency: Residency,
    algorithm: Algorithm,
) -> Result<Placed, PlanError> {
    let options = PlanOptions {
        residency,
        ..PlanOptions::default()
    };
    let watch = Watch::new(&Unwatched);
    Search::new(graph, devices.into(), (&options).into(), &watch)?.solve(algorithm)
}

fn exact(graph: &BoundGraph, devices: u32, residency: Residency) -> Placed {
    solve(graph, devices, residency, Algorithm::Exact).unwrap()
}

fn parts<'a>(graph: &BoundGraph, placed: &'a Placed, name: &str) -> &'a [u32] {
    let (id, _) = graph.ids().find(|(_, n)| &*n.name == name).unwrap();
    &placed.nodes[id.at()].join.as_ref().unwrap().parts
}

#[test]
fn a_large_batch_moves_nothing() {
    let graph = transformer(1, [8, 6, 4, 4, 32]);
    for devices in [1, 2, 4, 8] {
        let placed = exact(&graph, devices, Residency::AsNeeded);
        assert_eq!((placed.cost, placed.bound), (0, 0));
        assert_eq!(parts(&graph, &placed, "c"), [devices, 1, 1, 1, 1]);
    }
}

#[test]
fn one_token_is_column_parallel_then_row_parallel_with_one_reduction() {
    let graph = ffn(1, 64, 256);
    let placed = exact(&graph, 4, Residency::AsNeeded);
    assert_eq!(parts(&graph, &placed, "h"), [1, 4, 1]);
    assert_eq!(parts(&graph, &placed, "a"), [1, 4]);
    assert_eq!(parts(&graph, &placed, "y"), [1, 1, 4]);
    // x is gathered by all (3 of 4 parts each), the partials of y are reduce-scattered
    assert_eq!(placed.cost, 4 * 48 * 4 + 3 * 64 * 4);
    assert_eq!(placed.cost, placed.bound);
}

#[test]
fn a_cube_is_split_in_three_dimensions() {
    let placed = exact(&matmul(64, 64, 64), 8, Residency::AsNeeded);
    let z = placed.nodes[2].join.as_ref().unwrap();
    assert_eq!(z.parts, [2, 2, 2]);
    // each device owns an eighth, reads a quarter of x and y and sends half of its quarter of z
    assert_eq!(placed.cost, 8 * 3 * (1024 - 512) * 4);
}

#[test]
fn the_optimum_is_that_of_enumeration() {
    let mut scalar = Sample::default();
    let x = scalar.data("x", &[5, 3]);
    let n = scalar.einsum("n", "ij->i", &[x]);
    let m = scalar.reduce("m", "i->", &[n], Agg::MAX);
    let y = scalar.einsum("y", "i,->i", &[n, m]);
    for graph in [
        matmul(4, 6, 5),
        ffn(1, 4, 16),
        ffn(3, 4, 2),
        scalar.finish(y),
        records(2, 9, 3),
        records(1, 4, 2),
    ] {
        for devices in [2, 3, 4] {
            for residency in [Residency::AsNeeded, Residency::Sharded] {
                let found = exact(&graph, devices, residency);
                let moved = moved_bytes(&graph, devices, &found.nodes).unwrap().total();
                assert_eq!(moved, found.cost);
                let all = solve(&graph, devices, residency, Algorithm::Exhaustive);
                assert_eq!(found.cost, all.unwrap().cost);
                assert_eq!(found.cost, found.bound);
            }
        }
    }
}

proptest! {
    /// On as many of the statements as can be enumerated.
    #[test]
    fn searches_agree_on_random_graphs(
        seed: u64, statements in 1usize..8, devices in 2u32..=4, sharded: bool,
    ) {
        let options = PlanOptions {
            residency: if sharded { Residency::Sharded } else { Residency::AsNeeded },
            ..PlanOptions::default()
        };
        let watch = Watch::new(&Unwatched);
        for statements in (1..=statements).rev() {
            let graph = random_graph(seed, statements).bound();
            let mut search = Search::new(&graph, devices.into(), (&options).into(), &watch).unwrap();
            let domains = search.model.domains();
            let Ok(all) = search.exhaustive(&domains, 1 << 14) else { continue };
            let found = search.solve(Algorithm::Exact).unwrap();
            prop_assert_eq!((found.cost, found.bound), (all.cost, all.cost));
            prop_assert!(found.any <= all.cost);
            break;
        }
    }
}

#[test]
fn pins_hold_or_are_refused() {
    let pinned = |pin| {
        let mut g = Sample::default();
        let x = g.data("x", &[8, 8]);
        let y = g.pinned("y", "ij->i", &[x], Agg::SUM, vec![pin]);
        let graph = g.finish(y);
        solve(&graph, 4, Residency::AsNeeded, Algorithm::Exact)
            .map(|p| p.nodes[1].join.as_ref().unwrap().parts.clone())
    };
    assert_eq!(pinned(Pin::Whole), Ok(vec![1, 1]));
    assert_eq!(pinned(Pin::Split("j".into(), 4)), Ok(vec![1, 4]));
    assert_eq!(pinned(Pin::Split("j".into(), 3)), Ok(vec![1, 3]));
    assert!(matches!(
        pinned(Pin::Split("j".into(), 5)),
        Err(PlanError::Pins { .. })
    ));
    assert!(matches!(
        pinned(Pin::Split("k".into(), 2)),
        Err(PlanError::PinLabel { .. })
    ));
}

#[test]
fn plans_do_not_depend_on_the_run() {
    let graph = transformer(2, [1, 7, 2, 3, 12]);
    let nodes = |devices| exact(&graph, devices, Residency::AsNeeded).nodes;
    for devices in [2, 3, 6] {
        assert_eq!(nodes(devices), nodes(devices));
    }
}

#[test]
fn twelve_layers_are_solved_exactly_and_alike() {
    let cost = |layers, devices| {
        let graph = transformer(layers, [1, 96, 12, 64, 3072]);
        let placed = exact(&graph, devices, Residency::AsNeeded);
        assert_eq!(placed.cost, placed.bound);
        placed.cost
    };
    for devices in [4, 8] {
        assert_eq!(cost(12, devices), 12 * cost(1, devices));
    }
}
