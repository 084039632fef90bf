use super::*;
use crate::ein::DType;
use crate::reference::{RefTensor, run};

#[track_caller]
fn graph(source: &str, block: &str, consts: &[(&str, i64)]) -> EinGraph {
    let consts = consts.iter().map(|(n, v)| (Arc::from(*n), *v)).collect();
    match EinGraph::from_text(source, block, &consts) {
        Ok(graph) => {
            assert_eq!(graph.verify(), Ok(()));
            graph
        }
        Err(error) => panic!("{error}"),
    }
}

/// Small whole numbers, different for every input.
fn sample(shape: &[usize], seed: usize) -> Vec<f64> {
    let n: usize = shape.iter().product();
    (0..n)
        .map(|i| ((7 * i + 3 * seed) % 11) as f64 - 5.0)
        .collect()
}

/// The outputs on sample inputs, unless `given`.
#[track_caller]
fn values(graph: &EinGraph, dims: &[(&str, i64)], given: &[(&str, &[f64])]) -> Vec<Vec<f64>> {
    let bound = graph
        .bind(&dims.iter().map(|(n, v)| (Arc::from(*n), *v)).collect())
        .unwrap();
    let mut inputs = BTreeMap::new();
    for (seed, (id, node)) in bound.ids().filter(|(_, n)| n.role().is_some()).enumerate() {
        let shape = bound.shape(id).to_vec();
        let data = match given.iter().find(|(name, _)| **name == *node.name) {
            Some((_, data)) => data.to_vec(),
            None => sample(&shape, seed),
        };
        let tensor = RefTensor::from_f64(node.dtype, shape, &data).unwrap();
        inputs.insert(node.name.clone(), tensor);
    }
    run(&bound, &inputs)
        .unwrap()
        .iter()
        .map(RefTensor::to_f64)
        .collect()
}

#[test]
fn inner_reductions_float() {
    let graph = graph(
        "fn f<dim T, dim D, dim F>(x: f32[T,D], w1: f32[D,F], w3: f32[D,F]) -> f32[T,F] {
            let a[t,f] = silu(sum[d] x[t,d] * w1[d,f]) * sum[d] x[t,d] * w3[d,f];
            a
        }",
        "f",
        &[],
    );
    insta::assert_snapshot!(graph, @r#"
    eingraph {
      %0 "x" = input f32[T, D]
      %1 "w1" = input f32[D, F]
      %2 "w3" = input f32[D, F]
      %3 "a.sum1" = sum[d=D; f32] %0[t, d] * %1[d, f] -> f32[t=T, f=F]
      %4 "a.sum2" = sum[d=D; f32] %0[t, d] * %2[d, f] -> f32[t=T, f=F]
      %5 "a" = silu(%3[t, f]) * %4[t, f] -> f32[t=T, f=F]
      output "a" = %5
    }
    "#);
}

#[test]
fn merged_axes_on_both_sides() {
    let graph = graph(
        "fn f<dim S, dim D>(x: f32[S,D], w: f32[D,D]) -> f32[S,D] where D % HEADS == 0 {
            let q[s,h in HEADS,e] = sum[d] x[s,d] * w[(h,e),d];
            let y[s,(h,e)] = q[s,h,e];
            let z[s,d] = y[s,d] - sum[c] x[s,c] * w[d,c];
            z
        }",
        "f",
        &[("HEADS", 2)],
    );
    insta::assert_snapshot!(graph, @r#"
    eingraph {
      clause D % 2 == 0 from "`where` clause in block `f`"
      %0 "x" = input f32[S, D]
      %1 "w" = input f32[D, D]
      %2 "q" = sum[d=D; f32] %0[s, d] * %1[h * {D / 2} + e, d] -> f32[s=S, h=2, e=D / 2]
      %3 "y" = %2[s, h, e] -> f32[s=S, (h=2, e=D / 2)]
      %4 "z.sum1" = sum[c=D; f32] %0[s, c] * %1[0 + d, c] -> f32[s=S, d=2*(D / 2)]
      %5 "z" = %3[s, d] - %4[s, d] -> f32[s=S, d=2*(D / 2)]
      output "z" = %5
    }
    "#);
    assert_eq!(values(&graph, &[("S", 3), ("D", 6)], &[]), [[0.0; 18]]);
}

