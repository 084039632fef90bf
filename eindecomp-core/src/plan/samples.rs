//! Graphs for the planner's tests and benches, written as einsum strings.

use std::collections::BTreeMap;

use crate::ein::{
    Agg, DType, Dim, EinSum, EinSumSpec, Expr, Label, LabelId, Operand, Reduce, ScalarFn,
};
use crate::graph::{BoundGraph, EinGraph, GraphBuilder, NodeId, Pin, Role};

/// A graph under construction. Everything panics where a graph would not be well formed.
#[derive(Default)]
pub struct Sample {
    builder: GraphBuilder,
    /// Vertices in order: what they read and how.
    vertices: Vec<(NodeId, String, Vec<NodeId>)>,
}

impl Sample {
    /// An input of role and shape.
    pub fn input(&mut self, name: &str, role: Role, shape: &[i64]) -> NodeId {
        let shape = shape.iter().map(|&n| Dim::from(n)).collect();
        self.builder.input(name, role, DType::F32, shape).unwrap()
    }

    /// An activation.
    pub fn data(&mut self, name: &str, shape: &[i64]) -> NodeId {
        self.input(name, Role::Data, shape)
    }

    /// A weight.
    pub fn weight(&mut self, name: &str, shape: &[i64]) -> NodeId {
        self.input(name, Role::Weight, shape)
    }

    /// `"bsd,df->bsf"`: a product, summed over what is not on the right.
    pub fn einsum(&mut self, name: &str, spec: &str, operands: &[NodeId]) -> NodeId {
        self.pinned(name, spec, operands, Agg::SUM, vec![])
    }

    /// As [`einsum`](Sample::einsum), with another aggregation.
    pub fn reduce(&mut self, name: &str, spec: &str, operands: &[NodeId], agg: Agg) -> NodeId {
        self.pinned(name, spec, operands, agg, vec![])
    }

    /// As [`reduce`](Sample::reduce), with pins.
    pub fn pinned(
        &mut self,
        name: &str,
        written: &str,
        operands: &[NodeId],
        agg: Agg,
        pins: Vec<Pin>,
    ) -> NodeId {
        let (inputs, out) = written.split_once("->").unwrap();
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
                Some(self.builder.node(o).unwrap().shape[axis].clone())
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
        let einsum = EinSum::new(spec).unwrap();
        let node = self.builder.einsum(name, einsum, pins).unwrap();
        self.vertices
            .push((node, written.into(), operands.to_vec()));
        node
    }

    /// The gradients of `output` by every tensor that it depends on, written out: each vertex, from
    /// the last one, sends each operand the product of its own gradient with the other operands
    /// (and with the operand itself, where the result needs its shape), and what arrives from
    /// several readers is added up. Returns the last gradient that was made.
    pub fn backward(&mut self, output: NodeId) -> NodeId {
        let shape: Vec<Dim> = self.builder.node(output).unwrap().shape.clone();
        let mut last = self
            .builder
            .input("d out", Role::Data, DType::F32, shape)
            .unwrap();
        let mut gradients: BTreeMap<NodeId, NodeId> = BTreeMap::from([(output, last)]);
        for (node, spec, operands) in self.vertices.clone().into_iter().rev() {
            let Some(&gradient) = gradients.get(&node) else {
                continue;
            };
            let (inputs, out) = spec.split_once("->").unwrap();
            let inputs: Vec<&str> = inputs.split(',').collect();
            for (i, (&labels, &operand)) in inputs.iter().zip(&operands).enumerate() {
                let (mut read, mut from) = (vec![out], vec![gradient]);
                for (j, (other, node)) in inputs.iter().zip(&operands).enumerate() {
                    if j != i {
                        read.push(other);
                        from.push(*node);
                    }
                }
                if !labels.chars().all(|c| read.iter().any(|r| r.contains(c))) {
                    read.push(labels);
                    from.push(operand);
                }
                let name = format!("d{i} {node}");
                last = self.einsum(&name, &format!("{}->{labels}", read.join(",")), &from);
                if let Some(&sum) = gradients.get(&operand) {
                    let add = format!("{labels},{labels}->{labels}");
                    last = self.einsum(&format!("sum {operand}"), &add, &[sum, last]);
                }
                gradients.insert(operand, last);
            }
        }
        last
    }

    /// The graph, with one output.
    pub fn finish(mut self, output: NodeId) -> BoundGraph {
        self.builder.output("out", output).unwrap();
        self.builder
            .finish()
            .unwrap()
            .bind(&BTreeMap::new())
            .unwrap()
    }
}

/// One matrix product: i × j by j × k.
pub fn matmul(i: i64, j: i64, k: i64) -> BoundGraph {
    let mut g = Sample::default();
    let (x, y) = (g.data("x", &[i, j]), g.data("y", &[j, k]));
    let z = g.einsum("z", "ij,jk->ik", &[x, y]);
    g.finish(z)
}

