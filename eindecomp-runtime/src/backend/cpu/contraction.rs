//! Contractions: `⊕[k] a ⊗ b` of two float operands, batched, through the engine of `tiles`.
#![expect(
    unsafe_code,
    reason = "operands are read and written through raw pointers"
)]

use eindecomp_core::ein::access::{AccessMap, AxisAccess};
use eindecomp_core::ein::{Agg, Aggregation, DType, EinSum, Expr, LabelId, ScalarFn};
use eindecomp_core::plan::layout::Region;

use super::MULTIPLICATIONS;
use super::combine::copy;
use super::nest::{Cut, Walk};
use super::tiles::{
    self, Along, Element, Matrix, Panels, Plus, Ring, Set, Times, log_sum_exp, multiply,
    multiply_few, multiply_packed, pack_all, panel_columns,
};
use crate::backend::program::stays_inside;
use crate::view::{Packed, View, ViewMut};

/// Below this extent of m, n or k the vector kernel is faster than packing.
const SMALL: usize = 4;
/// Up to so many rows or columns, the other operand is read where it is rather than packed.
const FEW: usize = 6;
/// Least extent of the other operand's own axes.
const MANY: usize = 16;

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
    classes: Vec<Class>,
    /// Labels of the output, slow to fast, then those that are reduced.
    order: Vec<LabelId>,
    times: Times,
    fold: Fold,
    /// What lies densely in each operand. It decides the order of sums, so that it is of the whole
    /// row-major operands: the strides of windows differ between shared and private memory.
    along: [Along; 2],
    /// f32 or f64.
    compute: DType,
}

/// How the products of an element become one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fold {
    Plus(Plus),
    LogSumExp,
}

/// The operators of matrix multiplication.
const GEMM: (Times, Fold) = (Times::Product, Fold::Plus(Plus::Sum));

/// Memory that a worker keeps from run to run.
#[derive(Debug, Default)]
pub(super) struct Buffers {
    f32: Converted<f32>,
    f64: Converted<f64>,
}

