//! The rules of a [`TaskGraph`] against its graph and plan.
//!
//! 1. The tasks are in a topological order: dependencies are ascending and earlier.
//! 2. Buffers and boxes exist: a box that a task names is inside its buffer, a buffer's region
//!    inside its tensor.
//! 3. Tasks are device-local: every buffer of a task is on its device, but the source of a Move
//!    is on another one.
//! 4. Every element of a buffer is written at most once.
//! 5. Every element that a task reads was written, by tasks that it depends on.
//! 6. Every tuple of every join with a result runs once, on its device, at its tile; each of its
//!    reads covers the operand's footprint.
//! 7. Each partial result is folded once: an Aggregate takes those of one output box, all of
//!    them, in join-key order. A result that one tuple finishes goes to the owner without a fold.
//! 8. Every owned tile is written as a whole, and each result is gathered exactly once.
//! 9. A buffer of the run is freed once, after everything that uses it.
//! 10. Moves are the planned ones: bytes per ordered pair of devices, and their sum.
//! 11. A version in the memory of the one before is made by its store alone, tile for tile; every
//!     task that reads what it or a Keep overwrites comes before, whichever device it is on. Each
//!     state's tile is its last version's at the end: in place, or by one Keep.
//! 12. Buffers start at multiples of [`ALIGN`](super::arena::ALIGN), a version in the memory of the
//!     one before where that one starts. No byte of what stays across runs is in another buffer; what writes a
//!     buffer of the run waits for the free of whatever had one of its bytes before.
//! 13. An arena ends where its last buffer does: it is the device's peak.
//!
//! Files: `join` (6, 7), `whole` (8, 10), `state` (11), `memory` (9, 12, 13).

mod join;
mod memory;
mod state;
mod whole;

use super::error::TaskError;
use super::exchange::Join;
use super::traffic::{Traffic, moved_bytes};
use super::{Buffer, BufferId, BufferRole, Task, TaskGraph, TaskId, TaskKind};
use crate::ein::DType;
use crate::graph::{BoundGraph, NodeId, Role};
use crate::plan::{Plan, Region};
use join::Tuples;
use state::Use;

/// Checks every rule.
///
/// # Errors
/// The first rule that is broken.
pub fn verify(graph: &BoundGraph, plan: &Plan, tasks: &TaskGraph) -> Result<(), TaskError> {
    let planned = moved_bytes(graph, plan.hierarchy, &plan.nodes)?;
    let mut check = Check {
        graph,
        tasks,
        joins: graph
            .ids()
            .map(|(n, _)| Join::of(graph, &plan.nodes, n).map(Tuples::of))
            .collect(),
        written: vec![Vec::new(); tasks.buffers.len()],
        origin: vec![None; tasks.buffers.len()],
        gathered: vec![Vec::new(); graph.outputs().len()],
        moves: Traffic::default(),
        memory: graph.ids().map(|(node, _)| node).collect(),
        uses: graph.ids().map(|_| Vec::new()).collect(),
    };
    check.buffers()?;
    check.versions()?;
    for (at, task) in tasks.load.iter().enumerate() {
        let id = TaskId(at as u32);
        check.local(id, task)?;
        match task.kind {
            TaskKind::Load { dst } => check.load(id, dst, true)?,
            _ => return Err(TaskError::Load { task: id }),
        }
    }
    for (at, task) in tasks.tasks.iter().enumerate() {
        check.task(TaskId(at as u32), task)?;
    }
    check.tuples()?;
    check.tiles(plan)?;
    check.outputs()?;
    check.frees()?;
    check.arenas()?;
    check.moved(plan, &planned)
}

