use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, SystemTime};

use eindecomp_core::graph::EinGraph;
use eindecomp_core::plan::plan;
use eindecomp_core::task::lower;
use tempfile::tempdir;

use super::*;
use crate::planner::PLANNER;
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

fn subject() -> Subject {
    Subject::new(
        Some("tests::product"),
        graph().graph(),
        [],
        &Cluster::cpus(4),
    )
}

fn at(folder: impl Into<PathBuf>, mode: CacheMode) -> PlanCache {
    PlanCache {
        mode,
        embedded: EmbeddedPlans::default(),
        folder: Some(folder.into()),
    }
}

fn auto(folder: impl Into<PathBuf>) -> PlanCache {
    at(folder, CacheMode::Auto)
}

fn try_get(cache: &PlanCache, devices: u32) -> Result<(Arc<Plan>, PlanOrigin), Error> {
    let task = Task {
        graph: &graph(),
        cluster: &Cluster::cpus(devices),
        options: &PlanOptions::default(),
        subject: &subject(),
        limit: None,
        shown: false,
    };
    let found = cache.get(task, PLANNER)?;
    Ok((found.plan, found.origin))
}

fn get(cache: &PlanCache) -> (Arc<Plan>, PlanOrigin) {
    try_get(cache, 4).unwrap()
}

fn path(folder: &Path) -> PathBuf {
    let key = Key::new(&graph(), &Cluster::cpus(4), &PlanOptions::default());
    folder::entry(folder, key.written().hash())
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
    let cache = auto(first.path());
    let ((planned, origin), messages) = events(|| get(&cache));
    assert_eq!(origin, PlanOrigin::Planned);
    assert_eq!(messages, ["plan cache miss"]);
    let ((_, origin), messages) = events(|| get(&cache));
    assert_eq!(origin, PlanOrigin::Memory);
    assert_eq!(messages, ["plan cache hit"]);
    // a folder that this process has not seen is as good as another process
    fs::copy(path(first.path()), path(second.path())).unwrap();
    let ((read, origin), messages) = events(|| get(&auto(second.path())));
    assert_eq!((origin, &read), (PlanOrigin::Disk, &planned));
    assert_eq!(messages, ["plan cache hit"]);
    assert_eq!(fs::read_dir(first.path()).unwrap().count(), 1);
}

#[test]
fn garbage_is_reported_and_planned_again() {
    let folder = tempdir().unwrap();
    fs::write(path(folder.path()), "garbage").unwrap();
    fs::write(folder.path().join("README"), "not ours").unwrap();
    let ((plan, origin), messages) = events(|| get(&auto(folder.path())));
    assert_eq!(origin, PlanOrigin::Planned);
    assert_eq!(messages, ["plan cache entry left out", "plan cache miss"]);
    // the new entry took its place
    let other = tempdir().unwrap();
    fs::copy(path(folder.path()), path(other.path())).unwrap();
    assert_eq!(get(&auto(other.path())), (plan, PlanOrigin::Disk));
    assert!(folder.path().join("README").exists());
}

#[test]
fn a_folder_that_cannot_be_used_costs_a_warning() {
    let folder = tempdir().unwrap();
    let file = folder.path().join("file");
    fs::write(&file, "").unwrap();
    for folder in [file.clone(), file.join("below")] {
        let ((_, origin), messages) = events(|| get(&auto(folder)));
        assert_eq!(origin, PlanOrigin::Planned);
        assert_eq!(messages.last().unwrap(), "plan cache folder not written");
    }
    // a folder where the entry should be
    fs::create_dir(path(folder.path())).unwrap();
    let ((_, origin), messages) = events(|| get(&auto(folder.path())));
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
    static MADE: AtomicUsize = AtomicUsize::new(0);
    let folder = tempdir().unwrap();
    let cache = auto(folder.path());
    let (graph, cluster, options) = (graph(), Cluster::cpus(3), PlanOptions::default());
    let task = Task {
        graph: &graph,
        cluster: &cluster,
        options: &options,
        subject: &subject(),
        limit: None,
        shown: false,
    };
    let make = |task: Task<'_>| {
        MADE.fetch_add(1, Ordering::Relaxed);
        let plan = plan(task.graph, task.cluster, task.options)?;
        let tasks = lower(task.graph, &plan)?;
        Ok((plan, tasks))
    };
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| cache.get(task, Some(make)).unwrap());
        }
    });
    assert_eq!(MADE.load(Ordering::Relaxed), 1);
}

