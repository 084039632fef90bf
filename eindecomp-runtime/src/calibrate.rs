//! Measures this machine: the figures that the cost model `time` reads of CPU devices.
//!
//! Every figure is that of small programs run by the executor itself, so that it is what a task of a
//! plan takes: the best of several runs, since others only slow a run down. Programs run on one worker,
//! so that rates are those of a core, but the one for memory, which all cores share.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use eindecomp_core::ein::DType;
use eindecomp_core::graph::{BoundGraph, EinGraph, Role};
use eindecomp_core::plan::cluster::{Calibration, Link, MAX_RATE, Rate, Rates};
use eindecomp_core::plan::{Certificate, Constraints, Layout, NodePlan, Plan, Residency};
use eindecomp_core::task::lower::lower;
use eindecomp_core::task::{TaskGraph, TaskKind};

use crate::error::RunError;
use crate::executor::{Executor, Workers};
use crate::storage::MemoryMode;
use crate::tensor::Tensor;
use crate::trace::TaskSpan;

/// A figure's runs end after this time, or [`LEAST`] runs if these last longer.
const BUDGET: Duration = Duration::from_millis(300);
/// Fewest runs of a figure.
const LEAST: usize = 3;
/// Figures, in order: per element type three rates, then the others.
const FIGURES: usize = 3 * 5 + 3;

/// Measures this machine with `cores` workers, at least 1; some seconds. `progress` is told, before
/// each figure, how many are done, how many there are, and what comes.
///
/// # Errors
/// [`RunError::Pool`], [`RunError::OutOfMemory`]: half a GiB is needed.
pub fn calibrate(
    cores: usize,
    progress: &mut dyn FnMut(usize, usize, &str),
) -> Result<Calibration, RunError> {
    let (one, all) = (
        Arc::new(Workers::new(1)?),
        Arc::new(Workers::new(cores.max(1))?),
    );
    let mut done = 0;
    let mut next = |what: String| {
        progress(done, FIGURES, &what);
        done += 1;
    };
    let mut rates = |name: &str, result: &str| -> Result<Rate, RunError> {
        let mut rate = |class: &str, operations: u64, program: String| {
            next(format!("{class} of {name}"));
            let time = Bench::new(&program, 1)?.kernels(&one)?;
            Ok::<_, RunError>(per_second(operations, time))
        };
        let product = |n: u64| {
            format!(
                "fn f(x: {name}[512,512], y: {name}[512,{n}]) -> {result}[512,{n}] {{
                    let z[i,k] = sum[j] x[i,j] * y[j,k];
                    z
                }}"
            )
        };
        let pointwise = format!(
            "fn f(x: {name}[65536]) -> {name}[65536] {{ let y[i] = x[i] * x[i] + x[i]; y }}"
        );
        Ok(Rate {
            matmul: rate("matmul", 2 * 512 * 512 * 512, product(512))?,
            skinny: rate("skinny matmul", 2 * 512 * 512 * 8, product(8))?,
            elementwise: rate("elementwise", 2 * 65536, pointwise)?,
        })
    };
    let rates = Rates {
        f64: rates("f64", "f64")?,
        f32: rates("f32", "f32")?,
        bf16: rates("bf16", "bf16")?,
        f16: rates("f16", "f16")?,
        int: rates("i32", "i32")?,
    };
    next("memory".into());
    let elements = 1u64 << 25;
    let program =
        format!("fn f(x: f32[{elements}]) -> f32[{elements}] {{ let y[i] = x[i] + x[i]; y }}");
    let time = Bench::new(&program, 1)?.kernels(&all)?;
    let memory_bandwidth = per_second(2 * 4 * elements, time);

    next("transport".into());
    let transfer = |elements: u64| {
        let program =
            format!("fn f(x: f32[{elements}]) -> f32[{elements}] {{ let y[i] = x[i] + x[i]; y }}");
        Bench::new(&program, 2)?.moves(&one)
    };
    let (bytes, latency) = (4u64 << 20, transfer(1)?);
    let transport = Link {
        latency: nanoseconds(latency),
        bandwidth: per_second(bytes, transfer(bytes / 4)?),
    };

    next("tasks".into());
    let chain = 500;
    let statements: String = (1..=chain)
        .map(|n| format!("let x{n}[i] = x{}[i] + x{}[i]; ", n - 1, n - 1))
        .collect();
    let program = format!("fn f(x0: f32[1]) -> f32[1] {{ {statements} x{chain} }}");
    let time = Bench::new(&program, 1)?.kernels(&one)?;
    progress(FIGURES, FIGURES, "done");
    Ok(Calibration {
        cores: u32::try_from(cores.max(1)).unwrap_or(u32::MAX),
        rates,
        memory_bandwidth,
        transport,
        overhead: nanoseconds(time) / chain,
    })
}

/// A program of ours, planned by hand: every statement whole, on the last device; inputs are on the
/// first.
struct Bench {
    graph: Arc<BoundGraph>,
    tasks: Arc<TaskGraph>,
}

