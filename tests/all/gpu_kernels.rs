//! Kernels for GPUs: what they compute, by their text compiled as C++, is what the reference computes.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::bench_cases::cases::{CASES, Size};
use crate::reaction_mapper::model::albert;
use crate::records;
use crate::sentence_similarity::model::minilm;
use crate::support::gpu::{Prepared, compiles, near};
use crate::support::run::small_inputs;
use eindecomp_core::ein::Value;
use eindecomp_core::graph::testing::random_graph;
use eindecomp_core::graph::{BoundGraph, EinGraph};
use eindecomp_core::pass::Pipeline;
use eindecomp_core::plan::samples::corpus;
use eindecomp_core::plan::testing::random_plan;
use eindecomp_core::reference::{self, RefTensor};
use eindecomp_core::task::lower::lower;
use eindecomp_runtime::backend::cuda::call::Module;
use eindecomp_runtime::backend::cuda::twin::Twin;

type Inputs = BTreeMap<Arc<str>, RefTensor>;

/// A program with its kernels on some devices.
struct Job {
    name: String,
    graph: Arc<BoundGraph>,
    inputs: Inputs,
    prepared: Prepared,
}

/// Kernels of graphs, to be compiled together.
#[derive(Default)]
struct Jobs {
    all: Vec<Job>,
    modules: Vec<Arc<Module>>,
}

impl Jobs {
    /// As it is on one device and on three, and as passes leave it; once with little workspace.
    fn add(&mut self, name: &str, graph: &BoundGraph, inputs: &Inputs, seed: u64) {
        let fused = Pipeline::default().run(graph.clone()).expect("passes").0;
        let ways = [
            (graph, 1, None),
            (graph, 3, None),
            (&fused, 1, None),
            (&fused, 2, Some(40)),
        ];
        for (graph, devices, staged) in ways {
            let graph = Arc::new(graph.clone());
            let plan = random_plan(&graph, devices, seed);
            let tasks = lower(&graph, &plan).expect("tasks");
            let name = format!("{name}, p={devices}");
            let prepared = Prepared::bounded(&graph, tasks, staged);
            let prepared = prepared.unwrap_or_else(|e| panic!("{name}: {e}"));
            self.modules.extend(prepared.modules());
            let inputs = inputs.clone();
            self.all.push(Job {
                name,
                graph,
                inputs,
                prepared,
            });
        }
    }

    /// Every element within `tolerance` of the reference's.
    #[track_caller]
    fn run(self, tolerance: f64) {
        compiles(&self.modules);
        let twin = Twin::default();
        twin.compile(&self.modules)
            .unwrap_or_else(|e| panic!("{e}"));
        let mut wrong = Vec::new();
        for (seed, job) in self.all.iter().enumerate() {
            let want = reference::run(&job.graph, &job.inputs);
            let got = job.prepared.run(&twin, &job.inputs, seed as u64);
            let failed = match (&want, got) {
                (Ok(want), Ok(got)) => near(&got, want, tolerance).err(),
                (Err(_), Err(e)) if e.contains("is outside axis") => None,
                (want, got) => Some(format!("reference {want:?}, kernels {got:?}")),
            };
            if let Some(e) = failed {
                wrong.push(format!("{}: {e}\n{}", job.name, job.graph.graph()));
            }
        }
        let (failed, all) = (wrong.len(), self.all.len());
        wrong.truncate(3);
        assert!(wrong.is_empty(), "{failed} of {all}:\n{}", wrong.join("\n"));
    }
}

#[test]
fn random_graphs() {
    let mut jobs = Jobs::default();
    let count = std::env::var("EINDECOMP_GPU_GRAPHS").ok();
    let count = count.and_then(|n| n.parse().ok()).unwrap_or(24);
    for seed in 0..count {
        let sample = random_graph(seed, 3);
        jobs.add(
            &format!("graph {seed}"),
            &sample.bound(),
            &sample.inputs,
            seed,
        );
    }
    jobs.run(1e-5);
}

#[test]
fn records_and_online_softmax() {
    let mut jobs = Jobs::default();
    for (name, graph, inputs) in records::samples() {
        jobs.add(name, &graph, &inputs, 5);
    }
    jobs.run(2e-2);
}

#[test]
fn graphs_that_people_decompose() {
    let mut jobs = Jobs::default();
    for (name, graph) in corpus() {
        let space = |(id, _)| {
            graph
                .label_extents(id)
                .iter()
                .map(|&n| n as f64)
                .product::<f64>()
        };
        if graph.ids().map(space).sum::<f64>() < 2e5 {
            jobs.add(name, &graph, &small_inputs(&graph, 1), 3);
        }
    }
    jobs.run(1e-3);
}

