//! Transports between devices. `local` is the only one: devices of one process.

mod local;

pub use local::Counters;
