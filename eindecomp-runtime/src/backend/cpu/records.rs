//! Aggregations over records, block by block: arguments are evaluated once per point of their own
//! labels, lifted, and merged in a tree; every step is a kernel over arrays in scratch.
#![expect(
    unsafe_code,
    reason = "components are read and written through windows"
)]

use std::sync::Arc;

use eindecomp_core::ein::{
    DType, Dim, EinSum, EinSumSpec, Expr, Label, LabelId, Operand, RecordAgg, Value,
};
use eindecomp_core::graph::NodeId;
use eindecomp_core::graph::from_syntax::is_softmax_sum;
use eindecomp_core::plan::layout::Region;

use super::combine::copy;
use super::fused::{Array, Stage};
use super::nest::Walk;
use super::softmax::Softmax;
use super::{Kernel, KernelError, KernelRunError, Scratch, Tensor};
use crate::view::{View, ViewMut};

/// Output elements of one block.
const BLOCK: usize = 1 << 12;
/// Lifted records at a time.
const LIFTED: usize = 1 << 14;
/// Output elements that partial records are merged of at a time.
const MERGED: usize = 1 << 13;

/// A vertex over records.
#[derive(Debug)]
pub(super) struct Records {
    name: Arc<str>,
    /// Labels of the output.
    out: Vec<LabelId>,
    reduced: Vec<LabelId>,
    extents: Vec<usize>,
    /// Labels that every component has, those that the most arguments read first.
    rows: Vec<LabelId>,
    /// Per component, the labels of its array.
    labels: Vec<Vec<LabelId>>,
    lifting: Lifting,
    /// Over the labels of the vertex.
    inside: Merging,
    /// Over the axes of the output.
    between: Merging,
}

/// How the elements of a block become one record.
#[derive(Debug)]
enum Lifting {
    Softmax(Box<Softmax>),
    Any(Any),
}

impl Records {
    pub(super) fn new(
        e: &EinSum,
        record: &RecordAgg,
        extents: &[usize],
        operands: &[Tensor],
    ) -> Result<Records, KernelError> {
        let out: Vec<LabelId> = e.out.iter().flatten().copied().collect();
        let reduced: Vec<LabelId> = e.reduce.iter().flat_map(|r| &r.labels).copied().collect();
        let parts = e.parts();
        let carried = |axes: &[bool]| {
            let axes = e.out.iter().zip(axes).filter(|(_, carried)| **carried);
            axes.flat_map(|(axis, _)| axis).copied().collect::<Vec<_>>()
        };
        let mut labels: Vec<Vec<LabelId>> = parts.iter().map(|p| carried(&p.axes)).collect();
        let everywhere = |l: &LabelId| labels.iter().all(|of| of.contains(l));
        let mut rows: Vec<LabelId> = out.iter().copied().filter(everywhere).collect();
        let args: Vec<_> = e.body.arguments().iter().map(|a| e.labels_of(a)).collect();
        let ways = |l: &LabelId| args.iter().filter(|a| a.contains(l)).count();
        // Rows are the slowest axes of every array.
        for of in &mut labels {
            of.sort_by_key(|l| !rows.contains(l));
        }
        let between = Merging::new(
            record,
            &extents_of(e, extents),
            (parts.iter())
                .map(|p| (0..p.axes.len()).filter(|&a| p.axes[a]).collect())
                .collect(),
            (0..e.out.len()).collect(),
            e.dtype,
        )?;
        let at = |labels: &Vec<LabelId>| labels.iter().map(|l| l.at()).collect::<Vec<_>>();
        let inside = Merging::new(
            record,
            extents,
            labels.iter().map(at).collect(),
            at(&out),
            e.dtype,
        )?;
        let fast = is_softmax_sum(record) && matches!(record.dtype, DType::F32 | DType::F64);
        let lifting = match fast {
            true => Lifting::Softmax(Box::new(Softmax::new(e, extents, operands, &labels)?)),
            false => Lifting::Any(Any::new(e, record, extents, operands, &labels)?),
        };
        rows.sort_by_key(|l| std::cmp::Reverse(ways(l)));
        Ok(Records {
            name: record.name.clone(),
            out,
            reduced,
            extents: extents.to_vec(),
            rows,
            labels,
            lifting,
            inside,
            between,
        })
    }

