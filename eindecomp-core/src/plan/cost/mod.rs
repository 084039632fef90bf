//! Cost models: pure predictions, each with its unit.

pub mod communication;
#[cfg(feature = "planner")]
pub mod limit;
#[cfg(feature = "planner")]
pub mod placed;
#[cfg(feature = "planner")]
pub mod time;

use super::verify::InvalidPlan;
use super::{Cluster, NodePlan, Objective, Plan};
use crate::graph::{BoundGraph, NodeId};
use crate::task::traffic::Bytes;

/// A prediction that partition vectors alone decide: a cost per vertex and one per operand.
pub trait CostModel {
    /// Name and version, as in plans and keys: `communication/1`.
    fn name(&self) -> &'static str;

    /// What the numbers count.
    fn unit(&self) -> &'static str;

    /// The cost of a vertex under partition vector `d` (canonical label order).
    fn vertex(&self, graph: &BoundGraph, node: NodeId, d: &[u32]) -> u128;

    /// The cost of handing operand number `operand` to a vertex under `d`, when the tensor lies in
    /// `from` parts per axis. Only the entries of `d` whose labels index the operand matter.
    fn edge(
        &self,
        graph: &BoundGraph,
        node: NodeId,
        operand: usize,
        from: &[u32],
        d: &[u32],
    ) -> u128;

    /// What costs depend on of a tensor that is read, beside its extents and type. They are found once for vertices
    /// that are computed alike of tensors of which this is equal.
    fn of_read(&self, _graph: &BoundGraph, _tensor: NodeId) -> u128 {
        0
    }

    /// [`vertex`](CostModel::vertex) of every vector of a list.
    fn vertices(&self, graph: &BoundGraph, node: NodeId, ds: &[Vec<u32>]) -> Vec<u128> {
        ds.iter().map(|d| self.vertex(graph, node, d)).collect()
    }

    /// [`edge`](CostModel::edge) of every pair of two lists, row-major over `from`.
    fn edges(
        &self,
        graph: &BoundGraph,
        node: NodeId,
        operand: usize,
        from: &[Vec<u32>],
        ds: &[Vec<u32>],
    ) -> Vec<u128> {
        let mut all = Vec::with_capacity(from.len() * ds.len());
        for from in from {
            all.extend(ds.iter().map(|d| self.edge(graph, node, operand, from, d)));
        }
        all
    }
}

/// What the entries of a plan state as their costs ([`NodePlan::cost`]), by the plan's cost model, for
/// `nodes` that move `bytes`. The model `time` needs the planner: without it, what is stated is
/// taken as it is.
///
/// # Errors
/// A cost model that does not exist, or entries that break a rule of
/// [`structure`](super::verify::structure).
pub fn node_costs(
    graph: &BoundGraph,
    cluster: &Cluster,
    plan: &Plan,
    nodes: &[NodePlan],
    bytes: &[Bytes],
) -> Result<Vec<u128>, InvalidPlan> {
    let model = || InvalidPlan::Model(plan.model.clone());
    Ok(match Objective::of_model(&plan.model).ok_or_else(model)? {
        Objective::Placed => bytes.iter().map(|b| b.weighted).collect(),
        Objective::Communication => {
            let model = communication::Communication;
            let cost = |((id, _), node): (_, &NodePlan)| {
                let parts = node.join.as_ref().map(|join| &join.parts);
                parts.map_or(0, |parts| model.vertex(graph, id, parts))
            };
            graph.ids().zip(nodes).map(cost).collect()
        }
        #[cfg(feature = "planner")]
        Objective::Time => {
            let time = time::Time::new(graph, cluster, plan.residency, plan.constraints);
            time.map_err(|_| model())?.of(graph, nodes)?
        }
        #[cfg(not(feature = "planner"))]
        Objective::Time => {
            let _ = cluster;
            nodes.iter().map(|n| n.cost).collect()
        }
    })
}
