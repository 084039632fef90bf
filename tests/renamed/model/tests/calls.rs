//! Programs made of blocks of two crates run like those of one.

use ed::ndarray::{Array1, Array2, arr1, arr2};
use ed::{Cluster, EinGraph, Graph, Session};
use renamed_layers::again::Affine;
use renamed_layers::blocks::{Linear, linear};
use renamed_model::{decode, model, paired, ramped, split};

/// `model` written as one program.
const TWIN: &str = "
    struct Linear<dim I, dim O> { w: f32[O, I], b: f32[O] }
    fn linear<dim B, dim I, dim O>(x: f32[B, I], l: Linear<I, O>) -> f32[B, O] {
        let y[b, o] = (sum[i] x[b, i] * l.w[o, i]) + l.b[o];
        y
    }
    fn model<dim B, dim H>(x: f32[B, 6], #[weight] first: Linear<6, H>,
        #[weight] rest: [Linear<H, H>; 2]) -> (f32[B, H], f32[B]) where H >= 1 {
        let mut h = linear(x, first);
        for l in rest { h = linear(h, l); }
        let y[b, d] = 2.0 * relu(h[b, d]);
        let h[b, d] = y[b, d] - 1.0;
        let m[b] = max[d] h[b, d];
        let s[b, d] = h[b, d] / m[b] + 0.5;
        let g[b] = sum[d] x[b, d] * first.w[0, d];
        let t[b] = (sum[d] s[b, d]) + g[b];
        (s, t)
    }";

fn session(devices: u32) -> Session {
    let session = Session::builder()
        .cluster(Cluster::cpus(devices))
        .no_cache();
    session.build().unwrap()
}

fn weights() -> (Affine, Vec<Linear>) {
    let layer = |i: usize, o: usize, seed: usize| Linear {
        w: Array2::from_shape_fn((o, i), |(a, b)| ((a * 7 + b * 3 + seed) % 5) as f32 - 1.0),
        b: Array1::from_shape_fn(o, |a| (a % 3) as f32),
    };
    (layer(6, 4, 1), vec![layer(4, 4, 2), layer(4, 4, 3)])
}

#[test]
fn blocks_of_two_crates_are_one_program() {
    let (first, rest) = weights();
    let x = Array2::from_shape_fn((3, 6), |(a, b)| ((a * 5 + b) % 4) as f32);
    let session = session(2);
    let dims = model::Dims { b: 3, h: 4 };
    let mut compiled = session.compile(model::graph(), dims).unwrap();
    compiled = compiled.load(model::Weights { first, rest }).unwrap();
    let got = compiled.run(model::Inputs { x: x.clone() }).unwrap();

    let names = compiled.program().graph().to_string();
    for name in ["first.w", "rest.1.b", "h.y", "s.m"] {
        assert!(names.contains(name), "{name} is not in\n{names}");
    }
    let (first, rest) = weights();
    let mut given = ed::Tensors::new();
    given.put("first.w", first.w);
    given.put("first.b", first.b);
    for (at, layer) in rest.into_iter().enumerate() {
        given.put(format!("rest.{at}.w"), layer.w);
        given.put(format!("rest.{at}.b"), layer.b);
    }
    let graph = EinGraph::from_text(TWIN, "model", &Default::default()).unwrap();
    let dims = [("B".into(), 3), ("H".into(), 4)].into();
    let mut twin = session.compile_graph(graph, dims).unwrap();
    twin.load(given.into_map()).unwrap();
    let mut inputs = ed::Tensors::new();
    inputs.put("x", x);
    let results = twin.run(inputs.as_map()).unwrap();
    let mut results: ed::Tensors = results.into_iter().collect();
    assert_eq!(got.s, results.take::<f32, 2>("s").unwrap());
    assert_eq!(got.t, results.take::<f32, 1>("t").unwrap());
}

#[test]
fn consts_of_two_crates() {
    let session = session(1);
    let mut compiled = session
        .compile(split::graph(), split::Dims { b: 1 })
        .unwrap();
    let x = arr2(&[[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]]);
    let got = compiled.run(split::Inputs { x }).unwrap();
    assert_eq!(got.y.shape(), [1, 3, 2]);
    assert_eq!(got.y[[0, 1, 1]], 4.0);
}

#[test]
fn tuples_of_another_crate() {
    let session = session(1);
    let mut compiled = session
        .compile(paired::graph(), paired::Dims { m: 1 })
        .unwrap();
    let got = compiled
        .run(paired::Inputs {
            x: arr1(&[5.0, 1.0, 7.0, 2.0]),
        })
        .unwrap();
    assert_eq!(got.y, arr1(&[4.0, 5.0]));
}

#[test]
fn sizes_by_the_type_of_a_result() {
    for devices in [1, 2, 3, 4, 8] {
        let dims = ramped::Dims { m: 2 };
        let mut compiled = session(devices).compile(ramped::graph(), dims).unwrap();
        let x = arr1(&[1.0, 1.0, 1.0, 1.0, 0.0, 0.0, 0.0, 0.0]);
        let step = ed::ndarray::arr0(0.5);
        let got = compiled.run(ramped::Inputs { x, step }).unwrap();
        assert_eq!(got.y, arr1(&[1.0, 1.5, 2.0, 2.5, 2.0, 2.5, 3.0, 3.5]));
        assert_eq!(got.short, arr1(&[0.0, 1.0]));
    }
}

#[test]
fn handles_of_two_crates() {
    let g = Graph::new();
    let size = ed::Dim::from;
    let x = g.input::<f32, 2>("x", [size(2), size(3)]);
    let l = renamed_layers::blocks::LinearTensors {
        w: g.weight("w", [size(4), size(3)]),
        b: g.weight("b", [size(4)]),
    };
    g.output("y", linear(x, l));
    assert_eq!(g.finish().unwrap().outputs().len(), 1);
}

#[test]
fn a_state_and_a_kernel_go_through_calls_of_another_crate() {
    for devices in [1, 2, 3, 4, 8] {
        let dims = decode::Dims { b: 4, c: 5 };
        let mut decoder = session(devices).compile(decode::graph(), dims).unwrap();
        let mut cache = Array2::<f32>::zeros((4, 5));
        for pos in 0..5usize {
            let x = Array2::from_shape_fn((4, 1), |(b, _)| ((b * 3 + pos * 5) % 7) as f32 - 2.0);
            cache.column_mut(pos).assign(&x.column(0));
            let inputs = decode::Inputs {
                x,
                pos: ed::ndarray::arr0(pos as i64),
            };
            let got = decoder.run(inputs).unwrap();
            assert_eq!(got.kept, cache, "{devices}");
            let top = cache
                .rows()
                .into_iter()
                .map(|r| r.fold(f32::MIN, |a, &b| a.max(b)));
            assert_eq!(got.top, Array1::from_iter(top), "{devices}");
            // a state of this crate's block under its own name
            assert_eq!(decoder.state().unwrap().cache, cache);
        }
    }
}
