//! Conditions around an access as written, and how to correct them.

mod apart;
mod kept;

use std::collections::BTreeMap;
use std::sync::Arc;

pub(super) use kept::{LARGEST, Tried};

use super::body::BodyCx;
use super::dims::is_const;
use super::prove::{Facts, as_nonneg};
use super::ranges::is_small;
use super::walk::{mentions, path_to};
use crate::ein::Dim;
use crate::ein::dim::Atom;
use crate::syntax::ast::{BinaryOp, CmpOp, Expr, ExprKind, Lit, Sub};
use crate::syntax::diag::Fix;
use crate::syntax::token::Span;

/// A condition, and whether it holds at the access.
struct Condition<'e> {
    test: &'e Expr,
    holds: bool,
    /// What stands in the other branch.
    other: Option<&'e Expr>,
    /// Positions there that are no index alone, each with the extent of its axis.
    reads: Vec<(&'e Expr, Dim)>,
    /// Those in this branch.
    here: Vec<(&'e Expr, Dim)>,
}

/// The conditions around an access, outermost first.
pub(super) struct Guards<'e> {
    conditions: Vec<Condition<'e>>,
    indices: &'e [Arc<str>],
    /// Sizes and indices by their names.
    names: BTreeMap<String, Dim>,
}

/// A position that leaves its axis.
pub(super) struct Outside<'e> {
    pub(super) text: &'e str,
    pub(super) at: &'e Dim,
    pub(super) extent: &'e Dim,
}

