//! When buffers live: frees after the last use, and the peak of each device.

use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::sync::Arc;

use super::lower::LowerError;
use super::{BufferId, BufferRole, Task, TaskGraph, TaskId, TaskKind};
use crate::graph::BoundGraph;

/// Bytes that one device needs at most, with its largest tenants at that moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Peak {
    /// The device.
    pub device: u32,
    /// Weights and states included.
    pub bytes: u64,
    /// Up to five: what people call the tensor, and bytes; largest first.
    pub tenants: Vec<(Arc<str>, u64)>,
}

/// `device 2 needs 1024 B (512 B of `x`, …)`
impl std::fmt::Display for Peak {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "device {} needs {} B (largest:", self.device, self.bytes)?;
        for (n, (name, bytes)) in self.tenants.iter().enumerate() {
            let comma = if n > 0 { "," } else { "" };
            write!(f, "{comma} {bytes} B of `{name}`")?;
        }
        f.write_str(")")
    }
}

/// Adds a [`TaskKind::Free`] of every buffer of the run after its last use.
pub(super) fn free_after_last_use(graph: &mut TaskGraph) -> Result<(), LowerError> {
    let mut users: Vec<Vec<TaskId>> = vec![Vec::new(); graph.buffers.len()];
    for (at, task) in graph.tasks.iter().enumerate() {
        for buffer in task.kind.reads().iter().chain(task.kind.writes()) {
            let users = &mut users[buffer.0 as usize];
            if users.last() != Some(&TaskId(at as u32)) {
                users.push(TaskId(at as u32));
            }
        }
    }
    // Per task: the buffers that it uses last, and the tasks that their frees wait for.
    let mut frees: Vec<Vec<(BufferId, Vec<TaskId>)>> = vec![Vec::new(); graph.tasks.len()];
    for (at, (buffer, mut users)) in graph.buffers.iter().zip(users).enumerate() {
        if let (Some(last), true) = (users.last().copied(), !buffer.role.stays()) {
            // A user that another one waits for needs no edge of its own.
            let deps = |user: &TaskId| &graph.tasks[user.0 as usize].deps;
            let mut implied: Vec<TaskId> = users.iter().flat_map(deps).copied().collect();
            implied.sort_unstable();
            users.retain(|u| implied.binary_search(u).is_err());
            frees[last.0 as usize].push((BufferId(at as u32), users));
        }
    }
    let tasks = std::mem::take(&mut graph.tasks);
    let mut renamed: Vec<TaskId> = Vec::with_capacity(tasks.len());
    for (mut task, frees) in tasks.into_iter().zip(frees) {
        let id = u32::try_from(graph.tasks.len()).map_err(|_| LowerError::TooLarge)?;
        renamed.push(TaskId(id));
        let rename = |deps: &mut [TaskId]| {
            for dep in deps {
                *dep = renamed[dep.0 as usize];
            }
        };
        rename(&mut task.deps);
        graph.tasks.push(task);
        for (buffer, mut deps) in frees {
            rename(&mut deps);
            graph.tasks.push(Task {
                device: graph.buffer(buffer).device,
                kind: TaskKind::Free { buffer },
                deps,
            });
        }
    }
    Ok(())
}

/// Bytes that each device needs at most when tasks run in their order: its weights and states, and
/// every buffer of the run from the task that first writes it to its free.
pub fn peaks(tasks: &TaskGraph) -> Vec<u64> {
    let mut now = vec![0u64; tasks.devices as usize];
    let mut most = now.clone();
    timeline(tasks, |device, bytes, alive, _| {
        let now = &mut now[device as usize];
        *now = if alive { *now + bytes } else { *now - bytes };
        most[device as usize] = most[device as usize].max(*now);
    });
    most
}

/// The peak of one device, with its largest tenants.
pub fn peak(graph: &BoundGraph, tasks: &TaskGraph, device: u32) -> Peak {
    let (mut now, mut most) = (0u64, 0u64);
    let mut live: BTreeSet<BufferId> = BTreeSet::new();
    let mut at_peak = live.clone();
    timeline(tasks, |on, bytes, alive, buffer| {
        if on != device || bytes == 0 {
            return;
        }
        if alive {
            live.insert(buffer);
            now += bytes;
        } else {
            live.remove(&buffer);
            now -= bytes;
        }
        if now > most {
            most = now;
            at_peak.clone_from(&live);
        }
    });
    let mut tenants: Vec<_> = at_peak
        .into_iter()
        .map(|b| tasks.buffer(b))
        .map(|b| (graph.node(b.node).name.clone(), b.bytes()))
        .collect();
    tenants.sort_by_key(|(_, bytes)| Reverse(*bytes));
    tenants.truncate(5);
    Peak {
        device,
        bytes: most,
        tenants,
    }
}

/// Calls `f` with device, bytes, alive or freed, and buffer, at each change in the order of tasks.
/// States are there from the start, and their versions in the same memory.
fn timeline(tasks: &TaskGraph, mut f: impl FnMut(u32, u64, bool, BufferId)) {
    let mut live = vec![false; tasks.buffers.len()];
    for (at, buffer) in tasks.buffers.iter().enumerate() {
        match buffer.role {
            BufferRole::State => f(buffer.device, buffer.bytes(), true, BufferId(at as u32)),
            BufferRole::Version(_) => {}
            _ => continue,
        }
        live[at] = true;
    }
    let changes = (tasks.load.iter().chain(&tasks.tasks)).flat_map(|t| {
        let (buffers, alive) = match &t.kind {
            TaskKind::Free { buffer } => (std::slice::from_ref(buffer), false),
            kind => (kind.writes(), true),
        };
        buffers.iter().map(move |&b| (b, alive))
    });
    for (id, alive) in changes {
        if std::mem::replace(&mut live[id.0 as usize], alive) != alive {
            let buffer = tasks.buffer(id);
            f(buffer.device, buffer.bytes(), alive, id);
        }
    }
}
