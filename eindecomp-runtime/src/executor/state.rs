//! States: what stays across runs and is updated by stores.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;

use eindecomp_core::graph::{NodeId, Role};
use eindecomp_core::plan::layout::Region;
use eindecomp_core::task::{BufferId, BufferRole};

use super::Executor;
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
        let given = self.inputs(states, |role| role == Role::State)?;
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
        let vertex = self.graph.node(node);
        let Some(store) = &vertex.store else {
            return Ok(None);
        };
        let shape = self.graph.shape(node);
        let written = store
            .written(shape, &|n| reads.get(n).map_or(0, number))
            .map_err(|outside| RunError::Store {
                statement: vertex.name.clone(),
                state: self.graph.node(store.state).name.clone(),
                axis: outside.axis,
                value: outside.value,
                extent: shape[outside.axis],
            })?;
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

/// The value of an integer of rank 0.
fn number(view: &View) -> i64 {
    let mut value = Tensor::zeros(view.dtype(), Vec::new());
    copy(view, &host_view_mut(&mut value), &Region(Vec::new()));
    match value.data() {
        Data::I64(v) => v[0],
        Data::I32(v) => v[0].into(),
        Data::U32(v) => v[0].into(),
        Data::U8(v) => v[0].into(),
        // GraphBuilder::store: positions are integers
        _ => 0,
    }
}
