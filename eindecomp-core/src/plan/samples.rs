//! Small graphs for the planner's tests, written as einsum strings.

use std::collections::BTreeMap;

use crate::ein::{
    Agg, DType, Dim, EinSum, EinSumSpec, Expr, Label, LabelId, Operand, Reduce, ScalarFn,
};
use crate::graph::{BoundGraph, EinGraph, GraphBuilder, NodeId, Pin, Role};

/// A graph under construction.
#[derive(Default)]
pub(crate) struct Sample(GraphBuilder);

impl Sample {
    pub fn input(&mut self, name: &str, role: Role, shape: &[i64]) -> NodeId {
        let shape = shape.iter().map(|&n| Dim::from(n)).collect();
        self.0.input(name, role, DType::F32, shape).unwrap()
    }

    pub fn data(&mut self, name: &str, shape: &[i64]) -> NodeId {
        self.input(name, Role::Data, shape)
    }

    pub fn weight(&mut self, name: &str, shape: &[i64]) -> NodeId {
        self.input(name, Role::Weight, shape)
    }

    /// `"bsd,df->bsf"`: a product, summed over what is not on the right.
    pub fn einsum(&mut self, name: &str, spec: &str, operands: &[NodeId]) -> NodeId {
        self.pinned(name, spec, operands, Agg::SUM, vec![])
    }

    pub fn reduce(&mut self, name: &str, spec: &str, operands: &[NodeId], agg: Agg) -> NodeId {
        self.pinned(name, spec, operands, agg, vec![])
    }

    pub fn pinned(
        &mut self,
        name: &str,
        spec: &str,
        operands: &[NodeId],
        agg: Agg,
        pins: Vec<Pin>,
    ) -> NodeId {
        let (inputs, out) = spec.split_once("->").unwrap();
        let inputs: Vec<&str> = inputs.split(',').collect();
        let mut order: Vec<char> = out.chars().collect();
        for c in inputs.iter().flat_map(|i| i.chars()) {
            if !order.contains(&c) {
                order.push(c);
            }
        }
        let id = |c: char| LabelId(order.iter().position(|&o| o == c).unwrap() as u16);
        let extent = |c: char| {
            let found = inputs.iter().zip(operands).find_map(|(i, &o)| {
                let axis = i.chars().position(|x| x == c)?;
                Some(self.0.node(o).unwrap().shape[axis].clone())
            });
            found.unwrap()
        };
        let label = |&c: &char| Label {
            name: c.to_string().into(),
            extent: extent(c),
        };
        let operand = |(i, &node): (&&str, &NodeId)| Operand {
            node,
            index: i.chars().map(|c| Expr::Index(id(c))).collect(),
            otherwise: None,
        };
        let reduced: Vec<LabelId> = order[out.len()..].iter().map(|&c| id(c)).collect();
        let product = |a, b| Expr::call(ScalarFn::MUL, vec![a, b]);
        let spec = EinSumSpec {
            labels: order.iter().map(label).collect(),
            out: out.chars().map(|c| vec![id(c)]).collect(),
            reduce: (!reduced.is_empty()).then_some(Reduce {
                agg: agg.into(),
                labels: reduced,
                acc: DType::F32,
                filter: None,
            }),
            operands: inputs.iter().zip(operands).map(operand).collect(),
            body: (0..operands.len())
                .map(Expr::Operand)
                .reduce(product)
                .unwrap(),
            dtype: DType::F32,
        };
        self.0
            .einsum(name, EinSum::new(spec).unwrap(), pins)
            .unwrap()
    }

    pub fn finish(mut self, output: NodeId) -> BoundGraph {
        self.0.output("out", output).unwrap();
        self.0.finish().unwrap().bind(&BTreeMap::new()).unwrap()
    }
}

pub(crate) fn matmul(i: i64, j: i64, k: i64) -> BoundGraph {
    let mut g = Sample::default();
    let (x, y) = (g.data("x", &[i, j]), g.data("y", &[j, k]));
    let z = g.einsum("z", "ij,jk->ik", &[x, y]);
    g.finish(z)
}

