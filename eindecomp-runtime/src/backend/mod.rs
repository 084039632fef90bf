//! Backends: what runs kernels.

pub mod cpu;
pub mod cuda;
