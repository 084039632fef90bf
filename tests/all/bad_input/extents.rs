//! Dims of 0, of 1 and beyond every memory; devices and workers in odd numbers.

use std::collections::BTreeMap;
use std::sync::Arc;

use eindecomp::{Cluster, DType, EinGraph, Error, MemoryMode, Session};
use eindecomp_core::reference::{self, RefTensor};

use eindecomp_runtime::RunError;

use crate::bad_input::{
    block, dims, loaded, named, product, ramp, refused, session, small, within,
};
use crate::support::{to_reference, to_runtime};

const PROGRAMS: [&str; 6] = [
    "fn f<dim B, dim K>(x: f32[B, K], w: f32[K, B]) -> f32[B, B] {
        let y[b, n] = sum[k] x[b, k] * w[k, n];
        y
    }",
    "fn f<dim B, dim K>(x: f32[B, K]) -> f32[B, K] {
        let m[b] = max[j] x[b, j];
        let e[b, j] = x[b, j] - m[b];
        let z[b] = sum[j] e[b, j];
        let p[b, j] = e[b, j] * z[b];
        p
    }",
    "fn f<dim B, dim K>(x: f32[B, K]) -> (f32, f32[K]) {
        let total[] = sum[b, k] x[b, k];
        let least[k] = min[b] x[b, k];
        (total, least)
    }",
    "fn f<dim B, dim K>(x: f32[B, K]) -> f32[B * K] {
        let y[(b, k)] = x[b, k] + 1.0;
        y
    }",
    "fn f<dim B, dim K>(x: f32[B * K], y: f32[B]) -> f32[K, B] {
        let z[k, b] = x[(b, k)] * y[b];
        z
    }",
    "fn f<dim B, dim K>(x: f32[K + 2], y: f32[B]) -> f32[K, B] {
        let z[k in K, b] = x[k + 2] + x[k + 1] + y[b];
        z
    }",
];

/// Whole numbers for the inputs of `graph` at `sizes`: what the reference and the runtime make of them.
fn agree(session: &Session, graph: &EinGraph, sizes: &BTreeMap<Arc<str>, i64>) {
    let bound = graph.bind(sizes).unwrap();
    let inputs: BTreeMap<Arc<str>, RefTensor> = bound
        .ids()
        .filter(|(_, n)| n.role().is_some())
        .map(|(id, n)| {
            assert_eq!(n.dtype, DType::F32);
            (n.name.clone(), to_reference(&ramp(bound.shape(id))))
        })
        .collect();
    let given = inputs
        .iter()
        .map(|(n, t)| (n.to_string(), to_runtime(t)))
        .collect();
    let want = reference::run(&bound, &inputs).unwrap();
    let mut program = session.compile_graph(graph.clone(), sizes.clone()).unwrap();
    let got = program.run(&given).unwrap();
    for (output, want) in graph.outputs().iter().zip(want) {
        assert_eq!(
            to_reference(&got[&*output.name]),
            want,
            "{sizes:?}\n{}",
            program.graph()
        );
    }
    program.explain().unwrap().to_string();
}

#[test]
fn axes_of_0_and_1_run() {
    for memory in MemoryMode::ALL {
        for text in PROGRAMS {
            within(move || {
                let graph = block(text, "f");
                for devices in 1..=8 {
                    let session = small(devices).memory(memory).build().unwrap();
                    for (b, k) in [
                        (0, 0),
                        (0, 1),
                        (1, 0),
                        (0, 3),
                        (3, 0),
                        (1, 1),
                        (1, 5),
                        (2, 1),
                    ] {
                        agree(&session, &graph, &dims(&[("B", b), ("K", k)]));
                    }
                }
            });
        }
    }
}

