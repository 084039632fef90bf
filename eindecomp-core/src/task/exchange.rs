//! What moves, box by box: the algebra that the evaluator of plans and the lowering share.
//!
//! A tensor is owned once, tile by tile. A device that reads a box which none of its own boxes
//! covers makes a replica of exactly that box: it copies what it holds already and gets the rest
//! from the owners. So an element enters a device at most once per run, and the bytes that move
//! to a device are |∪ boxes it reads ∖ boxes it owns| · element size, whatever the order.
//! Partial results move from their tuple's device to the owner of each piece. At the end of a run the
//! last version of a state goes where the state lives, as if each device read its tile.

use std::collections::BTreeMap;

use crate::ein::EinSum;
use crate::ein::access::{AccessMap, output_region};
use crate::ein::einsum::Part;
use crate::graph::{BoundGraph, NodeId};
use crate::plan::layout::tile_range;
use crate::plan::verify::{InvalidPlan, structure};
use crate::plan::{Layout, NodePlan, Region};

/// Bytes that Moves copy, per ordered pair (sender, receiver) of different devices.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    bytes: BTreeMap<(u32, u32), u64>,
}

impl Traffic {
    /// Counts one Move; nothing if it is empty or stays on its device.
    pub fn add(&mut self, from: u32, to: u32, bytes: u64) {
        if from != to && bytes > 0 {
            *self.bytes.entry((from, to)).or_default() += bytes;
        }
    }

    /// Counts all of `other` too.
    pub fn merge(&mut self, other: &Traffic) {
        for (from, to, bytes) in other.iter() {
            self.add(from, to, bytes);
        }
    }

    /// Sender, receiver and bytes, of every pair with traffic, in order.
    pub fn iter(&self) -> impl Iterator<Item = (u32, u32, u64)> {
        self.bytes.iter().map(|(&(from, to), &b)| (from, to, b))
    }

    /// Bytes from one device to another.
    pub fn between(&self, from: u32, to: u32) -> u64 {
        self.bytes.get(&(from, to)).copied().unwrap_or(0)
    }

    /// All bytes.
    pub fn total(&self) -> u128 {
        self.bytes.values().map(|&b| b as u128).sum()
    }
}

/// Bytes that every Move of one run copies, without building tasks.
///
/// # Errors
/// The first rule of [`structure`] that `nodes` breaks.
pub fn moved_bytes(
    graph: &BoundGraph,
    devices: u32,
    nodes: &[NodePlan],
) -> Result<Traffic, InvalidPlan> {
    let mut all = Traffic::default();
    for vertex in traffic(graph, devices, nodes)? {
        all.merge(&vertex);
    }
    Ok(all)
}

/// The same per node: what its operands and partials move when it runs. A box that an earlier
/// vertex brought to the device is not counted again.
///
/// # Errors
/// The first rule of [`structure`] that `nodes` breaks.
pub fn traffic(
    graph: &BoundGraph,
    devices: u32,
    nodes: &[NodePlan],
) -> Result<Vec<Traffic>, InvalidPlan> {
    structure(graph, devices, nodes)?;
    let mut held: BTreeMap<(NodeId, u32), Holdings<()>> = BTreeMap::new();
    let mut all = Vec::with_capacity(nodes.len());
    for (node, _) in graph.ids() {
        let mut here = Traffic::default();
        let owner = nodes[node.at()].owner.as_ref();
        if let Some(join) = Join::of(graph, nodes, node) {
            let tuples = join.tuples();
            for tuple in &tuples {
                for (operand, want) in join.reads(tuple) {
                    let Some(owner) = &nodes[operand.at()].owner else {
                        continue;
                    };
                    let size = graph.node(operand).dtype.size();
                    let boxes = held.entry((operand, tuple.device)).or_default();
                    let shape = graph.shape(operand);
                    if let Supply::Replica { moves, .. } = boxes.supply(&want, Some(owner), shape) {
                        for (tile, piece) in moves {
                            let bytes = (piece.volume() * size) as u64;
                            here.add(owner.devices[tile], tuple.device, bytes);
                        }
                        boxes.push(want, ());
                    }
                }
            }
            for group in tuples.chunks(join.folds()) {
                for (tile, piece) in owner
                    .iter()
                    .flat_map(|o| overlaps(o, graph.shape(node), &group[0].output))
                {
                    let to = owner.map_or(0, |o| o.devices[tile]);
                    let bytes = |p: &Part| p.region(&piece).volume() * p.dtype.size();
                    let bytes: usize = join.parts().iter().map(bytes).sum();
                    for tuple in group {
                        here.add(tuple.device, to, bytes as u64);
                    }
                }
            }
        }
        for (tile, device) in owner.iter().flat_map(|o| o.iter(graph.shape(node))) {
            held.entry((node, device)).or_default().push(tile, ());
        }
        all.push(here);
    }
    for (last, device, want) in homes(graph, nodes) {
        let Some(owner) = &nodes[last.at()].owner else {
            continue;
        };
        let size = graph.node(last).dtype.size();
        let boxes = held.entry((last, device)).or_default();
        if let Supply::Replica { moves, .. } = boxes.supply(&want, Some(owner), graph.shape(last)) {
            for (tile, piece) in moves {
                let bytes = (piece.volume() * size) as u64;
                all[last.at()].add(owner.devices[tile], device, bytes);
            }
            boxes.push(want, ());
        }
    }
    Ok(all)
}

