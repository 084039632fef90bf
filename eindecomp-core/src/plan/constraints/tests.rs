use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;
use crate::ein::Agg;
use crate::ein::access::{inner_labels, splittable};
use crate::graph::testing::random_graph;
use crate::plan::communication::{decompose, evaluate};
use crate::plan::cost::communication::Communication;
use crate::plan::planner::weighted;
use crate::plan::samples::{Sample, ffn, matmul, transformer};
use crate::plan::search::Unwatched;
use crate::plan::verify::verify;
use crate::plan::{
    Algorithm, Cluster, Explain, Objective, PlanError, PlanOptions, Residency, plan,
};
use crate::task::traffic::moved_bytes;

fn asked(min_tile: u32, oversubscribe: u32) -> Constraints {
    let number = |n| NonZeroU32::new(n).unwrap();
    Constraints {
        min_tile: number(min_tile),
        oversubscribe: number(oversubscribe),
    }
}

fn options(constraints: Constraints) -> PlanOptions {
    PlanOptions {
        constraints,
        ..PlanOptions::default()
    }
}

/// Every vector up to the extents, in lexicographic order.
fn all(most: &[usize]) -> Vec<Vec<u32>> {
    most.iter().fold(vec![vec![]], |all, &most| {
        let longer = |d: &Vec<u32>| {
            let d = d.clone();
            (1..=most.max(1) as u32).map(move |n| [d.clone(), vec![n]].concat())
        };
        all.iter().flat_map(longer).collect()
    })
}

/// By the words of the documentation: as many blocks as fit, one per device, in as many calls as fit.
fn allowed(graph: &BoundGraph, node: NodeId, devices: u32, asked: Constraints) -> Vec<Vec<u32>> {
    let vertex = graph.node(node);
    let e = vertex.einsum().unwrap();
    let extents = graph.label_extents(node);
    let least = asked.min_tile.get() as usize;
    let mut may = splittable(e);
    for (inner, outer) in inner_labels(e, extents) {
        may[inner.at()] &= extents[outer.at()] <= devices as usize;
    }
    let keeps = |d: &Vec<u32>| {
        let mut labels = d.iter().zip(extents).zip(&may);
        let fits = labels.all(|((&d, &n), &may)| d == 1 || may && n / d as usize >= least);
        let pinned = |pin: &Pin| match pin {
            Pin::Whole => d.iter().all(|&d| d == 1),
            Pin::Split(name, parts) => {
                let at = e.labels.iter().position(|l| l.name == *name).unwrap();
                d[at] == *parts
            }
            Pin::Owner { .. } => true,
        };
        fits && vertex.pins.iter().all(pinned)
    };
    let product = |d: &Vec<u32>| d.iter().product::<u32>();
    let wanted = asked.calls(devices);
    let fitting: Vec<Vec<u32>> = all(extents).into_iter().filter(keeps).collect();
    // the largest number of blocks first, then of tuples
    let rank = |d: &Vec<u32>| {
        let n = product(d);
        let limits: Vec<usize> = d.iter().map(|&d| d as usize).collect();
        let divides = |b: &Vec<u32>| b.iter().zip(d).all(|(b, d)| d.is_multiple_of(*b));
        let blocks = all(&limits).into_iter().filter(divides);
        let blocks = blocks.map(|b| product(&b)).filter(|&b| b <= devices);
        (blocks.max().unwrap(), n)
    };
    let few = |d: &&Vec<u32>| {
        let (blocks, tuples) = rank(d);
        tuples <= wanted && tuples / blocks <= tuples.div_ceil(devices)
    };
    let best = fitting.iter().filter(few).map(rank).max();
    let chosen = fitting.iter().filter(few).filter(|d| Some(rank(d)) == best);
    chosen.cloned().collect()
}

proptest! {
    #[test]
    fn communication_is_the_least_of_all_vectors_that_are_allowed(
        seed: u64, statements in 1..4usize, devices in 1..5u32, tile in 1..4u32, calls in 1..4u32,
    ) {
        let graph = random_graph(seed, statements).bound();
        let asked = asked(tile, calls);
        let mut choices = vec![vec![None; graph.nodes().len()]];
        for (node, _) in graph.ids().filter(|(_, n)| n.einsum().is_some()) {
            let vectors = allowed(&graph, node, devices, asked);
            let with = |c: &Vec<Option<Vec<u32>>>| {
                let c = c.clone();
                vectors.clone().into_iter().map(move |d| {
                    let mut c = c.clone();
                    c[node.at()] = Some(d);
                    c
                })
            };
            prop_assume!(choices.len() * vectors.len() <= 20_000);
            choices = choices.iter().flat_map(with).collect();
        }
        let costs = choices.iter().map(|c| evaluate(&graph, c, &Communication));
        let found = decompose(&graph, devices, &Communication, &options(asked), &Unwatched).unwrap();
        prop_assert_eq!(Some(found.certificate.cost), costs.min());
        prop_assert_eq!(evaluate(&graph, &found.vectors, &Communication), found.certificate.cost);
        prop_assert!(choices.contains(&found.vectors));
    }

    #[test]
    fn placed_plans_keep_what_is_asked_at_the_least_cost(
        seed: u64, statements in 1..4usize, devices in 1..5u32, tile in 1..4u32, calls in 1..4u32,
        sharded: bool,
    ) {
        let graph = random_graph(seed, statements).bound();
        let cluster = Cluster::cpus(devices);
        let by = |algorithm| {
            let options = PlanOptions {
                algorithm,
                residency: if sharded { Residency::Sharded } else { Residency::AsNeeded },
                ..options(asked(tile, calls))
            };
            plan(&graph, &cluster, &options)
        };
        let found = by(Algorithm::Exact).unwrap();
        verify(&graph, &found, &cluster).unwrap();
        if let Ok(all) = by(Algorithm::Exhaustive) {
            verify(&graph, &all, &cluster).unwrap();
            prop_assert_eq!(found.certificate.bound, all.certificate.bound);
        }
        prop_assert!(found.moved_bytes <= found.certificate.cost);
        let moved = moved_bytes(&graph, devices, &found.nodes).unwrap();
        prop_assert_eq!(moved.total(), found.moved_bytes);
    }
}