#[test]
fn a_plan_that_was_stopped_is_kept_in_memory_only() {
    let folder = tempdir().unwrap();
    let (graph, cluster, options) = (graph(), Cluster::cpus(4), PlanOptions::default());
    let subject = subject();
    let task = |limit| Task {
        graph: &graph,
        cluster: &cluster,
        options: &options,
        subject: &subject,
        limit,
        shown: false,
    };
    let get = |mode, limit| at(folder.path(), mode).get(task(limit), PLANNER);
    let none = Some(Duration::ZERO);
    let found = get(CacheMode::Auto, none).unwrap();
    assert!(found.plan.certificate.stopped);
    assert_eq!(found.origin, PlanOrigin::Planned);
    assert_eq!(
        get(CacheMode::Auto, none).unwrap().origin,
        PlanOrigin::Memory
    );
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
    let recorded = get(CacheMode::Record, none)
        .err()
        .expect("nothing to record");
    assert!(matches!(recorded, Error::PlanStopped { .. }), "{recorded}");
    // without a limit it is another plan
    let found = get(CacheMode::Auto, None).unwrap();
    assert!(!found.plan.certificate.stopped);
    assert_eq!(found.origin, PlanOrigin::Planned);
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
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
    get(&auto(folder.path()));
    assert!(!old.exists());
    assert!(kept.iter().all(|path| path.exists()));
}

/// A build that carries some plans of a folder is told by the time of one of them that another was added.
#[test]
fn an_added_entry_makes_another_one_new() {
    let folder = tempdir().unwrap();
    get(&auto(folder.path()));
    let (first, text) = (path(folder.path()), fs::read(path(folder.path())).unwrap());
    let before = SystemTime::now() - Duration::from_secs(1000);
    let old = File::options().write(true).open(&first).unwrap();
    let newer = || fs::metadata(&first).unwrap().modified().unwrap() > before;
    old.set_modified(before).unwrap();
    try_get(&auto(folder.path()), 2).unwrap();
    assert!(newer());
    assert_eq!(fs::read(&first).unwrap(), text);
    // one that takes its own place is new by itself
    old.set_modified(before).unwrap();
    let other = folder::entries(folder.path())
        .unwrap()
        .into_iter()
        .find(|f| *f != first);
    let hash = other
        .unwrap()
        .file_stem()
        .unwrap()
        .to_str()
        .unwrap()
        .to_string();
    folder::store(folder.path(), &hash, b"again").unwrap();
    assert!(!newer());
}

#[test]
fn a_wrong_clock_loses_nothing() {
    let folder = tempdir().unwrap();
    let entry = path(folder.path());
    get(&auto(folder.path()));
    let hash = entry.file_stem().unwrap().to_str().unwrap();
    let temporary = folder.path().join(format!(".{hash}.1.2.3.tmp"));
    let text = fs::read(&entry).unwrap();
    let day = Duration::from_secs(86_400);
    // a temporary of now, and an entry of tomorrow, to a clock that is behind or before all time
    fs::write(&temporary, "").unwrap();
    let file = File::options().write(true).open(&entry).unwrap();
    file.set_modified(SystemTime::now() + day).unwrap();
    for now in [SystemTime::now() - day, SystemTime::UNIX_EPOCH - day] {
        folder::store_at(folder.path(), hash, &text, now).unwrap();
        assert!(temporary.exists());
    }
    let other = tempdir().unwrap();
    fs::copy(&entry, path(other.path())).unwrap();
    let copied = File::options().write(true).open(path(other.path()));
    copied
        .unwrap()
        .set_modified(SystemTime::now() + day)
        .unwrap();
    assert_eq!(get(&auto(other.path())).1, PlanOrigin::Disk);
    // to one that is ahead the temporary is old
    folder::store_at(folder.path(), hash, &text, SystemTime::now() + day).unwrap();
    assert!(!temporary.exists());
}

/// Each version of the planner has entries of its own.
#[test]
fn planner_versions_share_a_folder() {
    let (folder, cluster) = (tempdir().unwrap(), Cluster::cpus(4));
    let key = Key::new(&graph(), &cluster, &PlanOptions::default());
    let plan = plan(&graph(), &cluster, &PlanOptions::default()).unwrap();
    let before = Key {
        planner: "planner/0".into(),
        ..key.clone()
    };
    let before = before.written();
    let theirs = folder::entry(folder.path(), before.hash());
    let text = encode(&before, &subject(), &plan);
    fs::write(&theirs, &text).unwrap();
    let miss = refused(&at(folder.path(), CacheMode::Frozen), 4);
    let end = format!(
        "differs in planner: `{}` wanted, `planner/0` found. ",
        key.planner
    );
    assert!(miss.contains(&end), "{miss}");
    let ((_, origin), messages) = events(|| get(&auto(folder.path())));
    assert_eq!(origin, PlanOrigin::Planned);
    assert_eq!(messages, ["plan cache miss"]);
    assert_eq!(fs::read_to_string(&theirs).unwrap(), text);
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 2);
    // theirs in our place
    let other = tempdir().unwrap();
    fs::copy(&theirs, path(other.path())).unwrap();
    let miss = refused(&at(other.path(), CacheMode::Frozen), 4);
    assert!(
        miss.contains("it is for another key: the planner differs"),
        "{miss}"
    );
}

