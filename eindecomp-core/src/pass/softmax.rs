//! A softmax that weighs values becomes a `softmax_sum`: attention as one statement.
//!
//! ```text
//! m[i] = max[t] s[i, t]    e[i, t] = exp(s[i, t] - m[i])    z[i] = sum[t] e[i, t]
//! p[i, t] = e[i, t] / z[i]                       o[i, d] = sum[t] p[i, t] * v[t, d]
//! ```
//!
//! is `o[i, d] = softmax_sum[t] (s[i, t], v[t, d])`, however the element-wise steps are spread over
//! statements, if nothing else needs the weights. A sum of products that only the scores need goes into
//! it, so that scores are never stored. Values are kept up to rounding (they are divided by z at the
//! end), −inf, NaN and rows without a score too. Element-wise steps that are stored as bf16 or f16,
//! statements with pins, and accumulators that differ stay as they are.

use super::inline::{LARGEST, inline, is_open};
use super::rebuild::{
    Spec, map_exprs, needed, operands_of, prune, reads_of, size, sources, statements,
};
use super::{Pass, Rebuild, Rewrite};
use crate::ein::{Agg, DType, EinSumSpec, Expr, Fold, Label, LabelId, Operand, Reduce, ScalarFn};
use crate::graph::from_syntax::softmax_sum;
use crate::graph::{BoundGraph, GraphError, NodeId};

/// The pass of this module.
pub struct SoftmaxSum;

impl Pass for SoftmaxSum {
    fn name(&self) -> &'static str {
        "softmax_sum"
    }

    fn run(&self, graph: &BoundGraph) -> Result<Rewrite, GraphError> {
        let mut specs = statements(graph);
        let mut did = Vec::new();
        for (id, node) in graph.ids() {
            let Some((spec, total)) = attention(graph, &specs, id) else {
                continue;
            };
            let before = specs[id.at()].replace(Spec::Owned(spec));
            if needed(graph, &specs)[total.at()] {
                // Weights are made all the same.
                specs[id.at()] = before;
                continue;
            }
            did.push(format!("`{}`", node.name));
            let Some(scores) = specs[id.at()]
                .as_ref()
                .and_then(|s| with_scores(graph, &specs, id, s))
            else {
                continue;
            };
            let (spec, from) = scores;
            let before = specs[id.at()].replace(Spec::Owned(spec));
            match needed(graph, &specs)[from.at()] {
                true => specs[id.at()] = before,
                false => did.push(format!("`{}` into `{}`", graph.node(from).name, node.name)),
            }
        }
        Rebuild::all(graph, specs, did)
    }
}

/// A statement with what it reads of element-wise ones in place, but for reads of `but`.
fn expanded(
    graph: &BoundGraph,
    specs: &[Option<Spec<'_>>],
    id: NodeId,
    but: &[NodeId],
) -> Option<EinSumSpec> {
    let mut spec = specs[id.at()].clone()?.into_owned();
    let open = |from: NodeId| {
        let made = specs[from.at()].as_ref().filter(|_| !but.contains(&from))?;
        is_open(graph, from, made).then_some((from, made))
    };
    while let Some((from, made)) = sources(&spec).into_iter().find_map(open) {
        let (reads, operands) = reads_of(&spec, from);
        let whole = |o: &&Operand| o.otherwise.is_none() && bare(o).is_some();
        if !operands.iter().all(whole) || size(&spec.body) > LARGEST {
            return None;
        }
        inline(&mut spec, &reads, made, &|o| graph.node(o.node).dtype);
    }
    Some(spec)
}

/// The statement as a `softmax_sum`, and the sum of weights that it then does without.
fn attention(
    graph: &BoundGraph,
    specs: &[Option<Spec<'_>>],
    id: NodeId,
) -> Option<(EinSumSpec, NodeId)> {
    let node = graph.node(id);
    let e = node.einsum()?;
    let sum = e.reduce.as_ref()?;
    let plain = sum.agg == Agg::SUM && sum.filter.is_none() && node.pins.is_empty();
    if !plain || node.store.is_some() {
        return None;
    }
    let (a, b) = call2(&e.body, ScalarFn::MUL)?;
    let weighs = |weight: &Expr, value: &Expr, at: usize| {
        if !is_quotient(graph, specs, e, weight) {
            return None;
        }
        let values = operands_of(value).into_iter();
        let values: Vec<NodeId> = values.map(|n| e.operands[n].node).collect();
        let spec = expanded(graph, specs, id, &values)?;
        let found = Weighed::of(graph, specs, &spec, at)?;
        Some((found.softmax_sum(&spec)?, found.total))
    };
    weighs(a, b, 1).or_else(|| weighs(b, a, 0))
}

/// Is a value of a statement a quotient, with what it reads of element-wise statements in place?
fn is_quotient<'s>(
    graph: &BoundGraph,
    specs: &'s [Option<Spec<'_>>],
    mut spec: &'s EinSumSpec,
    mut x: &'s Expr,
) -> bool {
    while let Expr::Operand(n) = x {
        let from = spec.operands[*n].node;
        match &specs[from.at()] {
            Some(made) if is_open(graph, from, made) => (spec, x) = (made, &made.body),
            _ => return false,
        }
    }
    call2(x, ScalarFn::DIV).is_some()
}

