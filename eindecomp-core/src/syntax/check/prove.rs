//! What follows from the clauses: equality and order of extents.
//!
//! Symbols stand for sizes and indices, so each is at least 0. A goal `d ≥ 0` is proved by
//! cancelling its negative terms one after the other with a fact (each `f ≥ 0`), a multiple of it,
//! or a bound of a quotient or remainder; integers round: `k·d ≥ 1 - k` suffices.

mod asked;
mod examples;
mod multiples;
mod rows;
mod search;

use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;

use crate::ein::Dim;
use crate::ein::dim::Atom;
use crate::syntax::ast::CmpOp;
use asked::{Asked, Given, Helping};
use multiples::Multiples;

/// Quotients and remainders in each other: what is deeper stays as it is.
const DEEPEST: usize = 8;

/// Facts about dims and indices.
#[derive(Clone, Debug, Default)]
pub(super) struct Facts {
    known: Rc<Known>,
    /// What was asked of them, and of those that they come from.
    asked: Rc<Asked>,
    /// Theirs in `asked`.
    number: usize,
}

/// What is known.
#[derive(Clone, Debug, Default)]
struct Known {
    /// Symbols with a known value, never mutually recursive.
    defs: BTreeMap<Arc<str>, Dim>,
    /// What divides what.
    multiples: Arc<Multiples>,
    /// Each is at least 0.
    nonneg: Vec<Dim>,
    /// They exclude each other, so that everything follows.
    excluded: bool,
}

/// How two extents compare.
pub(super) enum Equality {
    /// Equal whatever the dims.
    Equal,
    /// They differ by this number, which is not 0.
    Differ,
    /// Unknown.
    Unknown,
}

/// `left cmp right` as dims that are each at least 0 (`==` gives two).
pub(super) fn as_nonneg(left: &Dim, cmp: CmpOp, right: &Dim) -> Vec<Dim> {
    let one = Dim::from(1);
    match cmp {
        CmpOp::Eq => vec![left - right, right - left],
        CmpOp::Ne => Vec::new(),
        CmpOp::Le => vec![right - left],
        CmpOp::Lt => vec![&(right - left) - &one],
        CmpOp::Ge => vec![left - right],
        CmpOp::Gt => vec![&(left - right) - &one],
    }
}

impl Facts {
    /// Takes `left cmp right` as given.
    pub(super) fn assume(&mut self, left: &Dim, cmp: CmpOp, right: &Dim) {
        let given = Given::Compares(left.clone(), cmp, right.clone());
        self.take(given, |facts| facts.compare(left, cmp, right));
    }

    /// Takes something as given, unless that was done before.
    fn take(&mut self, given: Given, take: impl FnOnce(&mut Facts)) {
        let key = (self.number, given);
        if let Some((number, known)) = self.asked.given(&key) {
            (self.number, self.known) = (number, known);
            return;
        }
        let from = self.number;
        take(self);
        self.asked.made(from, self.number, &self.known);
        let made = (self.number, self.known.clone());
        self.asked.note_given(key, made);
    }

    /// What is known, to be changed.
    fn change(&mut self) -> &mut Known {
        self.number = self.asked.number();
        Rc::make_mut(&mut self.known)
    }

    fn compare(&mut self, left: &Dim, cmp: CmpOp, right: &Dim) {
        let (left, right) = (self.normal(left), self.normal(right));
        if cmp == CmpOp::Eq {
            for (a, b) in [(&left, &right), (&right, &left)] {
                if let Some((n, d)) = as_remainder(a).filter(|_| b.as_const() == Some(0)) {
                    return self.divide(n, d);
                }
                self.leaves(a, b);
            }
            for (a, b) in [(&left, &right), (&right, &left)] {
                if let Some(symbol) = a.as_symbol()
                    && !b.symbols().contains(symbol)
                {
                    self.define(symbol.clone(), b.clone());
                    return;
                }
            }
        }
        for fact in as_nonneg(&left, cmp, &right) {
            // The smallest remainder there is, or the largest.
            if let Some((n, d)) = as_remainder(&-&fact) {
                self.divide(n, d);
                continue;
            }
            let least = -&constant(&fact);
            let above = &fact + &least;
            if as_remainder(&above).is_some_and(|(_, d)| d == &least + &Dim::from(1)) {
                self.leaves(&above, &least);
            }
            self.change().nonneg.push(fact);
        }
    }

