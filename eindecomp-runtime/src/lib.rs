//! Runs task graphs on CPU memory domains: P devices over one pool of W workers.

pub mod backend;
mod calibrate;
mod error;
mod executor;
mod storage;
mod tensor;
mod trace;
mod transport;
pub mod view;

pub use calibrate::calibrate;
pub use error::RunError;
pub use executor::{Executor, Workers};
pub use storage::MemoryMode;
pub use tensor::{Data, Element, Tensor};
pub use trace::{Moved, TaskSpan, Trace, Traffic};
