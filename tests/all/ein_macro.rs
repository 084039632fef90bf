//! What `ein!` makes: functions on handles, programs, typed arrays.

use std::collections::BTreeMap;

use eindecomp::half::bf16;
use eindecomp::{Dims, Graph, Model, Pack, Tensors, Unpack, ein};
use eindecomp_core::graph::EinGraph;
use ndarray::{arr1, arr2};

mod config {
    pub const WIDTH: usize = 3;
    pub const LAYERS: usize = 2;
}
use config::LAYERS;

ein! {
    /// C = A·B, accumulated in f32.
    pub fn matmul<dim M, dim K, dim N>(a: bf16[M, K], b: bf16[K, N]) -> bf16[M, N] {
        let c[m, n]: bf16 = sum[k; f32] a[m, k] * b[k, n];
        c
    }

    /// Softmax over the last axis.
    pub fn softmax<dim B, dim C>(x: f32[B, C]) -> f32[B, C] {
        let m[b] = max[j] x[b, j];
        let e[b, j] = exp(x[b, j] - m[b]);
        let z[b] = sum[j] e[b, j];
        let p[b, j] = e[b, j] / z[b];
        p
    }

    /// What the largest of the last axis is larger by: of any rank.
    pub fn below_largest<dim ..L, dim C>(x: f32[..L, C]) -> f32[..L, C] {
        let m[..l] = max[j] x[..l, j];
        let y[..l, j] = m[..l] - x[..l, j];
        y
    }

    /// 0, 1, 2, …
    pub fn ramp<dim N>() -> f32[N] {
        let r[i in N] = i as f32;
        r
    }

    /// `x`, and zeros behind it.
    pub fn padded<dim N, dim M>(x: f32[N]) -> f32[M] {
        let y[i in M] = (x[0 + i] else 0.0);
        y
    }

    /// One layer.
    pub struct Layer<dim D, dim F> {
        /// Widens.
        #[name = "layer.{}.fc1.weight"] w1: f32[F, D],
        w2: f32[D, F],
    }

    /// Two products and what came in.
    pub fn mlp<dim B, dim D, dim F>(x: f32[B, D], #[weight] l: Layer<D, F>) -> f32[B, D] {
        let h[b, f] = gelu(sum[d] x[b, d] * l.w1[f, d]);
        let y[b, d] = x[b, d] + sum[f] h[b, f] * l.w2[d, f];
        y
    }

    /// Some layers.
    pub fn model<dim B>(
        x: f32[B, config::WIDTH],
        #[weight] layers: [Layer<config::WIDTH, 4>; LAYERS],
        #[weight] gain: f32[config::WIDTH],
    ) -> f32[B, config::WIDTH] {
        let mut x = x;
        for l in layers { x = mlp(x, l); }
        let y[b, d] = x[b, d] * gain[d];
        y
    }

    /// Mean and variance in one pass.
    pub agg welford(x: f32) {
        state { n: f32 = 0.0, mu: f32 = 0.0, m2: f32 = 0.0 }
        lift { n: 1.0, mu: x, m2: 0.0 }
        merge(a, b) {
            let n = a.n + b.n;
            let r = b.n / max(n, 1.0);
            let d = b.mu - a.mu;
            { n: n, mu: a.mu + d * r, m2: a.m2 + b.m2 + d * d * a.n * r }
        }
        finish { mean: mu, var: m2 / n }
    }

    /// Statistics of rows.
    pub fn moments<dim B, dim D>(x: f32[B, D]) -> (f32[B], f32[B]) {
        let (m, v)[b] = welford[d] (x[b, d]);
        (m, v)
    }

    /// Attention as one statement.
    pub fn attention<dim S, dim T, dim E>(q: f32[S, E], k: f32[T, E], v: f32[T, E]) -> f32[S, E] {
        let o[s, d] = softmax_sum[t] ((sum[e] q[s, e] * k[t, e]) * rsqrt(E as f32), v[t, d]);
        o
    }

    /// Rows of a table, and their sums.
    pub fn lookup<dim S, dim V, dim D>(ids: u32[S], table: f32[V, D]) -> (f32[S, D], f32[S]) {
        let rows[s, d] = table[ids[s], d];
        let total[s] = sum[d] rows[s, d];
        (rows, total)
    }
}

