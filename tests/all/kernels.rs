//! `extern fn`: Rust functions in programs, on any number of devices.
#[path = "../../examples/topk.rs"]
#[allow(dead_code)]
mod topk;

use std::cell::Cell;
use std::collections::BTreeMap;
use std::sync::Arc;

use eindecomp::kernel::{Call, KernelResult, Slice};
use eindecomp::{
    Cluster, DType, Dim, EinGraph, Graph, MemoryMode, Model, ModelGraph, Session, ein,
};
use eindecomp_core::reference::{RefTensor, run};

ein! {
    /// Sums of prefixes along the last axis, of any number of axes and any float type.
    #[kernel = prefix]
    pub extern fn prefix_sums<dim ..L, dim N, T: Float>(x: T[..L, N], scale: T) -> T[..L, N] splits(L);

    #[kernel = self::fails]
    extern fn failing<dim N>(x: f32[N]) -> f32[N] splits(N);

    #[kernel = counts]
    extern fn counted<dim N, dim M>(x: f32[N, M], y: f32[2 * M]) -> (f32[N], f32[N, 2 * M]) splits(N);

    #[kernel = whole]
    extern fn transposed<dim N, dim M>(x: f32[N, M]) -> f32[M, N] splits();

    pub fn sums<dim A, dim B, dim N>(x: f32[A, B, N], y: f64[N]) -> (f32[A, B, N], f64[N]) {
        let p = prefix_sums(x, 2.0);
        let q = prefix_sums(y, 0.5);
        let z[a, b, n] = p[a, b, n] + 1.0;
        (z, q)
    }

    pub fn fail<dim N>(x: f32[N]) -> f32[N] {
        let y = failing(x);
        y
    }

    pub fn count<dim N, dim M>(x: f32[N, M], y: f32[2 * M]) -> f32[N] {
        let (s, _) = counted(x, y);
        s
    }

    pub fn turn<dim N, dim M>(x: f32[N, M]) -> f32[M, N] {
        let y = transposed(x);
        y
    }
}

fn prefix(call: &mut Call<'_>) -> KernelResult {
    fn sums<T: eindecomp::kernel::Element + Into<f64>>(
        call: &mut Call<'_>,
        from: impl Fn(f64) -> T,
    ) -> KernelResult {
        let (x, scale) = (call.input::<T>(0)?, call.input::<T>(1)?.elements[0]);
        let n = x.shape.last().copied().unwrap_or(1).max(1);
        if let Some(y) = call.output::<T>(0)? {
            assert_eq!(x.shape, y.shape);
            for (x, y) in x.elements.chunks(n).zip(y.elements.chunks_mut(n)) {
                let mut sum = 0.0;
                for (x, y) in x.iter().zip(y) {
                    sum += (*x).into() * scale.into();
                    *y = from(sum);
                }
            }
        }
        Ok(())
    }
    match call.inputs()[0].elements {
        Slice::F32(_) => sums::<f32>(call, |x| x as f32),
        Slice::F64(_) => sums::<f64>(call, |x| x),
        other => Err(format!("no prefix sums of {}", other.dtype()).into()),
    }
}

fn fails(call: &mut Call<'_>) -> KernelResult {
    let x = call.input::<f32>(0)?;
    if x.elements.contains(&13.0) {
        return Err("13 brings bad luck".into());
    }
    if x.elements.contains(&14.0) {
        panic!("no element is 14");
    }
    if let Some(y) = call.output::<f32>(0)? {
        y.elements.copy_from_slice(x.elements);
    }
    Ok(())
}

thread_local! {
    static CALLS: Cell<usize> = const { Cell::new(0) };
}

fn counts(call: &mut Call<'_>) -> KernelResult {
    CALLS.set(CALLS.get() + 1);
    let (x, y) = (call.input::<f32>(0)?, call.input::<f32>(1)?);
    let (n, m) = (x.shape[0], x.shape[1]);
    assert_eq!(y.shape, [2 * m], "whole on each device");
    if let Some(out) = call.output::<f32>(0)? {
        assert_eq!(out.shape, [n]);
        for (out, row) in out.elements.iter_mut().zip(x.elements.chunks(m)) {
            *out = row.iter().sum::<f32>() + y.elements.iter().sum::<f32>();
        }
    }
    Ok(())
}

