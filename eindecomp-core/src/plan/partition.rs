//! Viable partition vectors: which labels may be split, in how many parts, and every way to make
//! as many tuples as there are devices (EinDecomp, arXiv 2410.02682, §8.1).

use crate::ein::access::{inner_labels, splittable};
use crate::ein::{EinSum, Expr, LabelId};
use crate::graph::{BoundGraph, Node, NodeId, Pin};
use crate::plan::planner::PlanError;

/// What a split must respect.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Room {
    /// Most parts of each label: its extent, or 1 if it may not be split.
    pub most: Vec<u32>,
    /// Parts that a pin demands.
    pub exact: Vec<Option<u32>>,
}

impl Room {
    /// Every axis of a tensor may be split, up to its extent.
    pub fn of(shape: &[usize]) -> Room {
        let most = shape.iter().map(|&n| clip(n)).collect::<Vec<_>>();
        Room {
            exact: vec![None; most.len()],
            most,
        }
    }

    /// Of an EinSum's labels, over `devices` devices. A label that a merged axis steps over is
    /// whole, unless a pin splits it, where tiles of one value of the slower label are too many.
    ///
    /// # Errors
    /// [`PlanError::PinLabel`].
    pub fn of_vertex(
        node: &Node,
        e: &EinSum,
        extents: &[usize],
        devices: u32,
    ) -> Result<Room, PlanError> {
        let may = splittable(e);
        let most = |(&n, &may): (&usize, &bool)| if may { clip(n) } else { 1 };
        let mut room = Room {
            most: extents.iter().zip(&may).map(most).collect(),
            exact: vec![None; extents.len()],
        };
        for pin in &node.pins {
            match pin {
                Pin::Whole => room.most.fill(1),
                Pin::Split(name, parts) => {
                    let label = e.labels.iter().position(|l| l.name == *name);
                    let label = label.ok_or_else(|| PlanError::PinLabel {
                        tensor: node.name.clone(),
                        label: name.clone(),
                    })?;
                    room.exact[label] = Some(*parts);
                }
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
        (1..=limit).rev().find(|&n| {
            let mut found = false;
            self.vectors(n, &mut |_| {
                found = true;
                false
            });
            found
        })
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

/// No partition vector keeps the pins of a vertex.
pub(crate) fn no_room(node: &Node, e: &EinSum, extents: &[usize], devices: u32) -> PlanError {
    let told = node.pins.iter().map(|pin| match pin {
        Pin::Whole => "whole".to_owned(),
        Pin::Split(name, parts) => {
            let label = e.labels.iter().position(|l| l.name == *name);
            match label.and_then(|label| extents.get(label)) {
                Some(extent) => format!("`{name}` of {extent} in {parts}"),
                None => format!("`{name}` in {parts}"),
            }
        }
    });
    PlanError::Pins {
        tensor: node.name.clone(),
        devices,
        pins: told.collect::<Vec<_>>().join(", "),
    }
}

/// An extent as a number of parts: an empty axis is one part.
fn clip(extent: usize) -> u32 {
    u32::try_from(extent.max(1)).unwrap_or(u32::MAX)
}

/// The viable partition vectors of a vertex over `devices` devices, each in canonical label order:
/// those with ∏ d = devices and d ≤ max(extent, 1), or else with the largest product below it.
///
/// They are listed in descending lexicographic order of the labels as the operands show them
/// first. Empty for an input.
///
/// # Errors
/// Pins that name no index of the vertex or fit no vector.
pub fn viable(graph: &BoundGraph, node: NodeId, devices: u32) -> Result<Vec<Vec<u32>>, PlanError> {
    let vertex = graph.node(node);
    let Some(e) = vertex.einsum() else {
        return Ok(Vec::new());
    };
    let room = Room::of_vertex(vertex, e, graph.label_extents(node), devices)?;
    let order = first_seen(e);
    let seen = Room {
        most: order.iter().map(|l| room.most[l.at()]).collect(),
        exact: order.iter().map(|l| room.exact[l.at()]).collect(),
    };
    let extents = graph.label_extents(node);
    let tuples = seen
        .tuples(devices)
        .ok_or_else(|| no_room(vertex, e, extents, devices))?;
    let mut all = Vec::new();
    seen.vectors(tuples, &mut |d| {
        let mut canonical = vec![1; d.len()];
        for (l, &parts) in order.iter().zip(d) {
            canonical[l.at()] = parts;
        }
        all.push(canonical);
        true
    });
    all.reverse();
    Ok(all)
}

/// Every label: in the order of the operands' index expressions, then those that only the body has.
fn first_seen(e: &EinSum) -> Vec<LabelId> {
    let mut order: Vec<LabelId> = Vec::new();
    for index in e.operands.iter().flat_map(|o| &o.index) {
        index.visit(&mut |x| {
            if let Expr::Index(l) = x
                && !order.contains(l)
            {
                order.push(*l);
            }
        });
    }
    for l in (0..e.labels.len() as u16).map(LabelId) {
        if !order.contains(&l) {
            order.push(l);
        }
    }
    order
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ein::Agg;
    use crate::plan::samples::{Sample, matmul};

    #[test]
    fn order_is_that_of_the_operands() {
        let g = matmul(4, 4, 4);
        // canonical i k j; operands show i j k
        let all = viable(&g, NodeId(2), 4).unwrap();
        let expected = [
            [4, 1, 1],
            [2, 1, 2],
            [2, 2, 1],
            [1, 1, 4],
            [1, 2, 2],
            [1, 4, 1],
        ];
        assert_eq!(all, expected);
    }

    #[test]
    fn any_number_of_devices() {
        let count = |p| viable(&matmul(12, 12, 12), NodeId(2), p).unwrap().len();
        // ordered factorizations into 3 factors of at most 12
        assert_eq!([1, 2, 3, 6, 12].map(count), [1, 3, 3, 9, 18]);
        // 13 is prime and too large: 12 tuples
        assert_eq!(count(13), 18);
        let g = matmul(1, 3, 0);
        assert_eq!(viable(&g, NodeId(2), 8).unwrap(), [[1, 1, 3]]);
    }

    #[test]
    fn pins_are_kept() {
        let pinned = |pins: Vec<Pin>, p| {
            let mut g = Sample::default();
            let x = g.data("x", &[8, 8]);
            let y = g.pinned("y", "ij->i", &[x], Agg::SUM, pins);
            viable(&g.finish(y), NodeId(1), p)
        };
        let split = |l: &str, n| Pin::Split(l.into(), n);
        assert_eq!(pinned(vec![split("j", 2)], 8).unwrap(), [[4, 2]]);
        assert_eq!(pinned(vec![split("j", 3)], 8).unwrap(), [[2, 3]]);
        assert_eq!(pinned(vec![Pin::Whole], 8).unwrap(), [[1, 1]]);
        let error = pinned(vec![split("q", 2)], 8);
        assert!(matches!(error, Err(PlanError::PinLabel { .. })));
        let error = pinned(vec![split("i", 9)], 16);
        assert!(matches!(error, Err(PlanError::Pins { .. })));
    }
}
