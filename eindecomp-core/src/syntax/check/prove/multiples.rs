//! What divides what, and how dims can be written because of it.

use super::{constant, gcd, single, without};
use crate::ein::Dim;
use crate::ein::dim::Atom;

/// With more multiples than these, each is seen by itself.
const MOST: usize = 8;

/// `whole % by == 0`
#[derive(Clone, Debug)]
struct Multiple {
    whole: Dim,
    by: Dim,
    quotient: Dim,
    /// `by * (whole / by)`, if that is one term.
    product: Option<(Vec<Atom>, i64)>,
    /// What is one atom but for a number, and that as a multiple: `E` is `2*(E / 2)`.
    shown: Option<(Atom, Dim)>,
}

impl Multiple {
    fn new(whole: Dim, by: Dim) -> Multiple {
        let quotient = whole.floor_div(&by);
        let left = constant(&whole);
        let atom = match single(&(&whole - &left)) {
            Some((atoms, 1)) => <[Atom; 1]>::try_from(atoms).ok(),
            _ => None,
        };
        let shown = atom.map(|[atom]| (atom, &(&by * &quotient) - &left));
        Multiple {
            product: single(&(&quotient * &by)),
            whole,
            by,
            quotient,
            shown,
        }
    }

    /// `a` with the whole as a multiple; `None` where it does not stand in it.
    fn put(&self, a: &Dim) -> Option<Dim> {
        let (whole, multiple) = self.shown.as_ref()?;
        let mut atoms = a.terms().flat_map(|(monomial, _)| monomial);
        if !atoms.any(|atom| atom == whole) {
            return None;
        }
        a.try_map_atoms(&|atom| {
            Some(match atom == whole {
                true => multiple.clone(),
                false => Dim::from(atom),
            })
        })
    }
}

/// Several of them.
#[derive(Clone, Debug, Default)]
pub(super) struct Multiples {
    all: Vec<Multiple>,
    /// Those that are seen together, by number: each alone, each with those that are multiples of as much, and
    /// all, again and again.
    forms: Vec<Vec<usize>>,
}

impl Multiples {
    fn of(pairs: impl Iterator<Item = (Dim, Dim)>) -> Multiples {
        let all: Vec<Multiple> = pairs.map(|(whole, by)| Multiple::new(whole, by)).collect();
        let each = || 0..all.len();
        let mut forms: Vec<Vec<usize>> = each().map(|one| vec![one]).collect();
        if (2..=MOST).contains(&all.len()) {
            let alike = |one: usize| {
                let divides =
                    |other: &usize| all[*other].by.rem(&all[one].by).as_const() == Some(0);
                each().filter(divides).collect()
            };
            forms.extend(each().map(alike));
            forms.push(each().cycle().take(all.len() * all.len()).collect());
            forms.sort();
            forms.dedup();
        }
        Multiples { all, forms }
    }

    pub fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    pub fn len(&self) -> usize {
        self.all.len()
    }

    /// What divides something.
    pub fn divisors(&self) -> impl Iterator<Item = &Dim> {
        self.all.iter().map(|multiple| &multiple.by)
    }

    /// What is known of quotients that are themselves multiples, `2 * k` for `d / M`, by the bounds of each.
    pub fn of_quotients(&self, bounds: impl Fn(&Dim) -> Vec<Dim>) -> Vec<Dim> {
        let quotient = |m: &&Multiple| matches!(&m.shown, Some((Atom::Div(..), _)));
        let of = |m: &Multiple| {
            let atom = m.shown.as_ref().map(|(atom, _)| Dim::from(atom));
            let bounds = atom.map(|atom| bounds(&atom)).unwrap_or_default();
            let put = |bound: &Dim| m.put(bound);
            bounds.iter().filter_map(put).collect::<Vec<_>>()
        };
        self.all.iter().filter(quotient).flat_map(of).collect()
    }

    /// What is a multiple, and of what.
    pub fn pairs(&self) -> impl Iterator<Item = (Dim, Dim)> {
        self.all.iter().map(|m| (m.whole.clone(), m.by.clone()))
    }

    /// With one more, which may say all that others do.
    pub fn with(&self, whole: Dim, by: Dim) -> Multiples {
        let implied = |(w, b): &(Dim, Dim)| *w == whole && by.rem(b).as_const() == Some(0);
        let others: Vec<(Dim, Dim)> = self.pairs().filter(|pair| !implied(pair)).collect();
        Multiples::of(others.into_iter().chain([(whole, by)]))
    }

    /// With other terms for what they are about.
    pub fn mapped(&self, put: &dyn Fn(&Dim) -> Dim) -> Multiples {
        Multiples::of(self.pairs().map(|(whole, by)| (put(&whole), put(&by))))
    }

