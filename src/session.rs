//! Sessions: a cluster, a cache folder and a worker pool, which programs are compiled for.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::num::NonZeroU32;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use eindecomp_core::graph::{BoundGraph, EinGraph};
use eindecomp_core::pass::{Passed, Pipeline, UnknownPass};
use eindecomp_core::plan::cache::Subject;
use eindecomp_core::plan::cluster::{Calibration, ClusterError};
use eindecomp_core::plan::rebind::rebind;
use eindecomp_core::plan::verify::verify;
use eindecomp_core::plan::{Algorithm, Cluster, Objective, Plan, PlanOptions, Residency};
use eindecomp_core::task::TaskGraph;
use eindecomp_core::task::lower::lower;
use eindecomp_runtime::backend::cuda::Gpus;
use eindecomp_runtime::{MemoryMode, Ranks, Results, Workers};

use crate::Error;
use crate::bucket::{Buckets, Policy};
use crate::cache::{CacheMode, EmbeddedPlans, Found, PlanCache, PlanOrigin, Task, UnknownMode};
use crate::job::{Devices, Job, Kind};
use crate::machine::{self, MachineError};
use crate::model::{Dims, Model, ModelGraph, block_path};
use crate::planner::PLANNER;
use crate::program::{Compiled, Program};

/// What programs are compiled for. Cheap to clone.
#[derive(Clone)]
pub struct Session {
    shared: Arc<Shared>,
    /// Names of tensors that its programs keep.
    watched: Vec<Arc<str>>,
}

pub(crate) struct Shared {
    pub(crate) passes: Pipeline,
    pub(crate) cluster: Cluster,
    options: PlanOptions,
    limit: Option<Duration>,
    cache: PlanCache,
    buckets: Policy,
    pub(crate) workers: Arc<Workers>,
    pub(crate) memory: MemoryMode,
    pub(crate) job: Option<Job>,
    /// What its devices are, unless they are memory domains of the CPU.
    pub(crate) gpus: Option<Gpus>,
    results: Results,
}

/// The graph at some dims, after passes: what is planned. With it, what the passes did.
pub(crate) fn bind(
    graph: &EinGraph,
    dims: &BTreeMap<Arc<str>, i64>,
    passes: &Pipeline,
) -> Result<(BoundGraph, Vec<Passed>), Error> {
    let bound = graph.bind(dims).map_err(Error::Bind)?;
    bound.verify().map_err(Error::Graph)?;
    Ok(passes.run(bound)?)
}

impl Shared {
    /// A plan for `bound`, which is `graph` at `dims`, and the dims that it was made for: those of
    /// their buckets, if the graph may have these and their plan fits. Dims in `fixed` have none. `block` is
    /// the path of the graph's block, if it is one.
    pub(crate) fn plan_at(
        &self,
        graph: &EinGraph,
        block: Option<&str>,
        bound: &BoundGraph,
        dims: &BTreeMap<Arc<str>, i64>,
        fixed: &BTreeSet<Arc<str>>,
    ) -> Result<Planned, Error> {
        let subject = |dims: &BTreeMap<Arc<str>, i64>| {
            let dims = dims.iter().map(|(name, &value)| (&**name, value));
            Subject::new(block, graph, dims, &self.cluster)
        };
        let run = dims;
        if let Some(dims) = self.buckets.planned(dims, fixed)
            && let Ok((bucket, _)) = bind(graph, &dims, &self.passes)
        {
            let Found {
                plan,
                origin,
                warnings,
                ..
            } = self
                .plan(&bucket, &subject(&dims))
                .map_err(|error| bucket_of(run, error))?;
            let fits = rebind(&plan, bound, &self.cluster)
                .and_then(|plan| verify(bound, &plan, &self.cluster).map(|tasks| (plan, tasks)));
            match fits {
                Ok((plan, tasks)) => {
                    return Ok(Planned {
                        plan: Arc::new(plan),
                        tasks,
                        origin,
                        dims,
                        warnings,
                    });
                }
                Err(error) => tracing::info!(?dims, %error, "the plan of the bucket does not fit"),
            }
        }
        let Found {
            plan,
            tasks,
            origin,
            warnings,
        } = self.plan(bound, &subject(dims))?;
        let tasks = match tasks {
            Some(tasks) => tasks,
            None => lower(bound, &plan)?,
        };
        let dims = dims.clone();
        Ok(Planned {
            plan,
            tasks,
            origin,
            dims,
            warnings,
        })
    }

