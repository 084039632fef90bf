//! What is timed: the peers' cases, shapes and inputs.

use std::collections::BTreeMap;
use std::sync::Arc;

use eindecomp::{EinGraph, Error};
use eindecomp_core::graph::Role;
use eindecomp_runtime::{Data, Tensor};

use super::blocks;
use super::numpy::Generator;

/// Extents by dim.
pub type Dims = BTreeMap<Arc<str>, i64>;

/// One case.
pub struct Case {
    /// Also where its inputs' seed comes from.
    pub name: &'static str,
    pub graph: fn() -> Result<EinGraph, Error>,
    pub dims: fn(Size) -> Vec<(&'static str, i64)>,
    /// What each input holds, in the order in which the peers draw them.
    fills: fn(&Dims) -> Vec<(&'static str, Fill)>,
    /// Useful arithmetic of a run.
    pub flops: fn(&Dims) -> f64,
}

/// How large a case is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Size {
    /// The peers'.
    Full,
    /// What the reference interpreter can do.
    Small,
}

/// What an input holds.
#[derive(Clone, Copy)]
enum Fill {
    /// Uniform in [-0.5, 0.5).
    Uniform,
    /// Uniform, over this.
    Over(f32),
    Ones,
    /// Of the angles of rotary embeddings, from this position on.
    Cos(usize),
    Sin(usize),
    Number(i64),
}

/// The tensors of a case, by role.
pub struct Inputs {
    pub data: BTreeMap<String, Tensor>,
    pub weights: BTreeMap<String, Tensor>,
    pub states: BTreeMap<String, Tensor>,
}

impl Case {
    pub fn dims_at(&self, size: Size) -> Dims {
        let dims = (self.dims)(size).into_iter();
        dims.map(|(name, extent)| (Arc::from(name), extent))
            .collect()
    }

