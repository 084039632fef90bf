//! Reductions inside expressions: each is a kernel of its own, whose results stay in scratch.
#![expect(unsafe_code, reason = "scratch is read and written through windows")]

use std::collections::BTreeSet;

use eindecomp_core::ein::{
    DType, EinSum, EinSumSpec, Expr, Fold, LabelId, Operand, Reduce, ScalarFn, Value,
};
use eindecomp_core::graph::NodeId;
use eindecomp_core::plan::layout::Region;

use super::contraction::Contraction;
use super::program::stays_inside;
use super::{Kernel, KernelError, KernelRunError, PACKED_PIECES, Scratch, Tensor, Way};
use crate::view::{View, ViewMut};
use eindecomp_core::ein::access::affine;

/// A dense row-major box of numbers.
#[derive(Debug)]
pub(super) struct Array {
    words: Vec<u64>,
    dtype: DType,
    region: Region,
}

impl Array {
    /// In memory that is used again.
    pub(super) fn new(mut words: Vec<u64>, dtype: DType, region: Region) -> Array {
        let bytes = region.volume() * dtype.size();
        let needed = bytes.div_ceil(8).max(1);
        words.resize(words.len().max(needed), 0);
        Array {
            words,
            dtype,
            region,
        }
    }

    pub(super) fn into_words(self) -> Vec<u64> {
        self.words
    }

    /// The same elements in a box of another shape.
    pub(super) fn reshape(&mut self, region: Region) {
        assert_eq!(region.volume(), self.region.volume());
        self.region = region;
    }

    /// Extent of the last axis.
    pub(super) fn length(&self) -> usize {
        self.region.0.last().map_or(1, |r| r.1 - r.0)
    }

    /// Sets every element.
    pub(super) fn fill(&mut self, value: Value) {
        let bytes = match (self.dtype, value.cast(self.dtype)) {
            (DType::F64, v) => v.as_f64().to_ne_bytes().to_vec(),
            (DType::F32, v) => (v.as_f64() as f32).to_ne_bytes().to_vec(),
            (DType::BF16, v) => half::bf16::from_f64(v.as_f64()).to_ne_bytes().to_vec(),
            (DType::F16, v) => half::f16::from_f64(v.as_f64()).to_ne_bytes().to_vec(),
            (DType::I64, v) => v.as_i64().to_ne_bytes().to_vec(),
            (DType::I32, v) => (v.as_i64() as i32).to_ne_bytes().to_vec(),
            (DType::U32, v) => (v.as_i64() as u32).to_ne_bytes().to_vec(),
            (DType::U8 | DType::Bool, v) => vec![v.as_i64() as u8],
        };
        let volume = self.region.volume();
        let all: &mut [u8] = bytemuck::cast_slice_mut(&mut self.words);
        for element in all[..volume * bytes.len()].chunks_mut(bytes.len()) {
            element.copy_from_slice(&bytes);
        }
    }

    pub(super) fn strides(&self) -> Vec<isize> {
        let shape = self.region.shape();
        let mut strides = vec![1; shape.len()];
        for axis in (1..shape.len()).rev() {
            strides[axis - 1] = strides[axis] * shape[axis] as isize;
        }
        strides
    }

    pub(super) fn view(&self) -> View {
        let strides = self.strides();
        // SAFETY: the words hold the box, which outlives the kernel that the view is made for;
        // they are zeros or what a kernel wrote, so every element is initialised.
        unsafe {
            View::new(
                self.words.as_ptr().cast(),
                self.dtype,
                self.region.clone(),
                strides,
            )
        }
    }

    /// The box from place `start` of the last axis on, with that axis counted from 0.
    pub(super) fn tail(&self, start: usize) -> View {
        let (mut region, strides) = (self.region.clone(), self.strides());
        if let Some(last) = region.0.last_mut() {
            assert!(last.0 == 0 && start <= last.1);
            last.1 -= start;
        }
        // SAFETY: as `view`; the start is inside the box, or nothing is read.
        unsafe {
            let first = self
                .words
                .as_ptr()
                .cast::<u8>()
                .add(start * self.dtype.size());
            View::new(first, self.dtype, region, strides)
        }
    }

    pub(super) fn view_mut(&mut self) -> ViewMut {
        let (region, strides) = (self.region.clone(), self.strides());
        // SAFETY: as `view`; the array is lent for writing.
        unsafe { ViewMut::new(self.words.as_mut_ptr().cast(), self.dtype, region, strides) }
    }

