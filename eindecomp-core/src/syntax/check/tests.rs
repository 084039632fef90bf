//! What checking gives beside errors and warnings; those are in `tests/programs`.

use proptest::prelude::*;

use super::{Checked, check_program};
use crate::ein::Dim;
use crate::syntax::parse_text;

#[track_caller]
fn accepts(source: &str) -> Checked {
    let (program, mut errors) = parse_text(source);
    let checked = check_program(&program);
    errors.extend(checked.errors.iter().cloned());
    let shown = errors.iter().map(|e| e.render(source).to_string());
    assert!(errors.is_empty(), "{}", shown.collect::<String>());
    assert!(!checked.blocks.iter().any(|b| b.is_broken()));
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
fn an_assertion_over_consts_says_that_dims_of_a_struct_are_in_another_order() {
    let checked = accepts(
        "struct Layer<dim D, dim F> { w1: f32[F, D], w2: f32[D, F] }
        fn mlp<dim B, dim D, dim F>(x: f32[B, D], l: Layer<D, F>) -> f32[B, D] {
            let h[b, f] = gelu(sum[d] x[b, d] * l.w1[f, d]);
            let y[b, d] = x[b, d] + sum[f] h[b, f] * l.w2[d, f];
            y
        }
        fn called<dim B>(x: f32[B, D_MODEL], l: Layer<D_FF, D_MODEL>) -> f32[B, D_MODEL] {
            let y = mlp(x, l);
            y
        }
        fn read<dim B>(x: f32[B, D_MODEL], l: Layer<D_FF, D_MODEL>) -> f32[B, D_FF] {
            let h[b, f] = sum[d] x[b, d] * l.w1[f, d];
            h
        }",
    );
    for block in ["called", "read"] {
        let first = &checked.block(block).unwrap().obligations[0];
        let [fix] = &first.diag.fixes[..] else {
            panic!("{block}: {:?}", first.diag);
        };
        let help = "the dims of `Layer` are in another order: `l: Layer<D_MODEL, D_FF>`";
        assert_eq!(fix.help, help);
    }
}

#[test]
fn a_size_that_a_call_solves_for_is_at_least_0() {
    let checked = accepts(
        "fn third<dim H>(x: f32[H + 3]) -> f32[] { let y[] = x[2]; y }
        fn f<dim N>(x: f32[N], z: f32[2*N + 4]) -> f32[] { let a = third(x); let b = third(z); let y[] = a + b; y }
        fn g<dim N>(x: f32[N]) -> f32[] where N > 4 { let y = third(x); y }
        fn rest<dim A, dim B>(x: f32[A], y: f32[A - B]) -> f32[A] { let z[a] = x[a] + sum[b in A - B] y[b]; z }
        fn h<dim N, dim M>(x: f32[N], y: f32[M]) -> f32[N] where M <= N { let z = rest(x, y); z }",
    );
    let clauses = |block: &str| {
        let clauses = checked.block(block).unwrap().clauses.iter();
        clauses.map(ToString::to_string).collect::<Vec<_>>()
    };
    assert_eq!(clauses("f"), ["N - 3 >= 0"]);
    assert_eq!(clauses("g"), ["N > 4"]);
    assert_eq!(clauses("h"), ["M <= N"]);
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
fn instances_are_chosen_by_the_arguments() {
    let checked = accepts(
        "fn f<dim A, dim B, dim N>(x: bf16[A, B, N], g: bf16[N], d: f64[N]) -> (bf16[A, B, N], f64[N, N]) {
            let a = scale(x, g);
            let b = outer(d, d);
            (a, b)
        }
        fn scale<dim ..L, dim N, T: Float>(x: T[..L, N], g: T[N]) -> T[..L, N] {
            let y[..l, n] = x[..l, n] * g[n];
            let z = twice(y);
            z
        }
        fn twice<dim ..L, T: Float>(x: T[..L]) -> T[..L] { let y[..l] = 2.0 * x[..l]; y }
        fn outer<dim ..L, dim ..M, T: Float>(x: T[..L], y: T[..M]) -> T[..L, ..M] {
            let z[..l, ..m] = x[..l] * y[..m];
            z
        }",
    );
    let result = |checked: &Checked, name: &str| {
        let block = checked.block(name)?;
        Some(block.results[0].ty.to_string())
    };
    assert_eq!(result(&checked, "scale/2/bf16").unwrap(), "bf16[L0, L1, N]");
    assert_eq!(
        result(&checked, "twice/3/bf16").unwrap(),
        "bf16[L0, L1, L2]"
    );
    assert_eq!(result(&checked, "outer/1/1/f64").unwrap(), "f64[L0, M0]");
    assert_eq!(result(&checked, "scale/3/f16"), None, "nobody calls it");
    let more = checked.with_instance("scale/3/f16").unwrap();
    assert_eq!(result(&more, "scale/3/f16").unwrap(), "f16[L0, L1, L2, N]");
    assert_eq!(result(&more, "twice/4/f16").unwrap(), "f16[L0, L1, L2, L3]");
    for name in [
        "scale",
        "scale/7/f32",
        "scale/f32",
        "scale/1/i64",
        "f/1",
        "g",
    ] {
        assert!(checked.with_instance(name).is_none(), "{name}");
    }
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

/// Extents are polynomials; products of sums and chains of calls must not blow them up.
#[test]
fn polynomials_that_blow_up_are_refused_in_time() {
    let dims: Vec<String> = (0..20).map(|n| format!("D{n}")).collect();
    let sum = format!("({})", dims.join(" + "));
    let product = [&*sum; 12].join(" * ");
    let generics: Vec<String> = dims.iter().map(|d| format!("dim {d}")).collect();
    let generics = generics.join(", ");
    let written = format!("fn f<{generics}>(x: f32[{product}]) -> f32 {{ let y[] = 1.0; y }}");
    let mut chained = String::from("fn f0<dim N>(x: f32[N]) -> f32[N] { let y[n] = x[n]; y }\n");
    for n in 1..40 {
        let before = n - 1;
        chained += &format!(
            "fn f{n}<dim N>(x: f32[N]) -> f32[N * N] {{ let y[(a, b in N)] = x[a] * x[b]; y }}
             fn g{n}<dim N>(x: f32[N]) -> f32[N] {{ let y = g{before}(x); let z = f{n}(y); x }}\n"
        );
    }
    let defined: String = (0..40)
        .map(|n| format!("A{n} == A{} * A{}, ", n + 1, n + 1))
        .collect();
    let names: Vec<String> = (0..41).map(|n| format!("dim A{n}")).collect();
    let defined = format!(
        "fn f<{}>(x: f32[A0]) -> f32[A40] where {defined} {{ let y[i] = x[i]; y }}",
        names.join(", ")
    );
    let mut steps = String::new();
    for n in 0..40 {
        steps += &format!("let x{} = sq(x{n}); ", n + 1);
    }
    let looped = format!(
        "fn sq<dim N>(x: f32[N]) -> f32[N * N] {{ let y[(a, b in N)] = x[a] * x[b]; y }}
         fn f<dim N>(x0: f32[N]) -> f32[N] {{ {steps} x0 }}"
    );
    for source in [written, chained, defined, looped] {
        let (program, _) = parse_text(&source);
        let start = std::time::Instant::now();
        check_program(&program);
        assert!(start.elapsed().as_secs() < 30, "{source}");
    }
}

/// Positions over the indices `i` and `j`, and the dims `N` and `M`.
fn positions() -> impl Strategy<Value = Dim> {
    let leaf = prop_oneof![
        (0i64..4).prop_map(Dim::from),
        prop_oneof![Just("i"), Just("j")].prop_map(Dim::sym),
        prop_oneof![Just("N"), Just("M")].prop_map(Dim::sym),
    ];
    leaf.prop_recursive(3, 8, 2, |inner| {
        let divisor = || prop_oneof![(2i64..4).prop_map(Dim::from), Just(Dim::sym("M"))];
        prop_oneof![
            (inner.clone(), inner.clone()).prop_map(|(a, b)| &a + &b),
            (inner.clone(), inner.clone()).prop_map(|(a, b)| &a - &b),
            (1i64..4, inner.clone()).prop_map(|(n, a)| &Dim::from(n) * &a),
            (inner.clone(), divisor()).prop_map(|(a, b)| a.floor_div(&b)),
            (inner, divisor()).prop_map(|(a, b)| a.rem(&b)),
        ]
    })
}

fn extents() -> impl Strategy<Value = Dim> {
    let factor = prop_oneof![Just(Dim::from(1)), Just(Dim::sym("N")), Just(Dim::sym("M"))];
    (1i64..4, factor, 0i64..4).prop_map(|(n, f, more)| &(&Dim::from(n) * &f) + &Dim::from(more))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 4000, ..ProptestConfig::default() })]

    #[test]
    fn positions_that_are_accepted_are_inside(
        at in positions(),
        axis in extents(),
        (rows, columns) in (extents(), extents()),
    ) {
        let source = format!(
            "fn f<dim N, dim M>(x: f32[{axis}]) -> f32[{rows}, {columns}] where M >= 1 {{
                let y[i in {rows}, j in {columns}] = x[{at}];
                y
            }}"
        );
        let (program, errors) = parse_text(&source);
        prop_assert!(errors.is_empty(), "{source}");
        if check_program(&program).errors.is_empty() {
            for (n, m) in (0..15).map(|k| (k / 3, k % 3 + 1)) {
                let value = |d: &Dim, i: i64, j: i64| {
                    let of = |s: &str| Some(match s { "N" => n, "M" => m, "i" => i, _ => j });
                    d.eval(&of).unwrap()
                };
                let [rows, columns, axis] = [&rows, &columns, &axis].map(|d| value(d, 0, 0));
                for (i, j) in (0..rows * columns).map(|k| (k / columns, k % columns)) {
                    let at = value(&at, i, j);
                    prop_assert!((0..axis).contains(&at), "{at} at i={i} j={j} N={n} M={m}: {source}");
                }
            }
        }
    }
}
