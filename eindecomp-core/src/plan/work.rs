//! Operations and bytes of one tile of a vertex.

use std::collections::BTreeSet;
use std::iter::Sum;
use std::ops::Add;

use crate::ein::access::{AccessMap, output_region};
use crate::ein::{Agg, Aggregation, DType, EinSum, Expr, LabelId, Reduce, ScalarFn};
use crate::graph::{BoundGraph, NodeId};
use crate::plan::cluster::{Rates, ShapeClass};
use crate::plan::layout::Region;

/// What one kernel call does.
///
/// *Operations* are counted from the statement: at every point one per scalar function, conversion
/// and `if` of its body (whose branches count both), and one per point that is reduced; so a multiply-add is two, and an
/// exponential one. A record's `merge` is counted per point, its arguments once per point of their own
/// indices. An opaque kernel counts as one per point of its result.
///
/// *Bytes* are those of each operand's footprint, once, and of the result's box, whatever caches save or
/// a kernel reads again.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Work {
    /// Operations of [`ShapeClass::Matmul`].
    pub matmul: u128,
    /// Operations of [`ShapeClass::Skinny`].
    pub skinny: u128,
    /// Operations of [`ShapeClass::Elementwise`].
    pub elementwise: u128,
    /// Bytes of the operands' footprints.
    pub read: u128,
    /// Bytes of the result's box, as stored.
    pub written: u128,
    /// Element types of the operands; of the result, if there are none.
    dtypes: Vec<DType>,
}

impl Work {
    /// Of a tile of a vertex, a box of its labels; nothing for an input.
    pub fn of(graph: &BoundGraph, node: NodeId, tile: &Region) -> Work {
        let Some(e) = graph.node(node).einsum() else {
            return Work::default();
        };
        let size = |n: NodeId| graph.node(n).dtype.size() as u128;
        let read = e.operands.iter().map(|o| {
            let footprint = AccessMap::of(o).footprint(tile, graph.shape(o.node));
            footprint.volume() as u128 * size(o.node)
        });
        let extents = graph.label_extents(node);
        let written = output_region(e, tile, extents).volume() as u128 * size(node);
        let operands = e.operands.iter().map(|o| graph.node(o.node).dtype);
        let Operations([matmul, skinny, elementwise]) = Count { e, tile }.all();
        Work {
            matmul,
            skinny,
            elementwise,
            read: read.sum(),
            written,
            dtypes: match e.operands.is_empty() {
                true => vec![e.dtype],
                false => operands.collect(),
            },
        }
    }

    /// Operations of every class.
    pub fn operations(&self) -> u128 {
        self.matmul + self.skinny + self.elementwise
    }

    /// Bytes read and written.
    pub fn bytes(&self) -> u128 {
        self.read + self.written
    }

    /// Operations of a class per second on the operands' slowest element type.
    pub fn rate(&self, rates: &Rates, class: ShapeClass) -> u64 {
        let all = self.dtypes.iter().map(|&d| rates.of(d).of(class));
        all.min().unwrap_or(1).max(1)
    }

    /// How long a core, or device, of these rates takes to compute it.
    pub fn attoseconds(&self, rates: &Rates) -> u128 {
        let one =
            |class| 1_000_000_000_000_000_000u128.div_ceil(u128::from(self.rate(rates, class)));
        self.matmul * one(ShapeClass::Matmul)
            + self.skinny * one(ShapeClass::Skinny)
            + self.elementwise * one(ShapeClass::Elementwise)
    }
}

/// Numbers of operations by shape class, as [`ShapeClass`] lists them.
#[derive(Clone, Copy, Debug, Default)]
struct Operations([u128; 3]);

impl Operations {
    fn of(class: ShapeClass, count: u128) -> Operations {
        let mut all = [0; 3];
        all[class as usize] = count;
        Operations(all)
    }

    fn times(self, points: u128) -> Operations {
        Operations(self.0.map(|n| n * points))
    }
}

impl Add for Operations {
    type Output = Operations;
    fn add(self, other: Operations) -> Operations {
        Operations(std::array::from_fn(|class| self.0[class] + other.0[class]))
    }
}

impl Sum for Operations {
    fn sum<I: Iterator<Item = Operations>>(all: I) -> Operations {
        all.fold(Operations::default(), Add::add)
    }
}

