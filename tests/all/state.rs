//! States and stores: KV caches, rings, and what a run does that cannot store.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::support::{comparable, to_reference, to_runtime};
use eindecomp::{Cluster, EinGraph, MemoryMode, Session};
use eindecomp_core::ein::{DType, Value};
use eindecomp_core::plan::testing::random_plan;
use eindecomp_core::reference::{self, RefTensor};
use eindecomp_core::task::lower::lower;
use eindecomp_core::task::verify::verify;
use eindecomp_runtime::{Executor, Tensor, Workers};
use proptest::prelude::*;

type Inputs = BTreeMap<Arc<str>, RefTensor>;

fn graph(source: &str) -> EinGraph {
    EinGraph::from_text(source, "f", &Default::default()).unwrap_or_else(|e| panic!("{e}"))
}

fn dims(of: &[(&str, i64)]) -> BTreeMap<Arc<str>, i64> {
    of.iter().map(|&(name, n)| (name.into(), n)).collect()
}

/// Whole numbers from −8 to 8.
fn numbers(seed: u64, dtype: DType, shape: &[usize]) -> RefTensor {
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    let mut next = || {
        state = state
            .wrapping_mul(6364136223846793005)
            .wrapping_add(1442695040888963407);
        Value::Int((state >> 33) as i64 % 17 - 8)
    };
    let data = (0..shape.iter().product()).map(|_| next()).collect();
    RefTensor::new(dtype, shape.to_vec(), data).expect("as many numbers as the shape has")
}

fn scalar(dtype: DType, n: i64) -> RefTensor {
    RefTensor::from_i64(dtype, vec![], &[n]).expect("one number")
}

fn runtime(inputs: &Inputs) -> BTreeMap<String, Tensor> {
    inputs
        .iter()
        .map(|(n, t)| (n.to_string(), to_runtime(t)))
        .collect()
}

const MODES: [MemoryMode; 3] = MemoryMode::ALL;
const DEVICES: [u32; 5] = [1, 2, 3, 4, 8];

/// Runs the steps on sessions of several devices and in both memory modes, and on the reference:
/// results, states and errors agree, and the planned bytes move.
fn check(source: &str, at: &[(&str, i64)], steps: &[Inputs]) {
    let graph = graph(source);
    for devices in DEVICES {
        for mode in MODES {
            let session = Session::builder()
                .cluster(Cluster::cpus(devices))
                .memory(mode)
                .workers(2)
                .no_cache()
                .build()
                .expect("a session");
            let mut program = session
                .compile_graph(graph.clone(), dims(at))
                .expect("a program");
            let bound = graph.bind(&dims(at)).expect("dims that fit");
            let mut states = Inputs::new();
            for (n, step) in steps.iter().enumerate() {
                let want = reference::step(&bound, step, &mut states);
                let got = program.run(&runtime(step));
                let context = format!("step {n} on {devices} devices, {mode:?}\n{}", bound.graph());
                match (want, got) {
                    (Ok(want), Ok(mut got)) => {
                        let names = bound.outputs().iter().map(|o| got.remove(&*o.name));
                        let got = names.map(|t| to_reference(&t.expect("a result"))).collect();
                        assert_eq!(comparable(got), comparable(want), "{context}");
                        let moved = program.trace().traffic.moved().total();
                        assert_eq!(u128::from(moved), program.plan().moved_bytes, "{context}");
                    }
                    (Err(want), Err(got)) => {
                        let text = got.to_string();
                        if let reference::RefError::StoreOutOfRange {
                            statement,
                            axis,
                            value,
                            ..
                        } = want
                        {
                            assert!(text.contains(&*statement), "{text}");
                            let place = format!("position {value} is outside axis {axis}");
                            assert!(text.contains(&place), "{text}");
                        }
                    }
                    (want, got) => panic!("reference {want:?}, run {got:?}, {context}"),
                }
                let now: Inputs = program
                    .state()
                    .expect("states")
                    .iter()
                    .map(|(name, t)| (name.as_str().into(), to_reference(t)))
                    .collect();
                if !states.is_empty() {
                    assert_eq!(now, states, "{context}");
                }
            }
        }
    }
}