impl<'e> Guards<'e> {
    /// Around the access at `span` in the statement that is being checked; `indices` are its
    /// indices.
    pub(super) fn of(cx: &BodyCx<'e>, span: Span, indices: &'e [Arc<str>]) -> Guards<'e> {
        let mut path = Vec::new();
        if let Some(value) = cx.value() {
            path_to(value, span, &mut path);
        }
        let held = |test, here| Condition {
            test,
            holds: true,
            other: None,
            reads: Vec::new(),
            here,
        };
        let mut conditions = Vec::new();
        for step in path.windows(2) {
            let (node, child) = (step[0], step[1]);
            let is = |e: &Expr| std::ptr::eq(e, child);
            match &node.kind {
                ExprKind::If {
                    cond,
                    then,
                    otherwise,
                } if !is(cond) => {
                    let (holds, other) = match is(then) {
                        true => (true, otherwise.as_deref()),
                        false => (false, Some(&**then)),
                    };
                    conditions.push(Condition {
                        test: cond,
                        holds,
                        other,
                        reads: other.map(|other| reads(cx, other)).unwrap_or_default(),
                        here: reads(cx, child),
                    });
                }
                ExprKind::Binary(BinaryOp::And, left, right) if is(right) => {
                    conditions.push(held(left, reads(cx, right)));
                }
                ExprKind::Reduce(reduce) => {
                    let filter = reduce.filter.iter().filter(|filter| !is(filter));
                    conditions.extend(filter.map(|filter| held(filter, reads(cx, child))));
                }
                _ => {}
            }
        }
        let mut guards = Guards {
            conditions,
            indices,
            names: BTreeMap::new(),
        };
        for condition in &guards.conditions {
            sizes(cx, condition.test, &mut guards.names);
        }
        // An index hides a dim.
        for index in guards.indices {
            let dim = Dim::sym(index.clone());
            guards.names.insert(index.to_string(), dim);
        }
        guards
    }

    /// Do the conditions keep a position inside of an axis?
    pub(super) fn keep(&self, plain: &Facts, at: &Dim, extent: &Dim) -> bool {
        let mut facts = plain.clone();
        let bounds = self
            .conditions
            .iter()
            .flat_map(|c| self.bounds(c.test, c.holds));
        bounds.for_each(|bound| facts.assume_nonneg(&bound));
        facts.inside(at, extent)
    }

    /// Does a condition mention an index in this position?
    pub(super) fn are_about(&self, at: &Dim) -> bool {
        let symbols = at.symbols();
        let names = self.indices.iter().filter(|name| symbols.contains(*name));
        let names: Vec<&str> = names.map(|name| &**name).collect();
        let mut tests = self.conditions.iter().map(|c| c.test);
        tests.any(|test| mentions(test, &names))
    }

    /// An integer expression over dims and indices as a polynomial.
    fn poly(&self, e: &Expr) -> Option<Dim> {
        match &e.kind {
            ExprKind::Lit(Lit::Int(n)) => Some(Dim::from(i64::try_from(*n).ok()?)),
            ExprKind::Name(place) => self.names.get(&place.to_string()).cloned(),
            ExprKind::Paren(inner) => self.poly(inner),
            ExprKind::Binary(op, a, b) => {
                let (a, b) = (self.poly(a)?, self.poly(b)?);
                match op {
                    BinaryOp::Add => Some(&a + &b),
                    BinaryOp::Sub => Some(&a - &b),
                    BinaryOp::Mul => a.try_mul(&b).filter(is_small),
                    BinaryOp::Div if b.as_const().is_some_and(|by| by > 0) => Some(a.floor_div(&b)),
                    _ => None,
                }
            }
            _ => None,
        }
    }

    /// What a comparison says, each at least 0.
    fn bounds(&self, e: &Expr, holds: bool) -> Vec<Dim> {
        match &e.kind {
            ExprKind::Paren(inner) => self.bounds(inner, holds),
            ExprKind::Binary(BinaryOp::And, a, b) if holds => {
                let a = self.bounds(a, holds);
                a.into_iter().chain(self.bounds(b, holds)).collect()
            }
            ExprKind::Binary(BinaryOp::Cmp(cmp), a, b) => match (self.poly(a), self.poly(b)) {
                (Some(a), Some(b)) => {
                    let cmp = if holds { *cmp } else { cmp.negated() };
                    as_nonneg(&a, cmp, &b)
                }
                _ => Vec::new(),
            },
            _ => Vec::new(),
        }
    }

    /// Does it depend on an index?
    fn indexed(&self, d: &Dim) -> bool {
        d.symbols().iter().any(|s| self.indices.contains(s))
    }

    /// The innermost condition on an index, what holds around it, and its parts: of one that fails, the whole.
    fn innermost(&self, plain: &Facts) -> Option<(&Condition<'e>, Facts, Vec<&'e Expr>)> {
        let condition = self.conditions.iter().rev().find(|c| {
            let bounds = self.bounds(c.test, c.holds);
            bounds.iter().any(|bound| self.indexed(bound))
        })?;
        let mut facts = plain.clone();
        for outer in &self.conditions {
            if !std::ptr::eq(outer, condition) {
                let bounds = self.bounds(outer.test, outer.holds);
                bounds.iter().for_each(|bound| facts.assume_nonneg(bound));
            }
        }
        let parts = match condition.holds {
            true => conjuncts(condition.test),
            false => vec![unheld(condition.test)],
        };
        Some((condition, facts, parts))
    }

    /// `&&` for the `||` of a condition that holds, and the other way round of one that fails, where every part of it is
    /// known then, and the position is inside.
    pub(super) fn joined(&self, plain: &Facts, outside: &Outside<'_>) -> Option<Fix> {
        let mut inner = self.conditions.iter().rev();
        let (condition, parts) = inner.find_map(|c| {
            let op = if c.holds { BinaryOp::Or } else { BinaryOp::And };
            let parts = chained(unheld(c.test), op);
            (parts.len() > 1).then_some((c, parts))
        })?;
        let mut facts = plain.clone();
        for outer in &self.conditions {
            let bounds = self.bounds(outer.test, outer.holds);
            bounds.iter().for_each(|bound| facts.assume_nonneg(bound));
        }
        for part in &parts {
            let ExprKind::Binary(BinaryOp::Cmp(cmp), a, b) = &unheld(part).kind else {
                continue;
            };
            if let (Some(a), Some(b)) = (self.poly(a), self.poly(b)) {
                let said = if condition.holds { *cmp } else { cmp.negated() };
                let cmp = match said {
                    CmpOp::Ne if facts.holds(&a, CmpOp::Le, &b) => CmpOp::Lt,
                    CmpOp::Ne if facts.holds(&a, CmpOp::Ge, &b) => CmpOp::Gt,
                    cmp => cmp,
                };
                facts.assume(&a, cmp, &b);
            }
        }
        let inside = !facts.is_excluded() && facts.inside(outside.at, outside.extent);
        let op = if condition.holds { "&&" } else { "||" };
        inside.then(|| {
            let shown: Vec<String> = parts.iter().map(|part| part.to_string()).collect();
            let help = format!("did you mean `{}`?", shown.join(&format!(" {op} ")));
            let between = parts.windows(2).map(|two| {
                let place = Span::new(two[0].span.end, two[1].span.start);
                (place, format!(" {op} "))
            });
            let edits = between.collect();
            Fix { help, edits }
        })
    }

    /// Does what the other branch reads stay inside by the innermost condition, as it is?
    pub(super) fn settle(&self, plain: &Facts) -> bool {
        let Some((condition, mut facts, _)) = self.innermost(plain) else {
            return false;
        };
        let bounds = self.bounds(condition.test, !condition.holds);
        bounds.iter().for_each(|bound| facts.assume_nonneg(bound));
        !condition.reads.is_empty() && !bounds.is_empty() && self.all_inside(condition, &facts)
    }

    /// Does what the other branch reads stay inside?
    fn all_inside(&self, condition: &Condition<'_>, facts: &Facts) -> bool {
        let mut reads = condition.reads.iter();
        reads.all(|(e, extent)| self.poly(e).is_some_and(|at| facts.inside(&at, extent)))
    }

    /// The innermost condition with another comparison in it, which keeps the position inside, and
    /// those of the other branch.
    pub(super) fn compared(&self, plain: &Facts, outside: &Outside<'_>) -> Option<Fix> {
        let (condition, facts, parts) = self.innermost(plain)?;
        for (nth, part) in parts.iter().enumerate() {
            let ExprKind::Binary(BinaryOp::Cmp(cmp), a, b) = &part.kind else {
                continue;
            };
            let (Some(left), Some(right)) = (self.poly(a), self.poly(b)) else {
                continue;
            };
            let rest = parts.iter().enumerate().filter(|(other, _)| *other != nth);
            let rest = rest.flat_map(|(_, e)| self.bounds(e, condition.holds));
            let mut others = facts.clone();
            rest.for_each(|bound| others.assume_nonneg(&bound));
            let with = |cmp: CmpOp, holds: bool| {
                let cmp = if holds { cmp } else { cmp.negated() };
                if others.refuted(&left, cmp, &right) {
                    return None;
                }
                let mut known = if holds == condition.holds {
                    others.clone()
                } else {
                    facts.clone()
                };
                known.assume(&left, cmp, &right);
                Some(known)
            };
            let right_one = |cmp: &CmpOp| {
                let here = with(*cmp, condition.holds);
                let reads = || {
                    let Some(there) = with(*cmp, !condition.holds) else {
                        return false;
                    };
                    self.all_inside(condition, &there)
                };
                let inside = here.is_some_and(|facts| facts.inside(outside.at, outside.extent));
                inside && (condition.reads.is_empty() || parts.len() == 1 && reads())
            };
            if let Some(cmp) = alternatives(*cmp).iter().find(|cmp| right_one(cmp)) {
                let text = format!("{a} {} {b}", BinaryOp::Cmp(*cmp).symbol());
                let changed = |(at, e): (usize, &&'e Expr)| Part {
                    e,
                    new: (at == nth).then(|| (text.clone(), Dim::from(0))),
                };
                let parts = parts.iter().enumerate().map(changed).collect();
                return Self::edit(condition, parts, Vec::new());
            }
        }
        None
    }

    /// The innermost condition with that in it which keeps the position inside; `plain` knows the
    /// ranges of the indices.
    pub(super) fn corrected(&self, plain: &Facts, outside: &Outside<'_>) -> Option<Fix> {
        let (condition, facts, parts) = self.innermost(plain)?;
        let mut parts: Vec<Part<'_>> = parts.into_iter().map(|e| Part { e, new: None }).collect();
        let mut more = Vec::new();
        let last = &(outside.extent - outside.at) - &Dim::from(1);
        for (side, low) in [(outside.at, true), (&last, false)] {
            let mut known = facts.clone();
            for part in &parts {
                let bounds = self.said(part, condition.holds);
                bounds.iter().for_each(|bound| known.assume_nonneg(bound));
            }
            if known.nonneg(side) {
                continue;
            }
            let text = match (low, condition.holds) {
                (true, holds) => {
                    let (left, right) = super::outside::sides(side);
                    format!("{left} {} {right}", if holds { ">=" } else { "<" })
                }
                (false, true) => format!("{} < {}", outside.text, outside.extent),
                (false, false) => format!("{} >= {}", outside.text, outside.extent),
            };
            let wrong = parts.iter_mut().find(|part| {
                let bounds = match (&part.new, &part.e.kind) {
                    (None, ExprKind::Binary(BinaryOp::Cmp(cmp), ..)) if *cmp != CmpOp::Eq => {
                        self.bounds(part.e, condition.holds)
                    }
                    _ => Vec::new(),
                };
                let mut bounds = bounds.iter();
                bounds.any(|bound| {
                    self.instead(bound, side, &facts)
                        && !self.is_needed(condition, bound, side, &facts)
                })
            });
            match wrong {
                Some(part) => part.new = Some((text, side.clone())),
                // What the rest excludes is no condition more.
                None if condition.holds && !known.refuted(side, CmpOp::Ge, &Dim::from(0)) => {
                    more.push((text, side.clone()));
                }
                None => return None,
            }
        }
        let mut known = facts.clone();
        let said = parts
            .iter()
            .flat_map(|part| self.said(part, condition.holds));
        let said = said.chain(more.iter().map(|(_, side)| side.clone()));
        said.for_each(|bound| known.assume_nonneg(&bound));
        // A branch that relied on the old condition would be wrong in its turn.
        let relied = match condition.holds {
            false => condition.other.is_some_and(shifts),
            true => {
                !condition.reads.is_empty() && {
                    let mut there = facts;
                    if let (
                        [
                            Part {
                                new: Some((_, side)),
                                ..
                            },
                        ],
                        [],
                    ) = (&parts[..], &more[..])
                    {
                        there.assume_nonneg(&-&(side + &Dim::from(1)));
                    }
                    !self.all_inside(condition, &there)
                }
            }
        };
        if relied || !known.nonneg(outside.at) || !known.nonneg(&last) {
            return None;
        }
        Self::edit(condition, parts, more)
    }

    /// The last position in place of the one behind it, in a condition that tells the ends of an
    /// axis apart: `i == N` never holds.
    pub(super) fn last(&self, plain: &Facts, outside: &Outside<'_>) -> Option<Fix> {
        let mut facts = plain.clone();
        let mut wrong = Vec::new();
        for (e, a, b) in self.conditions.iter().flat_map(|c| self.unequal(c)) {
            let (a, b) = match facts.holds(&b, CmpOp::Lt, &a) {
                true => (b, a),
                false => (a, b),
            };
            let (below, past) = (facts.holds(&a, CmpOp::Lt, &b), &b - &Dim::from(1));
            let apart = match below && !facts.holds(&a, CmpOp::Lt, &past) {
                true => past.clone(),
                false => b,
            };
            if below && apart == past {
                let at_end = |e: &Expr| self.poly(e).is_some_and(|d| &d - &Dim::from(1) == past);
                let ExprKind::Binary(_, left, right) = &e.kind else {
                    continue;
                };
                let end = [right, left].into_iter().find(|e| at_end(e))?;
                wrong.push((end.span, past.to_string()));
            }
            if facts.holds(&a, CmpOp::Le, &apart) {
                facts.assume(&a, CmpOp::Lt, &apart);
            } else if facts.holds(&a, CmpOp::Ge, &apart) {
                facts.assume(&a, CmpOp::Gt, &apart);
            }
        }
        let [first, ..] = &wrong[..] else { return None };
        facts.inside(outside.at, outside.extent).then(|| Fix {
            help: format!("the last position is `{}`", first.1),
            edits: wrong.clone(),
        })
    }

    /// Comparisons in a condition by which two values are not equal at the access.
    fn unequal(&self, condition: &Condition<'e>) -> Vec<(&'e Expr, Dim, Dim)> {
        let (op, cmp) = match condition.holds {
            true => (BinaryOp::And, CmpOp::Ne),
            false => (BinaryOp::Or, CmpOp::Eq),
        };
        let mut out = Vec::new();
        let mut open = vec![condition.test];
        while let Some(e) = open.pop() {
            match &e.kind {
                ExprKind::Paren(inner) => open.push(inner),
                ExprKind::Binary(other, a, b) if *other == op => open.extend([&**a, &**b]),
                ExprKind::Binary(BinaryOp::Cmp(other), a, b) if *other == cmp => {
                    let (a, b) = (self.poly(a), self.poly(b));
                    out.extend(a.zip(b).map(|(a, b)| (e, a, b)));
                }
                _ => {}
            }
        }
        out
    }

    fn edit(
        condition: &Condition<'_>,
        parts: Vec<Part<'_>>,
        more: Vec<(String, Dim)>,
    ) -> Option<Fix> {
        let or = matches!(&condition.test.kind, ExprKind::Binary(BinaryOp::Or, ..));
        let mut shown: Vec<String> = Vec::new();
        let mut edits = Vec::new();
        let alone = parts.len() == 1;
        for part in parts {
            match part.new {
                Some((text, _)) => {
                    edits.push((part.e.span, text.clone()));
                    shown.push(text);
                }
                None if alone && or => {
                    let (start, end) = (part.e.span.start, part.e.span.end);
                    edits.push((Span::new(start, start), "(".into()));
                    edits.push((Span::new(end, end), ")".into()));
                    shown.push(format!("({})", part.e));
                }
                None => shown.push(part.e.to_string()),
            }
        }
        let end = condition.test.span.end;
        let more: Vec<String> = more.into_iter().map(|(text, _)| text).collect();
        if !more.is_empty() {
            let text = format!(" && {}", more.join(" && "));
            match edits.last_mut().filter(|(span, _)| span.end == end) {
                Some((_, last)) => *last += &text,
                None => edits.push((Span::new(end, end), text)),
            }
        }
        shown.extend(more);
        let help = format!("did you mean `{}`?", shown.join(" && "));
        (!edits.is_empty()).then_some(Fix { help, edits })
    }

    /// What a part of a condition says, or what stands in its place.
    fn said(&self, part: &Part<'_>, holds: bool) -> Vec<Dim> {
        match &part.new {
            None => self.bounds(part.e, holds),
            Some((_, side)) => vec![side.clone()],
        }
    }

    /// Does a read in the branch stay inside only by this bound, which is about other indices than the wanted one?
    fn is_needed(
        &self,
        condition: &Condition<'_>,
        bound: &Dim,
        wanted: &Dim,
        facts: &Facts,
    ) -> bool {
        let (about, wanted) = (self.indices_of(bound), self.indices_of(wanted));
        about.is_disjoint(&wanted)
            && condition.here.iter().any(|(e, extent)| {
                let at = self
                    .poly(e)
                    .filter(|at| !self.indices_of(at).is_disjoint(&about));
                at.is_some_and(|at| !facts.inside(&at, extent))
            })
    }

    /// Is the bound meant to be the other: does it bound the same index from the same side, or
    /// contradict it, or bound an index that is none of its own?
    fn instead(&self, bound: &Dim, wanted: &Dim, facts: &Facts) -> bool {
        let slopes = |d: &Dim| -> BTreeMap<Arc<str>, i64> {
            let linear = d.terms().filter_map(|(monomial, factor)| match monomial {
                [Atom::Sym(s)] => Some((s.clone(), factor)),
                _ => None,
            });
            linear.filter(|(s, _)| self.indices.contains(s)).collect()
        };
        let (bound_slopes, wanted_slopes) = (slopes(bound), slopes(wanted));
        let mut shared = bound_slopes
            .iter()
            .filter_map(|(s, a)| Some((a, wanted_slopes.get(s)?)))
            .peekable();
        if shared.peek().is_none() {
            // Of another index, it is the same of that one.
            let [(index, _)] = bound_slopes.iter().collect::<Vec<_>>()[..] else {
                return false;
            };
            let mut meant = wanted_slopes.keys().map(|s| Dim::sym(s.clone()));
            return meant.any(|meant| {
                let put = |s: &str| (*s == **index).then(|| meant.clone());
                bound
                    .try_substitute(&put)
                    .is_some_and(|bound| bound == *wanted)
            });
        }
        let same = shared.all(|(a, b)| a.signum() == b.signum());
        let mut with = facts.clone();
        with.assume_nonneg(bound);
        same || with.refuted(wanted, CmpOp::Ge, &Dim::from(0))
    }
}

