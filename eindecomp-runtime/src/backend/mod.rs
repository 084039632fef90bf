//! Backends: what runs kernels.

pub mod cpu;
