//! What a plan is kept under, and the file it is kept in. Folders and clocks are the façade's.
//!
//! A [`Key`] holds everything that a plan depends on, readable; its hash names the entry. An entry
//! is one JSON document: format, [`Subject`], key, plan, and a hash over them. Read back, it is
//! untrusted: see [`decode`].
//!
//! Files: `subject` (what a plan is for, in words of people), `key` (parts, text and hash of a key; how keys differ), `entry` (the file and its checks),
//! `table` (a plan as text, what its nodes share written once), `lines` (JSON by lines).

mod entry;
#[cfg(test)]
mod fuzz;
mod key;
mod lines;
mod subject;
mod table;
#[cfg(test)]
mod tests;

pub use entry::{Entry, EntryError, decode, encode, head, open, read};
pub use key::{Difference, Key, WrittenKey, differences, distance};
pub use subject::Subject;

/// Version of the planner: raised whenever it makes another plan of the same key. A test compares
/// plans with stored ones.
pub const PLANNER: &str = "planner/9";
/// What two builds must have in common to share entries, `planner/9+entries/3`: [`PLANNER`] and the version of the
/// format.
pub fn version() -> String {
    format!("{PLANNER}+entries/{}", entry::FORMAT)
}

/// Larger files are no entries.
pub const MAX_BYTES: u64 = 64 << 20;
