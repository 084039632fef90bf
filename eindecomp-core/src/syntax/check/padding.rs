//! What stands outside of an access, or where an `if` has no `else`, so that the reduction around it
//! stays as it is.

use super::body::BodyCx;
use super::extents::Access;
use super::fixes::zero;
use super::heads::with_filter;
use super::walk::{mentions, name, path_to};
use crate::ein::{Agg, DType, ScalarFn, Value};
use crate::syntax::ast::{BinaryOp, Expr, ExprKind, Reduce, ReduceBody, Sub, UnaryOp};
use crate::syntax::diag::Fix;
use crate::syntax::names::SOFTMAX_SUM;
use crate::syntax::token::Span;

/// What a reduction ignores.
#[derive(Clone, Copy, PartialEq)]
enum Neutral {
    Zero,
    One,
    /// −inf.
    Low,
    /// +inf.
    High,
    Bool(bool),
}

impl Neutral {
    /// Of an aggregation's argument number `arg`; `None` where no value is neutral.
    fn of(reduce: &Reduce, arg: usize) -> Option<Neutral> {
        let agg = reduce.agg.to_string();
        if agg == SOFTMAX_SUM {
            return (arg == 0).then_some(Neutral::Low);
        }
        Some(match Agg::from_name(&agg)? {
            Agg::SUM | Agg::MEAN => Neutral::Zero,
            Agg::PROD => Neutral::One,
            Agg::MAX | Agg::ARGMAX | Agg::LOGSUMEXP => Neutral::Low,
            Agg::MIN | Agg::ARGMIN => Neutral::High,
            Agg::ANY => Neutral::Bool(false),
            Agg::ALL => Neutral::Bool(true),
            _ => return None,
        })
    }

    /// As a literal of the dtype; integers have no infinity.
    fn literal(self, dtype: DType) -> Option<&'static str> {
        match (self, dtype) {
            (Neutral::Bool(b), DType::Bool) => Some(if b { "true" } else { "false" }),
            (Neutral::Zero, _) if dtype != DType::Bool => Some(zero(dtype)),
            (Neutral::One, _) if dtype.is_float() => Some("1.0"),
            (Neutral::One, _) if dtype.is_int() => Some("1"),
            (Neutral::Low, _) if dtype.is_float() => Some("-inf"),
            (Neutral::High, _) if dtype.is_float() => Some("inf"),
            _ => None,
        }
    }

    /// Is the node neutral where its `child` is?
    fn passes(self, node: &Expr, child: &Expr) -> bool {
        let infinite = matches!(self, Neutral::Low | Neutral::High);
        let is = |e: &Expr| std::ptr::eq(e, child);
        match &node.kind {
            ExprKind::Paren(_) => true,
            ExprKind::If { cond, .. } => !is(cond),
            ExprKind::Cast(_, dtype) => {
                let to = DType::from_name(dtype.as_str());
                !matches!(self, Neutral::Bool(_)) && to.is_some_and(DType::is_float)
            }
            ExprKind::Unary(UnaryOp::Neg, _) => self == Neutral::Zero,
            ExprKind::Binary(BinaryOp::Mul, ..) => matches!(self, Neutral::Zero | Neutral::One),
            ExprKind::Binary(BinaryOp::Div, left, _) => {
                matches!(self, Neutral::Zero | Neutral::One) && is(left)
            }
            ExprKind::Binary(BinaryOp::Add, ..) => infinite,
            ExprKind::Binary(BinaryOp::Sub, left, _) => infinite && is(left),
            ExprKind::Call { path, .. } => {
                let function = ScalarFn::from_name(&path.to_string(), 1);
                let of_zero = function.and_then(|f| f.eval(&[Value::Float(0.0)]));
                self == Neutral::Zero && of_zero == Some(Value::Float(0.0))
            }
            ExprKind::Reduce(inner) => {
                self == Neutral::Zero && Neutral::of(inner, 0) == Some(Neutral::Zero)
            }
            _ => false,
        }
    }
}

/// The reduction around an expression, and what it ignores there.
struct Around<'e> {
    reduce: &'e Reduce,
    /// In place of the expression; `None` where the elements have to be left out.
    neutral: Option<Neutral>,
}

