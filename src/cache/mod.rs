//! Where plans come from: this process, the binary, a folder, the planner, in this order.
//!
//! Nothing about the folder is an error in mode `auto`: a file that cannot be read or is no valid
//! entry is reported once, left where it is, and the plan is made again; a folder that cannot be
//! written is reported, and the plan is kept in memory, as is one that was stopped at a limit of time. Entries are written to a temporary file
//! beside them, synced, and renamed, so that readers see whole entries only.

mod embedded;
pub(crate) mod folder;
mod miss;
mod mode;

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, LazyLock, Mutex, PoisonError};
use std::time::Duration;

use eindecomp_core::graph::BoundGraph;
use eindecomp_core::plan::cache::{Key, Subject, WrittenKey, decode, encode};
use eindecomp_core::plan::{Cluster, Plan, PlanOptions};
use eindecomp_core::task::TaskGraph;
use once_cell::sync::OnceCell;

pub use embedded::EmbeddedPlans;
pub use miss::{Nearest, PlanMiss};
pub use mode::{CacheMode, UnknownMode};

use crate::Error;
use folder::ReadError;

/// Plans that a process keeps; beyond, those that no program uses are dropped.
const KEPT: usize = 1024;
/// Entries of a folder that a miss is compared with.
const COMPARED: usize = 256;

/// Where a plan came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PlanOrigin {
    /// It was made now.
    Planned,
    /// This process had it.
    Memory,
    /// The binary carries it.
    Embedded,
    /// It was read from the folder.
    Disk,
    /// Rank 0 of the job had it or made it.
    Rank0,
}

impl std::fmt::Display for PlanOrigin {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            PlanOrigin::Planned => "planned",
            PlanOrigin::Memory => "from memory",
            PlanOrigin::Embedded => "from the binary",
            PlanOrigin::Disk => "from the plan cache",
            PlanOrigin::Rank0 => "from rank 0",
        })
    }
}

type Slot = Arc<OnceCell<Arc<Plan>>>;

/// Plans of this process, by where their session looks, how long it plans, and key hash.
static PLANS: LazyLock<Mutex<HashMap<SlotKey, Slot>>> = LazyLock::new(Mutex::default);

type SlotKey = (PlanCache, Option<Duration>, String);

/// What is planned, and how.
#[derive(Clone, Copy)]
pub(crate) struct Task<'a> {
    pub graph: &'a BoundGraph,
    pub cluster: &'a Cluster,
    pub options: &'a PlanOptions,
    /// What the plan is for.
    pub subject: &'a Subject,
    /// How long planning may take.
    pub limit: Option<Duration>,
    /// Is it to be shown, on terminals, that it lasts?
    #[cfg_attr(
        not(feature = "planner"),
        expect(dead_code, reason = "planning is shown")
    )]
    pub shown: bool,
}

/// A plan with its tasks: the memory rule of plans is checked on them.
pub(crate) type Lowered = (Plan, TaskGraph);

/// How plans are made: `None` in a build without the planner.
pub(crate) type Planner = Option<fn(Task<'_>) -> Result<Lowered, Error>>;

/// What a look-up gives.
pub(crate) struct Found {
    pub plan: Arc<Plan>,
    /// The plan's tasks, unless this process had the plan already.
    pub tasks: Option<TaskGraph>,
    pub origin: PlanOrigin,
    /// What was amiss, and cost no more than planning.
    pub warnings: Vec<String>,
}

/// Where a session looks for plans.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct PlanCache {
    pub mode: CacheMode,
    pub embedded: EmbeddedPlans,
    /// Made when the first plan is written.
    pub folder: Option<PathBuf>,
}

