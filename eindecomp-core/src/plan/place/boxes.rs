//! What devices have or need, box by box: the counts where splits are uneven.

use crate::ein::einsum::Part;
use crate::plan::Hierarchy;
use crate::plan::layout::Region;

/// At most one box per device.
#[derive(Clone, Debug)]
pub(super) struct Boxes(Vec<Option<Vec<(usize, usize)>>>);

impl Boxes {
    pub fn of(tiles: Vec<Option<Region>>, map: impl Fn(Region) -> Region) -> Boxes {
        Boxes(tiles.into_iter().map(|t| t.map(|t| map(t).0)).collect())
    }

    /// Elements that enter a server, which `have` holds on none of its devices.
    pub fn entering(&self, have: &Boxes, on: Hierarchy) -> u128 {
        let of = |boxes: &Boxes, server: u32| -> Vec<Region> {
            let all = boxes
                .0
                .iter()
                .zip(0u32..)
                .filter(|(_, d)| on.server(*d) == server);
            let mut all: Vec<Region> = all.filter_map(|(b, _)| Some(Region(b.clone()?))).collect();
            all.sort();
            all.dedup();
            all
        };
        let entering = |server| {
            let (mut held, mut entering) = (of(have, server), 0u128);
            for need in of(self, server) {
                let mut rest = vec![need.clone()];
                for h in &held {
                    rest = rest.iter().flat_map(|r| r.subtract(h)).collect();
                }
                entering += rest.iter().map(|r| r.volume() as u128).sum::<u128>();
                held.push(need);
            }
            entering
        };
        (0..on.servers).map(entering).sum()
    }

    /// Elements of a part of partial results whose owner in `have` is on another server.
    pub fn sent(&self, have: &Boxes, part: &Part, on: Hierarchy) -> u128 {
        let boxes = |b: &Boxes| -> Vec<(u32, Region)> {
            let all = (0u32..).zip(&b.0);
            all.filter_map(|(d, b)| Some((on.server(d), Region(b.clone()?))))
                .collect()
        };
        let (made, owned) = (boxes(self), boxes(have));
        let pairs = made.iter().flat_map(|m| owned.iter().map(move |o| (m, o)));
        let far = pairs.filter(|(m, o)| m.0 != o.0);
        let common = far.filter_map(|(m, o)| m.1.intersect(&o.1));
        common.map(|r| part.region(&r).volume() as u128).sum()
    }

    /// Elements of a part that both have on the same device.
    pub fn common(&self, other: &Boxes, part: &Part) -> u128 {
        let mut all = 0u128;
        for (a, b) in self.0.iter().zip(&other.0) {
            let (Some(a), Some(b)) = (a, b) else { continue };
            let mut elements = 1u128;
            for ((a, b), &carried) in a.iter().zip(b).zip(&part.axes) {
                let common = a.1.min(b.1).saturating_sub(a.0.max(b.0));
                elements *= if carried { common } else { common.min(1) } as u128;
            }
            all += elements;
        }
        all
    }
}
