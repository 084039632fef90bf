//! States and stores: KV caches, rings, and what a run does that cannot store.

mod support;

use std::collections::BTreeMap;
use std::sync::Arc;

use eindecomp::{Cluster, EinGraph, MemoryMode, Session};
use eindecomp_core::ein::{DType, Value};
use eindecomp_core::reference::{self, RefTensor};
use eindecomp_runtime::Tensor;
use support::{comparable, to_reference, to_runtime};

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

const MODES: [MemoryMode; 2] = [MemoryMode::Shared, MemoryMode::Private];
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

const CACHE: &str =
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
        .map(|pos| cache_step(pos as u64 + 1, pos, &[2, 2, 4]))
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
