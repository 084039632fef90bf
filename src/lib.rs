#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

mod cache;
mod element;
mod error;
pub mod errors;
mod fields;
mod handle;
mod message;
mod model;
mod program;
#[cfg(test)]
#[path = "../tests/support/seen.rs"]
mod seen;
mod session;
mod solve;
mod source;
mod weights;

pub use cache::PlanOrigin;
pub use eindecomp_core::ein::{DType, Dim};
pub use eindecomp_core::graph::EinGraph;
pub use eindecomp_core::kernel;
pub use eindecomp_core::plan::cluster;
pub use eindecomp_core::plan::explain::Explain;
pub use eindecomp_core::plan::planner::{Algorithm, Objective};
pub use eindecomp_core::plan::{Cluster, Plan, Residency};
pub use eindecomp_runtime::{MemoryMode, Moved, Trace, Traffic};
pub use element::{Float, Int};
pub use error::{Error, ShapeError};
pub use half;
pub use handle::{CompositionError, CompositionErrors, Graph, Tensor};
pub use model::{Array, Dims, Model, ModelGraph, NoState, Pack, Tensors, Unpack};
pub use ndarray;
pub use program::{CompileReport, Compiled, Program};
pub use session::{Session, SessionBuilder};
pub use weights::WeightsFile;

/// Blocks of tensor code, checked when the crate is compiled.
///
/// Each block `f` becomes a function `f` on tensor handles, which appends the block to a graph,
/// and a module `f` that holds the block as a program by itself: `f::graph()` and the types
/// `f::Dims`, `f::Inputs`, `f::Weights`, `f::State` and `f::Outputs`. Each struct `S` becomes a struct `S` of
/// arrays and a struct `STensors` of handles.
#[macro_export]
macro_rules! ein {
    ($($program:tt)*) => { $crate::__private::ein! { $crate { $($program)* } } };
}

/// What the items that `ein!` makes stand on; no part of the interface.
#[doc(hidden)]
pub mod __private {
    pub use crate::fields::{Args, Fields, Handles, Packer, Reader, host};
    pub use crate::message::{Message, error};
    pub use crate::source::{Other, Source, instance};
    pub use eindecomp_core::graph::from_syntax::Arg;
    pub use eindecomp_macros::{ein, link};
    pub use eindecomp_runtime::Element;
    /// What is never read.
    pub struct Unused;
    // Whatever the user's `core` and `std` are.
    pub extern crate core;
    pub extern crate std;
}

/// The candidate that differs least from `name`, if it is near enough to be a slip.
fn nearest<'a>(name: &str, candidates: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    candidates
        .map(|c| (strsim::damerau_levenshtein(name, c), c))
        .min()
        .filter(|(d, _)| *d <= 1 + name.len() / 4)
        .map(|m| m.1)
}
