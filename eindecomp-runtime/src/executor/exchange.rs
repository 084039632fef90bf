//! What crosses between processes: whose devices are whose, and both halves of a message.

use std::cmp::Reverse;
use std::sync::Arc;

use eindecomp_core::plan::layout::Region;
use eindecomp_core::task::{BufferId, TaskGraph, TaskId, TaskKind};

use super::schedule::Envelope;
use super::{Executor, Run};
use crate::backend::cpu::copy;
use crate::error::RunError;
use crate::storage::{MemoryMode, message_view, message_view_mut};
use crate::transport::{Message, Receive, STATE_TAG, Transport, wait};
use crate::view::{View, ViewMut};

/// Who has the results of a run. Every rank has those of its own devices, in tensors whose other
/// elements are 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Results {
    /// Every rank has all of them, as if it were alone.
    #[default]
    Everywhere,
    /// One rank has all of them.
    OnRank(u32),
    /// No rank has more than its own.
    Distributed,
}

/// The processes that share the devices of a task graph, seen from one of them.
#[derive(Clone)]
pub struct Ranks {
    transport: Option<Arc<dyn Transport>>,
    results: Results,
}

impl Ranks {
    /// One process that has every device.
    pub fn alone() -> Ranks {
        Ranks {
            transport: None,
            results: Results::default(),
        }
    }

    /// This process and those at the other ends of a transport.
    pub fn new(transport: Arc<dyn Transport>, results: Results) -> Ranks {
        Ranks {
            transport: Some(transport),
            results,
        }
    }

    /// This process.
    pub fn rank(&self) -> u32 {
        self.transport.as_ref().map_or(0, |t| t.rank())
    }

    /// How many there are.
    pub fn count(&self) -> u32 {
        self.transport.as_ref().map_or(1, |t| t.ranks())
    }

    /// Devices of each rank.
    pub(super) fn per_rank(&self, tasks: &TaskGraph) -> u32 {
        tasks.devices / self.count()
    }

    /// The rank that a device is of.
    pub(super) fn of(&self, tasks: &TaskGraph, device: u32) -> u32 {
        device / self.per_rank(tasks)
    }

    /// This process's first device.
    pub(super) fn first(&self, tasks: &TaskGraph) -> u32 {
        self.rank() * self.per_rank(tasks)
    }

    /// Is a device this process's?
    pub(super) fn owns(&self, tasks: &TaskGraph, device: u32) -> bool {
        self.of(tasks, device) == self.rank()
    }

    /// The ranks that are given the results of a rank, without itself.
    pub(super) fn readers(&self, owner: u32) -> impl Iterator<Item = u32> + use<> {
        let results = self.results;
        (0..self.count()).filter(move |&rank| {
            let reads = match results {
                Results::Everywhere => true,
                Results::OnRank(reader) => rank == reader,
                Results::Distributed => false,
            };
            reads && rank != owner
        })
    }

    pub(super) fn check(&self, tasks: &TaskGraph, mode: MemoryMode) -> Result<(), RunError> {
        let (devices, ranks) = (tasks.devices, self.count());
        if devices == 0 || !devices.is_multiple_of(ranks) {
            return Err(RunError::Devices { devices, ranks });
        }
        match self.results {
            Results::OnRank(rank) if rank >= ranks => Err(RunError::NoRank { rank, ranks }),
            _ if ranks > 1 && mode == MemoryMode::Shared => Err(RunError::SharedAcrossRanks),
            _ => Ok(()),
        }
    }

    pub(super) fn check_tags(&self, last: u32) -> Result<(), RunError> {
        match &self.transport {
            Some(transport) if last > transport.max_tag() => Err(RunError::Tags {
                needed: last,
                most: transport.max_tag(),
            }),
            _ => Ok(()),
        }
    }

    /// An error that only this rank knows of: the others wait for it in vain, so that the job ends
    /// here. A process that is alone returns it.
    pub(super) fn lost(&self, at: &str, error: RunError) -> RunError {
        match &self.transport {
            Some(transport) if self.count() > 1 => transport.abort(&format!("{at}: {error}")),
            _ => error,
        }
    }

    /// What leads to the others.
    pub(super) fn transport(&self) -> Option<&dyn Transport> {
        self.transport.as_deref()
    }
}

/// Bytes of the Moves of one run that begin or end at devices of this process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Planned {
    pub received: u64,
    pub sent: u64,
}

impl Planned {
    pub fn of(tasks: &TaskGraph, ranks: &Ranks) -> Planned {
        let mut planned = Planned::default();
        for task in &tasks.tasks {
            if let TaskKind::Move { src, region, .. } = &task.kind {
                let source = tasks.buffer(*src);
                let bytes = region.volume() as u64 * source.dtype.size() as u64;
                if ranks.owns(tasks, task.device) {
                    planned.received += bytes;
                }
                if ranks.owns(tasks, source.device) {
                    planned.sent += bytes;
                }
            }
        }
        planned
    }

