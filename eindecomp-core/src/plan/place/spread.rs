//! Values of the search: how a space is cut ([`Vector`]) and which devices get the parts
//! ([`Spread`]).
//!
//! The devices are a grid with one axis per prime factor of their number, those of the number of
//! servers before those of a server's devices; a device's number is the mixed radix of its digits,
//! the first axis most significant, so that the first axes say which server it is on. A spread gives each label the
//! axes that split it, the first one slowest. Axes given to no label are released: tiles repeat
//! over them, or stay at digit 0.

use crate::plan::layout::{Layout, Region, tile_range};
use crate::plan::room::{Blocks, Room};
use crate::plan::{Constraints, Hierarchy};

/// The first devices of a cluster: whole servers, or any other number, as if they were of one server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Grid {
    servers: u32,
    per_server: u32,
}

impl Grid {
    /// The first so many devices; whole servers if they fill these.
    pub fn first(devices: u32, on: Hierarchy) -> Grid {
        match devices.is_multiple_of(on.per_server) {
            true => Grid {
                servers: devices / on.per_server,
                per_server: on.per_server,
            },
            false => Grid {
                servers: 1,
                per_server: devices,
            },
        }
    }

    /// Do its axes tell the servers of a cluster apart?
    pub fn is_aligned(self, on: Hierarchy) -> bool {
        self.per_server <= on.per_server
    }

    /// Number of devices.
    pub fn devices(self) -> u32 {
        self.servers * self.per_server
    }

    /// The radix of each axis.
    pub fn radices(self) -> Vec<u32> {
        [primes(self.servers), primes(self.per_server)].concat()
    }

    /// How many devices there are in all, or servers.
    pub fn places(self, level: Level) -> u32 {
        match level {
            Level::Device => self.devices(),
            Level::Server => self.servers,
        }
    }

    /// How many of the axes, from the first, tell places of a level apart.
    pub fn axes(self, level: Level) -> usize {
        match level {
            Level::Device => primes(self.servers).len() + primes(self.per_server).len(),
            Level::Server => primes(self.servers).len(),
        }
    }
}

/// What is at one place: on a device, or on any device of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Level {
    Device,
    Server,
}

/// The number of parts per label (or tensor axis), over the devices of a grid.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Vector {
    /// Parts per label.
    pub parts: Vec<u32>,
    /// The grid.
    pub grid: Grid,
    /// Does every device of the grid have a tile? Else there is one of each.
    pub repeats: bool,
}

/// A vector, and the axes that split each label, slowest first.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Spread {
    pub vector: Vector,
    pub axes: Vec<Vec<u8>>,
}

/// Prime factors, ascending.
fn primes(mut n: u32) -> Vec<u32> {
    let (mut primes, mut f) = (Vec::new(), 2);
    while n > 1 {
        while n.is_multiple_of(f) {
            primes.push(f);
            n /= f;
        }
        f += 1;
    }
    primes
}

impl Vector {
    /// One device of the grid for each tile.
    fn over(grid: Grid, parts: &[u32]) -> Vector {
        Vector {
            parts: parts.to_vec(),
            grid,
            repeats: false,
        }
    }

    /// Number of different tiles.
    pub fn tiles(&self) -> u32 {
        self.parts.iter().product()
    }

    /// Number of devices that have each tile.
    pub fn copies(&self) -> u32 {
        match self.repeats {
            true => self.grid.devices() / self.tiles(),
            false => 1,
        }
    }

    /// What is seen of it through some of its labels: each device of a join has a tuple, so the
    /// axes of the other labels repeat what is seen.
    pub fn seen(&self, labels: &[bool]) -> Vector {
        let keep = |(&d, &seen): (&u32, &bool)| if seen { d } else { 1 };
        Vector {
            parts: self.parts.iter().zip(labels).map(keep).collect(),
            grid: self.grid,
            repeats: self.repeats || labels.contains(&false),
        }
    }

    /// As a vector over the axes of a tensor, each cut by one label or by none.
    pub fn through(&self, cuts: &[Option<usize>]) -> Vector {
        Vector {
            parts: cuts
                .iter()
                .map(|c| c.map_or(1, |l| self.parts[l]))
                .collect(),
            ..*self
        }
    }

