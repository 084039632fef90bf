//! Kernels on the CPU.
//!
//! A kernel is compiled once per vertex and runs any tile of it on one thread. Contractions over common
//! pairs of operators (`contraction`) run in packed register tiles (`tiles`); everything else is a
//! register program over chunks of points
//! (`program`, `exec`, `calls`) whose values are stored or folded (`vector`, `reduce`). A vertex
//! with reductions inside its expressions, or whose partial results are records, is run block by
//! block through smaller kernels, whose results stay in scratch (`fused`, `records`, `merging`, `softmax`).
//! An opaque kernel (`opaque`) is a Rust function that is given dense tiles.
//! `nest` turns label ranges and strides into loops; `memory` moves elements between windows
//! and registers; `combine` folds partial results and copies boxes.
//!
//! *Invariant*: the order of every floating-point operation follows from the kernel and the tile
//! alone: not from the number of threads, nor from the strides of windows, which differ between
//! shared and private memory.

mod calls;
mod combine;
mod contraction;
mod exec;
mod fused;
mod math;
mod memory;
mod merging;
mod nest;
mod opaque;
mod records;
mod reduce;
mod simd;
mod softmax;
#[cfg(test)]
mod tests;
mod tiles;
mod vector;

use std::sync::Arc;

use eindecomp_core::ein::access::AccessMap;
use eindecomp_core::ein::einsum::Part;
use eindecomp_core::ein::{Aggregation, DType, EinSum, LabelId, Value};
use eindecomp_core::graph::{BoundGraph, NodeId};
use eindecomp_core::kernel::KernelFn;
use eindecomp_core::plan::layout::Region;

use combine::fold;
use contraction::{Buffers, Contraction};

pub use super::error::{KernelError, KernelRunError};
pub use combine::copy;

use super::program::{Program, Source};
use super::split::{Split, Statement};
use crate::view::{Packed, View, ViewMut};
use fused::{Array, Staged};
use nest::{Cut, Walk};
use records::Records;
use vector::{Vector, Work};

/// Points of a vector kernel that are worth a piece of their own.
const POINTS: usize = 1 << 16;
/// Multiplications of a contraction that are worth a piece of their own.
const MULTIPLICATIONS: usize = 1 << 21;
/// Most pieces of one tile.
const PIECES: usize = 64;
/// Most pieces of a tile with a contraction inside, each of which packs its own operands.
const PACKED_PIECES: usize = 16;

/// Memory that a worker keeps between runs, of any kernels.
#[derive(Debug, Default)]
pub struct Scratch {
    work: Work,
    contraction: Buffers,
    /// Memory of arrays that nobody uses.
    spare: Vec<Vec<u64>>,
}

impl Scratch {
    fn take(&mut self, dtype: DType, region: Region) -> Array {
        Array::new(self.spare.pop().unwrap_or_default(), dtype, region)
    }

    fn give(&mut self, array: Array) {
        self.spare.push(array.into_words());
    }
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
    /// Labels of the output, slow to fast.
    out: Vec<LabelId>,
    way: Way,
}

/// How a kernel runs.
#[derive(Debug)]
enum Way {
    Plain(Option<Contraction>, Box<Vector>),
    Staged(Box<Staged>),
    Records(Box<Records>),
    Opaque(KernelFn),
}

impl Kernel {
    /// Compiles a vertex, for tiles of any size.
    ///
    /// # Errors
    /// [`KernelError`]: on inputs, on graphs that do not verify, and on absurd index expressions.
    pub fn compile(graph: &BoundGraph, node: NodeId) -> Result<Kernel, KernelError> {
        let mut kernel = Kernel::new(Statement::of(graph, node)?)?;
        if let Some(opaque) = kernel.einsum.opaque() {
            let function = graph.kernels().get(&opaque.kernel);
            let missing = || KernelError::NoKernel(opaque.kernel.clone());
            kernel.way = Way::Opaque(function.ok_or_else(missing)?);
        }
        Ok(kernel)
    }

