//! Numbers for symbols at which all facts hold and a goal does not: no proof of it is worth a search. Most goals that do
//! not follow have such an example, and those of a block often the same one.

use std::collections::{HashMap, VecDeque};
use std::rc::Rc;
use std::sync::Arc;

use super::Known;
use crate::ein::Dim;
use crate::ein::dim::Atom;

/// How many examples are kept: one that served is tried first.
const KEPT: usize = 12;
/// How often the numbers of one symbol are changed, at most, from where a search for an example starts.
const STEPS: usize = 24;
/// What all symbols are where a search starts that has no example to start from.
const STARTS: [i64; 2] = [1, 12];

/// A dim by the places of its symbols in an example.
#[derive(Debug)]
struct Value {
    constant: i64,
    terms: Vec<(i64, Vec<Factor>)>,
}

#[derive(Debug)]
enum Factor {
    Symbol(usize),
    Quotient(Value, Value),
    Remainder(Value, Value),
}

impl Value {
    /// `None` where a divisor is below 1, or past 64 bits.
    fn at(&self, numbers: &[i64]) -> Option<i64> {
        let mut sum = self.constant;
        for (coefficient, factors) in &self.terms {
            let mut product = *coefficient;
            for factor in factors {
                let value = match factor {
                    Factor::Symbol(at) => numbers[*at],
                    Factor::Quotient(a, b) => a.at(numbers)?.div_euclid(b.divisor(numbers)?),
                    Factor::Remainder(a, b) => a.at(numbers)?.rem_euclid(b.divisor(numbers)?),
                };
                product = product.checked_mul(value)?;
            }
            sum = sum.checked_add(product)?;
        }
        Some(sum)
    }

    fn divisor(&self, numbers: &[i64]) -> Option<i64> {
        self.at(numbers).filter(|by| *by > 0)
    }

    fn symbols(&self, out: &mut Vec<usize>) {
        for factor in self.terms.iter().flat_map(|(_, factors)| factors) {
            match factor {
                Factor::Symbol(at) if out.contains(at) => {}
                Factor::Symbol(at) => out.push(*at),
                Factor::Quotient(a, b) | Factor::Remainder(a, b) => {
                    a.symbols(out);
                    b.symbols(out);
                }
            }
        }
    }
}

/// What numbers must satisfy.
#[derive(Debug)]
struct Constraint {
    is: Is,
    symbols: Vec<usize>,
}

#[derive(Debug)]
enum Is {
    AtLeastZero(Value),
    Multiple(Value, Value),
}

impl Constraint {
    fn new(is: Is) -> Constraint {
        let mut symbols = Vec::new();
        match &is {
            Is::AtLeastZero(value) => value.symbols(&mut symbols),
            Is::Multiple(whole, by) => {
                whole.symbols(&mut symbols);
                by.symbols(&mut symbols);
            }
        }
        Constraint { is, symbols }
    }

    /// 0 where it holds, else more the further off it is.
    fn misses(&self, numbers: &[i64]) -> u32 {
        let off = match &self.is {
            Is::AtLeastZero(value) => value.at(numbers).map(|value| value.min(0).unsigned_abs()),
            Is::Multiple(whole, by) => {
                let rest = |by: i64| Some(whole.at(numbers)?.rem_euclid(by).min(1).unsigned_abs());
                by.divisor(numbers).and_then(rest)
            }
        };
        off.map_or(u64::BITS, |off| u64::BITS - off.leading_zeros())
    }
}

/// What is tried instead of a number.
fn others(number: i64) -> [i64; 10] {
    let double = number.saturating_mul(2).min(1 << 20);
    [
        0,
        1,
        2,
        3,
        number / 2,
        (number - 1).max(0),
        number + 1,
        double,
        (double * 4).min(1 << 20),
        (number - 2).max(0),
    ]
}

/// What is made of facts.
#[derive(Debug)]
struct Facts {
    constraints: Vec<Constraint>,
    /// Has an example been found?
    possible: bool,
}

/// Of the facts that come from the same ones.
#[derive(Debug, Default)]
pub(super) struct Examples {
    symbols: HashMap<Arc<str>, usize>,
    kept: VecDeque<Vec<i64>>,
    facts: HashMap<usize, Facts>,
    /// The facts that were given more to make those of a number, and these.
    made: HashMap<usize, (usize, Rc<Known>)>,
}

impl Examples {
    fn value(&mut self, d: &Dim) -> Value {
        let (mut constant, mut terms) = (0, Vec::new());
        for (monomial, coefficient) in d.terms() {
            match monomial.is_empty() {
                true => constant = coefficient,
                false => {
                    let factors = monomial.iter().map(|atom| self.factor(atom));
                    terms.push((coefficient, factors.collect()));
                }
            }
        }
        Value { constant, terms }
    }

    fn factor(&mut self, atom: &Atom) -> Factor {
        match atom {
            Atom::Sym(symbol) => {
                let next = self.symbols.len();
                Factor::Symbol(*self.symbols.entry(symbol.clone()).or_insert(next))
            }
            Atom::Div(a, b) => Factor::Quotient(self.value(a), self.value(b)),
            Atom::Rem(a, b) => Factor::Remainder(self.value(a), self.value(b)),
        }
    }

    /// Notes that facts were made of others.
    pub fn note(&mut self, from: usize, to: usize, known: &Rc<Known>) {
        if from != to {
            self.made.insert(to, (from, known.clone()));
        }
    }

