//! Device axes and the layouts that they span.
//!
//! The devices are a grid with one axis per prime factor of their number; a device's number is
//! the mixed radix of its digits, the first axis most significant. An *assignment* gives each
//! label the axes that split it, the first one slowest; axes given to no label are released.

use crate::plan::cost::placed::Holding;
use crate::plan::layout::{Layout, Region, tile_range};
use crate::plan::partition::Room;

/// The axes that split each label, slowest first.
type Assignment = Vec<Vec<usize>>;

/// Which assignments are enumerated: the choice bounds the size of the search.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Orders {
    /// Every assignment, axes of one label in every order.
    All,
    /// Every assignment, axes of one label in ascending order.
    Ascending,
    /// One assignment per partition vector: labels in order take the first free axes.
    Canonical,
}

/// The axes of a grid of devices.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Axes(Vec<u32>);

impl Axes {
    /// The prime factors of a number of devices, ascending.
    pub fn of(mut devices: u32) -> Axes {
        let (mut primes, mut f) = (Vec::new(), 2);
        while devices > 1 {
            while devices.is_multiple_of(f) {
                primes.push(f);
                devices /= f;
            }
            f += 1;
        }
        Axes(primes)
    }

    /// Number of assignments of all axes under `orders` when `labels` labels have room enough.
    pub fn count(&self, labels: usize, orders: Orders) -> u64 {
        let n = self.0.len() as u64;
        let k = labels.max(1) as u64;
        let rising = |n: u64| (0..n).fold(1u64, |x, i| x.saturating_mul(k + i));
        match orders {
            Orders::All => rising(n),
            Orders::Ascending => (0..n).fold(1u64, |x, _| x.saturating_mul(k)),
            Orders::Canonical => {
                let choose = |m: u64| rising(m) / (1..=m).product::<u64>().max(1);
                let mut left = self.0.as_slice();
                let mut total = 1u64;
                while let Some(&prime) = left.first() {
                    let equal = left.iter().take_while(|&&q| q == prime).count();
                    total = total.saturating_mul(choose(equal as u64));
                    left = &left[equal..];
                }
                total
            }
        }
    }

    fn digits(&self, mut device: u32) -> Vec<u32> {
        let mut digits = vec![0; self.0.len()];
        for (digit, &radix) in digits.iter_mut().zip(&self.0).rev() {
            *digit = device % radix;
            device /= radix;
        }
        digits
    }

    fn device(&self, digits: &[u32]) -> u32 {
        let step = |n, (&digit, &radix): (&u32, &u32)| n * radix + digit;
        digits.iter().zip(&self.0).fold(0, step)
    }

    /// Number of devices of the grid.
    fn devices(&self) -> u32 {
        self.0.iter().product()
    }

    /// Assignments of all axes (`released` 0), or of all but exactly that many.
    fn assignments(&self, room: &Room, released: usize, orders: Orders) -> Vec<Assignment> {
        let mut out = Vec::new();
        let labels = room.most.len();
        if orders == Orders::Canonical {
            self.canonical(room, released, &mut out);
        } else {
            let mut search = Search {
                axes: &self.0,
                room,
                orders,
                parts: vec![1; labels],
                assignment: vec![Vec::new(); labels],
                out: &mut out,
            };
            search.go(0, released);
        }
        out
    }

    fn canonical(&self, room: &Room, released: usize, out: &mut Vec<Assignment>) {
        let total = self.devices();
        for n in (1..=total).filter(|n| total.is_multiple_of(*n)) {
            if Axes::of(n).0.len() + released != self.0.len() {
                continue;
            }
            room.vectors(n, &mut |d| {
                let mut free = vec![true; self.0.len()];
                let mut take = |parts: &u32| {
                    let mut axes: Vec<usize> = Vec::new();
                    for prime in Axes::of(*parts).0 {
                        let axis = (0..free.len()).find(|&a| free[a] && self.0[a] == prime);
                        axes.extend(axis.inspect(|&a| free[a] = false));
                    }
                    axes
                };
                out.push(d.iter().map(&mut take).collect());
                true
            });
        }
    }

    fn parts(&self, assignment: &Assignment) -> Vec<u32> {
        let parts = |axes: &Vec<usize>| axes.iter().map(|&a| self.0[a]).product();
        assignment.iter().map(parts).collect()
    }

    fn key(&self, assignment: &Assignment, digits: &[u32]) -> Vec<u32> {
        let key = |axes: &Vec<usize>| axes.iter().fold(0, |k, &a| k * self.0[a] + digits[a]);
        assignment.iter().map(key).collect()
    }

    /// The layout of an assignment; released axes stay at digit 0.
    fn layout(&self, assignment: &Assignment) -> Layout {
        let mut layout = Layout {
            parts: self.parts(assignment),
            devices: Vec::new(),
        };
        let tile = |n: usize| {
            let mut digits = vec![0; self.0.len()];
            for (axes, mut k) in assignment.iter().zip(layout.key(n)) {
                for &a in axes.iter().rev() {
                    digits[a] = k % self.0[a];
                    k /= self.0[a];
                }
            }
            self.device(&digits)
        };
        layout.devices = (0..layout.tiles()).map(tile).collect();
        layout
    }

