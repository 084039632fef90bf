//! The cost model `communication`: elements moved when every tile is remote (EinDecomp, arXiv
//! 2410.02682, §5). With p = ∏ d tuples and n the elements of a tile:
//!
//! * JOIN = Σ over tuples and operands of the elements of the tile's footprint: Σ_in |in| ·
//!   ∏_{l ∉ in} d\[l\] where axes are read whole, and halos beside that where they are not;
//! * AGG = |out| · (n_agg − 1), n_agg = ∏ d over reduced labels; where partial results are records,
//!   |out| is Σ over components of |component| · ∏_{l ∈ out, l ∉ component} d\[l\];
//! * REPART, from a tensor's tiles to those that a consumer reads: Σ over overlapping pairs of the
//!   producer tile's elements + Σ over consumer tiles of (k − 1) · its elements, where a consumer
//!   tile is the footprint, halo included, and k producer tiles overlap it; 0 if every consumer
//!   tile is in the producer's tile of the same key. Graph inputs are partitioned beforehand: 0.

use super::CostModel;
use crate::ein::access::{AccessMap, AxisAccess};
use crate::ein::einsum::Part;
use crate::ein::{EinSum, LabelId};
use crate::graph::{BoundGraph, NodeId};
use crate::plan::Objective;
use crate::plan::layout::{Layout, Region, tile_range};
use crate::quick::Table;

/// The model.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Communication;

impl CostModel for Communication {
    fn name(&self) -> &'static str {
        Objective::Communication.model()
    }

    fn unit(&self) -> &'static str {
        "elements"
    }

    fn vertex(&self, graph: &BoundGraph, node: NodeId, d: &[u32]) -> u128 {
        join(graph, node, d) + agg(graph, node, d)
    }

    fn edge(
        &self,
        graph: &BoundGraph,
        node: NodeId,
        operand: usize,
        from: &[u32],
        d: &[u32],
    ) -> u128 {
        repart(graph, node, operand, from, d)
    }

    fn vertices(&self, graph: &BoundGraph, node: NodeId, ds: &[Vec<u32>]) -> Vec<u128> {
        let joins = joins(graph, node, ds);
        let own = |(join, d): (u128, &Vec<u32>)| join + agg(graph, node, d);
        joins.into_iter().zip(ds).map(own).collect()
    }

    fn edges(
        &self,
        graph: &BoundGraph,
        node: NodeId,
        operand: usize,
        from: &[Vec<u32>],
        ds: &[Vec<u32>],
    ) -> Vec<u128> {
        reparts(graph, node, operand, from, ds)
    }
}

/// JOIN of a vertex; 0 for an input.
pub fn join(graph: &BoundGraph, node: NodeId, d: &[u32]) -> u128 {
    joins(graph, node, &[d.to_vec()]).into_iter().sum()
}

fn joins(graph: &BoundGraph, node: NodeId, ds: &[Vec<u32>]) -> Vec<u128> {
    let mut all = vec![0; ds.len()];
    let Some(e) = graph.node(node).einsum() else {
        return all;
    };
    for o in 0..e.operands.len() {
        let mut reads = Reads::new(graph, node, e, o);
        for (cost, d) in all.iter_mut().zip(ds) {
            let groups = reads.of(d);
            let groups = || groups.iter().map(|&g| &reads.groups[g]);
            let moved = |l: usize| groups().any(|g| g.labels.contains(&l));
            let elsewhere = (0..d.len()).filter(|&l| d[l] > 1 && !moved(l));
            let copies: u128 = elsewhere.map(|l| u128::from(d[l])).product();
            *cost += copies * groups().map(|g| g.once).product::<u128>();
        }
    }
    all
}

/// AGG of a vertex; 0 for an input.
pub fn agg(graph: &BoundGraph, node: NodeId, d: &[u32]) -> u128 {
    let Some(e) = graph.node(node).einsum() else {
        return 0;
    };
    let whole = Region::whole(graph.shape(node));
    let elements = |part: Part| {
        let missing = e
            .out
            .iter()
            .zip(&part.axes)
            .filter(|(_, carried)| !**carried);
        let tiles = missing
            .flat_map(|(axis, _)| axis)
            .map(|l| u128::from(d[l.at()]));
        part.region(&whole).volume() as u128 * tiles.product::<u128>()
    };
    e.parts().into_iter().map(elements).sum::<u128>() * folds(e, d)
}

