//! Backends: what runs kernels.
//!
//! `split` and `program` break a vertex down into what every backend compiles; `error` is why there is
//! no kernel, or why one did not finish.

pub mod cpu;
pub mod cuda;
mod error;
mod program;
mod split;
