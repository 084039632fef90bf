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
mod expect;
mod runner;
#[path = "../support/mod.rs"]
mod support;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::{AtomicUsize, Ordering};

use cases::{Case, Work, caught};
use expect::Output;
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
    let runners = match runners() {
        Ok(runners) => runners,
        Err(e) => {
            eprintln!("{e}");
            return ExitCode::FAILURE;
        }
    };
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

/// Case files, those of this repository first.
fn files() -> Vec<PathBuf> {
    let own = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/cases");
    let folders = [
        Some(own),
        std::env::var_os("EINDECOMP_CASES").map(PathBuf::from),
    ];
    let mut files = Vec::new();
    for folder in folders.into_iter().flatten() {
        let entries =
            std::fs::read_dir(&folder).unwrap_or_else(|e| panic!("{}: {e}", folder.display()));
        let mut found: Vec<PathBuf> = entries.flatten().map(|e| e.path()).collect();
        found.sort();
        files.extend(found.into_iter().filter(|f| {
            let kinds = ["einsum_cases.jsonl", "ext_cases.jsonl", "bug_cases.jsonl"];
            kinds.iter().any(|k| f.to_string_lossy().ends_with(k))
        }));
    }
    files
}

/// Passed and all, per kind.
type Counts<'a> = BTreeMap<&'a str, (usize, usize)>;

/// Runs a case on every runner: prints what fails, and counts.
fn run<'a>(runners: &[Box<dyn Runner>], case: &'a Case, counts: &mut [Counts<'a>]) {
    let mut reference = None;
    for (runner, counts) in runners.iter().zip(counts) {
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

type Outputs = Result<Vec<Output>, String>;

/// Does the runner do what the case expects, and what the first runner did?
fn check(runner: &dyn Runner, work: &Work, first: &mut Option<Outputs>) -> Result<(), String> {
    match work {
        Work::Settled(result) => result.clone(),
        Work::Equal(left, right) => match runner.run(left)? == runner.run(right)? {
            true => Ok(()),
            false => Err("the two sides differ".into()),
        },
        Work::Run {
            program,
            expect,
            exact,
            may_error,
            partitions,
        } => {
            let got = runner.run(program);
            let first = first.get_or_insert_with(|| got.clone());
            let compare = |got: Outputs| match (got, &*first) {
                (Err(_), Err(_)) if *may_error => Ok(()),
                (Ok(_), Err(e)) => Err(format!("got a result, but the reference fails: {e}")),
                (got, first) => {
                    let got = got?;
                    let each = got.iter().zip(expect);
                    each.clone().try_for_each(|(got, want)| want.check(got))?;
                    match first {
                        Ok(first) if *exact => same(&got, first),
                        _ => Ok(()),
                    }
                }
            };
            compare(got)?;
            for parts in partitions {
                if let Some(got) = runner.run_partitioned(program, parts) {
                    compare(got).map_err(|e| format!("cut in {parts:?}: {e}"))?;
                }
            }
            Ok(())
        }
    }
}

/// Equal bits, but for the sign of zero and of NaN.
fn same(got: &[Output], want: &[Output]) -> Result<(), String> {
    let equal = |a: &f64, b: &f64| a == b || (a.is_nan() && b.is_nan());
    for (got, want) in got.iter().zip(want) {
        let differs = got
            .data
            .iter()
            .zip(&want.data)
            .position(|(a, b)| !equal(a, b));
        if let Some(n) = differs {
            let (got, want) = (got.data[n], want.data[n]);
            return Err(format!("[{n}]: got {got:e}, the reference {want:e}"));
        }
    }
    Ok(())
}
