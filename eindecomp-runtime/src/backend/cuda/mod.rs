//! Kernels on GPUs.
//!
//! `call` says what a kernel asks of a device.

pub mod call;
