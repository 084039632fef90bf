//! The programs that the language was drafted by, written as a user would: each compiles, and on
//! any number of devices, in both memory modes, gives what the reference interpreter gives and what
//! plain loops give.

mod attention;
mod convolution;
mod decoding;
mod experts;
mod layers;
mod paths;
mod statistics;
mod stencils;

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::support::gpu::{Prepared, compiles};
use crate::support::{to_reference, to_runtime};
use eindecomp::{
    Array, Cluster, Dims, MemoryMode, Model, ModelGraph, Pack, Residency, Session, Tensors,
};
use eindecomp_core::graph::BoundGraph;
use eindecomp_core::pass::Pipeline;
use eindecomp_core::plan::testing::random_plan;
use eindecomp_core::reference;
use eindecomp_core::task::lower::lower;
use eindecomp_runtime::backend::cuda::twin::Twin;
use ndarray::{ArrayD, Dim, Dimension};

/// Sums of up to a few hundred terms of about 1, in f32.
const TOLERANCE: f64 = 2e-4;

/// A program with what it is given.
pub struct Case<M: Model> {
    /// The block.
    pub graph: fn() -> ModelGraph<M>,
    /// Its dims.
    pub dims: fn() -> M::Dims,
    /// What each run is given.
    pub inputs: Box<dyn Fn() -> M::Inputs>,
    /// What is given once.
    pub weights: Box<dyn Fn() -> M::Weights>,
}

impl<M: Model> Case<M>
where
    M::Outputs: Pack,
{
    /// Checks every output against `want`, row-major, in the order of the block's results.
    #[track_caller]
    pub fn gives(&self, want: &[Vec<f64>]) {
        let names: Vec<String> = {
            let graph = (self.graph)().into_graph().expect("a graph");
            let outputs = graph.outputs().iter();
            outputs.map(|o| o.name.to_string()).collect()
        };
        near("reference", &self.reference(), want);
        self.on_gpu_kernels(want);
        for devices in [1, 2, 3, 4, 8] {
            for memory in MemoryMode::ALL {
                let session = Session::builder()
                    .cluster(Cluster::cpus(devices))
                    .memory(memory)
                    .residency(Residency::Sharded)
                    .workers(2)
                    .no_cache()
                    .build()
                    .expect("a session");
                let compiled = session.compile((self.graph)(), (self.dims)());
                let loaded = compiled.and_then(|c| c.load((self.weights)()));
                let mut program = loaded.unwrap_or_else(|e| panic!("p={devices}: {e}"));
                let outputs = program.run((self.inputs)()).expect("a run");
                let mut tensors = Tensors::new();
                outputs.pack(&mut tensors);
                let value = |name: &String| to_reference(&tensors.as_map()[name]).to_f64();
                let got: Vec<Vec<f64>> = names.iter().map(value).collect();
                near(&format!("p={devices}, {memory:?}"), &got, want);
            }
        }
    }

    /// The same by kernels for GPUs, as passes leave the graph and on three devices.
    #[track_caller]
    fn on_gpu_kernels(&self, want: &[Vec<f64>]) {
        let (graph, inputs) = self.bound();
        let fused = Pipeline::default().run(graph.clone()).expect("passes").0;
        let mut jobs = Vec::new();
        for (graph, devices) in [(fused, 1), (graph, 3)] {
            let graph = Arc::new(graph);
            let tasks = lower(&graph, &random_plan(&graph, devices, 7)).expect("tasks");
            jobs.push(Prepared::new(&graph, tasks).unwrap_or_else(|e| panic!("{e}")));
        }
        let modules: Vec<_> = jobs.iter().flat_map(Prepared::modules).collect();
        compiles(&modules);
        let twin = Twin::default();
        twin.compile(&modules).unwrap_or_else(|e| panic!("{e}"));
        for job in jobs {
            let got = job.run(&twin, &inputs, 1).unwrap_or_else(|e| panic!("{e}"));
            let got: Vec<Vec<f64>> = got.iter().map(|t| t.to_f64()).collect();
            near("CUDA C as C++", &got, want);
        }
    }

    fn bound(&self) -> (BoundGraph, BTreeMap<Arc<str>, reference::RefTensor>) {
        let mut tensors = Tensors::new();
        (self.inputs)().pack(&mut tensors);
        (self.weights)().pack(&mut tensors);
        let tensors = tensors.as_map().iter();
        let inputs: BTreeMap<Arc<str>, _> = tensors
            .map(|(name, t)| (Arc::from(name.as_str()), to_reference(t)))
            .collect();
        let dims = (self.dims)().values().into_iter();
        let dims = dims.map(|(n, v)| (Arc::from(n), v as i64)).collect();
        let graph = (self.graph)().into_graph().expect("a graph");
        (graph.bind(&dims).expect("dims that fit"), inputs)
    }

    fn reference(&self) -> Vec<Vec<f64>> {
        let (graph, inputs) = self.bound();
        let outputs = reference::run(&graph, &inputs).expect("a result");
        let rounded = |t: &reference::RefTensor| to_reference(&to_runtime(t)).to_f64();
        outputs.iter().map(rounded).collect()
    }
}

