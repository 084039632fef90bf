//! What no partition vector can beat: a lower bound on JOIN + AGG of a vertex.
//!
//! For any vertex, JOIN + AGG = p · Σ_j (tile footprint of array j, output included) − |out|. With
//! V points of iteration, p tuples of V/p points each read at least
//! GP(F) = min Σ_j ∏_{l ∈ S_j} t_l subject to ∏ t_l = F and 1 ≤ t_l ≤ b_l, F = V/p: a geometric
//! program, convex in log t. So p · GP(V/p) − |out| bounds the vertex and the sum over vertices the
//! graph. Where an axis is read in windows, the tiles of its labels together read at least every
//! element that some point reads, halos or not: it counts as those elements, cut by its labels.
//! Where partial results are records, the output is that many arrays as components have all of its
//! axes; the others only add to AGG. For a matrix product it equals the memory-independent bounds
//! of Al Daas et al. (arXiv 2205.13407).

use crate::ein::LabelId;
use crate::ein::access::{AccessMap, AxisAccess, Hull, splittable};
use crate::graph::{BoundGraph, NodeId};
use crate::plan::layout::Region;

/// Sweeps over all pairs of labels; the bound is valid after any number of them.
const SWEEPS: usize = 200;
/// Halvings of one step.
const HALVINGS: usize = 60;
/// Relative gap at which the descent ends, and the room given to rounding.
const GAP: f64 = 1e-10;

/// A lower bound on JOIN + AGG of a vertex decomposed into `tuples` tuples; 0 for an input.
pub fn vertex_limit(graph: &BoundGraph, node: NodeId, tuples: u32) -> u128 {
    let Some(e) = graph.node(node).einsum() else {
        return 0;
    };
    let extents = graph.label_extents(node);
    if extents.contains(&0) {
        return 0;
    }
    let free: Vec<usize> = splittable(e)
        .iter()
        .enumerate()
        .filter_map(|(l, &ok)| (ok && extents[l] > 1).then_some(l))
        .collect();
    let whole = Region::whole(extents);
    let mut program = Program {
        room: free.iter().map(|&l| (extents[l] as f64).ln()).collect(),
        total: 0.0,
        terms: Vec::new(),
    };
    program.total = program.room.iter().sum::<f64>() - f64::from(tuples).ln();
    for operand in &e.operands {
        let (volume, labels) =
            least_read(&AccessMap::of(operand), graph.shape(operand.node), &whole);
        program.add(volume, labels.into_iter(), extents, &free);
    }
    let outputs = e
        .parts()
        .iter()
        .filter(|p| !p.axes.contains(&false))
        .count();
    for _ in 0..outputs {
        let out = e.out.iter().filter_map(|axis| axis.first());
        let out = out.map(|l: &LabelId| l.at()).filter(|l| free.contains(l));
        program.add(graph.elements(node), out, extents, &free);
    }
    let least = program.bound() * f64::from(tuples) * (1.0 - GAP);
    (least.max(0.0) as u128).saturating_sub((graph.elements(node) * outputs) as u128)
}

/// A box that all tiles together read at least, in elements, and the labels that cut it (twice
/// those that cut two of its axes).
pub(crate) fn least_read(
    access: &AccessMap,
    shape: &[usize],
    whole: &Region,
) -> (usize, Vec<usize>) {
    let footprint = access.footprint(whole, shape);
    let (mut volume, mut labels) = (1usize, Vec::new());
    let is_whole = |a: &AxisAccess| matches!(a, AxisAccess::Bare(_) | AxisAccess::Data);
    let axes = || access.axes.iter().zip(&footprint.0).zip(shape);
    for ((axis, &(lo, hi)), _) in axes().filter(|((a, _), _)| is_whole(a)) {
        volume = volume.saturating_mul(hi - lo);
        labels.extend(axis.labels());
    }
    for ((axis, _), &extent) in axes().filter(|((a, _), _)| !is_whole(a)) {
        let inside = match axis.hull(whole) {
            Hull::Range(lo, hi) => lo >= 0 && hi < extent as i64,
            _ => false,
        };
        let least = match axis {
            AxisAccess::Affine { terms, offset } if !axis.labels().any(|l| labels.contains(&l)) => {
                labels.extend(axis.labels());
                distinct(terms, *offset, whole, extent)
            }
            // each tile has a point, which reads one element, if it may read at all
            _ => usize::from(inside),
        };
        volume = volume.saturating_mul(least);
    }
    (volume, labels)
}

