//! Aggregations over records: a user's, `softmax_sum`, and what stays fused in their arguments.

use super::{graph, sample, values};
use crate::graph::EinGraph;

const WELFORD: &str = "agg welford(x: f32) {
    state { n: f32 = 0.0, mu: f32 = 0.0, m2: f32 = 0.0 }
    lift { n: 1.0, mu: x, m2: 0.0 }
    merge(a, b) {
        let n = a.n + b.n; let r = b.n / max(n, 1.0); let d = b.mu - a.mu;
        { n: n, mu: a.mu + d * r, m2: a.m2 + b.m2 + d * d * a.n * r }
    }
    finish { mean: mu, var: m2 / n }
}";

const ATTENTION: &str =
    "fn f<dim S, dim T, dim H, dim E>(q: f32[S,H,E], k: f32[T,H,E], v: f32[T,H,E]) -> f32[S,H,E] {
        let o[s,h,d] = softmax_sum[t] (
            if t <= s { (sum[e] q[s,h,e] * k[t,h,e]) * rsqrt(E as f32) } else { -inf },
            v[t,h,d],
        );
        o
    }";

#[track_caller]
fn near(got: &[f64], want: &[f64]) {
    assert_eq!(got.len(), want.len());
    for (at, (g, w)) in got.iter().zip(want).enumerate() {
        let same = (g.is_nan() && w.is_nan()) || (g - w).abs() <= 1e-9 * w.abs().max(1.0);
        assert!(same, "[{at}] is {g}, not {w}: {got:?} against {want:?}");
    }
}

#[track_caller]
fn round_trip(graph: &EinGraph) {
    let text = graph.to_string();
    assert_eq!(EinGraph::parse(&text).as_ref(), Ok(graph), "{text}");
}

#[test]
fn each_result_keeps_the_components_that_it_needs() {
    let source = format!(
        "{WELFORD} fn f<dim B, dim D>(x: bf16[B,D]) -> (f32[B], f32[B]) {{
            let (m, v)[b] = welford[d] (x[b,d]);
            (m, v)
        }}"
    );
    let graph = graph(&source, "f", &[]);
    round_trip(&graph);
    insta::assert_snapshot!(graph, @r#"
    eingraph {
      agg &0 "welford" (f32) { "n": f32 = 0.0 lift 1.0:f32 merge @0 + @2; "mu": f32 = 0.0 lift @0 merge @1 + (@3 - @1) * (@2 / max(@0 + @2, 1.0:f32)); } finish f32 @1
      agg &1 "welford" (f32) { "n": f32 = 0.0 lift 1.0:f32 merge @0 + @3; "mu": f32 = 0.0 lift @0 merge @1 + (@4 - @1) * (@3 / max(@0 + @3, 1.0:f32)); "m2": f32 = 0.0 lift 0.0:f32 merge @2 + @5 + (@4 - @1) * (@4 - @1) * @0 * (@3 / max(@0 + @3, 1.0:f32)); } finish f32 @2 / @0
      %0 "x" = input bf16[B, D]
      %1 "m" = &0[d=D; f32] (%0[b, d] as f32) -> f32[b=B]
      %2 "v" = &1[d=D; f32] (%0[b, d] as f32) -> f32[b=B]
      output "m" = %1
      output "v" = %2
    }
    "#);
    let (b, d) = (3, 7);
    let x = sample(&[b, d], 0);
    let got = values(&graph, &[("B", b as i64), ("D", d as i64)], &[]);
    let rows = x.chunks(d);
    let mean: Vec<f64> = rows
        .clone()
        .map(|r| r.iter().sum::<f64>() / d as f64)
        .collect();
    let square = |(r, m): (&[f64], &f64)| r.iter().map(|x| (x - m) * (x - m)).sum::<f64>();
    let var: Vec<f64> = rows.zip(&mean).map(|r| square(r) / d as f64).collect();
    near(&got[0], &mean);
    near(&got[1], &var);
}

