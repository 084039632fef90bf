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
type Plans = HashMap<(Option<PathBuf>, String), Slot>;

/// Plans of this process, by folder and key hash.
static PLANS: LazyLock<Mutex<Plans>> = LazyLock::new(Mutex::default);

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
            self.write(&key, &hash, &plan);
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

    fn write(&self, key: &Key, hash: &str, plan: &Plan) {
        let Some(folder) = &self.folder else { return };
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
    let now = SystemTime::now();
    // numbers of processes repeat, on other machines and later
    let nanos = now
        .duration_since(SystemTime::UNIX_EPOCH)
        .map_or(0, |d| d.as_nanos());
    let (process, count) = (std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
    remove_stale(folder, now);
    let temporary = folder.join(format!(".{hash}.{process}.{nanos}.{count}.tmp"));
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
    let Ok(files) = fs::read_dir(folder) else {
        return;
    };
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

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::sync::atomic::AtomicUsize;

    use eindecomp_core::graph::EinGraph;
    use eindecomp_core::plan::plan;
    use tempfile::tempdir;

    use super::*;
    use crate::seen::seen;

    fn graph() -> BoundGraph {
        let text = r#"eingraph {
            %0 "x" = input f32[8, 4]
            %1 "w" = weight f32[4, 6]
            %2 "y" = sum[j=4; f32] %0[i, j] * %1[j, k] -> f32[i=8, k=6]
            output "y" = %2
        }"#;
        EinGraph::parse(text)
            .unwrap()
            .bind(&BTreeMap::new())
            .unwrap()
    }

    fn get(cache: &PlanCache) -> (Arc<Plan>, PlanOrigin) {
        let (graph, cluster, options) = (graph(), Cluster::cpus(4), PlanOptions::default());
        let make = || plan(&graph, &cluster, &options);
        cache.get_or_plan(&graph, &cluster, &options, make).unwrap()
    }

    fn path(folder: &Path) -> PathBuf {
        let key = Key::new(&graph(), &Cluster::cpus(4), &PlanOptions::default());
        entry(folder, &key.hash())
    }

    /// The messages of events while `f` runs.
    fn events<T>(f: impl FnOnce() -> T) -> (T, Vec<String>) {
        let (result, seen) = seen(f);
        let seen = seen.into_iter().map(|(_, text)| text);
        let messages = seen.filter(|text| text.starts_with("plan cache")).collect();
        (result, messages)
    }

    #[test]
    fn a_plan_is_made_once_and_read_by_the_next_process() {
        let (first, second) = (tempdir().unwrap(), tempdir().unwrap());
        let cache = PlanCache::new(first.path());
        let ((planned, origin), messages) = events(|| get(&cache));
        assert_eq!(origin, PlanOrigin::Planned);
        assert_eq!(messages, ["plan cache miss"]);
        let ((_, origin), messages) = events(|| get(&cache));
        assert_eq!(origin, PlanOrigin::Memory);
        assert_eq!(messages, ["plan cache hit"]);
        // a folder that this process has not seen is as good as another process
        fs::copy(path(first.path()), path(second.path())).unwrap();
        let ((read, origin), messages) = events(|| get(&PlanCache::new(second.path())));
        assert_eq!((origin, &read), (PlanOrigin::Disk, &planned));
        assert_eq!(messages, ["plan cache hit"]);
        assert_eq!(fs::read_dir(first.path()).unwrap().count(), 1);
    }

    #[test]
    fn garbage_is_reported_and_planned_again() {
        let folder = tempdir().unwrap();
        fs::write(path(folder.path()), "garbage").unwrap();
        fs::write(folder.path().join("README"), "not ours").unwrap();
        let ((plan, origin), messages) = events(|| get(&PlanCache::new(folder.path())));
        assert_eq!(origin, PlanOrigin::Planned);
        assert_eq!(messages, ["plan cache entry left out", "plan cache miss"]);
        // the new entry took its place
        let other = tempdir().unwrap();
        fs::copy(path(folder.path()), path(other.path())).unwrap();
        assert_eq!(get(&PlanCache::new(other.path())), (plan, PlanOrigin::Disk));
        assert!(folder.path().join("README").exists());
    }

    #[test]
    fn a_folder_that_cannot_be_used_costs_a_warning() {
        let folder = tempdir().unwrap();
        let file = folder.path().join("file");
        fs::write(&file, "").unwrap();
        for folder in [file.clone(), file.join("below")] {
            let ((_, origin), messages) = events(|| get(&PlanCache::new(folder)));
            assert_eq!(origin, PlanOrigin::Planned);
            assert_eq!(messages.last().unwrap(), "plan cache folder not written");
        }
        // a folder where the entry should be
        fs::create_dir(path(folder.path())).unwrap();
        let ((_, origin), messages) = events(|| get(&PlanCache::new(folder.path())));
        assert_eq!(origin, PlanOrigin::Planned);
        let expected = [
            "plan cache entry left out",
            "plan cache miss",
            "plan cache folder not written",
        ];
        assert_eq!(messages, expected);
        // no temporary stays behind
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 2);
    }

    #[test]
    fn concurrent_calls_plan_once() {
        let folder = tempdir().unwrap();
        let cache = PlanCache::new(folder.path());
        let made = AtomicUsize::new(0);
        let (graph, cluster, options) = (graph(), Cluster::cpus(3), PlanOptions::default());
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    let make = || {
                        made.fetch_add(1, Ordering::Relaxed);
                        plan(&graph, &cluster, &options)
                    };
                    cache.get_or_plan(&graph, &cluster, &options, make).unwrap();
                });
            }
        });
        assert_eq!(made.into_inner(), 1);
    }

    #[test]
    fn only_old_temporaries_are_removed() {
        let folder = tempdir().unwrap();
        let file = |name: &str, age: u64| {
            let path = folder.path().join(name);
            let file = File::create(&path).unwrap();
            file.set_modified(SystemTime::now() - Duration::from_secs(age))
                .unwrap();
            path
        };
        let hash = "0".repeat(64);
        let old = file(&format!(".{hash}.1.2.3.tmp"), 4000);
        let kept = [
            file(&format!(".{hash}.1.2.4.tmp"), 3000),
            file(&format!("{hash}.json"), 4000),
            file(".other.tmp", 4000),
        ];
        get(&PlanCache::new(folder.path()));
        assert!(!old.exists());
        assert!(kept.iter().all(|path| path.exists()));
    }
}
