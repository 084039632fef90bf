//! Runs a task graph on GPUs: one list of commands, instantiated once and replayed at every run.
//!
//! Inputs are put into fixed places of pinned host memory before a run, and results are taken from there
//! after it. What kernels find wrong with the data is read at the end, from the fault record of each device.

mod between;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

use eindecomp_core::ein::DType;
use eindecomp_core::graph::{BoundGraph, Role};
use eindecomp_core::plan::layout::Region;
use eindecomp_core::task::TaskGraph;

use crate::backend::cpu::copy;
use crate::backend::cuda::call::FAULT_WORDS;
use crate::backend::cuda::driver::{
    Address, Argument, Command, Driver, GpuError, GraphId, MemoryId, Op, Place, Resource, StreamId,
};
use crate::backend::cuda::order::commands;
use crate::backend::cuda::steps::{Block, Builder, FAULT_BYTES, Positions, Staged, Streams};
use crate::backend::cuda::traffic;
use crate::backend::cuda::vertex::{Generator, Vertex};
use crate::error::RunError;
use crate::executor::given;
use crate::executor::state::{first, written};
use crate::executor::{Planned, Ranks};

use crate::storage::{box_view, box_view_mut, host_view, host_view_mut};
use crate::tensor::{Data, Tensor};
use crate::trace::{Trace, Traffic};

/// GPUs that programs run on: a driver, and what makes kernels for it. Cheap to clone.
#[derive(Clone)]
pub struct Gpus {
    /// The driver.
    pub driver: Arc<dyn Driver>,
    /// The generator.
    pub generator: Arc<dyn Generator>,
}

impl std::fmt::Debug for Gpus {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.driver.devices()).finish()
    }
}

/// What is given back in the end, last first.
pub(super) struct Held {
    driver: Arc<dyn Driver>,
    resources: Vec<Resource>,
}

impl Held {
    /// Nothing yet.
    pub(super) fn new(gpus: &Gpus) -> Held {
        Held {
            driver: gpus.driver.clone(),
            resources: Vec::new(),
        }
    }

    pub(super) fn stream(&mut self, device: u32) -> Result<StreamId, GpuError> {
        let stream = self.driver.stream(device)?;
        self.resources.push(Resource::Stream(stream));
        Ok(stream)
    }

    pub(super) fn memory(&mut self, place: Place, bytes: u64) -> Result<MemoryId, GpuError> {
        let memory = self.driver.allocate(place, bytes)?;
        self.resources.push(Resource::Memory(memory));
        Ok(memory)
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        while let Some(resource) = self.resources.pop() {
            self.driver.release(resource);
        }
    }
}

/// A compiled graph with its memory on GPUs: runs again and again.
pub struct GpuExecutor {
    graph: Arc<BoundGraph>,
    tasks: Arc<TaskGraph>,
    gpus: Gpus,
    vertices: Vec<Option<Box<dyn Vertex>>>,
    /// What loads weights, and reads and sets states.
    take: Vec<StreamId>,
    arenas: Vec<MemoryId>,
    staging: MemoryId,
    loads: Vec<Staged>,
    gathers: Vec<Staged>,
    faults: Vec<u64>,
    positions: Vec<Positions>,
    traffic: Traffic,
    bytes: u64,
    origin: StreamId,
    list: GraphId,
    loaded: bool,
    /// A run failed that stores into states.
    lost: bool,
    /// Dropped last.
    _held: Held,
}

