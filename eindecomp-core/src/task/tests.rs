//! Any viable partition vectors and any balanced placement lower to a task graph that keeps its
//! rules, and that moves what a count of single elements says.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::ein::einsum::Part;
use crate::graph::BoundGraph;
use crate::graph::testing::random_graph;
use crate::plan::cluster::LinkClass;
use crate::plan::samples::transformer;
use crate::plan::testing::random_plan;
use crate::plan::verify::{InvalidPlan, verify as verify_plan};
use crate::plan::{
    Certificate, Cluster, Constraints, Layout, NodePlan, Plan, PlanOptions, Region, Residency, plan,
};
use crate::task::exchange::Join;
use crate::task::traffic::{Bytes, Traffic, bytes, moved_bytes, traffic};
use crate::task::verify::verify;
use crate::task::{BufferId, BufferRole, TaskError, TaskGraph, TaskKind, lower};
use proptest::prelude::*;

mod graphs;
use graphs::{GRAPHS, graph, matmul};

/// Points of a box.
fn points(region: &Region) -> Vec<Vec<usize>> {
    region.0.iter().fold(vec![vec![]], |points, &(lo, hi)| {
        let longer = |p: &Vec<usize>| {
            let p = p.clone();
            (lo..hi).map(move |x| [p.clone(), vec![x]].concat())
        };
        points.iter().flat_map(longer).collect()
    })
}

/// Bytes that move, and those of them that enter a server, counted element by element.
fn counted(graph: &BoundGraph, plan: &Plan) -> (u128, u128) {
    let owners: Vec<BTreeMap<Vec<usize>, u32>> = (graph.ids())
        .map(|(node, _)| {
            let tiles = plan.nodes[node.at()]
                .owner
                .iter()
                .flat_map(|o| o.iter(graph.shape(node)));
            tiles
                .flat_map(|(r, device)| points(&r).into_iter().map(move |x| (x, device)))
                .collect()
        })
        .collect();
    let mut arrived = std::collections::BTreeSet::new();
    let mut entered = std::collections::BTreeSet::new();
    let server = |device| plan.hierarchy.server(device);
    let (mut bytes, mut network) = (0u128, 0u128);
    for (node, vertex) in graph.ids() {
        let Some(join) = Join::of(graph, &plan.nodes, node) else {
            continue;
        };
        for tuple in join.tuples() {
            for (operand, want) in join.reads(&tuple) {
                for x in points(&want) {
                    let Some(&owner) = owners[operand.at()].get(&x) else {
                        continue;
                    };
                    let size = graph.node(operand).dtype.size() as u128;
                    let here = server(tuple.device);
                    if owner != tuple.device && arrived.insert((operand, tuple.device, x.clone())) {
                        bytes += size;
                    }
                    if server(owner) != here && entered.insert((operand, here, x)) {
                        network += size;
                    }
                }
            }
            // Each device that owns a part of the result gets what it needs of every component.
            let e = vertex.einsum().unwrap();
            let parts = match join.folds() > 1 {
                true => e.parts(),
                false => vec![Part::whole(e)],
            };
            for part in parts {
                let mut leaving = std::collections::BTreeSet::new();
                for x in points(&tuple.output) {
                    let owner = owners[node.at()][&x];
                    let project = |(&x, &carried): (&usize, &bool)| if carried { x } else { 0 };
                    let y: Vec<usize> = x.iter().zip(&part.axes).map(project).collect();
                    if owner != tuple.device {
                        let tile = tile_of(&plan.nodes[node.at()], graph.shape(node), &x);
                        leaving.insert((tile, y, owner));
                    }
                }
                let size = part.dtype.size() as u128;
                bytes += leaving.len() as u128 * size;
                leaving.retain(|l| server(l.2) != server(tuple.device));
                network += leaving.len() as u128 * size;
            }
        }
    }
    (bytes, network)
}

/// Number of the owner's tile that has the element.
fn tile_of(node: &NodePlan, shape: &[usize], x: &[usize]) -> usize {
    let owner = node.owner.as_ref().unwrap();
    let has = |region: &Region| region.0.iter().zip(x).all(|(r, x)| (r.0..r.1).contains(x));
    owner
        .iter(shape)
        .position(|(region, _)| has(&region))
        .unwrap()
}

