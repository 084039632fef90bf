//! Blocks with `dim ..L` and dtype variables, from other blocks and from Rust.

use std::collections::BTreeMap;
use std::sync::Arc;

use eindecomp::half::{bf16, f16};
use eindecomp::{Array, Cluster, Dim, Float, Graph, MemoryMode, Session, Tensor, ein};
use ndarray::{arr1, arr2};

ein! {
    /// Of length one along the last axis, but for `gain`.
    pub fn norm<dim ..L, dim N, T: Float>(x: T[..L, N], gain: T[N]) -> T[..L, N] {
        let s[..l] = sum[n; f32] (x[..l, n] as f32) * (x[..l, n] as f32);
        let y[..l, n] = x[..l, n] * (rsqrt(s[..l]) as T) * gain[n];
        y
    }

    pub fn outer<dim ..L, dim ..M, T: Int>(x: T[..L], y: T[..M]) -> T[..L, ..M] {
        let z[..l, ..m] = x[..l] * y[..m];
        z
    }

    /// A linear layer of any float type.
    pub fn linear<dim B, dim D, dim F, T: Float, U: Int>(
        x: T[B, D], #[weight] w: T[F, D], #[host] scale: T, ids: U[B],
    ) -> (T[B, F], U) {
        let y[b, f] = scale * sum[d] x[b, d] * w[f, d];
        let n[] = sum[b] ids[b];
        (y, n)
    }

    pub fn two<dim A, dim B>(x: bf16[A, B], g: bf16[B], v: f64[B]) -> (bf16[A, B], f64[B]) {
        let y = norm(x, g);
        let z = norm(v, v);
        (y, z)
    }
}

fn sessions() -> Vec<Session> {
    let mut sessions = Vec::new();
    for p in [1, 2, 3, 4, 8] {
        for memory in MemoryMode::ALL {
            let session = Session::builder().cluster(Cluster::cpus(p)).memory(memory);
            sessions.push(session.no_cache().workers(2).build().unwrap());
        }
    }
    sessions
}

fn linear_of<T: Float + From<f32> + PartialEq + std::fmt::Debug>() {
    let of = |x: f32| T::from(x);
    for session in sessions() {
        let dims = linear::Dims { b: 2, d: 2, f: 3 };
        let mut compiled = session
            .compile(linear::graph::<T, u8>(of(2.0)), dims)
            .unwrap()
            .load(linear::Weights {
                w: arr2(&[[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]]).mapv(of),
            })
            .unwrap();
        let inputs = linear::Inputs {
            x: arr2(&[[1.0, 2.0], [3.0, 4.0]]).mapv(of),
            ids: arr1(&[3u8, 4]),
        };
        let out: linear::Outputs<T, u8> = compiled.run(inputs).unwrap();
        let want = arr2(&[[2.0, 4.0, 6.0], [6.0, 8.0, 14.0]]).mapv(of);
        assert_eq!(out.y, want);
        assert_eq!(out.n[()], 7);
    }
}

#[test]
fn programs_of_every_float_type() {
    linear_of::<f32>();
    linear_of::<f64>();
    for session in sessions() {
        let dims = linear::Dims { b: 1, d: 1, f: 1 };
        let graph = linear::graph::<bf16, i32>(bf16::from_f32(2.0));
        let mut compiled = session
            .compile(graph, dims)
            .unwrap()
            .load(linear::Weights {
                w: arr2(&[[bf16::from_f32(1.5)]]),
            })
            .unwrap();
        let inputs = linear::Inputs {
            x: arr2(&[[bf16::from_f32(3.0)]]),
            ids: arr1(&[-5]),
        };
        let out = compiled.run(inputs).unwrap();
        assert_eq!((out.y[(0, 0)].to_f32(), out.n[()]), (9.0, -5));
    }
}

/// A block on handles keeps rank and dtype in the types.
fn normed<'g, T: Float>(x: Tensor<'g, T, 3>, gain: Tensor<'g, T, 1>) -> Tensor<'g, T, 3> {
    norm(x, gain)
}

