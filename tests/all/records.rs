//! Aggregations over records (`agg`, `softmax_sum`) on devices: any placement gives what the
//! reference gives, and moves what is planned; the scores of an attention are never stored.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::support::run::Inputs;
use crate::support::{config, to_reference, to_runtime};
use eindecomp_core::ein::{DType, Value};
use eindecomp_core::graph::{BoundGraph, EinGraph, NodeId};
use eindecomp_core::plan::planner::{PlanOptions, plan};
use eindecomp_core::plan::testing::random_plan;
use eindecomp_core::plan::verify::verify as verify_plan;
use eindecomp_core::plan::{Cluster, Plan};
use eindecomp_core::reference::{self, RefTensor};
use eindecomp_core::task::lower::lower;
use eindecomp_core::task::verify::verify;
use eindecomp_core::task::{TaskGraph, TaskKind};
use eindecomp_runtime::{Executor, MemoryMode, Tensor, Workers};
use proptest::prelude::*;

const PROGRAM: &str = "
    agg welford(x: f32) {
        state { n: f32 = 0.0, mu: f32 = 0.0, m2: f32 = 0.0 }
        lift { n: 1.0, mu: x, m2: 0.0 }
        merge(a, b) {
            let n = a.n + b.n; let r = b.n / max(n, 1.0); let d = b.mu - a.mu;
            { n: n, mu: a.mu + d * r, m2: a.m2 + b.m2 + d * d * a.n * r }
        }
        finish { mean: mu, var: m2 / n }
    }
    // The largest key with the value that comes with it; of equal keys, the largest value.
    agg top(key: f32, value: i64) {
        state { key: f32 = -inf, value: i64 = -1 }
        lift { key: key, value: value }
        merge(a, b) {
            let first = a.key > b.key || (a.key == b.key && a.value >= b.value);
            { key: if first { a.key } else { b.key }, value: if first { a.value } else { b.value } }
        }
        finish { value }
    }
    // Sums over different axes of the output in one record.
    agg moments(x: f32, y: f32) {
        state { x: f64 = 0.0, y: f32 = 0.0, xy: f32 = 0.0, some: bool = false }
        lift { x: x, y: y, xy: x * y, some: true }
        merge(a, b) { { x: a.x + b.x, y: a.y + b.y, xy: a.xy + b.xy, some: a.some || b.some } }
        finish { if some { xy - (x as f32) * y } else { 7.0 } }
    }
    fn stats<dim A, dim B, dim T>(x: f32[A,B,T]) -> (f32[B], f32[B,A]) {
        let (m, v)[b] = welford[a, t] (x[a,b,t]);
        let y[b,a] = m[b] - welford_var[t] (x[a,b,t]) * v[b];
        (m, y)
    }
    agg welford_var(x: f32) {
        state { n: f32 = 0.0, s: f32 = 0.0, q: f32 = 0.0 } lift { n: 1.0, s: x, q: x * x }
        merge(a, b) { { n: a.n + b.n, s: a.s + b.s, q: a.q + b.q } } finish { q / n - sq(s / n) }
    }
    fn products<dim A, dim B, dim T>(x: f32[A,T], y: bf16[T,B], ok: bool[T]) -> (f32[A*B], i64[A]) {
        let z[(a,b)] = moments[t where ok[t]] (x[a,t], y[t,b] as f32);
        let w[a] = top[t] (x[a,t], t);
        (z, w)
    }
    fn attention<dim A, dim B, dim S, dim T, dim E, dim D>(
        q: f32[A,S,B,E], k: f32[A,T,B,E], v: f32[A,T,B,D], mask: bool[A,T],
    ) -> f32[A,S,B,D] {
        let o[a,s,b,d] = softmax_sum[t] (
            if mask[a,t] && t <= s + 3 { (sum[e] q[a,s,b,e] * k[a,t,b,e]) * rsqrt(E as f32) } else { -inf },
            v[a,t,b,d],
        );
        o
    }
    // Grouped queries in bf16, heads merged on both sides, values gathered, a filter.
    fn grouped<dim A, dim B, dim S, dim T, dim E>(
        q: bf16[S,A*B,E], k: bf16[T,A,E], v: bf16[T,A*E], at: i64[T], ok: bool[S,T],
    ) -> bf16[S,A*B*E] {
        let o[s,(a,b,e)] = softmax_sum[t where ok[s,t]] (sum[c; f32] q[s,(a,b),c] * k[t,a,c], v[at[t],(a,e)]);
        o
    }
    fn decode<dim B, dim T, dim E>(q: f32[B,E], k: f32[T,B,E], v: f32[T,B,E]) -> f32[B,E] {
        let o[b,e] = softmax_sum[t] (sum[c] q[b,c] * k[t,b,c], v[t,b,e]);
        o
    }
    fn ring<dim S, dim T, dim E>(q: f32[S,E], k: f32[T,E], v: f32[T,E]) -> f32[S,E] {
        #[split(t = 4)]
        let o[s,d] = softmax_sum[t] (if t <= s { sum[e] q[s,e] * k[t,e] } else { -inf }, v[t,d]);
        o
    }";