pub const CACHE: &str =
    "fn f<dim B, dim C, dim S, dim E>(x: f32[B, S, E], pos: i64, #[state] kc: f32[B, C, E])
    -> (f32[B, E], f32[B, C, E])
{
    kc[b, pos + s, e] = 2.0 * x[b, s, e];
    let y[b, e] = sum[c] kc[b, c, e];
    (y, kc)
}";

fn cache_step(seed: u64, pos: i64, shape: &[usize]) -> Inputs {
    Inputs::from([
        ("x".into(), numbers(seed, DType::F32, shape)),
        ("pos".into(), scalar(DType::I64, pos)),
    ])
}

#[test]
fn a_store_stays_for_the_next_run() {
    let steps: Vec<Inputs> = [0, 2, 5, 1, 6]
        .into_iter()
        .map(|pos: i64| cache_step(pos.unsigned_abs() + 1, pos, &[2, 2, 4]))
        .collect();
    check(CACHE, &[("B", 2), ("C", 8), ("S", 2), ("E", 4)], &steps);
}

#[test]
fn a_position_outside_is_an_error_of_the_run_and_changes_nothing() {
    let steps: Vec<Inputs> = [3, 8, 0, 7, -1, i64::MIN, i64::MAX, 6]
        .into_iter()
        .map(|pos| cache_step(9, pos, &[2, 2, 4]))
        .collect();
    check(CACHE, &[("B", 2), ("C", 8), ("S", 2), ("E", 4)], &steps);
}

pub const RING: &str =
    "fn f<dim C, dim S, dim E>(x: f32[S, E], pos: i64, #[state] ring: f32[C, E]) -> f32[C, E]
    where S <= C
{
    ring[(pos + s) % C, e] = x[s, e];
    let y[c, e] = 3.0 * ring[c, e];
    y
}";

#[test]
fn a_ring_goes_round() {
    let steps: Vec<Inputs> = [0, 3, 6, 9, -2, 1_000_000_007]
        .into_iter()
        .map(|pos: i64| cache_step(pos.unsigned_abs() + 3, pos, &[3, 4]))
        .collect();
    check(RING, &[("C", 5), ("S", 3), ("E", 4)], &steps);
}

#[test]
fn a_ring_may_be_as_long_as_a_product() {
    let source =
        "fn f<dim B, dim S>(x: f32[S, 2], pos: i64, #[state] ring: f32[2 * B, 2]) -> f32[2 * B, 2] where S <= 2 * B {
        ring[(pos + s) % (2 * B), e] = x[s, e];
        ring
    }";
    check(source, &[("B", 3), ("S", 4)], &steps(&[4, 2], &[0, 4, -7]));
}

/// What was read before a store is the old version, also behind it; a second store goes on from the
/// first; a state that is only read stays.
pub const VERSIONS: &str = "fn f<dim C, dim S, dim E>(x: f32[S, E], pos: i64, #[state] a: f32[C, E], #[state] b: f32[C, E])
    -> (f32[C, E], f32[C, E], f32[C, E]) where C >= 1
{
    let before = a;
    a[pos + s, e] = x[s, e];
    let y[c, e] = a[c, e] - before[c, e];
    a[0, e] = a[0, e] + 1.0;
    let z[c, e] = a[c, e] + b[c, e];
    (y, z, before)
}";

#[test]
fn versions_are_values() {
    let steps: Vec<Inputs> = [0, 3, 1]
        .into_iter()
        .map(|pos: i64| cache_step(pos.unsigned_abs() + 5, pos, &[2, 4]))
        .collect();
    check(VERSIONS, &[("C", 5), ("S", 2), ("E", 4)], &steps);
}

/// Steps of the same shapes: `x` and a position.
fn steps(shape: &[usize], positions: &[i64]) -> Vec<Inputs> {
    let step = |&pos: &i64| cache_step(pos.unsigned_abs() + 11, pos, shape);
    positions.iter().map(step).collect()
}

/// What is stored comes from elements beside those that it is stored into: nothing may be
/// overwritten before it is read.
#[test]
fn a_line_moves_by_one() {
    let source = "fn f<dim N>(x: f32[1], pos: i64, #[state] line: f32[N]) -> (f32, f32[N]) {
        line[i] = if i >= 1 { line[i - 1] } else { x[0] };
        line[i] = line[i] + pos as f32;
        let y[] = sum[i] line[i] * line[i];
        (y, line)
    }";
    check(source, &[("N", 9)], &steps(&[1], &[1, 2, 0]));
}

