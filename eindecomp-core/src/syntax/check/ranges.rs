//! Every access stays in bounds, or carries its `else`.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::body::BodyCx;
use super::conditions::assume;
use super::extents::{Access, Uses};
use super::prove::{Facts, is_sum};
use super::quotients::{quotients, rounds};
use super::together::{self, Kind, Outside, together};
use super::tree::{Clause, Expr, ExprKind, Index, IndexId, Mixed, Origin, Read, Sub};
use crate::ein::{DType, Dim, ScalarFn, Value};
use crate::syntax::ast::CmpOp;
use crate::syntax::diag::{Code, Diag, Fix};
use crate::syntax::token::Span;

/// An index, which is below 2³², times more than this may wrap.
const LARGEST_FACTOR: i64 = 1 << 30;

/// Extents are below this, and so are positions: of larger numbers in them nothing is proved, since polynomials saturate
/// where a run wraps.
const LARGEST: i64 = 1 << 32;

/// Quotients in quotients: of deeper ones nothing is proved.
const DEEPEST: usize = 12;

/// An integer expression over dims and indices (by name) as a polynomial. What is cast to less than i64 may wrap
/// there, and so may multiples by large numbers: they are none.
pub(super) fn poly(e: &Expr, names: &[Arc<str>]) -> Option<Dim> {
    let exact = |d: &Dim| d.terms().all(|(_, c)| c.abs() <= LARGEST);
    polynomial(e, names).filter(exact)
}

fn polynomial(e: &Expr, names: &[Arc<str>]) -> Option<Dim> {
    match &e.kind {
        ExprKind::Index(id) => Some(Dim::sym(names[id.at()].clone())),
        ExprKind::Dim(dim) => Some(dim.clone()),
        ExprKind::Lit(Value::Int(n)) => Some(Dim::from(*n)),
        ExprKind::Cast(inner) if e.dtype == DType::I64 && inner.dtype.is_int() => {
            poly(inner, names)
        }
        ExprKind::Call(f, args) => {
            let args: Option<Vec<Dim>> = args.iter().map(|a| poly(a, names)).collect();
            match (*f, &args?[..]) {
                (ScalarFn::ADD, [a, b]) => Some(a + b),
                (ScalarFn::SUB, [a, b]) => Some(a - b),
                (ScalarFn::MUL, [a, b]) if !multiplies_exactly(a, b) => None,
                (ScalarFn::MUL, [a, b]) => a.try_mul(b).filter(is_small),
                (ScalarFn::NEG, [a]) => Some(-a),
                (ScalarFn::DIV | ScalarFn::REM, [a, b]) if a.depth() + b.depth() > DEEPEST => None,
                // That a dim is at least 1 is a clause; an index is not.
                (ScalarFn::DIV | ScalarFn::REM, [_, b]) if !is_divisor(b, names) => None,
                (ScalarFn::DIV, [a, b]) => Some(a.floor_div(b)),
                (ScalarFn::REM, [a, b]) => Some(a.rem(b)),
                _ => None,
            }
        }
        _ => None,
    }
}

/// Is it at least 1 whatever its indices are, if its dims alone are?
fn is_divisor(by: &Dim, names: &[Arc<str>]) -> bool {
    let symbols = by.symbols();
    !names.iter().any(|name| symbols.contains(name)) || is_sum(&(by - &Dim::from(1)))
}

/// Is no coefficient of the product saturated on the way?
pub(super) fn multiplies_exactly(a: &Dim, b: &Dim) -> bool {
    let sum = |d: &Dim| d.terms().map(|(_, c)| i128::from(c).abs()).sum::<i128>();
    sum(a).saturating_mul(sum(b)) <= i128::from(i64::MAX)
}

/// Can no multiple in it wrap?
pub(super) fn is_small(product: &Dim) -> bool {
    let mut terms = product.terms();
    terms.all(|(monomial, c)| monomial.is_empty() || c.abs() <= LARGEST_FACTOR)
}

/// Accesses as written, by place.
pub(super) type Accesses = BTreeMap<Span, Arc<Access>>;

