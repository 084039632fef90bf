//! Watching a search, and ending it early.

use std::cell::Cell;

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

/// Asks another one, until that says no: from then on every search of a plan ends at once, but for those that are run
/// [`through`](Watch::through).
pub(crate) struct Watch<'a> {
    progress: &'a dyn Progress,
    stopped: Cell<bool>,
    /// Are searches to be done to their end, whatever it says?
    held: Cell<bool>,
}

impl<'a> Watch<'a> {
    pub fn new(progress: &'a dyn Progress) -> Watch<'a> {
        Watch {
            progress,
            stopped: Cell::new(false),
            held: Cell::new(false),
        }
    }

    /// Runs a search to its end, even after the other one said no.
    pub fn through<T>(&self, search: impl FnOnce() -> T) -> T {
        let before = self.held.replace(true);
        let found = search();
        self.held.set(before);
        found
    }

    /// Did it say no?
    pub fn has_stopped(&self) -> bool {
        self.stopped.get()
    }

    /// Asks between two searches.
    pub fn goes_on(&self) -> bool {
        self.keep_going(&Status {
            work: 0,
            best: None,
            bound: 0,
        })
    }
}

impl Progress for Watch<'_> {
    fn keep_going(&self, status: &Status) -> bool {
        let stops = self.stopped.get() || !self.progress.keep_going(status);
        self.stopped.set(stops);
        !stops || self.held.get()
    }
}

/// Never ends a search.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Unwatched;

impl Progress for Unwatched {
    fn keep_going(&self, _: &Status) -> bool {
        true
    }
}
