//! Kernels on the CPU.
//!
//! A kernel is compiled once per vertex and runs any tile of it on one thread. Contractions go
//! through a GEMM (`gemm`); everything else is a register program over chunks of points
//! (`program`, `exec`, `calls`) whose values are stored or folded (`vector`, `reduce`).
//! `nest` turns label ranges and strides into loops; `memory` moves elements between windows
//! and registers; `combine` folds partial results and copies boxes.
//!
//! *Invariant*: the order of every floating-point operation follows from the kernel and the tile
//! alone: not from the number of threads, nor from the strides of windows, which differ between
//! shared and private memory.

mod calls;
mod combine;
mod exec;
mod gemm;
mod math;
mod memory;
mod nest;
mod program;
mod reduce;
mod simd;
#[cfg(test)]
mod tests;
mod vector;

use std::sync::Arc;

use eindecomp_core::ein::access::{AccessMap, AxisAccess};
use eindecomp_core::ein::{DType, EinSum, LabelId, Value};
use eindecomp_core::graph::{BoundGraph, NodeId};
use eindecomp_core::plan::layout::Region;

pub use combine::{copy, fold};

use crate::view::{View, ViewMut};
use gemm::{Contraction, Converted};
use nest::Walk;
use program::{Program, Source};
use vector::{Vector, Work};

/// Points of a vector kernel that are worth a piece of their own.
const POINTS: usize = 1 << 16;
/// Multiplications of a contraction that are worth a piece of their own.
const MULTIPLICATIONS: usize = 1 << 21;
/// Most pieces of one tile.
const PIECES: usize = 64;

/// Why no kernel can be made for a vertex.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum KernelError {
    /// Inputs are not computed.
    #[error("{0} is an input, not an EinSum")]
    Input(NodeId),
    /// An index expression that leaves ±2³² somewhere in the index space.
    #[error("axis {axis} of `{tensor}` is read at indices beyond 2^32")]
    Index {
        /// The tensor that is read.
        tensor: Arc<str>,
        /// The axis, from 0.
        axis: usize,
    },
    /// Some function does not fit its arguments: the graph does not verify.
    #[error("some expression has no element type")]
    DType,
}

/// Why a kernel did not finish a tile.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum KernelRunError {
    /// An index out of range at an access without `else`.
    #[error("index {value} is outside axis {axis} of `{tensor}`, whose extent is {extent}")]
    OutOfRange {
        /// The tensor that is read.
        tensor: Arc<str>,
        /// The axis, from 0.
        axis: usize,
        /// The index.
        value: i64,
        /// The axis' extent.
        extent: usize,
    },
    /// A window that does not fit the tile: a bug of the task graph.
    #[error("the window on `{tensor}` is {window}, but the tile needs {needed}")]
    Window {
        /// The tensor.
        tensor: Arc<str>,
        /// The window's box and element type.
        window: String,
        /// The box and element type needed.
        needed: String,
    },
    /// A tile that is not in the label's range: a bug of the task graph.
    #[error("the tile {tile} leaves the index space of extents {extents:?}")]
    Tile {
        /// Ranges of the labels.
        tile: String,
        /// Extents of the labels.
        extents: Vec<usize>,
    },
    /// A tile of another number of labels, or another number of windows: a bug of the task graph.
    #[error("{given} {what} were given, but the kernel has {expected}")]
    Count {
        /// Labels or windows.
        what: &'static str,
        /// The kernel's.
        expected: usize,
        /// The given.
        given: usize,
    },
}

/// Memory that a worker keeps between runs, of any kernels.
#[derive(Debug, Default)]
pub struct Scratch {
    work: Work,
    converted: Converted,
}

/// A vertex compiled for the CPU; it runs any tile of it.
#[derive(Debug)]
pub struct Kernel {
    einsum: EinSum,
    /// Extents of the labels.
    extents: Vec<usize>,
    /// Shapes, element types and names of the operands.
    shapes: Vec<Vec<usize>>,
    dtypes: Vec<DType>,
    tensors: Vec<Arc<str>>,
    name: Arc<str>,
    maps: Vec<AccessMap>,
    contraction: Option<Contraction>,
    vector: Vector,
}