    /// Every assignment of axes to labels, in a fixed order.
    pub fn spreads(&self) -> Vec<Spread> {
        struct Search<'a> {
            radices: &'a [u32],
            used: Vec<bool>,
            axes: Vec<Vec<u8>>,
            vector: &'a Vector,
            out: Vec<Spread>,
        }
        impl Search<'_> {
            fn go(&mut self, label: usize, left: u32) {
                if left > 1 {
                    for a in 0..self.radices.len() {
                        if !self.used[a] && left.is_multiple_of(self.radices[a]) {
                            self.used[a] = true;
                            self.axes[label].push(a as u8);
                            self.go(label, left / self.radices[a]);
                            self.axes[label].pop();
                            self.used[a] = false;
                        }
                    }
                } else if let Some(&next) = self.vector.parts.get(label + 1) {
                    self.go(label + 1, next);
                } else {
                    self.out.push(Spread {
                        vector: self.vector.clone(),
                        axes: self.axes.clone(),
                    });
                }
            }
        }
        let radices = self.grid.radices();
        let mut search = Search {
            used: vec![false; radices.len()],
            radices: &radices,
            axes: vec![Vec::new(); self.parts.len()],
            vector: self,
            out: Vec::new(),
        };
        search.go(0, self.parts.first().copied().unwrap_or(1));
        search.out
    }

    /// Number of assignments of axes to labels.
    pub fn count(&self) -> u64 {
        let mut left: Vec<(u32, u64)> = Vec::new();
        for q in self.grid.radices() {
            match left.iter_mut().find(|(p, _)| *p == q) {
                Some((_, n)) => *n += 1,
                None => left.push((q, 1)),
            }
        }
        let mut total = 1u64;
        for &d in &self.parts {
            // orders of the primes of one label, times the choice of an axis for each
            let primes = primes(d);
            let mut orders: u64 = (1..=primes.len() as u64).product();
            for (q, free) in &mut left {
                let wanted = primes.iter().filter(|p| *p == q).count() as u64;
                orders /= (1..=wanted).product::<u64>();
                for _ in 0..wanted {
                    total = total.saturating_mul(*free);
                    *free = free.saturating_sub(1);
                }
            }
            total = total.saturating_mul(orders);
        }
        total
    }

    /// The spread that puts the tiles, row-major, on these devices, if there is one.
    pub fn on(&self, devices: &[u32]) -> Option<Spread> {
        let radices = self.grid.radices();
        let mut steps = vec![1u32; radices.len()];
        for a in (1..radices.len()).rev() {
            steps[a - 1] = steps[a] * radices[a];
        }
        let numbers = Layout {
            parts: self.parts.clone(),
            devices: Vec::new(),
        };
        let mut axes = vec![Vec::new(); self.parts.len()];
        for (label, axes) in axes.iter_mut().enumerate() {
            let (mut key, mut left) = (vec![0; self.parts.len()], self.parts[label]);
            key[label] = 1;
            // the tiles one step of an axis away from the first one, fastest axis first
            while left > 1 {
                let step = *devices.get(numbers.number(&key))?;
                let a = steps.iter().position(|s| *s == step)?;
                left = (left.is_multiple_of(radices[a])).then(|| left / radices[a])?;
                key[label] *= radices[a];
                axes.insert(0, a as u8);
            }
        }
        let vector = self.clone();
        let spread = Spread { vector, axes };
        (spread.layout().devices == devices).then_some(spread)
    }

    /// Spreads that differ in who has which axes, labels or, as one more of them, what is released: one has the axes between
    /// servers, slower or faster than its others; of the axes within servers one takes the slowest, a second one the next,
    /// then the others in order.
    pub fn turns(&self, on: Hierarchy) -> Vec<Spread> {
        let far = match on.servers > 1 && self.grid.is_aligned(on) {
            true => self.grid.axes(Level::Server),
            false => 0,
        };
        let mut parts = self.parts.clone();
        parts.push(self.grid.devices() / self.tiles());
        let takers: Vec<usize> = (0..parts.len()).filter(|&l| parts[l] > 1).collect();
        let mut all = Vec::new();
        for &first in &takers {
            for &second in takers.iter().filter(|&&l| l != first || takers.len() == 1) {
                let others = takers
                    .iter()
                    .copied()
                    .filter(|&l| l != first && l != second);
                let order: Vec<usize> = [first, second].into_iter().chain(others).collect();
                let mut add = |outer, far, last| {
                    let spread = self.in_order(&parts, &order, (outer, far), last);
                    if !all.contains(&spread) {
                        all.push(spread);
                    }
                };
                add(first, 0, false);
                for &outer in takers.iter().filter(|_| far > 0) {
                    add(outer, far, false);
                    add(outer, far, true);
                }
            }
        }
        if all.is_empty() {
            all.push(self.aligned(&[]));
        }
        all
    }

    /// The first `far` axes to `outer`, the others in order, then what is left of the first ones; if `last`, those of `outer` come after
    /// its others.
    fn in_order(
        &self,
        parts: &[u32],
        order: &[usize],
        (outer, far): (usize, usize),
        last: bool,
    ) -> Spread {
        let radices = self.grid.radices();
        let mut used = vec![false; radices.len()];
        let mut left = parts.to_vec();
        let mut axes = vec![Vec::new(); parts.len()];
        let mut take = |l: usize, among: std::ops::Range<usize>| {
            let mut taken = Vec::new();
            for a in among {
                if !used[a] && left[l] > 1 && left[l].is_multiple_of(radices[a]) {
                    used[a] = true;
                    left[l] /= radices[a];
                    taken.push(a as u8);
                }
            }
            taken
        };
        let outermost = take(outer, 0..far);
        for among in [far..radices.len(), 0..far] {
            for &l in order {
                axes[l].extend(take(l, among.clone()));
            }
        }
        let at = if last { axes[outer].len() } else { 0 };
        axes[outer].splice(at..at, outermost);
        axes.pop();
        Spread {
            vector: self.clone(),
            axes,
        }
    }

    /// The spread that fulfils as many wishes as it can, the first ones first: that a label's
    /// slowest axes be these. What is left takes the first free axes.
    pub fn aligned(&self, wishes: &[(usize, &[u8])]) -> Spread {
        let radices = self.grid.radices();
        let mut used = vec![false; radices.len()];
        let mut left = self.parts.clone();
        let empty = |&d: &u32| vec![None; primes(d).len()];
        let mut slots: Vec<Vec<Option<u8>>> = self.parts.iter().map(empty).collect();
        let mut take = |slot: &mut Option<u8>, left: &mut u32, a: u8| {
            let radix = radices[a as usize];
            let free = slot.is_none() && !used[a as usize] && left.is_multiple_of(radix);
            if free {
                *slot = Some(a);
                used[a as usize] = true;
                *left /= radix;
            }
            free
        };
        for &(label, axes) in wishes {
            for (slot, &a) in slots[label].iter_mut().zip(axes) {
                take(slot, &mut left[label], a);
            }
        }
        for (slots, left) in slots.iter_mut().zip(&mut left) {
            for slot in slots.iter_mut() {
                (0..radices.len() as u8).find(|&a| take(slot, left, a));
            }
        }
        Spread {
            vector: self.clone(),
            axes: (slots.into_iter())
                .map(|s| s.into_iter().flatten().collect())
                .collect(),
        }
    }
}

