//! How a task graph can be wrong; the rules are numbered in [`verify`](super::verify).

use super::{BufferId, TaskId};
use crate::graph::NodeId;
use crate::plan::Region;
use crate::plan::verify::InvalidPlan;

/// A rule that a task graph breaks.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TaskError {
    /// The plan itself is wrong.
    #[error(transparent)]
    Plan(#[from] InvalidPlan),
    /// Rule 1: a dependency that is not earlier, or not ascending.
    #[error("t{}: its dependencies are not earlier tasks in ascending order", task.0)]
    Order {
        /// The task.
        task: TaskId,
    },
    /// Rule 2: a buffer, node, operand or box that does not exist.
    #[error("t{}: {what} does not exist", task.0)]
    Missing {
        /// The task.
        task: TaskId,
        /// What.
        what: &'static str,
    },
    /// Rule 2: a buffer outside its tensor.
    #[error("b{} {region} is not a box of {node}", buffer.0)]
    Buffer {
        /// The buffer.
        buffer: BufferId,
        /// Its tensor.
        node: NodeId,
        /// Its box.
        region: Region,
    },
    /// Rule 3: a buffer on the wrong device.
    #[error("t{} on device {device} uses b{} on device {on}", task.0, buffer.0)]
    Remote {
        /// The task.
        task: TaskId,
        /// Its device.
        device: u32,
        /// The buffer.
        buffer: BufferId,
        /// The buffer's device.
        on: u32,
    },
    /// Rule 4: an element that is written twice.
    #[error("t{} writes {region} of b{}, part of which is written before", task.0, buffer.0)]
    Rewrite {
        /// The task.
        task: TaskId,
        /// The buffer.
        buffer: BufferId,
        /// The box.
        region: Region,
    },
    /// Rule 5: a read of an element that is not written before by a dependency.
    #[error("t{} reads {region} of b{}, part of which none of its dependencies writes", task.0, buffer.0)]
    Unwritten {
        /// The task.
        task: TaskId,
        /// The buffer.
        buffer: BufferId,
        /// The box.
        region: Region,
    },
    /// Rule 2: a load of anything but an input, or at the wrong time.
    #[error("t{} loads what is no weight before the run, or no other input in it", task.0)]
    Load {
        /// The task, in the load list or in the run.
        task: TaskId,
    },
    /// Rule 6: a kernel that is not its tuple: wrong device, tile, footprint or result.
    #[error("t{} is not the tuple {key:?} of {node}: wrong {what}", task.0)]
    Kernel {
        /// The task.
        task: TaskId,
        /// The vertex.
        node: NodeId,
        /// Join key.
        key: Vec<u32>,
        /// What is wrong.
        what: &'static str,
    },
    /// Rule 6: a tuple that does not run once.
    #[error("tuple {key:?} of {node} runs {times} times")]
    Tuples {
        /// The vertex.
        node: NodeId,
        /// Join key.
        key: Vec<u32>,
        /// How often.
        times: usize,
    },
    /// Rule 7: values that are no final ones, or are folded wrongly.
    #[error("t{} takes the wrong partial results of {node}", task.0)]
    Fold {
        /// The task.
        task: TaskId,
        /// The vertex.
        node: NodeId,
    },
    /// Rule 8: an owned tile that is missing, or not written as a whole.
    #[error("{node}: tile {region} on device {device} has {written} of its elements written")]
    Tile {
        /// The tensor.
        node: NodeId,
        /// The tile.
        region: Region,
        /// Its owner.
        device: u32,
        /// Elements written.
        written: usize,
    },
    /// Rule 8: an element of a result that is not gathered exactly once.
    #[error("result {output} is not gathered exactly once")]
    Output {
        /// Which result.
        output: usize,
    },
    /// Rule 11: a version that overwrites what another task still reads.
    #[error("t{} writes b{} over a version that t{} reads", task.0, buffer.0, reader.0)]
    Overwrite {
        /// The task that writes.
        task: TaskId,
        /// The buffer that it writes.
        buffer: BufferId,
        /// The task that reads.
        reader: TaskId,
    },
    /// Rule 11: a version in memory that is not the state's.
    #[error("b{} is no version in place of the one before", buffer.0)]
    Version {
        /// The buffer.
        buffer: BufferId,
    },
    /// Rule 9: a buffer that is freed too early, never, or twice.
    #[error("b{} is not freed once after its last use", buffer.0)]
    Free {
        /// The buffer.
        buffer: BufferId,
    },
    /// Rule 12: a buffer that is not aligned, or a version elsewhere than the one before.
    #[error("b{} does not start where it may", buffer.0)]
    Offset {
        /// The buffer.
        buffer: BufferId,
    },
    /// Rule 12: two buffers that share bytes and may be in use at once.
    #[error("b{} and b{} share bytes and may be in use at once", buffer.0, other.0)]
    Shared {
        /// The buffer that comes later.
        buffer: BufferId,
        /// The one that had the bytes before.
        other: BufferId,
    },
    /// Rule 13.
    #[error("the arena of device {device} is stated as {stated:?} B, but ends at {end} B")]
    Arena {
        /// The device.
        device: u32,
        /// As stated.
        stated: Option<u64>,
        /// End of its last buffer.
        end: u64,
    },
    /// Rule 10.
    #[error("Moves copy {actual} B from device {from} to {to}, planned are {planned} B")]
    Moves {
        /// Sender.
        from: u32,
        /// Receiver.
        to: u32,
        /// Planned bytes.
        planned: u64,
        /// Bytes of the Moves.
        actual: u64,
    },
    /// Rule 10: the plan states another sum.
    #[error("Moves copy {actual} B, the plan states {planned} B")]
    MovedBytes {
        /// As stated.
        planned: u128,
        /// Sum of the Moves.
        actual: u128,
    },
}
