//! C ⊕= A ⊗ B over packed panels, in register tiles (the loops of Goto and van de Geijn, ACM TOMS
//! 34(3), and BLIS), for any pair of operators in `micro`.
//!
//! Operands are addressed by tables: the element of A at row `i` and depth `p` lies at `rows[i] +
//! depth[p]`. Any affine access of a contraction is of that form, so that merged axes, transposes and
//! several reduced labels are packed straight from where they are.
//!
//! *Invariant*: an element of C is folded along the depth in order, in blocks of [`DEPTH`] from the
//! tile's start, whatever rows and columns are computed beside it.
#![expect(
    unsafe_code,
    reason = "operands are read and written through raw pointers"
)]

mod few;
mod lanes;
mod log_sum_exp;
mod micro;
mod pack;
#[cfg(test)]
mod tests;

use std::ops::Range;

pub(super) use few::{Along, multiply_few};
pub(super) use log_sum_exp::log_sum_exp;
pub(super) use micro::{Element, Plus, Set, Times};

use micro::{Micro, Tile};
use pack::pack;

/// Bytes of a line of the cache.
const LINE: usize = 64;
/// Depth of a block: a panel of A stays in the first-level cache.
const DEPTH: usize = 256;
/// Rows of a block, about.
const ROWS: usize = 240;
/// Columns of a block, about: a block of B stays in the second-level cache.
const COLUMNS: usize = 1024;

/// The two operators.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Ring {
    pub(super) times: Times,
    pub(super) plus: Plus,
}

/// A matrix by the places of its rows and columns.
pub(super) struct Matrix<'a, P> {
    pub(super) start: P,
    pub(super) rows: &'a [isize],
    pub(super) columns: &'a [isize],
}

impl<P: Copy> Matrix<'_, P> {
    pub(super) fn transposed(&self) -> Self {
        Matrix {
            start: self.start,
            rows: self.columns,
            columns: self.rows,
        }
    }
}

/// Columns of B that were packed once, all of them: by blocks of [`DEPTH`], each of panels as wide as the tile, the
/// last of which may be narrower.
#[derive(Clone, Copy)]
pub(super) struct Packed<T> {
    pub(super) start: *const T,
    /// All of its columns.
    pub(super) lanes: usize,
    /// The first of those that are multiplied, where a panel begins.
    pub(super) first: usize,
}

impl<T: Element> Packed<T> {
    /// Where the panel of a column begins, counted from the first that is multiplied, in a block of depth.
    fn start(&self, column: usize, depth: Range<usize>) -> *const T {
        let at = depth.start * self.lanes + (self.first + column) * depth.len();
        self.start.wrapping_add(at)
    }

    /// Some columns, counted from the first that is multiplied: whole panels, and the last one, filled up with zeros in
    /// `memory`.
    ///
    /// # Safety
    /// The columns begin and end where panels do, and the depth is a block.
    unsafe fn part<'p>(
        &'p self,
        columns: &Range<usize>,
        depth: &Range<usize>,
        width: usize,
        memory: &'p mut Vec<T>,
    ) -> [&'p [T]; 2] {
        let start = self.start(columns.start, depth.clone());
        let narrow = columns.len() % width;
        let whole = (columns.len() - narrow) * depth.len();
        // SAFETY: the caller's.
        let (panels, rest) = unsafe {
            let all = std::slice::from_raw_parts(start, columns.len() * depth.len());
            all.split_at(whole)
        };
        let size = if narrow > 0 { width * depth.len() } else { 0 };
        let last = aligned(memory, size);
        for (to, from) in last.chunks_mut(width).zip(rest.chunks(narrow.max(1))) {
            to[..narrow].copy_from_slice(from);
            to[narrow..].fill(T::ZERO);
        }
        [panels, last]
    }
}

/// How many columns of B a panel has.
pub(super) fn panel_columns<T: Element>(set: Set, ring: Ring) -> usize {
    T::micro(set, ring.times, ring.plus, true).columns
}

/// All of B in panels, as [`Packed`] reads it.
///
/// # Safety
/// Every element may be read, and the machine has the instruction set.
pub(super) unsafe fn pack_all<T: Element>(
    set: Set,
    ring: Ring,
    b: &Matrix<*const T>,
    panels: &mut Panels<T>,
) -> Vec<T> {
    let width = panel_columns::<T>(set, ring);
    let whole = b.columns.len() / width * width;
    let mut all = Vec::with_capacity(b.rows.len() * b.columns.len());
    for depth in b.rows.chunks(DEPTH) {
        for lanes in [&b.columns[..whole], &b.columns[whole..]] {
            let width = width.min(lanes.len());
            if width > 0 {
                // SAFETY: the caller's.
                all.extend_from_slice(unsafe {
                    pack(set, b.start, lanes, depth, width, &mut panels.b)
                });
            }
        }
    }
    all
}