/// Two projections with an element-wise function between.
pub fn ffn(b: i64, d: i64, f: i64) -> BoundGraph {
    let mut g = Sample::default();
    let x = g.data("x", &[b, d]);
    let (w1, w2) = (g.weight("w1", &[d, f]), g.weight("w2", &[f, d]));
    let h = g.einsum("h", "bd,df->bf", &[x, w1]);
    let a = g.einsum("a", "bf->bf", &[h]);
    let y = g.einsum("y", "bf,fd->bd", &[a, w2]);
    g.finish(y)
}

/// Sizes of a LLaMA model.
#[derive(Clone, Copy, Debug)]
pub struct Llama {
    /// Number of layers.
    pub layers: usize,
    /// Sequences.
    pub batch: i64,
    /// Tokens of each.
    pub tokens: i64,
    /// Heads.
    pub heads: i64,
    /// Features of a head.
    pub head: i64,
    /// Hidden features of the feed-forward net.
    pub hidden: i64,
    /// Words of the vocabulary.
    pub words: i64,
}

impl Llama {
    /// LLaMA-7B: 32 layers of 32 heads of 128 features.
    pub const B7: Llama = Llama {
        layers: 32,
        batch: 8,
        tokens: 2048,
        heads: 32,
        head: 128,
        hidden: 11008,
        words: 32000,
    };

    /// Forward, from embedded tokens to logits: 25 vertices per layer and 4.
    pub fn forward(self) -> BoundGraph {
        let mut g = Sample::default();
        let y = self.layers(&mut g);
        let y = norm(&mut g, "final", y, self.heads * self.head);
        let w = g.weight("head", &[self.heads * self.head, self.words]);
        let y = g.einsum("logits", "bsd,dv->bsv", &[y, w]);
        g.finish(y)
    }

    /// The layers, forward and backward.
    pub fn training(self) -> BoundGraph {
        let mut g = Sample::default();
        let y = self.layers(&mut g);
        let last = g.backward(y);
        g.finish(last)
    }

    fn layers(self, g: &mut Sample) -> NodeId {
        let (s, h, e, f) = (self.tokens, self.heads, self.head, self.hidden);
        let d = h * e;
        let mut x = g.data("x", &[self.batch, s, d]);
        let (cos, mask) = (g.data("cos", &[s, e]), g.data("mask", &[s, s]));
        for l in 0..self.layers {
            let mut w = |n: &str, shape: &[i64]| g.weight(&format!("{l}.{n}"), shape);
            let (wq, wk, wv) = (
                w("wq", &[d, h, e]),
                w("wk", &[d, h, e]),
                w("wv", &[d, h, e]),
            );
            let (wo, w1) = (w("wo", &[h, e, d]), w("w1", &[d, f]));
            let (w2, w3) = (w("w2", &[f, d]), w("w3", &[d, f]));
            let n = norm(g, &format!("{l}.attention"), x, d);
            let q = g.einsum("q", "bsd,dhe->bshe", &[n, wq]);
            let k = g.einsum("k", "btd,dhe->bthe", &[n, wk]);
            let v = g.einsum("v", "btd,dhe->bthe", &[n, wv]);
            let q = g.einsum("qr", "bshe,se->bshe", &[q, cos]);
            let k = g.einsum("kr", "bthe,te->bthe", &[k, cos]);
            let c = g.einsum("c", "bshe,bthe->bhst", &[q, k]);
            let c = g.einsum("masked", "bhst,st->bhst", &[c, mask]);
            let o = attend(g, c, v);
            let y = g.einsum("y", "bshe,hed->bsd", &[o, wo]);
            let r = g.einsum("r", "bsd,bsd->bsd", &[x, y]);
            let n = norm(g, &format!("{l}.net"), r, d);
            let gate = g.einsum("gate", "bsd,df->bsf", &[n, w1]);
            let up = g.einsum("up", "bsd,df->bsf", &[n, w3]);
            let u = g.einsum("u", "bsf,bsf->bsf", &[gate, up]);
            let t = g.einsum("down", "bsf,fd->bsd", &[u, w2]);
            x = g.einsum("x1", "bsd,bsd->bsd", &[r, t]);
        }
        x
    }
}

/// Softmax of scores over `t`, and the values that it weighs, in five vertices.
fn attend(g: &mut Sample, c: NodeId, v: NodeId) -> NodeId {
    let m = g.reduce("m", "bhst->bhs", &[c], Agg::MAX);
    let p = g.einsum("p", "bhst,bhs->bhst", &[c, m]);
    let z = g.einsum("z", "bhst->bhs", &[p]);
    let a = g.einsum("a", "bhst,bhs->bhst", &[p, z]);
    g.einsum("o", "bhst,bthe->bshe", &[a, v])
}

