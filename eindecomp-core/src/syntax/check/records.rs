//! Reductions over records: `softmax_sum` and aggregations of the user.

use std::sync::Arc;

use super::aggs::softmax_sum;
use super::dtype::{cast, coerce, fix, flex};
use super::expr::StmtCx;
use super::heads::{head, without_accumulator};
use super::tree::{Aggregation, Expr, ExprKind, RecordAgg, Reduce};
use super::walk::{mentions, path_to};
use crate::ein::DType;
use crate::syntax::ast::{self, ReduceBody};
use crate::syntax::diag::{Code, Diag, Fix};
use crate::syntax::names::{SOFTMAX_SUM, are, count};
use crate::syntax::token::Span;

/// An aggregation over records by its name.
pub(super) enum Named {
    SoftmaxSum,
    User(Arc<RecordAgg>),
    /// With errors of its own: what it would give is not known.
    Broken,
}

impl StmtCx<'_, '_> {
    /// The aggregation over records that a reduction names.
    pub(super) fn record_agg(&self, reduce: &ast::Reduce) -> Option<Named> {
        let name = reduce.agg.as_ident()?;
        if name.as_str() == SOFTMAX_SUM {
            return Some(Named::SoftmaxSum);
        }
        let aggs = &self.cx.items.checked.aggs;
        let found = aggs.iter().find(|(agg, _)| *agg == name.name)?;
        Some(found.1.clone().map_or(Named::Broken, Named::User))
    }

    /// Every result of a reduction over records.
    pub(super) fn results(&mut self, reduce: &ast::Reduce, span: Span) -> Option<Vec<Expr>> {
        match self.record_agg(reduce) {
            Some(named) => self.record(reduce, named, span),
            None => Some(vec![self.reduce(reduce, span)?]),
        }
    }

    pub(super) fn record(
        &mut self,
        reduce: &ast::Reduce,
        named: Named,
        span: Span,
    ) -> Option<Vec<Expr>> {
        let params: Vec<Arc<str>> = match &named {
            Named::SoftmaxSum => vec!["score".into(), "value".into()],
            Named::User(agg) => agg.args.iter().map(|(name, _)| name.clone()).collect(),
            Named::Broken => Vec::new(),
        };
        let name = &reduce.agg;
        let texts: Vec<&ast::Expr> = match &reduce.body {
            ReduceBody::Args(args) => args.iter().collect(),
            ReduceBody::Product(_) if matches!(named, Named::Broken) => return None,
            ReduceBody::Product(body) => {
                let text = format!("`{name}` takes its arguments in parentheses");
                let diag = Diag::new(Code::Arity, body.span, text);
                let head = head(reduce);
                self.report(match &params[..] {
                    [_] => diag.help(format!("`{head} ({body})`")),
                    _ => diag.help(format!("`{head} ({})`", params.join(", "))),
                });
                return None;
            }
        };
        let made = self.bound(reduce, &texts, |cx| {
            let made = texts.iter().map(|e| cx.expr(e)).collect();
            cx.all(made)
        });
        let (indices, filter, args) = made?;
        if !matches!(named, Named::Broken) && args.len() != params.len() {
            let wanted = count(params.len(), "argument", "arguments");
            let text = format!(
                "`{name}` takes {wanted} ({}), but {} given",
                params.join(", "),
                are(args.len())
            );
            let diag = Diag::new(Code::Arity, name.span, text);
            let usage = format!("it is `{} ({})`", head(reduce), params.join(", "));
            let factor = (args.len() + 1 == params.len()).then(|| self.factor_behind(reduce, span));
            self.report(match factor.flatten() {
                Some(fix) => diag.fix(fix),
                None => diag.help(usage),
            });
            return None;
        }
        let acc = self.accumulator(reduce)?;
        if let Named::SoftmaxSum = &named {
            self.weighted(reduce, &texts)?;
        }
        self.unused((reduce, span), &texts, &args.iter().collect::<Vec<_>>())?;
        let (agg, args, dtype) = match named {
            Named::Broken => return None,
            Named::SoftmaxSum => {
                let (agg, args, dtype) = self.softmax_sum(reduce, args, &texts, acc)?;
                (agg, args, Some(dtype))
            }
            Named::User(agg) => {
                if let Some(acc) = &reduce.acc {
                    let text = format!("the state of `{name}` has dtypes of its own");
                    let help = format!("leave out `; {acc}`");
                    let diag = Diag::new(Code::DtypeRule, acc.span, text);
                    self.report(diag.fixes(without_accumulator(reduce, &help)));
                    return None;
                }
                let given = args.into_iter().zip(&texts).zip(&agg.args);
                let args: Vec<Option<Expr>> = given
                    .map(|((e, text), (_, d))| coerce(e, *d, text, &mut self.cx.errors))
                    .collect();
                (agg, args.into_iter().collect::<Option<Vec<_>>>()?, None)
            }
        };
        let result = |(n, finish): (usize, &Expr)| Expr {
            kind: ExprKind::Reduce(Box::new(Reduce {
                agg: Aggregation::Record(agg.clone(), n),
                indices: indices.clone(),
                filter: filter.clone(),
                acc: finish.dtype,
                body: Expr {
                    kind: ExprKind::Tuple(args.clone()),
                    dtype: finish.dtype,
                    span,
                },
            })),
            dtype: dtype.unwrap_or(finish.dtype),
            span,
        };
        Some(agg.results.iter().enumerate().map(result).collect())
    }

