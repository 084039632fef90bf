//! Extents as integer polynomials over symbols.
//!
//! A [`Dim`] is a sum of monomials; a monomial is a product of atoms: symbols, floor quotients
//! and remainders of other dims. The form is canonical, so equal polynomials are equal values.

use std::cmp::Ordering;
use std::collections::BTreeSet;
use std::fmt;
use std::ops::{Add, Mul, Neg, Sub};
use std::sync::Arc;

use super::scalar::{floor_div, floor_rem};

/// A factor of a monomial.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Atom {
    /// A symbol: a `dim` parameter or a Rust const.
    Sym(Arc<str>),
    /// Floor quotient.
    Div(Arc<Dim>, Arc<Dim>),
    /// Remainder with the divisor's sign.
    Rem(Arc<Dim>, Arc<Dim>),
}

/// An integer polynomial over symbols. No coefficient is `i64::MIN`: each has a magnitude.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Dim {
    constant: i64,
    /// The other monomials, sorted, each as its sorted atoms, with their coefficients, which are not 0.
    symbolic: Vec<(Monomial, i64)>,
}

/// Sorted atoms, shared: proofs copy them all the time.
type Monomial = Arc<[Atom]>;

/// A polynomial with more symbols than this is no extent that anybody means.
const MAX_SIZE: usize = 200;

/// Why a dim has no value.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum DimError {
    /// A symbol without a value.
    Unbound(Arc<str>),
    /// A divisor below 1.
    Divisor {
        /// The divisor.
        divisor: Dim,
        /// Its value.
        value: i64,
    },
    /// The value does not fit 64 bits.
    Overflow(Dim),
}

// By hand: what a macro would write, without the time that building it takes before every `ein!`.
impl fmt::Display for DimError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DimError::Unbound(dim) => write!(f, "dim `{dim}` has no value"),
            DimError::Divisor { divisor, value } => {
                write!(f, "divisor `{divisor}` is {value}, but must be at least 1")
            }
            DimError::Overflow(dim) => write!(f, "the value of `{dim}` does not fit 64 bits"),
        }
    }
}

impl std::error::Error for DimError {}

impl Dim {
    /// The symbol `name`.
    pub fn sym(name: impl Into<Arc<str>>) -> Dim {
        Dim::atom(Atom::Sym(name.into()))
    }

    fn atom(atom: Atom) -> Dim {
        Dim {
            constant: 0,
            symbolic: vec![(Arc::new([atom]), 1)],
        }
    }

    /// Adds a monomial: sorted atoms and a coefficient.
    fn add_term(&mut self, atoms: &[Atom], c: i64) {
        if atoms.is_empty() {
            self.constant = coefficient(self.constant.saturating_add(c));
            return;
        }
        let at = self.symbolic.binary_search_by(|(m, _)| (**m).cmp(atoms));
        match at {
            Ok(at) => {
                let known = &mut self.symbolic[at].1;
                *known = coefficient(known.saturating_add(c));
                if *known == 0 {
                    self.symbolic.remove(at);
                }
            }
            Err(at) if c != 0 => self.symbolic.insert(at, (atoms.into(), coefficient(c))),
            Err(_) => {}
        }
    }

    /// With every coefficient changed; none becomes 0 that was none.
    fn map_coefficients(&self, of: impl Fn(i64) -> i64) -> Dim {
        Dim {
            constant: of(self.constant),
            symbolic: self
                .symbolic
                .iter()
                .map(|(m, c)| (m.clone(), of(*c)))
                .collect(),
        }
    }