    fn new(statement: Statement) -> Result<Kernel, KernelError> {
        let maps = statement.maps()?;
        let split = match statement.einsum.reduce.as_ref().map(|r| &r.agg) {
            Some(Aggregation::Record(_)) => None,
            _ => Split::of(&statement)?,
        };
        let records = match statement.einsum.reduce.as_ref().map(|r| &r.agg) {
            Some(Aggregation::Record(record)) => Some(Records::new(&statement, record)?),
            _ => None,
        };
        let Statement {
            einsum,
            extents,
            operands,
            name,
        } = statement;
        let out: Vec<LabelId> = einsum.out.iter().flatten().copied().collect();
        let shapes: Vec<Vec<usize>> = operands.iter().map(|t| t.shape.clone()).collect();
        let dtypes: Vec<DType> = operands.iter().map(|t| t.dtype).collect();
        let way = match (records, split) {
            (Some(records), _) => Way::Records(Box::new(records)),
            (None, Some(split)) => Way::Staged(Box::new(Staged::new(split)?)),
            (None, None) => {
                let program = Program::compile(&Source {
                    einsum: &einsum,
                    extents: &extents,
                    shapes: &shapes,
                    dtypes: &dtypes,
                })
                .ok_or(KernelError::DType)?;
                let reduced = einsum.reduce.iter().flat_map(|r| &r.labels);
                let vector = Vector {
                    program,
                    out: out.clone(),
                    reduced: reduced.copied().collect(),
                    agg: einsum.reduce.as_ref().and_then(|r| match r.agg {
                        Aggregation::Row(agg) => Some((agg, r.acc)),
                        Aggregation::Record(_) => None,
                    }),
                };
                let contraction = Contraction::of(&einsum, &extents, &shapes, &dtypes);
                Way::Plain(contraction, Box::new(vector))
            }
        };
        Ok(Kernel {
            way,
            out,
            maps,
            tensors: operands.into_iter().map(|t| t.name).collect(),
            name,
            einsum,
            extents,
            shapes,
            dtypes,
        })
    }

    /// Cuts a tile along output labels into pieces that may run at once, each on any worker. How many
    /// follows from kernel and tile alone, unless the result does not depend on it: then at most
    /// `most`, at least 1.
    pub fn subtiles(&self, tile: &Region, most: usize) -> Vec<Region> {
        if tile.is_empty() || matches!(self.way, Way::Opaque(_)) {
            return vec![tile.clone()];
        }
        let parts = match &self.way {
            Way::Plain(Some(c), _) if c.suits(tile) => Some(c.parts(tile, most)),
            Way::Staged(staged) => staged.parts(tile, most),
            _ => None,
        };
        let mut pieces = vec![tile.clone()];
        if let Some(parts) = parts {
            for cut in parts {
                pieces = cut.of(&pieces);
            }
            return pieces;
        }
        let plain = matches!(self.way, Way::Plain(..));
        let grain = if plain { POINTS } else { MULTIPLICATIONS };
        let mut wanted = (tile.volume() / grain).clamp(1, PIECES);
        let last = self.out.last();
        let labels = match &self.way {
            Way::Records(records) => records.rows(),
            _ => &self.out,
        };
        for &label in labels {
            let (lo, hi) = tile.0[label.at()];
            let least = match plain && Some(&label) == last {
                true => nest::LANES,
                false => 1,
            };
            let parts = wanted.min((hi - lo) / least).max(1);
            wanted = wanted.div_ceil(parts);
            pieces = Cut::even(label, parts).of(&pieces);
        }
        pieces
    }

    /// If a buffer that is operand number `operand` of a tile, and of nothing else, can be packed once for all of
    /// the tile's pieces ([`Kernel::pack`]): where each piece finds what it reads.
    pub(crate) fn packed(
        &self,
        tile: &Region,
        pieces: &[Region],
        operand: usize,
        buffer: &ViewMut,
    ) -> Option<Vec<Packed>> {
        match &self.way {
            Way::Plain(Some(c), _) => c.packed(tile, pieces, operand, buffer),
            Way::Staged(staged) => staged.packed(tile, pieces, operand, buffer),
            _ => None,
        }
    }

    /// Packs a buffer for which [`Kernel::packed`] found places.
    pub(crate) fn pack(
        &self,
        tile: &Region,
        operand: usize,
        buffer: &ViewMut,
        scratch: &mut Scratch,
    ) {
        match &self.way {
            Way::Plain(Some(c), _) => c.pack(tile, buffer, &mut scratch.contraction),
            Way::Staged(staged) => staged.pack(tile, operand, buffer, scratch),
            _ => {}
        }
    }

