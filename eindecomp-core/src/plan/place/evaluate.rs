//! What placements move, each kind of exchange counted once: repeated layers cost nothing more.
//! The numbers are those of [`traffic`](crate::task::traffic::traffic).

use std::collections::BTreeMap;
use std::rc::Rc;

use crate::ein::access::AccessMap;
use crate::ein::einsum::Part;
use crate::graph::{BoundGraph, NodeId};
use crate::plan::{Layout, NodePlan, Region};
use crate::quick::Table;
use crate::task::exchange::{Join, overlaps};

/// A read of a tensor: which one of its readers in order, that one's kind and join, and the operand.
type Read = (usize, u32, usize, usize);
/// A tensor's kind and owner, its reads, and the owner of the state that it becomes.
type Fetched = (u32, usize, Vec<Read>, Option<usize>);
/// A vertex' kind, join and owner.
type Sent = (u32, usize, usize);

/// Evaluates placements of one graph; counts that were made are kept.
#[derive(Default)]
pub(crate) struct Evaluator {
    layouts: Table<Layout, usize>,
    fetched: Table<Fetched, Rc<Vec<u128>>>,
    sent: Table<Sent, u128>,
}

impl Evaluator {
    /// Bytes per node that its operands and partials move, of a plan that passed
    /// [`structure`](crate::plan::verify::structure).
    pub fn moved(&mut self, graph: &BoundGraph, nodes: &[NodePlan]) -> Vec<u128> {
        let joins = self.numbers(nodes.iter().map(|n| n.join.as_deref()));
        let owners = self.numbers(nodes.iter().map(|n| n.owner.as_deref()));
        let mut readers: Vec<Vec<NodeId>> = vec![Vec::new(); nodes.len()];
        for (node, vertex) in graph.ids() {
            for o in vertex.einsum().iter().flat_map(|e| &e.operands) {
                if readers[o.node.at()].last() != Some(&node) {
                    readers[o.node.at()].push(node);
                }
            }
        }
        let mut homes: Vec<Option<NodeId>> = vec![None; nodes.len()];
        for (state, last) in graph.states().filter(|(state, last)| state != last) {
            homes[last.at()] = Some(state);
        }
        let kinds = graph.kinds();
        let mut moved = vec![0u128; nodes.len()];
        for (tensor, vertex) in graph.ids() {
            let (Some(owner), Some(number)) = (&nodes[tensor.at()].owner, owners[tensor.at()])
            else {
                continue;
            };
            if let Some(join) = joins[tensor.at()] {
                let key = (kinds[tensor.at()], join, number);
                let sent = self.sent.entry(key);
                moved[tensor.at()] += *sent.or_insert_with(|| sent_by(graph, nodes, tensor, owner));
            }
            let readers = &readers[tensor.at()];
            let read = |(at, &reader): (usize, &NodeId)| {
                let join = joins[reader.at()]?;
                let all = (0..).zip(&graph.node(reader).einsum()?.operands);
                let own = all.filter(|(_, o)| o.node == tensor);
                Some(own.map(move |(operand, _)| (at, kinds[reader.at()], join, operand)))
            };
            let read = readers.iter().enumerate().filter_map(read).flatten();
            let home = homes[tensor.at()].filter(|s| nodes[s.at()].owner.is_some());
            let key = (
                kinds[tensor.at()],
                number,
                read.collect(),
                home.and_then(|s| owners[s.at()]),
            );
            let counted = self.fetched.entry(key).or_insert_with(|| {
                let home = home.and_then(|s| nodes[s.at()].owner.as_deref());
                Rc::new(fetched(graph, nodes, tensor, owner, readers, home))
            });
            let size = vertex.dtype.size() as u128;
            let home = homes[tensor.at()].map(|_| tensor);
            let to = readers.iter().chain(&home);
            for (node, elements) in to.zip(counted.iter()) {
                moved[node.at()] += elements * size;
            }
        }
        moved
    }

