//! A task graph as steps of streams.
//!
//! Each device has a stream that computes, one that sends and one that takes. A kernel, a fold and a copy
//! on a device are steps of the first. A Move is a copy on the sender's stream; where its box does not lie
//! dense at an end, it is packed before or unpacked afterwards through an area of the pair of devices, and
//! where the two have no link it takes a hop through host memory. What is loaded comes from fixed places of
//! pinned host memory, what is gathered goes there. A Free is no step: what waits for it waits for all that
//! it waits for.
//!
//! Blocks of memory have numbers of their own here; the executor allocates them when their sizes are known.
//!
//! Files: `places` (blocks, and what is where in them), `moving` (copies between and on devices, and calls with
//! addresses in them).

mod moving;
mod places;

use std::collections::BTreeMap;

use eindecomp_core::ein::DType;
use eindecomp_core::ein::access::{AccessMap, output_region};
use eindecomp_core::graph::{BoundGraph, NodeId};
use eindecomp_core::plan::layout::Region;
use eindecomp_core::task::{BufferId, BufferRole, Task, TaskGraph, TaskKind};

use super::call::Window;
use super::driver::{Driver, Op, StreamId};
use super::order::{Ops, Step};
use super::vertex::{Generator, Vertex};
use crate::backend::cpu::KernelRunError;
use crate::error::RunError;
pub use places::{Block, FAULT_BYTES, Positions, Staged, Steps, Streams};

/// Makes the steps of a task graph.
pub struct Builder<'a> {
    pub graph: &'a BoundGraph,
    pub tasks: &'a TaskGraph,
    pub vertices: &'a [Option<Box<dyn Vertex>>],
    pub generator: &'a dyn Generator,
    pub driver: &'a dyn Driver,
    pub streams: &'a [Streams],
    out: Steps,
    numbers: BTreeMap<Block, usize>,
    /// Per task, its steps that others wait for; of a Free, those that it waits for.
    done: Vec<Done>,
    /// Per area, the last step that read it.
    busy: BTreeMap<Block, u32>,
}

/// When a task is done: a Move in two steps with its source before it is with its destination.
#[derive(Default)]
struct Done {
    source: Vec<u32>,
    all: Vec<u32>,
}

impl From<Vec<u32>> for Done {
    fn from(all: Vec<u32>) -> Done {
        let source = all.clone();
        Done { source, all }
    }
}

