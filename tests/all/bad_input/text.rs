//! Malformed programs, dumps and einsum strings.

use std::collections::BTreeMap;

use eindecomp::EinGraph;
use eindecomp_core::ein::{DType, Dim};
use eindecomp_core::graph::testing::random_graph;
use eindecomp_core::graph::{GraphBuilder, Role};
use proptest::prelude::*;

use crate::bad_input::{dims, session, within};
use crate::support::config;

const PROGRAM: &str = "
    struct Layer<dim D, dim F> { #[name = \"l.{}.w\"] w: f32[F, D], v: f32[D, F] }
    fn mish(x) = x * tanh(softplus(x));
    fn mlp<dim B, dim D, dim F>(x: f32[B, D], #[weight] l: Layer<D, F>) -> f32[B, D] where D >= 2 {
        let h[b, f] = mish(sum[d] x[b, d] * l.w[f, d]);
        let y[b, d] = if d < D / 2 { x[b, d] } else { sum[f] h[b, f] * l.v[d, f] };
        y
    }
    fn model<dim B, dim D>(x: f32[B, D], ids: u32[B], #[weight] layers: [Layer<D, 4>; 2]) -> (f32[B, D], i64[B]) {
        let mut x = x;
        for l in layers { x = mlp(x, l); }
        let y[b, d] = x[ids[b], d];
        let a[b] = argmax[d] y[b, d];
        (y, a)
    }";

/// Read as a dump and as a program; what is accepted prints as it reads and compiles or is refused.
fn read(text: &str) {
    if let Ok(graph) = EinGraph::parse(text) {
        let again = EinGraph::parse(&graph.to_string());
        assert_eq!(again.as_ref(), Ok(&graph), "{graph}");
        compile(graph);
    }
    for block in ["mlp", "model", "f"] {
        match EinGraph::from_text(text, block, &BTreeMap::new()) {
            Ok(graph) => compile(graph),
            Err(error) => drop(error.to_string()),
        }
    }
}

fn compile(graph: EinGraph) {
    let all = graph.symbols().into_iter().map(|s| (s, 4)).collect();
    if let Err(error) = session(2).compile_graph(graph, all) {
        drop(error.to_string());
    }
}

/// One edit of `text`: at `at`, over `len` characters, with something from `other`.
fn edit(text: &str, kind: u8, at: usize, len: usize, other: usize) -> String {
    const PIECES: [&str; 20] = [
        "(",
        ")",
        "[",
        "]",
        "{",
        "}",
        "-",
        "%0",
        "#3",
        "$0",
        "99999999999999999999",
        "4294967296",
        "0",
        "1",
        "\"",
        "->",
        "e",
        "i",
        " of ",
        "é",
    ];
    let chars: Vec<char> = text.chars().collect();
    let at = at % chars.len();
    let end = (at + len).min(chars.len());
    let piece = PIECES[other % PIECES.len()].chars();
    let from = other % chars.len();
    let copied = &chars[from..(from + len).min(chars.len())];
    let middle: Vec<char> = match kind {
        0 => return chars[..at].iter().collect(),
        1 => Vec::new(),
        2 => piece.collect(),
        3 => piece.chain(chars[at..end].iter().copied()).collect(),
        4 => copied.to_vec(),
        _ => [&chars[at..end], &chars[at..end]].concat(),
    };
    [&chars[..at], &middle, &chars[end..]]
        .concat()
        .iter()
        .collect()
}

proptest! {
    #![proptest_config(config(600))]

    #[test]
    fn edited_texts_are_read_or_refused(
        seed in 0..200u64,
        program: bool,
        edits in prop::collection::vec((0..6u8, any::<usize>(), 1..30usize, any::<usize>()), 1..4),
    ) {
        within(move || {
            let mut text = match program {
                true => PROGRAM.to_owned(),
                false => random_graph(seed, 3).bound().graph().to_string(),
            };
            for (kind, at, len, other) in edits {
                if text.is_empty() {
                    break;
                }
                text = edit(&text, kind, at, len, other);
            }
            read(&text);
        });
    }
}

#[test]
fn truncated_programs_are_refused() {
    within(|| {
        for (at, _) in PROGRAM.char_indices() {
            assert!(EinGraph::from_text(&PROGRAM[..at], "model", &BTreeMap::new()).is_err());
        }
    });
}

/// Nested so deep that a parser without a bound would leave its stack.
#[test]
fn depth_is_bounded() {
    let deep = |open: &str, close: &str| open.repeat(100_000) + "x[b]" + &close.repeat(100_000);
    let program =
        |expr: &str| format!("fn f<dim B>(x: f32[B]) -> f32[B] {{ let y[b] = {expr}; y }}");
    let dump = |expr: &str| {
        format!(
            "eingraph {{ %0 \"x\" = input f32[2] %1 \"y\" = {expr} -> f32[b=2] output \"y\" = %1 }}"
        )
    };
    let pairs = [
        ("(", ")"),
        ("-", ""),
        ("!", ""),
        ("exp(", ")"),
        ("x[", "]"),
        ("1+", ""),
        ("1-(", ")"),
        ("if b < 1 {", "} else { 1 }"),
        ("sum[b] ", ""),
        ("", " as f32"),
        ("", "+x[b]"),
        ("[", ""),
        ("{", ""),
    ];
    for (open, close) in pairs {
        for text in [program(&deep(open, close)), dump(&deep(open, close))] {
            within(move || read(&text));
        }
    }
    for shape in [
        "(".repeat(100_000),
        "B/(".repeat(100_000),
        "B*".repeat(100_000),
        "B+".repeat(100_000),
    ] {
        let text = format!("fn f<dim B>(x: f32[{shape}1]) -> f32[B] {{ x }}");
        within(move || read(&text));
        let text = format!("eingraph {{ %0 \"x\" = input f32[{shape}1] output \"x\" = %0 }}");
        within(move || read(&text));
    }
    for text in ["fn f(", "struct S {", "for x in y {", "[", "%0 %0 "] {
        let text = text.repeat(100_000);
        within(move || read(&text));
    }
}

/// As large as the bounds of the dump allow, through the whole pipeline.
#[test]
fn the_longest_expression_runs() {
    within(|| {
        let sum = "%0[b] + ".repeat(450);
        let negations = "-".repeat(95);
        for body in [format!("{sum}%0[b]"), format!("{negations}%0[b]")] {
            let text = format!(
                "eingraph {{ %0 \"x\" = input f32[2] %1 \"y\" = {body} -> f32[b=2] output \"y\" = %1 }}"
            );
            let graph = EinGraph::parse(&text).unwrap();
            let mut program = session(2).compile_graph(graph, dims(&[])).unwrap();
            let x = crate::bad_input::ramp(&[2]);
            program.run(&crate::bad_input::named([("x", x)])).unwrap();
        }
    });
}

#[test]
fn wrong_einsum_strings_are_refused() {
    within(|| {
        let mut g = GraphBuilder::new();
        let a = g
            .input("a", Role::Data, DType::F32, [2, 3].map(Dim::from).to_vec())
            .unwrap();
        let b = g
            .input("b", Role::Data, DType::F32, [3, 4].map(Dim::from).to_vec())
            .unwrap();
        let wrong = [
            "",
            "->",
            "ij",
            "ij,jk,kl->il",
            "ij,jk->iz",
            "ij,jk->ii",
            "ij,jk-ik",
            "ij,jk>ik",
            "ij,jk->->ik",
            "i,jk->ik",
            "ijk,jk->ik",
            "ij,ij->ij",
            "i.j,jk->ik",
            "...ij...,jk->ik",
            "i1,jk->ik",
            "éj,jk->k\u{0}",
            "ij,,jk->ik",
            ",",
            "->ik",
            "ij,jk->ik,",
            "......,jk->ik",
        ];
        for text in wrong {
            let error = g.einsum_str(text, &[a, b]).expect_err(text);
            assert!(!error.to_string().is_empty());
        }
        let long = "a".repeat(100_000);
        assert!(g.einsum_str(&format!("{long},jk->a"), &[a, b]).is_err());
        let none = g.einsum_str("->", &[]).map_err(|e| e.to_string());
        drop(none);
        let far = eindecomp_core::graph::NodeId(77);
        assert!(g.einsum_str("ij,jk->ik", &[a, far]).is_err());
    });
}