/// The examples' models and timed programs, as a session makes them on one device, and on three: their kernels
/// compile for GPUs. What they compute is compared elsewhere.
#[test]
fn examples_compile() {
    let at = |dims: &[(&str, i64)]| {
        let dims = dims.iter().map(|&(name, n)| (Arc::from(name), n));
        dims.collect::<BTreeMap<Arc<str>, i64>>()
    };
    let mut programs = vec![
        (
            "albert",
            albert::graph().into_graph(),
            at(&[("B", 2), ("S", 9)]),
        ),
        (
            "minilm",
            minilm::graph().into_graph(),
            at(&[("B", 2), ("S", 9)]),
        ),
    ];
    programs.extend(
        CASES
            .iter()
            .map(|c| (c.name, (c.graph)(), c.dims_at(Size::Small))),
    );
    let mut modules = Vec::new();
    for (name, graph, dims) in programs {
        let graph = graph.unwrap_or_else(|e| panic!("{name}: {e}"));
        let graph = graph.bind(&dims).expect("dims that fit");
        let fused = Pipeline::default().run(graph.clone()).expect("passes").0;
        for (graph, devices) in [(fused, 1), (graph, 3)] {
            let graph = Arc::new(graph);
            let tasks = lower(&graph, &random_plan(&graph, devices, 11)).expect("tasks");
            let prepared = Prepared::new(&graph, tasks).unwrap_or_else(|e| panic!("{name}: {e}"));
            let own = prepared.modules();
            assert!(
                !own.is_empty() || prepared.products() > 0,
                "{name} asks for nothing"
            );
            modules.extend(own);
        }
    }
    compiles(&modules);
}

/// Every function, aggregation and element type, and accesses of every kind.
#[test]
fn scalars_of_every_kind() {
    let mut jobs = Jobs::default();
    for (block, text) in SCALARS {
        let graph = EinGraph::from_text(text, block, &BTreeMap::new());
        let graph = graph.unwrap_or_else(|e| panic!("{block}: {e}"));
        let graph = graph
            .bind(&BTreeMap::from([("N".into(), 37)]))
            .expect("bound");
        let mut inputs = Inputs::new();
        for (id, node) in graph.ids().filter(|(_, n)| n.role().is_some()) {
            let shape = graph.shape(id).to_vec();
            let odd = [
                f64::NAN,
                f64::INFINITY,
                f64::NEG_INFINITY,
                0.0,
                -0.0,
                1e30,
                -1e30,
                0.3,
            ];
            let value = |i: usize| match node.dtype.is_float() {
                true if i.is_multiple_of(3) => Value::Float(odd[i / 3 % odd.len()]),
                true => Value::Float((i as f64 - 11.0) / 7.0),
                false => Value::Int(
                    (i as i64 * 7919 + 3) % 23 - if i.is_multiple_of(2) { 0 } else { 11 },
                ),
            };
            let values = (0..shape.iter().product()).map(value).collect();
            let tensor = RefTensor::new(node.dtype, shape, values).expect("a tensor");
            inputs.insert(node.name.clone(), tensor);
        }
        jobs.add(block, &graph, &inputs, 1);
    }
    jobs.run(1e-2);
}

