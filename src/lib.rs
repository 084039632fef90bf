#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

mod blocks;
mod bucket;
mod cache;
#[cfg(feature = "cli")]
#[doc(hidden)]
pub mod cli;
mod dims;
mod element;
mod error;
pub mod errors;
mod fields;
mod gpus;
mod handle;
mod job;
pub mod machine;
mod message;
mod model;
#[cfg(feature = "mpi")]
mod mpi;
mod planner;
mod profile;
mod program;
mod progress;
mod runner;
#[cfg(test)]
#[path = "../tests/support/seen.rs"]
mod seen;
mod session;
mod solve;
mod source;
mod timeline;
mod watch;
mod weights;

pub use bucket::Buckets;
pub use cache::{CacheMode, EmbeddedPlans, Nearest, PlanMiss, PlanOrigin, UnknownMode};
pub use eindecomp_core::ein::{DType, Dim};
pub use eindecomp_core::graph::from_syntax::{Consts, LowerError, TextError};
pub use eindecomp_core::graph::{EinGraph, Pin};
pub use eindecomp_core::kernel;
pub use eindecomp_core::pass::Passed;
#[cfg(feature = "planner")]
pub use eindecomp_core::plan::Explain;
pub use eindecomp_core::plan::cache::{Difference, Subject};
pub use eindecomp_core::plan::cluster;
pub use eindecomp_core::plan::{Algorithm, Cluster, Objective, Plan, Residency};
pub use eindecomp_runtime::{MemoryMode, Moved, Results, Trace, Traffic, transport};
pub use element::{Float, Int};
pub use error::{Error, ShapeError};
pub use gpus::GpuCluster;
pub use half;
pub use handle::{CompositionError, CompositionErrors, Graph, Tensor};
pub use job::{Devices, Job, JobError, Launched};
pub use model::{Array, Dims, Empty, Model, ModelGraph, Pack, Tensors, Unpack};
pub use ndarray;
pub use profile::{DeviceMemory, Profile, StatementProfile};
pub use program::{CompileReport, Compiled, Program};
pub use session::{Session, SessionBuilder, SessionError};
pub use weights::{StoredTensor, WeightsFile};

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

/// The plans in a folder, as part of the binary: `include_plans!("plans")`, beside the crate's
/// `Cargo.toml`. A plan that is changed or removed, or added by a session or `cargo eindecomp`, is noticed by the next
/// build. One that comes by other ways (git, an archive) is not, unless a `build.rs` prints
/// `cargo::rerun-if-changed=plans`.
#[macro_export]
macro_rules! include_plans {
    ($folder:literal) => {
        $crate::__private::include_plans! { $crate $folder }
    };
}

/// What the items that `ein!` makes stand on; no part of the interface.
#[doc(hidden)]
pub mod __private {
    pub use crate::__ein_dims as dims;
    pub use crate::blocks::block;
    pub use crate::dims::show;
    pub use crate::fields::{Args, Fields, Handles, Walker, from_safetensors, host};
    pub use crate::message::{Message, error};
    pub use crate::source::{Other, Source, graph};
    pub use eindecomp_core::graph::from_syntax::Arg;
    pub use eindecomp_macros::{ein, include_plans, link};
    pub use eindecomp_runtime::Element;
    /// What is never read.
    pub struct OfNoConst;
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
