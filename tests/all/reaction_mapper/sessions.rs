//! The model in sessions: plans found on disk, inputs of other dims, outputs used again.

use std::path::Path;

use eindecomp::{Cluster, PlanOrigin, Session};
use tempfile::tempdir;

use super::model::albert;
use super::on_devices::{WEIGHTS, inputs};
use crate::support::seen::seen;

/// What `f` gives, and what it says of plans.
fn plans_seen<T>(f: impl FnOnce() -> T) -> (T, Vec<String>) {
    let (result, seen) = seen(f);
    let seen = seen.into_iter().map(|(_, text)| text);
    (
        result,
        seen.filter(|text| text.starts_with("plan")).collect(),
    )
}

const MADE: [&str; 2] = ["plan cache miss", "plan"];
const FOUND: [&str; 1] = ["plan cache hit"];

fn session(folder: &Path) -> Session {
    let builder = Session::builder().cluster(Cluster::cpus(3));
    builder.cache_dir(folder).build().unwrap()
}

#[test]
fn plans_are_found_on_disk_and_for_dims_seen_before() {
    let weights = || albert::Weights::from_safetensors(WEIGHTS).unwrap();
    let dims = albert::Dims { b: 1, s: 7 };
    let [short, long] = [
        &[12, 20, 21, 22, 20, 23, 13][..],
        &[12, 20, 21, 22, 24, 20, 22, 23, 13],
    ];
    let first = tempdir().unwrap();
    let compile = || session(first.path()).compile(albert::graph(), dims);
    let (model, seen) = plans_seen(compile);
    let model = model.unwrap();
    assert_eq!(model.program().report().origin, PlanOrigin::Planned);
    assert_eq!(seen, MADE);
    let mut model = model.load(weights()).unwrap();

    let (short_out, seen) = plans_seen(|| model.run(inputs(&[short])).unwrap());
    assert!(seen.is_empty(), "{seen:?}");
    let (long_out, seen) = plans_seen(|| model.run(inputs(&[long])).unwrap());
    assert_eq!(seen, MADE);
    assert_eq!(long_out.logits.dim(), (1, 9, 591));
    // a binding that is still there
    let (again, seen) = plans_seen(|| model.run(inputs(&[short])).unwrap());
    assert!(seen.is_empty(), "{seen:?}");
    assert_eq!(again.logits, short_out.logits);

    // a folder that this process has not seen is as good as another process
    let second = tempdir().unwrap();
    for file in std::fs::read_dir(first.path()).unwrap() {
        let file = file.unwrap();
        std::fs::copy(file.path(), second.path().join(file.file_name())).unwrap();
    }
    let compile = || session(second.path()).compile(albert::graph(), dims);
    let (model, seen) = plans_seen(compile);
    let model = model.unwrap();
    assert_eq!(model.program().report().origin, PlanOrigin::Disk);
    assert_eq!(seen, FOUND);
    let mut model = model.load(weights()).unwrap();
    let (out, seen) = plans_seen(|| model.run(inputs(&[long])).unwrap());
    assert_eq!(seen, FOUND);
    assert_eq!(model.program().report().origin, PlanOrigin::Disk);
    assert_eq!(
        (out.logits, out.attention),
        (long_out.logits, long_out.attention)
    );
}

#[test]
fn outputs_are_written_in_place() {
    let rows: [&[u32]; 2] = [&[12, 20, 21, 22, 13], &[12, 20, 13]];
    let mut model = Session::builder()
        .cluster(Cluster::cpus(2))
        .no_cache()
        .build()
        .unwrap()
        .compile(albert::graph(), albert::Dims { b: 2, s: 5 })
        .unwrap()
        .load(albert::Weights::from_safetensors(WEIGHTS).unwrap())
        .unwrap();
    let want = model.run(inputs(&rows)).unwrap();
    let mut out = want.clone();
    out.logits.fill(f32::NAN);
    out.attention.fill(f32::NAN);
    let places = (out.logits.as_ptr(), out.attention.as_ptr());
    model.run_into(inputs(&rows), &mut out).unwrap();
    assert_eq!(
        (&out.logits, &out.attention),
        (&want.logits, &want.attention)
    );
    assert_eq!((out.logits.as_ptr(), out.attention.as_ptr()), places);

    // arrays of another shape are refused by name
    let error = model.run_into(inputs(&rows[..1]), &mut out).unwrap_err();
    assert!(error.to_string().contains("logits"), "{error}");
}