fn graph_text<M: Model>(graph: eindecomp::ModelGraph<M>) -> String {
    graph.into_graph().unwrap().to_string()
}

/// The block's graph is what the text of the same program gives.
#[test]
fn graphs_have_named_inputs_and_outputs() {
    insta::assert_snapshot!("matmul", graph_text(matmul::graph()));
    insta::assert_snapshot!("softmax", graph_text(softmax::graph()));
    insta::assert_snapshot!("model", graph_text(model::graph()));
    insta::assert_snapshot!("lookup", graph_text(lookup::graph()));
}

#[test]
fn dims_that_no_argument_determines_are_given() {
    let g = Graph::new();
    let n = eindecomp::Dim::sym("N");
    let ramp = ramp(&g, n.clone());
    let x = g.input::<f32, 1>("x", [n]);
    g.output("y", padded(eindecomp::Dim::from(7), x));
    g.output("ramp", ramp);
    let text = g.finish().unwrap().to_string();
    assert!(text.contains("-> f32[i=N]"), "{text}");
    assert!(text.contains("-> f32[i=7]"), "{text}");
}

#[test]
fn blocks_compose_through_handles() {
    let g = Graph::new();
    let (b, d) = (eindecomp::Dim::sym("B"), eindecomp::Dim::from(3));
    let table = g.weight::<f32, 2>("table", [eindecomp::Dim::from(9), d.clone()]);
    let ids = g.input::<u32, 1>("ids", [b]);
    let (rows, total) = lookup(ids, table);
    let w1 = g.weight("w1", [eindecomp::Dim::from(4), d.clone()]);
    let w2 = g.weight("w2", [d, eindecomp::Dim::from(4)]);
    let y = softmax(mlp(rows, LayerTensors { w1, w2 }));
    g.output("y", y);
    g.output("total", total);
    insta::assert_snapshot!("composed", g.finish().unwrap().to_string());
}

/// The macro and the text form are one language.
#[test]
fn the_graph_is_that_of_the_text() {
    let text = "
        fn softmax<dim B, dim C>(x: f32[B, C]) -> f32[B, C] {
            let m[b] = max[j] x[b, j];
            let e[b, j] = exp(x[b, j] - m[b]);
            let z[b] = sum[j] e[b, j];
            let p[b, j] = e[b, j] / z[b];
            p
        }";
    let twin = EinGraph::from_text(text, "softmax", &BTreeMap::new()).unwrap();
    assert_eq!(softmax::graph().into_graph().unwrap(), twin);
}

#[test]
fn a_block_of_any_rank_takes_handles_of_any_rank() {
    let g = Graph::new();
    let x = g.input::<f32, 3>("x", [2, 3, 4].map(eindecomp::Dim::from));
    let y = g.input::<f32, 1>("y", [eindecomp::Dim::from(4)]);
    g.output("three", below_largest(x));
    g.output("one", below_largest(y));
    let graph = g.finish().unwrap();
    let ranks = graph
        .outputs()
        .iter()
        .map(|o| graph.node(o.node).shape.len());
    assert_eq!(ranks.collect::<Vec<_>>(), [3, 1]);
}

#[test]
fn a_mismatch_is_recorded_where_the_block_is_called() {
    let g = Graph::new();
    let size = eindecomp::Dim::from;
    let a = g.input::<bf16, 2>("a", [size(2), size(3)]);
    let b = g.input::<bf16, 2>("b", [size(4), size(5)]);
    let (poisoned, line) = (matmul(a, b), line!());
    g.output("c", matmul(poisoned, b));
    let errors = g.finish().unwrap_err().0;
    assert_eq!(errors.len(), 1, "{errors:?}");
    assert_eq!(
        (errors[0].location.file(), errors[0].location.line()),
        (file!(), line)
    );
    assert!(errors[0].message.contains('K'), "{}", errors[0].message);
}

