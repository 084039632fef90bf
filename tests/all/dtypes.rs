//! Every dtype through every class of operation: reference against the runtime on 1, 2, 3, 4 and 8
//! devices, in shared and private memory.

use std::collections::BTreeMap;
use std::sync::Arc;

use eindecomp::{Cluster, DType, EinGraph, MemoryMode, Session};
use eindecomp_core::graph::from_syntax::Consts;
use eindecomp_core::reference::{RefTensor, run};

const FLOATS: [DType; 4] = [DType::F64, DType::F32, DType::BF16, DType::F16];
const INTS: [DType; 4] = [DType::I64, DType::I32, DType::U32, DType::U8];

/// A class of operations: name, parameters, result type and statement, `T` being the dtype.
type Class = (&'static str, &'static str, &'static str, &'static str);

const NUMBERS: [Class; 9] = [
    (
        "arithmetic",
        "a: T[N], b: T[N]",
        "T[N]",
        "let y[n] = a[n] + b[n] * a[n] - b[n];",
    ),
    ("sum", "a: T[N, M]", "T[N]", "let y[n] = sum[m] a[n, m];"),
    ("prod", "a: T[N, M]", "T[M]", "let y[m] = prod[n] a[n, m];"),
    (
        "extremes",
        "a: T[N, M]",
        "T[N]",
        "let y[n] = (max[m] a[n, m]) - (min[m] a[n, m]);",
    ),
    (
        "contraction",
        "a: T[N, M], b: T[M, N]",
        "T[N, N]",
        "let y[n, k in N] = sum[m] a[n, m] * b[m, k];",
    ),
    (
        "argmax",
        "a: T[N, M]",
        "i64[N]",
        "let y[n] = argmax[m] a[n, m];",
    ),
    (
        "comparison",
        "a: T[N], b: T[N]",
        "bool[N]",
        "let y[n] = a[n] < b[n] || a[n] == b[n];",
    ),
    (
        "select",
        "a: T[N], b: T[N]",
        "T[N]",
        "let y[n] = if a[n] > b[n] { a[n] } else { b[n] };",
    ),
    (
        "window",
        "a: T[N]",
        "T[N]",
        "let y[n] = a[n] + (a[n - 1] else ZERO);",
    ),
];

const ONLY_FLOATS: [Class; 3] = [
    (
        "functions",
        "a: T[N]",
        "T[N]",
        "let y[n] = exp(-a[n]) + sqrt(a[n]) * tanh(a[n]);",
    ),
    (
        "logsumexp",
        "a: T[N, M]",
        "T[N]",
        "let y[n] = logsumexp[m] a[n, m];",
    ),
    ("mean", "a: T[N, M]", "T[N]", "let y[n] = mean[m] a[n, m];"),
];

const ONLY_INTS: [Class; 2] = [
    (
        "division",
        "a: T[N], b: T[N]",
        "T[N]",
        "let y[n] = (a[n] * 3) / (b[n] + 1) + a[n] % (b[n] + 1);",
    ),
    (
        "gather",
        "a: T[N], t: f32[4]",
        "f32[N]",
        "let y[n] = t[a[n]];",
    ),
];

const BOOLS: [Class; 3] = [
    (
        "logic",
        "a: T[N], b: T[N]",
        "T[N]",
        "let y[n] = a[n] && !b[n] || a[n] == b[n];",
    ),
    (
        "any and all",
        "a: T[N, M]",
        "T[N]",
        "let y[n] = (any[m] a[n, m]) && !(all[m] a[n, m]);",
    ),
    (
        "select",
        "a: T[N], b: T[N]",
        "T[N]",
        "let y[n] = if a[n] { b[n] } else { !b[n] };",
    ),
];

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

/// Relative error that a statement may have: elements of half precision are rounded once.
fn tolerance(dtype: DType) -> f64 {
    match dtype {
        DType::BF16 => 1.0 / 128.0,
        DType::F16 => 1.0 / 1024.0,
        DType::F32 => 1e-5,
        _ => 1e-12,
    }
}

