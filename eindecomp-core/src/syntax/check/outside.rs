//! A position that was not proved to be inside its axis: an obligation over consts, or an error with
//! the range that it has and what would keep it inside.

use super::fixes::quotients_in;
use super::groups::{divisor, factor, quotient};
use super::guards::{self, Guards, Tried};
use super::lengths::Length;
use super::padding::pad;
use super::prove::{Equality, Facts};
use super::ranges::{Part, Walk, poly};
use super::shifts::Range;
use super::slips::rounded;
use super::together::{Kind, Outside};
use super::tree::{Clause, Expr, ExprKind, IndexId, Origin};
use crate::ein::dim::Atom;
use crate::ein::{Dim, ScalarFn};
use crate::syntax::ast::CmpOp;
use crate::syntax::diag::{Code, Diag, Fix};

impl Walk<'_, '_> {
    /// A position that was not proved: an obligation over consts, or an error.
    pub(super) fn outside(
        &mut self,
        e: &Expr,
        part: Part,
        extent: &Dim,
        (plain, facts): (&Facts, &Facts),
    ) {
        let _helping = self.cx.facts.helping();
        let one = Dim::from(1);
        let (span, axis) = (part.read, part.axis);
        let Some(access) = self.accesses.get(&span).cloned() else {
            return;
        };
        let at = poly(e, &self.names);
        let branch = at.as_ref().filter(|_| part.branch).map(Dim::to_string);
        let text = branch.as_ref().unwrap_or(&access.subs[axis]);
        // Another position would stand in place of all of it.
        let whole = part.whole && !part.branch;
        let names = self.names.clone();
        let guards = Guards::of(self.cx, span, &names);
        let end = |low| at.as_ref().and_then(|at| self.endpoint(at, facts, low));
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
        let is_known = low.is_some() && low == high;
        let never = left
            .iter()
            .flatten()
            .any(|d| facts.refuted(d, CmpOp::Ge, &zero));
        let range = match (&low, &high) {
            (Some(value), Some(_)) if is_known => {
                let may = if never { "is" } else { "may be" };
                match value.to_string() == *text {
                    true => format!("{may} outside"),
                    false => format!("is {value} here, which {may} outside"),
                }
            }
            (Some(low), Some(high)) => format!("ranges over {low}..={high}, outside"),
            _ => "may be outside".to_owned(),
        };
        let message = match part.whole {
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
                // Nor is one that only small sizes fulfil.
                let grows = !left.symbols().is_empty();
                (plain && !known && grows).then_some((left, CmpOp::Ge, right))
            })
            .collect();
        let needed = match clauses.as_deref() {
            Some([(left, _, right)]) => Some((left.clone(), right.clone())),
            _ => None,
        };
        let clauses = clauses.and_then(|clauses| self.cx.add_clauses(&clauses));
        let rounded = rounded(e, text, extent, &self.names).map(|fix| Fix {
            help: format!("did you mean {}?", fix.help),
            ..fix
        });
        let group = rounded
            .or_else(|| self.group(e, extent))
            .or_else(|| self.divided(e, extent, facts));
        let grouped = group.is_some();
        let ends = || Some((at.as_ref()?, low.as_ref()?, high.as_ref()?));
        let reach = ends().map(|(at, low, high)| Range {
            at,
            low,
            high,
            extent,
        });
        // What is outside whatever the indices or the sizes are has no use for padding.
        let free = at.as_ref().is_some_and(|at| self.is_free(at));
        let away = reach.as_ref().is_some_and(|reach| reach.is_away(facts));
        let hopeless = never && free || away;
        let in_part = (at.as_ref()).and_then(|at| {
            let (id, wanted) = self.undeclared(at)?;
            self.in_part(at, extent, id, wanted)
        });
        let declared = self.as_declared(&at) && in_part.is_none();
        // A condition that no size breaks is right, whatever the proofs say.
        let tried = at.as_ref().and_then(|at| {
            let outside = guards::Outside { text, at, extent };
            let hard = whole && guards.are_about(at) && Guards::is_hard(&outside);
            hard.then(|| guards.tried(plain, &outside))
        });
        let unproved = tried.is_some_and(|tried| tried != Tried::Outside);
        let kept = at
            .as_ref()
            .filter(|_| declared && whole && !unproved)
            .and_then(|at| {
                let outside = guards::Outside { text, at, extent };
                guards.kept(self.cx, plain, (&outside, &tensor.to_string()))
            });
        // Nor is one wrong that another read needs.
        let unproved = unproved || matches!(kept, Some(None));
        let compared = at
            .as_ref()
            .filter(|_| declared && whole && !unproved)
            .and_then(|at| {
                let outside = guards::Outside { text, at, extent };
                let joined = guards.joined(plain, &outside);
                joined.or_else(|| guards.compared(plain, &outside))
            });
        // Where the conditions are right, the position is off by one.
        let nudged = at
            .as_ref()
            .filter(|_| declared && whole && !is_known && guards.settle(plain));
        let nudged = nudged.and_then(|at| {
            let one = Dim::from(1);
            let mut beside = [at - &one, at + &one].into_iter();
            beside.find(|at| facts.inside(at, extent))
        });
        let nudged = kept.flatten().or(nudged);
        let compared = compared.filter(|_| nudged.is_none());
        let mendable = declared && whole && !is_known && !grouped && compared.is_none();
        // Under a condition an offset is meant, unless nothing is inside.
        let meant = |reach: &Range<'_>| {
            let offset = self.free_part(reach.at).as_const() != Some(0);
            offset && !away && guards.are_about(reach.at)
        };
        let moved = reach.filter(|reach| mendable && !meant(reach));
        let read_at = |at: Dim| {
            let mut subs = access.subs.clone();
            subs[axis] = at.to_string();
            let help = format!("did you mean `{tensor}[{}]`?", subs.join(", "));
            Fix::replace(e.span, subs[axis].clone(), &help)
        };
        let moved = moved.and_then(|reach| {
            let shifted = self.shifted(&reach, facts);
            let other = |at: Dim| match self.is_read(&access, axis, &at) {
                true => self.flipped(reach.at, extent, facts),
                false => Some(at),
            };
            let shifted = shifted.and_then(other).map(read_at);
            // From the start of the axis on, if that is as long.
            let started = || {
                let clause = self.fills(&reach).filter(|_| away && whole)?;
                Some(read_at(facts.normal(&(reach.at - reach.low))).then(clause))
            };
            shifted.or_else(started)
        });
        let moved = nudged.map(read_at).or(moved);
        let shifted = moved.is_some();
        let unmended = declared && whole && !shifted && !unproved && compared.is_none();
        let corrected = compared.or_else(|| {
            let at = at.as_ref().filter(|_| unmended)?;
            let outside = guards::Outside { text, at, extent };
            guards
                .corrected(plain, &outside)
                .or_else(|| guards.last(plain, &outside))
                .or_else(|| guards.behind(plain, &outside))
        });
        let guarded = corrected.is_some();
        let padded = part.whole && !hopeless && !guarded && !self.stores && self.as_declared(&at);
        // An `else` excuses no index that reads an axis by itself.
        let bare = matches!(e.kind, ExprKind::Index(id) if *text == *self.indices[id.at()].name);
        let padded = padded && !grouped && !shifted && !access.padded && !bare;
        let alone = at.as_ref().filter(|_| !part.branch);
        let inside = alone.map(|at| inside(facts, text, at, extent));
        let mut pads = match padded {
            true => pad(self.cx, &access, &inside.unwrap_or_default()),
            false => Vec::new(),
        };
        let interior = at.as_ref().filter(|_| in_part.is_none());
        let interior = interior.and_then(|at| self.interior(at, low.as_ref()?));
        let at_start = low.as_ref().is_some_and(|low| low.as_const() == Some(0));
        let starts_inside = low.is_some_and(|low| facts.nonneg(&low)) && in_part.is_none();
        let clauses = clauses.filter(|_| !guarded && !shifted);
        let last = moved.or_else(|| self.last(e, &at, extent, facts));
        let starts_inside = starts_inside && whole && !guarded && !shifted && !grouped && !away;
        let length = match (&at, &high) {
            (Some(at), Some(high)) if starts_inside => self.length(at, extent, high),
            _ => Length::Padded,
        };
        // A window of an odd length whose results are as many as the elements stands around each.
        let over = high.as_ref().map(|high| &(high - extent) + &one);
        let over = over
            .and_then(|over| over.as_const())
            .filter(|over| over % 2 == 0);
        let window = starts_inside && at_start && matches!(length, Length::Padded);
        let centred = over.filter(|over| window && *over > 0).map(|over| {
            let text = format!("{text} - {}", over / 2);
            (e.span, text)
        });
        // What is outside for half of its indices is not padded.
        let fits_mostly = high.as_ref().is_none_or(|high| {
            let twice = extent + extent;
            !facts.holds(high, CmpOp::Ge, &(&twice - &Dim::from(2)))
        });
        let (shorter, shorten) = match length {
            Length::AsDeclared(fix) => {
                pads.clear();
                (Some(fix), None)
            }
            Length::Shorter(fix) => {
                if !fits_mostly {
                    pads.clear();
                }
                (Some(fix), None)
            }
            Length::Perhaps(range) => {
                let or = pads.first().map(|pad| format!(", or {}", pad.help));
                pads.clear();
                let help = format!("shorten its range, {range}{}", or.unwrap_or_default());
                (None, Some(help))
            }
            Length::Padded => (None, None),
        };
        let kinds = [
            (Kind::Guard, corrected),
            (Kind::Element, last),
            (Kind::Clause, group.or(clauses)),
            (Kind::Range, in_part.or(shorter)),
        ];
        let fixes = kinds
            .into_iter()
            .filter_map(|(kind, fix)| Some((kind, fix?)));
        let fixes: Vec<(Kind, Fix)> = fixes
            .chain(pads.into_iter().map(|fix| (Kind::Pad, fix)))
            .collect();
        let diag = match shorten {
            _ if grouped => diag,
            Some(_) if self.stores => diag.help(format!(
                "a state has to be as long as what is stored into it; `({text}) % {}` comes round to its start",
                factor(extent)
            )),
            Some(help) => diag.help(help),
            None if !part.whole => diag.help("read it under an `if` that keeps the member in range"),
            None => match interior.or_else(|| self.no_position(e).map(str::to_owned)) {
                Some(help) => diag.help(help),
                None => match at.as_ref().and_then(|at| self.undeclared(at)) {
                    Some((id, wanted)) if fixes.is_empty() => diag.help(format!(
                        "give it the range of the result: `{} in {wanted}`",
                        self.indices[id.at()].name
                    )),
                    _ => diag,
                },
            },
        };
        let diag = match tried {
            Some(Tried::Inside) if diag.help.is_none() => diag.help(format!(
                "under the condition no size up to {} leads outside, but nothing proves it of all",
                guards::LARGEST
            )),
            _ => diag,
        };
        self.outside.push(Outside {
            access,
            axis,
            diag,
            fixes,
            needed,
            centred,
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
        Some(fix.then(clause))
    }

    /// An index divided such that its quotients are the positions of the axis.
    fn group(&self, e: &Expr, axis: &Dim) -> Option<Fix> {
        let ExprKind::Call(ScalarFn::DIV, args) = &e.kind else {
            return None;
        };
        let [whole, by] = &args[..] else { return None };
        let ExprKind::Index(id) = whole.kind else {
            return None;
        };
        let index = &self.indices[id.at()];
        // As it is written, where that leaves no remainder.
        if let Some(by) = poly(by, &self.names)
            && index.extent.floor_div(&by) == *axis
            && let Some(exact) =
                (self.cx).add_clause(&index.extent.rem(&by), CmpOp::Eq, &Dim::from(0))
        {
            return Some(exact);
        }
        let (size, clause) = divisor(self.cx, &index.extent, axis)?;
        let meant = match poly(by, &self.names) {
            Some(written) if self.cx.facts.holds(&written, CmpOp::Eq, &size) => None,
            _ => Some(quotient(&index.name, &size)),
        };
        let meant = meant.map(|meant| Fix::replace(e.span, meant, "did you mean {}?"));
        meant.into_iter().chain(clause).reduce(Fix::then)
    }

    /// The extent as a multiple of what a condition around, or the position, divides by, where that keeps the
    /// position inside.
    fn divided(&self, e: &Expr, extent: &Dim, facts: &Facts) -> Option<Fix> {
        let zero = Dim::from(0);
        let mut quotients = Vec::new();
        quotients_in(extent, &mut quotients);
        if let Some(at) = poly(e, &self.names) {
            quotients_in(&at, &mut quotients);
        }
        quotients.retain(|(a, by)| self.is_free(a) && self.is_free(by));
        let divisors = facts.divisors().into_iter();
        let rests = divisors.map(|by| extent.rem(&by));
        let mut rests = rests.chain(quotients.into_iter().map(|(a, by)| a.rem(&by)));
        rests.find_map(|rest| {
            let rest = facts.normal(&rest);
            if rest.as_const().is_some() || self.cx.dims.only_consts(&rest) {
                return None;
            }
            let mut exact = facts.clone();
            exact.assume(&rest, CmpOp::Eq, &zero);
            let inside = !exact.is_excluded() && self.inside(e, extent, &exact);
            inside.then(|| self.cx.add_clause(&rest, CmpOp::Eq, &zero))?
        })
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

    /// What to do where the declared result is shorter than what is read before its elements too.
    fn interior(&self, at: &Dim, low: &Dim) -> Option<String> {
        let (id, wanted) = self.undeclared(at)?;
        let before = -low.as_const().filter(|n| *n < 0)?;
        let name = &self.indices[id.at()].name;
        Some(format!(
            "if the result is the interior, count from there: `{name} in {wanted}`, and `{name} + {before}` \
             for `{name}` in every read"
        ))
    }

    /// The smallest or largest value where `facts` hold, as a polynomial of dims: by the endpoints of
    /// every index, or by a fact about several of them.
    fn endpoint(&self, p: &Dim, facts: &Facts, low: bool) -> Option<Dim> {
        let p = p.try_substitute(&|s| {
            let index = self.names.iter().any(|name| **name == *s);
            index.then(|| facts.value(s).cloned())?
        })?;
        if self.is_free(&p) {
            return Some(p);
        }
        let related = facts.known().iter().map(|fact| match low {
            true => &p - fact,
            false => &p + fact,
        });
        let related = related.filter(|end| self.is_free(end));
        let ends = self.by_endpoints(&p, facts, low).into_iter().chain(related);
        narrowest(ends, facts, low)
    }

    fn by_endpoints(&self, p: &Dim, facts: &Facts, low: bool) -> Option<Dim> {
        let mut p = self.without_remainders(p, low)?;
        for index in self.active.iter().map(|id| &self.indices[id.at()]) {
            if !p.symbols().contains(&index.name) {
                continue;
            }
            let first = rises(&p, &index.name, facts)? == low;
            let own = match first {
                true => Dim::from(0),
                false => &index.extent - &Dim::from(1),
            };
            let bounds = facts.bounds(&index.name, first).into_iter();
            let bounds = bounds.filter(|end| self.is_free(end));
            let end = narrowest(std::iter::once(own).chain(bounds), facts, first)?;
            p = p.try_substitute(&|s| (*s == *index.name).then(|| end.clone()))?;
        }
        self.is_free(&p).then_some(p)
    }

    /// What `p` is at least, or at most, with the end of its range for each remainder of indices:
    /// a remainder neither rises nor falls with them.
    fn without_remainders(&self, p: &Dim, low: bool) -> Option<Dim> {
        let mut sum = Dim::from(0);
        for (monomial, coefficient) in p.terms() {
            let open = |atom: &Atom| matches!(atom, Atom::Rem(a, b) if !self.is_free(a) || !self.is_free(b));
            let quotient = |atom: &Atom| matches!(atom, Atom::Div(..));
            // What may be below 0 beside it turns its range around.
            if monomial.iter().any(open) && monomial.iter().any(quotient) {
                return None;
            }
            let end = |atom: &Atom| match atom {
                Atom::Rem(..) if open(atom) && (coefficient > 0) == low => Dim::from(0),
                Atom::Rem(_, b) if open(atom) => &**b - &Dim::from(1),
                atom => Dim::from(atom),
            };
            let mut ends = monomial.iter().map(end);
            sum = &sum + &ends.try_fold(Dim::from(coefficient), |p, end| p.try_mul(&end))?;
        }
        Some(sum)
    }

    /// Is there no index in it?
    fn is_free(&self, p: &Dim) -> bool {
        let symbols = p.symbols();
        !self.names.iter().any(|name| symbols.contains(name))
    }
}

/// Does `p` rise with the symbol `name`, weakly and whatever the others are, or else fall? `None` if neither
/// is known.
fn rises(p: &Dim, name: &str, facts: &Facts) -> Option<bool> {
    let has = |d: &Dim| d.symbols().contains(name);
    let mentions = |atom: &&Atom| has(&Dim::from(*atom));
    let (mut slope, mut ways) = (Dim::from(0), Vec::new());
    for (monomial, coefficient) in p.terms() {
        let (with, rest): (Vec<&Atom>, Vec<&Atom>) = monomial.iter().partition(mentions);
        // Sizes and indices are at least 0.
        let sizes = rest.iter().all(|atom| matches!(atom, Atom::Sym(_)));
        match &with[..] {
            [] => {}
            [Atom::Sym(_)] if sizes => {
                slope = &slope + &(&Dim::from(coefficient) * &Dim::monomial(rest));
            }
            [Atom::Div(a, b)] if sizes && !has(b) => {
                ways.push(rises(a, name, facts)? == (coefficient > 0));
            }
            _ => return None,
        }
    }
    if slope.as_const() != Some(0) {
        let falls = || facts.nonneg(&-&slope).then_some(false);
        ways.push(facts.nonneg(&slope).then_some(true).or_else(falls)?);
    }
    let rising = ways.first().copied().unwrap_or(true);
    ways.iter().all(|way| *way == rising).then_some(rising)
}

/// The largest of lower ends, or the smallest of upper ones; where `facts` do not order two, the later
/// one, which stands in a condition further inside.
fn narrowest(ends: impl Iterator<Item = Dim>, facts: &Facts, low: bool) -> Option<Dim> {
    let cmp = if low { CmpOp::Ge } else { CmpOp::Le };
    ends.reduce(|best, end| match facts.holds(&best, cmp, &end) {
        true => best,
        false => end,
    })
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

/// `d ≥ 0` as `left ≥ right` without negative terms.
pub(super) fn sides(d: &Dim) -> (Dim, Dim) {
    let (mut left, mut right) = (Dim::from(0), Dim::from(0));
    for (monomial, coefficient) in d.terms() {
        let term = &Dim::from(coefficient.abs()) * &Dim::monomial(monomial);
        if coefficient > 0 {
            left = &left + &term;
        } else {
            right = &right + &term;
        }
    }
    (left, right)
}