    fn numbers<'a>(
        &mut self,
        layouts: impl Iterator<Item = Option<&'a Layout>>,
    ) -> Vec<Option<usize>> {
        let mut number = |l: &Layout| {
            let next = self.layouts.len();
            match self.layouts.get(l) {
                Some(&known) => known,
                None => *self.layouts.entry(l.clone()).or_insert(next),
            }
        };
        layouts.map(|l| l.map(&mut number)).collect()
    }
}

/// Bytes of partial results of a vertex that move to another device.
fn sent_by(graph: &BoundGraph, nodes: &[NodePlan], node: NodeId, owner: &Layout) -> u128 {
    let Some(made) = Join::of(graph, nodes, node) else {
        return 0;
    };
    let mut bytes = 0;
    for tuple in made.tuples() {
        for (tile, piece) in overlaps(owner, graph.shape(node), &tuple.output) {
            if owner.devices[tile] != tuple.device {
                let part = |p: &Part| p.region(&piece).volume() * p.dtype.size();
                bytes += made.parts().iter().map(part).sum::<usize>() as u128;
            }
        }
    }
    bytes
}

/// Elements that each reader fetches, then those that go home.
fn fetched(
    graph: &BoundGraph,
    nodes: &[NodePlan],
    tensor: NodeId,
    owner: &Layout,
    readers: &[NodeId],
    home: Option<&Layout>,
) -> Vec<u128> {
    let shape = graph.shape(tensor);
    let mut held: BTreeMap<u32, Vec<Region>> = BTreeMap::new();
    for (tile, device) in owner.iter(shape) {
        held.entry(device).or_default().push(tile);
    }
    let mut fetch = |device: u32, want: Region| {
        let boxes = held.entry(device).or_default();
        if want.is_empty() || boxes.iter().any(|b| b.contains(&want)) {
            return 0;
        }
        let mut rest = vec![want.clone()];
        for b in boxes.iter() {
            if rest.iter().any(|r| r.common(b) > 0) {
                rest = rest.iter().flat_map(|r| r.subtract(b)).collect();
            }
        }
        if !rest.is_empty() {
            boxes.push(want);
        }
        rest.iter().map(|r| r.volume() as u128).sum::<u128>()
    };
    let mut out = Vec::new();
    for &reader in readers {
        let (vertex, join) = (graph.node(reader), &nodes[reader.at()].join);
        let (Some(e), Some(join)) = (vertex.einsum(), join) else {
            continue;
        };
        let own = e.operands.iter().filter(|o| o.node == tensor);
        let accesses: Vec<AccessMap> = own.map(AccessMap::of).collect();
        let extents = graph.label_extents(reader);
        let mut elements = 0;
        let makes = |tile: &Region| {
            let mut out = e.out.iter().flatten().map(|l| tile.0[l.at()]);
            out.all(|(from, to)| from < to)
        };
        for (tile, device) in join.iter(extents).filter(|(tile, _)| makes(tile)) {
            for access in &accesses {
                elements += fetch(device, access.footprint(&tile, shape));
            }
        }
        out.push(elements);
    }
    out.extend(home.map(|home| {
        let tiles = home.iter(shape);
        tiles
            .map(|(tile, device)| fetch(device, tile))
            .sum::<u128>()
    }));
    out
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::graph::testing::random_graph;
    use crate::plan::testing::random_plan;
    use crate::task::traffic::traffic;

    proptest! {
        #[test]
        fn counts_are_those_of_the_exchange(
            seed: u64, statements in 1usize..8, devices in 1u32..9, plans: [u64; 2],
        ) {
            let graph = random_graph(seed, statements).bound();
            let mut evaluator = Evaluator::default();
            for seed in plans {
                let plan = random_plan(&graph, devices, seed);
                let moved = traffic(&graph, devices, &plan.nodes).unwrap();
                let moved: Vec<u128> = moved.iter().map(|t| t.total()).collect();
                prop_assert_eq!(evaluator.moved(&graph, &plan.nodes), moved);
            }
        }
    }
}
