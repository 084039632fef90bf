//! Watching a search, and ending it early.

/// Where a search is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Status {
    /// Units of work done so far: additions, of the [`Budget`](super::Budget)'s.
    pub work: u64,
    /// The least cost found so far.
    pub best: Option<u128>,
    /// No assignment costs less.
    pub bound: u128,
}

/// Who is asked whether a search goes on. The search itself sees no clock: what it finds depends
/// on the answers alone.
pub trait Progress {
    /// Called again and again; after `false` the search ends soon, with the best it has.
    fn keep_going(&self, status: &Status) -> bool;
}

/// Never ends a search.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Unwatched;

impl Progress for Unwatched {
    fn keep_going(&self, _: &Status) -> bool {
        true
    }
}
