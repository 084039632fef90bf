//! Jobs: several processes, *ranks*, that run one program, each with devices of its own.
//!
//! Every rank does the same with the same programs, dims and inputs. Rank 0 alone looks for plans and makes
//! them. A rank that does something else than rank 0 ends the job, or, where a program is compiled, is refused
//! on every rank.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::num::NonZeroU32;
use std::sync::Arc;

use eindecomp_core::plan::cache::{Entry, EntryError, Key, encode, read};
use eindecomp_core::plan::verify::verify;
use eindecomp_core::plan::{Cluster, Plan};
use eindecomp_core::task::TaskGraph;
use eindecomp_runtime::transport::agree::{Action, Step, announce};
use eindecomp_runtime::transport::{Transport, tell, told};

use crate::Error;
use crate::cache::{Found, PlanOrigin, Task};
use crate::gpus::{self, GpuCluster};

/// What ranks cannot do together.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum JobError {
    /// Ranks with different programs, dims, settings or versions of this crate.
    #[error(
        "rank {rank} compiles another program than rank 0, or with other dims, settings or version: \
         hash {theirs:016x} against {ours:016x}"
    )]
    Differs {
        /// The first rank that does.
        rank: u32,
        /// Its hash.
        theirs: u64,
        /// That of rank 0.
        ours: u64,
    },
    /// Why rank 0 has no plan.
    #[error("rank 0: {0}")]
    Refused(String),
    /// An MPI launcher started a program that cannot talk to the others.
    #[error("an MPI launcher started this program, which was built without the feature `mpi`")]
    NotBuilt,
}

eindecomp_core::debug_is_text!(JobError);

/// The ranks of a job, and their devices as one cluster, for
/// [`SessionBuilder::cluster`](crate::SessionBuilder::cluster).
#[derive(Clone)]
pub struct Job {
    pub(crate) transport: Arc<dyn Transport>,
    pub(crate) cluster: Cluster,
    pub(crate) workers: Option<usize>,
}

impl std::fmt::Debug for Job {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Job")
            .field("rank", &self.rank())
            .field("ranks", &self.ranks())
            .field("cluster", &self.cluster)
            .finish()
    }
}

impl Job {
    /// Ranks over any transport; the devices of `cluster`, the same on every rank, are theirs in order, as
    /// many of each.
    pub fn new(transport: Arc<dyn Transport>, cluster: Cluster) -> Job {
        Job {
            transport,
            cluster,
            workers: None,
        }
    }

    /// This process, from 0.
    pub fn rank(&self) -> u32 {
        self.transport.rank()
    }

    /// How many there are.
    pub fn ranks(&self) -> u32 {
        self.transport.ranks()
    }

    /// The devices of all ranks.
    pub fn cluster(&self) -> &Cluster {
        &self.cluster
    }

    /// So many times as many devices per rank. Default: one.
    pub fn devices_per_rank(mut self, devices: NonZeroU32) -> Job {
        let server = &mut self.cluster.server;
        server.devices = server.devices.saturating_mul(devices.get());
        self
    }

    /// Tells rank 0 what comes next, and waits for nobody: what differs ends the job.
    pub(crate) fn begin(&self, action: Action, what: &impl Hash) {
        let hash = hash(what);
        announce(&self.transport, Step { action, hash });
    }

    /// Do all ranks compile the same?
    ///
    /// # Errors
    /// [`JobError::Differs`] on every rank, if not.
    pub(crate) fn compiles(&self, what: &impl Hash) -> Result<(), Error> {
        let (transport, ours) = (&*self.transport, hash(what));
        let step = Step {
            action: Action::Compile,
            hash: ours,
        };
        let others = announce(&self.transport, step).wait();
        let verdict = if self.rank() > 0 {
            told(transport, "whether all ranks compile the same").map_err(JobError::Refused)?
        } else {
            let verdict = others.into_iter().min_by_key(|other| other.0);
            let numbers = verdict.map(|(rank, other)| [u64::from(rank), other.hash, ours]);
            let verdict: Vec<u8> = numbers
                .iter()
                .flatten()
                .flat_map(|n| n.to_le_bytes())
                .collect();
            tell(transport, Ok(&verdict));
            verdict
        };
        let (numbers, _) = verdict.as_chunks();
        match numbers {
            [rank, theirs, ours] => Err(Error::Job(JobError::Differs {
                rank: u64::from_le_bytes(*rank) as u32,
                theirs: u64::from_le_bytes(*theirs),
                ours: u64::from_le_bytes(*ours),
            })),
            _ => Ok(()),
        }
    }

