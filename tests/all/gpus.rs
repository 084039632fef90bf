//! The host side of GPUs on an executing fake: random graphs × plans × devices × links × orders that streams and
//! events permit ≡ reference; no event may be left out; what fails is told.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use eindecomp::{Error, GpuCluster, Launched as _};
use eindecomp_core::graph::testing::{Sample, random_graph};
use eindecomp_core::graph::{BoundGraph, EinGraph, Role};
use eindecomp_core::plan::testing::random_plan;
use eindecomp_core::plan::{Cluster, Plan, PlanOptions, plan};
use eindecomp_core::reference::{self, RefTensor};
use eindecomp_core::task::TaskGraph;
use eindecomp_core::task::lower::lower;
use eindecomp_core::task::traffic::moved_bytes;
use eindecomp_runtime::backend::cuda::call::Module;
use eindecomp_runtime::backend::cuda::driver::{
    Address, Command, DeviceInfo, Driver, EventId, GpuError, GraphId, MemoryId, ModuleId, Op,
    Place, Resource, StreamId,
};
use eindecomp_runtime::backend::cuda::fake::{CpuKernels, Failure, Fake, Launched, Launcher};
use eindecomp_runtime::backend::cuda::twin::Twin;
use eindecomp_runtime::backend::cuda::vertex::Generator;
use eindecomp_runtime::backend::cuda::{CudaC, GpuExecutor, Gpus};
use eindecomp_runtime::{RunError, Tensor};
use proptest::prelude::*;

use crate::support::{comparable, config, to_reference, to_runtime};

/// Bytes of a fake device.
const MEMORY: u64 = 1 << 30;

type Inputs = BTreeMap<String, Tensor>;

/// The data and the weights of a sample.
fn given(graph: &BoundGraph, sample: &Sample) -> (Inputs, Inputs) {
    let is_data = |name: &str| {
        let mut nodes = graph.nodes().iter();
        nodes.any(|n| n.role() == Some(Role::Data) && &*n.name == name)
    };
    let all = sample.inputs.iter();
    all.map(|(n, t)| (n.to_string(), to_runtime(t)))
        .partition(|(n, _)| is_data(n))
}

/// Runs a plan on a driver, twice.
fn outputs(
    driver: Arc<dyn Driver>,
    kernels: Arc<dyn Generator>,
    (graph, tasks): (&Arc<BoundGraph>, &Arc<TaskGraph>),
    sample: &Sample,
    plan: &Plan,
) -> Result<Vec<Vec<RefTensor>>, RunError> {
    let gpus = Gpus {
        driver,
        generator: kernels,
    };
    let mut executor = GpuExecutor::new(graph.clone(), tasks.clone(), gpus)?;
    let (data, weights) = given(graph, sample);
    executor.load(&weights)?;
    let mut all = Vec::new();
    for _ in 0..2 {
        let (got, trace) = executor.run(&data)?;
        let received = trace.traffic.received.iter();
        let pairs: Vec<_> = received.map(|(&(a, b), m)| (a, b, m.total())).collect();
        let planned = moved_bytes(graph, plan.hierarchy, &plan.nodes).expect("a plan");
        assert_eq!(pairs, planned.iter().collect::<Vec<_>>(), "bytes");
        all.push(comparable(got.iter().map(to_reference).collect()));
    }
    Ok(all)
}

fn fake(devices: u32, linked: bool, seed: u64) -> (Fake, Arc<CpuKernels>) {
    let kernels = Arc::new(CpuKernels::default());
    let fake = Fake::new(devices, MEMORY, linked, seed, kernels.clone());
    (fake, kernels)
}

fn check(sample: &Sample, linked: bool, seed: u64, plan: impl Fn(&BoundGraph) -> Plan) {
    let graph = Arc::new(sample.bound());
    let plan = plan(&graph);
    let tasks = Arc::new(lower(&graph, &plan).expect("tasks"));
    let want = reference::run(&graph, &sample.inputs).map(comparable);
    let (fake, kernels) = fake(tasks.devices, linked, seed);
    let got = outputs(Arc::new(fake), kernels, (&graph, &tasks), sample, &plan);
    match (want, got) {
        (Ok(want), Ok(got)) => {
            let got = got.iter().enumerate();
            got.for_each(|(run, got)| assert_eq!(*got, want, "run {run} of\n{}", graph.graph()));
        }
        (Err(_), Err(RunError::Kernel { .. })) => {}
        (want, got) => panic!(
            "reference {want:?}, GPUs {got:?}\n{}\n{tasks}",
            graph.graph()
        ),
    }
}

