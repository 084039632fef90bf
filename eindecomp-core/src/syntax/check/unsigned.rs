//! Functions and comparisons that are there for signs, of integers that have none.

use super::dtype::flex;
use super::expr::StmtCx;
use super::tree::{Expr, ExprKind};
use super::walk::path_to;
use super::wraps::widened;
use crate::ein::{DType, ScalarFn, Value};
use crate::syntax::ast::{self, BinaryOp};
use crate::syntax::diag::{Code, Diag, Fix};
use crate::syntax::token::Span;

impl StmtCx<'_, '_> {
    /// Reports `abs(x)`, `relu(x)`, `max(x, 0)`, `x < 0` and `x >= 0` of unsigned integers.
    pub(super) fn unsigned(
        &mut self,
        function: ScalarFn,
        args: &[Expr],
        texts: &[&ast::Expr],
        span: Span,
    ) -> Option<()> {
        let dtype = args.first()?.dtype;
        // In a block of any dtype, and in a function, it is there for others.
        let shared = self.cx.is_of_any_dtype() || !self.inline.is_empty();
        if !matches!(dtype, DType::U8 | DType::U32) || shared {
            return Some(());
        }
        let zero = |e: &Expr| matches!(e.kind, ExprKind::Lit(Value::Int(0)));
        let number = args.iter().position(|arg| flex(arg).is_none());
        let number = number.filter(|at| args.iter().enumerate().all(|(n, e)| n == *at || zero(e)));
        let Some(text) = number.map(|at| texts[at]) else {
            return Some(());
        };
        let flipped = number == Some(1);
        // What is converted is told to have wrapped.
        let to = self.converted(span);
        if dtype == DType::U8 && to.is_some() && difference(text).is_some() {
            return Some(());
        }
        let known = match function {
            ScalarFn::ABS | ScalarFn::RELU | ScalarFn::MAX => None,
            ScalarFn::LT if !flipped => Some("false"),
            ScalarFn::GT if flipped => Some("false"),
            ScalarFn::GE if !flipped => Some("true"),
            ScalarFn::LE if flipped => Some("true"),
            _ => return Some(()),
        };
        let message = match known {
            Some(known) => format!("this is always {known}: {dtype} has no negative values"),
            None => format!("this `{function}` changes nothing: {dtype} has no negative values"),
        };
        let diag = Diag::new(Code::DtypeRule, span, message);
        self.report(match self.signless(function, text, (span, to)) {
            Some(fix) => diag.fix(fix),
            None => diag.help("what may be negative is declared as `i64`, or as `i32`"),
        });
        None
    }

    /// What is meant by a function of an unsigned integer that is converted to `to`, if it is.
    fn signless(
        &self,
        function: ScalarFn,
        e: &ast::Expr,
        (span, to): (Span, Option<DType>),
    ) -> Option<Fix> {
        let of_sign = [ScalarFn::ABS, ScalarFn::RELU, ScalarFn::MAX].contains(&function);
        let Some((a, b)) = difference(e) else {
            let held = match e.kind {
                ast::ExprKind::Binary(..) => format!("({e})"),
                _ => e.to_string(),
            };
            let help = format!("leave out `{function}`: {{}}");
            return of_sign.then(|| Fix::replace(span, held, &help));
        };
        if let Some(to) = to.filter(|_| of_sign) {
            return widened(self.cx, e, to);
        }
        let whole = self.cx.value().is_some_and(|value| value.span == span);
        let text = match function {
            ScalarFn::ABS => format!("max({a}, {b}) - min({a}, {b})"),
            ScalarFn::RELU | ScalarFn::MAX => match b.kind {
                ast::ExprKind::Binary(BinaryOp::Add | BinaryOp::Sub, ..) => {
                    format!("max({a}, {b}) - ({b})")
                }
                _ => format!("max({a}, {b}) - {b}"),
            },
            ScalarFn::LT | ScalarFn::GT => format!("{a} < {b}"),
            _ => format!("{a} >= {b}"),
        };
        let text = match whole || !of_sign {
            true => text,
            false => format!("({text})"),
        };
        Some(Fix::replace(span, text, "did you mean {}?"))
    }

    /// The dtype with a sign that the value at `place` is converted to, if it is.
    fn converted(&self, place: Span) -> Option<DType> {
        let mut path = Vec::new();
        path_to(self.cx.value()?, place, &mut path);
        let mut around = path.iter().rev().skip(1);
        let held = |e: &&&ast::Expr| !matches!(e.kind, ast::ExprKind::Paren(_));
        let ast::ExprKind::Cast(_, to) = &around.find(held)?.kind else {
            return None;
        };
        let to = DType::from_name(to.as_str())?;
        (!matches!(to, DType::U8 | DType::U32)).then_some(to)
    }
}

/// The sides of a difference, perhaps in parentheses.
fn difference(e: &ast::Expr) -> Option<(&ast::Expr, &ast::Expr)> {
    match &e.kind {
        ast::ExprKind::Paren(inner) => difference(inner),
        ast::ExprKind::Binary(BinaryOp::Sub, a, b) => Some((a, b)),
        _ => None,
    }
}