    /// Labels along which a tile may be cut so that no two pieces write the same element.
    pub(super) fn rows(&self) -> &[LabelId] {
        &self.rows
    }

    pub(super) fn describe(&self) -> String {
        match &self.lifting {
            Lifting::Softmax(s) => format!("{}: {}", self.name, s.describe()),
            Lifting::Any(any) => format!("{}, {} components", self.name, any.lift.len()),
        }
    }

    /// Runs one tile. `targets` are the windows of the result, or of the components of its record,
    /// with the walk of each.
    pub(super) fn run(
        &self,
        tile: &Region,
        reads: &[View],
        targets: Vec<(&Walk, &ViewMut)>,
        slots: &[Value],
        scratch: &mut Scratch,
    ) -> Result<(), KernelRunError> {
        let whole = |l: &LabelId| tile.0[l.at()] == (0, self.extents[l.at()]);
        let last = self.reduced.iter().all(whole);
        let empty = self.reduced.iter().any(|&l| extent(tile, l) == 0);
        for block in self.blocks(tile) {
            let mut state = self.inside.identity(&block, scratch);
            match &self.lifting {
                _ if empty => {}
                Lifting::Softmax(s) => s.fold(&block, reads, &mut state, slots, scratch)?,
                Lifting::Any(any) => {
                    let volume: usize = self.out.iter().map(|l| extent(&block, *l)).product();
                    let length = (LIFTED / volume.max(1)).max(1);
                    for part in blocks(&block, &self.reduced, &self.reduced, length) {
                        let mut lifted = any.lift(&part, reads, slots, scratch)?;
                        self.inside.tree(&block, &mut lifted, scratch)?;
                        self.inside.add(&block, &mut state, lifted, scratch)?;
                    }
                }
            }
            match last {
                true => {
                    let (walk, write) = targets[0];
                    let write = by_label(write, walk, &block, &self.out);
                    let views: Vec<View> = state.iter().map(Array::view).collect();
                    self.inside.finish(&block, &views, &write, scratch)?;
                }
                false => {
                    for ((labels, component), (walk, write)) in
                        self.labels.iter().zip(&mut state).zip(&targets)
                    {
                        let write = by_label(write, walk, &block, labels);
                        let region = write.region().clone();
                        component.reshape(region.clone());
                        copy(&component.view(), &write, &region);
                    }
                }
            }
            state.into_iter().for_each(|a| scratch.give(a));
        }
        Ok(())
    }

    /// The tile in boxes of the output that are small enough for scratch.
    fn blocks(&self, tile: &Region) -> Vec<Region> {
        let mut order = self.rows.clone();
        order.extend(self.out.iter().filter(|l| !self.rows.contains(l)));
        match &self.lifting {
            Lifting::Softmax(_) => {
                let rows = blocks(tile, &self.rows, &self.rows, Softmax::ROWS);
                let most = Softmax::ROWS * Softmax::WIDTH;
                let small = |b: Region| blocks(&b, &order, &self.out, most);
                rows.into_iter().flat_map(small).collect()
            }
            Lifting::Any(_) => blocks(tile, &order, &self.out, BLOCK),
        }
    }

    /// Folds partial records over a box of the output's axes.
    pub(super) fn fold(
        &self,
        srcs: &[View],
        dst: &ViewMut,
        region: &Region,
        scratch: &mut Scratch,
    ) -> Result<(), KernelRunError> {
        let axes: Vec<LabelId> = (0..region.0.len() as u16).map(LabelId).collect();
        for block in blocks(region, &axes, &axes, MERGED) {
            let mut level: Vec<Record> = (srcs.chunks(self.labels.len()))
                .map(|record| Record {
                    views: (record.iter().zip(&self.between.dims))
                        .map(|(view, axes)| component(view, axes))
                        .collect(),
                    arrays: Vec::new(),
                })
                .collect();
            while level.len() > 1 {
                let mut next = Vec::with_capacity(level.len().div_ceil(2));
                let mut rest = level.into_iter();
                while let Some(a) = rest.next() {
                    next.push(match rest.next() {
                        None => a,
                        Some(b) => {
                            let arrays =
                                self.between.merge(&block, &a.views, &b.views, 1, scratch)?;
                            for old in a.arrays.into_iter().chain(b.arrays) {
                                scratch.give(old);
                            }
                            Record {
                                views: arrays.iter().map(Array::view).collect(),
                                arrays,
                            }
                        }
                    });
                }
                level = next;
            }
            for record in level {
                self.between.finish(&block, &record.views, dst, scratch)?;
                record.arrays.into_iter().for_each(|a| scratch.give(a));
            }
        }
        Ok(())
    }
}

