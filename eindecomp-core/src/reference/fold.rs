//! Reductions, in the order of their points.

use super::{Code, Fault, Reads, advance, compile, eval, store};
use crate::ein::scalar::nan_max;
use crate::ein::{Agg, Aggregation, DType, Expr, Reduce, Value};

/// What is done with the values of a point.
type Take<'f> = dyn FnMut(&[Value], &[i64]) -> Result<(), Fault> + 'f;

/// A reduction.
pub(super) struct Fold {
    way: Way,
    /// Reduced labels, slow to fast.
    labels: Vec<usize>,
    filter: Option<Code>,
    /// One, or the arguments of a record aggregation.
    body: Vec<Code>,
}

/// How a reduction goes.
enum Way {
    LogSumExp,
    Select(Agg),
    Row(Agg, DType),
    Record(Record),
}

/// A record aggregation; its codes read numbered values.
struct Record {
    args: Vec<DType>,
    identity: Vec<Value>,
    lift: Vec<Code>,
    merge: Vec<Code>,
    state: Vec<DType>,
    finish: Code,
    dtype: DType,
}

impl Fold {
    pub(super) fn value(
        &self,
        at: &[i64],
        extents: &[usize],
        reads: &Reads<'_>,
    ) -> Result<Value, Fault> {
        let points = |f: &mut Take<'_>| self.points(at, extents, reads, f);
        match &self.way {
            Way::LogSumExp => {
                let (mut max, mut sum) = (f64::NEG_INFINITY, 0.0);
                points(&mut |x, _| {
                    max = nan_max(max, x[0].as_f64());
                    Ok(())
                })?;
                if !max.is_finite() {
                    return Ok(Value::Float(max));
                }
                points(&mut |x, _| {
                    sum += (x[0].as_f64() - max).exp();
                    Ok(())
                })?;
                Ok(Value::Float(max + sum.ln()))
            }
            Way::Select(agg) => {
                let mut best: Option<(Value, i64)> = None;
                points(&mut |x, at| {
                    let better = match (best, x[0]) {
                        (None, _) => true,
                        (Some((Value::Int(b), _)), Value::Int(x)) if *agg == Agg::ARGMIN => x < b,
                        (Some((Value::Int(b), _)), Value::Int(x)) => x > b,
                        (Some((b, _)), x) => agg.replaces(b.as_f64(), x.as_f64()),
                    };
                    if better {
                        best = Some((x[0], at[self.labels[0]]));
                    }
                    Ok(())
                })?;
                Ok(Value::Int(best.map_or(-1, |b| b.1)))
            }
            Way::Row(agg, acc) => {
                let mut total = agg.identity(*acc);
                points(&mut |x, _| {
                    total = agg.combine(total, store(x[0], *acc));
                    Ok(())
                })?;
                Ok(store(total, *acc))
            }
            Way::Record(record) => {
                let mut state = record.identity.clone();
                points(&mut |x, _| {
                    let args = x.iter().zip(&record.args).map(|(x, d)| store(*x, *d));
                    let lifted = record.record(&record.lift, &args.collect::<Vec<_>>())?;
                    state = record.record(&record.merge, &[&state[..], &lifted].concat())?;
                    Ok(())
                })?;
                Ok(store(of_values(&record.finish, &state)?, record.dtype))
            }
        }
    }

    /// Calls `f` with the body at every point of the reduced labels that the filter lets through.
    fn points(
        &self,
        at: &[i64],
        extents: &[usize],
        reads: &Reads<'_>,
        f: &mut Take<'_>,
    ) -> Result<(), Fault> {
        let extent: Vec<usize> = self.labels.iter().map(|&l| extents[l]).collect();
        let (mut at, mut point) = (at.to_vec(), vec![0; self.labels.len()]);
        let mut values = vec![Value::Bool(false); self.body.len()];
        let mut more = extent.iter().all(|&n| n > 0);
        while more {
            for (&l, &x) in self.labels.iter().zip(&point) {
                at[l] = x;
            }
            let taken = match &self.filter {
                Some(filter) => eval(filter, &at, extents, reads)?.as_bool(),
                None => true,
            };
            if taken {
                for (value, code) in values.iter_mut().zip(&self.body) {
                    *value = eval(code, &at, extents, reads)?;
                }
                f(&values, &at)?;
            }
            more = advance(&mut point, &extent);
        }
        Ok(())
    }
}

impl Record {
    fn record(&self, codes: &[Code], values: &[Value]) -> Result<Vec<Value>, Fault> {
        let component = |(code, d): (&Code, &DType)| Ok(store(of_values(code, values)?, *d));
        codes.iter().zip(&self.state).map(component).collect()
    }
}

/// A code over numbered values.
fn of_values(code: &Code, values: &[Value]) -> Result<Value, Fault> {
    eval(code, &[], &[], &|n, _| Ok(values[n]))
}

/// A reduction as code.
pub(super) fn fold(reduce: &Reduce, body: &Expr, operands: &[DType], slots: &[Value]) -> Code {
    let code = |e: &Expr| compile(e, operands, slots);
    let way = match &reduce.agg {
        Aggregation::Row(Agg::LOGSUMEXP) => Way::LogSumExp,
        Aggregation::Row(agg) if agg.row().selects => Way::Select(*agg),
        Aggregation::Row(agg) => Way::Row(*agg, reduce.acc),
        Aggregation::Record(r) => {
            let state: Vec<DType> = r.state.iter().map(|c| c.dtype).collect();
            let both = [&state[..], &state].concat();
            let lift = r.state.iter().map(|c| compile(&c.lift, &r.args, &[]));
            let merge = r.state.iter().map(|c| compile(&c.merge, &both, &[]));
            Way::Record(Record {
                args: r.args.clone(),
                identity: r.state.iter().map(|c| c.identity).collect(),
                lift: lift.collect(),
                merge: merge.collect(),
                finish: compile(&r.finish, &state, &[]),
                dtype: r.dtype,
                state,
            })
        }
    };
    Code::Fold(Box::new(Fold {
        way,
        labels: reduce.labels.iter().map(|l| l.at()).collect(),
        filter: reduce.filter.as_ref().map(code),
        body: body.arguments().iter().map(code).collect(),
    }))
}