/// A sum of values by weights that are a softmax.
struct Weighed<'a> {
    score: &'a Expr,
    value: &'a Expr,
    acc: DType,
    /// The sum of weights.
    total: NodeId,
}

impl<'a> Weighed<'a> {
    /// `value` is which factor of the body the values are.
    fn of(
        graph: &BoundGraph,
        specs: &[Option<Spec<'_>>],
        spec: &'a EinSumSpec,
        value: usize,
    ) -> Option<Weighed<'a>> {
        let Expr::Call(ScalarFn::MUL, factors) = &spec.body else {
            return None;
        };
        let (weight, value) = (factors.get(1 - value)?, factors.get(value)?);
        let (exponential, total) = call2(weight, ScalarFn::DIV)?;
        let (score, largest) = shifted(exponential)?;
        let acc = spec.reduce.as_ref()?.acc;
        let (max, max_labels) = reduction(graph, specs, spec, largest, Agg::MAX)?;
        let (z, z_labels) = reduction(graph, specs, spec, total, Agg::SUM)?;
        let (z_score, z_largest) = shifted(&z.body)?;
        let max_side = Side {
            spec: &max,
            labels: &max_labels,
        };
        let z_side = Side {
            spec: &z,
            labels: &z_labels,
        };
        let dtype = |n: usize| spec.operands.get(n).map(|o| graph.node(o.node).dtype);
        let fits = max_side.same(&max.body, spec, score)
            && z_side.same(z_score, spec, score)
            && z_side.same(z_largest, spec, largest)
            && [score, value, largest, total]
                .iter()
                .all(|x| x.dtype(&dtype) == Some(acc))
            && z.reduce.as_ref()?.acc == acc;
        let Expr::Operand(total) = total else {
            return None;
        };
        let total = spec.operands[*total].node;
        fits.then_some(Weighed {
            score,
            value,
            acc,
            total,
        })
    }

    fn softmax_sum(&self, spec: &EinSumSpec) -> Option<EinSumSpec> {
        let mut spec = spec.clone();
        spec.reduce.as_mut()?.agg = softmax_sum(self.acc)?;
        spec.body = Expr::Tuple(vec![self.score.clone(), self.value.clone()]);
        prune(&mut spec);
        Some(spec)
    }
}

fn call2(x: &Expr, f: ScalarFn) -> Option<(&Expr, &Expr)> {
    match x {
        Expr::Call(g, args) if *g == f => Some((args.first()?, args.get(1)?)),
        _ => None,
    }
}

/// Score and maximum of `exp(score - maximum)`.
fn shifted(x: &Expr) -> Option<(&Expr, &Expr)> {
    match x {
        Expr::Call(ScalarFn::EXP, args) => call2(&args[0], ScalarFn::SUB),
        _ => None,
    }
}

/// What reduces by `agg` over the indices that `spec` reduces, if `x` reads that at its own place; and
/// for each of its labels, the label of `spec`.
fn reduction(
    graph: &BoundGraph,
    specs: &[Option<Spec<'_>>],
    spec: &EinSumSpec,
    x: &Expr,
    agg: Agg,
) -> Option<(EinSumSpec, Vec<LabelId>)> {
    let Expr::Operand(n) = x else {
        return None;
    };
    let read = &spec.operands[*n];
    let node = graph.node(read.node);
    let of = expanded(graph, specs, read.node, &[])?;
    let reduce = of.reduce.as_ref()?;
    let plain = reduce.agg == agg
        && reduce.filter.is_none()
        && node.pins.is_empty()
        && of.out.iter().all(|axis| axis.len() == 1)
        && read.otherwise.is_none();
    if !plain {
        return None;
    }
    let mut labels = bare(read)?;
    labels.extend(&spec.reduce.as_ref()?.labels);
    let extent = |(own, here): (&Label, &LabelId)| own.extent == spec.labels[here.at()].extent;
    let fits = labels.len() == of.labels.len() && of.labels.iter().zip(&labels).all(extent);
    fits.then_some((of, labels))
}

/// The indices of a read, if each axis has one of its own.
fn bare(read: &Operand) -> Option<Vec<LabelId>> {
    let label = |x: &Expr| match x {
        Expr::Index(l) => Some(*l),
        _ => None,
    };
    read.index.iter().map(label).collect()
}

/// A statement whose labels stand for labels of another one.
struct Side<'a> {
    spec: &'a EinSumSpec,
    labels: &'a [LabelId],
}

