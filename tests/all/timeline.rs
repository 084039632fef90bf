//! Timelines: the file is read back, and has all that the run did.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use eindecomp::{Cluster, EinGraph, Error, Job, Pin, Program, Residency, Session};
use eindecomp_core::graph::Role;
use eindecomp_core::task::{TaskGraph, TaskKind};
use eindecomp_runtime::Tensor;
use serde_json::Value;

use crate::profile::graph;
use crate::support::ranks::on_ranks;

/// Two products, of which one has a weight on the first device alone, a state, and a name that JSON must escape.
fn sample() -> EinGraph {
    let source = "fn f(x: f32[8,16], pos: i64, #[weight] v: f32[16,32], #[weight] w: f32[32,16],
        #[state] cache: f32[16,16]) -> f32[16] {
        let h[i,k] = sum[j] x[i,j] * v[j,k];
        let a[i,k] = max(h[i,k], 0.0);
        let y[i,j] = sum[k] a[i,k] * w[k,j];
        cache[pos + i, j] = y[i,j];
        let z[j] = sum[c] cache[c,j];
        z
    }";
    let dump = graph(source).to_string();
    let named = dump.replace("\"h\"", "\"h \\\"1\\\" \\\\ \\n\"");
    assert_ne!(dump, named);
    let graph = EinGraph::parse(&named).unwrap_or_else(|e| panic!("{e}\n{named}"));
    let one_copy = Pin::Owner {
        parts: vec![1, 1],
        devices: Some(vec![0]),
    };
    graph.with_pin("v", one_copy).expect("a weight `v`")
}

/// A program after a profile, whose timeline is in `file`.
fn written(session: &Session, graph: &EinGraph, file: &Path) -> Result<Program, Error> {
    let bound = graph.bind(&BTreeMap::new()).expect("no dims");
    let zeros = |role| -> BTreeMap<String, Tensor> {
        let inputs = bound.ids().filter(|(_, n)| n.role() == Some(role));
        let zeros = inputs.map(|(id, n)| {
            let tensor = Tensor::zeros(n.dtype, bound.shape(id).to_vec());
            (n.name.to_string(), tensor)
        });
        zeros.collect()
    };
    let mut program = session.compile_graph(graph.clone(), BTreeMap::new())?;
    program.load(zeros(Role::Weight))?;
    let profile = program.profile(&zeros(Role::Data))?;
    profile.write_timeline(file)?;
    Ok(program)
}

/// A complete event, in nanoseconds.
struct Slice {
    name: String,
    cat: String,
    device: u32,
    worker: u64,
    range: (u64, u64),
    args: Value,
}

/// An end of an arrow.
struct End {
    task: usize,
    device: u32,
    worker: u64,
    at: u64,
}

/// A file that was read back.
struct Read {
    slices: Vec<Slice>,
    leaves: Vec<End>,
    arrives: Vec<End>,
    /// Of processes, and of threads of a process.
    names: BTreeMap<(u32, Option<u64>), String>,
}

fn read(file: &Path) -> Read {
    let text = std::fs::read_to_string(file).expect("a file");
    let json: Value = serde_json::from_str(&text).expect("JSON");
    let (mut slices, mut leaves, mut arrives) = (Vec::new(), Vec::new(), Vec::new());
    let mut names = BTreeMap::new();
    let nanos = |v: &Value| (v.as_f64().expect("a time") * 1e3).round() as u64;
    for event in json["traceEvents"].as_array().expect("events") {
        let number = |key: &str| {
            event[key]
                .as_u64()
                .unwrap_or_else(|| panic!("{key}: {event}"))
        };
        let text = |v: &Value| v.as_str().expect("text").to_string();
        // viewers take 0 for the system's own
        let (device, worker) = (number("pid") as u32 - 1, number("tid") - 1);
        let end = || {
            assert_eq!(event["bp"], "e", "{event}");
            let (task, at) = (number("id") as usize, nanos(&event["ts"]));
            End {
                task,
                device,
                worker,
                at,
            }
        };
        match event["ph"].as_str().expect("a phase") {
            "X" => slices.push(Slice {
                name: text(&event["name"]),
                cat: text(&event["cat"]),
                device,
                worker,
                range: (
                    nanos(&event["ts"]),
                    nanos(&event["ts"]) + nanos(&event["dur"]),
                ),
                args: event["args"].clone(),
            }),
            "s" => leaves.push(end()),
            "f" => arrives.push(end()),
            "M" => {
                let of_thread = (event["name"] == "thread_name").then_some(worker);
                names.insert((device, of_thread), text(&event["args"]["name"]));
            }
            other => panic!("{other}: {event}"),
        }
    }
    Read {
        slices,
        leaves,
        arrives,
        names,
    }
}

