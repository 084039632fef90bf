//! Cost models: pure predictions, each with its unit.

pub mod communication;
pub mod limit;
pub mod placed;
pub mod time;

use crate::graph::{BoundGraph, NodeId};

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
