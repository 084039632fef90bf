//! Rules 8 and 10: nothing is left out, and what moves is what was planned.

use std::collections::BTreeMap;

use super::Check;
use crate::graph::{NodeId, Role};
use crate::plan::{Plan, Region};
use crate::task::traffic::Traffic;
use crate::task::{BufferRole, TaskError};

impl Check<'_> {
    /// Rule 8: the owners' tiles.
    pub(super) fn tiles(&self, plan: &Plan) -> Result<(), TaskError> {
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

    /// Rule 8: the results.
    pub(super) fn outputs(&self) -> Result<(), TaskError> {
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

    /// Rule 10.
    pub(super) fn moved(&self, plan: &Plan, planned: &Traffic) -> Result<(), TaskError> {
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
