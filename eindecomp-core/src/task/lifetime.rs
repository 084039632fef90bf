//! From which task to which a buffer is needed: inputs are loaded just before their first use, and
//! buffers freed after their last one.

use super::lower::LowerError;
use super::{BufferId, Task, TaskGraph, TaskId, TaskKind};

/// Puts every load of the run just before the first task that waits for it; what nobody waits for
/// is loaded last.
pub(super) fn load_late(graph: &mut TaskGraph) {
    let load = |id: usize| matches!(graph.tasks[id].kind, TaskKind::Load { .. });
    let mut order: Vec<usize> = Vec::with_capacity(graph.tasks.len());
    let mut placed = vec![false; graph.tasks.len()];
    for (at, task) in graph.tasks.iter().enumerate().filter(|(at, _)| !load(*at)) {
        let deps = task.deps.iter().map(|d| d.0 as usize);
        for id in deps.filter(|&d| load(d)).chain([at]) {
            if !std::mem::replace(&mut placed[id], true) {
                order.push(id);
            }
        }
    }
    order.extend((0..placed.len()).filter(|&id| !placed[id]));
    let mut renamed = vec![TaskId(0); order.len()];
    for (new, &old) in order.iter().enumerate() {
        renamed[old] = TaskId(new as u32);
    }
    let mut tasks: Vec<Option<Task>> = std::mem::take(&mut graph.tasks)
        .into_iter()
        .map(Some)
        .collect();
    graph.tasks = order
        .into_iter()
        .filter_map(|old| tasks[old].take())
        .collect();
    for task in &mut graph.tasks {
        for dep in &mut task.deps {
            *dep = renamed[dep.0 as usize];
        }
        task.deps.sort_unstable();
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