impl Read {
    /// What is around an end of an arrow; the outermost, if one is in the other.
    fn around(&self, end: &End) -> &Slice {
        let mut all = self.slices.iter().filter(|s| {
            let (from, to) = s.range;
            let there = (s.device, s.worker) == (end.device, end.worker);
            there && (from..to.max(from + 1)).contains(&end.at)
        });
        all.next()
            .unwrap_or_else(|| panic!("nothing is around the arrow of t{}", end.task))
    }

    fn check(&self, tasks: &TaskGraph, workers: u64) {
        let mut by_worker: BTreeMap<u64, Vec<(u64, u64)>> = BTreeMap::new();
        for s in &self.slices {
            assert_eq!(
                self.names[&(s.device, None)],
                format!("device {}", s.device)
            );
            let thread = match s.cat.as_str() {
                "kept" => "kept across runs".into(),
                _ => format!("worker {}", s.worker),
            };
            assert_eq!(self.names[&(s.device, Some(s.worker))], thread);
            assert_eq!(s.worker == workers, s.cat == "kept", "{}", s.name);
            if s.worker < workers {
                by_worker.entry(s.worker).or_default().push(s.range);
            }
        }
        for (worker, mut ranges) in by_worker {
            ranges.sort_unstable();
            let apart = ranges.windows(2).all(|w| w[0].1 <= w[1].0);
            assert!(apart, "worker {worker}: {ranges:?}");
        }
        for end in &self.leaves {
            let TaskKind::Move { src, .. } = &tasks.tasks[end.task].kind else {
                panic!("t{} moves nothing", end.task)
            };
            assert_eq!(end.device, tasks.buffer(*src).device);
            let slice = self.around(end);
            match slice.args["task"].as_u64() {
                Some(task) if task as usize == end.task => assert_eq!(slice.cat, "send"),
                Some(task) => assert!(tasks.tasks[task as usize].kind.writes().contains(src)),
                None => assert!(tasks.buffer(*src).role.stays(), "{}", slice.name),
            }
        }
        for end in &self.arrives {
            assert_eq!(end.device, tasks.tasks[end.task].device);
            let slice = self.around(end);
            assert_eq!(
                (slice.cat.as_str(), slice.args["task"].as_u64()),
                ("move", Some(end.task as u64))
            );
        }
    }
}

fn moves(tasks: &TaskGraph) -> Vec<usize> {
    let all = tasks.tasks.iter().enumerate();
    let moves = all.filter(|(_, t)| matches!(t.kind, TaskKind::Move { .. }));
    moves.map(|(at, _)| at).collect()
}

fn sorted(ends: &[End]) -> Vec<usize> {
    let mut tasks: Vec<usize> = ends.iter().map(|e| e.task).collect();
    tasks.sort_unstable();
    tasks
}

