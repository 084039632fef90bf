//! What one edge costs: bytes that the needs of one variable lack beyond what another one has.
//!
//! A [`Kind`] says how needs follow from a space (what tuples read, what they make, the tiles of a
//! copy). Bytes = what is needed by all devices together − what is needed where it is. The first
//! term follows from the vectors; the second one is
//! * bounded, whatever the devices ([`Kind::bound`]): a tile on one device has at best the
//!   largest common box of any two tiles. With tiles of equal size that is the closed form
//!   p·N/∏max(d_need, d_have);
//! * exact, given the axes ([`Kind::exact`]): that, divided by one prime per independent equation
//!   between digits (the i-th axes of a label, where both have one), if the splits are even; else
//!   boxes are counted.
//!
//! Between servers it is the same with servers in the place of devices, whose boxes are all those of
//! their devices, and with the axes that tell servers apart: what a server's devices need enters it
//! once. Partial results are one by one, so that those of a device count, but owners by server. A
//! bound forgets servers: a byte between them only costs more.

use std::cell::OnceCell;

use super::boxes::Boxes;
use super::spread::{Grid, Level, Spread, Vector};
use crate::ein::access::{AccessMap, AxisAccess};
use crate::ein::einsum::Part;
use crate::plan::Hierarchy;
use crate::plan::layout::{Region, tile_range};
use crate::quick::classes;

/// A kind of edge: equal ones have equal tables.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Kind {
    /// What a tile of the space needs of the tensor.
    pub access: AccessMap,
    /// Extents of the space.
    pub extents: Vec<usize>,
    /// Extents of the tensor.
    pub shape: Vec<usize>,
    /// What an element consists of where it is needed once.
    pub once: Vec<Part>,
    /// The same where several devices make it; empty if each has one of its own.
    pub folded: Vec<Part>,
}

/// A need whose splits are even.
struct Even<'a> {
    need: &'a Spread,
    /// Of the axes of its grid.
    radices: Vec<u32>,
    /// How many of these tell servers apart.
    servers: usize,
    /// Per axis of the tensor: the label that cuts it.
    splits: Vec<Option<usize>>,
    /// Does a label cut two axes?
    twice: bool,
    /// Of an element.
    bytes: u128,
}

/// Does every device of the grid have a tile?
fn is_everywhere(v: &Vector) -> bool {
    v.repeats || v.tiles() == v.grid.devices()
}

/// Cost of a pair of vectors, in bytes.
#[derive(Clone, Copy, Debug, Default)]
struct Pair {
    /// If nothing were where it is needed.
    whole: u128,
    /// Most that can be where it is needed.
    near: u128,
}

impl Kind {
    /// Per label of the space: does it decide what is needed?
    pub fn seen(&self) -> Vec<bool> {
        let mut seen = vec![false; self.extents.len()];
        for l in self.access.axes.iter().flat_map(AxisAccess::labels) {
            seen[l] = true;
        }
        seen
    }

    /// Row-major over needs and haves: the least bytes that any devices for the tiles allow.
    pub fn bound(&self, needs: &[Vector], haves: &[Vector]) -> Vec<u64> {
        let pair = |p: Pair| saturate(p.whole - p.near);
        self.pairs(needs, haves).into_iter().map(pair).collect()
    }

    /// Most bytes of a pair that the choice of devices can save.
    pub fn stake(&self, need: &Vector, have: &Vector) -> u64 {
        let pairs = self.pairs(std::slice::from_ref(need), std::slice::from_ref(have));
        saturate(pairs[0].near)
    }

