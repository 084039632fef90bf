//! Every kind of graph that people decompose, on the numbers of devices that run here: the bytes that its plan
//! moves are those that are measured, between every two devices. With `--nocapture` a table of both; with `WORKLOADS` set, as in
//! `scripts/campaign.sh workloads`, on 16 devices too.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::support::run::small_inputs;
use crate::support::to_runtime;
use eindecomp_core::graph::Role;
use eindecomp_core::plan::planner::{PlanOptions, plan};
use eindecomp_core::plan::samples::corpus;
use eindecomp_core::plan::{Cluster, Residency};
use eindecomp_core::task::lower::lower;
use eindecomp_core::task::traffic::moved_bytes;
use eindecomp_runtime::{Executor, MemoryMode, Tensor, Workers};

#[test]
fn workloads_move_the_bytes_that_are_planned() {
    let workers = Arc::new(Workers::new(2).expect("workers"));
    let most = match std::env::var_os("WORKLOADS") {
        Some(_) => 16,
        None => 8,
    };
    let mut moving = 0;
    println!("workload | p | weights | planned | measured");
    for (name, graph) in corpus() {
        let graph = Arc::new(graph);
        let inputs = small_inputs(&graph, 1);
        let data = |name: &str| {
            let mut nodes = graph.nodes().iter();
            nodes.any(|n| n.role() == Some(Role::Data) && &*n.name == name)
        };
        let all = inputs.iter().map(|(n, t)| (n.to_string(), to_runtime(t)));
        let (data, weights): (BTreeMap<String, Tensor>, BTreeMap<_, _>) =
            all.partition(|(n, _)| data(n));
        for devices in [2, 3, 4, 8, 16].into_iter().filter(|p| *p <= most) {
            for residency in [Residency::AsNeeded, Residency::Sharded] {
                let options = PlanOptions {
                    residency,
                    ..PlanOptions::default()
                };
                let plan = plan(&graph, &Cluster::cpus(devices), &options).expect("a plan");
                let tasks = Arc::new(lower(&graph, &plan).expect("tasks"));
                let mode = MemoryMode::Arena;
                let mut executor = Executor::new(graph.clone(), tasks, workers.clone(), mode)
                    .expect("an executor");
                executor.load(&weights).expect("weights");
                let (_, trace) = executor.run(&data, false).expect("a run");
                let measured = trace.traffic.received.iter();
                let measured: Vec<_> = measured.map(|(&(a, b), m)| (a, b, m.total())).collect();
                let planned = moved_bytes(&graph, devices, &plan.nodes).expect("a plan");
                let what = format!("{name} | {devices} | {residency:?}");
                assert_eq!(measured, planned.iter().collect::<Vec<_>>(), "{what}");
                let all: u64 = measured.iter().map(|m| m.2).sum();
                assert_eq!(u128::from(all), plan.moved_bytes, "{what}");
                println!("{what} | {} | {all}", plan.moved_bytes);
                moving += usize::from(all > 0);
            }
        }
    }
    assert!(moving > 50, "{moving}");
}
