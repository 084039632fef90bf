//! What runs a compiled graph: memory domains of the CPU, or GPUs.

use std::collections::BTreeMap;
use std::sync::Arc;

use eindecomp_core::graph::BoundGraph;
use eindecomp_core::task::TaskGraph;
use eindecomp_runtime::backend::cuda::GpuExecutor;
use eindecomp_runtime::{Executor, RunError, Tensor, TensorSource, Trace, Traffic};

use crate::session::Shared;

/// An executor.
pub(crate) enum Runner {
    Cpu(Box<Executor>),
    Gpus(Box<GpuExecutor>),
}

impl Runner {
    /// On the devices of a session.
    pub fn new(
        shared: &Shared,
        graph: Arc<BoundGraph>,
        tasks: Arc<TaskGraph>,
    ) -> Result<Runner, RunError> {
        if let Some(gpus) = &shared.gpus {
            let executor = GpuExecutor::new(graph, tasks, gpus.clone())?;
            return Ok(Runner::Gpus(Box::new(executor)));
        }
        let (workers, memory) = (shared.workers.clone(), shared.memory);
        let executor = Executor::across(graph, tasks, workers, memory, shared.ranks())?;
        Ok(Runner::Cpu(Box::new(executor)))
    }

    /// Bytes of weights that its devices are given.
    pub fn weight_bytes(&self) -> u64 {
        match self {
            Runner::Cpu(executor) => executor.weight_bytes(),
            Runner::Gpus(executor) => executor.weight_bytes(),
        }
    }

    pub fn load<T: TensorSource>(
        &mut self,
        weights: &BTreeMap<String, T>,
    ) -> Result<Traffic, RunError> {
        match self {
            Runner::Cpu(executor) => executor.load(weights),
            Runner::Gpus(executor) => executor.load(weights),
        }
    }

    pub fn run(
        &mut self,
        inputs: &BTreeMap<String, Tensor>,
    ) -> Result<(Vec<Tensor>, Trace), RunError> {
        match self {
            Runner::Cpu(executor) => executor.run(inputs, false),
            Runner::Gpus(executor) => executor.run(inputs),
        }
    }

    pub fn run_into(
        &mut self,
        inputs: &BTreeMap<String, Tensor>,
        outputs: &mut [Tensor],
    ) -> Result<Trace, RunError> {
        match self {
            Runner::Cpu(executor) => executor.run_into(inputs, outputs, false),
            Runner::Gpus(executor) => executor.run_into(inputs, outputs),
        }
    }

    pub fn outputs(&self) -> Vec<Tensor> {
        match self {
            Runner::Cpu(executor) => executor.outputs(),
            Runner::Gpus(executor) => executor.outputs(),
        }
    }

    pub fn states(&self) -> Result<BTreeMap<String, Tensor>, RunError> {
        match self {
            Runner::Cpu(executor) => Ok(executor.states()),
            Runner::Gpus(executor) => executor.states(),
        }
    }

    pub fn set_states(&mut self, states: &BTreeMap<String, Tensor>) -> Result<(), RunError> {
        match self {
            Runner::Cpu(executor) => executor.set_states(states),
            Runner::Gpus(executor) => executor.set_states(states),
        }
    }
}
