//! Products of few rows with a matrix, which is read once and not packed: bound by its bytes.
//!
//! *Invariant*: the order of a sum follows from [`Along`] and the depth alone: nothing else decides
//! about it, not where elements lie.

use super::lanes::Lanes;
use super::micro::{Element, Set};
use super::{Matrix, Panels, are_neighbours};

/// What the lanes of a register run over: whatever lies densely in the matrix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) enum Along {
    Columns,
    Depth,
}

/// Columns whose sums stay in the first-level cache.
const COLUMNS: usize = 1024;
/// Steps of the depth, or columns, that a loop takes at once.
pub(super) const STEPS: usize = 8;
/// Lanes of the widest register.
const WIDEST: usize = 16;

/// Memory that is kept from run to run.
#[derive(Debug, Default)]
pub(super) struct Sums<T> {
    /// The rows, dense.
    rows: Vec<T>,
    sums: Vec<T>,
}

/// Steps of a register along a matrix: `sums[j] += Σ x[q] · w[q][j]`, or `sums[q] += x[j] · w[q][j]` in
/// lanes of each sum's own.
pub(in super::super) struct Strip<T> {
    /// Elements along the lanes, a multiple of a register's.
    pub(super) length: usize,
    /// By step (columns), or one run (depth).
    pub(super) x: *const T,
    pub(super) w: [*const T; STEPS],
    /// How many of these are meant.
    pub(super) steps: usize,
    /// From each of these to what is read after it, if anything is: hardware does not look beyond the end
    /// of a page.
    pub(super) ahead: isize,
    pub(super) sums: *mut T,
}

/// # Safety
/// The machine has the instruction set; the strip's elements are there.
pub(in super::super) type Strips<T> = unsafe fn(&Strip<T>);

#[inline(always)]
pub(super) unsafe fn columns<T: Copy, V: Lanes<T>>(s: &Strip<T>) {
    // SAFETY: the caller's.
    unsafe {
        if s.steps == STEPS {
            let x: [V; STEPS] = std::array::from_fn(|q| V::splat(*s.x.add(q)));
            for j in (0..s.length).step_by(V::LANES) {
                if s.ahead != 0 {
                    s.w.iter()
                        .for_each(|w| V::prefetch(w.wrapping_offset(s.ahead).wrapping_add(j)));
                }
                let mut sum = V::load(s.sums.add(j));
                for (x, w) in x.iter().zip(&s.w) {
                    sum = x.mul_add(V::load(w.add(j)), sum);
                }
                sum.store(s.sums.add(j));
            }
            return;
        }
        for (q, w) in s.w[..s.steps].iter().enumerate() {
            let x = V::splat(*s.x.add(q));
            for j in (0..s.length).step_by(V::LANES) {
                let sum = V::load(s.sums.add(j));
                x.mul_add(V::load(w.add(j)), sum).store(s.sums.add(j));
            }
        }
    }
}

#[inline(always)]
pub(super) unsafe fn depth<T: Copy, V: Lanes<T>>(s: &Strip<T>) {
    // SAFETY: the caller's.
    unsafe {
        let mut sums: [V; STEPS] = std::array::from_fn(|q| V::load(s.sums.add(q * V::LANES)));
        for j in (0..s.length).step_by(V::LANES) {
            let x = V::load(s.x.add(j));
            for (sum, w) in sums.iter_mut().zip(&s.w) {
                *sum = x.mul_add(V::load(w.add(j)), *sum);
            }
        }
        for (q, sum) in sums.iter().enumerate() {
            sum.store(s.sums.add(q * V::LANES));
        }
    }
}