/// A partial record, and the memory that it is in if that is scratch.
struct Record {
    views: Vec<View>,
    arrays: Vec<Array>,
}

/// A component as its own axes and one of extent 1 for its place in a row of records.
fn component(view: &View, axes: &[usize]) -> View {
    let mut region = Region(axes.iter().map(|&a| view.region().0[a]).collect());
    let mut strides: Vec<isize> = axes.iter().map(|&a| view.strides()[a]).collect();
    region.0.push((0, 1));
    strides.push(1);
    // SAFETY: the same elements as those of `view`: the axes that are left out have one.
    unsafe { View::new(view.ptr(), view.dtype(), region, strides) }
}

/// Extents of the output's axes.
fn extents_of(e: &EinSum, extents: &[usize]) -> Vec<usize> {
    let axis = |axis: &Vec<LabelId>| axis.iter().map(|l| extents[l.at()]).product();
    e.out.iter().map(axis).collect()
}

pub(super) fn extent(tile: &Region, label: LabelId) -> usize {
    let (lo, hi) = tile.0[label.at()];
    hi - lo
}

/// Cuts a tile along `order` until the points of `counted` are at most `most`.
pub(super) fn blocks(
    tile: &Region,
    order: &[LabelId],
    counted: &[LabelId],
    most: usize,
) -> Vec<Region> {
    let mut pieces = vec![tile.clone()];
    let mut volume: usize = counted.iter().map(|&l| extent(tile, l)).product();
    for &label in order {
        let (lo, hi) = tile.0[label.at()];
        if volume <= most || hi <= lo {
            break;
        }
        let others = volume / (hi - lo);
        let length = (most / others.max(1)).max(1);
        let parts = (hi - lo).div_ceil(length);
        volume = others * length;
        let cut = |piece: Region| {
            let at = move |k: usize| lo + (hi - lo) * k / parts;
            (0..parts).map(move |k| {
                let mut part = piece.clone();
                part.0[label.at()] = (at(k), at(k + 1));
                part
            })
        };
        pieces = pieces.into_iter().flat_map(cut).collect();
    }
    pieces
}

/// A window on the elements that the points of `labels` in a block have.
fn by_label(write: &ViewMut, walk: &Walk, block: &Region, labels: &[LabelId]) -> ViewMut {
    let region = Region(labels.iter().map(|l| block.0[l.at()]).collect());
    let strides = labels
        .iter()
        .map(|l| walk.coefficients[l.at()] as isize)
        .collect();
    let size = write.dtype().size() as isize;
    // SAFETY: the walk is that of the block's points in `write`, which holds them; different
    // points of labels that it has are different elements.
    unsafe {
        let first = write.ptr().offset(walk.start(block) as isize * size);
        ViewMut::new(first, write.dtype(), region, strides)
    }
}

/// Arguments and lifts as they are.
#[derive(Debug)]
struct Any {
    /// The arguments, then the filter.
    args: Vec<Stage>,
    lift: Vec<Small>,
    /// Per component: its labels.
    labels: Vec<Vec<LabelId>>,
    reduced: Vec<LabelId>,
}

