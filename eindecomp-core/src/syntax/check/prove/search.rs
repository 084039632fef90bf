//! The search for a proof of `d ≥ 0`: its negative terms are cancelled one after the other.

use std::cell::OnceCell;
use std::cmp::Ordering;
use std::collections::HashMap;
use std::sync::Arc;

use super::{Facts, Known, gcd, is_sum, without};
use crate::ein::Dim;
use crate::ein::dim::Atom;

/// How deep facts are combined.
const DEPTH: usize = 8;
/// How much is done for one goal: terms of combinations. Programs as people write them need a fifth of it.
pub(super) const WORK: usize = 2000;
/// How much is done before it is tried whether the goal is false.
pub(super) const SHORT: usize = 150;
/// How much is done where no numbers were found at which the facts hold: they may exclude each other.
const DOUBTFUL: usize = 500;

impl Facts {
    /// How much a search for a proof of `d ≥ 0` is worth: nothing where the facts hold for some numbers and the goal
    /// does not.
    pub(super) fn worth(&self, goal: &Dim) -> usize {
        let mut examples = self.asked.examples.borrow_mut();
        match examples.is_possible(self.number) {
            true if examples.refute(self.number, goal) => 0,
            true => WORK,
            false => DOUBTFUL,
        }
    }

    /// A search as it is, then by rows and columns: is it proved, and the work that was done.
    pub(super) fn searched(&self, goal: &Dim, most: usize) -> (bool, usize) {
        let (proved, done) = proves(self, goal, most);
        if proved {
            return (true, done);
        }
        let Some((facts, goal)) = self.by_rows(goal) else {
            return (false, done);
        };
        let (proved, more) = proves(&facts, &goal, most);
        (proved, done + more)
    }
}

/// Does the goal, in normal form, follow, as far as `most` work for each way to write it shows? With the work
/// that was done.
fn proves(facts: &Facts, goal: &Dim, most: usize) -> (bool, usize) {
    let (mut done, mut goal, mut gone) = (0, goal.clone(), Vec::new());
    loop {
        if follows(facts, &goal, most, &mut done) {
            return (true, done);
        }
        match at_the_worse_end(facts, &goal, &gone, (most, &mut done)) {
            Some((symbol, worst)) => {
                gone.push(symbol);
                goal = worst;
            }
            None => return (false, done),
        }
    }
}

fn follows(facts: &Facts, goal: &Dim, most: usize, done: &mut usize) -> bool {
    let mut search = Search {
        facts: &facts.known,
        of_remainders: OnceCell::new(),
        known: HashMap::new(),
        left: most,
    };
    let proved = search.prove(goal, DEPTH);
    *done += most - search.left;
    proved
}

/// The goal with one of its symbols, none of those that are `gone`, at the end of its range that is worse: what is
/// multiplied by a symbol says which, if it is known to be above or below 0, as `2·M - 1` in `i·(2·M - 1)`.
fn at_the_worse_end(
    facts: &Facts,
    goal: &Dim,
    gone: &[Arc<str>],
    (most, done): (usize, &mut usize),
) -> Option<(Arc<str>, Dim)> {
    // Indices come before the dims that their ranges are of. An end may bring back what is gone.
    let symbols = goal.symbols().into_iter().rev();
    let mut symbols = symbols.filter(|symbol| !gone.contains(symbol));
    symbols.find_map(|symbol| {
        let (factor, rest) = collect(goal, &Atom::Sym(symbol.clone()));
        let has = |d: &Dim| d.symbols().contains(&symbol);
        if has(&factor) || has(&rest) || is_sum(&factor) || is_sum(&-&factor) {
            return None;
        }
        let last = facts.bounds(&symbol, false).into_iter().next()?;
        if follows(facts, &factor, most, done) {
            return Some((symbol, rest));
        }
        let end = &rest + &factor.try_mul(&last)?;
        let falls = follows(facts, &-&factor, most, done);
        falls.then(|| (symbol, facts.known.multiples.cancel(&end)))
    })
}

struct Search<'a> {
    facts: &'a Known,
    /// What the remainders in the facts bring.
    of_remainders: OnceCell<Vec<Dim>>,
    /// Goals tried; one that is being tried counts as not proved.
    known: HashMap<Dim, bool>,
    /// Work that may still be done.
    left: usize,
}

