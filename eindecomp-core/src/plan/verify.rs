//! The rules of a [`Plan`] against its graph and cluster. A plan that was read from a file is
//! untrusted: nothing downstream checks these again.
//!
//! 1. One entry per node; a join iff the node is an EinSum; an owner unless it is a weight.
//! 2. A layout has a number of parts ≥ 1 per axis and a device per tile, at most [`MAX_TILES`]; a
//!    join's parts of a label of extent b are ≤ max(b, 1).
//! 3. Only splittable labels are split.
//! 4. Every device exists.
//! 5. No device has more than ⌈N/p⌉ of the N tuples of a vertex, or tiles of an owner's layout.
//! 6. The plan is for the cluster's devices and servers, by a known cost model, with a definite
//!    residency; its proved bounds are not above its cost.
//! 7. The stored moved bytes equal the recomputed ones, and so does the stored cost of each node. The plan's cost, which
//!    was predicted, is not below their sum, but for times, which overlap.
//! 8. The peak of every device is within its capacity.
//! 9. The pins of the graph and the plan's own [`Constraints`](super::Constraints) are kept.

use std::sync::Arc;

use super::constraints;
use super::cost::node_costs;
use super::layout::Numbered;
use super::{Cluster, Hierarchy, Layout, NodePlan, Objective, Plan, Residency};
use crate::ein::access::splittable;
use crate::graph::{BoundGraph, NodeId, Pin, Role};
use crate::quick::Table;
use crate::task::TaskGraph;
use crate::task::lower::{LowerError, lower};
use crate::task::memory::{Peak, peak};
use crate::task::traffic::bytes;

/// Most tiles of one layout: tile number × extent (below 2^48) fits 64 bits.
pub const MAX_TILES: usize = 1 << 15;

/// Which layout of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Part {
    /// Of its join.
    Join,
    /// Of its owners.
    Owner,
}

impl std::fmt::Display for Part {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Part::Join => "join",
            Part::Owner => "owner",
        })
    }
}

