//! Contractions through a GEMM: `sum[k] a · b` of two float operands, batched and strided.
#![expect(unsafe_code, reason = "the GEMM reads and writes through raw pointers")]

use eindecomp_core::ein::access::{AccessMap, AxisAccess};
use eindecomp_core::ein::{Agg, DType, EinSum, Expr, LabelId, ScalarFn};
use eindecomp_core::plan::layout::Region;

use super::combine::copy;
use super::nest::Walk;
use super::program::stays_inside;
use crate::view::{View, ViewMut};

/// Below this extent of m, n or k the vector kernel is faster than packing for the GEMM.
const SMALL: usize = 4;

/// Where a label is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Class {
    /// In both operands and the output, or in the output alone.
    Batch,
    M,
    N,
    K,
}

/// An EinSum that is a contraction.
#[derive(Debug)]
pub(super) struct Contraction {
    /// Left and right operand.
    operands: [usize; 2],
    /// Their places' coefficients per axis: terms and offset.
    maps: [AccessMap; 2],
    /// Step of each label in the whole row-major operands.
    whole: [Vec<i64>; 2],
    classes: Vec<Class>,
    /// f32 or f64.
    compute: DType,
}

/// Buffers for operands and results of another element type than the GEMM's.
#[derive(Debug, Default)]
pub(super) struct Converted {
    f32: [Vec<f32>; 3],
    f64: [Vec<f64>; 3],
}

/// Strides of left, right and result along one loop.
#[derive(Clone, Copy, Debug)]
struct Step {
    extent: usize,
    strides: [i64; 3],
    /// In the whole row-major operands.
    whole: [i64; 2],
}

impl Step {
    /// Is `inner`, inside this loop, one loop with it? How k is cut decides the order of sums, so
    /// there the strides of windows, which differ between shared and private memory, do not
    /// suffice.
    fn merges(&self, inner: &Step, is_k: bool) -> bool {
        let extent = inner.extent as i64;
        let of = |o: &[i64], i: &[i64]| o.iter().zip(i).all(|(o, i)| *o == i * extent);
        of(&self.strides, &inner.strides) && (!is_k || of(&self.whole, &inner.whole))
    }
}

impl Contraction {
    /// If the EinSum is one.
    pub(super) fn of(
        e: &EinSum,
        extents: &[usize],
        shapes: &[Vec<usize>],
        dtypes: &[DType],
    ) -> Option<Contraction> {
        let reduce = e.reduce.as_ref()?;
        if reduce.agg != Agg::SUM || reduce.filter.is_some() || !reduce.acc.is_float() {
            return None;
        }
        let compute = match reduce.acc {
            DType::F64 => DType::F64,
            _ => DType::F32,
        };
        let Expr::Call(ScalarFn::MUL, args) = widened(&e.body, dtypes) else {
            return None;
        };
        let operand = |e: &Expr| match widened(e, dtypes) {
            Expr::Operand(n) if dtypes[*n].is_float() && dtypes[*n].widens_to(compute) => Some(*n),
            _ => None,
        };
        let operands = [operand(&args[0])?, operand(&args[1])?];
        if operands[0] == operands[1] {
            return None;
        }
        let map = |n: usize| {
            let map = AccessMap::of(&e.operands[n]);
            let inside = map.axes.iter().zip(&shapes[n]).all(|(axis, &extent)| {
                terms(axis).is_some_and(|(t, o)| stays_inside(&t, o, extents, extent))
            });
            inside.then_some(map)
        };
        let maps = [map(operands[0])?, map(operands[1])?];
        let reads = |map: &AccessMap, l: usize| {
            let of = map.axes.iter().filter_map(terms).flat_map(|t| t.0);
            of.into_iter().any(|t| t.0.at() == l)
        };
        let class = |l: usize| {
            let (a, b) = (reads(&maps[0], l), reads(&maps[1], l));
            match (a, b, e.is_output(LabelId(l as u16))) {
                (true, true, false) => Some(Class::K),
                (true, false, true) => Some(Class::M),
                (false, true, true) => Some(Class::N),
                (_, _, true) => Some(Class::Batch),
                (_, _, false) => None,
            }
        };
        let classes: Vec<Class> = (0..extents.len()).map(class).collect::<Option<_>>()?;
        [Class::M, Class::N, Class::K]
            .iter()
            .all(|c| classes.contains(c))
            .then_some(Contraction {
                operands,
                whole: [0, 1].map(|side| {
                    let region = Region::whole(&shapes[operands[side]]);
                    place(&maps[side], &region, &dense_strides(&region), extents.len()).coefficients
                }),
                maps,
                classes,
                compute,
            })
    }

