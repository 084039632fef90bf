//! Runs a task graph: dataflow over one pool of workers, for any number of devices.
//!
//! Workers ≠ devices: a device is a memory domain; every worker takes the first ready piece of
//! work in task order, whichever device it belongs to. Kernels are cut into sub-tiles by a pure
//! function of kernel and tile, so that bits do not depend on the number of workers; it has a say
//! only where they do not depend on the cut.

mod exchange;
pub(crate) mod given;
mod lent;
mod packed;
mod queue;
mod schedule;
pub(crate) mod state;
mod workers;

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashSet};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use eindecomp_core::ein::Value;
use eindecomp_core::graph::{BoundGraph, Role};
use eindecomp_core::plan::layout::Region;
use eindecomp_core::task::{BufferId, Task, TaskGraph, TaskId, TaskKind};

use crate::backend::cpu::{Kernel, Scratch, copy};
use crate::error::RunError;
use crate::source::{Contents, TensorSource};
use crate::storage::{MemoryMode, Storage, box_view, host_view, host_view_mut};
use crate::tensor::Tensor;
use crate::trace::{TaskSpan, Trace, Traffic};
use crate::transport::Counters;
use crate::view::ViewMut;
pub(crate) use exchange::Planned;
pub use exchange::{Ranks, Results};
use queue::{Queue, Ready};
use schedule::{Part, Schedule, Step};
pub use workers::Workers;

/// A compiled graph with its memory: runs again and again.
pub struct Executor {
    graph: Arc<BoundGraph>,
    graph_tasks: Arc<TaskGraph>,
    kernels: Vec<Option<Kernel>>,
    storage: Storage,
    mode: MemoryMode,
    run: Schedule,
    /// Per buffer, who reads it packed.
    packed: Vec<Option<packed::Reader>>,
    workers: Arc<Workers>,
    ranks: Ranks,
    /// Buffers that hold nothing between runs.
    volatile: Vec<BufferId>,
    planned: Planned,
    loaded: bool,
    /// The run has begun to write into states.
    storing: AtomicBool,
    /// A run failed while it did.
    lost: bool,
}

impl Executor {
    /// Compiles the kernels and allocates the memory of every device, which all runs use.
    ///
    /// # Errors
    /// [`RunError::Compile`], [`RunError::OutOfMemory`].
    pub fn new(
        graph: Arc<BoundGraph>,
        tasks: Arc<TaskGraph>,
        workers: Arc<Workers>,
        mode: MemoryMode,
    ) -> Result<Executor, RunError> {
        Executor::across(graph, tasks, workers, mode, Ranks::alone())
    }

    /// The same for the devices of one rank; every rank has an executor of the same graph and tasks, and
    /// does the same with it.
    ///
    /// # Errors
    /// As [`Executor::new`]; [`RunError::Devices`], [`RunError::SharedAcrossRanks`], [`RunError::Tags`].
    pub fn across(
        graph: Arc<BoundGraph>,
        tasks: Arc<TaskGraph>,
        workers: Arc<Workers>,
        mode: MemoryMode,
        ranks: Ranks,
    ) -> Result<Executor, RunError> {
        ranks.check(&tasks, mode)?;
        let mut kernels = Vec::new();
        for (id, node) in graph.ids() {
            kernels.push(match node.einsum() {
                None => None,
                Some(_) => {
                    Some(
                        Kernel::compile(&graph, id).map_err(|source| RunError::Compile {
                            statement: node.name.clone(),
                            source,
                        })?,
                    )
                }
            });
        }
        let kept: HashSet<BufferId> = tasks
            .load
            .iter()
            .filter_map(|t| match t.kind {
                TaskKind::Load { dst } => Some(dst),
                _ => None,
            })
            .collect();
        let buffers = (0..tasks.buffers.len() as u32).map(BufferId);
        let stays = |b: &BufferId| kept.contains(b) || tasks.buffer(*b).role.stays();
        let here = |b: &BufferId| ranks.owns(&tasks, tasks.buffer(*b).device);
        let volatile = buffers.filter(|b| here(b) && !stays(b)).collect();
        let weights = graph.nodes().iter().any(|n| n.role() == Some(Role::Weight));
        let storage = Storage::new(&graph, &tasks, mode, &|device| ranks.owns(&tasks, device))
            .map_err(|error| ranks.lost("memory of the devices", error))?;
        let run = Schedule::new(&tasks, &kernels, workers.count(), mode, &ranks)?;
        Ok(Executor {
            packed: packed::packed(&tasks, &kernels, &run, &storage, mode),
            storage,
            mode,
            planned: Planned::of(&tasks, &ranks),
            run,
            kernels,
            graph,
            graph_tasks: tasks,
            workers,
            ranks,
            volatile,
            loaded: !weights,
            storing: AtomicBool::new(false),
            lost: false,
        })
    }

