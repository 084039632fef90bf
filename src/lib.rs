//! Tensor programs as checked einsum blocks, decomposed over devices by a planner.
#![forbid(unsafe_code)]

mod error;
mod handle;
mod model;

pub use eindecomp_core::ein::{DType, Dim};
pub use eindecomp_core::plan::Cluster;
pub use eindecomp_runtime::Trace;
pub use error::{Error, ShapeError};
pub use handle::{CompositionError, CompositionErrors, Graph, Tensor};
pub use model::{Array, Dims, Model, ModelGraph, Pack, Tensors, Unpack};
pub use ndarray;