#[test]
fn rope_and_grouped_queries() {
    let rope = graph(
        "fn f<dim S, dim E>(x: f32[S,E], cs: f32[S,E/2], sn: f32[S,E/2]) -> f32[S,E] where E % 2 == 0 {
            let y[s,(i in E/2, c in 2)] = x[s,2*i+c] * cs[s,i] + (if c == 0 {-1.0} else {1.0}) * x[s,2*i+1-c] * sn[s,i];
            y
        }",
        "f",
        &[],
    );
    let x = [1.0, 2.0, 3.0, 4.0];
    let y = values(
        &rope,
        &[("S", 1), ("E", 4)],
        &[("x", &x), ("cs", &[1.0, 2.0]), ("sn", &[3.0, 4.0])],
    );
    assert_eq!(y, [[1.0 - 6.0, 2.0 + 3.0, 6.0 - 16.0, 8.0 + 12.0]]);
    let gqa = graph(
        "fn f<dim S, dim T, dim N, dim G, dim E>(q: f32[S,N*G,E], k: f32[T,N,E]) -> f32[N,G,S,T] where T >= S {
            let l[n,g,s,t] = if t <= s + (T - S) { sum[e; f32] q[s,(n,g),e] * k[t,n,e] } else { -inf };
            l
        }",
        "f",
        &[],
    );
    let (q, k) = (sample(&[2, 4, 3], 0), sample(&[3, 2, 3], 1));
    let mut want = Vec::new();
    for (n, g, s, t) in (0..24).map(|i| (i / 12, i / 6 % 2, i / 3 % 2, i % 3)) {
        let dot = (0..3)
            .map(|e| q[(s * 4 + n * 2 + g) * 3 + e] * k[(t * 2 + n) * 3 + e])
            .sum();
        want.push(if t <= s + 1 { dot } else { f64::NEG_INFINITY });
    }
    let dims = [("S", 2), ("T", 3), ("N", 2), ("G", 2), ("E", 3)];
    assert_eq!(values(&gqa, &dims, &[]), [want]);
    assert!(
        gqa.bind(
            &[("S", 4), ("T", 3), ("N", 2), ("G", 2), ("E", 3)]
                .map(|(n, v)| (n.into(), v))
                .into()
        )
        .is_err()
    );
}

#[test]
fn a_divisor_of_0_is_told_once() {
    let heads = graph(
        "fn f<dim D, dim H>(x: f32[D]) -> f32[H, D / H] where D % H == 0 {
            let y[h, e in D / H] = x[(h, e)];
            y
        }",
        "f",
        &[],
    );
    let errors = heads.bind(&[("D".into(), 8), ("H".into(), 0)].into());
    let errors: Vec<String> = errors.unwrap_err().iter().map(|e| e.to_string()).collect();
    let [only] = &errors[..] else {
        panic!("{errors:?}")
    };
    assert!(only.contains("a divisor is at least 1"), "{only}");
}