    /// The factor behind a reduction at `span` as its last argument, if that uses what it reduces.
    fn factor_behind(&self, reduce: &ast::Reduce, span: Span) -> Option<Fix> {
        let ReduceBody::Args(args) = &reduce.body else {
            return None;
        };
        let mut path = Vec::new();
        path_to(self.cx.value()?, span, &mut path);
        let around = path.iter().rev().nth(1)?;
        let ast::ExprKind::Binary(ast::BinaryOp::Mul, left, right) = &around.kind else {
            return None;
        };
        let names: Vec<&str> = reduce.indices.iter().map(|d| d.name.as_str()).collect();
        (left.span == span && mentions(right, &names)).then_some(())?;
        let shown: Vec<String> = args
            .iter()
            .chain([&**right])
            .map(|e| e.to_string())
            .collect();
        let help = format!("did you mean `{} ({})`?", head(reduce), shown.join(", "));
        let between = Span::new(args.last()?.span.end, right.span.start);
        let end = Span::new(right.span.end, right.span.end);
        Some(Fix::replace(between, ", ", &help).and(end, ")"))
    }

    /// `softmax_sum` for the dtypes of its arguments, and the dtype of its result.
    fn softmax_sum(
        &mut self,
        reduce: &ast::Reduce,
        mut args: Vec<Expr>,
        texts: &[&ast::Expr],
        acc: Option<DType>,
    ) -> Option<(Arc<RecordAgg>, Vec<Expr>, DType)> {
        for (arg, text) in args.iter_mut().zip(texts) {
            if flex(arg).is_some() {
                fix(arg, acc.unwrap_or(DType::F32), &mut self.cx.errors)?;
            }
            if !arg.dtype.is_float() {
                let message = format!("`{SOFTMAX_SUM}` is not defined for {}", arg.dtype);
                let diag = Diag::new(Code::DtypeRule, text.span, message);
                self.report(diag.fix(cast(text, DType::F32)));
                return None;
            }
        }
        let dtype = acc.unwrap_or(args[1].dtype);
        let own = args[0].dtype.default_accumulator();
        let own = own.common(args[1].dtype.default_accumulator())?;
        let state = acc.unwrap_or(own);
        if let (false, Some(acc)) = (state.is_float(), &reduce.acc) {
            let message = format!("`{SOFTMAX_SUM}` accumulates in a float, not in {state}");
            self.report(Diag::new(Code::DtypeRule, acc.span, message));
            return None;
        }
        let narrowed = args.iter().find(|arg| !arg.dtype.widens_to(state));
        if let Some((dtype, wider)) = narrowed.map(|arg| arg.dtype).zip(self.wider(reduce)) {
            let message = format!("`{SOFTMAX_SUM}` of {dtype} would accumulate in {state}");
            let place = reduce.acc.as_ref().map_or(reduce.agg.span, |acc| acc.span);
            self.report(Diag::new(Code::Narrowing, place, message).fix(wider));
            return None;
        }
        let given = args.into_iter().zip(texts);
        let args: Vec<Option<Expr>> = given
            .map(|(e, text)| coerce(e, state, text, &mut self.cx.errors))
            .collect();
        let args = args.into_iter().collect::<Option<Vec<_>>>()?;
        Some((softmax_sum(state)?, args, dtype))
    }
}
