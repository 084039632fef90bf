//! One program, from text to results.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use eindecomp_core::ein::access::splittable;
use eindecomp_core::ein::{DType, Value};
use eindecomp_core::graph::from_syntax::{Context, NoForeign, block_graph_with};
use eindecomp_core::graph::testing::Rng;
use eindecomp_core::graph::{BoundGraph, Node, NodeId, Pin, Role};
use eindecomp_core::plan::planner::{Objective, PlanError, PlanOptions, plan};
use eindecomp_core::plan::testing::random_plan;
use eindecomp_core::plan::{Cluster, Plan, Residency};
use eindecomp_core::reference::{self, RefTensor};
use eindecomp_core::syntax::{check, parse_text};
use eindecomp_core::task::TaskGraph;
use eindecomp_core::task::lower::lower;
use eindecomp_core::task::verify::verify;
use eindecomp_runtime::backend::cuda::fake::{CpuKernels, Fake};
use eindecomp_runtime::backend::cuda::{GpuExecutor, Gpus};
use eindecomp_runtime::{Executor, MemoryMode, RunError, Tensor, Trace, Workers};

use crate::programs::generate::{LARGEST, Program};
use crate::programs::kernels::KERNELS;
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
            lines: None,
        };
        let graph = block_graph_with(&checked, "main", &mut context)
            .map_err(|e| format!("accepted, but no graph: {}", e[0]))?;
        let given = KERNELS.into_iter();
        let graph = given.fold(graph, |graph, (name, kernel)| {
            graph.with_kernel(name, kernel)
        });
        graph.verify().map_err(|e| format!("graph: {e:?}"))?;
        let graph = match graph.bind(&program.dims) {
            Ok(graph) => Arc::new(graph),
            Err(_) => return Ok(Outcome::Unbound),
        };
        let mut rng = Rng::new(seed ^ 0x5eed);
        let devices = 1 + rng.below(8) as u32;
        let mut modes: Vec<Option<MemoryMode>> = MemoryMode::ALL.map(Some).into();
        // GPUs, which run no kernel of the host.
        let opaque = |(_, node): (_, &Node)| node.einsum().is_some_and(|e| e.opaque().is_some());
        if !graph.ids().any(opaque) {
            modes.push(None);
        }
        let mode = rng.one_of(&modes);
        let plan = placed(&graph, devices, &mut rng)?;
        let tasks = lower(&graph, &plan).map_err(|e| format!("tasks: {e}"))?;
        verify(&graph, &plan, &tasks).map_err(|e| format!("tasks do not verify: {e}"))?;
        let (workers, tasks) = (self.workers.clone(), Arc::new(tasks));
        let executor = match mode {
            Some(mode) => {
                Executor::new(graph.clone(), tasks, workers, mode).map(|e| On::Cpu(Box::new(e)))
            }
            None => on_gpus(&graph, tasks, seed),
        };
        let mut executor = executor.map_err(|e| format!("executor: {e}"))?;
        let weights = inputs(&graph, program, Role::Weight, &mut rng);
        executor
            .load(&runtime(&weights))
            .map_err(|e| format!("weights: {e}"))?;
        // Without a state every run is the same.
        let stateful = graph.states().next().is_some();
        let runs = if stateful { 4 } else { 1 };
        let (mut states, mut failed) = (BTreeMap::new(), false);
        for run in 0..runs {
            if stateful && rng.chance(4) {
                states = zeros(&graph);
                reset(&mut executor, &states)?;
            }
            let data = inputs(&graph, program, Role::Data, &mut rng);
            let all = data.iter().chain(&weights);
            let all = all.map(|(n, t)| (n.clone(), t.clone())).collect();
            let want = reference::step(&graph, &all, &mut states);
            match (want, executor.run(&runtime(&data))) {
                (Ok(want), Ok((got, trace))) => {
                    let (moved, planned) = (trace.traffic.moved().total(), plan.moved_bytes);
                    if u128::from(moved) != planned {
                        return Err(format!("{moved} bytes moved, {planned} were planned"));
                    }
                    let got = got.iter().map(to_reference).collect();
                    equal(program, comparable(want), comparable(got))
                        .map_err(|e| format!("{e} (run {run} on {devices} devices)"))?;
                }
                (Err(_), Err(_)) => {
                    failed = true;
                    if !executor.has_states() {
                        let lost = executor.run(&runtime(&data));
                        if !matches!(lost, Err(RunError::StateLost)) {
                            return Err("it runs on lost states".into());
                        }
                        if states.is_empty() {
                            states = zeros(&graph);
                        }
                        reset(&mut executor, &states)?;
                    }
                }
                (Ok(_), Err(e)) => return Err(format!("the runtime alone fails: {e}")),
                (Err(e), Ok(_)) => return Err(format!("the reference alone fails: {e}")),
            }
            if !states.is_empty() {
                same_states(&states, &executor)?;
            }
        }
        Ok(match failed {
            true => Outcome::Fails,
            false => Outcome::Ran,
        })
    }
}

