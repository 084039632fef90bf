//! What a cached plan costs at start-up, step by step, on one core: LLaMA-7B forward over 8 devices.
//!
//! `cargo bench -p eindecomp-core --features testing --bench cache [-- LAYERS]` prints the least and the median time of
//! each step. `bind`: numbers for dims. `passes`: the graph rewritten. `key`: the canonical graph, its text and
//! hash. `open`: the entry is compared with the key, hashed and read. `rules`: all rules of plans but that of
//! memory. Tasks are made, and memory checked, by `lower`.

use std::collections::BTreeMap;
use std::hint::black_box;
use std::time::{Duration, Instant};

use eindecomp_core::pass::Pipeline;
use eindecomp_core::plan::cache::{Key, Subject, encode, open};
use eindecomp_core::plan::samples::Llama;
use eindecomp_core::plan::{Cluster, PlanOptions, plan, verify};
use eindecomp_core::task::lower;

const RUNS: usize = 200;

fn main() {
    let layers = std::env::args().skip(1).find_map(|a| a.parse().ok());
    let layers = layers.unwrap_or(32);
    let (cluster, options) = (Cluster::cpus(8), PlanOptions::default());
    let graph = Llama {
        layers,
        ..Llama::B7
    }
    .forward();
    let made = plan(&graph, &cluster, &options).expect("a plan");
    let subject = Subject::new(Some("llama::forward"), graph.graph(), [], &cluster);
    let key = Key::new(&graph, &cluster, &options).written();
    let text = encode(&key, &subject, &made);
    println!(
        "{layers} layers, {} nodes, p = {}, an entry of {} B",
        graph.nodes().len(),
        cluster.devices(),
        text.len()
    );
    let mut times: [Vec<Duration>; 7] = Default::default();
    let mut steps = |first: usize, marks: &[Instant]| {
        let steps = marks.windows(2).map(|m| m[1] - m[0]);
        let times = times[first..].iter_mut();
        times.zip(steps).for_each(|(t, step)| t.push(step));
    };
    for _ in 0..RUNS {
        let before = Instant::now();
        let graph = graph.graph().bind(&BTreeMap::new()).expect("bound before");
        let start = Instant::now();
        // nobody has asked this graph for its canonical text
        let key = Key::new(&graph, &cluster, &options).written();
        let keyed = Instant::now();
        let found = open(text.as_bytes(), &key).expect("its entry");
        let opened = Instant::now();
        verify::rules(&graph, &found, &cluster).expect("its plan");
        let checked = Instant::now();
        steps(0, &[before, start, keyed, opened, checked]);
        steps(4, &[start, checked]);
    }
    for _ in 0..RUNS / 4 {
        let unchanged = graph.clone();
        let start = Instant::now();
        black_box(Pipeline::default().run(unchanged).expect("passes"));
        let passed = Instant::now();
        black_box(lower(&graph, &made).expect("its plan"));
        steps(5, &[start, passed, Instant::now()]);
    }
    println!("step | least ms | median ms");
    let names = [
        "bind",
        "key",
        "open",
        "rules",
        "key + open + rules",
        "passes",
        "lower",
    ];
    for (name, mut times) in names.into_iter().zip(times) {
        times.sort_unstable();
        let ms = |time: Duration| time.as_secs_f64() * 1e3;
        println!(
            "{name} | {:.3} | {:.3}",
            ms(times[0]),
            ms(times[times.len() / 2])
        );
    }
}