proptest! {
    #![proptest_config(config(150))]

    #[test]
    fn any_plan_gives_the_reference_bits_in_any_order(
        seed: u64,
        statements in 1..6usize,
        devices in prop::sample::select(vec![1u32, 2, 4, 8]),
        linked: bool,
        order: u64,
    ) {
        check(&random_graph(seed, statements), linked, order, |graph| {
            plan(graph, &Cluster::cpus(devices), &PlanOptions::default()).expect("a plan")
        });
    }

    #[test]
    fn any_placement_gives_the_reference_bits_in_any_order(
        seed: u64,
        statements in 1..6usize,
        devices in 1..9u32,
        linked: bool,
        order: u64,
    ) {
        check(&random_graph(seed, statements), linked, order, |graph| random_plan(graph, devices, seed));
    }
}

/// A driver that leaves out one wait of the list of a run, if there is one of that number.
struct Without {
    fake: Fake,
    wait: usize,
    found: Arc<AtomicBool>,
}

impl Driver for Without {
    fn devices(&self) -> &[DeviceInfo] {
        self.fake.devices()
    }
    fn allocate(&self, place: Place, bytes: u64) -> Result<MemoryId, GpuError> {
        self.fake.allocate(place, bytes)
    }
    fn module(&self, device: u32, module: &Module) -> Result<ModuleId, GpuError> {
        self.fake.module(device, module)
    }
    fn stream(&self, device: u32) -> Result<StreamId, GpuError> {
        self.fake.stream(device)
    }
    fn event(&self, device: u32) -> Result<EventId, GpuError> {
        self.fake.event(device)
    }
    fn submit(&self, commands: &[Command]) -> Result<(), GpuError> {
        self.fake.submit(commands)
    }
    fn instantiate(&self, origin: StreamId, commands: &[Command]) -> Result<GraphId, GpuError> {
        let mut fewer = commands.to_vec();
        let waits = commands.iter().enumerate();
        let mut waits = waits.filter(|(_, c)| matches!(c.op, Op::Wait(_)));
        if let Some((at, _)) = waits.nth(self.wait) {
            fewer.remove(at);
            self.found.store(true, Ordering::Relaxed);
        }
        self.fake.instantiate(origin, &fewer)
    }
    fn replay(&self, graph: GraphId) -> Result<(), GpuError> {
        self.fake.replay(graph)
    }
    fn synchronise(&self, stream: StreamId) -> Result<(), GpuError> {
        self.fake.synchronise(stream)
    }
    fn write(&self, to: Address, bytes: &[u8]) -> Result<(), GpuError> {
        self.fake.write(to, bytes)
    }
    fn read(&self, from: Address, bytes: &mut [u8]) -> Result<(), GpuError> {
        self.fake.read(from, bytes)
    }
    fn release(&self, resource: Resource) {
        self.fake.release(resource)
    }
}

/// Orders that a list without one wait is tried in.
const ORDERS: u64 = 3;

/// How many waits a plan has; each is left out in turn.
fn needed(sample: &Sample, devices: u32, linked: bool, seed: u64) -> usize {
    let graph = Arc::new(sample.bound());
    let plan = random_plan(&graph, devices, seed);
    let tasks = Arc::new(lower(&graph, &plan).expect("tasks"));
    let Ok(want) = reference::run(&graph, &sample.inputs).map(comparable) else {
        return 0;
    };
    for wait in 0.. {
        let found = Arc::new(AtomicBool::new(false));
        let differs = |order: u64| {
            let (fake, kernels) = fake(tasks.devices, linked, order);
            let found = found.clone();
            let driver = Without { fake, wait, found };
            let got = outputs(Arc::new(driver), kernels, (&graph, &tasks), sample, &plan);
            !got.is_ok_and(|got| got.iter().all(|got| *got == want))
        };
        let noticed = (0..ORDERS).any(differs);
        if !found.load(Ordering::Relaxed) {
            assert!(!noticed, "no wait is left out");
            return wait;
        }
        assert!(
            noticed,
            "nobody misses wait {wait} of seed {seed} on {devices}, {linked}:\n{}\n{tasks}",
            graph.graph()
        );
    }
    0
}