fn graph(block: &str, dims: &[(&str, i64)]) -> Arc<BoundGraph> {
    let graph = EinGraph::from_text(PROGRAM, block, &BTreeMap::new());
    let graph = graph.unwrap_or_else(|e| panic!("{e}"));
    let dims = dims.iter().map(|(n, v)| (Arc::from(*n), *v)).collect();
    Arc::new(graph.bind(&dims).expect("bound"))
}

/// Numbers that f32 and bf16 hold, between −2 and 2; integers from 0 on, below `below`.
fn inputs(graph: &BoundGraph, seed: u64, below: i64) -> BTreeMap<Arc<str>, RefTensor> {
    let mut state = seed | 1;
    let mut dice = || {
        state = state
            .wrapping_mul(6364136223846793005)
            .wrapping_add(1442695040888963407);
        (state >> 33) as i64
    };
    let mut all = BTreeMap::new();
    for (id, node) in graph.ids().filter(|(_, n)| n.role().is_some()) {
        let shape = graph.shape(id).to_vec();
        let values = (0..shape.iter().product()).map(|_| match node.dtype {
            DType::Bool => Value::Bool(dice() % 4 != 0),
            d if d.is_float() => Value::Float((dice() % 257 - 128) as f64 / 64.0),
            _ => Value::Int(dice() % below.max(1)),
        });
        let values = values.collect();
        let tensor = RefTensor::new(node.dtype, shape, values).expect("a tensor");
        all.insert(node.name.clone(), tensor);
    }
    all
}

struct Ran {
    outputs: Vec<RefTensor>,
    tasks: Arc<TaskGraph>,
}

fn run(
    graph: &Arc<BoundGraph>,
    inputs: &BTreeMap<Arc<str>, RefTensor>,
    plan: &Plan,
    mode: MemoryMode,
) -> Ran {
    let tasks = Arc::new(lower(graph, plan).expect("tasks"));
    verify(graph, plan, &tasks).expect("sound tasks");
    let workers = Arc::new(Workers::new(2).expect("workers"));
    let mut executor =
        Executor::new(graph.clone(), tasks.clone(), workers, mode).expect("an executor");
    let inputs: BTreeMap<String, Tensor> = inputs
        .iter()
        .map(|(n, t)| (n.to_string(), to_runtime(t)))
        .collect();
    let (outputs, trace) = executor.run(&inputs, false).expect("a run");
    assert_eq!(u128::from(trace.traffic.moved().total()), plan.moved_bytes);
    Ran {
        outputs: outputs.iter().map(to_reference).collect(),
        tasks,
    }
}

#[track_caller]
fn near(got: &[RefTensor], want: &[RefTensor], text: &dyn std::fmt::Display) {
    for (g, w) in got.iter().zip(want) {
        assert_eq!((g.shape(), g.dtype()), (w.shape(), w.dtype()));
        let tolerance = match w.dtype() {
            DType::BF16 => 1e-2,
            DType::F32 => 3e-5,
            _ => 0.0,
        };
        for (at, (g, w)) in g.to_f64().into_iter().zip(w.to_f64()).enumerate() {
            let same = g == w || (g.is_nan() && w.is_nan());
            let near = (g - w).abs() <= tolerance * w.abs().max(1.0);
            assert!(same || near, "[{at}] is {g}, not {w}\n{text}");
        }
    }
}

fn check(
    block: &str,
    dims: &[(&str, i64)],
    seed: u64,
    mode: MemoryMode,
    plan: impl Fn(&BoundGraph) -> Plan,
) {
    let graph = graph(block, dims);
    let inputs = inputs(
        &graph,
        seed,
        dims.iter().find(|d| d.0 == "T").map_or(1, |d| d.1),
    );
    let want = reference::run(&graph, &inputs).expect("a result");
    let ran = run(&graph, &inputs, &plan(&graph), mode);
    near(&ran.outputs, &want, graph.graph());
}

