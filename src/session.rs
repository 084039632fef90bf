//! Sessions: a cluster, a cache folder and a worker pool, which programs are compiled for.

use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::sync::Arc;

use eindecomp_core::graph::{BoundGraph, EinGraph};
use eindecomp_core::pass::Pipeline;
use eindecomp_core::plan::planner::{Algorithm, Objective, PlanOptions, plan};
use eindecomp_core::plan::verify::verify;
use eindecomp_core::plan::{Cluster, Plan, Residency};
use eindecomp_runtime::{MemoryMode, Workers};

use crate::Error;
use crate::cache::{PlanCache, PlanOrigin};
use crate::model::{Dims, Model, ModelGraph};
use crate::program::{Compiled, Program};

/// What programs are compiled for. Cheap to clone.
#[derive(Clone)]
pub struct Session {
    shared: Arc<Shared>,
}

pub(crate) struct Shared {
    cluster: Cluster,
    options: PlanOptions,
    cache: PlanCache,
    pub(crate) workers: Arc<Workers>,
    pub(crate) memory: MemoryMode,
}

impl Shared {
    pub(crate) fn passes(&self, graph: BoundGraph) -> Result<BoundGraph, Error> {
        Ok(Pipeline::default().run(graph)?)
    }

    pub(crate) fn plan(&self, graph: &BoundGraph) -> Result<(Arc<Plan>, PlanOrigin), Error> {
        let make = || {
            let plan = plan(graph, &self.cluster, &self.options)?;
            verify(graph, &plan, &self.cluster)?;
            Ok(plan)
        };
        self.cache
            .get_or_plan(graph, &self.cluster, &self.options, make)
    }
}

/// Settings of a [`Session`].
#[derive(Clone, Debug)]
pub struct SessionBuilder {
    cluster: Cluster,
    options: PlanOptions,
    cache: CacheDir,
    workers: Option<usize>,
    memory: MemoryMode,
}

#[derive(Clone, Debug)]
enum CacheDir {
    /// `EINDECOMP_CACHE`, else the user's cache folder.
    Default,
    At(PathBuf),
    Off,
}

impl SessionBuilder {
    /// The devices. Default: one.
    pub fn cluster(mut self, cluster: Cluster) -> Self {
        self.cluster = cluster;
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

    /// Worker threads that all devices share. Default: the cores of this machine.
    pub fn workers(mut self, workers: usize) -> Self {
        self.workers = Some(workers);
        self
    }

    /// How devices of this machine hold their buffers. Default: shared.
    pub fn memory(mut self, memory: MemoryMode) -> Self {
        self.memory = memory;
        self
    }

    /// The folder of plans. Default: the environment variable `EINDECOMP_CACHE`, else
    /// `eindecomp` in the user's cache folder; without either, plans are kept in memory only.
    pub fn cache_dir(mut self, folder: impl Into<PathBuf>) -> Self {
        self.cache = CacheDir::At(folder.into());
        self
    }

    /// Neither reads nor writes plans on disk: they are kept in this process only.
    pub fn no_cache(mut self) -> Self {
        self.cache = CacheDir::Off;
        self
    }

    /// The session.
    ///
    /// # Errors
    /// The worker pool could not be started.
    pub fn build(self) -> Result<Session, Error> {
        let threads = self.workers.or_else(|| {
            std::thread::available_parallelism()
                .ok()
                .map(NonZeroUsize::get)
        });
        let cache = match self.cache {
            CacheDir::At(folder) => PlanCache::new(folder),
            CacheDir::Default => {
                default_cache_dir().map_or_else(PlanCache::in_memory, PlanCache::new)
            }
            CacheDir::Off => PlanCache::in_memory(),
        };
        let workers = Arc::new(Workers::new(threads.unwrap_or(1))?);
        let SessionBuilder {
            cluster,
            options,
            memory,
            ..
        } = self;
        Ok(Session {
            shared: Arc::new(Shared {
                cluster,
                options,
                cache,
                workers,
                memory,
            }),
        })
    }
}

/// `EINDECOMP_CACHE`, else `eindecomp` in the user's cache folder.
fn default_cache_dir() -> Option<PathBuf> {
    let var = |name| {
        std::env::var_os(name)
            .filter(|v| !v.is_empty())
            .map(PathBuf::from)
    };
    var("EINDECOMP_CACHE").or_else(|| {
        let base = var("XDG_CACHE_HOME")
            .or_else(|| var("LOCALAPPDATA"))
            .or_else(|| Some(var("HOME")?.join(".cache")));
        Some(base?.join("eindecomp"))
    })
}

impl Session {
    /// A session's settings, all at their defaults.
    pub fn builder() -> SessionBuilder {
        SessionBuilder {
            cluster: Cluster::cpus(1),
            options: PlanOptions::default(),
            cache: CacheDir::Default,
            workers: None,
            memory: MemoryMode::default(),
        }
    }

    /// Compiles a block at `dims`: plans it, or loads the plan from the cache.
    ///
    /// # Errors
    /// Mistakes in the graph; dims that do not fit it; a graph that cannot be planned, or whose
    /// plan needs more memory than the devices have.
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
        Ok(Compiled::new(
            self.compile_graph(model.into_graph()?, dims)?,
        ))
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
        Program::new(self.shared.clone(), graph, dims)
    }
}