/// What runs a program: memory of the CPU, or GPUs that are none.
enum On {
    Cpu(Box<Executor>),
    Gpus(Box<GpuExecutor>),
}

fn on_gpus(graph: &Arc<BoundGraph>, tasks: Arc<TaskGraph>, seed: u64) -> Result<On, RunError> {
    let kernels = Arc::new(CpuKernels::default());
    let (devices, linked) = (tasks.devices, seed.is_multiple_of(2));
    let gpus = Gpus {
        driver: Arc::new(Fake::new(devices, 1 << 32, linked, seed, kernels.clone())),
        generator: kernels,
    };
    let executor = GpuExecutor::new(graph.clone(), tasks, gpus)?;
    Ok(On::Gpus(Box::new(executor)))
}

type Given = BTreeMap<String, Tensor>;

impl On {
    fn load(&mut self, weights: &Given) -> Result<(), RunError> {
        match self {
            On::Cpu(executor) => executor.load(weights),
            On::Gpus(executor) => executor.load(weights),
        }
        .map(|_| ())
    }

    fn run(&mut self, data: &Given) -> Result<(Vec<Tensor>, Trace), RunError> {
        match self {
            On::Cpu(executor) => executor.run(data, false),
            On::Gpus(executor) => executor.run(data),
        }
    }

    fn states(&self) -> Result<Given, RunError> {
        match self {
            On::Cpu(executor) => Ok(executor.states()),
            On::Gpus(executor) => executor.states(),
        }
    }

    fn set_states(&mut self, states: &Given) -> Result<(), RunError> {
        match self {
            On::Cpu(executor) => executor.set_states(states),
            On::Gpus(executor) => executor.set_states(states),
        }
    }

    fn has_states(&self) -> bool {
        match self {
            On::Cpu(executor) => executor.has_states(),
            On::Gpus(executor) => executor.has_states(),
        }
    }
}

/// Gives the states these values.
fn reset(executor: &mut On, states: &Inputs) -> Result<(), String> {
    let reset = executor.set_states(&runtime(states));
    reset.map_err(|e| format!("states: {e}"))
}

/// The states as they are at first.
fn zeros(graph: &BoundGraph) -> Inputs {
    let zero = |id| {
        let (node, shape) = (graph.node(id), graph.shape(id).to_vec());
        let values = vec![0; shape.iter().product()];
        let zeros = RefTensor::from_i64(node.dtype, shape, &values);
        (node.name.clone(), zeros.expect("as many as the shape has"))
    };
    graph.states().map(|(id, _)| zero(id)).collect()
}

/// Are the states those of the reference?
fn same_states(states: &Inputs, executor: &On) -> Result<(), String> {
    let now = executor.states().map_err(|e| format!("states: {e}"))?;
    for (name, want) in states {
        let got = now.get(&**name).map(|t| comparable(vec![to_reference(t)]));
        if got != Some(comparable(vec![want.clone()])) {
            return Err(format!("state {name} is another"));
        }
    }
    Ok(())
}

