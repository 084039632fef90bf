//! Merges and finishes records: every step is a kernel over arrays in scratch.

use eindecomp_core::ein::{
    DType, Dim, EinSum, EinSumSpec, Expr, Label, LabelId, Operand, RecordAgg, Value,
};
use eindecomp_core::graph::NodeId;
use eindecomp_core::plan::layout::Region;

use super::combine::copy;
use super::fused::Array;
use super::{Kernel, KernelError, KernelRunError, Scratch};
use crate::backend::split::{Statement, Tensor};
use crate::view::{View, ViewMut};

/// Records of a row.
pub(super) const LIFTED: usize = 1 << 14;

/// A kernel over arrays: one value per point of its labels.
#[derive(Debug)]
pub(super) struct Small {
    kernel: Kernel,
    reads: Vec<usize>,
}

/// Index, shape and element type of an operand.
pub(super) type Read = (Vec<Expr>, Vec<usize>, DType);

impl Small {
    /// `body` at every point of labels of these extents; `operand` tells how each is read.
    pub(super) fn new(
        extents: Vec<usize>,
        body: &Expr,
        operand: &dyn Fn(usize) -> Read,
        dtype: DType,
    ) -> Result<Small, KernelError> {
        let mut reads = Vec::new();
        body.visit(&mut |x| {
            if let Expr::Operand(n) = x
                && !reads.contains(n)
            {
                reads.push(*n);
            }
        });
        let body = body.clone().map(&mut |x| match x {
            Expr::Operand(n) => Expr::Operand(reads.iter().position(|&r| r == n).unwrap_or(0)),
            other => other,
        });
        let (mut operands, mut tensors) = (Vec::new(), Vec::new());
        for &n in &reads {
            let (index, shape, dtype) = operand(n);
            operands.push(Operand {
                node: NodeId(0),
                index,
                otherwise: None,
            });
            let name = "".into();
            tensors.push(Tensor { shape, dtype, name });
        }
        let label = |&n: &usize| Label {
            name: "".into(),
            extent: Dim::from(n as i64),
        };
        let spec = EinSumSpec {
            labels: extents.iter().map(label).collect(),
            out: (0..extents.len() as u16)
                .map(|l| vec![LabelId(l)])
                .collect(),
            reduce: None,
            operands,
            body,
            dtype,
        };
        let statement = Statement {
            einsum: EinSum::new(spec).map_err(|_| KernelError::DType)?,
            extents,
            operands: tensors,
            name: "".into(),
        };
        Ok(Small {
            kernel: Kernel::new(statement)?,
            reads,
        })
    }

    pub(super) fn run(
        &self,
        points: &Region,
        views: &[View],
        scratch: &mut Scratch,
    ) -> Result<Array, KernelRunError> {
        let mut made = scratch.take(self.kernel.einsum.dtype, points.clone());
        self.run_into(points, views, &made.view_mut(), scratch)?;
        Ok(made)
    }

    fn run_into(
        &self,
        points: &Region,
        views: &[View],
        write: &ViewMut,
        scratch: &mut Scratch,
    ) -> Result<(), KernelRunError> {
        let reads: Vec<View> = self.reads.iter().map(|&n| views[n].clone()).collect();
        let writes = std::slice::from_ref(write);
        self.kernel.run(points, &reads, writes, &[], scratch)
    }
}

/// Merges and finishes records whose components have some of the same dims each, and a place in a
/// row of records as the last axis.
#[derive(Debug)]
pub(super) struct Merging {
    /// Per component.
    pub(super) dims: Vec<Vec<usize>>,
    identity: Vec<(Value, DType)>,
    merge: Vec<Small>,
    /// Dims of the result.
    all: Vec<usize>,
    finish: Small,
}

