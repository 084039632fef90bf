//! C ← log Σ exp(A ⊗ B).
//!
//! Where ⊗ is a sum or a difference, e^(a + b) is a product of powers, so that the sums are a matrix
//! product: e^(a − max of a's row) · e^(b − max of b's column). A sum so small that its terms lost digits,
//! or of infinities and NaN, is computed term by term instead.
//!
//! *Invariant*: which of the two an element is follows from its row and column alone.

use super::micro::{Element, Exponentials, Plus, Set, Tile, Times};
use super::pack::pack;
use super::{COLUMNS, DEPTH, Matrix, Panels, Power, ROWS, Ring, even, multiply, multiply_as};

/// Least sum of products of powers: terms that matter are then e^-12 at least, and the rounding of their
/// exponents is less than 2^-20 of them.
const LEAST: f32 = 1.0 / 65536.0;
/// Rows and columns that are computed again together.
const AGAIN: [usize; 2] = [48, 256];

/// C ← log Σ exp(A ⊗ B). Where a sum's largest term is no finite number, that is the result.
///
/// # Safety
/// As of [`multiply`].
pub(in super::super) unsafe fn log_sum_exp<T: Element>(
    set: Set,
    times: Times,
    a: &Matrix<*const T>,
    b: &Matrix<*const T>,
    c: &Matrix<*mut T>,
    panels: &mut Panels<T>,
) {
    let negated = match times {
        Times::Sum => false,
        Times::Difference => true,
        // SAFETY: the caller's, here and below.
        _ => return unsafe { by_terms(set, times, a, b, c, panels) },
    };
    let mut both = std::mem::take(&mut panels.extremes);
    let [of_a, of_b] = &mut both;
    // SAFETY: the places are the matrices'.
    unsafe {
        extremes(set, a.start, a.rows, a.columns, false, of_a, &mut panels.a);
        extremes(
            set,
            b.start,
            b.columns,
            b.rows,
            negated,
            of_b,
            &mut panels.b,
        );
    }
    let product = Ring {
        times: Times::Product,
        plus: Plus::Sum,
    };
    let power = |relative_to, negated| Power {
        relative_to,
        negated,
    };
    let powers = Some([power(&of_a[..], false), power(&of_b[..], negated)]);
    // SAFETY: the caller's.
    unsafe { multiply_as(set, product, a, b, None, c, true, powers, panels) };
    let mut again = false;
    for (&row, &left) in c.rows.iter().zip(&*of_a) {
        let Panels { sums, base, .. } = panels;
        sums.clear();
        base.clear();
        for (&column, &right) in c.columns.iter().zip(&*of_b) {
            // SAFETY: a place of C, here and below.
            let sum = unsafe { *c.start.offset(row + column) };
            let relative_to = T::combine(Plus::Sum, left, right);
            let good = sum >= LEAST.into() && relative_to.is_finite();
            again |= !good;
            sums.push(if good { sum } else { f32::NAN.into() });
            base.push(relative_to);
        }
        T::logarithms(base, sums);
        for (&column, &x) in c.columns.iter().zip(&*sums) {
            unsafe { *c.start.offset(row + column) = x };
        }
    }
    panels.extremes = both;
    if again {
        // SAFETY: the caller's.
        unsafe { where_nan(set, times, a, b, c, panels) };
    }
}

/// The largest element of each lane, or of its negative.
///
/// # Safety
/// As of [`pack`].
unsafe fn extremes<T: Element>(
    set: Set,
    start: *const T,
    lanes: &[isize],
    depth: &[isize],
    negated: bool,
    into: &mut Vec<T>,
    panels: &mut Vec<T>,
) {
    /// Lanes of a panel.
    const WIDTH: usize = 32;
    into.clear();
    into.resize(lanes.len(), f32::NEG_INFINITY.into());
    for depth in depth.chunks(DEPTH) {
        for (lanes, into) in lanes.chunks(ROWS).zip(into.chunks_mut(ROWS)) {
            // SAFETY: the caller's.
            let packed = unsafe { pack(set, start, lanes, depth, WIDTH, panels) };
            T::largest(packed, WIDTH, negated, into);
        }
    }
}

