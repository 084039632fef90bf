//! A cache folder that is garbage: a warning, a new plan, and the same results.

use std::fs;
use std::path::{Path, PathBuf};

use eindecomp::{Cluster, PlanOrigin, Session};
use tempfile::{TempDir, tempdir};
use tracing::Level;

use crate::bad_input::{dims, loaded, named, ramp, within};
use crate::support::config;
use crate::support::seen::seen;

fn session(folder: &Path, devices: u32) -> Session {
    Session::builder()
        .cluster(Cluster::cpus(devices))
        .workers(1)
        .cache_dir(folder)
        .build()
        .unwrap()
}

/// Compiles and runs: where the plan came from, and the number of warnings. Results are checked.
fn run(folder: &Path, devices: u32) -> (PlanOrigin, usize) {
    let ((origin, told, got), seen) = seen(|| {
        let mut program = loaded(&session(folder, devices));
        let report = program.report();
        let (origin, told) = (report.origin, report.warnings.len());
        // who has no subscriber is told by the report, and sees it in the table
        let table = program.explain().unwrap().to_string();
        assert_eq!(table.matches("\nwarning: ").count(), told, "{table}");
        let results = program.run(&named([("x", ramp(&[2, 3]))]));
        (origin, told, results.unwrap())
    });
    #[rustfmt::skip]
    let want = crate::bad_input::f32s(&[2, 4], [10.0, 8.0, 1.0, 4.0, 16.0, 3.0, 10.0, 17.0]);
    assert_eq!(got["y"], want);
    let warnings = seen.iter().filter(|(level, _)| *level == Level::WARN);
    let warnings = warnings.count();
    if origin != PlanOrigin::Memory {
        assert_eq!(told, warnings);
    }
    (origin, warnings)
}

/// The name and content of the entry for so many devices.
fn entry(devices: u32) -> (String, Vec<u8>) {
    let folder = tempdir().unwrap();
    assert_eq!(run(folder.path(), devices), (PlanOrigin::Planned, 0));
    let files: Vec<_> = fs::read_dir(folder.path())
        .unwrap()
        .map(|f| f.unwrap())
        .collect();
    assert_eq!(files.len(), 1);
    let name = files[0].file_name().into_string().unwrap();
    (name, fs::read(files[0].path()).unwrap())
}

/// A new folder with one file: this process knows no plan of it.
fn holding(name: &str, content: &[u8]) -> TempDir {
    let folder = tempdir().unwrap();
    fs::write(folder.path().join(name), content).unwrap();
    folder
}

/// The planner is asked, and says so; the next process finds a good entry.
fn replanned(name: &str, content: &[u8], what: &str) {
    let folder = holding(name, content);
    assert_eq!(run(folder.path(), 3), (PlanOrigin::Planned, 1), "{what}");
    let mended = fs::read(folder.path().join(name)).unwrap();
    let next = holding(name, &mended);
    assert_eq!(run(next.path(), 3), (PlanOrigin::Disk, 0), "{what}");
}

#[test]
fn garbage_is_planned_again() {
    within(|| {
        let (name, content) = entry(3);
        let (_, other) = entry(4);
        let text = String::from_utf8(content.clone()).unwrap();
        replanned(&name, b"", "empty");
        replanned(&name, b"garbage\xff\x00", "garbage");
        replanned(&name, &other, "entry of another key");
        replanned(&name, "[".repeat(1 << 20).as_bytes(), "deep");
        replanned(
            &name,
            "{\"plan\":".repeat(1 << 17).as_bytes(),
            "deep objects",
        );
        replanned(&name, &[b' '; 20 << 20], "20 MB of nothing");
        let huge = format!("{text}{}", " ".repeat(20 << 20));
        replanned(&name, huge.as_bytes(), "20 MB after a good entry");
        replanned(&name, format!("{text}{text}").as_bytes(), "twice");
        replanned(
            &name,
            text.replace("3", "4294967295").as_bytes(),
            "huge numbers",
        );
        replanned(
            &name,
            text.replace("3", "-1").as_bytes(),
            "negative numbers",
        );
        let holding = holding(&name, &content);
        assert_eq!(run(holding.path(), 3), (PlanOrigin::Disk, 0));
    });
}