struct Check<'a> {
    graph: &'a BoundGraph,
    tasks: &'a TaskGraph,
    joins: Vec<Option<Tuples<'a>>>,
    /// Per buffer: the boxes written so far; `None` for a load before the run.
    written: Vec<Vec<(TaskId, Region)>>,
    /// Per partial buffer: the number of the tuple whose result it holds, and of the part.
    origin: Vec<Option<(usize, usize)>>,
    /// Per output: the boxes gathered.
    gathered: Vec<Vec<Region>>,
    moves: Traffic,
    /// Per tensor: the one whose memory it is in.
    memory: Vec<NodeId>,
    /// Per such tensor: what its memory is used for.
    uses: Vec<Vec<Use>>,
}

impl<'a> Check<'a> {
    fn buffer(&self, id: BufferId) -> &'a Buffer {
        self.tasks.buffer(id)
    }

    fn buffers(&self) -> Result<(), TaskError> {
        for (at, buffer) in self.tasks.buffers.iter().enumerate() {
            let within = buffer.node.at() < self.graph.nodes().len() && {
                let shape = self.graph.shape(buffer.node);
                buffer.region.0.len() == shape.len()
                    && (buffer.region.0.iter().zip(shape))
                        .all(|(&(lo, hi), &extent)| lo <= hi && hi <= extent)
            };
            if !within || buffer.device >= self.tasks.devices {
                return Err(TaskError::Buffer {
                    buffer: BufferId(at as u32),
                    node: buffer.node,
                    region: buffer.region.clone(),
                });
            }
        }
        Ok(())
    }

    /// Rules 1 to 3.
    fn local(&self, id: TaskId, task: &Task) -> Result<(), TaskError> {
        let ascending = task.deps.windows(2).all(|w| w[0] < w[1]);
        if !ascending || task.deps.last().is_some_and(|&d| d >= id) {
            return Err(TaskError::Order { task: id });
        }
        let moves = matches!(task.kind, TaskKind::Move { .. });
        let freed = match &task.kind {
            TaskKind::Free { buffer } => Some(*buffer),
            _ => None,
        };
        let reads = task.kind.reads().iter().map(|&b| (b, moves));
        let rest = task.kind.writes().iter().copied().chain(freed);
        for (buffer, remote) in reads.chain(rest.map(|b| (b, false))) {
            let Some(found) = self.tasks.buffers.get(buffer.0 as usize) else {
                return Err(TaskError::Missing {
                    task: id,
                    what: "a buffer",
                });
            };
            if (found.device == task.device) == remote {
                return Err(TaskError::Remote {
                    task: id,
                    device: task.device,
                    buffer,
                    on: found.device,
                });
            }
        }
        Ok(())
    }

    fn task(&mut self, id: TaskId, task: &Task) -> Result<(), TaskError> {
        self.local(id, task)?;
        match &task.kind {
            TaskKind::Load { dst } => self.load(id, *dst, false),
            TaskKind::Kernel {
                node,
                key,
                tile,
                reads,
                writes,
            } => {
                let boxes = self.kernel(id, task, *node, key, tile, reads, writes)?;
                let mut all = writes.iter().zip(&boxes);
                all.try_for_each(|(&write, region)| self.write(id, task, write, region))
            }
            TaskKind::Copy { src, dst, region } | TaskKind::Move { src, dst, region } => {
                self.read(id, task, *src, region)?;
                self.transfer(id, *src, *dst, region)?;
                self.write(id, task, *dst, region)
            }
            TaskKind::Keep { src, dst, region } => {
                self.read(id, task, *src, region)?;
                let (from, to) = (self.buffer(*src).node, self.buffer(*dst));
                let mut states = self.graph.states();
                let last =
                    states.any(|(state, last)| state == to.node && last == from && last != state);
                if !last || to.role != BufferRole::State || !self.is_final(*src) {
                    return Err(TaskError::Fold {
                        task: id,
                        node: from,
                    });
                }
                self.write(id, task, *dst, region)
            }
            TaskKind::Aggregate {
                node,
                srcs,
                dst,
                region,
            } => {
                self.fold(id, *node, srcs, *dst)?;
                let parts = self.parts(*node);
                for (n, src) in srcs.iter().enumerate() {
                    let region = parts[n % parts.len()].region(region);
                    self.read(id, task, *src, &region)?;
                }
                self.write(id, task, *dst, region)
            }
            TaskKind::Gather {
                src,
                output,
                region,
            } => {
                self.read(id, task, *src, region)?;
                let named = self.graph.outputs().get(*output).map(|o| o.node);
                let buffer = self.buffer(*src);
                if named != Some(buffer.node) || buffer.role == BufferRole::Partial {
                    return Err(TaskError::Output { output: *output });
                }
                self.gathered[*output].push(region.clone());
                Ok(())
            }
            TaskKind::Free { .. } => Ok(()),
        }
    }

    /// Weights are loaded before the run, other inputs into their owners' tiles during it.
    fn load(&mut self, id: TaskId, dst: BufferId, before: bool) -> Result<(), TaskError> {
        let buffer = self.buffer(dst);
        let fits = match self.graph.node(buffer.node).role() {
            None => false,
            Some(Role::Weight) => before && buffer.role == BufferRole::Weight,
            Some(Role::State) => false,
            Some(Role::Data) => !before && buffer.role == BufferRole::Owned,
        };
        if !fits || buffer.dtype != self.stored(buffer.node) {
            return Err(TaskError::Load { task: id });
        }
        self.fill(id, dst, &buffer.region)
    }

    /// Rules 4 and 11.
    fn write(
        &mut self,
        id: TaskId,
        task: &Task,
        buffer: BufferId,
        region: &Region,
    ) -> Result<(), TaskError> {
        // A replica of a version is a copy elsewhere, or in shared memory that version itself.
        if let BufferRole::State | BufferRole::Version(_) = self.buffer(buffer).role {
            self.share(id, task, buffer, region, true)?;
        }
        self.fill(id, buffer, region)
    }

    /// Rule 4.
    fn fill(&mut self, id: TaskId, buffer: BufferId, region: &Region) -> Result<(), TaskError> {
        if !inside(region, &self.buffer(buffer).region) {
            return Err(TaskError::Missing {
                task: id,
                what: "the box it writes",
            });
        }
        let written = &mut self.written[buffer.0 as usize];
        if written.iter().any(|(_, w)| w.common(region) > 0) {
            return Err(TaskError::Rewrite {
                task: id,
                buffer,
                region: region.clone(),
            });
        }
        written.push((id, region.clone()));
        Ok(())
    }

    /// Rules 5 and 11. Weights and states are written before the run.
    fn read(
        &mut self,
        id: TaskId,
        task: &Task,
        buffer: BufferId,
        region: &Region,
    ) -> Result<(), TaskError> {
        if !inside(region, &self.buffer(buffer).region) {
            return Err(TaskError::Missing {
                task: id,
                what: "the box it reads",
            });
        }
        self.share(id, task, buffer, region, false)?;
        let role = self.buffer(buffer).role;
        let loaded = matches!(role, BufferRole::Weight | BufferRole::State);
        let before = |writer: &TaskId| loaded || task.deps.binary_search(writer).is_ok();
        let covered: usize = (self.written[buffer.0 as usize].iter())
            .filter(|(writer, _)| before(writer))
            .map(|(_, w)| w.common(region))
            .sum();
        match covered == region.volume() || role == BufferRole::State {
            true => Ok(()),
            false => Err(TaskError::Unwritten {
                task: id,
                buffer,
                region: region.clone(),
            }),
        }
    }

    /// Does the buffer hold final values, as stored?
    fn is_final(&self, id: BufferId) -> bool {
        let buffer = self.buffer(id);
        buffer.role != BufferRole::Partial && buffer.dtype == self.stored(buffer.node)
    }

    fn stored(&self, node: NodeId) -> DType {
        self.graph.node(node).dtype
    }
}

/// Is `region` a box of the same rank inside `outer`?
fn inside(region: &Region, outer: &Region) -> bool {
    region.0.len() == outer.0.len()
        && region.0.iter().all(|(lo, hi)| lo <= hi)
        && outer.contains(region)
}
