//! A vertex compiled for GPUs, and the calls of its tasks.

use std::sync::Arc;

use eindecomp_core::ein::access::{AccessMap, output_region, splittable};
use eindecomp_core::ein::einsum::Part;
use eindecomp_core::ein::{DType, EinSum, LabelId, Value};
use eindecomp_core::graph::from_syntax::is_softmax_sum;
use eindecomp_core::graph::{BoundGraph, NodeId};
use eindecomp_core::plan::layout::Region;

use super::call::{Call, FAULT_WORDS, Place, Window, Work};
use super::function::{Array, Builder};
use super::merge::{Merge, Walked, copy};
use super::plain::{Ends, Plain, volume};
use super::softmax::{Softmax, staged};
use super::state::State;
use crate::backend::error::{KernelError, KernelRunError};
use crate::backend::program::Kind;
use crate::backend::split::{Inner, Split, Statement, Tensor};

/// Elements of intermediate arrays that are in the workspace at a time: 16 MiB of f32.
const STAGED: usize = 1 << 22;

/// The operands of every kernel of a vertex that may find an index out of range.
#[derive(Debug)]
pub(super) struct Sites {
    node: NodeId,
    operands: Vec<Vec<Tensor>>,
    /// Elements of intermediate arrays at a time.
    pub(super) staged: usize,
}

impl Sites {
    fn add(&mut self, operands: &[Tensor]) -> i64 {
        self.operands.push(operands.to_vec());
        i64::from(self.node.0) << 16 | (self.operands.len() as i64 - 1)
    }
}

/// A statement of a vertex.
#[derive(Debug)]
pub(super) enum Kernel {
    Plain(Box<Plain>),
    Staged {
        stages: Vec<(Inner, Kernel)>,
        rest: Box<Plain>,
        /// What the rest reads of the operands and, numbered after them, the results of stages.
        kept: Vec<usize>,
        /// Elements of the results of stages at a time.
        most: usize,
    },
    Softmax(Box<Softmax>),
}

impl Kernel {
    pub(super) fn new(statement: Statement, sites: &mut Sites) -> Result<Kernel, KernelError> {
        statement.maps()?;
        let record = statement
            .einsum
            .reduce
            .as_ref()
            .and_then(|r| r.agg.record());
        let float = |d: DType| matches!(d, DType::F32 | DType::F64);
        if record.is_some_and(|r| is_softmax_sum(r) && float(r.dtype)) {
            return Ok(Kernel::Softmax(Box::new(Softmax::new(statement, sites)?)));
        }
        let plain = |statement: Statement, sites: &mut Sites| {
            let site = sites.add(&statement.operands);
            Ok::<_, KernelError>(Box::new(Plain::new(statement, site)?))
        };
        let Some(split) = Split::of(&statement)? else {
            return Ok(Kernel::Plain(plain(statement, sites)?));
        };
        let mut stages = Vec::new();
        for inner in split.inner {
            let kernel = Kernel::new(inner.statement.clone(), sites)?;
            stages.push((inner, kernel));
        }
        Ok(Kernel::Staged {
            stages,
            rest: plain(split.rest, sites)?,
            kept: split.kept,
            most: sites.staged,
        })
    }

    pub(super) fn calls(
        &self,
        tile: &Region,
        reads: &[Array],
        ends: &Ends<'_>,
        slots: &[Value],
        builder: &mut Builder,
    ) {
        match self {
            Kernel::Plain(plain) => plain.calls(tile, reads, ends, slots, builder),
            Kernel::Softmax(softmax) => softmax.calls(tile, reads, ends, slots, builder),
            Kernel::Staged {
                stages,
                rest,
                kept,
                most,
            } => {
                let staged = |block: &Region| {
                    let axes = stages
                        .iter()
                        .map(|(i, _)| volume(block, &i.labels[..i.axes]));
                    axes.sum::<usize>()
                };
                let e = &rest.statement.einsum;
                for block in blocks(tile, &rest.out, e, *most, &staged) {
                    let count = staged(&block).div_ceil(*most);
                    let length = volume(&block, &rest.reduced).div_ceil(count.max(1)).max(1);
                    let splits = rest.reduced.iter().all(|l| splittable(e)[l.at()]);
                    let parts = match volume(&block, &rest.reduced) {
                        0 => vec![block.clone()],
                        _ if splits => cut(&block, &rest.reduced, &rest.reduced, length),
                        _ => vec![block.clone()],
                    };
                    let staged = Staged { stages, rest, kept };
                    builder.scoped(|b| staged.block(&block, &parts, reads, ends, slots, b));
                }
            }
        }
    }
}