    /// Is a tile large enough to gain?
    pub(super) fn suits(&self, tile: &Region) -> bool {
        [Class::M, Class::N, Class::K]
            .iter()
            .all(|&c| self.extent(tile, c) >= SMALL)
    }

    fn extent(&self, tile: &Region, class: Class) -> usize {
        let of = self
            .classes
            .iter()
            .zip(&tile.0)
            .filter(|(c, _)| **c == class);
        of.map(|(_, r)| r.1 - r.0).product()
    }

    /// Least extent of a label that is worth a piece of its own.
    pub(super) fn least(&self, label: usize) -> usize {
        match self.classes[label] {
            Class::Batch => 1,
            _ => 64,
        }
    }

    /// The classes and their labels, for people.
    pub(super) fn describe(&self, e: &EinSum) -> String {
        let mut text = String::from("gemm");
        for (name, class) in [
            ("m", Class::M),
            ("n", Class::N),
            ("k", Class::K),
            ("batch", Class::Batch),
        ] {
            let of = e
                .labels
                .iter()
                .zip(&self.classes)
                .filter(|(_, c)| **c == class);
            let labels: Vec<&str> = of.map(|(l, _)| &*l.name).collect();
            if !labels.is_empty() {
                text += &format!(" {name}={}", labels.join(","));
            }
        }
        text
    }

    /// Runs one tile. `out` walks the output's window, `footprints` are boxes that the operands'
    /// windows cover, `result` the box of the output.
    pub(super) fn run(
        &self,
        tile: &Region,
        out: &Walk,
        reads: &[View],
        footprints: &[Region],
        write: &ViewMut,
        buffers: &mut Converted,
    ) {
        match self.compute {
            DType::F64 => {
                let [a, b, c] = &mut buffers.f64;
                self.run_as::<f64>(tile, out, reads, footprints, write, [a, b, c]);
            }
            _ => {
                let [a, b, c] = &mut buffers.f32;
                self.run_as::<f32>(tile, out, reads, footprints, write, [a, b, c]);
            }
        }
    }

