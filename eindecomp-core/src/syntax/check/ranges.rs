//! Every access stays in bounds, or carries its `else`.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::body::BodyCx;
use super::extents::{Access, Uses};
use super::fixes::range;
use super::guards::{self, Guards};
use super::ops::is_comparison;
use super::padding::pad;
use super::prove::{Equality, Facts};
use super::together::{Kind, Outside, together};
use super::tree::{Clause, Expr, ExprKind, Index, IndexId, Mixed, Origin, Read, Sub};
use crate::ein::dim::Atom;
use crate::ein::{Dim, ScalarFn, Value};
use crate::syntax::ast::CmpOp;
use crate::syntax::diag::{Code, Diag, Fix};
use crate::syntax::token::Span;

/// An integer expression over dims and indices (by name) as a polynomial.
pub(super) fn poly(e: &Expr, names: &[Arc<str>]) -> Option<Dim> {
    match &e.kind {
        ExprKind::Index(id) => Some(Dim::sym(names[id.at()].clone())),
        ExprKind::Dim(dim) => Some(dim.clone()),
        ExprKind::Lit(Value::Int(n)) => Some(Dim::from(*n)),
        ExprKind::Cast(inner) if e.dtype.is_int() && inner.dtype.is_int() => poly(inner, names),
        ExprKind::Call(f, args) => {
            let args: Option<Vec<Dim>> = args.iter().map(|a| poly(a, names)).collect();
            match (*f, &args?[..]) {
                (ScalarFn::ADD, [a, b]) => Some(a + b),
                (ScalarFn::SUB, [a, b]) => Some(a - b),
                (ScalarFn::MUL, [a, b]) => a.try_mul(b),
                (ScalarFn::NEG, [a]) => Some(-a),
                (ScalarFn::DIV, [a, b]) => Some(a.floor_div(b)),
                (ScalarFn::REM, [a, b]) => Some(a.rem(b)),
                _ => None,
            }
        }
        _ => None,
    }
}

/// Accesses as written, by place.
pub(super) type Accesses = BTreeMap<Span, Arc<Access>>;

/// What indices are used for, and the extents that the declared result gives to those that have no
/// `in`.
type Meant<'w> = Option<(&'w Uses, &'w BTreeMap<IndexId, Dim>)>;

/// Checks every read of a statement's value, and notes those that need a guard.
pub(super) fn prove(
    cx: &mut BodyCx<'_>,
    indices: &[Index],
    left: &[Vec<IndexId>],
    value: &mut Expr,
    accesses: &Accesses,
    meant: Meant<'_>,
) -> Option<()> {
    walk(cx, indices, left, value, accesses, (false, meant))
}

/// Checks that a store stays in bounds as far as dims decide it; `target` is it as a read.
pub(super) fn prove_store(
    cx: &mut BodyCx<'_>,
    indices: &[Index],
    left: &[Vec<IndexId>],
    target: &mut Expr,
    accesses: &Accesses,
) -> Option<()> {
    walk(cx, indices, left, target, accesses, (true, None))
}

