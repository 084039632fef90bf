//! The programs of the language's reference parse and print back; malformed ones give errors.

use proptest::prelude::*;

use super::{MAX_DEPTH, MAX_OPERATORS, parse_text};
use crate::syntax::ast::*;
use crate::syntax::diag::Code;
use crate::syntax::lex::lex;

/// One program that uses the whole grammar.
const TOUR: &str = include_str!("tour.ein");

fn parsed(source: &str) -> Program {
    let (program, diags) = parse_text(source);
    let shown: String = diags.iter().map(|d| d.render(source).to_string()).collect();
    assert!(diags.is_empty(), "{shown}");
    program
}

/// A tree without its spans.
fn bare(program: &Program) -> String {
    let text = format!("{program:?}");
    let mut parts = text.split("span: @");
    let mut out = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        out.push_str(part.trim_start_matches(|ch: char| ch.is_ascii_digit() || ch == '.'));
    }
    // Spans that are not in a field called `span`.
    let mut stripped = String::new();
    let mut rest = &out[..];
    while let Some(at) = rest.find('@') {
        stripped.push_str(&rest[..at]);
        rest = rest[at + 1..].trim_start_matches(|ch: char| ch.is_ascii_digit() || ch == '.');
    }
    stripped + rest
}

fn round_trips(source: &str) {
    let program = parsed(source);
    let text = program.to_string();
    let again = parsed(&text);
    assert_eq!(bare(&program), bare(&again), "{text}");
    assert_eq!(text, again.to_string());
}

/// The program that a single statement makes.
fn with_stmt(stmt: &str) -> String {
    format!("fn f<dim N>(x: f32[N]) -> f32[N] {{\n{stmt}\ny\n}}")
}

fn value(stmt: &str) -> ExprKind {
    let program = parsed(&with_stmt(stmt));
    let Item::Block(block) = program.items.into_iter().next().unwrap() else {
        panic!()
    };
    match block.stmts.into_iter().next().unwrap().kind {
        StmtKind::Let { value, .. } | StmtKind::Store { value, .. } => value.kind,
        other => panic!("{other:?}"),
    }
}

/// The first error's code and message, and its primary text.
fn error(source: &str) -> (Code, String, String) {
    let (_, diags) = parse_text(source);
    let first = diags
        .first()
        .unwrap_or_else(|| panic!("no error in {source}"));
    let place = &source[first.primary.start as usize..first.primary.end as usize];
    (first.code, first.message.clone(), place.to_owned())
}

fn stmt_error(stmt: &str) -> (Code, String, String) {
    error(&with_stmt(stmt))
}

#[test]
fn the_tour_round_trips() {
    round_trips(TOUR);
    assert!(parsed(TOUR).items.len() > 20);
}

#[test]
fn docs_attributes_and_visibility_survive() {
    round_trips("/// a \"b\" \\ c\n#[cfg(feature = \"x\")]\n#[inline]\npub(crate) fn f(x) = x;");
    round_trips("/** two\n lines */ pub(in a::b) fn f(x) = x;");
    let program = parsed("/// hi\nfn f(x) = x;");
    assert_eq!(
        program.items[0].head().attrs[0].kind,
        AttrKind::Doc(" hi".into())
    );
}

#[test]
fn paths_and_closing_angles() {
    round_trips(&with_stmt(
        "let y: a::Layer<D, crate::F>= ::b::norm(x, super::EPS);",
    ));
    round_trips(&with_stmt("let y: [Layer<D>; N - 1] = norm(l.a.b, T::C);"));
}

#[test]
fn a_builtin_reduction_takes_one_product() {
    let ExprKind::Binary(BinaryOp::Add, left, _) = value("let y[m] = sum[k] a[m,k]*b[k] + c[m];")
    else {
        panic!()
    };
    assert!(matches!(left.kind, ExprKind::Reduce(_)));
}

#[test]
fn a_user_aggregation_takes_arguments_only() {
    let value = value("let y[m] = welford[k] (a[m,k], b[k]) * c[m];");
    let ExprKind::Binary(BinaryOp::Mul, left, _) = value else {
        panic!()
    };
    let ExprKind::Reduce(reduce) = left.kind else {
        panic!()
    };
    assert!(matches!(reduce.body, ReduceBody::Args(args) if args.len() == 2));
}

#[test]
fn an_unknown_name_may_be_meant_as_a_reduction() {
    assert!(matches!(
        value("let y[m] = average[k] a[m,k];"),
        ExprKind::Reduce(_)
    ));
    assert!(matches!(
        value("let y[m] = a[m, k];"),
        ExprKind::Access { .. }
    ));
}

