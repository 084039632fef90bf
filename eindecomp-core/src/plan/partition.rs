//! Viable partition vectors: which labels may be split, in how many parts, and every way to make
//! as many tuples as there are devices (EinDecomp, arXiv 2410.02682, §8.1).

use std::sync::Arc;

use super::constraints::Constraints;
use super::planner::PlanError;
use super::room::Room;
use crate::ein::{EinSum, Expr, LabelId};
use crate::graph::{BoundGraph, Node, NodeId, Pin};

/// A pin that names no label of its vertex.
pub(crate) fn no_label(node: &Node, label: Arc<str>) -> PlanError {
    PlanError::PinLabel {
        tensor: node.name.clone(),
        label,
    }
}

/// No partition vector keeps the pins of a vertex.
pub(crate) fn no_room(
    node: &Node,
    e: &EinSum,
    extents: &[usize],
    devices: u32,
    constraints: Constraints,
) -> PlanError {
    let told = node.pins.iter().map(|pin| match pin {
        Pin::Split(name, parts) => {
            let label = e.labels.iter().position(|l| l.name == *name);
            match label.and_then(|label| extents.get(label)) {
                Some(extent) => format!("`{name}` of {extent} in {parts}"),
                None => format!("`{name}` in {parts}"),
            }
        }
        pin => pin.to_string(),
    });
    let asked = (!constraints.is_default()).then(|| constraints.to_string());
    PlanError::Pins {
        tensor: node.name.clone(),
        devices,
        pins: told.chain(asked).collect::<Vec<_>>().join(", "),
    }
}

/// The viable partition vectors of a vertex over `devices` devices, each in canonical label order:
/// those with ∏ d = devices and d ≤ max(extent, 1), or else with the largest product below it;
/// [`Constraints`] allow fewer, or ask for so many calls per device.
///
/// They are listed in descending lexicographic order of the labels as the operands show them
/// first. Empty for an input.
///
/// # Errors
/// Pins that name no index of the vertex or fit no vector.
pub fn viable(
    graph: &BoundGraph,
    node: NodeId,
    devices: u32,
    constraints: Constraints,
) -> Result<Vec<Vec<u32>>, PlanError> {
    let vertex = graph.node(node);
    let Some(e) = vertex.einsum() else {
        return Ok(Vec::new());
    };
    let extents = graph.label_extents(node);
    let room = Room::of_vertex(vertex, e, extents, devices, constraints)
        .map_err(|label| no_label(vertex, label))?;
    let order = first_seen(e);
    let seen = Room {
        most: order.iter().map(|l| room.most[l.at()]).collect(),
        exact: order.iter().map(|l| room.exact[l.at()]).collect(),
    };
    let of = seen
        .blocks(devices, constraints)
        .ok_or_else(|| no_room(vertex, e, extents, devices, constraints))?;
    let mut all = Vec::new();
    seen.vectors(of.count * of.calls, &mut |d| {
        if seen.has_blocks(of, d) {
            let mut canonical = vec![1; d.len()];
            for (l, &parts) in order.iter().zip(d) {
                canonical[l.at()] = parts;
            }
            all.push(canonical);
        }
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

    fn free(g: &BoundGraph, devices: u32) -> Vec<Vec<u32>> {
        viable(g, NodeId(2), devices, Constraints::default()).unwrap()
    }

    #[test]
    fn order_is_that_of_the_operands() {
        let g = matmul(4, 4, 4);
        // canonical i k j; operands show i j k
        let all = free(&g, 4);
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
        let count = |p| free(&matmul(12, 12, 12), p).len();
        // ordered factorizations into 3 factors of at most 12
        assert_eq!([1, 2, 3, 6, 12].map(count), [1, 3, 3, 9, 18]);
        // 13 is prime and too large: 12 tuples
        assert_eq!(count(13), 18);
        let g = matmul(1, 3, 0);
        assert_eq!(free(&g, 8), [[1, 1, 3]]);
    }

    #[test]
    fn pins_are_kept() {
        let pinned = |pins: Vec<Pin>, p| {
            let mut g = Sample::default();
            let x = g.data("x", &[8, 8]);
            let y = g.pinned("y", "ij->i", &[x], Agg::SUM, pins);
            viable(&g.finish(y), NodeId(1), p, Constraints::default())
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
