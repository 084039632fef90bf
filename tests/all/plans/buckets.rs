//! One plan for many extents.

use std::fs;

use eindecomp::{Buckets, CacheMode, Compiled, Error};
use tempfile::tempdir;

use crate::plans::{DIMS, builder, layer, numbers, weights};

fn compiled(
    folder: &std::path::Path,
    buckets: Buckets,
    mode: CacheMode,
) -> Result<Compiled<layer::Model>, Error> {
    let session = builder(folder)
        .buckets("S", buckets)
        .cache_mode(mode)
        .build()?;
    session.compile(layer::graph(), DIMS)?.load(weights())
}

/// Results at every extent, and the number of entries that they took.
fn run(buckets: Buckets, extents: &[usize]) -> (Vec<ndarray::Array2<f32>>, usize) {
    let folder = tempdir().unwrap();
    let mut program = compiled(folder.path(), buckets, CacheMode::Auto).unwrap();
    let ys = extents
        .iter()
        .map(|&s| program.run(layer::Inputs { x: numbers(s, 4) }).unwrap().y);
    (ys.collect(), fs::read_dir(folder.path()).unwrap().count())
}

#[test]
fn runs_of_one_bucket_share_a_plan_and_have_the_same_results() {
    let extents = [16, 1, 2, 3, 9, 13, 15, 16];
    let (exact, plans) = run(Buckets::Exact, &extents);
    assert_eq!(plans, 7);
    let (list, plans) = run(Buckets::List(vec![16]), &extents);
    assert_eq!((&list, plans), (&exact, 1));
    // 1, 2, 4 and 16
    let (powers, plans) = run(Buckets::PowersOfTwo, &extents);
    assert_eq!((&powers, plans), (&exact, 4));
}

#[test]
fn a_bucket_that_breaks_a_clause_is_left_out() {
    // 128 > 100
    let (_, plans) = run(Buckets::PowersOfTwo, &[16, 70, 90]);
    assert_eq!(plans, 3);
}

#[test]
fn frozen_programs_run_at_all_extents_of_a_recorded_bucket() {
    let folder = tempdir().unwrap();
    compiled(folder.path(), Buckets::PowersOfTwo, CacheMode::Record).unwrap();
    let mut frozen = compiled(folder.path(), Buckets::PowersOfTwo, CacheMode::Frozen).unwrap();
    for s in 9..=16 {
        frozen.run(layer::Inputs { x: numbers(s, 4) }).unwrap();
        let planned = &frozen.program().report().dims;
        assert_eq!(planned["S"], 16);
    }
    let missing = frozen.run(layer::Inputs { x: numbers(8, 4) });
    assert!(matches!(missing, Err(Error::PlanMiss(_))));
    // the program is as it was
    frozen.run(layer::Inputs { x: numbers(12, 4) }).unwrap();
}