impl Merging {
    /// `extents` are those of all dims, `all` the result's, `dtype` its element type.
    pub(super) fn new(
        record: &RecordAgg,
        extents: &[usize],
        dims: Vec<Vec<usize>>,
        all: Vec<usize>,
        dtype: DType,
    ) -> Result<Merging, KernelError> {
        let count = record.state.len();
        let operand = |n: usize, within: &[usize], place: Expr| {
            let of = &dims[n % count];
            let at = |d: &usize| within.iter().position(|w| w == d).unwrap_or(within.len());
            let mut index: Vec<Expr> = of
                .iter()
                .map(|d| Expr::Index(LabelId(at(d) as u16)))
                .collect();
            index.push(place);
            let mut shape: Vec<usize> = of.iter().map(|&d| extents[d]).collect();
            shape.push(LIFTED);
            (index, shape, record.state[n % count].dtype)
        };
        let mut merge = Vec::new();
        for (component, of) in record.state.iter().zip(&dims) {
            let mut sizes: Vec<usize> = of.iter().map(|&d| extents[d]).collect();
            sizes.push(LIFTED);
            let row = Expr::Index(LabelId(of.len() as u16));
            let read = |n: usize| operand(n, of, row.clone());
            merge.push(Small::new(sizes, &component.merge, &read, component.dtype)?);
        }
        let sizes = all.iter().map(|&d| extents[d]).collect();
        let read = |n: usize| operand(n, &all, Expr::int(0));
        Ok(Merging {
            finish: Small::new(sizes, &record.finish, &read, dtype)?,
            identity: record.state.iter().map(|c| (c.identity, c.dtype)).collect(),
            dims,
            merge,
            all,
        })
    }

    fn region(&self, component: usize, tile: &Region, length: usize) -> Region {
        let mut region = Region(self.dims[component].iter().map(|&d| tile.0[d]).collect());
        region.0.push((0, length));
        region
    }

    /// Neutral records.
    pub(super) fn identity(&self, tile: &Region, scratch: &mut Scratch) -> Vec<Array> {
        let component = |(n, (value, dtype)): (usize, &(Value, DType))| {
            let mut array = scratch.take(*dtype, self.region(n, tile, 1));
            array.fill(*value);
            array
        };
        self.identity.iter().enumerate().map(component).collect()
    }

    /// Merges the first `length` records of two rows, one by one.
    pub(super) fn merge(
        &self,
        tile: &Region,
        a: &[View],
        b: &[View],
        length: usize,
        scratch: &mut Scratch,
    ) -> Result<Vec<Array>, KernelRunError> {
        let views: Vec<View> = a.iter().chain(b).cloned().collect();
        let merge = self.merge.iter().enumerate();
        merge
            .map(|(n, small)| small.run(&self.region(n, tile, length), &views, scratch))
            .collect()
    }

    /// Merges a row of records into its first one, in a tree.
    pub(super) fn tree(
        &self,
        tile: &Region,
        row: &mut [Array],
        scratch: &mut Scratch,
    ) -> Result<(), KernelRunError> {
        let mut length = row.first().map_or(0, |c| c.length());
        while length > 1 {
            let half = length.next_power_of_two() / 2;
            let a: Vec<View> = row.iter().map(Array::view).collect();
            let b: Vec<View> = row.iter().map(|c| c.tail(half)).collect();
            let merged = self.merge(tile, &a, &b, length - half, scratch)?;
            for (n, (to, from)) in row.iter_mut().zip(merged).enumerate() {
                copy(
                    &from.view(),
                    &to.view_mut(),
                    &self.region(n, tile, length - half),
                );
                scratch.give(from);
            }
            length = half;
        }
        Ok(())
    }

    /// Merges the first record of a row into `state`.
    pub(super) fn add(
        &self,
        tile: &Region,
        state: &mut Vec<Array>,
        row: Vec<Array>,
        scratch: &mut Scratch,
    ) -> Result<(), KernelRunError> {
        let a: Vec<View> = state.iter().map(Array::view).collect();
        let b: Vec<View> = row.iter().map(Array::view).collect();
        let merged = self.merge(tile, &a, &b, 1, scratch)?;
        let old = std::mem::replace(state, merged);
        old.into_iter().chain(row).for_each(|a| scratch.give(a));
        Ok(())
    }

    /// The results of records.
    pub(super) fn finish(
        &self,
        tile: &Region,
        record: &[View],
        write: &ViewMut,
        scratch: &mut Scratch,
    ) -> Result<(), KernelRunError> {
        let points = Region(self.all.iter().map(|&d| tile.0[d]).collect());
        self.finish.run_into(&points, record, write, scratch)
    }
}