const MODES: [MemoryMode; 3] = MemoryMode::ALL;
const BLOCKS: [&str; 5] = ["stats", "products", "attention", "grouped", "decode"];

fn dims<'n>(block: &str, sizes: &[i64]) -> Vec<(&'n str, i64)> {
    let names: &[&str] = match block {
        "stats" | "products" => &["A", "B", "T"],
        "attention" => &["A", "B", "S", "T", "E", "D"],
        "grouped" => &["A", "B", "S", "T", "E"],
        "decode" => &["B", "T", "E"],
        _ => &["S", "T", "E"],
    };
    names.iter().copied().zip(sizes.iter().copied()).collect()
}

/// Every block with inputs: small ones, and some with many rows.
pub fn samples() -> Vec<(&'static str, Arc<BoundGraph>, Inputs)> {
    let sizes: [(&str, &[i64]); 9] = [
        ("stats", &[2, 3, 7]),
        ("stats", &[3, 2, 300]),
        ("products", &[5, 4, 9]),
        ("attention", &[2, 3, 4, 9, 2, 5]),
        ("attention", &[1, 2, 17, 33, 8, 9]),
        ("grouped", &[2, 2, 5, 9, 3]),
        ("grouped", &[1, 2, 9, 40, 8]),
        ("decode", &[2, 9, 5]),
        ("ring", &[6, 32, 4]),
    ];
    let sample = |(block, sizes): (&'static str, &[i64])| {
        let dims = dims(block, sizes);
        let graph = graph(block, &dims);
        let below = dims.iter().find(|d| d.0 == "T").map_or(1, |d| d.1);
        let inputs = inputs(&graph, 11, below);
        (block, graph, inputs)
    };
    sizes.into_iter().map(sample).collect()
}

proptest! {
    #![proptest_config(config(300))]

    #[test]
    fn any_placement_gives_the_reference(
        block in prop::sample::select(&BLOCKS[..]),
        sizes in prop::collection::vec(0..7i64, 6),
        devices in 1..9u32,
        seed: u64,
        private: bool,
    ) {
        let mode = MODES[usize::from(private)];
        check(block, &dims(block, &sizes), seed, mode, |g| random_plan(g, devices, seed));
    }
}

#[test]
fn the_planners_plans_give_the_reference() {
    for block in BLOCKS {
        for devices in [1, 2, 3, 4, 8] {
            for mode in MODES {
                let dims = dims(block, &[2, 3, 4, 9, 2, 5]);
                check(block, &dims, devices.into(), mode, |g| {
                    let cluster = Cluster::cpus(devices);
                    let made = plan(g, &cluster, &PlanOptions::default()).expect("a plan");
                    verify_plan(g, &made, &cluster).expect("a sound plan");
                    made
                });
            }
        }
    }
}

/// More than a block of rows, of scores and of values, and several labels reduced.
#[test]
fn tiles_of_many_blocks_give_the_reference() {
    check(
        "attention",
        &dims("attention", &[1, 2, 140, 300, 2, 3]),
        1,
        MODES[0],
        |g| random_plan(g, 1, 0),
    );
    check(
        "grouped",
        &dims("grouped", &[2, 2, 20, 300, 2]),
        2,
        MODES[1],
        |g| random_plan(g, 3, 5),
    );
    check("stats", &dims("stats", &[3, 30, 1000]), 3, MODES[1], |g| {
        random_plan(g, 2, 7)
    });
    check(
        "products",
        &dims("products", &[90, 60, 20]),
        4,
        MODES[0],
        |g| random_plan(g, 4, 1),
    );
}

fn parts<'p>(graph: &BoundGraph, plan: &'p Plan, name: &str) -> &'p [u32] {
    let (id, _) = graph
        .ids()
        .find(|(_, n)| &*n.name == name)
        .expect("a vertex");
    &plan.nodes[id.at()].join.as_ref().expect("a join").parts
}

/// One query per head: keys and values stay where they are, and records move.
#[test]
fn decoding_splits_heads_as_far_as_they_go_then_the_keys() {
    for (heads, devices, expect) in [
        (8, 4, [4, 1, 1, 1]),
        (1, 4, [1, 1, 4, 1]),
        (2, 8, [2, 1, 4, 1]),
    ] {
        let graph = graph("decode", &[("B", heads), ("T", 1024), ("E", 16)]);
        let cluster = Cluster::cpus(devices);
        let made = plan(&graph, &cluster, &PlanOptions::default()).expect("a plan");
        assert_eq!(
            parts(&graph, &made, "o"),
            expect,
            "{heads} heads on {devices} devices"
        );
        let inputs = inputs(&graph, 9, 1);
        let want = reference::run(&graph, &inputs).expect("a result");
        for mode in MODES {
            near(
                &run(&graph, &inputs, &made, mode).outputs,
                &want,
                graph.graph(),
            );
        }
        // The queries are spread; a record is a maximum, a sum and 16 values.
        let folds = u128::from(devices) / u128::from(expect[0]);
        if folds == 4 {
            let records = (heads as u128) * (folds - 1) * (4 + 4 + 16 * 4);
            assert!(
                made.moved_bytes <= records + (heads as u128) * folds * 16 * 4 * 2,
                "{}",
                made.moved_bytes
            );
        }
    }
}