    /// The plan that rank 0 finds, on every rank; the others check that it is one of their own graph.
    ///
    /// # Errors
    /// Those of `find`, on every rank.
    pub(crate) fn plan(
        &self,
        task: Task<'_>,
        find: impl FnOnce() -> Result<Found, Error>,
    ) -> Result<Found, Error> {
        let transport = &*self.transport;
        let key = Key::new(task.graph, task.cluster, task.options).written();
        if self.rank() == 0 {
            let found = find();
            match &found {
                Ok(found) => {
                    let entry = encode(&key, task.subject, &found.plan);
                    tell(transport, Ok(entry.as_bytes()));
                }
                Err(error) => tell(transport, Err(&error.to_string())),
            }
            return found;
        }
        let text = told(transport, "the plan").map_err(JobError::Refused)?;
        let open = |text: &[u8]| -> Result<(Plan, TaskGraph), EntryError> {
            let Entry {
                key: sent, plan, ..
            } = read(text)?;
            if sent.hash() != key.hash() {
                return Err(EntryError::Key(sent.hash().into()));
            }
            let tasks = verify(task.graph, &plan, task.cluster)?;
            Ok((plan, tasks))
        };
        match open(&text) {
            Ok((plan, tasks)) => Ok(Found {
                plan: Arc::new(plan),
                tasks: Some(tasks),
                origin: PlanOrigin::Rank0,
                warnings: Vec::new(),
            }),
            Err(error) => transport.abort(&format!("the plan of rank 0: {error}")),
        }
    }
}

fn hash(what: &impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    what.hash(&mut hasher);
    hasher.finish()
}

/// What programs are compiled for: the devices of this process, or those of a job.
#[derive(Clone, Debug)]
pub struct Devices(pub(crate) Kind);

#[derive(Clone, Debug)]
pub(crate) enum Kind {
    Given(Box<Cluster>),
    /// So many on this machine.
    Here(u32),
    Job(Box<Job>),
    Gpus(Box<GpuCluster>),
}

impl From<Cluster> for Devices {
    fn from(cluster: Cluster) -> Devices {
        Devices(Kind::Given(Box::new(cluster)))
    }
}

impl From<GpuCluster> for Devices {
    fn from(gpus: GpuCluster) -> Devices {
        Devices(Kind::Gpus(Box::new(gpus)))
    }
}

impl From<Job> for Devices {
    fn from(job: Job) -> Devices {
        Devices(Kind::Job(Box::new(job)))
    }
}

/// Clusters that follow from the machine, and from how the program was started: `Cluster::gpus()?`,
/// `Cluster::mpi()?`, `Cluster::auto()?`.
pub trait Launched {
    /// The ranks of the MPI job that this process is one of, with one device each. A server of the cluster is
    /// a machine of the job, if all have as many ranks, with the figures that rank 0's folder of plans has of
    /// it ([`machine`](crate::machine)). Without a launcher the job is this process alone.
    ///
    /// # Errors
    /// MPI that cannot be started; figures that cannot be read.
    #[cfg(feature = "mpi")]
    fn mpi() -> Result<Job, Error>;

    /// The GPUs of this machine, each a device, with their memory, rates and links, which are measured now. Kernels are
    /// compiled for them when programs are, and kept beside the plans.
    ///
    /// # Errors
    /// [`Error::Gpus`]: what is missing (the driver, a library, a version, a device), or that this build is without the
    /// feature `cuda`.
    fn gpus() -> Result<GpuCluster, Error>;

    /// `devices` virtual devices, at least 1, on the first GPU, each with its part of the memory. A test instrument:
    /// plans for several GPUs, and what they move, run on one.
    ///
    /// # Errors
    /// As [`Launched::gpus`].
    fn gpu_virtual(devices: u32) -> Result<GpuCluster, Error>;

    /// The job, if an MPI launcher started this process; else the GPUs of this machine, if it has any that can be used;
    /// else one device with all its cores.
    ///
    /// # Errors
    /// Those of `Cluster::mpi`; [`JobError::NotBuilt`]; a GPU that fails while it is measured.
    fn auto() -> Result<Devices, Error>;
}

impl Launched for Cluster {
    #[cfg(feature = "mpi")]
    fn mpi() -> Result<Job, Error> {
        crate::mpi::job()
    }

    fn gpus() -> Result<GpuCluster, Error> {
        gpus::found(None)
    }

    fn gpu_virtual(devices: u32) -> Result<GpuCluster, Error> {
        gpus::found(Some(devices.max(1)))
    }

    fn auto() -> Result<Devices, Error> {
        if !launched() {
            return match Cluster::gpus() {
                Ok(gpus) => Ok(gpus.into()),
                Err(Error::Gpus(missing)) if missing.is_absence() => {
                    tracing::debug!(%missing, "no GPU");
                    Ok(Devices(Kind::Here(1)))
                }
                Err(error) => Err(error),
            };
        }
        #[cfg(feature = "mpi")]
        return Ok(Cluster::mpi()?.into());
        #[cfg(not(feature = "mpi"))]
        return Err(JobError::NotBuilt.into());
    }
}

/// Did `mpirun`, `mpiexec` or `srun --mpi` start this process? They tell each rank its number.
fn launched() -> bool {
    let names = ["OMPI_COMM_WORLD_RANK", "PMI_RANK", "PMIX_RANK"];
    names.iter().any(|name| std::env::var_os(name).is_some())
}