    /// Row-major over needs and haves: bytes, those between servers times their weight.
    pub fn exact(&self, needs: &[Spread], haves: &[Spread], on: Hierarchy) -> Vec<u64> {
        let vectors = |all: &[Spread]| all.iter().map(|s| s.vector.clone()).collect::<Vec<_>>();
        let pairs = self.pairs(&vectors(needs), &vectors(haves));
        let boxes: Vec<OnceCell<Boxes>> = vec![OnceCell::new(); needs.len()];
        let tiles: Vec<OnceCell<Boxes>> = vec![OnceCell::new(); haves.len()];
        let boxed = |n: usize, h: usize| {
            let read = |t: Region| self.access.footprint(&t, &self.shape);
            let need = boxes[n].get_or_init(|| Boxes::of(needs[n].tiles(&self.extents), read));
            let have = tiles[h].get_or_init(|| Boxes::of(haves[h].tiles(&self.shape), |t| t));
            (need, have)
        };
        let more = match on.servers {
            1 => 0,
            _ => u128::from(on.weight) - 1,
        };
        let mut out = Vec::with_capacity(pairs.len());
        for (n, need) in needs.iter().enumerate() {
            let parts = self.parts(&need.vector);
            let partial = self.partial(&need.vector);
            let bytes = |count: &dyn Fn(&Part) -> u128| {
                let of = |p: &Part| count(p) * p.dtype.size() as u128;
                parts.iter().map(of).sum::<u128>()
            };
            let even = self.evenly(need);
            let closed = |level, have| self.closed(even.as_ref()?, level, have);
            // a grid of more than a server that fills none of them evenly has no axis for these
            let aligned = need.vector.grid.is_aligned(on);
            let level = match partial {
                true => Level::Device,
                false => Level::Server,
            };
            let all = closed(level, None);
            for (h, have) in haves.iter().enumerate() {
                let near = closed(Level::Device, Some((have, Level::Device)));
                let near = near.unwrap_or_else(|| {
                    let (need, have) = boxed(n, h);
                    bytes(&|p| need.common(have, p))
                });
                let mut cost = pairs[n * haves.len() + h].whole - near;
                if more > 0 && cost > 0 {
                    let near = closed(level, Some((have, Level::Server))).filter(|_| aligned);
                    let far = all.zip(near).map(|(all, near)| all - near);
                    cost += more
                        * far.unwrap_or_else(|| {
                            let (need, have) = boxed(n, h);
                            match partial {
                                true => bytes(&|p| need.sent(have, p, on)),
                                false => bytes(&|_| need.entering(have, on)),
                            }
                        });
                }
                out.push(saturate(cost));
            }
        }
        out
    }

    /// Per need: bytes that all devices need together.
    pub fn needed(&self, needs: &[Vector]) -> Vec<u64> {
        let anywhere = Vector {
            parts: vec![1; self.shape.len()],
            grid: Grid::first(1, 1.into()),
            repeats: false,
        };
        let pairs = self.pairs(needs, &[anywhere]);
        pairs.into_iter().map(|p| saturate(p.whole)).collect()
    }

    /// Are they partial results, of which each device has one of its own?
    fn partial(&self, need: &Vector) -> bool {
        need.copies() > 1 && !self.folded.is_empty()
    }

    fn parts(&self, need: &Vector) -> &[Part] {
        match self.partial(need) {
            true => &self.folded,
            false => &self.once,
        }
    }