    /// The elements, of which there is the right kind.
    pub(super) fn lanes<T: bytemuck::Pod>(&mut self) -> &mut [T] {
        assert_eq!(size_of::<T>(), self.dtype.size());
        let volume = self.region.volume();
        &mut bytemuck::cast_slice_mut(&mut self.words)[..volume]
    }
}

/// A part of a vertex as a vertex of its own, with one axis per label.
#[derive(Debug)]
pub(super) struct Stage {
    pub(super) kernel: Kernel,
    /// The labels of the whole vertex that its own stand for.
    labels: Vec<LabelId>,
    /// How many of them are axes of the result.
    axes: usize,
    /// The operands of the whole vertex that its own stand for.
    reads: Vec<usize>,
}

impl Stage {
    /// `body` of `e` at every point of `out`, reduced or not. `operands` are those of `e`.
    pub(super) fn new(
        e: &EinSum,
        extents: &[usize],
        operands: &[Tensor],
        out: Vec<LabelId>,
        reduce: Option<&Reduce>,
        body: &Expr,
        dtype: DType,
    ) -> Result<Stage, KernelError> {
        let axes = out.len();
        let filter = reduce.and_then(|r| r.filter.as_ref());
        let mut labels = out;
        labels.extend(reduce.iter().flat_map(|r| &r.labels));
        let mut used = BTreeSet::new();
        for x in filter.into_iter().chain([body]) {
            x.visit(&mut |x| {
                if let Expr::Fold(f) = x {
                    labels.extend(&f.reduce.labels);
                }
            });
            reads(&e.operands, x, &mut used);
        }
        let used: Vec<usize> = used.into_iter().collect();
        let label = |l: LabelId| {
            let at = labels.iter().position(|&known| known == l);
            LabelId(at.unwrap_or(labels.len()) as u16)
        };
        let operand = |n: usize| used.iter().position(|&u| u == n).unwrap_or(used.len());
        let translate = |x: &Expr| {
            x.clone().map(&mut |x| match x {
                Expr::Index(l) => Expr::Index(label(l)),
                Expr::Operand(n) => Expr::Operand(operand(n)),
                Expr::Fold(mut f) => {
                    f.reduce.labels.iter_mut().for_each(|l| *l = label(*l));
                    Expr::Fold(f)
                }
                other => other,
            })
        };
        let spec = EinSumSpec {
            labels: labels.iter().map(|l| e.labels[l.at()].clone()).collect(),
            out: (0..axes as u16).map(|l| vec![LabelId(l)]).collect(),
            reduce: reduce.map(|r| Reduce {
                agg: r.agg.clone(),
                labels: r.labels.iter().map(|&l| label(l)).collect(),
                acc: r.acc,
                filter: r.filter.as_ref().map(translate),
            }),
            operands: (used.iter())
                .map(|&n| Operand {
                    node: NodeId(0),
                    index: e.operands[n].index.iter().map(translate).collect(),
                    otherwise: e.operands[n].otherwise,
                })
                .collect(),
            body: translate(body),
            dtype,
        };
        let einsum = EinSum::new(spec).map_err(|_| KernelError::DType)?;
        let tensors = used.iter().map(|&n| operands[n].clone()).collect();
        let extents = labels.iter().map(|l| extents[l.at()]).collect();
        Ok(Stage {
            kernel: Kernel::new(einsum, extents, tensors, "".into())?,
            labels,
            axes,
            reads: used,
        })
    }

    /// Its part of a tile of the whole vertex.
    fn own(&self, tile: &Region) -> Region {
        Region(self.labels.iter().map(|l| tile.0[l.at()]).collect())
    }

    /// The same, and the contraction that it is there.
    fn contraction(&self, tile: &Region) -> Option<(&Stage, Region, &Contraction)> {
        let own = self.own(tile);
        match &self.kernel.way {
            Way::Plain(Some(c), _) if c.suits(&own) => Some((self, own, c)),
            _ => None,
        }
    }

    /// Its value at the points of a tile of the whole vertex.
    pub(super) fn run(
        &self,
        tile: &Region,
        reads: &[View],
        slots: &[Value],
        scratch: &mut Scratch,
    ) -> Result<Array, KernelRunError> {
        let own = self.own(tile);
        let region = Region(own.0[..self.axes].to_vec());
        let mut out = scratch.take(self.kernel.einsum.dtype, region);
        let reads: Vec<View> = self.reads.iter().map(|&n| reads[n].clone()).collect();
        self.kernel
            .run(&own, &reads, &[out.view_mut()], slots, scratch)?;
        Ok(out)
    }
}