#[test]
fn constant_positions_diagonals_and_transposes() {
    let source =
        "fn f<dim N>(x: f32[N, N], pos: i64, #[state] s: f32[2, N, N]) -> f32[N] where N >= 1 {
        s[0, i, j] = x[j, i];
        s[1, i, i] = x[i, 0] + pos as f32;
        let y[i] = sum[j] (s[0, i, j] + s[1, i, j]);
        y
    }";
    check(source, &[("N", 5)], &steps(&[5, 5], &[3, 1]));
}

#[test]
fn states_of_structs_and_arrays_go_through_calls_and_loops() {
    let source = "struct Cache<dim C> { k: f32[C, 2], v: f32[C, 2] }
        fn put<dim C>(#[state] k: f32[C, 2], x: f32[2], pos: i64) -> f32[2] {
            k[pos, e] = x[e];
            let y[e] = sum[c] k[c, e];
            y
        }
        fn layer<dim C>(#[state] c: Cache<C>, x: f32[2], pos: i64) -> f32[2] {
            let k = put(c.k, x, pos);
            c.v[pos, e] = 1.0 - x[e];
            let y[e] = k[e] + sum[t] c.k[t, e] * c.v[t, e];
            y
        }
        fn f<dim C>(x: f32[2], pos: i64, #[state] a: [Cache<C>; 2], #[state] b: [Cache<C>; 2]) -> f32[2] {
            let mut x = x;
            for (c, d) in (a, b) {
                x = layer(c, x, pos);
                let y = put(d.k, x, pos);
                d.v[pos, e] = y[e];
            }
            x
        }";
    check(source, &[("C", 4)], &steps(&[2], &[3, 0, 3]));
}

/// What is stored in a loop is a state behind it too. Each version is made of all of the one
/// before, and takes its place without reading it there.
#[test]
fn a_state_is_summed_into_itself() {
    let source = "fn f<dim N>(x: f32[2], pos: i64, #[state] s: f32[N]) -> f32[N] where N >= 3 {
        s[pos] = x[0];
        for n in 0 .. 2 {
            s[i] = 1.0 + sum[j in N] s[j];
            s[n] = x[1] + s[2];
        }
        s[0 + i] = s[i] * 2.0;
        s
    }";
    check(source, &[("N", 4)], &steps(&[2], &[1, 3]));
}

proptest! {
    #![proptest_config(crate::support::config(60))]

    /// Any placement, also those where a version cannot take the place of the one before.
    #[test]
    fn any_placement_stores_as_the_reference(
        seed: u64,
        devices in 1..9u32,
        private: bool,
        which in 0..3usize,
        offsets in prop::collection::vec(-2..9i64, 1..4),
    ) {
        let source = [CACHE, RING, VERSIONS][which];
        let shape: &[usize] = if which == 0 { &[2, 2, 4] } else { &[2, 4] };
        let at = [("B", 2), ("C", 6), ("S", 2), ("E", 4)];
        let at = if which == 0 { &at[..] } else { &at[1..] };
        let bound = Arc::new(graph(source).bind(&dims(at)).expect("dims that fit"));
        let plan = random_plan(&bound, devices, seed);
        let tasks = lower(&bound, &plan).expect("tasks");
        verify(&bound, &plan, &tasks).expect("sound tasks");
        let mode = MODES[usize::from(private)];
        let workers = Arc::new(Workers::new(2).expect("workers"));
        let mut executor =
            Executor::new(bound.clone(), Arc::new(tasks), workers, mode).expect("an executor");
        let mut states = Inputs::new();
        for (n, pos) in offsets.into_iter().enumerate() {
            let step = cache_step(seed ^ n as u64, pos, shape);
            let want = reference::step(&bound, &step, &mut states);
            match (want, executor.run(&runtime(&step), false)) {
                (Ok(want), Ok((got, trace))) => {
                    let got = comparable(got.iter().map(to_reference).collect());
                    prop_assert_eq!(got, comparable(want));
                    let moved = u128::from(trace.traffic.moved().total());
                    prop_assert_eq!(moved, plan.moved_bytes);
                    for (name, state) in executor.states() {
                        prop_assert_eq!(&to_reference(&state), &states[&*name]);
                    }
                }
                (Err(_), Err(_)) => break,
                (want, got) => panic!("reference {want:?}, run {got:?}"),
            }
        }
    }
}