/// Comparisons that may be meant in place of one: with the equal case or without, then the other way
/// round.
fn alternatives(cmp: CmpOp) -> [CmpOp; 3] {
    match cmp {
        CmpOp::Lt => [CmpOp::Le, CmpOp::Gt, CmpOp::Ge],
        CmpOp::Le => [CmpOp::Lt, CmpOp::Ge, CmpOp::Gt],
        CmpOp::Gt => [CmpOp::Ge, CmpOp::Lt, CmpOp::Le],
        CmpOp::Ge => [CmpOp::Gt, CmpOp::Le, CmpOp::Lt],
        other => [other; 3],
    }
}

/// A part of a condition, with what is to stand in its place, and what that says.
struct Part<'e> {
    e: &'e Expr,
    new: Option<(String, Dim)>,
}

/// The operands of a chain of one operator.
fn chained(e: &Expr, op: BinaryOp) -> Vec<&Expr> {
    match &e.kind {
        ExprKind::Binary(own, a, b) if *own == op => {
            let a = chained(a, op);
            a.into_iter().chain(chained(b, op)).collect()
        }
        _ => vec![e],
    }
}

/// The parts of a conjunction, without brackets around them all.
fn conjuncts(e: &Expr) -> Vec<&Expr> {
    chained(e, BinaryOp::And)
}

