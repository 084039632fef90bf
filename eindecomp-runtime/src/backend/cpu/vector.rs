//! The vector kernel: a register program over chunks of points, and folds of its values.
#![expect(unsafe_code, reason = "results are written to tensor memory")]

use eindecomp_core::ein::{Agg, DType, LabelId, Value};
use eindecomp_core::plan::layout::Region;

use super::exec::{BoundLoad, Execute, Guard, Lane, Miss, Registers};
use super::memory::write_chunk;
use super::nest::{Chunk, LANES, Loops, Walk};
use super::reduce::{Columns, Finish, Fold, Folds, Merge, Rows, WithFold};
use super::simd::vectorised;
use crate::backend::program::{Kind, Load, LoadAxis, Op, Program};
use crate::view::{View, ViewMut};

/// Steps of a column fold that go into one partial state: error grows with the number of partial
/// states plus this, not with their product.
const BLOCK: usize = 64;

/// Memory that a worker keeps from run to run.
#[derive(Debug, Default)]
pub(super) struct Work {
    registers: Registers,
    chunk: Chunk,
    results: Chunk,
}

/// A program and its loops.
#[derive(Debug)]
pub(super) struct Vector {
    pub(super) program: Program,
    /// Labels of the output, slow to fast.
    pub(super) out: Vec<LabelId>,
    /// Reduced labels.
    pub(super) reduced: Vec<LabelId>,
    pub(super) agg: Option<(Agg, DType)>,
}

/// The vector kernel bound to one tile and its windows.
struct Bound<'a> {
    program: &'a Program,
    loads: Vec<BoundLoad<'a>>,
    index_walks: Vec<Option<usize>>,
    starts: Vec<i64>,
    out: Loops,
    reduced: Loops,
    /// Lanes run over the output, not along the reduction.
    columns: bool,
    /// First value of the reduced label, for selections.
    origin: i64,
    write: &'a ViewMut,
}

/// The walk of the output is walk 0.
const OUT: usize = 0;

impl Vector {
    /// Runs one tile. `out` walks the output's window; the operands' windows, beside the shapes of
    /// the operands, cover the tile's footprints.
    pub(super) fn run(
        &self,
        tile: &Region,
        out: Walk,
        (reads, shapes): (&[View], &[Vec<usize>]),
        write: &ViewMut,
        slots: &[Value],
        work: &mut Work,
    ) -> Result<(), Miss> {
        work.registers.prepare(&self.program, slots);
        let bound = self.bind(tile, out, reads, shapes, write);
        let Some((agg, acc)) = self.agg else {
            return match self.program.result().kind {
                Kind::F32 => bound.map::<f32>(work),
                Kind::F64 => bound.map::<f64>(work),
                Kind::I64 => bound.map::<i64>(work),
                Kind::Bool => bound.map::<u8>(work),
            };
        };
        let kind = self.program.result().kind;
        let identity = agg.identity(acc);
        let job = Reduction { bound, work };
        match kind {
            Kind::F32 => f32::with(agg, Lane::from_value(identity), job),
            Kind::F64 => f64::with(agg, Lane::from_value(identity), job),
            Kind::I64 => i64::with(agg, Lane::from_value(identity), job),
            Kind::Bool => u8::with(agg, Lane::from_value(identity), job),
        }
    }

    /// The reduced labels, slow to fast, and whether lanes run over the output rather than along
    /// the reduction. It decides the order of sums, so it looks at the tensors' own row-major
    /// strides: those of windows differ between shared and private memory.
    fn order(&self, tile: &Region, shapes: &[Vec<usize>]) -> (Vec<LabelId>, bool) {
        let step = |load: &Load, label: LabelId| -> i64 {
            let mut stride = 1;
            let mut total = 0;
            for (axis, &extent) in load.axes.iter().zip(&shapes[load.operand]).rev() {
                if let LoadAxis::Affine { terms, .. } = axis {
                    let of = terms.iter().filter(|t| t.0 == label);
                    total += of.map(|t| t.1 * stride).sum::<i64>();
                }
                stride *= extent as i64;
            }
            total
        };
        // A contiguous load is best, a repeated element next, a strided one last.
        let score = |label: Option<&LabelId>| -> usize {
            let of = |load: &Load| match label.map_or(0, |&l| step(load, l)) {
                1 => 2,
                0 => 1,
                _ => 0,
            };
            self.program.loads.iter().map(of).sum()
        };
        let extent = |l: &LabelId| tile.0[l.at()].1 - tile.0[l.at()].0;
        let mut reduced = self.reduced.clone();
        reduced.sort_by_key(|l| score(Some(l)));
        let points = |labels: &[LabelId]| labels.iter().map(extent).product::<usize>();
        let fast = |labels: &[LabelId]| {
            let fastest = labels.iter().rev().find(|l| extent(l) > 1);
            score(fastest)
        };
        let columns =
            points(&self.out) >= 32 && (points(&reduced) <= 8 || fast(&self.out) > fast(&reduced));
        (reduced, columns)
    }