    /// `self + by * other`, in one walk over both.
    fn plus(&self, by: i64, other: &Dim) -> Dim {
        let scaled = |c: i64| coefficient(c.saturating_mul(by));
        let mut symbolic = Vec::with_capacity(self.symbolic.len() + other.symbolic.len());
        let (mut ours, mut theirs) = (self.symbolic.iter(), other.symbolic.iter());
        let (mut a, mut b) = (ours.next(), theirs.next());
        while let (Some((m, c)), Some((n, d))) = (a, b) {
            match m.cmp(n) {
                Ordering::Less => {
                    symbolic.push((m.clone(), *c));
                    a = ours.next();
                    continue;
                }
                Ordering::Greater => symbolic.push((n.clone(), scaled(*d))),
                Ordering::Equal => {
                    let sum = coefficient(c.saturating_add(scaled(*d)));
                    if sum != 0 {
                        symbolic.push((m.clone(), sum));
                    }
                    a = ours.next();
                }
            }
            b = theirs.next();
        }
        symbolic.extend(a.into_iter().chain(ours).cloned());
        let rest = b.into_iter().chain(theirs);
        symbolic.extend(rest.map(|(n, d)| (n.clone(), scaled(*d))));
        let constant = coefficient(self.constant.saturating_add(scaled(other.constant)));
        Dim { constant, symbolic }
    }

    fn coefficients(&self) -> impl Iterator<Item = i64> {
        self.terms().map(|(_, c)| c)
    }

