//! Runs a task graph: dataflow over one pool of workers, for any number of devices.
//!
//! Workers ≠ devices: a device is a memory domain; every worker takes the first ready piece of
//! work in task order, whichever device it belongs to. Kernels are cut into sub-tiles by a pure
//! function of kernel and tile, so that bits do not depend on the number of workers; it has a say
//! only where they do not depend on the cut.

mod lent;
mod state;
mod workers;

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, HashSet};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use eindecomp_core::ein::{DType, Value};
use eindecomp_core::graph::{BoundGraph, Role};
use eindecomp_core::plan::layout::Region;
use eindecomp_core::task::{BufferId, BufferRole, Task, TaskGraph, TaskKind};

use crate::backend::cpu::{Kernel, Scratch, copy};
use crate::error::RunError;
use crate::storage::{MemoryMode, Storage, host_view, host_view_mut};
use crate::tensor::Tensor;
use crate::trace::{TaskSpan, Trace, Traffic};
use crate::transport::Counters;
use crate::view::ViewMut;
use lent::{Host, lent};
pub use workers::Workers;

/// A task list ready to run: who waits for whom, and the sub-tiles of each kernel.
struct Schedule {
    tasks: Vec<Task>,
    waits: Vec<u32>,
    successors: Vec<Vec<u32>>,
    pieces: Vec<Vec<Region>>,
    /// Per buffer, the host tensor that takes its place.
    lent: Vec<Option<Host>>,
}

impl Schedule {
    fn new(
        graph: &TaskGraph,
        tasks: &[Task],
        kernels: &[Option<Kernel>],
        workers: usize,
        mode: MemoryMode,
    ) -> Schedule {
        // So that workers which end early find more, without packing much twice.
        let most = (2 * workers).div_ceil(graph.devices.max(1) as usize);
        let mut successors = vec![Vec::new(); tasks.len()];
        for (n, task) in tasks.iter().enumerate() {
            for dep in &task.deps {
                successors[dep.0 as usize].push(n as u32);
            }
        }
        let in_place = |b: &BufferId| matches!(graph.buffer(*b).role, BufferRole::Version(_));
        let pieces = |task: &Task| match &task.kind {
            // A store writes a small part of its tile, which only the run tells.
            TaskKind::Kernel { tile, writes, .. } if writes.iter().any(in_place) => {
                vec![tile.clone()]
            }
            TaskKind::Kernel { node, tile, .. } => kernels[node.at()]
                .as_ref()
                .map_or(Vec::new(), |k| k.subtiles(tile, most)),
            _ => vec![Region(Vec::new())],
        };
        Schedule {
            waits: tasks.iter().map(|t| t.deps.len() as u32).collect(),
            successors,
            pieces: tasks.iter().map(pieces).collect(),
            lent: lent(graph, tasks, mode),
            tasks: tasks.to_vec(),
        }
    }
}

