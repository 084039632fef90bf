//! Random graphs × devices × planned and random placements × memory modes ≡ reference, bit for bit (the data are small
//! whole numbers), with measured bytes = planned bytes.

use std::sync::Arc;

use eindecomp_core::ein::Value;
use eindecomp_core::graph::BoundGraph;
use eindecomp_core::graph::testing::{Sample, random_graph};
use eindecomp_core::plan::planner::{Objective, PlanOptions, plan};
use eindecomp_core::plan::testing::random_plan;
use eindecomp_core::plan::{Cluster, Plan, Residency};
use eindecomp_core::reference::RefTensor;
use eindecomp_runtime::{MemoryMode, Workers};
use proptest::prelude::*;

/// NaN and ±inf in some places of the inputs.
fn special(mut sample: Sample, seed: u64) -> Sample {
    let mut state = seed;
    let mut plant = |v: &Value| {
        state = state
            .wrapping_mul(6364136223846793005)
            .wrapping_add(1442695040888963407);
        match (v, state >> 33 & 15) {
            (Value::Float(_), 0) => Value::Float(f64::NAN),
            (Value::Float(_), 1) => Value::Float(f64::INFINITY),
            (Value::Float(_), 2) => Value::Float(f64::NEG_INFINITY),
            (v, _) => *v,
        }
    };
    for tensor in sample.inputs.values_mut() {
        let values = tensor.data().iter().map(&mut plant).collect();
        *tensor = RefTensor::new(tensor.dtype(), tensor.shape().to_vec(), values)
            .expect("same number of elements");
    }
    sample
}

fn check(sample: Sample, mode: MemoryMode, plan: impl Fn(&BoundGraph) -> Plan) {
    let graph = Arc::new(sample.bound());
    let workers = Arc::new(Workers::new(2).expect("workers"));
    let plan = plan(&graph);
    crate::support::run::check(
        &graph,
        &sample.inputs,
        &plan,
        mode,
        &workers,
        "random graph",
    );
}

proptest! {
    #![proptest_config(crate::support::config(1000))]

    #[test]
    fn any_plan_gives_the_reference_bits(
        seed: u64,
        statements in 1..6usize,
        devices in prop::sample::select(vec![1u32, 2, 3, 4, 6, 8]),
        paper: bool,
        sharded: bool,
        mode in prop::sample::select(&MemoryMode::ALL[..]),
    ) {
        let objective = if paper { Objective::Communication } else { Objective::Placed };
        let residency = if sharded { Residency::Sharded } else { Residency::AsNeeded };
        let options = PlanOptions { objective, residency, ..PlanOptions::default() };
        check(random_graph(seed, statements), mode, |graph| {
            plan(graph, &Cluster::cpus(devices), &options).expect("a plan")
        });
    }

    #[test]
    fn any_placement_gives_the_reference_bits(
        seed: u64,
        statements in 1..6usize,
        devices in 1..10u32,
        servers in 1..4u32,
        mode in prop::sample::select(&MemoryMode::ALL[..]),
    ) {
        let cluster = match servers {
            1 => Cluster::cpus(devices),
            _ => Cluster::cpus(devices.div_ceil(2)).with_servers(servers),
        };
        let on = cluster.hierarchy();
        check(random_graph(seed, statements), mode, |graph| random_plan(graph, on, seed));
    }

    #[test]
    fn no_placement_loses_what_is_not_finite(
        seed: u64,
        statements in 1..6usize,
        devices in 1..10u32,
        mode in prop::sample::select(&MemoryMode::ALL[..]),
    ) {
        let sample = special(random_graph(seed, statements), seed);
        check(sample, mode, |graph| random_plan(graph, devices, seed));
    }
}