fn whole(call: &mut Call<'_>) -> KernelResult {
    let x = call.input::<f32>(0)?;
    let (n, m) = (x.shape[0], x.shape[1]);
    if let Some(y) = call.output::<f32>(0)? {
        for i in 0..n {
            for j in 0..m {
                y.elements[j * n + i] = x.elements[i * m + j];
            }
        }
    }
    Ok(())
}

fn sessions() -> Vec<(u32, Session)> {
    let mut sessions = Vec::new();
    for p in [1, 2, 3, 4, 8] {
        for memory in MemoryMode::ALL {
            let session = Session::builder().cluster(Cluster::cpus(p)).memory(memory);
            sessions.push((p, session.no_cache().workers(2).build().unwrap()));
        }
    }
    sessions
}

/// Small whole numbers, so that every order of sums gives the same bits.
fn given(graph: &EinGraph, dims: &BTreeMap<Arc<str>, i64>) -> BTreeMap<Arc<str>, RefTensor> {
    let bound = graph.bind(dims).unwrap();
    let inputs = bound.ids().filter(|(_, n)| n.role().is_some());
    let inputs = inputs.map(|(id, node)| {
        let data: Vec<f64> = (0..bound.elements(id))
            .map(|i| ((i * 7 + id.at() * 3) % 11) as f64 - 4.0)
            .collect();
        let tensor = RefTensor::from_f64(node.dtype, bound.shape(id).to_vec(), &data).unwrap();
        (node.name.clone(), tensor)
    });
    inputs.collect()
}

/// Runs a block on 1, 2, 3, 4 and 8 devices against the reference.
fn agrees<M: Model>(model: ModelGraph<M>, dims: &[(&str, i64)], exact: bool) {
    let graph = model.into_graph().unwrap();
    let dims: BTreeMap<Arc<str>, i64> = dims.iter().map(|&(n, v)| (n.into(), v)).collect();
    let inputs = given(&graph, &dims);
    let want = run(&graph.bind(&dims).unwrap(), &inputs).unwrap();
    let of_role = |weight: bool| -> BTreeMap<String, _> {
        let nodes = graph.nodes().iter().filter(|n| n.role().is_some());
        nodes
            .filter(|n| (n.role() == Some(eindecomp_core::graph::Role::Weight)) == weight)
            .map(|n| {
                (
                    n.name.to_string(),
                    crate::support::to_runtime(&inputs[&n.name]),
                )
            })
            .collect()
    };
    for (p, session) in sessions() {
        let mut program = session.compile_graph(graph.clone(), dims.clone()).unwrap();
        program.load(of_role(true)).unwrap();
        let outputs = program.run(&of_role(false)).unwrap();
        for (output, want) in graph.outputs().iter().zip(&want) {
            let got = crate::support::to_reference(&outputs[&*output.name]);
            for (got, want) in got.to_f64().iter().zip(want.to_f64()) {
                let near = (got - want).abs() <= 1e-4 * (1.0 + want.abs());
                assert!(
                    if exact { *got == want } else { near },
                    "p = {p}: {got} {want}"
                );
            }
        }
    }
}

#[test]
fn kernels_agree_with_the_reference() {
    agrees(sums::graph(), &[("A", 3), ("B", 4), ("N", 5)], true);
    agrees(count::graph(), &[("N", 8), ("M", 3)], true);
    agrees(turn::graph(), &[("N", 4), ("M", 6)], true);
    agrees(sums::graph(), &[("A", 3), ("B", 0), ("N", 5)], true);
}

#[test]
fn routing_and_sorting_agree_with_the_reference() {
    let dims = [("T", 16), ("D", 4), ("F", 3), ("E", 5)];
    agrees(topk::experts::graph(), &dims, false);
    agrees(topk::middle::graph(), &[("B", 8), ("N", 7)], true);
}

/// The parts of the labels of a kernel's vertex on 8 devices.
fn parts<M: Model>(model: ModelGraph<M>, dims: &[(&str, i64)], vertex: &str) -> Vec<u32> {
    let graph = model.into_graph().unwrap();
    let dims = dims.iter().map(|&(n, v)| (n.into(), v)).collect();
    let session = Session::builder().cluster(Cluster::cpus(8)).no_cache();
    let program = session.build().unwrap().compile_graph(graph, dims).unwrap();
    let kernel = program.graph().ids().find(|(_, n)| &*n.name == vertex);
    let join = &program.plan().nodes[kernel.unwrap().0.at()].join;
    join.as_ref().unwrap().parts.clone()
}

