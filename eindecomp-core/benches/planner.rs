//! Plan times, gaps and memory of the planner, on one core.
//!
//! `cargo bench -p eindecomp-core --features testing --bench planner -- [CASE]... [P]...` runs the cases whose names
//! contain one of the arguments, or all of them, on each of the numbers of devices, or on all of the case. A time counts
//! everything from the bound graph to the solution: candidates, tables, search, check. It is the least elapsed time of several
//! runs, in one thread, and beside it their average processor time, where the system tells it: some count it in steps of
//! milliseconds, so that the least would say little. `placed-…` are whole plans by placed bytes, the others partition vectors by
//! `communication`.

use std::time::{Duration, Instant};

use eindecomp_core::graph::BoundGraph;
use eindecomp_core::plan::samples::Llama;
use eindecomp_core::plan::{Algorithm, Certificate, Cluster, PlanOptions, communication, plan};

fn main() {
    let arguments = std::env::args().skip(1).filter(|a| !a.starts_with("--"));
    let (numbers, wanted): (Vec<String>, Vec<String>) =
        arguments.partition(|a| a.parse::<u32>().is_ok());
    let layers = |layers| Llama {
        layers,
        ..Llama::B7
    };
    println!(
        "case | p | vertices | cost | bound | gap % | ms, least of runs | processor ms, average | peak MB | proved"
    );
    let show = |name: &str, graph: &dyn Fn() -> BoundGraph, devices: &[u32], make: Make| {
        if !wanted.is_empty() && !wanted.iter().any(|w| name.contains(w)) {
            return;
        }
        let graph = graph();
        let asked = |p: &&u32| numbers.is_empty() || numbers.contains(&p.to_string());
        for &p in devices.iter().filter(asked) {
            measure(name, &graph, p, make);
        }
    };
    let seven = || layers(32).forward();
    let hundred = || layers(100).forward();
    show("llama-7b", &seven, &[2, 8, 64, 1024], by_vectors);
    show("llama-100-layers", &hundred, &[8, 64, 1024], by_vectors);
    show("llama-odd", &seven, &[3, 6, 7, 12, 24, 96, 97], by_vectors);
    let small = Llama {
        tokens: 1000,
        heads: 20,
        head: 60,
        hidden: 3001,
        words: 5000,
        batch: 3,
        ..Llama::B7
    };
    show(
        "llama-uneven",
        &|| small.forward(),
        &[8, 12, 13, 64],
        by_vectors,
    );
    show(
        "training-2-layers",
        &|| layers(2).training(),
        &[8, 64],
        by_vectors,
    );
    show("placed-llama-7b", &seven, &[2, 4, 8, 16, 64, 1024], placed);
    show("placed-100-layers", &hundred, &[8, 64], placed);
    show("placed-odd", &seven, &[6, 7, 12, 24, 96, 97], placed);
}

/// Plans a graph for so many devices.
type Make = fn(&BoundGraph, u32) -> Certificate;

fn by_vectors(graph: &BoundGraph, p: u32) -> Certificate {
    let found = communication::plan(graph, p, Algorithm::Exact);
    found.expect("a plan").certificate
}

fn placed(graph: &BoundGraph, p: u32) -> Certificate {
    // memory is not what is measured
    let cluster = Cluster::cpus(p).with_capacity(1 << 40);
    let found = plan(graph, &cluster, &PlanOptions::default());
    found.expect("a plan").certificate
}

fn measure(name: &str, graph: &BoundGraph, p: u32, make: Make) {
    let (mut best, mut runs) = (Duration::MAX, 0);
    let mut found = None;
    forget_peak();
    let (start, processor) = (Instant::now(), processor_time());
    while runs == 0 || (runs < 20 && start.elapsed() < Duration::from_secs(3)) {
        let start = Instant::now();
        found = Some(make(graph, p));
        (best, runs) = (best.min(start.elapsed()), runs + 1);
    }
    let average = processor.zip(processor_time());
    let average = average.map(|(from, to)| (to - from).as_secs_f64() * 1e3 / f64::from(runs));
    let Some(found) = found else { return };
    let vertices = graph.nodes().iter().filter(|n| n.einsum().is_some());
    let gap = match found.cost {
        0 => 0.0,
        cost => (cost as f64 / found.bound as f64 - 1.0) * 100.0,
    };
    println!(
        "{name} | {p} | {} | {} | {} | {gap:.2} | {:.1} of {runs} | {} | {} | {found}",
        vertices.count(),
        found.cost,
        found.bound,
        best.as_secs_f64() * 1e3,
        average.map_or("?".into(), |ms| format!("{ms:.1}")),
        peak().map_or("?".into(), |mb| mb.to_string()),
    );
}

/// Processor time of this thread so far.
fn processor_time() -> Option<Duration> {
    let stat = std::fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    let nanoseconds = stat.split_whitespace().next()?.parse().ok()?;
    Some(Duration::from_nanos(nanoseconds))
}

/// Lets the peak of what is resident start anew, where the system can.
fn forget_peak() {
    let _ = std::fs::write("/proc/self/clear_refs", "5");
}

/// The most memory that this process has had resident since then, in MB, where the system tells.
fn peak() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find(|l| l.starts_with("VmHWM"))?;
    let kb: u64 = line.split_whitespace().nth(1)?.parse().ok()?;
    Some(kb / 1024)
}