#[test]
fn odd_numbers_of_devices_and_workers_run() {
    for devices in [0, 5, 7, 11, 13, 64] {
        within(move || {
            let session = small(devices).workers(devices as usize).build().unwrap();
            for text in PROGRAMS {
                agree(&session, &block(text, "f"), &dims(&[("B", 3), ("K", 4)]));
            }
        });
    }
    within(|| {
        let session = small(1000).workers(0).build().unwrap();
        agree(
            &session,
            &block(PROGRAMS[0], "f"),
            &dims(&[("B", 2), ("K", 3)]),
        );
    });
}

#[test]
fn a_memory_too_small_is_an_error() {
    within(|| {
        for capacity in [1, 100] {
            let cluster = Cluster::cpus(2).with_capacity(capacity);
            let session = Session::builder()
                .cluster(cluster)
                .no_cache()
                .build()
                .unwrap();
            let error = refused(&session, product(), dims(&[("B", 8), ("K", 8), ("N", 8)]));
            assert!(
                error.to_string().contains("more than its capacity"),
                "{error}"
            );
        }
    });
}

#[test]
fn dims_beyond_every_memory_are_errors() {
    let huge = [
        i64::MAX,
        i64::MAX - 1,
        i64::MIN,
        -1,
        1 << 62,
        1 << 48,
        1 << 47,
        1 << 40,
        1 << 32,
        1 << 24,
        0,
        1,
    ];
    for text in PROGRAMS {
        within(move || {
            let graph = block(text, "f");
            for b in huge {
                for k in huge {
                    if (0..=1).contains(&b) && (0..=1).contains(&k) {
                        continue;
                    }
                    // An axis of 0 leaves little to store, whatever the others are.
                    let result =
                        session(3).compile_graph(graph.clone(), dims(&[("B", b), ("K", k)]));
                    if let Err(error) = result {
                        assert!(
                            matches!(
                                error,
                                Error::Bind(_)
                                    | Error::Plan(_)
                                    | Error::PlanRule(_)
                                    | Error::Run(RunError::Compile { .. })
                            ),
                            "{error}"
                        );
                    } else {
                        assert!(b == 0 || k == 0, "{b} {k}\n{text}");
                    }
                }
            }
        });
    }
    within(|| {
        // Small tensors over an index space past 64 bits.
        let text = "fn f<dim B>(x: f32[B], y: f32[B], z: f32[B], w: f32[B]) -> f32 {
            let s[] = sum[i, j, k, l] x[i] * y[j] * z[k] * w[l];
            s
        }";
        let roomy = Session::builder()
            .cluster(Cluster::cpus(2))
            .no_cache()
            .build()
            .unwrap();
        drop(roomy.compile_graph(block(text, "f"), dims(&[("B", 1 << 20)])));
    });
}

#[test]
fn shapes_beyond_64_bits_are_errors_at_run() {
    use eindecomp_runtime::{Data, Tensor};
    within(|| {
        let mut program = loaded(&session(2));
        for shape in [
            [usize::MAX, 0],
            [0, usize::MAX],
            [usize::MAX / 2, 0],
            [1 << 62, 0],
        ] {
            let x = Tensor::new(shape.to_vec(), Data::F32(Vec::new())).unwrap();
            assert!(program.run(&named([("x", x)])).is_err(), "{shape:?}");
        }
        let text =
            "fn f<dim B>(x: f32[2 * B + 5], y: f32[B]) -> f32[B] { let z[b] = x[b + 5] + y[b]; z }";
        let mut program = session(2)
            .compile_graph(block(text, "f"), dims(&[("B", 2)]))
            .unwrap();
        for n in [usize::MAX, usize::MAX / 2, 4, 6] {
            let x = match Tensor::new(vec![n], Data::F32(vec![0.0; n.min(6)])) {
                Some(x) => x,
                None => continue,
            };
            assert!(program.run(&named([("x", x), ("y", ramp(&[2]))])).is_err());
        }
        assert!(
            program
                .run(&named([("x", ramp(&[9])), ("y", ramp(&[2]))]))
                .is_ok()
        );
    });
}
