//! Host tensors that a run uses where they are.
//!
//! Devices of this machine read inputs from the caller's memory and write results into it: nothing is
//! copied into the arena and out of it. Their places in the arena, which the plan has, stay unused.

use eindecomp_core::task::{BufferId, BufferRole, TaskGraph, TaskKind};

use super::Run;
use crate::storage::{MemoryMode, host_view};
use crate::view::{View, ViewMut};

/// Whose memory a buffer is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Host {
    /// That of the tensor which is loaded into it.
    Input,
    /// That of this output.
    Output(usize),
}

/// Per buffer, the host tensor that takes its place in runs.
pub(super) fn lent(graph: &TaskGraph, mode: MemoryMode) -> Vec<Option<Host>> {
    let mut lent = vec![None; graph.buffers.len()];
    // The others are for finding faults: what is not moved is not there.
    if mode != MemoryMode::Arena {
        return lent;
    }
    for task in &graph.tasks {
        match &task.kind {
            TaskKind::Load { dst } if !graph.buffer(*dst).role.stays() => {
                lent[dst.0 as usize] = Some(Host::Input);
            }
            TaskKind::Gather {
                src,
                output,
                region,
            } => {
                let buffer = graph.buffer(*src);
                let whole = buffer.role == BufferRole::Owned && buffer.region == *region;
                let slot = &mut lent[src.0 as usize];
                if whole && slot.is_none() {
                    *slot = Some(Host::Output(*output));
                }
            }
            _ => {}
        }
    }
    lent
}

impl Run<'_> {
    /// The elements of a buffer, for reading.
    pub(super) fn view(&self, buffer: BufferId) -> View {
        let given = self.executor.storage.view(buffer);
        let region = given.region();
        match self.schedule.lent[buffer.0 as usize] {
            Some(Host::Input) => {
                let node = self.executor.graph_tasks.buffer(buffer).node;
                match self.inputs[node.at()] {
                    Some(tensor) => host_view(tensor).within(region),
                    None => given,
                }
            }
            Some(Host::Output(n)) => self.outputs[n].within(region).for_reading(),
            None => given,
        }
    }

    /// The elements of a buffer, for writing.
    pub(super) fn view_mut(&self, buffer: BufferId) -> ViewMut {
        let given = self.executor.storage.view_mut(buffer);
        match self.schedule.lent[buffer.0 as usize] {
            Some(Host::Output(n)) => self.outputs[n].within(given.region()),
            _ => given,
        }
    }

    /// Is the buffer the given output itself?
    pub(super) fn is_output(&self, buffer: BufferId, output: usize) -> bool {
        self.schedule.lent[buffer.0 as usize] == Some(Host::Output(output))
    }

    /// Is the buffer the caller's tensor itself?
    pub(super) fn is_input(&self, buffer: BufferId) -> bool {
        self.schedule.lent[buffer.0 as usize] == Some(Host::Input)
    }
}