    fn bind<'a>(
        &'a self,
        tile: &Region,
        out: Walk,
        reads: &'a [View],
        shapes: &[Vec<usize>],
        write: &'a ViewMut,
    ) -> Bound<'a> {
        let labels = tile.0.len();
        let mut walks = vec![out];
        let mut push = |walk: Walk| {
            walks.push(walk);
            walks.len() - 1
        };
        let mut loads = Vec::with_capacity(self.program.loads.len());
        for load in &self.program.loads {
            let view = &reads[load.operand];
            let mut place = Walk {
                base: 0,
                coefficients: vec![0; labels],
            };
            let mut guards = Vec::new();
            for (axis, access) in load.axes.iter().enumerate() {
                let stride = view.strides()[axis] as i64;
                let extent = shapes[load.operand][axis];
                place.base -= view.region().0[axis].0 as i64 * stride;
                match access {
                    LoadAxis::Affine {
                        terms,
                        offset,
                        checked,
                    } => {
                        place.base += offset * stride;
                        let mut index = Walk {
                            base: *offset,
                            coefficients: vec![0; labels],
                        };
                        for &(l, c) in terms {
                            place.coefficients[l.at()] += c * stride;
                            index.coefficients[l.at()] += c;
                        }
                        if *checked {
                            let walk = push(index);
                            guards.push(Guard::Walk { axis, walk, extent });
                        }
                    }
                    LoadAxis::Data { index, .. } => guards.push(Guard::Data {
                        axis,
                        index: *index,
                        extent,
                        stride,
                        uniform: false,
                    }),
                }
            }
            loads.push(BoundLoad {
                view,
                operand: load.operand,
                walk: push(place),
                guards,
                otherwise: load.otherwise,
                mask: load.mask,
            });
        }
        let mut index_walks = vec![None; labels];
        for instr in &self.program.instrs {
            if let Op::Index(l) = instr.op {
                let mut coefficients = vec![0; labels];
                coefficients[l.at()] = 1;
                index_walks[l.at()] = Some(push(Walk {
                    base: 0,
                    coefficients,
                }));
            }
        }
        let (reduced, columns) = self.order(tile, shapes);
        Bound {
            program: &self.program,
            index_walks,
            starts: walks.iter().map(|w| w.start(tile)).collect(),
            out: Loops::new(&self.out, tile, &walks),
            reduced: Loops::new(&reduced, tile, &walks),
            columns,
            origin: self.reduced.first().map_or(0, |l| tile.0[l.at()].0 as i64),
            loads,
            write,
        }
    }
}

impl Bound<'_> {
    /// Marks the gathers whose index is one value along the runs of `lanes`.
    fn mark_uniform(&mut self, lanes: &Loops) {
        for (bound, load) in self.loads.iter_mut().zip(&self.program.loads) {
            for guard in &mut bound.guards {
                if let Guard::Data { axis, uniform, .. } = guard
                    && let LoadAxis::Data { labels, .. } = &load.axes[*axis]
                {
                    *uniform = !labels.iter().any(|&l| lanes.runs_over(l));
                }
            }
        }
    }

    fn execute(
        &self,
        registers: &mut Registers,
        chunk: &Chunk,
        starts: &[i64],
        steps: &[i64],
    ) -> Result<(), Miss> {
        vectorised(Execute {
            program: self.program,
            loads: &self.loads,
            index_walks: &self.index_walks,
            chunk,
            starts,
            steps,
            registers,
        })
    }

    fn store<T: Lane>(&self, chunk: &Chunk, values: &[T]) {
        // SAFETY: the chunk's points are of the tile, whose output box the caller of `run` found
        // to be in the window and may write.
        unsafe {
            write_chunk(
                self.write,
                chunk,
                OUT,
                self.starts[OUT],
                self.out.inner(OUT),
                values,
            );
        }
    }

    /// Without a reduction: one value per point.
    fn map<T: Lane>(mut self, work: &mut Work) -> Result<(), Miss> {
        let lanes = self.out.clone();
        self.mark_uniform(&lanes);
        let steps = lanes.inner_steps();
        let points = lanes.points();
        for start in (0..points).step_by(LANES) {
            let n = LANES.min(points - start);
            work.chunk.fill(&lanes, start, n);
            self.execute(&mut work.registers, &work.chunk, &self.starts, &steps)?;
            let values = work.registers.get::<T>(self.program.result());
            self.store(&work.chunk, &values[..n]);
        }
        Ok(())
    }

    /// The filter's lanes of the last chunk.
    fn selected<'m>(
        &self,
        registers: &mut Registers,
        mask: &'m mut [u8; LANES],
    ) -> Option<&'m [u8]> {
        let filter = self.program.filter?;
        mask.copy_from_slice(registers.get::<u8>(filter));
        Some(&mask[..])
    }
}

