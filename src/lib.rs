//! Tensor programs as checked einsum blocks, decomposed over devices by a planner.
#![forbid(unsafe_code)]

mod error;
mod handle;
mod model;
mod weights;

pub use eindecomp_core::ein::{DType, Dim};
pub use eindecomp_core::plan::Cluster;
pub use eindecomp_runtime::Trace;
pub use error::{Error, ShapeError};
pub use handle::{CompositionError, CompositionErrors, Graph, Tensor};
pub use model::{Array, Dims, Model, ModelGraph, Pack, Tensors, Unpack};
pub use ndarray;
pub use weights::WeightsFile;

/// The candidate that differs least from `name`, if it is near enough to be a slip.
fn nearest<'a>(name: &str, candidates: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    candidates
        .map(|c| (strsim::damerau_levenshtein(name, c), c))
        .min()
        .filter(|(d, _)| *d <= 1 + name.len() / 4)
        .map(|m| m.1)
}