    pub fn error(self, measured: Planned) -> RunError {
        let (planned, measured) = match self.received == measured.received {
            true => (self.sent, measured.sent),
            false => (self.received, measured.received),
        };
        RunError::Traffic { planned, measured }
    }
}

/// The box of a task that crosses.
struct Crossing<'a> {
    src: BufferId,
    region: &'a Region,
    bytes: usize,
}

impl Executor {
    /// The rank that a buffer is of.
    pub(super) fn owner(&self, buffer: BufferId) -> u32 {
        let tasks = &self.graph_tasks;
        self.ranks.of(tasks, tasks.buffer(buffer).device)
    }

    /// Puts a box of a buffer into `target`, on every rank; between runs, by all of them at once.
    pub(super) fn share(&self, buffer: BufferId, region: &Region, target: &ViewMut) {
        let (ranks, owner) = (&self.ranks, self.owner(buffer));
        if owner == ranks.rank() {
            let source = self.storage.view(buffer);
            copy(&source, target, region);
            for to in 0..ranks.count() {
                if let Some(transport) = ranks.transport().filter(|_| to != owner) {
                    transport.send(to, STATE_TAG, packed(&source, region));
                }
            }
        } else if let Some(transport) = ranks.transport() {
            let (name, dtype) = {
                let buffer = self.graph_tasks.buffer(buffer);
                (self.graph.node(buffer.node).name.clone(), buffer.dtype)
            };
            let what = move || format!("the state `{name}`");
            let message = wait(
                transport,
                owner,
                STATE_TAG,
                region.volume() * dtype.size(),
                what,
            );
            copy(
                &message_view(&message, dtype, region.clone()),
                target,
                region,
            );
        }
    }
}

/// The elements of a box, dense.
fn packed(source: &View, region: &Region) -> Message {
    let mut message = Message::zeros(region.volume() * source.dtype().size());
    let target = message_view_mut(&mut message, source.dtype(), region.clone());
    copy(source, &target, region);
    message
}

impl Run<'_> {
    fn crossing(&self, task: TaskId) -> Option<Crossing<'_>> {
        match &self.executor.graph_tasks.tasks[task.0 as usize].kind {
            TaskKind::Move { src, region, .. } | TaskKind::Gather { src, region, .. } => {
                let size = self.executor.graph_tasks.buffer(*src).dtype.size();
                Some(Crossing {
                    src: *src,
                    region,
                    bytes: region.volume() * size,
                })
            }
            _ => None,
        }
    }

    /// The half of a task that gives its box to another process.
    pub(super) fn send(&self, task: TaskId, to: Envelope) {
        let ranks = &self.executor.ranks;
        let (Some(transport), Some(crossing)) = (ranks.transport(), self.crossing(task)) else {
            return;
        };
        let message = packed(&self.view(crossing.src), crossing.region);
        if let TaskKind::Move { .. } = self.executor.graph_tasks.tasks[task.0 as usize].kind {
            let from = self.executor.graph_tasks.buffer(crossing.src).device;
            let to = self.executor.graph_tasks.tasks[task.0 as usize].device;
            self.counters.sent(from, to, message.bytes().len() as u64);
        }
        transport.send(to.rank, to.tag, message);
    }

    /// Asks for the box of a task, for whose elements there is room now.
    pub(super) fn post(&self, step: u32, task: TaskId, from: Envelope) {
        let ranks = &self.executor.ranks;
        let (Some(transport), Some(crossing)) = (ranks.transport(), self.crossing(task)) else {
            return;
        };
        let (queue, executor) = (self.queue.clone(), self.executor);
        let (graph, tasks) = (executor.graph.clone(), executor.graph_tasks.clone());
        let node = tasks.buffer(crossing.src).node;
        transport.receive(Receive {
            from: from.rank,
            tag: from.tag,
            bytes: crossing.bytes,
            what: Box::new(move || {
                format!("`{}`, {}", graph.node(node).name, tasks.describe(task))
            }),
            done: Box::new(move |message| {
                let mut ready = queue.lock();
                ready.arrived.insert(step, message);
                ready.heap.push(Reverse((step, 1)));
                drop(ready);
                queue.changed.notify_one();
            }),
        });
    }

    /// Puts the box of a task, which has come, in its place.
    pub(super) fn take(&self, step: u32, task: TaskId) {
        let arrived = self.queue.lock().arrived.remove(&step);
        let (Some(message), Some(crossing)) = (arrived, self.crossing(task)) else {
            return;
        };
        let tasks = &self.executor.graph_tasks;
        let Crossing { src, region, .. } = crossing;
        let source = tasks.buffer(src);
        let packed = message_view(&message, source.dtype, region.clone());
        match &self.executor.graph_tasks.tasks[task.0 as usize].kind {
            TaskKind::Gather { output, .. } => {
                self.counters
                    .gather(copy(&packed, &self.outputs[*output], region));
            }
            TaskKind::Move { dst, .. } => {
                let received = copy(&packed, &self.view_mut(*dst), region);
                let to = tasks.buffer(*dst).device;
                self.counters.received(source.device, to, received);
            }
            _ => {}
        }
    }
}
