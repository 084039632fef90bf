//! What checking gives beside errors and warnings; those are in `tests/programs`.

use super::{Checked, check_program};
use crate::syntax::parse_text;

#[track_caller]
fn accepts(source: &str) -> Checked {
    let (program, mut errors) = parse_text(source);
    let checked = check_program(&program);
    errors.extend(checked.errors.iter().cloned());
    let shown = errors.iter().map(|e| e.render(source).to_string());
    assert!(errors.is_empty(), "{}", shown.collect::<String>());
    assert!(checked.blocks.iter().all(|b| b.body.is_some()));
    checked
}

#[test]
fn consts_are_those_that_the_signatures_mention() {
    let checked = accepts(
        "struct Layer<dim D, dim F> { w1: f32[F, D], w2: f32[D, F] }
        fn mlp<dim B, dim D, dim F>(x: f32[B, D], l: Layer<D, F>) -> f32[B, D] {
            let h[b, f] = gelu(sum[d] x[b, d] * l.w1[f, d]);
            let y[b, d] = x[b, d] + sum[f] h[b, f] * l.w2[d, f];
            y
        }
        fn model<dim B>(x: f32[B, D_MODEL], #[weight] layers: [Layer<D_MODEL, D_FF>; N_LAYERS])
            -> f32[B, D_MODEL]
        {
            let mut x = x;
            for l in layers { x = mlp(x, l); }
            x
        }",
    );
    let model = checked.block("model").unwrap();
    let consts: Vec<&str> = model.consts.keys().map(|k| &**k).collect();
    assert_eq!(consts, ["D_FF", "D_MODEL", "N_LAYERS"]);
    assert!(model.obligations.is_empty());
    assert!(model.clauses.is_empty(), "{:?}", model.clauses);
}

#[test]
fn a_const_of_a_callee_may_be_called_as_a_dim_of_the_caller() {
    let checked = accepts(
        "fn g<dim D>(x: f32[D, N]) -> f32[D] { let y[d] = sum[n] x[d, n]; y }
        fn f<dim N>(x: f32[N, 4]) -> f32[N] { let y = g(x); y }",
    );
    let f = checked.block("f").unwrap();
    assert_eq!(f.obligations.len(), 1);
    assert_eq!(f.obligations[0].clause.to_string(), "self::N == 4");
}

#[test]
fn ranks_are_chosen_by_the_arguments() {
    let checked = accepts(
        "fn norm<dim ..L, dim C>(x: f32[..L, C], g: f32[C]) -> f32[..L, C] {
            let y[..l, c] = x[..l, c] * g[c];
            y
        }
        fn f<dim B, dim S, dim D>(x: f32[B, S, D], g: f32[D]) -> f32[B, S, D] {
            let a = norm(x, g);
            a
        }",
    );
    assert!(checked.block("norm/2").is_some());
}

#[test]
fn deep_programs_do_not_exhaust_the_stack() {
    let nested = |open: &str, close: &str, n: usize| {
        let value = format!("{}a[n]{}", open.repeat(n), close.repeat(n));
        format!("fn f<dim N>(a: f32[N]) -> f32[N] {{ let y[n] = {value}; y }}")
    };
    for source in [
        nested("a[n] + ", "", 500),
        nested("(1.0 + ", ")", 120),
        nested("exp(", ")", 120),
        nested("if a[n] > 0.0 { ", " } else { 1.0 }", 60),
    ] {
        accepts(&source);
    }
}
