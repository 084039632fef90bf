//! Several ranks of one or more devices each ≡ one process with all of them: bits, states and bytes.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use eindecomp::transport::{Transport, ping, pong};
use eindecomp::{CacheMode, Cluster, Error, Job, JobError, PlanOrigin, Session};
use eindecomp_core::ein::DType;
use eindecomp_core::graph::testing::random_graph;
use eindecomp_core::graph::{BoundGraph, EinGraph, Role};
use eindecomp_core::plan::Region;
use eindecomp_core::plan::testing::random_plan;
use eindecomp_core::task::TaskKind;
use eindecomp_core::task::lower::lower;
use eindecomp_core::task::traffic::moved_bytes;
use eindecomp_runtime::{
    Contents, Executor, MemoryMode, Ranks, Results, RunError, Tensor, TensorSource, Traffic,
    Workers,
};
use proptest::prelude::*;

use crate::state::{CACHE, RING, VERSIONS};
use crate::support::ranks::on_ranks;
use crate::support::run::small_inputs;
use crate::support::to_runtime;

type Tensors = BTreeMap<String, Tensor>;

/// Inputs that each run has anew, and weights.
fn inputs(graph: &BoundGraph) -> (Tensors, Tensors) {
    let is_data = |name: &str| {
        let mut nodes = graph.nodes().iter();
        nodes.any(|n| n.role() == Some(Role::Data) && &*n.name == name)
    };
    let all = small_inputs(graph, 2).into_iter();
    let all = all.filter(|(name, _)| {
        let mut nodes = graph.nodes().iter();
        nodes.any(|n| n.name == *name && n.role().is_some_and(|r| r != Role::State))
    });
    all.map(|(n, t)| (n.to_string(), to_runtime(&t)))
        .partition(|(name, _)| is_data(name))
}

/// Bytes between two devices of each pair, sent and received.
fn bytes(traffic: &Traffic) -> Vec<((u32, u32), u64, u64)> {
    let sent = |pair| traffic.sent.get(pair).copied().unwrap_or(0);
    let received = |pair| traffic.received.get(pair).map_or(0, |m| m.total());
    let pairs: std::collections::BTreeSet<_> =
        traffic.sent.keys().chain(traffic.received.keys()).collect();
    let each = pairs.into_iter();
    each.map(|pair| (*pair, sent(pair), received(pair)))
        .collect()
}

/// A weight that notes which boxes of it are asked for.
struct Asked<'a>(&'a Tensor, &'a Mutex<Vec<Region>>);

impl TensorSource for Asked<'_> {
    fn dtype(&self) -> DType {
        self.0.dtype()
    }

    fn shape(&self) -> &[usize] {
        self.0.shape()
    }

    fn contents(&self, region: &Region) -> std::io::Result<Contents<'_>> {
        self.1.lock().expect("one thread").push(region.clone());
        self.0.contents(region)
    }
}

/// Two runs of a random placement on ranks and in one process.
fn check(graph: Arc<BoundGraph>, ranks: u32, each: u32, seed: u64, mode: MemoryMode) {
    let plan = random_plan(&graph, ranks * each, seed);
    let tasks = Arc::new(lower(&graph, &plan).expect("tasks"));
    let (data, weights) = inputs(&graph);
    let workers = || Arc::new(Workers::new(2).expect("workers"));
    let runs = |executor: &mut Executor| {
        executor.load(&weights).expect("weights");
        let run = |_| {
            let (outputs, trace) = executor.run(&data, false)?;
            Ok((outputs, executor.states(), trace))
        };
        (0..2).map(run).collect::<Result<Vec<_>, RunError>>()
    };
    let mut alone =
        Executor::new(graph.clone(), tasks.clone(), workers(), mode).expect("an executor");
    // A run that fails ends the job.
    let Ok(want) = runs(&mut alone) else { return };
    let said = on_ranks(ranks, |end| {
        let rank = end.rank();
        let ranks = Ranks::new(end, Results::Everywhere);
        let executor = Executor::across(graph.clone(), tasks.clone(), workers(), mode, ranks);
        let mut executor = executor.expect("an executor");
        // only what its devices keep is read
        let asked = Mutex::new(Vec::new());
        let asking = |(name, tensor)| (String::clone(name), Asked(tensor, &asked));
        executor
            .load(&weights.iter().map(asking).collect())
            .expect("weights");
        let boxes = tasks.load.iter().filter(|task| task.device / each == rank);
        let boxes = boxes.filter_map(|task| match task.kind {
            TaskKind::Load { dst } => Some(tasks.buffer(dst).region.clone()),
            _ => None,
        });
        assert_eq!(
            asked.into_inner().expect("one thread"),
            boxes.collect::<Vec<_>>()
        );
        runs(&mut executor).expect("as alone")
    });
    let planned = moved_bytes(&graph, plan.hierarchy, &plan.nodes).expect("a plan");
    for (n, (outputs, states, _)) in want.iter().enumerate() {
        let (mut sent, mut received) = (BTreeMap::new(), BTreeMap::new());
        for rank in &said {
            assert_eq!(&rank[n].0, outputs, "run {n}");
            assert_eq!(&rank[n].1, states, "run {n}");
            for (pair, out, into) in bytes(&rank[n].2.traffic) {
                *sent.entry(pair).or_insert(0) += out;
                *received.entry(pair).or_insert(0) += into;
            }
        }
        let planned: BTreeMap<_, _> = planned.iter().map(|(a, b, n)| ((a, b), n)).collect();
        assert_eq!(received, planned, "run {n}");
        assert_eq!(sent, planned, "run {n}");
    }
}

