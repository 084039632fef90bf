//! Profiles: what statements did is counted from the program, whatever the plan.

use std::collections::BTreeMap;
use std::path::Path;

use eindecomp::cluster::Calibration;
use eindecomp::kernel::{Call, KernelResult};
use eindecomp::{Cluster, EinGraph, Profile, Program, Session, StatementProfile, ein};
use eindecomp_core::graph::Role;
use eindecomp_core::task::{BufferRole, TaskKind};
use eindecomp_runtime::{Data, Tensor};

ein! {
    #[kernel = doubles]
    extern fn doubled<dim N>(x: f32[N]) -> f32[N] splits(N);

    pub fn twice<dim N>(x: f32[N]) -> f32[N] {
        let d = doubled(x);
        let y[n] = d[n] + 1.0;
        y
    }
}

fn doubles(call: &mut Call<'_>) -> KernelResult {
    let x = call.input::<f32>(0)?;
    if let Some(y) = call.output::<f32>(0)? {
        (y.elements.iter_mut().zip(x.elements)).for_each(|(y, x)| *y = 2.0 * x);
    }
    Ok(())
}

/// Seven statements, none of which passes change.
const BLOCK: &str = "fn f(x: f32[8,16], y: f32[16,4], w: f64[8,4]) -> f64[8] {
    let a[i,k] = sum[j] x[i,j] * y[j,k];
    let b[i,k] = exp(a[i,k]) + 1.0;
    let c[i]   = max[k] b[i,k];
    let d[i,k] = if a[i,k] > 0.0 { a[i,k] } else { 0.5 * b[i,k] };
    let e[i,k] = d[i,k] as f64 / w[i,k];
    let g[i]   = sum[k] e[i,k];
    let h[i]   = g[i] * c[i] as f64;
    h
}";

/// Inputs of ones.
fn ones(graph: &EinGraph) -> BTreeMap<String, Tensor> {
    let bound = graph.bind(&Default::default()).expect("no dims");
    let data = bound.ids().filter(|(_, n)| n.role() == Some(Role::Data));
    let one = |shape: &[usize], zero: &Tensor| match zero.data() {
        Data::F32(v) => Tensor::new(shape.to_vec(), Data::F32(vec![1.0; v.len()])),
        Data::F64(v) => Tensor::new(shape.to_vec(), Data::F64(vec![1.0; v.len()])),
        Data::I64(v) => Tensor::new(shape.to_vec(), Data::I64(vec![1; v.len()])),
        other => panic!("{:?} is not used here", other.dtype()),
    };
    data.map(|(id, n)| {
        let shape = bound.shape(id);
        let tensor = one(shape, &Tensor::zeros(n.dtype, shape.to_vec()));
        (n.name.to_string(), tensor.expect("as many elements"))
    })
    .collect()
}

fn profiled(graph: &EinGraph, devices: u32, folder: &Path) -> (Program, Profile) {
    let session = Session::builder()
        .cluster(Cluster::cpus(devices))
        .workers(2)
        .cache_dir(folder)
        .stop_after("none")
        .build()
        .expect("a session");
    let program = session.compile_graph(graph.clone(), BTreeMap::new());
    let mut program = program.expect("a program");
    let profile = program.profile(&ones(graph)).expect("a run");
    (program, profile)
}

fn named<'p>(profile: &'p Profile, name: &str) -> &'p StatementProfile {
    let found = profile.statements.iter().find(|s| s.name == name);
    found.unwrap_or_else(|| panic!("no `{name}` in\n{profile}"))
}

pub fn graph(source: &str) -> EinGraph {
    EinGraph::from_text(source, "f", &Default::default()).unwrap_or_else(|e| panic!("{e}"))
}