impl Search<'_> {
    fn prove(&mut self, goal: &Dim, depth: usize) -> bool {
        if let Some(c) = goal.as_const() {
            return c >= 0;
        }
        // What has nothing to cancel may have when it is relaxed.
        if (goal.terms()).all(|(m, c)| c >= 0 && self.monomial_nonneg(m, depth)) {
            return true;
        }
        let (goal, work) = &self.facts.multiples.relaxed(goal);
        self.left = self.left.saturating_sub(work * self.facts.multiples.len());
        if let Some(known) = self.known.get(goal) {
            return *known;
        }
        if self.left == 0 {
            return false;
        }
        self.known.insert(goal.clone(), false);
        let proved = self.combine(goal, depth);
        self.known.insert(goal.clone(), proved);
        proved
    }

    fn combine(&mut self, goal: &Dim, depth: usize) -> bool {
        // Each negative term needs a fact, so it is enough to try the facts for one of them that has some: that
        // of highest degree, since the constant may vanish on the way, and a remainder first, without which what is
        // left may be a multiple; a quotient last, which is multiplied out.
        let negative = goal
            .terms()
            .filter(|(m, c)| *c < 0 || !self.monomial_nonneg(m, depth));
        let mut negative: Vec<(Vec<Atom>, i64)> = negative.map(|(m, c)| (m.to_vec(), c)).collect();
        if negative.is_empty() {
            return true;
        }
        if depth == 0 {
            return false;
        }
        let key = |m: &[Atom]| {
            let remainder = |atom: &Atom| matches!(atom, Atom::Rem(..));
            let size = |atom: &Atom| matches!(atom, Atom::Sym(_));
            (m.iter().any(remainder), m.len(), m.iter().all(size))
        };
        let first = negative.iter().map(|(m, _)| key(m)).max();
        negative.retain(|(m, _)| Some(key(m)) == first);
        let of_remainders = self.of_remainders.get_or_init(|| of_remainders(self.facts));
        let facts = self.facts.nonneg.iter().chain(of_remainders).cloned();
        let facts: Vec<Dim> = facts.chain(atom_facts(goal)).collect();
        let mut steps = negative
            .iter()
            .rev()
            .map(|term| self.without_term(goal, term, &facts));
        let next = steps.find(|steps| !steps.is_empty());
        next.into_iter()
            .flatten()
            .any(|(_, left)| self.prove(&left, depth - 1))
    }

    /// Goals of which each suffices, in which facts cancel a term.
    fn without_term(
        &mut self,
        goal: &Dim,
        (monomial, coefficient): &(Vec<Atom>, i64),
        facts: &[Dim],
    ) -> Vec<Ranked> {
        let degree = degree(goal);
        let mut next = Vec::new();
        for fact in facts {
            for (theirs, by) in fact.terms() {
                if (by < 0) != (*coefficient < 0) {
                    continue;
                }
                let Some(rest) = without(monomial, theirs) else {
                    continue;
                };
                if !rest.iter().all(|a| matches!(a, Atom::Sym(_))) {
                    continue;
                }
                // k·goal = λ·rest·fact + next, so `next ≥ 1 - k` suffices.
                let common = gcd(by.abs(), coefficient.abs());
                let (k, lambda) = (by.abs() / common, coefficient.abs() / common);
                let cancelled = &(fact * &Dim::monomial(&rest)) * &Dim::from(lambda);
                let left = &(&(goal * &Dim::from(k)) - &cancelled) + &Dim::from(k - 1);
                self.left = self.left.saturating_sub(left.terms().count());
                let left = self.facts.multiples.cancel(&left);
                // A fact as it is may say of a size or an index what product it is.
                let degree = if rest.is_empty() {
                    degree.max(2)
                } else {
                    degree
                };
                if self::degree(&left) <= degree {
                    // That a size is at least 1 grows the goal, so it is tried last.
                    next.push(rank(theirs.is_empty() && !rest.is_empty(), left));
                }
            }
        }
        for atom in monomial {
            let left = match atom {
                Atom::Div(a, b) => self.without_quotient(goal, atom, (a, b)),
                Atom::Sym(_) | Atom::Rem(..) => None,
            };
            next.extend(left.map(|left| rank(false, self.facts.multiples.cancel(&left))));
        }
        next.sort();
        next.dedup();
        // What is larger whatever the sizes are is easier.
        let easier = |(_, a): &Ranked, (_, b): &Ranked| a != b && exceeds(a, b);
        let hard: Vec<bool> = next
            .iter()
            .map(|b| next.iter().any(|a| easier(a, b)))
            .collect();
        let mut hard = hard.into_iter();
        next.retain(|_| !hard.next().unwrap_or(false));
        next
    }

    /// The goal times `b` with the quotient `a / b` at the end of its range that is worse; integers
    /// round, so that `b·goal ≥ 1 - b` suffices.
    fn without_quotient(&self, goal: &Dim, atom: &Atom, (a, b): (&Dim, &Dim)) -> Option<Dim> {
        let (factor, rest) = collect(goal, atom);
        let last = b - &Dim::from(1);
        let end = match (is_sum(&-&factor), is_sum(&factor)) {
            (true, _) => a.clone(),
            (_, true) => a - &last,
            (false, false) => return None,
        };
        let scaled = &rest.try_mul(b)? + &factor.try_mul(&end)?;
        Some(&scaled + &last)
    }

    fn monomial_nonneg(&mut self, monomial: &[Atom], depth: usize) -> bool {
        monomial.iter().all(|atom| match atom {
            Atom::Sym(_) | Atom::Rem(..) => true,
            Atom::Div(a, _) => depth > 0 && self.prove(a, depth - 1),
        })
    }
}

