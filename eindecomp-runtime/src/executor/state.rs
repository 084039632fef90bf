//! States: what stays across runs and is updated by stores.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;

use eindecomp_core::graph::{BoundGraph, NodeId, Ranges, Role};
use eindecomp_core::plan::layout::Region;
use eindecomp_core::task::{BufferId, BufferRole};

use super::{Executor, given};
use crate::backend::cpu::copy;
use crate::error::RunError;
use crate::storage::{host_view, host_view_mut};
use crate::tensor::{Data, Tensor};
use crate::view::View;

impl Executor {
    /// The states as they are after the last run, by input name; at first they are zeros. Every rank
    /// asks for them at once, and has them all.
    pub fn states(&self) -> BTreeMap<String, Tensor> {
        let mut states = BTreeMap::new();
        for (id, node) in self
            .graph
            .ids()
            .filter(|(_, n)| n.role() == Some(Role::State))
        {
            let mut tensor = Tensor::zeros(node.dtype, self.graph.shape(id).to_vec());
            let view = host_view_mut(&mut tensor);
            for (buffer, region) in self.state_tiles(id) {
                self.share(buffer, region, &view);
            }
            states.insert(node.name.to_string(), tensor);
        }
        states
    }

    /// Gives every state a value, by input name.
    ///
    /// # Errors
    /// A state that is missing, unknown, or of another shape or element type; then none is changed.
    pub fn set_states(&mut self, states: &BTreeMap<String, Tensor>) -> Result<(), RunError> {
        let given = given::inputs(&self.graph, states, |role| role == Role::State)?;
        for (at, tensor) in given.into_iter().enumerate() {
            let Some(tensor) = tensor else { continue };
            let here = |b: &BufferId| self.owner(*b) == self.ranks.rank();
            for (buffer, region) in self.state_tiles(NodeId(at as u32)).filter(|t| here(&t.0)) {
                copy(&host_view(tensor), &self.storage.view_mut(buffer), region);
            }
        }
        self.lost = false;
        Ok(())
    }

    /// Are the states what some run or the caller made them?
    pub fn has_states(&self) -> bool {
        !self.lost
    }

    fn state_tiles(&self, node: NodeId) -> impl Iterator<Item = (BufferId, &Region)> {
        let buffers = self.graph_tasks.buffers.iter().enumerate();
        buffers
            .filter(move |(_, b)| b.node == node && b.role == BufferRole::State)
            .map(|(at, b)| (BufferId(at as u32), &b.region))
    }

    /// The boxes of a tile that a store in place writes; `None` for all other kernels, which write
    /// the whole tile.
    pub(super) fn stored(
        &self,
        node: NodeId,
        tile: &Region,
        reads: &[View],
        write: Option<BufferId>,
    ) -> Result<Option<Vec<Region>>, RunError> {
        let Some(written) = written(&self.graph, node, &|n| reads.get(n).map_or(0, number))? else {
            return Ok(None);
        };
        let role = write.map(|b| self.graph_tasks.buffer(b).role);
        if !matches!(role, Some(BufferRole::Version(_))) {
            return Ok(None);
        }
        let mut boxes = match written {
            None => return Ok(Some(Vec::new())),
            Some(_) => vec![Region(Vec::new())],
        };
        for (ranges, &(lo, hi)) in written.iter().flatten().zip(&tile.0) {
            let inside = |&(from, to): &(usize, usize)| (from.max(lo), to.min(hi));
            let ranges = ranges.iter().map(inside).filter(|(from, to)| from < to);
            let longer = ranges.flat_map(|range| {
                boxes.iter().map(move |b| {
                    let mut b = b.clone();
                    b.0.push(range);
                    b
                })
            });
            boxes = longer.collect();
        }
        if !boxes.is_empty() {
            self.storing.store(true, Ordering::Relaxed);
        }
        Ok(Some(boxes))
    }
}

/// What a store writes, for the values `of` its operands of rank 0: per axis ranges of positions, or nothing.
/// `None` of a statement that is no store.
///
/// # Errors
/// [`RunError::Store`].
pub(crate) fn written(
    graph: &BoundGraph,
    node: NodeId,
    of: &dyn Fn(usize) -> i64,
) -> Result<Option<Option<Vec<Ranges>>>, RunError> {
    let vertex = graph.node(node);
    let Some(store) = &vertex.store else {
        return Ok(None);
    };
    let shape = graph.shape(node);
    let written = store.written(shape, of);
    written.map(Some).map_err(|outside| RunError::Store {
        statement: vertex.name.clone(),
        state: graph.node(store.state).name.clone(),
        axis: outside.axis,
        value: outside.value,
        extent: shape[outside.axis],
    })
}

/// The value of an integer of rank 0.
fn number(view: &View) -> i64 {
    let mut value = Tensor::zeros(view.dtype(), Vec::new());
    copy(view, &host_view_mut(&mut value), &Region(Vec::new()));
    first(value.data())
}

/// The first of some integers; 0 of other elements.
pub(crate) fn first(data: &Data) -> i64 {
    let first = match data {
        Data::I64(v) => v.first().copied(),
        Data::I32(v) => v.first().map(|&n| n.into()),
        Data::U32(v) => v.first().map(|&n| n.into()),
        Data::U8(v) => v.first().map(|&n| n.into()),
        // GraphBuilder::store: positions are integers
        _ => None,
    };
    first.unwrap_or(0)
}
