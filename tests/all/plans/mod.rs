//! How sessions come to their plans: modes, buckets, plans in the binary, many processes.

mod buckets;
mod processes;

use std::path::Path;

use crate::support::seen::seen;
use eindecomp::{
    CacheMode, Cluster, EmbeddedPlans, Error, PlanOrigin, Session, SessionBuilder, ein,
    include_plans,
};
use ndarray::{Array1, Array2};
use tempfile::tempdir;

ein! {
    /// A feed-forward layer beside its input, without what its maximum over `S` is.
    pub fn layer<dim S, dim D, dim F>(x: f32[S, D], #[weight] up: f32[F, D], #[weight] down: f32[D, F]) -> f32[S, D]
    where S <= 100
    {
        let h[s, f] = relu(sum[d] x[s, d] * up[f, d]);
        let m[f] = max[s] h[s, f];
        let y[s, d] = x[s, d] + sum[f] (h[s, f] - m[f]) * down[d, f];
        y
    }
}

ein! {
    /// A block of several element types.
    pub fn total<dim N, T: Float>(x: T[N]) -> T[] { let y[] = sum[n] x[n]; y }
}

const DIMS: layer::Dims = layer::Dims { s: 16, d: 4, f: 8 };

fn builder(folder: &Path) -> SessionBuilder {
    Session::builder()
        .cluster(Cluster::cpus(4))
        .workers(1)
        .cache_dir(folder)
}

fn origin(session: SessionBuilder) -> Result<PlanOrigin, Error> {
    let compiled = session.build()?.compile(layer::graph(), DIMS)?;
    Ok(compiled.program().report().origin)
}

/// Whole numbers, so that sums are exact in any order.
fn numbers(rows: usize, columns: usize) -> Array2<f32> {
    let all = (0..rows * columns).map(|i| ((i * 7) % 11) as f32 - 5.0);
    Array1::from_iter(all)
        .into_shape_with_order((rows, columns))
        .unwrap()
}

fn weights() -> layer::Weights {
    layer::Weights {
        up: numbers(8, 4),
        down: numbers(4, 8),
    }
}

#[test]
fn recorded_plans_run_frozen_and_others_do_not() {
    let folder = tempdir().unwrap();
    let record = builder(folder.path()).cache_mode(CacheMode::Record);
    assert_eq!(origin(record).unwrap(), PlanOrigin::Planned);
    let frozen = || builder(folder.path()).cache_mode(CacheMode::Frozen);
    assert_eq!(origin(frozen()).unwrap(), PlanOrigin::Disk);
    let verify = builder(folder.path()).cache_mode(CacheMode::Verify);
    assert_eq!(origin(verify).unwrap(), PlanOrigin::Disk);
    let Err(Error::PlanMiss(miss)) = origin(frozen().cluster(Cluster::cpus(2))) else {
        panic!("there is no plan for two devices");
    };
    assert_eq!(miss.mode, CacheMode::Frozen);
    let parts: Vec<&str> = miss
        .nearest
        .iter()
        .flat_map(|n| &n.differences)
        .map(|d| &d.part[..])
        .collect();
    assert_eq!(parts, ["hierarchy per_server"]);
    // the graph's first different line names the dim
    let other = frozen()
        .build()
        .unwrap()
        .compile(layer::graph(), layer::Dims { s: 17, ..DIMS });
    let text = other.err().unwrap().to_string();
    assert!(
        text.contains("[17, 4]") && text.contains("[16, 4]"),
        "{text}"
    );
}

#[test]
fn entries_say_what_they_are_for() {
    let folder = tempdir().unwrap();
    let session = builder(folder.path()).build().unwrap();
    session.compile(layer::graph(), DIMS).unwrap();
    let dims = total::Dims { n: 8 };
    session.compile(total::graph::<f64>(), dims).unwrap();
    let graph = total::graph::<f32>().into_graph().unwrap();
    session
        .compile_graph(graph, [("N".into(), 4)].into())
        .unwrap();
    let line = |file: std::fs::DirEntry| {
        let text = std::fs::read_to_string(file.path()).unwrap();
        text.lines().nth(2).unwrap().to_string()
    };
    let files = std::fs::read_dir(folder.path()).unwrap();
    let mut lines: Vec<String> = files.map(|f| line(f.unwrap())).collect();
    lines.sort();
    let line = |block: &str, dims: &str| {
        format!(r#"  "for": {{"block": "{block}", "dims": {{{dims}}}, "cluster": "cpus:4"}},"#)
    };
    let expected = [
        line("(x) -> (y)", r#""N": 4"#),
        line("all::plans::layer", r#""D": 4, "F": 8, "S": 16"#),
        line("all::plans::total<f64>", r#""N": 8"#),
    ];
    assert_eq!(lines, expected);
}

/// The planner says when it begins, and a miss is told before it: a frozen program with its plans in the
/// binary meets neither, from the session to the result.
#[test]
fn frozen_programs_run_no_planner() {
    let folder = tempdir().unwrap();
    let run = |session: SessionBuilder| {
        let (y, seen) = seen(|| {
            let program = session.build().unwrap().compile(layer::graph(), DIMS);
            let mut program = program.unwrap().load(weights()).unwrap();
            program.run(layer::Inputs { x: numbers(16, 4) }).unwrap().y
        });
        let seen: Vec<String> = seen.into_iter().map(|(_, text)| text).collect();
        (y, seen)
    };
    let count = |seen: &[String], what: &str| seen.iter().filter(|s| *s == what).count();
    let (planned, seen) = run(builder(folder.path()).cache_mode(CacheMode::Record));
    assert_eq!(
        (count(&seen, "plan"), count(&seen, "plan cache miss")),
        (1, 1)
    );

    let files = std::fs::read_dir(folder.path()).unwrap();
    let mut files = files.map(|f| f.unwrap().path());
    let file = files.find(|f| f.extension().is_some_and(|e| e == "json"));
    let file = file.unwrap();
    let hash: &str = file
        .file_stem()
        .unwrap()
        .to_str()
        .unwrap()
        .to_string()
        .leak();
    let text: &[u8] = std::fs::read(&file).unwrap().leak();
    let plans = EmbeddedPlans::new("plans", vec![(hash, text)].leak());
    let none = folder.path().join("none");
    let frozen = builder(&none).plans(plans).cache_mode(CacheMode::Frozen);
    let (frozen, seen) = run(frozen);
    assert_eq!(frozen, planned);
    assert_eq!(
        (count(&seen, "plan"), count(&seen, "plan cache miss")),
        (0, 0)
    );
    assert_eq!(
        (count(&seen, "plan cache hit"), count(&seen, "lower")),
        (1, 1)
    );
    assert!(!none.exists());
}

#[test]
fn a_folder_of_plans_is_carried_in_the_binary() {
    let plans = include_plans!("tests/data/plans");
    assert_eq!((plans.len(), plans.is_empty()), (1, false));
    let folder = tempdir().unwrap();
    let session = || builder(folder.path()).plans(plans);
    let miss = origin(session().cache_mode(CacheMode::Frozen))
        .unwrap_err()
        .to_string();
    assert!(
        miss.contains("in the plans that the binary carries (folder `tests/data/plans`, 1 when it was built) or /"),
        "{miss}"
    );
    assert_eq!(origin(session()).unwrap(), PlanOrigin::Planned);
}