/// RMSNorm in three vertices: squares, their sums, the scaled values.
fn norm(g: &mut Sample, name: &str, x: NodeId, d: i64) -> NodeId {
    let w = g.weight(&format!("{name}.norm"), &[d]);
    let squares = g.einsum("squares", "bsd,bsd->bsd", &[x, x]);
    let sums = g.einsum("sums", "bsd->bs", &[squares]);
    g.einsum("scaled", "bsd,bs,d->bsd", &[x, sums, w])
}

/// Transformer layers: attention with softmax, residual, FFN, residual.
pub fn transformer(layers: usize, dims: [i64; 5]) -> BoundGraph {
    layered(layers, dims, false)
}

/// The same with one set of weights for all layers, as ALBERT has.
pub fn albert(layers: usize, dims: [i64; 5]) -> BoundGraph {
    layered(layers, dims, true)
}

fn layered(layers: usize, [b, s, h, e, f]: [i64; 5], shared: bool) -> BoundGraph {
    let mut g = Sample::default();
    let mut x = g.data("x", &[b, s, h * e]);
    let d = h * e;
    let mut weights = Vec::new();
    for l in 0..layers {
        if weights.is_empty() || !shared {
            let (first, last) = ([d, h, e], [h, e, d]);
            weights = vec![
                g.weight(&format!("{l}.wq"), &first),
                g.weight(&format!("{l}.wk"), &first),
                g.weight(&format!("{l}.wv"), &first),
                g.weight(&format!("{l}.wo"), &last),
                g.weight(&format!("{l}.w1"), &[d, f]),
                g.weight(&format!("{l}.w2"), &[f, d]),
            ];
        }
        let [wq, wk, wv, wo, w1, w2] = weights[..] else {
            unreachable!("six were made");
        };
        let q = g.einsum("q", "bsd,dhe->bshe", &[x, wq]);
        let k = g.einsum("k", "btd,dhe->bthe", &[x, wk]);
        let v = g.einsum("v", "btd,dhe->bthe", &[x, wv]);
        let c = g.einsum("c", "bshe,bthe->bhst", &[q, k]);
        let o = attend(&mut g, c, v);
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
pub fn records(b: i64, t: i64, e: i64) -> BoundGraph {
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

/// `((w·x)·y)·z`.
pub fn chain(extents: [i64; 5]) -> BoundGraph {
    let mut g = Sample::default();
    let [a, b, c, d, e] = extents;
    let w = g.data("w", &[a, b]);
    let (x, y, z) = (
        g.data("x", &[b, c]),
        g.data("y", &[c, d]),
        g.data("z", &[d, e]),
    );
    let p = g.einsum("p", "ab,bc->ac", &[w, x]);
    let q = g.einsum("q", "ac,cd->ad", &[p, y]);
    let r = g.einsum("r", "ad,de->ae", &[q, z]);
    g.finish(r)
}

/// A convolution over 18 × 18 points, and a rectifier.
pub fn convolution(n: i64) -> BoundGraph {
    let source =
        "fn f<dim N, dim C, dim H, dim O>(x: f32[N, C, H, H], #[weight] w: f32[O, C, 3, 3])
        -> f32[N, O, H - 2, H - 2] where H >= 3
    {
        let y[n, o, i in H - 2, j in H - 2] = sum[c, u, v] x[n, c, i + u, j + v] * w[o, c, u, v];
        let z[n, o, i, j] = max(y[n, o, i, j], 0.0);
        z
    }";
    let graph = EinGraph::from_text(source, "f", &BTreeMap::new()).unwrap();
    let dims = [("N", n), ("C", 3), ("H", 18), ("O", 4)];
    graph
        .bind(&dims.map(|(d, v)| (d.into(), v)).into())
        .unwrap()
}

/// A graph of each kind that people decompose, small enough to run.
pub fn corpus() -> Vec<(&'static str, BoundGraph)> {
    let llama = |batch| {
        let layer = Llama {
            layers: 1,
            batch,
            tokens: 16,
            heads: 4,
            head: 8,
            hidden: 88,
            words: 64,
        };
        layer.forward()
    };
    vec![
        ("a cube", matmul(64, 64, 64)),
        ("a tall matrix", matmul(256, 4, 64)),
        ("a dot product", matmul(4, 512, 4)),
        ("a chain", chain([64, 16, 64, 16, 64])),
        ("an uneven chain", chain([100, 3, 50, 7, 30])),
        ("a net of one example", ffn(1, 64, 256)),
        ("a net of many", ffn(64, 16, 16)),
        ("a long sequence", transformer(1, [1, 64, 8, 8, 256])),
        ("a batch of sequences", transformer(2, [8, 16, 4, 4, 64])),
        ("one token", transformer(1, [1, 1, 4, 8, 128])),
        ("LLaMA, b = 1", llama(1)),
        ("LLaMA, b = 8", llama(8)),
        ("ALBERT", albert(3, [2, 16, 4, 8, 64])),
        ("records", records(2, 16, 4)),
        ("a convolution", convolution(1)),
        ("convolutions", convolution(4)),
    ]
}
