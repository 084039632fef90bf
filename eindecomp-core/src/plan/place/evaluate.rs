//! What placements move, each kind of exchange counted once: repeated layers cost nothing more.
//! The numbers are those of [`traffic`](crate::task::traffic::traffic).

use std::collections::BTreeMap;
use std::rc::Rc;

use crate::ein::access::AccessMap;
use crate::ein::einsum::Part;
use crate::ein::{EinSum, LabelId};
use crate::graph::{BoundGraph, NodeId};
use crate::plan::{Layout, NodePlan, Region};
use crate::quick::Table;
use crate::task::exchange::{Join, overlaps};

/// One vertex' reads of one tensor: access maps, extents of its labels, labels of its output, join.
type Read = (Vec<AccessMap>, Vec<usize>, Vec<LabelId>, usize);
/// A tensor's extents and owner, its readers in order, and the owner of the state that it becomes.
type Fetched = (Vec<usize>, usize, Vec<Read>, Option<usize>);
/// Output axes, parts of a result, extents of the labels, join and owner.
type Sent = (Vec<Vec<LabelId>>, Vec<Part>, Vec<usize>, usize, usize);

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
        let mut moved = vec![0u128; nodes.len()];
        for (tensor, vertex) in graph.ids() {
            let (Some(owner), Some(number)) = (&nodes[tensor.at()].owner, owners[tensor.at()])
            else {
                continue;
            };
            if let (Some(e), Some(join)) = (vertex.einsum(), joins[tensor.at()]) {
                moved[tensor.at()] += self.sent(graph, nodes, tensor, e, join, number);
            }
            let read = |&reader: &NodeId| {
                let e = graph.node(reader).einsum()?;
                let own = e.operands.iter().filter(|o| o.node == tensor);
                let extents = graph.label_extents(reader).to_vec();
                let out = e.out.iter().flatten().copied().collect();
                let own = own.map(AccessMap::of).collect();
                Some((own, extents, out, joins[reader.at()]?))
            };
            let read: Vec<Read> = readers[tensor.at()].iter().filter_map(read).collect();
            let home = homes[tensor.at()].filter(|s| nodes[s.at()].owner.is_some());
            let shape = graph.shape(tensor).to_vec();
            let key = (shape, number, read, home.and_then(|s| owners[s.at()]));
            let counted = self
                .fetched
                .entry(key)
                .or_insert_with_key(|(shape, _, read, _)| {
                    let joins = readers[tensor.at()].iter();
                    let joins = joins.filter_map(|r| nodes[r.at()].join.as_deref());
                    let home = home.and_then(|s| nodes[s.at()].owner.as_deref());
                    Rc::new(fetched(shape, owner, read.iter().zip(joins), home))
                });
            let size = vertex.dtype.size() as u128;
            let home = homes[tensor.at()].map(|_| tensor);
            let to = readers[tensor.at()].iter().chain(&home);
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

    fn sent(
        &mut self,
        graph: &BoundGraph,
        nodes: &[NodePlan],
        node: NodeId,
        e: &EinSum,
        join: usize,
        owner: usize,
    ) -> u128 {
        let (Some(made), Some(kept)) = (Join::of(graph, nodes, node), &nodes[node.at()].owner)
        else {
            return 0;
        };
        let extents = graph.label_extents(node).to_vec();
        let key = (e.out.clone(), made.parts().to_vec(), extents, join, owner);
        *self.sent.entry(key).or_insert_with(|| {
            let mut bytes = 0;
            for tuple in made.tuples() {
                for (tile, piece) in overlaps(kept, graph.shape(node), &tuple.output) {
                    if kept.devices[tile] != tuple.device {
                        let part = |p: &Part| p.region(&piece).volume() * p.dtype.size();
                        bytes += made.parts().iter().map(part).sum::<usize>() as u128;
                    }
                }
            }
            bytes
        })
    }
}

/// Elements that each reader fetches, then those that go home.
fn fetched<'a>(
    shape: &[usize],
    owner: &Layout,
    reads: impl Iterator<Item = (&'a Read, &'a Layout)>,
    home: Option<&Layout>,
) -> Vec<u128> {
    let mut held: BTreeMap<u32, Vec<Region>> = BTreeMap::new();
    for (tile, device) in owner.iter(shape) {
        held.entry(device).or_default().push(tile);
    }
    let mut fetch = |device: u32, want: Region| {
        let boxes = held.entry(device).or_default();
        let mut rest = vec![want.clone()];
        rest.retain(|r| !r.is_empty());
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
    for ((accesses, extents, out_labels, _), join) in reads {
        let mut elements = 0;
        let makes = |tile: &Region| {
            out_labels
                .iter()
                .all(|l| tile.0[l.at()].0 < tile.0[l.at()].1)
        };
        for (tile, device) in join.iter(extents).filter(|(tile, _)| makes(tile)) {
            for access in accesses {
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