#[test]
fn precedence_is_rusts() {
    for (text, grouped) in [
        ("-x as f32 * y", "((-x) as f32) * y"),
        ("a + b * c - d", "(a + (b * c)) - d"),
        ("a || b && c == d", "a || (b && (c == d))"),
        ("!a && -b < c % d", "(!a) && ((-b) < (c % d))"),
        ("-sum[k] a[k] * b", "-(sum[k] (a[k] * b))"),
    ] {
        assert_eq!(
            group(&value(&format!("let y = {text};"))),
            group_text(grouped),
            "{text}"
        );
    }
}

/// The shape of an expression, as a fully parenthesised text without parentheses of its own.
fn group(kind: &ExprKind) -> String {
    match kind {
        ExprKind::Binary(op, a, b) => {
            format!("({} {} {})", group(&a.kind), op.symbol(), group(&b.kind))
        }
        ExprKind::Unary(op, a) => format!("({op:?} {})", group(&a.kind)),
        ExprKind::Cast(a, dtype) => format!("({} as {dtype})", group(&a.kind)),
        ExprKind::Paren(a) => group(&a.kind),
        ExprKind::Reduce(reduce) => match &reduce.body {
            ReduceBody::Product(body) => format!("({} {})", reduce.agg, group(&body.kind)),
            ReduceBody::Args(_) => reduce.agg.to_string(),
        },
        ExprKind::Name(place) | ExprKind::Access { place, .. } => place.to_string(),
        other => format!("{other:?}"),
    }
}

fn group_text(text: &str) -> String {
    group(&value(&format!("let y = {text};")))
}

#[test]
fn merged_axes_and_parentheses_are_told_apart() {
    let ExprKind::Access { subs, .. } = value("let y = x[(h, (e, d)), (i), (i + 1) * 2, ..l];")
    else {
        panic!()
    };
    assert!(matches!(&subs[0], Sub::Merged(parts, _) if matches!(parts[1], Sub::Merged(..))));
    assert!(matches!(
        &subs[1],
        Sub::Expr(Expr {
            kind: ExprKind::Paren(_),
            ..
        })
    ));
    assert!(matches!(
        &subs[2],
        Sub::Expr(Expr {
            kind: ExprKind::Binary(..),
            ..
        })
    ));
    assert!(matches!(&subs[3], Sub::Rest(_)));
}

#[test]
fn messages_say_what_was_expected_and_found() {
    let cases = [
        (
            "let y[i] = x[i]",
            Code::Syntax,
            "expected `;`, found `y`",
            "y",
        ),
        (
            "let y[i] x[i];",
            Code::Syntax,
            "expected `=`, found `x`",
            "x",
        ),
        (
            "let y[i] = ;",
            Code::Syntax,
            "expected an expression, found `;`",
            ";",
        ),
        (
            "let y[i] = x[];",
            Code::Syntax,
            "expected an index, found `]`",
            "]",
        ),
        (
            "let y[i] = let;",
            Code::Syntax,
            "expected an expression, found keyword `let`",
            "let",
        ),
        (
            "let y[i] = x[i] & x[i];",
            Code::Syntax,
            "logical operators are `&&`, `||` and `!`",
            "&",
        ),
        (
            "let y[i] = a < b < c;",
            Code::Syntax,
            "comparisons cannot be chained",
            "<",
        ),
        (
            "let type = x;",
            Code::ReservedName,
            "`type` is a keyword of Rust and cannot be used as a name",
            "type",
        ),
        (
            "let inf = x;",
            Code::ReservedName,
            "`inf` is a value and cannot be a name",
            "inf",
        ),
        (
            "let y[0] = x[0];",
            Code::Syntax,
            "expected an index, found `0`",
            "0",
        ),
        (
            "let y[] = sum[] x[i];",
            Code::Syntax,
            "expected an index to reduce, found `]`",
            "]",
        ),
        (
            "let y[i] = x[i] else y;",
            Code::Syntax,
            "expected a literal after `else`, found `y`",
            "y",
        ),
        (
            "let y[i in 2.0] = x[i];",
            Code::Literal,
            "expected an extent, found a float",
            "2.0",
        ),
        (
            "x = x[i];",
            Code::Syntax,
            "an assignment without `let` calls a block",
            "x[i]",
        ),
        (
            "#[wieght] let y = x;",
            Code::Attribute,
            "this attribute does not belong here",
            "#[wieght]",
        ),
        (
            "exp(x);",
            Code::Syntax,
            "expected a statement: `let`, a store, an assignment or `for`",
            "exp(x)",
        ),
        (
            "for i in 0 ..= 3 { }",
            Code::Syntax,
            "expected an extent, found `=`",
            "=",
        ),
        (
            "for l in ls { l }",
            Code::Syntax,
            "expected a statement, found `l`",
            "l",
        ),
    ];
    for (stmt, code, message, place) in cases {
        assert_eq!(
            stmt_error(stmt),
            (code, message.into(), place.into()),
            "{stmt}"
        );
    }
}