impl PlanCache {
    /// The plan of a task: kept, carried, read, or made. Concurrent calls for one key make it once.
    ///
    /// # Errors
    /// Those of the planner; a miss where nothing is planned ([`CacheMode`]); an entry that cannot
    /// be written in mode `record`; a plan that is made otherwise in mode `verify`; in both, planning that a
    /// limit ended.
    pub(crate) fn get(&self, task: Task<'_>, planner: Planner) -> Result<Found, Error> {
        let key = Key::new(task.graph, task.cluster, task.options).written();
        let hash = key.hash();
        let (mut origin, mut tasks, mut warnings) = (PlanOrigin::Memory, None, Vec::new());
        let look_up = || LookUp {
            cache: self,
            task,
            key: &key,
            hash,
            warnings: Vec::new(),
        };
        let plan = self
            .slot(task.limit, hash)
            .get_or_try_init(|| {
                let mut look_up = look_up();
                let ((plan, lowered), from) = look_up.plan(planner)?;
                (origin, tasks, warnings) = (from, Some(lowered), look_up.warnings);
                Ok::<_, Error>(Arc::new(plan))
            })?
            .clone();
        if origin == PlanOrigin::Memory && self.mode == CacheMode::Record {
            look_up().record_again(&plan)?;
        }
        if origin != PlanOrigin::Planned {
            tracing::info!(key = %hash, %origin, "plan cache hit");
        }
        Ok(Found {
            plan,
            tasks,
            origin,
            warnings,
        })
    }

    fn slot(&self, limit: Option<Duration>, hash: &str) -> Slot {
        let mut plans = PLANS.lock().unwrap_or_else(PoisonError::into_inner);
        if plans.len() >= KEPT {
            let in_use = |plan: &Arc<Plan>| Arc::strong_count(plan) > 1;
            plans.retain(|_, slot| Arc::strong_count(slot) > 1 || slot.get().is_some_and(in_use));
        }
        plans
            .entry((self.clone(), limit, hash.into()))
            .or_default()
            .clone()
    }
}

/// One look-up, outside of what the process keeps.
struct LookUp<'a> {
    cache: &'a PlanCache,
    task: Task<'a>,
    key: &'a WrittenKey,
    hash: &'a str,
    /// What was amiss so far.
    warnings: Vec<String>,
}

