use proptest::prelude::*;

use super::*;
use crate::graph::testing::random_graph;
use crate::plan::planner::{named, plan};
use crate::plan::samples::{Sample, ffn, transformer};
use crate::plan::search::Unwatched;
use crate::plan::strategy::Strategy;
use crate::plan::testing::random_plan;
use crate::plan::verify::verify;
use crate::plan::{Residency, planner};
use crate::task::Buffer;

/// The plans at ever smaller capacities with their peaks, and the error in the end.
fn shrinking(
    graph: &BoundGraph,
    devices: u32,
    residency: Residency,
) -> (Vec<(u64, Plan)>, PlanError) {
    let options = PlanOptions {
        residency,
        ..PlanOptions::default()
    };
    let (mut capacity, mut found) = (1 << 30, Vec::new());
    loop {
        let cluster = Cluster::cpus(devices).with_capacity(capacity);
        let plan = match plan(graph, &cluster, &options) {
            Ok(plan) => plan,
            Err(error) => return (found, error),
        };
        let tasks = verify(graph, &plan, &cluster).unwrap();
        let peak = tasks.arenas.iter().copied().max().unwrap();
        assert!(peak <= capacity, "{peak} of {capacity}");
        found.push((peak, plan));
        capacity = peak - peak / 8 - 1;
    }
}

/// Every plan that fits less memory fits more, so what is proved at a capacity holds for all after it.
#[test]
fn less_memory_moves_more_until_nothing_fits() {
    let cases = [
        (ffn(64, 32, 128), Residency::AsNeeded),
        (ffn(64, 32, 128), Residency::Auto),
        (transformer(1, [2, 8, 4, 4, 64]), Residency::AsNeeded),
    ];
    for (n, (graph, residency)) in cases.into_iter().enumerate() {
        let (found, error) = shrinking(&graph, 4, residency);
        let last = &found[found.len() - 1];
        assert!(found.len() > 2 && last.1.moved_bytes > found[0].1.moved_bytes);
        let mut proved = 0;
        for (_, plan) in &found {
            let all = &plan.certificate;
            let wider = all.wider.as_ref().unwrap();
            // other residencies are other spaces
            if plan.residency == found[0].1.residency {
                assert!(
                    wider.bound <= all.bound && proved <= plan.moved_bytes,
                    "{n}"
                );
                proved = proved.max(all.bound);
            }
            assert!(all.bound <= all.cost && plan.moved_bytes <= all.cost, "{n}");
        }
        assert!(proved > found[0].1.certificate.bound, "{n}: {proved}");
        assert!(
            found[1]
                .1
                .certificate
                .to_string()
                .contains("within the memory")
        );
        let PlanError::Memory {
            peak,
            capacity,
            least,
            ..
        } = &error
        else {
            panic!("{error}");
        };
        assert!(peak.bytes > *capacity && *least <= last.0);
        assert!(!peak.tenants.is_empty() && peak.tenants.len() <= 5);
    }
}

#[test]
fn plans_by_other_objectives_fit_too() {
    let graph = ffn(64, 32, 128);
    for objective in [Objective::Communication, Objective::Time] {
        let options = PlanOptions {
            objective,
            ..PlanOptions::default()
        };
        let of = |capacity| {
            let cluster = Cluster::cpus(4).with_capacity(capacity);
            let plan = plan(&graph, &cluster, &options).unwrap();
            // its arenas are within the capacity, and its costs those of the model
            let tasks = verify(&graph, &plan, &cluster).unwrap();
            (plan, tasks.arenas.into_iter().max().unwrap())
        };
        let (free, peak) = of(1 << 30);
        let (tight, less) = of(peak - 1);
        assert!(less < peak && tight.model == objective.model());
        let [free, tight] = [free, tight].map(|plan| plan.certificate);
        assert_eq!((tight.bound, &tight.space), (free.bound, &free.space));
        assert!(tight.bound <= tight.cost);
    }
}

#[test]
fn no_strategy_that_fits_moves_less() {
    let (net, block) = (ffn(64, 32, 128), transformer(1, [2, 8, 4, 4, 64]));
    let mut bound = 0;
    for graph in [&net, &block] {
        for residency in [Residency::AsNeeded, Residency::Sharded] {
            let options = PlanOptions {
                residency,
                ..PlanOptions::default()
            };
            let free = plan(graph, &Cluster::cpus(4), &options).unwrap();
            for strategy in Strategy::ALL {
                let Some(named) = named(graph, 4, &options, strategy).unwrap() else {
                    continue;
                };
                let arenas = lower(graph, &named).unwrap().arenas;
                let peak = arenas.into_iter().max().unwrap();
                let found = plan(graph, &Cluster::cpus(4).with_capacity(peak), &options);
                let found = found.unwrap();
                assert!(found.certificate.bound <= named.moved_bytes, "{strategy}");
                assert!(found.moved_bytes <= named.moved_bytes, "{strategy}");
                bound += usize::from(found.nodes != free.nodes);
            }
        }
    }
    assert!(bound > 2, "{bound} capacities bind");
}

#[test]
fn what_cannot_fit_is_proved() {
    let graph = ffn(64, 32, 128);
    let cluster = Cluster::cpus(4).with_capacity(1 << 12);
    for residency in [Residency::AsNeeded, Residency::Sharded, Residency::Auto] {
        let options = PlanOptions {
            residency,
            ..PlanOptions::default()
        };
        let error = planner::plan(&graph, &cluster, &options).unwrap_err();
        // both weights have 16 KiB, and 4 devices
        assert!(
            matches!(error, PlanError::Memory { least, .. } if least > 1 << 13),
            "{error}"
        );
        assert!(
            error.to_string().contains("no plan needs less than"),
            "{error}"
        );
    }
}

