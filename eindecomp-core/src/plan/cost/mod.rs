//! Cost models: pure predictions, each with its unit.

pub mod placed;