/// Packed blocks of the operands, kept from run to run.
#[derive(Debug, Default)]
pub(super) struct Panels<T> {
    a: Vec<T>,
    b: Vec<T>,
    /// Tiles of sums, and of what they are relative to.
    sums: Vec<T>,
    base: Vec<T>,
    /// By row of the left operand and by column of the right one.
    extremes: [Vec<T>; 2],
    few: few::Sums<T>,
}

/// C ← A ⊗ B folded with ⊕, and with what C holds unless `first`.
///
/// # Safety
/// The machine has the instruction set. Every element of the three matrices may be read, those of C
/// written, and no two places of C are the same.
pub(super) unsafe fn multiply<T: Element>(
    set: Set,
    ring: Ring,
    a: &Matrix<*const T>,
    b: &Matrix<*const T>,
    c: &Matrix<*mut T>,
    first: bool,
    panels: &mut Panels<T>,
) {
    // SAFETY: the caller's.
    unsafe { multiply_as(set, ring, a, b, None, c, first, None, panels) }
}

/// [`multiply`], with all of B or more in panels of whole columns.
///
/// # Safety
/// As of [`multiply`]; `packed` has the elements of `b`.
pub(super) unsafe fn multiply_packed<T: Element>(
    set: Set,
    ring: Ring,
    a: &Matrix<*const T>,
    (b, packed): (&Matrix<*const T>, Packed<T>),
    c: &Matrix<*mut T>,
    panels: &mut Panels<T>,
) {
    // SAFETY: the caller's.
    unsafe { multiply_as(set, ring, a, b, Some(packed), c, true, None, panels) }
}

/// What elements are before they are multiplied: e^(x − m), or e^(m − x), for a number m of each lane.
#[derive(Clone, Copy)]
pub(super) struct Power<'a, T> {
    relative_to: &'a [T],
    negated: bool,
}

/// [`multiply`], of A and B or of powers by row of A and by column of B.
///
/// # Safety
/// As of [`multiply`].
#[expect(clippy::too_many_arguments, reason = "the operands of a product")]
unsafe fn multiply_as<T: Element>(
    set: Set,
    ring: Ring,
    a: &Matrix<*const T>,
    b: &Matrix<*const T>,
    packed: Option<Packed<T>>,
    c: &Matrix<*mut T>,
    first: bool,
    powers: Option<[Power<T>; 2]>,
    panels: &mut Panels<T>,
) {
    let (m, n, k) = (a.rows.len(), b.columns.len(), a.columns.len());
    let sum = ring.plus == Plus::Sum;
    let micro = T::micro(set, ring.times, ring.plus, true);
    let careful = T::micro(set, ring.times, ring.plus, false);
    let block_rows = even(m, ROWS, micro.rows);
    let most_columns = if packed.is_some() {
        COLUMNS / 2
    } else {
        COLUMNS
    };
    let block_columns = even(n, most_columns, micro.columns);
    for jc in (0..n).step_by(block_columns) {
        let columns = jc..n.min(jc + block_columns);
        for pc in (0..k).step_by(DEPTH) {
            let depth = pc..k.min(pc + DEPTH);
            // SAFETY: the places are the matrix's, by the caller; so below.
            let [right, narrow]: [&[T]; 2] = match &packed {
                Some(packed) => unsafe {
                    packed.part(&columns, &depth, micro.columns, &mut panels.b)
                },
                None => {
                    let right = unsafe {
                        pack(
                            set,
                            b.start,
                            &b.columns[columns.clone()],
                            &b.rows[depth.clone()],
                            micro.columns,
                            &mut panels.b,
                        )
                    };
                    if let Some([_, power]) = powers {
                        T::raise(right, micro.columns, power.part(columns.clone()));
                    }
                    [right, &[]]
                }
            };
            // What is packed here and now is in the second-level cache; of the next block, all tiles fetch their shares.
            let next = packed.as_ref().map(|packed| match pc + DEPTH < k {
                true => packed.start(jc, pc + DEPTH..k.min(pc + 2 * DEPTH)),
                false => packed.start(jc + block_columns, 0..k.min(DEPTH)),
            });
            let tiles = columns.len().div_ceil(micro.columns);
            let (ahead, fetched) = match next {
                Some(start) => (
                    start,
                    columns.len().div_ceil(m.div_ceil(micro.rows) * tiles),
                ),
                None => (right.as_ptr(), 0),
            };
            let b_finite = sum || right.iter().chain(narrow).all(|x| x.is_finite());
            for ic in (0..m).step_by(block_rows) {
                let rows = ic..m.min(ic + block_rows);
                let left = unsafe {
                    pack(
                        set,
                        a.start,
                        &a.rows[rows.clone()],
                        &a.columns[depth.clone()],
                        micro.rows,
                        &mut panels.a,
                    )
                };
                if let Some([power, _]) = powers {
                    T::raise(left, micro.rows, power.part(rows.clone()));
                }
                let finite = b_finite && (sum || left.iter().all(|x| x.is_finite()));
                let block = Block {
                    micro: if finite { &micro } else { &careful },
                    plus: ring.plus,
                    depth: depth.len(),
                    left,
                    right,
                    narrow,
                    first: first && pc == 0,
                    ahead: ahead.wrapping_add(ic / micro.rows * tiles * depth.len() * fetched),
                    fetched,
                };
                unsafe {
                    block.run(&Matrix {
                        start: c.start,
                        rows: &c.rows[rows],
                        columns: &c.columns[columns.clone()],
                    });
                }
            }
        }
    }
}

