//! The `ein!` macro.
#![forbid(unsafe_code)]

mod report;
mod tokens;
