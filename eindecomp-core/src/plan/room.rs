//! What the partition vectors of a vertex or tensor must respect, and every way to respect it.

use std::sync::Arc;

use super::constraints::Constraints;
use crate::ein::EinSum;
use crate::ein::access::{inner_labels, splittable};
use crate::graph::{Node, Pin};

/// What a split must respect.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Room {
    /// Most parts of each label: its extent in tiles as small as may be, or 1 if it may not be split.
    pub most: Vec<u32>,
    /// Parts that a pin demands.
    pub exact: Vec<Option<u32>>,
}

impl Room {
    /// Every axis of a tensor may be split.
    #[cfg(feature = "planner")]
    pub fn of_tensor(shape: &[usize], constraints: Constraints) -> Room {
        let most: Vec<u32> = shape.iter().map(|&n| most(n, constraints)).collect();
        Room {
            exact: vec![None; most.len()],
            most,
        }
    }

    /// Of an EinSum's labels, over `devices` devices. A label that a merged axis steps over is
    /// whole, unless a pin splits it, where tiles of one value of the slower label are too many.
    ///
    /// # Errors
    /// The name in a pin that no label has.
    pub fn of_vertex(
        node: &Node,
        e: &EinSum,
        extents: &[usize],
        devices: u32,
        constraints: Constraints,
    ) -> Result<Room, Arc<str>> {
        let may = splittable(e);
        let most = |(&n, &may): (&usize, &bool)| if may { most(n, constraints) } else { 1 };
        let mut room = Room {
            most: extents.iter().zip(&may).map(most).collect(),
            exact: vec![None; extents.len()],
        };
        for pin in &node.pins {
            match pin {
                Pin::Whole => room.most.fill(1),
                Pin::Split(name, parts) => {
                    let label = e.labels.iter().position(|l| l.name == *name);
                    let label = label.ok_or_else(|| name.clone())?;
                    room.exact[label] = Some(*parts);
                }
                Pin::Owner { .. } => {}
            }
        }
        for (inner, outer) in inner_labels(e, extents) {
            if extents[outer.at()] > devices as usize && room.exact[inner.at()].is_none() {
                room.most[inner.at()] = 1;
            }
        }
        Ok(room)
    }

    /// Does a vector that fits keep every pin?
    pub fn complete(&self, parts: &[u32]) -> bool {
        let pinned = |(&d, e): (&u32, &Option<u32>)| e.is_none_or(|n| n == d);
        parts.iter().zip(&self.exact).all(pinned)
    }

    /// The largest number of tuples, at most `limit`, that some partition vector has.
    pub fn tuples(&self, limit: u32) -> Option<u32> {
        (1..=limit)
            .rev()
            .find(|&n| gives_any(|f| self.vectors(n, f)))
    }

    /// Calls `f` with every partition vector of `n` tuples, in lexicographic order, until it
    /// returns false.
    pub fn vectors(&self, n: u32, f: &mut dyn FnMut(&[u32]) -> bool) {
        /// `divisors` are those of the number of tuples, ascending.
        fn go(
            room: &Room,
            divisors: &[u32],
            d: &mut Vec<u32>,
            left: u32,
            f: &mut dyn FnMut(&[u32]) -> bool,
        ) -> bool {
            let label = d.len();
            if label == room.most.len() {
                return left != 1 || !room.complete(d) || f(d);
            }
            let most = room.most[label].min(left);
            let small = divisors.iter().copied().take_while(|&parts| parts <= most);
            for parts in small.filter(|p| left.is_multiple_of(*p)) {
                if room.exact[label].is_none_or(|n| n == parts) {
                    d.push(parts);
                    let more = go(room, divisors, d, left / parts, f);
                    d.pop();
                    if !more {
                        return false;
                    }
                }
            }
            true
        }
        let divisors: Vec<u32> = (1..=n).filter(|d| n.is_multiple_of(*d)).collect();
        go(self, &divisors, &mut Vec::new(), n, f);
    }
}

/// The blocks of a join, one per device, and the calls that each is cut in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Blocks {
    /// Number of blocks.
    pub count: u32,
    /// Calls per block.
    pub calls: u32,
}