    /// Every input of the graph, filled.
    ///
    /// # Panics
    /// If the case does not name the inputs of its graph.
    pub fn inputs(&self, graph: &EinGraph, dims: &Dims) -> Inputs {
        let seed = CASES.iter().position(|c| c.name == self.name);
        let mut generator = Generator::new(seed.expect("a case of the list") as u32);
        let bound = graph.bind(dims).expect("dims of the case");
        let mut inputs = Inputs {
            data: BTreeMap::new(),
            weights: BTreeMap::new(),
            states: BTreeMap::new(),
        };
        for (name, fill) in (self.fills)(dims) {
            let found = bound
                .ids()
                .find(|(_, n)| n.role().is_some() && *n.name == *name);
            let (id, node) = found.unwrap_or_else(|| panic!("{} has no input `{name}`", self.name));
            let of = match node.role() {
                Some(Role::Weight) => &mut inputs.weights,
                Some(Role::State) => &mut inputs.states,
                _ => &mut inputs.data,
            };
            let shape = bound.shape(id).to_vec();
            let data = fill.data(&shape, &mut generator);
            let tensor = Tensor::new(shape, data).expect("a value per element");
            of.insert(name.into(), tensor);
        }
        inputs
    }
}

impl Fill {
    fn data(self, shape: &[usize], generator: &mut Generator) -> Data {
        let volume: usize = shape.iter().product();
        let angles = |from: usize, f: fn(f32) -> f32| {
            let half = shape[1];
            let at = |i: usize| {
                let rate = 1.0 / 10000_f32.powf((2 * (i % half)) as f32 / (2 * half) as f32);
                f((from + i / half) as f32 * rate)
            };
            Data::F32((0..volume).map(at).collect())
        };
        match self {
            Fill::Uniform => Data::F32((0..volume).map(|_| generator.uniform()).collect()),
            Fill::Over(n) => Data::F32((0..volume).map(|_| generator.uniform() / n).collect()),
            Fill::Ones => Data::F32(vec![1.0; volume]),
            Fill::Cos(from) => angles(from, f32::cos),
            Fill::Sin(from) => angles(from, f32::sin),
            Fill::Number(n) => Data::I64(vec![n; volume]),
        }
    }
}

/// In the peers' order, which gives each its seed.
pub const CASES: [Case; 13] = [
    matmul("matmul_1024", |size| square(size, 1024)),
    matmul("matmul_2048", |size| square(size, 2048)),
    matmul("matmul_4096", |size| square(size, 4096)),
    Case {
        name: "chain_2048",
        graph: || blocks::chain::graph().into_graph(),
        dims: |size| vec![("N", pick(size, 2048, 40))],
        fills: |_| uniform(&["a", "b", "c", "d", "e"]),
        flops: |d| 6.0 * product(d, &["N", "N", "N"]) + product(d, &["N", "N"]),
    },
    block("block_b1_s512", |size| block_dims(size, 1, 512)),
    block("block_b4_s128", |size| block_dims(size, 4, 128)),
    Case {
        name: "ffnn_step",
        graph: || blocks::ffnn_step::graph().into_graph(),
        dims: |size| match size {
            Size::Full => vec![
                ("B", 512),
                ("I", 4096),
                ("H", 4096),
                ("J", 4096),
                ("O", 1024),
            ],
            Size::Small => vec![("B", 12), ("I", 20), ("H", 24), ("J", 16), ("O", 8)],
        },
        fills: |d| {
            let layer = |rows| Fill::Over(((d[rows] as f64).sqrt() / 2.0) as f32);
            let weights = [("w1", layer("I")), ("w2", layer("H")), ("w3", layer("J"))];
            let data = [("x", Fill::Uniform), ("y", Fill::Uniform)];
            weights.into_iter().chain(data).collect()
        },
        flops: |d| {
            let layers = [["I", "H"], ["H", "J"], ["J", "O"]];
            let sizes = layers.map(|l| product(d, &l));
            let forward = sizes.map(|n| 2.0 * product(d, &["B"]) * n);
            3.0 * forward.iter().sum::<f64>() - forward[0] + 2.0 * sizes.iter().sum::<f64>()
        },
    },
    Case {
        name: "l2dist_2048x128",
        graph: || blocks::l2dist::graph().into_graph(),
        dims: |size| match size {
            Size::Full => vec![("N", 2048), ("M", 2048), ("K", 128)],
            Size::Small => vec![("N", 37), ("M", 41), ("K", 19)],
        },
        fills: |_| uniform(&["x", "y"]),
        flops: |d| 3.0 * product(d, &["N", "M", "K"]),
    },
    Case {
        name: "maxplus_512",
        graph: || blocks::maxplus::graph().into_graph(),
        dims: |size| cube(size, 512),
        fills: |_| uniform(&["x", "y"]),
        flops: |d| 2.0 * product(d, &["N", "M", "K"]),
    },
    Case {
        name: "logsumexp_512",
        graph: || blocks::log_sum_exp::graph().into_graph(),
        dims: |size| cube(size, 512),
        fills: |_| uniform(&["x", "y"]),
        flops: |d| 3.0 * product(d, &["N", "M", "K"]),
    },
    Case {
        name: "attn_scores",
        graph: || blocks::attn_scores::graph().into_graph(),
        dims: |size| match size {
            Size::Full => vec![("B", 4), ("H", 16), ("L", 256), ("M", 256), ("D", 64)],
            Size::Small => vec![("B", 2), ("H", 3), ("L", 18), ("M", 17), ("D", 16)],
        },
        fills: |_| uniform(&["q", "k"]),
        flops: |d| 2.0 * product(d, &["B", "H", "L", "M", "D"]),
    },
    Case {
        name: "tensor4d_32",
        graph: || blocks::tensor4d::graph().into_graph(),
        dims: |size| {
            let n = pick(size, 32, 6);
            ["A", "B", "C", "D", "E", "F"].map(|d| (d, n)).into()
        },
        fills: |_| uniform(&["p", "q"]),
        flops: |d| 2.0 * product(d, &["A", "B", "C", "D", "E", "F"]),
    },
    Case {
        name: "decode",
        graph: || blocks::decode::graph().into_graph(),
        dims: |size| {
            let mut dims = block_dims(size, 1, 1);
            dims[1] = ("S", 1);
            dims.push(("C", pick(size, 512, 12)));
            dims
        },
        fills: |d| {
            let last = d["C"] as usize - 1;
            let mut fills = block_weights(d, last);
            fills.extend(uniform(&["keys", "values", "x"]));
            fills.push(("pos", Fill::Number(last as i64)));
            fills
        },
        flops: |d| {
            let width = product(d, &["H", "E"]);
            weights_flops(d) + 4.0 * product(d, &["C"]) * width
        },
    },
];

const fn matmul(name: &'static str, dims: fn(Size) -> Vec<(&'static str, i64)>) -> Case {
    Case {
        name,
        graph: || blocks::matmul::graph().into_graph(),
        dims,
        fills: |_| uniform(&["a", "b"]),
        flops: |d| 2.0 * product(d, &["M", "K", "N"]),
    }
}