    /// Fills the weights, by input name.
    ///
    /// # Errors
    /// A weight that is missing, unknown, or of another shape or element type: then nothing is loaded. One that
    /// cannot be read: then no run has weights until all are loaded.
    pub fn load<T: TensorSource>(
        &mut self,
        weights: &BTreeMap<String, T>,
    ) -> Result<Traffic, RunError> {
        let inputs = given::inputs(&self.graph, weights, |role| role == Role::Weight)?;
        let counters = Counters::new(self.graph_tasks.devices as usize);
        self.loaded = false;
        // Devices that share memory load overlapping boxes of a weight to the same place: one by one.
        for task in &self.graph_tasks.load {
            let TaskKind::Load { dst } = task.kind else {
                continue;
            };
            if self.ranks.owns(&self.graph_tasks, task.device) {
                let bytes = self.load_box(&inputs, dst);
                counters.load(bytes.map_err(|e| self.ranks.lost("loading weights", e))?);
            }
        }
        self.loaded = true;
        Ok(counters.finish())
    }

    /// Fills a buffer of a weight; its bytes.
    fn load_box<T: TensorSource>(
        &self,
        inputs: &[Option<&T>],
        dst: BufferId,
    ) -> Result<u64, RunError> {
        let buffer = self.graph_tasks.buffer(dst);
        let (name, region) = (&self.graph.node(buffer.node).name, &buffer.region);
        let weight = inputs[buffer.node.at()];
        let weight = weight.ok_or_else(|| RunError::MissingInput(name.clone()))?;
        let contents = weight.contents(region).map_err(|source| RunError::Weight {
            name: name.clone(),
            source,
        })?;
        let target = self.storage.view_mut(dst);
        let bytes = match contents {
            Contents::Whole(tensor) => copy(&host_view(tensor), &target, region),
            Contents::Box(tensor) => {
                given::check(name, buffer.dtype, &region.shape(), &tensor)?;
                copy(&box_view(&tensor, region.clone()), &target, region)
            }
        };
        if let Some(reader) = &self.packed[dst.0 as usize] {
            reader.pack(&self.kernels, &target);
        }
        Ok(bytes)
    }

    /// Runs once: outputs in the graph's order, and what was moved.
    ///
    /// # Errors
    /// A missing or unfit input; an index out of range in the data. States are then as before,
    /// unless the run had begun to store into them: then [`RunError::StateLost`] until they are set
    /// or reset.
    pub fn run(
        &mut self,
        inputs: &BTreeMap<String, Tensor>,
        spans: bool,
    ) -> Result<(Vec<Tensor>, Trace), RunError> {
        let mut outputs = self.outputs();
        let trace = self.run_into(inputs, &mut outputs, spans)?;
        Ok((outputs, trace))
    }

    /// Tensors to run into: zeros.
    pub fn outputs(&self) -> Vec<Tensor> {
        given::outputs(&self.graph)
    }

    /// Runs once into given tensors, which hold anything after an error.
    ///
    /// # Errors
    /// As [`Executor::run`], and an output of another shape or element type.
    pub fn run_into(
        &mut self,
        inputs: &BTreeMap<String, Tensor>,
        outputs: &mut [Tensor],
        spans: bool,
    ) -> Result<Trace, RunError> {
        if !self.loaded {
            return Err(RunError::NotLoaded);
        }
        if self.lost {
            return Err(RunError::StateLost);
        }
        let given = given::inputs(&self.graph, inputs, |role| role == Role::Data)?;
        given::check_outputs(&self.graph, outputs)?;
        for &buffer in &self.volatile {
            self.storage.poison(buffer);
        }
        self.storing.store(false, Ordering::Relaxed);
        let done = self.execute(&given, outputs, spans);
        self.lost = done.is_err() && self.storing.load(Ordering::Relaxed);
        done
    }

    /// Bytes that Moves of one run bring to the devices of this process, by the task graph.
    pub fn planned_bytes(&self) -> u64 {
        self.planned.received
    }