    /// The product of atoms, such as those of one of the [terms](Dim::terms).
    pub fn monomial<'a>(atoms: impl IntoIterator<Item = &'a Atom>) -> Dim {
        let atoms = atoms.into_iter().map(Dim::from);
        atoms.fold(Dim::from(1), |product, atom| &product * &atom)
    }

    /// The value, if there is no symbol in it.
    pub fn as_const(&self) -> Option<i64> {
        self.symbolic.is_empty().then_some(self.constant)
    }

    /// The name, if the dim is one symbol.
    pub fn as_symbol(&self) -> Option<&Arc<str>> {
        match self.as_atom() {
            Some(Atom::Sym(s)) => Some(s),
            _ => None,
        }
    }

    fn as_atom(&self) -> Option<&Atom> {
        match self.symbolic.as_slice() {
            [(m, 1)] if self.constant == 0 && m.len() == 1 => Some(&m[0]),
            _ => None,
        }
    }

    /// Monomials (sorted atoms) with their coefficients, in canonical order.
    pub fn terms(&self) -> impl Iterator<Item = (&[Atom], i64)> {
        let constant = (self.constant != 0).then_some((&[][..], self.constant));
        let symbolic = self.symbolic.iter().map(|(m, c)| (&**m, *c));
        constant.into_iter().chain(symbolic)
    }

    /// Every symbol that occurs in it.
    pub fn symbols(&self) -> BTreeSet<Arc<str>> {
        let mut out = BTreeSet::new();
        self.collect_symbols(&mut out);
        out
    }

    /// How many quotients and remainders stand in each other.
    pub(crate) fn depth(&self) -> usize {
        let depth = |atom: &Atom| match atom {
            Atom::Sym(_) => 0,
            Atom::Div(a, b) | Atom::Rem(a, b) => 1 + a.depth().max(b.depth()),
        };
        self.atoms().map(depth).max().unwrap_or(0)
    }

    /// The factors of monomials.
    fn atoms(&self) -> impl Iterator<Item = &Atom> {
        self.symbolic.iter().flat_map(|(m, _)| &**m)
    }

    /// Adds every symbol that occurs in it.
    pub(crate) fn collect_symbols(&self, out: &mut BTreeSet<Arc<str>>) {
        for atom in self.atoms() {
            match atom {
                Atom::Sym(s) => {
                    if !out.contains(s) {
                        out.insert(s.clone());
                    }
                }
                Atom::Div(a, b) | Atom::Rem(a, b) => {
                    a.collect_symbols(out);
                    b.collect_symbols(out);
                }
            }
        }
    }

    /// Floor quotient. Exact where the divisor divides every coefficient, or is a symbol that
    /// divides every monomial; `(A / B) / C` is `A / (B*C)`, divisors being at least 1.
    pub fn floor_div(&self, by: &Dim) -> Dim {
        if let Some(d) = by.as_const() {
            if d == 1 {
                return self.clone();
            }
            if let Some(n) = self.as_const().filter(|_| d > 0) {
                return Dim::from(floor_div(n, d));
            }
            if d > 0 && self.coefficients().all(|c| c % d == 0) {
                return self.map_coefficients(|c| c / d);
            }
        } else if let Some(q) = self.divide_by_monomial(by) {
            return q;
        }
        if let Some(Atom::Div(a, b)) = self.as_atom()
            && let Some(by) = b.try_mul(by)
        {
            return a.floor_div(&by);
        }
        Dim::atom(Atom::Div(Arc::new(self.clone()), Arc::new(by.clone())))
    }

    /// Remainder of [`Dim::floor_div`].
    pub fn rem(&self, by: &Dim) -> Dim {
        if let Some(d) = by.as_const().filter(|&d| d > 0) {
            if let Some(n) = self.as_const() {
                return Dim::from(floor_rem(n, d));
            }
            if self.coefficients().all(|c| c % d == 0) {
                return Dim::default();
            }
        } else if self.divide_by_monomial(by).is_some() {
            return Dim::default();
        }
        Dim::atom(Atom::Rem(Arc::new(self.clone()), Arc::new(by.clone())))
    }

    /// `self / by` where `by` is one monomial that divides each of ours.
    fn divide_by_monomial(&self, by: &Dim) -> Option<Dim> {
        let (factor, c) = by.terms().next().filter(|_| by.terms().nth(1).is_none())?;
        let mut quotient = Dim::default();
        for (m, k) in self.terms() {
            let mut rest = m.to_vec();
            for atom in factor {
                rest.remove(rest.iter().position(|a| a == atom)?);
            }
            if k.checked_rem(c) != Some(0) {
                return None;
            }
            quotient.add_term(&rest, k.checked_div(c)?);
        }
        Some(quotient)
    }

    /// Each symbol replaced by what `of` gives for it; `None` keeps it.
    pub fn substitute(&self, of: &dyn Fn(&str) -> Option<Dim>) -> Dim {
        self.map_atoms(&|atom| match atom {
            Atom::Sym(s) => of(s).unwrap_or_else(|| Dim::sym(s.clone())),
            Atom::Div(a, b) => a.substitute(of).floor_div(&b.substitute(of)),
            Atom::Rem(a, b) => a.substitute(of).rem(&b.substitute(of)),
        })
    }

    /// The polynomial with every atom replaced.
    pub fn map_atoms(&self, of: &dyn Fn(&Atom) -> Dim) -> Dim {
        let mut sum = Dim::from(self.constant);
        for (m, c) in &self.symbolic {
            sum = &sum + &m.iter().fold(Dim::from(*c), |p, a| &p * &of(a));
        }
        sum
    }

    /// [`Dim::substitute`], unless the result would be out of all proportion.
    pub fn try_substitute(&self, of: &dyn Fn(&str) -> Option<Dim>) -> Option<Dim> {
        self.try_map_atoms(&|atom| match atom {
            Atom::Sym(s) => Some(of(s).unwrap_or_else(|| Dim::sym(s.clone()))),
            Atom::Div(a, b) => Some(a.try_substitute(of)?.floor_div(&b.try_substitute(of)?)),
            Atom::Rem(a, b) => Some(a.try_substitute(of)?.rem(&b.try_substitute(of)?)),
        })
    }

    /// [`Dim::map_atoms`], unless the result would be out of all proportion.
    pub fn try_map_atoms(&self, of: &dyn Fn(&Atom) -> Option<Dim>) -> Option<Dim> {
        let mut sum = Dim::from(self.constant);
        for (m, c) in &self.symbolic {
            let product = m
                .iter()
                .try_fold(Dim::from(*c), |p, a| p.try_mul(&of(a)?))?;
            sum = &sum + &product;
        }
        (sum.size() <= MAX_SIZE).then_some(sum)
    }

    /// The product, unless it would be out of all proportion.
    pub fn try_mul(&self, other: &Dim) -> Option<Dim> {
        let terms = |d: &Dim| d.terms().count().max(1);
        let (a, b) = (terms(self), terms(other));
        let size = b * self.size() + a * other.size();
        (size <= MAX_SIZE).then(|| self * other)
    }

    /// The product of `dims`, unless it would be out of all proportion; 1 for none.
    pub fn try_product<'a>(dims: impl IntoIterator<Item = &'a Dim>) -> Option<Dim> {
        dims.into_iter().try_fold(Dim::from(1), |p, d| p.try_mul(d))
    }

    /// Symbols in it, each as often as it stands there.
    fn size(&self) -> usize {
        let atom = |atom: &Atom| match atom {
            Atom::Sym(_) => 1,
            Atom::Div(a, b) | Atom::Rem(a, b) => 1 + a.size() + b.size(),
        };
        self.atoms().map(atom).sum()
    }

    /// The value under `env`.
    ///
    /// # Errors
    /// An unbound symbol, a divisor below 1, or a value past 64 bits.
    pub fn eval(&self, env: &dyn Fn(&str) -> Option<i64>) -> Result<i64, DimError> {
        let overflow = || DimError::Overflow(self.clone());
        let mut sum = self.constant;
        for (m, c) in &self.symbolic {
            let mut product = *c;
            for atom in &**m {
                let v = match atom {
                    Atom::Sym(s) => env(s).ok_or_else(|| DimError::Unbound(s.clone()))?,
                    Atom::Div(a, b) | Atom::Rem(a, b) => {
                        let (x, y) = (a.eval(env)?, b.eval(env)?);
                        if y < 1 {
                            return Err(DimError::Divisor {
                                divisor: (**b).clone(),
                                value: y,
                            });
                        }
                        if matches!(atom, Atom::Div(..)) {
                            floor_div(x, y)
                        } else {
                            floor_rem(x, y)
                        }
                    }
                };
                product = product.checked_mul(v).ok_or_else(overflow)?;
            }
            sum = sum.checked_add(product).ok_or_else(overflow)?;
        }
        Ok(sum)
    }

    /// Product of `dims`; 1 for none.
    pub fn product<'a>(dims: impl IntoIterator<Item = &'a Dim>) -> Dim {
        dims.into_iter().fold(Dim::from(1), |p, d| &p * d)
    }
}

