//! What moves, box by box: the algebra that the evaluator of plans and the lowering share.
//!
//! A tensor is owned once, tile by tile. A device that reads a box which none of its own boxes
//! covers makes a replica of exactly that box: it copies what it holds already and gets the rest
//! from the owners on its server, from replicas that other devices of its server made before, and
//! from owners on other servers, in this order. So an element enters a device at most once per run,
//! and a server too: the bytes that move to a device are |∪ boxes it reads ∖ boxes it owns| ·
//! element size, those that cross the network to a server |∪ boxes its devices read ∖ boxes they
//! own| · element size, whatever the order.
//! Partial results move from their tuple's device to the owner of each piece. At the end of a run the
//! last version of a state goes where the state lives, as if each device read its tile.

use std::collections::BTreeMap;

use super::traffic::Count;
use crate::ein::EinSum;
use crate::ein::access::{AccessMap, output_region};
use crate::ein::einsum::Part;
use crate::graph::{BoundGraph, NodeId};
use crate::plan::cluster::{Hierarchy, LinkClass};
use crate::plan::layout::tile_range;
use crate::plan::{Layout, NodePlan, Region};

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
        /// Parts that it gets from other devices: from where, and the part.
        moves: Vec<(Source<H>, Region)>,
    },
}

/// What a device gets a part of a box from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source<H> {
    /// A tile of the owner, by number.
    Tile(usize),
    /// A box on another device of the same server.
    Held(u32, H),
}

/// The boxes of all tensors on all devices, in the order in which they came there, each with a
/// handle (a buffer, or nothing).
#[derive(Clone, Debug)]
pub struct Held<H> {
    hierarchy: Hierarchy,
    boxes: BTreeMap<(NodeId, u32), Vec<(Region, H)>>,
}

impl<H: Copy> Held<H> {
    /// No box yet.
    pub fn new(hierarchy: Hierarchy) -> Held<H> {
        Held {
            hierarchy,
            boxes: BTreeMap::new(),
        }
    }

    /// One more box.
    pub fn push(&mut self, node: NodeId, device: u32, region: Region, handle: H) {
        let boxes = self.boxes.entry((node, device)).or_default();
        boxes.push((region, handle));
    }

    /// How a device gets the box `want` of a tensor. The empty box has an (empty) replica of its own,
    /// so that no kernel computes an address outside a buffer.
    pub fn supply(
        &self,
        node: NodeId,
        device: u32,
        want: &Region,
        owner: Option<&Layout>,
        shape: &[usize],
    ) -> Supply<H> {
        let covers = |held: &Region| {
            if want.is_empty() {
                held == want
            } else {
                held.contains(want)
            }
        };
        let own = self.boxes.get(&(node, device)).map_or(&[][..], |b| b);
        if let Some((_, handle)) = own.iter().find(|(held, _)| covers(held)) {
            return Supply::Held(*handle);
        }
        let (mut copies, mut rest) = (Vec::new(), vec![want.clone()]);
        rest.retain(|r| !r.is_empty());
        for (held, handle) in own {
            take(&mut rest, held, |piece| copies.push((*handle, piece)));
        }
        let (mut moves, mut far) = (Vec::new(), Vec::new());
        if let Some(owner) = owner {
            for (tile, piece) in rest.iter().flat_map(|r| overlaps(owner, shape, r)) {
                match self.hierarchy.class(owner.devices[tile], device) {
                    LinkClass::Network => far.push((tile, piece)),
                    _ => moves.push((Source::Tile(tile), piece)),
                }
            }
        }
        let first = self.hierarchy.server(device) * self.hierarchy.per_server;
        let server = (node, first)..(node, first + self.hierarchy.per_server);
        for (tile, piece) in far {
            let mut rest = vec![piece];
            for (&(_, at), boxes) in self.boxes.range(server.clone()) {
                for (held, handle) in boxes.iter().filter(|_| at != device) {
                    let source = Source::Held(at, *handle);
                    take(&mut rest, held, |piece| moves.push((source, piece)));
                }
            }
            moves.extend(rest.into_iter().map(|piece| (Source::Tile(tile), piece)));
        }
        Supply::Replica { copies, moves }
    }
}

impl Held<()> {
    /// Counts what a device gets of the box `want` of an owned tensor, and keeps the box.
    pub(super) fn fetch(
        &mut self,
        graph: &BoundGraph,
        nodes: &[NodePlan],
        node: NodeId,
        device: u32,
        want: Region,
        traffic: &mut impl Count,
    ) {
        let Some(owner) = &nodes[node.at()].owner else {
            return;
        };
        let supply = self.supply(node, device, &want, Some(owner), graph.shape(node));
        let Supply::Replica { moves, .. } = supply else {
            return;
        };
        for (source, piece) in moves {
            let from = match source {
                Source::Tile(tile) => owner.devices[tile],
                Source::Held(at, ()) => at,
            };
            let bytes = (piece.volume() * graph.node(node).dtype.size()) as u64;
            traffic.count(self.hierarchy, from, device, bytes);
        }
        self.push(node, device, want, ());
    }
}

/// Takes what `held` has out of `rest`.
fn take(rest: &mut Vec<Region>, held: &Region, mut found: impl FnMut(Region)) {
    if !rest.iter().any(|r| r.common(held) > 0) {
        return;
    }
    rest.iter()
        .filter_map(|r| r.intersect(held))
        .for_each(&mut found);
    *rest = rest.iter().flat_map(|r| r.subtract(held)).collect();
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

/// The join of one vertex under a plan that passed [`structure`](crate::plan::verify::structure).
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

    /// The box that a tuple reads of the operand number `operand`, a tensor of extents `shape`.
    pub(super) fn read(&self, operand: usize, tuple: &Tuple, shape: &[usize]) -> Region {
        self.reads[operand].1.footprint(&tuple.tile, shape)
    }

    /// What a result consists of that is not written into its owner's tile: what is folded if it
    /// is still to be folded, the stored elements if it is final.
    pub fn parts(&self) -> &[Part] {
        &self.parts
    }
}
