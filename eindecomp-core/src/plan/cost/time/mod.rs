//! The cost model `time`: nanoseconds of a run without overlap.
//!
//! Per vertex: the largest of work / rate over what computes and what is read and written, of the
//! largest tile (of all tiles together where devices share cores or memory), and ⌈tasks / workers⌉ ·
//! overhead. Per step that moves something (an operand that is fetched, partial results that are
//! folded, a state that goes home): the busiest of the links, ports, network ports and memory buses
//! that it crosses, latency + bytes / bandwidth. Rates are those of [`Cluster::rounded`], which plan
//! keys hold.
//!
//! [`Time::of`] is that sum for a placement. As a [`CostModel`] of partition vectors it charges a
//! step what it takes at least over all placements with one tuple per device: what devices lack
//! whatever they own, spread evenly over all ports, divided by the readers of the tensor, who may
//! share what was fetched. So the least sum over vectors bounds [`Time::of`] of every such placement. With
//! several tuples per device steps are charged nothing, which bounds them too.
//! [`Time::simulate`] runs the tasks of a plan over the same resources, with overlap.
//!
//! Files: `links` (the busiest link), `simulate`; operations and bytes of a tile are [`Work`]'s.

mod links;
mod simulate;

use std::cell::OnceCell;

use super::CostModel;
use super::communication::{folded, lacking, needed};
use crate::graph::{BoundGraph, Node, NodeId, Op, Role};
use crate::plan::layout::Region;
use crate::plan::partition::no_label;
use crate::plan::room::Room;
use crate::plan::verify::InvalidPlan;
use crate::plan::work::Work;
use crate::plan::{Cluster, Constraints, Hierarchy, NodePlan, PlanError, Residency};
use crate::quick::Table;
use crate::task::traffic::{Count, Counts, Step, Traffic, each};

/// The model over one cluster, for one graph.
#[derive(Clone, Debug)]
pub struct Time {
    machine: Cluster,
    hierarchy: Hierarchy,
    residency: Residency,
    /// Per tensor: by how many operands it is read.
    readers: Vec<u128>,
    /// Per vertex: tuples of its joins.
    tuples: Vec<u128>,
    /// No byte arrives earlier.
    latency: u128,
    /// Has a device several calls of a vertex? Then what one of them lacks another may have.
    several: bool,
}

impl Time {
    /// Of a cluster that keeps its rules.
    ///
    /// # Errors
    /// Pins that cannot be kept.
    pub fn new(
        graph: &BoundGraph,
        cluster: &Cluster,
        residency: Residency,
        constraints: Constraints,
    ) -> Result<Time, PlanError> {
        let hierarchy = cluster.hierarchy();
        let mut readers = vec![0; graph.nodes().len()];
        let mut tuples = Vec::new();
        for (id, node) in graph.ids() {
            let Some(e) = node.einsum() else {
                tuples.push(0);
                continue;
            };
            for operand in &e.operands {
                readers[operand.node.at()] += 1;
            }
            let extents = graph.label_extents(id);
            let devices = hierarchy.devices();
            let room = Room::of_vertex(node, e, extents, devices, constraints);
            let room = room.map_err(|label| no_label(node, label))?;
            let blocks = room.blocks(devices, constraints);
            tuples.push(blocks.map_or(1, |b| u128::from(b.count)));
        }
        for (_, last) in graph.states() {
            readers[last.at()] += 1;
        }
        Ok(Time {
            machine: cluster.rounded(),
            hierarchy,
            residency,
            readers,
            tuples,
            latency: links::least_latency(cluster).into(),
            several: constraints.oversubscribe.get() > 1,
        })
    }

    /// Nanoseconds of each vertex of a placement: kernels, what they fetch, what becomes of their
    /// results.
    ///
    /// # Errors
    /// The first rule of [`structure`](crate::plan::verify::structure) that `nodes` breaks.
    pub fn of(&self, graph: &BoundGraph, nodes: &[NodePlan]) -> Result<Vec<u128>, InvalidPlan> {
        self.of_several(graph, nodes, &mut Timings::default())
    }

    /// The same of one of several placements.
    pub(crate) fn of_several(
        &self,
        graph: &BoundGraph,
        nodes: &[NodePlan],
        known: &mut Timings,
    ) -> Result<Vec<u128>, InvalidPlan> {
        let (kinds, kernels) = (graph.kinds(), &mut known.kernels);
        let kernels = |((id, _), plan): ((NodeId, &Node), &NodePlan)| {
            let Some(join) = &plan.join else { return 0 };
            let kernels = kernels.entry((kinds[id.at()], join.parts.clone()));
            *kernels.or_insert_with_key(|(_, parts)| self.kernels(graph, id, parts))
        };
        let mut costs: Vec<u128> = graph.ids().zip(nodes).map(kernels).collect();
        let moves = &mut known.moves;
        each(graph, self.hierarchy, nodes, moves, |step: Step<&Timed>| {
            let Timed { traffic, ns } = step.found;
            costs[step.vertex.at()] += *ns.get_or_init(|| self.busiest(traffic));
        })?;
        Ok(costs)
    }