#[test]
fn attention_is_one_vertex_with_three_operands() {
    let graph = graph(ATTENTION, "f", &[]);
    round_trip(&graph);
    insta::assert_snapshot!(graph, @r#"
    eingraph {
      agg &0 "softmax_sum" (f32, f32) { "m": f32 = -inf lift @0 merge max(@0, @3); "z": f32 = 0.0 lift if(@0 == -inf:f32, 0.0:f32, 1.0:f32) merge @1 * exp(@0 - if(max(@0, @3) == -inf:f32, 0.0:f32, max(@0, @3))) + @4 * exp(@3 - if(max(@0, @3) == -inf:f32, 0.0:f32, max(@0, @3))); "o": f32 = 0.0 lift @1 * if(@0 == -inf:f32, 0.0:f32, 1.0:f32) merge @2 * exp(@0 - if(max(@0, @3) == -inf:f32, 0.0:f32, max(@0, @3))) + @5 * exp(@3 - if(max(@0, @3) == -inf:f32, 0.0:f32, max(@0, @3))); } finish f32 @2 / @1
      %0 "q" = input f32[S, H, E]
      %1 "k" = input f32[T, H, E]
      %2 "v" = input f32[T, H, E]
      %3 "o" = &0[t=T; f32] (if(t <= s, (sum[e=E; f32] %0[s, h, e] * %1[t, h, e]) * rsqrt({E} as f32), -inf:f32), %2[t, h, d]) -> f32[s=S, h=H, d=E]
      output "o" = %3
    }
    "#);
    let bound = graph.bind(
        &[("S", 2), ("T", 3), ("H", 1), ("E", 2)]
            .map(|(n, v)| (n.into(), v))
            .into(),
    );
    let bound = bound.unwrap();
    let e = bound.nodes()[3].einsum().unwrap();
    let axes: Vec<Vec<bool>> = e.parts().into_iter().map(|p| p.axes).collect();
    let row = vec![true, true, false];
    assert_eq!(axes, [row.clone(), row, vec![true; 3]]);
    round_trip(&bound);
}

#[test]
fn attention_is_the_four_einsums() {
    let four = "fn f<dim S, dim T, dim H, dim E>(q: f32[S,H,E], k: f32[T,H,E], v: f32[T,H,E]) -> f32[S,H,E] {
        let l[s,h,t] = if t <= s { (sum[e] q[s,h,e] * k[t,h,e]) * rsqrt(E as f32) } else { -inf };
        let m[s,h] = max[t] l[s,h,t];
        let e[s,h,t] = exp(l[s,h,t] - m[s,h]);
        let z[s,h] = sum[t] e[s,h,t];
        let o[s,h,d] = (sum[t] e[s,h,t] * v[t,h,d]) / z[s,h];
        o
    }";
    let (one, four) = (graph(ATTENTION, "f", &[]), graph(four, "f", &[]));
    for dims in [
        [3, 5, 2, 4],
        [1, 1, 1, 1],
        [4, 2, 1, 3],
        [0, 3, 2, 2],
        [2, 3, 0, 2],
    ] {
        let dims: Vec<_> = ["S", "T", "H", "E"].into_iter().zip(dims).collect();
        near(&values(&one, &dims, &[])[0], &values(&four, &dims, &[])[0]);
    }
}

/// `f` over one row: the scores, with values 1, 2, 3, ….
fn row(scores: &[f64], v: &[f64]) -> f64 {
    let source =
        "fn f<dim T>(s: f32[T], v: f32[T]) -> f32 { let o[] = softmax_sum[t] (s[t], v[t]); o }";
    let graph = graph(source, "f", &[]);
    values(
        &graph,
        &[("T", scores.len() as i64)],
        &[("s", scores), ("v", v)],
    )[0][0]
}

#[test]
fn infinite_and_missing_scores() {
    let (inf, nan) = (f64::INFINITY, f64::NAN);
    let v = [1.0, 2.0, 3.0];
    assert_eq!(row(&[0.0, 0.0, 0.0], &v), 2.0);
    assert_eq!(row(&[-inf, 5.0, -inf], &v), 2.0);
    assert_eq!(row(&[5.0, -inf, 5.0], &v), 2.0);
    assert!(row(&[-inf, -inf, -inf], &v).is_nan());
    assert!(row(&[], &[]).is_nan());
    assert_eq!(row(&[-3.0e38], &[7.0]), 7.0);
    for bad in [inf, nan] {
        for at in 0..3 {
            let mut scores = [0.0; 3];
            scores[at] = bad;
            assert!(row(&scores, &v).is_nan());
        }
    }
    // A score of −inf weighs 0, and 0 times a value that is no number is none.
    assert!(row(&[-inf, 5.0, 5.0], &[nan, 2.0, 3.0]).is_nan());
    assert_eq!(row(&[0.0, 0.0], &[inf, 1.0]), inf);
}

