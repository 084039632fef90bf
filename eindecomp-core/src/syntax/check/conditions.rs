//! Conditions as facts.

use std::sync::Arc;

use super::prove::Facts;
use super::ranges::poly;
use super::tree::{Expr, ExprKind};
use crate::ein::{Dim, ScalarFn, Value};
use crate::syntax::ast::CmpOp;

/// Takes an affine condition over dims and indices (by name) as given, or its negation. Where only
/// one of several is, it is the one that is left if all others are known to fail. Gives the
/// comparison that the facts before it exclude, if there is one.
pub(super) fn assume<'e>(
    facts: &mut Facts,
    cond: &'e Expr,
    truth: bool,
    names: &[Arc<str>],
) -> Option<&'e Expr> {
    let ExprKind::Call(f, args) = &cond.kind else {
        return None;
    };
    match (*f, truth) {
        (ScalarFn::NOT, _) => assume(facts, &args[0], !truth, names),
        (ScalarFn::AND, true) | (ScalarFn::OR, false) => {
            let all = args.iter().map(|arg| assume(facts, arg, truth, names));
            all.fold(None, Option::or)
        }
        (ScalarFn::AND, false) | (ScalarFn::OR, true) => {
            let fails = |arg: &&Expr| !is_known(facts, arg, !truth, names);
            let open: Vec<&Expr> = args.iter().filter(fails).collect();
            match open[..] {
                [one] => assume(facts, one, truth, names),
                _ => None,
            }
        }
        _ => {
            let (cmp, (a, b)) = comparison(*f, truth).zip(sides(args, names))?;
            let excluded = !facts.is_excluded() && is_known(facts, cond, !truth, names);
            if excluded {
                facts.exclude();
            }
            // Of two that differ, one is larger.
            let cmp = match cmp {
                CmpOp::Ne if facts.holds(&a, CmpOp::Ge, &b) => CmpOp::Gt,
                CmpOp::Ne if facts.holds(&a, CmpOp::Le, &b) => CmpOp::Lt,
                cmp => cmp,
            };
            facts.assume(&a, cmp, &b);
            excluded.then_some(cond)
        }
    }
}

/// Does it follow that the condition is `truth`?
fn is_known(facts: &Facts, cond: &Expr, truth: bool, names: &[Arc<str>]) -> bool {
    let known = |arg: &Expr, truth| is_known(facts, arg, truth, names);
    match &cond.kind {
        ExprKind::Lit(Value::Bool(value)) => *value == truth,
        ExprKind::Call(f, args) => match (*f, truth) {
            (ScalarFn::NOT, _) => known(&args[0], !truth),
            (ScalarFn::AND, true) | (ScalarFn::OR, false) => args.iter().all(|a| known(a, truth)),
            (ScalarFn::AND, false) | (ScalarFn::OR, true) => args.iter().any(|a| known(a, truth)),
            _ => comparison(*f, truth)
                .zip(sides(args, names))
                .is_some_and(|(cmp, (a, b))| facts.holds(&a, cmp, &b)),
        },
        _ => false,
    }
}

/// The comparison that a function is, or its negation.
fn comparison(f: ScalarFn, truth: bool) -> Option<CmpOp> {
    let cmp = match f {
        ScalarFn::EQ => CmpOp::Eq,
        ScalarFn::NE => CmpOp::Ne,
        ScalarFn::LT => CmpOp::Lt,
        ScalarFn::LE => CmpOp::Le,
        ScalarFn::GT => CmpOp::Gt,
        ScalarFn::GE => CmpOp::Ge,
        _ => return None,
    };
    Some(if truth { cmp } else { cmp.negated() })
}

fn sides(args: &[Expr], names: &[Arc<str>]) -> Option<(Dim, Dim)> {
    match args {
        [a, b] => poly(a, names).zip(poly(b, names)),
        _ => None,
    }
}
