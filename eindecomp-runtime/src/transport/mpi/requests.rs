//! What is under way: immediate sends and receives that own their messages.
#![expect(
    unsafe_code,
    reason = "immediate requests whose messages outlive any scope"
)]

use std::collections::HashMap;
use std::os::raw::{c_int, c_void};
use std::ptr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError, TryRecvError};
use std::time::{Duration, Instant};

use mpi::ffi;
use mpi::topology::SimpleCommunicator;
use mpi::traits::AsRaw;
use signal_hook::consts::SIGTERM;

use super::Command;
use crate::transport::{Message, Receive};

/// Bytes of one request at most: counts are 32-bit, and a longer message comes in several.
const CHUNK: usize = 64 << 20;
/// Polls in a row that find nothing, before the thread sleeps between them.
const EAGER: u32 = 200;
/// Between polls, at most, while something is under way: it grows up to this.
const NAP: Duration = Duration::from_micros(100);
/// Between looks at the signal, and at what has waited too long.
const LOOK: Duration = Duration::from_millis(50);
/// From the report of one rank to the end of the job, so that the others report too.
const GRACE: Duration = Duration::from_secs(1);
/// Awaited messages that a report names.
const NAMED: usize = 8;
/// Exit code of a job that is ended.
const FAILED: c_int = 70;

/// A message of which some requests are under way.
struct Transfer {
    message: Message,
    /// Requests that are not done.
    left: usize,
    receive: Option<(Receive, Instant)>,
}

/// All of a process.
pub(super) struct Requests {
    communicator: ffi::MPI_Comm,
    rank: u32,
    timeout: Option<Duration>,
    terminated: Arc<AtomicBool>,
    requests: Vec<ffi::MPI_Request>,
    /// Per request, its transfer.
    of: Vec<u64>,
    transfers: HashMap<u64, Transfer>,
    started: u64,
    looked: Instant,
}

impl Requests {
    /// None, on a communicator that outlives them.
    pub fn new(
        communicator: &SimpleCommunicator,
        rank: u32,
        timeout: Option<Duration>,
    ) -> Requests {
        let terminated = Arc::new(AtomicBool::new(false));
        // Without the report that it asks for, all else works.
        let _ = signal_hook::flag::register(SIGTERM, terminated.clone());
        Requests {
            communicator: communicator.as_raw(),
            rank,
            timeout,
            terminated,
            requests: Vec::new(),
            of: Vec::new(),
            transfers: HashMap::new(),
            started: 0,
            looked: Instant::now(),
        }
    }

    /// Does what it is told to and polls, until it is told to finish; then everything is done.
    pub fn serve(&mut self, inbox: &mpsc::Receiver<Command>) -> mpsc::Sender<()> {
        let (mut idle, mut finish) = (0, None);
        loop {
            loop {
                let command = match self.nap(idle) {
                    None => inbox
                        .try_recv()
                        .map_err(|e| e == TryRecvError::Disconnected),
                    Some(nap) => inbox
                        .recv_timeout(nap)
                        .map_err(|e| e == RecvTimeoutError::Disconnected),
                };
                match command {
                    Ok(Command::Finish(sender)) => finish = Some(sender),
                    Ok(command) => self.start(command),
                    // `Mpi` is never dropped.
                    Err(true) => return mpsc::channel().0,
                    Err(false) => break,
                }
                idle = 0;
            }
            idle = match self.poll() {
                true => 0,
                false => idle.saturating_add(1),
            };
            self.look();
            if let Some(sender) = finish.take_if(|_| self.requests.is_empty()) {
                return sender;
            }
        }
    }

    /// How long the thread may sleep.
    fn nap(&self, idle: u32) -> Option<Duration> {
        match idle.checked_sub(EAGER) {
            _ if self.requests.is_empty() => Some(LOOK),
            None => None,
            Some(longer) => Some(NAP.min(Duration::from_micros(5 * u64::from(longer) + 5))),
        }
    }

    fn start(&mut self, command: Command) {
        match command {
            Command::Send(to, tag, message) => self.transfer(to, tag, message, None),
            Command::Receive(receive) => {
                let (from, tag) = (receive.from, receive.tag);
                let message = Message::zeros(receive.bytes);
                self.transfer(from, tag, message, Some((receive, Instant::now())));
            }
            Command::Abort(why) => abort(self.rank, &why),
            Command::Finish(_) => {}
        }
    }