fn walk(
    cx: &mut BodyCx<'_>,
    indices: &[Index],
    left: &[Vec<IndexId>],
    value: &mut Expr,
    accesses: &Accesses,
    (stores, meant): (bool, Meant<'_>),
) -> Option<()> {
    let before = cx.errors.len();
    let names: Vec<Arc<str>> = indices.iter().map(|i| i.name.clone()).collect();
    let mut plain = cx.facts.clone();
    for id in left.iter().flatten() {
        let index = &indices[id.at()];
        index_facts(&mut plain, &index.name, &index.extent);
    }
    let active = left.iter().flatten().copied().collect();
    let mut walk = Walk {
        cx,
        indices,
        names,
        active,
        accesses,
        stores,
        meant,
        outside: Vec::new(),
    };
    walk.expr(value, &plain, &plain);
    let outside = walk.outside;
    cx.errors.extend(together(outside));
    (cx.errors.len() == before).then_some(())
}

/// An index is below its extent, which is then at least 1.
pub(super) fn index_facts(facts: &mut Facts, name: &Arc<str>, extent: &Dim) {
    let last = extent - &Dim::from(1);
    facts.assume_nonneg(&(&last - &Dim::sym(name.clone())));
    facts.assume_nonneg(&last);
}

/// The conditions that keep the position `at`, written `text`, inside of an axis, as far as the
/// facts leave them open.
pub(super) fn inside(facts: &Facts, text: &str, at: &Dim, extent: &Dim) -> Vec<String> {
    let mut open = Vec::new();
    if !facts.nonneg(at) {
        let (left, right) = sides(at);
        open.push(format!("{left} >= {right}"));
    }
    if !facts.holds(at, CmpOp::Lt, extent) {
        open.push(format!("{text} < {extent}"));
    }
    open
}

struct Walk<'w, 'a> {
    cx: &'w mut BodyCx<'a>,
    indices: &'w [Index],
    names: Vec<Arc<str>>,
    /// Indices in scope.
    active: Vec<IndexId>,
    accesses: &'w Accesses,
    /// Is it written, not read? There is no value outside then.
    stores: bool,
    meant: Meant<'w>,
    /// Reads that leave their axis.
    outside: Vec<Outside>,
}

impl Walk<'_, '_> {
    /// `plain` knows the indices in scope, `guarded` the conditions around here too.
    fn expr(&mut self, e: &mut Expr, plain: &Facts, guarded: &Facts) {
        let span = e.span;
        match &mut e.kind {
            ExprKind::Lit(_)
            | ExprKind::Host(_)
            | ExprKind::Index(_)
            | ExprKind::Dim(_)
            | ExprKind::Arg(_) => {}
            ExprKind::Tuple(items) => {
                items.iter_mut().for_each(|e| self.expr(e, plain, guarded));
            }
            ExprKind::Cast(inner) => self.expr(inner, plain, guarded),
            ExprKind::Call(ScalarFn::AND, args) => {
                let mut inner = guarded.clone();
                for arg in args {
                    self.expr(arg, plain, &inner);
                    self.assume(&mut inner, arg, true);
                }
            }
            ExprKind::Call(_, args) => {
                args.iter_mut().for_each(|e| self.expr(e, plain, guarded));
            }
            ExprKind::If(cond, a, b) => {
                self.expr(cond, plain, guarded);
                let (mut yes, mut no) = (guarded.clone(), guarded.clone());
                self.assume(&mut yes, cond, true);
                self.assume(&mut no, cond, false);
                self.expr(a, plain, &yes);
                self.expr(b, plain, &no);
            }
            ExprKind::Reduce(reduce) => {
                let (mut plain, mut guarded) = (plain.clone(), guarded.clone());
                for id in &reduce.indices {
                    let index = &self.indices[id.at()];
                    index_facts(&mut plain, &index.name, &index.extent);
                    index_facts(&mut guarded, &index.name, &index.extent);
                }
                let depth = self.active.len();
                self.active.extend(&reduce.indices);
                if let Some(filter) = &mut reduce.filter {
                    self.expr(filter, &plain, &guarded);
                    self.assume(&mut guarded, filter, true);
                }
                self.expr(&mut reduce.body, &plain, &guarded);
                self.active.truncate(depth);
            }
            ExprKind::Read(read) => {
                for sub in &mut read.subs {
                    match sub {
                        Sub::Expr(e) => self.expr(e, plain, guarded),
                        Sub::Mixed(mixed) => {
                            let members = mixed.members.iter_mut();
                            members.for_each(|e| self.expr(e, plain, guarded));
                        }
                        Sub::Merged(..) => {}
                    }
                }
                self.read(read, span, plain, guarded);
            }
        }
    }

    /// Takes an affine condition as given, or its negation.
    fn assume(&self, facts: &mut Facts, cond: &Expr, truth: bool) {
        let ExprKind::Call(f, args) = &cond.kind else {
            return;
        };
        if *f == ScalarFn::AND && truth {
            args.iter().for_each(|arg| self.assume(facts, arg, true));
        }
        if *f == ScalarFn::NOT {
            self.assume(facts, &args[0], !truth);
        }
        if !is_comparison(cond) {
            return;
        }
        let cmp = match (*f, truth) {
            (ScalarFn::EQ, true) => CmpOp::Eq,
            (ScalarFn::LT, true) | (ScalarFn::GE, false) => CmpOp::Lt,
            (ScalarFn::LE, true) | (ScalarFn::GT, false) => CmpOp::Le,
            (ScalarFn::GT, true) | (ScalarFn::LE, false) => CmpOp::Gt,
            (ScalarFn::GE, true) | (ScalarFn::LT, false) => CmpOp::Ge,
            _ => return,
        };
        if let (Some(a), Some(b)) = (poly(&args[0], &self.names), poly(&args[1], &self.names)) {
            facts.assume(&a, cmp, &b);
        }
    }

    fn read(&mut self, read: &mut Read, span: Span, plain: &Facts, guarded: &Facts) {
        let Some(t) = read.place.ty.tensor().cloned() else {
            return;
        };
        if read.otherwise.is_some() {
            return;
        }
        let mut needed = false;
        for (axis, (sub, extent)) in read.subs.iter_mut().zip(&t.axes).enumerate() {
            match sub {
                Sub::Merged(..) => {}
                Sub::Expr(e) => {
                    needed |= self.position(e, extent, (span, axis), true, (plain, guarded));
                }
                Sub::Mixed(mixed) => {
                    let Some(extents) = self.member_extents(mixed, extent) else {
                        continue;
                    };
                    mixed.extents = extents;
                    for (e, extent) in mixed.members.iter().zip(&mixed.extents) {
                        let bare = matches!(e.kind, ExprKind::Index(_));
                        needed |= !bare
                            && self.position(e, extent, (span, axis), false, (plain, guarded));
                    }
                }
            }
        }
        read.guarded |= needed;
    }

    /// Is the position in range only by the conditions around it? One that is not at all is
    /// reported.
    fn position(
        &mut self,
        e: &Expr,
        extent: &Dim,
        (span, axis): (Span, usize),
        whole: bool,
        (plain, guarded): (&Facts, &Facts),
    ) -> bool {
        // Most accesses are by the axis's own index, which needs no proof.
        let own = matches!(&e.kind, ExprKind::Index(id)
            if self.active.contains(id) && self.indices[id.at()].extent == *extent);
        if own || data_dependent(e) || self.inside(e, extent, plain) {
            return false;
        }
        if self.inside(e, extent, guarded) {
            return true;
        }
        self.outside(e, (span, axis), whole, extent, (plain, guarded));
        false
    }

    /// The extents of the members of a merged axis: those of indices are known, and leave that of
    /// one member with arithmetic.
    fn member_extents(&mut self, mixed: &Mixed, axis: &Dim) -> Option<Vec<Dim>> {
        let index = |e: &Expr| match e.kind {
            ExprKind::Index(id) => Some(self.indices[id.at()].extent.clone()),
            _ => None,
        };
        let known: Vec<Option<Dim>> = mixed.members.iter().map(index).collect();
        let open = known.iter().filter(|extent| extent.is_none()).count();
        if open > 1 {
            let text = "several members of this merged axis have arithmetic in them, so their extents are unknown";
            let diag = Diag::new(Code::UnknownExtent, mixed.span, text);
            let help = "give all but one of them an index of its own";
            self.cx.errors.push(diag.help(help));
            return None;
        }
        let product = Dim::try_product(known.iter().flatten())?;
        let (remainder, zero) = (axis.rem(&product), Dim::from(0));
        if !self.cx.facts.holds(&remainder, CmpOp::Eq, &zero) {
            let text = format!("`{product}`, the other members, may not divide the axis `{axis}`");
            let diag = Diag::new(Code::MergedAxis, mixed.span, text);
            if !self.cx.dims.only_consts(&remainder) {
                let fix = self.cx.add_clause(&remainder, CmpOp::Eq, &zero);
                let help = format!("{axis} is a multiple of {product}");
                let diag = match fix {
                    Some(fix) => diag.fix(fix),
                    None => diag.help(help),
                };
                self.cx.errors.push(diag);
                return None;
            }
            let clause = Clause {
                left: remainder,
                cmp: CmpOp::Eq,
                right: zero,
                origin: Origin::Access("the merged axis".into()),
                span: mixed.span,
            };
            self.cx.require_or(clause, diag);
        }
        let rest = self.cx.facts.normal(&axis.floor_div(&product));
        let extents = known.into_iter();
        Some(extents.map(|e| e.unwrap_or_else(|| rest.clone())).collect())
    }

    fn inside(&self, e: &Expr, extent: &Dim, facts: &Facts) -> bool {
        self.at_least_0(e, facts) && self.below(e, extent, facts)
    }

    fn at_least_0(&self, e: &Expr, facts: &Facts) -> bool {
        let each = |args: &[Expr]| {
            args.iter()
                .map(|a| self.at_least_0(a, facts))
                .collect::<Vec<_>>()
        };
        match &e.kind {
            ExprKind::Call(ScalarFn::MAX, args) => each(args).contains(&true),
            ExprKind::Call(ScalarFn::MIN, args) => !each(args).contains(&false),
            ExprKind::Call(ScalarFn::CLAMP, args) => {
                let ok = each(args);
                (ok[0] || ok[1]) && ok[2]
            }
            _ => poly(e, &self.names).is_some_and(|p| facts.nonneg(&p)),
        }
    }

    fn below(&self, e: &Expr, extent: &Dim, facts: &Facts) -> bool {
        let each = |args: &[Expr]| {
            args.iter()
                .map(|a| self.below(a, extent, facts))
                .collect::<Vec<_>>()
        };
        match &e.kind {
            ExprKind::Call(ScalarFn::MAX, args) => !each(args).contains(&false),
            ExprKind::Call(ScalarFn::MIN, args) => each(args).contains(&true),
            ExprKind::Call(ScalarFn::CLAMP, args) => {
                let ok = each(args);
                ok[2] || (ok[0] && ok[1])
            }
            _ => poly(e, &self.names).is_some_and(|p| facts.holds(&p, CmpOp::Lt, extent)),
        }
    }

    /// A position that was not proved, of a `whole` axis or of a member of a merged one: an obligation over consts, or an error.
    fn outside(
        &mut self,
        e: &Expr,
        (span, axis): (Span, usize),
        whole: bool,
        extent: &Dim,
        (plain, facts): (&Facts, &Facts),
    ) {
        let one = Dim::from(1);
        let Some(access) = self.accesses.get(&span).cloned() else {
            return;
        };
        let text = &access.subs[axis];
        let at = poly(e, &self.names);
        let names = self.names.clone();
        let guards = Guards::of(self.cx, span, &names);
        let end = |low: bool| {
            let at = at.as_ref()?;
            let (told, own) = (guards.end(at, low), self.endpoint(at, facts, &guards, low));
            let cmp = if low { CmpOp::Le } else { CmpOp::Ge };
            let looser = |told: &Dim| own.as_ref().is_some_and(|own| facts.holds(told, cmp, own));
            told.filter(|told| !looser(told)).or(own)
        };
        let (low, high) = (end(true), end(false));
        let left: Vec<Option<Dim>> = vec![
            low.clone(),
            high.as_ref().map(|high| &(extent - high) - &one),
        ];
        let mut open = Vec::new();
        for residual in &left {
            let Some(residual) = residual else {
                open.push(None);
                continue;
            };
            if facts.nonneg(residual) {
                continue;
            }
            if self.cx.dims.only_consts(residual) {
                let (left, right) = sides(residual);
                let origin = Origin::Access(access.to_string().into());
                self.cx.require(Clause {
                    left,
                    cmp: CmpOp::Ge,
                    right,
                    origin,
                    span: e.span,
                });
                continue;
            }
            open.push(Some(residual.clone()));
        }
        if open.is_empty() {
            return;
        }
        let tensor = &access.place;
        let zero = Dim::from(0);
        let never = |d: &&Dim| facts.refuted(d, CmpOp::Ge, &zero);
        let range = match (&low, &high) {
            (Some(low), Some(high)) if low == high => {
                let out = left.iter().flatten().any(|d| never(&d));
                let may = if out { "is" } else { "may be" };
                format!("{may} outside")
            }
            (Some(low), Some(high)) => format!("ranges over {low}..={high}, outside"),
            _ => "may be outside".to_owned(),
        };
        let message = match whole {
            true => format!("`{text}` {range} axis {axis} of `{tensor}` (0..{extent})"),
            false => format!("this member of `{text}` {range} its part of the axis (0..{extent})"),
        };
        let diag = Diag::new(Code::OutOfRange, e.span, message);
        let clauses: Option<Vec<(Dim, CmpOp, Dim)>> = open
            .iter()
            .map(|residual| {
                let residual = residual.as_ref()?;
                let known = residual.as_const().is_some();
                // What is no plain inequality of sizes is hardly what is meant.
                let plain = |(atoms, _): (&[Atom], i64)| matches!(atoms, [] | [Atom::Sym(_)]);
                let plain = residual.terms().all(plain);
                let (left, right) = sides(residual);
                (plain && !known).then_some((left, CmpOp::Ge, right))
            })
            .collect();
        let clauses = clauses.and_then(|clauses| self.cx.add_clauses(&clauses));
        // One position that is outside whatever the sizes are has no use for padding.
        let never = low == high && left.iter().flatten().any(|d| never(&d));
        let in_part = at.as_ref().and_then(|at| self.in_part(at, extent));
        let declared = self.as_declared(&at) && in_part.is_none();
        let corrected = at.as_ref().filter(|_| declared).and_then(|at| {
            let outside = guards::Outside { text, at, extent };
            guards.corrected(plain, &outside)
        });
        let guarded = corrected.is_some();
        let padded = whole && !never && !guarded && !self.stores && self.as_declared(&at);
        let inside = at.as_ref().map(|at| inside(facts, text, at, extent));
        let pads = inside
            .filter(|_| padded)
            .map(|inside| pad(self.cx, &access, &inside));
        let pads = pads.into_iter().flatten();
        let starts_inside = low.is_some_and(|low| facts.nonneg(&low)) && in_part.is_none();
        let clauses = clauses.filter(|_| !guarded);
        let last = self.last(e, &at, extent, facts);
        let kinds = [
            (Kind::Guard, corrected),
            (Kind::Element, last),
            (Kind::Clause, clauses),
            (Kind::Range, in_part),
        ];
        let fixes = kinds
            .into_iter()
            .filter_map(|(kind, fix)| Some((kind, fix?)));
        let fixes = fixes.chain(pads.map(|fix| (Kind::Pad, fix))).collect();
        let shorter = high
            .filter(|_| starts_inside && !guarded)
            .and_then(|high| self.shorter(&at?, &(&high - extent)));
        let diag = match shorter {
            Some(help) => diag.help(help),
            None if !whole => diag.help("read it under an `if` that keeps the member in range"),
            None => diag,
        };
        self.outside.push(Outside {
            access,
            diag,
            fixes,
        });
    }

    /// `x[-1]` and `x[N]` are meant to be the last element.
    fn last(&self, e: &Expr, at: &Option<Dim>, extent: &Dim, facts: &Facts) -> Option<Fix> {
        let at = at.as_ref()?;
        let back = match at.as_const() {
            Some(n) if n < 0 => n,
            _ if at == extent => -1,
            _ => return None,
        };
        // `x[N]`, where `n` runs over the axis.
        let own = extent.as_symbol().map(|symbol| symbol.to_lowercase());
        let mut active = self.active.iter().map(|id| &self.indices[id.at()]);
        let own = own.filter(|own| active.any(|i| *i.name == **own && i.extent == *extent));
        if let Some(own) = own.filter(|_| at == extent) {
            return Some(Fix::replace(e.span, own, "did you mean {}?"));
        }
        let meant = extent + &Dim::from(back);
        let fix = Fix::replace(e.span, meant.to_string(), "did you mean {}?");
        if facts.nonneg(&meant) {
            return Some(fix);
        }
        let clause = self.cx.add_clause(extent, CmpOp::Ge, &Dim::from(-back))?;
        let help = format!("{} Then {}", fix.help, clause.help);
        let edits = [fix.edits, clause.edits].concat();
        Some(Fix { help, edits })
    }

    /// The index of a position whose extent is not that of the declared result.
    fn undeclared(&self, at: &Dim) -> Option<(IndexId, &Dim)> {
        let symbols = at.symbols();
        let (_, wanted) = self.meant?;
        let mut wanted = wanted.iter().map(|(id, extent)| (*id, extent));
        wanted.find(|(id, extent)| {
            let index = &self.indices[id.at()];
            let equal = self.cx.facts.equality(&index.extent, extent);
            symbols.contains(&index.name) && !matches!(equal, Equality::Equal)
        })
    }

    /// Have the indices of a position the extents of the declared result?
    fn as_declared(&self, at: &Option<Dim>) -> bool {
        at.as_ref().is_none_or(|at| self.undeclared(at).is_none())
    }

    /// The index of a position runs over the declared result's axis, and over parts of others, if
    /// the position then is inside.
    fn in_part(&self, at: &Dim, axis: &Dim) -> Option<Fix> {
        let (id, wanted) = self.undeclared(at)?;
        let name = &self.indices[id.at()].name;
        let mut facts = self.cx.facts.clone();
        for other in &self.active {
            let index = &self.indices[other.at()];
            let extent = if *other == id { wanted } else { &index.extent };
            index_facts(&mut facts, &index.name, extent);
        }
        let bare = self.meant?.0.bare.iter().filter(|u| u.index == id);
        let longer: Vec<_> = bare
            .filter(|u| !matches!(facts.equality(&u.extent, wanted), Equality::Equal))
            .collect();
        let inside = facts.nonneg(at) && facts.holds(at, CmpOp::Lt, axis);
        let parts = |extent: &Dim| facts.holds(wanted, CmpOp::Le, extent);
        if !inside || !longer.iter().all(|u| parts(&u.extent)) {
            return None;
        }
        let mut fix = range(name, self.indices[id.at()].span, &wanted.to_string());
        if let Some(first) = longer.first() {
            let read = first.access.to_string();
            fix.help += &format!(", and `0 + {name}` to read a part of `{read}`");
        }
        fix.edits.extend(
            longer
                .iter()
                .map(|u| (Span::new(u.span.start, u.span.start), "0 + ".into())),
        );
        Some(fix)
    }

    /// The range of an index, of one on the left first, with which the position `at`, which is `over`
    /// past the last element, would stay inside.
    fn shorter(&self, at: &Dim, over: &Dim) -> Option<String> {
        let over = over.as_const().filter(|n| *n >= 0)? + 1;
        let mut declared = self.active.iter().map(|id| &self.indices[id.at()]);
        let index = declared.find(|index| {
            let rest = at - &Dim::sym(index.name.clone());
            let alone = !rest.symbols().contains(&index.name);
            alone && index.extent.as_const().is_none() && !self.cx.is_declared(index.span)
        })?;
        let extent = &index.extent - &Dim::from(over);
        Some(format!(
            "or shorten its range: `{} in {extent}`",
            index.name
        ))
    }

    /// The smallest or largest value by the endpoints of every index, as a polynomial of dims.
    fn endpoint(&self, p: &Dim, facts: &Facts, guards: &Guards<'_>, low: bool) -> Option<Dim> {
        let mut p = p.clone();
        for index in self.active.iter().map(|id| &self.indices[id.at()]) {
            if !p.symbols().contains(&index.name) {
                continue;
            }
            let mut slope = Dim::from(0);
            for (monomial, coefficient) in p.terms() {
                let is_index = |a: &Atom| matches!(a, Atom::Sym(s) if *s == index.name);
                if !monomial.iter().any(is_index) {
                    continue;
                }
                let rest: Vec<&Atom> = monomial.iter().filter(|a| !is_index(a)).collect();
                if rest.len() + 1 != monomial.len() {
                    return None;
                }
                let factor = rest
                    .iter()
                    .try_fold(Dim::from(coefficient), |f, a| match a {
                        Atom::Sym(s) => Some(&f * &Dim::sym(s.clone())),
                        _ => None,
                    })?;
                slope = &slope + &factor;
            }
            let rising = if facts.nonneg(&slope) {
                true
            } else if facts.nonneg(&-&slope) {
                false
            } else {
                return None;
            };
            let (first, last) = guards.range(facts, &index.name, &index.extent);
            let end = if rising == low { first } else { last };
            p = p.try_substitute(&|s| (*s == *index.name).then(|| end.clone()))?;
        }
        let free = self.names.iter().all(|name| !p.symbols().contains(name));
        free.then_some(p)
    }
}

/// Does a tensor or host value decide it? Then the kernel checks the range.
fn data_dependent(e: &Expr) -> bool {
    matches!(
        e.kind,
        ExprKind::Read(_) | ExprKind::Host(_) | ExprKind::Reduce(_)
    ) || e.children().into_iter().any(data_dependent)
}

/// `d ≥ 0` as `left ≥ right` without negative terms.
pub(super) fn sides(d: &Dim) -> (Dim, Dim) {
    let (mut left, mut right) = (Dim::from(0), Dim::from(0));
    for (monomial, coefficient) in d.terms() {
        let term = monomial
            .iter()
            .fold(Dim::from(coefficient.abs()), |product, atom| {
                &product
                    * &match atom {
                        Atom::Sym(s) => Dim::sym(s.clone()),
                        Atom::Div(a, b) => a.floor_div(b),
                        Atom::Rem(a, b) => a.rem(b),
                    }
            });
        if coefficient > 0 {
            left = &left + &term;
        } else {
            right = &right + &term;
        }
    }
    (left, right)
}