impl Spread {
    /// As [`Vector::seen`].
    pub fn seen(&self, labels: &[bool]) -> Spread {
        let keep = |(axes, &seen): (&Vec<u8>, &bool)| if seen { axes.clone() } else { Vec::new() };
        Spread {
            vector: self.vector.seen(labels),
            axes: self.axes.iter().zip(labels).map(keep).collect(),
        }
    }

    /// As [`Vector::through`].
    pub fn through(&self, cuts: &[Option<usize>]) -> Spread {
        let axes = |c: &Option<usize>| c.map_or(Vec::new(), |l| self.axes[l].clone());
        Spread {
            vector: self.vector.through(cuts),
            axes: cuts.iter().map(axes).collect(),
        }
    }

    /// Per device of the grid, the key of its tile, if it has one.
    pub fn keys(&self) -> Vec<Option<Vec<u32>>> {
        let radices = self.vector.grid.radices();
        let mut free = vec![true; radices.len()];
        for &a in self.axes.iter().flatten() {
            free[a as usize] = false;
        }
        let mut digits = vec![0; radices.len()];
        let key = |device: u32| {
            let mut rest = device;
            for (digit, &radix) in digits.iter_mut().zip(&radices).rev() {
                *digit = rest % radix;
                rest /= radix;
            }
            let first = free.iter().zip(&digits).all(|(&free, &d)| !free || d == 0);
            let step = |k: u32, &a: &u8| k * radices[a as usize] + digits[a as usize];
            let key = |axes: &Vec<u8>| axes.iter().fold(0, step);
            (self.vector.repeats || first).then(|| self.axes.iter().map(key).collect())
        };
        (0..self.vector.grid.devices()).map(key).collect()
    }