const MODES: [MemoryMode; 2] = [MemoryMode::Arena, MemoryMode::Private];

proptest! {
    #![proptest_config(crate::support::config(150))]

    #[test]
    fn ranks_give_the_bits_and_bytes_of_one_process(
        seed: u64,
        statements in 1..6usize,
        ranks in prop::sample::select(vec![1u32, 2, 3, 4, 8]),
        each in 1..3u32,
        mode in prop::sample::select(&MODES[..]),
    ) {
        check(Arc::new(random_graph(seed, statements).bound()), ranks, each, seed, mode);
    }

    #[test]
    fn states_are_kept_by_the_ranks_that_own_them(
        seed: u64,
        which in 0..3usize,
        ranks in 1..5u32,
        each in 1..3u32,
        mode in prop::sample::select(&MODES[..]),
    ) {
        let source = EinGraph::from_text([CACHE, RING, VERSIONS][which], "f", &Default::default());
        let source = source.unwrap_or_else(|e| panic!("{e}"));
        let dims = [("B", 2), ("C", 6), ("S", 2), ("E", 4)];
        let dims = &dims[usize::from(which > 0)..];
        let dims = dims.iter().map(|&(name, n)| (name.into(), n)).collect();
        check(Arc::new(source.bind(&dims).expect("dims")), ranks, each, seed, mode);
    }
}

#[test]
fn results_are_where_they_are_asked_for() {
    let source = "fn f(x: f32[4, 3]) -> f32[4, 3] { let y[i, j] = x[i, j] + 1.0; y }";
    let graph = EinGraph::from_text(source, "f", &Default::default()).expect("a block");
    let graph = Arc::new(graph.bind(&BTreeMap::new()).expect("no dims"));
    let plan = (0..).map(|seed| random_plan(&graph, 4, seed));
    let spread = |tasks: &eindecomp_core::task::TaskGraph| {
        let gathers = tasks.tasks.iter();
        let gathers = gathers.filter(|t| t.kind.writes().is_empty() && !t.kind.reads().is_empty());
        gathers
            .map(|t| t.device)
            .collect::<std::collections::BTreeSet<_>>()
            .len()
            == 4
    };
    let tasks = plan
        .map(|plan| lower(&graph, &plan).expect("tasks"))
        .find(spread);
    let tasks = Arc::new(tasks.expect("a plan whose result every device has a tile of"));
    let (data, _) = inputs(&graph);
    let run = |results| {
        let sums = on_ranks(4, |end| {
            let workers = Arc::new(Workers::new(1).expect("a worker"));
            let ranks = Ranks::new(end, results);
            let mode = MemoryMode::Arena;
            let executor = Executor::across(graph.clone(), tasks.clone(), workers, mode, ranks);
            let (outputs, _) = executor.expect("one").run(&data, false).expect("a run");
            crate::support::to_reference(&outputs[0])
                .to_f64()
                .iter()
                .sum::<f64>()
        });
        let whole = small_inputs(&graph, 2)["x"]
            .to_f64()
            .iter()
            .map(|x| x + 1.0)
            .sum::<f64>();
        (sums, whole)
    };
    let (sums, whole) = run(Results::Everywhere);
    assert_eq!(sums, [whole; 4]);
    let (sums, whole) = run(Results::OnRank(2));
    assert_eq!(sums[2], whole);
    assert_ne!(sums[0], whole);
    let (sums, whole) = run(Results::Distributed);
    assert_eq!(sums.iter().sum::<f64>(), whole);
    assert_ne!(sums[2], whole);
}