/// Its size tells, before it is opened.
#[test]
fn an_entry_of_a_gigabyte_is_not_read() {
    let folder = tempdir().unwrap();
    let file = File::create(path(folder.path())).unwrap();
    file.set_len(1 << 30).unwrap();
    let miss = refused(&at(folder.path(), CacheMode::Frozen), 4);
    assert!(miss.contains("it has more than 67108864 bytes"), "{miss}");
    let ((_, origin), messages) = events(|| get(&auto(folder.path())));
    assert_eq!(origin, PlanOrigin::Planned);
    assert_eq!(messages, ["plan cache entry left out", "plan cache miss"]);
    let mended = fs::metadata(path(folder.path())).unwrap().len();
    assert!(mended < 10_000, "{mended}");
}

#[test]
fn a_folder_may_go_while_it_is_used() {
    let folder = tempdir().unwrap();
    let below = folder.path().join("plans");
    get(&auto(&below));
    fs::remove_dir_all(&below).unwrap();
    // this process has the plan
    assert_eq!(get(&auto(&below)).1, PlanOrigin::Memory);
    let (_, messages) = events(|| try_get(&auto(&below), 2).unwrap());
    assert_eq!(messages, ["plan cache miss"]);
    assert_eq!(fs::read_dir(&below).unwrap().count(), 1);
    let frozen = at(&below, CacheMode::Frozen);
    fs::remove_dir_all(&below).unwrap();
    assert!(refused(&frozen, 5).contains(", and mode `frozen` makes none"));

    // at any moment
    let done = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                let _ = fs::remove_dir_all(&below);
            }
        });
        for devices in 6..70 {
            try_get(&auto(&below), devices % 16 + 1).unwrap();
        }
        done.store(true, Ordering::Relaxed);
    });
}

/// The text of an error.
fn refused(cache: &PlanCache, devices: u32) -> String {
    try_get(cache, devices).unwrap_err().to_string()
}

#[test]
fn frozen_neither_plans_nor_writes() {
    let folder = tempdir().unwrap();
    let frozen = at(folder.path(), CacheMode::Frozen);
    let none = refused(&frozen, 4);
    let start =
        "there is no plan of tests::product on cpus:4, and mode `frozen` makes none: no entry ";
    assert!(none.starts_with(start), "{none}");
    assert!(!none.contains("nearest"), "{none}");
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);

    let (plan, _) = get(&auto(folder.path()));
    assert_eq!(get(&frozen), (plan, PlanOrigin::Disk));
    let other = refused(&frozen, 2);
    let end = "differs in hierarchy per_server: 2 wanted, 4 found. `cargo eindecomp plan` and mode `record` make plans; \
               a binary has those of when it is built";
    assert!(other.ends_with(end), "{other}");

    let damaged = tempdir().unwrap();
    fs::write(path(damaged.path()), "garbage").unwrap();
    let left_out = refused(&at(damaged.path(), CacheMode::Frozen), 4);
    assert!(
        left_out.contains(".json is left out: it is no plan entry"),
        "{left_out}"
    );
    // where nothing can be looked for, nothing is said to be there
    let file = damaged.path().join("file");
    fs::write(&file, "").unwrap();
    for (folder, says) in [
        (file.clone(), ".json cannot be read: Not a directory"),
        (damaged.path().join("none"), "/none, which is not there"),
    ] {
        let text = refused(&at(folder, CacheMode::Frozen), 4);
        assert!(
            text.contains(says) && !text.contains("there is one"),
            "{text}"
        );
    }
    assert_eq!(fs::read(path(damaged.path())).unwrap(), b"garbage");
}