/// `(factor, rest)` with `goal = factor·atom + rest`, by the terms that have the atom.
fn collect(goal: &Dim, atom: &Atom) -> (Dim, Dim) {
    let (mut factor, mut rest) = (Dim::from(0), Dim::from(0));
    for (monomial, coefficient) in goal.terms() {
        let others = without(monomial, std::slice::from_ref(atom));
        let term = Dim::monomial(others.as_deref().unwrap_or(monomial));
        let sum = if others.is_some() {
            &mut factor
        } else {
            &mut rest
        };
        *sum = &*sum + &(&term * &Dim::from(coefficient));
    }
    (factor, rest)
}

/// Bounds of the remainders in the facts, of the quotients that these are of, and of the quotients that are
/// multiples, each once.
fn of_remainders(facts: &Known) -> Vec<Dim> {
    let atoms = facts
        .nonneg
        .iter()
        .flat_map(Dim::terms)
        .flat_map(|(m, _)| m);
    let remainders = atoms.filter_map(|atom| match atom {
        Atom::Rem(of, _) => Some((atom, of)),
        _ => None,
    });
    let mut all: Vec<Dim> = remainders
        .flat_map(|(atom, of)| [atom_facts(&Dim::from(atom)), atom_facts(of)])
        .flatten()
        .collect();
    all.extend(facts.multiples.of_quotients(atom_facts));
    all.sort();
    all.dedup();
    all
}

/// Bounds of the quotients and remainders in `d`, whose divisors are at least 1.
fn atom_facts(d: &Dim) -> Vec<Dim> {
    let one = Dim::from(1);
    let mut facts = Vec::new();
    for atom in d.terms().flat_map(|(m, _)| m) {
        match atom {
            Atom::Sym(_) => {}
            Atom::Div(a, b) => {
                let below = &**a - &(&**b * &a.floor_div(b));
                facts.push(&(&**b - &below) - &one);
                facts.push(below);
            }
            Atom::Rem(a, b) => {
                let r = a.rem(b);
                facts.push(&(&**b - &r) - &one);
                let multiple = &**a - &r;
                let quotient = &**b * &a.floor_div(b);
                facts.push(&multiple - &quotient);
                facts.push(&quotient - &multiple);
                if is_sum(a) {
                    facts.push(multiple);
                }
                facts.push(r);
            }
        }
    }
    facts
}

/// Is `a - b` a sum of products of sizes?
fn exceeds(a: &Dim, b: &Dim) -> bool {
    let size = |atom: &Atom| matches!(atom, Atom::Sym(_));
    let sizes = |monomial: &[Atom]| monomial.iter().all(size);
    let (mut more, mut less) = (a.terms().peekable(), b.terms().peekable());
    loop {
        let order = match (more.peek(), less.peek()) {
            (Some((m, _)), Some((n, _))) => m.cmp(n),
            (Some(_), None) => Ordering::Less,
            (None, Some(_)) => Ordering::Greater,
            (None, None) => return true,
        };
        let (monomial, difference) = match order {
            Ordering::Less => more.next(),
            Ordering::Greater => less.next().map(|(n, d)| (n, -d)),
            Ordering::Equal => more
                .next()
                .zip(less.next())
                .map(|((m, c), (_, d))| (m, c.saturating_sub(d))),
        }
        .unwrap_or_default();
        if difference < 0 || difference > 0 && !sizes(monomial) {
            return false;
        }
    }
}

/// A goal with how hard it looks.
type Ranked = ((bool, usize, usize), Dim);

fn rank(grown: bool, goal: Dim) -> Ranked {
    let negative = goal.terms().filter(|t| t.1 < 0).count();
    ((grown, negative, goal.terms().count()), goal)
}

/// Atoms in the longest monomial.
fn degree(d: &Dim) -> usize {
    d.terms().map(|(m, _)| m.len()).max().unwrap_or(0)
}