#[test]
fn every_task_and_every_move_is_in_the_file() {
    let folder = tempfile::tempdir().expect("a folder");
    let (graph, file) = (sample(), folder.path().join("run.json"));
    let mut kept = 0;
    for devices in [1, 2, 4] {
        let session = Session::builder()
            .cluster(Cluster::cpus(devices))
            .residency(Residency::Sharded)
            .workers(2)
            .cache_dir(folder.path())
            .stop_after("none")
            .build()
            .expect("a session");
        let program = written(&session, &graph, &file).expect("a run");
        let (read, tasks) = (read(&file), program.tasks());
        read.check(tasks, 2);
        let told: BTreeSet<_> = (read.slices.iter())
            .filter_map(|s| {
                Some((
                    s.args["task"].as_u64()? as usize,
                    s.args["piece"].as_u64()? as usize,
                ))
            })
            .collect();
        let ran = program.trace().tasks.iter().map(|s| (s.task, s.piece));
        assert_eq!(told, ran.collect(), "on {devices}");
        let all: BTreeSet<usize> = told.iter().map(|(task, _)| *task).collect();
        assert_eq!(all, (0..tasks.tasks.len()).collect());
        let moves = moves(tasks);
        assert_eq!(moves.is_empty(), devices == 1);
        assert_eq!(sorted(&read.leaves), moves);
        assert_eq!(sorted(&read.arrives), moves);
        for end in read.leaves.iter().zip(&read.arrives) {
            assert!(end.0.at <= end.1.at, "t{}", end.0.task);
        }
        kept += read.slices.iter().filter(|s| s.cat == "kept").count();

        let h = "h \"1\" \\ \n";
        let h = read.slices.iter().find(|s| s.name == h).expect("its name");
        assert_eq!(h.cat, "kernel");
        let TaskKind::Kernel { .. } =
            tasks.tasks[h.args["task"].as_u64().expect("a task") as usize].kind
        else {
            panic!("no kernel: {}", h.args)
        };
        let tile = h.args["tile"].as_str().expect("a tile");
        assert!(
            tile.starts_with("i ") && tile.contains(", k ") && tile.contains(", j "),
            "{tile}"
        );
        assert!(!h.args["kernel"].as_str().expect("a kernel").is_empty());
        assert!(h.args["read"].as_u64() > Some(0) && h.args["written"].as_u64() > Some(0));
        let bytes = |s: &&Slice| s.cat == "move";
        let bytes = read
            .slices
            .iter()
            .filter(bytes)
            .map(|s| s.args["bytes"].as_u64());
        let bytes: u64 = bytes.map(|b| b.expect("a number")).sum();
        assert_eq!(u128::from(bytes), program.plan().moved_bytes);
    }
    assert!(kept > 0, "some weight moves");
}

/// Each rank writes its devices; arrows between ranks have one end in each file.
#[test]
fn ranks_write_their_own_devices() {
    let folder = tempfile::tempdir().expect("a folder");
    let graph = sample();
    let files = on_ranks(2, |end| {
        let own = folder.path().join(end.rank().to_string());
        std::fs::create_dir(&own).expect("a folder");
        let file = own.join("run.json");
        let job = Job::new(end, Cluster::cpus(4));
        let session = Session::builder().cluster(job).workers(1).cache_dir(own);
        let session = session.residency(Residency::Sharded).build();
        let program = written(&session.expect("a session"), &graph, &file).expect("a run");
        (read(&file), program.tasks().clone())
    });
    let (mut leaves, mut arrives, mut sends) = (Vec::new(), Vec::new(), 0);
    for (rank, (read, tasks)) in files.iter().enumerate() {
        read.check(tasks, 1);
        assert!(read.slices.iter().all(|s| s.device as usize / 2 == rank));
        sends += read.slices.iter().filter(|s| s.cat == "send").count();
        leaves.extend(sorted(&read.leaves));
        arrives.extend(sorted(&read.arrives));
    }
    leaves.sort_unstable();
    arrives.sort_unstable();
    assert_eq!(leaves, moves(&files[0].1));
    assert_eq!(arrives, leaves);
    assert!(sends > 0, "ranks send each other something");
}

#[test]
fn a_path_that_cannot_be_written_is_an_error() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("nowhere").join("run.json");
    let session = Session::builder().cache_dir(folder.path()).build();
    let error = written(&session.expect("a session"), &sample(), &file).err();
    match error {
        Some(Error::Timeline { path, source }) => {
            assert_eq!((path, source.kind()), (file, std::io::ErrorKind::NotFound));
        }
        other => panic!("{other:?}"),
    }
}
