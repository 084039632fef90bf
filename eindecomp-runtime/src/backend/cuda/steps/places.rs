//! Blocks of memory that a run needs, and what is where in them.

use std::collections::BTreeMap;

use eindecomp_core::ein::DType;
use eindecomp_core::graph::NodeId;
use eindecomp_core::plan::layout::Region;
use eindecomp_core::task::{Buffer, BufferId, BufferRole};

use super::Builder;
use crate::backend::cuda::call::{FAULT_WORDS, Window};
use crate::backend::cuda::driver::{Address, MemoryId, Place, StreamId, Touch};
use crate::backend::cuda::order::Step;
use crate::trace::Traffic;

/// Alignment of what is in a block, in bytes.
pub(super) const ALIGN: u64 = 256;
/// Bytes of a device's fault record.
pub const FAULT_BYTES: u64 = 8 * FAULT_WORDS as u64;

/// A block of memory that the steps need.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Block {
    /// The buffers of a device.
    Arena(u32),
    /// The fault record of a device.
    Fault(u32),
    /// What kernels of a stream use for themselves.
    Workspace(StreamId),
    /// Boxes that a device sends, dense.
    Packed(u32),
    /// Boxes that came from a device to another, dense.
    Arrived(u32, u32),
    /// The same, on their way through host memory.
    Hop(u32, u32),
    /// What is loaded, gathered and looked at by the host.
    Staging,
}

impl Block {
    /// Whose memory it is in; a workspace's is its stream's.
    pub fn place(self, device: impl Fn(StreamId) -> u32) -> Place {
        match self {
            Block::Arena(d) | Block::Fault(d) | Block::Packed(d) | Block::Arrived(_, d) => {
                Place::Device(d)
            }
            Block::Workspace(stream) => Place::Device(device(stream)),
            Block::Hop(..) | Block::Staging => Place::Host,
        }
    }
}

/// The streams of a device.
#[derive(Clone, Copy, Debug)]
pub struct Streams {
    /// Kernels.
    pub compute: StreamId,
    /// What leaves.
    pub send: StreamId,
    /// What comes.
    pub take: StreamId,
}

/// A box that the host puts into its place, or takes from there.
#[derive(Clone, Debug, PartialEq)]
pub struct Staged {
    /// Of this buffer.
    pub buffer: BufferId,
    /// The box, dense.
    pub region: Region,
    /// Where it is in the staging block.
    pub offset: u64,
    /// Of a box that is gathered, which output of the graph it is of.
    pub output: usize,
}

/// The positions of a store, which the host looks at after the run.
#[derive(Clone, Debug, PartialEq)]
pub struct Positions {
    /// The statement.
    pub node: NodeId,
    /// Per operand of rank 0 that a window names, where its value is in the staging block, and its type.
    pub values: BTreeMap<usize, (u64, DType)>,
}

/// What a run does.
#[derive(Default)]
pub struct Steps {
    /// In a topological order.
    pub steps: Vec<Step>,
    /// The blocks that addresses are in, by number, with the bytes that each needs.
    pub blocks: Vec<(Block, u64)>,
    /// What the host stages before a run.
    pub loads: Vec<Staged>,
    /// What it finds afterwards.
    pub gathers: Vec<Staged>,
    /// Per device, where its fault record is in the staging block.
    pub faults: Vec<u64>,
    /// What is found of stores.
    pub positions: Vec<Positions>,
    /// Bytes that are loaded, gathered, and copied on a device.
    pub traffic: Traffic,
}

/// A box as bytes of a block, for moving.
pub(super) struct Dense {
    pub at: Address,
    pub bytes: u64,
    pub touch: Touch,
}