impl Bench {
    fn new(source: &str, devices: u32) -> Result<Bench, RunError> {
        let graph = EinGraph::from_text(source, "f", &BTreeMap::new()).expect("a correct program");
        let graph = graph.bind(&BTreeMap::new()).expect("there are no dims");
        let single = |rank: usize, device: u32| Layout {
            devices: vec![device],
            ..Layout::single(rank)
        };
        let nodes = graph.ids().map(|(id, node)| {
            let last = devices - 1;
            let join = node.einsum().map(|e| single(e.labels.len(), last).into());
            let owner = match node.role() {
                Some(_) => single(graph.shape(id).len(), 0),
                None => single(graph.shape(id).len(), last),
            };
            NodePlan {
                join,
                owner: Some(owner.into()),
                cost: 0,
            }
        });
        let plan = Plan {
            hierarchy: devices.into(),
            model: "calibration/1".into(),
            residency: Residency::AsNeeded,
            constraints: Constraints::default(),
            nodes: nodes.collect(),
            moved_bytes: 0,
            certificate: Certificate {
                cost: 0,
                bound: 0,
                space: "one plan".into(),
                wider: None,
                checked: None,
                stopped: false,
            },
        };
        let tasks = lower(&graph, &plan).expect("a correct plan");
        Ok(Bench {
            graph: Arc::new(graph),
            tasks: Arc::new(tasks),
        })
    }

    /// From the end of the last load to the end of the last kernel.
    fn kernels(&self, workers: &Arc<Workers>) -> Result<Duration, RunError> {
        self.best(workers, &|spans| {
            let ends = |wanted: fn(&TaskKind) -> bool| {
                let of_kind = spans
                    .iter()
                    .filter(|s| wanted(&self.tasks.tasks[s.task].kind));
                of_kind.map(|s| s.end).max().unwrap_or_default()
            };
            let loaded = ends(|k| matches!(k, TaskKind::Load { .. }));
            ends(|k| matches!(k, TaskKind::Kernel { .. })).saturating_sub(loaded)
        })
    }

    /// The longest Move.
    fn moves(&self, workers: &Arc<Workers>) -> Result<Duration, RunError> {
        self.best(workers, &|spans| {
            let moves =
                |s: &&TaskSpan| matches!(self.tasks.tasks[s.task].kind, TaskKind::Move { .. });
            let times = spans.iter().filter(moves).map(|s| s.end - s.start);
            times.max().unwrap_or_default()
        })
    }

    fn best(
        &self,
        workers: &Arc<Workers>,
        time: &dyn Fn(&[TaskSpan]) -> Duration,
    ) -> Result<Duration, RunError> {
        let (graph, tasks) = (self.graph.clone(), self.tasks.clone());
        let mut executor = Executor::new(graph, tasks, workers.clone(), MemoryMode::Arena)?;
        let inputs = self
            .graph
            .ids()
            .filter(|(_, n)| n.role() == Some(Role::Data));
        let inputs = inputs.map(|(id, n)| {
            let shape = self.graph.shape(id).to_vec();
            (n.name.to_string(), Tensor::zeros(n.dtype, shape))
        });
        let inputs: BTreeMap<String, Tensor> = inputs.collect();
        let outputs = self.graph.outputs().iter().map(|o| {
            let dtype: DType = self.graph.node(o.node).dtype;
            Tensor::zeros(dtype, self.graph.shape(o.node).to_vec())
        });
        let mut outputs: Vec<Tensor> = outputs.collect();
        let (start, mut best, mut runs) = (Instant::now(), Duration::MAX, 0);
        while runs < LEAST || start.elapsed() < BUDGET {
            let trace = executor.run_into(&inputs, &mut outputs, true)?;
            best = best.min(time(&trace.tasks));
            runs += 1;
        }
        Ok(best)
    }
}

/// At least 1, however short.
pub(crate) fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX).max(1)
}

/// A rate that a cluster may have.
pub(crate) fn per_second(amount: u64, time: Duration) -> u64 {
    let rate = u128::from(amount) * 1_000_000_000 / u128::from(nanoseconds(time));
    u64::try_from(rate).unwrap_or(MAX_RATE).clamp(1, MAX_RATE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_machine_has_figures_that_a_cluster_may_have() {
        let mut told = Vec::new();
        let machine = calibrate(2, &mut |done, all, what| {
            told.push((done, all, what.to_string()))
        })
        .expect("half a GiB");
        assert_eq!(machine.cores, 2);
        assert_eq!(machine.verify(), Ok(()));
        let counts: Vec<usize> = told.iter().map(|t| t.0).collect();
        assert_eq!(counts, (0..=FIGURES).collect::<Vec<_>>());
        assert!(told.iter().all(|t| t.1 == FIGURES));
        assert_eq!(told[3].2, "matmul of f32");
    }

    #[test]
    fn rates_are_finite() {
        assert_eq!(per_second(10, Duration::from_secs(2)), 5);
        assert_eq!(per_second(1, Duration::from_secs(2)), 1);
        assert_eq!(per_second(u64::MAX, Duration::ZERO), MAX_RATE);
        assert_eq!(nanoseconds(Duration::ZERO), 1);
        assert_eq!(nanoseconds(Duration::MAX), u64::MAX);
    }
}
