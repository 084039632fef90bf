//! Statements: contractions, element-wise bodies, guards, gathers, merged axes, reductions.

use super::*;

const SIZES: [(char, usize); 8] = [
    ('a', 3),
    ('b', 2),
    ('i', 13),
    ('j', 17),
    ('k', 9),
    ('l', 300),
    ('o', 1),
    ('z', 0),
];

#[test]
fn einsums_of_many_shapes() {
    for expr in [
        "ik,kj->ij",
        "ki,kj->ij",
        "ik,jk->ij",
        "ik,kj->ji",
        "bik,bkj->bij",
        "abik,abjk->abij",
        "aibk,bkj->abij",
        "ik,k->i",
        "k,k->",
        "i,j->ij",
        "ij->ji",
        "ii->i",
        "ii->",
        "ij->i",
        "ij->j",
        "ij->",
        "abij->ib",
        "lk->k",
        "kl->k",
        "lk,lk->k",
        "iz,zj->ij",
        "zi,ij->zj",
        "io,oj->ij",
        "ik,kj,jl->il",
        "i->i",
        "ij,ij->ij",
        "ik,kj->i",
        "abk,akb->ab",
        "lk,kj->lj",
        "li,lj->ij",
        "kbi,jkb->ij",
        "z->",
        "o->o",
        "aik,kj->aji",
    ] {
        for dtype in [DType::F64, DType::F32, DType::I64] {
            einsum(expr, &SIZES, dtype).check();
        }
    }
    for expr in ["ik,kj->ij", "ij->i", "ij,ij->ij", "bik,bkj->bij"] {
        for dtype in [DType::BF16, DType::F16, DType::I32, DType::U32] {
            einsum(expr, &SIZES, dtype).check();
        }
    }
}

#[test]
fn contractions_go_through_the_gemm() {
    let kernel = |expr| {
        let (graph, node) = einsum(expr, &SIZES, DType::F32).graph();
        Kernel::compile(&graph, node).unwrap().describe()
    };
    assert_eq!(kernel("bik,bkj->bij"), "gemm m=i n=j k=k batch=b");
    assert_eq!(kernel("aibk,bkj->aij"), "gemm m=a,i n=j k=b,k");
    assert_eq!(kernel("ii->i"), "vector 1 instruction");
    assert_eq!(kernel("ik,k->i"), "gemm m=i k=k");
    assert_eq!(kernel("ik,ik->i"), "vector 3 instructions, sum");
}

#[test]
fn mixed_element_types_of_a_contraction() {
    for (a, b, acc, dtype) in [
        (DType::BF16, DType::BF16, DType::F32, DType::BF16),
        (DType::BF16, DType::F32, DType::F32, DType::F32),
        (DType::F32, DType::F32, DType::F64, DType::F32),
        (DType::F16, DType::F16, DType::F32, DType::F32),
    ] {
        let mut c = einsum("bik,bkj->bji", &SIZES, DType::F32);
        (c.inputs[0].0, c.inputs[1].0, c.acc, c.dtype) = (a, b, acc, dtype);
        c.tolerance = if dtype == DType::BF16 { 1e-2 } else { 2e-6 };
        c.check();
        let (graph, node) = c.graph();
        let text = Kernel::compile(&graph, node).unwrap().describe();
        assert!(text.starts_with("gemm"), "{text}");
    }
}

#[test]
fn a_large_contraction_is_cut_and_the_same() {
    let sizes = [('i', 200), ('j', 300), ('k', 130)];
    let c = einsum("ik,kj->ij", &sizes, DType::F32);
    let (graph, node) = c.graph();
    let tile = Region::whole(&c.extents);
    assert!(
        Kernel::compile(&graph, node)
            .unwrap()
            .subtiles(&tile, 4)
            .len()
            > 1
    );
    c.check();
}

