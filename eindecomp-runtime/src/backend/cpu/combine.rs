//! Folds of partial results, and copies of boxes.
#![expect(
    unsafe_code,
    reason = "boxes are read and written through raw pointers"
)]

use eindecomp_core::ein::{Agg, LabelId};
use eindecomp_core::plan::layout::Region;

use super::exec::Lane;
use super::memory::{read, write_chunk};
use super::nest::{Chunk, LANES, Loops, Walk};
use super::reduce::{Fold, Folds, WithFold};
use super::simd::{Loop, vectorised};
use crate::backend::program::Kind;
use crate::view::{View, ViewMut};

/// Folds a box of partial results, element by element in the balanced binary tree
/// `((0, 1), (2, 3)), …` over the order of `srcs`, and converts to the element type of `dst`.
/// One source is only converted.
///
/// # Panics
/// If a window does not cover the box, or `agg` is missing where there is something to fold.
pub fn fold(agg: Option<Agg>, srcs: &[View], dst: &ViewMut, region: &Region) {
    let Some(first) = srcs.first() else { return };
    let agg = match agg {
        Some(agg) => agg,
        None => {
            assert_eq!(srcs.len(), 1, "partial results without an aggregation");
            Agg::SUM
        }
    };
    match Kind::of(first.dtype()) {
        Kind::F32 => fold_as::<f32>(agg, srcs, dst, region),
        Kind::F64 => fold_as::<f64>(agg, srcs, dst, region),
        Kind::I64 => fold_as::<i64>(agg, srcs, dst, region),
        Kind::Bool => fold_as::<u8>(agg, srcs, dst, region),
    }
}

fn fold_as<T: Folds>(agg: Agg, srcs: &[View], dst: &ViewMut, region: &Region) {
    let boxes = Boxes::new(srcs, dst, region);
    T::with(agg, T::default(), Partials { boxes })
}

/// Copies a box, converting to the element type of `dst`; returns the bytes that were written.
///
/// # Panics
/// If a window does not cover the box.
pub fn copy(src: &View, dst: &ViewMut, region: &Region) -> u64 {
    let bytes = region.volume() as u64 * dst.dtype().size() as u64;
    if src.dtype() != dst.dtype() {
        fold(None, std::slice::from_ref(src), dst, region);
        return bytes;
    }
    let boxes = Boxes::new(std::slice::from_ref(src), dst, region);
    if boxes.loops.inner(0) != 1 || boxes.loops.inner(1) != 1 {
        fold(None, std::slice::from_ref(src), dst, region);
        return bytes;
    }
    let (size, points) = (dst.dtype().size(), boxes.loops.points());
    let run = boxes.loops.extents.last().copied().unwrap_or(1).max(1);
    let mut chunk = Chunk::default();
    for start in (0..points).step_by(run) {
        chunk.fill(&boxes.loops, start, run);
        let (to, from) = (
            boxes.starts[0] + chunk.offset(0, 0),
            boxes.starts[1] + chunk.offset(0, 1),
        );
        // SAFETY: `Boxes::new` found the box in both windows; runs are contiguous in both, and
        // nobody else uses the box of `dst` (contract of `ViewMut::new`), so it is no part of `src`.
        unsafe {
            std::ptr::copy_nonoverlapping(
                src.ptr().offset(from as isize * size as isize),
                dst.ptr().offset(to as isize * size as isize),
                run * size,
            );
        }
    }
    bytes
}

/// A box in several windows: walk 0 is the destination's, then one per source.
struct Boxes<'a> {
    srcs: &'a [View],
    dst: &'a ViewMut,
    loops: Loops,
    starts: Vec<i64>,
}

impl<'a> Boxes<'a> {
    fn new(srcs: &'a [View], dst: &'a ViewMut, region: &Region) -> Boxes<'a> {
        let windows = std::iter::once((dst.region(), dst.strides()))
            .chain(srcs.iter().map(|s| (s.region(), s.strides())));
        let walk = |(window, strides): (&Region, &[isize])| {
            assert!(
                window.0.len() == region.0.len() && window.contains(region),
                "the window {window} does not cover the box {region}"
            );
            let origin = window.0.iter().zip(strides);
            Walk {
                base: -origin.map(|(r, &s)| r.0 as i64 * s as i64).sum::<i64>(),
                coefficients: strides.iter().map(|&s| s as i64).collect(),
            }
        };
        let walks: Vec<Walk> = windows.map(walk).collect();
        let axes: Vec<LabelId> = (0..region.0.len() as u16).map(LabelId).collect();
        Boxes {
            srcs,
            dst,
            starts: walks.iter().map(|w| w.start(region)).collect(),
            loops: Loops::new(&axes, region, &walks),
        }
    }
}

/// Partial results waiting for their fold.
struct Partials<'a> {
    boxes: Boxes<'a>,
}

impl<T: Lane> WithFold<T> for Partials<'_> {
    type Output = ();
    fn with<F: Fold<T>>(self, fold: F) {
        vectorised(Tree {
            boxes: self.boxes,
            fold,
            buffer: Vec::<T>::new(),
        });
    }
}

struct Tree<'a, T, F> {
    boxes: Boxes<'a>,
    fold: F,
    buffer: Vec<T>,
}

impl<T: Lane, F: Fold<T>> Loop for Tree<'_, T, F> {
    type Output = ();
    #[inline(always)]
    fn run<const FMA: bool>(mut self) {
        let Boxes {
            srcs,
            dst,
            loops,
            starts,
        } = self.boxes;
        self.buffer.resize(srcs.len() * LANES, T::default());
        let mut chunk = Chunk::default();
        let points = loops.points();
        for start in (0..points).step_by(LANES) {
            let n = LANES.min(points - start);
            chunk.fill(&loops, start, n);
            for (s, (src, lanes)) in srcs.iter().zip(self.buffer.chunks_mut(LANES)).enumerate() {
                for (run, &(lane, len)) in chunk.runs.iter().enumerate() {
                    let at = starts[s + 1] + chunk.offset(run, s + 1);
                    // SAFETY: the chunk's points are of the box, which `Boxes::new` found in
                    // the window.
                    unsafe { read(src, at, loops.inner(s + 1), &mut lanes[lane..lane + len]) };
                }
            }
            let mut count = srcs.len();
            while count > 1 {
                for to in 0..count / 2 {
                    // Pair 2·to, 2·to + 1 goes to place `to`, which is before both or the first.
                    let (done, rest) = self.buffer.split_at_mut((2 * to + 1) * LANES);
                    let b = &rest[..n];
                    if to == 0 {
                        for (a, &b) in done[..n].iter_mut().zip(b) {
                            *a = self.fold.pair::<FMA>(*a, b);
                        }
                    } else {
                        let (out, a) = done.split_at_mut(2 * to * LANES);
                        let out = &mut out[to * LANES..][..n];
                        for ((out, &a), &b) in out.iter_mut().zip(&a[..n]).zip(b) {
                            *out = self.fold.pair::<FMA>(a, b);
                        }
                    }
                }
                if count % 2 == 1 {
                    let last = (count - 1) * LANES;
                    self.buffer.copy_within(last..last + n, count / 2 * LANES);
                }
                count = count.div_ceil(2);
            }
            // SAFETY: as above, and the box is ours to write.
            unsafe { write_chunk(dst, &chunk, 0, starts[0], loops.inner(0), &self.buffer[..n]) };
        }
    }
}