#[test]
fn ranks_that_cannot_be_are_refused() {
    let graph = random_graph(1, 2);
    let graph = Arc::new(graph.bound());
    let tasks = Arc::new(lower(&graph, &random_plan(&graph, 4, 1)).expect("tasks"));
    let error = |ranks, results, mode| {
        let said = on_ranks(ranks, |end| {
            let workers = Arc::new(Workers::new(1).expect("a worker"));
            let ranks = Ranks::new(end, results);
            let executor = Executor::across(graph.clone(), tasks.clone(), workers, mode, ranks);
            executor.err().map(|e| e.to_string())
        });
        said.into_iter().next().flatten().expect("an error")
    };
    let (everywhere, arena) = (Results::Everywhere, MemoryMode::Arena);
    assert_eq!(
        error(3, everywhere, arena),
        "4 devices are not the same number for each of 3 ranks"
    );
    assert_eq!(
        error(2, Results::OnRank(2), arena),
        "the results are for rank 2, but there are only 2"
    );
    assert_eq!(
        error(2, everywhere, MemoryMode::Shared),
        "memory mode `Shared` is for the devices of one process"
    );
}

/// A session on ranks, with a folder of plans that rank 0 alone may use.
fn on_job(end: Arc<dyn Transport>, folder: &std::path::Path) -> Session {
    let own = folder.join(end.rank().to_string());
    let job = Job::new(end, Cluster::cpus(4));
    let session = Session::builder().cluster(job).cache_dir(own).workers(1);
    session.build().expect("a session")
}

#[test]
fn rank_0_makes_the_plans_and_the_others_touch_no_folder() {
    let folder = tempfile::tempdir().expect("a folder");
    let source =
        "fn f<dim N>(x: f32[N, N]) -> f32[N, N] { let y[i, k] = sum[j] x[i, j] * x[k, j]; y }";
    let graph = EinGraph::from_text(source, "f", &Default::default()).expect("a block");
    let run = |session: &Session, n: i64| {
        let dims = [("N".into(), n)].into();
        let mut program = session.compile_graph(graph.clone(), dims)?;
        let x = eindecomp_runtime::Data::F32((0..n * n).map(|x| (x % 7) as f32).collect());
        let x = Tensor::new(vec![n as usize; 2], x).expect("as many");
        let outputs = program.run(&[("x".into(), x)].into())?;
        Ok::<_, Error>((outputs, program.report().origin))
    };
    let alone = Session::builder().cluster(Cluster::cpus(4)).no_cache();
    let (want, _) = run(&alone.build().expect("a session"), 6).expect("runs");
    let first = on_ranks(4, |end| run(&on_job(end, folder.path()), 6).expect("runs"));
    for (rank, (outputs, origin)) in first.iter().enumerate() {
        let expected = if rank == 0 {
            PlanOrigin::Planned
        } else {
            PlanOrigin::Rank0
        };
        assert_eq!((outputs, *origin), (&want, expected), "rank {rank}");
    }
    assert!(folder.path().join("0").exists());
    assert_eq!(
        std::fs::read_dir(folder.path()).expect("a folder").count(),
        1
    );

    let refused = on_ranks(4, |end| {
        let n = if end.rank() == 2 { 5 } else { 6 };
        run(&on_job(end, folder.path()), n).err()
    });
    for error in refused {
        match error {
            Some(Error::Job(JobError::Differs {
                rank: 2,
                theirs,
                ours,
            })) => {
                assert_ne!(theirs, ours);
            }
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn what_rank_0_cannot_plan_no_rank_runs() {
    let source = "fn f<dim N>(x: f32[N]) -> f32[N] { let y[i] = 2.0 * x[i]; y }";
    let graph = EinGraph::from_text(source, "f", &Default::default()).expect("a block");
    let folder = tempfile::tempdir().expect("a folder");
    let errors = on_ranks(2, |end| {
        let job = Job::new(end, Cluster::cpus(2));
        let session = Session::builder().cluster(job).cache_dir(folder.path());
        let session = session
            .cache_mode(CacheMode::Frozen)
            .build()
            .expect("a session");
        let program = session.compile_graph(graph.clone(), [("N".into(), 8)].into());
        program.err().map(|e| e.to_string()).unwrap_or_default()
    });
    assert!(errors[0].contains("frozen"), "{}", errors[0]);
    assert_eq!(errors[1], format!("rank 0: {}", errors[0]));
}

/// The way between two ranks, measured by one of them.
#[test]
fn ways_are_measured_by_messages_to_and_fro() {
    let found = on_ranks(3, |transport| match transport.rank() {
        0 => Some([1, 2].map(|other| ping(&*transport, other))),
        _ => {
            pong(&*transport, 0);
            None
        }
    });
    assert!(found[1].is_none() && found[2].is_none());
    for link in found[0].expect("those of rank 0") {
        // a thread is nearer than a second, and quicker than a modem
        assert!((1..1_000_000_000).contains(&link.latency), "{link:?}");
        assert!(link.bandwidth > 7_000, "{link:?}");
    }
}