/// `y[i] = Σ_j x[i, j]` of 8 × 8 elements, with pins.
fn sum(pins: Vec<Pin>) -> BoundGraph {
    let mut g = Sample::default();
    let x = g.data("x", &[8, 8]);
    let y = g.pinned("y", "ij->i", &[x], Agg::SUM, pins);
    g.finish(y)
}

fn owner(parts: &[u32], devices: Option<&[u32]>) -> Pin {
    Pin::Owner {
        parts: parts.to_vec(),
        devices: devices.map(<[u32]>::to_vec),
    }
}

fn planned(graph: &BoundGraph, devices: u32, asked: Constraints) -> Result<Plan, PlanError> {
    let cluster = Cluster::cpus(devices);
    let found = plan(graph, &cluster, &options(asked))?;
    verify(graph, &found, &cluster).unwrap();
    Ok(found)
}

#[test]
fn owners_are_where_pins_say() {
    let free = sum(vec![]);
    let none = planned(&free, 4, Constraints::default()).unwrap();
    assert_eq!(none.moved_bytes, 0);
    // each device has the two rows of another one, or one device has all of them
    for (parts, devices, moved) in [
        (&[4][..], Some(&[0, 1, 2, 3][..]), 0),
        (&[2], None, 16),
        (&[1], Some(&[0]), 24),
        (&[4], Some(&[0, 2, 1, 3]), 0),
    ] {
        let graph = sum(vec![owner(parts, devices)]);
        let found = planned(&graph, 4, Constraints::default()).unwrap();
        let kept = found.nodes[1].owner.as_ref().unwrap();
        assert_eq!(kept.parts, parts);
        assert!(devices.is_none_or(|d| kept.devices == d), "{kept:?}");
        assert_eq!(found.moved_bytes, moved, "{parts:?}");
        assert!(found.certificate.is_optimal());
        // the plan without it is no plan of this graph
        let error = verify(&graph, &none, &Cluster::cpus(4));
        let same = none.nodes[1].owner.as_ref() == Some(kept);
        assert!(
            same || matches!(error, Err(InvalidPlan::Pin { .. })),
            "{error:?}"
        );
    }
}

#[test]
fn a_pinned_weight_is_in_one_copy() {
    let graph = ffn(4, 8, 16);
    let w = graph
        .nodes()
        .iter()
        .find(|n| n.role() == Some(crate::graph::Role::Weight));
    let name = w.unwrap().name.clone();
    let pin = owner(&[4, 1], None);
    let pinned = graph.graph().clone().with_pin(&name, pin).unwrap();
    let pinned = pinned.bind(&BTreeMap::new()).unwrap();
    assert_eq!(pinned.verify(), Ok(()));
    let found = planned(&pinned, 4, Constraints::default()).unwrap();
    let at = graph.ids().find(|(_, n)| n.name == name).unwrap().0.at();
    assert_eq!(found.nodes[at].owner.as_ref().unwrap().parts, [4, 1]);
    assert!(
        found.nodes.iter().any(|n| n.owner.is_none()),
        "the other one is kept as it is read"
    );
}

#[test]
fn what_cannot_be_kept_is_named() {
    let error = |pins, devices, asked| planned(&sum(pins), devices, asked).unwrap_err().to_string();
    let told = error(vec![Pin::Split("i".into(), 4)], 4, asked(3, 1));
    assert!(
        told.contains("`i` of 8 in 4, tiles of at least 3"),
        "{told}"
    );
    let told = error(
        vec![owner(&[3], Some(&[0, 2, 1]))],
        4,
        Constraints::default(),
    );
    assert!(
        told.contains("`y` of [8] on 4 devices cannot have owner [3] on [0, 2, 1]"),
        "{told}"
    );
    let told = error(vec![owner(&[8], None)], 4, Constraints::default());
    assert!(told.contains("owner [8]"), "{told}");
    let told = error(vec![owner(&[4], None)], 4, asked(4, 1));
    assert!(told.contains("owner [4] (tiles of at least 4)"), "{told}");
}

