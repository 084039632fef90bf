//! Why there is no kernel, or why one did not finish.

use std::sync::Arc;

use eindecomp_core::graph::NodeId;

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
    /// An opaque kernel without its function.
    #[error(
        "there is no kernel `{0}`: `EinGraph::with_kernel` gives a graph that was read its kernels"
    )]
    NoKernel(Arc<str>),
    /// An opaque kernel, for a GPU.
    #[error("kernel `{0}` is a Rust function, which runs on CPUs only")]
    Host(Arc<str>),
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
    /// An opaque kernel that failed.
    #[error("kernel `{kernel}`: {message}")]
    Opaque {
        /// The kernel.
        kernel: Arc<str>,
        /// What it says.
        message: String,
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
