//! What carries boxes between devices of different processes.
//!
//! A process, its *rank*, owns as many devices as every other one: device `d` is of rank
//! `d / devices per rank`. Devices of one process need no transport.

pub mod agree;
mod counters;
mod message;
#[cfg(feature = "mpi")]
mod mpi;
mod ping;

pub(crate) use counters::Counters;
pub use message::{Message, Receive, tell, told, wait};
#[cfg(feature = "mpi")]
pub use mpi::{Mpi, MpiError};
pub use ping::{ping, pong};

/// The first tag of a run's messages; those below are for what happens between runs.
pub(crate) const FIRST_TAG: u32 = 8;
/// The tag of tiles of states.
pub(crate) const STATE_TAG: u32 = 0;
/// The tag of what ranks are about to do.
pub(crate) const AGREE_TAG: u32 = 1;
/// The tags of texts: of their length, and of themselves.
pub(crate) const TEXT_TAGS: [u32; 2] = [2, 3];

/// The tag of what measures the way between two ranks.
pub(crate) const LINK_TAG: u32 = 4;

/// The processes of a job, seen from one of them.
///
/// Messages from one rank to another one with one tag arrive in the order in which they were sent; no call
/// waits for another rank.
pub trait Transport: Send + Sync {
    /// This process.
    fn rank(&self) -> u32;

    /// How many there are.
    fn ranks(&self) -> u32;

    /// The greatest tag that a message can have.
    fn max_tag(&self) -> u32;

    /// Takes a message to another rank.
    fn send(&self, to: u32, tag: u32, message: Message);

    /// Waits for a message in the background.
    fn receive(&self, receive: Receive);

    /// Ends the job, every rank of it: `why` is shown with this rank's number.
    fn abort(&self, why: &str) -> !;
}
