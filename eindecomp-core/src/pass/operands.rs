//! What a contraction computes of its operands is computed before, once per element of the operand.
//!
//! `sum[k] relu(x[i, k]) * w[k, j] * 0.5` evaluates relu and the factor for each j, and no kernel for
//! products of tensors applies. So each side that is no tensor becomes a statement of its own, where the
//! contraction has at least [`TIMES`] points per element of it; scalar factors go to the smallest side.
//! The same is done for `max[k] (f(x) + g(y))` and its like. Values are kept up to rounding: scalar
//! factors multiply first, sides of bf16 or f16 are stored in f32. Statements with a filter or pins stay, and
//! those that do not accumulate floats.

use std::collections::BTreeSet;

use super::rebuild::{map_exprs, operands_of, prune};
use super::{Pass, Rebuild, Rewrite};
use crate::ein::{Agg, Aggregation, DType, EinSum, EinSumSpec, Expr, LabelId, Operand, ScalarFn};
use crate::graph::{BoundGraph, GraphError, NodeId};

/// The pass of this module.
pub struct ContractionOperands;

/// Points of a contraction per element of a side that is computed before.
const TIMES: u128 = 8;

impl Pass for ContractionOperands {
    fn name(&self) -> &'static str {
        "contraction_operands"
    }

    fn run(&self, graph: &BoundGraph) -> Result<Rewrite, GraphError> {
        Rebuild::each(graph, |rebuild, id| {
            let Some(sides) = Sides::of(graph, id) else {
                return Ok(None);
            };
            let count = sides.emit(rebuild)?;
            Ok(Some(format!("{count} of `{}`", graph.node(id).name)))
        })
    }
}

/// A contraction of which some side is no tensor.
struct Sides<'a> {
    graph: &'a BoundGraph,
    id: NodeId,
    e: &'a EinSum,
    /// The body in terms of sides: [`Expr::Operand`] is the number of one.
    body: Expr,
    sides: Vec<Expr>,
}