/// Operands and result in the element type that is computed in, if theirs is another, and packed.
#[derive(Debug, Default)]
struct Converted<T> {
    dense: [Vec<T>; 3],
    panels: Panels<T>,
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
        if reduce.filter.is_some() || !reduce.acc.is_float() {
            return None;
        }
        let fold = match reduce.agg {
            Aggregation::Row(Agg::SUM) => Fold::Plus(Plus::Sum),
            Aggregation::Row(Agg::MAX) => Fold::Plus(Plus::Max),
            Aggregation::Row(Agg::MIN) => Fold::Plus(Plus::Min),
            Aggregation::Row(Agg::LOGSUMEXP) => Fold::LogSumExp,
            _ => return None,
        };
        let compute = match reduce.acc {
            DType::F64 => DType::F64,
            _ => DType::F32,
        };
        let (times, args) = times(widened(&e.body, dtypes), dtypes)?;
        // A product of narrow floats is exact in wider ones; other results would be rounded first.
        let fits = |of: DType| match times {
            Times::Product => of.is_float() && of.widens_to(compute),
            _ => of == compute,
        };
        let operand = |e: &Expr| match widened(e, dtypes) {
            Expr::Operand(n) if fits(dtypes[*n]) => Some(*n),
            _ => None,
        };
        let mut operands = [operand(&args[0])?, operand(&args[1])?];
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
        let mut maps = [map(operands[0])?, map(operands[1])?];
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
        let mut classes: Vec<Class> = (0..extents.len()).map(class).collect::<Option<_>>()?;
        let mut outer = e.out.iter().flatten().rev().map(|l| classes[l.at()]);
        let has = |class: Class| classes.contains(&class);
        let (product, both) = ((times, fold) == GEMM, has(Class::M) && has(Class::N));
        let one = product && (has(Class::M) || has(Class::N));
        if !has(Class::K) || !(both || one) {
            return None;
        }
        let rows_first = outer.find(|class| *class != Class::Batch) == Some(Class::M);
        // Tiles are stored by rows.
        if both && rows_first && times != Times::Difference {
            operands.swap(0, 1);
            maps.swap(0, 1);
            for class in &mut classes {
                *class = match class {
                    Class::M => Class::N,
                    Class::N => Class::M,
                    _ => *class,
                };
            }
        }
        let along = [0, 1].map(|side| {
            let region = Region::whole(&shapes[operands[side]]);
            let whole = place(&maps[side], &region, &dense_strides(&region), extents.len());
            let dense = |class: Class| {
                let of = classes.iter().zip(&whole.coefficients);
                of.filter(|(c, _)| **c == class).any(|(_, &step)| step == 1)
            };
            match dense(Class::K) {
                true => Along::Depth,
                false => Along::Columns,
            }
        });
        Some(Contraction {
            operands,
            order: (e.out.iter().flatten())
                .chain(&reduce.labels)
                .copied()
                .collect(),
            times,
            fold,
            along,
            maps,
            classes,
            compute,
        })
    }

    /// Is a tile large enough to gain?
    pub(super) fn suits(&self, tile: &Region) -> bool {
        let all = [Class::M, Class::N, Class::K].map(|c| self.extent(tile, c));
        all.iter().all(|&e| e >= SMALL) || self.has_few(tile) && all[2] >= SMALL
    }

    /// Is one operand much larger than the other, which has few rows or columns?
    fn has_few(&self, tile: &Region) -> bool {
        let (m, n) = (self.extent(tile, Class::M), self.extent(tile, Class::N));
        (self.times, self.fold) == GEMM && m.min(n) <= FEW && m.max(n) >= MANY
    }

    fn extent(&self, tile: &Region, class: Class) -> usize {
        let of = self
            .classes
            .iter()
            .zip(&tile.0)
            .filter(|(c, _)| **c == class);
        of.map(|(_, r)| r.1 - r.0).product()
    }

    /// How a tile is cut along each output label, in at most `most` pieces in all: those that pack the least, since
    /// each piece packs its own rows and columns. Columns are cut between panels.
    pub(super) fn parts(&self, tile: &Region, most: usize) -> Vec<Cut> {
        /// Least rows or columns of a piece.
        const LEAST: usize = 64;
        let mut wanted = (tile.volume() / MULTIPLICATIONS).clamp(1, most);
        let width = self.width().unwrap_or(1);
        let mut all = Vec::new();
        let mut cut = |class: Class, mut parts: usize| {
            let mut inner = self.extent(tile, class);
            for &label in self.order.iter().filter(|l| self.classes[l.at()] == class) {
                let (lo, hi) = tile.0[label.at()];
                inner /= hi - lo;
                let of = parts.min(hi - lo);
                parts = parts.div_ceil(of);
                all.push(match class {
                    Class::N => Cut {
                        label,
                        parts: of,
                        grain: width / gcd(inner, width),
                    },
                    _ => Cut::even(label, of),
                });
            }
            parts
        };
        wanted = cut(Class::Batch, wanted);
        let (m, n) = (self.extent(tile, Class::M), self.extent(tile, Class::N));
        let fits = |&(rows, columns): &(usize, usize)| {
            (rows == 1 || m / rows >= LEAST) && (columns == 1 || n / columns >= LEAST)
        };
        let grids = (1..=wanted).flat_map(|pieces| (1..=pieces).map(move |r| (r, pieces / r)));
        let best = grids.filter(fits).max_by_key(|&(rows, columns)| {
            let packed = m / rows + n / columns;
            (rows * columns, std::cmp::Reverse(packed))
        });
        let (rows, columns) = best.unwrap_or((1, 1));
        cut(Class::M, rows);
        cut(Class::N, columns);
        all
    }

    /// If a buffer of operand number `operand` can be packed for all pieces of a tile at once ([`Contraction::pack`]):
    /// where each piece finds its columns.
    pub(super) fn packed(
        &self,
        tile: &Region,
        pieces: &[Region],
        operand: usize,
        buffer: &ViewMut,
    ) -> Option<Vec<Packed>> {
        let (width, lanes) = (self.width()?, self.extent(tile, Class::N));
        let fits = operand == self.operands[1] && buffer.dtype() == self.compute;
        if !fits || !self.is_all_of(tile, buffer) {
            return None;
        }
        let place = |piece: &Region| {
            let large = self.suits(piece) && !self.has_few(piece);
            let (first, count) = self.columns(tile, piece)?;
            let whole = self.extent(piece, Class::K) == self.extent(tile, Class::K);
            let ends = count.is_multiple_of(width) || first + count == lanes;
            (large && whole && first.is_multiple_of(width) && ends)
                .then_some(Packed { lanes, first })
        };
        pieces.iter().map(place).collect()
    }

    /// The columns of a panel of the right operand.
    fn width(&self) -> Option<usize> {
        Some(match (self.compute, self.ring()?) {
            (DType::F64, ring) => panel_columns::<f64>(Set::best(), ring),
            (_, ring) => panel_columns::<f32>(Set::best(), ring),
        })
    }

    /// The operators, of those that fold products one by one.
    fn ring(&self) -> Option<Ring> {
        match self.fold {
            Fold::Plus(plus) => Some(Ring {
                times: self.times,
                plus,
            }),
            Fold::LogSumExp => None,
        }
    }

    /// Does the right operand have each element of a dense buffer once in a tile?
    fn is_all_of(&self, tile: &Region, buffer: &ViewMut) -> bool {
        let walk = place(
            &self.maps[1],
            buffer.region(),
            buffer.strides(),
            tile.0.len(),
        );
        let read = walk.coefficients.iter().zip(&tile.0).zip(&self.classes);
        let read = read.filter(|((step, _), _)| **step != 0);
        if read
            .clone()
            .any(|(_, class)| matches!(class, Class::Batch | Class::M))
        {
            return false;
        }
        let mut steps: Vec<(i64, usize)> = read.map(|((&step, r), _)| (step, r.1 - r.0)).collect();
        steps.retain(|&(_, extent)| extent > 1);
        steps.sort_unstable();
        let mut next = 1;
        for (step, extent) in steps {
            if step != next {
                return false;
            }
            next *= extent as i64;
        }
        next == buffer.region().volume() as i64 && walk.start(tile) == 0
    }

    /// The first column of a piece of a tile, and how many it has, if they follow one another.
    fn columns(&self, tile: &Region, piece: &Region) -> Option<(usize, usize)> {
        let (mut first, mut count, mut inner) = (0, 1, 1);
        for l in self
            .order
            .iter()
            .rev()
            .filter(|l| self.classes[l.at()] == Class::N)
        {
            let ((lo, hi), (a, b)) = (tile.0[l.at()], piece.0[l.at()]);
            // Several of a slower label, with not all of a faster one.
            if b - a > 1 && count < inner {
                return None;
            }
            first += (a - lo) * inner;
            count *= b - a;
            inner *= hi - lo;
        }
        Some((first, count))
    }

    /// Packs a buffer of the right operand for all pieces of a tile.
    pub(super) fn pack(&self, tile: &Region, buffer: &ViewMut, memory: &mut Buffers) {
        match self.compute {
            DType::F64 => self.pack_as(tile, buffer, &mut memory.f64.panels),
            _ => self.pack_as(tile, buffer, &mut memory.f32.panels),
        }
    }

    fn pack_as<T: Element>(&self, tile: &Region, buffer: &ViewMut, panels: &mut Panels<T>) {
        let Some(ring) = self.ring() else { return };
        let walk = place(
            &self.maps[1],
            buffer.region(),
            buffer.strides(),
            tile.0.len(),
        );
        let [k, n] = [Class::K, Class::N].map(|class| self.places(tile, class, &walk));
        let to = buffer.ptr().cast::<T>();
        let right = Matrix {
            start: to.cast_const(),
            rows: &k,
            columns: &n,
        };
        // SAFETY: `packed` found the buffer to be these elements, each once; nobody reads a weight before all
        // are loaded. The machine has its best instruction set.
        unsafe {
            let all = pack_all(Set::best(), ring, &right, panels);
            to.copy_from_nonoverlapping(all.as_ptr(), all.len());
        }
    }

    /// The classes and their labels, for people.
    pub(super) fn describe(&self, e: &EinSum) -> String {
        let mut text = match (self.times, self.fold) {
            GEMM => String::from("gemm"),
            (times, Fold::Plus(plus)) => format!("tiled {plus}({times})"),
            (times, Fold::LogSumExp) => format!("tiled logsumexp({times})"),
        };
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
        buffers: &mut Buffers,
    ) {
        match self.compute {
            DType::F64 => self.run_as(tile, out, reads, footprints, write, &mut buffers.f64),
            _ => self.run_as(tile, out, reads, footprints, write, &mut buffers.f32),
        }
    }

    fn run_as<T: Element>(
        &self,
        tile: &Region,
        out: &Walk,
        reads: &[View],
        footprints: &[Region],
        write: &ViewMut,
        buffers: &mut Converted<T>,
    ) {
        let [a, b, c] = &mut buffers.dense;
        let operand = |side: usize, buffer: &mut Vec<T>| {
            let n = self.operands[side];
            if reads[n].dtype() == self.compute {
                return reads[n].clone();
            }
            let target = dense(buffer, footprints[n].clone(), self.compute);
            copy(&reads[n], &target, &footprints[n]);
            target.for_reading()
        };
        let (left, right) = (operand(0, a), operand(1, b));
        let walks = [
            place(&self.maps[0], left.region(), left.strides(), tile.0.len()),
            place(&self.maps[1], right.region(), right.strides(), tile.0.len()),
        ];
        let panels = &mut buffers.panels;
        if write.dtype() == self.compute {
            self.multiply(
                tile,
                [&walks[0], &walks[1], out],
                [&left, &right],
                write,
                panels,
            );
            return;
        }
        // In a buffer of the output's order first, then converted along the output's own walk.
        let is_outer = |l: &&LabelId| self.classes[l.at()] != Class::K;
        let outer: Vec<LabelId> = self.order.iter().filter(is_outer).copied().collect();
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
        self.multiply(
            tile,
            [&walks[0], &walks[1], &inner],
            [&left, &right],
            &buffer,
            panels,
        );
        let strides = outer
            .iter()
            .map(|l| out.coefficients[l.at()] as isize)
            .collect();
        // SAFETY: the same elements of `write` that the tile's output box has, by label.
        let to = unsafe {
            let size = write.dtype().size() as isize;
            let first = write.ptr().offset(out.start(tile) as isize * size);
            ViewMut::new(first, write.dtype(), region.clone(), strides)
        };
        copy(&buffer.for_reading(), &to, &region);
    }

    /// The places of a class of labels, from the first on.
    fn places(&self, tile: &Region, class: Class, walk: &Walk) -> Vec<isize> {
        let mut places = vec![0];
        for l in self.order.iter().filter(|l| self.classes[l.at()] == class) {
            let (lo, hi) = tile.0[l.at()];
            let step = walk.coefficients[l.at()] as isize;
            let along = |&place: &isize| (0..(hi - lo) as isize).map(move |i| place + i * step);
            places = places.iter().flat_map(along).collect();
        }
        places
    }

    fn multiply<T: Element>(
        &self,
        tile: &Region,
        walks: [&Walk; 3],
        [left, right]: [&View; 2],
        write: &ViewMut,
        panels: &mut Panels<T>,
    ) {
        let places = |class: Class, walk: usize| self.places(tile, class, walks[walk]);
        let [starts_a, starts_b, starts_c] = [0, 1, 2].map(|walk| places(Class::Batch, walk));
        let [m_a, k_a] = [Class::M, Class::K].map(|class| places(class, 0));
        let [k_b, n_b] = [Class::K, Class::N].map(|class| places(class, 1));
        let [m_c, n_c] = [Class::M, Class::N].map(|class| places(class, 2));
        let [a, b, c] = walks.map(|w| w.start(tile) as isize);
        let few = self.has_few(tile);
        for ((&start_a, &start_b), &start_c) in starts_a.iter().zip(&starts_b).zip(&starts_c) {
            // SAFETY: all places are of points of the tile, whose footprints the caller of `run`
            // found in the windows; the output box is ours to write, and each of its elements is
            // one point of the tile's output labels. The machine has its best instruction set.
            unsafe {
                let a = Matrix {
                    start: left.ptr().cast::<T>().offset(a + start_a),
                    rows: &m_a,
                    columns: &k_a,
                };
                let b = Matrix {
                    start: right.ptr().cast::<T>().offset(b + start_b),
                    rows: &k_b,
                    columns: &n_b,
                };
                let c = Matrix {
                    start: write.ptr().cast::<T>().offset(c + start_c),
                    rows: &m_c,
                    columns: &n_c,
                };
                let (set, times) = (Set::best(), self.times);
                match self.fold {
                    _ if few && m_a.len() <= n_b.len() => {
                        multiply_few(set, self.along[1], &a, &b, &c, panels);
                    }
                    _ if few => {
                        let (a, b, c) = (b.transposed(), a.transposed(), c.transposed());
                        multiply_few(set, self.along[0], &a, &b, &c, panels);
                    }
                    Fold::Plus(plus) => {
                        let ring = Ring { times, plus };
                        match right.packed() {
                            None => multiply(set, ring, &a, &b, &c, true, panels),
                            Some(at) => {
                                let packed = tiles::Packed {
                                    start: right.ptr().cast(),
                                    lanes: at.lanes,
                                    first: at.first,
                                };
                                multiply_packed(set, ring, &a, (&b, packed), &c, panels);
                            }
                        }
                    }
                    Fold::LogSumExp => log_sum_exp(set, times, &a, &b, &c, panels),
                }
            }
        }
    }
}

