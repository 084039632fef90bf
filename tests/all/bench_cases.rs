//! The benchmark's cases, small: their graphs give what the reference interpreter gives, and its
//! random numbers are NumPy's.

#[path = "../../examples/bench/blocks.rs"]
mod blocks;
#[path = "../../examples/bench/cases.rs"]
pub mod cases;
#[path = "../../examples/bench/numpy.rs"]
mod numpy;

use std::collections::BTreeMap;
use std::sync::Arc;

use eindecomp::{Cluster, Session};
use eindecomp_core::reference::{self, RefTensor};
use eindecomp_runtime::Tensor;

use crate::support::to_reference;
use cases::{CASES, Size};
use numpy::Generator;

/// Two runs, so that states count.
#[test]
fn cases_give_what_the_reference_gives() {
    for case in &CASES {
        let graph = (case.graph)().expect("a graph");
        let dims = case.dims_at(Size::Small);
        let inputs = case.inputs(&graph, &dims);
        let bound = graph.bind(&dims).expect("dims that fit");
        let given: BTreeMap<Arc<str>, RefTensor> = [&inputs.data, &inputs.weights]
            .into_iter()
            .flat_map(named)
            .collect();
        let mut states = named(&inputs.states).collect();
        let mut step = || reference::step(&bound, &given, &mut states).expect("a result");
        let wanted = [step(), step()];
        for devices in [1, 2, 4] {
            let session = Session::builder()
                .cluster(Cluster::cpus(devices))
                .workers(2)
                .no_cache()
                .build()
                .expect("a session");
            let mut program = session
                .compile_graph(graph.clone(), dims.clone())
                .expect("a plan");
            program.load(inputs.weights.clone()).expect("weights");
            program.set_state(inputs.states.clone()).expect("states");
            for want in &wanted {
                let got = program.run(&inputs.data).expect("a run");
                let outputs = bound.outputs().iter().map(|o| &got[&*o.name]);
                for (got, want) in outputs.zip(want) {
                    near(
                        case.name,
                        devices,
                        &to_reference(got).to_f64(),
                        &want.to_f64(),
                    );
                }
            }
        }
    }
}

fn named(tensors: &BTreeMap<String, Tensor>) -> impl Iterator<Item = (Arc<str>, RefTensor)> {
    tensors
        .iter()
        .map(|(name, t)| (Arc::from(name.as_str()), to_reference(t)))
}

#[track_caller]
fn near(case: &str, devices: u32, got: &[f64], want: &[f64]) {
    assert_eq!(got.len(), want.len(), "{case}, p={devices}");
    for (at, (g, w)) in got.iter().zip(want).enumerate() {
        assert!(
            (g - w).abs() <= 2e-5 * w.abs().max(1.0),
            "{case}, p={devices}: [{at}] is {g}, not {w}"
        );
    }
}

/// `numpy.random.default_rng(seed).random(4, dtype=numpy.float32) - 0.5`.
#[test]
fn random_numbers_are_those_of_numpy() {
    let first = |seed| {
        let mut generator = Generator::new(seed);
        [(); 4].map(|()| generator.uniform())
    };
    assert_eq!(
        first(0),
        [0.350_624_2, 0.136_961_64, 0.011_136_472, -0.230_213_34]
    );
    assert_eq!(
        first(7),
        [0.444_904_92, 0.125_095_43, 0.184_179_9, 0.397_213_76]
    );
}

/// The peers' `FLOPS`, at their sizes.
#[test]
fn arithmetic_is_counted_as_the_peers_count_it() {
    let counted = CASES.each_ref().map(|case| {
        let dims = case.dims_at(Size::Full);
        let graph = (case.graph)().expect("a graph");
        graph.bind(&dims).expect("dims that fit");
        ((case.flops)(&dims), case.name)
    });
    let peers = [
        (2_147_483_648.0, "matmul_1024"),
        (17_179_869_184.0, "matmul_2048"),
        (137_438_953_472.0, "matmul_4096"),
        (51_543_801_856.0, "chain_2048"),
        (53_955_526_656.0, "block_b1_s512"),
        (52_344_913_920.0, "block_b4_s128"),
        (98_859_745_280.0, "ffnn_step"),
        (1_610_612_736.0, "l2dist_2048x128"),
        (268_435_456.0, "maxplus_512"),
        (402_653_184.0, "logsumexp_512"),
        (536_870_912.0, "attn_scores"),
        (2_147_483_648.0, "tensor4d_32"),
        (105_381_888.0, "decode"),
    ];
    assert_eq!(counted, peers);
}
