//! The pool of worker threads.

use std::sync::Mutex;

use crate::backend::cpu::Scratch;
use crate::error::RunError;

/// The worker threads that all devices of a process share.
pub struct Workers {
    pool: Option<rayon::ThreadPool>,
    /// What each keeps from run to run.
    scratch: Vec<Mutex<Scratch>>,
}

impl Workers {
    /// `threads` workers, at least 1; one worker is the calling thread.
    ///
    /// # Errors
    /// [`RunError::Pool`].
    pub fn new(threads: usize) -> Result<Workers, RunError> {
        let scratch = (0..threads.max(1)).map(|_| Mutex::default()).collect();
        if threads <= 1 {
            return Ok(Workers {
                pool: None,
                scratch,
            });
        }
        let builder = rayon::ThreadPoolBuilder::new()
            .num_threads(threads)
            .thread_name(|i| format!("eindecomp-{i}"));
        Ok(Workers {
            pool: Some(builder.build().map_err(RunError::Pool)?),
            scratch,
        })
    }

    /// How many.
    pub fn count(&self) -> usize {
        self.pool
            .as_ref()
            .map_or(1, rayon::ThreadPool::current_num_threads)
    }

    pub(super) fn on_each(&self, work: impl Fn(usize, &mut Scratch) + Sync) {
        match &self.pool {
            None => self.with_scratch(0, |scratch| work(0, scratch)),
            Some(pool) => drop(pool.broadcast(|ctx| {
                let worker = ctx.index();
                self.with_scratch(worker, |scratch| work(worker, scratch));
            })),
        }
    }

    /// A worker's memory, or some of its own for a run while another one has that.
    fn with_scratch(&self, worker: usize, work: impl FnOnce(&mut Scratch)) {
        match self.scratch[worker].try_lock() {
            Ok(mut scratch) => work(&mut scratch),
            Err(_) => work(&mut Scratch::default()),
        }
    }
}