impl GpuExecutor {
    /// Compiles the kernels, allocates the memory of every device, and makes the list that all runs replay.
    ///
    /// # Errors
    /// [`RunError::Compile`], [`RunError::Gpu`], [`RunError::TooFewDevices`].
    pub fn new(
        graph: Arc<BoundGraph>,
        tasks: Arc<TaskGraph>,
        gpus: Gpus,
    ) -> Result<GpuExecutor, RunError> {
        let given = gpus.driver.devices().len() as u32;
        if tasks.devices > given {
            let planned = tasks.devices;
            return Err(RunError::TooFewDevices { planned, given });
        }
        let mut vertices = Vec::new();
        for (id, node) in graph.ids() {
            vertices.push(match node.einsum() {
                None => None,
                Some(_) => {
                    let vertex = gpus.generator.vertex(&graph, id);
                    Some(vertex.map_err(|source| RunError::Compile {
                        statement: node.name.clone(),
                        source,
                    })?)
                }
            });
        }
        let mut held = Held::new(&gpus);
        let mut streams = Vec::new();
        for device in 0..tasks.devices {
            streams.push(Streams {
                compute: held.stream(device)?,
                send: held.stream(device)?,
                take: held.stream(device)?,
            });
        }
        let (driver, generator) = (&*gpus.driver, &*gpus.generator);
        let builder = Builder::new(&graph, &tasks, &vertices, generator, driver, &streams);
        let mut made = builder.build()?;
        let device_of = |stream: StreamId| {
            let has = |s: &Streams| [s.compute, s.send, s.take].contains(&stream);
            streams.iter().position(has).unwrap_or(0) as u32
        };
        let mut memories = Vec::new();
        let mut bytes = 0;
        for &(block, size) in &made.blocks {
            let place = block.place(device_of);
            memories.push(held.memory(place, size.max(1))?);
            bytes += if place == Place::Host { 0 } else { size };
        }
        let find = |wanted: Block| {
            let at = made.blocks.iter().position(|(block, _)| *block == wanted);
            at.map_or(MemoryId(0), |at| memories[at])
        };
        let arenas = (0..tasks.devices).map(|d| find(Block::Arena(d))).collect();
        let staging = find(Block::Staging);
        let mut events = Vec::new();
        let steps = std::mem::take(&mut made.steps);
        let mut list = commands(steps, |stream| {
            let event = gpus.driver.event(device_of(stream))?;
            events.push(Resource::Event(event));
            Ok(event)
        })?;
        held.resources.append(&mut events);
        let places: Vec<_> = (made.blocks.iter())
            .map(|&(block, _)| (block, block.place(device_of)))
            .collect();
        traffic::count(&list, &places, &mut made.traffic);
        let planned = Planned::of(&tasks, &Ranks::alone());
        let measured = Planned {
            received: made.traffic.moved().total(),
            sent: made.traffic.sent.values().sum(),
        };
        if planned != measured {
            return Err(planned.error(measured));
        }
        list.iter_mut()
            .for_each(|command| place(command, &memories));
        let origin = streams.first().map_or(StreamId(0), |s| s.compute);
        let instance = gpus.driver.instantiate(origin, &list)?;
        held.resources.push(Resource::Graph(instance));
        let weights = graph.nodes().iter().any(|n| n.role() == Some(Role::Weight));
        let executor = GpuExecutor {
            vertices,
            take: streams.iter().map(|s| s.take).collect(),
            arenas,
            staging,
            loads: made.loads,
            gathers: made.gathers,
            faults: made.faults,
            positions: made.positions,
            traffic: made.traffic,
            bytes,
            origin,
            list: instance,
            loaded: !weights,
            lost: false,
            graph,
            tasks,
            gpus,
            _held: held,
        };
        executor.zero_states()?;
        Ok(executor)
    }

    /// Tensors to run into: zeros.
    pub fn outputs(&self) -> Vec<Tensor> {
        given::outputs(&self.graph)
    }

    /// Runs once: outputs in the graph's order, and what was moved.
    ///
    /// # Errors
    /// As [`GpuExecutor::run_into`].
    pub fn run(
        &mut self,
        inputs: &BTreeMap<String, Tensor>,
    ) -> Result<(Vec<Tensor>, Trace), RunError> {
        let mut outputs = self.outputs();
        let trace = self.run_into(inputs, &mut outputs)?;
        Ok((outputs, trace))
    }

    /// Runs once into given tensors, which hold anything after an error.
    ///
    /// # Errors
    /// A missing or unfit input or output; an index out of range in the data; a device that fails. States are
    /// as before if the run did not begin; otherwise, where it stores into any,
    /// [`RunError::StateLost`] until they are set or reset.
    pub fn run_into(
        &mut self,
        inputs: &BTreeMap<String, Tensor>,
        outputs: &mut [Tensor],
    ) -> Result<Trace, RunError> {
        if !self.loaded {
            return Err(RunError::NotLoaded);
        }
        if self.lost {
            return Err(RunError::StateLost);
        }
        let given = given::inputs(&self.graph, inputs, |role| role == Role::Data)?;
        given::check_outputs(&self.graph, outputs)?;
        self.given_positions(&given)?;
        let start = Instant::now();
        for load in &self.loads {
            let node = self.tasks.buffer(load.buffer).node;
            let missing = || RunError::MissingInput(self.graph.node(node).name.clone());
            let tensor = given[node.at()].ok_or_else(missing)?;
            let at = self.staged(load.offset);
            match load.region == Region::whole(tensor.shape()) {
                true => self.gpus.driver.write(at, tensor.data().bytes())?,
                false => {
                    let dense = packed(tensor, &load.region);
                    self.gpus.driver.write(at, dense.data().bytes())?;
                }
            }
        }
        let done = self.replay(outputs);
        self.lost = done.is_err() && self.graph.states().next().is_some();
        done?;
        Ok(Trace {
            traffic: self.traffic.clone(),
            peaks: self.tasks.arenas.clone(),
            wall: start.elapsed(),
            tasks: Vec::new(),
        })
    }