/// How many partial results of one output tile are folded into the first: n_agg − 1.
fn folds(e: &EinSum, d: &[u32]) -> u128 {
    let reduced = e.reduce.iter().flat_map(|r| &r.labels);
    let tuples: u128 = reduced.map(|l| u128::from(d[l.at()])).product();
    tuples.saturating_sub(1)
}

/// REPART of one operand; 0 for an operand that is a graph input.
pub fn repart(graph: &BoundGraph, node: NodeId, operand: usize, from: &[u32], d: &[u32]) -> u128 {
    let all = reparts(graph, node, operand, &[from.to_vec()], &[d.to_vec()]);
    all.into_iter().sum()
}

/// REPART of every pair, row-major over `from`.
fn reparts(
    graph: &BoundGraph,
    node: NodeId,
    operand: usize,
    from: &[Vec<u32>],
    ds: &[Vec<u32>],
) -> Vec<u128> {
    let mut all = vec![0; from.len() * ds.len()];
    let Some(e) = graph.node(node).einsum() else {
        return all;
    };
    let tensor = e.operands[operand].node;
    let Some(producer) = graph.node(tensor).einsum() else {
        return all;
    };
    let mut reads = Reads::new(graph, node, e, operand);
    // per group, when first met: what it takes from each of `from`
    let mut taken: Vec<Vec<Taken>> = Vec::new();
    for (column, d) in ds.iter().enumerate() {
        let groups = reads.of(d);
        for group in &reads.groups[taken.len()..] {
            let mut seen = Table::default();
            let take = |from: &Vec<u32>| {
                let parts: Vec<u32> = group.axes.iter().map(|&a| from[a]).collect();
                let owned = |a: &Read| Owned::of(graph, tensor, producer, a, from);
                *seen
                    .entry(parts)
                    .or_insert_with(|| group.take(&owned, from))
            };
            taken.push(from.iter().map(take).collect());
        }
        for row in 0..from.len() {
            let groups = || groups.iter().map(|&g| &taken[g][row]);
            if !groups().all(|t| t.same) {
                let pairs: u128 = groups().map(|t| t.pairs).product();
                let pieces: u128 = groups().map(|t| t.pieces).product();
                let once: u128 = groups().map(|t| t.once).product();
                all[row * ds.len() + column] = pairs + pieces - once;
            }
        }
    }
    all
}

/// Elements that the different tiles of a vertex read of one operand, all together.
#[cfg(feature = "planner")]
pub(crate) fn needed(graph: &BoundGraph, node: NodeId, operand: usize, d: &[u32]) -> u128 {
    let Some(e) = graph.node(node).einsum() else {
        return 0;
    };
    let mut reads = Reads::new(graph, node, e, operand);
    reads.of(d).iter().map(|&g| reads.groups[g].once).product()
}

/// How many different tiles these are.
#[cfg(feature = "planner")]
pub(crate) fn tiles_read(graph: &BoundGraph, node: NodeId, operand: usize, d: &[u32]) -> u128 {
    let Some(e) = graph.node(node).einsum() else {
        return 0;
    };
    let mut reads = Reads::new(graph, node, e, operand);
    let groups = reads.of(d);
    let split = groups.iter().flat_map(|&g| &reads.groups[g].labels);
    split.map(|&l| u128::from(d[l])).product()
}

/// What they lack at least of it if each is where a tile of `from` parts per axis is, wherever that
/// may be; one copy of all tiles is somewhere.
#[cfg(feature = "planner")]
pub(crate) fn lacking(
    graph: &BoundGraph,
    node: NodeId,
    operand: usize,
    from: &[u32],
    d: &[u32],
) -> u128 {
    let Some(e) = graph.node(node).einsum() else {
        return 0;
    };
    let tensor = e.operands[operand].node;
    let extents = graph.label_extents(tensor);
    let most = |a: &Read| {
        let labels = graph.node(tensor).einsum().map(|e| &e.out[a.axis][..]);
        let (first, inner) = match labels.and_then(<[LabelId]>::split_first) {
            Some((first, rest)) => (
                extents[first.at()],
                rest.iter().map(|l| extents[l.at()]).product(),
            ),
            None => (graph.shape(tensor)[a.axis], 1),
        };
        (first.div_ceil(from[a.axis].max(1) as usize) * inner) as u128
    };
    let mut reads = Reads::new(graph, node, e, operand);
    let groups = reads.of(d);
    let groups = || groups.iter().map(|&g| &reads.groups[g]);
    let common = |a: &Read| a.width().min(most(a));
    let all: u128 = groups().map(|g| g.once).product();
    let held: u128 = groups().map(|g| g.sum(&common)).product();
    all.saturating_sub(held)
}