/// Elements that no operation takes out of its dtype.
fn small(input: usize, i: usize) -> f64 {
    ((i * 7 + input * 2) % 4) as f64
}

/// Runs a program on the reference and on each session, of whose elements are those that `element`
/// gives by the input and the place; gives the reference's first output.
fn agrees(sessions: &[Session], source: &str, element: impl Fn(usize, usize) -> f64) -> Vec<f64> {
    let graph = EinGraph::from_text(source, "f", &Consts::new());
    let graph = graph.unwrap_or_else(|e| panic!("{source}\n{e}"));
    let dims: BTreeMap<Arc<str>, i64> = [("N".into(), 8), ("M".into(), 5)].into();
    let dims = dims
        .into_iter()
        .filter(|(name, _)| graph.symbols().contains(name));
    let dims: BTreeMap<Arc<str>, i64> = dims.collect();
    let bound = graph.bind(&dims).unwrap();
    let inputs = bound.ids().filter(|(_, n)| n.role().is_some());
    let inputs: BTreeMap<Arc<str>, RefTensor> = inputs
        .map(|(id, node)| {
            let data = (0..bound.elements(id)).map(|i| element(id.at(), i));
            let data: Vec<f64> = data.collect();
            let tensor = RefTensor::from_f64(node.dtype, bound.shape(id).to_vec(), &data);
            (node.name.clone(), tensor.unwrap())
        })
        .collect();
    let want = run(&bound, &inputs).unwrap();
    let given = inputs
        .iter()
        .map(|(n, t)| (n.to_string(), crate::support::to_runtime(t)))
        .collect();
    for session in sessions {
        let program = session.compile_graph(graph.clone(), dims.clone());
        let mut program = program.unwrap_or_else(|e| panic!("{source}\n{e}"));
        let outputs = program
            .run(&given)
            .unwrap_or_else(|e| panic!("{source}\n{e}"));
        for (output, want) in graph.outputs().iter().zip(&want) {
            let got = crate::support::to_reference(&outputs[&*output.name]);
            assert_eq!(got.dtype(), want.dtype(), "{source}");
            let near = tolerance(want.dtype());
            for (got, want) in got.to_f64().into_iter().zip(want.to_f64()) {
                let close = got == want || (got - want).abs() <= near * want.abs();
                assert!(close, "{source}\n{got} is not {want}");
            }
        }
    }
    want[0].to_f64()
}

fn program(dtype: DType, (_, params, result, statement): Class) -> String {
    let zero = if dtype.is_float() { "0.0" } else { "0" };
    let with = |text: &str| {
        let named = text
            .replace(": T", &format!(": {dtype}"))
            .replace("ZERO", zero);
        match named.strip_prefix('T') {
            Some(rest) => format!("{dtype}{rest}"),
            None => named,
        }
    };
    format!(
        "fn f<dim N, dim M>({}) -> {} {{ {} y }}",
        with(params),
        with(result),
        with(statement)
    )
}

#[test]
fn each_dtype_and_class_agrees_with_the_reference() {
    let sessions = sessions();
    let mut count = 0;
    let mut all = |dtypes: &[DType], classes: &[Class]| {
        for &dtype in dtypes {
            for &class in classes {
                agrees(&sessions, &program(dtype, class), small);
                count += 1;
            }
        }
    };
    all(&FLOATS, &NUMBERS);
    all(&INTS, &NUMBERS);
    all(&FLOATS, &ONLY_FLOATS);
    all(&INTS, &ONLY_INTS);
    all(&[DType::Bool], &BOOLS);
    println!("{count} programs on {} sessions", sessions.len());
}

#[test]
fn each_dtype_converts_to_each_other() {
    let sessions = sessions();
    for from in DType::ALL {
        for to in DType::ALL {
            let source =
                format!("fn f<dim N>(a: {from}[N]) -> {to}[N] {{ let y[n] = a[n] as {to}; y }}");
            agrees(&sessions, &source, small);
        }
    }
}