/// A compiled graph with its memory: runs again and again.
pub struct Executor {
    graph: Arc<BoundGraph>,
    graph_tasks: Arc<TaskGraph>,
    kernels: Vec<Option<Kernel>>,
    storage: Storage,
    mode: MemoryMode,
    load: Schedule,
    run: Schedule,
    workers: Arc<Workers>,
    /// Buffers that hold nothing between runs.
    volatile: Vec<BufferId>,
    planned: u64,
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
        let planned = tasks
            .tasks
            .iter()
            .map(|t| match &t.kind {
                TaskKind::Move { src, region, .. } => {
                    region.volume() as u64 * tasks.buffer(*src).dtype.size() as u64
                }
                _ => 0,
            })
            .sum();
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
        let volatile = buffers.filter(|b| !stays(b)).collect();
        let weights = graph.nodes().iter().any(|n| n.role() == Some(Role::Weight));
        Ok(Executor {
            storage: Storage::new(&graph, &tasks, mode)?,
            mode,
            load: Schedule::new(&tasks, &tasks.load, &kernels, workers.count(), mode),
            run: Schedule::new(&tasks, &tasks.tasks, &kernels, workers.count(), mode),
            kernels,
            graph,
            graph_tasks: tasks,
            workers,
            volatile,
            planned,
            loaded: !weights,
            storing: AtomicBool::new(false),
            lost: false,
        })
    }

    /// Fills the weights, by input name.
    ///
    /// # Errors
    /// A weight that is missing, unknown, or of another shape or element type; then nothing is loaded.
    pub fn load(&mut self, weights: &BTreeMap<String, Tensor>) -> Result<Traffic, RunError> {
        let inputs = self.inputs(weights, |role| role == Role::Weight)?;
        let trace = self.execute(&self.load, &inputs, &mut [], 0, false)?;
        self.loaded = true;
        Ok(trace.traffic)
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
        let mut outputs: Vec<Tensor> = self
            .output_specs()
            .map(|(_, d, s)| Tensor::zeros(d, s.to_vec()))
            .collect();
        let trace = self.run_into(inputs, &mut outputs, spans)?;
        Ok((outputs, trace))
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
        let given = self.inputs(inputs, |role| role == Role::Data)?;
        let expected = self.graph.outputs().len();
        if outputs.len() != expected {
            return Err(RunError::Outputs {
                expected,
                given: outputs.len(),
            });
        }
        for ((name, dtype, shape), tensor) in self.output_specs().zip(outputs.iter()) {
            check(name, dtype, shape, tensor)?;
        }
        for &buffer in &self.volatile {
            self.storage.poison(buffer);
        }
        self.storing.store(false, Ordering::Relaxed);
        let done = self.execute(&self.run, &given, outputs, self.planned, spans);
        self.lost = done.is_err() && self.storing.load(Ordering::Relaxed);
        done
    }

    /// Bytes that Moves of one run carry, by the task graph.
    pub fn planned_bytes(&self) -> u64 {
        self.planned
    }

    /// Bytes that are allocated for all devices together.
    pub fn memory_bytes(&self) -> u64 {
        self.storage.bytes()
    }

    /// The task graph.
    pub fn tasks(&self) -> &TaskGraph {
        &self.graph_tasks
    }

    /// What kernel each statement runs, for people: number of the node, name, kernel.
    pub fn kernels(&self) -> impl Iterator<Item = (u32, (&str, String))> {
        let kernels = self.graph.ids().zip(&self.kernels);
        kernels.filter_map(|((id, n), k)| Some((id.0, (&*n.name, k.as_ref()?.describe()))))
    }

    fn output_specs(&self) -> impl Iterator<Item = (&Arc<str>, DType, &[usize])> {
        self.graph.outputs().iter().map(|o| {
            (
                &o.name,
                self.graph.node(o.node).dtype,
                self.graph.shape(o.node),
            )
        })
    }

    /// Given tensors by node, checked.
    fn inputs<'t>(
        &self,
        given: &'t BTreeMap<String, Tensor>,
        wanted: impl Fn(Role) -> bool,
    ) -> Result<Vec<Option<&'t Tensor>>, RunError> {
        let mut by_node = vec![None; self.graph.nodes().len()];
        for (id, node) in self.graph.ids() {
            if node.role().is_some_and(&wanted) {
                let tensor = given
                    .get(&*node.name)
                    .ok_or_else(|| RunError::MissingInput(node.name.clone()))?;
                check(&node.name, node.dtype, self.graph.shape(id), tensor)?;
                by_node[id.at()] = Some(tensor);
            }
        }
        let known = |name: &str| {
            self.graph
                .nodes()
                .iter()
                .any(|n| n.role().is_some_and(&wanted) && &*n.name == name)
        };
        match given.keys().find(|name| !known(name)) {
            Some(name) => Err(RunError::UnknownInput(name.clone())),
            None => Ok(by_node),
        }
    }

    fn execute(
        &self,
        schedule: &Schedule,
        inputs: &[Option<&Tensor>],
        outputs: &mut [Tensor],
        planned: u64,
        spans: bool,
    ) -> Result<Trace, RunError> {
        let run = Run {
            executor: self,
            schedule,
            inputs,
            outputs: outputs.iter_mut().map(host_view_mut).collect(),
            waits: schedule.waits.iter().map(|&n| AtomicU32::new(n)).collect(),
            pieces: schedule
                .pieces
                .iter()
                .map(|p| AtomicU32::new(p.len().max(1) as u32))
                .collect(),
            ready: Mutex::new(Ready::new(schedule)),
            changed: Condvar::new(),
            failed: AtomicBool::new(false),
            counters: Counters::new(self.graph_tasks.devices as usize),
            start: Instant::now(),
            spans: spans.then(|| Mutex::new(Vec::new())),
        };
        // Devices that share memory load overlapping boxes of a weight to the same place: one by one.
        let loading = std::ptr::eq(schedule, &self.load);
        match loading {
            true => run.work(0),
            false => self.workers.on_each(|worker| run.work(worker)),
        }
        let wall = run.start.elapsed();
        let Run {
            ready,
            counters,
            spans,
            ..
        } = run;
        if let Some(error) = ready
            .into_inner()
            .unwrap_or_else(PoisonError::into_inner)
            .error
        {
            return Err(error);
        }
        let traffic = counters.finish();
        let measured = traffic.moved().total();
        if measured != planned || traffic.sent.values().sum::<u64>() != planned {
            return Err(RunError::Traffic { planned, measured });
        }
        let peaks = self.storage.peaks(self.graph_tasks.devices);
        let arenas = &self.graph_tasks.arenas;
        if self.mode == MemoryMode::Arena && !loading && peaks != *arenas {
            return Err(RunError::Memory {
                planned: arenas.clone(),
                measured: peaks,
            });
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

fn check(name: &Arc<str>, dtype: DType, shape: &[usize], given: &Tensor) -> Result<(), RunError> {
    if given.shape() != shape {
        let (expected, given) = (shape.to_vec(), given.shape().to_vec());
        return Err(RunError::Shape {
            name: name.clone(),
            expected,
            given,
        });
    }
    if given.dtype() != dtype {
        return Err(RunError::DType {
            name: name.clone(),
            expected: dtype,
            given: given.dtype(),
        });
    }
    Ok(())
}

/// Work that can start now, in task order.
struct Ready {
    heap: BinaryHeap<Reverse<(u32, u32)>>,
    unfinished: usize,
    error: Option<RunError>,
}

impl Ready {
    fn new(schedule: &Schedule) -> Ready {
        let mut ready = Ready {
            heap: BinaryHeap::new(),
            unfinished: schedule.tasks.len(),
            error: None,
        };
        for (n, &waits) in schedule.waits.iter().enumerate() {
            if waits == 0 {
                ready.push(schedule, n as u32);
            }
        }
        ready
    }

    fn push(&mut self, schedule: &Schedule, task: u32) {
        let pieces = schedule.pieces[task as usize].len().max(1) as u32;
        self.heap
            .extend((0..pieces).map(|piece| Reverse((task, piece))));
    }
}

/// One run in progress.
struct Run<'a> {
    executor: &'a Executor,
    schedule: &'a Schedule,
    inputs: &'a [Option<&'a Tensor>],
    outputs: Vec<ViewMut>,
    waits: Vec<AtomicU32>,
    pieces: Vec<AtomicU32>,
    ready: Mutex<Ready>,
    changed: Condvar,
    failed: AtomicBool,
    counters: Counters,
    start: Instant,
    spans: Option<Mutex<Vec<TaskSpan>>>,
}

