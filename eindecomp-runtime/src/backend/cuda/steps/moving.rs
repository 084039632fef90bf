//! Copies between devices and on one, and the calls of kernels with addresses in them.

use eindecomp_core::plan::layout::Region;
use eindecomp_core::task::{BufferId, Task};

use super::places::{ALIGN, Dense, shifted};
use super::{Block, Builder, Done, FAULT_BYTES};
use crate::backend::cuda::call::{Arg, Call, Place, Pointer, Window, Work};
use crate::backend::cuda::driver::{Address, Argument, MATMUL_WORKSPACE, Op, StreamId, Touch};
use crate::backend::cuda::order::Ops;
use crate::error::RunError;

impl Builder<'_> {
    /// A box from one device to another: in one step where it lies dense at its end and there is a link.
    pub(super) fn send(
        &mut self,
        task: &Task,
        src: BufferId,
        dst: BufferId,
        region: &Region,
    ) -> Result<Done, RunError> {
        let (from, to) = (self.tasks.buffer(src).device, task.device);
        let (sending, taking) = (
            self.streams[from as usize].send,
            self.streams[to as usize].take,
        );
        // Only the first of two steps reads the source, only the second one writes the destination.
        let makes_source = |t: &Task| t.kind.writes().contains(&src);
        let before_sending = self.deps(task, makes_source);
        let before_taking = self.deps(task, |t| !makes_source(t));
        let (mut ops, source) = self.packed(sending, from, src, region)?;
        let bytes = source.bytes;
        let linked = self.driver.devices()[from as usize].peers[to as usize];
        let lies_dense = self.lies_dense(dst, region);
        let copy = |src: Dense, dst: Dense| {
            let op = Op::Copy {
                src: src.at,
                dst: dst.at,
                bytes,
            };
            (op, vec![src.touch, dst.touch])
        };
        if linked && lies_dense {
            ops.push(copy(source, self.dense(dst, region, true)));
            let deps = [before_sending, before_taking].concat();
            return Ok(vec![self.step(sending, ops, deps)].into());
        }
        let arrived = Block::Arrived(from, to);
        let between = if linked {
            arrived
        } else {
            Block::Hop(from, to)
        };
        let (put, get) = (
            self.area(between, bytes, true),
            self.area(between, bytes, false),
        );
        ops.push(copy(source, put));
        // What was there before must have been taken.
        let mut deps = before_sending;
        deps.extend(self.busy.get(&between));
        let sent = self.step(sending, ops, deps);
        let mut ops = Vec::new();
        if !linked {
            let target = match lies_dense {
                true => self.dense(dst, region, true),
                false => self.area(arrived, bytes, true),
            };
            ops.push(copy(get, target));
        }
        if !lies_dense {
            ops.extend(self.unpack(taking, to, arrived, bytes, dst, region)?);
        }
        let deps = [before_taking, vec![sent]].concat();
        let taken = self.step(taking, ops, deps);
        self.busy.insert(between, taken);
        Ok(Done {
            source: vec![sent],
            all: vec![taken],
        })
    }

    pub(super) fn unpack(
        &mut self,
        stream: StreamId,
        device: u32,
        area: Block,
        bytes: u64,
        dst: BufferId,
        region: &Region,
    ) -> Result<Ops, RunError> {
        let from = self.area(area, bytes, false);
        let dense = Window {
            dtype: self.tasks.buffer(dst).dtype,
            region: region.clone(),
        };
        let node = self.tasks.buffer(dst).node;
        let work = self.generator.copy(&dense, &self.window(dst), region);
        let work = work.map_err(|source| self.misfit(node, region, source))?;
        let touches = vec![from.touch, self.touch(dst, region.clone(), true)];
        let at = [from.at, self.address(dst)];
        self.ops(stream, device, work, &at[..1], &at[1..], touches)
    }

    /// What makes a box of a buffer dense, if it is not, and where it is then.
    pub(super) fn packed(
        &mut self,
        stream: StreamId,
        device: u32,
        src: BufferId,
        region: &Region,
    ) -> Result<(Ops, Dense), RunError> {
        if self.lies_dense(src, region) {
            return Ok((Vec::new(), self.dense(src, region, false)));
        }
        let bytes = self.bytes(src, region);
        let area = Block::Packed(device);
        let (put, get) = (self.area(area, bytes, true), self.area(area, bytes, false));
        let dense = Window {
            dtype: self.tasks.buffer(src).dtype,
            region: region.clone(),
        };
        let node = self.tasks.buffer(src).node;
        let work = self.generator.copy(&self.window(src), &dense, region);
        let work = work.map_err(|source| self.misfit(node, region, source))?;
        let touches = vec![self.touch(src, region.clone(), false), put.touch];
        let at = [self.address(src), put.at];
        let ops = self.ops(stream, device, work, &at[..1], &at[1..], touches)?;
        Ok((ops, get))
    }

    /// A box from a buffer to another one of the same device.
    pub(super) fn copy(
        &mut self,
        stream: StreamId,
        device: u32,
        src: BufferId,
        dst: BufferId,
        region: &Region,
    ) -> Result<Ops, RunError> {
        if self.lies_dense(src, region) && self.lies_dense(dst, region) {
            let (from, to) = (
                self.dense(src, region, false),
                self.dense(dst, region, true),
            );
            let copy = Op::Copy {
                src: from.at,
                dst: to.at,
                bytes: from.bytes,
            };
            return Ok(vec![(copy, vec![from.touch, to.touch])]);
        }
        let work = self
            .generator
            .copy(&self.window(src), &self.window(dst), region);
        let node = self.tasks.buffer(dst).node;
        let work = work.map_err(|source| self.misfit(node, region, source))?;
        let touches = vec![
            self.touch(src, region.clone(), false),
            self.touch(dst, region.clone(), true),
        ];
        self.work(stream, device, work, &[src], &[dst], touches)
    }

    pub(super) fn work(
        &mut self,
        stream: StreamId,
        device: u32,
        work: Work,
        reads: &[BufferId],
        writes: &[BufferId],
        touches: Vec<Touch>,
    ) -> Result<Ops, RunError> {
        let reads: Vec<Address> = reads.iter().map(|&b| self.address(b)).collect();
        let writes: Vec<Address> = writes.iter().map(|&b| self.address(b)).collect();
        self.ops(stream, device, work, &reads, &writes, touches)
    }

    /// Calls with addresses in them; all of them together use what `touches` says.
    pub(super) fn ops(
        &mut self,
        stream: StreamId,
        device: u32,
        work: Work,
        reads: &[Address],
        writes: &[Address],
        touches: Vec<Touch>,
    ) -> Result<Ops, RunError> {
        let own = work.workspace_bytes.next_multiple_of(ALIGN);
        let matmul = work.calls.iter().any(|c| matches!(c, Call::Matmul(_)));
        let size = own + if matmul { MATMUL_WORKSPACE } else { 0 };
        let workspace = match size {
            0 => None,
            _ => Some(self.block(Block::Workspace(stream), size)),
        };
        let fault = self.block(Block::Fault(device), FAULT_BYTES);
        let at = |p: &Pointer| {
            let start = match p.place {
                Place::Read(n) => reads[n],
                Place::Write(n) => writes[n],
                Place::Workspace => workspace.unwrap_or(fault),
            };
            shifted(start, p.offset)
        };
        let argument = |arg: &Arg| match arg {
            Arg::Pointer(p) => Argument::Pointer(at(p), p.bytes),
            Arg::Fault => Argument::Pointer(fault, FAULT_BYTES),
            Arg::Int(n) => Argument::Int(*n),
            Arg::Float(x) => Argument::Float(*x),
        };
        let mut ops = Vec::new();
        for call in work.calls {
            let op = match call {
                Call::Launch(launch) => Op::Launch {
                    module: self.driver.module(device, &launch.module)?,
                    entry: launch.entry,
                    grid: launch.grid,
                    block: launch.block,
                    shared: launch.shared_bytes,
                    arguments: launch.args.iter().map(argument).collect(),
                },
                Call::Matmul(gemm) => Op::Matmul {
                    operands: [at(&gemm.a.start), at(&gemm.b.start), at(&gemm.c.start)],
                    workspace: shifted(workspace.unwrap_or(fault), own),
                    gemm: Box::new(gemm),
                },
            };
            ops.push((op, touches.clone()));
        }
        Ok(ops)
    }
}