impl Builder<'_> {
    /// The start of a block, which then has at least so many bytes.
    pub(super) fn block(&mut self, block: Block, bytes: u64) -> Address {
        let blocks = &mut self.out.blocks;
        let number = *self.numbers.entry(block).or_insert_with(|| {
            blocks.push((block, 0));
            blocks.len() - 1
        });
        blocks[number].1 = blocks[number].1.max(bytes);
        Address {
            memory: MemoryId(number as u32),
            offset: 0,
        }
    }

    /// So many bytes of the staging block.
    pub(super) fn stage(&mut self, bytes: u64) -> u64 {
        self.block(Block::Staging, 0);
        let size = &mut self.out.blocks[self.numbers[&Block::Staging]].1;
        let offset = size.next_multiple_of(ALIGN);
        *size = offset + bytes;
        offset
    }

    pub(super) fn staged(&mut self, offset: u64) -> Address {
        shifted(self.block(Block::Staging, 0), offset)
    }

    pub(super) fn staged_touch(&mut self, offset: u64, bytes: u64, write: bool) -> Touch {
        let at = self.staged(offset);
        raw(at, bytes, write)
    }

    /// Bytes at the start of an area.
    pub(super) fn area(&mut self, block: Block, bytes: u64, write: bool) -> Dense {
        let at = self.block(block, bytes);
        Dense {
            at,
            bytes,
            touch: raw(at, bytes, write),
        }
    }

    pub(super) fn window(&self, buffer: BufferId) -> Window {
        let Buffer { dtype, region, .. } = self.tasks.buffer(buffer);
        Window {
            dtype: *dtype,
            region: region.clone(),
        }
    }

    /// Where a buffer starts; the arenas are among the blocks from the start.
    pub(super) fn address(&self, buffer: BufferId) -> Address {
        let buffer = self.tasks.buffer(buffer);
        Address {
            memory: MemoryId(self.numbers[&Block::Arena(buffer.device)] as u32),
            offset: buffer.offset,
        }
    }

    pub(super) fn bytes(&self, buffer: BufferId, region: &Region) -> u64 {
        region.volume() as u64 * self.tasks.buffer(buffer).dtype.size() as u64
    }

    pub(super) fn lies_dense(&self, buffer: BufferId, region: &Region) -> bool {
        first_element(&self.tasks.buffer(buffer).region, region).is_some()
    }

    /// A box that lies dense.
    pub(super) fn dense(&self, buffer: BufferId, region: &Region, write: bool) -> Dense {
        let Buffer {
            dtype,
            region: window,
            ..
        } = self.tasks.buffer(buffer);
        let first = first_element(window, region).unwrap_or(0) * dtype.size() as u64;
        Dense {
            at: shifted(self.address(buffer), first),
            bytes: self.bytes(buffer, region),
            touch: self.touch(buffer, region.clone(), write),
        }
    }

    pub(super) fn touch(&self, buffer: BufferId, part: Region, write: bool) -> Touch {
        let mut first = buffer;
        while let BufferRole::Version(over) = self.tasks.buffer(first).role {
            first = over;
        }
        let Buffer {
            dtype,
            region,
            role,
            ..
        } = self.tasks.buffer(buffer);
        Touch {
            at: self.address(buffer),
            region: region.clone(),
            dtype: *dtype,
            part,
            write,
            tenant: first.0,
            stays: role.stays(),
        }
    }
}

pub(super) fn shifted(at: Address, bytes: u64) -> Address {
    Address {
        offset: at.offset + bytes,
        ..at
    }
}

/// Bytes that are no buffer's.
pub(super) fn raw(at: Address, bytes: u64, write: bool) -> Touch {
    let region = Region(vec![(0, bytes as usize)]);
    Touch {
        at,
        part: region.clone(),
        region,
        dtype: DType::U8,
        write,
        tenant: u32::MAX,
        stays: true,
    }
}

/// Of a box whose elements lie one after the other in a dense window, how many elements come before it.
pub(super) fn first_element(window: &Region, part: &Region) -> Option<u64> {
    if part.is_empty() {
        return Some(0);
    }
    let (mut first, mut inner, mut whole) = (0, 1, true);
    for (&(lo, hi), &(from, to)) in window.0.iter().zip(&part.0).rev() {
        if !whole && to - from > 1 {
            return None;
        }
        first += (from - lo) as u64 * inner;
        inner *= (hi - lo) as u64;
        whole &= (from, to) == (lo, hi);
    }
    Some(first)
}