    /// Per device of the grid, its tile of a space of extents `extents`.
    pub fn tiles(&self, extents: &[usize]) -> Vec<Option<Region>> {
        let tile = |key: Vec<u32>| {
            let ranges = extents.iter().zip(&self.vector.parts).zip(key);
            Region(ranges.map(|((&n, &d), k)| tile_range(n, d, k)).collect())
        };
        self.keys().into_iter().map(|k| k.map(tile)).collect()
    }

    /// As a layout of one tile per key.
    pub fn layout(&self) -> Layout {
        let mut layout = Layout {
            parts: self.vector.parts.clone(),
            devices: vec![0; self.vector.tiles() as usize],
        };
        for (device, key) in self.keys().iter().enumerate() {
            if let Some(key) = key {
                let tile = layout.number(key);
                layout.devices[tile] = device as u32;
            }
        }
        layout
    }
}

/// Vectors of a join's blocks, one per device.
pub(super) fn joins(on: Hierarchy, room: &Room, of: Blocks) -> Vec<Vector> {
    let mut out = Vec::new();
    room.each_block(of, &mut |d| {
        out.push(Vector::over(Grid::first(of.count, on), d));
        true
    });
    out
}

/// Balanced vectors of a tensor's single copy: over as many devices as fit, and, where not all
/// axes fit, those that leave as few axes as possible at digit 0.
pub(super) fn owners(on: Hierarchy, shape: &[usize], constraints: Constraints) -> Vec<Vector> {
    let (room, devices) = (Room::of_tensor(shape, constraints), on.devices());
    let grid = Grid::first(devices, on);
    let tiles = room.tuples(devices).unwrap_or(1);
    let mut out = vectors(&room, tiles, Grid::first(tiles, on), false);
    if out.first().is_none_or(|v| v.grid != grid) {
        let all = primes(devices).len();
        let released = |released: usize| {
            let of = divisors(devices).filter(move |&n| primes(n).len() + released == all);
            of.flat_map(|n| vectors(&room, n, grid, false))
                .collect::<Vec<_>>()
        };
        let kept = (0..=all).map(released).find(|found| !found.is_empty());
        out.extend(kept.into_iter().flatten());
    }
    out
}

/// The vector of an owner that is pinned to these parts, if so many tiles can be the devices' tiles.
pub(super) fn owner(on: Hierarchy, parts: &[u32]) -> Option<Vector> {
    let tiles = parts.iter().try_fold(1u32, |n, &d| n.checked_mul(d))?;
    if !(1..=on.devices()).contains(&tiles) {
        return None;
    }
    let devices = match on.devices().is_multiple_of(tiles) {
        true => on.devices(),
        false => tiles,
    };
    Some(Vector::over(Grid::first(devices, on), parts))
}

/// What replicas of a tensor may be: its tiles with any subset of the axes released, or the
/// owner's tiles alone.
pub(super) fn replicas(on: Hierarchy, shape: &[usize], owners: &[Vector]) -> Vec<Vector> {
    // what a device holds beside its own may be cut as finely as any owner
    let (room, devices) = (Room::of_tensor(shape, Constraints::default()), on.devices());
    let grid = Grid::first(devices, on);
    let repeated = divisors(devices).rev();
    let mut out: Vec<Vector> = repeated
        .flat_map(|n| vectors(&room, n, grid, true))
        .collect();
    let full = |v: &&Vector| v.grid == grid && v.tiles() == devices;
    out.extend(owners.iter().filter(|v| !full(v)).cloned());
    out
}

fn divisors(n: u32) -> impl DoubleEndedIterator<Item = u32> {
    (1..=n).filter(move |d| n.is_multiple_of(*d))
}

