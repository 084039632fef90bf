//! What computes the outputs of a case.

use std::collections::BTreeMap;
use std::sync::Arc;

use eindecomp::{Cluster, EinGraph, GpuCluster, Launched, MemoryMode, Residency, Session};
use eindecomp_core::graph::{BoundGraph, GraphBuilder, Op, Pin, Role};
use eindecomp_core::pass::Pipeline;
use eindecomp_core::reference;
use eindecomp_runtime::backend::cuda::Gpus;
use eindecomp_runtime::backend::cuda::fake::{CpuKernels, Fake};
use eindecomp_runtime::{Data, Tensor};

use crate::cases::Program;
use crate::expect::Output;
use crate::support::{to_reference, to_runtime};

/// Numbers of blocks by label.
pub type Parts = BTreeMap<String, u32>;

/// Something that computes the outputs of a graph.
pub trait Runner: Sync {
    /// What reports call it.
    fn name(&self) -> String;

    /// Does it run the program?
    fn runs(&self, _program: &Program) -> bool {
        true
    }

    /// The outputs, in order.
    ///
    /// # Errors
    /// The runner's own error, as text.
    fn run(&self, program: &Program) -> Result<Vec<Output>, String>;

    /// The outputs with the named labels cut in so many blocks in every statement that has them;
    /// `None` if the runner does not cut.
    fn run_partitioned(
        &self,
        _program: &Program,
        _parts: &Parts,
    ) -> Option<Result<Vec<Output>, String>> {
        None
    }
}

/// Every runner, in the order of the report: the reference first, which the others are held to.
///
/// # Errors
/// Worker threads that could not be started.
pub fn runners() -> Result<Vec<Box<dyn Runner>>, eindecomp::Error> {
    let mut all: Vec<Box<dyn Runner>> = vec![Box::new(Reference)];
    if let Ok(devices) = std::env::var("EINDECOMP_GPUS") {
        for devices in devices.split(',').filter_map(|n| n.trim().parse().ok()) {
            all.push(Box::new(VirtualGpus(Cluster::gpu_virtual(devices)?)));
        }
        return Ok(all);
    }
    if std::env::var_os("EINDECOMP_ORDERS").is_some() {
        all.extend(gpus());
        return Ok(all);
    }
    for devices in [1, 2, 3, 4, 8] {
        for memory in MemoryMode::ALL {
            all.push(Box::new(Runtime::new(devices, memory, Role::Data)?));
        }
    }
    all.push(Box::new(Runtime::new(
        4,
        MemoryMode::Private,
        Role::Weight,
    )?));
    all.extend(gpus());
    Ok(all)
}

/// The interpreter; products of many operands are ordered first where they would take too long.
struct Reference;

/// Points of an iteration space above which the reference needs an order.
const LARGE: f64 = 1e7;

impl Runner for Reference {
    fn name(&self) -> String {
        "reference".into()
    }

    fn run(&self, program: &Program) -> Result<Vec<Output>, String> {
        let mut graph = program.graph.clone();
        if program.space > LARGE {
            graph = Pipeline::default().run(graph).map_err(|e| e.to_string())?.0;
        }
        let outputs = reference::run(&graph, &program.inputs).map_err(|e| e.to_string())?;
        let output = |t: &reference::RefTensor| Output {
            shape: t.shape().to_vec(),
            data: t.to_f64(),
        };
        Ok(outputs.iter().map(output).collect())
    }
}

/// A session on so many devices: passes, planner, lowering, executor.
struct Runtime {
    devices: u32,
    memory: MemoryMode,
    /// What the inputs are to the session; weights are sharded.
    role: Role,
    session: Session,
}

fn session(devices: u32, memory: MemoryMode) -> Result<Session, eindecomp::Error> {
    Session::builder()
        .cluster(Cluster::cpus(devices))
        .memory(memory)
        .residency(Residency::Sharded)
        .workers(2)
        .no_cache()
        .build()
}

impl Runtime {
    fn new(devices: u32, memory: MemoryMode, role: Role) -> Result<Runtime, eindecomp::Error> {
        Ok(Runtime {
            devices,
            memory,
            role,
            session: session(devices, memory)?,
        })
    }
}

