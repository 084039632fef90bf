//! `cargo eindecomp` on the example that goes to production: its crate names the library otherwise.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use serde_json::Value;
use tempfile::tempdir;

/// The command with arguments, in the example's folder.
fn eindecomp(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_cargo-eindecomp"))
        .arg("eindecomp")
        .args(args)
        .current_dir(example())
        // It builds the example to ask for its blocks.
        .env("CARGO_PROFILE_DEV_OPT_LEVEL", "0")
        .output()
        .unwrap()
}

fn example() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/production")
}

/// Exit code and what was printed.
fn run(args: &[&str]) -> (i32, String) {
    let output = eindecomp(args);
    let text = String::from_utf8(output.stdout).unwrap();
    let errors = String::from_utf8(output.stderr).unwrap();
    (output.status.code().unwrap(), text + &errors)
}

fn json(args: &[&str]) -> Value {
    serde_json::from_slice(&eindecomp(args).stdout).unwrap()
}

/// The entries of a folder, beside which git is told to leave them alone.
fn files(folder: &Path) -> Vec<PathBuf> {
    let files = fs::read_dir(folder).unwrap().map(|f| f.unwrap().path());
    let (other, mut files): (Vec<_>, Vec<_>) =
        files.partition(|f| f.file_name().is_some_and(|name| name == ".gitattributes"));
    assert_eq!(other.len(), 1, "{other:?}");
    files.sort();
    files
}