#[test]
fn mean_is_a_sum_with_an_epilogue() {
    let graph = graph(
        "fn f<dim B, dim S>(x: f32[B,S], mask: bool[B,S]) -> (f32[B], f32[B]) {
            let whole[b] = mean[s] x[b,s];
            let some[b] = (mean[s where mask[b,s]] x[b,s]) + 1.0;
            (whole, some)
        }",
        "f",
        &[],
    );
    insta::assert_snapshot!(graph, @r#"
    eingraph {
      %0 "x" = input f32[B, S]
      %1 "mask" = input bool[B, S]
      %2 "whole.sum" = sum[s=S; f32] %0[b, s] -> f32[b=B]
      %3 "whole" = %2[b] / {S} as f32 -> f32[b=B]
      %4 "some.mean1.sum" = sum[s=S; f32 where %1[b, s]] %0[b, s] -> f32[b=B]
      %5 "some.mean1.count" = sum[s=S; i64 where %1[b, s]] 1 -> i64[b=B]
      %6 "some.mean1" = %4[b] / %5[b] as f32 -> f32[b=B]
      %7 "some" = %6[b] + 1.0:f32 -> f32[b=B]
      output "whole" = %3
      output "some" = %7
    }
    "#);
    let mask = [1.0, 0.0, 1.0, 0.0, 0.0, 0.0];
    let got = values(
        &graph,
        &[("B", 2), ("S", 3)],
        &[("x", &[1.0, 2.0, 6.0, 3.0, 3.0, 3.0]), ("mask", &mask)],
    );
    assert_eq!(got[0], [3.0, 3.0]);
    assert_eq!(got[1][0], 4.5);
    assert!(got[1][1].is_nan());
}

#[test]
fn a_floated_reduction_keeps_the_guard_it_needs() {
    let graph = graph(
        "fn f<dim N, dim D>(x: f32[N,D], valid: bool[N], ids: i64[N]) -> (f32[N], f32[N]) {
            let y[n in N] = if n >= 1 { sum[d] x[n-1,d] } else { 0.0 };
            let z[n in N] = if valid[n] { 2.0 * sum[d] x[ids[n],d] } else { -1.0 };
            (y, z)
        }",
        "f",
        &[],
    );
    insta::assert_snapshot!(graph, @r#"
    eingraph {
      slot $0 = 2.0
      slot $1 = -1.0
      %0 "x" = input f32[N, D]
      %1 "valid" = input bool[N]
      %2 "ids" = input i64[N]
      %3 "y.sum1" = sum[d=D; f32] if(n >= 1, %0[n - 1, d], 0.0:f32) -> f32[n=N]
      %4 "y" = if(n >= 1, %3[n], 0.0:f32) -> f32[n=N]
      %5 "z.sum1" = sum[d=D; f32] if(@2, @1, 0.0:f32) of %2[n], %0[@0, d], %1[n] -> f32[n=N]
      %6 "z" = if(%1[n], $0:f32 * %5[n], $1:f32) -> f32[n=N]
      output "y" = %4
      output "z" = %6
    }
    "#);
    let got = values(
        &graph,
        &[("N", 3), ("D", 2)],
        &[
            ("x", &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]),
            ("valid", &[1.0, 0.0, 1.0]),
            ("ids", &[2.0, 99.0, 0.0]),
        ],
    );
    assert_eq!(got, [[0.0, 3.0, 7.0], [22.0, -1.0, 6.0]]);
}

#[test]
fn mixture_of_experts() {
    let graph = graph(
        "fn f<dim T, dim E, dim D>(x: f32[T,D], g: f32[T,E], w: f32[E,D]) -> (i64[T], i64[T], f32[T]) {
            let a[t] = argmax[e] g[t,e];
            let c[t] = argmax[e where e != a[t]] g[t,e];
            let u[t] = sum[d] x[t,d] * w[a[t],d];
            (a, c, u)
        }",
        "f",
        &[],
    );
    let g = [1.0, 5.0, 3.0, 9.0, 2.0, 8.0];
    let got = values(
        &graph,
        &[("T", 2), ("E", 3), ("D", 1)],
        &[("g", &g), ("x", &[2.0, 3.0]), ("w", &[10.0, 20.0, 30.0])],
    );
    assert_eq!(got, [[1.0, 0.0], [2.0, 2.0], [40.0, 30.0]]);
}

#[test]
fn convolution_pads() {
    let graph = graph(
        "fn f<dim Y>(x: f32[Y], w: f32[3]) -> f32[(Y-1)/2+1] where Y >= 1 {
            let y[i in (Y-1)/2+1] = sum[u] (x[2*i+u-1] else 0.0) * w[u];
            y
        }",
        "f",
        &[],
    );
    let got = values(
        &graph,
        &[("Y", 4)],
        &[("x", &[1.0, 2.0, 3.0, 4.0]), ("w", &[1.0, 10.0, 100.0])],
    );
    assert_eq!(got, [[210.0, 432.0]]);
}

