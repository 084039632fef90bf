//! Every conformance case (tests/data/cases), on the reference and on the runtime: any number of
//! devices, shared and private memory, forced partitions.
//!
//! `cargo test --test conformance -- es00 xg` runs the cases whose id contains one of the words.
//! EINDECOMP_CASES names a further folder, whose `*einsum_cases.jsonl`, `*ext_cases.jsonl` and
//! `*bug_cases.jsonl` are run too. It names every failing case with what it
//! got and wanted, and ends with the counts per kind on each runner, and cargo's line.

mod bugs;
mod build;
mod cases;
mod check;
mod expect;
mod gpu;
mod runner;
#[path = "../support/mod.rs"]
mod support;

use std::collections::BTreeMap;
use std::process::ExitCode;
use std::sync::atomic::{AtomicUsize, Ordering};

use cases::{Case, Work, caught};
use check::{check, files};
use runner::{Runner, runners};

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    if words.iter().any(|w| w == "--list") {
        return ExitCode::SUCCESS;
    }
    let mut cases = Vec::new();
    for file in files() {
        let text =
            std::fs::read_to_string(&file).unwrap_or_else(|e| panic!("{}: {e}", file.display()));
        cases.extend(cases::read(&text, &file.display().to_string()));
    }
    let words: Vec<&String> = words.iter().filter(|w| !w.starts_with('-')).collect();
    cases.retain(|c| words.is_empty() || words.iter().any(|w| c.id.contains(*w)));
    let mut runners = match runners() {
        Ok(runners) => runners,
        Err(e) => {
            eprintln!("{e}");
            return ExitCode::FAILURE;
        }
    };
    // kernels as C++, where not only GPUs are asked for
    let only = ["EINDECOMP_GPUS", "EINDECOMP_ORDERS"].map(std::env::var_os);
    let kernels = match only.iter().all(Option::is_none) {
        true => gpu::runners(&cases),
        false => Ok(Vec::new()),
    };
    match kernels {
        Ok(more) => runners.extend(more.into_iter().map(|r| Box::new(r) as Box<dyn Runner>)),
        Err(e) => {
            eprintln!("{e}");
            return ExitCode::FAILURE;
        }
    }
    // Case by case, on every core: each thread takes the next one.
    let next = AtomicUsize::new(0);
    let work = || {
        let mut counts = vec![Counts::new(); runners.len()];
        while let Some(case) = cases.get(next.fetch_add(1, Ordering::Relaxed)) {
            run(&runners, case, &mut counts);
        }
        counts
    };
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let parts: Vec<_> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        let parts = threads
            .into_iter()
            .map(|t| t.join().expect("faults are caught"));
        parts.collect()
    });
    let mut counts = vec![Counts::new(); runners.len()];
    for part in parts {
        for (counts, part) in counts.iter_mut().zip(part) {
            for (kind, (good, all)) in part {
                let count = counts.entry(kind).or_default();
                *count = (count.0 + good, count.1 + all);
            }
        }
    }
    let (mut passed, mut all) = (0, 0);
    for (runner, counts) in runners.iter().zip(&counts) {
        let line: Vec<String> = counts
            .iter()
            .map(|(kind, (good, all))| format!("{kind} {good}/{all}"))
            .collect();
        println!("conformance on {}: {}", runner.name(), line.join(", "));
        passed += counts.values().map(|c| c.0).sum::<usize>();
        all += counts.values().map(|c| c.1).sum::<usize>();
    }
    let failed = all - passed;
    let outcome = if failed == 0 { "ok" } else { "FAILED" };
    println!(
        "\ntest result: {outcome}. {passed} passed; {failed} failed; 0 ignored; 0 measured; 0 filtered out"
    );
    if failed == 0 {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

/// Passed and all, per kind.
type Counts<'a> = BTreeMap<&'a str, (usize, usize)>;

/// Runs a case on every runner: prints what fails, and counts.
fn run<'a>(runners: &[Box<dyn Runner>], case: &'a Case, counts: &mut [Counts<'a>]) {
    let mut reference = None;
    for (runner, counts) in runners.iter().zip(counts) {
        let programs: &[_] = match &case.work {
            Work::Run { program, .. } => std::slice::from_ref(&**program),
            Work::Equal(sides) => &sides[..],
            Work::Settled(_) => &[],
        };
        if !programs.iter().all(|p| runner.runs(p)) {
            continue;
        }
        let count = counts.entry(&case.kind).or_default();
        count.1 += 1;
        match caught(|| check(runner.as_ref(), &case.work, &mut reference)) {
            Ok(()) => count.0 += 1,
            // settled without a runner: said once
            Err(e) if matches!(case.work, Work::Settled(_)) => {
                if runner.name() == runners[0].name() {
                    println!("FAIL {} ({}): {e}", case.id, case.kind);
                }
            }
            Err(e) => println!("FAIL {} ({}) on {}: {e}", case.id, case.kind, runner.name()),
        }
    }
}
