//! Reductions inside expressions: each is a kernel of its own, whose results stay in scratch.
#![expect(unsafe_code, reason = "scratch is read and written through windows")]

use eindecomp_core::ein::{DType, Value};
use eindecomp_core::plan::layout::Region;

use super::contraction::Contraction;
use super::nest::Cut;
use super::{Kernel, KernelError, KernelRunError, PACKED_PIECES, Scratch, Way};
use crate::backend::split::{Inner, Split};
use crate::view::{Packed, View, ViewMut};

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

/// A part of a vertex as a kernel of its own.
#[derive(Debug)]
pub(super) struct Stage {
    pub(super) kernel: Kernel,
    part: Inner,
}

impl Stage {
    pub(super) fn new(part: Inner) -> Result<Stage, KernelError> {
        Ok(Stage {
            kernel: Kernel::new(part.statement.clone())?,
            part,
        })
    }

    /// Its part of a tile of the whole vertex.
    fn own(&self, tile: &Region) -> Region {
        Region(self.part.labels.iter().map(|l| tile.0[l.at()]).collect())
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
        let region = Region(own.0[..self.part.axes].to_vec());
        let mut out = scratch.take(self.kernel.einsum.dtype, region);
        let reads: Vec<View> = self.part.reads.iter().map(|&n| reads[n].clone()).collect();
        self.kernel
            .run(&own, &reads, &[out.view_mut()], slots, scratch)?;
        Ok(out)
    }
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
    pub(super) fn new(split: Split) -> Result<Staged, KernelError> {
        let stages = split.inner.into_iter().map(Stage::new);
        Ok(Staged {
            stages: stages.collect::<Result<_, _>>()?,
            rest: Kernel::new(split.rest)?,
            kept: split.kept,
        })
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
    pub(super) fn parts(&self, tile: &Region, most: usize) -> Option<Vec<Cut>> {
        let contractions = self.stages.iter().filter_map(|s| s.contraction(tile));
        let (stage, own, contraction) = contractions.max_by_key(|(_, own, _)| own.volume())?;
        let maps = matches!(&self.rest.way, Way::Plain(None, v) if v.agg.is_none());
        let most = match maps && self.stages.len() == 1 {
            true => most,
            false => PACKED_PIECES,
        };
        let parts = contraction.parts(&own, most).into_iter();
        let parts = parts.map(|cut| Cut {
            label: stage.part.labels[cut.label.at()],
            ..cut
        });
        let outer = |cut: &Cut| self.rest.out.contains(&cut.label);
        Some(parts.filter(outer).collect())
    }

    /// The only stage that reads an operand, and which of its own that is; `None` if something else does, too.
    fn reader(&self, operand: usize) -> Option<(&Stage, usize)> {
        let of = |stage: &Stage| stage.part.reads.iter().position(|&n| n == operand);
        let mut readers = self.stages.iter().filter_map(|s| Some((s, of(s)?)));
        let only = readers.next()?;
        (readers.next().is_none() && !self.kept.contains(&operand)).then_some(only)
    }

    /// As [`Kernel::packed`].
    pub(super) fn packed(
        &self,
        tile: &Region,
        pieces: &[Region],
        operand: usize,
        buffer: &ViewMut,
    ) -> Option<Vec<Packed>> {
        let (stage, own) = self.reader(operand)?;
        let pieces: Vec<Region> = pieces.iter().map(|piece| stage.own(piece)).collect();
        let kernel = &stage.kernel;
        kernel.packed(&stage.own(tile), &pieces, own, buffer)
    }

    /// As [`Kernel::pack`].
    pub(super) fn pack(
        &self,
        tile: &Region,
        operand: usize,
        buffer: &ViewMut,
        scratch: &mut Scratch,
    ) {
        if let Some((stage, own)) = self.reader(operand) {
            stage.kernel.pack(&stage.own(tile), own, buffer, scratch);
        }
    }

    pub(super) fn describe(&self) -> String {
        let stages = self.stages.iter().map(|s| s.kernel.describe());
        let stages: Vec<String> = stages.collect();
        format!("{}, then {}", stages.join(", "), self.rest.describe())
    }
}
