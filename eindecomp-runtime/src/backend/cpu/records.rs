//! Aggregations over records, block by block: arguments are evaluated once per point of their own
//! labels, lifted, and merged in a tree; every step is a kernel over arrays in scratch.
#![expect(
    unsafe_code,
    reason = "components are read and written through windows"
)]

use std::sync::Arc;

use eindecomp_core::ein::{DType, EinSum, Expr, LabelId, RecordAgg, Value};
use eindecomp_core::graph::from_syntax::is_softmax_sum;
use eindecomp_core::plan::layout::Region;

use super::combine::copy;
use super::fused::{Array, Stage};
use super::merging::{LIFTED, Merging, Small};
use super::nest::Walk;
use super::softmax::Softmax;
use super::{KernelError, KernelRunError, Scratch};
use crate::backend::split::{Inner, SoftmaxParts, Statement, record_labels};
use crate::view::{View, ViewMut};

/// Output elements of one block.
const BLOCK: usize = 1 << 12;
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
    pub(super) fn new(statement: &Statement, record: &RecordAgg) -> Result<Records, KernelError> {
        let (e, extents) = (&statement.einsum, &statement.extents[..]);
        let out: Vec<LabelId> = e.out.iter().flatten().copied().collect();
        let reduced: Vec<LabelId> = e.reduce.iter().flat_map(|r| &r.labels).copied().collect();
        let parts = e.parts();
        let (labels, mut rows) = record_labels(e);
        let args: Vec<_> = e.body.arguments().iter().map(|a| e.labels_of(a)).collect();
        let ways = |l: &LabelId| args.iter().filter(|a| a.contains(l)).count();
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
            true => Lifting::Softmax(Box::new(Softmax::new(SoftmaxParts::new(
                statement,
                &labels,
                record.dtype,
            )?)?)),
            false => Lifting::Any(Any::new(statement, record, &labels)?),
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
        pieces = super::nest::Cut::even(label, parts).of(&pieces);
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
        statement: &Statement,
        record: &RecordAgg,
        labels: &[Vec<LabelId>],
    ) -> Result<Any, KernelError> {
        let (e, extents) = (&statement.einsum, &statement.extents);
        let reduce = e.reduce.as_ref();
        let reduced: Vec<LabelId> = reduce.iter().flat_map(|r| &r.labels).copied().collect();
        let filter = reduce.and_then(|r| r.filter.as_ref());
        let mut args = Vec::new();
        let mut axes: Vec<Vec<LabelId>> = Vec::new();
        let given = e.body.arguments().iter().zip(&record.args);
        for (arg, dtype) in given.chain(filter.map(|f| (f, &DType::Bool))) {
            let of = e.labels_of(arg).into_iter().filter(|&l| !e.is_inner(l));
            let of: Vec<LabelId> = of.collect();
            let part = Inner::new(statement, of.clone(), None, arg, *dtype)?;
            args.push(Stage::new(part)?);
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
