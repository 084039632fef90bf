//! The folder of plans, and the plans of this process.
//!
//! Look-up order: this process, the folder, the planner. Nothing about the folder is an error: a
//! file that cannot be read or is no valid entry is reported once, left where it is, and the plan
//! is made again; a folder that cannot be written is reported, and the plan is kept in memory.
//! Entries are written to a temporary file beside them, synced, and renamed, so that readers see
//! whole entries only.

use std::collections::HashMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use eindecomp_core::graph::BoundGraph;
use eindecomp_core::plan::cache::{EntryError, Key, MAX_BYTES, decode, encode};
use eindecomp_core::plan::verify::verify;
use eindecomp_core::plan::{Cluster, Plan, PlanOptions};
use once_cell::sync::OnceCell;

/// Temporaries of this age were left by a process that died.
const STALE: Duration = Duration::from_secs(3600);

/// Where a plan came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PlanOrigin {
    /// It was made now.
    Planned,
    /// This process had it.
    Memory,
    /// It was read from the folder.
    Disk,
}

impl std::fmt::Display for PlanOrigin {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            PlanOrigin::Planned => "planned",
            PlanOrigin::Memory => "from memory",
            PlanOrigin::Disk => "from the plan cache",
        })
    }
}

type Slot = Arc<OnceCell<Arc<Plan>>>;

/// Plans of this process, by folder and key hash.
static PLANS: LazyLock<Mutex<HashMap<(Option<PathBuf>, String), Slot>>> =
    LazyLock::new(Mutex::default);

/// A folder of plans, or this process' memory alone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PlanCache {
    folder: Option<PathBuf>,
}

impl PlanCache {
    /// Plans in `folder`, which is made when the first one is written.
    pub(crate) fn new(folder: impl Into<PathBuf>) -> PlanCache {
        PlanCache {
            folder: Some(folder.into()),
        }
    }

    /// Plans that end with this process.
    pub(crate) fn in_memory() -> PlanCache {
        PlanCache { folder: None }
    }

    /// The plan of a key: kept, read, or made by `make`. Concurrent calls for one key make it once.
    ///
    /// # Errors
    /// Those of `make`.
    pub(crate) fn get_or_plan<E>(
        &self,
        graph: &BoundGraph,
        cluster: &Cluster,
        options: &PlanOptions,
        make: impl FnOnce() -> Result<Plan, E>,
    ) -> Result<(Arc<Plan>, PlanOrigin), E> {
        let key = Key::new(graph, cluster, options);
        let hash = key.hash();
        let slot = {
            let mut plans = PLANS.lock().unwrap_or_else(PoisonError::into_inner);
            let place = (self.folder.clone(), hash.clone());
            plans.entry(place).or_default().clone()
        };
        let mut origin = PlanOrigin::Memory;
        let plan = slot.get_or_try_init(|| {
            if let Some(plan) = self.read(&key, &hash, graph, cluster) {
                origin = PlanOrigin::Disk;
                return Ok(Arc::new(plan));
            }
            tracing::info!(key = %hash, "plan cache miss");
            origin = PlanOrigin::Planned;
            let plan = make()?;
            self.write(&key, &hash, graph, cluster, &plan);
            Ok(Arc::new(plan))
        })?;
        if origin != PlanOrigin::Planned {
            tracing::info!(key = %hash, %origin, "plan cache hit");
        }
        Ok((plan.clone(), origin))
    }

    fn read(&self, key: &Key, hash: &str, graph: &BoundGraph, cluster: &Cluster) -> Option<Plan> {
        let path = entry(self.folder.as_deref()?, hash);
        let plan = bytes(&path).and_then(|text| match text {
            Some(text) => Ok(Some(decode(&text, key, graph, cluster)?)),
            None => Ok(None),
        });
        plan.unwrap_or_else(|error| {
            let path = path.display();
            tracing::warn!(key = %hash, %path, %error, "plan cache entry left out");
            None
        })
    }

    fn write(&self, key: &Key, hash: &str, graph: &BoundGraph, cluster: &Cluster, plan: &Plan) {
        let Some(folder) = &self.folder else { return };
        if let Err(error) = verify(graph, plan, cluster) {
            tracing::warn!(key = %hash, %error, "plan not kept");
            return;
        }
        if let Err(error) = store(folder, hash, encode(key, plan).as_bytes()) {
            let folder = folder.display();
            tracing::warn!(key = %hash, %folder, %error, "plan cache folder not written");
        }
    }
}

/// Why a file of the folder was left out.
#[derive(Debug, thiserror::Error)]
enum ReadError {
    #[error(transparent)]
    Io(#[from] io::Error),
    #[error("it is not a regular file")]
    Kind,
    #[error("it has more than {MAX_BYTES} bytes")]
    Size,
    #[error(transparent)]
    Entry(#[from] EntryError),
}

fn entry(folder: &Path, hash: &str) -> PathBuf {
    folder.join(format!("{hash}.json"))
}

/// A file's content; `None` if there is no such file.
fn bytes(path: &Path) -> Result<Option<Vec<u8>>, ReadError> {
    // before opening: opening a pipe waits for its writer
    let meta = match fs::metadata(path) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
        meta => meta?,
    };
    if !meta.is_file() {
        return Err(ReadError::Kind);
    }
    if meta.len() > MAX_BYTES {
        return Err(ReadError::Size);
    }
    let mut text = Vec::new();
    File::open(path)?.take(MAX_BYTES).read_to_end(&mut text)?;
    Ok(Some(text))
}

/// Writes an entry whole or not at all.
fn store(folder: &Path, hash: &str, text: &[u8]) -> io::Result<()> {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    fs::create_dir_all(folder)?;
    remove_stale(folder, SystemTime::now());
    let unique = NEXT.fetch_add(1, Ordering::Relaxed);
    let temporary = folder.join(format!(".{hash}.{}.{unique}.tmp", std::process::id()));
    let written = OpenOptions::new()
        .write(true)
        .create_new(true)
        .open(&temporary)
        .and_then(|mut file| {
            file.write_all(text)?;
            file.sync_all()
        })
        .and_then(|()| fs::rename(&temporary, entry(folder, hash)));
    if written.is_err() {
        let _ = fs::remove_file(&temporary);
    }
    written?;
    // the rename itself survives a crash once the folder is synced, where folders can be
    if let Ok(folder) = File::open(folder) {
        let _ = folder.sync_all();
    }
    Ok(())
}

/// Removes temporaries that nobody will rename any more.
fn remove_stale(folder: &Path, now: SystemTime) {
    let Ok(files) = fs::read_dir(folder) else { return };
    for file in files.flatten() {
        let name = file.file_name();
        let temporary = name.to_str().is_some_and(is_temporary);
        let age = file.metadata().and_then(|m| m.modified()).ok();
        let age = age.and_then(|then| now.duration_since(then).ok());
        if temporary && age.is_some_and(|age| age > STALE) {
            let _ = fs::remove_file(file.path());
        }
    }
}

/// `.` + 64 hexadecimal digits + `.` … `.tmp`: nothing else in the folder is ever removed.
fn is_temporary(name: &str) -> bool {
    let hash = name.strip_prefix('.').and_then(|n| n.strip_suffix(".tmp"));
    let hash = hash.and_then(|n| n.split_once('.')).map(|n| n.0);
    hash.is_some_and(|h| h.len() == 64 && h.bytes().all(|b| b.is_ascii_hexdigit()))
}