const NET: &str = "
    struct Cell<dim D> { #[name = \"c.{}.w\"] w: f32[D, D], b: f32[D] }
    fn softmax<dim ..L, dim C>(x: f32[..L, C]) -> f32[..L, C] {
        let m[..l] = max[j] x[..l, j];
        let e[..l, j] = exp(x[..l, j] - m[..l]);
        let z[..l] = sum[j] e[..l, j];
        let p[..l, j] = e[..l, j] / z[..l];
        p
    }
    fn step<dim D>(x: f32[D], c: Cell<D>, k: f32) -> (f32[D], f32[D]) {
        let y[i] = c.b[i] + k * sum[j] c.w[i, j] * x[j];
        let s = softmax(y);
        (y, s)
    }
    fn net<dim D>(x: f32[D], #[weight] cells: [Cell<D>; LAYERS]) -> (f32[D], f32[D]) {
        let mut x = x;
        let mut a = x;
        for c in cells { (x, a) = step(x, c, 0.5); }
        for _i in 0 .. 2 { x = twice(x); }
        (x, a)
    }
    fn twice<dim D>(x: f32[D]) -> f32[D] { let y[i] = x[i] * 2.0; y }";

#[test]
fn calls_loops_structs_and_ranks() {
    let graph = graph(NET, "net", &[("LAYERS", 2)]);
    insta::assert_snapshot!(graph, @r#"
    eingraph {
      slot $0 = 0.5
      slot $1 = 0.5
      slot $2 = 2.0
      slot $3 = 2.0
      %0 "x" = input f32[D]
      %1 "cells.0.w" = weight f32[D, D]
      %2 "cells.0.b" = weight f32[D]
      %3 "cells.1.w" = weight f32[D, D]
      %4 "cells.1.b" = weight f32[D]
      %5 "0.x.y.sum1" = sum[j=D; f32] %1[i, j] * %0[j] -> f32[i=D]
      %6 "0.x.y" = %2[i] + $0:f32 * %5[i] -> f32[i=D]
      %7 "0.x.s.m" = max[j=D; f32] %6[j] -> f32[]
      %8 "0.x.s.e" = exp(%6[j] - %7[]) -> f32[j=D]
      %9 "0.x.s.z" = sum[j=D; f32] %8[j] -> f32[]
      %10 "0.x.s.p" = %8[j] / %9[] -> f32[j=D]
      %11 "1.x.y.sum1" = sum[j=D; f32] %3[i, j] * %6[j] -> f32[i=D]
      %12 "1.x.y" = %4[i] + $1:f32 * %11[i] -> f32[i=D]
      %13 "1.x.s.m" = max[j=D; f32] %12[j] -> f32[]
      %14 "1.x.s.e" = exp(%12[j] - %13[]) -> f32[j=D]
      %15 "1.x.s.z" = sum[j=D; f32] %14[j] -> f32[]
      %16 "1.x.s.p" = %14[j] / %15[] -> f32[j=D]
      %17 "0.x.y" = %12[i] * $2:f32 -> f32[i=D]
      %18 "1.x.y" = %17[i] * $3:f32 -> f32[i=D]
      output "x" = %18
      output "a" = %16
    }
    "#);
    let (one, two) = ([1.0, 0.0, 0.0, 1.0], [0.0, 1.0, 1.0, 0.0]);
    let got = values(
        &graph,
        &[("D", 2)],
        &[
            ("x", &[2.0, 4.0]),
            ("cells.0.w", &one),
            ("cells.0.b", &[1.0, 1.0]),
            ("cells.1.w", &two),
            ("cells.1.b", &[0.0, 0.5]),
        ],
    );
    assert_eq!(got[0], [6.0, 6.0]);
    assert_eq!(got[1], [0.5, 0.5]);
}

#[test]
fn a_block_is_appended_to_a_graph() {
    let (program, _) = parse_text(NET);
    let checked = check::check_program(&program);
    let consts = Consts::new();
    let (hosts, foreign) = (&Hosts::new(), &mut NoForeign);
    let mut context = Context {
        consts: &consts,
        hosts,
        foreign,
        prefix: "",
        lines: None,
    };
    let mut builder = GraphBuilder::new();
    let shape = vec![Dim::from(3), Dim::sym("N")];
    let x = builder.input("x", Role::Data, DType::F32, shape).unwrap();
    let dims = BTreeMap::new();
    let soft = append_block(
        &checked,
        "softmax",
        &mut context,
        &mut builder,
        &[Arg::Tensor(x)],
        &dims,
        &[],
    );
    let soft = soft.unwrap()[0];
    assert_eq!(
        builder.node(soft).unwrap().shape,
        [Dim::from(3), Dim::sym("N")]
    );
    let error = append_block(
        &checked,
        "twice",
        &mut context,
        &mut builder,
        &[Arg::Tensor(x)],
        &dims,
        &[],
    );
    insta::assert_snapshot!(error.unwrap_err()[0], @"`x` of block `twice` is `f32[D]`, but the argument is `f32[3, N]`");
    let w = builder
        .input(
            "w",
            Role::Data,
            DType::F32,
            vec![Dim::from(2), Dim::from(3)],
        )
        .unwrap();
    let v = builder
        .input("v", Role::Data, DType::F32, vec![Dim::from(2)])
        .unwrap();
    let cell = Arg::Struct(vec![Arg::Tensor(w), Arg::Tensor(v)]);
    let args = [Arg::Tensor(v), cell, Arg::Value(Value::Float(0.5))];
    let error = append_block(
        &checked,
        "step",
        &mut context,
        &mut builder,
        &args,
        &dims,
        &[],
    );
    insta::assert_snapshot!(error.unwrap_err()[0], @"axis 1 (`D`) of `c.w` of block `step` is 2, but this argument's is 3");
}

#[test]
fn conditions_on_consts_are_checked_when_the_graph_is_built() {
    let source = "fn f(x: f32[N], y: f32[M]) -> f32[M] { let z[m] = x[0 + m] + y[m]; z }";
    graph(source, "f", &[("N", 4), ("M", 4)]);
    let consts = |n, m| [("N".into(), n), ("M".into(), m)].into();
    let error = EinGraph::from_text(source, "f", &consts(3, 4)).unwrap_err();
    insta::assert_snapshot!(error, @"`N >= M` does not hold in block `f`: `x[0 + m]` stays in bounds");
    let error = EinGraph::from_text(source, "f", &Consts::new()).unwrap_err();
    insta::assert_snapshot!(error, @r"
    no value is given for the const `M`
    no value is given for the const `N`
    ");
}

/// `rounds` blocks, each of which calls the one before `TWICE`: a const, so that no check of the text
/// knows how many statements they are.
fn twice_each(rounds: usize) -> String {
    let call = |n: usize| {
        format!(
            "fn f{n}<dim N>(x: f32[N]) -> f32[N] {{ let mut x = x; for _i in 0..TWICE {{ x = f{}(x); }} x }}\n",
            n - 1
        )
    };
    let first = "fn f0<dim N>(x: f32[N]) -> f32[N] { let y[n] = 2.0 * x[n]; y }\n";
    first.to_owned() + &(1..=rounds).map(call).collect::<String>()
}

#[test]
fn a_graph_that_would_be_too_large_is_refused_before_it_is_built() {
    let twice = ("TWICE", 2);
    assert_eq!(graph(&twice_each(5), "f5", &[twice]).ids().count(), 1 + 32);
    let (program, _) = parse_text(&twice_each(90));
    let checked = check::check_program(&program);
    assert_eq!(checked.errors, []);
    let (hosts, foreign) = (&Hosts::new(), &mut NoForeign);
    let consts = &Consts::from([(twice.0.into(), twice.1)]);
    let context = &mut Context {
        consts,
        hosts,
        foreign,
        prefix: "",
        lines: None,
    };
    let builder = &mut GraphBuilder::new();
    let mut sizes = size::Sizes::new();
    for (rounds, fits) in [(5, true), (17, true), (18, false), (25, false), (90, false)] {
        let name = format!("f{rounds}");
        let block = find(&checked, &name).unwrap();
        let dims = BTreeMap::from([("N".into(), Dim::sym("N"))]);
        let size = Lower::new(&checked, context, builder).size(block, dims, &mut sizes);
        assert_eq!(size <= size::MAX_STATEMENTS, fits, "{rounds}: {size}");
        if fits {
            assert_eq!(size, 5 * (1 << rounds) - 4);
        }
    }
    // Each block is looked at once, whatever it is called how often.
    assert_eq!(sizes.blocks.len(), 91);
    let shape = vec![Dim::sym("N")];
    let x = builder.input("x", Role::Data, DType::F32, shape).unwrap();
    let mut append = |block, builder: &mut GraphBuilder| {
        append_block(
            &checked,
            block,
            context,
            builder,
            &[Arg::Tensor(x)],
            &BTreeMap::new(),
            &[],
        )
    };
    let too_large = |block: &str| {
        Err(vec![LowerError::TooLarge {
            block: block.into(),
        }])
    };
    assert_eq!(append("f90", builder), too_large("f90"));
    assert!(builder.node(NodeId(1)).is_none());
    // What other programs append counts as well.
    assert!(builder.count_statements(size::MAX_STATEMENTS - 10, size::MAX_STATEMENTS));
    assert!(append("f1", builder).is_ok());
    assert_eq!(append("f3", builder), too_large("f3"));
}

#[test]
fn rounds_of_loops_count() {
    let source = "fn f<dim N>(x: f32[N]) -> f32[N] { let mut x = x; for i in 0..ROUNDS { for j in 0..ROUNDS { x = g(x); } } x }
        fn g<dim N>(x: f32[N]) -> f32[N] { let mut x = x; for i in 0..ROUNDS { x = h(x); } x }
        fn h<dim N>(x: f32[N]) -> f32[N] { let y[n] = x[n] + 1.0; y }";
    assert_eq!(graph(source, "f", &[("ROUNDS", 3)]).ids().count(), 1 + 27);
    let consts = [("ROUNDS".into(), 4000)].into();
    let error = EinGraph::from_text(source, "f", &consts).unwrap_err();
    assert_eq!(
        error.to_string(),
        "block `f` is more than 1048576 statements when its loops and calls are written out"
    );
    let long = [("ROUNDS".into(), 5000)].into();
    let error = EinGraph::from_text(source, "g", &long).unwrap_err();
    assert_eq!(
        error.to_string(),
        "`ROUNDS` = 5000 is too long: an array or loop has 4096 at most"
    );
}

#[test]
fn an_instance_is_checked_once() {
    let (program, _) = parse_text(NET);
    let checked = check::check_program(&program);
    let [first, second] = [0; 2].map(|_| checked.with_instance("softmax/3").unwrap());
    assert!(Arc::ptr_eq(&first, &second));
}

mod errors;
mod records;

#[test]
fn a_guarded_reduction_may_stand_in_its_own_condition() {
    let source = "fn larger(x, y) = if x > y { x } else { y };
        fn f<dim N>(x: f64[N]) -> f64 {
            let s[] = if (x[0] else 0.0) < 99.0 { larger(sum[i where (if i >= 1 { x[i - 1] } else { 0.0 }) < 3.0] x[i], 1.0) } else { 0.0 };
            s
        }";
    let graph = graph(source, "f", &[]);
    let of = |x: &[f64]| values(&graph, &[("N", 3)], &[("x", x)]);
    assert_eq!(of(&[2.0, 3.0, 9.0]), [[5.0]]);
    assert_eq!(of(&[-2.0, 1.0, 9.0]), [[8.0]]);
    assert_eq!(of(&[-2.0, 1.0, -9.0]), [[1.0]]);
}
