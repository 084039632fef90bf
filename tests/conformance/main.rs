//! Every conformance case (tests/data/cases), on every runner.
//!
//! `cargo test --test conformance -- es00 xg` runs the cases whose id contains one of the words.
//! EINDECOMP_CASES names a further folder, whose `*einsum_cases.jsonl`, `*ext_cases.jsonl` and
//! `*bug_cases.jsonl` are run too. It ends with a line of counts per kind for each runner.

mod build;
mod cases;
mod expect;
mod runner;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use cases::{Case, Program, Work};
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
        cases.extend(cases::read(&text));
    }
    let words: Vec<&String> = words.iter().filter(|w| !w.starts_with('-')).collect();
    cases.retain(|c| words.is_empty() || words.iter().any(|w| c.id.contains(*w)));
    let mut failed = false;
    for runner in runners() {
        failed |= !report(runner.as_ref(), &cases);
    }
    if failed {
        ExitCode::FAILURE
    } else {
        ExitCode::SUCCESS
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

/// Runs every case, prints what fails and the line of counts. Did all pass?
fn report(runner: &dyn Runner, cases: &[Case]) -> bool {
    let mut counts: BTreeMap<&str, (usize, usize)> = BTreeMap::new();
    for case in cases {
        let count = counts.entry(&case.kind).or_default();
        count.1 += 1;
        match check(runner, &case.work) {
            Ok(()) => count.0 += 1,
            Err(e) => println!("FAIL {} ({}) on {}: {e}", case.id, case.kind, runner.name()),
        }
    }
    let line: Vec<String> = counts
        .iter()
        .map(|(kind, (good, all))| format!("{kind} {good}/{all}"))
        .collect();
    println!("conformance on {}: {}", runner.name(), line.join(", "));
    counts.values().all(|(good, all)| good == all)
}

fn check(runner: &dyn Runner, work: &Work) -> Result<(), String> {
    match work {
        Work::Settled(result) => result.clone(),
        Work::Equal(left, right) => match runner.run(left)? == runner.run(right)? {
            true => Ok(()),
            false => Err("the two sides differ".into()),
        },
        Work::Run {
            program,
            expect,
            may_error,
            partitions,
        } => {
            let compare = |got: Result<Vec<expect::Output>, String>| match got {
                Err(_) if *may_error => Ok(()),
                got => got?
                    .iter()
                    .zip(expect)
                    .try_for_each(|(got, want)| want.check(got)),
            };
            compare(runner.run(program))?;
            for partition in partitions {
                if let Some(got) = runner.run_partitioned(program, partition) {
                    compare(got).map_err(|e| format!("{partition:?}: {e}"))?;
                }
            }
            Ok(())
        }
    }
}