const SCALARS: [(&str, &str); 5] = [
    (
        "floats",
        "fn floats<dim N>(x: f32[N], y: f64[N]) -> (f32[N], f64[N], f32[N], f64[N]) {
            let a[i] = exp(min(x[i], 5.0)) + log(abs(x[i]) + 1.0) + log1p(abs(x[i])) + sqrt(abs(x[i])) + rsqrt(sq(x[i]) + 1.0)
                + recip(sq(x[i]) + 2.0) + pow(abs(x[i]) + 0.5, 0.5) + sin(clamp(x[i], -3.0, 3.0)) + cos(clamp(x[i], -3.0, 3.0));
            let b[i] = tanh(y[i]) + erf(y[i]) + sigmoid(y[i]) + softplus(y[i]) + silu(clamp(y[i], -9.0, 9.0)) + gelu(clamp(y[i], -9.0, 9.0))
                + gelu_tanh(clamp(y[i], -9.0, 9.0)) + relu(y[i]);
            let c[i] = floor(clamp(x[i], -9.0, 9.0)) + ceil(clamp(x[i], -9.0, 9.0)) + round(clamp(x[i], -9.0, 9.0)) + sign(x[i])
                + max(x[i], 1.0) + min(x[i], 2.0) + clamp(x[i], -1.0, 1.0) + clamp(x[i], -9.0, 9.0) % 0.7;
            let d[i] = if is_nan(y[i]) || y[i] > 3.0 && !(x[i] == 1.0) { 1.5 } else { -y[i] / 3.0 };
            (a, b, c, d)
        }",
    ),
    (
        "ints",
        "fn ints<dim N>(x: i64[N], y: i32[N], z: u32[N], w: u8[N]) -> (i64[N], i32[N], u32[N], u8[N], bool[N]) {
            let a[i] = x[i] / 5 + x[i] % 7 - x[i] * 3 + abs(x[i]) + sq(x[i]) + sign(x[i]) + max(x[i], 4) + min(x[i], -4) + clamp(x[i], -2, 2) + relu(-x[i]);
            let b[i] = y[i] * 1000000007 + y[i] / 3 - y[i] % 4;
            let c[i] = z[i] * 4000000000 + z[i] - 7;
            let d[i] = w[i] * 31 - w[i] / 2;
            let e[i] = x[i] < 3 && y[i] != 2 || z[i] >= 5 && w[i] <= 9;
            (a, b, c, d, e)
        }",
    ),
    (
        "casts",
        "fn casts<dim N>(x: f32[N], y: f64[N], n: i64[N], h: f16[N], b: bf16[N]) -> (i32[N], u8[N], bf16[N], f16[N], f32[N], bf16[N], bool[N]) {
            let a[i] = x[i] as i32 + (y[i] as i32) / 2;
            let c[i] = x[i] as u8 + y[i] as u8 + n[i] as u8;
            let d[i] = y[i] as bf16 + b[i];
            let e[i] = (n[i] * 1001) as f16 + h[i];
            let f[i] = (x[i] as f16) as f32 + (x[i] as bf16) as f32 + (n[i] as bool) as f32;
            let g[i] = (n[i] * 12345677) as bf16;
            let k[i] = (x[i] as bool) && (n[i] as bool);
            (a, c, d, e, f, g, k)
        }",
    ),
    (
        "aggregations",
        "fn aggregations<dim N>(x: f32[5, N], n: i64[5, N], b: bf16[5, N]) -> (f32[N], f32[5], i64[5], i64[N], f32[5], f32[5], i64[5], bool[5], bool[5], f32[5], f64[5]) {
            let a[j] = sum[i] clamp(x[i, j], -4.0, 4.0);
            let c[i] = max[j] x[i, j];
            let d[i] = argmax[j] x[i, j];
            let e[j] = argmin[i] n[i, j];
            let f[i] = min[j where n[i, j] > 0] x[i, j];
            let g[i] = logsumexp[j] min(x[i, j], 50.0);
            let h[i] = sum[j] n[i, j] * n[i, j];
            let k[i] = any[j] (n[i, j] > 10);
            let l[i] = all[j] (n[i, j] > -13);
            let m[i] = sum[j] clamp(b[i, j] as f32, -4.0, 4.0);
            let o[i] = prod[j; f64] (clamp(n[i, j] as f64, 0.5, 1.5));
            (a, c, d, e, f, g, h, k, l, m, o)
        }",
    ),
    (
        "rings",
        "fn rings<dim N>(x: f32[N, 11], y: f32[11, 19], n: i64[N, 11], m: i64[11, 19], t: f64[N, 11], u: f64[11, 19])
            -> (f32[N, 19], f32[N, 19], f64[N, 19], i64[N, 19], f64[N, 19], f64[19, N]) {
            let a[i, j] = max[k] (x[i, k] + y[k, j]);
            let b[i, j] = min[k] abs(x[i, k] - y[k, j]);
            let c[i, j] = logsumexp[k] (clamp(t[i, k], -9.0, 9.0) + clamp(u[k, j], -9.0, 9.0));
            let d[i, j] = sum[k] n[i, k] * m[k, j];
            let e[i, j] = sum[k] clamp(t[i, k], -2.0, 2.0) * clamp(u[k, j], -2.0, 2.0);
            let f[j, i] = sum[k] sq(clamp(t[i, k], -2.0, 2.0) - clamp(u[k, j], -2.0, 2.0));
            (a, b, c, d, e, f)
        }",
    ),
];
