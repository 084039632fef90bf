//! Operations and bytes of one tile of a vertex.

use std::collections::BTreeSet;

use crate::ein::access::{AccessMap, output_region};
use crate::ein::{Agg, Aggregation, DType, EinSum, Expr, LabelId, Reduce, ScalarFn};
use crate::graph::{BoundGraph, NodeId};
use crate::plan::cluster::{Rates, ShapeClass};
use crate::plan::layout::Region;

/// What one kernel call does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Work {
    /// Of one core, or device.
    pub attoseconds: u128,
    /// Read and written, each element of a footprint once.
    pub bytes: u128,
}

impl Work {
    /// Of a tile of a vertex; nothing for an input.
    pub fn of(graph: &BoundGraph, node: NodeId, tile: &Region, rates: &Rates) -> Work {
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
        let count = Count {
            e,
            tile,
            rates,
            dtypes: e
                .operands
                .iter()
                .map(|o| graph.node(o.node).dtype)
                .collect(),
        };
        Work {
            attoseconds: count.all(),
            bytes: read.sum::<u128>() + written,
        }
    }
}

struct Count<'a> {
    e: &'a EinSum,
    tile: &'a Region,
    rates: &'a Rates,
    dtypes: Vec<DType>,
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

    fn all(&self) -> u128 {
        let points = self.volume(self.outer());
        let (per_point, arguments) = (self.expr(&self.e.body), self.e.body.arguments());
        match &self.e.reduce {
            None => points * per_point,
            Some(reduce) => match &reduce.agg {
                Aggregation::Row(_) => self.reduction(reduce, &self.e.body, points),
                // records are merged block by block; an argument is computed once per point of its own
                Aggregation::Record(record) => {
                    let own = |a: &Expr| {
                        let labels = self.e.labels_of(a).into_iter();
                        self.volume(labels.filter(|&l| !self.e.is_inner(l))) * self.expr(a)
                    };
                    let merges: u128 = record.state.iter().map(|c| 1 + calls(&c.merge)).sum();
                    let rate = self.rate(ShapeClass::Skinny);
                    arguments.iter().map(own).sum::<u128>() + points * merges * rate
                }
            },
        }
    }

    /// Attoseconds of an expression at one point.
    fn expr(&self, e: &Expr) -> u128 {
        let below: u128 = e.children().into_iter().map(|c| self.expr(c)).sum();
        let one = self.rate(ShapeClass::Elementwise);
        match e {
            Expr::Call(..) | Expr::Cast(..) | Expr::If(..) | Expr::Opaque(_) => one + below,
            Expr::Fold(fold) => {
                let points = self.volume(fold.reduce.labels.iter().copied());
                self.reduction(&fold.reduce, &fold.body, points)
            }
            _ => below,
        }
    }

    /// Attoseconds of reducing `body` over so many points.
    fn reduction(&self, reduce: &Reduce, body: &Expr, points: u128) -> u128 {
        match self.product(reduce, body) {
            Some(class) => points * 2 * self.rate(class),
            None => {
                let filter = reduce.filter.as_ref().map_or(0, |f| self.expr(f));
                points * (self.expr(body) + filter + self.rate(ShapeClass::Elementwise))
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

    /// Attoseconds of one operation on the operands' slowest element type.
    fn rate(&self, class: ShapeClass) -> u128 {
        let none = [self.e.dtype];
        let dtypes = match self.dtypes.is_empty() {
            true => &none[..],
            false => &self.dtypes,
        };
        let slowest = dtypes.iter().map(|&d| self.rates.of(d).of(class)).min();
        1_000_000_000_000_000_000u128.div_ceil(slowest.unwrap_or(1).max(1).into())
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
