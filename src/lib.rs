#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

mod cache;
mod error;
mod fields;
mod handle;
mod model;
mod program;
mod session;
mod solve;
mod source;
mod weights;

pub use cache::PlanOrigin;
pub use eindecomp_core::ein::{DType, Dim};
pub use eindecomp_core::graph::EinGraph;
pub use eindecomp_core::plan::explain::Explain;
pub use eindecomp_core::plan::planner::{Algorithm, Objective};
pub use eindecomp_core::plan::{Cluster, Plan, Residency};
pub use eindecomp_macros::ein;
pub use eindecomp_runtime::{MemoryMode, Moved, Trace, Traffic};
pub use error::{Error, ShapeError};
pub use half;
pub use handle::{CompositionError, CompositionErrors, Graph, Tensor};
pub use model::{Array, Dims, Model, ModelGraph, Pack, Tensors, Unpack};
pub use ndarray;
pub use program::{CompileReport, Compiled, Program};
pub use session::{Session, SessionBuilder};
pub use weights::WeightsFile;

/// What the items that `ein!` makes stand on; no part of the interface.
#[doc(hidden)]
pub mod __private {
    pub use crate::fields::{Args, Fields, Handles, Packer, Reader, host};
    pub use crate::source::Source;
    pub use eindecomp_core::graph::from_syntax::Arg;

    /// Fails the evaluation of a const, which is how an error of `ein!` shows two places.
    #[track_caller]
    pub const fn error(message: &str) -> ! {
        panic!("{}", message)
    }
}

/// The candidate that differs least from `name`, if it is near enough to be a slip.
fn nearest<'a>(name: &str, candidates: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    candidates
        .map(|c| (strsim::damerau_levenshtein(name, c), c))
        .min()
        .filter(|(d, _)| *d <= 1 + name.len() / 4)
        .map(|m| m.1)
}
