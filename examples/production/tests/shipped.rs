//! The plans in `plans/` are enough for production.

use std::process::{Command, Output};

/// The program, with an empty folder of plans beside those that it carries.
fn run(mode: &str) -> Output {
    let none = std::env::temp_dir().join("there-is-no-such-folder-of-plans");
    Command::new(env!("CARGO_BIN_EXE_production"))
        .env("EINDECOMP_CACHE", none)
        .env("EINDECOMP_MODE", mode)
        .output()
        .unwrap()
}

#[test]
fn frozen_it_runs_to_its_end_with_the_plans_that_it_carries() {
    let Output {
        status,
        stdout,
        stderr,
    } = run("frozen");
    let (text, errors) = (
        String::from_utf8(stdout).unwrap(),
        String::from_utf8(stderr).unwrap(),
    );
    assert!(status.success(), "{text}{errors}");
    assert_eq!(text.matches("tokens: scores").count(), 3, "{text}");
    assert_eq!(text.matches("from the binary").count(), 2, "{text}");
}

#[test]
fn an_error_is_told_in_words() {
    let output = run("Frozen");
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(
        String::from_utf8(output.stderr).unwrap(),
        "Error: EINDECOMP_MODE: `Frozen` is no cache mode: they are `auto`, `record`, `frozen`, `verify` and `off`\n"
    );
}