#[test]
fn plans_are_made_checked_shown_compared_and_pruned() {
    let folder = tempdir().unwrap();
    let at = ["--folder", folder.path().to_str().unwrap()];
    let with = |args: &[&str]| run(&[args, &at].concat());

    let (code, text) = with(&["check"]);
    assert_eq!(code, 1, "{text}");
    assert!(
        text.contains("missing") && text.contains("production::score B=2 S=64 on cpus:4"),
        "{text}"
    );
    assert!(
        text.contains("2 plans needed; 0 ok, 2 missing, 0 stale, 0 dead"),
        "{text}"
    );
    // what is being built is said, beside the output
    assert!(
        text.contains("building `production` (--bin production) to ask it for its blocks"),
        "{text}"
    );

    let (code, text) = with(&["plan"]);
    assert_eq!(code, 0, "{text}");
    assert_eq!(
        (
            text.matches("planned in").count(),
            files(folder.path()).len()
        ),
        (2, 2),
        "{text}"
    );
    let before: Vec<_> = files(folder.path())
        .iter()
        .map(|f| fs::read(f).unwrap())
        .collect();
    let again = json(&[&["--json", "plan"][..], &at].concat());
    assert!(
        again
            .as_array()
            .unwrap()
            .iter()
            .all(|p| p["planned_seconds"].is_null())
    );
    assert_eq!(with(&["check"]).0, 0);

    // the same bytes when all is made again
    assert_eq!(with(&["plan", "--force", "--jobs", "1"]).0, 0);
    let after: Vec<_> = files(folder.path())
        .iter()
        .map(|f| fs::read(f).unwrap())
        .collect();
    assert_eq!(before, after);

    // one more than is needed, and one that is damaged
    let (code, text) = with(&["plan", "--dims", "B=1,S=16", "--cluster", "cpus:1"]);
    assert_eq!(code, 0, "{text}");
    let (code, text) = run(&["list", at[1]]);
    assert_eq!(code, 0, "{text}");
    for line in [
        " production::score B=1 S=16 on cpus:1: ",
        " production::score B=2 S=16 on cpus:4: ",
        "3 entries in ",
    ] {
        assert!(text.contains(line), "{line} in {text}");
    }
    assert!(!text.contains('%'), "{text}");
    // what the program records is what the command plans
    for entry in files(&example().join("plans")) {
        let planned = folder.path().join(entry.file_name().unwrap());
        assert_eq!(fs::read(&entry).unwrap(), fs::read(planned).unwrap());
    }
    // dead, and nothing else is wrong
    let (code, text) = with(&["check"]);
    assert_eq!(code, 4, "{text}");
    assert!(
        text.contains("production::score B=1 S=16 on cpus:1: nothing needs it")
            && text.contains("2 plans needed; 2 ok, 0 missing, 0 stale, 1 dead"),
        "{text}"
    );
    // with a choice, what is left out of it is not judged, nor what eindecomp.toml needs
    for (choice, code, says) in [
        (
            &["--dims", "B=1,S=16", "--cluster", "cpus:1"][..],
            0,
            "1 ok, 0 missing, 0 stale, 0 dead",
        ),
        // all but the dims as the file says
        (&["--dims", "B=2,S=16"], 0, "; not looked at: 2"),
        (&["--dims", "B=2,S=16", "--cluster", "cpus:2"], 1, "missing"),
        (&["--cluster", "cpus:4"], 0, "; not looked at: 1"),
        (&["--block", "production::score"], 4, "1 dead"),
    ] {
        let (got, text) = with(&[&["check"], choice].concat());
        assert_eq!(got, code, "{choice:?}: {text}");
        assert!(text.contains(says), "{choice:?}: {text}");
    }
    let keys: Vec<&str> = again
        .as_array()
        .unwrap()
        .iter()
        .map(|p| p["key"].as_str().unwrap())
        .collect();
    fs::write(folder.path().join(format!("{}.json", keys[0])), "damaged").unwrap();
    let (code, text) = with(&["check"]);
    assert_eq!(code, 1);
    assert!(text.contains("1 ok, 0 missing, 1 stale, 1 dead"), "{text}");
    let report = json(&[&["--json", "check"][..], &at].concat());
    let states = |state: &str| {
        let plans = report["plans"].as_array().unwrap().iter();
        let plans = plans.filter(|p| p["state"] == state).cloned();
        plans.collect::<Vec<_>>()
    };
    assert_eq!(states("ok").len(), 1, "{report}");
    let [stale] = &states("stale")[..] else {
        panic!("{report}");
    };
    assert_eq!(
        (&stale["key"], &stale["block"]),
        (&keys[0].into(), &"production::score".into())
    );
    assert_eq!(stale["why"], "it is no plan entry");
    let [dead] = &states("dead")[..] else {
        panic!("{report}");
    };
    assert_eq!(dead["dims"], serde_json::json!({ "B": 1, "S": 16 }));
    let summary = serde_json::json!({
        "needed": 2, "ok": 1, "missing": 0, "stale": 1, "dead": 1, "not_looked_at": 0
    });
    assert_eq!(report["summary"], summary);
    let (code, text) = with(&["prune", "--dry-run"]);
    assert_eq!((code, files(folder.path()).len()), (0, 3), "{text}");
    assert!(
        text.contains("1 stale and 1 dead entry would be removed from"),
        "{text}"
    );
    let dry = json(&[&["--json", "prune", "--dry-run"][..], &at].concat());
    assert_eq!(
        (&dry["removed"], dry["entries"].as_array().unwrap().len()),
        (&false.into(), 2)
    );
    let (code, text) = with(&["prune"]);
    assert_eq!((code, files(folder.path()).len()), (0, 1), "{text}");
    assert!(
        text.contains("1 stale and 1 dead entry removed from"),
        "{text}"
    );
    assert_eq!(with(&["plan"]).0, 0);
    assert_eq!(with(&["check"]).0, 0);
    // an entry for the same at another state of the passes
    let (code, text) = with(&["check", "--stop-after", "none"]);
    assert_eq!(code, 1, "{text}");
    let told = format!("on cpus:4: entry {} differs in graph", &keys[0][..12]);
    assert!(text.contains(&told), "{told} in {text}");

    let (code, text) = with(&["diff", keys[0], keys[1]]);
    assert_eq!(code, 1);
    assert!(
        text.contains("key: graph:")
            && text.contains("[2, 16, 32]")
            && text.contains("[2, 64, 32]"),
        "{text}"
    );
    assert_eq!(with(&["diff", keys[0], keys[0]]).0, 0);
    let differ = json(&[&["--json", "diff", keys[0], keys[1]][..], &at].concat());
    assert_eq!(differ["for"][1]["dims"]["S"], 64, "{differ}");
    assert_eq!(differ["key"][0]["part"], "graph", "{differ}");

    let (code, text) = with(&["explain", "--dims", "B=2,S=64", "--cluster", "cpus:4"]);
    assert_eq!(code, 0);
    assert!(
        text.contains("production::score B=2 S=64 on cpus:4 (in the folder"),
        "{text}"
    );

    let elsewhere = [
        "--json",
        "explain",
        "--dims",
        "B=2,S=64",
        "--cluster",
        "cpus:1",
    ];
    let explained = json(&[&elsewhere[..], &at].concat());
    assert_eq!(explained[0]["from"], "planned now", "{explained}");
    assert!(explained[0]["explain"]["rows"].is_array(), "{explained}");

    // an entry under the name of another one
    let path = |key: &str| folder.path().join(format!("{key}.json"));
    fs::copy(path(keys[1]), path(keys[0])).unwrap();
    fs::copy(path(keys[1]), path(&"0".repeat(64))).unwrap();
    let (code, text) = run(&["list", at[1]]);
    assert_eq!(code, 0, "{text}");
    let forged = format!("left out: it is the entry of another key, {}", keys[1]);
    assert_eq!(text.matches(&forged).count(), 2, "{text}");
    assert!(
        text.contains("1 entry in ") && text.contains(", 2 left out"),
        "{text}"
    );
    let (code, text) = with(&["check"]);
    assert_eq!(code, 1, "{text}");
    assert!(
        text.contains("stale   000000000000 it is the entry of another key"),
        "{text}"
    );
    let (_, text) = with(&["explain", "--dims", "B=2,S=16", "--cluster", "cpus:4"]);
    assert!(
        text.contains("planned now: the entry in the folder is stale: it is for another key"),
        "{text}"
    );
    let (code, text) = with(&["plan"]);
    assert_eq!(code, 0, "{text}");
    assert!(
        text.contains("in place of a stale entry (it is for another key"),
        "{text}"
    );

    // what cannot be removed is told, and all else is removed
    fs::create_dir(path(&"1".repeat(64))).unwrap();
    let (code, text) = with(&["prune"]);
    assert_eq!((code, files(folder.path()).len()), (3, 3), "{text}");
    assert!(text.contains("Is a directory"), "{text}");
}