impl Kernel {
    /// Compiles a vertex, for tiles of any size.
    ///
    /// # Errors
    /// [`KernelError`]: on inputs, on graphs that do not verify, and on absurd index expressions.
    pub fn compile(graph: &BoundGraph, node: NodeId) -> Result<Kernel, KernelError> {
        let vertex = graph.node(node);
        let einsum = vertex.einsum().ok_or(KernelError::Input(node))?;
        let operands = || einsum.operands.iter().map(|o| o.node);
        let shapes: Vec<Vec<usize>> = operands().map(|n| graph.shape(n).to_vec()).collect();
        let dtypes: Vec<DType> = operands().map(|n| graph.node(n).dtype).collect();
        let extents = graph.label_extents(node).to_vec();
        let maps: Vec<AccessMap> = einsum.operands.iter().map(AccessMap::of).collect();
        for (map, operand) in maps.iter().zip(&einsum.operands) {
            if let Some(axis) = map.axes.iter().position(|a| !is_small(a, &extents)) {
                let tensor = graph.node(operand.node).name.clone();
                return Err(KernelError::Index { tensor, axis });
            }
        }
        let program = Program::compile(&Source {
            einsum,
            extents: &extents,
            shapes: &shapes,
            dtypes: &dtypes,
        })
        .ok_or(KernelError::DType)?;
        Ok(Kernel {
            contraction: Contraction::of(einsum, &extents, &shapes, &dtypes),
            vector: Vector {
                program,
                out: einsum.out.iter().flatten().copied().collect(),
                reduced: einsum
                    .reduce
                    .iter()
                    .flat_map(|r| &r.labels)
                    .copied()
                    .collect(),
                agg: einsum.reduce.as_ref().map(|r| (r.agg, r.acc)),
            },
            maps,
            tensors: operands().map(|n| graph.node(n).name.clone()).collect(),
            name: vertex.name.clone(),
            einsum: einsum.clone(),
            extents,
            shapes,
            dtypes,
        })
    }