/// What moves is counted once for layers that are planned alike, and is right for each of them.
#[test]
fn repeated_layers_are_counted_as_they_move() {
    let graph = transformer(4, [2, 16, 4, 8, 64]);
    let mut kinds = graph.kinds().to_vec();
    kinds.sort_unstable();
    kinds.dedup();
    assert!(kinds.len() * 3 < graph.nodes().len(), "{kinds:?}");
    for cluster in [Cluster::cpus(8), Cluster::cpus(4).with_servers(2)] {
        for residency in [Residency::AsNeeded, Residency::Sharded] {
            let options = PlanOptions {
                residency,
                ..PlanOptions::default()
            };
            let mut plan = plan(&graph, &cluster, &options).unwrap();
            // one layer that is not planned as the others
            let changed = plan.nodes.len() / 2;
            for node in &mut plan.nodes[changed..changed + 4] {
                for layout in [&mut node.join, &mut node.owner].into_iter().flatten() {
                    Arc::make_mut(layout).devices.reverse();
                }
            }
            let on = plan.hierarchy;
            let tasks = lower(&graph, &plan).unwrap();
            let mut moves = vec![Traffic::default(); plan.nodes.len()];
            for task in &tasks.tasks {
                if let TaskKind::Move { src, dst, region } = &task.kind {
                    let (src, dst) = (tasks.buffer(*src), tasks.buffer(*dst));
                    let size = region.volume() * src.dtype.size();
                    moves[src.node.at()].add(src.device, dst.device, size as u64);
                }
            }
            // of tensors; those of nodes are by who reads
            let mut steps: Vec<Traffic> = vec![Traffic::default(); plan.nodes.len()];
            for step in crate::task::traffic::steps(&graph, on, &plan.nodes).unwrap() {
                steps[step.tensor.at()].merge(&step.found);
            }
            assert_eq!(steps, moves);
            let by_node = traffic(&graph, on, &plan.nodes).unwrap();
            let by_node = by_node.iter().map(|t| Bytes {
                moved: t.total(),
                weighted: t.weighted(on),
            });
            let two = bytes(&graph, on, &plan.nodes).unwrap();
            assert!(by_node.eq(two));
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn any_plan_lowers_to_tasks_that_keep_the_rules(
        number in 0..2 * GRAPHS,
        p in 1u32..10,
        servers in 1u32..4,
        seed in any::<u64>(),
    ) {
        let cluster = match servers {
            1 => Cluster::cpus(p),
            _ => Cluster::cpus(p.div_ceil(2)).with_servers(servers),
        };
        let graph = match number < GRAPHS {
            true => graph(number),
            false => random_graph(seed, number - GRAPHS + 1).bound(),
        };
        let plan = random_plan(&graph, cluster.hierarchy(), seed);
        let moves = moved_bytes(&graph, plan.hierarchy, &plan.nodes).unwrap();
        let network = moves.of_class(plan.hierarchy, LinkClass::Network);
        prop_assert_eq!((plan.moved_bytes, network), counted(&graph, &plan));
        let tasks = lower(&graph, &plan).unwrap();
        if let Err(e) = verify(&graph, &plan, &tasks) {
            return Err(TestCaseError::fail(format!("{e}\n{tasks}")));
        }
        prop_assert_eq!(verify_plan(&graph, &plan, &cluster).unwrap(), tasks);
    }
}

/// What the planner makes keeps the rules too.
#[test]
fn the_planners_plans_lower() {
    for (number, p) in (0..GRAPHS).flat_map(|g| [1, 2, 3, 4, 8].map(|p| (g, p))) {
        for residency in [Residency::AsNeeded, Residency::Sharded] {
            let graph = graph(number);
            let options = PlanOptions {
                residency,
                ..PlanOptions::default()
            };
            let plan = plan(&graph, &Cluster::cpus(p), &options).unwrap();
            let tasks = verify_plan(&graph, &plan, &Cluster::cpus(p)).unwrap();
            verify(&graph, &plan, &tasks).unwrap();
        }
    }
}

/// A matmul over 2 × 2 × 1 and 2 × 1 × 2 parts.
fn planned(parts: [u32; 3], owner: [u32; 2]) -> (BoundGraph, Plan) {
    let graph = matmul(4, 4, 4);
    let even = |parts: &[u32]| {
        let tiles: u32 = parts.iter().product();
        Layout {
            parts: parts.to_vec(),
            devices: (0..tiles).collect(),
        }
    };
    let node = |join: Option<&[u32]>, owner: &[u32]| NodePlan {
        join: join.map(|parts| even(parts).into()),
        owner: Some(even(owner).into()),
        cost: 0,
    };
    let mut nodes = vec![
        node(None, &[2, 2]),
        node(None, &[2, 2]),
        node(Some(&parts), &owner),
    ];
    let traffic = traffic(&graph, 4, &nodes).unwrap();
    for (node, traffic) in nodes.iter_mut().zip(&traffic) {
        node.cost = traffic.total();
    }
    let plan = Plan {
        hierarchy: 4.into(),
        model: "placed/2".into(),
        residency: Residency::AsNeeded,
        constraints: Constraints::default(),
        moved_bytes: traffic.iter().map(Traffic::total).sum(),
        nodes,
        certificate: Certificate {
            cost: traffic.iter().map(Traffic::total).sum(),
            bound: 0,
            space: String::new(),
            wider: None,
            checked: None,
            stopped: false,
        },
    };
    (graph, plan)
}

#[test]
fn a_split_reduction_as_text() {
    let (graph, plan) = planned([1, 1, 2], [2, 1]);
    insta::assert_snapshot!(lower(&graph, &plan).unwrap());
}

/// Each rule is there: a task graph that is broken in one way is refused for it.
#[test]
fn broken_task_graphs_are_refused() {
    let (graph, plan) = planned([1, 2, 2], [2, 2]);
    let good = lower(&graph, &plan).unwrap();
    verify(&graph, &plan, &good).unwrap();
    let broken = |mend: &dyn Fn(&mut TaskGraph)| {
        let mut tasks = good.clone();
        mend(&mut tasks);
        verify(&graph, &plan, &tasks).unwrap_err()
    };
    let at = |what: fn(&TaskKind) -> bool| good.tasks.iter().position(|t| what(&t.kind)).unwrap();
    let kernel = at(|k| matches!(k, TaskKind::Kernel { .. }));
    let fold = at(|k| matches!(k, TaskKind::Aggregate { .. }));
    let moved = at(|k| matches!(k, TaskKind::Move { .. }));
    let free = at(|k| matches!(k, TaskKind::Free { .. }));
    let gather = at(|k| matches!(k, TaskKind::Gather { .. }));

    let e = broken(&|t| t.tasks[kernel].deps.reverse());
    assert!(matches!(e, TaskError::Order { .. }), "{e}");
    let e = broken(&|t| t.tasks[kernel].deps.clear());
    assert!(matches!(e, TaskError::Unwritten { .. }), "{e}");
    let e = broken(&|t| t.tasks[kernel].device = 3);
    assert!(matches!(e, TaskError::Remote { .. }), "{e}");
    let e = broken(&|t| t.buffers[0].region = Region(vec![(0, 9), (0, 2)]));
    assert!(matches!(e, TaskError::Buffer { .. }), "{e}");
    let e = broken(&|t| {
        let again = t.tasks[moved].clone();
        t.tasks[moved + 1] = again;
    });
    assert!(matches!(e, TaskError::Rewrite { .. }), "{e}");
    let e = broken(&|t| match &mut t.tasks[fold].kind {
        TaskKind::Aggregate { srcs, .. } => srcs.reverse(),
        _ => unreachable!(),
    });
    assert!(matches!(e, TaskError::Fold { .. }), "{e}");
    let e = broken(&|t| match &mut t.tasks[kernel].kind {
        TaskKind::Kernel { tile, .. } => tile.0[0].1 -= 1,
        _ => unreachable!(),
    });
    assert!(matches!(e, TaskError::Kernel { what: "tile", .. }), "{e}");
    let e = broken(&|t| match &mut t.tasks[gather].kind {
        TaskKind::Gather { region, .. } => region.0[0].1 -= 1,
        _ => unreachable!(),
    });
    assert!(matches!(e, TaskError::Output { .. }), "{e}");
    let e = broken(&|t| match &mut t.tasks[free].kind {
        TaskKind::Free { buffer } => *buffer = BufferId(t.buffers.len() as u32 - 1),
        _ => unreachable!(),
    });
    assert!(
        matches!(e, TaskError::Free { .. } | TaskError::Remote { .. }),
        "{e}"
    );
    let e = broken(&|t| t.buffers[0].role = BufferRole::Replica);
    assert!(matches!(e, TaskError::Load { .. }), "{e}");
    let e = broken(&|t| t.buffers[0].offset += 4);
    assert!(matches!(e, TaskError::Offset { .. }), "{e}");
    let e = broken(&|t| t.arenas[1] += 64);
    assert!(matches!(e, TaskError::Arena { device: 1, .. }), "{e}");
    let e = broken(&|t| {
        t.buffers.iter_mut().for_each(|b| b.offset = 0);
        t.arenas.fill(64);
    });
    assert!(matches!(e, TaskError::Shared { .. }), "{e}");
    let mut other = plan.clone();
    other.moved_bytes += 1;
    let e = verify(&graph, &other, &good).unwrap_err();
    assert!(matches!(e, TaskError::MovedBytes { .. }), "{e}");
}

/// A plan is untrusted: each way to be wrong is a typed error.
#[test]
fn broken_plans_are_refused() {
    let (graph, plan) = planned([1, 2, 2], [2, 2]);
    let cluster = Cluster::cpus(4);
    verify_plan(&graph, &plan, &cluster).unwrap();
    let broken = |mend: &dyn Fn(&mut Plan)| {
        let mut plan = plan.clone();
        mend(&mut plan);
        verify_plan(&graph, &plan, &cluster).unwrap_err()
    };
    fn join(p: &mut Plan) -> &mut Layout {
        Arc::make_mut(p.nodes[2].join.as_mut().unwrap())
    }
    fn owner(p: &mut Plan) -> &mut Layout {
        Arc::make_mut(p.nodes[2].owner.as_mut().unwrap())
    }
    let e = broken(&|p| p.nodes.truncate(1));
    assert!(matches!(e, InvalidPlan::Nodes { .. }), "{e}");
    let e = broken(&|p| p.nodes[2].join = None);
    assert!(
        matches!(e, InvalidPlan::Presence { present: false, .. }),
        "{e}"
    );
    let e = broken(&|p| p.nodes[0].join = p.nodes[2].join.take());
    assert!(
        matches!(e, InvalidPlan::Presence { present: true, .. }),
        "{e}"
    );
    let e = broken(&|p| p.nodes[0].owner = None);
    assert!(matches!(e, InvalidPlan::Presence { .. }), "{e}");
    let e = broken(&|p| p.nodes[2].owner = Some(Layout::single(1).into()));
    assert!(matches!(e, InvalidPlan::Rank { .. }), "{e}");
    let e = broken(&|p| owner(p).parts[0] = 0);
    assert!(matches!(e, InvalidPlan::Parts { .. }), "{e}");
    let e = broken(&|p| owner(p).parts = vec![u32::MAX; 2]);
    assert!(matches!(e, InvalidPlan::Tiles { .. }), "{e}");
    let e = broken(&|p| join(p).parts = vec![1, 1, 8]);
    assert!(matches!(e, InvalidPlan::Tiles { .. }), "{e}");
    let e = broken(&|p| join(p).devices[0] = 4);
    assert!(matches!(e, InvalidPlan::Device { .. }), "{e}");
    let e = broken(&|p| join(p).devices[0] = 1);
    assert!(matches!(e, InvalidPlan::Unbalanced { .. }), "{e}");
    let e = broken(&|p| p.hierarchy = 2.into());
    assert!(matches!(e, InvalidPlan::Devices { .. }), "{e}");
    let e = broken(&|p| p.residency = Residency::Auto);
    assert!(matches!(e, InvalidPlan::Residency), "{e}");
    let e = broken(&|p| p.certificate.bound = p.certificate.cost + 1);
    assert!(matches!(e, InvalidPlan::Bound { .. }), "{e}");
    let e = broken(&|p| p.moved_bytes += 1);
    assert!(matches!(e, InvalidPlan::MovedBytes { .. }), "{e}");
    let e = broken(&|p| p.nodes[2].cost -= 1);
    assert!(matches!(e, InvalidPlan::Cost { .. }), "{e}");
    let e =
        broken(&|p| (p.certificate.cost, p.certificate.bound, p.certificate.wider) = (0, 0, None));
    assert!(matches!(e, InvalidPlan::Total { .. }), "{e}");
    let e = broken(&|p| p.model = "guess/1".into());
    assert!(matches!(e, InvalidPlan::Model(_)), "{e}");
    let e = verify_plan(&graph, &plan, &cluster.clone().with_capacity(100)).unwrap_err();
    assert!(matches!(e, InvalidPlan::Memory(..)), "{e}");
}
