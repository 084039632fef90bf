//! Runs task graphs on CPU memory domains: P devices over one pool of W workers, or those of the ranks of
//! a job, each with a pool of its own.

pub mod backend;
mod calibrate;
mod error;
mod executor;
mod source;
mod storage;
mod tensor;
mod trace;
pub mod transport;
pub mod view;

pub use calibrate::calibrate;
pub use error::RunError;
pub use executor::{Executor, Ranks, Results, Workers};
pub use source::{Contents, TensorSource};
pub use storage::MemoryMode;
pub use tensor::{Data, Element, Tensor};
pub use trace::{Moved, TaskSpan, Trace, Traffic};
