//! Case files, and what a runner must do with a case.

use std::path::{Path, PathBuf};

use crate::cases::Work;
use crate::expect::Output;
use crate::runner::Runner;

/// Case files, those of this repository first.
pub fn files() -> Vec<PathBuf> {
    let own = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/cases");
    let given = std::env::var_os("EINDECOMP_CASES").map(PathBuf::from);
    // a binary that was carried elsewhere has only those that it is given
    let own = Some(own).filter(|own| own.is_dir() || given.is_none());
    let folders = [own, given];
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

pub type Outputs = Result<Vec<Output>, String>;

/// Does the runner do what the case expects, and what the first runner did?
pub fn check(runner: &dyn Runner, work: &Work, first: &mut Option<Outputs>) -> Result<(), String> {
    match work {
        Work::Settled(result) => result.clone(),
        Work::Equal(sides) => match runner.run(&sides[0])? == runner.run(&sides[1])? {
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
