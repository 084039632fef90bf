//! The runner of kernels for GPUs: their text compiled as C++, one task after the other.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Instant;

use eindecomp_core::graph::BoundGraph;
use eindecomp_core::pass::Pipeline;
use eindecomp_core::plan::testing::random_plan;
use eindecomp_core::task::lower::lower;
use eindecomp_runtime::backend::cuda::call::Module;
use eindecomp_runtime::backend::cuda::twin::Twin;

use crate::cases::{Case, Program, Work};
use crate::expect::Output;
use crate::runner::Runner;
use crate::support::gpu::{Prepared, compiles};

/// Plans of one graph: numbers of devices.
const DEVICES: [u32; 3] = [1, 2, 4];
/// One of so many cases runs, unless `EVERY_CASE` is set.
const SAMPLE: usize = 5;
/// Points of an iteration space above which a case is left to machines that are faster.
const LARGE: f64 = 1e6;

/// Cases with their kernels, which are compiled together.
pub struct Gpu {
    devices: u32,
    twin: Arc<Twin>,
    /// By the address of the program, which stays where it is.
    programs: HashMap<usize, Result<Prepared, String>>,
}

fn key(program: &Program) -> usize {
    std::ptr::from_ref(program) as usize
}

/// One runner per number of devices.
///
/// # Errors
/// What the C++ compiler says.
pub fn runners(cases: &[Case]) -> Result<Vec<Gpu>, String> {
    let programs = cases.iter().flat_map(|case| match &case.work {
        Work::Run { program, .. } => std::slice::from_ref(&**program),
        Work::Equal(sides) => &sides[..],
        Work::Settled(_) => &[],
    });
    let every = std::env::var_os("EVERY_CASE").is_some();
    let programs = programs.filter(|p| p.space <= LARGE);
    let programs: Vec<&Program> = programs.step_by(if every { 1 } else { SAMPLE }).collect();
    let twin = Arc::new(Twin::default());
    let mut modules: Vec<Arc<Module>> = Vec::new();
    let runners = DEVICES.map(|devices| {
        let prepared = programs.iter().enumerate().map(|(seed, program)| {
            let prepared = prepare(program, devices, seed as u64);
            modules.extend(prepared.iter().flat_map(Prepared::modules));
            (key(program), prepared)
        });
        Gpu {
            devices,
            twin: twin.clone(),
            programs: prepared.collect(),
        }
    });
    let started = Instant::now();
    twin.compile(&modules)?;
    let distinct: HashSet<&Arc<Module>> = modules.iter().collect();
    let (count, seconds) = (distinct.len(), started.elapsed().as_secs_f32());
    println!("{count} modules of CUDA C compiled as C++ in {seconds:.1} s");
    if every {
        let started = Instant::now();
        let count = compiles(&modules);
        println!(
            "{count} modules compiled by NVRTC in {:.1} s",
            started.elapsed().as_secs_f32()
        );
    }
    Ok(runners.into())
}

/// The kernels of a graph: as a session makes it on one device, by a random plan on several.
fn prepare(program: &Program, devices: u32, seed: u64) -> Result<Prepared, String> {
    let mut graph: BoundGraph = program.graph.clone();
    if devices == 1 {
        graph = Pipeline::default().run(graph).map_err(|e| e.to_string())?.0;
    }
    let plan = random_plan(&graph, devices, seed);
    let tasks = lower(&graph, &plan).map_err(|e| e.to_string())?;
    Prepared::new(&Arc::new(graph), tasks)
}

impl Runner for Gpu {
    fn name(&self) -> String {
        format!("CUDA C as C++, p={}", self.devices)
    }

    fn runs(&self, program: &Program) -> bool {
        self.programs.contains_key(&key(program))
    }

    fn run(&self, program: &Program) -> Result<Vec<Output>, String> {
        let prepared = self.programs.get(&key(program));
        let prepared = prepared.ok_or("a case that was not prepared")?.as_ref()?;
        let outputs = prepared.run(&self.twin, &program.inputs, self.devices.into())?;
        let output = |t: &eindecomp_core::reference::RefTensor| Output {
            shape: t.shape().to_vec(),
            data: t.to_f64(),
        };
        Ok(outputs.iter().map(output).collect())
    }
}