#[track_caller]
fn near(who: &str, got: &[Vec<f64>], want: &[Vec<f64>]) {
    assert_eq!(got.len(), want.len(), "{who}: outputs");
    for (n, (got, want)) in got.iter().zip(want).enumerate() {
        assert_eq!(got.len(), want.len(), "{who}: elements of output {n}");
        for (at, (g, w)) in got.iter().zip(want).enumerate() {
            let same = g == w || g.is_nan() && w.is_nan();
            let near = (g - w).abs() <= TOLERANCE * w.abs().max(1.0);
            assert!(same || near, "{who}: output {n}[{at}] is {g}, not {w}");
        }
    }
}

/// Random numbers: equal seeds, equal numbers.
pub struct Random(pub u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6364136223846793005)
            .wrapping_add(1442695040888963407);
        self.0 >> 33
    }

    /// In −1..1.
    pub fn floats<const R: usize>(&mut self, shape: [usize; R]) -> Array<f32, R>
    where
        Dim<[usize; R]>: Dimension,
    {
        self.array(shape, |x| (x % 2000) as f32 / 1000.0 - 1.0)
    }

    /// In 0..`below`.
    pub fn below<const R: usize>(&mut self, shape: [usize; R], below: u64) -> Array<i64, R>
    where
        Dim<[usize; R]>: Dimension,
    {
        self.array(shape, |x| (x % below) as i64)
    }

    /// `true` twice in three times.
    pub fn bools<const R: usize>(&mut self, shape: [usize; R]) -> Array<bool, R>
    where
        Dim<[usize; R]>: Dimension,
    {
        self.array(shape, |x| !x.is_multiple_of(3))
    }

    fn array<T, const R: usize>(
        &mut self,
        shape: [usize; R],
        value: impl Fn(u64) -> T,
    ) -> Array<T, R>
    where
        Dim<[usize; R]>: Dimension,
    {
        let values = (0..shape.iter().product()).map(|_| value(self.next()));
        let array = ArrayD::from_shape_vec(shape.to_vec(), values.collect());
        let array = array.expect("as many values");
        array.into_dimensionality().expect("as many axes")
    }
}

/// Row-major values of a function of indices.
pub fn each<const R: usize>(shape: [usize; R], f: impl Fn([usize; R]) -> f64) -> Vec<f64> {
    let count: usize = shape.iter().product();
    let place = |mut n: usize| {
        let mut at = [0; R];
        for axis in (0..R).rev() {
            at[axis] = n % shape[axis];
            n /= shape[axis];
        }
        f(at)
    };
    (0..count).map(place).collect()
}

/// exp of each less the largest, over their sum.
pub fn softmax(scores: &[f64]) -> Vec<f64> {
    let most = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let e: Vec<f64> = scores.iter().map(|x| (x - most).exp()).collect();
    let sum: f64 = e.iter().sum();
    e.into_iter().map(|x| x / sum).collect()
}

/// log Σ exp.
pub fn log_sum_exp(values: impl Iterator<Item = f64>) -> f64 {
    values.map(f64::exp).sum::<f64>().ln()
}