#[test]
fn every_aggregation_over_every_kind() {
    let mut data: Vec<f64> = (0..13 * 300)
        .map(|i| f64::from(i * 37 % 101) / 8.0 - 6.0)
        .collect();
    data[5] = f64::INFINITY;
    data[700] = f64::NAN;
    data[1300] = f64::NEG_INFINITY;
    data[600..900].fill(f64::NEG_INFINITY);
    for expr in ["il->i", "li->i", "iz->i", "kj->j", "jk->", "al->a"] {
        for dtype in [
            DType::F64,
            DType::F32,
            DType::BF16,
            DType::I64,
            DType::I32,
            DType::U8,
        ] {
            for agg in [
                Agg::SUM,
                Agg::MAX,
                Agg::MIN,
                Agg::LOGSUMEXP,
                Agg::ARGMAX,
                Agg::ARGMIN,
                Agg::PROD,
            ] {
                let mut c = einsum(expr, &SIZES, dtype);
                if (agg.row().selects && c.reduced.len() > 1)
                    || (agg == Agg::LOGSUMEXP && !dtype.is_float())
                {
                    continue;
                }
                c.agg = Some(agg);
                if agg == Agg::PROD {
                    c.body = call(ScalarFn::SIGN, [Expr::Operand(0)]);
                }
                if agg.row().selects {
                    c.dtype = DType::I64;
                    c.acc = dtype;
                }
                if dtype == DType::U8 && !agg.row().selects {
                    c.acc = DType::I64;
                    c.dtype = DType::I64;
                    c.body = Expr::Cast(DType::I64, Box::new(c.body));
                }
                c.check();
                if dtype.is_float() && expr.contains('l') && agg != Agg::PROD {
                    c.data[0] = Some(data[..c.inputs[0].1.iter().product()].to_vec());
                    c.check();
                }
                c.filter = Some(call(
                    ScalarFn::GT,
                    [
                        call(ScalarFn::REM, [ix(c.out.len() as u16), Expr::int(3)]),
                        Expr::int(0),
                    ],
                ));
                c.check();
            }
        }
    }
    for agg in [Agg::ANY, Agg::ALL] {
        for expr in ["il->i", "li->i", "iz->i", "ij->"] {
            let mut c = einsum(expr, &SIZES, DType::Bool);
            c.agg = Some(agg);
            c.check();
        }
    }
}

#[test]
fn padding_reads_else_values() {
    let mut c = einsum("ij->ij", &SIZES, DType::F32);
    let shift = |by| call(ScalarFn::SUB, [ix(1), Expr::int(by)]);
    for by in [1, -1, 3, 40, -40] {
        c.operands[0].index[1] = shift(by);
        c.operands[0].otherwise = Some(Value::Float(0.5));
        c.check();
    }
    // Strided, backwards.
    c.operands[0].index[1] = call(
        ScalarFn::SUB,
        [Expr::int(20), call(ScalarFn::MUL, [Expr::int(3), ix(1)])],
    );
    c.check();
    // A convolution: padded, and without padding through the GEMM.
    let mut c = einsum(
        "ai,ck->ai",
        &[('a', 5), ('i', 12), ('c', 5), ('k', 6)],
        DType::F32,
    );
    c.inputs = vec![(DType::F32, vec![6, 12]), (DType::F32, vec![5, 6])];
    c.out = "ai";
    c.reduced = "ck";
    c.extents = vec![5, 12, 6, 3];
    c.inputs[1].1 = vec![5, 6, 3];
    let at = call(
        ScalarFn::SUB,
        [call(ScalarFn::ADD, [ix(1), ix(3)]), Expr::int(1)],
    );
    c.operands[0].index = vec![ix(2), at];
    c.operands[0].otherwise = Some(Value::Float(0.0));
    c.operands[1].index = vec![ix(0), ix(2), ix(3)];
    c.check();
    c.operands[0].index[1] = call(ScalarFn::ADD, [ix(1), ix(3)]);
    c.operands[0].otherwise = None;
    c.inputs[0].1 = vec![6, 14];
    c.check();
}