    /// Takes a number to be what a division leaves: without it there is no remainder.
    fn leaves(&mut self, remainder: &Dim, number: &Dim) {
        let Some(((n, d), number)) = as_remainder(remainder).zip(number.as_const()) else {
            return;
        };
        if d.as_const().is_some_and(|d| 0 < number && number < d) {
            self.divide(&n - &Dim::from(number), d);
        }
    }

    /// Do the facts exclude each other, as [`Facts::exclude`] says?
    pub(super) fn is_excluded(&self) -> bool {
        self.known.excluded
    }

    /// Takes what cannot be as given.
    pub(super) fn exclude(&mut self) {
        self.take(Given::Never, |facts| facts.change().excluded = true);
    }

    /// Takes `d ≥ 0` as given.
    pub(super) fn assume_nonneg(&mut self, d: &Dim) {
        self.take(Given::AtLeastZero(d.clone()), |facts| {
            let d = tightened(&facts.normal(d));
            if d.as_const().is_none() && !facts.known.nonneg.contains(&d) {
                facts.change().nonneg.push(d);
            }
        });
    }

    /// Takes `by` to divide `whole`; what is known is put in these terms.
    fn divide(&mut self, whole: Dim, by: Dim) {
        let multiples = self.known.multiples.with(whole, by);
        self.change().multiples = Arc::new(multiples);
        let nonneg = self.known.nonneg.iter().map(|d| self.normal(d)).collect();
        self.change().nonneg = nonneg;
    }

    fn define(&mut self, symbol: Arc<str>, value: Dim) {
        let of = |s: &str| (*s == *symbol).then(|| value.clone());
        // What would be out of all proportion stays as it is, and proves less.
        let put = |d: &Dim| d.try_substitute(&of).unwrap_or_else(|| d.clone());
        let known = self.change();
        for known in known.defs.values_mut().chain(&mut known.nonneg) {
            *known = put(known);
        }
        if !known.multiples.is_empty() {
            known.multiples = Arc::new(known.multiples.mapped(&put));
        }
        known.defs.insert(symbol, value);
    }

    /// The canonical form under what is known.
    pub(super) fn normal(&self, d: &Dim) -> Dim {
        let plain = |atom: &Atom| matches!(atom, Atom::Sym(s) if !self.known.defs.contains_key(s));
        if d.terms().all(|(monomial, _)| monomial.iter().all(plain)) {
            return d.clone();
        }
        if d.depth() > DEEPEST {
            return d.clone();
        }
        self.asked.normal(self.number, d, || self.simplified(d))
    }

    fn simplified(&self, d: &Dim) -> Dim {
        let put = d.try_substitute(&|s| self.known.defs.get(s).cloned());
        let mut d = put.unwrap_or_else(|| d.clone());
        for _ in 0..4 {
            let Some(simpler) = d.try_map_atoms(&|atom| Some(self.atom(atom))) else {
                break;
            };
            let next = self.known.multiples.cancel(&simpler);
            if next == d {
                break;
            }
            d = next;
        }
        d
    }

    fn atom(&self, atom: &Atom) -> Dim {
        match atom {
            Atom::Sym(s) => Dim::sym(s.clone()),
            Atom::Div(a, b) => self.divided(&self.normal(a), &self.normal(b)).0,
            Atom::Rem(a, b) => self.divided(&self.normal(a), &self.normal(b)).1,
        }
    }

    /// Quotient and remainder of `a` by `b`.
    fn divided(&self, a: &Dim, b: &Dim) -> (Dim, Dim) {
        if self.known.multiples.divides(b, a) {
            return (a.floor_div(b), Dim::from(0));
        }
        for whole in std::iter::once(a.clone()).chain(self.known.multiples.in_parts(a)) {
            let (quotient, rest) = split(&whole, b);
            if rest != whole && self.is_below(&rest, b) {
                return (quotient, rest);
            }
        }
        let (quotient, rest) = split(a, b);
        (&quotient + &rest.floor_div(b), rest.rem(b))
    }

    /// Is it at least 0 and less than `b`?
    fn is_below(&self, a: &Dim, b: &Dim) -> bool {
        a.as_const() == Some(0) || self.nonneg(a) && self.nonneg(&(&(b - a) - &Dim::from(1)))
    }

