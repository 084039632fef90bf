//! Rules 9, 12 and 13: when buffers are freed, and where they are.

use super::Check;
use crate::task::arena::ALIGN;
use crate::task::{BufferId, BufferRole, TaskError, TaskId, TaskKind};

impl Check<'_> {
    /// Rule 9. A use that another use waits for needs no edge of its own.
    pub(super) fn frees(&self) -> Result<(), TaskError> {
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

    /// Rules 12 and 13. That whatever had the bytes before the last tenant is out of use too follows from
    /// rule 9: the tenant's free waits for its writers, which waited for it.
    pub(super) fn arenas(&self) -> Result<(), TaskError> {
        let tasks = self.tasks;
        let mut ends = vec![0u64; tasks.devices as usize];
        let mut cuts: Vec<Vec<u64>> = vec![Vec::new(); ends.len()];
        for (at, buffer) in tasks.buffers.iter().enumerate() {
            let over = match buffer.role {
                BufferRole::Version(over) => self.buffer(over).offset,
                _ => buffer.offset,
            };
            if buffer.offset % ALIGN != 0 || buffer.offset != over {
                let buffer = BufferId(at as u32);
                return Err(TaskError::Offset { buffer });
            }
            if buffer.bytes() > 0 {
                let end = &mut ends[buffer.device as usize];
                *end = (*end).max(buffer.range().end);
                cuts[buffer.device as usize].extend([buffer.range().start, buffer.range().end]);
            }
        }
        if let Some(device) = (0..ends.len()).find(|&d| tasks.arenas.get(d) != Some(&ends[d])) {
            return Err(TaskError::Arena {
                device: device as u32,
                stated: tasks.arenas.get(device).copied(),
                end: ends[device],
            });
        }
        for cuts in &mut cuts {
            cuts.sort_unstable();
            cuts.dedup();
        }
        self.sharing(&cuts)
    }

    /// Rule 12: who shares bytes, given where buffers start and end on each device.
    fn sharing(&self, cuts: &[Vec<u64>]) -> Result<(), TaskError> {
        let tasks = self.tasks;
        let slots = |id: BufferId| {
            let (range, cuts) = (
                self.buffer(id).range(),
                &cuts[self.buffer(id).device as usize],
            );
            let at = |byte| cuts.partition_point(|&cut| cut < byte);
            at(range.start)..at(range.end)
        };
        let mut tenants: Vec<Vec<Option<BufferId>>> =
            cuts.iter().map(|c| vec![None; c.len()]).collect();
        let stays = |b: BufferId| match self.buffer(b).role {
            BufferRole::Version(_) => false,
            role => role.stays(),
        };
        for id in (0..tasks.buffers.len() as u32)
            .map(BufferId)
            .filter(|&b| stays(b))
        {
            for tenant in &mut tenants[self.buffer(id).device as usize][slots(id)] {
                if let Some(other) = tenant.replace(id) {
                    return Err(TaskError::Shared { buffer: id, other });
                }
            }
        }
        let mut frees: Vec<Option<TaskId>> = vec![None; tasks.buffers.len()];
        let mut before: Vec<Option<Vec<BufferId>>> = vec![None; tasks.buffers.len()];
        for (at, task) in tasks.tasks.iter().enumerate() {
            if let TaskKind::Free { buffer } = task.kind {
                frees[buffer.0 as usize] = Some(TaskId(at as u32));
            }
            for &id in task.kind.writes() {
                let buffer = self.buffer(id);
                if buffer.role.stays() {
                    continue;
                }
                let before = before[id.0 as usize].get_or_insert_with(|| {
                    let slots = &mut tenants[buffer.device as usize][slots(id)];
                    let mut before: Vec<_> =
                        slots.iter_mut().filter_map(|t| t.replace(id)).collect();
                    before.sort_unstable();
                    before.dedup();
                    before
                });
                let waits = |other: &BufferId| {
                    let free = frees[other.0 as usize];
                    free.is_some_and(|free| task.deps.binary_search(&free).is_ok())
                };
                if let Some(&other) = before.iter().find(|other| !waits(other)) {
                    return Err(TaskError::Shared { buffer: id, other });
                }
            }
        }
        Ok(())
    }
}
