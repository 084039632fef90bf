//! What this backend asks of a GPU driver: few calls, all by handles, so that a fake can answer them.
//!
//! Work is a list of [`Command`]s on streams. Those of a stream are done one after the other; those of
//! different streams in any order, unless an event orders them. A list is instantiated once and replayed
//! at every run. A command says what it uses of device memory ([`Touch`]), which a driver that checks
//! looks at and a GPU does not.

use std::fmt;

use eindecomp_core::ein::DType;
use eindecomp_core::plan::layout::Region;

use super::call::{Gemm, Module};

/// A block of memory of a device, or of the host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct MemoryId(pub u32);

/// A module, loaded on a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ModuleId(pub u32);

/// A stream of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct StreamId(pub u32);

/// An event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct EventId(pub u32);

/// An instantiated list of commands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct GraphId(pub u32);

/// Whose memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Place {
    /// A device's.
    Device(u32),
    /// The host's, pinned, so that devices copy to and from it by themselves.
    Host,
}

/// A byte of a block of memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Address {
    /// The block.
    pub memory: MemoryId,
    /// From its start, in bytes.
    pub offset: u64,
}

/// What is given back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Resource {
    /// A block of memory.
    Memory(MemoryId),
    /// A stream.
    Stream(StreamId),
    /// An event.
    Event(EventId),
    /// An instantiated list.
    Graph(GraphId),
}

/// What a driver says of a device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceInfo {
    /// Its name, for people.
    pub name: String,
    /// The card that it is on: several virtual devices may be on one.
    pub card: u32,
    /// Bytes that it may allocate.
    pub memory: u64,
    /// Its architecture, as NVRTC calls it: `sm_90`.
    pub arch: String,
    /// Per device, whether this one copies straight to it, not by way of the host.
    pub peers: Vec<bool>,
}

/// An argument of a kernel; each is 8 bytes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Argument {
    /// A pointer to device memory, and the bytes of the array from there on.
    Pointer(Address, u64),
    /// An `i64`.
    Int(i64),
    /// An `f64`.
    Float(f64),
}

/// Bytes of workspace of a matrix product: what cuBLAS recommends for current devices.
pub const MATMUL_WORKSPACE: u64 = 32 << 20;

/// What a stream does.
#[derive(Clone, Debug, PartialEq)]
pub enum Op {
    /// A kernel.
    Launch {
        /// Its module, on the stream's device.
        module: ModuleId,
        /// Its function.
        entry: &'static str,
        /// Blocks per axis.
        grid: [u32; 3],
        /// Threads of a block per axis.
        block: [u32; 3],
        /// Bytes of dynamic shared memory of a block.
        shared: u32,
        /// In order.
        arguments: Vec<Argument>,
    },
    /// A matrix product of cuBLASLt.
    Matmul {
        /// What is computed; its pointers are replaced by those below.
        gemm: Box<Gemm>,
        /// Where A, B and C start.
        operands: [Address; 3],
        /// Where it may write [`MATMUL_WORKSPACE`] bytes.
        workspace: Address,
    },
    /// Bytes from one place to another, of the host, one device or two.
    Copy {
        /// From.
        src: Address,
        /// To.
        dst: Address,
        /// How many.
        bytes: u64,
    },
    /// Zeros.
    Zero {
        /// Where.
        dst: Address,
        /// How many bytes.
        bytes: u64,
    },
    /// The event happens when everything before it on the stream is done.
    Record(EventId),
    /// What comes after it on the stream waits for the last record of the event before it in the list.
    Wait(EventId),
}

/// A box of a buffer that a command reads or writes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Touch {
    /// Where the buffer starts.
    pub at: Address,
    /// The buffer's box, whose elements are dense and row-major.
    pub region: Region,
    /// Their type.
    pub dtype: DType,
    /// What is used of it.
    pub part: Region,
    /// Is it written?
    pub write: bool,
    /// Whose bytes they are: one number per buffer, or per chain of buffers that hand theirs on.
    pub tenant: u32,
    /// Do they outlive the list?
    pub stays: bool,
}

/// A step of a stream.
#[derive(Clone, Debug, PartialEq)]
pub struct Command {
    /// The stream.
    pub stream: StreamId,
    /// What is done.
    pub op: Op,
    /// What it uses of device memory, as far as the task graph knows of it.
    pub touches: Vec<Touch>,
}

/// A GPU driver.
///
/// Handles are those that the driver gave. Nothing happens at once but what is said to: errors of a
/// command may come from a later call.
pub trait Driver: Send + Sync {
    /// The devices, by number.
    fn devices(&self) -> &[DeviceInfo];

    /// Memory, whose bytes are anything, at a multiple of 256.
    ///
    /// # Errors
    /// [`GpuError::OutOfMemory`].
    fn allocate(&self, place: Place, bytes: u64) -> Result<MemoryId, GpuError>;