    /// Requests for every chunk of a message; one of no bytes has one too.
    fn transfer(
        &mut self,
        other: u32,
        tag: u32,
        mut message: Message,
        receive: Option<(Receive, Instant)>,
    ) {
        let (id, before) = (self.started, self.requests.len());
        self.started += 1;
        let (other, tag) = (other as c_int, tag as c_int);
        let bytes = message.bytes_mut();
        let (start, len) = (bytes.as_mut_ptr(), bytes.len());
        for from in (0..len.max(1)).step_by(CHUNK) {
            let count = CHUNK.min(len - from) as c_int;
            // SAFETY: the chunk is in the message's memory, which the transfer keeps, unmoved and
            // otherwise unused, until the request is done.
            let request = unsafe {
                let mut request = ffi::RSMPI_REQUEST_NULL;
                let at = start.add(from).cast::<c_void>();
                let (byte, on) = (ffi::RSMPI_UINT8_T, self.communicator);
                match receive {
                    None => ffi::MPI_Isend(at, count, byte, other, tag, on, &mut request),
                    Some(_) => ffi::MPI_Irecv(at, count, byte, other, tag, on, &mut request),
                };
                request
            };
            self.requests.push(request);
            self.of.push(id);
        }
        let left = self.requests.len() - before;
        let transfer = Transfer {
            message,
            left,
            receive,
        };
        self.transfers.insert(id, transfer);
    }

    /// Takes what is done; was anything?
    fn poll(&mut self) -> bool {
        if self.requests.is_empty() {
            return false;
        }
        let mut done: Vec<c_int> = vec![0; self.requests.len()];
        let mut count: c_int = 0;
        // SAFETY: as many requests and places for indices as are told; statuses are not asked for.
        unsafe {
            ffi::MPI_Testsome(
                self.requests.len() as c_int,
                self.requests.as_mut_ptr(),
                &mut count,
                done.as_mut_ptr(),
                ffi::RSMPI_STATUSES_IGNORE,
            );
        }
        if count <= 0 {
            return false;
        }
        done.truncate(count as usize);
        done.sort_unstable_by_key(|at| std::cmp::Reverse(*at));
        for at in done {
            self.requests.swap_remove(at as usize);
            let id = self.of.swap_remove(at as usize);
            let Some(transfer) = self.transfers.get_mut(&id) else {
                continue;
            };
            transfer.left -= 1;
            if transfer.left == 0
                && let Some(transfer) = self.transfers.remove(&id)
                && let Some((receive, _)) = transfer.receive
            {
                (receive.done)(transfer.message);
            }
        }
        true
    }

    /// Looks, now and then, whether the process is to end or something has waited too long.
    fn look(&mut self) {
        if self.looked.elapsed() < LOOK {
            return;
        }
        self.looked = Instant::now();
        if self.terminated.load(Ordering::Relaxed) {
            self.report();
            let _ = signal_hook::low_level::emulate_default_handler(SIGTERM);
        }
        let Some(timeout) = self.timeout else { return };
        let late = self.awaited().any(|(_, since)| since.elapsed() > timeout);
        if late {
            self.report();
            std::thread::sleep(GRACE);
            abort(self.rank, "nothing came within EINDECOMP_TIMEOUT");
        }
    }

    fn awaited(&self) -> impl Iterator<Item = (&Receive, &Instant)> {
        let transfers = self.transfers.values();
        transfers.filter_map(|t| t.receive.as_ref().map(|(receive, since)| (receive, since)))
    }

    /// Says what this rank waits for.
    fn report(&self) {
        let mut awaited: Vec<_> = self.awaited().collect();
        awaited.sort_by_key(|(_, since)| **since);
        for (receive, since) in awaited.iter().take(NAMED) {
            let (rank, from, seconds) = (self.rank, receive.from, since.elapsed().as_secs_f32());
            let what = (receive.what)();
            eprintln!("eindecomp: rank {rank} has waited {seconds:.1} s for rank {from}: {what}");
        }
        match awaited.len() {
            0 => eprintln!("eindecomp: rank {} waits for no rank", self.rank),
            n if n > NAMED => eprintln!("eindecomp: rank {} and {} more", self.rank, n - NAMED),
            _ => {}
        }
    }
}

/// The greatest tag of the MPI library.
pub(super) fn max_tag(communicator: &SimpleCommunicator) -> u32 {
    // What every library has.
    const LEAST: u32 = 32_767;
    let mut value: *const c_int = ptr::null();
    let mut found: c_int = 0;
    // SAFETY: the attribute's value is a pointer to an integer that lives as long as MPI.
    unsafe {
        ffi::MPI_Comm_get_attr(
            communicator.as_raw(),
            ffi::MPI_TAG_UB as c_int,
            (&raw mut value).cast(),
            &mut found,
        );
        match value.as_ref().filter(|_| found != 0) {
            Some(most) => u32::try_from(*most).unwrap_or(LEAST),
            None => LEAST,
        }
    }
}

/// Ends the job; only for the thread that owns MPI.
pub(super) fn abort(rank: u32, why: &str) -> ! {
    eprintln!("eindecomp: rank {rank}: {why}");
    // SAFETY: MPI is started and not finished, and this is its thread.
    unsafe { ffi::MPI_Abort(ffi::RSMPI_COMM_WORLD, FAILED) };
    std::process::abort()
}
