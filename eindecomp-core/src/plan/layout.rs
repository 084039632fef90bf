//! Boxes, tiles and layouts: which part of a tensor (or of an iteration space) is on which device.

use std::fmt;
use std::sync::Arc;

use super::NodePlan;
use crate::quick::Table;

/// A box: a half-open range per axis. The box of a rank-0 tensor is one element.
#[derive(
    Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, serde::Serialize, serde::Deserialize,
)]
pub struct Region(pub Vec<(usize, usize)>);

impl Region {
    /// The whole of a tensor.
    pub fn whole(shape: &[usize]) -> Region {
        Region(shape.iter().map(|&n| (0, n)).collect())
    }

    /// Extents.
    pub fn shape(&self) -> Vec<usize> {
        self.0.iter().map(|&(lo, hi)| hi - lo).collect()
    }

    /// Number of elements.
    pub fn volume(&self) -> usize {
        self.0.iter().map(|&(lo, hi)| hi - lo).product()
    }

    /// Has it no element?
    pub fn is_empty(&self) -> bool {
        self.0.iter().any(|&(lo, hi)| lo >= hi)
    }

    /// Is every element of `other` in it?
    pub fn contains(&self, other: &Region) -> bool {
        other.is_empty()
            || self
                .0
                .iter()
                .zip(&other.0)
                .all(|(a, b)| a.0 <= b.0 && b.1 <= a.1)
    }

    /// The common box, if there is one.
    pub fn intersect(&self, other: &Region) -> Option<Region> {
        let common = Region(
            self.0
                .iter()
                .zip(&other.0)
                .map(|(a, b)| (a.0.max(b.0), a.1.min(b.1)))
                .collect(),
        );
        (!common.is_empty()).then_some(common)
    }

    /// Number of common elements.
    pub fn common(&self, other: &Region) -> usize {
        (self.0.iter().zip(&other.0))
            .map(|(a, b)| a.1.min(b.1).saturating_sub(a.0.max(b.0)))
            .product()
    }

    /// What of it is outside `other`, as disjoint boxes in a fixed order.
    pub fn subtract(&self, other: &Region) -> Vec<Region> {
        let Some(common) = self.intersect(other) else {
            return if self.is_empty() {
                Vec::new()
            } else {
                vec![self.clone()]
            };
        };
        let (mut rest, mut out) = (self.clone(), Vec::new());
        for axis in 0..rest.0.len() {
            let (lo, hi) = rest.0[axis];
            let (a, b) = common.0[axis];
            for (from, to) in [(lo, a), (b, hi)] {
                if from < to {
                    let mut piece = rest.clone();
                    piece.0[axis] = (from, to);
                    out.push(piece);
                }
            }
            rest.0[axis] = (a, b);
        }
        out
    }
}

/// `[0..4, 8..16]`
impl fmt::Display for Region {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[")?;
        for (i, (lo, hi)) in self.0.iter().enumerate() {
            write!(f, "{}{lo}..{hi}", if i > 0 { ", " } else { "" })?;
        }
        f.write_str("]")
    }
}

/// Tile `k` of an axis of `extent` elements in `parts` parts: `[⌈k·b/d⌉, ⌈(k+1)·b/d⌉)`, which
/// nests whenever one number of parts divides the other.
pub fn tile_range(extent: usize, parts: u32, k: u32) -> (usize, usize) {
    let at = |k: u32| (k as usize * extent).div_ceil(parts as usize);
    (at(k), at(k + 1))
}

/// Tiles of a tensor, or of an iteration space, and the device of each.
#[derive(Clone, Debug, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
pub struct Layout {
    /// Parts per axis (or per label): the partition vector.
    pub parts: Vec<u32>,
    /// The device of every tile, row-major over keys.
    pub devices: Vec<u32>,
}