    /// The need, if all its splits are even and it is on every device.
    fn evenly<'a>(&self, need: &'a Spread) -> Option<Even<'a>> {
        let grid = need.vector.grid;
        if !is_everywhere(&need.vector) {
            return None;
        }
        let mut splits = Vec::with_capacity(self.shape.len());
        let mut twice = false;
        for (access, &extent) in self.access.axes.iter().zip(&self.shape) {
            let (_, split) = self.even(access, extent, &need.vector)?;
            let cut = split.filter(|&l| !need.axes[l].is_empty());
            twice |= cut.is_some() && splits.contains(&cut);
            splits.push(cut);
        }
        let bytes = |p: &Part| match p.axes.contains(&false) {
            true => None,
            false => Some(p.dtype.size() as u128),
        };
        let parts = self.parts(&need.vector).iter();
        Some(Even {
            need,
            radices: grid.radices(),
            servers: grid.axes(Level::Server),
            splits,
            twice,
            bytes: parts.map(bytes).sum::<Option<u128>>()?,
        })
    }

    /// Bytes that are where they are needed (if there is no `have`: that are needed), summed over the
    /// places of the need's level, if all splits are even and digits correspond.
    fn closed(&self, even: &Even, level: Level, have: Option<(&Spread, Level)>) -> Option<u128> {
        let (need, radices) = (even.need, &even.radices[..]);
        let grid = need.vector.grid;
        if have.is_some_and(|(have, _)| have.vector.grid != grid || !is_everywhere(&have.vector)) {
            return None;
        }
        // the boxes of a server's devices are then no box, nor all points with some digits
        if level == Level::Server && even.twice {
            return None;
        }
        let counts = |level: Level| match level {
            Level::Device => radices.len(),
            Level::Server => even.servers,
        };
        // as many axes as a number of devices can have
        let mut roots: [u8; 32] = std::array::from_fn(|a| a as u8);
        fn root(roots: &[u8], mut a: u8) -> u8 {
            while roots[a as usize] != a {
                a = roots[a as usize];
            }
            a
        }
        let mut places = grid.places(level);
        let needs = counts(level);
        let holds = counts(have.map_or(level, |h| h.1));
        let mut elements = 1u128;
        for (axis, (split, &extent)) in even.splits.iter().zip(&self.shape).enumerate() {
            let own = split.map_or(&[][..], |l| &need.axes[l]);
            let theirs = have.map_or(&[][..], |(have, _)| &have.axes[axis]);
            let parts: u32 = theirs.iter().map(|&a| radices[a as usize]).product();
            if !extent.is_multiple_of(parts as usize) {
                return None;
            }
            let mut cut = 1usize;
            for i in 0..own.len().max(theirs.len()) {
                let (a, b) = (own.get(i), theirs.get(i));
                if a.zip(b)
                    .is_some_and(|(&a, &b)| radices[a as usize] != radices[b as usize])
                {
                    return None;
                }
                let (a, b) = (
                    a.filter(|a| usize::from(**a) < needs),
                    b.filter(|b| usize::from(**b) < holds),
                );
                if let Some(&either) = a.or(b) {
                    cut *= radices[either as usize] as usize;
                }
                if let (Some(&a), Some(&b)) = (a, b) {
                    let (a, b) = (root(&roots, a), root(&roots, b));
                    if a != b {
                        roots[a as usize] = b;
                        places /= radices[a as usize];
                    }
                }
            }
            elements *= (extent / cut) as u128;
        }
        Some(u128::from(places) * elements * even.bytes)
    }

    /// Parts of an axis that is read in even parts, and the label that splits it.
    fn even(
        &self,
        access: &AxisAccess,
        extent: usize,
        need: &Vector,
    ) -> Option<(u32, Option<usize>)> {
        if let AxisAccess::Bare(l) = access {
            let parts = need.parts[l.at()];
            // an index may run over a part of the axis only
            let even = self.extents[l.at()] == extent && extent.is_multiple_of(parts as usize);
            return even.then_some((parts, Some(l.at())));
        }
        let whole = access.labels().all(|l| need.parts[l] == 1);
        let (lo, hi) = interval(access, &Region::whole(&self.extents), extent);
        (whole && (lo, hi) == (0, extent)).then_some((1, None))
    }

    /// Row-major over needs and haves. Axes that share no label are independent, so that sums over
    /// tiles are products over groups of axes.
    fn pairs(&self, needs: &[Vector], haves: &[Vector]) -> Vec<Pair> {
        let mut out = vec![Pair::default(); needs.len() * haves.len()];
        for (folded, parts) in [(false, &self.once), (true, &self.folded)] {
            let rows: Vec<usize> = (0..needs.len())
                .filter(|&n| folded == (!self.folded.is_empty() && needs[n].copies() > 1))
                .collect();
            if rows.is_empty() {
                continue;
            }
            for part in parts {
                let size = part.dtype.size() as u128;
                let groups: Vec<Group> = groups(&self.access)
                    .into_iter()
                    .map(|g| Group::count(self, part, g, &rows, needs, haves))
                    .collect();
                for (row, &n) in rows.iter().enumerate() {
                    let copies = u128::from(needs[n].copies());
                    for (h, have) in haves.iter().enumerate() {
                        let (mut whole, mut near) = (copies, copies);
                        let mut far = u128::from(have.copies());
                        for g in &groups {
                            let c =
                                &g.counts[g.rows[row] as usize * g.width + g.columns[h] as usize];
                            whole *= c.whole;
                            near *= c.near;
                            far *= c.far;
                        }
                        let pair = &mut out[n * haves.len() + h];
                        pair.whole += whole * size;
                        pair.near += near.min(far) * size;
                    }
                }
            }
        }
        out
    }
}