/// Of something that is counted by the case, as many as a campaign asks for, else `sample`.
fn campaign(sample: u64) -> u64 {
    let cases = std::env::var("PROPTEST_CASES")
        .ok()
        .and_then(|n| n.parse().ok());
    cases.unwrap_or(sample)
}

#[test]
fn no_event_is_left_out_unnoticed() {
    let mut all = 0;
    for seed in 0..campaign(6) {
        for devices in [1, 2, 4] {
            all += needed(&random_graph(seed, 4), devices, seed % 2 == 0, seed);
        }
    }
    println!("{all} waits, each left out");
    assert!(all > 400, "{all}");
}

/// A graph on two devices, and what becomes of it where something fails.
fn failing(failure: Failure) -> (Result<(), RunError>, u64) {
    let sample = random_graph(5, 4);
    let graph = Arc::new(sample.bound());
    let plan = random_plan(&graph, 2, 5);
    let tasks = Arc::new(lower(&graph, &plan).expect("tasks"));
    let (fake, kernels) = fake(2, true, 1);
    let fake = Arc::new(fake.failing(failure));
    let got = outputs(fake.clone(), kernels, (&graph, &tasks), &sample, &plan);
    (got.map(|_| ()), fake.bytes())
}

#[test]
fn what_fails_is_told_and_nothing_is_kept() {
    let (mut fine, mut failed) = (0, [0; 4]);
    for n in 0..60 {
        let all = [
            Failure::Allocation(n),
            Failure::Compilation(n),
            Failure::Launch(n),
            Failure::Command(n),
        ];
        for (kind, failure) in all.into_iter().enumerate() {
            let (got, kept) = failing(failure);
            assert_eq!(kept, 0, "{failure:?} keeps memory");
            match (failure, got) {
                (_, Ok(())) => fine += 1,
                (Failure::Allocation(_), Err(RunError::Gpu(GpuError::OutOfMemory { .. })))
                | (Failure::Compilation(_), Err(RunError::Gpu(GpuError::Compile { .. })))
                | (Failure::Launch(_), Err(RunError::Gpu(GpuError::Launch { .. })))
                | (Failure::Command(_), Err(RunError::Gpu(GpuError::Lost { .. }))) => {
                    failed[kind] += 1
                }
                (_, Err(other)) => panic!("{failure:?} gives {other}"),
            }
        }
    }
    // every allocation, module, both runs and every command fail once
    assert!(failed.iter().all(|n| *n >= 2) && fine > 0, "{failed:?}");
}

#[test]
fn memory_that_is_not_there_is_told() {
    let sample = random_graph(5, 4);
    let graph = Arc::new(sample.bound());
    let plan = random_plan(&graph, 2, 5);
    let tasks = Arc::new(lower(&graph, &plan).expect("tasks"));
    let kernels = Arc::new(CpuKernels::default());
    let small = Fake::new(2, 16, true, 0, kernels.clone());
    let got = outputs(
        Arc::new(small),
        kernels.clone(),
        (&graph, &tasks),
        &sample,
        &plan,
    );
    let text = got.expect_err("16 bytes").to_string();
    assert!(
        text.starts_with("device 0 has no") && text.ends_with("bytes left"),
        "{text}"
    );
    let one = Fake::new(1, MEMORY, true, 0, kernels.clone());
    let got = outputs(Arc::new(one), kernels, (&graph, &tasks), &sample, &plan);
    assert!(
        matches!(
            got,
            Err(RunError::TooFewDevices {
                planned: 2,
                given: 1
            })
        ),
        "{got:?}"
    );
}

/// Takes modules in, to compile them together.
#[derive(Default)]
struct Collected(Mutex<Vec<Arc<Module>>>);