/// What indices are used for, and the extents that the declared result gives to those that have no
/// `in`.
pub(super) type Meant<'w> = Option<(&'w Uses, &'w BTreeMap<IndexId, Dim>)>;

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
    let mut divided = Vec::new();
    if value.dtype.is_int() {
        quotients(value, &mut divided);
    }
    if divided.is_empty() && is_plain(value, indices) {
        return Some(());
    }
    let quotients = divided.into_iter().map(|e| e.span).collect();
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
        within: value.span,
        quotients,
        outside: Vec::new(),
    };
    walk.expr(value, &plain, &plain);
    let mut outside = walk.outside;
    let _helping = cx.facts.helping();
    // What a condition that never holds is corrected to, may keep a read inside.
    let told: Vec<Fix> = (cx.errors[before..].iter())
        .flat_map(|error| error.fixes.clone())
        .collect();
    outside.retain(|o| {
        !told
            .iter()
            .any(|t| o.fixes.iter().any(|(_, fix)| fix.edits == t.edits))
    });
    let told = together(cx, outside);
    cx.errors.extend(told);
    (cx.errors.len() == before).then_some(())
}

/// An index is below its extent, which is then at least 1.
pub(super) fn index_facts(facts: &mut Facts, name: &Arc<str>, extent: &Dim) {
    let last = extent - &Dim::from(1);
    facts.assume_nonneg(&(&last - &Dim::sym(name.clone())));
    facts.assume_nonneg(&last);
}

/// What is to be inside.
#[derive(Clone, Copy)]
pub(super) struct Part {
    /// The read.
    pub(super) read: Span,
    /// Which axis of it.
    pub(super) axis: usize,
    /// Of the whole axis, not of a member of a merged one.
    pub(super) whole: bool,
    /// A branch of the position.
    pub(super) branch: bool,
}

