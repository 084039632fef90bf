//! What the workers of a run share: the steps that can start.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use super::schedule::Schedule;
use crate::error::RunError;
use crate::transport::Message;

/// What the workers of a run take their work from; messages arrive in it.
pub(super) struct Queue {
    pub ready: Mutex<Ready>,
    pub changed: Condvar,
}

impl Queue {
    pub fn lock(&self) -> MutexGuard<'_, Ready> {
        self.ready.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Work that can start now, in task order.
pub(super) struct Ready {
    pub heap: BinaryHeap<Reverse<(u32, u32)>>,
    pub unfinished: usize,
    /// By step.
    pub arrived: HashMap<u32, Message>,
    /// The first, and the step that it was found in.
    pub error: Option<(u32, RunError)>,
}

impl Ready {
    pub fn new(schedule: &Schedule) -> Ready {
        let mut ready = Ready {
            heap: BinaryHeap::new(),
            unfinished: schedule.steps.len(),
            arrived: HashMap::new(),
            error: None,
        };
        for (n, &waits) in schedule.waits.iter().enumerate() {
            if waits == 0 {
                ready.push(schedule, n as u32);
            }
        }
        ready
    }

    pub fn push(&mut self, schedule: &Schedule, step: u32) {
        let pieces = schedule.starting_pieces(step as usize);
        self.heap
            .extend((0..pieces).map(|piece| Reverse((step, piece))));
    }
}