    /// The value of a symbol, where it is known.
    pub(super) fn value(&self, symbol: &str) -> Option<&Dim> {
        self.known.defs.get(symbol)
    }

    /// What something is known to be a multiple of, or to leave something of.
    pub(super) fn divisors(&self) -> Vec<Dim> {
        let remainders = self
            .known
            .nonneg
            .iter()
            .flat_map(Dim::terms)
            .flat_map(|(m, _)| m);
        let of = |atom: &Atom| match atom {
            Atom::Rem(_, by) => Some((**by).clone()),
            _ => None,
        };
        let mut all: Vec<Dim> = self.known.multiples.divisors().cloned().collect();
        all.extend(remainders.filter_map(of));
        all.sort();
        all.dedup();
        all
    }

    /// What is at least 0.
    pub(super) fn known(&self) -> &[Dim] {
        &self.known.nonneg
    }

    /// What a symbol is at least, or at most.
    pub(super) fn bounds(&self, symbol: &str, low: bool) -> Vec<Dim> {
        let bound = |fact: &Dim| {
            let this = [Atom::Sym(symbol.into())];
            let (_, coefficient) = fact.terms().find(|(monomial, _)| *monomial == this)?;
            let rest = fact - &Dim::monomial(&this).try_mul(&Dim::from(coefficient))?;
            let alone = !rest.symbols().contains(symbol) && (coefficient > 0) == low;
            let end = rest.floor_div(&Dim::from(coefficient.abs()));
            alone.then(|| if low { -&end } else { end })
        };
        self.known.nonneg.iter().filter_map(bound).collect()
    }

    /// Compares two extents.
    pub(super) fn equality(&self, a: &Dim, b: &Dim) -> Equality {
        let difference = self.normal(&(a - b));
        match difference.as_const() {
            Some(0) => Equality::Equal,
            Some(_) => Equality::Differ,
            None if self.nonneg(&difference) && self.nonneg(&-&difference) => Equality::Equal,
            None => Equality::Unknown,
        }
    }

    /// Are they equal?
    pub(super) fn equal(&self, a: &Dim, b: &Dim) -> bool {
        matches!(self.equality(a, b), Equality::Equal)
    }

    /// Is the position `at` inside an axis of this extent?
    pub(super) fn inside(&self, at: &Dim, extent: &Dim) -> bool {
        self.nonneg(at) && self.holds(at, CmpOp::Lt, extent)
    }

    /// Does `left cmp right` follow?
    pub(super) fn holds(&self, left: &Dim, cmp: CmpOp, right: &Dim) -> bool {
        match cmp {
            CmpOp::Eq => self.equal(left, right),
            CmpOp::Ne => self.refuted(left, CmpOp::Eq, right),
            _ => as_nonneg(left, cmp, right).iter().all(|d| self.nonneg(d)),
        }
    }

    /// Can it never hold?
    pub(super) fn refuted(&self, left: &Dim, cmp: CmpOp, right: &Dim) -> bool {
        let never = |d: &Dim| self.nonneg(&(&-d - &Dim::from(1)));
        as_nonneg(left, cmp, right).iter().any(never)
    }

    /// Does `d ≥ 0` follow?
    pub(super) fn nonneg(&self, d: &Dim) -> bool {
        // A sum of sizes needs no search.
        if self.known.excluded || is_sum(d) {
            return true;
        }
        let goal = self.normal(d);
        self.asked.answer(self.number, goal, |goal, most| {
            if self.asked.is_false(self.number, goal) {
                return (false, 0);
            }
            // Most proofs are short, and what is not is mostly none.
            let short = most.min(search::SHORT);
            let (proved, done) = self.searched(goal, short);
            if proved || done < short || short == most {
                return (proved, done);
            }
            match self.worth(goal) {
                0 => (false, done),
                worth => self.searched(goal, worth.min(most)),
            }
        })
    }

    /// While what this gives lives, what is asked is for helps alone: all of them together are searched for
    /// no longer than some.
    pub(super) fn helping(&self) -> Helping {
        Helping::with(&self.asked)
    }
}

/// `d` as a lone remainder.
fn as_remainder(d: &Dim) -> Option<(Dim, Dim)> {
    match single(d)? {
        (atoms, 1) => match &atoms[..] {
            [Atom::Rem(a, b)] => Some(((**a).clone(), (**b).clone())),
            _ => None,
        },
        _ => None,
    }
}

