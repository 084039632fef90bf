//! Errors of loading and running.

use std::sync::Arc;

use eindecomp_core::ein::DType;

/// Why a run, or the loading of weights, failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RunError {
    /// An input that was not given.
    #[error("input `{0}` is missing")]
    MissingInput(Arc<str>),
    /// A given tensor that the graph does not have.
    #[error("the graph has no input `{0}`")]
    UnknownInput(String),
    /// A given tensor of another shape.
    #[error("`{name}` has shape {given:?}, but {expected:?} is needed")]
    Shape {
        /// The input or output.
        name: Arc<str>,
        /// What is needed.
        expected: Vec<usize>,
        /// What was given.
        given: Vec<usize>,
    },
    /// A given tensor of another element type.
    #[error("`{name}` is {given}, but {expected} is needed")]
    DType {
        /// The input or output.
        name: Arc<str>,
        /// What is needed.
        expected: DType,
        /// What was given.
        given: DType,
    },
    /// Number of output tensors given to `run_into`.
    #[error("{given} output tensors were given, but the graph has {expected}")]
    Outputs {
        /// The graph's.
        expected: usize,
        /// The given.
        given: usize,
    },
    /// A run before the weights were loaded.
    #[error("the weights are not loaded yet")]
    NotLoaded,
    /// A weight that could not be read.
    #[error("weight `{name}`: {source}")]
    Weight {
        /// The weight.
        name: Arc<str>,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// Memory that could not be had.
    #[error("{bytes} bytes of memory could not be allocated")]
    OutOfMemory {
        /// How many.
        bytes: u64,
    },
    /// A vertex that no kernel can be made for.
    #[error("statement `{statement}`: {source}")]
    Compile {
        /// The statement.
        statement: Arc<str>,
        /// Why.
        #[source]
        source: crate::backend::cpu::KernelError,
    },
    /// A kernel that found something wrong with the data, such as an index out of range.
    #[error("statement `{statement}`, tile {tile}: {source}")]
    Kernel {
        /// The statement.
        statement: Arc<str>,
        /// Ranges of its labels.
        tile: String,
        /// What.
        #[source]
        source: crate::backend::cpu::KernelRunError,
    },
    /// What a GPU, its driver or a library of it refused.
    #[error(transparent)]
    Gpu(#[from] crate::backend::cuda::driver::GpuError),
    /// More devices than there are.
    #[error("the plan is for {planned} devices, but there are {given}")]
    TooFewDevices {
        /// Of the task graph.
        planned: u32,
        /// Of the driver.
        given: u32,
    },
    /// A store outside the state.
    #[error(
        "statement `{statement}`: position {value} is outside axis {axis} of `{state}`, whose extent \
         is {extent}"
    )]
    Store {
        /// The statement.
        statement: Arc<str>,
        /// The state.
        state: Arc<str>,
        /// The axis, from 0.
        axis: usize,
        /// The position.
        value: i64,
        /// The axis' extent.
        extent: usize,
    },
    /// A run after one that failed while it was storing.
    #[error("a run failed while it was storing into the states: set or reset them first")]
    StateLost,
    /// A task that panicked: a bug of this crate.
    #[error("task {task} panicked: {message}")]
    Panic {
        /// Number of the task.
        task: usize,
        /// The panic's message.
        message: String,
    },
    /// Bytes that moved are not those that were planned: a bug of this crate.
    #[error("moved {measured} bytes, but {planned} were planned")]
    Traffic {
        /// By the plan.
        planned: u64,
        /// Counted.
        measured: u64,
    },
    /// Memory in use at most is not what was planned: a bug of this crate.
    #[error("the devices used {measured:?} bytes, but {planned:?} were planned")]
    Memory {
        /// The arenas.
        planned: Vec<u64>,
        /// Counted, per device.
        measured: Vec<u64>,
    },
    /// Devices that the ranks of a job cannot have alike.
    #[error("{devices} devices are not the same number for each of {ranks} ranks")]
    Devices {
        /// Of the task graph.
        devices: u32,
        /// Of the job.
        ranks: u32,
    },
    /// Results for a rank that does not exist.
    #[error("the results are for rank {rank}, but there are only {ranks}")]
    NoRank {
        /// The rank.
        rank: u32,
        /// How many there are.
        ranks: u32,
    },
    /// Memory that devices share, where they are of several processes.
    #[error("memory mode `Shared` is for the devices of one process")]
    SharedAcrossRanks,
    /// More messages between two ranks than the transport can tell apart.
    #[error("a message needs tag {needed}, but {most} is the greatest one")]
    Tags {
        /// The tag.
        needed: u32,
        /// The transport's greatest.
        most: u32,
    },
    /// Threads that could not be started.
    #[error("the worker pool could not be started")]
    Pool(#[source] rayon::ThreadPoolBuildError),
}
