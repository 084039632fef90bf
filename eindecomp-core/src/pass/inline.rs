//! Reads of element-wise statements, replaced by what these compute.

use super::rebuild::{map_exprs, prune};
use crate::ein::access::affine;
use crate::ein::{DType, EinSumSpec, Expr, Operand};
use crate::graph::{BoundGraph, Node, NodeId, Role};

/// Parts of a body beyond which nothing more goes into it: kernels hold a value per part.
pub(super) const LARGEST: usize = 64;

/// Can what the statement computes stand in place of reads of it, with the same bits?
///
/// It reduces nothing, each of its axes has one index, and where it reads follows from indices alone,
/// so that it fails nowhere. It is no version of a state and reads none, as memory would have to be kept for the
/// old one; it has no pins. What is rounded when it is stored (bf16, f16) stays, unless it is a copy.
pub(super) fn is_open(graph: &BoundGraph, id: NodeId, spec: &EinSumSpec) -> bool {
    let node = graph.node(id);
    let of_state = |n: &Node| n.store.is_some() || n.role() == Some(Role::State);
    let plain = |o: &Operand| o.index.iter().all(|x| affine(x).is_some());
    node.einsum().is_some()
        && node.pins.is_empty()
        && !of_state(node)
        && spec.reduce.is_none()
        && !matches!(spec.body, Expr::Opaque(_))
        && spec.out.iter().all(|axis| axis.len() == 1)
        && (spec.operands.iter()).all(|o| plain(o) && !of_state(graph.node(o.node)))
        && (node.dtype.default_accumulator() == node.dtype || is_copy(graph, spec))
}

/// Does the statement hand on what it reads?
pub(super) fn is_copy(graph: &BoundGraph, spec: &EinSumSpec) -> bool {
    match (&spec.body, &spec.operands[..]) {
        (Expr::Operand(0), [from]) => graph.node(from.node).dtype == spec.dtype,
        _ => false,
    }
}

/// Is each index of the read in range, whatever the data is?
pub(super) fn is_inside(read: &Operand, shape: &[usize], extents: &[usize]) -> bool {
    let axis = |(index, &extent): (&Expr, &usize)| {
        let Some((terms, offset)) = affine(index) else {
            return false;
        };
        let (mut lo, mut hi) = (i128::from(offset), i128::from(offset));
        for (l, c) in terms {
            let reach = i128::from(c) * (extents[l.at()] as i128 - 1);
            (lo, hi) = (lo + reach.min(0), hi + reach.max(0));
        }
        lo >= 0 && hi < extent as i128
    };
    read.otherwise.is_none() && read.index.iter().zip(shape).all(axis)
}

/// `of`, whose operands `reads` are reads of `made`, without them. `made` is open.
pub(super) fn inline(
    of: &mut EinSumSpec,
    reads: &[usize],
    made: &EinSumSpec,
    dtypes: &dyn Fn(&Operand) -> DType,
) {
    for &read in reads {
        let index = of.operands[read].index.clone();
        let first = of.operands.len();
        let mut made = made.clone();
        let axis: Vec<usize> = made.out.iter().map(|axis| axis[0].at()).collect();
        map_exprs(&mut made, &mut |x| match x {
            Expr::Index(l) => {
                let at = axis.iter().position(|&a| a == l.at());
                index[at.expect("every index is an axis")].clone()
            }
            Expr::Operand(n) => Expr::Operand(first + n),
            other => other,
        });
        of.operands.append(&mut made.operands);
        let own = made.body.dtype(&|n| of.operands.get(n).map(dtypes));
        let value = match own == Some(made.dtype) {
            true => made.body,
            false => Expr::Cast(made.dtype, Box::new(made.body)),
        };
        map_exprs(of, &mut |x| match x {
            Expr::Operand(n) if n == read => value.clone(),
            other => other,
        });
    }
    // What is read twice alike is one operand.
    for n in 1..of.operands.len() {
        if let Some(first) = (0..n).find(|&m| of.operands[m] == of.operands[n]) {
            map_exprs(of, &mut |x| match x {
                Expr::Operand(m) if m == n => Expr::Operand(first),
                other => other,
            });
        }
    }
    prune(of);
}
