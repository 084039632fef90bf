//! Ranks of an MPI job.
//!
//! One thread of the process owns MPI: it starts it, makes every call, and ends it when the process exits,
//! so that `MPI_THREAD_FUNNELED` is enough. It has commands from the others, polls what is under way, and
//! keeps watch over what is waited for. What is under way is `requests`.

mod exit;
mod requests;

use std::sync::{Arc, Mutex, OnceLock, PoisonError, mpsc};
use std::thread::{self, ThreadId};
use std::time::Duration;

use mpi::Threading;
use mpi::collective::SystemOperation;
use mpi::topology::{Color, SimpleCommunicator};
use mpi::traits::{Communicator, CommunicatorCollectives, Root};

use super::{Message, Receive, Transport};
use requests::{Requests, abort, max_tag};

/// Why this process is no rank of an MPI job.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum MpiError {
    /// The program has started MPI itself.
    #[error("MPI was started by the program already: let eindecomp start it")]
    Started,
    /// An MPI library that allows calls from one thread of a process with several only if told so otherwise.
    #[error(
        "this MPI library does not support processes with several threads (MPI_THREAD_FUNNELED)"
    )]
    Threads,
    /// `EINDECOMP_TIMEOUT` is no time.
    #[error("EINDECOMP_TIMEOUT is `{0}`, but a number of seconds greater than 0 is needed")]
    Timeout(String),
    /// The thread could not be started.
    #[error("the thread for MPI could not be started: {0}")]
    Thread(String),
}

/// What the thread that owns MPI is asked to do.
enum Command {
    Send(u32, u32, Message),
    Receive(Receive),
    Abort(String),
    /// End MPI, and say so.
    Finish(mpsc::Sender<()>),
}

/// Where this process is in the job.
#[derive(Clone, Copy, Debug)]
struct Place {
    rank: u32,
    ranks: u32,
    nodes: u32,
    /// Of this rank's node.
    neighbours: u32,
    max_tag: u32,
}

/// The job that this process is a rank of. Ranks of a node have consecutive numbers; rank 0 is that of
/// `MPI_COMM_WORLD`.
pub struct Mpi {
    place: Place,
    owner: ThreadId,
    commands: Mutex<mpsc::Sender<Command>>,
}

impl Mpi {
    /// Starts MPI, the first time, and ends it when the process exits: a process that exits before the
    /// others are done ends the job.
    ///
    /// # Errors
    /// MPI that was started already or has no threads; a wrong `EINDECOMP_TIMEOUT`.
    pub fn start() -> Result<Arc<Mpi>, MpiError> {
        static MPI: OnceLock<Result<Arc<Mpi>, MpiError>> = OnceLock::new();
        let started = MPI.get_or_init(|| {
            let mpi = Arc::new(Mpi::new()?);
            exit::finish_at_exit(mpi.clone());
            Ok(mpi)
        });
        started.clone()
    }

    fn new() -> Result<Mpi, MpiError> {
        let timeout = timeout()?;
        let (commands, inbox) = mpsc::channel();
        let (tell, told) = mpsc::channel();
        let builder = thread::Builder::new().name("eindecomp-mpi".into());
        let thread = builder.spawn(move || own(&inbox, &tell, timeout));
        let thread = thread.map_err(|e| MpiError::Thread(e.to_string()))?;
        let place = told
            .recv()
            .unwrap_or_else(|_| Err(MpiError::Thread("it ended".into())))?;
        Ok(Mpi {
            place,
            owner: thread.thread().id(),
            commands: Mutex::new(commands),
        })
    }

    /// Machines of the job that all have as many ranks; 1 where they have not.
    pub fn nodes(&self) -> u32 {
        self.place.nodes
    }

    /// Ranks on this rank's machine, with itself.
    pub fn neighbours(&self) -> u32 {
        self.place.neighbours
    }

    fn ask(&self, command: Command) {
        let commands = self.commands.lock();
        let commands = commands.unwrap_or_else(PoisonError::into_inner);
        // Without the thread the process is about to exit.
        let _ = commands.send(command);
    }
}

/// `EINDECOMP_TIMEOUT`.
fn timeout() -> Result<Option<Duration>, MpiError> {
    let Some(text) = std::env::var_os("EINDECOMP_TIMEOUT").filter(|v| !v.is_empty()) else {
        return Ok(None);
    };
    let seconds = text.to_str().and_then(|t| t.trim().parse::<f64>().ok());
    let timeout = seconds
        .filter(|s| *s > 0.0)
        .map(Duration::try_from_secs_f64);
    match timeout {
        Some(Ok(timeout)) => Ok(Some(timeout)),
        _ => Err(MpiError::Timeout(text.to_string_lossy().into_owned())),
    }
}

/// The life of the thread that owns MPI.
fn own(
    inbox: &mpsc::Receiver<Command>,
    tell: &mpsc::Sender<Result<Place, MpiError>>,
    timeout: Option<Duration>,
) {
    let (universe, threading) = match mpi::initialize_with_threading(Threading::Funneled) {
        None => {
            let _ = tell.send(Err(MpiError::Started));
            return;
        }
        Some(started) => started,
    };
    if threading < Threading::Funneled {
        let _ = tell.send(Err(MpiError::Threads));
        return;
    }
    let (communicator, place) = by_node(&universe.world());
    let _ = tell.send(Ok(place));
    let mut requests = Requests::new(&communicator, place.rank, timeout);
    let finished = requests.serve(inbox);
    drop((requests, communicator, universe));
    let _ = finished.send(());
}

/// The ranks with those of a node one after the other.
fn by_node(world: &SimpleCommunicator) -> (SimpleCommunicator, Place) {
    let node = world.split_shared(world.rank());
    let mut leader = world.rank();
    node.process_at_rank(0).broadcast_into(&mut leader);
    let ranks = world.split_by_color_with_key(Color::with_value(0), leader);
    let ranks = ranks.unwrap_or_else(|| world.duplicate());
    let (mut least, mut most, mut nodes) = (0i32, 0i32, 0i32);
    let leads = i32::from(node.rank() == 0);
    world.all_reduce_into(&node.size(), &mut least, SystemOperation::min());
    world.all_reduce_into(&node.size(), &mut most, SystemOperation::max());
    world.all_reduce_into(&leads, &mut nodes, SystemOperation::sum());
    let place = Place {
        rank: ranks.rank().unsigned_abs(),
        ranks: ranks.size().unsigned_abs(),
        nodes: if least == most {
            nodes.unsigned_abs()
        } else {
            1
        },
        neighbours: node.size().unsigned_abs(),
        max_tag: max_tag(&ranks),
    };
    (ranks, place)
}

impl Transport for Mpi {
    fn rank(&self) -> u32 {
        self.place.rank
    }

    fn ranks(&self) -> u32 {
        self.place.ranks
    }

    fn max_tag(&self) -> u32 {
        self.place.max_tag
    }

    fn send(&self, to: u32, tag: u32, message: Message) {
        self.ask(Command::Send(to, tag, message));
    }

    fn receive(&self, receive: Receive) {
        self.ask(Command::Receive(receive));
    }

    fn abort(&self, why: &str) -> ! {
        if thread::current().id() == self.owner {
            abort(self.place.rank, why);
        }
        self.ask(Command::Abort(why.into()));
        loop {
            thread::park();
        }
    }
}
