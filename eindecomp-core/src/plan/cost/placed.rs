//! The cost model `placed`: elements that really change device, by counting boxes.
//!
//! A `Holding` says which box of one tensor each device has, needs or makes. Every move is what
//! one holding needs beyond another one: operands beyond the owner's tiles, partials beyond the
//! tiles of the device that made them.

use crate::ein::EinSum;
use crate::ein::access::{AccessMap, output_region};
use crate::plan::layout::{Layout, Region};

/// At most one box of a tensor per device.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Holding(Vec<Option<Region>>);

impl Holding {
    /// The tiles of a layout with at most one tile per device.
    pub fn tiles(layout: &Layout, shape: &[usize], devices: u32) -> Holding {
        Holding::collect(layout, shape, devices, |tile| tile)
    }

    /// What the tuples of a join read of an operand of extents `shape`.
    pub fn footprints(
        access: &AccessMap,
        join: &Layout,
        extents: &[usize],
        shape: &[usize],
        devices: u32,
    ) -> Holding {
        Holding::collect(join, extents, devices, |t| access.footprint(&t, shape))
    }

    /// What the tuples of a join make of the output.
    pub fn outputs(einsum: &EinSum, join: &Layout, extents: &[usize], devices: u32) -> Holding {
        let out = |t| output_region(einsum, &t, extents);
        Holding::collect(join, extents, devices, out)
    }

    fn collect(
        layout: &Layout,
        extents: &[usize],
        devices: u32,
        map: impl Fn(Region) -> Region,
    ) -> Holding {
        let mut boxes = vec![None; devices as usize];
        for (tile, device) in layout.iter(extents) {
            boxes[device as usize] = Some(map(tile)).filter(|r| !r.is_empty());
        }
        Holding(boxes)
    }

    /// Elements on all devices together.
    pub fn elements(&self) -> u128 {
        self.0.iter().flatten().map(|r| r.volume() as u128).sum()
    }

    /// Elements of `self` that `have` does not hold on the same device.
    pub fn beyond(&self, have: &Holding) -> u128 {
        let outside = |need: &Region, have: &Option<Region>| {
            let common = have.as_ref().map_or(0, |have| overlap(need, have));
            (need.volume() - common) as u128
        };
        let pairs = self.0.iter().zip(&have.0);
        pairs
            .filter_map(|(need, have)| Some(outside(need.as_ref()?, have)))
            .sum()
    }
}

/// Elements that two boxes share.
fn overlap(a: &Region, b: &Region) -> usize {
    let common =
        |(a, b): (&(usize, usize), &(usize, usize))| a.1.min(b.1).saturating_sub(a.0.max(b.0));
    a.0.iter().zip(&b.0).map(common).product()
}