    /// Is it known that `by` divides `whole`?
    pub fn divides(&self, by: &Dim, whole: &Dim) -> bool {
        self.all.iter().any(|m| m.whole == *whole && m.by == *by)
    }

    /// `a` with sizes as the multiples that they are.
    pub fn in_parts(&self, a: &Dim) -> Vec<Dim> {
        let mut made: Vec<Dim> = Vec::new();
        for form in &self.forms {
            let (mut shown, mut idle) = (None, 0);
            for at in form {
                match self.all[*at].put(shown.as_ref().unwrap_or(a)) {
                    Some(put) => (shown, idle) = (Some(put), 0),
                    None => idle += 1,
                }
                // Each was tried since the last one that stood in it.
                if idle == self.all.len() {
                    break;
                }
            }
            made.extend(shown.filter(|shown| !made.contains(shown)));
        }
        made
    }

    /// A goal `d ≥ 0` that is as good, and the easiest to prove: what is a multiple of some number but for its
    /// constant is at least 0 if it is more than that number below it. With the terms that were looked through.
    pub fn relaxed(&self, goal: &Dim) -> (Dim, usize) {
        let mut forms = self.in_parts(goal);
        forms.push(goal.clone());
        let work = forms.iter().map(|form| form.terms().count()).sum();
        let above = |own: i64, common: i64| match common > 1 {
            true => common - 1 - own.rem_euclid(common),
            false => 0,
        };
        let of_form = |form: &Dim| {
            let own = constant(form);
            let others = form - &own;
            let common = others.terms().map(|(_, c)| c.abs()).fold(0, gcd);
            above(own.as_const().unwrap_or(0), common)
        };
        // A multiple that is no atom may be the goal itself, or its negation.
        let of_multiple = |m: &Multiple| {
            let common = m.by.as_const().unwrap_or(1);
            let rest = [goal - &m.whole, goal + &m.whole];
            let rest = rest.iter().find_map(Dim::as_const);
            rest.map_or(0, |rest| above(rest, common))
        };
        let slack = forms
            .iter()
            .map(of_form)
            .chain(self.all.iter().map(of_multiple));
        let slack = slack.max().unwrap_or(0);
        let quotients = goal.terms().flat_map(|(m, _)| m);
        let quotients: Vec<&Dim> = quotients
            .filter_map(|atom| match atom {
                Atom::Div(_, by) => Some(&**by),
                _ => None,
            })
            .collect();
        // The largest multiple of `by` that a form is one of but for its constant, which it then exceeds if that is
        // not below 0.
        let own = constant(goal);
        let of_form = |by: &Dim, form: &Dim| {
            let mut common = 0;
            for (m, c) in (form - &own).terms() {
                let term = &Dim::monomial(m) * &Dim::from(c);
                (term.rem(by).as_const() == Some(0)).then_some(())?;
                let quotient = term.floor_div(by);
                common = quotient.terms().map(|(_, c)| c.abs()).fold(common, gcd);
            }
            Some(by * &Dim::from(common))
        };
        let divisors = self.all.iter().map(|m| &m.by).chain(quotients);
        let by = divisors
            .filter(|by| by.as_const().is_none())
            .find_map(|by| forms.iter().find_map(|form| of_form(by, form)));
        // A product of sizes is at least as large as its factor.
        let most = own.as_const().unwrap_or(0).saturating_add(slack);
        let more = |by: &Dim| by.terms().all(|(_, c)| c > most);
        let larger = |by: &Dim| most <= 0 || more(by) || self.in_parts(by).iter().any(more);
        let upward = own.as_const().is_some_and(|own| own >= 0);
        let relaxed = match by.filter(|by| upward && larger(by)) {
            Some(by) => &(&(goal - &own) + &by) - &Dim::from(1),
            None => goal + &Dim::from(slack),
        };
        (relaxed, work)
    }

    /// `b * (a / b)` is `a` where `b` divides `a`.
    pub fn cancel(&self, d: &Dim) -> Dim {
        let mut out = d.clone();
        for multiple in &self.all {
            let Some((atoms, factor)) = &multiple.product else {
                continue;
            };
            for (monomial, coefficient) in d.terms() {
                let Some(rest) = without(monomial, atoms) else {
                    continue;
                };
                if coefficient % factor != 0 {
                    continue;
                }
                let rest = &Dim::monomial(&rest) * &Dim::from(coefficient / factor);
                let whole = &multiple.by * &multiple.quotient;
                out = &(&out - &(&rest * &whole)) + &(&rest * &multiple.whole);
            }
        }
        out
    }
}