struct Count<'a> {
    e: &'a EinSum,
    tile: &'a Region,
}

impl Count<'_> {
    /// Points of some labels.
    fn volume(&self, labels: impl IntoIterator<Item = LabelId>) -> u128 {
        let extent = |l: LabelId| (self.tile.0[l.at()].1 - self.tile.0[l.at()].0) as u128;
        labels.into_iter().map(extent).product()
    }

    /// The labels of what is computed at every point.
    fn outer(&self) -> impl Iterator<Item = LabelId> {
        let all = (0..self.e.labels.len() as u16).map(LabelId);
        all.filter(|&l| !self.e.is_inner(l))
    }

    fn all(&self) -> Operations {
        let points = self.volume(self.outer());
        let (per_point, arguments) = (self.expr(&self.e.body), self.e.body.arguments());
        match &self.e.reduce {
            None => per_point.times(points),
            Some(reduce) => match &reduce.agg {
                Aggregation::Row(_) => self.reduction(reduce, &self.e.body, points),
                // records are merged block by block; an argument is computed once per point of its own
                Aggregation::Record(record) => {
                    let own = |a: &Expr| {
                        let labels = self.e.labels_of(a).into_iter();
                        let points = self.volume(labels.filter(|&l| !self.e.is_inner(l)));
                        self.expr(a).times(points)
                    };
                    let merges: u128 = record.state.iter().map(|c| 1 + calls(&c.merge)).sum();
                    let merged = Operations::of(ShapeClass::Skinny, points * merges);
                    arguments.iter().map(own).sum::<Operations>() + merged
                }
            },
        }
    }

    /// Of an expression at one point.
    fn expr(&self, e: &Expr) -> Operations {
        let below: Operations = e.children().into_iter().map(|c| self.expr(c)).sum();
        let one = Operations::of(ShapeClass::Elementwise, 1);
        match e {
            Expr::Call(..) | Expr::Cast(..) | Expr::If(..) | Expr::Opaque(_) => one + below,
            Expr::Fold(fold) => {
                let points = self.volume(fold.reduce.labels.iter().copied());
                self.reduction(&fold.reduce, &fold.body, points)
            }
            _ => below,
        }
    }

    /// Of reducing `body` over so many points.
    fn reduction(&self, reduce: &Reduce, body: &Expr, points: u128) -> Operations {
        match self.product(reduce, body) {
            Some(class) => Operations::of(class, points * 2),
            None => {
                let filter = reduce.filter.iter().map(|f| self.expr(f));
                let one = Operations::of(ShapeClass::Elementwise, 1);
                (self.expr(body) + filter.sum() + one).times(points)
            }
        }
    }

    /// The class of a sum of products of two operands.
    fn product(&self, reduce: &Reduce, body: &Expr) -> Option<ShapeClass> {
        let Expr::Call(f, factors) = body else {
            return None;
        };
        let sums = *f == ScalarFn::MUL && reduce.agg == Aggregation::Row(Agg::SUM);
        let [a, b] = factors.as_slice() else {
            return None;
        };
        let operand = |e: &Expr| matches!(uncast(e), Expr::Operand(_));
        if !sums || reduce.filter.is_some() || !operand(a) || !operand(b) {
            return None;
        }
        let (a, b) = (self.e.labels_of(a), self.e.labels_of(b));
        let only = |x: &BTreeSet<LabelId>, y: &BTreeSet<LabelId>| {
            let own = x.difference(y).copied();
            self.volume(own.filter(|l| !reduce.labels.contains(l)))
        };
        let sizes = [
            only(&a, &b),
            only(&b, &a),
            self.volume(reduce.labels.iter().copied()),
        ];
        let full = sizes.iter().all(|&n| n >= ShapeClass::SKINNY.into());
        Some(match full {
            true => ShapeClass::Matmul,
            false => ShapeClass::Skinny,
        })
    }
}

fn uncast(e: &Expr) -> &Expr {
    match e {
        Expr::Cast(_, e) => uncast(e),
        other => other,
    }
}

/// Scalar functions in an expression.
fn calls(e: &Expr) -> u128 {
    let below: u128 = e.children().into_iter().map(calls).sum();
    below + u128::from(matches!(e, Expr::Call(..)))
}
