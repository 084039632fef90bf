//! What is wrong with what is given is a typed error (with the cache, a warning and a new plan):
//! no panic, no hang, nothing lost.

mod cache;
mod extents;
mod handles;
mod inputs;
mod text;
mod weights;

use std::collections::BTreeMap;
use std::sync::{Arc, mpsc};
use std::time::Duration;

use eindecomp::{Cluster, EinGraph, Error, Program, Session, SessionBuilder};
use eindecomp_runtime::{Data, Tensor};

/// More than any case needs.
const LIMIT: Duration = Duration::from_secs(20);

/// Runs a case on a thread of its own, and fails if it does not end in time.
fn within<T: Send + 'static>(case: impl FnOnce() -> T + Send + 'static) -> T {
    let (send, receive) = mpsc::channel();
    let thread = std::thread::spawn(move || {
        let result = case();
        // After the limit nobody listens any more.
        let _ = send.send(());
        result
    });
    if let Err(mpsc::RecvTimeoutError::Timeout) = receive.recv_timeout(LIMIT) {
        panic!("not done after {LIMIT:?}");
    }
    match thread.join() {
        Ok(result) => result,
        Err(panic) => std::panic::resume_unwind(panic),
    }
}

/// Devices too small for a mistake to be expensive.
fn small(devices: u32) -> SessionBuilder {
    Session::builder()
        .cluster(Cluster::cpus(devices).with_capacity(1 << 22))
        .workers(2)
        .no_cache()
}

fn session(devices: u32) -> Session {
    small(devices).build().unwrap()
}

fn dims(values: &[(&str, i64)]) -> BTreeMap<Arc<str>, i64> {
    values.iter().map(|&(s, v)| (s.into(), v)).collect()
}

fn block(text: &str, name: &str) -> EinGraph {
    EinGraph::from_text(text, name, &BTreeMap::new()).unwrap_or_else(|e| panic!("{e}"))
}

fn f32s(shape: &[usize], values: impl IntoIterator<Item = f32>) -> Tensor {
    let data = values.into_iter().take(shape.iter().product()).collect();
    Tensor::new(shape.to_vec(), Data::F32(data)).unwrap()
}

fn ramp(shape: &[usize]) -> Tensor {
    f32s(shape, (0u8..5).cycle().map(f32::from))
}

fn named<const N: usize>(tensors: [(&str, Tensor); N]) -> BTreeMap<String, Tensor> {
    tensors.map(|(n, t)| (n.to_owned(), t)).into()
}

/// `y = x·w`, all dims symbolic, `w` a weight.
fn product() -> EinGraph {
    let text = "fn f<dim B, dim K, dim N>(x: f32[B, K], #[weight] w: f32[K, N]) -> f32[B, N] {
        let y[b, n] = sum[k] x[b, k] * w[k, n];
        y
    }";
    block(text, "f")
}

/// [`product`] at 2·3·4 with its weights.
fn loaded(session: &Session) -> Program {
    let mut program = session
        .compile_graph(product(), dims(&[("B", 2), ("K", 3), ("N", 4)]))
        .unwrap();
    program.load(named([("w", ramp(&[3, 4]))])).unwrap();
    program
}

/// The error of a compilation, which must fail.
fn refused(session: &Session, graph: EinGraph, dims: BTreeMap<Arc<str>, i64>) -> Error {
    match session.compile_graph(graph, dims) {
        Ok(_) => panic!("this should not compile"),
        Err(error) => error,
    }
}