impl<'a> Builder<'a> {
    /// Of a graph whose vertices are compiled.
    pub fn new(
        graph: &'a BoundGraph,
        tasks: &'a TaskGraph,
        vertices: &'a [Option<Box<dyn Vertex>>],
        generator: &'a dyn Generator,
        driver: &'a dyn Driver,
        streams: &'a [Streams],
    ) -> Builder<'a> {
        Builder {
            graph,
            tasks,
            vertices,
            generator,
            driver,
            streams,
            out: Steps::default(),
            numbers: BTreeMap::new(),
            done: Vec::new(),
            busy: BTreeMap::new(),
        }
    }

    /// The steps of a run.
    ///
    /// # Errors
    /// Modules that do not compile; windows that do not fit.
    pub fn build(mut self) -> Result<Steps, RunError> {
        for device in 0..self.tasks.devices {
            self.block(Block::Arena(device), self.tasks.arenas[device as usize]);
            let record = self.block(Block::Fault(device), FAULT_BYTES);
            let zero = Op::Zero {
                dst: record,
                bytes: FAULT_BYTES,
            };
            let stream = self.streams[device as usize].compute;
            self.step(stream, vec![(zero, Vec::new())], Vec::new());
        }
        for task in &self.tasks.tasks {
            let done = match &task.kind {
                TaskKind::Move { src, dst, region } if !region.is_empty() => {
                    self.send(task, *src, *dst, region)?
                }
                kind => {
                    let deps = self.deps(task, |_| true);
                    self.task(task.device, kind, deps)?.into()
                }
            };
            self.done.push(done);
        }
        for device in 0..self.tasks.devices {
            let stream = self.streams[device as usize].compute;
            let offset = self.stage(FAULT_BYTES);
            let copy = Op::Copy {
                src: self.block(Block::Fault(device), FAULT_BYTES),
                dst: self.staged(offset),
                bytes: FAULT_BYTES,
            };
            let touch = self.staged_touch(offset, FAULT_BYTES, true);
            self.out.faults.push(offset);
            self.step(stream, vec![(copy, vec![touch])], Vec::new());
        }
        Ok(self.out)
    }

    /// The steps that a task waits for, of those tasks that are `wanted`.
    fn deps(&self, task: &Task, wanted: impl Fn(&Task) -> bool) -> Vec<u32> {
        let mut deps = Vec::new();
        for dep in &task.deps {
            let before = &self.tasks.tasks[dep.0 as usize];
            let done = &self.done[dep.0 as usize];
            let of_source = match before.kind {
                TaskKind::Move { dst, .. } => !uses(&task.kind, dst),
                _ => false,
            };
            if wanted(before) {
                deps.extend(if of_source { &done.source } else { &done.all });
            }
        }
        deps.sort_unstable();
        deps.dedup();
        deps
    }

    /// The steps of a task that others wait for.
    fn task(&mut self, device: u32, kind: &TaskKind, deps: Vec<u32>) -> Result<Vec<u32>, RunError> {
        let streams = self.streams[device as usize];
        Ok(match kind {
            TaskKind::Free { .. } => deps,
            // They use nothing, so that nobody waits for them; a Move that uses something is sent.
            TaskKind::Move { .. } => Vec::new(),
            TaskKind::Copy { region, .. }
            | TaskKind::Keep { region, .. }
            | TaskKind::Gather { region, .. }
                if region.is_empty() =>
            {
                Vec::new()
            }
            TaskKind::Load { dst } => {
                let buffer = self.tasks.buffer(*dst);
                let (bytes, offset) = (buffer.bytes(), self.stage(buffer.bytes()));
                self.out.loads.push(Staged {
                    buffer: *dst,
                    region: buffer.region.clone(),
                    offset,
                    output: 0,
                });
                self.out.traffic.loaded += bytes;
                let target = self.dense(*dst, &buffer.region, true);
                let copy = Op::Copy {
                    src: self.staged(offset),
                    dst: target.at,
                    bytes,
                };
                let touches = vec![self.staged_touch(offset, bytes, false), target.touch];
                vec![self.step(streams.take, vec![(copy, touches)], deps)]
            }
            TaskKind::Kernel {
                node,
                tile,
                reads,
                writes,
                ..
            } => vec![self.kernel(device, *node, tile, reads, writes, deps)?],
            TaskKind::Aggregate {
                node,
                srcs,
                dst,
                region,
            } => {
                let Some(vertex) = &self.vertices[node.at()] else {
                    return Ok(deps);
                };
                let windows: Vec<Window> = srcs.iter().map(|&b| self.window(b)).collect();
                let work = vertex.fold(&windows, &self.window(*dst), region);
                let work = work.map_err(|source| self.misfit(*node, region, source))?;
                let mut touches = Vec::new();
                for &src in srcs {
                    let whole = self.tasks.buffer(src).region.clone();
                    touches.push(self.touch(src, whole, false));
                }
                touches.push(self.touch(*dst, region.clone(), true));
                let ops = self.work(streams.compute, device, work, srcs, &[*dst], touches)?;
                vec![self.step(streams.compute, ops, deps)]
            }
            TaskKind::Copy { src, dst, region } | TaskKind::Keep { src, dst, region } => {
                let bytes = self.bytes(*src, region);
                self.out.traffic.local += bytes;
                let ops = self.copy(streams.compute, device, *src, *dst, region)?;
                vec![self.step(streams.compute, ops, deps)]
            }
            TaskKind::Gather {
                src,
                output,
                region,
            } => {
                let (ops, dense) = self.packed(streams.send, device, *src, region)?;
                let offset = self.stage(dense.bytes);
                self.out.gathers.push(Staged {
                    buffer: *src,
                    region: region.clone(),
                    offset,
                    output: *output,
                });
                self.out.traffic.gathered += dense.bytes;
                let copy = Op::Copy {
                    src: dense.at,
                    dst: self.staged(offset),
                    bytes: dense.bytes,
                };
                let touches = vec![dense.touch, self.staged_touch(offset, dense.bytes, true)];
                let ops = ops.into_iter().chain([(copy, touches)]).collect();
                vec![self.step(streams.send, ops, deps)]
            }
        })
    }

    fn kernel(
        &mut self,
        device: u32,
        node: NodeId,
        tile: &Region,
        reads: &[BufferId],
        writes: &[BufferId],
        deps: Vec<u32>,
    ) -> Result<u32, RunError> {
        let stream = self.streams[device as usize].compute;
        let (Some(vertex), Some(einsum)) =
            (&self.vertices[node.at()], self.graph.node(node).einsum())
        else {
            return Ok(self.step(stream, Vec::new(), deps));
        };
        let windows = |buffers: &[BufferId]| -> Vec<Window> {
            buffers.iter().map(|&b| self.window(b)).collect()
        };
        let work = vertex.work(tile, &windows(reads), &windows(writes), self.graph.slots());
        let work = work.map_err(|source| self.misfit(node, tile, source))?;
        let mut touches = Vec::new();
        for (operand, &buffer) in einsum.operands.iter().zip(reads) {
            let part = AccessMap::of(operand).footprint(tile, self.graph.shape(operand.node));
            touches.push(self.touch(buffer, part, false));
        }
        let output = output_region(einsum, tile, self.graph.label_extents(node));
        for &buffer in writes {
            let part = match self.tasks.buffer(buffer).role {
                BufferRole::Partial => self.tasks.buffer(buffer).region.clone(),
                _ => output.clone(),
            };
            touches.push(self.touch(buffer, part, true));
        }
        let mut ops = self.positions(node, reads);
        ops.extend(self.work(stream, device, work, reads, writes, touches)?);
        Ok(self.step(stream, ops, deps))
    }

    /// Of a store's first tile: its positions are copied to where the host looks at them.
    fn positions(&mut self, node: NodeId, reads: &[BufferId]) -> Ops {
        let known = self.out.positions.iter().any(|p| p.node == node);
        let Some(store) = self.graph.node(node).store.as_ref().filter(|_| !known) else {
            return Vec::new();
        };
        let starts = store.windows.iter().filter_map(|w| w.parts());
        let mut values = BTreeMap::new();
        starts.for_each(|(start, _)| {
            start.visit(&mut |e| {
                if let eindecomp_core::ein::Expr::Operand(n) = e {
                    values.insert(*n, (0, DType::I64));
                }
            })
        });
        let mut ops = Vec::new();
        for (&operand, value) in &mut values {
            let Some(&buffer) = reads.get(operand) else {
                continue;
            };
            let (source, offset) = (
                self.dense(buffer, &Region(Vec::new()), false),
                self.stage(8),
            );
            *value = (offset, self.tasks.buffer(buffer).dtype);
            let copy = Op::Copy {
                src: source.at,
                dst: self.staged(offset),
                bytes: source.bytes,
            };
            let touches = vec![source.touch, self.staged_touch(offset, source.bytes, true)];
            ops.push((copy, touches));
        }
        self.out.positions.push(Positions { node, values });
        ops
    }

    fn misfit(&self, node: NodeId, tile: &Region, source: KernelRunError) -> RunError {
        RunError::Kernel {
            statement: self.graph.node(node).name.clone(),
            tile: tile.to_string(),
            source,
        }
    }

    fn step(&mut self, stream: StreamId, mut ops: Ops, deps: Vec<u32>) -> u32 {
        ops.retain(|(op, _)| !matches!(op, Op::Copy { bytes: 0, .. }));
        self.out.steps.push(Step { stream, ops, deps });
        self.out.steps.len() as u32 - 1
    }
}

/// Does a task read, write or free a buffer?
fn uses(kind: &TaskKind, buffer: BufferId) -> bool {
    let freed = matches!(kind, TaskKind::Free { buffer: b } if *b == buffer);
    freed || kind.reads().contains(&buffer) || kind.writes().contains(&buffer)
}