#[test]
fn guards_read_nothing_where_they_do_not_hold() {
    let mut c = einsum("ij->ij", &SIZES, DType::F32);
    c.operands[0].index[1] = call(ScalarFn::SUB, [ix(1), Expr::int(2)]);
    let guard = call(ScalarFn::GE, [ix(1), Expr::int(2)]);
    let pick = |cond, no| Expr::If(Box::new(cond), Box::new(Expr::Operand(0)), Box::new(no));
    c.body = pick(guard.clone(), float(f64::NEG_INFINITY, DType::F32));
    c.check();
    c.body = pick(
        call(
            ScalarFn::AND,
            [
                guard.clone(),
                call(ScalarFn::GT, [Expr::Operand(0), float(0.0, DType::F32)]),
            ],
        ),
        float(0.0, DType::F32),
    );
    c.check();
    c.body = Expr::Operand(0);
    assert_eq!(
        c.run(&[1, 1], false),
        Err(KernelRunError::OutOfRange {
            tensor: "x0".into(),
            axis: 1,
            value: -2,
            extent: 17
        })
    );
    // A filter guards the body.
    let mut c = einsum("ij->i", &SIZES, DType::F32);
    c.operands[0].index[1] = call(ScalarFn::SUB, [ix(1), Expr::int(2)]);
    c.filter = Some(call(ScalarFn::GE, [ix(1), Expr::int(2)]));
    c.check();
}

#[test]
fn gathers_follow_data() {
    // y[i, j] = table[ids[i], j]
    let mut c = einsum("i,kj->ij", &SIZES, DType::F32);
    c.inputs[0].0 = DType::U32;
    c.data[0] = Some((0..13).map(|i| f64::from(i * 5 % 9)).collect());
    c.out = "ij";
    c.reduced = "";
    c.agg = None;
    c.extents = vec![13, 17];
    c.operands[1].index = vec![Expr::Operand(0), ix(1)];
    c.body = Expr::Operand(1);
    c.check();
    // z[b, y[b]], an index per lane
    let mut d = einsum("i,ij->i", &SIZES, DType::F32);
    d.inputs[0].0 = DType::I64;
    d.data[0] = Some((0..13).map(|i| f64::from(i * 4 % 17)).collect());
    d.reduced = "";
    d.agg = None;
    d.extents = vec![13];
    d.operands[1].index = vec![ix(0), Expr::Operand(0)];
    d.body = Expr::Operand(1);
    d.check();
    for c in [&mut c, &mut d] {
        c.data[0].as_mut().unwrap()[3] = 99.0;
        let error = c.run(&vec![1; c.extents.len()], false).unwrap_err();
        assert!(
            error.to_string().contains("index 99 is outside axis"),
            "{error}"
        );
        c.operands[1].otherwise = Some(Value::Float(-1.0));
        c.check();
        c.operands[1].otherwise = None;
        let guard = call(ScalarFn::NE, [ix(0), Expr::int(3)]);
        let no = float(7.0, DType::F32);
        c.body = Expr::If(Box::new(guard), Box::new(Expr::Operand(1)), Box::new(no));
        c.check();
    }
}

#[test]
fn merged_axes_on_both_sides() {
    // y[(i, a), j] = x[j, 3·i + a]
    let mut c = einsum("ji->iaj", &[('i', 13), ('j', 17), ('a', 3)], DType::F32);
    c.inputs[0].1 = vec![17, 39];
    c.merged = vec![vec![0, 1], vec![2]];
    let merged = call(
        ScalarFn::ADD,
        [call(ScalarFn::MUL, [Expr::int(3), ix(0)]), ix(1)],
    );
    c.operands[0].index = vec![ix(2), merged.clone()];
    c.check();
    // As a contraction over (i, a): y[(b, j)] = Σ x[b, (i, a)] w[j, (i, a)]
    let mut c = einsum("bi,ji->bj", &[('b', 6), ('i', 13), ('j', 17)], DType::F32);
    c.reduced = "ia";
    c.extents = vec![6, 17, 13, 3];
    c.inputs = vec![(DType::F32, vec![6, 39]), (DType::F32, vec![17, 39])];
    c.merged = vec![vec![0, 1]];
    let merged = call(
        ScalarFn::ADD,
        [call(ScalarFn::MUL, [Expr::int(3), ix(2)]), ix(3)],
    );
    c.operands[0].index = vec![ix(0), merged.clone()];
    c.operands[1].index = vec![ix(1), merged];
    c.check();
}

