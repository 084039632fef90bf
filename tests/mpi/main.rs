//! Programs on the ranks of MPI jobs, each against one process: started without a launcher, this program
//! starts itself under `mpirun` on 1, 2, 3, 4 and 8 ranks, well and with faults.
//!
//! `cargo test --features mpi --test mpi -- decode` runs the tests whose name contains the word.
#![allow(missing_docs, reason = "tests")]

#[path = "../conformance/bugs.rs"]
mod bugs;
#[path = "../conformance/build.rs"]
mod build;
#[path = "../conformance/cases.rs"]
mod cases;
#[path = "../conformance/check.rs"]
mod check;
#[path = "../conformance/expect.rs"]
mod expect;
mod faults;
mod launch;
mod programs;
#[path = "../conformance/runner.rs"]
#[allow(dead_code, reason = "only what runs on ranks is used")]
mod runner;
#[path = "../support/mod.rs"]
mod support;

use std::process::ExitCode;

use launch::{Test, launcher};

/// Names the test to a rank.
const TEST: &str = "EINDECOMP_MPI_TEST";

fn tests() -> Vec<Test> {
    let mut all = programs::tests();
    all.extend(faults::tests());
    all
}

fn main() -> ExitCode {
    let name = std::env::var(TEST).unwrap_or_default();
    if let Some(test) = tests().into_iter().find(|t| t.name == name) {
        (test.rank)();
        return ExitCode::SUCCESS;
    }
    let words: Vec<String> = std::env::args().skip(1).collect();
    if words.iter().any(|w| w == "--list") {
        return ExitCode::SUCCESS;
    }
    let Some(launcher) = launcher() else {
        println!("skipped: there is no mpirun here");
        return ExitCode::SUCCESS;
    };
    let words: Vec<&String> = words.iter().filter(|w| !w.starts_with('-')).collect();
    let (mut passed, mut failed) = (0, 0);
    for test in tests() {
        if !words.is_empty() && !words.iter().any(|w| test.name.contains(*w)) {
            continue;
        }
        for &ranks in test.ranks {
            let started = std::time::Instant::now();
            let outcome = launcher.run(&test, ranks);
            let seconds = started.elapsed().as_secs_f32();
            match outcome {
                Ok(()) => {
                    println!(
                        "test {} on {ranks} ranks ... ok ({seconds:.1} s)",
                        test.name
                    );
                    passed += 1;
                }
                Err(why) => {
                    println!("test {} on {ranks} ranks ... FAILED: {why}", test.name);
                    failed += 1;
                }
            }
        }
    }
    let outcome = if failed == 0 { "ok" } else { "FAILED" };
    println!("\ntest result: {outcome}. {passed} passed; {failed} failed; 0 ignored; 0 measured");
    match failed {
        0 => ExitCode::SUCCESS,
        _ => ExitCode::FAILURE,
    }
}
