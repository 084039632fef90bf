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