/// A decoder of two layers, and the same without caches.
const DECODER: &str = "
struct Layer<dim D, dim N, dim G, dim E, dim F> {
    wq: f32[N, G, E, D], wk: f32[N, E, D], wv: f32[N, E, D], wo: f32[D, N, G, E], up: f32[F, D], down: f32[D, F],
}
struct Cache<dim B, dim C, dim N, dim E> { k: f32[B, C, N, E], v: f32[B, C, N, E] }
fn rope<dim B, dim S, dim H, dim E, dim P>(
    x: f32[B, S, H, E], cs: f32[P, E / 2], sn: f32[P, E / 2], pos: i64
) -> f32[B, S, H, E] where E % 2 == 0 {
    let y[b, s, h, (i in E / 2, c in 2)] = x[b, s, h, 2 * i + c] * cs[pos + s, i]
        + (if c == 0 { -1.0 } else { 1.0 }) * x[b, s, h, 2 * i + 1 - c] * sn[pos + s, i];
    y
}
fn mix<dim B, dim S, dim T, dim D, dim N, dim G, dim E, dim F>(
    x: f32[B, S, D], q: f32[B, S, N * G, E], k: f32[B, T, N, E], v: f32[B, T, N, E], l: Layer<D, N, G, E, F>, pos: i64
) -> f32[B, S, D] {
    let a[b, n, g, s, t] = if t <= pos + s {
        (sum[e] q[b, s, (n, g), e] * k[b, t, n, e]) * rsqrt(E as f32)
    } else { -inf };
    let m[b, n, g, s] = max[t] a[b, n, g, s, t];
    let p[b, n, g, s, t] = exp(a[b, n, g, s, t] - m[b, n, g, s]);
    let z[b, n, g, s] = sum[t] p[b, n, g, s, t];
    let o[b, s, n, g, e] = (sum[t] p[b, n, g, s, t] * v[b, t, n, e]) / z[b, n, g, s];
    let h[b, s, d] = x[b, s, d] + sum[n, g, e] o[b, s, n, g, e] * l.wo[d, n, g, e];
    let u[b, s, f] = silu(sum[d] h[b, s, d] * l.up[f, d]);
    let y[b, s, d] = h[b, s, d] + sum[f] u[b, s, f] * l.down[d, f];
    y
}
fn cached<dim B, dim S, dim C, dim D, dim N, dim G, dim E, dim F, dim P>(
    x: f32[B, S, D], l: Layer<D, N, G, E, F>, #[state] c: Cache<B, C, N, E>,
    cs: f32[P, E / 2], sn: f32[P, E / 2], pos: i64
) -> f32[B, S, D] where E % 2 == 0 {
    let q0[b, s, (n, g), e] = sum[d] x[b, s, d] * l.wq[n, g, e, d];
    let q = rope(q0, cs, sn, pos);
    let k0[b, s, n, e] = sum[d] x[b, s, d] * l.wk[n, e, d];
    let k = rope(k0, cs, sn, pos);
    c.k[b, pos + s, n, e] = k[b, s, n, e];
    c.v[b, pos + s, n, e] = sum[d] x[b, s, d] * l.wv[n, e, d];
    let keys = c.k;
    let values = c.v;
    let y = mix(x, q, keys, values, l, pos);
    y
}
fn f<dim B, dim S, dim C, dim D, dim N, dim G, dim E, dim F, dim P>(
    x: f32[B, S, D], #[weight] layers: [Layer<D, N, G, E, F>; 2], #[state] caches: [Cache<B, C, N, E>; 2],
    #[weight] cs: f32[P, E / 2], #[weight] sn: f32[P, E / 2], pos: i64
) -> f32[B, S, D] where E % 2 == 0 {
    let mut x = x;
    for (l, c) in (layers, caches) { x = cached(x, l, c, cs, sn, pos); }
    x
}
fn full<dim B, dim S, dim D, dim N, dim G, dim E, dim F, dim P>(
    x: f32[B, S, D], #[weight] layers: [Layer<D, N, G, E, F>; 2],
    #[weight] cs: f32[P, E / 2], #[weight] sn: f32[P, E / 2], pos: i64
) -> f32[B, S, D] where E % 2 == 0 {
    let mut x = x;
    for l in layers { x = plain(x, l, cs, sn, pos); }
    x
}
fn plain<dim B, dim S, dim D, dim N, dim G, dim E, dim F, dim P>(
    x: f32[B, S, D], l: Layer<D, N, G, E, F>, cs: f32[P, E / 2], sn: f32[P, E / 2], pos: i64
) -> f32[B, S, D] where E % 2 == 0 {
    let q0[b, s, (n, g), e] = sum[d] x[b, s, d] * l.wq[n, g, e, d];
    let q = rope(q0, cs, sn, pos);
    let k0[b, s, n, e] = sum[d] x[b, s, d] * l.wk[n, e, d];
    let k = rope(k0, cs, sn, pos);
    let v[b, s, n, e] = sum[d] x[b, s, d] * l.wv[n, e, d];
    let y = mix(x, q, k, v, l, pos);
    y
}";

