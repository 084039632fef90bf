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

use std::collections::BTreeMap;

use super::error::TaskError;
use super::exchange::{Join, Traffic, Tuple, moved_bytes};
use super::{Buffer, BufferId, BufferRole, Task, TaskGraph, TaskId, TaskKind};
use crate::ein::DType;
use crate::ein::einsum::Part;
use crate::graph::{BoundGraph, NodeId, Role};
use crate::plan::{Plan, Region};

/// Checks every rule.
///
/// # Errors
/// The first rule that is broken.
pub fn verify(graph: &BoundGraph, plan: &Plan, tasks: &TaskGraph) -> Result<(), TaskError> {
    let planned = moved_bytes(graph, plan.devices, &plan.nodes)?;
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
    check.moved(plan, &planned)
}

/// The tuples of a join, and how often each ran.
struct Tuples<'a> {
    join: Join<'a>,
    ran: BTreeMap<Vec<u32>, (Tuple, usize)>,
}

impl<'a> Tuples<'a> {
    fn of(join: Join<'a>) -> Tuples<'a> {
        let tuples = join.tuples();
        let ran = tuples.into_iter().map(|t| (join.key(&t), (t, 0))).collect();
        Tuples { join, ran }
    }
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

/// A use of a box of a state's memory.
struct Use {
    task: TaskId,
    /// The version that is read or written.
    version: NodeId,
    region: Region,
    writes: bool,
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

    /// Rule 11: buffers in the memory of others.
    fn versions(&mut self) -> Result<(), TaskError> {
        let mut own = vec![false; self.graph.nodes().len()];
        for (at, buffer) in self.tasks.buffers.iter().enumerate() {
            let id = BufferId(at as u32);
            let wrong = Err(TaskError::Version { buffer: id });
            let BufferRole::Version(over) = buffer.role else {
                let state = self.graph.node(buffer.node).role() == Some(Role::State);
                if buffer.role == BufferRole::State && (!state || !self.is_final(id)) {
                    return wrong;
                }
                own[buffer.node.at()] |= buffer.role == BufferRole::Owned;
                continue;
            };
            if over >= id {
                return wrong;
            }
            let before = self.buffer(over);
            let vertex = self.graph.node(buffer.node);
            let stores = vertex.store.as_ref().zip(vertex.einsum());
            let old = stores.map(|(s, e)| e.operands[s.old].node);
            let same = (before.device, &before.region, before.dtype)
                == (buffer.device, &buffer.region, buffer.dtype);
            let there = matches!(before.role, BufferRole::State | BufferRole::Version(_));
            if old != Some(before.node) || !same || !there {
                return wrong;
            }
            self.memory[buffer.node.at()] = self.memory[before.node.at()];
        }
        let versions = |b: &&Buffer| matches!(b.role, BufferRole::Version(_));
        match self
            .tasks
            .buffers
            .iter()
            .filter(versions)
            .position(|b| own[b.node.at()])
        {
            Some(at) => Err(TaskError::Version {
                buffer: BufferId(at as u32),
            }),
            None => Ok(()),
        }
    }

    /// Rule 11: uses of the memory of versions, in the order of tasks.
    fn share(
        &mut self,
        id: TaskId,
        task: &Task,
        buffer: BufferId,
        region: &Region,
        writes: bool,
    ) -> Result<(), TaskError> {
        let used = self.buffer(buffer);
        let memory = self.memory[used.node.at()];
        if self.graph.node(memory).role() != Some(Role::State) {
            return Ok(());
        }
        // What a Keep writes is newer than every version.
        let keeps = matches!(task.kind, TaskKind::Keep { .. });
        let version = match keeps && writes {
            true => NodeId(u32::MAX),
            false => used.node,
        };
        let before = self.uses[memory.at()].iter();
        let mut common = before.filter(|u| u.region.common(region) > 0);
        let late = |u: &&Use| match writes {
            true => {
                u.task != id && u.version != version && task.deps.binary_search(&u.task).is_err()
            }
            false => u.writes && u.version > version,
        };
        if let Some(other) = common.find(late) {
            let (task, reader) = if writes {
                (id, other.task)
            } else {
                (other.task, id)
            };
            return Err(TaskError::Overwrite {
                task,
                buffer,
                reader,
            });
        }
        self.uses[memory.at()].push(Use {
            task: id,
            version,
            region: region.clone(),
            writes,
        });
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
        self.share(id, task, buffer, region, true)?;
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

    /// Rule 6; returns the boxes of the result, one per buffer.
    #[expect(clippy::too_many_arguments, reason = "the fields of a kernel task")]
    fn kernel(
        &mut self,
        id: TaskId,
        task: &Task,
        node: NodeId,
        key: &[u32],
        tile: &Region,
        reads: &[BufferId],
        writes: &[BufferId],
    ) -> Result<Vec<Region>, TaskError> {
        let wrong = |what| TaskError::Kernel {
            task: id,
            node,
            key: key.to_vec(),
            what,
        };
        let tuples = self.joins.get_mut(node.at()).and_then(Option::as_mut);
        let tuples = tuples.ok_or(wrong("vertex"))?;
        let (tuple, times) = tuples.ran.get_mut(key).ok_or(wrong("key"))?;
        *times += 1;
        let tuple = tuple.clone();
        let wants: Vec<_> = tuples.join.reads(&tuple).collect();
        let (folds, parts) = (tuples.join.folds(), tuples.join.parts().to_vec());
        if task.device != tuple.device {
            return Err(wrong("device"));
        }
        if *tile != tuple.tile {
            return Err(wrong("tile"));
        }
        if reads.len() != wants.len() {
            return Err(wrong("number of reads"));
        }
        for (&buffer, (operand, want)) in reads.iter().zip(&wants) {
            if self.buffer(buffer).node != *operand || !self.is_final(buffer) {
                return Err(wrong("operand"));
            }
            self.read(id, task, buffer, want)?;
        }
        if writes.len() != parts.len() {
            return Err(wrong("number of results"));
        }
        let boxes: Vec<Region> = parts.iter().map(|p| p.region(&tuple.output)).collect();
        for (n, (&write, part)) in writes.iter().zip(&parts).enumerate() {
            let result = self.buffer(write);
            let fits = match result.role {
                BufferRole::Owned | BufferRole::Version(_) => folds == 1 && self.is_final(write),
                BufferRole::Partial => result.region == boxes[n] && result.dtype == part.dtype,
                _ => false,
            };
            if result.node != node || !fits {
                return Err(wrong("result"));
            }
            if result.role == BufferRole::Partial {
                self.origin[write.0 as usize] = Some((tuple.number, n));
            }
        }
        Ok(boxes)
    }

    /// Does the buffer hold final values, as stored?
    fn is_final(&self, id: BufferId) -> bool {
        let buffer = self.buffer(id);
        buffer.role != BufferRole::Partial && buffer.dtype == self.stored(buffer.node)
    }

    fn stored(&self, node: NodeId) -> DType {
        self.graph.node(node).dtype
    }

    /// Rule 7 for Copy and Move: final values stay final, partial ones keep their tuple.
    fn transfer(
        &mut self,
        id: TaskId,
        src: BufferId,
        dst: BufferId,
        region: &Region,
    ) -> Result<(), TaskError> {
        let (from, to) = (self.buffer(src), self.buffer(dst));
        let node = from.node;
        let partial = from.role == BufferRole::Partial;
        let same = to.node == node && to.dtype == from.dtype;
        let fits = match to.role {
            BufferRole::Weight | BufferRole::State | BufferRole::Version(_) => false,
            BufferRole::Replica => !partial,
            BufferRole::Owned => partial && self.folds(node) == 1,
            BufferRole::Partial => partial && *region == to.region,
        };
        if !same || !fits {
            return Err(TaskError::Fold { task: id, node });
        }
        if to.role == BufferRole::Partial {
            self.origin[dst.0 as usize] = self.origin[src.0 as usize];
        }
        self.moves.add(
            from.device,
            to.device,
            (region.volume() * from.dtype.size()) as u64,
        );
        Ok(())
    }

    fn folds(&self, node: NodeId) -> usize {
        self.joins[node.at()].as_ref().map_or(0, |t| t.join.folds())
    }

    /// The parts of a vertex's results.
    fn parts(&self, node: NodeId) -> Vec<Part> {
        self.joins[node.at()]
            .as_ref()
            .map_or(Vec::new(), |t| t.join.parts().to_vec())
    }

    /// Rule 7 for Aggregate. That no partial is folded twice follows from rule 4 on the owned
    /// tile, that none is left out from rule 8.
    fn fold(
        &self,
        id: TaskId,
        node: NodeId,
        srcs: &[BufferId],
        dst: BufferId,
    ) -> Result<(), TaskError> {
        let wrong = TaskError::Fold { task: id, node };
        let to = self.buffer(dst);
        let (folds, parts) = match self.joins.get(node.at()) {
            Some(Some(t)) => (t.join.folds(), t.join.parts().len()),
            _ => return Err(wrong),
        };
        let numbers: Option<Vec<(usize, usize)>> =
            srcs.iter().map(|s| self.origin[s.0 as usize]).collect();
        let first = numbers.as_ref().and_then(|n| n.first().copied());
        let tuples = |(f, _)| f..f + folds;
        let all = first.filter(|(f, _)| f % folds == 0).map(|f| {
            let of = |tuple| (0..parts).map(move |part| (tuple, part));
            tuples(f).flat_map(of).collect()
        });
        let of_node = srcs.iter().all(|&s| self.buffer(s).node == node);
        match to.node == node && to.role == BufferRole::Owned && of_node && numbers == all {
            true => Ok(()),
            false => Err(wrong),
        }
    }

    fn tuples(&self) -> Result<(), TaskError> {
        for (at, tuples) in self.joins.iter().enumerate() {
            let mut ran = tuples.iter().flat_map(|t| &t.ran);
            if let Some((key, (_, times))) = ran.find(|(_, (_, times))| *times != 1) {
                return Err(TaskError::Tuples {
                    node: NodeId(at as u32),
                    key: key.clone(),
                    times: *times,
                });
            }
        }
        Ok(())
    }

    /// Rule 8: the owners' tiles.
    fn tiles(&self, plan: &Plan) -> Result<(), TaskError> {
        let mut written: BTreeMap<(NodeId, &Region, u32), usize> = BTreeMap::new();
        for (buffer, boxes) in self.tasks.buffers.iter().zip(&self.written) {
            let sharded = self.graph.node(buffer.node).role() == Some(Role::Weight);
            let owned = matches!(buffer.role, BufferRole::Owned | BufferRole::Version(_));
            let state = buffer.role == BufferRole::State;
            if owned || state || sharded && buffer.role == BufferRole::Weight {
                let volume = match state && !self.is_kept(buffer.node) {
                    true => buffer.region.volume(),
                    false => boxes.iter().map(|(_, r)| r.volume()).sum(),
                };
                written.insert((buffer.node, &buffer.region, buffer.device), volume);
            }
        }
        for (node, _) in self.graph.ids() {
            let shape = self.graph.shape(node);
            let tiles = plan.nodes[node.at()].owner.iter();
            for (region, device) in tiles.flat_map(|o| o.iter(shape)) {
                let found = written.get(&(node, &region, device)).copied().unwrap_or(0);
                if found != region.volume() {
                    return Err(TaskError::Tile {
                        node,
                        region,
                        device,
                        written: found,
                    });
                }
            }
        }
        Ok(())
    }

    /// Rule 11: is the state's last version elsewhere, so that it must be kept?
    fn is_kept(&self, state: NodeId) -> bool {
        let mut states = self.graph.states().filter(|(of, _)| *of == state);
        states.any(|(_, last)| self.memory[last.at()] != state)
    }

    /// Rule 8: the results.
    fn outputs(&self) -> Result<(), TaskError> {
        for (output, boxes) in self.gathered.iter().enumerate() {
            let whole = self.graph.elements(self.graph.outputs()[output].node);
            let twice = boxes.iter().enumerate().any(|(at, a)| {
                let mut later = boxes[at + 1..].iter();
                later.any(|b| a.common(b) > 0)
            });
            if twice || boxes.iter().map(Region::volume).sum::<usize>() != whole {
                return Err(TaskError::Output { output });
            }
        }
        Ok(())
    }

    /// Rule 9. A use that another use waits for needs no edge of its own.
    fn frees(&self) -> Result<(), TaskError> {
        let mut users: Vec<Vec<TaskId>> = vec![Vec::new(); self.tasks.buffers.len()];
        let mut freed = vec![false; self.tasks.buffers.len()];
        let waits = |t: &TaskId, user: &TaskId| {
            let deps = &self.tasks.tasks[t.0 as usize].deps;
            deps.binary_search(user).is_ok()
        };
        for (at, task) in self.tasks.tasks.iter().enumerate() {
            let id = TaskId(at as u32);
            for buffer in task.kind.reads().iter().chain(task.kind.writes()) {
                if freed[buffer.0 as usize] {
                    return Err(TaskError::Free { buffer: *buffer });
                }
                users[buffer.0 as usize].push(id);
            }
            if let TaskKind::Free { buffer } = task.kind {
                let mut before = vec![id];
                for user in users[buffer.0 as usize].iter().rev() {
                    if before.iter().any(|b| waits(b, user)) {
                        before.push(*user);
                    }
                }
                let late = before.len() <= users[buffer.0 as usize].len();
                let kept = self.buffer(buffer).role.stays();
                let twice = std::mem::replace(&mut freed[buffer.0 as usize], true);
                if kept || twice || late {
                    return Err(TaskError::Free { buffer });
                }
            }
        }
        for (at, buffer) in self.tasks.buffers.iter().enumerate() {
            if !buffer.role.stays() && !freed[at] {
                return Err(TaskError::Free {
                    buffer: BufferId(at as u32),
                });
            }
        }
        Ok(())
    }

    /// Rule 10.
    fn moved(&self, plan: &Plan, planned: &Traffic) -> Result<(), TaskError> {
        let pairs = planned.iter().chain(self.moves.iter());
        for (from, to, _) in pairs {
            let (planned, actual) = (planned.between(from, to), self.moves.between(from, to));
            if planned != actual {
                return Err(TaskError::Moves {
                    from,
                    to,
                    planned,
                    actual,
                });
            }
        }
        let actual = self.moves.total();
        match actual == plan.moved_bytes {
            true => Ok(()),
            false => Err(TaskError::MovedBytes {
                planned: plan.moved_bytes,
                actual,
            }),
        }
    }
}

/// Is `region` a box of the same rank inside `outer`?
fn inside(region: &Region, outer: &Region) -> bool {
    region.0.len() == outer.0.len()
        && region.0.iter().all(|(lo, hi)| lo <= hi)
        && outer.contains(region)
}