fn unheld(e: &Expr) -> &Expr {
    match &e.kind {
        ExprKind::Paren(inner) => unheld(inner),
        _ => e,
    }
}

/// Does an expression read at a position that is not an index alone?
fn shifts(e: &Expr) -> bool {
    let here = matches!(&e.kind, ExprKind::Access { subs, default: None, .. }
        if subs.iter().any(|sub| !matches!(sub, Sub::Expr(e) if matches!(e.kind, ExprKind::Name(_)))));
    here || e.children().into_iter().any(shifts)
}

/// The positions in what an expression reads that are no index alone, with the extents of their axes.
fn reads<'e>(cx: &BodyCx<'_>, e: &'e Expr) -> Vec<(&'e Expr, Dim)> {
    let mut out = Vec::new();
    if let ExprKind::Access {
        place,
        subs,
        default: None,
    } = &e.kind
        && let Some(t) = cx.type_of(place)
    {
        let shifted = subs.iter().zip(t.axes).filter_map(|(sub, axis)| match sub {
            Sub::Expr(e) if !matches!(e.kind, ExprKind::Name(_)) => Some((e, axis)),
            _ => None,
        });
        out.extend(shifted);
    }
    let children = e.children().into_iter();
    out.extend(children.flat_map(|e| reads(cx, e)));
    out
}

/// The sizes that an expression names.
fn sizes(cx: &BodyCx<'_>, e: &Expr, out: &mut BTreeMap<String, Dim>) {
    if let ExprKind::Name(place) = &e.kind
        && place.fields.is_empty()
    {
        let text = place.to_string();
        let known = cx.dims.known(&place.path);
        let size = known.or_else(|| is_const(&place.path).then(|| Dim::sym(text.as_str())));
        out.extend(size.map(|size| (text, size)));
    }
    e.children().into_iter().for_each(|e| sizes(cx, e, out));
}