impl Room {
    /// As many blocks as fit on `devices` devices, and then as many calls as fit and `constraints` ask for;
    /// `None` if the pins fit none.
    pub fn blocks(&self, devices: u32, constraints: Constraints) -> Option<Blocks> {
        let wanted = constraints.calls(devices);
        let parts = self.most.iter().zip(&self.exact);
        let room = parts.fold(1u32, |n, (&m, e)| n.saturating_mul(m.max(e.unwrap_or(1))));
        if wanted == devices {
            let count = self.tuples(devices)?;
            return Some(Blocks { count, calls: 1 });
        }
        for count in (1..=devices).rev() {
            // no device gets more than ⌈N/p⌉ of N calls
            let even = |calls: &u32| {
                let [calls, count, devices] = [*calls, count, devices].map(u64::from);
                calls * count > (calls - 1) * devices
            };
            for calls in (1..=wanted.min(room) / count).rev().filter(even) {
                let of = Blocks { count, calls };
                if gives_any(|f| self.each_block(of, f)) {
                    return Some(of);
                }
            }
        }
        None
    }

    /// Calls `f` with the vector of every way to make blocks that can be cut in their calls, in lexicographic
    /// order, until it returns false.
    pub fn each_block(&self, of: Blocks, f: &mut dyn FnMut(&[u32]) -> bool) {
        if of.calls == 1 {
            return self.vectors(of.count, f);
        }
        let most = self.most.iter().zip(&self.exact);
        let coarse = Room {
            most: most.map(|(&m, e)| e.map_or(m, |e| m.min(e))).collect(),
            exact: vec![None; self.most.len()],
        };
        coarse.vectors(of.count, &mut |block| {
            let rest = self.inside(block);
            let fits = rest.is_some_and(|rest| gives_any(|f| rest.vectors(of.calls, f)));
            !fits || f(block)
        });
    }

    /// What the cuts of one block must respect; `None` if a pin is no multiple of its parts.
    fn inside(&self, block: &[u32]) -> Option<Room> {
        let exact = self.exact.iter().zip(block).map(|(e, &d)| match e {
            Some(e) => e.is_multiple_of(d).then_some(Some(e / d)),
            None => Some(None),
        });
        Some(Room {
            most: self.most.iter().zip(block).map(|(m, d)| m / d).collect(),
            exact: exact.collect::<Option<_>>()?,
        })
    }

    /// The vector of the calls of a block: reduced labels, which come after `outputs` others, are cut least, so
    /// that no partial results are added; then labels that are split already are cut first.
    #[cfg(feature = "planner")]
    pub fn calls(&self, of: Blocks, block: &[u32], outputs: usize) -> Vec<u32> {
        let mut best: Option<((u32, usize), Vec<u32>)> = None;
        if let Some(rest) = self.inside(block) {
            rest.vectors(of.calls, &mut |cut| {
                let folded = cut[outputs..].iter().product();
                let fresh = cut.iter().zip(block).filter(|(c, d)| **c > 1 && **d == 1);
                let rank = (folded, fresh.count());
                if best.as_ref().is_none_or(|b| rank < b.0) {
                    let all = cut.iter().zip(block).map(|(c, d)| c * d);
                    best = Some((rank, all.collect()));
                }
                true
            });
        }
        best.map_or_else(|| block.to_vec(), |b| b.1)
    }

    /// Can a vector of all calls be made of blocks?
    #[cfg(feature = "planner")]
    pub fn has_blocks(&self, of: Blocks, parts: &[u32]) -> bool {
        let room = Room {
            most: parts.to_vec(),
            exact: parts.iter().map(|&d| Some(d)).collect(),
        };
        of.calls == 1 || gives_any(|f| room.each_block(of, f))
    }
}

/// Does an enumeration that a callback ends call it at all?
fn gives_any(each: impl FnOnce(&mut dyn FnMut(&[u32]) -> bool)) -> bool {
    let mut found = false;
    each(&mut |_| {
        found = true;
        false
    });
    found
}

/// Most parts of an extent; an empty axis is one part.
fn most(extent: usize, constraints: Constraints) -> u32 {
    let tiles = extent / constraints.min_tile.get() as usize;
    u32::try_from(tiles.max(1)).unwrap_or(u32::MAX)
}