/// Sums over the tiles of a group of axes, in elements of a part.
#[derive(Clone, Copy, Debug)]
struct Count {
    /// Over pairs of a needed and a held tile: what they have in common.
    whole: u128,
    /// Over needed tiles: most that a held one has in common with it.
    near: u128,
    /// Over held tiles: most that a needed one has in common with it.
    far: u128,
}

/// The counts of a group of axes for every pair of classes of vectors.
struct Group {
    /// Per need, its class; per have, its class.
    rows: Vec<u32>,
    columns: Vec<u32>,
    width: usize,
    counts: Vec<Count>,
}

impl Group {
    fn count(
        kind: &Kind,
        part: &Part,
        (labels, axes): (Vec<usize>, Vec<usize>),
        rows: &[usize],
        needs: &[Vector],
        haves: &[Vector],
    ) -> Group {
        let pick = |v: &Vector, at: &[usize]| at.iter().map(|&i| v.parts[i]).collect::<Vec<_>>();
        let (rows, needs) = classes(rows.iter().map(|&n| pick(&needs[n], &labels)));
        let (columns, haves) = classes(haves.iter().map(|v| pick(v, &axes)));
        let mut counts = Vec::with_capacity(needs.len() * haves.len());
        for need in &needs {
            let tiles = needed(kind, &labels, &axes, need);
            counts.extend(
                haves
                    .iter()
                    .map(|have| common(kind, part, &axes, &tiles, have)),
            );
        }
        Group {
            rows,
            columns,
            width: haves.len(),
            counts,
        }
    }
}

/// Axes that have labels in common, directly or through other axes, with their labels.
fn groups(access: &AccessMap) -> Vec<(Vec<usize>, Vec<usize>)> {
    let mut groups: Vec<(Vec<usize>, Vec<usize>)> = Vec::new();
    for (axis, of) in access.axes.iter().enumerate() {
        let of: Vec<usize> = of.labels().collect();
        let (mut labels, mut axes) = (of.clone(), vec![axis]);
        groups.retain_mut(|(more, with)| {
            let apart = more.iter().all(|l| !of.contains(l));
            if !apart {
                labels.extend(more.iter().filter(|l| !of.contains(l)));
                axes.append(with);
            }
            apart
        });
        groups.push((labels, axes));
    }
    groups
}

fn interval(access: &AxisAccess, tile: &Region, extent: usize) -> (usize, usize) {
    let map = AccessMap {
        axes: vec![access.clone()],
    };
    map.footprint(tile, &[extent]).0[0]
}

/// Per tile of `labels` in `parts`: the interval of each axis.
fn needed(
    kind: &Kind,
    labels: &[usize],
    axes: &[usize],
    parts: &[u32],
) -> Vec<Vec<(usize, usize)>> {
    let mut tiles = vec![Region::whole(&kind.extents)];
    for (&l, &parts) in labels.iter().zip(parts) {
        let cut = |tile: &Region, k| {
            let mut tile = tile.clone();
            tile.0[l] = tile_range(kind.extents[l], parts, k);
            tile
        };
        tiles = (tiles.iter())
            .flat_map(|t| (0..parts).map(move |k| cut(t, k)))
            .collect();
    }
    let of = |tile: &Region| {
        let axis = |&a: &usize| interval(&kind.access.axes[a], tile, kind.shape[a]);
        axes.iter().map(axis).collect()
    };
    tiles.iter().map(of).collect()
}