/// Virtual devices of a real GPU.
struct VirtualGpus(GpuCluster);

impl Runner for VirtualGpus {
    fn name(&self) -> String {
        format!("p={} virtual GPUs", self.0.cluster().devices())
    }

    fn run(&self, program: &Program) -> Result<Vec<Output>, String> {
        let graph = rebuilt(&program.graph, Role::Data, &Parts::new())?;
        Session::builder()
            .cluster(self.0.clone())
            .residency(Residency::Sharded)
            .workers(1)
            .no_cache()
            .build()
            .and_then(|session| outputs(&session, Role::Data, graph, program))
            .map_err(|e| e.to_string())
    }
}

/// Fake GPUs that do what streams and events permit in a random order: a few of the 1,000 orders that a campaign
/// tries each case in (`EINDECOMP_ORDERS`), on 1, 2, 4 and 8 of them.
fn gpus() -> Vec<Box<dyn Runner>> {
    let orders = std::env::var("EINDECOMP_ORDERS")
        .ok()
        .and_then(|n| n.parse().ok());
    let devices: &[u32] = if orders.is_some() {
        &[1, 2, 4, 8]
    } else {
        &[2, 4]
    };
    let gpus = |&devices: &u32| -> Box<dyn Runner> {
        Box::new(FakeGpus {
            devices,
            linked: devices != 4,
            orders: orders.unwrap_or(1),
        })
    };
    devices.iter().map(gpus).collect()
}

struct FakeGpus {
    devices: u32,
    linked: bool,
    orders: u64,
}

impl FakeGpus {
    /// All orders, which must give the same bits.
    fn run_on(
        &self,
        devices: u32,
        graph: &EinGraph,
        program: &Program,
    ) -> Result<Vec<Output>, String> {
        let kernels = Arc::new(CpuKernels::default());
        let fake = Fake::new(devices, 1 << 36, self.linked, 0, kernels.clone());
        let gpus = Gpus {
            driver: Arc::new(fake),
            generator: kernels,
        };
        let run = || -> Result<Vec<Vec<Output>>, eindecomp::Error> {
            let session = Session::builder()
                .cluster(GpuCluster::new(gpus, Cluster::cpus(devices)))
                .residency(Residency::Sharded)
                .workers(1)
                .no_cache()
                .build()?;
            let mut compiled = session.compile_graph(graph.clone(), BTreeMap::new())?;
            // each run is in another order
            (0..self.orders)
                .map(|_| ran(&mut compiled, Role::Data, program))
                .collect()
        };
        let mut all = run().map_err(|e| e.to_string())?;
        let bits = |outputs: &[Output]| -> Vec<u64> {
            let numbers = outputs.iter().flat_map(|o| &o.data);
            numbers.map(|x| x.to_bits()).collect()
        };
        let first = all.pop().ok_or("no order")?;
        match all.iter().position(|other| bits(other) != bits(&first)) {
            Some(order) => Err(format!("order {order} gives other bits")),
            None => Ok(first),
        }
    }
}

impl Runner for FakeGpus {
    fn name(&self) -> String {
        let links = if self.linked { "linked" } else { "by the host" };
        format!("p={} fake GPUs, {links}", self.devices)
    }

    fn run(&self, program: &Program) -> Result<Vec<Output>, String> {
        let graph = rebuilt(&program.graph, Role::Data, &Parts::new())?;
        self.run_on(self.devices, &graph, program)
    }

    fn run_partitioned(
        &self,
        program: &Program,
        parts: &Parts,
    ) -> Option<Result<Vec<Output>, String>> {
        let run = || {
            let graph = rebuilt(&program.graph, Role::Data, parts)?;
            let blocks = graph.nodes().iter().map(|n| blocks(&n.pins));
            let devices = blocks.max().unwrap_or(1).max(self.devices);
            self.run_on(devices, &graph, program)
        };
        Some(run())
    }
}