#[test]
fn integers_wrap_and_divide_as_the_language_says() {
    for dtype in [DType::I64, DType::I32, DType::U8, DType::U32] {
        for f in [
            ScalarFn::ADD,
            ScalarFn::SUB,
            ScalarFn::MUL,
            ScalarFn::DIV,
            ScalarFn::REM,
            ScalarFn::MAX,
        ] {
            let mut c = einsum("ij,ij->ij", &SIZES, dtype);
            c.data[0] = Some((0..221).map(|i| f64::from((i * 97) % 251)).collect());
            c.data[1] = Some((0..221).map(|i| f64::from((i * 31) % 249 + 1)).collect());
            c.body = call(f, [Expr::Operand(0), Expr::Operand(1)]);
            c.check();
        }
    }
    for (from, to) in [
        (DType::F32, DType::U8),
        (DType::F64, DType::I32),
        (DType::I64, DType::F32),
        (DType::Bool, DType::F64),
        (DType::I64, DType::Bool),
    ] {
        let mut c = einsum("ij->ij", &SIZES, from);
        c.data[0] = Some((0..221).map(|i| f64::from(i) * 3.5 - 300.0).collect());
        c.body = Expr::Cast(to, Box::new(Expr::Operand(0)));
        c.dtype = to;
        c.tolerance = 1e-6;
        c.check();
    }
}

#[test]
fn slots_are_read_at_run_time() {
    let mut c = einsum("ij->ij", &SIZES, DType::F32);
    c.slots = vec![Value::Float(2.5), Value::Float(-3.25)];
    let slot = |n| Expr::Slot(n, DType::F32);
    c.body = call(
        ScalarFn::ADD,
        [call(ScalarFn::MUL, [Expr::Operand(0), slot(0)]), slot(1)],
    );
    c.check();
}

#[test]
fn a_wrong_window_is_an_error() {
    let c = einsum("ij->ij", &SIZES, DType::F32);
    let (graph, node) = c.graph();
    let kernel = Kernel::compile(&graph, node).unwrap();
    let source = Buffer::new(DType::F32, Region(vec![(0, 13), (0, 16)]));
    let mut result = Buffer::new(DType::F32, Region::whole(&[13, 17]));
    let tile = Region::whole(&[13, 17]);
    let run = kernel.run(
        &tile,
        &[source.view()],
        &[result.view_mut()],
        &[],
        &mut Scratch::default(),
    );
    assert!(matches!(run, Err(KernelRunError::Window { .. })));
}

#[test]
fn other_pairs_of_operators_go_through_the_same_tiles() {
    let kernel = |text: &str| {
        let graph =
            eindecomp_core::graph::EinGraph::from_text(text, "f", &Default::default()).unwrap();
        let graph = graph.bind(&[("N".into(), 40)].into()).unwrap();
        let node = graph.outputs()[0].node;
        Kernel::compile(&graph, node).unwrap().describe()
    };
    let of = |body: &str| {
        kernel(&format!(
            "fn f<dim N>(x: f32[N, N], y: f32[N, N]) -> f32[N, N] {{ let z[i, j] = {body}; z }}"
        ))
    };
    assert_eq!(
        of("max[k] (x[i, k] + y[k, j])"),
        "tiled max(a + b) m=i n=j k=k"
    );
    assert_eq!(
        of("sum[k] sq(x[i, k] - y[j, k])"),
        "tiled sum(sq(a - b)) m=i n=j k=k"
    );
    assert_eq!(
        of("min[k] abs(y[k, j] - x[i, k])"),
        "tiled min(abs(a - b)) m=i n=j k=k"
    );
}
