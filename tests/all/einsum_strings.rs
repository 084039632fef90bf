//! Random einsum strings (repeated labels, any order of the output, ellipsis, sizes from 0 to 5,
//! one tensor read twice) against sums written out here, on the reference and on the runtime
//! under planned and random placements.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::support::{comparable, config, to_reference, to_runtime};
use eindecomp_core::ein::{DType, Dim};
use eindecomp_core::graph::{BoundGraph, GraphBuilder, NodeId, Role};
use eindecomp_core::pass::Pipeline;
use eindecomp_core::plan::planner::{PlanOptions, plan};
use eindecomp_core::plan::testing::random_plan;
use eindecomp_core::plan::{Cluster, Plan};
use eindecomp_core::reference::{self, RefTensor};
use eindecomp_core::task::lower::lower;
use eindecomp_core::task::verify::verify;
use eindecomp_runtime::{Executor, MemoryMode, Tensor, Workers};
use proptest::prelude::*;

/// Out of alphabetical order, so that no order of labels is right by chance.
const LABELS: [char; 5] = ['m', 'Z', 'b', 'a', 'x'];

/// An axis of an operand: a label, or an axis of the ellipsis counted from its right end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Axis {
    Label(usize),
    Hidden(usize),
}

#[derive(Clone, Debug)]
struct Operand {
    labels: Vec<usize>,
    /// Before which label the ellipsis is, and which of its axes have extent 1.
    hidden: Option<(usize, Vec<bool>)>,
}

#[derive(Clone, Debug)]
struct Case {
    sizes: Vec<usize>,
    hidden_sizes: Vec<usize>,
    operands: Vec<Operand>,
    order: Vec<usize>,
    kept: Vec<bool>,
    /// Operands of the shape of the first are the first.
    same: bool,
    dtype: DType,
}

fn cases() -> impl Strategy<Value = Case> {
    let hidden = prop_oneof![
        3 => Just(None),
        1 => (0..4usize, prop::collection::vec(any::<bool>(), 0..3)).prop_map(Some),
    ];
    let operand = (prop::collection::vec(0..LABELS.len(), 0..5), hidden);
    let operand = operand.prop_map(|(labels, hidden)| Operand { labels, hidden });
    (
        prop::collection::vec(0..6usize, LABELS.len()),
        prop::collection::vec(1..4usize, 2),
        prop::collection::vec(operand, 1..4),
        Just((0..LABELS.len()).collect::<Vec<_>>()).prop_shuffle(),
        prop::collection::vec(any::<bool>(), LABELS.len()),
        any::<bool>(),
        prop::sample::select(vec![DType::F64, DType::F32, DType::I64]),
    )
        .prop_map(
            |(sizes, hidden_sizes, operands, order, kept, same, dtype)| Case {
                sizes,
                hidden_sizes,
                operands,
                order,
                kept,
                same,
                dtype,
            },
        )
}

/// Two operands of three labels each at most, in any order, with sizes around those at which
/// kernels change their blocks.
fn large_cases() -> impl Strategy<Value = Case> {
    let size = prop::sample::select(vec![1usize, 2, 7, 16, 17, 31, 33, 64, 65, 100, 128, 130]);
    let labels = || {
        let all = Just((0..LABELS.len()).collect::<Vec<_>>()).prop_shuffle();
        (all, 1..4usize).prop_map(|(all, n)| Operand {
            labels: all[..n].to_vec(),
            hidden: None,
        })
    };
    let sizes = prop::collection::vec(size, LABELS.len());
    (cases(), sizes, labels(), labels())
        .prop_map(|(case, sizes, a, b)| Case {
            sizes,
            operands: vec![a, b],
            ..case
        })
        .prop_filter("too many points", |case| {
            let used = |l: &usize| case.operands.iter().any(|o| o.labels.contains(l));
            let points = (0..LABELS.len()).filter(used).map(|l| case.sizes[l]);
            (5_000..500_000).contains(&points.product::<usize>())
        })
}

