//! Kernels on GPUs.
//!
//! `call` says what a kernel asks of a device, `vertex` what makes kernels, `driver` what is asked of a GPU
//! driver. `steps` is a task graph as steps of streams, `order` the events that these need, `executor` what
//! runs them; `measure` makes a cluster of the devices. `fake` is a driver without GPUs, for tests.

pub mod call;
pub mod driver;
mod executor;
#[cfg(feature = "testing")]
pub mod fake;
mod measure;
mod order;
mod steps;
mod traffic;
pub mod vertex;

pub use executor::{GpuExecutor, Gpus};
pub use measure::measure;