#[test]
fn typed_arrays_go_by_parameter_path() {
    assert_eq!(
        matmul::Dims { m: 1, k: 2, n: 3 }.values(),
        [("M", 1), ("K", 2), ("N", 3)]
    );
    let layer = |x: f32| Layer {
        w1: arr2(&[[x; 3]; 4]),
        w2: arr2(&[[x; 4]; 3]),
    };
    let weights = model::Weights {
        layers: vec![layer(1.0), layer(2.0)],
        gain: arr1(&[1.0; 3]),
    };
    let mut tensors = Tensors::new();
    weights.pack(&mut tensors);
    let names: Vec<_> = tensors.as_map().keys().map(String::as_str).collect();
    assert_eq!(
        names,
        [
            "gain",
            "layers.0.w1",
            "layers.0.w2",
            "layers.1.w1",
            "layers.1.w2"
        ]
    );

    let given = lookup::Outputs {
        rows: arr2(&[[1.0, 2.0]]),
        total: arr1(&[3.0]),
    };
    let mut tensors = Tensors::new();
    given.clone().pack(&mut tensors);
    let back = lookup::Outputs::unpack(&mut tensors).unwrap();
    assert_eq!((back.rows, back.total), (given.rows, given.total));
    assert!(lookup::Outputs::unpack(&mut tensors).is_err());
    assert_eq!(lookup::Outputs::default().rows.shape(), [0, 0]);
}

#[test]
fn weights_come_by_template_or_path() {
    let file = std::env::temp_dir().join(format!("eindecomp-ein-macro-{}", std::process::id()));
    let bytes = |n: usize| -> Vec<u8> { (0..n).flat_map(|i| (i as f32).to_le_bytes()).collect() };
    let (wide, long) = (bytes(12), bytes(3));
    let view = |shape: &[usize], data| {
        safetensors::tensor::TensorView::new(safetensors::Dtype::F32, shape.to_vec(), data).unwrap()
    };
    let mut tensors = BTreeMap::from([
        ("layer.0.fc1.weight", view(&[4, 3], &wide)),
        ("layer.1.fc1.weight", view(&[4, 3], &wide)),
        ("layers.0.w2", view(&[3, 4], &wide)),
        ("layers.1.w2", view(&[3, 4], &wide)),
        ("gain", view(&[3], &long)),
    ]);
    safetensors::serialize_to_file(&tensors, None, &file).unwrap();
    let weights = model::Weights::from_safetensors(&file).unwrap();
    assert_eq!(weights.layers.len(), LAYERS);
    assert_eq!(weights.layers[1].w1[[3, 2]], 11.0);

    tensors.remove("layers.1.w2");
    tensors.insert("gain", view(&[1, 3], &long));
    safetensors::serialize_to_file(&tensors, None, &file).unwrap();
    let error = model::Weights::from_safetensors(&file)
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("`layers.1.w2` is missing; did you mean `layers.0.w2`?"),
        "{error}"
    );
    assert!(error.contains("`gain`"), "{error}");
    std::fs::remove_file(&file).unwrap();
}

#[test]
fn a_block_in_a_function_sees_the_consts_around_it() {
    const COUNT: usize = 2;
    ein! {
        struct Pair<dim N> { left: f32[N], right: f32[N] }
        fn local<dim N>(x: f32[N], #[weight] pairs: [Pair<COUNT>; COUNT]) -> f32[N] {
            let mut x = x;
            for p in pairs { x = add(x, p); }
            x
        }
        fn add<dim N, dim M>(x: f32[N], p: Pair<M>) -> f32[N] {
            let y[n] = x[n] + sum[m] p.left[m] * p.right[m];
            y
        }
    }
    let pair = || Pair {
        left: arr1(&[1.0; COUNT]),
        right: arr1(&[1.0; COUNT]),
    };
    let weights = local::Weights {
        pairs: vec![pair(), pair()],
    };
    assert_eq!(weights.pairs.len(), COUNT);
    assert_eq!(local::graph().into_graph().unwrap().outputs().len(), 1);
}

/// An `agg` of the block's own, with two results, and `softmax_sum`.
#[test]
fn aggregations_over_records() {
    let text = graph_text(moments::graph());
    assert_eq!(text.matches("welford").count(), 2, "{text}");
    let text = graph_text(attention::graph());
    assert_eq!(
        text.lines()
            .filter(|l| l.trim_start().starts_with('%'))
            .count(),
        4,
        "{text}"
    );
}