/// `#[split(t = 4)]`: each device has its own keys, as around a ring.
#[test]
fn a_pinned_split_of_the_keys_moves_records() {
    let graph = graph("ring", &[("S", 6), ("T", 32), ("E", 4)]);
    let cluster = Cluster::cpus(4);
    let made = plan(&graph, &cluster, &PlanOptions::default()).expect("a plan");
    assert_eq!(parts(&graph, &made, "o"), [1, 1, 4, 1]);
    let inputs = inputs(&graph, 3, 1);
    let want = reference::run(&graph, &inputs).expect("a result");
    let mut bits: Option<Vec<f64>> = None;
    for mode in MODES {
        let ran = run(&graph, &inputs, &made, mode);
        near(&ran.outputs, &want, graph.graph());
        let got = ran.outputs[0].to_f64();
        assert_eq!(
            *bits.get_or_insert(got.clone()),
            got,
            "bits do not depend on the memory"
        );
        let folds = ran
            .tasks
            .tasks
            .iter()
            .filter(|t| matches!(t.kind, TaskKind::Aggregate { .. }));
        assert!(folds.clone().count() > 0);
        for task in folds {
            assert_eq!(
                task.kind.reads().len(),
                4 * 3,
                "four records of three components"
            );
        }
    }
}

/// Where a record is made and merged does not change its bits.
#[test]
fn placement_never_changes_bits() {
    let graph = graph("attention", &dims("attention", &[2, 2, 5, 12, 3, 4]));
    let inputs = inputs(&graph, 5, 1);
    let vertex = NodeId(4);
    let mut seen: BTreeMap<Vec<u32>, Vec<f64>> = BTreeMap::new();
    let mut again = 0;
    for seed in 0..60 {
        let made = random_plan(&graph, 3, seed);
        let parts = made.nodes[vertex.at()]
            .join
            .as_ref()
            .expect("a join")
            .parts
            .clone();
        let got = run(&graph, &inputs, &made, MODES[seed as usize % 2]).outputs[0].to_f64();
        let got: Vec<f64> = got
            .into_iter()
            .map(|x| if x.is_nan() { -1e9 } else { x })
            .collect();
        match seen.get(&parts) {
            Some(first) => {
                again += 1;
                assert_eq!(first, &got, "{parts:?}");
            }
            None => drop(seen.insert(parts, got)),
        }
    }
    assert!(again > 5, "{again}");
}

/// Neither a buffer nor all of them together hold the scores.
#[test]
fn the_scores_are_never_stored() {
    let (heads, queries, keys, width) = (2, 256, 256, 4);
    let graph = graph(
        "attention",
        &dims("attention", &[1, heads, queries, keys, width, width]),
    );
    let scores = (heads * queries * keys) as u64 * 4;
    let inputs = inputs(&graph, 6, 1);
    for devices in [1, 4] {
        let made = plan(&graph, &Cluster::cpus(devices), &PlanOptions::default()).expect("a plan");
        let ran = run(&graph, &inputs, &made, MemoryMode::Private);
        let all: u64 = ran.tasks.buffers.iter().map(|b| b.bytes()).sum();
        assert!(all < scores, "{all} B of buffers, {scores} B of scores");
    }
}