    /// Compiles a module for a device and loads it, unless that was done before.
    ///
    /// # Errors
    /// [`GpuError::Compile`].
    fn module(&self, device: u32, module: &Module) -> Result<ModuleId, GpuError>;

    /// A stream of a device.
    ///
    /// # Errors
    /// A device that is lost.
    fn stream(&self, device: u32) -> Result<StreamId, GpuError>;

    /// An event of a device.
    ///
    /// # Errors
    /// A device that is lost.
    fn event(&self, device: u32) -> Result<EventId, GpuError>;

    /// Starts a list, once.
    ///
    /// # Errors
    /// A command that the device refuses.
    fn submit(&self, commands: &[Command]) -> Result<(), GpuError>;

    /// Makes a list ready to be replayed from `origin`: a replay begins when everything before it on that
    /// stream is done, and what comes after it there begins when the whole list is done.
    ///
    /// # Errors
    /// A command that the device refuses.
    fn instantiate(&self, origin: StreamId, commands: &[Command]) -> Result<GraphId, GpuError>;

    /// Starts a list.
    ///
    /// # Errors
    /// Of this or of earlier commands.
    fn replay(&self, graph: GraphId) -> Result<(), GpuError>;

    /// Waits until everything on a stream is done.
    ///
    /// # Errors
    /// Of any of it.
    fn synchronise(&self, stream: StreamId) -> Result<(), GpuError>;

    /// Puts bytes into host memory, at once.
    ///
    /// # Errors
    /// None but of a driver that checks.
    fn write(&self, to: Address, bytes: &[u8]) -> Result<(), GpuError>;

    /// Takes bytes from host memory, at once.
    ///
    /// # Errors
    /// None but of a driver that checks.
    fn read(&self, from: Address, bytes: &mut [u8]) -> Result<(), GpuError>;

    /// Gives something back that no command uses any more.
    fn release(&self, resource: Resource);
}

/// What went wrong with GPUs.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum GpuError {
    /// A build that cannot use GPUs.
    #[error("this program was built without GPUs: the feature `cuda` of eindecomp is off")]
    NotBuilt,
    /// A library that is not installed.
    #[error("{library} was not found: {hint}")]
    NoLibrary {
        /// What it is called.
        library: &'static str,
        /// Where it comes from.
        hint: &'static str,
    },
    /// A library that lacks what is needed.
    #[error("{library} is of version {found}, but {needed} is needed")]
    TooOld {
        /// What it is called.
        library: &'static str,
        /// Its version.
        found: String,
        /// The least version.
        needed: String,
    },
    /// No device that can be used.
    #[error("the CUDA driver is there, but it has no device: {0}")]
    NoDevice(String),
    /// Memory that could not be had.
    #[error("{place} has no {bytes} bytes left")]
    OutOfMemory {
        /// Whose memory.
        place: Place,
        /// How many were asked for.
        bytes: u64,
    },
    /// A kernel that does not compile: a bug of this crate, or a compiler that is too old.
    #[error("a kernel does not compile for {arch}:\n{log}")]
    Compile {
        /// The architecture.
        arch: String,
        /// What the compiler says.
        log: String,
    },
    /// A command that could not be started.
    #[error("device {device}: `{what}` could not be started: {message}")]
    Launch {
        /// The device.
        device: u32,
        /// The kernel, or what it is.
        what: String,
        /// What the driver says.
        message: String,
    },
    /// A device that does not answer any more, after a fault of a kernel or of the machine: every later
    /// call fails alike.
    #[error("device {device} is lost: {message}")]
    Lost {
        /// The device.
        device: u32,
        /// What the driver says.
        message: String,
    },
    /// Any other call of the driver that failed.
    #[error("{call} failed: {message}")]
    Call {
        /// The call.
        call: &'static str,
        /// What the driver says.
        message: String,
    },
    /// A rule that commands break, found by a driver that checks: a bug of this crate.
    #[error("a rule of the device is broken: {0}")]
    Rule(String),
}

impl GpuError {
    /// Is it that there are no GPUs that this program can use, rather than that one failed?
    pub fn is_absence(&self) -> bool {
        match self {
            GpuError::NotBuilt
            | GpuError::NoLibrary { .. }
            | GpuError::TooOld { .. }
            | GpuError::NoDevice(_) => true,
            GpuError::OutOfMemory { .. }
            | GpuError::Compile { .. }
            | GpuError::Launch { .. }
            | GpuError::Lost { .. }
            | GpuError::Call { .. }
            | GpuError::Rule(_) => false,
        }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Place::Device(device) => write!(f, "device {device}"),
            Place::Host => f.write_str("the host, pinned,"),
        }
    }
}
