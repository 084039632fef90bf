//! The end of MPI at the end of the process.
#![expect(unsafe_code, reason = "the C library calls what is done at exit")]

use std::panic::catch_unwind;
use std::sync::{Arc, OnceLock, mpsc};

use super::{Command, Mpi};
use crate::transport::Transport;
use crate::transport::agree::{Action, Step, announce};

static STARTED: OnceLock<Arc<Mpi>> = OnceLock::new();

/// Ends MPI when the process exits, once every rank does.
pub(super) fn finish_at_exit(mpi: Arc<Mpi>) {
    if STARTED.set(mpi).is_ok() {
        // SAFETY: the function takes and returns nothing and does not unwind.
        unsafe { libc::atexit(finish) };
    }
}

extern "C" fn finish() {
    let finish = || {
        let Some(mpi) = STARTED.get() else { return };
        let transport: Arc<dyn Transport> = mpi.clone();
        let (action, hash) = (Action::Leave, 0);
        // A rank that ends while others go on would leave them waiting.
        announce(&transport, Step { action, hash }).wait();
        let (sender, finished) = mpsc::channel();
        mpi.ask(Command::Finish(sender));
        let _ = finished.recv();
    };
    let _ = catch_unwind(finish);
}