/// The parts of a [`Kernel::Staged`].
struct Staged<'a> {
    stages: &'a [(Inner, Kernel)],
    rest: &'a Plain,
    kept: &'a [usize],
}

impl Staged<'_> {
    /// Computes a block whose reduced range is in parts.
    fn block(
        &self,
        block: &Region,
        parts: &[Region],
        reads: &[Array],
        ends: &Ends<'_>,
        slots: &[Value],
        builder: &mut Builder,
    ) {
        let e = &self.rest.statement.einsum;
        let output = output_region(e, block, &self.rest.statement.extents);
        let component = |part: &Part, b: &mut Builder| b.array(part.dtype, part.region(&output));
        let mut sums: Vec<Vec<Array>> = Vec::new();
        if parts.len() > 1 {
            // Two, in turn: a component may be read for several elements.
            for _ in 0..2 {
                let all = e.parts();
                sums.push(all.iter().map(|p| component(p, builder)).collect());
            }
        }
        for (n, part) in parts.iter().enumerate() {
            builder.scoped(|builder| {
                let stages = self.stages.iter();
                let arrays: Vec<Array> = stages
                    .map(|stage| staged(stage, part, reads, slots, builder))
                    .collect();
                let operand = |&n: &usize| match n.checked_sub(reads.len()) {
                    None => reads[n].clone(),
                    Some(stage) => arrays[stage].clone(),
                };
                let operands: Vec<Array> = self.kept.iter().map(operand).collect();
                let outer = Region(part.0[..self.rest.statement.extents.len()].to_vec());
                let last = n + 1 == parts.len();
                let ends = Ends {
                    prior: (n > 0).then(|| &sums[(n + 1) % 2][..]).or(ends.prior),
                    targets: if last { ends.targets } else { &sums[n % 2] },
                    partial: if last {
                        ends.partial
                    } else {
                        self.rest.parts.is_some()
                    },
                    repair: ends.repair,
                };
                self.rest.calls(&outer, &operands, &ends, slots, builder);
            });
        }
    }
}

/// Cuts a tile along `order` until the points of `counted` are at most `most`.
pub(super) fn cut(
    tile: &Region,
    order: &[LabelId],
    counted: &[LabelId],
    most: usize,
) -> Vec<Region> {
    cut_while(tile, order, &|piece| volume(piece, counted), most)
}

/// Cuts a tile along output labels until `size` of each piece is at most `most`, as far as every piece makes a
/// box of the output.
pub(super) fn blocks(
    tile: &Region,
    out: &[LabelId],
    e: &EinSum,
    most: usize,
    size: &dyn Fn(&Region) -> usize,
) -> Vec<Region> {
    let splits = splittable(e);
    let order: Vec<LabelId> = out.iter().copied().filter(|l| splits[l.at()]).collect();
    cut_while(tile, &order, size, most)
}

fn cut_while(
    tile: &Region,
    order: &[LabelId],
    size: &dyn Fn(&Region) -> usize,
    most: usize,
) -> Vec<Region> {
    let mut pieces = vec![tile.clone()];
    let mut first = tile.clone();
    for &label in order {
        let (lo, hi) = tile.0[label.at()];
        let mut length = hi - lo;
        while length > 1 && size(&first) > most {
            length = length.div_ceil(2);
            first.0[label.at()] = (lo, lo + length);
        }
        let starts = (lo..hi).step_by(length.max(1));
        let of = |piece: &Region| {
            let piece = piece.clone();
            starts.clone().map(move |start| {
                let mut part = piece.clone();
                part.0[label.at()] = (start, hi.min(start + length));
                part
            })
        };
        if length < hi - lo {
            pieces = pieces.iter().flat_map(of).collect();
        }
    }
    pieces
}

/// A vertex compiled for GPUs: it makes the calls of any tile of it.
#[derive(Debug)]
pub struct GpuKernel {
    statement: Statement,
    maps: Vec<AccessMap>,
    /// Of the reduction, for [`GpuKernel::fold`].
    state: Option<State>,
    kernel: Kernel,
    sites: Sites,
}

