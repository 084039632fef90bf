//! One program, from text to results.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use eindecomp_core::ein::{DType, Value};
use eindecomp_core::graph::from_syntax::{Context, NoForeign, block_graph_with};
use eindecomp_core::graph::testing::Rng;
use eindecomp_core::graph::{BoundGraph, Role};
use eindecomp_core::plan::planner::{Objective, PlanOptions, plan};
use eindecomp_core::plan::testing::random_plan;
use eindecomp_core::plan::{Cluster, Plan, Residency};
use eindecomp_core::reference::{self, RefTensor};
use eindecomp_core::syntax::{check, parse_text};
use eindecomp_core::task::lower::lower;
use eindecomp_core::task::verify::verify;
use eindecomp_runtime::{Executor, MemoryMode, Tensor, Workers};

use crate::generate::{LARGEST, Program};
use crate::support::{comparable, to_reference, to_runtime};

/// What became of a program.
pub enum Outcome {
    /// The checker refuses it.
    Refused(String),
    /// Its dims do not fit its clauses.
    Unbound,
    /// Reference and runtime say that an index is out of range.
    Fails,
    /// As the reference says.
    Ran,
    /// What must not be.
    Fault(String),
}

/// Runs programs.
pub struct Runner {
    workers: Arc<Workers>,
}

thread_local! {
    /// What the last panic said, and where.
    static PANIC: RefCell<String> = const { RefCell::new(String::new()) };
    /// A program runs, whose panics are faults.
    static RUNNING: Cell<bool> = const { Cell::new(false) };
}

impl Runner {
    pub fn new() -> Runner {
        let loud = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| match RUNNING.get() {
            true => PANIC.set(panic.to_string()),
            false => loud(panic),
        }));
        Runner {
            workers: Arc::new(Workers::new(2).expect("workers")),
        }
    }

    /// Runs a program on inputs, devices and a placement that `seed` chooses.
    pub fn run(&self, program: &Program, seed: u64) -> Outcome {
        let run = || self.tried(program, seed);
        RUNNING.set(true);
        let outcome = catch_unwind(AssertUnwindSafe(run));
        RUNNING.set(false);
        match outcome {
            Ok(Ok(outcome)) => outcome,
            Ok(Err(fault)) => Outcome::Fault(fault),
            Err(_) => Outcome::Fault(PANIC.take()),
        }
    }

    fn tried(&self, program: &Program, seed: u64) -> Result<Outcome, String> {
        let text = &program.text;
        let (tree, mut errors) = parse_text(text);
        let checked = check::check_program(&tree);
        errors.extend(checked.errors.iter().cloned());
        if let Some(first) = errors.first() {
            return Ok(Outcome::Refused(first.render(text).to_string()));
        }
        let mut context = Context {
            consts: &program.consts,
            hosts: &program.hosts,
            foreign: &mut NoForeign,
            prefix: "",
        };
        let graph = block_graph_with(&checked, "main", &mut context)
            .map_err(|e| format!("accepted, but no graph: {}", e[0]))?;
        graph.verify().map_err(|e| format!("graph: {e:?}"))?;
        let graph = match graph.bind(&program.dims) {
            Ok(graph) => Arc::new(graph),
            Err(_) => return Ok(Outcome::Unbound),
        };
        let mut rng = Rng::new(seed ^ 0x5eed);
        let inputs = inputs(&graph, &mut rng);
        let want = reference::run(&graph, &inputs);
        let devices = 1 + rng.below(8) as u32;
        let mode = rng.one_of(&MemoryMode::ALL);
        let plan = placed(&graph, devices, &mut rng)?;
        let tasks = lower(&graph, &plan).map_err(|e| format!("tasks: {e}"))?;
        verify(&graph, &plan, &tasks).map_err(|e| format!("tasks do not verify: {e}"))?;
        let workers = self.workers.clone();
        let mut executor = Executor::new(graph.clone(), Arc::new(tasks), workers, mode)
            .map_err(|e| format!("executor: {e}"))?;
        let (weights, data) = split(&graph, &inputs);
        executor
            .load(&weights)
            .map_err(|e| format!("weights: {e}"))?;
        match (want, executor.run(&data, false)) {
            (Ok(want), Ok((got, trace))) => {
                let (moved, planned) = (trace.traffic.moved().total(), plan.moved_bytes);
                if u128::from(moved) != planned {
                    return Err(format!("{moved} bytes moved, {planned} were planned"));
                }
                let got = got.iter().map(to_reference).collect();
                equal(program, comparable(want), comparable(got))
                    .map_err(|e| format!("{e} (on {devices} devices)"))?;
                Ok(Outcome::Ran)
            }
            (Err(_), Err(_)) => Ok(Outcome::Fails),
            (Ok(_), Err(e)) => Err(format!("the runtime alone fails: {e}")),
            (Err(e), Ok(_)) => Err(format!("the reference alone fails: {e}")),
        }
    }
}