#[test]
fn item_errors() {
    let cases = [
        (
            "use a;",
            Code::Syntax,
            "expected `fn`, `struct`, `agg` or `extern fn`, found keyword `use`",
            "use",
        ),
        (
            "fn f<N>(x: f32[N]) -> f32 { x }",
            Code::Syntax,
            "`N` is declared neither as a dim nor as a dtype variable",
            "N",
        ),
        (
            "fn f(x: f32[2]) { x }",
            Code::Syntax,
            "expected `->` and the type of the result, found `{`",
            "{",
        ),
        (
            "fn f(x: f32) -> f32 { let y = x; }",
            Code::Syntax,
            "a block ends in the name of its result",
            "}",
        ),
        (
            "fn f(#[whole] x: f32) -> f32 { x }",
            Code::Attribute,
            "this attribute does not belong here",
            "#[whole]",
        ),
        (
            "fn f(x: f32 -> f32 { x }",
            Code::Syntax,
            "this `(` is never closed",
            "(",
        ),
        (
            "fn f(x) = 1.0f32;",
            Code::Literal,
            "the literal `1.0f32` is malformed; a dtype comes from context or `as`, not a suffix",
            "1.0f32",
        ),
        (
            "struct S { pub x: f32[2] }",
            Code::Syntax,
            "a field is as visible as its struct",
            "pub",
        ),
        (
            "#[cfg(x)]",
            Code::Syntax,
            "expected an item after these attributes, found the end of the program",
            "",
        ),
    ];
    for (source, code, message, place) in cases {
        assert_eq!(
            error(source),
            (code, message.into(), place.into()),
            "{source}"
        );
    }
}

#[test]
fn one_run_reports_several_errors_and_keeps_the_rest() {
    let source = "fn f(x: f32[2]) -> f32[2] {\n let a[i] = ;\n let (b, c)[i] = x[i] , x;\n\
                  let d[i] = x[i];\n for l in ls { let = 3; x = g(x); }\n d }\n\
                  struct S { x: }\n fn g(x) = x;";
    let (program, diags) = parse_text(source);
    assert_eq!(diags.len(), 4, "{diags:#?}");
    assert!(diags.is_sorted_by_key(|diag| diag.primary));
    let [Item::Block(f), Item::ScalarFn(_)] = &program.items[..] else {
        panic!("{program}")
    };
    assert_eq!(f.result.as_ref().unwrap().names[0].as_str(), "d");
    let StmtKind::Error(bound) = &f.stmts[1].kind else {
        panic!()
    };
    assert_eq!(
        bound.iter().map(|name| name.as_str()).collect::<Vec<_>>(),
        ["b", "c"]
    );
    let StmtKind::For { body, .. } = &f.stmts[3].kind else {
        panic!()
    };
    assert!(matches!(body[1].kind, StmtKind::Carry { .. }));
}

#[test]
fn nesting_is_bounded() {
    let deep = |open: &str, core: &str, close: &str, n: usize| {
        with_stmt(&format!(
            "let y = {}{core}{};",
            open.repeat(n),
            close.repeat(n)
        ))
    };
    for (open, core, close) in [
        ("(", "x", ")"),
        ("-", "x", ""),
        ("x[", "i", "]"),
        ("exp(", "x", ")"),
        ("if x { ", "x", " } else { x }"),
        ("if x { x } else ", "{ x }", ""),
        ("sum[i] ", "x", ""),
    ] {
        assert_eq!(
            error(&deep(open, core, close, 100_000)).0,
            Code::TooDeep,
            "{open}"
        );
        round_trips(&deep(
            open,
            if core == "{ x }" { "{ x }" } else { "x" },
            close,
            20,
        ));
    }
    assert_eq!(
        error(&deep("x + ", "x", "", MAX_OPERATORS + 1)).0,
        Code::TooDeep
    );
    round_trips(&deep("x + ", "x", "", MAX_OPERATORS));
    let types = format!(
        "struct S {{ a: {}f32{} }}",
        "[".repeat(MAX_DEPTH * 9),
        "; 2]".repeat(MAX_DEPTH * 9)
    );
    assert_eq!(error(&types).0, Code::TooDeep);
    let fors = "for l in x {".repeat(9_000) + &"}".repeat(9_000);
    assert_eq!(stmt_error(&fors).0, Code::TooDeep);
}