/// What a session makes of a program's inputs, given as `role`.
pub fn outputs(
    session: &Session,
    role: Role,
    graph: EinGraph,
    program: &Program,
) -> Result<Vec<Output>, eindecomp::Error> {
    let mut compiled = session.compile_graph(graph, BTreeMap::new())?;
    ran(&mut compiled, role, program)
}

/// The outputs of a compiled program, which is given its inputs as `role`.
fn ran(
    compiled: &mut eindecomp::Program,
    role: Role,
    program: &Program,
) -> Result<Vec<Output>, eindecomp::Error> {
    let tensors = program.inputs.iter();
    let tensors: BTreeMap<String, Tensor> = tensors
        .map(|(name, t)| (name.to_string(), to_runtime(t)))
        .collect();
    let mut results = match role {
        Role::Data => compiled.run(&tensors)?,
        _ => {
            compiled.load(tensors)?;
            compiled.run(&BTreeMap::new())?
        }
    };
    let outputs = compiled.graph().outputs().iter();
    Ok(outputs
        .filter_map(|o| results.remove(&*o.name))
        .map(numbers)
        .collect())
}

/// Moves f64 elements, of which a case may have many.
fn numbers(tensor: Tensor) -> Output {
    let (shape, data) = tensor.into_parts();
    let data = match data {
        Data::F64(elements) => elements,
        data => {
            let tensor = Tensor::new(shape.clone(), data);
            tensor.map_or(Vec::new(), |t| to_reference(&t).to_f64())
        }
    };
    Output { shape, data }
}

impl Runner for Runtime {
    fn name(&self) -> String {
        let memory = match self.memory {
            MemoryMode::Arena => "arena",
            MemoryMode::Shared => "shared",
            MemoryMode::Private => "private",
        };
        let weights = match self.role {
            Role::Data => "",
            _ => ", inputs as sharded weights",
        };
        format!("p={} {memory}{weights}", self.devices)
    }

    fn run(&self, program: &Program) -> Result<Vec<Output>, String> {
        let graph = rebuilt(&program.graph, self.role, &Parts::new())?;
        outputs(&self.session, self.role, graph, program).map_err(|e| e.to_string())
    }

    /// On this runner's devices, or on more if that many blocks need them.
    fn run_partitioned(
        &self,
        program: &Program,
        parts: &Parts,
    ) -> Option<Result<Vec<Output>, String>> {
        let run = || {
            let graph = rebuilt(&program.graph, self.role, parts)?;
            let blocks = graph.nodes().iter().map(|n| blocks(&n.pins));
            let devices = blocks.max().unwrap_or(1).max(self.devices);
            session(devices, self.memory)
                .and_then(|session| outputs(&session, self.role, graph, program))
                .map_err(|e| e.to_string())
        };
        Some(run())
    }
}

fn blocks(pins: &[Pin]) -> u32 {
    let split = |pin: &Pin| match pin {
        Pin::Split(_, parts) => *parts,
        Pin::Whole | Pin::Owner { .. } => 1,
    };
    pins.iter().map(split).product()
}

/// The same statements over inputs of another role, with labels pinned to numbers of blocks: no
/// more than their elements.
pub fn rebuilt(graph: &BoundGraph, role: Role, parts: &Parts) -> Result<EinGraph, String> {
    let mut new = GraphBuilder::like(graph.graph());
    for (id, node) in graph.ids() {
        let name = node.name.clone();
        let added = match &node.op {
            Op::Input(_) => new.input(name, role, node.dtype, node.shape.clone()),
            Op::EinSum(e) => {
                let labels = e.labels.iter().zip(graph.label_extents(id));
                let pin = |(label, &extent): (&eindecomp_core::ein::Label, &usize)| {
                    let parts = *parts.get(&*label.name)?;
                    Some(Pin::Split(
                        Arc::clone(&label.name),
                        parts.min(extent.max(1) as u32),
                    ))
                };
                new.einsum(name, e.clone(), labels.filter_map(pin).collect())
            }
        };
        added.map_err(|e| e.to_string())?;
    }
    for output in graph.outputs() {
        new.output(output.name.clone(), output.node)
            .map_err(|e| e.to_string())?;
    }
    new.finish().map_err(|e| e.to_string())
}