fn vectors(room: &Room, tiles: u32, grid: Grid, repeats: bool) -> Vec<Vector> {
    let mut out = Vec::new();
    room.vectors(tiles, &mut |d| {
        out.push(Vector {
            repeats,
            ..Vector::over(grid, d)
        });
        true
    });
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn room(shape: &[usize]) -> Room {
        Room::of_tensor(shape, Constraints::default())
    }

    fn owned(devices: u32, shape: &[usize]) -> Vec<Vector> {
        owners(devices.into(), shape, Constraints::default())
    }

    fn joined(on: Hierarchy, room: &Room) -> Option<Vec<Vector>> {
        let of = room.blocks(on.devices(), Constraints::default())?;
        Some(joins(on, room, of))
    }

    #[test]
    fn every_layout_has_one_tile_per_device() {
        for devices in 1..=12 {
            for vector in joined(devices.into(), &room(&[16, 13, 2])).unwrap() {
                let all = vector.spreads();
                assert_eq!(all.len() as u64, vector.count(), "{vector:?}");
                for spread in all {
                    let mut used = spread.layout().devices;
                    assert_eq!(vector.on(&used), Some(spread));
                    used.sort();
                    assert_eq!(used, (0..devices).collect::<Vec<_>>());
                }
            }
        }
    }

    #[test]
    fn replicas_release_axes() {
        let all = replicas(4.into(), &[4, 4], &owned(4, &[4, 4]));
        let parts: Vec<&[u32]> = all.iter().map(|v| &v.parts[..]).collect();
        let expected: [&[u32]; 6] = [&[1, 4], &[2, 2], &[4, 1], &[1, 2], &[2, 1], &[1, 1]];
        assert_eq!(parts, expected);
        assert_eq!(all[3].copies(), 2);
        assert_eq!(all[3].count(), 2);
    }

    #[test]
    fn small_extents_use_as_many_devices_as_fit() {
        let tuples = |devices, shape: &[usize]| room(shape).tuples(devices);
        assert_eq!(tuples(7, &[2, 4]), Some(6));
        assert_eq!(tuples(8, &[3]), Some(3));
        assert_eq!(tuples(8, &[]), Some(1));
        assert_eq!(tuples(5, &[0, 9]), Some(5));
        let owners = owned(8, &[3]);
        let parts: Vec<(u32, u32)> = owners
            .iter()
            .map(|v| (v.parts[0], v.grid.devices()))
            .collect();
        assert_eq!(parts, [(3, 3), (2, 8)]);
    }

    #[test]
    fn pins_are_kept() {
        let room = |n| Room {
            most: vec![8, 8],
            exact: vec![Some(n), None],
        };
        let parts = |p, n| {
            let all = joined(Hierarchy::flat(p), &room(n))?;
            Some(all.into_iter().map(|v| v.parts).collect::<Vec<_>>())
        };
        assert_eq!(parts(8, 4), Some(vec![vec![4, 2]]));
        assert_eq!(parts(4, 3), Some(vec![vec![3, 1]]));
        assert_eq!(parts(2, 4), None);
    }

    #[test]
    fn the_first_axes_are_those_of_servers() {
        let on = Hierarchy {
            servers: 3,
            per_server: 4,
            weight: 5,
        };
        let grid = Grid::first(12, on);
        assert_eq!(grid.radices(), [3, 2, 2]);
        assert_eq!(
            (grid.axes(Level::Server), grid.places(Level::Server)),
            (1, 3)
        );
        assert_eq!(Grid::first(8, on).radices(), [2, 2, 2]);
        // six devices do not fill two servers
        assert_eq!(Grid::first(6, on).axes(Level::Server), 0);
        for vector in joined(on, &room(&[24, 24])).unwrap() {
            assert_eq!(vector.spreads().len() as u64, vector.count(), "{vector:?}");
            for spread in vector.spreads().iter().filter(|s| s.axes[0] == [0]) {
                let first = spread.keys().into_iter().flatten().map(|k| k[0]);
                let servers = (0..12).map(|d| on.server(d));
                assert!(first.eq(servers), "{spread:?}");
            }
        }
    }

    #[test]
    fn wishes_are_fulfilled_in_order() {
        let vector = Vector {
            parts: vec![4, 2, 1],
            grid: Grid::first(8, 8.into()),
            repeats: false,
        };
        let aligned = |wishes: &[(usize, &[u8])]| vector.aligned(wishes).axes;
        assert_eq!(aligned(&[]), [vec![0, 1], vec![2], vec![]]);
        assert_eq!(aligned(&[(0, &[2, 0])]), [vec![2, 0], vec![1], vec![]]);
        // the second label's wish for axis 2 comes too late; a third label has no room
        let late = aligned(&[(0, &[2]), (1, &[2]), (2, &[0])]);
        assert_eq!(late, [vec![2, 0], vec![1], vec![]]);
    }
}
