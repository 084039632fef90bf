//! `softmax_sum`: scores of some rows by some of the reduced range at a time, weighed against the
//! largest so far, then a product with the values. Scores of more than a block are never there.

use eindecomp_core::ein::{DType, LabelId, Value};
use eindecomp_core::plan::layout::Region;

use super::fused::{Array, Stage};
use super::math;
use super::records::blocks;
use super::reduce::Real;
use super::simd::{Loop, vectorised};
use super::{KernelError, KernelRunError, Scratch};
use crate::backend::split::{FilterParts, SoftmaxParts};
use crate::view::View;

/// The stages of a vertex that is a `softmax_sum` in f32 or f64.
#[derive(Debug)]
pub(super) struct Softmax {
    /// Over the labels of the maximum, then the reduced ones.
    score: Stage,
    /// Σ weight · value, over the labels of the sum of values; the weights are the last operand.
    weigh: Stage,
    filter: Option<Filter>,
    reduced: Vec<LabelId>,
    dtype: DType,
}

/// What a condition on the reduced range adds.
#[derive(Debug)]
struct Filter {
    /// Over the labels of the scores.
    mask: Stage,
    /// `weigh` over everything: the same while what is left out, whose weight is 0, is finite.
    quick: Stage,
}

impl Softmax {
    /// Rows of scores at a time.
    pub(super) const ROWS: usize = 128;
    /// Values of a row at a time, if there are as many rows.
    pub(super) const WIDTH: usize = 256;
    /// Scores at a time.
    const SCORES: usize = Softmax::ROWS * 256;

    pub(super) fn new(parts: SoftmaxParts) -> Result<Softmax, KernelError> {
        let filter = |filter: FilterParts| {
            Ok(Filter {
                mask: Stage::new(filter.mask)?,
                quick: Stage::new(filter.quick)?,
            })
        };
        Ok(Softmax {
            score: Stage::new(parts.score)?,
            weigh: Stage::new(parts.weigh)?,
            filter: parts.filter.map(filter).transpose()?,
            reduced: parts.reduced,
            dtype: parts.dtype,
        })
    }

    pub(super) fn describe(&self) -> String {
        let (score, weigh) = (self.score.kernel.describe(), self.quick().kernel.describe());
        format!("{score}, weights, {weigh}")
    }

    /// What weighs where all that is left out is finite.
    fn quick(&self) -> &Stage {
        self.filter.as_ref().map_or(&self.weigh, |f| &f.quick)
    }

    /// Adds a tile to a record: maximum, sum of weights, sum of weighed values.
    pub(super) fn fold(
        &self,
        tile: &Region,
        reads: &[View],
        record: &mut [Array],
        slots: &[Value],
        scratch: &mut Scratch,
    ) -> Result<(), KernelRunError> {
        match self.dtype {
            DType::F64 => self.fold_as::<f64>(tile, reads, record, slots, scratch),
            _ => self.fold_as::<f32>(tile, reads, record, slots, scratch),
        }
    }

    fn fold_as<T: Real + bytemuck::Pod>(
        &self,
        tile: &Region,
        reads: &[View],
        record: &mut [Array],
        slots: &[Value],
        scratch: &mut Scratch,
    ) -> Result<(), KernelRunError> {
        let [max, total, values] = record else {
            return Ok(());
        };
        let rows = max.lanes::<T>().len();
        let length = (Softmax::SCORES / rows.max(1)).max(1);
        let mut scale = vec![T::default(); rows];
        for part in blocks(tile, &self.reduced, &self.reduced, length) {
            if let Some(filter) = &self.filter {
                let mut mask = filter.mask.run(&part, reads, slots, scratch)?;
                let none = mask.lanes::<u8>().iter().all(|&m| m == 0);
                scratch.give(mask);
                if none {
                    continue;
                }
            }
            let mut scores = self.score.run(&part, reads, slots, scratch)?;
            vectorised(Weights {
                scores: scores.lanes::<T>(),
                max: max.lanes::<T>(),
                total: total.lanes::<T>(),
                scale: &mut scale,
            });
            let mut operands = reads.to_vec();
            operands.push(scores.view());
            let mut more = self.quick().run(&part, &operands, slots, scratch)?;
            if self.filter.is_some() && !more.lanes::<T>().iter().all(|x| x.finite()) {
                scratch.give(more);
                more = self.weigh.run(&part, &operands, slots, scratch)?;
            }
            vectorised(Rescale {
                values: values.lanes::<T>(),
                more: more.lanes::<T>(),
                scale: &scale,
            });
            scratch.give(scores);
            scratch.give(more);
        }
        Ok(())
    }
}

/// Turns rows of scores into weights against the largest score so far.
struct Weights<'a, T> {
    scores: &'a mut [T],
    max: &'a mut [T],
    total: &'a mut [T],
    /// What earlier weights are worth now.
    scale: &'a mut [T],
}

/// Independent partial results of one row.
const LANES: usize = 16;

impl<T: Real> Loop for Weights<'_, T> {
    type Output = ();
    #[inline(always)]
    fn run<const FMA: bool>(self) {
        let length = (self.scores.len() / self.max.len().max(1)).max(1);
        let rows = self.scores.chunks_mut(length).zip(self.max).zip(self.total);
        for (((row, max), total), scale) in rows.zip(self.scale) {
            let largest = math::max(*max, lanes(row, T::LOWEST, math::max));
            // Against a maximum of −inf, scores of −inf would make NaN; they weigh 0.
            let base = if largest == T::LOWEST {
                T::default()
            } else {
                largest
            };
            for x in row.iter_mut() {
                *x = x.sub(base).exp::<FMA>();
            }
            *scale = max.sub(base).exp::<FMA>();
            *total = total.mul(*scale).add(lanes(row, T::default(), T::add));
            *max = largest;
        }
    }
}

/// A fold of a row, in lanes.
#[inline(always)]
fn lanes<T: Real>(row: &[T], identity: T, combine: impl Fn(T, T) -> T) -> T {
    let mut all = [identity; LANES];
    let parts = row.chunks_exact(LANES);
    let rest = parts.remainder();
    for part in parts {
        for (a, &x) in all.iter_mut().zip(part) {
            *a = combine(*a, x);
        }
    }
    for (a, &x) in all.iter_mut().zip(rest) {
        *a = combine(*a, x);
    }
    let mut n = LANES;
    while n > 1 {
        n /= 2;
        for i in 0..n {
            all[i] = combine(all[i], all[i + n]);
        }
    }
    all[0]
}

/// Rows of sums, rescaled, and what is added to them.
struct Rescale<'a, T> {
    values: &'a mut [T],
    more: &'a mut [T],
    scale: &'a [T],
}

impl<T: Real> Loop for Rescale<'_, T> {
    type Output = ();
    #[inline(always)]
    fn run<const FMA: bool>(self) {
        let length = (self.values.len() / self.scale.len().max(1)).max(1);
        let rows = self.values.chunks_mut(length).zip(self.more.chunks(length));
        for ((row, more), &scale) in rows.zip(self.scale) {
            for (x, &y) in row.iter_mut().zip(more) {
                *x = x.mul(scale).add(y);
            }
        }
    }
}