impl<'e> Around<'e> {
    /// The innermost of `path` that reduces what the expression at its end depends on, as `depends`
    /// says, else the innermost; a condition is no part of it.
    fn of(path: &[&'e Expr], depends: impl Fn(&Reduce) -> bool) -> Option<Around<'e>> {
        let reductions = path.iter().enumerate().rev();
        let mut reductions = reductions.filter_map(|(at, e)| match &e.kind {
            ExprKind::Reduce(reduce) => Some((at, &**reduce)),
            _ => None,
        });
        let innermost = reductions.clone().next()?;
        let (at, reduce) = reductions
            .find(|(_, reduce)| depends(reduce))
            .unwrap_or(innermost);
        let argument = *path.get(at + 1)?;
        let arg = match &reduce.body {
            ReduceBody::Product(body) => std::ptr::eq(body, argument).then_some(0)?,
            ReduceBody::Args(args) => args.iter().position(|e| std::ptr::eq(e, argument))?,
        };
        let steps = path[at + 1..].windows(2);
        let neutral = Neutral::of(reduce, arg)
            .filter(|neutral| steps.clone().all(|step| neutral.passes(step[0], step[1])));
        Some(Around { reduce, neutral })
    }

    fn is_mean(&self) -> bool {
        Agg::from_name(&self.reduce.agg.to_string()) == Some(Agg::MEAN)
    }
}

/// A value outside of an access, or the condition `inside` in the reduction around it, which keeps
/// it inside.
pub(super) fn pad(cx: &BodyCx<'_>, access: &Access, inside: &[String]) -> Vec<Fix> {
    let value = |text: &str, help: &str| {
        let shown = format!("({access} else {text})");
        Fix::wrap(access.span, "(", &format!(" else {text})"), &shown, help)
    };
    let mut path = Vec::new();
    let found = cx
        .value()
        .filter(|value| path_to(value, access.span, &mut path));
    let moves = |reduce: &Reduce| {
        let names: Vec<&str> = reduce.indices.iter().map(|d| d.name.as_str()).collect();
        let subs = path.last().map(|e| match &e.kind {
            ExprKind::Access { subs, .. } => &subs[..],
            _ => &[],
        });
        let shifted = |sub: &&Sub| !matches!(sub, Sub::Expr(e) if name(e).is_some());
        let subs = subs.into_iter().flatten().filter(shifted);
        subs.flat_map(Sub::exprs).any(|e| mentions(e, &names))
    };
    let around = found.and_then(|_| Around::of(&path, moves));
    let Some(around) = around else {
        return vec![value(zero(access.dtype), "{} to pad")];
    };
    let left_out = || {
        let help = "leave out what is outside: {}";
        let filter = (!inside.is_empty()).then(|| inside.join(" && "))?;
        with_filter(around.reduce, &filter, help)
    };
    let literal = around.neutral.and_then(|n| n.literal(access.dtype));
    match literal {
        // Zeros count in a mean.
        Some(text) if around.is_mean() => {
            let counted = value(text, "{} to pad with zeros, which count");
            std::iter::once(counted).chain(left_out()).collect()
        }
        Some(text) => vec![value(text, "{} to pad")],
        None => left_out().into_iter().collect(),
    }
}

/// The `else` that the `if` at `span` lacks, whose value is of the dtype.
pub(super) fn otherwise(cx: &BodyCx<'_>, span: Span, dtype: DType) -> Option<Fix> {
    let add = |text: &str| Fix::after(span, format!(" else {{ {text} }}"), "add {}");
    let mut path = Vec::new();
    let found = cx.value().filter(|value| path_to(value, span, &mut path));
    let Some(around) = found.and_then(|_| Around::of(&path, |_| false)) else {
        return Some(add(zero(dtype)));
    };
    let literal = around.neutral.and_then(|n| n.literal(dtype));
    if let Some(text) = literal.filter(|_| !around.is_mean()) {
        return Some(add(text));
    }
    let Some(ExprKind::If { cond, then, .. }) = path.last().map(|e| &e.kind) else {
        return None;
    };
    let atom = matches!(
        then.kind,
        ExprKind::Access { default: None, .. } | ExprKind::Call { .. } | ExprKind::Paren(_)
    );
    let value = match atom {
        true => then.to_string(),
        false => format!("({then})"),
    };
    let filter = with_filter(around.reduce, &cond.to_string(), "")?;
    let help = format!("leave out the other elements: {} {value}", filter.help);
    let fix = Fix {
        help: help.replace("` ", " ") + "`",
        ..filter
    };
    Some(fix.and(span, value))
}
