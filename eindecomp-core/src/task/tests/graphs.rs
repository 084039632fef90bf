//! Graphs of which any placement has to lower.

use std::collections::BTreeMap;

use crate::ein::{Agg, DType, Dim, EinSum, EinSumSpec, Expr, Label, LabelId};
use crate::ein::{Operand, Reduce, ScalarFn, Value};
use crate::graph::{BoundGraph, EinGraph, GraphBuilder, NodeId, Role};

/// Builds graphs with extents and labels as lists.
#[derive(Default)]
struct Build(GraphBuilder);

/// An index: a label, or anything.
fn l(n: u16) -> Expr {
    Expr::Index(LabelId(n))
}

fn add(a: Expr, b: Expr) -> Expr {
    Expr::call(ScalarFn::ADD, [a, b])
}

fn mul(a: Expr, b: Expr) -> Expr {
    Expr::call(ScalarFn::MUL, [a, b])
}

impl Build {
    fn input(&mut self, role: Role, dtype: DType, shape: &[i64]) -> NodeId {
        let name = format!("in{:?}{}", role, shape.len() + self.len());
        let shape = shape.iter().map(|&n| Dim::from(n)).collect();
        self.0.input(name, role, dtype, shape).unwrap()
    }

    fn len(&self) -> usize {
        (0..)
            .take_while(|&n| self.0.node(NodeId(n)).is_some())
            .count()
            * 100
    }

    fn data(&mut self, shape: &[i64]) -> NodeId {
        self.input(Role::Data, DType::F32, shape)
    }

    /// Labels of the extents given, the last `reduced` ones reduced; the product of the operands.
    fn product(
        &mut self,
        extents: &[i64],
        agg: Agg,
        reduced: usize,
        operands: Vec<(NodeId, Vec<Expr>)>,
    ) -> NodeId {
        let outs = extents.len() - reduced;
        let out = (0..outs as u16).map(|n| vec![LabelId(n)]).collect();
        self.merged(extents, out, agg, operands, None)
    }

    fn merged(
        &mut self,
        extents: &[i64],
        out: Vec<Vec<LabelId>>,
        agg: Agg,
        operands: Vec<(NodeId, Vec<Expr>)>,
        otherwise: Option<Value>,
    ) -> NodeId {
        let outs: usize = out.iter().map(Vec::len).sum();
        let labels = (outs as u16..extents.len() as u16)
            .map(LabelId)
            .collect::<Vec<_>>();
        let values = operands
            .iter()
            .enumerate()
            .filter(|(_, o)| self.0.node(o.0).unwrap().dtype == DType::F32)
            .map(|(n, _)| Expr::Operand(n));
        let body = values.reduce(mul).unwrap();
        let spec = EinSumSpec {
            labels: extents
                .iter()
                .enumerate()
                .map(|(n, &e)| Label {
                    name: format!("i{n}").into(),
                    extent: Dim::from(e),
                })
                .collect(),
            out,
            reduce: (!labels.is_empty()).then_some(Reduce {
                agg: agg.into(),
                labels,
                acc: if agg.row().selects {
                    DType::F32
                } else {
                    DType::F64
                },
                filter: None,
            }),
            operands: operands
                .into_iter()
                .map(|(node, index)| Operand {
                    node,
                    index,
                    otherwise,
                })
                .collect(),
            body,
            dtype: if agg.row().selects {
                DType::I64
            } else {
                DType::F32
            },
        };
        self.0
            .einsum(
                format!("n{}", self.len()),
                EinSum::new(spec).unwrap(),
                vec![],
            )
            .unwrap()
    }

    fn finish(mut self, outputs: &[NodeId]) -> BoundGraph {
        for (n, &o) in outputs.iter().enumerate() {
            self.0.output(format!("out{n}"), o).unwrap();
        }
        self.0.finish().unwrap().bind(&BTreeMap::new()).unwrap()
    }
}

pub(super) fn matmul(i: i64, j: i64, k: i64) -> BoundGraph {
    let mut b = Build::default();
    let (x, y) = (b.data(&[i, j]), b.data(&[j, k]));
    let operands = vec![(x, vec![l(0), l(2)]), (y, vec![l(2), l(1)])];
    let z = b.product(&[i, k, j], Agg::SUM, 1, operands);
    b.finish(&[z])
}

/// A user's aggregation, and `softmax_sum` with fused scores.
fn records(softmax: bool) -> BoundGraph {
    let source = "agg welford(x: f32) {
        state { n: f64 = 0.0, mu: f32 = 0.0, m2: f32 = 0.0 }
        lift { n: 1.0, mu: x, m2: 0.0 }
        merge(a, b) {
            let n = a.n + b.n; let r = (b.n / max(n, 1.0)) as f32; let d = b.mu - a.mu;
            { n: n, mu: a.mu + d * r, m2: a.m2 + b.m2 + d * d * (a.n as f32) * r }
        }
        finish { mean: mu, var: m2 / (n as f32) }
    }
    fn stats<dim B, dim C, dim D>(x: f32[B,C,D]) -> (f32[B], f32[B,C]) {
        let (m, v)[b] = welford[c, d] (x[b,c,d]);
        let y[b,c] = welford_var[d] (x[b,c,d], m[b]) + v[b];
        (m, y)
    }
    agg welford_var(x: f32, m: f32) {
        state { s: f32 = 0.0, t: f32 = 0.0 } lift { s: x, t: m }
        merge(a, b) { { s: a.s + b.s, t: max(a.t, b.t) } } finish { s - t }
    }
    fn attention<dim B, dim C, dim D>(q: f32[B,C,D], k: f32[4*C,D], v: f32[4*C,2*D]) -> f32[B,C,2*D] {
        let o[b,c,e] = softmax_sum[t] (if t >= b { sum[d] q[b,c,d] * k[t,d] } else { -inf }, v[t,e]);
        o
    }";
    let block = if softmax { "attention" } else { "stats" };
    let graph = EinGraph::from_text(source, block, &BTreeMap::new()).unwrap();
    let dims = [("B", 3), ("C", 4), ("D", 2)].map(|(n, v)| (n.into(), v));
    graph.bind(&dims.into()).unwrap()
}