/// Two projections with an element-wise function between.
pub(crate) fn ffn(b: i64, d: i64, f: i64) -> BoundGraph {
    let mut g = Sample::default();
    let x = g.data("x", &[b, d]);
    let (w1, w2) = (g.weight("w1", &[d, f]), g.weight("w2", &[f, d]));
    let h = g.einsum("h", "bd,df->bf", &[x, w1]);
    let a = g.einsum("a", "bf->bf", &[h]);
    let y = g.einsum("y", "bf,fd->bd", &[a, w2]);
    g.finish(y)
}

/// Transformer layers: attention with softmax, residual, FFN, residual.
pub(crate) fn transformer(layers: usize, [b, s, h, e, f]: [i64; 5]) -> BoundGraph {
    let mut g = Sample::default();
    let mut x = g.data("x", &[b, s, h * e]);
    let d = h * e;
    for l in 0..layers {
        let mut w = |n: &str, shape: &[i64]| g.weight(&format!("{l}.{n}"), shape);
        let (wq, wk, wv) = (
            w("wq", &[d, h, e]),
            w("wk", &[d, h, e]),
            w("wv", &[d, h, e]),
        );
        let (wo, w1, w2) = (w("wo", &[h, e, d]), w("w1", &[d, f]), w("w2", &[f, d]));
        let q = g.einsum("q", "bsd,dhe->bshe", &[x, wq]);
        let k = g.einsum("k", "btd,dhe->bthe", &[x, wk]);
        let v = g.einsum("v", "btd,dhe->bthe", &[x, wv]);
        let c = g.einsum("c", "bshe,bthe->bhst", &[q, k]);
        let m = g.reduce("m", "bhst->bhs", &[c], Agg::MAX);
        let p = g.einsum("p", "bhst,bhs->bhst", &[c, m]);
        let z = g.einsum("z", "bhst->bhs", &[p]);
        let a = g.einsum("a", "bhst,bhs->bhst", &[p, z]);
        let o = g.einsum("o", "bhst,bthe->bshe", &[a, v]);
        let y = g.einsum("y", "bshe,hed->bsd", &[o, wo]);
        let r = g.einsum("r", "bsd,bsd->bsd", &[x, y]);
        let u = g.einsum("u", "bsd,df->bsf", &[r, w1]);
        let n = g.einsum("n", "bsf->bsf", &[u]);
        let t = g.einsum("t", "bsf,fd->bsd", &[n, w2]);
        x = g.einsum("x1", "bsd,bsd->bsd", &[r, t]);
    }
    g.finish(x)
}

/// Attention of one query position set: `o[b,d] = softmax_sum[t] (q[b]·k[t,b], v[t,b,d])`; then the
/// mean and variance of each row in one pass.
pub(crate) fn records(b: i64, t: i64, e: i64) -> BoundGraph {
    let source = "agg welford(x: f32) {
        state { n: f32 = 0.0, mu: f32 = 0.0, m2: f32 = 0.0 }
        lift { n: 1.0, mu: x, m2: 0.0 }
        merge(a, b) {
            let n = a.n + b.n; let r = b.n / max(n, 1.0); let d = b.mu - a.mu;
            { n: n, mu: a.mu + d * r, m2: a.m2 + b.m2 + d * d * a.n * r }
        }
        finish { m2 / n }
    }
    fn f<dim B, dim T, dim E>(q: f32[B,E], k: f32[T,B,E], v: f32[T,B,E]) -> f32[B] {
        let o[b,d] = softmax_sum[t] (sum[e] q[b,e] * k[t,b,e], v[t,b,d]);
        let y[b] = welford[d] (o[b,d]);
        y
    }";
    let graph = EinGraph::from_text(source, "f", &BTreeMap::new()).unwrap();
    let dims = [("B", b), ("T", t), ("E", e)].map(|(n, v)| (n.into(), v));
    graph.bind(&dims.into()).unwrap()
}
