//! What the value of a position is at least, and below: of polynomials by the facts, of `min`, `max`,
//! `clamp`, `abs` and `if` by what they choose among.

use super::conditions::assume;
use super::prove::Facts;
use super::ranges::{Walk, poly};
use super::tree::{Expr, ExprKind};
use crate::ein::{Dim, ScalarFn};
use crate::syntax::ast::CmpOp;

impl Walk<'_, '_> {
    pub(super) fn inside(&self, e: &Expr, extent: &Dim, facts: &Facts) -> bool {
        self.at_least(e, &Dim::from(0), facts) && self.below(e, extent, facts)
    }

    fn at_least(&self, e: &Expr, low: &Dim, facts: &Facts) -> bool {
        let at_least = |e: &Expr| self.at_least(e, low, facts);
        if let Some(p) = poly(e, &self.names) {
            return facts.holds(&p, CmpOp::Ge, low);
        }
        match &e.kind {
            ExprKind::If(cond, a, b) => self.both(cond, facts, &|truth, facts| match truth {
                true => self.at_least(a, low, facts),
                false => self.at_least(b, low, facts),
            }),
            ExprKind::Call(f, args) => match (*f, &args[..]) {
                (ScalarFn::MAX, args) => args.iter().any(at_least),
                (ScalarFn::MIN, args) => args.iter().all(at_least),
                (ScalarFn::CLAMP, [x, least, most]) => {
                    (at_least(x) || at_least(least)) && at_least(most)
                }
                (ScalarFn::ABS, [x]) => {
                    let negative = || self.below(x, &(&Dim::from(1) - low), facts);
                    (facts.nonneg(&-low) && self.is_bounded(x)) || at_least(x) || negative()
                }
                (ScalarFn::NEG, [x]) => self.below(x, &(&Dim::from(1) - low), facts),
                _ => match self.shifted_by(*f, args) {
                    Some((p, x, true)) => self.at_least(x, &(low - &p), facts),
                    Some((p, x, false)) => self.below(x, &(&(&p - low) + &Dim::from(1)), facts),
                    None => false,
                },
            },
            _ => false,
        }
    }

    fn below(&self, e: &Expr, high: &Dim, facts: &Facts) -> bool {
        let below = |e: &Expr| self.below(e, high, facts);
        if let Some(p) = poly(e, &self.names) {
            return facts.holds(&p, CmpOp::Lt, high);
        }
        let one = Dim::from(1);
        match &e.kind {
            ExprKind::If(cond, a, b) => self.both(cond, facts, &|truth, facts| match truth {
                true => self.below(a, high, facts),
                false => self.below(b, high, facts),
            }),
            ExprKind::Call(f, args) => match (*f, &args[..]) {
                (ScalarFn::MAX, args) => args.iter().all(below),
                (ScalarFn::MIN, args) => args.iter().any(below),
                (ScalarFn::CLAMP, [x, least, most]) => below(most) || (below(x) && below(least)),
                (ScalarFn::ABS, [x]) => below(x) && self.at_least(x, &(&one - high), facts),
                (ScalarFn::NEG, [x]) => self.at_least(x, &(&one - high), facts),
                _ => match self.shifted_by(*f, args) {
                    Some((p, x, true)) => self.below(x, &(high - &p), facts),
                    Some((p, x, false)) => self.at_least(x, &(&(&p - high) + &one), facts),
                    None => false,
                },
            },
            _ => false,
        }
    }

    /// Does it hold in both branches of an `if`, with the facts that its condition brings?
    fn both(&self, cond: &Expr, facts: &Facts, holds: &dyn Fn(bool, &Facts) -> bool) -> bool {
        [true, false].into_iter().all(|truth| {
            let mut known = facts.clone();
            assume(&mut known, cond, truth, &self.names);
            holds(truth, &known)
        })
    }

    /// A sum or difference as a polynomial and what is added to it, or subtracted from it (`false`).
    fn shifted_by<'e>(&self, f: ScalarFn, args: &'e [Expr]) -> Option<(Dim, &'e Expr, bool)> {
        let [a, b] = args else { return None };
        let (x, y) = (poly(a, &self.names), poly(b, &self.names));
        match (f, x, y) {
            (ScalarFn::ADD, Some(p), None) => Some((p, b, true)),
            (ScalarFn::ADD, None, Some(p)) => Some((p, a, true)),
            (ScalarFn::SUB, Some(p), None) => Some((p, b, false)),
            (ScalarFn::SUB, None, Some(p)) => Some((-&p, a, true)),
            _ => None,
        }
    }

    /// Is it far from the ends of i64, where its negation wraps?
    fn is_bounded(&self, e: &Expr) -> bool {
        poly(e, &self.names).is_some()
            || match &e.kind {
                ExprKind::If(_, a, b) => self.is_bounded(a) && self.is_bounded(b),
                ExprKind::Call(f, args) => {
                    use ScalarFn as F;
                    let simple = [F::ADD, F::SUB, F::NEG, F::ABS, F::MIN, F::MAX, F::CLAMP];
                    simple.contains(f) && args.iter().all(|arg| self.is_bounded(arg))
                }
                _ => false,
            }
    }

    /// What a position may be, where it is something else, of which nothing is proved.
    pub(super) fn no_position(&self, e: &Expr) -> Option<&'static str> {
        use ScalarFn as F;
        let known = [
            F::ADD,
            F::SUB,
            F::MUL,
            F::DIV,
            F::REM,
            F::NEG,
            F::ABS,
            F::MIN,
            F::MAX,
            F::CLAMP,
        ];
        let calls = |e: &&Expr| match &e.kind {
            ExprKind::Call(f, _) => !known.contains(f) && e.dtype.is_int(),
            _ => false,
        };
        e.nodes().iter().any(calls).then_some(
            "of a position it is proved what `+ - * / %`, `min`, `max`, `clamp`, `abs` and `if` make of indices, \
             dims and numbers",
        )
    }
}
