//! Random plans, for property tests: any viable partition vectors, any balanced placement.

use super::{Certificate, Constraints, Hierarchy, Layout, NodePlan, Objective, Plan, Residency};
use crate::ein::access::splittable;
use crate::graph::{BoundGraph, Role};
use crate::task::traffic::bytes;

/// The random plan number `seed`. Vertices have up to 2·p tuples, owners also empty tiles; some
/// weights are sharded, the others kept as needed.
///
/// # Panics
/// Never: what is made keeps the rules of [`structure`](super::verify::structure).
pub fn random_plan(graph: &BoundGraph, hierarchy: impl Into<Hierarchy>, seed: u64) -> Plan {
    let hierarchy = hierarchy.into();
    let devices = hierarchy.devices();
    let mut dice = Dice(seed);
    let most = 2 * devices as usize;
    let node = |(node, vertex): (_, &crate::graph::Node)| {
        let join = vertex.einsum().map(|e| {
            let extents = graph.label_extents(node);
            let limits: Vec<usize> = (extents.iter().zip(splittable(e)))
                .map(|(&b, split)| if split { b.max(1) } else { 1 })
                .collect();
            dice.layout(&limits, devices, most).into()
        });
        // More parts than elements: empty tiles.
        let limits: Vec<usize> = graph.shape(node).iter().map(|&b| b + 2).collect();
        let kept = vertex.role() == Some(Role::Weight) && dice.below(2) == 0;
        NodePlan {
            join,
            owner: (!kept).then(|| dice.layout(&limits, devices, most).into()),
            cost: 0,
        }
    };
    let mut nodes: Vec<NodePlan> = graph.ids().map(node).collect();
    let bytes = bytes(graph, hierarchy, &nodes).expect("a random plan keeps the rules");
    for (node, bytes) in nodes.iter_mut().zip(&bytes) {
        node.cost = bytes.weighted;
    }
    Plan {
        hierarchy,
        model: Objective::Placed.model().into(),
        residency: Residency::AsNeeded,
        constraints: Constraints::default(),
        moved_bytes: bytes.iter().map(|b| b.moved).sum(),
        nodes,
        certificate: Certificate {
            cost: bytes.iter().map(|b| b.weighted).sum(),
            bound: 0,
            space: "no space".into(),
            wider: None,
            checked: None,
            stopped: false,
        },
    }
}

/// Choices by a linear congruential generator: equal seeds, equal plans.
struct Dice(u64);

impl Dice {
    fn below(&mut self, n: usize) -> usize {
        self.0 = self
            .0
            .wrapping_mul(6364136223846793005)
            .wrapping_add(1442695040888963407);
        (self.0 >> 33) as usize % n
    }

    /// Random parts with at most `most` tiles, and a balanced placement of them.
    fn layout(&mut self, limits: &[usize], p: u32, most: usize) -> Layout {
        let mut parts = vec![1u32; limits.len()];
        for _ in 0..4 {
            if limits.is_empty() {
                break;
            }
            let at = self.below(limits.len());
            let d = 1 + self.below(limits[at]);
            let others: usize =
                parts.iter().map(|&d| d as usize).product::<usize>() / parts[at] as usize;
            if others * d <= most {
                parts[at] = d as u32;
            }
        }
        let tiles: u32 = parts.iter().product();
        let shift = self.below(p as usize) as u32;
        let mut devices: Vec<u32> = (0..tiles).map(|n| (n + shift) % p).collect();
        for n in (1..devices.len()).rev() {
            devices.swap(n, self.below(n + 1));
        }
        Layout { parts, devices }
    }
}
