//! Clusters of several servers: what is planned by link class is what a run measures, and servers
//! change plans where that saves bytes between them.

use std::sync::Arc;

use eindecomp_core::graph::{BoundGraph, EinGraph};
use eindecomp_core::plan::cluster::LinkClass;
use eindecomp_core::plan::{Cluster, Explain, Hierarchy, Plan, PlanOptions, plan};
use eindecomp_core::task::lower::lower;
use eindecomp_core::task::traffic::moved_bytes;
use eindecomp_runtime::{MemoryMode, Workers};

/// Two projections of several rows, weights given anew at each run.
fn feed_forward(rows: i64, width: i64, hidden: i64) -> BoundGraph {
    let source = "fn f<dim B, dim D, dim F>(x: f32[B,D], v: f32[D,F], w: f32[F,D]) -> f32[B,D] {
        let h[b,f] = sum[d] x[b,d] * v[d,f];
        let a[b,f] = max(h[b,f], 0.0);
        let y[b,d] = sum[f] a[b,f] * w[f,d];
        y
    }";
    let graph = EinGraph::from_text(source, "f", &Default::default()).expect("a program");
    let dims = [("B", rows), ("D", width), ("F", hidden)].map(|(n, v)| (n.into(), v));
    graph.bind(&dims.into()).expect("its dims")
}

/// Bytes between servers, and all bytes with those weighed.
fn cost(graph: &BoundGraph, plan: &Plan, on: Hierarchy) -> (u128, u128) {
    let moves = moved_bytes(graph, on, &plan.nodes).expect("a plan");
    let network = moves.of_class(on, LinkClass::Network);
    assert_eq!(
        moves.total() - network,
        moves.of_class(on, LinkClass::Server)
    );
    (network, moves.weighted(on))
}

#[test]
fn servers_change_plans_where_that_saves_bytes_between_them() {
    let mut saved = 0;
    for (rows, width, hidden) in [(32, 16, 32), (8, 32, 64), (64, 8, 16), (16, 16, 16)] {
        let graph = feed_forward(rows, width, hidden);
        for (servers, devices) in [(2, 2), (2, 4), (4, 2)] {
            let on = Cluster::dgx_a100();
            let mut on = on.with_servers(servers);
            on.server.devices = devices;
            let flat = Cluster::cpus(servers * devices);
            let options = PlanOptions::default();
            let two = plan(&graph, &on, &options).expect("a plan");
            let one = plan(&graph, &flat, &options).expect("a plan");
            let on = on.hierarchy();
            assert_eq!(two.hierarchy, on);
            let ((near, aware), (far, unaware)) = (cost(&graph, &two, on), cost(&graph, &one, on));
            assert_eq!(aware, two.nodes.iter().map(|n| n.cost).sum::<u128>());
            assert!(aware <= two.certificate.cost);
            assert!(two.certificate.bound <= two.certificate.cost);
            assert!(aware <= unaware, "{rows} {width} {hidden} on {on}");
            saved += usize::from(aware < unaware && near < far && two.nodes != one.nodes);
        }
    }
    assert!(saved >= 3, "{saved} plans became cheaper");
}

#[test]
fn measured_bytes_are_those_planned_per_link() {
    let workers = Arc::new(Workers::new(2).expect("workers"));
    let graph = Arc::new(feed_forward(16, 8, 16));
    let inputs = crate::support::run::small_inputs(&graph, 5);
    for (servers, devices) in [(2, 2), (3, 2), (2, 4)] {
        let cluster = Cluster::cpus(devices).with_servers(servers);
        let plan = plan(&graph, &cluster, &PlanOptions::default()).expect("a plan");
        let (network, _) = cost(&graph, &plan, plan.hierarchy);
        assert!(network > 0 && network < plan.moved_bytes);
        // compares every pair of devices
        crate::support::run::check(
            &graph,
            &inputs,
            &plan,
            MemoryMode::Private,
            &workers,
            "servers",
        );
        let tasks = lower(&graph, &plan).expect("a plan");
        let explain = Explain::new(&graph, &plan, &tasks).expect("a plan");
        assert_eq!(
            (explain.moved, explain.network),
            (plan.moved_bytes, network)
        );
        let text = explain.to_string();
        let head =
            format!("{servers} servers of {devices} devices, where a byte between servers counts");
        assert!(
            text.contains(&head) && text.contains(" within servers and "),
            "{text}"
        );
    }
}

/// Both devices of the second server read the same box: it crosses the network once.
#[test]
fn a_box_that_a_server_needs_twice_enters_it_once() {
    let graph = feed_forward(4, 8, 8);
    let cluster = Cluster::cpus(2).with_servers(2);
    let mut made = plan(&graph, &cluster, &PlanOptions::default()).expect("a plan");
    let layout = |parts: &[u32], devices: &[u32]| {
        let (parts, devices) = (parts.to_vec(), devices.to_vec());
        std::sync::Arc::new(eindecomp_core::plan::Layout { parts, devices })
    };
    // v is on the first device, and read by all as a whole
    made.nodes[1].owner = Some(layout(&[1, 1], &[0]));
    made.nodes[0].owner = Some(layout(&[4, 1], &[0, 1, 2, 3]));
    for (node, rank) in [(3, 3), (4, 2)] {
        let mut parts = vec![1; rank];
        parts[0] = 4;
        made.nodes[node].join = Some(layout(&parts, &[0, 1, 2, 3]));
        made.nodes[node].owner = Some(layout(&[4, 1], &[0, 1, 2, 3]));
    }
    let moves = eindecomp_core::task::traffic::traffic(&graph, made.hierarchy, &made.nodes);
    let h = &moves.expect("a plan")[3];
    let v = 8 * 8 * 4;
    assert_eq!(
        h.iter().collect::<Vec<_>>(),
        [(0, 1, v), (0, 2, v), (2, 3, v)]
    );
}