#[test]
fn plans_that_break_a_constraint_are_refused() {
    let (graph, cluster) = (matmul(8, 8, 8), Cluster::cpus(4));
    let found = planned(&graph, 4, Constraints::default()).unwrap();
    let with = |constraints| {
        let plan = Plan {
            constraints,
            ..found.clone()
        };
        verify(&graph, &plan, &cluster)
    };
    assert!(matches!(
        with(asked(8, 1)),
        Err(InvalidPlan::SmallTile { .. })
    ));
    assert!(matches!(
        with(asked(1, 2)),
        Err(InvalidPlan::FewCalls {
            calls: 4,
            wanted: 8,
            ..
        })
    ));
    for pin in [Pin::Whole, Pin::Split("i".into(), 3)] {
        let broken = verify(
            &sum(vec![pin.clone()]),
            &planned(&sum(vec![]), 4, asked(1, 1)).unwrap(),
            &cluster,
        );
        assert!(matches!(broken, Err(InvalidPlan::Pin { pin: p, .. }) if p == pin));
    }
}

#[test]
fn more_calls_than_there_is_room_for_are_as_many_as_there_is() {
    for calls in [64, 20_000, u32::MAX] {
        let asked = asked(1, calls);
        assert!(asked.calls(2) <= MAX_CALLS);
        let graph = matmul(4, 4, 4);
        let plan = planned(&graph, 2, asked).unwrap();
        let tiles = |entry: &NodePlan| entry.join.as_ref().map(|join| join.tiles());
        assert_eq!(plan.nodes.iter().filter_map(tiles).max(), Some(64));
        assert!(verify(&graph, &plan, &Cluster::cpus(2)).is_ok());
    }
}

#[test]
fn calls_stay_on_their_device() {
    let graph = transformer(1, [2, 16, 4, 8, 64]);
    for devices in [2, 4, 8] {
        let one = planned(&graph, devices, Constraints::default()).unwrap();
        for calls in [2, 4] {
            let found = planned(&graph, devices, asked(1, calls)).unwrap();
            assert_eq!(found.moved_bytes, one.moved_bytes, "{devices} × {calls}");
            for join in found.nodes.iter().filter_map(|n| n.join.as_ref()) {
                assert_eq!(join.tiles() as u32, devices * calls);
            }
            assert!(found.certificate.to_string().contains("cut in calls"));
        }
    }
}

#[test]
fn explain_shows_what_was_asked() {
    let graph = sum(vec![Pin::Split("i".into(), 4), owner(&[2], None)]);
    let found = planned(&graph, 4, asked(2, 2)).unwrap();
    let tasks = verify(&graph, &found, &Cluster::cpus(4)).unwrap();
    let explain = Explain::new(&graph, &found, &tasks).unwrap().to_string();
    let line = "as asked: tiles of at least 2, 2 calls per device; y: split i in 4; y: owner [2]";
    assert!(explain.lines().any(|l| l == line), "{explain}");
}

#[test]
fn the_other_models_keep_them_too() {
    let graph = transformer(1, [2, 8, 2, 4, 16]);
    let cluster = Cluster::cpus(4);
    for objective in Objective::ALL {
        for asked in [asked(3, 1), asked(1, 3), asked(2, 2)] {
            let options = PlanOptions {
                objective,
                ..options(asked)
            };
            let found = plan(&graph, &cluster, &options).unwrap();
            verify(&graph, &found, &cluster).unwrap();
            assert_eq!(found.constraints, asked);
        }
    }
}

/// A split that is asked for reveals no cheaper plan: of as many calls per statement, under the pin it is none that moves less.
#[test]
fn pins_reveal_no_cheaper_plan() {
    let servers = Cluster::dgx_a100().with_servers(4);
    let cases = [
        (ffn(1, 64, 256), servers),
        (ffn(4, 6, 10), Cluster::cpus(6)),
    ];
    let calls = |plan: &Plan| -> Vec<Option<usize>> {
        let joins = plan.nodes.iter().map(|n| n.join.as_ref());
        joins.map(|j| j.map(|j| j.tiles())).collect()
    };
    for (n, (graph, cluster)) in cases.iter().enumerate() {
        let planned = |graph: &BoundGraph| plan(graph, cluster, &PlanOptions::default());
        let free = planned(graph).unwrap();
        for (id, node) in graph.ids() {
            let labels = node.einsum().map_or(&[][..], |e| &e.labels);
            for (label, &extent) in labels.iter().zip(graph.label_extents(id)) {
                let divisors = (1..=cluster.devices()).filter(|d| cluster.devices() % d == 0);
                for parts in divisors.filter(|d| *d as usize <= extent) {
                    let pin = Pin::Split(label.name.clone(), parts);
                    let pinned = graph.graph().clone().with_pin(&node.name, pin).unwrap();
                    let Ok(pinned) = planned(&pinned.bind(&BTreeMap::new()).unwrap()) else {
                        continue;
                    };
                    let what = format!("{n}: {}, {} in {parts}", node.name, label.name);
                    let less = weighted(&pinned) < weighted(&free);
                    assert!(!less || calls(&pinned) != calls(&free), "{what}");
                }
            }
        }
    }
}
