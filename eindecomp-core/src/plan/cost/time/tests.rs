use super::*;
use crate::graph::testing::random_graph;
use crate::plan::cluster::{Device, DeviceKind, Link, Links, Rate, Rates, Server};
use crate::plan::communication::{decompose, evaluate};
use crate::plan::samples::{albert, ffn, matmul, transformer};
use crate::plan::search::Unwatched;
use crate::plan::{Layout, Objective, PlanOptions, plan};
use crate::task::lower::lower;
use crate::task::traffic::Traffic;
use proptest::prelude::*;

const G: u64 = 1_000_000_000;

/// `devices` devices per server with memory of their own: 100 Gop/s in matmuls, 10 in skinny ones, 1
/// elsewhere; 10 GB/s of memory; links of 1 GB/s after 1 µs; a network of 0.5 GB/s after 10 µs;
/// tasks take 2 µs.
fn cluster(servers: u32, devices: u32) -> Cluster {
    let rate = Rate {
        matmul: 100 * G,
        skinny: 10 * G,
        elementwise: G,
    };
    Cluster {
        name: "fixed".into(),
        servers,
        server: Server {
            devices,
            device: Device {
                kind: DeviceKind::Gpu,
                capacity: 64 * G,
                rates: Rates {
                    f64: rate,
                    f32: rate,
                    bf16: rate,
                    f16: rate,
                    int: rate,
                },
                memory_bandwidth: 10 * G,
                port: G,
                overhead: 2_000,
            },
            links: Links::Switch(Link {
                latency: 1_000,
                bandwidth: G,
            }),
            cores: None,
            memory_bus: None,
        },
        network: Link {
            latency: 10_000,
            bandwidth: G / 2,
        },
    }
}

/// As [`cluster`], on shared cores with 20 GB/s of memory.
fn shared(devices: u32, cores: u32) -> Cluster {
    let mut cluster = cluster(1, devices);
    cluster.server.cores = Some(cores);
    cluster.server.memory_bus = Some(20 * G);
    cluster.server.device.memory_bandwidth = 20 * G;
    cluster
}

fn time(graph: &BoundGraph, cluster: &Cluster) -> Time {
    Time::new(graph, cluster, Residency::AsNeeded, Constraints::default()).unwrap()
}

#[test]
fn kernels_take_work_by_rate_and_an_overhead() {
    let graph = matmul(256, 512, 128);
    let (z, one) = (NodeId(2), cluster(1, 8));
    let model = time(&graph, &one);
    // 2 · 256 · 512 · 128 operations at 100 Gop/s
    assert_eq!(model.kernels(&graph, z, &[1, 1, 1]), 335_545 + 2_000);
    assert_eq!(model.kernels(&graph, z, &[2, 1, 4]), 41_944 + 2_000);
    // 32 rows of 8 devices are skinny
    assert_eq!(model.kernels(&graph, z, &[8, 1, 1]), 419_431 + 2_000);
    // reading 64 · 4096 · 2 elements, and writing as many as 64 · 64, takes longer than 2 operations each
    let slow = matmul(64, 4096, 64);
    let bytes = (2 * 64 * 4096 + 64 * 64) * 4;
    let mut fast = cluster(1, 1);
    fast.server.device.rates = fast.server.device.rates.map(|r| 1000 * r);
    let model = time(&slow, &fast);
    assert_eq!(
        model.kernels(&slow, z, &[1, 1, 1]),
        (bytes + 5) / 10 + 2_000
    );
}

#[test]
fn devices_that_share_cores_gain_nothing_from_being_more_than_these() {
    let graph = matmul(512, 512, 512);
    let kernels = |devices: u32, d: &[u32]| {
        let cluster = shared(devices, 2);
        time(&graph, &cluster).kernels(&graph, NodeId(2), d)
    };
    let one = kernels(1, &[1, 1, 1]);
    assert_eq!(one, (2 * 512u128.pow(3)).div_ceil(200) + 2_000);
    assert_eq!(kernels(2, &[2, 1, 1]), one);
    // the work of six of the largest tiles, in three rounds of tasks
    let largest = 2 * 171 * 512 * 256;
    assert_eq!(
        kernels(6, &[3, 1, 2]),
        (6u128 * largest).div_ceil(200) + 3 * 2_000
    );
}

