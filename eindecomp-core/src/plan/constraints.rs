//! What a user asks of a plan beside the pins of single tensors, and whether a plan keeps both.

use std::collections::HashMap;
use std::fmt;
use std::num::NonZeroU32;
use std::sync::Arc;

use super::layout::Layout;
use super::room::{Blocks, Room};
use super::verify::{InvalidPlan, Part};
use super::{NodePlan, Plan};
use crate::ein::EinSum;
use crate::graph::{BoundGraph, Node, NodeId, Pin};

/// What every vertex of a plan must keep.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Constraints {
    /// Least extent of a part of an index, or of an axis, that is split.
    pub min_tile: NonZeroU32,
    /// Independent kernel calls per device: a vertex is cut in so many times the number of devices,
    /// where its indices have room for that.
    pub oversubscribe: NonZeroU32,
}

impl Default for Constraints {
    /// None: tiles of one element, one call per device.
    fn default() -> Constraints {
        Constraints {
            min_tile: NonZeroU32::MIN,
            oversubscribe: NonZeroU32::MIN,
        }
    }
}

/// Kernel calls of a vertex at most, of those that are asked for beyond one per device.
pub const MAX_CALLS: u32 = 1 << 16;

impl Constraints {
    /// Do they ask for nothing?
    pub fn is_default(&self) -> bool {
        *self == Constraints::default()
    }

    /// Kernel calls that a vertex has on so many devices, where there is room for them: [`MAX_CALLS`] at most, or one per
    /// device.
    pub fn calls(&self, devices: u32) -> u32 {
        let wanted = devices.saturating_mul(self.oversubscribe.get());
        wanted.min(MAX_CALLS.max(devices))
    }
}

/// `tiles of at least 16, 4 calls per device`; nothing where nothing is asked for.
impl fmt::Display for Constraints {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (tile, calls) = (self.min_tile.get(), self.oversubscribe.get());
        if tile > 1 {
            write!(f, "tiles of at least {tile}")?;
        }
        if tile > 1 && calls > 1 {
            f.write_str(", ")?;
        }
        if calls > 1 {
            write!(f, "{calls} calls per device")?;
        }
        Ok(())
    }
}

/// Does a plan that passed [`structure`](super::verify::structure) keep the pins of its graph and its own
/// constraints?
///
/// # Errors
/// The first one that it does not keep.
pub(super) fn keep(graph: &BoundGraph, plan: &Plan) -> Result<(), InvalidPlan> {
    let mut known = HashMap::new();
    for ((id, node), entry) in graph.ids().zip(&plan.nodes) {
        if let Some(pin) = node.pins.iter().find(|pin| !keeps(node, entry, pin)) {
            return Err(InvalidPlan::Pin {
                node: id,
                pin: pin.clone(),
            });
        }
        large(plan, id, Part::Owner, &entry.owner, graph.shape(id))?;
        large(plan, id, Part::Join, &entry.join, graph.label_extents(id))?;
        if let (Some(e), Some(join)) = (node.einsum(), &entry.join) {
            enough(graph, plan, id, e, join, &mut known)?;
        }
    }
    Ok(())
}

fn keeps(node: &Node, entry: &NodePlan, pin: &Pin) -> bool {
    let join = entry.join.as_ref();
    match pin {
        Pin::Whole => join.is_some_and(|j| j.parts.iter().all(|&d| d == 1)),
        Pin::Split(name, parts) => {
            let labels = node.einsum().map_or(&[][..], |e| &e.labels);
            let at = labels.iter().position(|l| l.name == *name);
            at.zip(join).is_some_and(|(at, j)| j.parts[at] == *parts)
        }
        Pin::Owner { parts, devices } => (entry.owner.as_ref()).is_some_and(|owner| {
            owner.parts == *parts && devices.as_ref().is_none_or(|d| owner.devices == *d)
        }),
    }
}

/// Is no tile smaller than asked for?
fn large(
    plan: &Plan,
    node: NodeId,
    part: Part,
    layout: &Option<Arc<Layout>>,
    extents: &[usize],
) -> Result<(), InvalidPlan> {
    let least = plan.constraints.min_tile.get();
    if least == 1 {
        return Ok(());
    }
    let axes = layout.iter().flat_map(|l| l.parts.iter().zip(extents));
    for (axis, (&parts, &extent)) in axes.enumerate() {
        // a merged axis with an empty member has no elements, however its other members are split
        if parts > 1 && extent > 0 && extent / (parts as usize) < least as usize {
            return Err(InvalidPlan::SmallTile {
                node,
                part,
                axis,
                parts,
                extent,
                least,
            });
        }
    }
    Ok(())
}

/// Are there as many calls as asked for, or as there is room for?
fn enough(
    graph: &BoundGraph,
    plan: &Plan,
    node: NodeId,
    e: &EinSum,
    join: &Layout,
    known: &mut HashMap<Room, Option<Blocks>>,
) -> Result<(), InvalidPlan> {
    let (devices, constraints) = (plan.devices(), plan.constraints);
    if constraints.oversubscribe == NonZeroU32::MIN {
        return Ok(());
    }
    let extents = graph.label_extents(node);
    let room = Room::of_vertex(graph.node(node), e, extents, devices, constraints);
    let room = room.map_err(|label| InvalidPlan::Pin {
        node,
        pin: Pin::Split(label, 0),
    })?;
    let blocks = match known.get(&room) {
        Some(&blocks) => blocks,
        None => {
            let blocks = room.blocks(devices, constraints);
            known.insert(room, blocks);
            blocks
        }
    };
    let wanted = blocks.map_or(1, |b| b.count * b.calls);
    match join.tiles() < wanted as usize {
        true => Err(InvalidPlan::FewCalls {
            node,
            calls: join.tiles(),
            wanted,
        }),
        false => Ok(()),
    }
}

#[cfg(all(test, feature = "planner"))]
mod tests;