impl Side<'_> {
    /// Is the expression the same as one of the other statement?
    fn same(&self, own: &Expr, other: &EinSumSpec, theirs: &Expr) -> bool {
        match (own, theirs) {
            (Expr::Operand(a), Expr::Operand(b)) => {
                let (a, b) = (&self.spec.operands[*a], &other.operands[*b]);
                let index = || a.index.iter().zip(&b.index);
                a.node == b.node
                    && a.otherwise == b.otherwise
                    && index().all(|(x, y)| self.same(x, other, y))
            }
            (Expr::Index(a), Expr::Index(b)) => self.labels.get(a.at()) == Some(b),
            (Expr::Call(f, _), Expr::Call(g, _)) if f != g => false,
            (Expr::Cast(d, _), Expr::Cast(e, _)) if d != e => false,
            (Expr::Call(..), Expr::Call(..))
            | (Expr::Cast(..), Expr::Cast(..))
            | (Expr::If(..), Expr::If(..)) => {
                let (a, b) = (own.children(), theirs.children());
                a.len() == b.len() && a.iter().zip(b).all(|(x, y)| self.same(x, other, y))
            }
            (
                Expr::Const(..) | Expr::Slot(..) | Expr::Dim(_),
                Expr::Const(..) | Expr::Slot(..) | Expr::Dim(_),
            ) => own == theirs,
            _ => false,
        }
    }
}