#[test]
fn operations_and_bytes_are_those_of_the_statements() {
    let folder = tempfile::tempdir().expect("a folder");
    let (graph, points) = (graph(BLOCK), 8 * 4);
    let flops = [
        ("a", 2 * points * 16),
        // exp, +
        ("b", 2 * points),
        ("c", points),
        // >, *, if: both branches
        ("d", 3 * points),
        // as, /
        ("e", 2 * points),
        ("g", points),
        // as, *
        ("h", 2 * 8),
    ];
    for devices in [1, 2, 3, 4, 8] {
        let (program, profile) = profiled(&graph, devices, folder.path());
        assert_eq!(profile.statements.len(), 7, "{profile}");
        for (name, flops) in flops {
            let found = named(&profile, name);
            assert_eq!(found.flops, Some(flops), "{name} on {devices}\n{profile}");
            let tasks = program.tasks().tasks.iter();
            let calls = tasks.filter(|t| match &t.kind {
                TaskKind::Kernel { node, .. } => &*program.graph().node(*node).name == name,
                _ => false,
            });
            assert_eq!(found.calls, calls.count(), "{name} on {devices}");
        }
        let took: std::time::Duration = profile.statements.iter().map(|s| s.busy).sum();
        let sum = took + profile.moving + profile.idle;
        assert!(sum >= profile.wall, "{profile}");
        assert!(profile.statements.is_sorted_by(|a, b| a.busy >= b.busy));
    }
    let (_, alone) = profiled(&graph, 1, folder.path());
    let bytes = |name| (named(&alone, name).read, named(&alone, name).written);
    assert_eq!(bytes("a"), (4 * (8 * 16 + 16 * 4), 4 * points));
    assert_eq!(bytes("b"), (4 * points, 4 * points));
    assert_eq!(bytes("c"), (4 * points, 4 * 8));
    assert_eq!(bytes("e"), ((4 + 8) * points, 8 * points));
    assert_eq!(bytes("h"), ((8 + 4) * 8, 8 * 8));
}

/// Kernels that reduce a part write what they accumulated, which is folded.
#[test]
fn partial_results_are_bytes_too() {
    let source = "fn f(x: f32[1,64], y: f32[64,1]) -> f32[1,1] {
        let z[i,k] = sum[j] x[i,j] * y[j,k];
        z
    }";
    let folder = tempfile::tempdir().expect("a folder");
    let (_, profile) = profiled(&graph(source), 4, folder.path());
    let z = named(&profile, "z");
    assert_eq!(
        (z.calls, z.flops, z.read),
        (4, Some(128), 2 * 4 * 64),
        "{profile}"
    );
    assert_eq!(z.written, 4 * 4, "{profile}");
}

/// Of a store, what it writes: not the state's tile.
#[test]
fn a_store_in_place_does_as_much_as_its_window() {
    let source = "fn f(x: f32[2,4], pos: i64, #[state] cache: f32[64,4]) -> f32[64] {
        cache[pos + s, e] = x[s, e];
        let y[c] = sum[e] cache[c, e];
        y
    }";
    let folder = tempfile::tempdir().expect("a folder");
    let (program, profile) = profiled(&graph(source), 1, folder.path());
    let over = |b: &eindecomp_core::task::Buffer| matches!(b.role, BufferRole::Version(_));
    assert!(program.tasks().buffers.iter().any(over));
    let store = named(&profile, "cache");
    // two rows of four, a float each
    assert_eq!((store.calls, store.written), (1, 4 * 2 * 4), "{profile}");
    // at each point: >=, -, <, &&, if
    assert_eq!(store.flops, Some(5 * 2 * 4), "{profile}");
}

#[test]
fn nothing_is_known_of_an_opaque_kernel_but_its_bytes() {
    let folder = tempfile::tempdir().expect("a folder");
    let session = Session::builder().workers(1).cache_dir(folder.path());
    let session = session.stop_after("none").build().expect("a session");
    let mut model = session
        .compile(twice::graph(), twice::Dims { n: 6 })
        .expect("a program");
    let x = eindecomp::ndarray::Array::ones(6);
    let profile = model.profile(twice::Inputs { x }).expect("a run");
    let d = named(&profile, "d.doubled");
    assert_eq!((d.flops, d.rate(), d.read, d.written), (None, None, 24, 24));
    assert_eq!(named(&profile, "y").flops, Some(6));
}