impl Run<'_> {
    fn lock(&self) -> MutexGuard<'_, Ready> {
        self.ready.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes work until none is left, or some task failed.
    fn work(&self, worker: usize) {
        let mut scratch = Scratch::default();
        let mut ready = self.lock();
        loop {
            if ready.unfinished == 0 || ready.error.is_some() {
                return;
            }
            let Some(Reverse((task, piece))) = ready.heap.pop() else {
                ready = self
                    .changed
                    .wait(ready)
                    .unwrap_or_else(PoisonError::into_inner);
                continue;
            };
            drop(ready);
            let begin = self.spans.as_ref().map(|_| self.start.elapsed());
            let outcome = catch_unwind(AssertUnwindSafe(|| {
                self.step(task as usize, piece as usize, &mut scratch)
            }));
            self.record(task as usize, piece as usize, worker, begin);
            let finished = self.pieces[task as usize].fetch_sub(1, Ordering::AcqRel) == 1;
            ready = self.lock();
            match outcome {
                Ok(Ok(())) if finished => self.finish(&mut ready, task),
                Ok(Ok(())) => {}
                Ok(Err(error)) => self.fail(&mut ready, error),
                Err(panic) => {
                    let text = panic.downcast_ref::<&str>().map(|s| s.to_string());
                    let message = text
                        .or_else(|| panic.downcast_ref::<String>().cloned())
                        .unwrap_or_default();
                    self.fail(
                        &mut ready,
                        RunError::Panic {
                            task: task as usize,
                            message,
                        },
                    );
                }
            }
        }
    }

    fn record(&self, task: usize, piece: usize, worker: usize, begin: Option<Duration>) {
        if let (Some(spans), Some(start)) = (&self.spans, begin) {
            let end = self.start.elapsed();
            spans
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .push(TaskSpan {
                    task,
                    piece,
                    worker,
                    start,
                    end,
                });
        }
    }

    fn finish(&self, ready: &mut Ready, task: u32) {
        ready.unfinished -= 1;
        let before = ready.heap.len();
        for &next in &self.schedule.successors[task as usize] {
            if self.waits[next as usize].fetch_sub(1, Ordering::AcqRel) == 1 {
                ready.push(self.schedule, next);
            }
        }
        if ready.unfinished == 0 || ready.heap.len() > before + 1 {
            self.changed.notify_all();
        } else if ready.heap.len() > before {
            self.changed.notify_one();
        }
    }

    fn fail(&self, ready: &mut Ready, error: RunError) {
        self.failed.store(true, Ordering::Relaxed);
        ready.error.get_or_insert(error);
        self.changed.notify_all();
    }

    fn step(&self, task: usize, piece: usize, scratch: &mut Scratch) -> Result<(), RunError> {
        let Executor {
            graph,
            graph_tasks,
            kernels,
            storage,
            ..
        } = self.executor;
        let Task { device, kind, .. } = &self.schedule.tasks[task];
        let _span = tracing::trace_span!("task", task, piece, device).entered();
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
                    return Ok(());
                };
                let Some(tile) = self.schedule.pieces[task].get(piece) else {
                    return Ok(());
                };
                let reads: Vec<_> = reads.iter().map(|&b| self.view(b)).collect();
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
                match self.executor.stored(*node, tile, &reads, in_place)? {
                    None => run(tile)?,
                    Some(boxes) => boxes.iter().try_for_each(run)?,
                }
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
                    return Ok(());
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
        Ok(())
    }
}