#[test]
fn slips_are_told() {
    let cases: [(&[&str], i32, &str); 12] = [
        (
            &["plan", "--dims", "B=1"],
            2,
            "`production::score` needs a value of S",
        ),
        (
            &["plan", "--dims", "B=1,S=4,T=2"],
            2,
            "`production::score` has no dim `T`; did you mean",
        ),
        (&["plan", "--dims", "B=1,S"], 2, "`S` is no dim"),
        (&["plan", "--dims", "B=1,S=2,B=1"], 2, "`B` is given twice"),
        (
            &["plan", "--cluster", "cpus"],
            2,
            "there is no cluster `cpus`",
        ),
        (
            &["plan", "--block", "scor"],
            2,
            "there is no block `scor`: there are production::score; did you mean `score`?",
        ),
        (
            &["plan", "--package", "productio"],
            2,
            "choose one of the packages by --package",
        ),
        (
            &["diff", "ff", "ff", "--folder", "none"],
            3,
            "there is no folder none",
        ),
        (
            &["diff", "ff", "ff"],
            2,
            "no entry in plans starts with `ff`",
        ),
        (&["list", "none"], 3, "there is no folder none"),
        (
            &["prune", "--dims", "B=1,S=2"],
            2,
            "leave out --block, --dims and --cluster",
        ),
        (&["plant"], 2, "unrecognized subcommand"),
    ];
    for (args, code, says) in cases {
        let (got, text) = run(args);
        assert_eq!(got, code, "{args:?}: {text}");
        assert!(text.contains(says), "{args:?}: {text}");
    }
}

#[test]
fn a_crate_without_blocks_is_told_the_line_to_add() {
    let (code, text) = run(&["plan", "--dims", "B=1", "--package", "renamed-layers"]);
    assert_eq!(code, 3);
    assert!(
        text.contains("`renamed-layers` names no blocks (--lib; tests and examples are not asked")
            && text.contains("add a line `ed::blocks! { … }`"),
        "{text}"
    );
}

const INSTANCE: &str = r#"{"problem": {
    "nodes": {
        "intervals": [[0, 2], [1, 4]],
        "costs": [[4, 0], [3, 1]],
        "usages": [[1, 6], [2, 5]]
    },
    "edges": {"nodes": [[0, 1]], "costs": [[0, 9, 0, 0]]},
    "usage_limit": 8
}}"#;

const GRAPH: &str = r#"eingraph {
  %0 "x" = input f32[B, 4]
  %1 "w" = weight f32[4, 6]
  %2 "y" = sum[j=4; f32] %0[i, j] * %1[j, k] -> f32[i=B, k=6]
  output "y" = %2
}"#;