impl<'a> Sides<'a> {
    fn of(graph: &'a BoundGraph, id: NodeId) -> Option<Sides<'a>> {
        let node = graph.node(id);
        let e = node
            .einsum()
            .filter(|_| node.pins.is_empty() && node.store.is_none())?;
        let reduce = e.reduce.as_ref()?;
        let Aggregation::Row(agg) = &reduce.agg else {
            return None;
        };
        let folds = [Agg::SUM, Agg::MAX, Agg::MIN, Agg::LOGSUMEXP].contains(agg);
        if !folds || reduce.filter.is_some() || !reduce.acc.is_float() {
            return None;
        }
        let mut sides = Vec::new();
        let body = match *agg {
            Agg::SUM if matches!(e.body, Expr::Call(ScalarFn::MUL | ScalarFn::NEG, _)) => {
                factors(&e.body, &mut sides);
                None
            }
            _ => Some(ring(&e.body, &mut sides)?),
        };
        let mut this = Sides {
            graph,
            id,
            e,
            body: Expr::Operand(0),
            sides,
        };
        match body {
            Some(body) => this.body = body,
            None => this.product()?,
        }
        this.pays().then_some(this)
    }

    fn dtype(&self, x: &Expr) -> Option<DType> {
        let node = |n: usize| self.e.operands.get(n).map(|o| o.node);
        x.dtype(&|n| node(n).map(|id| self.graph.node(id).dtype))
    }

    fn points(&self, labels: &BTreeSet<LabelId>) -> u128 {
        let extents = self.graph.label_extents(self.id);
        let extents = labels.iter().map(|l| extents[l.at()] as u128);
        extents.fold(1, u128::saturating_mul)
    }

    /// Scalar factors go to the smallest of the others.
    fn product(&mut self) -> Option<()> {
        let sides = std::mem::take(&mut self.sides).into_iter();
        let is_scalar = |x: &Expr| self.e.labels_of(x).is_empty();
        let (scalars, mut sides): (Vec<Expr>, Vec<Expr>) = sides.partition(is_scalar);
        let elements = |x: &Expr| self.points(&self.e.labels_of(x));
        let smallest = (0..sides.len()).min_by_key(|&n| elements(&sides[n]))?;
        for scalar in scalars {
            let side = std::mem::replace(&mut sides[smallest], Expr::int(0));
            sides[smallest] = Expr::call(ScalarFn::MUL, [side, scalar]);
        }
        let all = (0..sides.len()).map(Expr::Operand);
        self.body = all.reduce(|a, b| Expr::call(ScalarFn::MUL, [a, b]))?;
        self.sides = sides;
        Some(())
    }

    /// Is the side a tensor, as kernels read it?
    fn is_tensor(&self, x: &Expr) -> bool {
        match x {
            Expr::Operand(_) => true,
            Expr::Cast(to, inner) => {
                matches!(**inner, Expr::Operand(_))
                    && self
                        .dtype(inner)
                        .is_some_and(|from| from.is_float() && from.widens_to(*to))
            }
            _ => false,
        }
    }

    fn pays(&self) -> bool {
        let all = (0..self.e.labels.len() as u16).map(LabelId).collect();
        let points = self.points(&all);
        let computed = |x: &&Expr| !self.is_tensor(x);
        let small = |x: &Expr| {
            let elements = self.points(&self.e.labels_of(x));
            elements > 0 && elements.saturating_mul(TIMES) <= points
        };
        let float = |x: &Expr| self.dtype(x).is_some_and(DType::is_float);
        self.sides.len() >= 2
            && self.sides.iter().all(float)
            && self.sides.iter().any(|x| computed(&x))
            && self.sides.iter().filter(computed).all(small)
    }

    /// How many sides became statements.
    fn emit(self, rebuild: &mut Rebuild) -> Result<usize, GraphError> {
        let mut spec = self.e.clone().into_spec();
        for operand in &mut spec.operands {
            operand.node = rebuild.node(operand.node);
        }
        let given = spec.clone();
        let mut values = Vec::new();
        let mut count = 0;
        for side in &self.sides {
            if self.is_tensor(side) {
                values.push(side.clone());
                continue;
            }
            count += 1;
            let (side, order) = self.side(&given, side);
            let name = format!("{}.in{count}", self.graph.node(self.id).name);
            let side = EinSum::new(side).expect("its labels are its axes");
            let node = rebuild.builder()?.einsum(name, side, Vec::new())?;
            values.push(Expr::Operand(spec.operands.len()));
            spec.operands.push(Operand {
                node,
                index: order.into_iter().map(Expr::Index).collect(),
                otherwise: None,
            });
        }
        spec.body = self.body.map(&mut |x| match x {
            Expr::Operand(n) => values[n].clone(),
            other => other,
        });
        prune(&mut spec);
        let e = EinSum::new(spec).expect("only reads were replaced");
        let name = self.graph.node(self.id).name.clone();
        rebuild.map[self.id.at()] = Some(rebuild.builder()?.einsum(name, e, Vec::new())?);
        Ok(count)
    }

    /// A side as a statement, and the labels of its axes: in the order in which its largest tensor
    /// lies, so that both are walked alike.
    fn side(&self, given: &EinSumSpec, side: &Expr) -> (EinSumSpec, Vec<LabelId>) {
        let labels = self.e.labels_of(side);
        let mut reads: Vec<BTreeSet<LabelId>> = Vec::new();
        let mut order: Vec<LabelId> = Vec::new();
        let mut operands = operands_of(side);
        operands.sort_by_key(|&n| {
            let of = self.e.labels_of(&Expr::Operand(n));
            std::cmp::Reverse(self.points(&of))
        });
        for n in operands {
            for index in &self.e.operands[n].index {
                reads.push(self.e.labels_of(index));
            }
        }
        for l in reads.into_iter().flatten().chain(labels) {
            if !order.contains(&l) {
                order.push(l);
            }
        }
        let dtype = self.dtype(side).expect("it was found to be a float");
        let mut spec = EinSumSpec {
            labels: order
                .iter()
                .map(|l| self.e.labels[l.at()].clone())
                .collect(),
            out: (0..order.len() as u16).map(|l| vec![LabelId(l)]).collect(),
            reduce: None,
            operands: given.operands.clone(),
            body: side.clone(),
            dtype: dtype.default_accumulator(),
        };
        prune(&mut spec);
        map_exprs(&mut spec, &mut |x| match x {
            Expr::Index(l) => {
                let at = order.iter().position(|&o| o == l);
                Expr::Index(LabelId(at.expect("its labels are listed") as u16))
            }
            other => other,
        });
        (spec, order)
    }
}

/// The factors of a product; a sign is a factor of the first.
fn factors(body: &Expr, out: &mut Vec<Expr>) {
    match body {
        Expr::Call(ScalarFn::MUL, args) => args.iter().for_each(|a| factors(a, out)),
        Expr::Call(ScalarFn::NEG, args)
            if matches!(args[0], Expr::Call(ScalarFn::MUL | ScalarFn::NEG, _)) =>
        {
            let first = out.len();
            factors(&args[0], out);
            let factor = std::mem::replace(&mut out[first], Expr::int(0));
            out[first] = Expr::call(ScalarFn::NEG, [factor]);
        }
        other => out.push(other.clone()),
    }
}

/// The body in terms of its two sides.
fn ring(body: &Expr, sides: &mut Vec<Expr>) -> Option<Expr> {
    match body {
        Expr::Call(f @ (ScalarFn::SQ | ScalarFn::ABS), args) => match &args[0] {
            difference @ Expr::Call(ScalarFn::SUB, _) => {
                Some(Expr::call(*f, [ring(difference, sides)?]))
            }
            _ => None,
        },
        Expr::Call(f @ (ScalarFn::MUL | ScalarFn::ADD | ScalarFn::SUB), args) => {
            sides.extend(args.iter().cloned());
            Some(Expr::call(*f, [Expr::Operand(0), Expr::Operand(1)]))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{rewritten, stays};
    use super::*;

    fn statement(body: &str) -> String {
        format!(
            r#"eingraph {{
                slot $0 = 0.5
                %0 "x" = input f32[16, 8]
                %1 "w" = input f32[8, 16]
                %2 "h" = input bf16[16, 8]
                %3 "s" = input f32[]
                %4 "y" = {body}
                output "y" = %4
            }}"#
        )
    }

    #[test]
    fn sides_become_tensors() {
        for (body, made) in [
            (
                "sum[k=8; f32] relu(%0[i, k]) * %1[k, j] -> f32[i=16, j=16]",
                "relu(%0[i, k]) -> f32[i=16, k=8]",
            ),
            (
                "sum[k=8; f32] $0:f32 * (%0[i, k] * -(%1[k, j] * %3[])) -> f32[i=16, j=16]",
                "-%1[k, j] -> f32[k=8, j=16]",
            ),
            (
                "max[k=8; f32] exp(%1[k, j]) + %0[i, k] -> f32[i=16, j=16]",
                "exp(%1[k, j]) -> f32[k=8, j=16]",
            ),
            (
                "sum[k=8; f32] sq(%0[i, k] - 2.0:f32 * %1[k, j]) -> f32[i=16, j=16]",
                "2.0:f32 * %1[k, j] -> f32[k=8, j=16]",
            ),
            (
                "sum[k=8; f32] (%2[i, k] * $0:f32) * %1[k, j] -> f32[i=16, j=16]",
                "%2[i, k] * $0:f32 -> f32[i=16, k=8]",
            ),
        ] {
            let (text, did) = rewritten(ContractionOperands, &statement(body));
            assert!(text.contains(made), "{body}\n{text}");
            assert!(did[0].ends_with("of `y`"));
        }
    }

    #[test]
    fn what_gains_nothing_stays() {
        for body in [
            "sum[k=8; f32] %0[i, k] * %1[k, j] -> f32[i=16, j=16]",
            "sum[k=8; f32] exp(%0[i, k]) * $0:f32 -> f32[i=16]",
            "sum[k=8; f32] exp(%0[i, k] * %1[k, j]) -> f32[i=16, j=16]",
            "sum[k=8; f32] relu(%0[i, k]) * %1[k, 0] -> f32[i=16]",
            "sum[k=8; f32 where k > 1] relu(%0[i, k]) * %1[k, j] -> f32[i=16, j=16]",
            "sum[k=8; f32] relu(%0[i, k]) * %1[k, j] -> f32[i=16, j=16] pin whole",
        ] {
            stays(ContractionOperands, &statement(body));
        }
    }
}
