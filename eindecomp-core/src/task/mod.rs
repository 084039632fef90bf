//! The TaskGraph: device-local steps over device-local buffers.
//!
//! Files: `lower` (plan → tasks), `exchange` (what moves, box by box), `lifetime` (from which task to
//! which a buffer is needed), `arena` (where it is), `memory` (who needs most), `verify` (the rules),
//! `error` (how they are broken), `display`.

pub mod arena;
mod display;
mod error;
pub mod exchange;
mod lifetime;
pub mod lower;
pub mod memory;
#[cfg(test)]
mod tests;
pub mod traffic;
pub mod verify;

pub use error::TaskError;
pub use lower::{LowerError, lower};

use crate::ein::DType;
use crate::graph::NodeId;
use crate::plan::layout::Region;

/// A buffer: its position in [`TaskGraph::buffers`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct BufferId(pub u32);

/// A task: its position in [`TaskGraph::tasks`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TaskId(pub u32);

/// What a buffer is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum BufferRole {
    /// A tile of a tensor, owned by its device.
    Owned,
    /// A box of a tensor that its device reads but does not own.
    Replica,
    /// A kernel's result, or a component of its record, that is folded or moved into owned tiles;
    /// element type = accumulator. An axis that a component lacks has one element.
    Partial,
    /// A box of a weight that stays across runs.
    Weight,
    /// A tile of a state, which stays across runs.
    State,
    /// A tile of a new version of a state, in the memory of that tile of the version before.
    Version(BufferId),
}

impl BufferRole {
    /// Does what it holds outlive the run?
    pub fn stays(self) -> bool {
        matches!(
            self,
            BufferRole::Weight | BufferRole::State | BufferRole::Version(_)
        )
    }
}

/// A dense row-major box of one tensor on one device. One without elements is never written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Buffer {
    /// The device that it belongs to.
    pub device: u32,
    /// The tensor that it holds a box of.
    pub node: NodeId,
    /// The box.
    pub region: Region,
    /// Stored element type (a partial's is the accumulator's).
    pub dtype: DType,
    /// What it is for.
    pub role: BufferRole,
    /// Where it starts in its device's arena, in bytes: a multiple of [`arena::ALIGN`].
    pub offset: u64,
}

impl Buffer {
    /// Its size.
    pub fn bytes(&self) -> u64 {
        self.region.volume() as u64 * self.dtype.size() as u64
    }

    /// Its bytes in the arena.
    pub fn range(&self) -> std::ops::Range<u64> {
        self.offset..self.offset.saturating_add(self.bytes())
    }
}

/// What a task does. Every buffer but the source of a `Move` is on the task's own device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TaskKind {
    /// Host → device: fills the buffer from the input (data at each run, weights once).
    Load {
        /// The buffer.
        dst: BufferId,
    },
    /// One tuple of the join: the same EinSum at tile size.
    Kernel {
        /// The vertex.
        node: NodeId,
        /// Join key, in canonical label order.
        key: Vec<u32>,
        /// Range of every label.
        tile: Region,
        /// One buffer per operand, which covers the tile's footprint in it.
        reads: Vec<BufferId>,
        /// An `Owned` buffer whose region contains the tile's output box (no aggregation across
        /// tuples), or a `Partial` per part of the result, whose region is the part's box.
        writes: Vec<BufferId>,
    },
    /// Copies a box between two devices; the task is on the receiver.
    Move {
        /// From.
        src: BufferId,
        /// To.
        dst: BufferId,
        /// The box.
        region: Region,
    },
    /// Copies a box on one device.
    Copy {
        /// From.
        src: BufferId,
        /// To.
        dst: BufferId,
        /// The box.
        region: Region,
    },
    /// Folds partials into a box of an owned tile, in a balanced binary tree over their order,
    /// then converts to the stored element type. One source: only converts.
    Aggregate {
        /// The vertex, for its ⊕.
        node: NodeId,
        /// Partials in join-key order; the components of a record one after the other.
        srcs: Vec<BufferId>,
        /// The owned tile.
        dst: BufferId,
        /// The box.
        region: Region,
    },
    /// The state's tile becomes this box of its last version, for the next run.
    Keep {
        /// The last version.
        src: BufferId,
        /// The tile.
        dst: BufferId,
        /// The box.
        region: Region,
    },
    /// Device → host: a box of a result.
    Gather {
        /// The buffer.
        src: BufferId,
        /// Which output of the graph.
        output: usize,
        /// The box.
        region: Region,
    },
    /// The buffer is not used any more.
    Free {
        /// The buffer.
        buffer: BufferId,
    },
}

impl TaskKind {
    /// The buffers it reads.
    pub fn reads(&self) -> &[BufferId] {
        match self {
            TaskKind::Load { .. } | TaskKind::Free { .. } => &[],
            TaskKind::Kernel { reads, .. } => reads,
            TaskKind::Aggregate { srcs, .. } => srcs,
            TaskKind::Move { src, .. }
            | TaskKind::Copy { src, .. }
            | TaskKind::Keep { src, .. }
            | TaskKind::Gather { src, .. } => std::slice::from_ref(src),
        }
    }

    /// The buffers it writes a box of.
    pub fn writes(&self) -> &[BufferId] {
        match self {
            TaskKind::Load { dst }
            | TaskKind::Move { dst, .. }
            | TaskKind::Copy { dst, .. }
            | TaskKind::Keep { dst, .. }
            | TaskKind::Aggregate { dst, .. } => std::slice::from_ref(dst),
            TaskKind::Kernel { writes, .. } => writes,
            TaskKind::Gather { .. } | TaskKind::Free { .. } => &[],
        }
    }
}

/// One step on one device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Task {
    /// Where it runs.
    pub device: u32,
    /// What it does.
    pub kind: TaskKind,
    /// Tasks that come before it, ascending.
    pub deps: Vec<TaskId>,
}

/// A plan lowered to device-local steps; tasks are in a topological order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaskGraph {
    /// Number of devices.
    pub devices: u32,
    /// Bytes of each device's arena, which holds all its buffers: its peak.
    pub arenas: Vec<u64>,
    /// Every buffer.
    pub buffers: Vec<Buffer>,
    /// Tasks that fill the weights: done once per session.
    pub load: Vec<Task>,
    /// Tasks of one run. Their `deps` count within this list.
    pub tasks: Vec<Task>,
}

impl TaskGraph {
    /// One buffer.
    pub fn buffer(&self, id: BufferId) -> &Buffer {
        &self.buffers[id.0 as usize]
    }
}