fn gcd(a: usize, b: usize) -> usize {
    if b == 0 { a } else { gcd(b, a % b) }
}

/// ⊗ and its two arguments, if it is one of those that the engine has.
fn times<'e>(body: &'e Expr, dtypes: &[DType]) -> Option<(Times, &'e [Expr])> {
    let Expr::Call(f, args) = body else {
        return None;
    };
    let difference = || match widened(args.first()?, dtypes) {
        Expr::Call(ScalarFn::SUB, args) => Some(&args[..]),
        _ => None,
    };
    match *f {
        ScalarFn::MUL => Some((Times::Product, args)),
        ScalarFn::ADD => Some((Times::Sum, args)),
        ScalarFn::SUB => Some((Times::Difference, args)),
        ScalarFn::SQ => Some((Times::SquaredDifference, difference()?)),
        ScalarFn::ABS => Some((Times::AbsoluteDifference, difference()?)),
        _ => None,
    }
}

/// A window on a dense box in a buffer that is made large enough.
fn dense<T: Element>(buffer: &mut Vec<T>, region: Region, dtype: DType) -> ViewMut {
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

/// Without casts that only widen: operands are widened first anyway.
fn widened<'e>(e: &'e Expr, dtypes: &[DType]) -> &'e Expr {
    match e {
        Expr::Cast(to, inner) => match inner.dtype(&|n| dtypes.get(n).copied()) {
            Some(from) if from.is_float() && from.widens_to(*to) => widened(inner, dtypes),
            _ => e,
        },
        _ => e,
    }
}