    /// Bytes of weights that [`Executor::load`] brings to the devices of this process.
    pub fn weight_bytes(&self) -> u64 {
        let tasks = &self.graph_tasks;
        let loads = tasks.load.iter().filter_map(|task| match task.kind {
            TaskKind::Load { dst } => Some(tasks.buffer(dst)),
            _ => None,
        });
        let here = loads.filter(|buffer| self.ranks.owns(tasks, buffer.device));
        here.map(|buffer| buffer.bytes()).sum()
    }

    /// Bytes that are allocated for all devices of this process together.
    pub fn memory_bytes(&self) -> u64 {
        self.storage.bytes()
    }

    /// The task graph.
    pub fn tasks(&self) -> &Arc<TaskGraph> {
        &self.graph_tasks
    }

    /// Is a device of this process?
    pub fn has_device(&self, device: u32) -> bool {
        self.ranks.owns(&self.graph_tasks, device)
    }

    /// The weights that are packed when they are loaded, by name, and the devices that have them so.
    pub fn packed(&self) -> impl Iterator<Item = (&str, u32)> {
        let buffers = self.packed.iter().zip(&self.graph_tasks.buffers);
        let packed = buffers.filter(|(reader, _)| reader.is_some());
        packed.map(|(_, buffer)| (&*self.graph.node(buffer.node).name, buffer.device))
    }

    /// What kernel each statement runs, for people: number of the node, name, kernel.
    pub fn kernels(&self) -> impl Iterator<Item = (u32, (&str, String))> {
        let kernels = self.graph.ids().zip(&self.kernels);
        kernels.filter_map(|((id, n), k)| Some((id.0, (&*n.name, k.as_ref()?.describe()))))
    }

    /// The box of its labels that a piece of a kernel of the run covers.
    pub fn piece(&self, task: usize, piece: usize) -> Option<&Region> {
        let step = (self.run.steps).partition_point(|s| (s.task.0 as usize) < task);
        let kernel = matches!(
            self.graph_tasks.tasks.get(task)?.kind,
            TaskKind::Kernel { .. }
        );
        self.run.pieces.get(step)?.get(piece).filter(|_| kernel)
    }

    fn execute(
        &self,
        inputs: &[Option<&Tensor>],
        outputs: &mut [Tensor],
        spans: bool,
    ) -> Result<Trace, RunError> {
        let (schedule, planned) = (&self.run, self.planned);
        let run = Run {
            executor: self,
            schedule,
            inputs,
            outputs: outputs.iter_mut().map(host_view_mut).collect(),
            waits: schedule.waits.iter().map(|&n| AtomicU32::new(n)).collect(),
            pieces: (0..schedule.steps.len())
                .map(|n| AtomicU32::new(schedule.pieces_of(n)))
                .collect(),
            queue: Arc::new(Queue {
                ready: Mutex::new(Ready::new(schedule)),
                changed: Condvar::new(),
            }),
            counters: Counters::new(self.graph_tasks.devices as usize),
            start: Instant::now(),
            spans: spans.then(|| Mutex::new(Vec::new())),
        };
        (self.workers).on_each(|worker, scratch| run.work(worker, scratch));
        let wall = run.start.elapsed();
        let failed = run.queue.lock().error.take();
        let Run {
            counters, spans, ..
        } = run;
        if let Some((step, error)) = failed {
            let task = schedule.steps[step as usize].task;
            let at = self.graph_tasks.describe(task);
            return Err(self.ranks.lost(&at, error));
        }
        let traffic = counters.finish();
        let measured = Planned {
            received: traffic.moved().total(),
            sent: traffic.sent.values().sum(),
        };
        if measured != planned {
            let wrong = planned.error(measured);
            return Err(self.ranks.lost("end of the run", wrong));
        }
        let peaks = self.storage.peaks(self.graph_tasks.devices);
        let here = |device: usize| self.ranks.owns(&self.graph_tasks, device as u32);
        let arenas = self.graph_tasks.arenas.iter().enumerate();
        let arenas: Vec<u64> = arenas.map(|(d, &a)| if here(d) { a } else { 0 }).collect();
        if self.mode == MemoryMode::Arena && peaks != arenas {
            let wrong = RunError::Memory {
                planned: arenas,
                measured: peaks,
            };
            return Err(self.ranks.lost("end of the run", wrong));
        }
        let tasks = spans.map_or(Vec::new(), |s| {
            s.into_inner().unwrap_or_else(PoisonError::into_inner)
        });
        Ok(Trace {
            traffic,
            peaks,
            wall,
            tasks,
        })
    }
}