proptest! {
    #[test]
    fn no_arena_is_larger_than_all_that_may_be_in_it(
        seed: u64, statements in 1usize..8, devices in 1u32..9, placed: u64,
    ) {
        let graph = random_graph(seed, statements).bound();
        let plan = random_plan(&graph, devices, placed);
        let tasks = lower(&graph, &plan).unwrap();
        let largest = tasks.arenas.into_iter().max().unwrap_or(0);
        prop_assert!(u128::from(largest) <= fits_anyhow(&graph, &plan));
    }
}

#[test]
fn what_surely_fits_is_not_lowered() {
    let graph = transformer(8, [8, 64, 8, 32, 256]);
    let plan = plan(&graph, &Cluster::cpus(8), &PlanOptions::default()).unwrap();
    let tasks = lower(&graph, &plan).unwrap();
    let largest = tasks.arenas.into_iter().max().unwrap_or(0);
    // all that a device ever holds, at most three times over
    let held = |device| {
        let buffers = tasks.buffers.iter().filter(move |b| b.device == device);
        buffers.map(Buffer::bytes).sum::<u64>()
    };
    let held = (0..8).map(held).max().unwrap();
    let bound = fits_anyhow(&graph, &plan);
    assert!(
        bound >= largest.into() && bound <= 3 * u128::from(held),
        "{bound} {held}"
    );
}

/// The largest arena of every placement by device axes, smallest first; `None` if there are more than `most`.
fn peaks(graph: &BoundGraph, devices: u32, most: u64) -> Option<Vec<u64>> {
    let (watch, options) = (Watch::new(&Unwatched), PlanOptions::default());
    let search = Search::new(graph, devices.into(), (&options).into(), &watch).unwrap();
    let (mut peaks, mut evaluator) = (Vec::new(), Evaluator::default());
    let all = search.every(most, &mut |nodes| {
        let placed = Placed::of(nodes.to_vec());
        let plan = evaluated(graph, devices.into(), &options, placed, &mut evaluator)?;
        peaks.extend(lower(graph, &plan).unwrap().arenas.into_iter().max());
        Ok(true)
    });
    peaks.sort_unstable();
    all.unwrap().then_some(peaks)
}

/// A few cases, or as many as asked for.
fn few() -> ProptestConfig {
    let all = ProptestConfig::default();
    match std::env::var_os("PROPTEST_CASES") {
        Some(_) => all,
        None => ProptestConfig { cases: 12, ..all },
    }
}

proptest! {
    #![proptest_config(few())]
    /// What fits is found if there is such, of small graphs.
    #[test]
    fn a_plan_fits_exactly_where_one_exists(
        seed: u64, statements in 1usize..6, devices in 2u32..5, part in 0u64..=100,
    ) {
        let graph = random_graph(seed, statements).bound();
        let Some(peaks) = peaks(&graph, devices, EVERY) else {
            return Ok(());
        };
        let (least, most) = (peaks[0], peaks[peaks.len() - 1]);
        let between = least + (most - least) * part / 100;
        let capacities = [least.saturating_sub(1), least, between].into_iter().filter(|c| *c > 0);
        for capacity in capacities {
            let cluster = Cluster::cpus(devices).with_capacity(capacity);
            match plan(&graph, &cluster, &PlanOptions::default()) {
                Ok(found) => {
                    let tasks = verify(&graph, &found, &cluster).unwrap();
                    prop_assert!(tasks.arenas.iter().all(|a| *a <= capacity) && least <= capacity);
                }
                Err(PlanError::Memory { peak, tried_all, least: proved, .. }) => {
                    prop_assert!(capacity < least, "{capacity} of {least}");
                    prop_assert!(proved <= least);
                    if tried_all {
                        prop_assert_eq!(peak.bytes, least);
                    }
                    prop_assert!(tried_all || proved > capacity);
                }
                Err(other) => prop_assert!(false, "{other}"),
            }
        }
    }
}

/// A split that no search by bytes prefers is found where it alone fits.
#[test]
fn tight_memory_is_met() {
    let mut g = Sample::default();
    let (x, y, z) = (
        g.data("x", &[8, 32]),
        g.weight("y", &[32, 64]),
        g.weight("z", &[64, 16]),
    );
    let t = g.einsum("t", "ij,jk->ik", &[x, y]);
    let u = g.einsum("u", "ik,kl->il", &[t, z]);
    let graph = g.finish(u);
    let cluster = Cluster::cpus(4).with_capacity(5248);
    let found = plan(&graph, &cluster, &PlanOptions::default()).unwrap();
    verify(&graph, &found, &cluster).unwrap();
}

/// In the first the last reader of `t0` reads none of its elements; in the second one vertex reads a tensor in three ways; in
/// the third there are no points.
#[test]
fn what_is_not_read_again_and_what_is_one_box_needs_no_more_memory() {
    for (seed, statements, devices) in [
        (17938564905283866279, 5, 3),
        (3708058649315844336, 1, 3),
        (3766916723114508531, 1, 2),
    ] {
        let graph = random_graph(seed, statements).bound();
        let peaks = peaks(&graph, devices, EVERY).unwrap();
        let (watch, options) = (Watch::new(&Unwatched), PlanOptions::default());
        let search = Search::new(&graph, devices.into(), (&options).into(), &watch).unwrap();
        let most = u64::from(devices) * peaks[0];
        assert!(search.least_bytes(&graph) <= most, "{seed}");
    }
}
