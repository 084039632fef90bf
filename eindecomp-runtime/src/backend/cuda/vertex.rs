//! What the executor asks of a kernel generator.

use eindecomp_core::ein::Value;
use eindecomp_core::graph::{BoundGraph, NodeId};
use eindecomp_core::plan::layout::Region;

use super::call::{FAULT_WORDS, Window, Work};
use super::kernel::{GpuKernel, copy_call};
use crate::backend::error::{KernelError, KernelRunError};

/// A vertex that is compiled, for tiles of any size.
pub trait Vertex: Send + Sync {
    /// Computes the output box of a tile: `reads` has one window per operand, `writes` one per part of the
    /// result.
    ///
    /// # Errors
    /// Windows that do not fit: bugs of the task graph.
    fn work(
        &self,
        tile: &Region,
        reads: &[Window],
        writes: &[Window],
        slots: &[Value],
    ) -> Result<Work, KernelRunError>;

    /// Folds a box of partial results into `dst`; there is one window per part of each in order.
    ///
    /// # Errors
    /// As [`Vertex::work`].
    fn fold(
        &self,
        partials: &[Window],
        dst: &Window,
        region: &Region,
    ) -> Result<Work, KernelRunError>;

    /// What a fault record says that one of its kernels filled; `None` if none did.
    fn fault(&self, record: &[u64; FAULT_WORDS]) -> Option<KernelRunError>;

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
    ///
    /// # Errors
    /// Windows that do not cover the box: bugs of the task graph.
    fn copy(&self, src: &Window, dst: &Window, region: &Region) -> Result<Work, KernelRunError>;
}

/// The generator of GPUs: CUDA C, and products of cuBLASLt.
#[derive(Clone, Copy, Debug, Default)]
pub struct CudaC;

impl Generator for CudaC {
    fn vertex(&self, graph: &BoundGraph, node: NodeId) -> Result<Box<dyn Vertex>, KernelError> {
        Ok(Box::new(GpuKernel::compile(graph, node)?))
    }

    fn copy(&self, src: &Window, dst: &Window, region: &Region) -> Result<Work, KernelRunError> {
        Ok(Work {
            calls: copy_call(src, dst, region)?.into_iter().collect(),
            workspace_bytes: 0,
        })
    }
}

impl Vertex for GpuKernel {
    fn work(
        &self,
        tile: &Region,
        reads: &[Window],
        writes: &[Window],
        slots: &[Value],
    ) -> Result<Work, KernelRunError> {
        self.calls(tile, reads, writes, slots)
    }

    fn fold(
        &self,
        partials: &[Window],
        dst: &Window,
        region: &Region,
    ) -> Result<Work, KernelRunError> {
        GpuKernel::fold(self, partials, dst, region)
    }

    fn fault(&self, record: &[u64; FAULT_WORDS]) -> Option<KernelRunError> {
        GpuKernel::fault(self, record)
    }

    fn describe(&self) -> String {
        GpuKernel::describe(self)
    }
}