/// A rule that a plan breaks.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum InvalidPlan {
    /// Rule 1: not one entry per node.
    #[error("the plan has {actual} entries, but the graph has {expected} nodes")]
    Nodes {
        /// Nodes of the graph.
        expected: usize,
        /// Entries of the plan.
        actual: usize,
    },
    /// Rule 1: an input with a join, or a vertex or activation without a layout it needs.
    #[error("{node}: the plan {} layout of its {part}", if *.present { "must not have a" } else { "has no" })]
    Presence {
        /// The node.
        node: NodeId,
        /// Which layout.
        part: Part,
        /// Is it there?
        present: bool,
    },
    /// Rule 2: not one number of parts per axis.
    #[error("{node}: its {part} layout has {actual} axes instead of {expected}")]
    Rank {
        /// The node.
        node: NodeId,
        /// Which layout.
        part: Part,
        /// Labels or axes of the node.
        expected: usize,
        /// Axes of the layout.
        actual: usize,
    },
    /// Rule 2: no part, or more parts than the label's extent.
    #[error("{node}: its {part} layout cuts axis {axis} in {parts} parts, not in 1 to {limit}")]
    Parts {
        /// The node.
        node: NodeId,
        /// Which layout.
        part: Part,
        /// Label or axis, from 0.
        axis: usize,
        /// Number of parts.
        parts: u32,
        /// Largest number of parts.
        limit: usize,
    },
    /// Rule 2: not one device per tile.
    #[error("{node}: its {part} layout names {actual} devices for its tiles, which are {}", expected.map_or("too many".to_string(), |n| n.to_string()))]
    Tiles {
        /// The node.
        node: NodeId,
        /// Which layout.
        part: Part,
        /// Number of tiles, if it is at most [`MAX_TILES`].
        expected: Option<usize>,
        /// Number of devices.
        actual: usize,
    },
    /// Rule 3.
    #[error("{node}: index `{label}` cannot be split")]
    Unsplittable {
        /// The node.
        node: NodeId,
        /// The label.
        label: Arc<str>,
    },
    /// Rule 4.
    #[error("{node}: its {part} layout uses device {device} of {devices}")]
    Device {
        /// The node.
        node: NodeId,
        /// Which layout.
        part: Part,
        /// The device.
        device: u32,
        /// Number of devices.
        devices: u32,
    },
    /// Rule 5.
    #[error("{node}: device {device} has {tiles} tiles of its {part} layout, more than {limit}")]
    Unbalanced {
        /// The node.
        node: NodeId,
        /// Which layout.
        part: Part,
        /// The device.
        device: u32,
        /// What it has.
        tiles: usize,
        /// ⌈N/p⌉.
        limit: usize,
    },
    /// Rule 6: the plan is for other devices.
    #[error("the plan is for {plan}, the cluster has {cluster}")]
    Devices {
        /// Of the plan.
        plan: Hierarchy,
        /// Of the cluster.
        cluster: Hierarchy,
    },
    /// Rule 6: a cost model that this version does not have.
    #[error("the plan is by the cost model `{0}`, which is unknown")]
    Model(String),
    /// Rule 6: a plan has chosen where weights live.
    #[error("the plan leaves the residency of weights open")]
    Residency,
    /// Rule 6: a bound that its own plan contradicts.
    #[error("the plan costs {cost}, below its bound {bound}")]
    Bound {
        /// Cost of the plan.
        cost: u128,
        /// What was proved to be the least.
        bound: u128,
    },
    /// Rule 7.
    #[error("the plan states {stored} moved bytes, but moves {computed}")]
    MovedBytes {
        /// As stored.
        stored: u128,
        /// As recomputed.
        computed: u128,
    },
    /// Rule 7: of one node.
    #[error("{node}: the plan states a cost of {stored}, but it is {computed}")]
    Cost {
        /// The node.
        node: NodeId,
        /// As stored.
        stored: u128,
        /// As recomputed.
        computed: u128,
    },
    /// Rule 7: of all nodes.
    #[error("the plan states a cost of {stored}, below that of its nodes, {computed}")]
    Total {
        /// As stored.
        stored: u128,
        /// As recomputed.
        computed: u128,
    },
    /// Rule 8.
    #[error("{0}, more than its capacity of {1} B")]
    Memory(Peak, u64),
    /// Rule 9: of the graph.
    #[error("{node}: the plan does not keep its pin, {pin}")]
    Pin {
        /// The node.
        node: NodeId,
        /// The pin.
        pin: Pin,
    },
    /// Rule 9: a part that is too small.
    #[error(
        "{node}: its {part} layout cuts the {extent} elements of axis {axis} in {parts} parts, but none may have fewer than {least}"
    )]
    SmallTile {
        /// The node.
        node: NodeId,
        /// Which layout.
        part: Part,
        /// Label or axis, from 0.
        axis: usize,
        /// Number of parts.
        parts: u32,
        /// Its elements.
        extent: usize,
        /// The least that a part may have.
        least: u32,
    },
    /// Rule 9: too few calls.
    #[error(
        "{node}: the plan has {calls} kernel calls, but there is room for {wanted} of those that were asked for"
    )]
    FewCalls {
        /// The node.
        node: NodeId,
        /// Tuples of its join.
        calls: usize,
        /// As many as fit, up to devices times calls per device.
        wanted: u32,
    },
    /// More steps than can be numbered.
    #[error("the plan has more than 2^32 tasks or buffers")]
    TooLarge,
}

impl From<LowerError> for InvalidPlan {
    fn from(e: LowerError) -> InvalidPlan {
        match e {
            LowerError::Plan(e) => e,
            LowerError::TooLarge => InvalidPlan::TooLarge,
        }
    }
}

/// Checks every rule and returns the task graph on which the memory rule was checked.
///
/// # Errors
/// The first rule that is broken.
pub fn verify(
    graph: &BoundGraph,
    plan: &Plan,
    cluster: &Cluster,
) -> Result<TaskGraph, InvalidPlan> {
    rules(graph, plan, cluster)?;
    let tasks = lower(graph, plan)?;
    let full = |&bytes: &u64| bytes > cluster.capacity();
    match tasks.arenas.iter().position(full) {
        Some(device) => {
            let peak = peak(graph, &tasks, device as u32);
            Err(InvalidPlan::Memory(peak, cluster.capacity()))
        }
        None => Ok(tasks),
    }
}

/// Every rule but that of memory, which needs tasks.
///
/// # Errors
/// The first rule that is broken.
pub fn rules(graph: &BoundGraph, plan: &Plan, cluster: &Cluster) -> Result<(), InvalidPlan> {
    if plan.hierarchy != cluster.hierarchy() {
        return Err(InvalidPlan::Devices {
            plan: plan.hierarchy,
            cluster: cluster.hierarchy(),
        });
    }
    if plan.residency == Residency::Auto {
        return Err(InvalidPlan::Residency);
    }
    let all = &plan.certificate;
    let wider = all.wider.as_ref().map_or(0, |w| w.bound);
    let (cost, bound) = (all.cost, all.bound.max(wider).max(all.bound_checked()));
    if bound > cost {
        return Err(InvalidPlan::Bound { cost, bound });
    }
    let bytes = bytes(graph, plan.hierarchy, &plan.nodes)?;
    let computed = bytes.iter().map(|b| b.moved).sum();
    if computed != plan.moved_bytes {
        return Err(InvalidPlan::MovedBytes {
            stored: plan.moved_bytes,
            computed,
        });
    }
    let costs = node_costs(graph, cluster, plan, &plan.nodes, &bytes)?;
    let computed = costs.iter().sum();
    if plan.model != Objective::Time.model() && cost < computed {
        return Err(InvalidPlan::Total {
            stored: cost,
            computed,
        });
    }
    for ((node, _), (entry, computed)) in graph.ids().zip(plan.nodes.iter().zip(costs)) {
        if entry.cost != computed {
            return Err(InvalidPlan::Cost {
                node,
                stored: entry.cost,
                computed,
            });
        }
    }
    constraints::keep(graph, plan)
}