impl Launcher for Collected {
    fn compile(&self, module: &Module) -> Result<(), String> {
        self.0.lock().unwrap().push(Arc::new(module.clone()));
        Ok(())
    }

    fn launch(&self, _: &Launched<'_>) -> Result<(), String> {
        Err("nothing is run here".into())
    }
}

/// Kernels of the generator, compiled as C++, on the fake: with their events, workspaces, copies and fault records.
#[test]
fn generated_kernels_run_in_any_order() {
    let collected = Arc::new(Collected::default());
    let cases = (0..6).map(|seed| {
        let sample = random_graph(seed, 3);
        let graph = Arc::new(sample.bound());
        let plan = random_plan(&graph, 1 + (seed % 4) as u32, seed);
        let tasks = Arc::new(lower(&graph, &plan).expect("tasks"));
        let fake = Fake::new(
            tasks.devices,
            MEMORY,
            seed % 2 == 0,
            seed,
            collected.clone(),
        );
        let gpus = Gpus {
            driver: Arc::new(fake),
            generator: Arc::new(CudaC),
        };
        GpuExecutor::new(graph.clone(), tasks.clone(), gpus).expect("modules");
        (seed, sample, graph, plan, tasks)
    });
    let cases: Vec<_> = cases.collect();
    let twin = Arc::new(Twin::default());
    twin.compile(&collected.0.lock().unwrap()).expect("C++");
    for (seed, sample, graph, plan, tasks) in cases {
        let fake = Fake::new(tasks.devices, MEMORY, seed % 2 == 0, seed, twin.clone());
        let want = reference::run(&graph, &sample.inputs).map(comparable);
        let got = outputs(
            Arc::new(fake),
            Arc::new(CudaC),
            (&graph, &tasks),
            &sample,
            &plan,
        );
        match (want, got) {
            (Ok(want), Ok(got)) => got.iter().for_each(|got| assert_eq!(*got, want, "{seed}")),
            (Err(_), Err(RunError::Kernel { .. })) => {}
            (want, got) => panic!("{seed}: reference {want:?}, GPUs {got:?}"),
        }
    }
}

#[test]
fn gpus_that_are_missing_are_told() {
    for found in [Cluster::gpus(), Cluster::gpu_virtual(4)] {
        match found {
            Ok(gpus) => assert!(gpus.cluster().devices() > 0),
            Err(Error::Gpus(missing)) => assert!(missing.is_absence(), "{missing}"),
            Err(other) => panic!("{other}"),
        }
    }
    assert!(Cluster::auto().is_ok());
}

/// On GPUs there is no Rust function: an error when the program is compiled, with the function's name.
#[test]
fn rust_functions_are_refused() {
    let text = "#[kernel = sorted] extern fn sort<dim N>(x: f32[N]) -> f32[N] splits();
        fn main<dim N>(x: f32[N]) -> f32[N] { let y = sort(x); y }";
    let graph = EinGraph::from_text(text, "main", &BTreeMap::new()).expect("a graph");
    let graph = Arc::new(
        graph
            .bind(&BTreeMap::from([("N".into(), 5)]))
            .expect("bound"),
    );
    let tasks = Arc::new(lower(&graph, &random_plan(&graph, 1, 0)).expect("tasks"));
    let gpus = Gpus {
        driver: Arc::new(fake(1, true, 0).0),
        generator: Arc::new(CudaC),
    };
    let error = GpuExecutor::new(graph, tasks, gpus)
        .err()
        .expect("no GPU has it");
    let text = error.to_string();
    let told = text.contains("`sort") && text.contains("runs on CPUs only");
    assert!(told, "{text}");
}

#[test]
fn figures_are_measured() {
    let memory = 1 << 24;
    let kernels = Arc::new(CpuKernels::default());
    let gpus = Gpus {
        driver: Arc::new(Fake::new(2, memory, false, 0, kernels.clone())),
        generator: kernels,
    };
    let measured = GpuCluster::measured(gpus).expect("figures");
    let cluster = measured.cluster();
    cluster.verify().expect("possible figures");
    assert_eq!(cluster.devices(), 2);
    assert_eq!(cluster.capacity(), memory / 16 * 15);
}
