//! Errors of the façade.

use std::path::PathBuf;

use eindecomp_core::ein::DType;
use eindecomp_core::graph::BindError;
use eindecomp_core::plan::cache::Subject;

/// Why a model could not be compiled, loaded or run.
///
/// Its `Debug` is its text, which names its causes: so `fn main() -> Result<(), eindecomp::Error>` tells a user what to
/// do, and `unwrap` a developer.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A tensor that is not there.
    #[error("tensor `{name}` is missing{}", near.as_ref().map_or(String::new(), |n| format!("; did you mean `{n}`?")))]
    MissingTensor {
        /// Its name.
        name: String,
        /// A tensor of a similar name.
        near: Option<String>,
    },
    /// A tensor of another element type or rank.
    #[error(
        "tensor `{name}` is {given} with {given_rank} axes, but {expected} with {expected_rank} axes is needed"
    )]
    TensorType {
        /// Its name.
        name: String,
        /// Element type that is needed.
        expected: DType,
        /// Rank that is needed.
        expected_rank: usize,
        /// Element type given.
        given: DType,
        /// Rank given.
        given_rank: usize,
    },
    /// A weights file that could not be read.
    #[error("weights file {}: {message}", path.display())]
    WeightsFile {
        /// The file.
        path: PathBuf,
        /// Why.
        message: String,
    },
    /// Everything that is wrong with the tensors of a weights file.
    #[error("weights file {}:\n{}", path.display(), list(errors))]
    Weights {
        /// The file.
        path: PathBuf,
        /// One per tensor.
        errors: Vec<Error>,
    },
    /// Dims and inputs that do not fit the graph: all of them (EIN0012).
    #[error("EIN0012: the dims do not fit:\n{}", list(.0))]
    Bind(Vec<BindError>),
    /// Inputs whose shapes do not fit the declared axes: all of them (EIN0012).
    #[error("EIN0012: the inputs do not fit:\n{}", list(.0))]
    Shapes(Vec<ShapeError>),
    /// Mistakes in the composition of a graph.
    #[error(transparent)]
    Composition(#[from] crate::CompositionErrors),
    /// A graph that breaks a rule: a pin that does not fit its tensor, else a bug of this crate.
    #[error("the graph breaks rules:\n{}", list(.0))]
    Graph(Vec<eindecomp_core::graph::Violation>),
    /// A pass that broke a rule of the graph: a bug of this crate.
    #[error(transparent)]
    Pass(#[from] eindecomp_core::pass::PassError),
    /// A plan that was not found where none is made.
    #[error("{0}")]
    PlanMiss(Box<crate::PlanMiss>),
    /// A plan that could not be recorded.
    #[error("the plan is not recorded: folder {}: {source}", folder.display())]
    PlanNotWritten {
        /// The folder of plans.
        folder: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// A stored plan that the planner would not make again.
    #[error(
        "the stored plan {key} of {subject} moves {stored} B, but the planner now makes another one, which moves {made} B"
    )]
    PlanDiffers {
        /// What the plan is for.
        subject: Box<Subject>,
        /// Hash of the plan's key: the name of its entry.
        key: String,
        /// Bytes that the stored plan moves.
        stored: u128,
        /// Bytes that the new plan moves.
        made: u128,
    },
    /// Planning that a limit of time ended, where a plan is recorded or compared.
    #[error(
        "planning of {key} was stopped at its limit: another run may find another plan, so it is neither recorded nor compared"
    )]
    PlanStopped {
        /// Hash of the plan's key.
        key: String,
    },
    /// Settings of a session that contradict each other or the build.
    #[error(transparent)]
    Session(#[from] crate::SessionError),
    /// What the ranks of a job cannot do together.
    #[error(transparent)]
    Job(#[from] crate::JobError),
    /// MPI that could not be started.
    #[cfg(feature = "mpi")]
    #[error(transparent)]
    Mpi(#[from] eindecomp_runtime::transport::MpiError),
    /// A timeline that cannot be written.
    #[error("the timeline {} cannot be written: {source}", path.display())]
    Timeline {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// Figures of this machine that cannot be had.
    #[error("figures of this machine: {0}")]
    Machine(#[from] crate::machine::MachineError),
    /// A graph that cannot be planned as asked.
    #[cfg(feature = "planner")]
    #[error(transparent)]
    Plan(#[from] eindecomp_core::plan::planner::PlanError),
    /// A plan that does not fit the graph.
    #[error(transparent)]
    PlanRule(#[from] eindecomp_core::plan::verify::InvalidPlan),
    /// A plan that cannot be lowered.
    #[error(transparent)]
    Lower(#[from] eindecomp_core::task::lower::LowerError),
    /// A task graph that breaks a rule: a bug of this crate.
    #[error(transparent)]
    Tasks(#[from] eindecomp_core::task::TaskError),
    /// GPUs that cannot be used.
    #[error(transparent)]
    Gpus(#[from] eindecomp_runtime::backend::cuda::driver::GpuError),
    /// A run on GPUs, where one list of commands is replayed, has no times of statements.
    #[error(
        "a run on GPUs is not timed by statement here: `nsys profile` names its kernels by what they compute"
    )]
    ProfileOnGpus,
    /// Running failed.
    #[error(transparent)]
    Run(#[from] eindecomp_runtime::RunError),
    /// Source text that is no program.
    #[error("{0}")]
    Source(String),
}

eindecomp_core::debug_is_text!(Error);

/// An input axis that does not fit its declaration.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ShapeError {
    /// An input that was not given.
    #[error("input `{0}` is missing")]
    Missing(String),
    /// A given tensor that the graph does not have.
    #[error("there is no input `{0}`")]
    Unknown(String),
    /// Another number of axes.
    #[error("`{name}` has {given} axes, but is declared {declared}")]
    Rank {
        /// The input.
        name: String,
        /// Its declaration.
        declared: String,
        /// Number of axes given.
        given: usize,
    },
    /// Another element type.
    #[error("`{name}` is {given}, but is declared {declared}")]
    DType {
        /// The input.
        name: String,
        /// Its declaration.
        declared: String,
        /// What was given.
        given: DType,
    },
    /// An extent that is not what the axis is declared to be.
    #[error("axis {axis} (`{extent}`) of `{name}` is {given}, but must be {expected}{because}")]
    Extent {
        /// The input.
        name: String,
        /// The axis, from 0.
        axis: usize,
        /// Its declared extent.
        extent: String,
        /// What it must be.
        expected: i64,
        /// What was given.
        given: usize,
        /// Which other axis says so.
        because: String,
    },
    /// What does not hold at the dims that the shapes give, as far as they agree on them.
    #[error(transparent)]
    Dims(BindError),
}

fn list<T: std::fmt::Display>(items: &[T]) -> String {
    items
        .iter()
        .map(|e| format!("  {e}"))
        .collect::<Vec<_>>()
        .join("\n")
}