#[test]
fn truncated_entries_are_planned_again() {
    within(|| {
        let (name, content) = entry(3);
        for part in 0..20 {
            replanned(&name, &content[..content.len() * part / 20], "truncated");
        }
    });
}

#[test]
fn flipped_bits_are_planned_again() {
    let flips = config(150).cases as usize;
    let (name, content) = within(|| entry(3));
    let bits = 8 * content.len();
    let sample: Vec<usize> = (0..bits).step_by((bits / flips).max(1)).collect();
    for bits in sample.chunks(100) {
        let (name, content, bits) = (name.clone(), content.clone(), bits.to_vec());
        within(move || {
            for bit in bits {
                let mut bytes = content.clone();
                bytes[bit / 8] ^= 1 << (bit % 8);
                let folder = holding(&name, &bytes);
                assert_eq!(run(folder.path(), 3), (PlanOrigin::Planned, 1), "bit {bit}");
            }
        });
    }
    println!("{} of {bits} bits flipped, each found", sample.len());
}

#[test]
fn folders_that_cannot_be_written_cost_a_warning() {
    within(|| {
        let folder = tempdir().unwrap();
        let file: PathBuf = folder.path().join("file");
        fs::write(&file, "kept").unwrap();
        for (devices, folder) in [(2, file.clone()), (2, file.join("below")), (3, "\0".into())] {
            let (origin, warnings) = run(&folder, devices);
            assert_eq!(origin, PlanOrigin::Planned, "{}", folder.display());
            assert!(warnings > 0, "{}", folder.display());
        }
        assert_eq!(fs::read(&file).unwrap(), b"kept");
    });
}

#[cfg(unix)]
#[test]
fn a_folder_that_is_read_only_costs_a_warning() {
    use std::os::unix::fs::PermissionsExt;
    within(|| {
        let folder = tempdir().unwrap();
        let at = folder.path();
        fs::set_permissions(at, fs::Permissions::from_mode(0o555)).unwrap();
        // a superuser may write all the same
        let writable = fs::write(at.join("probe"), "").is_ok();
        let expected = if writable { 0 } else { 1 };
        assert_eq!(run(at, 3), (PlanOrigin::Planned, expected));
        fs::set_permissions(at, fs::Permissions::from_mode(0o755)).unwrap();
    });
}

/// Not even a superuser makes files there.
#[cfg(target_os = "linux")]
#[test]
fn a_file_system_that_is_read_only_costs_a_warning() {
    within(|| {
        for folder in ["/proc", "/proc/self", "/proc/eindecomp/plans"] {
            assert_eq!(
                run(Path::new(folder), 3),
                (PlanOrigin::Planned, 1),
                "{folder}"
            );
        }
    });
}

#[test]
fn a_folder_full_of_other_things_is_left_as_it_is() {
    within(|| {
        let (name, content) = entry(3);
        let folder = tempdir().unwrap();
        for n in 0..2000 {
            fs::write(folder.path().join(format!("{n:064x}.json")), "garbage").unwrap();
        }
        fs::create_dir(folder.path().join("below")).unwrap();
        assert_eq!(run(folder.path(), 3), (PlanOrigin::Planned, 0));
        assert_eq!(fs::read(folder.path().join(&name)).unwrap(), content);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 2002);
        // a folder in the entry's place stays, too
        let folder = tempdir().unwrap();
        fs::create_dir(folder.path().join(&name)).unwrap();
        assert_eq!(run(folder.path(), 3), (PlanOrigin::Planned, 2));
        assert!(folder.path().join(&name).is_dir());
    });
}

#[test]
fn sessions_share_a_folder() {
    within(|| {
        let folder = tempdir().unwrap();
        std::thread::scope(|scope| {
            for n in 0..8u32 {
                let folder = folder.path();
                scope.spawn(move || {
                    for round in 0..4u32 {
                        let devices = 1 + (n + round) % 4;
                        run(folder, devices);
                        let mut program = session(folder, devices)
                            .compile_graph(
                                crate::bad_input::product(),
                                dims(&[("B", 1), ("K", 3), ("N", 4)]),
                            )
                            .unwrap();
                        program.load(named([("w", ramp(&[3, 4]))])).unwrap();
                        program.run(&named([("x", ramp(&[2, 3]))])).unwrap();
                    }
                });
            }
        });
        // one whole entry per number of devices and batch, and nothing else
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 8);
    });
}