/// `d` as a single monomial with its coefficient.
fn single(d: &Dim) -> Option<(Vec<Atom>, i64)> {
    let mut terms = d.terms();
    let (monomial, coefficient) = terms.next()?;
    terms
        .next()
        .is_none()
        .then(|| (monomial.to_vec(), coefficient))
}

/// Is it a sum of products of sizes?
pub(super) fn is_sum(d: &Dim) -> bool {
    let size = |atom: &Atom| matches!(atom, Atom::Sym(_));
    d.terms()
        .all(|(monomial, coefficient)| coefficient >= 0 && monomial.iter().all(size))
}

/// `monomial / factor`, if it divides.
fn without(monomial: &[Atom], factor: &[Atom]) -> Option<Vec<Atom>> {
    let mut rest = monomial.to_vec();
    for atom in factor {
        rest.remove(rest.iter().position(|a| a == atom)?);
    }
    Some(rest)
}

/// `(q, r)` with `a = q·b + r`, where `q` takes the terms of `a` that `b` divides.
fn split(a: &Dim, b: &Dim) -> (Dim, Dim) {
    let (mut quotient, mut rest) = (Dim::from(0), Dim::from(0));
    for (monomial, coefficient) in a.terms() {
        let term = &Dim::monomial(monomial) * &Dim::from(coefficient);
        if b.as_const() != Some(0) && term.rem(b).as_const() == Some(0) {
            quotient = &quotient + &term.floor_div(b);
        } else {
            rest = &rest + &term;
        }
    }
    (quotient, rest)
}

/// The term without symbols.
fn constant(d: &Dim) -> Dim {
    let own = d.terms().find(|(monomial, _)| monomial.is_empty());
    Dim::from(own.map_or(0, |(_, c)| c))
}

/// What `d ≥ 0` says of whole numbers: `2·y − 1 ≥ 0` is `y − 1 ≥ 0`.
fn tightened(d: &Dim) -> Dim {
    let open = d.terms().filter(|(monomial, _)| !monomial.is_empty());
    let by = open.fold(0, |by, (_, c)| c.checked_abs().map_or(1, |c| gcd(by, c)));
    if by < 2 {
        return d.clone();
    }
    let parts = d.terms().map(|(monomial, c)| (monomial, c.div_euclid(by)));
    parts.fold(Dim::from(0), |sum, (monomial, c)| {
        &sum + &(&Dim::from(c) * &Dim::monomial(monomial))
    })
}

