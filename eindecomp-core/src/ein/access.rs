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
    /// By quotients, remainders, minima and the like of indices.
    Computed(Expr),
    /// By values of tensors. The footprint is the axis, whatever the data.
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
            None if reads_data(e) => AxisAccess::Data,
            None => AxisAccess::Computed(e.clone()),
            Some((terms, 0)) if matches!(terms.as_slice(), [(_, 1)]) => {
                AxisAccess::Bare(terms[0].0)
            }
            Some((terms, offset)) => AxisAccess::Affine { terms, offset },
        };
        AccessMap {
            axes: operand.index.iter().map(axis).collect(),
        }
    }

    /// The box of the operand (of extents `shape`) that the tile's points can read, clipped to it:
    /// the hull of every index that some point has, also where a guard keeps the point from
    /// reading. `tile` is a half-open range per label.
    pub fn footprint(&self, tile: &Region, shape: &[usize]) -> Region {
        let axis = |(axis, &extent): (&AxisAccess, &usize)| match axis.hull(tile) {
            Hull::Nothing => (0, 0),
            Hull::Axis => (0, extent),
            Hull::Range(lo, hi) => {
                let lo = lo.clamp(0, extent as i64);
                let hi = hi.saturating_add(1).clamp(lo, extent as i64);
                (lo as usize, hi as usize)
            }
        };
        Region(self.axes.iter().zip(shape).map(axis).collect())
    }
}

/// The values of an index over a tile.
pub(crate) enum Hull {
    /// The tile has no point.
    Nothing,
    /// From the first to the last, both included.
    Range(i64, i64),
    /// Any.
    Axis,
}

impl AxisAccess {
    /// The interval of the index' values over a tile.
    pub(crate) fn hull(&self, tile: &Region) -> Hull {
        let empty = |l: usize| tile.0[l].0 >= tile.0[l].1;
        let nothing = match self {
            AxisAccess::Bare(l) => empty(l.at()),
            AxisAccess::Affine { terms, .. } => terms.iter().any(|t| empty(t.0.at())),
            AxisAccess::Computed(_) => self.labels().any(empty),
            AxisAccess::Data => false,
        };
        if nothing {
            return Hull::Nothing;
        }
        match self {
            AxisAccess::Bare(l) => {
                Hull::Range(tile.0[l.at()].0 as i64, tile.0[l.at()].1 as i64 - 1)
            }
            AxisAccess::Affine { terms, offset } => {
                let (mut lo, mut hi) = (*offset, *offset);
                for &(l, c) in terms {
                    let (a, b) = tile.0[l.at()];
                    let (x, y) = (c.saturating_mul(a as i64), c.saturating_mul(b as i64 - 1));
                    lo = lo.saturating_add(x.min(y));
                    hi = hi.saturating_add(x.max(y));
                }
                Hull::Range(lo, hi)
            }
            AxisAccess::Computed(e) => match range(e, tile) {
                Some((lo, hi)) => Hull::Range(lo, hi),
                None => Hull::Axis,
            },
            AxisAccess::Data => Hull::Axis,
        }
    }

    /// Labels whose tiles decide the footprint, each once, those that move it most first.
    pub(crate) fn labels(&self) -> impl Iterator<Item = usize> {
        let mut all: Vec<usize> = Vec::new();
        match self {
            AxisAccess::Bare(l) => all.push(l.at()),
            AxisAccess::Affine { terms, .. } => {
                let mut terms: Vec<&(LabelId, i64)> = terms.iter().collect();
                terms.sort_by_key(|t| std::cmp::Reverse(t.1.unsigned_abs()));
                all.extend(terms.iter().map(|t| t.0.at()));
            }
            AxisAccess::Computed(e) => e.visit(&mut |e| match e {
                Expr::Index(l) if !all.contains(&l.at()) => all.push(l.at()),
                _ => {}
            }),
            AxisAccess::Data => {}
        }
        all.into_iter()
    }

    /// Do tiles of different values of a label overlap in what they read, as windows and shifted
    /// reads do? `false` for a whole axis by one index and for merged axes.
    pub fn is_window(&self, extents: &[usize]) -> bool {
        match self {
            AxisAccess::Bare(_) | AxisAccess::Data => false,
            AxisAccess::Affine { terms, offset } => {
                !terms.is_empty() && (*offset != 0 || !is_merged(terms, extents))
            }
            AxisAccess::Computed(_) => true,
        }
    }
}

/// Is `Σ coefficient · index` a merged axis: each index steps over all values of the faster ones?
fn is_merged(terms: &[(LabelId, i64)], extents: &[usize]) -> bool {
    let mut slow_last = terms.to_vec();
    slow_last.sort_by_key(|t| t.1);
    let mut reach = 0;
    slow_last.iter().all(|&(l, c)| {
        let steps_over = c > reach;
        reach = c
            .saturating_mul(extents[l.at()].saturating_sub(1) as i64)
            .saturating_add(reach);
        steps_over
    })
}

fn reads_data(e: &Expr) -> bool {
    let mut found = false;
    e.visit(&mut |e| found |= matches!(e, Expr::Operand(_) | Expr::Slot(..)));
    found
}

