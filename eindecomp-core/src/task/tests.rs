//! Any viable partition vectors and any balanced placement lower to a task graph that keeps its
//! rules, and that moves what a count of single elements says.

use std::collections::BTreeMap;

use crate::ein::einsum::Part;
use crate::ein::{Agg, DType, Dim, EinSum, EinSumSpec, Expr, Label, LabelId};
use crate::ein::{Operand, Reduce, ScalarFn, Value};
use crate::graph::testing::random_graph;
use crate::graph::{BoundGraph, EinGraph, GraphBuilder, NodeId, Role};
use crate::plan::cluster::LinkClass;
use crate::plan::testing::random_plan;
use crate::plan::verify::{InvalidPlan, verify as verify_plan};
use crate::plan::{
    Certificate, Cluster, Layout, NodePlan, Plan, PlanOptions, Region, Residency, plan,
};
use crate::task::exchange::{Join, Traffic, moved_bytes, traffic};
use crate::task::verify::verify;
use crate::task::{BufferId, BufferRole, TaskError, TaskGraph, TaskKind, lower};
use proptest::prelude::*;

/// Builds graphs with extents and labels as lists.
#[derive(Default)]
struct Build(GraphBuilder);

/// An index: a label, or anything.
fn l(n: u16) -> Expr {
    Expr::Index(LabelId(n))
}

fn add(a: Expr, b: Expr) -> Expr {
    Expr::call(ScalarFn::ADD, [a, b])
}

fn mul(a: Expr, b: Expr) -> Expr {
    Expr::call(ScalarFn::MUL, [a, b])
}

impl Build {
    fn input(&mut self, role: Role, dtype: DType, shape: &[i64]) -> NodeId {
        let name = format!("in{:?}{}", role, shape.len() + self.len());
        let shape = shape.iter().map(|&n| Dim::from(n)).collect();
        self.0.input(name, role, dtype, shape).unwrap()
    }

    fn len(&self) -> usize {
        (0..)
            .take_while(|&n| self.0.node(NodeId(n)).is_some())
            .count()
            * 100
    }

    fn data(&mut self, shape: &[i64]) -> NodeId {
        self.input(Role::Data, DType::F32, shape)
    }

    /// Labels of the extents given, the last `reduced` ones reduced; the product of the operands.
    fn product(
        &mut self,
        extents: &[i64],
        agg: Agg,
        reduced: usize,
        operands: Vec<(NodeId, Vec<Expr>)>,
    ) -> NodeId {
        let outs = extents.len() - reduced;
        let out = (0..outs as u16).map(|n| vec![LabelId(n)]).collect();
        self.merged(extents, out, agg, operands, None)
    }

    fn merged(
        &mut self,
        extents: &[i64],
        out: Vec<Vec<LabelId>>,
        agg: Agg,
        operands: Vec<(NodeId, Vec<Expr>)>,
        otherwise: Option<Value>,
    ) -> NodeId {
        let outs: usize = out.iter().map(Vec::len).sum();
        let labels = (outs as u16..extents.len() as u16)
            .map(LabelId)
            .collect::<Vec<_>>();
        let values = operands
            .iter()
            .enumerate()
            .filter(|(_, o)| self.0.node(o.0).unwrap().dtype == DType::F32)
            .map(|(n, _)| Expr::Operand(n));
        let body = values.reduce(mul).unwrap();
        let spec = EinSumSpec {
            labels: extents
                .iter()
                .enumerate()
                .map(|(n, &e)| Label {
                    name: format!("i{n}").into(),
                    extent: Dim::from(e),
                })
                .collect(),
            out,
            reduce: (!labels.is_empty()).then_some(Reduce {
                agg: agg.into(),
                labels,
                acc: if agg.row().selects {
                    DType::F32
                } else {
                    DType::F64
                },
                filter: None,
            }),
            operands: operands
                .into_iter()
                .map(|(node, index)| Operand {
                    node,
                    index,
                    otherwise,
                })
                .collect(),
            body,
            dtype: if agg.row().selects {
                DType::I64
            } else {
                DType::F32
            },
        };
        self.0
            .einsum(
                format!("n{}", self.len()),
                EinSum::new(spec).unwrap(),
                vec![],
            )
            .unwrap()
    }

    fn finish(mut self, outputs: &[NodeId]) -> BoundGraph {
        for (n, &o) in outputs.iter().enumerate() {
            self.0.output(format!("out{n}"), o).unwrap();
        }
        self.0.finish().unwrap().bind(&BTreeMap::new()).unwrap()
    }
}

fn matmul(i: i64, j: i64, k: i64) -> BoundGraph {
    let mut b = Build::default();
    let (x, y) = (b.data(&[i, j]), b.data(&[j, k]));
    let operands = vec![(x, vec![l(0), l(2)]), (y, vec![l(2), l(1)])];
    let z = b.product(&[i, k, j], Agg::SUM, 1, operands);
    b.finish(&[z])
}

