//! Random graphs with data, for property tests. Values are small whole numbers, so that sums and
//! products are exact in every order and every plan must give identical bits.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::{BoundGraph, EinGraph, GraphBuilder, NodeId, Role};
use crate::ein::{
    Agg, DType, Dim, EinSum, EinSumSpec, Expr, Label, LabelId, Operand, Reduce, ScalarFn, Value,
};
use crate::reference::RefTensor;

/// A graph with values for its dims and inputs.
#[derive(Clone, Debug)]
pub struct Sample {
    /// The graph; some of its extents are symbols.
    pub graph: EinGraph,
    /// Values of the symbols.
    pub dims: BTreeMap<Arc<str>, i64>,
    /// Values of the inputs, by name.
    pub inputs: BTreeMap<Arc<str>, RefTensor>,
}

impl Sample {
    /// The graph with numbers for extents.
    ///
    /// # Panics
    /// Never: random graphs bind.
    pub fn bound(&self) -> BoundGraph {
        self.graph.bind(&self.dims).expect("a random graph binds")
    }
}

/// The random graph number `seed`, of `statements` EinSums (at least 1). They read bare axes,
/// diagonals, constants, shifted, strided and windowed axes with a value outside, periodic ones,
/// quotients, gathers; they merge axes; they join with `+ - * max min if`, and fold with
/// `sum max min argmax argmin`, some of them filtered.
///
/// # Panics
/// Never: what is made keeps the rules of [`EinGraph::verify`].
pub fn random_graph(seed: u64, statements: usize) -> Sample {
    let mut rng = Rng(seed);
    let float = rng.one_of(&[DType::F64, DType::F32]);
    let symbols = ["A", "B"];
    let mut axes: Vec<(Dim, i64)> = symbols
        .iter()
        .map(|s| (Dim::sym(*s), 1 + rng.below(5) as i64))
        .collect();
    let dims = symbols
        .iter()
        .zip(&axes)
        .map(|(s, a)| (Arc::from(*s), a.1))
        .collect();
    for n in [1, 2, 3, 4, rng.below(7) as i64] {
        axes.push((Dim::from(n), n));
    }
    let mut made = Maker {
        rng,
        axes,
        float,
        graph: GraphBuilder::new(),
        tensors: Vec::new(),
        inputs: BTreeMap::new(),
    };
    for n in 0..2 + made.rng.below(2) {
        made.input(format!("x{n}"), float);
    }
    if made.rng.chance(3) {
        made.input("at".into(), DType::I64);
    }
    for n in 0..statements.max(1) {
        made.statement(n);
    }
    let last = made.tensors.len() - 1;
    let first = made.inputs.len().max(last.saturating_sub(2));
    for (n, t) in made.tensors.iter().enumerate().skip(first) {
        made.graph
            .output(format!("y{n}"), t.id)
            .expect("a new name");
    }
    Sample {
        graph: made.graph.finish().expect("it has outputs"),
        dims,
        inputs: made.inputs,
    }
}

/// Random numbers by SplitMix64: small, and the same everywhere.
pub struct Rng(u64);

