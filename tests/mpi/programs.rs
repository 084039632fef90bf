//! What ranks compute: bits of one process, and the planned bytes.

use std::collections::BTreeMap;

use eindecomp::{Cluster, EinGraph, Launched, PlanOrigin, Session};
use eindecomp_core::graph::Role;
use eindecomp_core::plan::cluster::Links;
use eindecomp_core::reference::RefTensor;
use eindecomp_runtime::Tensor;
use eindecomp_runtime::transport::{Message, Mpi, Receive, Transport, tell, told};

use crate::cases::{self, Program, Work};
use crate::check::{check, files};
use crate::expect::Output;
use crate::launch::{End, Test};
use crate::runner::{Parts, Runner, outputs, rebuilt};
use crate::support::to_runtime;

#[path = "../../examples/reaction_mapper/model.rs"]
#[allow(dead_code, reason = "the example uses all of it")]
mod model;

const RANKS: &[u32] = &[1, 2, 3, 4, 8];
const SAID: &str = "as in one process";

pub fn tests() -> Vec<Test> {
    let test = |name, rank, ranks| Test {
        name,
        rank,
        ranks,
        end: End::Well(SAID),
        env: &[],
        memory: None,
    };
    vec![
        test("conformance", conformance, RANKS),
        test("decode", decode, RANKS),
        test("reaction_mapper", reaction_mapper, RANKS),
        test("large_messages", large_messages, &[2]),
        test("measured_ways", measured_ways, &[1, 2, 3]),
    ]
}

/// A session on the ranks of the job.
pub fn session() -> Session {
    let job = Cluster::mpi().expect("a job");
    let session = Session::builder().cluster(job).no_cache();
    session.workers(1).build().expect("a session")
}

/// As many devices in this process alone.
fn alone(ranks: &Session) -> Session {
    let devices = ranks.job().map_or(1, |job| job.cluster().devices());
    let session = Session::builder().cluster(Cluster::cpus(devices));
    session.no_cache().workers(1).build().expect("a session")
}

/// A session, which may be on the ranks of a job.
struct Given(Session);

impl Runner for Given {
    fn name(&self) -> String {
        "ranks".into()
    }

    fn run(&self, program: &Program) -> Result<Vec<Output>, String> {
        let graph = rebuilt(&program.graph, Role::Data, &Parts::new())?;
        outputs(&self.0, Role::Data, graph, program).map_err(|e| e.to_string())
    }
}

/// Conformance cases that give a result, other ones on every number of ranks, all if `EVERY_CASE` is set: as
/// expected, and on rank 0 the bits of one process.
fn conformance() {
    let ranks = session();
    let job = ranks.job().expect("a job").clone();
    let (alone, ranks) = (Given(alone(&ranks)), Given(ranks));
    let mpi = Mpi::start().expect("a job");
    let every = match std::env::var_os("EVERY_CASE") {
        Some(_) => 1,
        None => job.ranks() as usize + 2,
    };
    let mut failed = 0;
    for file in files() {
        let text = std::fs::read_to_string(&file).expect("a file of cases");
        let all = cases::read(&text, &file.display().to_string());
        for case in all.into_iter().step_by(every) {
            let mut first = None;
            if let Work::Run { program, .. } = &case.work {
                // One rank whose data are wrong ends the job.
                let runs = if job.rank() == 0 {
                    let here = first.insert(alone.run(program));
                    let runs = [u8::from(here.is_ok())];
                    tell(&*mpi, Ok(&runs));
                    here.is_ok()
                } else {
                    told(&*mpi, "whether a case has a result") == Ok(vec![1])
                };
                if !runs {
                    continue;
                }
            }
            if let Err(error) = check(&ranks, &case.work, &mut first) {
                eprintln!("FAIL {} ({}): {error}", case.id, case.kind);
                failed += 1;
            }
        }
    }
    assert_eq!(failed, 0);
    println!("{SAID}");
}

/// Bytes that the devices of this rank must send and receive.
fn planned(program: &eindecomp::Program, rank: u32, ranks: u32) -> (u64, u64) {
    use eindecomp_core::task::TaskKind;
    let tasks = program.tasks();
    let owner = |device: u32| device / (tasks.devices / ranks);
    let (mut sent, mut received) = (0, 0);
    for task in &tasks.tasks {
        if let TaskKind::Move { src, region, .. } = &task.kind {
            let source = tasks.buffer(*src);
            let bytes = (region.volume() * source.dtype.size()) as u64;
            sent += u64::from(owner(source.device) == rank) * bytes;
            received += u64::from(owner(task.device) == rank) * bytes;
        }
    }
    (sent, received)
}

