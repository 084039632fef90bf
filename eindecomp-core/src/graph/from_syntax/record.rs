//! Aggregations over records, and the reductions inside their arguments.

use std::sync::Arc;

use super::statement::{Cx, Guard, Mode, Vertex};
use super::{Frame, Lower, LowerError};
use crate::ein;
use crate::ein::{Agg, DType, Dim, Expr, Fold, ScalarFn, Value};
use crate::syntax::check;
use crate::syntax::check::{Aggregation, ExprKind};

/// The ⊕ of a checked reduction; of an aggregation over records, what its result needs.
pub(super) fn aggregation(agg: &Aggregation) -> ein::Aggregation {
    let (record, result) = match agg {
        Aggregation::Row(agg) => return ein::Aggregation::Row(*agg),
        Aggregation::Record(record, result) => (record, &record.results[*result]),
    };
    let component = |c: &check::Component| ein::Component {
        name: c.name.clone(),
        dtype: c.dtype,
        identity: c.identity.cast(c.dtype),
        lift: scalar(&c.lift),
        merge: scalar(&c.merge),
    };
    let made = ein::RecordAgg {
        name: record.name.clone(),
        args: record.args.iter().map(|(_, d)| *d).collect(),
        state: record.state.iter().map(component).collect(),
        finish: scalar(result),
        dtype: result.dtype,
    };
    ein::Aggregation::Record(Arc::new(made.pruned()))
}

/// The built-in `softmax_sum` in a float dtype.
pub(crate) fn softmax_sum(dtype: DType) -> Option<ein::Aggregation> {
    check::softmax_sum(dtype).map(|agg| aggregation(&Aggregation::Record(agg, 0)))
}

/// Is it the built-in `softmax_sum`?
pub fn is_softmax_sum(record: &ein::RecordAgg) -> bool {
    let made = softmax_sum(record.dtype);
    made.is_some_and(|made| made.record().is_some_and(|made| **made == *record))
}

/// An expression of a definition.
fn scalar(e: &check::Expr) -> Expr {
    match &e.kind {
        ExprKind::Lit(value) => Expr::Const(*value, e.dtype),
        ExprKind::Arg(n) => Expr::Operand(*n),
        ExprKind::Cast(inner) => Expr::Cast(e.dtype, Box::new(scalar(inner))),
        ExprKind::Call(f, args) => Expr::Call(*f, args.iter().map(scalar).collect()),
        ExprKind::If(c, a, b) => {
            let [c, a, b] = [c, a, b].map(|e| Box::new(scalar(e)));
            Expr::If(c, a, b)
        }
        // The check refuses everything else; the vertex then refuses this.
        _ => Expr::Tuple(Vec::new()),
    }
}

impl Lower<'_, '_> {
    /// A reduction that stays in the argument it stands in.
    pub(super) fn fold(
        &mut self,
        frame: &Frame<'_>,
        cx: &mut Cx<'_>,
        vertex: &mut Vertex,
        reduce: &check::Reduce,
        dtype: DType,
        guards: &mut Vec<Guard>,
    ) -> Result<Expr, LowerError> {
        let (value, own) = if reduce.agg == Agg::MEAN {
            let sum = check::Reduce {
                agg: Aggregation::Row(Agg::SUM),
                ..reduce.clone()
            };
            let total = self.inner(frame, cx, vertex, &sum, guards)?;
            let count = match &reduce.filter {
                None => {
                    let extent = |i: &check::IndexId| &cx.statement.indices[i.at()].extent;
                    let all = Dim::product(reduce.indices.iter().map(extent));
                    Expr::Dim(self.dim(frame, &all))
                }
                Some(filter) => {
                    let ones = check::Reduce {
                        acc: DType::I64,
                        body: check::Expr {
                            kind: ExprKind::Lit(Value::Int(1)),
                            dtype: DType::I64,
                            span: filter.span,
                        },
                        ..sum
                    };
                    self.inner(frame, cx, vertex, &ones, guards)?
                }
            };
            let count = Expr::Cast(reduce.acc, Box::new(count));
            (Expr::call(ScalarFn::DIV, [total, count]), reduce.acc)
        } else {
            let made = self.inner(frame, cx, vertex, reduce, guards)?;
            let own = match &reduce.agg {
                Aggregation::Row(agg) if agg.row().selects => DType::I64,
                _ => reduce.acc,
            };
            (made, own)
        };
        Ok(match own == dtype {
            true => value,
            false => Expr::Cast(dtype, Box::new(value)),
        })
    }

    fn inner(
        &mut self,
        frame: &Frame<'_>,
        cx: &mut Cx<'_>,
        vertex: &mut Vertex,
        reduce: &check::Reduce,
        guards: &mut Vec<Guard>,
    ) -> Result<Expr, LowerError> {
        for index in &reduce.indices {
            self.bind(frame, cx, vertex, *index);
        }
        let labels = reduce.indices.iter().map(|i| vertex.label(*i)).collect();
        let filter = match &reduce.filter {
            None => None,
            Some(f) => Some(self.expr(frame, cx, vertex, f, Mode::Structure, guards)?),
        };
        let depth = guards.len();
        guards.extend(reduce.filter.iter().map(|f| Guard {
            cond: f.clone(),
            holds: true,
        }));
        let body = self.expr(frame, cx, vertex, &reduce.body, Mode::Value, guards);
        guards.truncate(depth);
        let reduce = ein::Reduce {
            agg: aggregation(&reduce.agg),
            labels,
            acc: reduce.acc,
            filter,
        };
        Ok(Expr::Fold(Box::new(Fold {
            reduce,
            body: body?,
        })))
    }
}