/// Numbers of the operands that an expression reads, also to know where others are read.
fn reads(operands: &[Operand], x: &Expr, used: &mut BTreeSet<usize>) {
    x.visit(&mut |x| {
        if let Expr::Operand(n) = x
            && used.insert(*n)
        {
            operands[*n]
                .index
                .iter()
                .for_each(|i| reads(operands, i, used));
        }
    });
}

/// A vertex whose inner folds run first.
#[derive(Debug)]
pub(super) struct Staged {
    stages: Vec<Stage>,
    rest: Kernel,
    /// What the rest reads of the operands and, numbered after them, the results of stages.
    kept: Vec<usize>,
}

impl Staged {
    /// `None` if there is no fold inside.
    pub(super) fn of(
        e: &EinSum,
        extents: &[usize],
        operands: &[Tensor],
        name: &std::sync::Arc<str>,
    ) -> Result<Option<Staged>, KernelError> {
        let mut folds = Folds {
            e,
            extents,
            operands,
            found: Vec::new(),
        };
        let mut spec = e.clone().into_spec();
        if let Some(r) = &mut spec.reduce {
            r.filter = r.filter.take().map(|f| folds.take(f, None));
        }
        let filter = e.reduce.as_ref().and_then(|r| r.filter.clone());
        spec.body = folds.take(spec.body, filter);
        let found = folds.found;
        if found.is_empty() {
            return Ok(None);
        }
        let outer = spec.out.iter().map(Vec::len).sum::<usize>()
            + spec.reduce.as_ref().map_or(0, |r| r.labels.len());
        spec.labels.truncate(outer);
        let mut tensors = operands.to_vec();
        let mut stages = Vec::new();
        for (axes, fold) in found {
            let dtype = match fold.reduce.agg.selects() {
                true => DType::I64,
                false => fold.reduce.acc,
            };
            spec.operands.push(Operand {
                node: NodeId(0),
                index: axes.iter().map(|&l| Expr::Index(l)).collect(),
                otherwise: None,
            });
            tensors.push(Tensor {
                shape: axes.iter().map(|l| extents[l.at()]).collect(),
                dtype,
                name: name.clone(),
            });
            let reduce = Some(&fold.reduce);
            stages.push(Stage::new(
                e, extents, operands, axes, reduce, &fold.body, dtype,
            )?);
        }
        // Operands that only folds read are not read any more.
        let mut used = BTreeSet::new();
        let filter = spec.reduce.as_ref().and_then(|r| r.filter.as_ref());
        for x in filter.into_iter().chain([&spec.body]) {
            reads(&spec.operands, x, &mut used);
        }
        let kept: Vec<usize> = used.into_iter().collect();
        fn renumber(x: Expr, kept: &[usize]) -> Expr {
            x.map(&mut |x| match x {
                Expr::Operand(n) => {
                    let at = kept.iter().position(|&u| u == n);
                    Expr::Operand(at.unwrap_or(kept.len()))
                }
                other => other,
            })
        }
        spec.body = renumber(spec.body, &kept);
        if let Some(r) = &mut spec.reduce {
            r.filter = r.filter.take().map(|f| renumber(f, &kept));
        }
        let all = std::mem::take(&mut spec.operands);
        for &n in &kept {
            let Operand { index, .. } = all[n].clone();
            spec.operands.push(Operand {
                index: index.into_iter().map(|i| renumber(i, &kept)).collect(),
                ..all[n]
            });
        }
        let tensors = kept.iter().map(|&n| tensors[n].clone()).collect();
        let einsum = EinSum::new(spec).map_err(|_| KernelError::DType)?;
        let rest = Kernel::new(einsum, extents[..outer].to_vec(), tensors, name.clone())?;
        Ok(Some(Staged { stages, rest, kept }))
    }

    pub(super) fn run(
        &self,
        tile: &Region,
        reads: &[View],
        writes: &[ViewMut],
        slots: &[Value],
        scratch: &mut Scratch,
    ) -> Result<(), KernelRunError> {
        let mut arrays = Vec::with_capacity(self.stages.len());
        for stage in &self.stages {
            arrays.push(stage.run(tile, reads, slots, scratch)?);
        }
        let read = |&n: &usize| match n.checked_sub(reads.len()) {
            None => reads[n].clone(),
            Some(stage) => arrays[stage].view(),
        };
        let reads: Vec<View> = self.kept.iter().map(read).collect();
        let outer = Region(tile.0[..self.rest.extents.len()].to_vec());
        self.rest.run(&outer, &reads, writes, slots, scratch)?;
        arrays.into_iter().for_each(|a| scratch.give(a));
        Ok(())
    }

