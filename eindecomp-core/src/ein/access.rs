//! Access maps: how an operand of a bound EinSum is read, and the footprint of a tile in it.

use super::einsum::{EinSum, LabelId, Operand};
use super::{DType, Expr, ScalarFn};
use crate::plan::layout::Region;

/// How one axis of an operand is read.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum AxisAccess {
    /// By one index that runs over the whole axis.
    Bare(LabelId),
    /// By `offset + Σ coefficient · index`.
    Affine {
        /// Coefficients, never 0, by label, each label once.
        terms: Vec<(LabelId, i64)>,
        /// The constant.
        offset: i64,
    },
    /// By anything else: quotients, remainders, values of tensors. The footprint is the axis.
    Data,
}

/// How an operand is read: one [`AxisAccess`] per axis.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct AccessMap {
    /// Per axis.
    pub axes: Vec<AxisAccess>,
}

impl AccessMap {
    /// Of an operand in a bound EinSum (no symbols left).
    pub fn of(operand: &Operand) -> AccessMap {
        let axis = |e: &Expr| match affine(e) {
            None => AxisAccess::Data,
            Some((terms, 0)) if matches!(terms.as_slice(), [(_, 1)]) => {
                AxisAccess::Bare(terms[0].0)
            }
            Some((terms, offset)) => AxisAccess::Affine { terms, offset },
        };
        AccessMap {
            axes: operand.index.iter().map(axis).collect(),
        }
    }

    /// The box of the operand (of extents `shape`) that the tile's points can read, clipped to it.
    /// `tile` is a half-open range per label. Exact for bare and merged axes; a hull otherwise.
    pub fn footprint(&self, tile: &Region, shape: &[usize]) -> Region {
        let axis = |(axis, &extent): (&AxisAccess, &usize)| {
            let clip = |lo: i64, hi: i64| {
                let lo = lo.clamp(0, extent as i64);
                (lo as usize, hi.clamp(lo, extent as i64) as usize)
            };
            match axis {
                AxisAccess::Bare(l) => {
                    let (lo, hi) = tile.0[l.at()];
                    clip(lo as i64, hi as i64)
                }
                AxisAccess::Affine { terms, offset } => {
                    let (mut lo, mut hi) = (*offset, *offset);
                    for &(l, c) in terms {
                        let (a, b) = tile.0[l.at()];
                        if a == b {
                            return (0, 0);
                        }
                        let (x, y) = (c.saturating_mul(a as i64), c.saturating_mul(b as i64 - 1));
                        lo = lo.saturating_add(x.min(y));
                        hi = hi.saturating_add(x.max(y));
                    }
                    clip(lo, hi.saturating_add(1))
                }
                AxisAccess::Data => (0, extent),
            }
        };
        Region(self.axes.iter().zip(shape).map(axis).collect())
    }
}

/// Coefficients per label and the constant of an index expression, if it is affine and its
/// numbers fit.
pub fn affine(e: &Expr) -> Option<(Vec<(LabelId, i64)>, i64)> {
    let scale = |(mut terms, offset): (Vec<(LabelId, i64)>, i64), by: i64| {
        for term in &mut terms {
            term.1 = term.1.checked_mul(by)?;
        }
        terms.retain(|t| t.1 != 0);
        Some((terms, offset.checked_mul(by)?))
    };
    match e {
        Expr::Index(l) => Some((vec![(*l, 1)], 0)),
        Expr::Dim(d) => Some((Vec::new(), d.as_const()?)),
        Expr::Const(v, d) if d.is_int() => Some((Vec::new(), v.as_i64())),
        Expr::Cast(DType::I64, e) => affine(e),
        Expr::Call(ScalarFn::NEG, a) => scale(affine(&a[0])?, -1),
        Expr::Call(f, a) if [ScalarFn::ADD, ScalarFn::SUB].contains(f) => {
            let (mut terms, mut offset) = affine(&a[0])?;
            let (more, o) = scale(affine(&a[1])?, if *f == ScalarFn::ADD { 1 } else { -1 })?;
            offset = offset.checked_add(o)?;
            for (l, c) in more {
                match terms.iter_mut().find(|t| t.0 == l) {
                    Some(t) => t.1 = t.1.checked_add(c)?,
                    None => terms.push((l, c)),
                }
            }
            terms.retain(|t| t.1 != 0);
            terms.sort();
            Some((terms, offset))
        }
        Expr::Call(ScalarFn::MUL, a) => {
            let (x, y) = (affine(&a[0])?, affine(&a[1])?);
            match (x.0.is_empty(), y.0.is_empty()) {
                (true, _) => scale(y, x.1),
                (_, true) => scale(x, y.1),
                _ => None,
            }
        }
        _ => None,
    }
}

/// Which labels of a bound EinSum the planner may split: those that every access reads bare, or
/// as the slowest member of a merged axis (so that a tile's footprint is still one interval),
/// on both sides; and no label that a selecting aggregation reduces.
pub fn splittable(e: &EinSum, extents: &[usize]) -> Vec<bool> {
    let mut ok = vec![true; extents.len()];
    let leading = |terms: &[(LabelId, i64)]| {
        let &(top, c) = terms.iter().max_by_key(|t| t.1)?;
        let rest: i64 = terms
            .iter()
            .filter(|t| t.0 != top)
            .map(|&(l, k)| k.saturating_mul(extents[l.at()] as i64 - 1))
            .fold(0, i64::saturating_add);
        (terms.iter().all(|t| t.1 > 0) && rest < c).then_some(top)
    };
    for axis in e.operands.iter().flat_map(|o| AccessMap::of(o).axes) {
        if let AxisAccess::Affine { terms, offset } = axis {
            let top = leading(&terms).filter(|_| offset == 0);
            for (l, _) in terms.iter().filter(|t| Some(t.0) != top) {
                ok[l.at()] = false;
            }
        }
    }
    let data_indices = e
        .operands
        .iter()
        .flat_map(|o| &o.index)
        .filter(|x| affine(x).is_none());
    for index in data_indices {
        index.visit(&mut |x| {
            if let Expr::Index(l) = x {
                ok[l.at()] = false;
            }
        });
    }
    for axis in &e.out {
        for l in &axis[1.min(axis.len())..] {
            ok[l.at()] = false;
        }
    }
    if let Some(r) = e.reduce.as_ref().filter(|r| !r.agg.row().splits) {
        for l in &r.labels {
            ok[l.at()] = false;
        }
    }
    ok
}

/// The box of the output that a tile of the labels makes.
pub fn output_region(e: &EinSum, tile: &Region, extents: &[usize]) -> Region {
    let axis = |axis: &Vec<LabelId>| {
        let (first, rest) = axis.split_first()?;
        let inner: usize = rest.iter().map(|l| extents[l.at()]).product();
        let (lo, hi) = tile.0[first.at()];
        Some((lo * inner, hi * inner))
    };
    Region(e.out.iter().map(|a| axis(a).unwrap_or((0, 1))).collect())
}