/// Rules 1 to 5: all that lowering and the evaluator need.
///
/// # Errors
/// The first rule that is broken.
pub fn structure(graph: &BoundGraph, devices: u32, nodes: &[NodePlan]) -> Result<(), InvalidPlan> {
    numbered(graph, devices, nodes).map(|_| ())
}

/// The same, with the layouts by number. Nodes of one kind with equal layouts are looked at once.
pub(crate) fn numbered(
    graph: &BoundGraph,
    devices: u32,
    nodes: &[NodePlan],
) -> Result<Numbered, InvalidPlan> {
    if nodes.len() != graph.nodes().len() {
        return Err(InvalidPlan::Nodes {
            expected: graph.nodes().len(),
            actual: nodes.len(),
        });
    }
    let (layouts, mut seen) = (Numbered::of(nodes), Table::default());
    for (node, vertex) in graph.ids() {
        let plan = &nodes[node.at()];
        let at = node.at();
        let alike = (graph.kinds()[at], layouts.joins[at], layouts.owners[at]);
        if seen.insert(alike, ()).is_some() {
            continue;
        }
        let presence = |part, present| {
            Err(InvalidPlan::Presence {
                node,
                part,
                present,
            })
        };
        match (vertex.einsum(), &plan.join) {
            (None, None) => {}
            (Some(e), Some(join)) => {
                let extents = graph.label_extents(node);
                layout(node, Part::Join, join, extents, devices)?;
                let split = splittable(e);
                for (axis, &parts) in join.parts.iter().enumerate() {
                    let limit = extents[axis].max(1);
                    if parts as usize > limit {
                        return Err(InvalidPlan::Parts {
                            node,
                            part: Part::Join,
                            axis,
                            parts,
                            limit,
                        });
                    }
                    if parts > 1 && !split[axis] {
                        let label = e.labels[axis].name.clone();
                        return Err(InvalidPlan::Unsplittable { node, label });
                    }
                }
            }
            (e, _) => return presence(Part::Join, e.is_none()),
        }
        match &plan.owner {
            Some(owner) => layout(node, Part::Owner, owner, graph.shape(node), devices)?,
            None if vertex.role() == Some(Role::Weight) => {}
            None => return presence(Part::Owner, false),
        }
    }
    Ok(layouts)
}

fn layout(
    node: NodeId,
    part: Part,
    layout: &Layout,
    extents: &[usize],
    devices: u32,
) -> Result<(), InvalidPlan> {
    let (expected, actual) = (extents.len(), layout.parts.len());
    if expected != actual {
        return Err(InvalidPlan::Rank {
            node,
            part,
            expected,
            actual,
        });
    }
    if let Some(axis) = layout.parts.iter().position(|&d| d == 0) {
        return Err(InvalidPlan::Parts {
            node,
            part,
            axis,
            parts: 0,
            limit: extents[axis].max(1),
        });
    }
    let tiles = layout
        .parts
        .iter()
        .try_fold(1usize, |n, &d| n.checked_mul(d as usize))
        .filter(|&n| n <= MAX_TILES);
    if tiles != Some(layout.devices.len()) {
        return Err(InvalidPlan::Tiles {
            node,
            part,
            expected: tiles,
            actual: layout.devices.len(),
        });
    }
    let mut tiles_of = vec![0usize; devices as usize];
    for &device in &layout.devices {
        match tiles_of.get_mut(device as usize) {
            Some(n) => *n += 1,
            None => {
                return Err(InvalidPlan::Device {
                    node,
                    part,
                    device,
                    devices,
                });
            }
        }
    }
    let limit = layout.devices.len().div_ceil(devices as usize);
    match tiles_of.iter().position(|&n| n > limit) {
        Some(device) => Err(InvalidPlan::Unbalanced {
            node,
            part,
            device: device as u32,
            tiles: tiles_of[device],
            limit,
        }),
        None => Ok(()),
    }
}