    /// Into how many parts output labels of a tile are cut: as the largest contraction inside, if it is
    /// one. At most `most` pieces if it is the only stage and nothing is folded afterwards, since then
    /// the result does not depend on the cut; the rows of one may be the batch of another.
    pub(super) fn parts(&self, tile: &Region, most: usize) -> Option<Vec<(LabelId, usize)>> {
        let contractions = self.stages.iter().filter_map(|s| s.contraction(tile));
        let (stage, own, contraction) = contractions.max_by_key(|(_, own, _)| own.volume())?;
        let maps = matches!(&self.rest.way, Way::Plain(None, v) if v.agg.is_none());
        let most = match maps && self.stages.len() == 1 {
            true => most,
            false => PACKED_PIECES,
        };
        let parts = contraction.parts(&own, most).into_iter();
        let parts = parts.map(|(l, n)| (stage.labels[l.at()], n));
        Some(parts.filter(|(l, _)| self.rest.out.contains(l)).collect())
    }

    pub(super) fn describe(&self) -> String {
        let stages = self.stages.iter().map(|s| s.kernel.describe());
        let stages: Vec<String> = stages.collect();
        format!("{}, then {}", stages.join(", "), self.rest.describe())
    }
}

/// Takes folds out of expressions.
struct Folds<'a> {
    e: &'a EinSum,
    extents: &'a [usize],
    operands: &'a [Tensor],
    /// The labels that each depends on, and the fold.
    found: Vec<(Vec<LabelId>, Fold)>,
}

impl Folds<'_> {
    /// The expression with operands in place of its folds; `guard` holds where it is needed.
    fn take(&mut self, x: Expr, guard: Option<Expr>) -> Expr {
        let and = |guard: &Option<Expr>, cond: Expr| match guard {
            None => Some(cond),
            Some(g) => Some(Expr::call(ScalarFn::AND, [g.clone(), cond])),
        };
        match x {
            Expr::Fold(fold) => self.fold(*fold, guard),
            Expr::Call(f, args) => {
                let mut inner = guard.clone();
                let mut made = Vec::with_capacity(args.len());
                for arg in args {
                    made.push(self.take(arg.clone(), inner.clone()));
                    match f {
                        ScalarFn::AND => inner = and(&guard, arg),
                        ScalarFn::OR => inner = and(&guard, Expr::call(ScalarFn::NOT, [arg])),
                        _ => {}
                    }
                }
                Expr::Call(f, made)
            }
            Expr::Cast(d, inner) => Expr::Cast(d, Box::new(self.take(*inner, guard))),
            Expr::If(c, a, b) => {
                let not = Expr::call(ScalarFn::NOT, [(*c).clone()]);
                let (yes, no) = (and(&guard, (*c).clone()), and(&guard, not));
                let c = self.take(*c, guard);
                let (a, b) = (self.take(*a, yes), self.take(*b, no));
                Expr::If(Box::new(c), Box::new(a), Box::new(b))
            }
            leaf => leaf,
        }
    }

    fn fold(&mut self, mut fold: Fold, guard: Option<Expr>) -> Expr {
        // Outside of its `if`, it would read what the `if` keeps it from reading.
        if let Some(guard) = guard.filter(|_| self.may_miss(&fold)) {
            let filter = fold.reduce.filter.take();
            fold.reduce.filter = Some(match filter {
                None => guard,
                Some(own) => Expr::call(ScalarFn::AND, [guard, own]),
            });
        }
        let mut labels = self.e.labels_of(&fold.body);
        if let Some(filter) = &fold.reduce.filter {
            labels.extend(self.e.labels_of(filter));
        }
        labels.retain(|&l| !self.e.is_inner(l));
        let at = self.operands.len() + self.found.len();
        self.found.push((labels.into_iter().collect(), fold));
        Expr::Operand(at)
    }

    /// May some access be out of range, without a value there?
    fn may_miss(&self, fold: &Fold) -> bool {
        let mut used = BTreeSet::new();
        reads(&self.e.operands, &fold.body, &mut used);
        used.into_iter().any(|n| {
            let (operand, shape) = (&self.e.operands[n], &self.operands[n].shape);
            let inside = |(x, &extent): (&Expr, &usize)| {
                affine(x).is_some_and(|(t, o)| stays_inside(&t, o, self.extents, extent))
            };
            operand.otherwise.is_none() && !operand.index.iter().zip(shape).all(inside)
        })
    }
}