fn gcd(a: i64, b: i64) -> i64 {
    if b == 0 { a.max(1) } else { gcd(b, a % b) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn sym(name: &str) -> Dim {
        Dim::sym(name)
    }
    fn int(n: i64) -> Dim {
        Dim::from(n)
    }

    #[test]
    fn divisibility_makes_quotients_exact() {
        let (d, h, e) = (sym("D"), sym("H"), sym("E"));
        let mut facts = Facts::default();
        assert!(matches!(
            facts.equality(&(&h * &d.floor_div(&h)), &d),
            Equality::Unknown
        ));
        facts.assume(&d.rem(&h), CmpOp::Eq, &int(0));
        facts.assume(&e, CmpOp::Eq, &d.floor_div(&h));
        assert!(matches!(facts.equality(&(&h * &e), &d), Equality::Equal));
        assert!(matches!(
            facts.equality(&(&(&h * &e) + &int(1)), &d),
            Equality::Differ
        ));
        facts.assume(&e.rem(&int(2)), CmpOp::Eq, &int(0));
        let half = e.floor_div(&int(2));
        assert!(matches!(
            facts.equality(&(&half * &int(2)), &e),
            Equality::Equal
        ));
        assert!(matches!(
            facts.equality(&(&(&half * &int(2)) * &h), &d),
            Equality::Equal
        ));
    }

    #[test]
    fn order_follows_from_facts_and_bounds() {
        let (y, i) = (sym("Y"), sym("i"));
        let mut facts = Facts::default();
        let out = &(&y - &int(1)).floor_div(&int(2)) + &int(1);
        facts.assume(&i, CmpOp::Lt, &out);
        facts.assume(&y, CmpOp::Ge, &int(1));
        let at = &(&i * &int(2)) - &int(1);
        assert!(!facts.nonneg(&at));
        assert!(facts.holds(&(&i * &int(2)), CmpOp::Lt, &y));
        assert!(facts.holds(&at, CmpOp::Le, &(&y - &int(2))));
        assert!(facts.holds(&at, CmpOp::Ge, &int(-1)));
        assert!(facts.refuted(&y, CmpOp::Lt, &int(1)));
    }

    #[test]
    fn merged_positions_stay_inside() {
        let (n, g, big, small) = (sym("n"), sym("g"), sym("N"), sym("G"));
        let mut facts = Facts::default();
        facts.assume(&n, CmpOp::Lt, &big);
        facts.assume(&g, CmpOp::Lt, &small);
        let at = &(&n * &small) + &g;
        assert!(facts.holds(&at, CmpOp::Lt, &(&big * &small)));
        assert_eq!(facts.normal(&at.floor_div(&small)), n);
        assert_eq!(facts.normal(&at.rem(&small)), g);
        assert!(!facts.holds(&at, CmpOp::Lt, &(&(&big * &small) - &int(1))));
    }

    #[test]
    fn rows_and_columns_of_one_index_are_bounded() {
        let (p, q, a, b) = (sym("p"), sym("q"), sym("A"), sym("B"));
        let mut facts = Facts::default();
        for size in [&a, &b] {
            facts.assume(size, CmpOp::Ge, &int(1));
        }
        for index in [&p, &q] {
            facts.assume(index, CmpOp::Lt, &(&a * &b));
        }
        let far = |d: &Dim| &(d * &int(2)) - &int(1);
        let rows = &(&p.floor_div(&b) - &q.floor_div(&b)) + &(&a - &int(1));
        let columns = &(&p.rem(&b) - &q.rem(&b)) + &(&b - &int(1));
        let at = &(&rows * &far(&b)) + &columns;
        assert!(facts.inside(&at, &(&far(&a) * &far(&b))));
        assert!(!facts.inside(&at, &(&(&far(&a) * &far(&b)) - &int(1))));
        assert!(!facts.inside(&(&at - &int(1)), &(&far(&a) * &far(&b))));
    }

    #[test]
    fn ranges_that_are_of_each_other_come_to_an_end() {
        let (x, y, falls) = (sym("x"), sym("y"), &sym("P") - &sym("Q"));
        let mut facts = Facts::default();
        facts.assume(&falls, CmpOp::Le, &int(0));
        facts.assume(&x, CmpOp::Le, &(&y + &int(3)));
        facts.assume(&y, CmpOp::Le, &(&x + &int(3)));
        assert!(!facts.nonneg(&(&(&falls * &x) + &int(1))));
        assert!(!facts.nonneg(&(&(&falls * &y) + &int(1))));
    }

    /// Sixteen dims, and clauses of which each says little of the goal.
    fn tangled() -> (Facts, impl Fn(i64) -> Dim) {
        let mut facts = Facts::default();
        let dims: Vec<Dim> = (0..16).map(|n| sym(&format!("D{n}"))).collect();
        for three in dims.windows(3) {
            facts.assume(&(&three[0] * &three[1]), CmpOp::Ge, &(&three[2] + &int(3)));
            facts.assume(&(&three[0] + &three[2]), CmpOp::Le, &(&three[1] * &int(5)));
        }
        (facts, move |n| {
            &(&(&dims[0] * &dims[7]) - &(&dims[9] * &dims[3])) - &int(n)
        })
    }

    #[test]
    fn what_helps_cost_is_bounded_and_leaves_other_proofs_alone() {
        let (mut facts, goal) = tangled();
        // no number is the root of 2, so that nothing is refuted by an example
        facts.assume(&(&sym("D15") * &sym("D15")), CmpOp::Eq, &int(2));
        let (a, b) = (sym("D0"), sym("D1"));
        let easy = &(&(&a * &b) - &sym("D2")) - &int(1);
        let helping = facts.helping();
        for n in 0..50 {
            assert!(!facts.nonneg(&goal(n)));
        }
        assert!(!facts.nonneg(&easy), "nothing is left to look for helps");
        drop(helping);
        assert!(facts.nonneg(&easy));
        let _helping = facts.helping();
        assert!(facts.nonneg(&easy), "what is known costs nothing");
    }

    #[test]
    fn what_numbers_refute_is_not_searched_for() {
        let (facts, goal) = tangled();
        let easy = &(&(&sym("D0") * &sym("D1")) - &sym("D2")) - &int(1);
        let _helping = facts.helping();
        for n in 0..50 {
            assert!(!facts.nonneg(&goal(n)));
        }
        assert!(
            facts.nonneg(&easy),
            "there is enough left to look for helps"
        );
    }

    #[test]
    fn the_same_facts_in_the_same_order_are_asked_once() {
        let (facts, goal) = tangled();
        let given = |facts: &Facts| {
            let mut facts = facts.clone();
            facts.assume(&sym("D3"), CmpOp::Lt, &sym("D5"));
            facts.assume_nonneg(&(&sym("D6") - &int(2)));
            facts
        };
        let (once, twice) = (given(&facts), given(&facts));
        assert_eq!(once.number, twice.number);
        assert_ne!(once.number, facts.number);
        let mut other = facts.clone();
        other.assume(&sym("D3"), CmpOp::Le, &sym("D5"));
        assert_ne!(once.number, other.number);
        assert_eq!(once.nonneg(&goal(0)), twice.nonneg(&goal(0)));
    }

    /// Polynomials over `x`, `y`, `z`, quotients and remainders by small numbers and symbols.
    fn dims() -> impl Strategy<Value = Dim> {
        let leaf = prop_oneof![
            (-4i64..5).prop_map(Dim::from),
            prop_oneof![Just("x"), Just("y"), Just("z")].prop_map(sym),
        ];
        leaf.prop_recursive(3, 12, 2, |inner| {
            let divisor = prop_oneof![(1i64..4).prop_map(Dim::from), Just(sym("z"))];
            prop_oneof![
                (inner.clone(), inner.clone()).prop_map(|(a, b)| &a + &b),
                (inner.clone(), inner.clone()).prop_map(|(a, b)| &a - &b),
                (inner.clone(), inner.clone()).prop_map(|(a, b)| &a * &b),
                (inner.clone(), divisor.clone()).prop_map(|(a, b)| a.floor_div(&b)),
                (inner, divisor).prop_map(|(a, b)| a.rem(&b)),
            ]
        })
    }

    fn comparison() -> impl Strategy<Value = (Dim, CmpOp, Dim)> {
        let cmp = prop_oneof![
            Just(CmpOp::Eq),
            Just(CmpOp::Ne),
            Just(CmpOp::Lt),
            Just(CmpOp::Le),
            Just(CmpOp::Gt),
            Just(CmpOp::Ge)
        ];
        (dims(), cmp, dims())
    }

    fn holds(left: i64, cmp: CmpOp, right: i64) -> bool {
        match cmp {
            CmpOp::Eq => left == right,
            CmpOp::Ne => left != right,
            CmpOp::Lt => left < right,
            CmpOp::Le => left <= right,
            CmpOp::Gt => left > right,
            CmpOp::Ge => left >= right,
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

        /// What is proved holds for every number that fits the facts, divisors being at least 1.
        #[test]
        fn proofs_are_sound(
            given in prop::collection::vec(comparison(), 0..4),
            goal in comparison(),
        ) {
            let mut facts = Facts::default();
            facts.assume(&sym("z"), CmpOp::Ge, &int(1));
            for (left, cmp, right) in &given {
                facts.assume(left, *cmp, right);
            }
            let (left, cmp, right) = &goal;
            let (proved, refuted) = (facts.holds(left, *cmp, right), facts.refuted(left, *cmp, right));
            for (x, y, z) in (0..294).map(|n| (n % 7, n / 7 % 7, n / 49 + 1)) {
                let env = |s: &str| Some(match s { "x" => x, "y" => y, _ => z });
                let value = |d: &Dim| d.eval(&env).unwrap();
                if given.iter().all(|(a, cmp, b)| holds(value(a), *cmp, value(b))) {
                    let truth = holds(value(left), *cmp, value(right));
                    prop_assert!(!proved || truth, "proved {left} {cmp:?} {right} at {x} {y} {z}");
                    prop_assert!(!refuted || !truth, "refuted {left} {cmp:?} {right} at {x} {y} {z}");
                }
            }
        }
    }
}