/// `c`, or the least coefficient.
fn coefficient(c: i64) -> i64 {
    c.max(-i64::MAX)
}

/// By terms, one after the other.
impl Ord for Dim {
    fn cmp(&self, other: &Dim) -> Ordering {
        self.terms().cmp(other.terms())
    }
}

impl PartialOrd for Dim {
    fn partial_cmp(&self, other: &Dim) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl From<&Atom> for Dim {
    fn from(atom: &Atom) -> Dim {
        match atom {
            Atom::Sym(s) => Dim::sym(s.clone()),
            Atom::Div(a, b) => a.floor_div(b),
            Atom::Rem(a, b) => a.rem(b),
        }
    }
}

impl From<i64> for Dim {
    fn from(c: i64) -> Dim {
        Dim {
            constant: coefficient(c),
            symbolic: Vec::new(),
        }
    }
}

impl Add for &Dim {
    type Output = Dim;
    fn add(self, other: &Dim) -> Dim {
        self.plus(1, other)
    }
}

impl Neg for &Dim {
    type Output = Dim;
    fn neg(self) -> Dim {
        self.map_coefficients(|c| -c)
    }
}

impl Sub for &Dim {
    type Output = Dim;
    fn sub(self, other: &Dim) -> Dim {
        self.plus(-1, other)
    }
}

impl Mul for &Dim {
    type Output = Dim;
    fn mul(self, other: &Dim) -> Dim {
        for (number, dim) in [(self, other), (other, self)] {
            match number.as_const() {
                Some(0) => return Dim::default(),
                Some(by) => return dim.map_coefficients(|c| coefficient(c.saturating_mul(by))),
                None => {}
            }
        }
        let mut product = Dim::default();
        for (a, x) in self.terms() {
            for (b, y) in other.terms() {
                let mut m = [a, b].concat();
                m.sort();
                product.add_term(&m, x.saturating_mul(y));
            }
        }
        product
    }
}

/// As source: `2*F`, `D / H`, `W - Q + 1`, `1 - Q`; what is added first, of symbols before constants.
impl fmt::Display for Dim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.symbolic.is_empty() {
            return write!(f, "{}", self.constant);
        }
        let positive = self.symbolic.iter().any(|(_, c)| *c > 0);
        let mut terms: Vec<_> = self.terms().collect();
        // In `1 - Q` the constant is all that is added.
        terms.sort_by_key(|&(m, c)| match (m.is_empty(), c < 0) {
            (true, false) if !positive => 0,
            (constant, negative) => 1 + u8::from(negative) + 2 * u8::from(constant),
        });
        for (i, (m, c)) in terms.into_iter().enumerate() {
            let negative = c < 0;
            match (i, negative) {
                (0, true) => f.write_str("-")?,
                (0, false) => {}
                (_, true) => f.write_str(" - ")?,
                (_, false) => f.write_str(" + ")?,
            }
            let c = c.unsigned_abs();
            if m.is_empty() || c != 1 {
                write!(f, "{c}")?;
            }
            for (j, atom) in m.iter().enumerate() {
                if j > 0 || c != 1 {
                    f.write_str("*")?;
                }
                // A minus sign in front would be that of the dividend.
                let lone = m.len() == 1 && c == 1 && (i > 0 || !negative);
                match atom {
                    Atom::Sym(s) => f.write_str(s)?,
                    Atom::Div(a, b) | Atom::Rem(a, b) => {
                        let op = if matches!(atom, Atom::Div(..)) {
                            "/"
                        } else {
                            "%"
                        };
                        let (l, r) = if lone { ("", "") } else { ("(", ")") };
                        write!(f, "{l}{} {op} {}{r}", Factor(a), Factor(b))?;
                    }
                }
            }
        }
        Ok(())
    }
}