/// First and last value of an index expression over a tile with points; `None` if they are not
/// known or leave 64 bits.
fn range(e: &Expr, tile: &Region) -> Option<(i64, i64)> {
    let of = |e: &Expr| range(e, tile);
    let hull = |values: &[i64]| Some((*values.iter().min()?, *values.iter().max()?));
    match e {
        Expr::Index(l) => Some((tile.0[l.at()].0 as i64, tile.0[l.at()].1 as i64 - 1)),
        Expr::Dim(d) => d.as_const().map(|n| (n, n)),
        Expr::Const(v, d) if d.is_int() => Some((v.as_i64(), v.as_i64())),
        Expr::Cast(DType::I64, e) => of(e),
        Expr::If(_, a, b) => {
            let (a, b) = (of(a)?, of(b)?);
            Some((a.0.min(b.0), a.1.max(b.1)))
        }
        Expr::Call(f, args) => {
            let args: Vec<(i64, i64)> = args.iter().map(of).collect::<Option<_>>()?;
            match (*f, args.as_slice()) {
                (ScalarFn::NEG, &[a]) => Some((a.1.checked_neg()?, a.0.checked_neg()?)),
                (ScalarFn::ADD, &[a, b]) => Some((a.0.checked_add(b.0)?, a.1.checked_add(b.1)?)),
                (ScalarFn::SUB, &[a, b]) => Some((a.0.checked_sub(b.1)?, a.1.checked_sub(b.0)?)),
                (ScalarFn::MUL, &[a, b]) => hull(&[
                    a.0.checked_mul(b.0)?,
                    a.0.checked_mul(b.1)?,
                    a.1.checked_mul(b.0)?,
                    a.1.checked_mul(b.1)?,
                ]),
                (ScalarFn::DIV, &[a, (n, m)]) if n == m && n > 0 => {
                    Some((a.0.div_euclid(n), a.1.div_euclid(n)))
                }
                (ScalarFn::REM, &[a, (n, m)]) if n == m && n > 0 => {
                    match a.0.div_euclid(n) == a.1.div_euclid(n) {
                        true => Some((a.0.rem_euclid(n), a.1.rem_euclid(n))),
                        false => Some((0, n - 1)),
                    }
                }
                (ScalarFn::ABS, &[(lo, hi)]) => {
                    let (below, above) = (lo.checked_abs()?, hi.checked_abs()?);
                    let least = if lo <= 0 && hi >= 0 {
                        0
                    } else {
                        below.min(above)
                    };
                    Some((least, below.max(above)))
                }
                (ScalarFn::MAX, &[a, b]) => Some((a.0.max(b.0), a.1.max(b.1))),
                (ScalarFn::MIN, &[a, b]) => Some((a.0.min(b.0), a.1.min(b.1))),
                (ScalarFn::CLAMP, &[a, b, c]) => {
                    Some((a.0.max(b.0).min(c.0), a.1.max(b.1).min(c.1)))
                }
                _ => None,
            }
        }
        _ => None,
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

/// Which labels of a bound EinSum may be split: all whose tiles make a box of the output. That
/// leaves out the faster labels of a merged output axis, what a selecting aggregation reduces, and
/// the labels of inner folds. Of an opaque kernel, those that it says may be split.
/// How operands are read does not matter: a tile reads the hull of its accesses.
pub fn splittable(e: &EinSum) -> Vec<bool> {
    let mut ok = vec![true; e.labels.len()];
    for axis in &e.out {
        for l in &axis[1.min(axis.len())..] {
            ok[l.at()] = false;
        }
    }
    if let Some(opaque) = e.opaque() {
        for (at, ok) in ok.iter_mut().enumerate() {
            *ok = opaque.splits.iter().any(|l| l.at() == at);
        }
    }
    if let Some(r) = e.reduce.as_ref().filter(|r| !r.agg.splits()) {
        for l in &r.labels {
            ok[l.at()] = false;
        }
    }
    for (at, ok) in ok.iter_mut().enumerate() {
        *ok &= !e.is_inner(LabelId(at as u16));
    }
    ok
}

/// Pairs of labels of which an operand reads the second as the slowest of a merged axis and the
/// first as a faster one: unless every tile has one value of the second, splitting the first
/// leaves each tile with almost all of the axis to read.
pub fn inner_labels(e: &EinSum, extents: &[usize]) -> Vec<(LabelId, LabelId)> {
    let mut pairs = Vec::new();
    for axis in e.operands.iter().flat_map(|o| AccessMap::of(o).axes) {
        let AxisAccess::Affine { mut terms, .. } = axis else {
            continue;
        };
        for t in &mut terms {
            t.1 = t.1.saturating_abs();
        }
        if is_merged(&terms, extents) {
            terms.sort_by_key(|t| t.1);
            let slowest = terms.pop();
            pairs.extend(
                slowest
                    .iter()
                    .flat_map(|o| terms.iter().map(|t| (t.0, o.0))),
            );
        }
    }
    pairs
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
