//! Who needs how much of a device's memory when it needs most.

use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::sync::Arc;

use super::{BufferId, BufferRole, TaskGraph, TaskKind};
use crate::graph::BoundGraph;

/// Bytes of one device's arena, with its largest tenants when it is fullest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Peak {
    /// The device.
    pub device: u32,
    /// Its arena: weights and states included.
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
        bytes: tasks.arenas[device as usize],
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