    fn replay(&self, outputs: &mut [Tensor]) -> Result<(), RunError> {
        let driver = &*self.gpus.driver;
        driver.replay(self.list)?;
        driver.synchronise(self.origin)?;
        self.found_positions()?;
        self.found_faults()?;
        for gather in &self.gathers {
            let dtype = self.tasks.buffer(gather.buffer).dtype;
            let mut bytes = vec![0; gather.region.volume() * dtype.size()];
            driver.read(self.staged(gather.offset), &mut bytes)?;
            let Some(dense) = dense(dtype, &gather.region, &bytes) else {
                continue;
            };
            let target = host_view_mut(&mut outputs[gather.output]);
            copy(
                &box_view(&dense, gather.region.clone()),
                &target,
                &gather.region,
            );
        }
        Ok(())
    }

    fn staged(&self, offset: u64) -> Address {
        Address {
            memory: self.staging,
            offset,
        }
    }

    /// Stores whose positions are inputs are looked at before anything is written.
    fn given_positions(&self, given: &[Option<&Tensor>]) -> Result<(), RunError> {
        for Positions { node, values } in &self.positions {
            let operands = self
                .graph
                .node(*node)
                .einsum()
                .map_or(&[][..], |e| &e.operands);
            let value = |n: usize| {
                let tensor = given[operands.get(n)?.node.at()]?;
                Some(first(tensor.data()))
            };
            if values.keys().all(|&n| value(n).is_some()) {
                written(&self.graph, *node, &|n| value(n).unwrap_or(0))?;
            }
        }
        Ok(())
    }

    fn found_positions(&self) -> Result<(), RunError> {
        for Positions { node, values } in &self.positions {
            let mut found = BTreeMap::new();
            for (&operand, &(offset, dtype)) in values {
                let mut bytes = vec![0; dtype.size()];
                self.gpus.driver.read(self.staged(offset), &mut bytes)?;
                let data = Data::from_bytes(dtype, &bytes);
                found.insert(operand, data.map_or(0, |d| first(&d)));
            }
            written(&self.graph, *node, &|n| found.get(&n).copied().unwrap_or(0))?;
        }
        Ok(())
    }

    /// The first fault that a kernel recorded, device by device.
    fn found_faults(&self) -> Result<(), RunError> {
        for (device, &offset) in self.faults.iter().enumerate() {
            let mut bytes = [0; FAULT_BYTES as usize];
            self.gpus.driver.read(self.staged(offset), &mut bytes)?;
            let (words, _) = bytes.as_chunks();
            let record: [u64; FAULT_WORDS] = std::array::from_fn(|n| u64::from_ne_bytes(words[n]));
            let faults = self.vertices.iter().enumerate();
            let mut faults = faults.filter_map(|(n, v)| Some((n, v.as_ref()?.fault(&record)?)));
            if let Some((node, source)) = faults.next() {
                return Err(RunError::Kernel {
                    statement: self.graph.nodes()[node].name.clone(),
                    tile: format!("on device {device}"),
                    source,
                });
            }
        }
        Ok(())
    }

    /// Bytes that Moves of one run bring to devices, by the commands that they became.
    pub fn planned_bytes(&self) -> u64 {
        self.traffic.moved().total()
    }

    /// Bytes that are allocated on all devices together.
    pub fn memory_bytes(&self) -> u64 {
        self.bytes
    }

    /// The task graph.
    pub fn tasks(&self) -> &Arc<TaskGraph> {
        &self.tasks
    }

    /// What kernel each statement runs, for people: number of the node, name, kernel.
    pub fn kernels(&self) -> impl Iterator<Item = (u32, (&str, String))> {
        let vertices = self.graph.ids().zip(&self.vertices);
        vertices.filter_map(|((id, n), v)| Some((id.0, (&*n.name, v.as_ref()?.describe()))))
    }
}

/// A box of a tensor, dense.
fn packed(tensor: &Tensor, region: &Region) -> Tensor {
    let mut dense = Tensor::zeros(tensor.dtype(), region.shape());
    let target = box_view_mut(&mut dense, region.clone());
    copy(&host_view(tensor), &target, region);
    dense
}

/// A tensor of a box's shape, of its bytes.
fn dense(dtype: DType, region: &Region, bytes: &[u8]) -> Option<Tensor> {
    Tensor::new(region.shape(), Data::from_bytes(dtype, bytes)?)
}

/// Puts the memory that was allocated in place of the numbers of blocks.
fn place(command: &mut Command, memories: &[MemoryId]) {
    let place = |at: &mut Address| at.memory = memories[at.memory.0 as usize];
    command.touches.iter_mut().for_each(|t| place(&mut t.at));
    match &mut command.op {
        Op::Launch { arguments, .. } => arguments.iter_mut().for_each(|a| {
            if let Argument::Pointer(at, _) = a {
                place(at);
            }
        }),
        Op::Matmul {
            operands,
            workspace,
            ..
        } => operands.iter_mut().chain([workspace]).for_each(place),
        Op::Copy { src, dst, .. } => [src, dst].into_iter().for_each(place),
        Op::Zero { dst, .. } => place(dst),
        Op::Record(_) | Op::Wait(_) => {}
    }
}