    fn run_as<T: Gemm>(
        &self,
        tile: &Region,
        out: &Walk,
        reads: &[View],
        footprints: &[Region],
        write: &ViewMut,
        [a, b, c]: [&mut Vec<T>; 3],
    ) {
        let operand = |side: usize, buffer: &mut Vec<T>| {
            let n = self.operands[side];
            if reads[n].dtype() == self.compute {
                return reads[n].clone();
            }
            let target = dense(buffer, footprints[n].clone(), self.compute);
            copy(&reads[n], &target, &footprints[n]);
            // SAFETY: the buffer holds the box that was just written and lives to the end of the
            // run; nobody writes it meanwhile.
            unsafe {
                View::new(
                    target.ptr(),
                    self.compute,
                    target.region().clone(),
                    target.strides().to_vec(),
                )
            }
        };
        let (left, right) = (operand(0, a), operand(1, b));
        let walks = [
            place(&self.maps[0], left.region(), left.strides(), tile.0.len()),
            place(&self.maps[1], right.region(), right.strides(), tile.0.len()),
        ];
        let labels: Vec<LabelId> = (0..tile.0.len() as u16).map(LabelId).collect();
        if write.dtype() == self.compute {
            self.multiply::<T>(
                tile,
                [&walks[0], &walks[1], out],
                &left,
                &right,
                write,
                &labels,
            );
            return;
        }
        // In a buffer of label order first, then converted along the output's own walk.
        let outer: Vec<LabelId> = labels
            .into_iter()
            .filter(|l| self.classes[l.at()] != Class::K)
            .collect();
        let region = Region(outer.iter().map(|l| tile.0[l.at()]).collect());
        let buffer = dense(c, region.clone(), self.compute);
        let mut inner = Walk {
            base: 0,
            coefficients: vec![0; tile.0.len()],
        };
        for ((l, r), &s) in outer.iter().zip(&region.0).zip(buffer.strides()) {
            inner.coefficients[l.at()] = s as i64;
            inner.base -= s as i64 * r.0 as i64;
        }
        let all: Vec<LabelId> = (0..tile.0.len() as u16).map(LabelId).collect();
        self.multiply::<T>(
            tile,
            [&walks[0], &walks[1], &inner],
            &left,
            &right,
            &buffer,
            &all,
        );
        let strides = outer
            .iter()
            .map(|l| out.coefficients[l.at()] as isize)
            .collect();
        // SAFETY: the same elements of `write` that the tile's output box has, by label; the
        // buffer holds what `multiply` wrote.
        let (from, to) = unsafe {
            let size = write.dtype().size() as isize;
            let first = write.ptr().offset(out.start(tile) as isize * size);
            (
                View::new(
                    buffer.ptr(),
                    self.compute,
                    region.clone(),
                    buffer.strides().to_vec(),
                ),
                ViewMut::new(first, write.dtype(), region.clone(), strides),
            )
        };
        copy(&from, &to, &region);
    }

    fn multiply<T: Gemm>(
        &self,
        tile: &Region,
        walks: [&Walk; 3],
        left: &View,
        right: &View,
        write: &ViewMut,
        labels: &[LabelId],
    ) {
        let steps = |class: Class| {
            let mut loops: Vec<Step> = Vec::new();
            for l in labels.iter().filter(|l| self.classes[l.at()] == class) {
                let (lo, hi) = tile.0[l.at()];
                let step = Step {
                    extent: hi - lo,
                    strides: walks.map(|w| w.coefficients[l.at()]),
                    whole: [0, 1].map(|side| self.whole[side][l.at()]),
                };
                match loops.last_mut() {
                    _ if step.extent == 1 => {}
                    Some(outer) if outer.merges(&step, class == Class::K) => {
                        *outer = Step {
                            extent: outer.extent * step.extent,
                            ..step
                        };
                    }
                    _ => loops.push(step),
                }
            }
            loops
        };
        // The largest loop of each class goes to the GEMM, the others go around it.
        let split = |class: Class| {
            let mut loops = steps(class);
            let largest = (0..loops.len()).max_by_key(|&i| loops[i].extent);
            let one = Step {
                extent: 1,
                strides: [0; 3],
                whole: [0; 2],
            };
            (largest.map_or(one, |i| loops.remove(i)), loops)
        };
        let ((m, more_m), (n, more_n), (k, more_k)) =
            (split(Class::M), split(Class::N), split(Class::K));
        let mut around = steps(Class::Batch);
        around.extend(more_m);
        around.extend(more_n);
        let starts = walks.map(|w| w.start(tile));
        for_each(&around, starts, &mut |at| {
            let mut beta = T::ZERO;
            for_each(&more_k, at, &mut |at| {
                // SAFETY: all places are of points of the tile, whose footprints the caller of
                // `run` found in the windows; the output box is ours to write.
                unsafe {
                    let [a, b, c] = at.map(|x| x as isize);
                    T::gemm(
                        [m.extent, k.extent, n.extent],
                        (left.ptr().cast::<T>().offset(a), m.strides[0], k.strides[0]),
                        (
                            right.ptr().cast::<T>().offset(b),
                            k.strides[1],
                            n.strides[1],
                        ),
                        beta,
                        (
                            write.ptr().cast::<T>().offset(c),
                            m.strides[2],
                            n.strides[2],
                        ),
                    );
                }
                beta = T::ONE;
            });
        });
    }
}