fn common(
    kind: &Kind,
    part: &Part,
    axes: &[usize],
    needed: &[Vec<(usize, usize)>],
    parts: &[u32],
) -> Count {
    // the tiles of an axis that an interval overlaps, with what they have in common
    let overlaps = |at: usize, (lo, hi): (usize, usize)| {
        let (extent, parts) = (kind.shape[axes[at]], parts[at]);
        let carried = part.axes[axes[at]];
        // ⌈k·b/d⌉ ≤ x iff k ≤ x·d/b
        let tile = move |x: usize| (x * parts as usize / extent) as u32;
        let keys = if lo < hi {
            tile(lo)..tile(hi - 1) + 1
        } else {
            0..0
        };
        keys.filter_map(move |k| {
            let (a, b) = tile_range(extent, parts, k);
            let common = b.min(hi).saturating_sub(a.max(lo)) as u128;
            (common > 0).then_some((k, if carried { common } else { 1 }))
        })
    };
    let mut count = Count {
        whole: 0,
        near: 0,
        far: 0,
    };
    let held: usize = parts.iter().map(|&d| d as usize).product();
    let mut most = vec![0u128; held];
    for tile in needed {
        let mut found = vec![(0usize, 1u128)];
        for (at, &range) in tile.iter().enumerate() {
            found = (found.iter())
                .flat_map(|&(n, x)| {
                    let step = parts[at] as usize;
                    overlaps(at, range).map(move |(k, y)| (n * step + k as usize, x * y))
                })
                .collect();
        }
        count.whole += found.iter().map(|f| f.1).sum::<u128>();
        count.near += found.iter().map(|f| f.1).max().unwrap_or(0);
        for (n, x) in found {
            most[n] = most[n].max(x);
        }
    }
    count.far = most.into_iter().sum();
    count
}