pub(super) const GRAPHS: usize = 12;

/// One graph per feature of accesses.
pub(super) fn graph(number: usize) -> BoundGraph {
    let mut b = Build::default();
    match number {
        0 => matmul(7, 5, 6),
        1 => {
            // A chain over a weight; the input and the middle are results too.
            let (x, w) = (b.data(&[6, 9]), b.input(Role::Weight, DType::F32, &[9, 4]));
            let h = b.product(
                &[6, 4, 9],
                Agg::SUM,
                1,
                vec![(x, vec![l(0), l(2)]), (w, vec![l(2), l(1)])],
            );
            let m = b.product(&[6, 4], Agg::MAX, 1, vec![(h, vec![l(0), l(1)])]);
            let y = b.product(
                &[6, 4],
                Agg::SUM,
                0,
                vec![(h, vec![l(0), l(1)]), (m, vec![l(0)])],
            );
            b.finish(&[y, x, h, w])
        }
        2 => {
            // Attention: softmax, and two readers of one tensor.
            let x = b.data(&[5, 8]);
            let w = b.input(Role::Weight, DType::F32, &[8, 8]);
            let q = b.product(
                &[5, 8, 8],
                Agg::SUM,
                1,
                vec![(x, vec![l(0), l(2)]), (w, vec![l(2), l(1)])],
            );
            let k = b.product(
                &[5, 8, 8],
                Agg::SUM,
                1,
                vec![(x, vec![l(0), l(2)]), (w, vec![l(1), l(2)])],
            );
            // (h, e) is merged: 2 heads of 4.
            let head = || add(mul(Expr::int(4), l(0)), l(3));
            let s = b.product(
                &[2, 5, 5, 4],
                Agg::SUM,
                1,
                vec![(q, vec![l(1), head()]), (k, vec![l(2), head()])],
            );
            let m = b.product(&[2, 5, 5], Agg::MAX, 1, vec![(s, vec![l(0), l(1), l(2)])]);
            let e = b.product(
                &[2, 5, 5],
                Agg::SUM,
                0,
                vec![(s, vec![l(0), l(1), l(2)]), (m, vec![l(0), l(1)])],
            );
            let z = b.product(&[2, 5, 5], Agg::SUM, 1, vec![(e, vec![l(0), l(1), l(2)])]);
            let v = b.merged(
                &[5, 2, 4, 5],
                vec![vec![LabelId(0)], vec![LabelId(1), LabelId(2)]],
                Agg::SUM,
                vec![
                    (e, vec![l(1), l(0), l(3)]),
                    (x, vec![l(3), add(mul(Expr::int(4), l(1)), l(2))]),
                    (z, vec![l(1), l(0)]),
                ],
                None,
            );
            b.finish(&[v, s])
        }
        3 => {
            // Gather from a table.
            let (t, i) = (b.data(&[10, 6]), b.input(Role::Data, DType::I64, &[7]));
            let operands = vec![(i, vec![l(0)]), (t, vec![Expr::Operand(0), l(1)])];
            let y = b.product(&[7, 6], Agg::SUM, 0, operands);
            b.finish(&[y])
        }
        4 => {
            // A diagonal and a transposed reader.
            let x = b.data(&[6, 6]);
            let d = b.product(&[6], Agg::SUM, 0, vec![(x, vec![l(0), l(0)])]);
            let y = b.product(
                &[6, 6],
                Agg::SUM,
                0,
                vec![(x, vec![l(1), l(0)]), (d, vec![l(0)])],
            );
            b.finish(&[y])
        }
        5 => {
            let x = b.data(&[5, 7]);
            let a = b.product(&[5, 7], Agg::ARGMAX, 1, vec![(x, vec![l(0), l(1)])]);
            b.finish(&[a])
        }
        6 => {
            // A padded convolution: halos.
            let (x, w) = (
                b.data(&[11, 3]),
                b.input(Role::Weight, DType::F32, &[3, 3, 2]),
            );
            let at = Expr::call(
                ScalarFn::SUB,
                [add(mul(Expr::int(2), l(0)), l(3)), Expr::int(1)],
            );
            let operands = vec![(x, vec![at, l(2)]), (w, vec![l(3), l(2), l(1)])];
            let out = vec![vec![LabelId(0)], vec![LabelId(1)]];
            let y = b.merged(
                &[6, 2, 3, 3],
                out,
                Agg::SUM,
                operands,
                Some(Value::Float(0.0)),
            );
            b.finish(&[y])
        }
        10 | 11 => records(number == 10),
        7 => matmul(1, 0, 3),
        8 => matmul(0, 4, 1),
        _ => {
            // Rank 0, twice read.
            let x = b.data(&[9]);
            let s = b.product(&[9], Agg::SUM, 1, vec![(x, vec![l(0)])]);
            let y = b.product(&[9], Agg::SUM, 0, vec![(x, vec![l(0)]), (s, vec![])]);
            let z = b.product(
                &[9],
                Agg::SUM,
                1,
                vec![(y, vec![l(0)]), (s, vec![]), (x, vec![l(0)])],
            );
            b.finish(&[z, s])
        }
    }
}