/// Bytes of partial results that change device at least, whoever folds them; 0 where nothing is
/// folded.
#[cfg(feature = "planner")]
pub(crate) fn folded(graph: &BoundGraph, node: NodeId, d: &[u32]) -> u128 {
    let Some(e) = graph.node(node).einsum() else {
        return 0;
    };
    let whole = Region::whole(graph.shape(node));
    let bytes = |p: Part| (p.region(&whole).volume() * p.dtype.size()) as u128;
    e.parts().into_iter().map(bytes).sum::<u128>() * folds(e, d)
}

/// Parts per axis of the tensor that a vertex makes under `d`.
pub fn output_parts(e: &EinSum, d: &[u32]) -> Vec<u32> {
    let parts = |axis: &Vec<LabelId>| axis.iter().map(|l| d[l.at()]).product();
    e.out.iter().map(parts).collect()
}

/// What one tile reads on one axis.
struct Read {
    axis: usize,
    /// Number of tiles of the labels that move what is read, and which one it is, the label that
    /// moves it most being the most significant.
    parts: u32,
    key: u32,
    /// Half-open.
    range: (usize, usize),
}

impl Read {
    fn width(&self) -> u128 {
        (self.range.1 - self.range.0) as u128
    }
}

/// What the tiles of a vertex read of one operand, under any partition vectors. Axes that no split
/// label has in common are independent, so that sums over tiles are products over groups of axes.
struct Reads<'a> {
    extents: &'a [usize],
    shape: &'a [usize],
    access: AccessMap,
    /// Every group met so far, and its number.
    groups: Vec<Group>,
    numbers: Table<GroupKey, usize>,
}

/// Labels, their parts, axes.
type GroupKey = (Vec<usize>, Vec<u32>, Vec<usize>);

/// Axes that move together, and what each tile of their split labels reads on them.
struct Group {
    labels: Vec<usize>,
    axes: Vec<usize>,
    tiles: Vec<Vec<Read>>,
    /// Σ over tiles of the elements read.
    once: u128,
}

/// What a group takes from tiles of a producer, summed over its tiles.
#[derive(Clone, Copy)]
struct Taken {
    /// Elements of the producer's tiles that are touched.
    pairs: u128,
    /// Elements read, once per producer's tile that is touched.
    pieces: u128,
    /// Elements read.
    once: u128,
    /// Is each tile within the producer's of the same key?
    same: bool,
}

impl Group {
    /// Σ over tiles of the product of `f` over axes.
    fn sum(&self, f: &dyn Fn(&Read) -> u128) -> u128 {
        let tile = |axes: &Vec<Read>| axes.iter().map(f).product::<u128>();
        self.tiles.iter().map(tile).sum()
    }

    fn take(&self, owned: &dyn Fn(&Read) -> Owned, from: &[u32]) -> Taken {
        let same = |a: &Read| a.parts == from[a.axis] && owned(a).contains(a);
        Taken {
            pairs: self.sum(&|a| owned(a).covering()),
            pieces: self.sum(&|a| owned(a).count() * a.width()),
            once: self.once,
            same: self.tiles.iter().flatten().all(same),
        }
    }
}