#[test]
fn the_busiest_link_counts() {
    let graph = matmul(4, 4, 4);
    let busiest = |cluster: &Cluster, moves: &[(u32, u32, u64)]| {
        let mut traffic = Traffic::default();
        for &(from, to, bytes) in moves {
            traffic.add(from, to, bytes);
        }
        time(&graph, cluster).busiest(&traffic)
    };
    let (one, two) = (cluster(1, 4), cluster(2, 2));
    assert_eq!(busiest(&one, &[]), 0);
    assert_eq!(busiest(&one, &[(0, 1, 3000), (2, 3, 1000)]), 1_000 + 3_000);
    // a port for all
    assert_eq!(busiest(&one, &[(0, 1, 3000), (0, 2, 1000)]), 1_000 + 4_000);
    // the network for all devices of a server
    assert_eq!(
        busiest(&two, &[(0, 1, 3000), (0, 2, 1000), (1, 3, 500)]),
        10_000 + 3_000
    );
    // shared memory is read and written
    let mut bus = cluster(1, 4);
    bus.server.memory_bus = Some(G);
    assert_eq!(busiest(&bus, &[(0, 1, 3000), (2, 3, 1000)]), 1_000 + 8_000);
    // a matrix has a link per pair
    let mut mesh = cluster(1, 2);
    let link = |bandwidth| Link {
        latency: 100,
        bandwidth,
    };
    let rows = vec![vec![link(G), link(G)], vec![link(G / 10), link(G)]];
    mesh.server.links = Links::Matrix(rows);
    assert_eq!(busiest(&mesh, &[(0, 1, 1000), (1, 0, 1000)]), 100 + 10_000);
}

/// What a tile computes, in nanoseconds of a core of 1 Gop/s.
#[test]
fn work_is_counted_by_what_is_computed_where() {
    let rates = cluster(1, 1).server.device.rates;
    let ns = |graph: &BoundGraph, name: &str| {
        let (id, _) = graph.ids().find(|(_, n)| &*n.name == name).unwrap();
        let whole = Region::whole(graph.label_extents(id));
        Work::of(graph, id, &whole).attoseconds(&rates) / 1_000_000_000
    };
    let graph = transformer(1, [2, 64, 4, 16, 256]);
    let points: u128 = 2 * 64 * 64 * 64;
    assert_eq!(ns(&graph, "q"), 2 * points / 100);
    // 64 positions in 16 features of a head: skinny
    assert_eq!(ns(&graph, "c"), 2 * (2 * 4 * 64 * 64 * 16) / 10);
    assert_eq!(ns(&graph, "m"), 2 * 4 * 64 * 64);
    assert_eq!(ns(&graph, "r"), 2 * 64 * 64);
}

#[test]
fn more_devices_pay_where_there_is_enough_to_do() {
    let cost = |graph: &BoundGraph, cluster: &Cluster| {
        let options = PlanOptions {
            objective: Objective::Time,
            ..PlanOptions::default()
        };
        plan(graph, cluster, &options).unwrap().certificate.cost
    };
    let large = ffn(4096, 1024, 4096);
    let costs = [1, 2, 4, 8].map(|n| cost(&large, &cluster(1, n)));
    assert!(costs.is_sorted_by(|a, b| a > b), "{costs:?}");
    let small = ffn(1, 8, 16);
    let costs = [1, 2, 4].map(|n| cost(&small, &cluster(1, n)));
    assert!(costs[1..].iter().all(|&c| c > costs[0]), "{costs:?}");
    // a second server is a slow one
    assert!(cost(&small, &cluster(1, 4)) < cost(&small, &cluster(2, 2)));
    // cores that are shared do no more work for being called four devices
    assert!(cost(&large, &shared(1, 2)) <= cost(&large, &shared(4, 2)));
}

#[test]
fn plans_of_least_time_are_what_the_shapes_ask_for() {
    let options = PlanOptions {
        objective: Objective::Time,
        ..PlanOptions::default()
    };
    let parts = |graph: &BoundGraph, name: &str| {
        let plan = plan(graph, &cluster(1, 4), &options).unwrap();
        assert_eq!(plan.model, "time/1");
        let (id, _) = graph.ids().find(|(_, n)| &*n.name == name).unwrap();
        plan.nodes[id.at()].join.as_ref().unwrap().parts.clone()
    };
    // a large batch: rows are independent, weights are there
    assert_eq!(parts(&ffn(4096, 256, 1024), "h"), [4, 1, 1]);
    // one row: only the features can be split without moving weights
    assert_eq!(parts(&ffn(1, 1024, 4096), "h"), [1, 4, 1]);
    assert_eq!(parts(&ffn(1, 1024, 4096), "y"), [1, 1, 4]);
}

