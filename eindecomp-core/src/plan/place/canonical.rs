//! The canonical placement of given partition vectors: tile number n of a join (row-major over
//! keys) is on device n.
//!
//! A tensor is owned in the parts of the join that makes it, or, for an input, of the first join
//! that reads it. Digits of that join's other labels (each prime factor of their parts is one) are
//! scattered onto axes with room for them, first those that they divide evenly; digits without
//! room stay 0: those tiles are owned by the device of digit 0.

use crate::ein::LabelId;
use crate::ein::access::AccessMap;
use crate::graph::{BoundGraph, NodeId, Op, Role};
use crate::plan::cost::communication::split_label;
use crate::plan::layout::Layout;
use crate::plan::{NodePlan, Residency};

/// The plan entries of `vectors` (one per node, `None` for inputs); their costs are 0.
pub(crate) fn place(
    graph: &BoundGraph,
    vectors: &[Option<Vec<u32>>],
    residency: Residency,
) -> Vec<NodePlan> {
    let entry = |(id, node): (NodeId, &crate::graph::Node)| {
        let shape = graph.shape(id);
        let (join, owner) = match &node.op {
            Op::Input(Role::Weight) if residency != Residency::Sharded => (None, None),
            Op::Input(_) => (None, Some(first_reader(graph, id, vectors))),
            Op::EinSum(e) => {
                let d = vectors[id.at()].clone();
                let join = join(d.unwrap_or_else(|| vec![1; e.labels.len()]));
                let labels = e
                    .out
                    .iter()
                    .map(|axis| axis.first().map(|l: &LabelId| l.at()));
                let owner = scatter(&join, labels.collect(), shape);
                (Some(join), Some(owner))
            }
        };
        NodePlan {
            join,
            owner,
            cost: 0,
        }
    };
    graph.ids().map(entry).collect()
}

fn join(parts: Vec<u32>) -> Layout {
    let tiles: u32 = parts.iter().product();
    Layout {
        parts,
        devices: (0..tiles).collect(),
    }
}

/// The owner of an input: as the first vertex that reads it does.
fn first_reader(graph: &BoundGraph, input: NodeId, vectors: &[Option<Vec<u32>>]) -> Layout {
    let shape = graph.shape(input);
    let reader = graph.ids().find_map(|(id, node)| {
        let operands = &node.einsum()?.operands;
        let operand = operands.iter().find(|o| o.node == input)?;
        Some((operand, vectors[id.at()].clone()?))
    });
    match reader {
        None => Layout::single(shape.len()),
        Some((operand, d)) => {
            let axes = AccessMap::of(operand).axes;
            let labels = axes.iter().map(|a| split_label(a, &d)).collect();
            scatter(&join(d), labels, shape)
        }
    }
}

/// A digit of a join's key: label and radix.
type Digit = (usize, u32);

/// The owner of a tensor whose axes follow `labels` of a join.
fn scatter(join: &Layout, labels: Vec<Option<usize>>, shape: &[usize]) -> Layout {
    let mut axes: Vec<Vec<Digit>> = vec![Vec::new(); shape.len()];
    let mut parts = vec![1u32; shape.len()];
    let mut placed = vec![false; join.parts.len()];
    for (axis, label) in labels.iter().enumerate() {
        let Some(l) = *label else { continue };
        let d = join.parts[l];
        if !placed[l] && d as usize <= shape[axis].max(1) {
            placed[l] = true;
            parts[axis] = d;
            axes[axis].push((l, d));
        }
    }
    // the others, digit by digit; a label's digits left to right are slowest to fastest
    let mut loose: Vec<(Digit, Option<usize>)> = Vec::new();
    for l in (0..join.parts.len()).filter(|&l| !placed[l]) {
        for prime in primes(join.parts[l]) {
            let room = |&a: &usize| parts[a] as usize * prime as usize <= shape[a];
            let even = |&a: &usize| room(&a) && shape[a] % (parts[a] * prime) as usize == 0;
            let axis = (0..shape.len()).find(even).or((0..shape.len()).find(room));
            if let Some(a) = axis {
                parts[a] *= prime;
            }
            loose.push(((l, prime), axis));
        }
    }
    let mut owner = Layout {
        parts,
        devices: Vec::new(),
    };
    let device = |n: usize| {
        let mut left = owner.key(n);
        let mut key = vec![0u32; join.parts.len()];
        // fastest digits first
        let mut steps = vec![1u32; join.parts.len()];
        for &((l, radix), axis) in loose.iter().rev() {
            if let Some(a) = axis {
                key[l] += left[a] % radix * steps[l];
                left[a] /= radix;
            }
            steps[l] *= radix;
        }
        for (digits, left) in axes.iter().zip(left) {
            for &(l, _) in digits {
                key[l] = left;
            }
        }
        join.devices[join.number(&key)]
    };
    owner.devices = (0..owner.tiles()).map(device).collect();
    owner
}

fn primes(mut n: u32) -> Vec<u32> {
    let (mut out, mut f) = (Vec::new(), 2);
    while n > 1 {
        while n % f == 0 {
            out.push(f);
            n /= f;
        }
        f += 1;
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn owner(parts: &[u32], labels: &[Option<usize>], shape: &[usize]) -> Layout {
        scatter(&join(parts.to_vec()), labels.to_vec(), shape)
    }

    #[test]
    fn reduced_digits_go_where_they_fit() {
        // labels i k j of a matrix product, j reduced
        let labels = [Some(0), Some(1)];
        let o = owner(&[2, 2, 2], &labels, &[8, 8]);
        assert_eq!(o.parts, [4, 2]);
        // owner tile (i, j; k) is on device (i, k, j)
        assert_eq!(o.devices, [0, 2, 1, 3, 4, 6, 5, 7]);
        // no room on i
        assert_eq!(owner(&[2, 2, 2], &labels, &[2, 8]).parts, [2, 4]);
        // nowhere: digit 0 owns
        let o = owner(&[2, 1, 4], &labels, &[2, 1]);
        assert_eq!((o.parts, o.devices), (vec![2, 1], vec![0, 4]));
        // one digit of 4 fits
        let o = owner(&[1, 1, 4], &labels, &[2, 1]);
        assert_eq!((o.parts, o.devices), (vec![2, 1], vec![0, 2]));
        let o = owner(&[6], &[], &[]);
        assert_eq!((o.parts, o.devices), (vec![], vec![0]));
    }

    #[test]
    fn every_device_owns_at_most_one_tile() {
        for parts in [[2, 3, 4], [6, 1, 2], [1, 12, 1], [3, 2, 2]] {
            for shape in [[6, 5], [24, 24], [1, 7], [3, 12]] {
                let room: Vec<_> = parts.iter().zip([shape[0], shape[1], 99]).collect();
                if room.iter().any(|(d, n)| **d as usize > *n) {
                    continue;
                }
                let mut used = owner(&parts, &[Some(0), Some(1)], &shape).devices;
                let count = used.len();
                used.sort_unstable();
                used.dedup();
                assert_eq!(used.len(), count, "{parts:?} {shape:?}");
            }
        }
    }
}