    /// Replicas of a tensor: released axes repeat.
    fn replicas(&self, assignment: &Assignment, shape: &[usize], devices: u32) -> Holding {
        let parts = self.parts(assignment);
        let region = |device| {
            let key = self.key(assignment, &self.digits(device));
            let ranges = shape.iter().zip(&parts).zip(key);
            Region(ranges.map(|((&n, &d), k)| tile_range(n, d, k)).collect())
        };
        let boxes = (0..devices).map(|device| {
            (device < self.devices())
                .then(|| region(device))
                .filter(|r| !r.is_empty())
        });
        Holding::from_boxes(boxes.collect())
    }
}

struct Search<'a> {
    axes: &'a [u32],
    room: &'a Room,
    orders: Orders,
    parts: Vec<u32>,
    assignment: Assignment,
    out: &'a mut Vec<Assignment>,
}

impl Search<'_> {
    fn go(&mut self, axis: usize, release: usize) {
        let left = self.axes.len() - axis;
        if left == 0 {
            if self.room.complete(&self.parts) {
                self.out.push(self.assignment.clone());
            }
            return;
        }
        if left > release {
            for label in 0..self.parts.len() {
                let parts = self.parts[label] * self.axes[axis];
                if !self.room.fits(label, parts) {
                    continue;
                }
                self.parts[label] = parts;
                let end = self.assignment[label].len();
                let start = if self.orders == Orders::All { 0 } else { end };
                for at in (start..=end).rev() {
                    self.assignment[label].insert(at, axis);
                    self.go(axis + 1, release);
                    self.assignment[label].remove(at);
                }
                self.parts[label] /= self.axes[axis];
            }
        }
        if release > 0 {
            self.go(axis + 1, release - 1);
        }
    }
}

/// Layouts of a join with as many tuples as fit, one per device; `None` if the pins fit no vector.
pub(crate) fn joins(devices: u32, room: &Room, orders: Orders) -> Option<Vec<Layout>> {
    let axes = Axes::of(room.tuples(devices)?);
    let all = axes.assignments(room, 0, orders);
    Some(all.iter().map(|a| axes.layout(a)).collect())
}

/// Balanced layouts of a tensor's single copy: over as many devices as fit, and, where not all
/// axes fit, those that leave as few axes as possible at digit 0.
pub(crate) fn owners(devices: u32, shape: &[usize], orders: Orders) -> Vec<Layout> {
    let (room, axes) = (Room::of(shape), Axes::of(devices));
    let mut out = joins(devices, &room, orders).unwrap_or_default();
    if out.first().is_none_or(|l| l.tiles() < devices as usize) {
        let kept = (0..=axes.0.len())
            .map(|released| axes.assignments(&room, released, orders))
            .find(|found| !found.is_empty());
        for layout in kept.iter().flatten().map(|a| axes.layout(a)) {
            if !out.contains(&layout) {
                out.push(layout);
            }
        }
    }
    out
}

/// What replicas of a tensor may be: its tiles with any subset of the axes released.
pub(crate) fn replicas(devices: u32, shape: &[usize], orders: Orders) -> Vec<Holding> {
    let (room, axes) = (Room::of(shape), Axes::of(devices));
    let mut out: Vec<Holding> = Vec::new();
    let mut seen = std::collections::HashSet::new();
    for released in 0..=axes.0.len() {
        for a in axes.assignments(&room, released, orders) {
            let holding = axes.replicas(&a, shape, devices);
            if seen.insert(holding.clone()) {
                out.push(holding);
            }
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_layout_has_one_tile_per_device() {
        for devices in 1..=12 {
            for orders in [Orders::All, Orders::Ascending, Orders::Canonical] {
                for layout in joins(devices, &Room::of(&[16, 13, 2]), orders).unwrap() {
                    let mut used = layout.devices.clone();
                    used.sort();
                    assert_eq!(used, (0..devices).collect::<Vec<_>>());
                }
            }
        }
    }

    #[test]
    fn counts_are_those_of_the_formulas() {
        for devices in [2, 4, 6, 8, 12] {
            for orders in [Orders::All, Orders::Ascending, Orders::Canonical] {
                let found = joins(devices, &Room::of(&[64, 64, 64]), orders).unwrap();
                let count = Axes::of(devices).count(3, orders);
                assert_eq!(found.len() as u64, count, "{devices} {orders:?}");
            }
        }
    }

    #[test]
    fn small_extents_use_as_many_devices_as_fit() {
        let tuples = |devices, shape: &[usize]| Room::of(shape).tuples(devices);
        assert_eq!(tuples(7, &[2, 4]), Some(6));
        assert_eq!(tuples(8, &[3]), Some(3));
        assert_eq!(tuples(8, &[]), Some(1));
        assert_eq!(tuples(5, &[0, 9]), Some(5));
        let owners = owners(8, &[3], Orders::All);
        let parts: Vec<u32> = owners.iter().map(|l| l.parts[0]).collect();
        assert_eq!(parts, [3, 2, 2, 2]);
    }

    #[test]
    fn pins_are_kept() {
        let room = |n| Room {
            most: vec![8, 8],
            exact: vec![Some(n), None],
        };
        let parts = |p, n| {
            let all = joins(p, &room(n), Orders::All)?;
            Some(all.into_iter().map(|l| l.parts).collect::<Vec<_>>())
        };
        assert!(parts(8, 4).unwrap().iter().all(|d| d == &[4, 2]));
        assert_eq!(parts(4, 3), Some(vec![vec![3, 1]]));
        assert_eq!(parts(2, 4), None);
    }
}