/// How many `plan` spans are opened while `f` runs on this thread.
fn plans<T>(f: impl FnOnce() -> T) -> (T, usize) {
    let (result, seen) = crate::support::seen::seen(f);
    (
        result,
        seen.iter().filter(|(_, name)| name == "plan").count(),
    )
}

/// The weights' values are small fractions.
fn fractions(seed: u64, shape: &[usize]) -> RefTensor {
    let whole = numbers(seed, DType::F32, shape).to_f64();
    let data: Vec<f64> = whole.iter().map(|x| x / 16.0).collect();
    RefTensor::from_f64(DType::F32, shape.to_vec(), &data).expect("as many numbers as before")
}

fn rows(x: &[f64], length: usize, from: usize, to: usize, width: usize) -> Vec<f64> {
    let batch = x.chunks(length * width);
    batch
        .flat_map(|b| b[from * width..to * width].to_vec())
        .collect()
}

#[test]
fn decoding_with_a_cache_is_the_whole_forward_and_plans_once() {
    let (b, c, d, n, g, e, f, length) = (
        2usize, 8usize, 8usize, 2usize, 2usize, 4usize, 8usize, 6usize,
    );
    let sizes = [
        ("D", d),
        ("N", n),
        ("G", g),
        ("E", e),
        ("F", f),
        ("P", c),
        ("B", b),
    ];
    let mut at: Vec<(&str, i64)> = sizes.iter().map(|&(s, v)| (s, v as i64)).collect();
    let mut weights = Inputs::new();
    for layer in 0..2u64 {
        let shapes: [(&str, Vec<usize>); 6] = [
            ("wq", vec![n, g, e, d]),
            ("wk", vec![n, e, d]),
            ("wv", vec![n, e, d]),
            ("wo", vec![d, n, g, e]),
            ("up", vec![f, d]),
            ("down", vec![d, f]),
        ];
        for (at, (name, shape)) in shapes.into_iter().enumerate() {
            let seed = 31 * layer + at as u64 + 1;
            weights.insert(
                format!("layers.{layer}.{name}").into(),
                fractions(seed, &shape),
            );
        }
    }
    let angle = |i: usize| (i / (e / 2)) as f64 * 0.3_f64.powi((i % (e / 2)) as i32);
    let table = |of: fn(f64) -> f64| {
        let data: Vec<f64> = (0..c * e / 2).map(|i| of(angle(i))).collect();
        RefTensor::from_f64(DType::F32, vec![c, e / 2], &data).expect("a table")
    };
    weights.insert("cs".into(), table(f64::cos));
    weights.insert("sn".into(), table(f64::sin));
    let x = fractions(99, &[b, length, d]);
    let full =
        EinGraph::from_text(DECODER, "full", &Default::default()).unwrap_or_else(|e| panic!("{e}"));
    at.push(("S", length as i64));
    let mut all = weights.clone();
    all.insert("x".into(), x.clone());
    all.insert("pos".into(), scalar(DType::I64, 0));
    let want = reference::run(&full.bind(&dims(&at)).expect("dims"), &all).expect("a result");
    let want = want[0].to_f64();

    let decoder = graph(DECODER);
    at.pop();
    at.extend([("S", 1), ("C", c as i64)]);
    for devices in DEVICES {
        // A process that has many plans drops those that no program uses.
        let mut kept = Vec::new();
        for (n, mode) in MODES.into_iter().enumerate() {
            let session = Session::builder()
                .cluster(Cluster::cpus(devices))
                .memory(mode)
                .workers(1)
                .no_cache()
                .build()
                .expect("a session");
            let decode = |steps: &[usize]| {
                let mut program = session
                    .compile_graph(decoder.clone(), dims(&at))
                    .expect("a program");
                program.load(runtime(&weights)).expect("weights");
                let mut pos = 0;
                for &step in steps {
                    let part = rows(&x.to_f64(), length, pos, pos + step, d);
                    let part =
                        RefTensor::from_f64(DType::F32, vec![b, step, d], &part).expect("rows");
                    let inputs = Inputs::from([
                        ("x".into(), part),
                        ("pos".into(), scalar(DType::I64, pos as i64)),
                    ]);
                    let got = program
                        .run(&runtime(&inputs))
                        .unwrap_or_else(|e| panic!("{e}"));
                    let got = to_reference(&got["x"]).to_f64();
                    let want = rows(&want, length, pos, pos + step, d);
                    let near = got.iter().zip(&want).all(|(a, b)| (a - b).abs() < 1e-4);
                    assert!(
                        near,
                        "{devices} devices, {mode:?}, token {pos}: {got:?} for {want:?}"
                    );
                    let moved = program.trace().traffic.moved().total();
                    assert_eq!(u128::from(moved), program.plan().moved_bytes);
                    pos += step;
                }
                program
            };
            let (program, planned) = plans(|| decode(&[1; 6]));
            kept.push(program);
            // The plan of the other mode is in this process' memory.
            assert_eq!(planned, usize::from(n == 0), "{devices} devices, {mode:?}");
            // A prompt of three is another shape, and its cache goes along.
            decode(&[3, 1, 1, 1]);
        }
    }
}

