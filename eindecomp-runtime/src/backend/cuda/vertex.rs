//! What the executor asks of a kernel generator.

use eindecomp_core::ein::Value;
use eindecomp_core::graph::{BoundGraph, NodeId};
use eindecomp_core::plan::layout::Region;

use super::call::{Window, Work};
use crate::backend::cpu::KernelError;

/// A vertex that is compiled, for tiles of any size.
pub trait Vertex: Send + Sync {
    /// Computes the output box of a tile: `reads` has one window per operand, `writes` one per part of the
    /// result.
    fn work(&self, tile: &Region, reads: &[Window], writes: &[Window], slots: &[Value]) -> Work;

    /// Folds a box of partial results into `dst`; there is one window per part of each in order.
    fn fold(&self, partials: &[Window], dst: &Window, region: &Region) -> Work;

    /// What kind of kernel it is, for people.
    fn describe(&self) -> String;
}

/// Makes kernels.
pub trait Generator: Send + Sync {
    /// Compiles a vertex.
    ///
    /// # Errors
    /// A vertex that GPUs do not run.
    fn vertex(&self, graph: &BoundGraph, node: NodeId) -> Result<Box<dyn Vertex>, KernelError>;

    /// Copies a box between two windows of one element type.
    fn copy(&self, src: &Window, dst: &Window, region: &Region) -> Work;
}