/// A user's aggregation, and `softmax_sum` with fused scores.
fn records(softmax: bool) -> BoundGraph {
    let source = "agg welford(x: f32) {
        state { n: f64 = 0.0, mu: f32 = 0.0, m2: f32 = 0.0 }
        lift { n: 1.0, mu: x, m2: 0.0 }
        merge(a, b) {
            let n = a.n + b.n; let r = (b.n / max(n, 1.0)) as f32; let d = b.mu - a.mu;
            { n: n, mu: a.mu + d * r, m2: a.m2 + b.m2 + d * d * (a.n as f32) * r }
        }
        finish { mean: mu, var: m2 / (n as f32) }
    }
    fn stats<dim B, dim C, dim D>(x: f32[B,C,D]) -> (f32[B], f32[B,C]) {
        let (m, v)[b] = welford[c, d] (x[b,c,d]);
        let y[b,c] = welford_var[d] (x[b,c,d], m[b]) + v[b];
        (m, y)
    }
    agg welford_var(x: f32, m: f32) {
        state { s: f32 = 0.0, t: f32 = 0.0 } lift { s: x, t: m }
        merge(a, b) { { s: a.s + b.s, t: max(a.t, b.t) } } finish { s - t }
    }
    fn attention<dim B, dim C, dim D>(q: f32[B,C,D], k: f32[4*C,D], v: f32[4*C,2*D]) -> f32[B,C,2*D] {
        let o[b,c,e] = softmax_sum[t] (if t >= b { sum[d] q[b,c,d] * k[t,d] } else { -inf }, v[t,e]);
        o
    }";
    let block = if softmax { "attention" } else { "stats" };
    let graph = EinGraph::from_text(source, block, &BTreeMap::new()).unwrap();
    let dims = [("B", 3), ("C", 4), ("D", 2)].map(|(n, v)| (n.into(), v));
    graph.bind(&dims.into()).unwrap()
}

const GRAPHS: usize = 12;

