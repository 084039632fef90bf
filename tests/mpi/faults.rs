//! Ranks that fail, stop, or do not do the same: the job ends and says why.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use eindecomp::transport::{Mpi, Transport};
use eindecomp::{EinGraph, Error, JobError, Program};
use eindecomp_core::kernel::{Call, KernelResult};
use eindecomp_runtime::{Data, Tensor};

use crate::launch::{End, Test};
use crate::programs::session;

const REFUSED: &str = "refused with both hashes";

pub fn tests() -> Vec<Test> {
    let test = |name, rank, end| Test {
        name,
        rank,
        ranks: &[3],
        end,
        env: &[],
        memory: None,
    };
    vec![
        test("refused_dims", other_dims, End::Well(REFUSED)),
        test("refused_graphs", other_graphs, End::Well(REFUSED)),
        test(
            "panic",
            panic,
            End::Badly(&["rank 1: t", "statement `y.gives_up`", "rank 1 gives up"]),
        ),
        test(
            "wrong_data",
            wrong_data,
            End::Badly(&["rank 2: t", "statement `y`", "index 5 is outside axis 0"]),
        ),
        test(
            "other_shapes",
            other_shapes,
            End::Badly(&["rank 0: this rank runs (", "but rank 1 runs ("]),
        ),
        test(
            "early_end",
            early_end,
            End::Badly(&["rank 0: this rank runs (", "but rank 2 ends"]),
        ),
        Test {
            memory: Some(4 << 20),
            ..test(
                "memory",
                memory,
                End::Badly(&[
                    "memory of the devices",
                    "bytes of memory could not be allocated",
                ]),
            )
        },
        Test {
            env: &[("EINDECOMP_TIMEOUT", "1")],
            ..test(
                "timeout",
                late,
                End::Badly(&["has waited 1.", "s for rank 1: `", "EINDECOMP_TIMEOUT"]),
            )
        },
        Test {
            ranks: &[2, 4],
            ..test("kill", for_ever, End::Killed)
        },
    ]
}

const MATMUL: &str = "fn f<dim N, dim M>(a: f32[N, M], b: f32[M, N]) -> f32[N, N] {
    let y[i, k] = sum[j] a[i, j] * b[j, k];
    y
}";

fn rank() -> u32 {
    Mpi::start().expect("a job").rank()
}

fn compile(text: &str, n: i64, m: i64) -> Result<Program, Error> {
    let graph = EinGraph::from_text(text, "f", &Default::default()).expect("a block");
    let graph = graph.with_kernel("gives_up", gives_up);
    let dims = [(Arc::from("N"), n), (Arc::from("M"), m)];
    session().compile_graph(graph, BTreeMap::from(dims))
}

fn ones(shape: &[usize]) -> Tensor {
    let data = Data::F32(vec![1.0; shape.iter().product()]);
    Tensor::new(shape.to_vec(), data).expect("as many")
}

fn factors(n: usize, m: usize) -> BTreeMap<String, Tensor> {
    [("a".into(), ones(&[n, m])), ("b".into(), ones(&[m, n]))].into()
}

fn refused(compiled: Result<Program, Error>) {
    match compiled.map(|_| ()) {
        Err(Error::Job(JobError::Differs {
            rank: 1,
            theirs,
            ours,
        })) if theirs != ours => {
            println!("{REFUSED}");
        }
        other => panic!("{other:?}"),
    }
}

fn other_dims() {
    let n = if rank() == 1 { 9 } else { 8 };
    refused(compile(MATMUL, n, 8));
    // They can go on.
    let mut program = compile(MATMUL, 8, 8).expect("compiles");
    program.run(&factors(8, 8)).expect("runs");
}

fn other_graphs() {
    let text = match rank() {
        1 => MATMUL.replace("a[i, j] *", "2.0 * a[i, j] *"),
        _ => MATMUL.into(),
    };
    refused(compile(&text, 8, 8));
}

fn gives_up(_: &mut Call<'_>) -> KernelResult {
    let rank = rank();
    assert_ne!(rank, 1, "rank {rank} gives up");
    Ok(())
}

fn panic() {
    const TEXT: &str = "extern fn gives_up<dim N>(x: f32[N]) -> f32[N] splits(N);
        fn f<dim N, dim M>(a: f32[N], b: f32[M]) -> f32[N] { let y = gives_up(a); y }";
    let mut program = compile(TEXT, 12, 1).expect("compiles");
    let inputs = [("a".into(), ones(&[12])), ("b".into(), ones(&[1]))];
    program.run(&inputs.into()).expect("a rank panics");
}

fn wrong_data() {
    const TEXT: &str =
        "fn f<dim N, dim M>(a: f32[M], at: i32[N]) -> f32[N] { let y[n] = a[at[n]]; y }";
    let mut program = compile(TEXT, 12, 5).expect("compiles");
    let mut at = vec![1; 12];
    at[11] = 5;
    let at = Tensor::new(vec![12], Data::I32(at)).expect("as many");
    let inputs = [("a".into(), ones(&[5])), ("at".into(), at)];
    let outcome = program.run(&inputs.into());
    panic!("the job goes on: {outcome:?}");
}

fn other_shapes() {
    let mut program = compile(MATMUL, 8, 8).expect("compiles");
    let n = if rank() == 1 { 6 } else { 8 };
    program.run(&factors(n, n)).expect("another shape");
}

fn early_end() {
    let mut program = compile(MATMUL, 8, 8).expect("compiles");
    program.run(&factors(8, 8)).expect("runs");
    if rank() == 2 {
        return;
    }
    loop {
        program.run(&factors(8, 8)).expect("a rank is gone");
    }
}

fn memory() {
    let side = 1 << 16;
    compile(MATMUL, side, side).expect("too large");
}

fn late() {
    let mut program = compile(MATMUL, 8, 8).expect("compiles");
    if rank() == 1 {
        std::thread::sleep(Duration::from_secs(100));
    }
    program.run(&factors(8, 8)).expect("a rank is late");
}

fn for_ever() {
    let mut program = compile(MATMUL, 96, 96).expect("compiles");
    loop {
        program.run(&factors(96, 96)).expect("runs");
    }
}