impl Layout {
    /// With each tile cut further, in `parts` parts per axis in all: multiples of those of now. What it is cut in
    /// stays on its device.
    #[cfg(feature = "planner")]
    pub(crate) fn cut(&self, parts: &[u32]) -> Layout {
        let mut fine = Layout {
            parts: parts.to_vec(),
            devices: Vec::new(),
        };
        let device = |n| {
            let cuts = parts.iter().zip(&self.parts).map(|(fine, d)| fine / d);
            let key: Vec<u32> = (fine.key(n).iter().zip(cuts).map(|(k, c)| k / c)).collect();
            self.devices[self.number(&key)]
        };
        fine.devices = (0..fine.tiles()).map(device).collect();
        fine
    }

    /// One tile, on device 0.
    pub fn single(rank: usize) -> Layout {
        Layout {
            parts: vec![1; rank],
            devices: vec![0],
        }
    }

    /// Number of tiles.
    pub fn tiles(&self) -> usize {
        self.parts.iter().map(|&d| d as usize).product()
    }

    /// Key of tile number `n` (row-major).
    pub fn key(&self, mut n: usize) -> Vec<u32> {
        let mut key = vec![0; self.parts.len()];
        for (k, &d) in key.iter_mut().zip(&self.parts).rev() {
            *k = (n % d as usize) as u32;
            n /= d as usize;
        }
        key
    }

    /// Number of the tile with that key.
    pub fn number(&self, key: &[u32]) -> usize {
        key.iter()
            .zip(&self.parts)
            .fold(0, |n, (&k, &d)| n * d as usize + k as usize)
    }

    /// The box of a tile in a space of extents `shape`.
    pub fn region(&self, key: &[u32], shape: &[usize]) -> Region {
        Region(
            key.iter()
                .zip(&self.parts)
                .zip(shape)
                .map(|((&k, &d), &b)| tile_range(b, d, k))
                .collect(),
        )
    }

    /// Every tile: its box and device, in key order.
    pub fn iter<'a>(&'a self, shape: &'a [usize]) -> impl Iterator<Item = (Region, u32)> + 'a {
        (0..self.tiles()).map(move |n| (self.region(&self.key(n), shape), self.devices[n]))
    }
}

/// The layouts of a plan by number: equal numbers, equal layouts.
pub(crate) struct Numbered {
    /// Per node: of its join.
    pub joins: Vec<Option<u32>>,
    /// Per node: of its owners.
    pub owners: Vec<Option<u32>>,
}

impl Numbered {
    /// Of the nodes of a plan: as many as of its graph.
    pub fn of(nodes: &[NodePlan]) -> Numbered {
        let (mut shared, mut known) = (Table::default(), Table::<&Layout, u32>::default());
        let (mut joins, mut owners) = (Vec::new(), Vec::new());
        for node in nodes {
            for (layout, numbers) in [(&node.join, &mut joins), (&node.owner, &mut owners)] {
                let number = |layout| {
                    *shared.entry(Arc::as_ptr(layout)).or_insert_with(|| {
                        let next = known.len() as u32;
                        *known.entry(layout).or_insert(next)
                    })
                };
                numbers.push(layout.as_ref().map(number));
            }
        }
        Numbered { joins, owners }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tiles_nest_and_cover() {
        let cut = |d| (0..d).map(|k| tile_range(10, d, k)).collect::<Vec<_>>();
        assert_eq!(cut(3), [(0, 4), (4, 7), (7, 10)]);
        assert_eq!(cut(6), [(0, 2), (2, 4), (4, 5), (5, 7), (7, 9), (9, 10)]);
        assert_eq!(cut(1), [(0, 10)]);
    }

    #[test]
    fn subtraction_is_disjoint_and_complete() {
        let (a, b) = (Region(vec![(0, 4), (0, 4)]), Region(vec![(1, 3), (2, 6)]));
        let rest = a.subtract(&b);
        assert_eq!(rest.iter().map(Region::volume).sum::<usize>(), 12);
        for (i, x) in rest.iter().enumerate() {
            assert!(rest[i + 1..].iter().all(|y| x.intersect(y).is_none()));
            assert!(x.intersect(&b).is_none());
        }
        let scalar = Region(vec![]);
        assert_eq!((scalar.volume(), scalar.subtract(&scalar)), (1, vec![]));
    }
}
