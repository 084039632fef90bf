//! The tests of the library as its users see it, in one binary: one to link, whose tests run side by side.
//!
//! `cargo test --test all halo::` runs those of one module.
#![allow(missing_docs, reason = "tests")]

#[path = "../support/mod.rs"]
mod support;

mod bad_input;
mod bench_cases;
#[cfg(feature = "cli")]
mod cli;
mod clusters;
mod corpus;
mod dtypes;
mod ein_macro;
mod einsum_strings;
mod errors;
mod generics;
mod gpu_kernels;
mod gpus;
mod halo;
mod kernels;
mod language;
mod models;
mod networks;
mod packed;
mod pins;
mod plans;
mod profile;
mod programs;
mod ranks;
mod reaction_mapper;
mod records;
mod runtime;
mod sentence_similarity;
mod sizes;
mod state;
mod timeline;
mod watch;