#[test]
fn accumulators_may_be_chosen() {
    let sessions = sessions();
    for (dtype, acc) in [
        ("bf16", "f32"),
        ("f16", "f64"),
        ("f32", "f64"),
        ("u8", "i64"),
        ("i32", "i64"),
    ] {
        let source = format!(
            "fn f<dim N, dim M>(a: {dtype}[N, M]) -> {acc}[N] {{ let y[n] = sum[m; {acc}] a[n, m]; y }}"
        );
        agrees(&sessions, &source, small);
    }
}

#[test]
fn merged_axes_with_arithmetic() {
    let sessions = sessions();
    let source = "fn f<dim N, dim M>(x: f32[N * 4, M], y: f32[N, M]) -> f32[N, 3, M] {
        let z[n, g in 3, m] = 10.0 * x[(n, g + 1), m] - x[(n, 2 - g), m] + y[n, m];
        z
    }";
    agrees(&sessions, source, small);
    let source = "fn ramp<dim N>(step: f32) -> f32[N] { let y[n in N] = step * (n as f32); y }
    fn f<dim N, dim M>(x: f32[N, M]) -> f32[N, M] {
        let p: f32[M] = ramp(0.5);
        let y[n, m] = x[n, m] + p[m];
        y
    }";
    agrees(&sessions, source, small);
}

/// What LANGUAGE.md says of integers that leave their type, and of a divisor of 0.
#[test]
fn integers_wrap_and_divide_as_the_language_says() {
    let sessions = sessions();
    let of = |dtype: &str, statement: &str, a: [f64; 8], b: [f64; 8]| {
        let source = format!(
            "fn f<dim N>(a: {dtype}[N], b: {dtype}[N]) -> {dtype}[N] {{ let y[n] = {statement}; y }}"
        );
        agrees(&sessions, &source, |input, i| [a, b][input][i])
    };
    let max = f64::from(i32::MAX);
    let min = f64::from(i32::MIN);
    let a = [7.0, -7.0, 7.0, -7.0, 5.0, 0.0, min, max];
    let b = [2.0, 2.0, -2.0, -2.0, 0.0, 0.0, -1.0, 1.0];
    let quotients = [3.0, -4.0, -4.0, 3.0, 0.0, 0.0, min, max];
    assert_eq!(of("i32", "a[n] / b[n]", a, b), quotients);
    let rests = [1.0, 1.0, -1.0, -1.0, 0.0, 0.0, 0.0, 0.0];
    assert_eq!(of("i32", "a[n] % b[n]", a, b), rests);
    let sums = [9.0, -5.0, 5.0, -9.0, 5.0, 0.0, max, min];
    assert_eq!(of("i32", "a[n] + b[n]", a, b), sums);
    let a = [200.0, 5.0, 255.0, 0.0, 16.0, 1.0, 128.0, 3.0];
    let b = [100.0, 6.0, 255.0, 1.0, 16.0, 0.0, 2.0, 5.0];
    let sums = [44.0, 11.0, 254.0, 1.0, 32.0, 1.0, 130.0, 8.0];
    assert_eq!(of("u8", "a[n] + b[n]", a, b), sums);
    let differences = [100.0, 255.0, 0.0, 255.0, 0.0, 1.0, 126.0, 254.0];
    assert_eq!(of("u8", "a[n] - b[n]", a, b), differences);
    // Each operation wraps, not the statement alone.
    let halves = [22.0, 5.0, 127.0, 0.0, 16.0, 0.0, 65.0, 4.0];
    assert_eq!(of("u8", "(a[n] + b[n]) / 2", a, b), halves);
    let converted = |dtype: &str, a: [f64; 8]| {
        let source =
            format!("fn f<dim N>(a: f64[N]) -> {dtype}[N] {{ let y[n] = a[n] as {dtype}; y }}");
        agrees(&sessions, &source, |_, i| a[i])
    };
    let a = [1.9, -1.9, 300.0, -5.0, 1e30, -1e30, f64::NAN, f64::INFINITY];
    let bytes = [1.0, 0.0, 255.0, 0.0, 255.0, 0.0, 0.0, 255.0];
    assert_eq!(converted("u8", a), bytes);
    let words = [1.0, -1.0, 300.0, -5.0, max, min, 0.0, max];
    assert_eq!(converted("i32", a), words);
}