#[test]
fn the_share_of_the_peak_is_of_what_was_measured() {
    let folder = tempfile::tempdir().expect("a folder");
    let graph = graph(BLOCK);
    let (_, without) = profiled(&graph, 2, folder.path());
    assert!(without.statements.iter().all(|s| s.peak.is_none()));
    assert!(!without.to_string().contains("of peak"), "{without}");

    let file = folder.path().join("machine.json");
    let mut machine = Calibration::nominal(2);
    machine.rates.f32.matmul = 50_000_000_000;
    machine.rates.f64.matmul = 20_000_000_000;
    std::fs::write(&file, machine.to_json()).expect("a folder");
    let (_, with) = profiled(&graph, 2, folder.path());
    assert!(with.to_string().contains("of peak"), "{with}");
    for s in &with.statements {
        // the slower of f32 and f64, where both are read
        let peak = match s.name.as_str() {
            "e" | "g" | "h" => 20_000_000_000,
            _ => 50_000_000_000,
        };
        assert_eq!(s.peak, Some(peak), "{}", s.name);
        let at_peak = s.share_of_peak().expect("a peak") * s.busy.as_secs_f64() * peak as f64;
        let flops = s.flops.expect("no opaque kernel") as f64;
        assert!((at_peak / flops - 1.0).abs() < 1e-6, "{with}");
    }

    std::fs::write(&file, "{}").expect("a folder");
    let session = Session::builder().cache_dir(folder.path()).build();
    let session = session.expect("a session that needs no figures");
    let program = session.compile_graph(graph.clone(), BTreeMap::new());
    let error = program.expect("a program").profile(&ones(&graph));
    let error = error.expect_err("no figures").to_string();
    assert!(error.contains("machine.json has no figures"), "{error}");
}

#[test]
fn a_table_has_the_first_five_and_the_memory() {
    let folder = tempfile::tempdir().expect("a folder");
    let graph = graph(BLOCK);
    let (program, profile) = profiled(&graph, 4, folder.path());
    let text = profile.to_string();
    let lines: Vec<&str> = text.lines().collect();
    let shown = |s: &&StatementProfile| text.contains(&format!("  {:<20} ", s.name));
    let shown: Vec<_> = profile.statements.iter().filter(shown).collect();
    assert_eq!(
        shown,
        profile.statements[..5].iter().collect::<Vec<_>>(),
        "{text}"
    );
    assert!(lines[7].ends_with("(2 others)"), "{text}");
    assert!(lines[9].ends_with("(idle)"), "{text}");
    assert!(lines[10].starts_with("device"), "{text}");

    let tasks = program.tasks();
    let arenas: Vec<u64> = profile.memory.iter().map(|m| m.arena).collect();
    assert_eq!(arenas, tasks.arenas);
    for m in &profile.memory {
        let own = tasks.buffers.iter().filter(|b| b.device == m.device);
        assert_eq!(m.buffers, own.map(|b| b.bytes()).sum::<u64>());
        assert!(m.peak >= m.arena && m.reuse() > 0.5, "{text}");
    }
    // a chain of statements needs two tensors of seven
    let source = "fn f(x: f32[64,64]) -> f32[64,64] {
        let a[i,j] = x[i,j] + 1.0; let b[i,j] = a[i,j] + 1.0; let c[i,j] = b[i,j] + 1.0;
        let d[i,j] = c[i,j] + 1.0; let e[i,j] = d[i,j] + 1.0; let g[i,j] = e[i,j] + 1.0;
        g
    }";
    let (_, chain) = profiled(&self::graph(source), 1, folder.path());
    assert_eq!(chain.memory.len(), 1);
    assert_eq!(chain.memory[0].reuse(), 3.5, "{chain}");
    // six rows are no longer than five and `1 other`
    assert!(!chain.to_string().contains("other"), "{chain}");
}