#[test]
fn problems_from_files_are_solved() {
    let folder = tempdir().unwrap();
    let file = |name: &str, text: &str| {
        let path = folder.path().join(name);
        fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_string()
    };
    let instance = file("instance.json", INSTANCE);
    let (code, text) = run(&["solve", &instance]);
    assert_eq!(code, 0, "{text}");
    assert!(text.contains("cost 3, bound 3, optimal"), "{text}");
    assert_eq!(text.lines().last(), Some("[1, 0]"), "{text}");
    let solved = json(&["--json", "solve", &instance, "--seconds", "5"]);
    assert_eq!(
        (&solved["cost"], &solved["assignment"], &solved["optimal"]),
        (&"3".into(), &vec![1, 0].into(), &true.into())
    );
    let none = file(
        "none.json",
        &INSTANCE.replace("\"usage_limit\": 8", "\"usage_limit\": 2"),
    );
    let (code, text) = run(&["solve", &none]);
    assert_eq!(code, 1, "{text}");
    assert!(text.contains("no assignment was found"), "{text}");

    let graph = file("graph.txt", GRAPH);
    let at: &[&str] = &["solve", &graph, "--dims", "B=8", "--cluster", "cpus:4"];
    let (code, text) = run(at);
    assert_eq!(code, 0, "{text}");
    assert!(
        text.contains("1 statement planned in ") && text.contains("cost 0, bound 0"),
        "{text}"
    );
    assert!(text.contains("plan by placed/2 for 4 devices"), "{text}");
    let solved = json(&[&["--json"], at, &["--objective", "communication"]].concat());
    assert!(solved["optimal"].as_bool().unwrap(), "{solved}");
    assert_ne!(solved["cost"], "0");
    assert!(solved["explain"].is_object(), "{solved}");

    let deep = file("deep.json", &"[".repeat(1 << 20));
    let twice: &[&str] = &["solve", &graph, "--dims", "B=8", "--dims", "B=16"];
    let cases: [(&[&str], i32, &str); 10] = [
        (&["solve", "none.txt"], 3, "none.txt: No such file"),
        (&["solve", &deep], 3, "it is no instance"),
        (&["solve", &graph], 2, "dim `B` is not bound"),
        (twice, 2, "`B` is given twice in --dims, as 8 and 16"),
        (
            &["solve", &graph, "--dims", "B=8,C=1"],
            2,
            "the graph has no dim `C`; did you mean `B`?",
        ),
        (
            &["solve", &graph, "--dims", "B=8", "--dims", "BATCH=1"],
            2,
            "the graph has no dim `BATCH`; there are B",
        ),
        (
            &["solve", &graph, "--seconds", "1"],
            2,
            "--seconds is for instances",
        ),
        (&["solve", &instance, "--dims", "B=1"], 2, "are for graphs"),
        (
            &["solve", &graph, "--dims", "B=8", "--cluster", "cpu:4"],
            2,
            "there is no cluster",
        ),
        (
            &["solve", &graph, "--objective", "speed"],
            2,
            "possible values",
        ),
    ];
    for (args, code, says) in cases {
        let (got, text) = run(args);
        assert_eq!(got, code, "{args:?}: {text}");
        assert!(text.contains(says), "{args:?}: {text}");
    }
}

#[test]
fn this_machine_is_measured_and_its_figures_are_kept() {
    let folder = tempdir().unwrap();
    let at = ["calibrate", "--folder", folder.path().to_str().unwrap()];
    let measured = json(&[&["--json"], &at[..]].concat());
    assert_eq!(measured["outcome"], "new", "{measured}");
    assert!(
        measured["figures"]["cores"].as_u64().unwrap() > 0,
        "{measured}"
    );
    assert!(folder.path().join("machine.json").exists());
    let (code, text) = run(&[
        "plan",
        "--cluster",
        "machine:2",
        "--dims",
        "B=1,S=8",
        "--folder",
        at[2],
    ]);
    assert_eq!(code, 0, "{text}");
    // a folder that cannot be
    let file = folder.path().join("machine.json/below");
    let (code, text) = run(&["calibrate", "--folder", file.to_str().unwrap()]);
    assert_eq!(code, 3, "{text}");
    assert!(text.contains("cannot be written"), "{text}");
}

#[test]
fn completions_and_help_are_printed() {
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let (code, text) = run(&["completions", shell]);
        assert_eq!(code, 0);
        for part in ["cargo-eindecomp", "calibrate", "solve", "objective"] {
            assert!(text.contains(part), "{part} in {text}");
        }
    }
    let (code, text) = run(&["--help"]);
    assert_eq!(code, 0);
    for part in [
        "eindecomp.toml",
        "Exit codes",
        "prune",
        "calibrate",
        "solve",
        "--json",
    ] {
        assert!(text.contains(part), "{part} in {text}");
    }
}

#[test]
fn a_reader_that_has_gone_changes_no_exit_code() {
    let folder = tempdir().unwrap();
    let none = folder.path().join("none.json");
    let impossible = INSTANCE.replace("\"usage_limit\": 8", "\"usage_limit\": 2");
    fs::write(&none, impossible).unwrap();
    let cases: [(&[&str], i32); 2] = [
        (&["completions", "bash"], 0),
        (&["solve", none.to_str().unwrap()], 1),
    ];
    for (args, code) in cases {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let child = Command::new(env!("CARGO_BIN_EXE_cargo-eindecomp"))
            .args(args)
            .stdout(writer)
            .stderr(Stdio::piped())
            .spawn();
        let output = child.unwrap().wait_with_output().unwrap();
        let errors = String::from_utf8_lossy(&output.stderr);
        assert_eq!(
            (output.status.code(), &*errors),
            (Some(code), ""),
            "{args:?}"
        );
    }
}