impl Operand {
    /// The axes, with whether their extent is 1 whatever the size.
    fn axes(&self) -> Vec<(Axis, bool)> {
        let mut axes: Vec<(Axis, bool)> = (self.labels.iter())
            .map(|&l| (Axis::Label(l), false))
            .collect();
        if let Some((at, ones)) = &self.hidden {
            let hidden = ones.iter().enumerate().rev();
            let at = *at.min(&self.labels.len());
            axes.splice(at..at, hidden.map(|(n, &one)| (Axis::Hidden(n), one)));
        }
        axes
    }

    fn text(&self) -> String {
        let mut text: String = self.labels.iter().map(|&l| LABELS[l]).collect();
        if let Some((at, _)) = self.hidden {
            text.insert_str(at.min(text.len()), "...");
        }
        text
    }
}

impl Case {
    /// Labels of the output, in order.
    fn output(&self) -> Vec<usize> {
        let used = |l: &usize| self.operands.iter().any(|o| o.labels.contains(l));
        let order = self.order.iter().copied();
        order.filter(|l| self.kept[*l] && used(l)).collect()
    }

    fn text(&self) -> String {
        let operands: Vec<String> = self.operands.iter().map(Operand::text).collect();
        let dots = self.operands.iter().any(|o| o.hidden.is_some());
        let output: String = self.output().into_iter().map(|l| LABELS[l]).collect();
        let dots = if dots { "..." } else { "" };
        format!("{}->{dots}{output}", operands.join(","))
    }

    fn extent(&self, axis: Axis) -> usize {
        match axis {
            Axis::Label(l) => self.sizes[l],
            // 1 unless some operand has more
            Axis::Hidden(_) => {
                let wide = |o: &Operand| o.axes().contains(&(axis, false));
                match axis {
                    Axis::Hidden(n) if self.operands.iter().any(wide) => self.hidden_sizes[n],
                    _ => 1,
                }
            }
        }
    }

    fn shape(&self, operand: &Operand) -> Vec<usize> {
        let axes = operand.axes().into_iter();
        axes.map(|(axis, one)| if one { 1 } else { self.extent(axis) })
            .collect()
    }

    /// Which input each operand reads.
    fn reads(&self) -> Vec<usize> {
        let shape = |k: usize| self.shape(&self.operands[k]);
        (0..self.operands.len())
            .map(|k| {
                if self.same && shape(k) == shape(0) {
                    0
                } else {
                    k
                }
            })
            .collect()
    }

    fn data(&self, k: usize) -> Vec<f64> {
        let count: usize = self.shape(&self.operands[k]).iter().product();
        let value = |i: usize| ((7 * i + 3 * k) % 11) as f64 - 5.0;
        (0..count).map(value).collect()
    }

    /// The sum over every value of every axis, as the string says it.
    fn naive(&self) -> (Vec<usize>, Vec<f64>) {
        let mut all: Vec<Axis> = Vec::new();
        for (axis, _) in self.operands.iter().flat_map(Operand::axes) {
            if !all.contains(&axis) {
                all.push(axis);
            }
        }
        let mut out: Vec<Axis> = all
            .iter()
            .copied()
            .filter(|a| matches!(a, Axis::Hidden(_)))
            .collect();
        out.sort_by(|a, b| b.cmp(a));
        out.extend(self.output().into_iter().map(Axis::Label));
        let extents: Vec<usize> = all.iter().map(|&a| self.extent(a)).collect();
        let place = |axis: &Axis| all.iter().position(|a| a == axis).unwrap();
        let shape: Vec<usize> = out.iter().map(|a| self.extent(*a)).collect();
        let mut sums = vec![0.0; shape.iter().product()];
        let reads = self.reads();
        let data: Vec<Vec<f64>> = reads.iter().map(|&k| self.data(k)).collect();
        for point in 0..extents.iter().product() {
            let mut digits = vec![0; all.len()];
            let mut left: usize = point;
            for (digit, &n) in digits.iter_mut().zip(&extents).rev() {
                *digit = left % n;
                left /= n;
            }
            let mut product = 1.0;
            for (operand, data) in self.operands.iter().zip(&data) {
                let axes = operand.axes().into_iter().zip(self.shape(operand));
                let at = axes.fold(0, |at, ((axis, one), n)| {
                    at * n + if one { 0 } else { digits[place(&axis)] }
                });
                product *= data[at];
            }
            let at = (out.iter().zip(&shape)).fold(0, |at, (axis, n)| at * n + digits[place(axis)]);
            sums[at] += product;
        }
        (shape, sums)
    }