/// The last versions of states that are stored into, and the boxes of them that each device needs
/// at the end of a run: the tiles of the state.
pub fn homes(
    graph: &BoundGraph,
    nodes: &[NodePlan],
) -> impl Iterator<Item = (NodeId, u32, Region)> {
    let stored = graph.states().filter(|(state, last)| state != last);
    stored.flat_map(move |(state, last)| {
        let owner = nodes[state.at()].owner.iter();
        let tiles = owner.flat_map(move |o| o.iter(graph.shape(state)));
        tiles
            .filter(|(region, _)| !region.is_empty())
            .map(move |(region, device)| (last, device, region))
            .collect::<Vec<_>>()
    })
}

/// Boxes of weights without an owner that each device loads once and keeps: every box that its
/// tuples read, less those inside another one. A weight that is itself a result of the graph is
/// on device 0 as a whole. Ascending by weight, device, box.
pub fn weight_boxes(graph: &BoundGraph, nodes: &[NodePlan]) -> Vec<(NodeId, u32, Region)> {
    let mut read: BTreeMap<(NodeId, u32), Vec<Region>> = BTreeMap::new();
    let kept = |n: NodeId| nodes[n.at()].owner.is_none();
    for (node, vertex) in graph.ids() {
        let weights = |e: &EinSum| e.operands.iter().any(|o| kept(o.node));
        if !vertex.einsum().is_some_and(weights) {
            continue;
        }
        let Some(join) = Join::of(graph, nodes, node) else {
            continue;
        };
        for tuple in join.tuples() {
            for (operand, want) in join.reads(&tuple) {
                if kept(operand) && !want.is_empty() {
                    let boxes = read.entry((operand, tuple.device)).or_default();
                    if !boxes.contains(&want) {
                        boxes.push(want);
                    }
                }
            }
        }
    }
    for output in graph.outputs().iter().filter(|o| kept(o.node)) {
        let whole = Region::whole(graph.shape(output.node));
        if !whole.is_empty() {
            read.entry((output.node, 0)).or_default().push(whole);
        }
    }
    let mut out = Vec::new();
    for ((node, device), mut boxes) in read {
        boxes.sort_by_key(|b| (std::cmp::Reverse(b.volume()), b.clone()));
        let mut largest: Vec<Region> = Vec::new();
        for b in boxes {
            if !largest.iter().any(|l| l.contains(&b)) {
                largest.push(b);
            }
        }
        largest.sort();
        out.extend(largest.into_iter().map(|b| (node, device, b)));
    }
    out
}

/// Tiles of a tensor that `region` overlaps, with the common boxes, in key order.
pub fn overlaps(layout: &Layout, shape: &[usize], region: &Region) -> Vec<(usize, Region)> {
    if region.is_empty() {
        return Vec::new();
    }
    let mut found = vec![(0, Region(Vec::with_capacity(shape.len())))];
    for ((&parts, &extent), &(lo, hi)) in layout.parts.iter().zip(shape).zip(&region.0) {
        // Element x is in tile ⌊x·d/b⌋: ⌈k·b/d⌉ ≤ x iff k ≤ x·d/b.
        let tile_of = |x: usize| (x * parts as usize / extent) as u32;
        found = found
            .iter()
            .flat_map(|(number, prefix): &(usize, Region)| {
                (tile_of(lo)..=tile_of(hi - 1)).filter_map(move |k| {
                    let (from, to) = tile_range(extent, parts, k);
                    let (from, to) = (from.max(lo), to.min(hi));
                    let mut piece = prefix.clone();
                    piece.0.push((from, to));
                    (from < to).then_some((number * parts as usize + k as usize, piece))
                })
            })
            .collect();
    }
    found
}

/// How a device gets a box that it reads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Supply<H> {
    /// One of its boxes covers it.
    Held(H),
    /// It makes a replica of exactly this box.
    Replica {
        /// Parts that it holds: which of its boxes, and the part.
        copies: Vec<(H, Region)>,
        /// Parts that it gets from other devices: number of the owner's tile, and the part.
        moves: Vec<(usize, Region)>,
    },
}