/// C ← X · W for few rows of X: W is read once, where it is.
///
/// # Safety
/// As of [`super::multiply`].
pub(in super::super) unsafe fn multiply_few<T: Element>(
    set: Set,
    along: Along,
    x: &Matrix<*const T>,
    w: &Matrix<*const T>,
    c: &Matrix<*mut T>,
    panels: &mut Panels<T>,
) {
    let memory = &mut panels.few;
    let (lanes, strips) = T::strips(set, along);
    let (depth, rows) = (w.rows.len(), x.rows.len());
    memory.rows.clear();
    for &row in x.rows {
        // SAFETY: the places are X's.
        let along = x
            .columns
            .iter()
            .map(|&p| unsafe { *x.start.offset(row + p) });
        memory.rows.extend(along);
        // Whole registers may be read.
        memory
            .rows
            .resize(memory.rows.len().next_multiple_of(WIDEST), T::ZERO);
    }
    let stride = depth.next_multiple_of(WIDEST);
    match along {
        Along::Columns => {
            for jc in (0..w.columns.len()).step_by(COLUMNS) {
                let columns = &w.columns[jc..w.columns.len().min(jc + COLUMNS)];
                memory.sums.clear();
                memory.sums.resize(rows * COLUMNS, T::ZERO);
                let mut run = |from: usize,
                               length: usize,
                               p: usize,
                               w: [*const T; STEPS],
                               steps: usize,
                               ahead: isize| {
                    for row in 0..rows {
                        let strip = Strip {
                            length,
                            x: memory.rows[row * stride + p..].as_ptr(),
                            w,
                            steps,
                            ahead: if row == 0 { ahead } else { 0 },
                            sums: memory.sums[row * COLUMNS + from..].as_mut_ptr(),
                        };
                        // SAFETY: sums and rows are padded to whole registers.
                        unsafe { strips(&strip) };
                    }
                };
                let dense = if are_neighbours(columns) {
                    columns.len() / lanes * lanes
                } else {
                    0
                };
                for p in (0..depth).step_by(STEPS) {
                    let steps = STEPS.min(depth - p);
                    let at = |q: usize| w.rows[p + q.min(steps - 1)];
                    if dense > 0 {
                        // SAFETY: the places are W's.
                        let from =
                            std::array::from_fn(|q| unsafe { w.start.offset(at(q) + columns[0]) });
                        let ahead = w.rows.get(p + STEPS).map_or(0, |next| next - w.rows[p]);
                        run(0, dense, p, from, steps, ahead);
                    }
                    for from in (dense..columns.len()).step_by(lanes) {
                        let part = &columns[from..columns.len().min(from + lanes)];
                        let mut copy = [[T::ZERO; WIDEST]; STEPS];
                        for (q, copy) in copy.iter_mut().enumerate() {
                            for (to, &column) in copy.iter_mut().zip(part) {
                                // SAFETY: the places are W's.
                                *to = unsafe { *w.start.offset(at(q) + column) };
                            }
                        }
                        run(
                            from,
                            lanes,
                            p,
                            std::array::from_fn(|q| copy[q].as_ptr()),
                            steps,
                            0,
                        );
                    }
                }
                for (row, &to) in c.rows.iter().enumerate() {
                    let sums = &memory.sums[row * COLUMNS..];
                    for (&column, &sum) in c.columns[jc..jc + columns.len()].iter().zip(sums) {
                        // SAFETY: the places are C's.
                        unsafe { *c.start.offset(to + column) = sum };
                    }
                }
            }
        }
        Along::Depth => {
            let dense = if are_neighbours(w.rows) {
                depth / lanes * lanes
            } else {
                0
            };
            for jc in (0..w.columns.len()).step_by(STEPS) {
                let columns = &w.columns[jc..w.columns.len().min(jc + STEPS)];
                let at = |q: usize| columns[q.min(columns.len() - 1)];
                memory.sums.clear();
                memory.sums.resize(rows * STEPS * lanes, T::ZERO);
                let mut run = |p: usize, length: usize, w: [*const T; STEPS]| {
                    for row in 0..rows {
                        let strip = Strip {
                            length,
                            x: memory.rows[row * stride + p..].as_ptr(),
                            w,
                            steps: STEPS,
                            ahead: 0,
                            sums: memory.sums[row * STEPS * lanes..].as_mut_ptr(),
                        };
                        // SAFETY: as above.
                        unsafe { strips(&strip) };
                    }
                };
                if dense > 0 {
                    // SAFETY: the places are W's.
                    let from = |q| unsafe { w.start.offset(at(q) + w.rows[0]) };
                    run(0, dense, std::array::from_fn(from));
                }
                for p in (dense..depth).step_by(lanes) {
                    let part = &w.rows[p..depth.min(p + lanes)];
                    let mut copy = [[T::ZERO; WIDEST]; STEPS];
                    for (q, copy) in copy.iter_mut().enumerate() {
                        for (to, &row) in copy.iter_mut().zip(part) {
                            // SAFETY: the places are W's.
                            *to = unsafe { *w.start.offset(at(q) + row) };
                        }
                    }
                    run(p, lanes, std::array::from_fn(|q| copy[q].as_ptr()));
                }
                for (row, &to) in c.rows.iter().enumerate() {
                    let sums = &mut memory.sums[row * STEPS * lanes..];
                    for (&column, sums) in c.columns[jc..]
                        .iter()
                        .zip(sums.chunks_mut(lanes).take(columns.len()))
                    {
                        // SAFETY: the places are C's.
                        unsafe { *c.start.offset(to + column) = T::total(sums) };
                    }
                }
            }
        }
    }
}