    fn graph(&self) -> (BoundGraph, BTreeMap<Arc<str>, RefTensor>) {
        let (mut graph, mut inputs) = (GraphBuilder::new(), BTreeMap::new());
        let mut nodes: Vec<NodeId> = Vec::new();
        for (k, &read) in self.reads().iter().enumerate() {
            if read != k {
                nodes.push(nodes[read]);
                continue;
            }
            let shape = self.shape(&self.operands[k]);
            let extents = shape.iter().map(|&n| Dim::from(n as i64)).collect();
            let name = format!("x{k}");
            nodes.push(
                graph
                    .input(name.clone(), Role::Data, self.dtype, extents)
                    .unwrap(),
            );
            let tensor = RefTensor::from_f64(self.dtype, shape, &self.data(k)).unwrap();
            inputs.insert(name.into(), tensor);
        }
        let y = graph.einsum_str(&self.text(), &nodes).unwrap();
        graph.output("y", y).unwrap();
        let graph = graph.finish().unwrap().bind(&BTreeMap::new()).unwrap();
        (graph, inputs)
    }
}

fn run(
    graph: BoundGraph,
    plan: &Plan,
    inputs: &BTreeMap<String, Tensor>,
    mode: MemoryMode,
) -> Vec<RefTensor> {
    let tasks = lower(&graph, plan).expect("tasks");
    verify(&graph, plan, &tasks).expect("sound tasks");
    let workers = Arc::new(Workers::new(2).expect("workers"));
    let mut executor =
        Executor::new(Arc::new(graph), Arc::new(tasks), workers, mode).expect("kernels");
    let (outputs, _) = executor.run(inputs, false).expect("a run");
    comparable(outputs.iter().map(to_reference).collect())
}

proptest! {
    #![proptest_config(config(300))]

    #[test]
    fn strings_mean_their_sums(
        case in cases(),
        devices in 1..9u32,
        seed: u64,
        mode in prop::sample::select(&MemoryMode::ALL[..]),
        passes: bool,
    ) {
        let (shape, sums) = case.naive();
        let want = comparable(vec![RefTensor::from_f64(case.dtype, shape, &sums).unwrap()]);
        let (mut graph, inputs) = case.graph();
        let got = reference::run(&graph, &inputs).map(comparable);
        prop_assert_eq!(&got.expect("a result"), &want, "reference, {}", case.text());
        if passes {
            graph = Pipeline::default().run(graph).expect("a graph").0;
        }
        let tensors = inputs.iter().map(|(n, t)| (n.to_string(), to_runtime(t))).collect();
        let options = PlanOptions::default();
        let planned = plan(&graph, &Cluster::cpus(devices), &options).expect("a plan");
        let random = random_plan(&graph, devices, seed);
        for plan in [planned, random] {
            let got = run(graph.clone(), &plan, &tensors, mode);
            prop_assert_eq!(&got, &want, "{} by {}", case.text(), plan.model);
        }
    }

    #[test]
    fn no_size_changes_the_meaning(case in large_cases(), devices in 1..9u32, seed: u64) {
        let (graph, inputs) = case.graph();
        let got = reference::run(&graph, &inputs).map(comparable).expect("a result");
        let tensors = inputs.iter().map(|(n, t)| (n.to_string(), to_runtime(t))).collect();
        let options = PlanOptions::default();
        let planned = plan(&graph, &Cluster::cpus(devices), &options).expect("a plan");
        for plan in [planned, random_plan(&graph, devices, seed)] {
            let same = run(graph.clone(), &plan, &tensors, MemoryMode::Shared) == got;
            prop_assert!(same, "{} by {}", case.text(), plan.model);
        }
    }
}