    /// Nanoseconds of the kernels of a vertex under partition vector `d`.
    fn kernels(&self, graph: &BoundGraph, node: NodeId, d: &[u32]) -> u128 {
        let extents = graph.label_extents(node).iter().zip(d);
        let largest = extents.map(|(&n, &parts)| (0, n.div_ceil(parts.max(1) as usize)));
        let rates = &self.machine.server.device.rates;
        let work = Work::of(graph, node, &Region(largest.collect()));
        let tuples: u128 = d.iter().map(|&d| u128::from(d)).product();
        let device = &self.machine.server.device;
        let on_device = tuples.div_ceil(self.hierarchy.devices().into());
        let on_server = tuples.div_ceil(self.hierarchy.servers.into());
        let (workers, tasks) = match self.machine.server.cores {
            Some(cores) => (u128::from(cores), on_server),
            None => (1, on_device),
        };
        let compute = (work.attoseconds(rates) * tasks).div_ceil(workers * 1_000_000_000);
        let own = nanoseconds(work.bytes() * on_device, device.memory_bandwidth);
        let bus = self.machine.server.memory_bus;
        let shared = bus.map_or(0, |bus| nanoseconds(work.bytes() * on_server, bus));
        let overhead = tasks.div_ceil(workers) * u128::from(device.overhead);
        compute.max(own).max(shared) + overhead
    }

    /// At least what it takes to bring so many elements of a tensor to other devices.
    fn least(&self, graph: &BoundGraph, tensor: NodeId, elements: u128) -> u128 {
        let bytes = elements * graph.node(tensor).dtype.size() as u128;
        let readers = self.readers[tensor.at()].max(1);
        self.spread(bytes) / readers
    }

    /// Does the tensor have owners, from whom it is fetched?
    fn owned(&self, graph: &BoundGraph, tensor: NodeId) -> bool {
        graph.node(tensor).role() != Some(Role::Weight) || self.residency == Residency::Sharded
    }
}

/// The least over placements, as the header says.
impl CostModel for Time {
    fn name(&self) -> &'static str {
        crate::plan::Objective::Time.model()
    }

    fn unit(&self) -> &'static str {
        "ns"
    }

    /// Is it an input that is fetched, and how many read it.
    fn of_read(&self, graph: &BoundGraph, tensor: NodeId) -> u128 {
        let input = matches!(graph.node(tensor).op, Op::Input(_));
        2 * self.readers[tensor.at()] + u128::from(input && self.owned(graph, tensor))
    }

    fn vertex(&self, graph: &BoundGraph, node: NodeId, d: &[u32]) -> u128 {
        let Some(e) = graph.node(node).einsum() else {
            return 0;
        };
        let mut cost = self.kernels(graph, node, d) + self.spread(folded(graph, node, d));
        for (o, operand) in e.operands.iter().enumerate() {
            let input = matches!(graph.node(operand.node).op, Op::Input(_));
            if input && self.owned(graph, operand.node) {
                let all = graph.elements(operand.node) as u128;
                let copies = self.copies(node, o, d, graph);
                let read = copies * needed(graph, node, o, d);
                cost += self.least(graph, operand.node, read.saturating_sub(all));
            }
        }
        cost
    }

    fn edge(
        &self,
        graph: &BoundGraph,
        node: NodeId,
        operand: usize,
        from: &[u32],
        d: &[u32],
    ) -> u128 {
        let Some(e) = graph.node(node).einsum() else {
            return 0;
        };
        let copies = self.copies(node, operand, d, graph);
        let elements = copies * lacking(graph, node, operand, from, d);
        self.least(graph, e.operands[operand].node, elements)
    }
}

impl Time {
    /// How many tuples read the same of an operand; entries of `d` elsewhere may be anything.
    fn copies(&self, node: NodeId, operand: usize, d: &[u32], graph: &BoundGraph) -> u128 {
        // a tuple that makes nothing reads nothing
        if graph.elements(node) == 0 {
            return 0;
        }
        let read = super::communication::tiles_read(graph, node, operand, d);
        self.tuples[node.at()] / read.max(1)
    }
}

/// What was found of placements of one graph by one model.
pub(crate) struct Timings {
    moves: Counts<Timed>,
    kernels: Table<(u32, Vec<u32>), u128>,
}

impl Default for Timings {
    fn default() -> Timings {
        Timings {
            moves: Counts::kept(),
            kernels: Table::default(),
        }
    }
}

/// What moves in a step, and how long that takes.
#[derive(Clone, Default)]
struct Timed {
    traffic: Traffic,
    ns: OnceCell<u128>,
}

impl Count for Timed {
    fn count(&mut self, on: Hierarchy, from: u32, to: u32, bytes: u64) {
        self.traffic.count(on, from, to, bytes);
    }
}

/// How long so much takes at so much per second.
fn nanoseconds(amount: u128, per_second: u64) -> u128 {
    (amount * 1_000_000_000).div_ceil(per_second.max(1).into())
}

#[cfg(test)]
mod tests;
