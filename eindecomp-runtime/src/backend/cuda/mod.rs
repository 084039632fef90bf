//! Kernels on GPUs.
//!
//! A vertex is compiled (`kernel`) into what it asks of a device (`call`): launches of generated CUDA C and
//! matrix products of a library. The generator is `text` (scalars), `loads` (register programs), `state`
//! (what reductions keep), and a file per kind of kernel: `plain`, `contraction`, `merge`, `softmax`;
//! `function` puts text and arguments together. All of that is pure.
//!
//! *Invariant*: text depends on the vertex and on how its operands are read, never on a tile's place or size,
//! nor on names; so equal vertices share their modules.
//!
//! `vertex` says what makes kernels, `driver` what is asked of a GPU driver. `steps` is a task graph as steps of
//! streams, `order` the events that these need, `executor` what runs them; `measure` makes a cluster of the
//! devices. `device` is the driver of real GPUs, `fake` one without any; `twin` runs kernels on the CPU, and
//! `nvrtc` compiles them without a GPU, for tests.

pub mod call;
mod contraction;
#[cfg(feature = "cuda")]
mod device;
pub mod driver;
mod executor;
#[cfg(feature = "testing")]
pub mod fake;
mod function;
mod kernel;
mod loads;
mod measure;
mod merge;
#[cfg(feature = "testing")]
pub mod nvrtc;
mod order;
mod plain;
mod softmax;
mod state;
mod steps;
mod text;
mod traffic;
#[cfg(feature = "testing")]
pub mod twin;
pub mod vertex;

pub use super::error::{KernelError, KernelRunError};
#[cfg(feature = "cuda")]
pub use device::Cuda;
pub use executor::{GpuExecutor, Gpus};
pub use kernel::{GpuKernel, copy_call};
pub use measure::measure;
pub use vertex::CudaC;