/// Computes what is NaN again, term by term, some rows and columns at a time.
///
/// # Safety
/// As of [`multiply`].
unsafe fn where_nan<T: Element>(
    set: Set,
    times: Times,
    a: &Matrix<*const T>,
    b: &Matrix<*const T>,
    c: &Matrix<*mut T>,
    panels: &mut Panels<T>,
) {
    let mut block = vec![T::ZERO; AGAIN[0] * AGAIN[1]];
    let places = |step: usize, count: usize| -> Vec<isize> {
        (0..count).map(|i| (i * step) as isize).collect()
    };
    let (block_rows, block_columns) = (places(AGAIN[1], AGAIN[0]), places(1, AGAIN[1]));
    for (a_rows, c_rows) in a.rows.chunks(AGAIN[0]).zip(c.rows.chunks(AGAIN[0])) {
        let columns = b.columns.chunks(AGAIN[1]).zip(c.columns.chunks(AGAIN[1]));
        for (b_columns, c_columns) in columns {
            let places = || {
                let rows = c_rows.iter().zip(&block_rows);
                rows.flat_map(|(row, at)| {
                    let columns = c_columns.iter().zip(&block_columns);
                    columns.map(move |(column, i)| (row + column, (at + i) as usize))
                })
            };
            // SAFETY: a place of C, here and below.
            let nan = |place| unsafe { *c.start.offset(place) }.is_nan();
            if !places().any(|(place, _)| nan(place)) {
                continue;
            }
            let a = Matrix { rows: a_rows, ..*a };
            let b = Matrix {
                columns: b_columns,
                ..*b
            };
            let to = Matrix {
                start: block.as_mut_ptr(),
                rows: &block_rows[..c_rows.len()],
                columns: &block_columns[..c_columns.len()],
            };
            // SAFETY: the caller's; the block has room for its places.
            unsafe { by_terms(set, times, &a, &b, &to, panels) };
            for (place, at) in places().filter(|&(place, _)| nan(place)) {
                unsafe { *c.start.offset(place) = block[at] };
            }
        }
    }
}

/// C ← log Σ exp(A ⊗ B), relative to the largest term of each sum, in two passes over the depth. Where
/// that is no number, it is the result.
///
/// # Safety
/// As of [`multiply`].
unsafe fn by_terms<T: Element>(
    set: Set,
    times: Times,
    a: &Matrix<*const T>,
    b: &Matrix<*const T>,
    c: &Matrix<*mut T>,
    panels: &mut Panels<T>,
) {
    let largest = Ring {
        times,
        plus: Plus::Max,
    };
    // SAFETY: the caller's.
    unsafe { multiply(set, largest, a, b, c, true, panels) };
    let micro = T::micro(set, times, Plus::Max, true);
    let add: Exponentials<T> = T::exponentials(set, times);
    let block_rows = even(a.rows.len(), ROWS, micro.rows);
    let block_columns = even(b.columns.len(), COLUMNS, micro.columns);
    for ic in (0..c.rows.len()).step_by(block_rows) {
        for jc in (0..c.columns.len()).step_by(block_columns) {
            let rows = &c.rows[ic..c.rows.len().min(ic + block_rows)];
            let columns = &c.columns[jc..c.columns.len().min(jc + block_columns)];
            let Panels {
                a: left,
                b: right,
                sums,
                base,
                ..
            } = panels;
            // Every element of the block: its place in the tiles, and in C.
            let size = micro.rows * micro.columns;
            let grid = columns.len().div_ceil(micro.columns);
            let places = || {
                rows.iter().enumerate().flat_map(move |(i, row)| {
                    columns.iter().enumerate().map(move |(j, column)| {
                        let tile = i / micro.rows * grid + j / micro.columns;
                        let inside = i % micro.rows * micro.columns + j % micro.columns;
                        (tile * size + inside, row + column)
                    })
                })
            };
            let tiles = rows.len().div_ceil(micro.rows) * grid;
            base.clear();
            base.resize(tiles * size, T::ZERO);
            sums.clear();
            sums.resize(tiles * size, T::ZERO);
            for (at, place) in places() {
                // SAFETY: a place of C, as below.
                let x = unsafe { *c.start.offset(place) };
                base[at] = if x.is_finite() { x } else { T::ZERO };
            }
            for pc in (0..a.columns.len()).step_by(DEPTH) {
                let depth = pc..a.columns.len().min(pc + DEPTH);
                let (a_rows, b_columns) = (
                    &a.rows[ic..ic + rows.len()],
                    &b.columns[jc..jc + columns.len()],
                );
                // SAFETY: the places are the operands'.
                let (left, right) = unsafe {
                    (
                        pack(
                            set,
                            a.start,
                            a_rows,
                            &a.columns[depth.clone()],
                            micro.rows,
                            left,
                        ),
                        pack(
                            set,
                            b.start,
                            b_columns,
                            &b.rows[depth.clone()],
                            micro.columns,
                            right,
                        ),
                    )
                };
                let left = left.chunks(depth.len() * micro.rows);
                let pairs = left.flat_map(|l| {
                    let right = right.chunks(depth.len() * micro.columns);
                    right.map(move |r| (l, r))
                });
                let tiles = sums.chunks_mut(size).zip(base.chunks(size));
                for ((sums, base), (left, right)) in tiles.zip(pairs) {
                    let tile = Tile {
                        depth: depth.len(),
                        a: left.as_ptr(),
                        b: right.as_ptr(),
                        c: sums.as_mut_ptr(),
                        stride: micro.columns as isize,
                        first: false,
                        ahead: std::ptr::null(),
                        fetched: 0,
                    };
                    // SAFETY: panels and tiles are full.
                    unsafe { add(&tile, base.as_ptr()) };
                }
            }
            T::logarithms(base, sums);
            for (at, place) in places() {
                // SAFETY: as above.
                let to = unsafe { &mut *c.start.offset(place) };
                if to.is_finite() {
                    *to = sums[at];
                }
            }
        }
    }
}
