//! Runs task graphs on CPU memory domains: P devices over one pool of W workers.

mod tensor;

pub use tensor::{Data, Element, Tensor};