/// At most as many elements as an affine index has values inside an axis.
fn distinct(terms: &[(LabelId, i64)], offset: i64, whole: &Region, extent: usize) -> usize {
    let last = |l: LabelId| whole.0[l.at()].1 as i64 - 1;
    let mut ascending = terms.to_vec();
    ascending.sort_by_key(|t| t.1.unsigned_abs());
    let mut reach = 1;
    let no_gaps = ascending.iter().all(|&(l, c)| {
        let near = c.saturating_abs() <= reach;
        reach = c
            .saturating_abs()
            .saturating_mul(last(l))
            .saturating_add(reach);
        near
    });
    let inside = |lo: i64, hi: i64| (hi.min(extent as i64 - 1) - lo.max(0) + 1).max(0) as usize;
    if no_gaps {
        let by = |&(l, c): &(LabelId, i64)| c.saturating_mul(last(l));
        let least = terms
            .iter()
            .map(by)
            .fold(offset, |x, c| x.saturating_add(c.min(0)));
        let most = terms
            .iter()
            .map(by)
            .fold(offset, |x, c| x.saturating_add(c.max(0)));
        return inside(least, most);
    }
    // one index alone, the others being 0
    let alone = |&(l, c): &(LabelId, i64)| {
        let (step, first) = match c > 0 {
            true => (c, offset),
            false => (
                c.saturating_abs(),
                offset.saturating_add(c.saturating_mul(last(l))),
            ),
        };
        let from = (first.saturating_neg().max(0) as u64).div_ceil(step as u64) as i64;
        let to = (extent as i64 - 1)
            .saturating_sub(first)
            .div_euclid(step)
            .min(last(l));
        (to - from + 1).max(0) as usize
    };
    terms.iter().map(alone).max().unwrap_or(0)
}

/// min Σ_j exp(c_j + a_j · s), Σ s = total, 0 ≤ s ≤ room.
struct Program {
    room: Vec<f64>,
    total: f64,
    /// c_j and a_j.
    terms: Vec<(f64, Vec<f64>)>,
}

impl Program {
    /// An array of `volume` elements, of which a tile takes the part t_l / b_l along each label.
    fn add(
        &mut self,
        volume: usize,
        labels: impl Iterator<Item = usize>,
        extents: &[usize],
        free: &[usize],
    ) {
        if volume == 0 {
            return;
        }
        let (mut constant, mut powers) = ((volume as f64).ln(), vec![0.0; free.len()]);
        for l in labels {
            if let Some(at) = free.iter().position(|&f| f == l) {
                constant -= (extents[l] as f64).ln();
                powers[at] += 1.0;
            }
        }
        self.terms.push((constant, powers));
    }

    fn value(&self, s: &[f64]) -> f64 {
        self.parts(s).sum()
    }

    fn parts<'a>(&'a self, s: &'a [f64]) -> impl Iterator<Item = f64> + 'a {
        self.terms.iter().map(move |(constant, powers)| {
            let dot: f64 = powers.iter().zip(s).map(|(a, s)| a * s).sum();
            (constant + dot).exp()
        })
    }

    fn gradient(&self, s: &[f64]) -> Vec<f64> {
        let mut gradient = vec![0.0; s.len()];
        for (value, (_, powers)) in self.parts(s).zip(&self.terms) {
            for (g, a) in gradient.iter_mut().zip(powers) {
                *g += a * value;
            }
        }
        gradient
    }

    /// A lower bound on the minimum: descent by pairs of labels, then the tangent's minimum over
    /// the polytope, which no convex function goes below.
    fn bound(&self) -> f64 {
        let room: f64 = self.room.iter().sum();
        if self.total <= 0.0 || room <= 0.0 {
            // more tuples than points, or nothing to choose: the smallest tile there is
            return self.value(&vec![0.0; self.room.len()]);
        }
        let mut s: Vec<f64> = self.room.iter().map(|r| r * (self.total / room)).collect();
        let mut best = self.tangent(&s);
        for _ in 0..SWEEPS {
            if best >= self.value(&s) * (1.0 - GAP) {
                break;
            }
            for i in 0..s.len() {
                for j in 0..i {
                    self.exchange(&mut s, i, j);
                }
            }
            best = best.max(self.tangent(&s));
        }
        best
    }

    /// The best step between two labels, their sum kept.
    fn exchange(&self, s: &mut [f64], i: usize, j: usize) {
        let sum = s[i] + s[j];
        let (mut lo, mut hi) = ((sum - self.room[j]).max(0.0), sum.min(self.room[i]));
        for _ in 0..HALVINGS {
            (s[i], s[j]) = ((lo + hi) / 2.0, sum - (lo + hi) / 2.0);
            let gradient = self.gradient(s);
            if gradient[i] > gradient[j] {
                hi = s[i];
            } else {
                lo = s[i];
            }
        }
    }