impl Rng {
    /// The numbers that `seed` gives.
    pub fn new(seed: u64) -> Rng {
        Rng(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Less than `n`, which is not 0.
    pub fn below(&mut self, n: usize) -> usize {
        (self.next() % n as u64) as usize
    }

    /// True once in `n` times.
    pub fn chance(&mut self, n: usize) -> bool {
        self.below(n) == 0
    }

    /// One of some.
    pub fn one_of<T: Clone>(&mut self, of: &[T]) -> T {
        of[self.below(of.len())].clone()
    }
}

struct Tensor {
    id: NodeId,
    /// Positions in [`Maker::axes`].
    axes: Vec<usize>,
    dtype: DType,
    /// No element is larger.
    bound: f64,
}

struct Maker {
    rng: Rng,
    /// Extents to choose from: as dims and as numbers.
    axes: Vec<(Dim, i64)>,
    float: DType,
    graph: GraphBuilder,
    tensors: Vec<Tensor>,
    inputs: BTreeMap<Arc<str>, RefTensor>,
}

/// Past this, operands are clamped, so that f32 stays exact.
const LARGE: f64 = 32.0;
/// Points of one statement.
const LARGEST_SPACE: i64 = 2000;

impl Maker {
    fn input(&mut self, name: String, dtype: DType) {
        let axes: Vec<usize> = (0..self.rng.below(4))
            .map(|_| self.rng.below(self.axes.len()))
            .collect();
        let shape: Vec<usize> = axes.iter().map(|&a| self.axes[a].1 as usize).collect();
        let count = shape.iter().product();
        let data: Vec<i64> = (0..count).map(|_| self.rng.below(9) as i64 - 4).collect();
        let tensor = RefTensor::from_i64(dtype, shape, &data).expect("as many as the shape has");
        let role = self.rng.one_of(&[Role::Data, Role::Data, Role::Weight]);
        let extents = axes.iter().map(|&a| self.axes[a].0.clone()).collect();
        let name: Arc<str> = name.into();
        let id = self
            .graph
            .input(name.clone(), role, dtype, extents)
            .expect("a new name");
        self.inputs.insert(name, tensor);
        self.tensors.push(Tensor {
            id,
            axes,
            dtype,
            bound: 4.0,
        });
    }

    fn statement(&mut self, number: usize) {
        // Labels under provisional numbers: the position in `labels`.
        let mut labels: Vec<usize> = Vec::new();
        let mut operands = Vec::new();
        let mut terms = Vec::new();
        let floats: Vec<usize> = self.readable(self.float);
        for _ in 0..1 + self.rng.below(3) {
            let t = self.rng.one_of(&floats);
            let index = self.index(t, &mut labels, &mut operands);
            terms.push(self.read(t, index, &mut operands));
        }
        let (mut body, mut bound) = terms.remove(0);
        for (term, b) in terms {
            (body, bound) = self.join(body, bound, term, b, &labels);
        }
        let order = self.shuffled(labels.len());
        let kept = match labels.len() {
            0 => 0,
            n => n - self.rng.below(n.min(2) + 1),
        };
        let reduced = labels.len() - kept;
        let points: i64 = order[kept..]
            .iter()
            .map(|&l| self.axes[labels[l]].1)
            .product();
        let mut aggs = vec![Agg::SUM, Agg::SUM, Agg::MAX, Agg::MIN];
        if reduced == 1 {
            aggs.extend([Agg::ARGMAX, Agg::ARGMIN]);
        }
        let agg = self.rng.one_of(&aggs);
        let filter = (reduced > 0 && self.rng.chance(4)).then(|| {
            let label = Expr::Index(LabelId(order[kept] as u16));
            Expr::call(ScalarFn::GT, [label, Expr::int(0)])
        });
        let dtype = match reduced > 0 && agg.row().selects {
            true => DType::I64,
            false => self.float,
        };
        let place = |l: LabelId| {
            let at = order.iter().position(|&o| o == l.at()).unwrap_or(0);
            LabelId(at as u16)
        };
        let renamed = |x: Expr| {
            x.map(&mut |x| match x {
                Expr::Index(l) => Expr::Index(place(l)),
                x => x,
            })
        };
        for o in &mut operands {
            let o: &mut Operand = o;
            o.index = std::mem::take(&mut o.index)
                .into_iter()
                .map(renamed)
                .collect();
        }
        // Sometimes the last two axes of the output are one merged axis.
        let small = |l: &usize| self.axes[labels[*l]].1 <= 6;
        let merge = kept >= 2 && order[kept - 2..kept].iter().all(small) && self.rng.chance(4);
        let mut out: Vec<Vec<LabelId>> = (0..kept).map(|l| vec![LabelId(l as u16)]).collect();
        let mut axes: Vec<usize> = order[..kept].iter().map(|&l| labels[l]).collect();
        if merge {
            let fast = out.pop().expect("two or more");
            out.last_mut().expect("one or more").extend(fast);
            let (b, a) = (
                axes.pop().expect("two or more"),
                axes.pop().expect("two or more"),
            );
            let (a, b) = (&self.axes[a], &self.axes[b]);
            let merged = (&a.0 * &b.0, a.1 * b.1);
            axes.push(self.axes.len());
            self.axes.push(merged);
        }
        let spec = EinSumSpec {
            labels: order
                .iter()
                .enumerate()
                .map(|(n, &l)| Label {
                    name: format!("i{n}").into(),
                    extent: self.axes[labels[l]].0.clone(),
                })
                .collect(),
            out,
            reduce: (reduced > 0).then(|| Reduce {
                agg: agg.into(),
                labels: (kept..labels.len()).map(|l| LabelId(l as u16)).collect(),
                acc: self.float,
                filter: filter.map(renamed),
            }),
            operands,
            body: renamed(body),
            dtype,
        };
        let einsum = EinSum::new(spec).expect("labels are in order");
        let id = self.graph.einsum(format!("t{number}"), einsum, Vec::new());
        let bound = match (reduced, agg) {
            (0, _) => bound,
            (_, Agg::SUM) => bound * points.max(1) as f64,
            // Of nothing, the largest is −∞.
            _ => f64::INFINITY,
        };
        self.tensors.push(Tensor {
            id: id.expect("extents and element types agree"),
            axes,
            dtype,
            bound,
        });
    }

    fn readable(&self, dtype: DType) -> Vec<usize> {
        (0..self.tensors.len())
            .filter(|&t| self.tensors[t].dtype == dtype)
            .collect()
    }

    /// Does the iteration space stay small with one more label?
    fn room(&self, labels: &[usize], axis: usize) -> bool {
        let extents = labels.iter().chain([&axis]).map(|&a| self.axes[a].1.max(1));
        extents.product::<i64>() <= LARGEST_SPACE
    }

    fn shuffled(&mut self, n: usize) -> Vec<usize> {
        let mut order: Vec<usize> = (0..n).collect();
        for at in (1..n).rev() {
            order.swap(at, self.rng.below(at + 1));
        }
        order
    }

    /// Index expressions that read tensor `t`, and whether they may leave it.
    fn index(
        &mut self,
        t: usize,
        labels: &mut Vec<usize>,
        operands: &mut Vec<Operand>,
    ) -> (Vec<Expr>, bool) {
        let mut outside = false;
        let axes = self.tensors[t].axes.clone();
        let mut index = Vec::new();
        for axis in axes {
            let same: Vec<usize> = (0..labels.len()).filter(|&l| labels[l] == axis).collect();
            let label = if !same.is_empty() && !self.rng.chance(3) {
                self.rng.one_of(&same)
            } else if self.room(labels, axis) {
                labels.push(axis);
                labels.len() - 1
            } else {
                outside = true;
                index.push(Expr::int(self.rng.below(3) as i64 - 1));
                continue;
            };
            let bare = Expr::Index(LabelId(label as u16));
            let (extent, value) = self.axes[axis].clone();
            index.push(match self.rng.below(15) {
                12 => {
                    outside = true;
                    let other = Expr::Index(LabelId(self.rng.below(labels.len()) as u16));
                    let window = Expr::call(ScalarFn::ADD, [bare, other]);
                    Expr::call(ScalarFn::SUB, [window, Expr::int(1)])
                }
                13 if value > 0 => {
                    let before = Expr::call(ScalarFn::SUB, [bare, Expr::int(1)]);
                    Expr::call(ScalarFn::REM, [before, Expr::Dim(extent)])
                }
                14 => Expr::call(ScalarFn::DIV, [bare, Expr::int(2)]),
                0 => {
                    outside = true;
                    Expr::call(ScalarFn::SUB, [bare, Expr::int(1)])
                }
                1 => {
                    outside = true;
                    let twice = Expr::call(ScalarFn::MUL, [Expr::int(2), bare]);
                    Expr::call(ScalarFn::ADD, [twice, Expr::int(1)])
                }
                2 if operands.is_empty() => match self.readable(DType::I64).as_slice() {
                    [] => bare,
                    tables => {
                        outside = true;
                        let table = self.rng.one_of(tables);
                        let (through, leaves) = self.bare(table, labels);
                        operands.push(Operand {
                            node: self.tensors[table].id,
                            index: through,
                            otherwise: leaves.then_some(Value::Int(0)),
                        });
                        Expr::Operand(operands.len() - 1)
                    }
                },
                _ => bare,
            });
        }
        (index, outside)
    }

    /// Bare indices for tensor `t`, or constants past the last label.
    fn bare(&mut self, t: usize, labels: &mut Vec<usize>) -> (Vec<Expr>, bool) {
        let mut leaves = false;
        let axes = self.tensors[t].axes.clone();
        let index = axes
            .into_iter()
            .map(|axis| match labels.iter().position(|&l| l == axis) {
                Some(l) => Expr::Index(LabelId(l as u16)),
                None if self.room(labels, axis) => {
                    labels.push(axis);
                    Expr::Index(LabelId(labels.len() as u16 - 1))
                }
                None => {
                    leaves = true;
                    Expr::int(0)
                }
            });
        (index.collect(), leaves)
    }

    fn read(
        &mut self,
        t: usize,
        (index, outside): (Vec<Expr>, bool),
        operands: &mut Vec<Operand>,
    ) -> (Expr, f64) {
        let otherwise = self.rng.one_of(&[0.0, 1.0, -2.0]);
        operands.push(Operand {
            node: self.tensors[t].id,
            index,
            otherwise: outside.then_some(Value::Float(otherwise)),
        });
        let x = Expr::Operand(operands.len() - 1);
        let bound = self.tensors[t].bound.max(2.0);
        if bound <= LARGE {
            return (x, bound);
        }
        let limit = |v| Expr::Const(Value::Float(v), self.float);
        (
            Expr::call(ScalarFn::CLAMP, [x, limit(-3.0), limit(3.0)]),
            3.0,
        )
    }

    fn join(&mut self, a: Expr, x: f64, b: Expr, y: f64, labels: &[usize]) -> (Expr, f64) {
        match self.rng.below(7) {
            0 => (Expr::call(ScalarFn::ADD, [a, b]), x + y),
            1 => (Expr::call(ScalarFn::SUB, [a, b]), x + y),
            2 => (Expr::call(ScalarFn::MAX, [a, b]), x.max(y)),
            3 => (Expr::call(ScalarFn::MIN, [a, b]), x.max(y)),
            4 if !labels.is_empty() => {
                let label = Expr::Index(LabelId(self.rng.below(labels.len()) as u16));
                let condition = Expr::call(ScalarFn::LE, [label, Expr::int(1)]);
                let branches = [condition, a, b].map(Box::new);
                let [condition, a, b] = branches;
                (Expr::If(condition, a, b), x.max(y))
            }
            _ => (Expr::call(ScalarFn::MUL, [a, b]), x * y),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reference::run;

    #[test]
    fn random_graphs_verify_and_run() {
        let mut features = std::collections::BTreeSet::new();
        for seed in 0..200 {
            let sample = random_graph(seed, 1 + seed as usize % 5);
            assert_eq!(
                sample.graph.verify(),
                Ok(()),
                "seed {seed}\n{}",
                sample.graph
            );
            run(&sample.bound(), &sample.inputs)
                .unwrap_or_else(|e| panic!("seed {seed}: {e}\n{}", sample.graph));
            let text = sample.graph.to_string();
            for feature in [
                "sum[", "argmax[", " where ", " else ", "if(", "[%", "=A, (", "clamp(", " % ",
                " / 2",
            ] {
                if text.contains(feature) {
                    features.insert(feature);
                }
            }
        }
        assert_eq!(features.len(), 10, "only {features:?} occur");
    }
}
