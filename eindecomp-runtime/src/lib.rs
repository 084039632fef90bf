//! Runs task graphs on CPU memory domains: P devices over one pool of W workers.

pub mod backend;
mod tensor;
mod trace;
pub mod view;

pub use tensor::{Data, Element, Tensor};
pub use trace::{Moved, TaskSpan, Trace, Traffic};