/// A dim as an operand of `/` or `%`.
struct Factor<'a>(&'a Dim);
impl fmt::Display for Factor<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.as_const().is_some_and(|c| c >= 0) || self.0.as_symbol().is_some() {
            write!(f, "{}", self.0)
        } else {
            write!(f, "({})", self.0)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn canonical_form_decides_equality() {
        let (d, h) = (Dim::sym("D"), Dim::sym("H"));
        let two = Dim::from(2);
        assert_eq!(&(&d + &h) * &two, &(&two * &h) + &(&d * &two));
        assert_eq!((&(&d * &two) - &d), d);
        assert_eq!((&d * &h).floor_div(&h), d);
        assert_eq!((&d * &h).rem(&h), Dim::from(0));
        assert_eq!((&(&d * &two) + &Dim::from(4)).floor_div(&two), &d + &two);
        assert_eq!(
            d.floor_div(&two).floor_div(&two),
            d.floor_div(&Dim::from(4))
        );
        assert_eq!(
            d.floor_div(&h).floor_div(&two),
            d.floor_div(&two).floor_div(&h)
        );
    }

    #[test]
    fn prints_as_source_and_evaluates() {
        let y = Dim::sym("Y");
        let out = &(&y - &Dim::from(3)).floor_div(&Dim::from(2)) + &Dim::from(1);
        assert_eq!(out.to_string(), "(Y - 3) / 2 + 1");
        assert_eq!(out.eval(&|_| Some(10)), Ok(4));
        assert_eq!(out.eval(&|_| None), Err(DimError::Unbound("Y".into())));
        let bad = y.floor_div(&Dim::sym("H"));
        assert!(matches!(
            bad.eval(&|s| Some(if s == "H" { 0 } else { 4 })),
            Err(DimError::Divisor { .. })
        ));
        assert_eq!(
            (&Dim::from(2) * &y.rem(&Dim::from(4))).to_string(),
            "2*(Y % 4)"
        );
        assert_eq!((-&y.rem(&Dim::from(4))).to_string(), "-(Y % 4)");
        assert_eq!(
            (&Dim::from(1) - &y.rem(&Dim::from(4))).to_string(),
            "1 - Y % 4"
        );
        let (q, w) = (Dim::sym("Q"), Dim::sym("W"));
        assert_eq!((&(&w - &q) + &Dim::from(1)).to_string(), "W - Q + 1");
        assert_eq!((&(&w - &q) - &Dim::from(1)).to_string(), "W - Q - 1");
    }
}