#[test]
fn handles_of_any_rank_and_dtype() {
    let graph = Graph::new();
    let dims = |n: [i64; 3]| n.map(Dim::from);
    let x = graph.input::<f16, 3>("x", dims([2, 1, 4]));
    let g = graph.input::<f16, 1>("g", [Dim::from(4)]);
    graph.output("y", normed(x, g));
    let a = graph.input::<i32, 2>("a", [Dim::from(2), Dim::from(1)]);
    let b = graph.input::<i32, 1>("b", [Dim::from(3)]);
    let z: Tensor<i32, 3> = outer(a, b);
    graph.output("z", z);
    let graph = graph.finish().unwrap();
    for session in sessions() {
        let mut program = session
            .compile_graph(graph.clone(), BTreeMap::new())
            .unwrap();
        let mut inputs = eindecomp::Tensors::new();
        let half = |x: f32| f16::from_f32(x);
        inputs.put("x", ndarray::Array::from_elem([2, 1, 4], half(3.0)));
        inputs.put("g", arr1(&[1.0, 2.0, 3.0, 4.0]).mapv(half));
        inputs.put("a", arr2(&[[2], [3]]));
        inputs.put("b", arr1(&[1, 10, 100]));
        let outputs = program.run(inputs.as_map()).unwrap();
        let mut outputs: eindecomp::Tensors = outputs.into_iter().collect();
        let y: Array<f16, 3> = outputs.take("y").unwrap();
        assert_eq!(y[(1, 0, 3)].to_f32(), 2.0);
        let z: Array<i32, 3> = outputs.take("z").unwrap();
        assert_eq!(z[(1, 0, 2)], 300);
    }
}

#[test]
fn ranks_that_do_not_fit_are_a_mistake() {
    let graph = Graph::new();
    let a = graph.input::<i32, 2>("a", [Dim::from(2), Dim::from(1)]);
    let z: Tensor<i32, 7> = outer(a, a);
    graph.output("z", z);
    let errors = graph.finish().map(|_| ()).unwrap_err().to_string();
    assert!(
        errors.contains("`z` has 4 axes, but a handle of 7 is wanted"),
        "{errors}"
    );
    assert!(errors.contains("generics.rs"), "{errors}");

    let graph = Graph::new();
    let a = graph.input::<i32, 7>("a", [1; 7].map(Dim::from));
    let z: Tensor<i32, 14> = outer(a, a);
    graph.output("z", z);
    let errors = graph.finish().map(|_| ()).unwrap_err().to_string();
    let text = "block `outer` has no instance for arguments of these ranks and dtypes";
    assert!(errors.contains(text), "{errors}");
}

#[test]
fn instances_called_by_blocks_agree_with_the_reference() {
    let graph = eindecomp::ModelGraph::into_graph(two::graph()).unwrap();
    let dims: BTreeMap<Arc<str>, i64> = [("A".into(), 3), ("B".into(), 4)].into();
    let mut given = BTreeMap::new();
    for (name, dtype, shape) in [
        ("x", eindecomp::DType::BF16, vec![3, 4]),
        ("g", eindecomp::DType::BF16, vec![4]),
        ("v", eindecomp::DType::F64, vec![4]),
    ] {
        let volume = shape.iter().product();
        let data: Vec<f64> = (0..volume).map(|n| n as f64 - 2.5).collect();
        let tensor = eindecomp_core::reference::RefTensor::from_f64(dtype, shape, &data).unwrap();
        given.insert(Arc::<str>::from(name), tensor);
    }
    let want = eindecomp_core::reference::run(&graph.bind(&dims).unwrap(), &given).unwrap();
    let inputs: BTreeMap<String, _> = given
        .iter()
        .map(|(name, t)| (name.to_string(), crate::support::to_runtime(t)))
        .collect();
    for session in sessions() {
        let mut program = session.compile_graph(graph.clone(), dims.clone()).unwrap();
        let outputs = program.run(&inputs).unwrap();
        for (output, want) in graph.outputs().iter().zip(&want) {
            let got = crate::support::to_reference(&outputs[&*output.name]).to_f64();
            for (got, want) in got.iter().zip(want.to_f64()) {
                assert!((got - want).abs() <= 0.02 * want.abs(), "{got} {want}");
            }
        }
    }
}