impl Any {
    fn new(
        e: &EinSum,
        record: &RecordAgg,
        extents: &[usize],
        operands: &[Tensor],
        labels: &[Vec<LabelId>],
    ) -> Result<Any, KernelError> {
        let reduce = e.reduce.as_ref();
        let reduced: Vec<LabelId> = reduce.iter().flat_map(|r| &r.labels).copied().collect();
        let filter = reduce.and_then(|r| r.filter.as_ref());
        let mut args = Vec::new();
        let mut axes: Vec<Vec<LabelId>> = Vec::new();
        let given = e.body.arguments().iter().zip(&record.args);
        for (arg, dtype) in given.chain(filter.map(|f| (f, &DType::Bool))) {
            let of = e.labels_of(arg).into_iter().filter(|&l| !e.is_inner(l));
            let of: Vec<LabelId> = of.collect();
            args.push(Stage::new(
                e,
                extents,
                operands,
                of.clone(),
                None,
                arg,
                *dtype,
            )?);
            axes.push(of);
        }
        let mut lift = Vec::new();
        for (component, of) in record.state.iter().zip(labels) {
            let mut body = component.lift.clone();
            if filter.is_some() {
                let identity = Expr::Const(component.identity, component.dtype);
                let taken = Expr::Operand(record.args.len());
                body = Expr::If(Box::new(taken), Box::new(body), Box::new(identity));
            }
            let points: Vec<LabelId> = of.iter().chain(&reduced).copied().collect();
            let place = |l: &LabelId| points.iter().position(|p| p == l).unwrap_or(points.len());
            let operand = |n: usize| {
                let index = axes[n]
                    .iter()
                    .map(|l| Expr::Index(LabelId(place(l) as u16)));
                let dtype = record.args.get(n).copied().unwrap_or(DType::Bool);
                let shape = axes[n].iter().map(|l| extents[l.at()]);
                (index.collect(), shape.collect(), dtype)
            };
            let sizes = points.iter().map(|l| extents[l.at()]).collect();
            lift.push(Small::new(sizes, &body, &operand, component.dtype)?);
        }
        Ok(Any {
            args,
            lift,
            labels: labels.to_vec(),
            reduced,
        })
    }

    /// One record per point of the reduced labels, along the last axis of each component.
    fn lift(
        &self,
        tile: &Region,
        reads: &[View],
        slots: &[Value],
        scratch: &mut Scratch,
    ) -> Result<Vec<Array>, KernelRunError> {
        let mut args = Vec::with_capacity(self.args.len());
        for stage in &self.args {
            args.push(stage.run(tile, reads, slots, scratch)?);
        }
        let views: Vec<View> = args.iter().map(Array::view).collect();
        let length: usize = self.reduced.iter().map(|&l| extent(tile, l)).product();
        let mut lifted = Vec::with_capacity(self.lift.len());
        for (small, labels) in self.lift.iter().zip(&self.labels) {
            let points = labels.iter().chain(&self.reduced);
            let points = Region(points.map(|l| tile.0[l.at()]).collect());
            let mut made = small.run(&points, &views, scratch)?;
            let mut region = Region(labels.iter().map(|l| tile.0[l.at()]).collect());
            region.0.push((0, length));
            made.reshape(region);
            lifted.push(made);
        }
        args.into_iter().for_each(|a| scratch.give(a));
        Ok(lifted)
    }
}

/// A kernel over arrays: one value per point of its labels.
#[derive(Debug)]
struct Small {
    kernel: Kernel,
    reads: Vec<usize>,
}

/// Index, shape and element type of an operand.
type Read = (Vec<Expr>, Vec<usize>, DType);

impl Small {
    /// `body` at every point of labels of these extents; `operand` tells how each is read.
    fn new(
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
        let einsum = EinSum::new(spec).map_err(|_| KernelError::DType)?;
        Ok(Small {
            kernel: Kernel::new(einsum, extents, tensors, "".into())?,
            reads,
        })
    }

    fn run(
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
struct Merging {
    /// Per component.
    dims: Vec<Vec<usize>>,
    identity: Vec<(Value, DType)>,
    merge: Vec<Small>,
    /// Dims of the result.
    all: Vec<usize>,
    finish: Small,
}

impl Merging {
    /// `extents` are those of all dims, `all` the result's, `dtype` its element type.
    fn new(
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
    fn identity(&self, tile: &Region, scratch: &mut Scratch) -> Vec<Array> {
        let component = |(n, (value, dtype)): (usize, &(Value, DType))| {
            let mut array = scratch.take(*dtype, self.region(n, tile, 1));
            array.fill(*value);
            array
        };
        self.identity.iter().enumerate().map(component).collect()
    }

    /// Merges the first `length` records of two rows, one by one.
    fn merge(
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
    fn tree(
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
    fn add(
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
    fn finish(
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