#[test]
fn only_splits_are_split() {
    let dims = [("A", 8), ("B", 8), ("N", 64)];
    let of_sums = parts(sums::graph(), &dims, "p.prefix_sums");
    assert_eq!(of_sums.iter().product::<u32>(), 8, "{of_sums:?}");
    assert_eq!(of_sums[2], 1, "the last axis stays whole");
    let of_turn = parts(turn::graph(), &[("N", 64), ("M", 64)], "y.transposed");
    assert_eq!(of_turn, [1, 1]);
}

#[test]
fn results_that_nobody_reads_are_not_computed() {
    let graph = count::graph().into_graph().unwrap();
    let dims: BTreeMap<Arc<str>, i64> = [("N".into(), 8), ("M".into(), 2)].into();
    let inputs = given(&graph, &dims);
    let inputs = inputs
        .iter()
        .map(|(n, t)| (n.to_string(), crate::support::to_runtime(t)))
        .collect();
    // One worker is the calling thread.
    let session = Session::builder().no_cache().workers(1).build().unwrap();
    let mut program = session.compile_graph(graph, dims).unwrap();
    let before = CALLS.get();
    program.run(&inputs).unwrap();
    assert_eq!(CALLS.get() - before, 1);
}

#[test]
fn faults_and_panics_are_errors_with_the_statement() {
    for (_, session) in sessions() {
        let mut program = session
            .compile(fail::graph(), fail::Dims { n: 16 })
            .unwrap();
        let mut run = |x: f32| {
            let x = ndarray::Array1::from_elem(16, x);
            program
                .run(fail::Inputs { x })
                .map(|out| out.y[3])
                .map_err(|e| e.to_string())
        };
        assert_eq!(run(2.0), Ok(2.0));
        let error = run(13.0).unwrap_err();
        assert!(error.contains("`y.failing`"), "{error}");
        assert!(
            error.contains("kernel `failing`: 13 brings bad luck"),
            "{error}"
        );
        let error = run(14.0).unwrap_err();
        assert!(
            error.contains("kernel `failing`: it panicked: no element is 14"),
            "{error}"
        );
        assert_eq!(run(3.0), Ok(3.0), "a run after a fault");
    }
}

#[test]
fn a_graph_without_its_kernel_is_refused_when_it_is_compiled() {
    let text = turn::graph().into_graph().unwrap().to_string();
    assert!(
        text.contains(r#"extern("transposed", 0, [], []) of %0[n, m] -> f32[m=M, n=N]"#),
        "{text}"
    );
    let graph: EinGraph = text.parse().unwrap();
    assert_eq!(graph.to_string(), text);
    let dims: BTreeMap<Arc<str>, i64> = [("N".into(), 2), ("M".into(), 3)].into();
    let session = Session::builder().no_cache().build().unwrap();
    let error = session
        .compile_graph(graph.clone(), dims.clone())
        .map(|_| ())
        .unwrap_err();
    assert!(
        error
            .to_string()
            .contains("there is no kernel `transposed`"),
        "{error}"
    );
    let inputs = given(&graph, &dims);
    let error = run(&graph.bind(&dims).unwrap(), &inputs).unwrap_err();
    assert!(
        error
            .to_string()
            .contains("there is no kernel `transposed`"),
        "{error}"
    );
    let graph = graph.with_kernel("transposed", whole);
    assert!(session.compile_graph(graph, dims).is_ok());
}

#[test]
fn kernels_are_called_through_handles() {
    let graph = Graph::new();
    let x = graph.input::<f32, 2>("x", [4, 3].map(Dim::from));
    let y = graph.input::<f32, 1>("y", [Dim::from(6)]);
    let (s, z) = counted(x, y);
    graph.output("s", s);
    graph.output("z", z);
    let graph = graph.finish().unwrap();
    assert!(graph.kernels().get("counted").is_some());
    assert_eq!(
        graph.node(graph.outputs()[1].node).shape,
        [4, 6].map(Dim::from)
    );
    assert_eq!(graph.node(graph.outputs()[0].node).dtype, DType::F32);
}