/// Calls `f` with the places at every point of the loops, slow to fast.
fn for_each(loops: &[Step], at: [i64; 3], f: &mut dyn FnMut([i64; 3])) {
    let Some((first, rest)) = loops.split_first() else {
        return f(at);
    };
    for i in 0..first.extent as i64 {
        let mut next = at;
        for (x, s) in next.iter_mut().zip(first.strides) {
            *x += i * s;
        }
        for_each(rest, next, f);
    }
}

/// A window on a dense box in a buffer that is made large enough.
fn dense<T: Gemm>(buffer: &mut Vec<T>, region: Region, dtype: DType) -> ViewMut {
    buffer.resize(buffer.len().max(region.volume()), T::ZERO);
    let strides = dense_strides(&region);
    // SAFETY: the buffer has room for the box, and its owner lends it for the whole run.
    unsafe { ViewMut::new(buffer.as_mut_ptr().cast(), dtype, region, strides) }
}

fn dense_strides(region: &Region) -> Vec<isize> {
    let mut strides = vec![1; region.0.len()];
    for axis in (1..strides.len()).rev() {
        let (lo, hi) = region.0[axis];
        strides[axis - 1] = strides[axis] * (hi - lo) as isize;
    }
    strides
}

/// The place of an operand's element in its window.
fn place(map: &AccessMap, region: &Region, strides: &[isize], labels: usize) -> Walk {
    let mut walk = Walk {
        base: 0,
        coefficients: vec![0; labels],
    };
    for ((axis, r), &stride) in map.axes.iter().zip(&region.0).zip(strides) {
        let (terms, offset) = terms(axis).unwrap_or_default();
        walk.base += (offset - r.0 as i64) * stride as i64;
        for (l, c) in terms {
            walk.coefficients[l.at()] += c * stride as i64;
        }
    }
    walk
}

fn terms(axis: &AxisAccess) -> Option<(Vec<(LabelId, i64)>, i64)> {
    match axis {
        AxisAccess::Bare(l) => Some((vec![(*l, 1)], 0)),
        AxisAccess::Affine { terms, offset } => Some((terms.clone(), *offset)),
        AxisAccess::Computed(_) | AxisAccess::Data => None,
    }
}

/// Without casts that only widen: the GEMM widens its operands first anyway.
fn widened<'e>(e: &'e Expr, dtypes: &[DType]) -> &'e Expr {
    match e {
        Expr::Cast(to, inner) => match inner.dtype(&|n| dtypes.get(n).copied()) {
            Some(from) if from.is_float() && from.widens_to(*to) => widened(inner, dtypes),
            _ => e,
        },
        _ => e,
    }
}

/// Element types that the GEMM has.
trait Gemm: Copy {
    const ZERO: Self;
    const ONE: Self;
    /// C ← A·B + β·C with `[m, k, n]`; each matrix is an address, a row and a column stride.
    ///
    /// # Safety
    /// Every element of the three matrices may be read, those of C written.
    unsafe fn gemm(
        size: [usize; 3],
        a: (*const Self, i64, i64),
        b: (*const Self, i64, i64),
        beta: Self,
        c: (*mut Self, i64, i64),
    );
}

macro_rules! gemm {
    ($t:ident, $f:path) => {
        impl Gemm for $t {
            const ZERO: $t = 0.0;
            const ONE: $t = 1.0;
            unsafe fn gemm(
                [m, k, n]: [usize; 3],
                (a, ar, ac): (*const $t, i64, i64),
                (b, br, bc): (*const $t, i64, i64),
                beta: $t,
                (c, cr, cc): (*mut $t, i64, i64),
            ) {
                // SAFETY: passed on to the caller.
                unsafe {
                    $f(
                        m,
                        k,
                        n,
                        1.0,
                        a,
                        ar as isize,
                        ac as isize,
                        b,
                        br as isize,
                        bc as isize,
                        beta,
                        c,
                        cr as isize,
                        cc as isize,
                    );
                }
            }
        }
    };
}
gemm!(f32, matrixmultiply::sgemm);
gemm!(f64, matrixmultiply::dgemm);