impl<'a> Reads<'a> {
    fn new(graph: &'a BoundGraph, node: NodeId, e: &EinSum, operand: usize) -> Reads<'a> {
        Reads {
            extents: graph.label_extents(node),
            shape: graph.shape(e.operands[operand].node),
            access: AccessMap::of(&e.operands[operand]),
            groups: Vec::new(),
            numbers: Table::default(),
        }
    }

    /// Numbers of the groups under one partition vector.
    fn of(&mut self, d: &[u32]) -> Vec<usize> {
        let axes = &self.access.axes;
        let split: Vec<Vec<usize>> = axes.iter().map(|a| split_labels(a, d)).collect();
        let mut all = Vec::new();
        for (labels, axes) in groups(&split) {
            let parts: Vec<u32> = labels.iter().map(|&l| d[l]).collect();
            let key = (labels, parts, axes);
            let number = match self.numbers.get(&key) {
                Some(&number) => number,
                None => {
                    let group = self.group(key.0.clone(), &key.1, key.2.clone(), &split);
                    self.groups.push(group);
                    self.numbers.insert(key, self.groups.len() - 1);
                    self.groups.len() - 1
                }
            };
            all.push(number);
        }
        all
    }

    fn group(
        &self,
        labels: Vec<usize>,
        parts: &[u32],
        axes: Vec<usize>,
        split: &[Vec<usize>],
    ) -> Group {
        let keys = Layout {
            devices: Vec::new(),
            parts: parts.to_vec(),
        };
        let whole = Region::whole(self.extents);
        let tile = |number: usize| -> Vec<Read> {
            let key = keys.key(number);
            let mut tile = whole.clone();
            for ((&l, &parts), &k) in labels.iter().zip(parts).zip(&key) {
                tile.0[l] = tile_range(self.extents[l], parts, k);
            }
            let footprint = self.access.footprint(&tile, self.shape);
            let read = |&axis: &usize| {
                let step = |(all, number): (u32, u32), l: &usize| {
                    let at = labels.iter().position(|m| m == l);
                    let (parts, k) = at.map_or((1, 0), |at| (parts[at], key[at]));
                    (all * parts, number * parts + k)
                };
                let (parts, key) = split[axis].iter().fold((1, 0), step);
                Read {
                    axis,
                    parts,
                    key,
                    range: footprint.0[axis],
                }
            };
            axes.iter().map(read).collect()
        };
        let tiles: Vec<Vec<Read>> = (0..keys.tiles()).map(tile).collect();
        let once = tiles
            .iter()
            .map(|axes| axes.iter().map(Read::width).product::<u128>());
        Group {
            once: once.sum(),
            labels,
            axes,
            tiles,
        }
    }
}

/// The split labels whose tiles decide what is read on an axis.
fn split_labels(axis: &AxisAccess, d: &[u32]) -> Vec<usize> {
    axis.labels().filter(|&l| d[l] > 1).collect()
}

/// Axes that have labels in common, directly or through other axes, with all labels of theirs.
fn groups(labels: &[Vec<usize>]) -> Vec<(Vec<usize>, Vec<usize>)> {
    let mut groups: Vec<(Vec<usize>, Vec<usize>)> = Vec::new();
    for (axis, of) in labels.iter().enumerate() {
        let (mut labels, mut axes) = (of.clone(), vec![axis]);
        groups.retain_mut(|(more, with)| {
            let apart = more.iter().all(|l| !of.contains(l)) && !(more.is_empty() && of.is_empty());
            if !apart {
                labels.extend(more.iter().filter(|l| !of.contains(l)));
                axes.append(with);
            }
            apart
        });
        groups.push((labels, axes));
    }
    groups
}

/// The producer's tiles that a read touches, on its axis.
struct Owned {
    extent: usize,
    /// Elements per step of the axis' first label.
    inner: usize,
    parts: u32,
    /// First and last tile; none if nothing is read.
    tiles: Option<(u32, u32)>,
}

impl Owned {
    fn of(
        graph: &BoundGraph,
        tensor: NodeId,
        producer: &EinSum,
        read: &Read,
        from: &[u32],
    ) -> Owned {
        let labels = producer.out[read.axis].split_first();
        let extents = graph.label_extents(tensor);
        let (extent, inner) = labels.map_or((1, 1), |(first, rest)| {
            let inner = rest.iter().map(|l| extents[l.at()]).product();
            (extents[first.at()], inner)
        });
        let parts = from[read.axis];
        // ⌈k·b/d⌉ ≤ x iff k ≤ x·d/b
        let tile = |x: usize| (x / inner * parts as usize / extent) as u32;
        let (lo, hi) = read.range;
        Owned {
            extent,
            inner,
            parts,
            tiles: (lo < hi).then(|| (tile(lo), tile(hi - 1))),
        }
    }

    fn range(&self, tile: u32) -> (usize, usize) {
        let (lo, hi) = tile_range(self.extent, self.parts, tile);
        (lo * self.inner, hi * self.inner)
    }

    fn count(&self) -> u128 {
        self.tiles.map_or(0, |(a, b)| u128::from(b - a + 1))
    }

    /// Elements of all tiles that are touched.
    fn covering(&self) -> u128 {
        self.tiles
            .map_or(0, |(a, b)| (self.range(b).1 - self.range(a).0) as u128)
    }