    fn tangent(&self, s: &[f64]) -> f64 {
        let gradient = self.gradient(s);
        let mut order: Vec<usize> = (0..s.len()).collect();
        order.sort_by(|&a, &b| gradient[a].total_cmp(&gradient[b]));
        let (mut left, mut least) = (self.total, self.value(s));
        for l in order {
            let take = left.min(self.room[l]);
            left -= take;
            least += gradient[l] * (take - s[l]);
        }
        least
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ein::Operand;
    use crate::graph::EinGraph;
    use crate::plan::cost::communication::{agg, join};
    use crate::plan::partition::viable;
    use crate::plan::samples::{matmul, records, transformer};
    use crate::plan::{Constraints, Layout};

    const Z: NodeId = NodeId(2);

    fn best(graph: &BoundGraph, node: NodeId, p: u32) -> u128 {
        let cost = |d: Vec<u32>| join(graph, node, &d) + agg(graph, node, &d);
        viable(graph, node, p, Constraints::default())
            .unwrap()
            .into_iter()
            .map(cost)
            .min()
            .unwrap()
    }

    /// Z[i,k] = Σ_j X[i,j] Y[j,k].
    #[test]
    fn matrix_products_match_the_table() {
        for (i, j, k, p, cost, ratio) in [
            (4096, 4096, 4096, 8, 83_886_080, "1.0000"),
            (4096, 4096, 4096, 16, 117_440_512, "1.0672"),
            (65536, 1024, 256, 8, 69_206_016, "1.0000"),
            (65536, 1024, 256, 64, 83_886_080, "1.0000"),
            (65536, 1024, 256, 4096, 318_767_104, "1.0527"),
            (8192, 28672, 8192, 1024, 4_764_729_344, "1.0334"),
        ] {
            let g = matmul(i, j, k);
            assert_eq!(best(&g, Z, p), cost);
            let bound = vertex_limit(&g, Z, p);
            assert!(bound <= cost);
            assert_eq!(format!("{:.4}", cost as f64 / bound as f64), ratio);
        }
    }

    #[test]
    fn no_vector_beats_it() {
        let graphs = [
            transformer(1, [2, 12, 4, 6, 40]),
            records(2, 24, 6),
            records(1, 40, 9),
        ];
        let numbers = || [1, 2, 3, 4, 6, 8].into_iter();
        for (g, p) in graphs.iter().flat_map(|g| numbers().map(move |p| (g, p))) {
            for (node, vertex) in g.ids().filter(|(_, n)| n.einsum().is_some()) {
                let limit = vertex_limit(g, node, p);
                assert!(limit <= best(g, node, p), "{} {p}", vertex.name);
            }
        }
    }

    /// The elements of all footprints, tuple by tuple.
    fn literal(graph: &BoundGraph, node: NodeId, d: &[u32]) -> u128 {
        let e = graph.node(node).einsum().unwrap();
        let tiles = Layout {
            parts: d.to_vec(),
            devices: vec![0; d.iter().product::<u32>() as usize],
        };
        let read =
            |o: &Operand, tile: &Region| AccessMap::of(o).footprint(tile, graph.shape(o.node));
        let all = tiles.iter(graph.label_extents(node)).flat_map(|(tile, _)| {
            let read = e.operands.iter().map(|o| read(o, &tile).volume() as u128);
            read.collect::<Vec<_>>()
        });
        all.sum()
    }

    #[test]
    fn halos_are_counted_and_bounded() {
        let bodies = [
            (
                "x: f32[9, 8], w: f32[3, 3]",
                "f32[9, 8]",
                "i in 9, j in 8",
                "sum[u, v] (x[i + u - 1, j + v - 1] else 0.0) * w[u, v]",
            ),
            (
                "x: f32[9, 12], w: f32[3]",
                "f32[5, 3]",
                "i in 5, j in 3",
                "sum[u] (x[2 * i - 1 + u, 4 * j] else 0.0) * w[u]",
            ),
            (
                "x: f32[7, 14]",
                "f32[7, 7]",
                "i, j in 7",
                "x[i, i + j] + (x[i, 3 * j - 4] else 0.0)",
            ),
            (
                "x: f32[12, 5]",
                "f32[2, 6]",
                "a in 2, b in 6",
                "sum[c in 2, d in 5] x[(b, c), d] * x[(11 - (a, b)), (a + d) % 5]",
            ),
            (
                "x: f32[6]",
                "f32[12, 6]",
                "i in 12, j in 6",
                "x[i / 2] * x[(j + 4) % 6] + (x[i - 9] else 1.0)",
            ),
        ];
        for (parameters, result, out, body) in bodies {
            let text = format!("fn f({parameters}) -> {result} {{ let y[{out}] = {body}; y }}");
            let text = text.replace("(11 - (a, b))", "11 - 6 * a - b");
            let graph = EinGraph::from_text(&text, "f", &Default::default());
            let graph = graph.unwrap_or_else(|e| panic!("{text}: {e}"));
            let graph = graph.bind(&Default::default()).unwrap();
            for p in [1, 2, 3, 4, 6, 8] {
                for (node, _) in graph.ids().filter(|(_, n)| n.einsum().is_some()) {
                    let limit = vertex_limit(&graph, node, p);
                    for d in viable(&graph, node, p, Constraints::default()).unwrap() {
                        let read = join(&graph, node, &d);
                        assert_eq!(read, literal(&graph, node, &d), "{text} {d:?}");
                        let all = d.iter().product::<u32>() == p;
                        assert!(
                            !all || limit <= read + agg(&graph, node, &d),
                            "{text} {d:?}"
                        );
                    }
                }
            }
        }
    }
}
