//! What the checks find: faults that are planted in a generated kernel.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::sync::Arc;

use eindecomp_core::ein::{
    Agg, DType, Dim, EinSum, EinSumSpec, Expr, Label, LabelId, Operand, Reduce,
};
use eindecomp_core::graph::{GraphBuilder, Role};
use eindecomp_core::plan::layout::Region;

use super::{Argument, Launched, Memory, Twin};
use crate::backend::cuda::GpuKernel;
use crate::backend::cuda::call::{Arg, Call, Launch, Module, Place, Window};

const ROWS: usize = 3;
const COLUMNS: usize = 300;

/// Sums of rows: threads share the elements of a row, so that there is a tree with barriers.
fn sums() -> Launch {
    let label = |name: &str, n: usize| Label {
        name: name.into(),
        extent: Dim::from(n as i64),
    };
    let mut graph = GraphBuilder::default();
    let shape = vec![Dim::from(ROWS as i64), Dim::from(COLUMNS as i64)];
    let x = graph.input("x", Role::Data, DType::F32, shape);
    let x = x.expect("an input");
    let einsum = EinSum::new(EinSumSpec {
        labels: vec![label("i", ROWS), label("j", COLUMNS)],
        out: vec![vec![LabelId(0)]],
        reduce: Some(Reduce {
            agg: Agg::SUM.into(),
            labels: vec![LabelId(1)],
            acc: DType::F32,
            filter: None,
        }),
        operands: vec![Operand {
            node: x,
            index: vec![Expr::Index(LabelId(0)), Expr::Index(LabelId(1))],
            otherwise: None,
        }],
        body: Expr::Operand(0),
        dtype: DType::F32,
    });
    let einsum = einsum.expect("a sum");
    let sum = graph.einsum("sum", einsum, Vec::new()).expect("a vertex");
    graph.output("sum", sum).expect("an output");
    let graph = graph.finish().expect("a graph");
    let graph = graph.bind(&BTreeMap::new()).expect("numbers");
    let kernel = GpuKernel::compile(&graph, sum).expect("a kernel");
    let window = |shape: &[usize]| Window {
        dtype: DType::F32,
        region: Region::whole(shape),
    };
    let tile = Region::whole(&[ROWS, COLUMNS]);
    let work = kernel.calls(&tile, &[window(&[ROWS, COLUMNS])], &[window(&[ROWS])], &[]);
    match work.expect("windows that fit").calls.remove(0) {
        Call::Launch(launch) => launch,
        Call::Matmul(_) => panic!("a sum of one operand is no product"),
    }
}

/// Runs the sums with some text in place of other, from `shift` bytes past an aligned address on.
fn run(from: &str, to: &str, shift: usize) -> Result<Vec<f32>, String> {
    let launch = sums();
    assert!(
        launch.module.source.contains(from),
        "{}",
        launch.module.source
    );
    let module = Arc::new(Module {
        source: launch.module.source.replacen(from, to, 1),
        entries: launch.module.entries.clone(),
    });
    let twin = Twin::default();
    twin.compile(std::slice::from_ref(&module))?;
    let cells = |bytes: Vec<u8>| {
        let mut cells: Vec<Cell<u8>> = vec![Cell::new(0); bytes.len() + 16];
        let start = cells.as_ptr().align_offset(8) + shift;
        for (cell, byte) in cells[start..].iter_mut().zip(&bytes) {
            cell.set(*byte);
        }
        (cells, start, bytes.len())
    };
    let ones: Vec<u8> = (0..ROWS * COLUMNS)
        .flat_map(|_| 1f32.to_ne_bytes())
        .collect();
    let (x, y) = (cells(ones), cells(vec![0; 4 * ROWS]));
    let known = [vec![Cell::new(1); x.2], vec![Cell::new(0); y.2]];
    fn memory<'a>(
        (cells, start, length): &'a (Vec<Cell<u8>>, usize, usize),
        known: &'a [Cell<u8>],
    ) -> Argument<'a> {
        Argument::Memory(Memory {
            bytes: &cells[*start..][..*length],
            known: Some(known),
        })
    }
    let argument = |arg: &Arg| match *arg {
        Arg::Pointer(p) if p.place == Place::Read(0) => memory(&x, &known[0]),
        Arg::Pointer(_) => memory(&y, &known[1]),
        Arg::Int(n) => Argument::Int(n),
        Arg::Float(x) => Argument::Float(x),
        Arg::Fault => panic!("nothing is out of range"),
    };
    let arguments: Vec<Argument<'_>> = launch.args.iter().map(argument).collect();
    for seed in 0..4 {
        twin.launch(&Launched {
            module: &module,
            entry: launch.entry,
            blocks: launch.grid[0],
            threads: launch.block[0],
            arguments: &arguments,
            seed,
            races: true,
        })?;
    }
    let bytes: Vec<u8> = y.0[y.1..][..y.2].iter().map(Cell::get).collect();
    let floats = bytes
        .chunks(4)
        .map(|b| f32::from_ne_bytes([b[0], b[1], b[2], b[3]]));
    Ok(floats.collect())
}

#[track_caller]
fn finds(from: &str, to: &str, what: &str) {
    let error = run(from, to, 0).expect_err("a fault was planted");
    assert!(error.contains(what), "{error}");
}

#[test]
fn a_kernel_as_it_is_passes() {
    assert_eq!(run("(void)", "(void)", 0), Ok(vec![COLUMNS as f32; ROWS]));
}

#[test]
fn a_missing_barrier_is_a_race() {
    // Between the threads' sums and the tree, and between the levels of the tree.
    let first = "shared[lane * rows + row] = s;\n            __syncthreads();";
    finds(first, "shared[lane * rows + row] = s;", "");
    let race = run("half /= 2) {\n", "half /= 2) {\n if (false)\n", 0);
    assert_ne!(race, Ok(vec![COLUMNS as f32; ROWS]));
    finds(
        "                __syncthreads();\n            }\n            if (lane == 0)",
        "}\n            if (lane == 0)",
        "a thread",
    );
}

#[test]
fn a_barrier_in_a_branch_is_found() {
    let last = "if (lane == 0) s = shared[row];";
    let branch = "if (lane == 0) { s = shared[row]; __syncthreads(); }";
    finds(last, branch, "a barrier that not every thread");
}

#[test]
fn one_too_many_is_out_of_bounds() {
    finds("q < reduced;", "q <= reduced;", "out of bounds");
    finds("p < points", "p <= points", "out of bounds");
}

#[test]
fn what_was_never_written_is_not_read() {
    finds(
        "shared[lane * rows + row] = s;",
        "if (lane > 0) shared[lane * rows + row] = s;",
        "never written",
    );
}

#[test]
fn alignment_is_looked_at() {
    let error = run("(void)", "(void)", 2).expect_err("not aligned");
    assert!(error.contains("not aligned"), "{error}");
}