fn placed(graph: &BoundGraph, devices: u32, rng: &mut Rng) -> Result<Plan, String> {
    let random = rng.below(1 << 30) as u64;
    if rng.chance(3) {
        return Ok(random_plan(graph, devices, random));
    }
    let options = PlanOptions {
        objective: rng.one_of(&[Objective::Placed, Objective::Communication]),
        residency: rng.one_of(&[Residency::AsNeeded, Residency::Sharded]),
        ..PlanOptions::default()
    };
    match plan(graph, &Cluster::cpus(devices), &options) {
        Ok(plan) => {
            let broken = graph.ids().find(|(id, _)| !keeps_pins(graph, *id, &plan));
            match broken {
                Some((_, node)) => Err(format!("the plan breaks a pin of {}", node.name)),
                None => Ok(plan),
            }
        }
        Err(PlanError::Pins { tensor, .. })
            if graph
                .ids()
                .any(|(id, node)| node.name == tensor && impossible(graph, id, devices)) =>
        {
            Ok(random_plan(graph, devices, random))
        }
        Err(e) => Err(format!("no plan: {e}")),
    }
}

/// The pins of a vertex that split, by the position of the label.
fn splits(graph: &BoundGraph, id: NodeId) -> Vec<(usize, u32)> {
    let node = graph.node(id);
    let Some(e) = node.einsum() else {
        return Vec::new();
    };
    let label = |name: &str| e.labels.iter().position(|l| *l.name == *name);
    let split = |pin: &Pin| match pin {
        Pin::Split(name, parts) => Some((label(name)?, *parts)),
        Pin::Whole | Pin::Owner { .. } => None,
    };
    node.pins.iter().filter_map(split).collect()
}

fn keeps_pins(graph: &BoundGraph, id: NodeId, plan: &Plan) -> bool {
    let Some(join) = &plan.nodes[id.at()].join else {
        return true;
    };
    let whole = graph.node(id).pins.contains(&Pin::Whole);
    let splits = splits(graph, id);
    splits
        .iter()
        .all(|&(label, parts)| join.parts[label] == parts)
        && (!whole || join.parts.iter().all(|&parts| parts == 1))
}

/// Can no plan keep the pins of the vertex?
fn impossible(graph: &BoundGraph, id: NodeId, devices: u32) -> bool {
    let (splits, extents) = (splits(graph, id), graph.label_extents(id));
    let may = graph.node(id).einsum().map(splittable).unwrap_or_default();
    let cannot = |&(label, parts): &(usize, u32)| {
        parts as usize > extents[label].max(1) || (parts > 1 && !may[label])
    };
    let tuples: u32 = splits.iter().map(|s| s.1).product();
    tuples > devices || splits.iter().any(cannot)
}

/// Small whole numbers for every input of a role, those of `u32` from 0 to 3; positions are inside,
/// with few exceptions.
fn inputs(graph: &BoundGraph, program: &Program, role: Role, rng: &mut Rng) -> Inputs {
    let most = LARGEST as i64;
    let mut inputs = BTreeMap::new();
    for (id, node) in graph.ids() {
        if node.role() != Some(role) {
            continue;
        }
        let shape = graph.shape(id).to_vec();
        let count: usize = shape.iter().product();
        let mut number = || match (node.dtype, program.positions.get(&node.name)) {
            (DType::I64 | DType::I32, Some(_)) if rng.chance(40) => -1,
            (_, Some(Some(room))) => {
                rng.below(*room as usize + 1) as i64 + i64::from(rng.chance(40))
            }
            (DType::U32, Some(None)) => rng.below(20) as i64,
            (_, Some(None)) => rng.below(40) as i64 - 20,
            (DType::Bool, _) => rng.below(2) as i64,
            (DType::U32 | DType::U8, _) => rng.below(4) as i64,
            _ => rng.below(2 * most as usize + 1) as i64 - most,
        };
        let values = (0..count).map(|_| Value::Int(number())).collect();
        let tensor = RefTensor::new(node.dtype, shape, values).expect("as many as the shape has");
        inputs.insert(node.name.clone(), tensor);
    }
    inputs
}

type Inputs = BTreeMap<Arc<str>, RefTensor>;

fn runtime(inputs: &Inputs) -> BTreeMap<String, Tensor> {
    let all = inputs.iter();
    all.map(|(n, t)| (n.to_string(), to_runtime(t))).collect()
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