/// A cache that is stored into, step by step, and set and reset.
fn decode() {
    const CACHE: &str = "fn f<dim B, dim C, dim S, dim E>(
        x: f32[B, S, E], w: f32[E, E], pos: i64, #[state] kc: f32[B, C, E]
    ) -> (f32[B, C, E], f32[B, C, E]) {
        kc[b, pos + s, e] = 2.0 * x[b, s, e];
        let y[b, c, e] = sum[f] kc[b, c, f] * w[f, e];
        (y, kc)
    }";
    let session = session();
    let job = session.job().expect("a job").clone();
    let alone = alone(&session);
    let graph = EinGraph::from_text(CACHE, "f", &Default::default()).expect("a block");
    let dims = [("B", 4), ("C", 12), ("S", 2), ("E", 6)];
    let dims: BTreeMap<_, _> = dims.iter().map(|&(n, at)| (n.into(), at)).collect();
    let mut on_ranks = session
        .compile_graph(graph.clone(), dims.clone())
        .expect("compiles");
    let mut here = alone.compile_graph(graph, dims).expect("compiles");
    let origin = on_ranks.report().origin;
    assert_eq!(origin == PlanOrigin::Rank0, job.rank() > 0, "{origin}");
    let values = |shape: &[usize], seed: usize| {
        let count: usize = shape.iter().product();
        let value = |i: usize| (i * 37 + seed * 11) as f64 * 0.013 % 1.0 - 0.5;
        let data: Vec<f64> = (0..count).map(value).collect();
        let dtype = eindecomp::DType::F32;
        to_runtime(&RefTensor::from_f64(dtype, shape.to_vec(), &data).expect("as many"))
    };
    let step = |at: i64, rows: usize| -> BTreeMap<String, Tensor> {
        let pos = RefTensor::from_i64(eindecomp::DType::I64, vec![], &[at]).expect("one");
        [
            ("x".into(), values(&[4, rows, 6], at as usize)),
            ("w".into(), values(&[6, 6], 1)),
            ("pos".into(), to_runtime(&pos)),
        ]
        .into()
    };
    for (n, (at, rows)) in [(0, 2), (2, 2), (4, 1), (5, 3), (3, 2), (10, 2)]
        .into_iter()
        .enumerate()
    {
        let inputs = step(at, rows);
        let want = here.run(&inputs).expect("runs");
        assert_eq!(on_ranks.run(&inputs).expect("runs"), want, "step {n}");
        let traffic = &on_ranks.trace().traffic;
        let (sent, received) = planned(&on_ranks, job.rank(), job.ranks());
        assert_eq!(traffic.sent.values().sum::<u64>(), sent, "step {n}");
        assert_eq!(traffic.moved().total(), received, "step {n}");
        assert_eq!(on_ranks.state().unwrap(), here.state().unwrap(), "step {n}");
        if n == 3 {
            let states = BTreeMap::from([("kc".to_string(), values(&[4, 12, 6], 9))]);
            on_ranks.set_state(states.clone()).expect("fits");
            here.set_state(states).expect("fits");
        }
    }
    println!("{SAID}");
}

/// The pretrained model of the example.
fn reaction_mapper() {
    use eindecomp::ndarray::Array2;
    use model::albert;
    const WEIGHTS: &str = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/examples/data/rxn_albert.safetensors"
    );
    let session = session();
    let inputs = || albert::Inputs {
        ids: Array2::from_shape_fn((2, 24), |(r, c)| (11 + 7 * r + 5 * c) as u32 % 200),
        mask: Array2::from_shape_fn((2, 24), |(r, c)| c < 24 - 3 * r),
    };
    let run = |session: &Session| {
        let dims = albert::Dims { b: 2, s: 24 };
        let model = session.compile(albert::graph(), dims).expect("compiles");
        let mut model = model.load_file(WEIGHTS).expect("fit");
        let first = model.run(inputs()).expect("runs");
        let again = model.run(inputs()).expect("runs");
        assert!(first.logits == again.logits, "another run, other results");
        first
    };
    let (got, want) = (run(&session), run(&alone(&session)));
    let bits = |out: &albert::Outputs| -> Vec<u32> {
        let values = out.logits.iter().chain(&out.attention);
        values.map(|x| x.to_bits()).collect()
    };
    assert!(bits(&got) == bits(&want), "other bits");
    println!("{SAID}");
}

/// Messages that are cut, of any size, in both directions at once.
fn large_messages() {
    let mpi = Mpi::start().expect("a job");
    let other = 1 - mpi.rank();
    let sizes = [0, 1, 64 << 20, 130_000_003];
    let byte = |rank: u32, n: usize, at: usize| (at * 31 + n * 7 + rank as usize) as u8;
    // Every page of a large one.
    let places = |bytes: usize| (0..bytes).step_by(if bytes > 9999 { 997 } else { 1 });
    let (sender, arrived) = std::sync::mpsc::channel();
    for (n, &bytes) in sizes.iter().enumerate() {
        let sender = sender.clone();
        mpi.receive(Receive {
            from: other,
            tag: 9,
            bytes,
            what: Box::new(|| "a large message".into()),
            done: Box::new(move |message| sender.send((n, message)).expect("it is waited for")),
        });
    }
    for (n, &bytes) in sizes.iter().enumerate() {
        let mut message = Message::zeros(bytes);
        for at in places(bytes) {
            message.bytes_mut()[at] = byte(mpi.rank(), n, at);
        }
        mpi.send(other, 9, message);
    }
    for _ in sizes {
        let (n, message) = arrived.recv().expect("all come");
        let bytes = message.bytes();
        let right = |at: usize| bytes[at] == byte(other, n, at);
        assert!(places(sizes[n]).all(right), "message {n}");
    }
    println!("{SAID}");
}

/// The ways between ranks are measured once, and the same on every rank.
fn measured_ways() {
    let job = Cluster::mpi().expect("a job");
    let again = Cluster::mpi().expect("the same job");
    assert_eq!(job.cluster(), again.cluster());
    let folder = std::env::var_os("EINDECOMP_CACHE").expect("the launcher says it");
    let file = std::path::Path::new(&folder).join("mpi.json");
    let kept: serde_json::Value = serde_json::from_slice(&std::fs::read(file).unwrap()).unwrap();
    let ours = |ways: &&serde_json::Value| ways["neighbours"] == job.ranks();
    let ways = kept.as_array().unwrap().iter().find(ours).expect("kept");
    assert!(ways["between"].is_null(), "{ways}");
    match (&job.cluster().server.links, job.ranks()) {
        (_, 1) => assert!(ways["within"].is_null(), "{ways}"),
        (Links::Switch(link), _) => {
            assert_eq!(ways["within"], serde_json::json!(link));
            assert_eq!(job.cluster().server.device.port, link.bandwidth);
        }
        (other, _) => panic!("{other:?}"),
    }
    println!("{SAID}");
}