const fn block(name: &'static str, dims: fn(Size) -> Vec<(&'static str, i64)>) -> Case {
    Case {
        name,
        graph: || blocks::block::graph().into_graph(),
        dims,
        fills: |d| {
            let mut fills = block_weights(d, 0);
            fills.extend(uniform(&["x"]));
            fills
        },
        flops: |d| {
            let (tokens, width) = (product(d, &["B", "S"]), product(d, &["H", "E"]));
            tokens * weights_flops(d) + 4.0 * tokens * d["S"] as f64 * width
        },
    }
}

/// Of all projections, for one token.
fn weights_flops(d: &Dims) -> f64 {
    let width = product(d, &["H", "E"]);
    2.0 * (4.0 * width * width + 3.0 * width * d["F"] as f64)
}

fn block_weights(d: &Dims, from: usize) -> Vec<(&'static str, Fill)> {
    let width = Fill::Over((product(d, &["H", "E"])).sqrt() as f32);
    let inner = Fill::Over((d["F"] as f64).sqrt() as f32);
    let mut fills: Vec<_> = ["w.q", "w.k", "w.v", "w.o", "w.gate", "w.up"]
        .map(|n| (n, width))
        .into();
    fills.extend([
        ("w.down", inner),
        ("w.norm1", Fill::Ones),
        ("w.norm2", Fill::Ones),
        ("cos", Fill::Cos(from)),
        ("sin", Fill::Sin(from)),
    ]);
    fills
}

fn uniform(names: &[&'static str]) -> Vec<(&'static str, Fill)> {
    names.iter().map(|n| (*n, Fill::Uniform)).collect()
}

fn product(dims: &Dims, names: &[&str]) -> f64 {
    names.iter().map(|n| dims[*n] as f64).product()
}

fn pick(size: Size, full: i64, small: i64) -> i64 {
    match size {
        Size::Full => full,
        Size::Small => small,
    }
}

fn square(size: Size, n: i64) -> Vec<(&'static str, i64)> {
    let n = pick(size, n, 48);
    vec![("M", n), ("K", n), ("N", n)]
}

fn cube(size: Size, n: i64) -> Vec<(&'static str, i64)> {
    let n = pick(size, n, 33);
    vec![("N", n), ("K", n), ("M", n)]
}

fn block_dims(size: Size, b: i64, s: i64) -> Vec<(&'static str, i64)> {
    match size {
        Size::Full => vec![("B", b), ("S", s), ("H", 16), ("E", 128), ("F", 5504)],
        Size::Small => vec![("B", b.min(2)), ("S", 10), ("H", 2), ("E", 8), ("F", 24)],
    }
}