/// Parses anything without a panic; what parses cleanly prints back.
fn survives(source: &str) {
    let (program, diags) = parse_text(source);
    for diag in &diags {
        assert!(!diag.render(source).to_string().is_empty());
    }
    if diags.is_empty() {
        assert_eq!(
            bare(&program),
            bare(&parsed(&program.to_string())),
            "{source}"
        );
    }
}

#[test]
fn every_prefix_and_every_missing_token_is_survived() {
    let (tokens, _) = lex(TOUR);
    let words: Vec<String> = tokens
        .tokens()
        .iter()
        .map(|token| token.tok.to_string())
        .collect();
    for (index, token) in tokens.tokens().iter().enumerate().step_by(17) {
        survives(&TOUR[..token.span.start as usize]);
        let mut without = words.clone();
        without.remove(index);
        survives(&without.join(" "));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn any_text_is_survived(source in "\\PC{0,60}") {
        survives(&source);
    }

    #[test]
    fn any_tokens_are_survived(words in prop::collection::vec(word(), 0..60)) {
        survives(&words.join(" "));
        survives(&with_stmt(&words.join(" ")));
    }

    #[test]
    fn any_expression_prints_back(text in expression()) {
        round_trips(&with_stmt(&format!("let y[i] = {text};")));
    }
}

fn word() -> impl Strategy<Value = &'static str> {
    prop::sample::select(vec![
        "fn", "f", "(", ")", "{", "}", "[", "]", "<", ">", ">=", "=", "==", ";", ":", "::", ",",
        ".", "..", "->", "dim", "let", "mut", "for", "in", "if", "else", "where", "as", "sum",
        "max", "x", "D", "f32", "1", "2.5", "inf", "true", "+", "-", "*", "/", "%", "!", "&&",
        "||", "agg", "state", "lift", "merge", "finish", "struct", "extern", "splits", "pub", "#",
        "\"a\"", "'", "@", "_", "crate", "1f32",
    ])
}

/// The text of a random expression.
fn expression() -> impl Strategy<Value = String> {
    let leaf = prop::sample::select(vec![
        "x",
        "l.w1",
        "a::D",
        "x[i]",
        "x[..l, (h, e)]",
        "(x[i - 1] else -inf)",
        "1",
        "0.5",
        "1e-7",
        "1e300",
        "inf",
        "nan",
        "true",
        "max(x, y)",
        "D",
    ])
    .prop_map(str::to_owned);
    leaf.prop_recursive(6, 48, 3, |inner| {
        let op = prop::sample::select(vec!["+", "-", "*", "/", "%", "&&", "||"]);
        let agg = prop::sample::select(vec![
            "sum[k]",
            "max[k in D, j]",
            "mean[k where k != x[i]; f32]",
        ]);
        prop_oneof![
            (inner.clone(), op, inner.clone()).prop_map(|(a, op, b)| format!("{a} {op} {b}")),
            (inner.clone(), inner.clone()).prop_map(|(a, b)| format!("(({a}) < ({b}))")),
            inner.clone().prop_map(|a| format!("({a})")),
            inner.clone().prop_map(|a| format!("-{a}")),
            inner.clone().prop_map(|a| format!("!{a} as i64")),
            (agg, inner.clone()).prop_map(|(agg, a)| format!("({agg} {a})")),
            inner.clone().prop_map(|a| format!("mine[k] ({a}, 2)")),
            inner.clone().prop_map(|a| format!("t[{a}, 0 + i]")),
            (inner.clone(), inner.clone(), inner)
                .prop_map(|(c, a, b)| format!("(if {c} {{ {a} }} else {{ {b} }})")),
        ]
    })
}

#[test]
fn attributes_of_rust_are_as_rust_has_them() {
    for right in [
        "inline",
        "a::b",
        "cfg(x = \"y\")",
        "a = 1",
        "a::b = c!(d)",
        "a[b]",
        "a{b}",
    ] {
        round_trips(&format!("#[{right}] fn f(x) = x;"));
    }
    for (wrong, place) in [
        ("a b", "b"),
        ("a = b", "b"),
        ("a(b) c", "c"),
        ("a = 1 2", "2"),
        ("a =", "]"),
    ] {
        let (code, message, found) = error(&format!("#[{wrong}] fn f(x) = x;"));
        assert_eq!(code, Code::Syntax, "{wrong}");
        assert!(
            message.starts_with("expected an attribute as Rust has them"),
            "{message}"
        );
        assert_eq!(found, place, "{wrong}");
    }
}