impl GpuKernel {
    /// Compiles a vertex, for tiles of any size.
    ///
    /// # Errors
    /// [`KernelError`]: on inputs, on graphs that do not verify, on absurd index expressions, and on opaque
    /// kernels, which are Rust functions.
    pub fn compile(graph: &BoundGraph, node: NodeId) -> Result<GpuKernel, KernelError> {
        GpuKernel::bounded(graph, node, STAGED)
    }

    /// The same with at most about so many elements of intermediate arrays (scores, results of inner
    /// reductions) in the workspace at a time.
    ///
    /// # Errors
    /// As [`GpuKernel::compile`].
    pub fn bounded(
        graph: &BoundGraph,
        node: NodeId,
        staged: usize,
    ) -> Result<GpuKernel, KernelError> {
        let statement = Statement::of(graph, node)?;
        if let Some(opaque) = statement.einsum.opaque() {
            return Err(KernelError::Host(opaque.kernel.clone()));
        }
        let mut sites = Sites {
            node,
            operands: Vec::new(),
            staged: staged.max(1),
        };
        let e = &statement.einsum;
        let state = e.reduce.as_ref().filter(|r| !r.agg.selects());
        let state = state.map(|r| State::of(r, Kind::of(r.acc), e.dtype).ok_or(KernelError::DType));
        Ok(GpuKernel {
            maps: statement.maps()?,
            state: state.transpose()?,
            kernel: Kernel::new(statement.clone(), &mut sites)?,
            statement,
            sites,
        })
    }

    /// The calls that compute the output box of `tile` into `writes`: one window, whose element type is the
    /// accumulator's (a partial result) or the vertex's, or one per component of a record, if the tile does
    /// not have all of the reduced labels.
    ///
    /// `reads` has one window per operand, which covers the tile's footprint in it; `slots` are the values of
    /// the graph's numbered literals.
    ///
    /// # Errors
    /// Windows that do not fit the tile: bugs of the task graph.
    pub fn calls(
        &self,
        tile: &Region,
        reads: &[Window],
        writes: &[Window],
        slots: &[Value],
    ) -> Result<Work, KernelRunError> {
        let statement = &self.statement;
        count("labels", statement.extents.len(), tile.0.len())?;
        count("windows", self.maps.len(), reads.len())?;
        let inside = |(&(lo, hi), &extent): (&(usize, usize), &usize)| lo <= hi && hi <= extent;
        if !tile.0.iter().zip(&statement.extents).all(inside) {
            return Err(KernelRunError::Tile {
                tile: tile.to_string(),
                extents: statement.extents.clone(),
            });
        }
        let e = &statement.einsum;
        let whole = |l: &LabelId| tile.0[l.at()] == (0, statement.extents[l.at()]);
        let record = e.reduce.as_ref().filter(|r| r.agg.record().is_some());
        let partial = record.is_some_and(|r| !r.labels.iter().all(whole));
        let parts = match partial {
            true => e.parts(),
            false => vec![Part::whole(e)],
        };
        count("results", parts.len(), writes.len())?;
        let output = output_region(e, tile, &statement.extents);
        if output.is_empty() {
            return Ok(Work::default());
        }
        for ((map, tensor), window) in self.maps.iter().zip(&statement.operands).zip(reads) {
            let needed = map.footprint(tile, &tensor.shape);
            fits(window, &needed, &[tensor.dtype], &tensor.name)?;
        }
        let acc = e
            .reduce
            .as_ref()
            .filter(|_| record.is_none())
            .map(|r| r.acc);
        for (part, window) in parts.iter().zip(writes) {
            let dtypes = [part.dtype, acc.unwrap_or(part.dtype)];
            fits(window, &part.region(&output), &dtypes, &statement.name)?;
        }
        let arrays = |windows: &[Window], place: fn(usize) -> Place| {
            let windows = windows.iter().enumerate();
            windows
                .map(|(n, w)| Array::of(w, place(n)))
                .collect::<Vec<_>>()
        };
        let mut builder = Builder::default();
        let ends = Ends {
            prior: None,
            targets: &arrays(writes, Place::Write),
            partial,
            repair: false,
        };
        self.kernel.calls(
            tile,
            &arrays(reads, Place::Read),
            &ends,
            slots,
            &mut builder,
        );
        Ok(builder.work)
    }