impl LookUp<'_> {
    fn plan(&mut self, planner: Planner) -> Result<(Lowered, PlanOrigin), Error> {
        let mode = self.cache.mode;
        match (mode, self.find(), planner) {
            (CacheMode::Verify, Some((found, origin)), Some(make)) => {
                let made = make(self.task)?;
                self.whole(&made.0)?;
                self.compare(&found.0, &made.0)?;
                Ok((found, origin))
            }
            (_, Some(found), _) => Ok(found),
            (CacheMode::Auto | CacheMode::Record | CacheMode::Off, None, Some(make)) => {
                tracing::info!(key = %self.hash, "plan cache miss");
                let made = make(self.task)?;
                self.write(&made.0)?;
                Ok((made, PlanOrigin::Planned))
            }
            (_, None, _) => Err(Error::PlanMiss(Box::new(self.miss()))),
        }
    }

    /// The plan that is carried or stored.
    fn find(&mut self) -> Option<(Lowered, PlanOrigin)> {
        let PlanCache {
            mode,
            embedded,
            folder,
        } = self.cache;
        if *mode != CacheMode::Off
            && *mode != CacheMode::Record
            && let Some(text) = embedded.get(self.hash)
        {
            match self.decode(text) {
                Ok(plan) => return Some((plan, PlanOrigin::Embedded)),
                Err(error) => {
                    tracing::warn!(key = %self.hash, %error, "plan cache: embedded entry left out");
                    let hash = self.hash;
                    let warning = format!("entry {hash} of the binary is left out: {error}");
                    self.warnings.push(warning);
                }
            }
        }
        if *mode != CacheMode::Off
            && let Some(folder) = folder
        {
            let path = folder::entry(folder, self.hash);
            let read = folder::bytes(&path).and_then(|text| match text {
                Some(text) => Ok(Some(self.decode(&text)?)),
                None => Ok(None),
            });
            match read {
                Ok(Some(plan)) => return Some((plan, PlanOrigin::Disk)),
                Ok(None) => {}
                Err(error) => {
                    let path = path.display();
                    tracing::warn!(key = %self.hash, %path, %error, "plan cache entry left out");
                    self.warnings.push(match error {
                        ReadError::Io(error) => format!("{path} cannot be read: {error}"),
                        error => format!("entry {path} is left out: {error}"),
                    });
                }
            }
        }
        None
    }

    fn decode(&self, text: &[u8]) -> Result<Lowered, ReadError> {
        Ok(decode(text, self.key, self.task.graph, self.task.cluster)?)
    }

    fn write(&mut self, plan: &Plan) -> Result<(), Error> {
        let folder = match (self.cache.mode, &self.cache.folder) {
            (CacheMode::Frozen | CacheMode::Verify | CacheMode::Off, _) => return Ok(()),
            (CacheMode::Auto | CacheMode::Record, Some(folder)) => folder,
            (CacheMode::Auto | CacheMode::Record, None) => {
                tracing::warn!(key = %self.hash, "plan not kept: there is no folder for plans");
                let warning =
                    "the plan is not kept: neither EINDECOMP_CACHE nor HOME names a folder";
                self.warnings.push(warning.into());
                return Ok(());
            }
        };
        // an entry is what the planner makes of its key, however long it takes
        if plan.certificate.stopped {
            tracing::warn!(key = %self.hash, "plan not kept: planning was stopped at its limit");
            self.warnings
                .push("the plan is not kept: planning was stopped at its limit".into());
            return match self.cache.mode {
                CacheMode::Record => self.whole(plan),
                _ => Ok(()),
            };
        }
        let entry = encode(self.key, self.task.subject, plan);
        let mut written = folder::store(folder, self.hash, entry.as_bytes());
        if self.cache.mode == CacheMode::Record {
            // what is recorded is committed
            written = written.and_then(|()| folder::keep_lines(folder));
        }
        match (written, self.cache.mode) {
            (Ok(()), _) => Ok(()),
            (Err(source), CacheMode::Record) => Err(Error::PlanNotWritten {
                folder: folder.clone(),
                source,
            }),
            (Err(error), _) => {
                let folder = folder.display();
                tracing::warn!(key = %self.hash, %folder, %error, "plan cache folder not written");
                let warning = format!("the plan is not kept: folder {folder}: {error}");
                self.warnings.push(warning);
                Ok(())
            }
        }
    }

    /// A plan of this process is recorded also where the folder has gone since.
    fn record_again(&mut self, plan: &Plan) -> Result<(), Error> {
        let folder = self.cache.folder.as_ref();
        match folder.is_some_and(|folder| !folder::entry(folder, self.hash).exists()) {
            true => self.write(plan),
            false => Ok(()),
        }
    }

    fn whole(&self, plan: &Plan) -> Result<(), Error> {
        match plan.certificate.stopped {
            true => Err(Error::PlanStopped {
                key: self.hash.into(),
            }),
            false => Ok(()),
        }
    }

    fn compare(&self, stored: &Plan, made: &Plan) -> Result<(), Error> {
        if stored == made {
            return Ok(());
        }
        Err(Error::PlanDiffers {
            subject: Box::new(self.task.subject.clone()),
            key: self.hash.into(),
            stored: stored.moved_bytes,
            made: made.moved_bytes,
        })
    }

    fn miss(&self) -> PlanMiss {
        let PlanCache {
            mode,
            embedded,
            folder,
        } = self.cache;
        let carried = embedded
            .iter()
            .map(|(hash, text)| (hash.into(), text.into()));
        let stored = folder
            .iter()
            .flat_map(|f| folder::entries(f).unwrap_or_default());
        let stored = stored.take(COMPARED).filter_map(|path| {
            let hash = path.file_stem()?.to_str()?.into();
            Some((hash, folder::bytes(&path).ok()??))
        });
        let mut looked_in: Vec<String> = embedded.place().into_iter().collect();
        looked_in.extend(folder.iter().map(|f| match f.exists() {
            true => f.display().to_string(),
            false => format!("{}, which is not there", f.display()),
        }));
        PlanMiss {
            subject: self.task.subject.clone(),
            run: None,
            key: self.hash.into(),
            mode: *mode,
            looked_in,
            left_out: self.warnings.clone(),
            nearest: miss::nearest(self.key, self.task.subject, carried.chain(stored)),
        }
    }
}

#[cfg(test)]
mod tests;
