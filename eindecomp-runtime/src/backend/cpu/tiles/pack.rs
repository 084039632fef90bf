//! Packing: elements by lane and depth into panels, depth by depth, through registers.

use super::lanes::Lanes;
use super::micro::{Element, Set};
use super::{LINE, aligned, are_neighbours};

/// Panels that are filled at once from lanes that lie together: their rows, a panel's size apart, share a
/// set of the first-level cache.
const PANELS: usize = 8;
/// Depths whose elements are fetched ahead, since hardware follows no lane or depth over the end of a page.
const AHEAD: usize = 8;
/// Elements of a lane that are fetched ahead.
const AHEAD_ALONG: usize = 64;
/// Lanes of the widest register.
const WIDEST: usize = 16;

/// Some panels to fill, through registers of some instruction set.
pub(in super::super) struct Packing<'a, T> {
    /// The element of lane `i` at depth `p` lies at `lanes[i] + depth[p]` from here.
    pub(super) start: *const T,
    pub(super) lanes: &'a [isize],
    pub(super) depth: &'a [isize],
    /// Lanes of a panel.
    pub(super) width: usize,
    /// As many panels as the lanes need, with [`WIDEST`] elements to spare.
    pub(super) to: *mut T,
}

/// # Safety
/// The machine has the instruction set; the elements may be read, the panels written.
pub(in super::super) type Pack<T> = unsafe fn(&Packing<T>);

/// Copies the elements at `lanes[i] + depth[p]` into panels of `width` lanes, depth by depth; the
/// last panel is filled up with zeros.
///
/// # Safety
/// Every element may be read, and the machine has the instruction set.
pub(super) unsafe fn pack<'p, T: Element>(
    set: Set,
    start: *const T,
    lanes: &[isize],
    depth: &[isize],
    width: usize,
    into: &'p mut Vec<T>,
) -> &'p mut [T] {
    let size = lanes.len().next_multiple_of(width) * depth.len();
    let into = aligned(into, size + WIDEST);
    let packing = Packing {
        start,
        lanes,
        depth,
        width,
        to: into.as_mut_ptr(),
    };
    // SAFETY: the caller's; there is room for the panels and what is spare.
    unsafe { T::pack(set)(&packing) };
    &mut into[..size]
}

/// [`Pack`] in registers of type `V`.
#[inline(always)]
pub(super) unsafe fn panels<T: Element, V: Lanes<T>>(p: &Packing<T>) {
    let panel = p.width * p.depth.len();
    let together = are_neighbours(p.depth);
    for (n, lanes) in p.lanes.chunks(PANELS * p.width).enumerate() {
        // SAFETY: the caller's, in all that follows.
        unsafe {
            let to = p.to.add(n * PANELS * panel);
            if are_neighbours(lanes) {
                straight::<T, V>(p, lanes, to);
                continue;
            }
            let mut rest = &p.lanes[n * PANELS * p.width..];
            for (n, lanes) in lanes.chunks(p.width).enumerate() {
                let to = to.add(n * panel);
                rest = &rest[lanes.len()..];
                match () {
                    () if are_neighbours(lanes) => straight::<T, V>(p, lanes, to),
                    () if together => turned::<T, V>(p, lanes, rest, to),
                    () => one_by_one(p, lanes, 0, to),
                }
            }
        }
    }
}

/// Panels of lanes that are neighbours.
#[inline(always)]
unsafe fn straight<T: Element, V: Lanes<T>>(p: &Packing<T>, lanes: &[isize], to: *mut T) {
    let panel = p.width * p.depth.len();
    for (d, &depth) in p.depth.iter().enumerate() {
        let last = d + 1 == p.depth.len();
        // SAFETY: the caller's; what is fetched need not be there.
        unsafe {
            let from = p.start.offset(lanes[0]);
            if let Some(&ahead) = p.depth.get(d + AHEAD) {
                for line in (0..lanes.len()).step_by(LINE / size_of::<T>()) {
                    V::prefetch(from.wrapping_offset(ahead).wrapping_add(line));
                }
            }
            let (from, to) = (from.offset(depth), to.add(d * p.width));
            rows::<T, V>(from, lanes.len(), p.width, panel, last, to);
        }
    }
}

/// The neighbours of one depth, as a row of each panel. But for the `last` one, what follows a row is
/// written later.
#[inline(always)]
unsafe fn rows<T: Element, V: Lanes<T>>(
    from: *const T,
    count: usize,
    width: usize,
    panel: usize,
    last: bool,
    to: *mut T,
) {
    // SAFETY: the caller's.
    unsafe {
        for n in 0..count / width {
            let there = count - n * width;
            let whole = match !last && width.next_multiple_of(V::LANES) <= there {
                true => width,
                false => width / V::LANES * V::LANES,
            };
            let (from, to) = (from.add(n * width), to.add(n * panel));
            for i in (0..whole).step_by(V::LANES) {
                V::load(from.add(i)).store(to.add(i));
            }
            for i in whole..width {
                *to.add(i) = *from.add(i);
            }
        }
        let (first, rest) = (count / width * width, count % width);
        let (from, to) = (from.add(first), to.add(count / width * panel));
        if rest > 0 {
            for i in 0..width {
                *to.add(i) = if i < rest { *from.add(i) } else { T::ZERO };
            }
        }
    }
}

/// A panel of lanes that are neighbours along the depth, in squares that are transposed in registers.
///
/// A register may be wider than what is left of a row of the panel: then it is stored before what
/// follows, and what lies after the last row is written by whoever fills the next panel, or spare.
/// `next`: the lanes of the panels that follow.
#[inline(always)]
unsafe fn turned<T: Element, V: Lanes<T>>(
    p: &Packing<T>,
    lanes: &[isize],
    next: &[isize],
    to: *mut T,
) {
    let zeros = [T::ZERO; WIDEST];
    let whole = p.depth.len() / V::LANES * V::LANES;
    // SAFETY: the caller's.
    unsafe {
        for d in (0..whole).step_by(V::LANES) {
            for group in (0..p.width).step_by(V::LANES).rev() {
                let mut square = [V::splat(T::ZERO); WIDEST];
                for (i, row) in square[..V::LANES].iter_mut().enumerate() {
                    let (soon, at) = match d + AHEAD_ALONG < whole {
                        true => (lanes, d + AHEAD_ALONG),
                        false => (next, (d + AHEAD_ALONG).saturating_sub(whole).min(whole - 1)),
                    };
                    if let Some(lane) = soon.get(group + i) {
                        V::prefetch(p.start.wrapping_offset(lane + p.depth[at]));
                    }
                    *row = V::load(match lanes.get(group + i).filter(|_| group + i < p.width) {
                        Some(&lane) => p.start.offset(lane + p.depth[d]),
                        None => zeros.as_ptr(),
                    });
                }
                V::transpose(&mut square);
                for (i, column) in square[..V::LANES].iter().enumerate() {
                    column.store(to.add((d + i) * p.width + group));
                }
            }
        }
        one_by_one(p, lanes, whole, to);
    }
}

/// A panel from depth `from` on.
#[inline(always)]
unsafe fn one_by_one<T: Element>(p: &Packing<T>, lanes: &[isize], from: usize, to: *mut T) {
    // SAFETY: the caller's.
    unsafe {
        for (d, &depth) in p.depth.iter().enumerate().skip(from) {
            let to = to.add(d * p.width);
            for i in 0..p.width {
                *to.add(i) = lanes
                    .get(i)
                    .map_or(T::ZERO, |lane| *p.start.offset(lane + depth));
            }
        }
    }
}