pub(super) fn saturate(n: u128) -> u64 {
    u64::try_from(n).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::spread::{joins, owners, replicas};
    use super::*;
    use crate::ein::{DType, LabelId};
    use crate::plan::Constraints;
    use crate::plan::room::Room;

    fn kind(access: Vec<AxisAccess>, extents: &[usize], shape: &[usize]) -> Kind {
        Kind {
            access: AccessMap { axes: access },
            extents: extents.to_vec(),
            shape: shape.to_vec(),
            once: vec![Part {
                dtype: DType::F32,
                axes: vec![true; shape.len()],
            }],
            folded: Vec::new(),
        }
    }

    fn bare(l: u16) -> AxisAccess {
        AxisAccess::Bare(LabelId(l))
    }

    /// Device by device; what enters servers point by point.
    fn literal(kind: &Kind, need: &Spread, have: &Spread, on: Hierarchy) -> u64 {
        let read = |t: Region| kind.access.footprint(&t, &kind.shape);
        let needs: Vec<_> = (need.tiles(&kind.extents).into_iter())
            .map(|t| t.map(read).filter(|n| !n.is_empty()))
            .collect();
        let haves = have.tiles(&kind.shape);
        let lacks = |(device, need): (usize, &Option<Region>)| {
            let have = haves.get(device).and_then(Option::as_ref);
            let need = need.as_ref()?;
            let common = have.and_then(|h| need.intersect(h));
            Some(need.volume() - common.map_or(0, |c| c.volume()))
        };
        let moved: usize = needs.iter().enumerate().filter_map(lacks).sum();
        let mut entering = 0;
        for server in (0..on.servers).filter(|_| on.servers > 1) {
            let here = |boxes: &[Option<Region>]| -> Vec<Region> {
                let all = boxes.iter().zip(0u32..);
                let all = all.filter(|(_, d)| on.server(*d) == server);
                all.filter_map(|(b, _)| b.clone()).collect()
            };
            let (needs, haves) = (here(&needs), here(&haves));
            let points = kind
                .shape
                .iter()
                .fold(vec![vec![]], |all: Vec<Vec<usize>>, &n| {
                    let longer = |p: &Vec<usize>| {
                        let p = p.clone();
                        (0..n).map(move |x| [p.clone(), vec![x]].concat())
                    };
                    all.iter().flat_map(longer).collect()
                });
            let has = |all: &[Region], point: &[usize]| {
                let inside =
                    |r: &Region| r.0.iter().zip(point).all(|(r, x)| (r.0..r.1).contains(x));
                all.iter().any(inside)
            };
            let enters = |p: &&Vec<usize>| has(&needs, p) && !has(&haves, p);
            entering += points.iter().filter(enters).count();
        }
        4 * (moved as u64 + (u64::from(on.weight) - 1) * entering as u64)
    }

    fn pick<T: Clone>(all: &[T], at: usize) -> T {
        all[at % all.len()].clone()
    }

    proptest! {
        #[test]
        fn costs_are_counted_boxes_and_bounds_are_below(
            devices in prop::sample::select(vec![1u32, 2, 3, 4, 6, 8, 12, 16, 24]),
            servers in prop::sample::select(vec![1u32, 2, 3, 4]),
            extents in prop::sample::select(vec![[16usize, 16, 16], [24, 8, 48], [6, 5, 9], [1, 4, 3]]),
            reads in 0usize..4,
            repeats: bool,
            dice: [usize; 4],
        ) {
            let [i, j, k] = extents;
            let window = AxisAccess::Affine {
                terms: vec![(LabelId(0), 1), (LabelId(2), 1)],
                offset: -1,
            };
            let kind = match reads {
                0 => kind(vec![bare(0), bare(1)], &extents, &[i, j]),
                1 => kind(vec![bare(2), bare(1), bare(0)], &extents, &[k, j, i]),
                2 => kind(vec![bare(1), bare(1)], &extents, &[j, j]),
                _ => kind(vec![window, AxisAccess::Data], &extents, &[i, k]),
            };
            let on = match devices.is_multiple_of(servers) {
                true => Hierarchy { servers, per_server: devices / servers, weight: 5 },
                false => devices.into(),
            };
            let all = {
                let room = Room::of_tensor(&extents, Constraints::default());
                let of = room.blocks(devices, Constraints::default()).unwrap();
                joins(on, &room, of)
            };
            let need = pick(&pick(&all, dice[0]).spreads(), dice[1]).seen(&kind.seen());
            let own = owners(on, &kind.shape, Constraints::default());
            let all = if repeats { replicas(on, &kind.shape, &own) } else { own };
            let have = pick(&pick(&all, dice[2]).spreads(), dice[3]);
            let cost = kind.exact(std::slice::from_ref(&need), std::slice::from_ref(&have), on);
            prop_assert_eq!(cost[0], literal(&kind, &need, &have, on));
            let bound = kind.bound(std::slice::from_ref(&need.vector), std::slice::from_ref(&have.vector));
            prop_assert!(bound[0] <= cost[0]);
            // the closed form alone: even splits by binary axes always have one
            if reads < 2 && devices.is_power_of_two() && extents[0] == 16 {
                prop_assert!(kind.evenly(&need).is_some_and(|even| kind.closed(&even, Level::Device, Some((&have, Level::Device))).is_some()) || need.vector.grid.devices() < devices);
            }
        }
    }

    #[test]
    fn the_bound_of_even_splits_is_its_closed_form() {
        let kind = kind(vec![bare(0), bare(1)], &[16, 16, 16], &[16, 16]);
        let vector = |parts: &[u32]| Vector {
            parts: parts.to_vec(),
            grid: Grid::first(8, 8.into()),
            repeats: false,
        };
        let cost = |need: &[u32], have: &[u32]| {
            kind.bound(&[vector(need).seen(&kind.seen())], &[vector(have)])[0]
        };
        // N (p/∏d_need − p/∏max), 4 bytes each
        assert_eq!(cost(&[2, 4, 1], &[2, 4]), 0);
        assert_eq!(cost(&[4, 2, 1], &[2, 4]), 4 * 256 - 4 * 256 * 8 / 16);
        assert_eq!(cost(&[2, 2, 2], &[8, 1]), 4 * 256 * 2 - 4 * 256 * 8 / 16);
        assert_eq!(cost(&[1, 1, 8], &[8, 1]), 4 * 256 * 8 - 4 * 256);
    }
}