#[test]
fn tasks_overlap_and_wait() {
    let graph = matmul(256, 256, 256);
    let simulate = |d: [u32; 3], cluster: &Cluster| {
        let layout = |parts: &[u32]| Layout {
            parts: parts.to_vec(),
            devices: (0..parts.iter().product()).collect(),
        };
        let node = |join: Option<Layout>, owner: &[u32]| NodePlan {
            join: join.map(Layout::into),
            owner: Some(layout(owner).into()),
            cost: 0,
        };
        let nodes = vec![
            node(None, &[d[0], 1]),
            node(None, &[d[0], 1]),
            node(Some(layout(&d)), &d[..2]),
        ];
        let plan = plan(&graph, cluster, &PlanOptions::default()).unwrap();
        let plan = crate::plan::Plan { nodes, ..plan };
        let model = time(&graph, cluster);
        let sum: u128 = model.of(&graph, &plan.nodes).unwrap().iter().sum();
        (model.simulate(&graph, &lower(&graph, &plan).unwrap()), sum)
    };
    // one kernel: nothing overlaps
    let alone = 2 * 256u128.pow(3) / 100 + 1 + 2_000;
    assert_eq!(simulate([1, 1, 1], &cluster(1, 1)), (alone, alone));
    // two halves at once, after half of y went each way over links of its own
    let half = 256 * 128 * 4 + 1_000;
    let kernel = 256u128.pow(3) / 100 + 1 + 2_000;
    let (simulated, sum) = simulate([2, 1, 1], &cluster(1, 2));
    assert_eq!(sum, half + kernel);
    // the half that a device owns is copied beside the move
    assert!(
        simulated >= sum && simulated < sum + 20_000,
        "{simulated} {sum}"
    );
}

/// Tuples that make nothing fetch nothing, and are not bounded by it.
#[test]
fn what_makes_nothing_takes_no_longer_than_its_kernels() {
    for (seed, devices, residency) in [
        (4977021849540937221, 1, Residency::Sharded),
        (4683993740699068985, 3, Residency::AsNeeded),
    ] {
        let (graph, on) = (random_graph(seed, 1).bound(), cluster(2, devices));
        let options = PlanOptions {
            objective: Objective::Time,
            residency,
            ..PlanOptions::default()
        };
        let found = plan(&graph, &on, &options).unwrap().certificate;
        assert!(found.bound <= found.cost, "{found:?}");
    }
}

/// The first of some equal layers reads an input, which is fetched, where the others read a result.
#[test]
fn equal_layers_cost_what_they_read() {
    let graph = albert(2, [2, 16, 4, 8, 64]);
    let on = Cluster::cpus(8);
    let options = PlanOptions {
        objective: Objective::Time,
        ..PlanOptions::default()
    };
    let model = Time::new(&graph, &on, options.residency, options.constraints).unwrap();
    let found = decompose(&graph, 8, &model, &options, &Unwatched).unwrap();
    let cost = evaluate(&graph, &found.vectors, &model);
    assert_eq!(found.certificate.cost, cost);
    let timed = plan(&graph, &on, &options).unwrap();
    assert!(timed.certificate.bound <= timed.certificate.cost);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    /// The bound is one: no plan whose tuples are on devices of their own takes less.
    #[test]
    fn no_plan_takes_less_than_the_bound(
        seed: u64,
        statements in 1usize..6,
        devices in 1u32..5,
        servers in 1u32..3,
        sharded: bool,
        cores: bool,
    ) {
        let graph = random_graph(seed, statements).bound();
        let mut on = cluster(servers, devices);
        if cores {
            on.server.cores = Some(2);
            on.server.memory_bus = Some(3 * G);
        }
        let residency = if sharded { Residency::Sharded } else { Residency::AsNeeded };
        let options = |objective| PlanOptions {
            objective,
            residency,
            ..PlanOptions::default()
        };
        let timed = plan(&graph, &on, &options(Objective::Time)).unwrap();
        let checked = crate::plan::verify::verify(&graph, &timed, &on);
        prop_assert!(checked.is_ok(), "{:?}", checked.err());
        let total: u128 = timed.nodes.iter().map(|n| n.cost).sum();
        prop_assert_eq!(total, timed.certificate.cost);
        let model = Time::new(&graph, &on, residency, Constraints::default()).unwrap();
        for objective in [Objective::Placed, Objective::Communication] {
            let other = plan(&graph, &on, &options(objective)).unwrap();
            let cost: u128 = model.of(&graph, &other.nodes).unwrap().iter().sum();
            prop_assert!(timed.certificate.bound <= cost);
        }
    }
}
