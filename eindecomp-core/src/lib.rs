//! Language, graph, planner and task graph of eindecomp: no devices, threads or clocks.
//!
//! Without the feature `plan` only [`syntax`] and the operator tables are built; that is what the
//! `ein!` macro links.
#![forbid(unsafe_code)]

pub mod syntax;
