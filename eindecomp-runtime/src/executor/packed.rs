//! Weights that are packed once, when they are loaded, rather than whenever they are multiplied.
//!
//! A buffer of a weight that one kernel task reads, as all of the right operand of a contraction, and nothing
//! else, holds the panels of that contraction instead of rows: the same elements in another order.

use eindecomp_core::plan::layout::Region;
use eindecomp_core::task::{BufferId, TaskGraph, TaskKind};

use super::schedule::Schedule;
use crate::backend::cpu::{Kernel, Scratch};
use crate::storage::{MemoryMode, Storage};
use crate::view::{Packed, View, ViewMut};

/// The task that reads a packed buffer.
pub(super) struct Reader {
    node: usize,
    tile: Region,
    operand: usize,
    /// Where each of its pieces finds what it reads.
    places: Vec<Packed>,
}

impl Reader {
    /// Packs a buffer that was loaded.
    pub(super) fn pack(&self, kernels: &[Option<Kernel>], buffer: &ViewMut) {
        if let Some(kernel) = &kernels[self.node] {
            kernel.pack(&self.tile, self.operand, buffer, &mut Scratch::default());
        }
    }

    /// What a piece reads.
    pub(super) fn view(&self, buffer: View, piece: usize) -> View {
        match self.places.get(piece) {
            Some(&place) => buffer.in_panels(place),
            None => buffer,
        }
    }
}

/// Per buffer, who reads it packed.
pub(super) fn packed(
    graph: &TaskGraph,
    kernels: &[Option<Kernel>],
    schedule: &Schedule,
    storage: &Storage,
    mode: MemoryMode,
) -> Vec<Option<Reader>> {
    let mut packed: Vec<Option<Reader>> = graph.buffers.iter().map(|_| None).collect();
    // Elsewhere buffers overlap.
    if mode == MemoryMode::Shared {
        return packed;
    }
    let mut uses = vec![0u32; graph.buffers.len()];
    for task in &graph.tasks {
        let buffers = task.kind.reads().iter().chain(task.kind.writes());
        buffers.for_each(|buffer| uses[buffer.0 as usize] += 1);
    }
    let mut weights = vec![false; graph.buffers.len()];
    for task in &graph.load {
        if let TaskKind::Load { dst } = task.kind {
            weights[dst.0 as usize] = true;
        }
    }
    let once = |buffer: &BufferId| weights[buffer.0 as usize] && uses[buffer.0 as usize] == 1;
    for (step, pieces) in schedule.steps.iter().zip(&schedule.pieces) {
        let TaskKind::Kernel {
            node, tile, reads, ..
        } = &graph.tasks[step.task.0 as usize].kind
        else {
            continue;
        };
        let Some(kernel) = &kernels[node.at()] else {
            continue;
        };
        for (operand, &buffer) in reads.iter().enumerate().filter(|(_, b)| once(b)) {
            let places = kernel.packed(tile, pieces, operand, &storage.view_mut(buffer));
            packed[buffer.0 as usize] = places.map(|places| Reader {
                node: node.at(),
                tile: tile.clone(),
                operand,
                places,
            });
        }
    }
    packed
}
