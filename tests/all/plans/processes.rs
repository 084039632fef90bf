//! Other processes: the environment, and many that plan at once and are killed.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use eindecomp::{CacheMode, Cluster, Session};
use tempfile::tempdir;

use crate::plans::{DIMS, layer};

/// Set where this binary is run as a child: the number of devices to compile for, from there on.
const CHILD: &str = "EINDECOMP_TEST_CHILD";

/// Set where the child's session is told its folder, and mode `auto`.
const BUILDER: &str = "EINDECOMP_TEST_BUILDER";

/// This test again, in a process of its own.
fn child(devices: u32, folder: &Path) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command
        .args([
            "--exact",
            "plans::processes::the_child",
            "--nocapture",
            "--test-threads=1",
        ])
        .env(CHILD, devices.to_string())
        .env("EINDECOMP_CACHE", folder)
        .env_remove("EINDECOMP_MODE")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command
}

/// What a child does; nothing when all tests are run.
#[test]
fn the_child() {
    let Ok(devices) = std::env::var(CHILD) else {
        return;
    };
    let first: u32 = devices.parse().unwrap();
    let builder = || match std::env::var_os(BUILDER) {
        Some(folder) => Session::builder()
            .cache_dir(folder)
            .cache_mode(CacheMode::Auto),
        None => Session::builder(),
    };
    for devices in first..first + 4 {
        let session = builder().workers(1).cluster(Cluster::cpus(devices));
        let compiled = session
            .build()
            .and_then(|s| s.compile(layer::graph(), DIMS));
        match compiled {
            Ok(compiled) => {
                let report = compiled.program().report();
                println!("{devices}: {}", report.origin);
                report
                    .warnings
                    .iter()
                    .for_each(|warning| println!("{warning}"));
            }
            Err(error) => println!("{devices}: {error}"),
        }
    }
}

fn output(command: &mut Command) -> String {
    let output = command.output().unwrap();
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn the_environment_chooses_folder_and_mode() {
    let folder = tempdir().unwrap();
    let run = |mode: &str| output(child(2, folder.path()).env("EINDECOMP_MODE", mode));
    assert!(run("frozen").contains("2: there is no plan of all::plans::layer D=4 F=8 S=16 on cpus:2, and mode `frozen` makes none"));
    assert!(run("Frozen").contains("2: EINDECOMP_MODE: `Frozen` is no cache mode"));
    assert!(run("").contains("2: planned"));
    assert!(run("frozen").contains("2: from the plan cache"));
    assert!(run("off").contains("2: planned"));
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 4);
    // what the builder is told comes before
    let told = tempdir().unwrap();
    let mut builder = child(2, folder.path());
    builder
        .env("EINDECOMP_MODE", "frozen")
        .env(BUILDER, told.path());
    assert!(output(&mut builder).contains("2: planned"));
    assert_eq!(fs::read_dir(told.path()).unwrap().count(), 4);
    // nowhere to keep plans
    let homeless = || {
        let mut command = child(2, folder.path());
        for name in ["EINDECOMP_CACHE", "XDG_CACHE_HOME", "LOCALAPPDATA", "HOME"] {
            command.env_remove(name);
        }
        command
    };
    let nowhere = output(&mut homeless());
    assert!(nowhere.contains("2: planned\nthe plan is not kept: neither EINDECOMP_CACHE nor HOME"));
    // a home that is no folder
    let file = homeless().env("HOME", "/dev/null").output().unwrap();
    assert!(String::from_utf8_lossy(&file.stdout).contains("2: planned"));
    // a home, or a folder for caches, that is one
    for (name, below) in [
        ("HOME", ".cache/eindecomp"),
        ("XDG_CACHE_HOME", "eindecomp"),
    ] {
        let home = tempdir().unwrap();
        assert!(output(homeless().env(name, home.path())).contains("2: planned"));
        let plans = fs::read_dir(home.path().join(below)).unwrap();
        assert_eq!(plans.count(), 4, "{name}");
    }
    let record = output(homeless().env("EINDECOMP_MODE", "record"));
    assert!(record.contains("mode `record` needs a folder"), "{record}");
}

/// Files that take no more than some blocks stand for a disk that is full: a part of the entry is
/// written, the rest is refused.
#[cfg(unix)]
#[test]
fn a_full_disk_costs_a_warning_and_leaves_nothing() {
    let folder = tempdir().unwrap();
    let full = |mode: &str| {
        let whole = child(2, folder.path());
        let mut shell = Command::new("sh");
        let script = "trap '' XFSZ; ulimit -f 1; exec \"$@\"";
        shell.args(["-c", script, "sh"]).arg(whole.get_program());
        shell.args(whole.get_args());
        for (name, value) in whole.get_envs() {
            match value {
                Some(value) => shell.env(name, value),
                None => shell.env_remove(name),
            };
        }
        let output = shell.env("EINDECOMP_MODE", mode).output().unwrap();
        String::from_utf8(output.stdout).unwrap()
    };
    let auto = full("auto");
    assert_eq!(auto.matches("planned").count(), 4, "{auto}");
    let record = full("record");
    assert!(
        record.contains("2: the plan is not recorded: folder "),
        "{record}"
    );
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
    // room again
    let record = output(child(2, folder.path()).env("EINDECOMP_MODE", "record"));
    assert_eq!(record.matches("planned").count(), 4, "{record}");
    // and what tells git to leave them alone
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 5);
}

/// 64 processes plan the same and different keys at once, and are killed at random moments: every
/// entry is whole, and the next process reads it.
#[test]
fn processes_that_are_killed_leave_whole_entries() {
    let folder = tempdir().unwrap();
    let mut moment = 12345u64;
    let children = (0..64).map(|i| child(1 + i % 4, folder.path()).spawn().unwrap());
    let mut children: Vec<_> = children.collect();
    while !children.is_empty() {
        moment = moment
            .wrapping_mul(6364136223846793005)
            .wrapping_add(1442695040888963407);
        std::thread::sleep(Duration::from_micros(moment >> 50));
        let at = (moment >> 33) as usize % children.len();
        let mut child = children.swap_remove(at);
        child.kill().unwrap();
        child.wait().unwrap();
    }
    for devices in [1, 4] {
        let finished = output(&mut child(devices, folder.path()));
        assert_eq!(
            finished.matches("planned").count() + finished.matches("from the plan cache").count(),
            4
        );
    }
    let mut entries = 0;
    for file in fs::read_dir(folder.path()).unwrap() {
        let path = file.unwrap().path();
        if path.extension().is_some_and(|e| e == "json") {
            let text = fs::read(&path).unwrap();
            assert!(text.ends_with(b"}\n"), "{}", path.display());
            serde_json::from_slice::<serde_json::Value>(&text).unwrap();
            entries += 1;
        }
    }
    assert_eq!(entries, 7);
    // and all of them are good
    for devices in 1..8 {
        let session = Session::builder().workers(1).cache_dir(folder.path());
        let session = session
            .cluster(Cluster::cpus(devices))
            .cache_mode(CacheMode::Frozen);
        session
            .build()
            .unwrap()
            .compile(layer::graph(), DIMS)
            .unwrap();
    }
}