/// The boxes that a store in place wrote; `None` of all other work.
type Stored = Option<Vec<Region>>;

/// One run in progress.
struct Run<'a> {
    executor: &'a Executor,
    schedule: &'a Schedule,
    inputs: &'a [Option<&'a Tensor>],
    outputs: Vec<ViewMut>,
    waits: Vec<AtomicU32>,
    pieces: Vec<AtomicU32>,
    queue: Arc<Queue>,
    counters: Counters,
    start: Instant,
    spans: Option<Mutex<Vec<TaskSpan>>>,
}

impl Run<'_> {
    /// Takes work until none is left, or some task failed.
    fn work(&self, worker: usize, scratch: &mut Scratch) {
        let mut ready = self.queue.lock();
        loop {
            if ready.unfinished == 0 || ready.error.is_some() {
                return;
            }
            let Some(Reverse((step, piece))) = ready.heap.pop() else {
                ready = self
                    .queue
                    .changed
                    .wait(ready)
                    .unwrap_or_else(PoisonError::into_inner);
                continue;
            };
            drop(ready);
            let begin = self.spans.as_ref().map(|_| self.start.elapsed());
            let mut outcome = catch_unwind(AssertUnwindSafe(|| {
                self.step(step, piece as usize, scratch)
            }));
            let task = self.schedule.steps[step as usize].task.0 as usize;
            if let (Some(start), Ok(Ok(stored))) = (begin, &mut outcome) {
                self.record(step, piece as usize, worker, start, stored.take());
            }
            let finished = self.pieces[step as usize].fetch_sub(1, Ordering::AcqRel) == 1;
            ready = self.queue.lock();
            match outcome {
                Ok(Ok(_)) if finished => self.finish(&mut ready, step),
                Ok(Ok(_)) => {}
                Ok(Err(error)) => self.fail(&mut ready, step, error),
                Err(panic) => {
                    let text = panic.downcast_ref::<&str>().map(|s| s.to_string());
                    let message = text
                        .or_else(|| panic.downcast_ref::<String>().cloned())
                        .unwrap_or_default();
                    self.fail(&mut ready, step, RunError::Panic { task, message });
                }
            }
        }
    }

    fn record(&self, step: u32, piece: usize, worker: usize, start: Duration, stored: Stored) {
        let Some(spans) = &self.spans else { return };
        let end = self.start.elapsed();
        let Step { task, part } = self.schedule.steps[step as usize];
        let Task { device, kind, .. } = &self.executor.graph_tasks.tasks[task.0 as usize];
        let tasks = &self.executor.graph_tasks;
        let device = match (part, kind) {
            (Part::Send(_), TaskKind::Move { src, .. }) => tasks.buffer(*src).device,
            (Part::Receive(_), TaskKind::Gather { .. }) => self.executor.ranks.first(tasks),
            _ => *device,
        };
        let span = TaskSpan {
            task: task.0 as usize,
            piece,
            worker,
            device,
            stored,
            start,
            end,
        };
        spans
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(span);
    }

    fn finish(&self, ready: &mut Ready, step: u32) {
        ready.unfinished -= 1;
        let before = ready.heap.len();
        for &next in &self.schedule.successors[step as usize] {
            if self.waits[next as usize].fetch_sub(1, Ordering::AcqRel) == 1 {
                ready.push(self.schedule, next);
            }
        }
        if ready.unfinished == 0 || ready.heap.len() > before + 1 {
            self.queue.changed.notify_all();
        } else if ready.heap.len() > before {
            self.queue.changed.notify_one();
        }
    }

    fn fail(&self, ready: &mut Ready, step: u32, error: RunError) {
        ready.error.get_or_insert((step, error));
        self.queue.changed.notify_all();
    }

    fn step(&self, step: u32, piece: usize, scratch: &mut Scratch) -> Result<Stored, RunError> {
        let Step { task, part } = self.schedule.steps[step as usize];
        let _span = tracing::trace_span!("task", task = task.0, piece, ?part).entered();
        match part {
            Part::Whole => self.whole(step, task, piece, scratch),
            Part::Send(message) => {
                self.send(task, message);
                Ok(None)
            }
            Part::Receive(message) => {
                match piece {
                    0 => self.post(step, task, message),
                    _ => self.take(step, task),
                }
                Ok(None)
            }
        }
    }

    fn whole(
        &self,
        step: u32,
        task: TaskId,
        piece: usize,
        scratch: &mut Scratch,
    ) -> Result<Stored, RunError> {
        let Executor {
            graph,
            graph_tasks,
            kernels,
            storage,
            ..
        } = self.executor;
        let Task { device, kind, .. } = &self.executor.graph_tasks.tasks[task.0 as usize];
        match kind {
            TaskKind::Load { dst } if self.is_input(*dst) => {
                storage.lend(*dst);
                self.counters.load(graph_tasks.buffer(*dst).bytes());
            }
            TaskKind::Load { dst } => {
                let buffer = graph_tasks.buffer(*dst);
                let name = &graph.node(buffer.node).name;
                let tensor = self.inputs[buffer.node.at()]
                    .ok_or_else(|| RunError::MissingInput(name.clone()))?;
                self.counters.load(copy(
                    &host_view(tensor),
                    &self.view_mut(*dst),
                    &buffer.region,
                ));
            }
            TaskKind::Kernel {
                node,
                reads,
                writes,
                ..
            } => {
                let Some(kernel) = &kernels[node.at()] else {
                    return Ok(None);
                };
                let Some(tile) = self.schedule.pieces[step as usize].get(piece) else {
                    return Ok(None);
                };
                let read = |&buffer: &BufferId| match &self.executor.packed[buffer.0 as usize] {
                    Some(reader) => reader.view(self.view(buffer), piece),
                    None => self.view(buffer),
                };
                let reads: Vec<_> = reads.iter().map(read).collect();
                let in_place = writes.first().copied();
                let writes: Vec<_> = writes.iter().map(|&b| self.view_mut(b)).collect();
                let slots: &[Value] = graph.slots();
                let mut run = |tile: &Region| {
                    kernel
                        .run(tile, &reads, &writes, slots, scratch)
                        .map_err(|source| RunError::Kernel {
                            statement: graph.node(*node).name.clone(),
                            tile: tile.to_string(),
                            source,
                        })
                };
                let stored = self.executor.stored(*node, tile, &reads, in_place)?;
                match &stored {
                    None => run(tile)?,
                    Some(boxes) => boxes.iter().try_for_each(run)?,
                }
                return Ok(stored);
            }
            TaskKind::Keep { src, dst, region } => {
                self.executor.storing.store(true, Ordering::Relaxed);
                self.counters
                    .local(copy(&self.view(*src), &self.view_mut(*dst), region));
            }
            TaskKind::Move { src, dst, region } => {
                let (from, to) = (graph_tasks.buffer(*src).device, *device);
                if storage.aliased(*src, *dst) {
                    self.counters
                        .shared(from, to, &self.view(*src), &self.view(*dst), region);
                } else {
                    let (source, target) = (self.view(*src), self.view_mut(*dst));
                    let received = copy(&source, &target, region);
                    self.counters.copied(from, to, &source, region, received);
                }
            }
            TaskKind::Copy { src, dst, region } => {
                if !storage.aliased(*src, *dst) {
                    self.counters
                        .local(copy(&self.view(*src), &self.view_mut(*dst), region));
                }
            }
            TaskKind::Aggregate {
                node,
                srcs,
                dst,
                region,
            } => {
                let Some(kernel) = &kernels[node.at()] else {
                    return Ok(None);
                };
                let partials: Vec<_> = srcs.iter().map(|&b| self.view(b)).collect();
                kernel
                    .fold(&partials, &self.view_mut(*dst), region, scratch)
                    .map_err(|source| RunError::Kernel {
                        statement: graph.node(*node).name.clone(),
                        tile: region.to_string(),
                        source,
                    })?;
            }
            TaskKind::Gather { src, output, .. } if self.is_output(*src, *output) => {
                storage.lend(*src);
                self.counters.gather(graph_tasks.buffer(*src).bytes());
            }
            TaskKind::Gather {
                src,
                output,
                region,
            } => {
                self.counters
                    .gather(copy(&self.view(*src), &self.outputs[*output], region));
            }
            TaskKind::Free { buffer } => storage.poison(*buffer),
        }
        Ok(None)
    }
}
