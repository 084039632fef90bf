//! Plan times, gaps and memory of the planner, on one core.
//!
//! `cargo bench -p eindecomp-core --features testing --bench planner -- [CASE]...` runs the cases whose names contain one of the
//! arguments, or all of them. A time is the least processor time of several runs (where the system
//! does not tell it: elapsed time) and counts everything from the bound graph to the solution:
//! candidates, tables, search.

use std::time::{Duration, Instant};

use eindecomp_core::graph::BoundGraph;
use eindecomp_core::plan::samples::Llama;
use eindecomp_core::plan::{Algorithm, communication};

fn main() {
    let wanted: Vec<String> = std::env::args()
        .skip(1)
        .filter(|a| !a.starts_with("--"))
        .collect();
    let layers = |layers| Llama {
        layers,
        ..Llama::B7
    };
    println!(
        "case | p | vertices | cost | bound | gap % | ms of one core (best of) | peak MB so far"
    );
    let show = |name: &str, graph: &dyn Fn() -> BoundGraph, devices: &[u32]| {
        if !wanted.is_empty() && !wanted.iter().any(|w| name.contains(w)) {
            return;
        }
        let graph = graph();
        for &p in devices {
            by_vectors(name, &graph, p);
        }
    };
    show("llama-7b", &|| layers(32).forward(), &[2, 8, 64, 1024]);
    show(
        "llama-100-layers",
        &|| layers(100).forward(),
        &[8, 64, 1024],
    );
    show(
        "llama-odd",
        &|| layers(32).forward(),
        &[3, 6, 7, 12, 24, 96, 97],
    );
    let small = Llama {
        tokens: 1000,
        heads: 20,
        head: 60,
        hidden: 3001,
        words: 5000,
        batch: 3,
        ..Llama::B7
    };
    show("llama-uneven", &|| small.forward(), &[8, 12, 13, 64]);
    show("training-2-layers", &|| layers(2).training(), &[8, 64]);
}

fn by_vectors(name: &str, graph: &BoundGraph, p: u32) {
    let (mut best, mut runs, mut total) = (Duration::MAX, 0, Duration::ZERO);
    let mut found = None;
    while runs == 0 || (runs < 10 && total < Duration::from_secs(3)) {
        let start = (processor_time(), Instant::now());
        let plan = communication::plan(graph, p, Algorithm::Exact).expect("a plan");
        let time = match (start.0, processor_time()) {
            (Some(from), Some(to)) => to - from,
            _ => start.1.elapsed(),
        };
        (best, runs, total) = (best.min(time), runs + 1, total + time);
        found = Some(plan.certificate);
    }
    let Some(found) = found else { return };
    let vertices = graph
        .nodes()
        .iter()
        .filter(|n| n.einsum().is_some())
        .count();
    let gap = (found.cost - found.bound) as f64 / found.bound.max(1) as f64 * 100.0;
    println!(
        "{name} | {p} | {vertices} | {} | {} | {gap:.2} | {:.1} ({runs}) | {}",
        found.cost,
        found.bound,
        best.as_secs_f64() * 1e3,
        peak().map_or("?".into(), |mb| mb.to_string()),
    );
}

/// Processor time of this thread so far.
fn processor_time() -> Option<Duration> {
    let stat = std::fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    let nanoseconds = stat.split_whitespace().next()?.parse().ok()?;
    Some(Duration::from_nanos(nanoseconds))
}

/// The most memory that this process has had resident, in MB, where the system tells.
fn peak() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find(|l| l.starts_with("VmHWM"))?;
    let kb: u64 = line.split_whitespace().nth(1)?.parse().ok()?;
    Some(kb / 1024)
}