/// Rows where nothing is selected, in every way to split them.
#[test]
fn masked_rows_and_infinite_scores() {
    let source = "fn f<dim B, dim T, dim D>(s: f32[B,T], v: f32[T,D]) -> f32[B,D] {
        let o[b,d] = softmax_sum[t] (s[b,t], v[t,d]); o
    }";
    let (inf, nan) = (f64::INFINITY, f64::NAN);
    let rows = [
        [-inf, -inf, -inf, -inf],
        [-inf, -inf, -inf, 1.0],
        [2.0, -inf, -inf, -inf],
        [inf, 0.0, 0.0, 0.0],
        [0.0, nan, 0.0, -inf],
        [-1e30, -1e30, -1e30, -1e30],
        [88.0, 90.0, 1e30, 0.0],
        [0.0, 0.0, 0.0, 0.0],
    ];
    let v = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0];
    let want = [nan, 7.0, 1.0, nan, nan, 4.0, 5.0, 4.0];
    let graph = EinGraph::from_text(source, "f", &BTreeMap::new()).expect("a graph");
    let dims = [("B", 8), ("T", 4), ("D", 2)].map(|(n, v)| (n.into(), v));
    let graph = Arc::new(graph.bind(&dims.into()).expect("bound"));
    let tensor = |shape: &[usize], x: &[f64]| {
        RefTensor::from_f64(DType::F32, shape.to_vec(), x).expect("a tensor")
    };
    let inputs = BTreeMap::from([
        ("s".into(), tensor(&[8, 4], rows.as_flattened())),
        ("v".into(), tensor(&[4, 2], &v)),
    ]);
    let reference = reference::run(&graph, &inputs).expect("a result");
    let expect: Vec<f64> = want.iter().flat_map(|w| [*w, w + 1.0]).collect();
    near(&reference, &[tensor(&[8, 2], &expect)], graph.graph());
    for seed in 0..40 {
        let made = random_plan(&graph, 1 + seed as u32 % 5, seed);
        let ran = run(&graph, &inputs, &made, MODES[seed as usize % 2]);
        near(&ran.outputs, &reference, graph.graph());
    }
}

/// What an `if` or a `where` keeps from being read is not read, wherever the reduction runs.
#[test]
fn guards_reach_into_fused_reductions() {
    let source = "fn f<dim B, dim T, dim E, dim N>(
        q: f32[B,E], k: f32[N,E], at: i64[T], ok: bool[T], v: f32[N], last: i64[B],
    ) -> f32[B] {
        let o[b] = softmax_sum[t where at[t] <= last[b]] (
            if ok[t] { max[e] q[b,e] * k[at[t],e] } else { -1.0 },
            if ok[t] && at[t] >= 0 { v[at[t]] + sum[e where e != t] k[at[t],e] } else { 0.5 },
        );
        o
    }";
    let graph = EinGraph::from_text(source, "f", &BTreeMap::new()).expect("a graph");
    let dims = [("B", 3), ("T", 5), ("E", 2), ("N", 4)].map(|(n, v)| (n.into(), v));
    let graph = Arc::new(graph.bind(&dims.into()).expect("bound"));
    let mut inputs = inputs(&graph, 11, 4);
    let bools = [true, false, true, true, false].map(Value::Bool).to_vec();
    let ok = RefTensor::new(DType::Bool, vec![5], bools).expect("a tensor");
    inputs.insert("ok".into(), ok);
    // Out of range where `ok` does not hold.
    let at = RefTensor::from_i64(DType::I64, vec![5], &[3, -7, 0, 2, 9]).expect("a tensor");
    inputs.insert("at".into(), at);
    let last = RefTensor::from_i64(DType::I64, vec![3], &[9, 1, -8]).expect("a tensor");
    inputs.insert("last".into(), last);
    let want = reference::run(&graph, &inputs).expect("a result");
    assert!(want[0].to_f64()[2].is_nan(), "nothing is selected there");
    for seed in 0..30 {
        let made = random_plan(&graph, 1 + seed as u32 % 4, seed);
        let ran = run(&graph, &inputs, &made, MODES[seed as usize % 2]);
        near(&ran.outputs, &want, graph.graph());
    }
}

/// A dump may hold a reduction inside any expression.
#[test]
fn reductions_inside_any_expression_run() {
    let text = r#"eingraph {
      %0 "x" = input f32[6, 20]
      %1 "w" = input f32[20, 9]
      %2 "y" = max[n=9; f32 where (sum[d=20; f32] %0[i, d]) > -1.0:f32] (exp((sum[k=20; f32] %0[i, k] * %1[k, n]) * 0.25:f32)) -> f32[i=6]
      output "y" = %2
    }"#;
    let graph = EinGraph::parse(text).unwrap_or_else(|e| panic!("{e}"));
    let graph = Arc::new(graph.bind(&BTreeMap::new()).expect("bound"));
    let inputs = inputs(&graph, 4, 1);
    let want = reference::run(&graph, &inputs).expect("a result");
    for seed in 0..20 {
        let made = random_plan(&graph, 1 + seed as u32 % 4, seed);
        let ran = run(&graph, &inputs, &made, MODES[seed as usize % 2]);
        near(&ran.outputs, &want, graph.graph());
    }
}