/// A `softmax_sum` with the sum of products that makes its scores inside, and where that was.
fn with_scores(
    graph: &BoundGraph,
    specs: &[Option<Spec<'_>>],
    id: NodeId,
    spec: &EinSumSpec,
) -> Option<(EinSumSpec, NodeId)> {
    let Expr::Tuple(arguments) = &spec.body else {
        return None;
    };
    let extents = graph.label_extents(id);
    let found = operands_of(&arguments[0]).into_iter().find_map(|n| {
        let read = &spec.operands[n];
        let made = specs[read.node.at()].as_ref()?;
        let sum = made.reduce.as_ref()?;
        let node = graph.node(read.node);
        let labels = bare(read)?;
        let points: usize = labels.iter().map(|l| extents[l.at()]).product();
        let fits = sum.agg == Agg::SUM
            && sum.filter.is_none()
            && sum.acc == node.dtype
            && node.pins.is_empty()
            && node.store.is_none()
            && made.out.iter().all(|axis| axis.len() == 1)
            && read.otherwise.is_none()
            && points == graph.elements(read.node)
            && reads_of(spec, read.node).0.len() == 1;
        fits.then(|| (n, read.node, made.clone().into_owned(), labels))
    });
    let (read, from, mut made, labels) = found?;
    let mut spec = spec.clone();
    let inner = spec.labels.len() as u16;
    let outer = labels.len();
    spec.labels.extend(made.labels.drain(outer..));
    let first = spec.operands.len();
    map_exprs(&mut made, &mut |x| match x {
        Expr::Index(l) if l.at() < outer => Expr::Index(labels[l.at()]),
        Expr::Index(l) => Expr::Index(LabelId(inner + (l.at() - outer) as u16)),
        Expr::Operand(n) => Expr::Operand(first + n),
        other => other,
    });
    spec.operands.append(&mut made.operands);
    let sum = made.reduce?;
    let fold = Expr::Fold(Box::new(Fold {
        reduce: Reduce {
            labels: (inner..inner + sum.labels.len() as u16)
                .map(LabelId)
                .collect(),
            ..sum
        },
        body: made.body,
    }));
    spec.body = spec.body.map(&mut |x| match x {
        Expr::Operand(n) if n == read => fold.clone(),
        other => other,
    });
    prune(&mut spec);
    Some((spec, from))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::sync::Arc;

    use proptest::prelude::*;

    use super::super::Pipeline;
    use super::super::testing::{rewritten, stays};
    use super::*;
    use crate::graph::EinGraph;
    use crate::reference::{RefTensor, run};

    const ATTENTION: &str = r#"eingraph {
        slot $0 = 0.125
        %0 "q" = input f64[2, 3, 4]
        %1 "k" = input f64[2, 5, 4]
        %2 "v" = input f64[2, 5, 4]
        %3 "raw" = sum[c=4; f64] %0[h, s, c] * %1[h, t, c] -> f64[h=2, s=3, t=5]
        %4 "scores" = if(t <= s, %3[h, s, t] * $0:f64, -inf:f64) -> f64[h=2, s=3, t=5]
        %5 "m" = max[t=5; f64] %4[h, s, t] -> f64[h=2, s=3]
        %6 "e" = exp(%4[h, s, t] - %5[h, s]) -> f64[h=2, s=3, t=5]
        %7 "z" = sum[t=5; f64] %6[h, s, t] -> f64[h=2, s=3]
        %8 "p" = %6[h, s, t] / %7[h, s] -> f64[h=2, s=3, t=5]
        %9 "o" = sum[t=5; f64] %8[h, s, t] * %2[h, t, d] -> f64[h=2, s=3, d=4]
        output "o" = %9
    }"#;

    #[test]
    fn attention_is_one_statement() {
        let (text, did) = rewritten(SoftmaxSum, ATTENTION);
        assert_eq!(did, ["`o`", "`raw` into `o`"]);
        let statements: Vec<&str> = text.lines().filter(|l| l.contains(" -> ")).collect();
        let expect = "  %3 \"o\" = &0[t=5; f64] (if(t <= s, (sum[c=4; f64] %0[h, s, c] * %1[h, t, c]) * $0:f64, -inf:f64), \
             %2[h, t, d]) -> f64[h=2, s=3, d=4]";
        assert_eq!(statements, [expect]);
    }

    #[test]
    fn weights_that_are_needed_or_differ_stay() {
        for (from, to) in [
            ("output \"o\" = %9", "output \"o\" = %9\noutput \"p\" = %8"),
            ("%6[h, s, t] / %7[h, s] ->", "%6[h, s, t] * %7[h, s] ->"),
            (
                "sum[t=5; f64] %6[h, s, t] ->",
                "sum[t=5; f64] %4[h, s, t] ->",
            ),
            ("max[t=5; f64] %4", "min[t=5; f64] %4"),
            ("exp(%4[h, s, t] - %5[h, s])", "exp(%3[h, s, t] - %5[h, s])"),
            (
                "-> f64[h=2, s=3]\n        %8",
                "-> f64[h=2, s=3] pin whole\n        %8",
            ),
        ] {
            assert!(ATTENTION.contains(from), "{from}");
            stays(SoftmaxSum, &ATTENTION.replace(from, to));
        }
    }

    proptest! {
        /// To 1e-12, infinities and NaN at the same places.
        #[test]
        fn values_are_kept(data in prop::collection::vec(-40..40i64, 104), odd in 0..6usize) {
            let graph = EinGraph::parse(ATTENTION).unwrap();
            let before = graph.bind(&BTreeMap::new()).unwrap();
            let passes = Pipeline::new(vec![Box::new(SoftmaxSum)]);
            let (after, did) = passes.run(before.clone()).unwrap();
            prop_assert_eq!(did.len(), 1);
            let mut inputs = BTreeMap::new();
            for (n, (name, shape)) in [("q", [2, 3, 4]), ("k", [2, 5, 4]), ("v", [2, 5, 4])].into_iter().enumerate() {
                let count = shape.iter().product();
                let mut values: Vec<f64> = data.iter().skip(n * 32).cycle().take(count).map(|&x| x as f64).collect();
                match odd {
                    0 => values[0] = f64::NAN,
                    1 => values[3] = f64::INFINITY,
                    2 if n == 0 => values.fill(f64::NEG_INFINITY),
                    3 if n == 2 => values[7] = f64::NEG_INFINITY,
                    _ => {}
                }
                let tensor = RefTensor::from_f64(DType::F64, shape.to_vec(), &values).unwrap();
                inputs.insert(Arc::from(name), tensor);
            }
            let (want, got) = (run(&before, &inputs).unwrap(), run(&after, &inputs).unwrap());
            for (a, b) in want[0].to_f64().into_iter().zip(got[0].to_f64()) {
                let close = a == b || (a - b).abs() <= 1e-12 * a.abs().max(1.0) || a.is_nan() && b.is_nan();
                prop_assert!(close, "{} and {}", a, b);
            }
        }
    }
}