/// A statement's value or target.
pub(super) struct Walk<'w, 'a> {
    pub(super) cx: &'w mut BodyCx<'a>,
    pub(super) indices: &'w [Index],
    pub(super) names: Vec<Arc<str>>,
    /// Indices in scope.
    pub(super) active: Vec<IndexId>,
    pub(super) accesses: &'w Accesses,
    /// Is it written, not read? There is no value outside then.
    pub(super) stores: bool,
    pub(super) meant: Meant<'w>,
    /// All of it.
    within: Span,
    /// Quotients that are part of it, if it is an integer.
    pub(super) quotients: Vec<Span>,
    /// Reads that leave their axis.
    pub(super) outside: Vec<Outside>,
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
            ExprKind::Cast(_) => {
                self.rounded_down(e, guarded);
                if let ExprKind::Cast(inner) = &mut e.kind {
                    self.expr(inner, plain, guarded);
                }
            }
            // The right operand is evaluated only where the left does not decide.
            ExprKind::Call(f @ (ScalarFn::AND | ScalarFn::OR), _) => {
                let (mut inner, f) = (guarded.clone(), *f);
                let mut operands = Vec::new();
                chained(e, f, &mut operands);
                for operand in operands {
                    self.expr(operand, plain, &inner);
                    assume(&mut inner, operand, f == ScalarFn::AND, &self.names);
                }
            }
            ExprKind::Call(..) => {
                self.note_fraction(e, guarded);
                if let ExprKind::Call(_, args) = &mut e.kind {
                    args.iter_mut().for_each(|e| self.expr(e, plain, guarded));
                }
            }
            ExprKind::If(cond, a, b) => {
                self.expr(cond, plain, guarded);
                let (mut yes, mut no) = (guarded.clone(), guarded.clone());
                self.assume(&mut yes, cond);
                assume(&mut no, cond, false, &self.names);
                let before = self.outside.len();
                self.expr(a, plain, &yes);
                self.expr(b, plain, &no);
                if self.outside.len() > before {
                    let _helping = self.cx.facts.helping();
                    self.turned_branches((span, before), (a, b), (&yes, &no));
                }
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
                    self.assume(&mut guarded, filter);
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

    /// Takes the condition of a branch as given; where one never holds, nothing is said of the branch.
    /// It is reported if it never holds whatever the sizes are: a number as an extent may come from a
    /// const, whose other values the condition is for. In a scalar function it may hold elsewhere.
    fn assume(&mut self, facts: &mut Facts, cond: &Expr) {
        let Some(never) = assume(facts, cond, true, &self.names) else {
            return;
        };
        let (within, span) = (self.within, never.span);
        if within.contains(span) && self.is_over_sizes(never) {
            let text = "this condition can never hold here";
            let diag = Diag::new(Code::ClauseFalse, span, text);
            let help = "an index is in 0..its extent, and fulfils the conditions around this one";
            self.cx.errors.push(match self.past_the_end(never) {
                Some(fix) => diag.fix(fix),
                None => diag.help(help),
            });
        }
    }

    /// The last position in place of the extent that an index is compared with.
    fn past_the_end(&self, comparison: &Expr) -> Option<Fix> {
        let ExprKind::Call(ScalarFn::EQ, sides) = &comparison.kind else {
            return None;
        };
        let [a, b] = &sides[..] else { return None };
        let end = [(a, b), (b, a)].into_iter().find_map(|(index, end)| {
            let ExprKind::Index(id) = index.kind else {
                return None;
            };
            let extent = poly(end, &self.names)?;
            (self.indices[id.at()].extent == extent).then_some((end.span, extent))
        });
        let (span, extent) = end?;
        let last = (&extent - &Dim::from(1)).to_string();
        Some(Fix::replace(span, last, "the last position is {}"))
    }

    /// Does a comparison have indices, none of whose extents is a number?
    fn is_over_sizes(&self, comparison: &Expr) -> bool {
        let ExprKind::Call(_, sides) = &comparison.kind else {
            return false;
        };
        let symbols: BTreeSet<Arc<str>> = (sides.iter())
            .filter_map(|side| poly(side, &self.names))
            .flat_map(|side| side.symbols())
            .collect();
        let active = self.active.iter().map(|id| id.at());
        let mut compared = active
            .filter(|&i| symbols.contains(&self.names[i]))
            .peekable();
        compared.peek().is_some() && compared.all(|i| self.indices[i].extent.as_const().is_none())
    }

    fn read(&mut self, read: &mut Read, span: Span, plain: &Facts, guarded: &Facts) {
        let Some(t) = read.place.ty.tensor().cloned() else {
            return;
        };
        // An `else` excuses positions alone, no index that reads an axis by itself.
        let padded = read.otherwise.is_some();
        let access = self.accesses.get(&span).cloned();
        let by_itself = |axis: usize, e: &Expr| match e.kind {
            ExprKind::Index(id) => {
                (access.iter()).any(|a| *a.subs[axis] == *self.indices[id.at()].name)
            }
            _ => false,
        };
        let (mut needed, before) = (false, self.outside.len());
        for (axis, (sub, extent)) in read.subs.iter_mut().zip(&t.axes).enumerate() {
            let part = Part {
                read: span,
                axis,
                whole: true,
                branch: false,
            };
            let member = Part {
                whole: false,
                ..part
            };
            if let Some(diag) = too_far(sub) {
                self.cx.errors.push(diag);
                continue;
            }
            match sub {
                Sub::Merged(..) => {}
                Sub::Expr(e) if padded && !by_itself(axis, e) => {}
                Sub::Expr(e) => {
                    needed |= self.position(e, extent, part, (plain, guarded));
                }
                Sub::Mixed(mixed) => {
                    let Some(extents) = self.member_extents(mixed, extent) else {
                        continue;
                    };
                    mixed.extents = extents;
                    for (e, extent) in mixed.members.iter().zip(&mixed.extents) {
                        let bare = matches!(e.kind, ExprKind::Index(_));
                        needed |= !bare && self.position(e, extent, member, (plain, guarded));
                    }
                }
            }
        }
        read.guarded |= needed && !padded;
        if let [outside, ..] = &self.outside[before..] {
            let _helping = self.cx.facts.helping();
            let access = outside.access.clone();
            let text = (&*access.place, &access.subs[..]);
            let instead = self.instead(read, text, guarded);
            let strided = instead.or_else(|| self.strided(read, text, guarded));
            together::centre(&mut self.outside[before..]);
            let slip = strided.or_else(|| self.swapped(read, text, guarded));
            let turned = match slip {
                Some(_) => None,
                None => self.turned(read, text, guarded),
            };
            // The condition around may be what is wrong, but not where it fits another axis.
            let keeps = turned.is_none();
            if let Some(fix) = slip.or(turned) {
                for outside in &mut self.outside[before..] {
                    outside.diag.help = None;
                    (outside.fixes).retain(|(kind, _)| *kind == Kind::Guard && keeps);
                    outside.fixes.push((Kind::Element, fix.clone()));
                }
            }
        }
    }

    /// Is the position in range only by the conditions around it? One that is not at all is
    /// reported.
    fn position(
        &mut self,
        e: &Expr,
        extent: &Dim,
        part: Part,
        (plain, guarded): (&Facts, &Facts),
    ) -> bool {
        // What data choose among has to be inside, whichever they choose.
        if let ExprKind::If(cond, a, b) = &e.kind {
            return [(true, a), (false, b)]
                .into_iter()
                .fold(false, |needed, (truth, branch)| {
                    let (mut plain, mut guarded) = (plain.clone(), guarded.clone());
                    assume(&mut plain, cond, truth, &self.names);
                    assume(&mut guarded, cond, truth, &self.names);
                    let part = Part {
                        branch: true,
                        ..part
                    };
                    self.position(branch, extent, part, (&plain, &guarded)) || needed
                });
        }
        // Most accesses are by the axis's own index, which needs no proof.
        if is_own(e, extent, self.indices) || of_data(e) || self.inside(e, extent, plain) {
            return false;
        }
        if self.inside(e, extent, guarded) {
            return true;
        }
        self.outside(e, part, extent, (plain, guarded));
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
}

/// The refusal of a number in a position that is past every axis; what data are made of may wrap.
fn too_far(sub: &Sub) -> Option<Diag> {
    let positions = match sub {
        Sub::Merged(..) => return None,
        Sub::Expr(e) => std::slice::from_ref(e),
        Sub::Mixed(mixed) => &mixed.members,
    };
    let far = |e: &&Expr| matches!(e.kind, ExprKind::Lit(Value::Int(n)) if n.checked_abs().is_none_or(|n| n > LARGEST));
    let nodes = positions
        .iter()
        .filter(|e| !of_data(e))
        .flat_map(Expr::nodes);
    let literal = nodes.into_iter().find(far)?;
    let text = "this number is past every axis: extents and positions are below 2³²";
    let diag = Diag::new(Code::Literal, literal.span, text);
    Some(diag.help("the last position of an axis of extent `N` is `N - 1`"))
}

/// The operands of a chain of `&&` or of `||`, in order.
fn chained<'e>(e: &'e mut Expr, f: ScalarFn, operands: &mut Vec<&'e mut Expr>) {
    if !matches!(e.kind, ExprKind::Call(own, _) if own == f) {
        return operands.push(e);
    }
    if let ExprKind::Call(_, args) = &mut e.kind {
        args.iter_mut().for_each(|arg| chained(arg, f, operands));
    }
}

/// Does it read by whole axes' own indices alone, under no condition? Then there is nothing to prove,
/// and most statements are so.
fn is_plain(e: &Expr, indices: &[Index]) -> bool {
    let here = match &e.kind {
        ExprKind::If(..) | ExprKind::Call(ScalarFn::AND | ScalarFn::OR, _) => false,
        ExprKind::Cast(_) => !rounds(e),
        ExprKind::Reduce(reduce) => reduce.filter.is_none(),
        ExprKind::Read(read) => {
            let axes = read.place.ty.tensor().map_or(&[][..], |t| &t.axes);
            let own = |(sub, axis): (&Sub, &Dim)| match sub {
                Sub::Merged(..) => true,
                Sub::Expr(e) => is_own(e, axis, indices),
                Sub::Mixed(_) => false,
            };
            read.subs.iter().zip(axes).all(own)
        }
        _ => true,
    };
    here && e.children().into_iter().all(|e| is_plain(e, indices))
}

/// Is it an index that runs over the axis?
fn is_own(e: &Expr, axis: &Dim, indices: &[Index]) -> bool {
    matches!(e.kind, ExprKind::Index(id) if indices[id.at()].extent == *axis)
}

/// Is it computed from values of tensors, inputs or the host? Then the kernel checks the range. Those that a condition in it
/// reads only choose.
pub(super) fn of_data(e: &Expr) -> bool {
    match &e.kind {
        ExprKind::Read(_) | ExprKind::Host(_) | ExprKind::Reduce(_) => true,
        ExprKind::If(_, a, b) => of_data(a) || of_data(b),
        _ => e.children().into_iter().any(of_data),
    }
}