#[test]
fn record_writes_or_fails() {
    let folder = tempdir().unwrap();
    let (_, origin) = get(&at(folder.path(), CacheMode::Record));
    assert_eq!(origin, PlanOrigin::Planned);
    assert!(path(folder.path()).exists());
    let file = folder.path().join("file");
    fs::write(&file, "").unwrap();
    let error = refused(&at(file, CacheMode::Record), 4);
    assert!(
        error.starts_with("the plan is not recorded: folder ")
            && error.ends_with("/file: it is no folder"),
        "{error}"
    );
    // another thing in the place of an entry
    let taken = tempdir().unwrap();
    fs::create_dir(path(taken.path())).unwrap();
    let error = refused(&at(taken.path(), CacheMode::Record), 4);
    let place = format!("{}: Is a directory", path(taken.path()).display());
    assert!(error.contains(&place), "{error}");
}

/// Also a plan that the process has, and at whatever moment the folder goes.
#[test]
fn record_makes_its_folder_again() {
    let folder = tempdir().unwrap();
    let below = folder.path().join("plans");
    let record = at(&below, CacheMode::Record);
    for origin in [PlanOrigin::Planned, PlanOrigin::Memory] {
        assert_eq!(get(&record).1, origin);
        assert!(path(&below).exists());
        fs::remove_dir_all(&below).unwrap();
        try_get(&record, 2).unwrap();
        assert_eq!(folder::entries(&below).unwrap().len(), 1);
    }
    let text = [0u8; 1 << 12];
    for moment in 0..100 {
        std::thread::scope(|scope| {
            let stored = scope.spawn(|| folder::store(&below, "moment", &text));
            std::thread::sleep(Duration::from_micros(moment * 5));
            let _ = fs::remove_dir_all(&below);
            stored.join().unwrap().unwrap();
        });
    }
}

#[test]
fn verify_makes_each_plan_again() {
    let folder = tempdir().unwrap();
    let verify = at(folder.path(), CacheMode::Verify);
    let missing = refused(&verify, 4);
    assert!(missing.contains("mode `verify` makes none"), "{missing}");
    get(&auto(folder.path()));
    assert_eq!(get(&verify).1, PlanOrigin::Disk);

    // a plan that keeps every rule, but is not what the planner makes: that of another search
    let old = tempdir().unwrap();
    let (graph, cluster) = (graph(), Cluster::cpus(4));
    let key = Key::new(&graph, &cluster, &PlanOptions::default()).written();
    let mut worse = (*get(&auto(folder.path())).0).clone();
    worse.certificate.space = "another space".into();
    fs::write(path(old.path()), encode(&key, &subject(), &worse)).unwrap();
    let differs = refused(&at(old.path(), CacheMode::Verify), 4);
    assert!(
        differs.contains("the planner now makes another one"),
        "{differs}"
    );
    assert_eq!(get(&auto(old.path())).0.as_ref(), &worse);
}

#[test]
fn embedded_plans_come_first() {
    let folder = tempdir().unwrap();
    let (plan, _) = get(&auto(folder.path()));
    let file = path(folder.path());
    let hash: &str = file
        .file_stem()
        .unwrap()
        .to_str()
        .unwrap()
        .to_string()
        .leak();
    let text: &[u8] = fs::read(&file).unwrap().leak();
    let carried = |text: &'static [u8], mode, folder: Option<&Path>| PlanCache {
        mode,
        embedded: EmbeddedPlans::new("plans", vec![(hash, text)].leak()),
        folder: folder.map(PathBuf::from),
    };
    let frozen = carried(text, CacheMode::Frozen, None);
    assert_eq!(get(&frozen), (plan.clone(), PlanOrigin::Embedded));
    let miss = refused(&frozen, 8);
    assert!(
        miss.contains("in the plans that the binary carries (folder `plans`, 1 when it was built); the nearest entry"),
        "{miss}"
    );
    // one that is damaged gives way to the folder
    let both = carried(&text[1..], CacheMode::Frozen, Some(folder.path()));
    let (got, messages) = events(|| get(&both));
    assert_eq!(got, (plan, PlanOrigin::Disk));
    assert_eq!(
        messages,
        ["plan cache: embedded entry left out", "plan cache hit"]
    );
    // recording fills the folder with what the binary carries too
    let recorded = tempdir().unwrap();
    let record = carried(text, CacheMode::Record, Some(recorded.path()));
    assert_eq!(get(&record).1, PlanOrigin::Planned);
    assert_eq!(fs::read(path(recorded.path())).unwrap(), text);
}

#[test]
fn modes_are_read_by_name() {
    for mode in CacheMode::ALL {
        assert_eq!(mode.to_string().parse(), Ok(mode));
    }
    let error = "Frozen".parse::<CacheMode>().unwrap_err().to_string();
    assert_eq!(
        error,
        "`Frozen` is no cache mode: they are `auto`, `record`, `frozen`, `verify` and `off`"
    );
}