    /// Computes the output box of `tile` into `writes`: one window, whose element type is the
    /// accumulator's (a partial result) or the vertex's, or one per component of a record, if the
    /// tile does not have all of the reduced labels.
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
        writes: &[ViewMut],
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
        let parts = self.parts(tile);
        count("results", parts.len(), writes.len())?;
        if self
            .out
            .iter()
            .any(|l| tile.0[l.at()].0 >= tile.0[l.at()].1)
        {
            return Ok(());
        }
        let footprints = self.footprints(tile, reads)?;
        let placed = parts
            .iter()
            .zip(writes)
            .map(|(p, w)| self.output(tile, w, p));
        let mut placed = placed.collect::<Result<Vec<Walk>, _>>()?;
        match &self.way {
            Way::Plain(Some(c), _) if c.suits(tile) => {
                let buffers = &mut scratch.contraction;
                c.run(tile, &placed[0], reads, &footprints, &writes[0], buffers);
                Ok(())
            }
            Way::Plain(_, vector) => {
                let (out, work) = (placed.remove(0), &mut scratch.work);
                let operands = (reads, &self.shapes[..]);
                vector
                    .run(tile, out, operands, &writes[0], slots, work)
                    .map_err(|miss| KernelRunError::OutOfRange {
                        tensor: self.tensors[miss.operand].clone(),
                        axis: miss.axis,
                        value: miss.index,
                        extent: self.shapes[miss.operand][miss.axis],
                    })
            }
            Way::Opaque(function) => {
                let Some(opaque) = self.einsum.opaque() else {
                    return Ok(());
                };
                let tiles = opaque::Tiles::new(reads, &footprints, &writes[0], self.tile(tile));
                let done = tiles.run(*function, opaque.result);
                done.map_err(|message| KernelRunError::Opaque {
                    kernel: opaque.kernel.clone(),
                    message,
                })
            }
            Way::Staged(staged) => staged.run(tile, reads, writes, slots, scratch),
            Way::Records(records) => {
                let targets = placed.iter().zip(writes).collect();
                records.run(tile, reads, targets, slots, scratch)
            }
        }
    }

    /// What a tile makes: its result, or the components of a record that others are merged with.
    fn parts(&self, tile: &Region) -> Vec<Part> {
        let mut reduced = self.einsum.reduce.iter().flat_map(|r| &r.labels);
        match &self.way {
            Way::Records(_) if reduced.any(|l| tile.0[l.at()] != (0, self.extents[l.at()])) => {
                self.einsum.parts()
            }
            _ => vec![Part::whole(&self.einsum)],
        }
    }

    /// Folds a box of partial results, of which there is one window per part of each in the order
    /// of `srcs`, in the balanced binary tree `((0, 1), (2, 3)), …` over them, and converts to the
    /// element type of `dst`.
    ///
    /// # Errors
    /// None but bugs of the task graph.
    pub fn fold(
        &self,
        srcs: &[View],
        dst: &ViewMut,
        region: &Region,
        scratch: &mut Scratch,
    ) -> Result<(), KernelRunError> {
        match (&self.way, self.einsum.reduce.as_ref().map(|r| &r.agg)) {
            (Way::Records(records), _) => records.fold(srcs, dst, region, scratch),
            (_, Some(Aggregation::Row(agg))) => {
                fold(Some(*agg), srcs, dst, region);
                Ok(())
            }
            _ => {
                fold(None, srcs, dst, region);
                Ok(())
            }
        }
    }

    /// What kind of kernel it is, for people.
    pub fn describe(&self) -> String {
        match &self.way {
            Way::Opaque(_) => self.einsum.opaque().map_or_else(String::new, |o| {
                format!("extern {}, result {}", o.kernel, o.result)
            }),
            Way::Plain(Some(c), _) => c.describe(&self.einsum),
            Way::Plain(None, vector) => {
                let n = vector.program.instrs.len();
                let s = if n == 1 { "" } else { "s" };
                match &self.einsum.reduce {
                    Some(r) => format!("vector {n} instruction{s}, {}", r.agg),
                    None => format!("vector {n} instruction{s}"),
                }
            }
            Way::Staged(staged) => staged.describe(),
            Way::Records(records) => records.describe(),
        }
    }

    /// The walk of a part of the output in its window, which is found to hold the tile's box.
    fn output(&self, tile: &Region, write: &ViewMut, part: &Part) -> Result<Walk, KernelRunError> {
        let mut walk = Walk {
            base: 0,
            coefficients: vec![0; self.extents.len()],
        };
        let mut needed = Region(Vec::new());
        let window = write.region();
        for (axis, labels) in self.einsum.out.iter().enumerate() {
            if !part.axes[axis] {
                needed.0.push((0, 1));
                continue;
            }
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
        let acc = match &self.way {
            Way::Records(_) => None,
            _ => self.einsum.reduce.as_ref().map(|r| r.acc),
        };
        let dtype = write.dtype();
        let fits = dtype == part.dtype || acc == Some(dtype);
        if fits && window.0.len() == needed.0.len() && window.contains(&needed) {
            return Ok(walk);
        }
        Err(KernelRunError::Window {
            tensor: self.name.clone(),
            window: format!("{dtype} {window}"),
            needed: format!("{} {needed}", part.dtype),
        })
    }

    /// The box of the output that a tile with points makes, of a vertex without merged axes.
    fn tile(&self, tile: &Region) -> Region {
        let labels = self.einsum.out.iter().flatten();
        Region(labels.map(|l| tile.0[l.at()]).collect())
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