mod typed {
    eindecomp::ein! {
        pub struct Pair<dim C> { a: f32[C], b: i64[C] }

        /// Notes what it is given, and gives what was noted before.
        pub fn note<dim C>(x: f32, n: i64, pos: i64, #[state] pairs: [Pair<C>; 2], #[state] count: i64[1])
            -> (f32[C], i64[C])
        {
            let mut last = n;
            for p in pairs {
                last = keep(x, last, pos, p);
            }
            count[0] = count[0] + 1;
            let a[c in C] = x;
            let b[c in C] = last;
            (a, b)
        }

        fn keep<dim C>(x: f32, n: i64, pos: i64, #[state] p: Pair<C>) -> i64 {
            p.a[pos] = x;
            p.b[pos] = n;
            let more[] = n + 1;
            more
        }
    }
}

#[test]
fn typed_state_is_read_set_and_reset() {
    let session = Session::builder()
        .cluster(Cluster::cpus(2))
        .no_cache()
        .build()
        .expect("a session");
    let dims = typed::note::Dims { c: 3 };
    let mut note = session
        .compile(typed::note::graph(), dims)
        .unwrap_or_else(|e| panic!("{e}"));
    let scalars = |x: f32, n: i64, pos: i64| typed::note::Inputs {
        x: ndarray::arr0(x),
        n: ndarray::arr0(n),
        pos: ndarray::arr0(pos),
    };
    note.run(scalars(1.5, 7, 2)).expect("a run");
    note.run(scalars(2.5, 9, 0)).expect("a run");
    let state = note.state().expect("a state");
    assert_eq!(state.count[0], 2);
    assert_eq!(state.pairs[0].a.to_vec(), [2.5, 0.0, 1.5]);
    assert_eq!(state.pairs[1].b.to_vec(), [10, 0, 8]);
    let mut changed = state.clone();
    changed.count[0] = 40;
    note.set_state(changed).expect("a state that fits");
    let error = note
        .run(scalars(0.0, 0, 3))
        .expect_err("outside")
        .to_string();
    assert!(error.contains("position 3 is outside axis 0"), "{error}");
    note.run(scalars(0.0, 0, 1)).expect("a run");
    assert_eq!(note.state().expect("a state").count[0], 41);
    note.reset_state().expect("zeros");
    assert_eq!(note.state().expect("a state").count[0], 0);
    assert_eq!(
        note.state().expect("a state").pairs[1].b.to_vec(),
        [0, 0, 0]
    );
}