    fn contains(&self, read: &Read) -> bool {
        self.tiles.is_none_or(|t| t == (read.key, read.key))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::samples::Sample;
    use proptest::prelude::*;

    /// a → b, a copy of the same shape.
    fn copy(shape: &[i64]) -> BoundGraph {
        let mut g = Sample::default();
        let labels = &"ijk"[..shape.len()];
        let spec = format!("{labels}->{labels}");
        let x = g.data("x", shape);
        let a = g.einsum("a", &spec, &[x]);
        let b = g.einsum("b", &spec, &[a]);
        g.finish(b)
    }

    fn cost(shape: &[i64], from: &[u32], to: &[u32]) -> u128 {
        repart(&copy(shape), NodeId(2), 0, from, to)
    }

    /// The definition, tile by tile.
    fn literal(shape: &[i64], from: &[u32], to: &[u32]) -> u128 {
        let shape: Vec<usize> = shape.iter().map(|&n| n as usize).collect();
        let tiles = |parts: &[u32]| -> Vec<Region> {
            let count = parts.iter().product::<u32>() as usize;
            let layout = Layout {
                parts: parts.to_vec(),
                devices: vec![0; count],
            };
            layout.iter(&shape).map(|t| t.0).collect()
        };
        if from == to {
            return 0;
        }
        let mut total = 0;
        for c in tiles(to) {
            let overlapping: Vec<Region> = tiles(from)
                .into_iter()
                .filter(|p| p.intersect(&c).is_some())
                .collect();
            total += overlapping.iter().map(Region::volume).sum::<usize>();
            total += (overlapping.len() - 1) * c.volume();
        }
        total as u128
    }

    proptest! {
        #[test]
        fn repartition_is_its_definition(
            axes in prop::collection::vec((1i64..13).prop_flat_map(|n| {
                (Just(n), 1..=n as u32, 1..=n as u32)
            }), 1..=3)
        ) {
            let shape: Vec<i64> = axes.iter().map(|a| a.0).collect();
            let from: Vec<u32> = axes.iter().map(|a| a.1).collect();
            let to: Vec<u32> = axes.iter().map(|a| a.2).collect();
            prop_assert_eq!(cost(&shape, &from, &to), literal(&shape, &from, &to));
        }
    }

    #[test]
    fn a_diagonal_reads_only_its_tiles() {
        let mut g = Sample::default();
        let x = g.data("x", &[8, 8]);
        let a = g.einsum("a", "ij->ij", &[x]);
        let t = g.einsum("t", "ii->i", &[a]);
        let g = g.finish(t);
        assert_eq!(join(&g, NodeId(2), &[4]), 4 * 2 * 2);
        assert_eq!(repart(&g, NodeId(2), 0, &[4, 4], &[4]), 0);
        // each of 4 tiles of 2 × 2 is in one producer tile of 2 × 8
        assert_eq!(repart(&g, NodeId(2), 0, &[4, 1], &[4]), 4 * 16);
    }

    /// A maximum and a sum per row, and a value per row and channel.
    #[test]
    fn records_count_by_component() {
        let g = crate::plan::samples::records(2, 8, 4);
        let o = NodeId(3);
        // labels b, d, t, and e of the scores
        assert_eq!(agg(&g, o, &[1, 1, 1, 1]), 0);
        assert_eq!(agg(&g, o, &[1, 1, 4, 1]), (2 + 2 + 8) * 3);
        assert_eq!(agg(&g, o, &[2, 1, 4, 1]), (2 + 2 + 8) * 3);
        // maxima and sums are made for each part of the channels
        assert_eq!(agg(&g, o, &[1, 2, 4, 1]), (2 * 2 + 2 * 2 + 8) * 3);
        // the queries go to each part of the keys, keys and values to each part of what they lack
        assert_eq!(join(&g, o, &[1, 1, 4, 1]), 4 * 8 + 64 + 64);
        assert_eq!(join(&g, o, &[1, 2, 4, 1]), 8 * 8 + 2 * 64 + 64);
        // the number of elements is the same everywhere
        assert_eq!(agg(&g, NodeId(4), &[2, 4]), (2 + 2 + 2) * 3);
    }

    #[test]
    fn nothing_moves_on_one_device() {
        assert_eq!(cost(&[5, 7], &[1, 1], &[1, 1]), 0);
        assert_eq!(cost(&[0, 7], &[1, 7], &[1, 1]), 0);
    }
}
