//! The pool of worker threads.

use crate::error::RunError;

/// The worker threads that all devices of a process share.
pub struct Workers {
    pool: Option<rayon::ThreadPool>,
}

impl Workers {
    /// `threads` workers, at least 1; one worker is the calling thread.
    ///
    /// # Errors
    /// [`RunError::Pool`].
    pub fn new(threads: usize) -> Result<Workers, RunError> {
        if threads <= 1 {
            return Ok(Workers { pool: None });
        }
        let builder = rayon::ThreadPoolBuilder::new()
            .num_threads(threads)
            .thread_name(|i| format!("eindecomp-{i}"));
        Ok(Workers {
            pool: Some(builder.build().map_err(RunError::Pool)?),
        })
    }

    /// How many.
    pub fn count(&self) -> usize {
        self.pool
            .as_ref()
            .map_or(1, rayon::ThreadPool::current_num_threads)
    }

    pub(super) fn on_each(&self, work: impl Fn(usize) + Sync) {
        match &self.pool {
            None => work(0),
            Some(pool) => drop(pool.broadcast(|ctx| work(ctx.index()))),
        }
    }
}