    /// What is amiss with the session's buckets at these dims, which is told to `tracing` too.
    pub(crate) fn slips(&self, dims: &BTreeMap<Arc<str>, i64>) -> Vec<String> {
        let slips = self.buckets.slips(dims);
        slips.iter().for_each(|slip| tracing::warn!("{slip}"));
        slips
    }

    fn plan(&self, graph: &BoundGraph, subject: &Subject) -> Result<Found, Error> {
        let task = Task {
            graph,
            cluster: &self.cluster,
            options: &self.options,
            subject,
            limit: self.limit,
            shown: true,
        };
        let find = || self.cache.get(task, PLANNER);
        match &self.job {
            Some(job) => job.plan(task, find),
            None => find(),
        }
    }

    /// Do all ranks of the job compile the same?
    ///
    /// # Errors
    /// [`JobError::Differs`](crate::JobError::Differs).
    pub(crate) fn compiles(
        &self,
        graph: &EinGraph,
        dims: &BTreeMap<Arc<str>, i64>,
    ) -> Result<(), Error> {
        let Some(job) = &self.job else { return Ok(()) };
        let settings = (
            &self.cluster,
            &self.options,
            self.limit,
            self.memory,
            self.results,
        );
        let version = env!("CARGO_PKG_VERSION");
        let (buckets, passes) = (&self.buckets, self.passes.names());
        let what = format!("{version} {settings:?} {buckets:?} {passes:?} {dims:?}\n{graph}");
        job.compiles(&what)
    }

    /// What was measured of this machine, if that is in the folder of plans.
    pub(crate) fn measured(&self) -> Result<Option<Calibration>, MachineError> {
        let folder = self.cache.folder.as_deref();
        Ok(folder.map(machine::calibration).transpose()?.flatten())
    }

    /// The processes whose devices a program runs on.
    pub(crate) fn ranks(&self) -> Ranks {
        match &self.job {
            Some(job) => Ranks::new(job.transport.clone(), self.results),
            None => Ranks::alone(),
        }
    }
}

/// A plan, and how it was come by.
pub(crate) struct Planned {
    pub plan: Arc<Plan>,
    pub tasks: TaskGraph,
    pub origin: PlanOrigin,
    /// The dims that it was made for.
    pub dims: BTreeMap<Arc<str>, i64>,
    /// What was amiss with the plan cache.
    pub warnings: Vec<String>,
}

/// Settings of a [`Session`].
#[derive(Clone, Debug)]
pub struct SessionBuilder {
    last_pass: Option<String>,
    cluster: Devices,
    options: PlanOptions,
    limit: Option<Duration>,
    folder: Option<PathBuf>,
    mode: Option<CacheMode>,
    embedded: EmbeddedPlans,
    buckets: Policy,
    workers: Option<usize>,
    memory: MemoryMode,
    results: Results,
}

