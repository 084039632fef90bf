//! Results that stand in another order than they come from a call, or than the block declares them.

use super::body::BodyCx;
use super::tree::Type;
use super::walk::accessed;
use crate::syntax::ast::{Expr, Ident, Stmt, StmtKind};
use crate::syntax::diag::{Code, Diag, Fix};
use crate::syntax::token::Span;

impl BodyCx<'_> {
    /// One error for the reads of two results of a call that only fit if the names change places.
    pub(super) fn swapped_results(&mut self) {
        let stmts = self.ast.stmts.iter();
        let pairs = stmts.enumerate().filter_map(|(at, stmt)| match &stmt.kind {
            StmtKind::Let { pat, value, .. } if pat.indices.is_none() => match &pat.names[..] {
                [a, b] if self.calls_block(value) => Some((at, pat.span, a, b)),
                _ => None,
            },
            _ => None,
        });
        for (at, span, a, b) in pairs.collect::<Vec<_>>() {
            let Some(wrong) = self.misread(at, a, b) else {
                continue;
            };
            let Some(first) = wrong.first() else { continue };
            let help = format!("did you mean `({b}, {a})`?");
            let fix = Fix::replace(a.span, b.as_str(), &help).and(b.span, a.as_str());
            let place = self.errors.iter().position(|diag| diag.primary == *first);
            self.errors.retain(|diag| !wrong.contains(&diag.primary));
            let text = format!("`{a}` and `{b}` are read as if they stood in each other's place");
            let diag = Diag::new(Code::RankMismatch, span, text).fix(fix);
            self.errors.insert(place.unwrap_or(0), diag);
        }
    }

    /// One error for results that fit what is declared in another order.
    pub(super) fn disordered_results(&mut self) {
        let Some(result) = &self.ast.result else {
            return;
        };
        let wrong = |diag: &Diag| {
            let here = |name: &Ident| name.span == diag.primary;
            diag.code == Code::ResultType && result.names.iter().any(here)
        };
        if self.errors.iter().filter(|diag| wrong(diag)).count() < 2 {
            return;
        }
        let Some(order) = self.as_declared(&result.names) else {
            return;
        };
        let shown: Vec<&str> = order.iter().map(|name| name.as_str()).collect();
        let help = format!("did you mean `({})`?", shown.join(", "));
        let edits = result.names.iter().zip(&shown);
        let edits = edits.filter(|(name, meant)| name.as_str() != **meant);
        let edits = edits.map(|(name, meant)| (name.span, (*meant).to_owned()));
        let edits = edits.collect();
        let text = "the results stand in another order than they are declared";
        let diag = Diag::new(Code::ResultType, result.span, text)
            .secondary(self.ast.ret.span, "declared here")
            .fix(Fix { help, edits });
        let place = self.errors.iter().position(wrong);
        self.errors.retain(|diag| !wrong(diag));
        self.errors.insert(place.unwrap_or(0), diag);
    }

    /// The names of results in the order in which each has the type declared, of those that fit the first as written.
    fn as_declared<'n>(&self, names: &'n [Ident]) -> Option<Vec<&'n Ident>> {
        let ty = |name: &Ident| {
            let var = &self.vars[self.lookup(name.as_str())?.at()];
            var.ty.as_ref().filter(|_| !var.guessed)
        };
        let types: Vec<&Type> = names.iter().map(ty).collect::<Option<_>>()?;
        let is = |found: &Type, declared: &Type| match (found.tensor(), declared.tensor()) {
            (Some(found), Some(declared)) => {
                let mut axes = found.axes.iter().zip(&declared.axes);
                found.dtype == declared.dtype
                    && found.axes.len() == declared.axes.len()
                    && axes.all(|(a, b)| self.facts.equal(a, b))
            }
            _ => found == declared,
        };
        // Types are equal or not, so whichever name comes first of those that fit, the others find their places.
        let (mut left, mut order) = ((0..names.len()).collect::<Vec<_>>(), Vec::new());
        for declared in &self.block.results {
            let at = left.iter().position(|&at| is(types[at], &declared.ty))?;
            order.push(&names[left.remove(at)]);
        }
        Some(order)
    }

    /// The places of errors about the ranks of two names of statement `at`, if all reads of them fit
    /// the other's.
    fn misread(&self, at: usize, a: &Ident, b: &Ident) -> Option<Vec<Span>> {
        let rank = |name: &Ident| {
            let var = self.lookup(name.as_str())?;
            let var = &self.vars[var.at()];
            let rank = var.ty.as_ref()?.tensor()?.axes.len();
            (var.span == name.span).then_some(rank)
        };
        let (of_a, of_b) = (rank(a)?, rank(b)?);
        let mut reads = Vec::new();
        for stmt in &self.ast.stmts[at + 1..] {
            reads_in(stmt, &[a, b], &mut reads);
        }
        let swapped = |name: &str| if name == a.as_str() { of_b } else { of_a };
        let fits = |(name, _, given): &(&str, Span, usize)| swapped(name) == *given;
        let results = self.ast.result.iter().flat_map(|result| &result.names);
        let mut results = results.zip(&self.block.results);
        let returned = results.all(|(name, result)| {
            let ours = [a, b].iter().any(|n| n.name == name.name);
            let rank = result.ty.tensor().map(|t| t.axes.len());
            !ours || rank == Some(swapped(name.as_str()))
        });
        let places = self.errors.iter().filter(|diag| {
            let read = || reads.iter().any(|(_, span, _)| *span == diag.primary);
            match diag.code {
                Code::RankMismatch => read() || self.names_whole(diag.primary, &[a, b]),
                Code::ResultType => self.names_result(diag.primary, &[a, b]),
                _ => false,
            }
        });
        let places: Vec<Span> = places.map(|diag| diag.primary).collect();
        (of_a != of_b && returned && reads.iter().all(fits)).then_some(places)
    }

    /// Is one of these named there without indices?
    fn names_whole(&self, place: Span, names: &[&Ident]) -> bool {
        let values = self.ast.stmts.iter().filter_map(|stmt| match &stmt.kind {
            StmtKind::Let { value, .. } | StmtKind::Store { value, .. } => Some(value),
            _ => None,
        });
        let mut values = values.filter_map(|value| super::unbound::name_at(value, place));
        values.any(|found| names.iter().any(|name| name.name == found.name))
    }

    fn names_result(&self, place: Span, names: &[&Ident]) -> bool {
        let results = self.ast.result.iter().flat_map(|result| &result.names);
        let mut here = results.filter(|result| result.span == place);
        here.any(|result| names.iter().any(|name| name.name == result.name))
    }
}

/// The accesses of these in a statement: name, place, how many indices.
fn reads_in<'s>(stmt: &'s Stmt, names: &[&Ident], out: &mut Vec<(&'s str, Span, usize)>) {
    match &stmt.kind {
        StmtKind::Let { value, .. } => reads(value, names, out),
        StmtKind::Store { subs, value, .. } => {
            reads(value, names, out);
            subs.iter().for_each(|sub| reads(sub, names, out));
        }
        StmtKind::For { body, .. } => body.iter().for_each(|stmt| reads_in(stmt, names, out)),
        StmtKind::Carry { .. } | StmtKind::Error(_) => {}
    }
}

fn reads<'s>(e: &'s Expr, names: &[&Ident], out: &mut Vec<(&'s str, Span, usize)>) {
    if let Some((place, subs)) = accessed(e)
        && let Some(name) = place.as_ident()
        && names.iter().any(|other| other.name == name.name)
    {
        out.push((name.as_str(), e.span, subs.len()));
    }
    let children = e.children().into_iter();
    children.for_each(|e| reads(e, names, out));
}
