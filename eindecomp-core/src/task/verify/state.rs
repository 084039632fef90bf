//! Rule 11: versions of a state that share its memory.

use super::Check;
use crate::graph::{NodeId, Role};
use crate::plan::Region;
use crate::task::{Buffer, BufferId, BufferRole, Task, TaskError, TaskId, TaskKind};

/// A use of a box of a state's memory.
pub(super) struct Use {
    task: TaskId,
    /// The version that is read or written.
    version: NodeId,
    region: Region,
    writes: bool,
}

impl Check<'_> {
    /// Rule 11: buffers in the memory of others.
    pub(super) fn versions(&mut self) -> Result<(), TaskError> {
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
    pub(super) fn share(
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

    /// Rule 11: is the state's last version elsewhere, so that it must be kept?
    pub(super) fn is_kept(&self, state: NodeId) -> bool {
        let mut states = self.graph.states().filter(|(of, _)| *of == state);
        states.any(|(_, last)| self.memory[last.at()] != state)
    }
}