    /// Cuts a tile along output labels into pieces that may run at once, each on any worker. A
    /// pure function of kernel and tile.
    pub fn subtiles(&self, tile: &Region) -> Vec<Region> {
        if tile.is_empty() {
            return vec![tile.clone()];
        }
        let gemm = self.contraction.as_ref().filter(|c| c.suits(tile));
        let grain = if gemm.is_some() {
            MULTIPLICATIONS
        } else {
            POINTS
        };
        let mut wanted = (tile.volume() / grain).clamp(1, PIECES);
        let mut pieces = vec![tile.clone()];
        let last = self.vector.out.last();
        for &label in &self.vector.out {
            let (lo, hi) = tile.0[label.at()];
            let least = match gemm {
                Some(c) => c.least(label.at()),
                None if Some(&label) == last => nest::LANES,
                None => 1,
            };
            let parts = wanted.min((hi - lo) / least).max(1);
            wanted = wanted.div_ceil(parts);
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

    /// Computes the output box of `tile` into `write`, whose element type is the accumulator's
    /// (a partial result) or the vertex's.
    ///
    /// `reads` has one window per operand, which covers the tile's footprint in it; `slots` are
    /// the values of the graph's numbered literals.
    ///
    /// # Errors
    /// An index out of range in the data; windows that do not fit the tile.
    pub fn run(
        &self,
        tile: &Region,
        reads: &[View],
        write: &ViewMut,
        slots: &[Value],
        scratch: &mut Scratch,
    ) -> Result<(), KernelRunError> {
        let count = |what, expected, given| {
            let error = KernelRunError::Count {
                what,
                expected,
                given,
            };
            if expected == given {
                Ok(())
            } else {
                Err(error)
            }
        };
        count("labels", self.extents.len(), tile.0.len())?;
        count("windows", self.maps.len(), reads.len())?;
        if self
            .vector
            .out
            .iter()
            .any(|l| tile.0[l.at()].0 >= tile.0[l.at()].1)
        {
            return Ok(());
        }
        let out = self.output(tile, write)?;
        let footprints = self.footprints(tile, reads)?;
        match self.contraction.as_ref().filter(|c| c.suits(tile)) {
            Some(c) => {
                c.run(
                    tile,
                    &out,
                    reads,
                    &footprints,
                    write,
                    &mut scratch.converted,
                );
                Ok(())
            }
            None => self
                .vector
                .run(
                    tile,
                    out,
                    (reads, &self.shapes),
                    write,
                    slots,
                    &mut scratch.work,
                )
                .map_err(|miss| KernelRunError::OutOfRange {
                    tensor: self.tensors[miss.operand].clone(),
                    axis: miss.axis,
                    value: miss.index,
                    extent: self.shapes[miss.operand][miss.axis],
                }),
        }
    }

    /// What kind of kernel it is, for people.
    pub fn describe(&self) -> String {
        match &self.contraction {
            Some(c) => c.describe(&self.einsum),
            None => {
                let n = self.vector.program.instrs.len();
                let s = if n == 1 { "" } else { "s" };
                match &self.einsum.reduce {
                    Some(r) => format!("vector {n} instruction{s}, {}", r.agg),
                    None => format!("vector {n} instruction{s}"),
                }
            }
        }
    }

    /// The walk of the output in its window, which is found to hold the tile's box.
    fn output(&self, tile: &Region, write: &ViewMut) -> Result<Walk, KernelRunError> {
        let mut walk = Walk {
            base: 0,
            coefficients: vec![0; self.extents.len()],
        };
        let mut needed = Region(Vec::new());
        let window = write.region();
        for (axis, labels) in self.einsum.out.iter().enumerate() {
            let (mut lo, mut hi) = (0, 1);
            let mut inner = 1;
            for l in labels.iter().rev() {
                let (a, b) = tile.0[l.at()];
                (lo, hi) = (lo + a * inner, hi + (b - 1) * inner);
                if let Some(&stride) = write.strides().get(axis) {
                    walk.coefficients[l.at()] = (inner as isize * stride) as i64;
                }
                inner *= self.extents[l.at()];
            }
            needed.0.push((lo, hi));
        }
        for (r, &s) in window.0.iter().zip(write.strides()) {
            walk.base -= r.0 as i64 * s as i64;
        }
        let acc = self.einsum.reduce.as_ref().map(|r| r.acc);
        let dtype = write.dtype();
        let fits = dtype == self.einsum.dtype || acc == Some(dtype);
        if fits && window.0.len() == needed.0.len() && window.contains(&needed) {
            return Ok(walk);
        }
        Err(KernelRunError::Window {
            tensor: self.name.clone(),
            window: format!("{dtype} {window}"),
            needed: format!("{} {needed}", self.einsum.dtype),
        })
    }

    /// The tile's footprints, which are found to be in the windows.
    fn footprints(&self, tile: &Region, reads: &[View]) -> Result<Vec<Region>, KernelRunError> {
        let mut all = Vec::with_capacity(reads.len());
        for (n, view) in reads.iter().enumerate() {
            let needed = self.maps[n].footprint(tile, &self.shapes[n]);
            let window = view.region();
            let fits = window.0.len() == needed.0.len() && window.contains(&needed);
            if !fits || view.dtype() != self.dtypes[n] {
                return Err(KernelRunError::Window {
                    tensor: self.tensors[n].clone(),
                    window: format!("{} {window}", view.dtype()),
                    needed: format!("{} {needed}", self.dtypes[n]),
                });
            }
            all.push(needed);
        }
        Ok(all)
    }
}

/// Do the values of an affine index stay so small that no place computed from them overflows?
fn is_small(axis: &AxisAccess, extents: &[usize]) -> bool {
    let AxisAccess::Affine { terms, offset } = axis else {
        return true;
    };
    let largest = |&(l, c): &(LabelId, i64)| u128::from(c.unsigned_abs()) * extents[l.at()] as u128;
    let sum: u128 = terms.iter().map(largest).sum();
    sum + u128::from(offset.unsigned_abs()) <= 1 << 32
}