    /// Is there an example of the facts with that number, as far as was found? Those that were given no more are
    /// looked at first: what has none gets none by more.
    pub fn is_possible(&mut self, number: usize) -> bool {
        if let Some(facts) = self.facts.get(&number) {
            return facts.possible;
        }
        let Some((from, known)) = self.made.get(&number).cloned() else {
            return true;
        };
        let constraints = self.constraints(&known);
        let possible = self.is_possible(from) && self.find(&constraints);
        let facts = Facts {
            constraints,
            possible,
        };
        self.facts.insert(number, facts);
        possible
    }

    /// Is one of those kept an example at which the facts with that number hold, and the goal `d ≥ 0` does not?
    pub fn is_known(&mut self, number: usize, goal: &Dim) -> bool {
        if !self.facts.get(&number).is_some_and(|facts| facts.possible) {
            return false;
        }
        self.with_goal(number, goal, Examples::served)
    }

    /// Is there an example at which the facts with that number hold, and the goal `d ≥ 0` does not?
    pub fn refute(&mut self, number: usize, goal: &Dim) -> bool {
        self.with_goal(number, goal, Examples::find)
    }

    /// `find` with the constraints of facts, and last that the goal does not hold.
    fn with_goal(
        &mut self,
        number: usize,
        goal: &Dim,
        find: impl FnOnce(&mut Examples, &[Constraint]) -> bool,
    ) -> bool {
        let against = self.value(&(&-goal - &Dim::from(1)));
        let against = Constraint::new(Is::AtLeastZero(against));
        let Some(mut facts) = self.facts.remove(&number) else {
            return find(self, &[against]);
        };
        facts.constraints.push(against);
        let found = find(self, &facts.constraints);
        facts.constraints.pop();
        self.facts.insert(number, facts);
        found
    }

    fn constraints(&mut self, known: &Known) -> Vec<Constraint> {
        let mut constraints = Vec::new();
        for fact in &known.nonneg {
            let value = self.value(fact);
            constraints.push(Constraint::new(Is::AtLeastZero(value)));
        }
        for (whole, by) in known.multiples.pairs() {
            let (whole, by) = (self.value(&whole), self.value(&by));
            constraints.push(Constraint::new(Is::Multiple(whole, by)));
        }
        constraints
    }

    /// Are there numbers at which all constraints hold among those kept, or near them?
    fn find(&mut self, constraints: &[Constraint]) -> bool {
        if self.served(constraints) {
            return true;
        }
        let near = self.kept.front().cloned();
        let starts = STARTS.map(|number| vec![number; self.symbols.len()]);
        let mut starts = near.into_iter().chain(starts);
        let Some(found) = starts.find_map(|start| mended(constraints, start)) else {
            return false;
        };
        self.kept.push_front(found);
        self.kept.truncate(KEPT);
        true
    }

    /// Do all constraints hold at some of the numbers kept? Those are the first from then on.
    fn served(&mut self, constraints: &[Constraint]) -> bool {
        for numbers in &mut self.kept {
            numbers.resize(self.symbols.len(), 1);
        }
        // The last is that a goal does not hold, which decides mostly.
        let holds = |numbers: &Vec<i64>| constraints.iter().rev().all(|c| c.misses(numbers) == 0);
        let served = self.kept.iter().position(holds);
        let served = served.and_then(|at| self.kept.remove(at));
        let found = served.is_some();
        self.kept.extend(served);
        self.kept.rotate_right(usize::from(found));
        found
    }
}

/// The numbers, changed one after the other until all constraints hold.
fn mended(constraints: &[Constraint], mut numbers: Vec<i64>) -> Option<Vec<i64>> {
    let mut misses: Vec<u32> = constraints.iter().map(|c| c.misses(&numbers)).collect();
    for _ in 0..STEPS {
        if misses.iter().all(|off| *off == 0) {
            return Some(numbers);
        }
        let mut best: Option<(u32, usize, i64)> = None;
        for (constraint, _) in constraints.iter().zip(&misses).filter(|(_, off)| **off > 0) {
            for &symbol in &constraint.symbols {
                let (old, before) = (numbers[symbol], about(constraints, &misses, symbol));
                for other in others(old) {
                    numbers[symbol] = other;
                    let of = constraints.iter().filter(|c| c.symbols.contains(&symbol));
                    let after: u32 = of.map(|c| c.misses(&numbers)).sum();
                    if after < before && best.is_none_or(|(gain, ..)| before - after > gain) {
                        best = Some((before - after, symbol, other));
                    }
                }
                numbers[symbol] = old;
            }
            if best.is_some() {
                break;
            }
        }
        let (_, symbol, number) = best?;
        numbers[symbol] = number;
        for (constraint, off) in constraints.iter().zip(&mut misses) {
            if constraint.symbols.contains(&symbol) {
                *off = constraint.misses(&numbers);
            }
        }
    }
    misses.iter().all(|off| *off == 0).then_some(numbers)
}

/// What the constraints on a symbol miss.
fn about(constraints: &[Constraint], misses: &[u32], symbol: usize) -> u32 {
    let of = constraints
        .iter()
        .zip(misses)
        .filter(|(c, _)| c.symbols.contains(&symbol));
    of.map(|(_, off)| *off).sum()
}