/// The boxes of one tensor on one device, in the order in which they came there, each with a
/// handle (a buffer, or nothing).
#[derive(Clone, Debug)]
pub struct Holdings<H>(Vec<(Region, H)>);

impl<H> Default for Holdings<H> {
    fn default() -> Self {
        Holdings(Vec::new())
    }
}

impl<H: Copy> Holdings<H> {
    /// One more box.
    pub fn push(&mut self, region: Region, handle: H) {
        self.0.push((region, handle));
    }

    /// How the device gets the box `want`. The empty box has an (empty) replica of its own, so that
    /// no kernel computes an address outside a buffer.
    pub fn supply(&self, want: &Region, owner: Option<&Layout>, shape: &[usize]) -> Supply<H> {
        let covers = |held: &Region| {
            if want.is_empty() {
                held == want
            } else {
                held.contains(want)
            }
        };
        if let Some((_, handle)) = self.0.iter().find(|(held, _)| covers(held)) {
            return Supply::Held(*handle);
        }
        let (mut copies, mut rest) = (Vec::new(), vec![want.clone()]);
        rest.retain(|r| !r.is_empty());
        for (held, handle) in &self.0 {
            if !rest.iter().any(|r| r.common(held) > 0) {
                continue;
            }
            copies.extend(
                rest.iter()
                    .filter_map(|r| Some((*handle, r.intersect(held)?))),
            );
            rest = rest.iter().flat_map(|r| r.subtract(held)).collect();
        }
        let moves = owner
            .iter()
            .flat_map(|o| rest.iter().flat_map(|r| overlaps(o, shape, r)))
            .collect();
        Supply::Replica { copies, moves }
    }
}

/// One tuple of a join: one kernel call.
#[derive(Clone, Debug)]
pub struct Tuple {
    /// Its number, row-major over keys.
    pub number: usize,
    /// Where it runs.
    pub device: u32,
    /// Its range of every label.
    pub tile: Region,
    /// The box of the output that it makes, or makes a partial result of.
    pub output: Region,
}

/// The join of one vertex under a plan that passed [`structure`].
#[derive(Clone, Debug)]
pub struct Join<'a> {
    einsum: &'a EinSum,
    layout: &'a Layout,
    extents: &'a [usize],
    reads: Vec<(NodeId, AccessMap, &'a [usize])>,
    folds: usize,
    parts: Vec<Part>,
}

impl<'a> Join<'a> {
    /// Of a vertex; `None` for an input.
    pub fn of(graph: &'a BoundGraph, nodes: &'a [NodePlan], node: NodeId) -> Option<Join<'a>> {
        let einsum = graph.node(node).einsum()?;
        let layout = nodes[node.at()].join.as_ref()?;
        let outputs: usize = einsum.out.iter().map(Vec::len).sum();
        let reads = einsum
            .operands
            .iter()
            .map(|o| (o.node, AccessMap::of(o), graph.shape(o.node)))
            .collect();
        let folds = layout.parts[outputs..]
            .iter()
            .map(|&d| d as usize)
            .product();
        Some(Join {
            einsum,
            layout,
            extents: graph.label_extents(node),
            reads,
            folds,
            parts: match folds > 1 {
                true => einsum.parts(),
                false => vec![Part::whole(einsum)],
            },
        })
    }

    /// n_agg: how many tuples make a partial result of one output box. They are consecutive.
    pub fn folds(&self) -> usize {
        self.folds
    }

    /// Key of a tuple.
    pub fn key(&self, tuple: &Tuple) -> Vec<u32> {
        self.layout.key(tuple.number)
    }

    /// Every tuple that makes something, in key order. The tuples of one output box are all
    /// among them or none is.
    pub fn tuples(&self) -> Vec<Tuple> {
        let tuple = |(number, (tile, device)): (usize, (Region, u32))| {
            let output = output_region(self.einsum, &tile, self.extents);
            (!output.is_empty()).then_some(Tuple {
                number,
                device,
                tile,
                output,
            })
        };
        self.layout
            .iter(self.extents)
            .enumerate()
            .filter_map(tuple)
            .collect()
    }

    /// The box that a tuple reads of each operand.
    pub fn reads(&self, tuple: &Tuple) -> impl Iterator<Item = (NodeId, Region)> {
        self.reads
            .iter()
            .map(|(node, map, shape)| (*node, map.footprint(&tuple.tile, shape)))
    }

    /// What a result consists of that is not written into its owner's tile: what is folded if it
    /// is still to be folded, the stored elements if it is final.
    pub fn parts(&self) -> &[Part] {
        &self.parts
    }
}
