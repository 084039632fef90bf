//! Runs task graphs on CPU memory domains: P devices over one pool of W workers.

mod tensor;
mod trace;

pub use tensor::{Data, Element, Tensor};
pub use trace::{Moved, TaskSpan, Trace, Traffic};