#[test]
fn dtypes_filters_and_inner_aggregations() {
    let source = "fn f<dim B, dim T, dim E>(q: bf16[B,E], k: bf16[T,E], v: bf16[T], ok: bool[T]) -> (bf16[B], f32[B], f32[B]) {
        let o[b] = softmax_sum[t where ok[t]] (sum[e] q[b,e] * k[t,e], v[t]);
        let w[b] = softmax_sum[t; f32] (mean[e where e < 2] q[b,e] * k[t,e], v[t]);
        let c[b] = 1.0 + softmax_sum[t] ((max[e] q[b,e]), if ok[t] { logsumexp[e] (k[t,e] as f32) } else { 0.0 });
        (o, w, c)
    }";
    let graph = graph(source, "f", &[]);
    round_trip(&graph);
    let text: Vec<String> = graph
        .to_string()
        .lines()
        .skip(2)
        .map(|l| l.trim().to_owned())
        .collect();
    insta::assert_snapshot!(text[4..8].join("\n"), @r#"
    %4 "o" = &0[t=T; f32 where %3[t]] ((sum[e=E; f32] %0[b, e] * %1[t, e]) as bf16 as f32, %2[t] as f32) -> bf16[b=B]
    %5 "w" = &0[t=T; f32] (((sum[e=E; f32 where #2 < 2] %0[b, #2] * %1[t, #2]) / (sum[e=E; i64 where #3 < 2] 1) as f32) as bf16 as f32, %2[t] as f32) -> f32[b=B]
    %6 "c.softmax_sum1" = &0[t=T; f32] ((max[e=E; f32] %0[b, #2]) as bf16 as f32, if(%3[t], (logsumexp[e=E; f32] %1[t, #3] as f32), 0.0:f32)) -> f32[b=B]
    %7 "c" = 1.0:f32 + %6[b] -> f32[b=B]
    "#);
    let dims = [("B", 2), ("T", 3), ("E", 4)];
    let (q, k, v) = (sample(&[2, 4], 0), sample(&[3, 4], 1), sample(&[3], 2));
    let ok = [1.0, 0.0, 1.0];
    let got = values(&graph, &dims, &[("ok", &ok)]);
    let softmax = |s: &[f64], v: &[f64], ok: &[f64]| {
        let e: Vec<f64> = s.iter().zip(ok).map(|(s, ok)| s.exp() * ok).collect();
        e.iter().zip(v).map(|(e, v)| e * v).sum::<f64>() / e.iter().sum::<f64>()
    };
    for b in 0..2 {
        let dot = |t: usize, n: usize| (0..n).map(|e| q[4 * b + e] * k[4 * t + e]).sum::<f64>();
        let s: Vec<f64> = (0..3).map(|t| dot(t, 4)).collect();
        let means: Vec<f64> = (0..3).map(|t| dot(t, 2) / 2.0).collect();
        let rounded = half::bf16::from_f64(softmax(&s, &v, &ok)).to_f64();
        near(&got[0][b..=b], &[rounded]);
        near(&got[1][b..=b], &[softmax(&means, &v, &[1.0; 3])]);
        let lse = |t: usize| (0..4).map(|e| k[4 * t + e].exp()).sum::<f64>().ln();
        near(&got[2][b..=b], &[1.0 + (lse(0) + lse(2)) / 3.0]);
    }
}

#[test]
fn the_definition_is_a_part_of_the_key() {
    let canonical = |agg: &str| {
        let source = format!("{agg} fn f<dim D>(x: f32[D]) -> f32 {{ let y[] = a[d] (x[d]); y }}");
        let bound = graph(&source, "f", &[])
            .bind(&[("D".into(), 4)].into())
            .unwrap();
        bound.canonical().to_string()
    };
    let agg = |name: &str, merge: &str| {
        format!(
            "agg a(x: f32) {{ state {{ {name}: f32 = 0.0 }} lift {{ {name}: x }} merge(p, q) {{ {{ {name}: {merge} }} }} finish {{ {name} }} }}"
        )
    };
    let sum = canonical(&agg("s", "p.s + q.s"));
    assert_eq!(sum, canonical(&agg("total", "p.total + q.total")));
    assert_ne!(sum, canonical(&agg("s", "max(p.s, q.s)")));
    insta::assert_snapshot!(sum, @r"
    eingraph {
      agg &0 (f32) { f32 = 0.0 lift @0 merge @0 + @1; } finish f32 @0
      %0 = input f32[4]
      %1 = &0[#0=4; f32] (%0[#0]) -> f32[]
      output = %1
    }
    ");
}

#[test]
fn a_lazy_aggregation_reads_only_where_it_is_taken() {
    let source = "fn f<dim B, dim D>(x: f32[B,D]) -> f32[B] {
            let y[b in B] = if b >= 1 { last[d] (x[b - 1, d]) } else { 0.0 };
            y
        }
        agg last(x: f32) { state { m: f32 = -inf } lift { m: x } merge(a, b) { { m: max(a.m, b.m) } } finish { m } }";
    let graph = graph(source, "f", &[]);
    round_trip(&graph);
    let x: &[f64] = &[1.0, 2.0, 5.0, 4.0];
    assert_eq!(
        values(&graph, &[("B", 2), ("D", 2)], &[("x", x)])[0],
        [0.0, 2.0]
    );
}

#[test]
fn folds_are_vertices_of_their_own_only_in_arguments() {
    // A dump may hold one anywhere.
    let text = r#"eingraph {
      %0 "x" = input f32[3, 4]
      %1 "y" = exp((max[j=4; f32] %0[i, j] - (sum[k=4; f32] %0[i, k]))) * {2} as f32 -> f32[i=3]
      output "y" = %1
    }"#;
    let graph = EinGraph::parse(text).unwrap();
    assert_eq!(graph.verify(), Ok(()));
    round_trip(&graph);
    let x = sample(&[3, 4], 0);
    let want = x.chunks(4).map(|r| {
        let (max, sum) = (
            r.iter().copied().fold(f64::MIN, f64::max),
            r.iter().sum::<f64>(),
        );
        2.0 * (max - sum).exp()
    });
    near(&values(&graph, &[], &[])[0], &want.collect::<Vec<_>>());
}

#[test]
fn dumps_that_do_not_fit_are_refused() {
    let agg = r#"agg &0 "a" (f32) { "s": f32 = 0.0 lift @0 merge @0 + @1; } finish f32 @0"#;
    let dump = |agg: &str, vertex: &str| {
        format!(
            "eingraph {{ {agg} %0 \"x\" = input f32[4] %1 \"y\" = {vertex} -> f32[] output \"y\" = %1 }}"
        )
    };
    let good = "&0[i=4; f32] (%0[i])";
    assert!(EinGraph::parse(&dump(agg, good)).is_ok());
    let vertices = [
        "&1[i=4; f32] (%0[i])",
        "&0[i=4; f64] (%0[i])",
        "&0[i=4; f32] (%0[i], %0[i])",
        "&0[i=4; f32] %0[i]",
        "&0[i=4; f32] (i)",
        "&0[i=4; f32] ((sum[j=4; f32] %0[j]) + %0[j])",
        "(sum[j=4; f32] %0[j]) + %0[j]",
        "(sum[; f32] 1.0:f32)",
    ];
    for vertex in vertices {
        assert!(EinGraph::parse(&dump(agg, vertex)).is_err(), "{vertex}");
    }
    let definitions = [
        agg.replace("&0", "&1"),
        agg.replace("@0 + @1", "@0 + @2"),
        agg.replace("lift @0", "lift @1"),
        agg.replace("finish f32 @0", "finish f64 @0"),
        agg.replace("f32 = 0.0", "f64 = 0.0"),
        agg.replace("lift @0", "lift %0[0]"),
        agg.replace(r#""s": f32 = 0.0 lift @0 merge @0 + @1; "#, ""),
        agg.replace("@0 + @1", "(sum[i=2; f32] @0)"),
    ];
    for definition in definitions {
        assert!(
            EinGraph::parse(&dump(&definition, good)).is_err(),
            "{definition}"
        );
    }
}