fn placed(graph: &BoundGraph, devices: u32, rng: &mut Rng) -> Result<Plan, String> {
    if rng.chance(3) {
        return Ok(random_plan(graph, devices, rng.below(1 << 30) as u64));
    }
    let options = PlanOptions {
        objective: rng.one_of(&[Objective::Placed, Objective::Communication]),
        residency: rng.one_of(&[Residency::AsNeeded, Residency::Sharded]),
        ..PlanOptions::default()
    };
    plan(graph, &Cluster::cpus(devices), &options).map_err(|e| format!("no plan: {e}"))
}

/// Small whole numbers for every input, those of `u32` from 0 to 3.
fn inputs(graph: &BoundGraph, rng: &mut Rng) -> BTreeMap<Arc<str>, RefTensor> {
    let most = LARGEST as i64;
    let mut inputs = BTreeMap::new();
    for (id, node) in graph.ids() {
        if node.role().is_none() {
            continue;
        }
        let shape = graph.shape(id).to_vec();
        let count: usize = shape.iter().product();
        let mut number = || match node.dtype {
            DType::Bool => rng.below(2) as i64,
            DType::U32 | DType::U8 => rng.below(4) as i64,
            _ => rng.below(2 * most as usize + 1) as i64 - most,
        };
        let values = (0..count).map(|_| Value::Int(number())).collect();
        let tensor = RefTensor::new(node.dtype, shape, values).expect("as many as the shape has");
        inputs.insert(node.name.clone(), tensor);
    }
    inputs
}

type Named = BTreeMap<String, Tensor>;

/// Weights, and what each run is given.
fn split(graph: &BoundGraph, inputs: &BTreeMap<Arc<str>, RefTensor>) -> (Named, Named) {
    let all = inputs.iter().map(|(n, t)| (n.to_string(), to_runtime(t)));
    all.partition(|(name, _)| {
        let mut nodes = graph.nodes().iter();
        let input = nodes.find(|n| n.role().is_some() && *n.name == **name);
        input.is_some_and(|n| n.role() != Some(Role::Data))
    })
}

/// Are the results as near as they must be?
fn equal(program: &Program, want: Vec<RefTensor>, got: Vec<RefTensor>) -> Result<(), String> {
    let errors = program.errors.iter().chain(std::iter::repeat(&0.0));
    for (at, ((want, got), error)) in want.iter().zip(&got).zip(errors).enumerate() {
        if (want.shape(), want.dtype()) != (got.shape(), got.dtype()) {
            return Err(format!("result {at} has another type"));
        }
        for (place, (want, got)) in want.data().iter().zip(got.data()).enumerate() {
            let (x, y) = (want.as_f64(), got.as_f64());
            if want != got && (x - y).abs() <= 4.0 * error {
                continue;
            }
            if want != got {
                return Err(format!(
                    "result {at} is another: at {place} it is {y}, not {x} (within {error:e})"
                ));
            }
        }
    }
    Ok(())
}
