//! What must hold of sizes: clauses that are implicit, const assertions.

use super::body::BodyCx;
use super::prove::Equality;
use super::tree::{Clause, Obligation, Origin};
use crate::ein::Dim;
use crate::syntax::ast::CmpOp;
use crate::syntax::diag::{Code, Diag};

impl BodyCx<'_> {
    /// Adds an implicit clause where it does not follow; over consts it is an obligation.
    pub(super) fn require(&mut self, clause: Clause) {
        let (code, text) = match &clause.origin {
            Origin::Declared => (Code::ClauseFalse, "a `where` clause does not hold".into()),
            Origin::Divisor => (Code::Extent, "a divisor is below 1".into()),
            Origin::Extent => (Code::Extent, "an extent is negative".into()),
            Origin::Access(access) => (Code::OutOfRange, format!("`{access}` leaves its axis")),
            Origin::Equal(what) => (Code::ExtentMismatch, format!("{what}, which fails")),
        };
        let diag = Diag::new(code, clause.span, text);
        self.require_or(clause, diag);
    }

    /// [`BodyCx::require`], `diag` being the error if it is over consts and does not hold.
    pub(super) fn require_or(&mut self, clause: Clause, diag: Diag) {
        if self.facts.holds(&clause.left, clause.cmp, &clause.right) {
            return;
        }
        if self.facts.refuted(&clause.left, clause.cmp, &clause.right) {
            self.errors.push(diag);
            return;
        }
        let symbols = (&clause.left - &clause.right).symbols();
        if let Some(number) = symbols.iter().find(|s| self.numbers.contains(s)) {
            let text = format!(
                "cannot prove `{clause}` for every value of `{number}`: {}",
                clause.origin
            );
            self.errors
                .push(Diag::new(Code::OutOfRange, clause.span, text));
            return;
        }
        self.facts.assume(&clause.left, clause.cmp, &clause.right);
        if self.dims.only_consts(&(&clause.left - &clause.right)) {
            let obligation = Obligation { clause, diag };
            if !self.block.obligations.contains(&obligation) {
                self.block.obligations.push(obligation);
            }
        } else if !self.block.clauses.contains(&clause) {
            self.block.clauses.push(clause);
        }
    }

    /// Are the two extents equal? Over consts alone that becomes an obligation, `diag` being the
    /// error if they are not.
    pub(super) fn equal(
        &mut self,
        a: &Dim,
        b: &Dim,
        what: &str,
        diag: impl FnOnce() -> Diag,
    ) -> Equality {
        let answer = self.facts.equality(a, b);
        if matches!(answer, Equality::Unknown)
            && self.dims.only_consts(&self.facts.normal(&(a - b)))
        {
            let (left, right) = (a.clone(), b.clone());
            let (cmp, origin) = (CmpOp::Eq, Origin::Equal(what.into()));
            let diag = diag();
            let clause = Clause {
                left,
                cmp,
                right,
                origin,
                span: diag.primary,
            };
            self.require_or(clause, diag);
            return Equality::Equal;
        }
        answer
    }
}