    /// The calls that fold a box of partial results, of which there is one window per part of each in the
    /// order of `partials`, in the balanced binary tree `((0, 1), (2, 3)), …` over them, and convert to the
    /// element type of `dst` ([`Place::Write`] number 0).
    ///
    /// # Errors
    /// Windows that do not fit the box: bugs of the task graph.
    pub fn fold(
        &self,
        partials: &[Window],
        dst: &Window,
        region: &Region,
    ) -> Result<Work, KernelRunError> {
        let e = &self.statement.einsum;
        let parts = e.parts();
        count("results", 0, partials.len() % parts.len())?;
        fits(dst, region, &[e.dtype], &self.statement.name)?;
        for partial in partials.chunks(parts.len()) {
            for (window, part) in partial.iter().zip(&parts) {
                fits(
                    window,
                    &part.region(region),
                    &[part.dtype],
                    &self.statement.name,
                )?;
            }
        }
        let labels: Vec<LabelId> = (0..region.0.len() as u16).map(LabelId).collect();
        let array = |n: usize, window: &Window| Array::of(window, Place::Read(n));
        let target = Array::of(dst, Place::Write(0));
        let mut builder = Builder::default();
        let Some(state) = &self.state else {
            count("partial results", 1, partials.len())?;
            let call = copy(&array(0, &partials[0]), &target, region);
            call.into_iter().for_each(|c| builder.push(c));
            return Ok(builder.work);
        };
        let mut sources: Vec<Vec<Walked>> = Vec::new();
        for (at, window) in partials.iter().enumerate() {
            let (part, array) = (&parts[at % parts.len()], array(at, window));
            if at % parts.len() == 0 {
                sources.push(Vec::new());
            }
            let walked = Walked::by_axis(&array, &labels, |l| part.axes[l.at()]);
            sources.last_mut().expect("it has begun").push(walked);
        }
        let merge = Merge {
            state,
            labels: &labels,
            tile: region,
        };
        let targets = [Walked::by_axis(&target, &labels, |_| true)];
        merge.calls(&sources, &targets, true, &mut builder);
        Ok(builder.work)
    }

    /// What kind of kernel it is, for people.
    pub fn describe(&self) -> String {
        match &self.kernel {
            Kernel::Plain(_) => "CUDA C".into(),
            Kernel::Staged { stages, .. } => {
                format!("CUDA C, {} inner reductions first", stages.len())
            }
            Kernel::Softmax(_) => "CUDA C, online softmax".into(),
        }
    }

    /// The error that a fault record tells, if it is of this vertex.
    pub fn fault(&self, record: &[u64; FAULT_WORDS]) -> Option<KernelRunError> {
        let site = record[0].checked_sub(1)?;
        if site >> 16 != u64::from(self.sites.node.0) {
            return None;
        }
        let operands = self.sites.operands.get((site & 0xffff) as usize)?;
        let tensor = operands.get((record[1] >> 32) as usize)?;
        let axis = (record[1] & 0xffff_ffff) as usize;
        Some(KernelRunError::OutOfRange {
            tensor: tensor.name.clone(),
            axis,
            value: record[2] as i64,
            extent: *tensor.shape.get(axis)?,
        })
    }
}

/// The call that copies a box between windows ([`Place::Read`] and [`Place::Write`] number 0), converting to
/// the element type of `dst`; none for a box without elements. Where the box is contiguous in both, the
/// device's own copy does it.
///
/// # Errors
/// Windows that do not cover the box.
pub fn copy_call(
    src: &Window,
    dst: &Window,
    region: &Region,
) -> Result<Option<Call>, KernelRunError> {
    let name: Arc<str> = "copy".into();
    fits(src, region, &[src.dtype], &name)?;
    fits(dst, region, &[dst.dtype], &name)?;
    let (from, to) = (
        Array::of(src, Place::Read(0)),
        Array::of(dst, Place::Write(0)),
    );
    Ok(copy(&from, &to, region))
}

fn count(what: &'static str, expected: usize, given: usize) -> Result<(), KernelRunError> {
    match expected == given {
        true => Ok(()),
        false => Err(KernelRunError::Count {
            what,
            expected,
            given,
        }),
    }
}

fn fits(
    window: &Window,
    needed: &Region,
    dtypes: &[DType],
    tensor: &Arc<str>,
) -> Result<(), KernelRunError> {
    let covers = window.region.0.len() == needed.0.len() && window.region.contains(needed);
    if covers && dtypes.contains(&window.dtype) {
        return Ok(());
    }
    Err(KernelRunError::Window {
        tensor: tensor.clone(),
        window: format!("{} {}", window.dtype, window.region),
        needed: format!("{} {needed}", dtypes[0]),
    })
}