impl<T> Power<'_, T> {
    fn part(self, lanes: Range<usize>) -> Self {
        Power {
            relative_to: &self.relative_to[lanes],
            ..self
        }
    }
}

/// The length of blocks of about `most`, multiples of `of`, that are as even as can be.
fn even(length: usize, most: usize, of: usize) -> usize {
    let blocks = length.div_ceil(most.next_multiple_of(of)).max(1);
    length.div_ceil(blocks).next_multiple_of(of).max(of)
}

/// Packed blocks of A and B.
struct Block<'a, T> {
    micro: &'a Micro<T>,
    plus: Plus,
    depth: usize,
    left: &'a [T],
    right: &'a [T],
    /// The panel of B that follows, if it is elsewhere.
    narrow: &'a [T],
    first: bool,
    /// What will be packed B next, of which every tile fetches so many elements per depth.
    ahead: *const T,
    fetched: usize,
}

impl<T: Element> Block<'_, T> {
    /// # Safety
    /// As of [`multiply`].
    unsafe fn run(&self, c: &Matrix<*mut T>) {
        let Micro { rows, columns, run } = *self.micro;
        let mut edge = [T::ZERO; 12 * 32];
        let all_neighbours = are_neighbours(c.columns);
        let mut ahead = self.ahead;
        let panels = self.left.chunks(self.depth * rows);
        for (left, to_rows) in panels.zip(c.rows.chunks(rows)) {
            let stride = even_step(to_rows).filter(|_| to_rows.len() == rows);
            let panels = self.right.chunks(self.depth * columns);
            let panels = panels.chain(self.narrow.chunks(self.depth * columns));
            for (right, to_columns) in panels.zip(c.columns.chunks(columns)) {
                let row =
                    to_columns.len() == columns && (all_neighbours || are_neighbours(to_columns));
                let mut tile = Tile {
                    depth: self.depth,
                    a: left.as_ptr(),
                    b: right.as_ptr(),
                    c: edge.as_mut_ptr(),
                    stride: columns as isize,
                    first: true,
                    ahead,
                    fetched: self.fetched,
                };
                ahead = ahead.wrapping_add(self.depth * self.fetched);
                if let Some(stride) = stride.filter(|_| row) {
                    // SAFETY: the places of a full tile; panels are full.
                    unsafe {
                        tile.c = c.start.offset(to_rows[0] + to_columns[0]);
                        (tile.stride, tile.first) = (stride, self.first);
                        run(&tile);
                    }
                    continue;
                }
                // SAFETY: `edge` has a full tile; the places are C's.
                unsafe {
                    run(&tile);
                    for (&r, from) in to_rows.iter().zip(edge.chunks(columns)) {
                        for (&l, &x) in to_columns.iter().zip(from) {
                            let to = c.start.offset(r + l);
                            *to = if self.first {
                                x
                            } else {
                                T::combine(self.plus, *to, x)
                            };
                        }
                    }
                }
            }
        }
    }
}

fn are_neighbours(places: &[isize]) -> bool {
    places.windows(2).all(|p| p[1] - p[0] == 1)
}

/// The step between all neighbours.
fn even_step(places: &[isize]) -> Option<isize> {
    let step = places.get(1).map_or(0, |p| p - places[0]);
    places
        .windows(2)
        .all(|p| p[1] - p[0] == step)
        .then_some(step)
}

/// The first `size` elements of a buffer, which is made large enough, that start where a line of the cache
/// does: else every load of a wide register would be of two lines.
fn aligned<T: Element>(buffer: &mut Vec<T>, size: usize) -> &mut [T] {
    let spare = LINE / size_of::<T>();
    buffer.resize(buffer.len().max(size + spare), T::ZERO);
    let skip = buffer.as_ptr().align_offset(LINE).min(spare);
    &mut buffer[skip..skip + size]
}