/// Settings of a session that contradict each other or the build.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SessionError {
    /// `EINDECOMP_MODE` names no mode.
    #[error("EINDECOMP_MODE: {0}")]
    Mode(#[from] UnknownMode),
    /// A mode that plans, in a build that cannot.
    #[error("mode `{0}` needs the planner, which this build was made without (feature `planner`)")]
    NoPlanner(CacheMode),
    /// Devices that cannot be.
    #[error("the cluster breaks a rule: {0}")]
    Cluster(#[source] ClusterError),
    /// `stop_after` names no pass.
    #[error(transparent)]
    Pass(#[from] UnknownPass),
    /// Nowhere to record plans.
    #[error("mode `record` needs a folder: give `cache_dir`, or set EINDECOMP_CACHE")]
    NoFolder,
}

eindecomp_core::debug_is_text!(SessionError);

impl SessionBuilder {
    /// The devices: a [`Cluster`] in this process, [GPUs](crate::GpuCluster), or a [`Job`] of several. Default: one.
    pub fn cluster(mut self, devices: impl Into<Devices>) -> Self {
        self.cluster = devices.into();
        self
    }

    /// So many devices of this machine, at least 1, with the figures that were measured of it and
    /// are kept in the folder of plans ([`machine::calibrate`]).
    pub fn this_machine(mut self, devices: u32) -> Self {
        self.cluster = Devices(Kind::Here(devices));
        self
    }

    /// What plans minimise. Default: placed bytes.
    pub fn objective(mut self, objective: Objective) -> Self {
        self.options.objective = objective;
        self
    }

    /// How the optimum is searched. Default: exactly.
    pub fn algorithm(mut self, algorithm: Algorithm) -> Self {
        self.options.algorithm = algorithm;
        self
    }

    /// Where weights live. Default: each device keeps what it reads.
    pub fn residency(mut self, residency: Residency) -> Self {
        self.options.residency = residency;
        self
    }

    /// Least extent of a part of an index, or of an axis, that is split. Default: 1.
    pub fn min_tile(mut self, elements: NonZeroU32) -> Self {
        self.options.constraints.min_tile = elements;
        self
    }

    /// Independent kernel calls per device and statement, as far as its indices have room for them, and 65,536 of a
    /// statement at most. Default: 1.
    pub fn oversubscribe(mut self, calls: NonZeroU32) -> Self {
        self.options.constraints.oversubscribe = calls;
        self
    }

    /// How long planning may take, about. A plan that was stopped says so, with what was proved by then; under
    /// `placed` it moves no more than any named strategy, as these few are searched for whatever the limit is. It is
    /// kept in this process, not in the folder, where another run would find what a key's plan is.
    /// Default: the planner's own limits, which count steps and are the same on every machine.
    pub fn planning_limit(mut self, limit: Duration) -> Self {
        self.limit = Some(limit);
        self
    }

    /// Only the passes up to this one rewrite graphs, none for `none`: to find one that is at fault.
    /// [`Pipeline::names`](eindecomp_core::pass::Pipeline::names) lists them; `explain` shows what each did.
    pub fn stop_after(mut self, pass: &str) -> Self {
        self.last_pass = Some(pass.into());
        self
    }

    /// Worker threads that all devices of this process share. Default: the cores of this machine, or a
    /// rank's share of them.
    pub fn workers(mut self, workers: usize) -> Self {
        self.workers = Some(workers);
        self
    }

    /// How devices of this machine hold their buffers. Default: [`MemoryMode::Arena`].
    pub fn memory(mut self, memory: MemoryMode) -> Self {
        self.memory = memory;
        self
    }

    /// Which ranks of a job are given the results of runs. Default: all of them.
    pub fn results(mut self, results: Results) -> Self {
        self.results = results;
        self
    }

    /// The folder of plans. Default: the environment variable `EINDECOMP_CACHE`, else
    /// `eindecomp` in the user's cache folder; without either, plans are kept in memory only.
    pub fn cache_dir(mut self, folder: impl Into<PathBuf>) -> Self {
        self.folder = Some(folder.into());
        self
    }

    /// How plans are come by. Default: the environment variable `EINDECOMP_MODE`, else
    /// [`CacheMode::Auto`].
    pub fn cache_mode(mut self, mode: CacheMode) -> Self {
        self.mode = Some(mode);
        self
    }

    /// Neither reads nor writes plans: they are kept in this process only ([`CacheMode::Off`]).
    pub fn no_cache(self) -> Self {
        self.cache_mode(CacheMode::Off)
    }

    /// Plans that the binary carries, which are looked at first: `include_plans!("plans")`.
    pub fn plans(mut self, plans: EmbeddedPlans) -> Self {
        self.embedded = plans;
        self
    }

    /// Which values of a dim, by its name in the program, share a plan, so that inputs of new extents
    /// need none of their own. Default: [`Buckets::Exact`]. Dims of weights and states are always
    /// exact. A bucket whose dims break a clause of the program, or whose plan does not fit the
    /// memory of the devices at the run's dims, is left out.
    pub fn buckets(mut self, dim: &str, buckets: Buckets) -> Self {
        self.buckets.set(dim, buckets);
        self
    }

    /// The session.
    ///
    /// # Errors
    /// `EINDECOMP_MODE` is no mode; [`SessionBuilder::stop_after`] names no pass; a mode that this build or the lack of a folder forbids; a cluster
    /// that breaks a rule; figures of this machine that cannot be read; the worker pool could not be
    /// started.
    pub fn build(self) -> Result<Session, Error> {
        let cache = PlanCache {
            mode: self.mode.map_or_else(default_mode, Ok)?,
            folder: self.folder.or_else(default_cache_dir),
            embedded: self.embedded,
        };
        let plans = !matches!(cache.mode, CacheMode::Auto | CacheMode::Frozen);
        if plans && PLANNER.is_none() {
            return Err(SessionError::NoPlanner(cache.mode).into());
        }
        if cache.mode == CacheMode::Record && cache.folder.is_none() {
            return Err(SessionError::NoFolder.into());
        }
        let (cluster, job, gpus) = match self.cluster.0 {
            Kind::Given(cluster) => (*cluster, None, None),
            Kind::Here(devices) => {
                let here = machine::cluster(cache.folder.as_deref(), devices)?;
                (here, None, None)
            }
            Kind::Job(job) => (job.cluster.clone(), Some(*job), None),
            Kind::Gpus(given) => (given.cluster, None, Some(given.gpus)),
        };
        cluster.verify().map_err(SessionError::Cluster)?;
        let passes = Pipeline::up_to(self.last_pass.as_deref()).map_err(SessionError::Pass)?;
        let share = job.as_ref().and_then(|job| job.workers);
        let threads = self.workers.or(share).unwrap_or_else(machine::cores);
        let workers = Arc::new(Workers::new(threads)?);
        let SessionBuilder {
            options,
            limit,
            buckets,
            memory,
            results,
            ..
        } = self;
        Ok(Session {
            shared: Arc::new(Shared {
                passes,
                cluster,
                options,
                limit,
                cache,
                buckets,
                workers,
                memory,
                job,
                gpus,
                results,
            }),
            watched: Vec::new(),
        })
    }
}

/// The error of a plan for the bucket of these dims: a miss names them.
fn bucket_of(dims: &BTreeMap<Arc<str>, i64>, mut error: Error) -> Error {
    if let Error::PlanMiss(miss) = &mut error {
        let named = |(dim, n): (&Arc<str>, &i64)| (dim.to_string(), *n);
        miss.run = Some(dims.iter().map(named).collect());
    }
    error
}

/// An environment variable that is set to something.
fn var(name: &str) -> Option<OsString> {
    std::env::var_os(name).filter(|v| !v.is_empty())
}

/// `EINDECOMP_MODE`, else `auto`.
fn default_mode() -> Result<CacheMode, SessionError> {
    let mode = var("EINDECOMP_MODE").map(|v| v.to_string_lossy().parse());
    Ok(mode.transpose()?.unwrap_or_default())
}

/// `EINDECOMP_CACHE`, else `eindecomp` in the user's cache folder.
pub(crate) fn default_cache_dir() -> Option<PathBuf> {
    let folder = |name| var(name).map(PathBuf::from);
    folder("EINDECOMP_CACHE").or_else(|| {
        let base = folder("XDG_CACHE_HOME")
            .or_else(|| folder("LOCALAPPDATA"))
            .or_else(|| Some(folder("HOME")?.join(".cache")));
        Some(base?.join("eindecomp"))
    })
}

impl Session {
    /// A session's settings, all at their defaults.
    pub fn builder() -> SessionBuilder {
        SessionBuilder {
            last_pass: None,
            cluster: Cluster::cpus(1).into(),
            options: PlanOptions::default(),
            limit: None,
            folder: None,
            mode: None,
            embedded: EmbeddedPlans::default(),
            buckets: Policy::default(),
            workers: None,
            memory: MemoryMode::default(),
            results: Results::default(),
        }
    }

    /// The job that this process is a rank of, if it is one.
    pub fn job(&self) -> Option<&Job> {
        self.shared.job.as_ref()
    }

    /// The same session, whose programs also keep every tensor of this name: of a parameter or statement
    /// (`scores`, wherever it is computed), or by its path (`3.x.scores`: in the call that gives `x` in the fourth turn of a
    /// loop). `session.watch("scores").compile(…)`, then after a run [`Compiled::watched`]. What is watched is a result:
    /// passes keep it, and the plan is another one.
    #[must_use]
    pub fn watch(&self, name: impl Into<Arc<str>>) -> Session {
        let mut watching = self.clone();
        watching.watched.push(name.into());
        watching
    }

    /// Compiles a block at `dims`: plans it, or loads the plan from the cache.
    ///
    /// # Errors
    /// Mistakes in the graph; dims that do not fit it; a watched name that no tensor has; a graph that cannot be
    /// planned, or whose plan needs more memory than the devices have.
    pub fn compile<M: Model>(
        &self,
        model: ModelGraph<M>,
        dims: M::Dims,
    ) -> Result<Compiled<M>, Error> {
        // What no `i64` holds is too large for any tensor, and reported as such.
        let number = |value: usize| i64::try_from(value).unwrap_or(i64::MAX);
        let dims = dims
            .values()
            .into_iter()
            .map(|(name, value)| (Arc::from(name), number(value)))
            .collect();
        let block = block_path::<M>();
        let (shared, graph) = (self.shared.clone(), model.into_graph()?);
        let program = Program::new(shared, graph, &self.watched, Some(block), dims)?;
        Ok(Compiled::new(program))
    }

    /// Compiles a graph whose tensors are given by name.
    ///
    /// # Errors
    /// As [`Session::compile`].
    pub fn compile_graph(
        &self,
        graph: EinGraph,
        dims: BTreeMap<Arc<str>, i64>,
    ) -> Result<Program, Error> {
        Program::new(self.shared.clone(), graph, &self.watched, None, dims)
    }
}