/// A reduction waiting for its fold.
struct Reduction<'a> {
    bound: Bound<'a>,
    work: &'a mut Work,
}

impl<T: Lane> WithFold<T> for Reduction<'_> {
    type Output = Result<(), Miss>;
    fn with<F: Fold<T>>(self, fold: F) -> Result<(), Miss> {
        match self.bound.columns {
            true => self.columns(fold),
            false => self.rows(fold),
        }
    }
}

impl Reduction<'_> {
    /// Lanes run along the reduction: many short rows, or a part of one long row, per chunk.
    fn rows<T: Lane, F: Fold<T>>(mut self, fold: F) -> Result<(), Miss> {
        let work = self.work;
        let lanes = self.bound.out.around(&self.bound.reduced);
        self.bound.mark_uniform(&lanes);
        let bound = self.bound;
        let steps = lanes.inner_steps();
        let (rows, length) = (bound.out.points(), bound.reduced.points());
        let together = LANES.checked_div(length).unwrap_or(LANES).max(1);
        let mut states = [fold.empty(); LANES];
        let mut out = [F::Out::default(); LANES];
        let mut values = [T::default(); LANES];
        let mut mask = [0; LANES];
        for row in (0..rows).step_by(together) {
            let count = together.min(rows - row);
            states[..count].fill(fold.empty());
            for start in (0..length).step_by(LANES) {
                let n = LANES.min(count * length - start);
                work.chunk.fill(&lanes, row * length + start, n);
                bound.execute(&mut work.registers, &work.chunk, &bound.starts, &steps)?;
                // A copy, since the fold overwrites it and the register may be a constant's.
                values[..n].copy_from_slice(&work.registers.get::<T>(bound.program.result())[..n]);
                vectorised(Rows {
                    fold,
                    values: &mut values[..n],
                    selected: bound.selected(&mut work.registers, &mut mask),
                    length: length.min(n),
                    index: bound.origin + start as i64,
                    states: &mut states[..count],
                });
            }
            vectorised(Finish {
                fold,
                states: &states[..count],
                out: &mut out[..count],
            });
            work.results.fill(&bound.out, row, count);
            bound.store(&work.results, &out[..count]);
        }
        Ok(())
    }

    /// Lanes run over the output; the reduction is a loop around the chunk.
    fn columns<T: Lane, F: Fold<T>>(mut self, fold: F) -> Result<(), Miss> {
        let work = self.work;
        let lanes = self.bound.out.clone();
        self.bound.mark_uniform(&lanes);
        let bound = self.bound;
        let (steps, along) = (lanes.inner_steps(), bound.reduced.inner_steps());
        let (points, length) = (lanes.points(), bound.reduced.points());
        let mut starts = bound.starts.clone();
        let mut states = [fold.empty(); LANES];
        let mut block = [fold.empty(); LANES];
        let mut out = [F::Out::default(); LANES];
        let mut mask = [0; LANES];
        for start in (0..points).step_by(LANES) {
            let n = LANES.min(points - start);
            work.chunk.fill(&lanes, start, n);
            states[..n].fill(fold.empty());
            for from in (0..length).step_by(BLOCK) {
                block[..n].fill(fold.empty());
                work.results
                    .fill(&bound.reduced, from, BLOCK.min(length - from));
                for (run, &(first, len)) in work.results.runs.iter().enumerate() {
                    for i in 0..len {
                        for (w, s) in starts.iter_mut().enumerate() {
                            let at = work.results.offset(run, w) + i as i64 * along[w];
                            *s = bound.starts[w] + at;
                        }
                        bound.execute(&mut work.registers, &work.chunk, &starts, &steps)?;
                        let selected = bound.selected(&mut work.registers, &mut mask);
                        vectorised(Columns {
                            fold,
                            values: &work.registers.get::<T>(bound.program.result())[..n],
                            selected,
                            index: bound.origin + (from + first + i) as i64,
                            states: &mut block[..n],
                        });
                    }
                }
                vectorised(Merge {
                    fold,
                    states: &mut states[..n],
                    later: &block[..n],
                });
            }
            vectorised(Finish {
                fold,
                states: &states[..n],
                out: &mut out[..n],
            });
            bound.store(&work.chunk, &out[..n]);
        }
        Ok(())
    }
}