/// One graph per feature of accesses.
fn graph(number: usize) -> BoundGraph {
    let mut b = Build::default();
    match number {
        0 => matmul(7, 5, 6),
        1 => {
            // A chain over a weight; the input and the middle are results too.
            let (x, w) = (b.data(&[6, 9]), b.input(Role::Weight, DType::F32, &[9, 4]));
            let h = b.product(
                &[6, 4, 9],
                Agg::SUM,
                1,
                vec![(x, vec![l(0), l(2)]), (w, vec![l(2), l(1)])],
            );
            let m = b.product(&[6, 4], Agg::MAX, 1, vec![(h, vec![l(0), l(1)])]);
            let y = b.product(
                &[6, 4],
                Agg::SUM,
                0,
                vec![(h, vec![l(0), l(1)]), (m, vec![l(0)])],
            );
            b.finish(&[y, x, h, w])
        }
        2 => {
            // Attention: softmax, and two readers of one tensor.
            let x = b.data(&[5, 8]);
            let w = b.input(Role::Weight, DType::F32, &[8, 8]);
            let q = b.product(
                &[5, 8, 8],
                Agg::SUM,
                1,
                vec![(x, vec![l(0), l(2)]), (w, vec![l(2), l(1)])],
            );
            let k = b.product(
                &[5, 8, 8],
                Agg::SUM,
                1,
                vec![(x, vec![l(0), l(2)]), (w, vec![l(1), l(2)])],
            );
            // (h, e) is merged: 2 heads of 4.
            let head = || add(mul(Expr::int(4), l(0)), l(3));
            let s = b.product(
                &[2, 5, 5, 4],
                Agg::SUM,
                1,
                vec![(q, vec![l(1), head()]), (k, vec![l(2), head()])],
            );
            let m = b.product(&[2, 5, 5], Agg::MAX, 1, vec![(s, vec![l(0), l(1), l(2)])]);
            let e = b.product(
                &[2, 5, 5],
                Agg::SUM,
                0,
                vec![(s, vec![l(0), l(1), l(2)]), (m, vec![l(0), l(1)])],
            );
            let z = b.product(&[2, 5, 5], Agg::SUM, 1, vec![(e, vec![l(0), l(1), l(2)])]);
            let v = b.merged(
                &[5, 2, 4, 5],
                vec![vec![LabelId(0)], vec![LabelId(1), LabelId(2)]],
                Agg::SUM,
                vec![
                    (e, vec![l(1), l(0), l(3)]),
                    (x, vec![l(3), add(mul(Expr::int(4), l(1)), l(2))]),
                    (z, vec![l(1), l(0)]),
                ],
                None,
            );
            b.finish(&[v, s])
        }
        3 => {
            // Gather from a table.
            let (t, i) = (b.data(&[10, 6]), b.input(Role::Data, DType::I64, &[7]));
            let operands = vec![(i, vec![l(0)]), (t, vec![Expr::Operand(0), l(1)])];
            let y = b.product(&[7, 6], Agg::SUM, 0, operands);
            b.finish(&[y])
        }
        4 => {
            // A diagonal and a transposed reader.
            let x = b.data(&[6, 6]);
            let d = b.product(&[6], Agg::SUM, 0, vec![(x, vec![l(0), l(0)])]);
            let y = b.product(
                &[6, 6],
                Agg::SUM,
                0,
                vec![(x, vec![l(1), l(0)]), (d, vec![l(0)])],
            );
            b.finish(&[y])
        }
        5 => {
            let x = b.data(&[5, 7]);
            let a = b.product(&[5, 7], Agg::ARGMAX, 1, vec![(x, vec![l(0), l(1)])]);
            b.finish(&[a])
        }
        6 => {
            // A padded convolution: halos.
            let (x, w) = (
                b.data(&[11, 3]),
                b.input(Role::Weight, DType::F32, &[3, 3, 2]),
            );
            let at = Expr::call(
                ScalarFn::SUB,
                [add(mul(Expr::int(2), l(0)), l(3)), Expr::int(1)],
            );
            let operands = vec![(x, vec![at, l(2)]), (w, vec![l(3), l(2), l(1)])];
            let out = vec![vec![LabelId(0)], vec![LabelId(1)]];
            let y = b.merged(
                &[6, 2, 3, 3],
                out,
                Agg::SUM,
                operands,
                Some(Value::Float(0.0)),
            );
            b.finish(&[y])
        }
        10 | 11 => records(number == 10),
        7 => matmul(1, 0, 3),
        8 => matmul(0, 4, 1),
        _ => {
            // Rank 0, twice read.
            let x = b.data(&[9]);
            let s = b.product(&[9], Agg::SUM, 1, vec![(x, vec![l(0)])]);
            let y = b.product(&[9], Agg::SUM, 0, vec![(x, vec![l(0)]), (s, vec![])]);
            let z = b.product(
                &[9],
                Agg::SUM,
                1,
                vec![(y, vec![l(0)]), (s, vec![]), (x, vec![l(0)])],
            );
            b.finish(&[z, s])
        }
    }
}

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
        join: join.map(even),
        owner: Some(even(owner)),
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
        moved_bytes: traffic.iter().map(Traffic::total).sum(),
        nodes,
        certificate: Certificate {
            cost: 0,
            bound: 0,
            space: String::new(),
            wider: None,
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
    let join = |p: &mut Plan| p.nodes[2].join.take().unwrap();
    let e = broken(&|p| p.nodes.truncate(1));
    assert!(matches!(e, InvalidPlan::Nodes { .. }), "{e}");
    let e = broken(&|p| drop(join(p)));
    assert!(
        matches!(e, InvalidPlan::Presence { present: false, .. }),
        "{e}"
    );
    let e = broken(&|p| p.nodes[0].join = Some(join(p)));
    assert!(
        matches!(e, InvalidPlan::Presence { present: true, .. }),
        "{e}"
    );
    let e = broken(&|p| p.nodes[0].owner = None);
    assert!(matches!(e, InvalidPlan::Presence { .. }), "{e}");
    let e = broken(&|p| p.nodes[2].owner = Some(Layout::single(1)));
    assert!(matches!(e, InvalidPlan::Rank { .. }), "{e}");
    let e = broken(&|p| p.nodes[2].owner.as_mut().unwrap().parts[0] = 0);
    assert!(matches!(e, InvalidPlan::Parts { .. }), "{e}");
    let e = broken(&|p| p.nodes[2].owner.as_mut().unwrap().parts = vec![u32::MAX; 2]);
    assert!(matches!(e, InvalidPlan::Tiles { .. }), "{e}");
    let e = broken(&|p| p.nodes[2].join.as_mut().unwrap().parts = vec![1, 1, 8]);
    assert!(matches!(e, InvalidPlan::Tiles { .. }), "{e}");
    let e = broken(&|p| p.nodes[2].join.as_mut().unwrap().devices[0] = 4);
    assert!(matches!(e, InvalidPlan::Device { .. }), "{e}");
    let e = broken(&|p| p.nodes[2].join.as_mut().unwrap().devices[0] = 1);
    assert!(matches!(e, InvalidPlan::Unbalanced { .. }), "{e}");
    let e = broken(&|p| p.hierarchy = 2.into());
    assert!(matches!(e, InvalidPlan::Devices { .. }), "{e}");
    let e = broken(&|p| p.residency = Residency::Auto);
    assert!(matches!(e, InvalidPlan::Residency), "{e}");
    let e = broken(&|p| p.certificate.bound += 1);
    assert!(matches!(e, InvalidPlan::Bound { .. }), "{e}");
    let e = broken(&|p| p.moved_bytes += 1);
    assert!(matches!(e, InvalidPlan::MovedBytes { .. }), "{e}");
    let e = broken(&|p| p.nodes[2].cost -= 1);
    assert!(matches!(e, InvalidPlan::Cost { .. }), "{e}");
    let e = broken(&|p| p.model = "guess/1".into());
    assert!(matches!(e, InvalidPlan::Model(_)), "{e}");
    let e = verify_plan(&graph, &plan, &cluster.clone().with_capacity(100)).unwrap_err();
    assert!(matches!(e, InvalidPlan::Memory(..)), "{e}");
}
