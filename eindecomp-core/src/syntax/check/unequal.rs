//! Two sizes that would have to be equal: a clause where one of them is computed, and where both are sizes by
//! themselves, which a mix-up is likelier to bring together than a clause to equate, the parameter that is
//! declared otherwise, else words.

use super::body::BodyCx;
use super::conflicts::Place;
use super::extents::Use;
use super::meant::Reading;
use super::tree::{IndexId, TensorType, Type, listed};
use super::walk;
use crate::ein::Dim;
use crate::ein::dim::Atom;
use crate::syntax::ast::{self, CmpOp, Generic};
use crate::syntax::diag::Fix;
use crate::syntax::token::Span;

/// A dim, const or number.
pub(super) fn is_size(d: &Dim) -> bool {
    d.as_symbol().is_some() || d.as_const().is_some()
}

/// What to do about two extents of one index that are hardly meant to be equal.
pub(super) const DIFFERENT: &str = "use two indices if these are different axes";

impl BodyCx<'_> {
    /// What to do about two sizes that nothing says to be equal, where an `other` axis or argument may be meant.
    pub(super) fn two_sizes(&self, a: &Dim, b: &Dim, other: &str) -> String {
        if !is_size(a) || !is_size(b) {
            return DIFFERENT.to_owned();
        }
        let number = [a, b].into_iter().find(|d| d.as_const().is_some());
        let symbol = [a, b].into_iter().find(|d| d.as_symbol().is_some());
        match (number, symbol) {
            (Some(number), Some(symbol)) => {
                format!("`{symbol}` may be any size: write `{number}` for it if it is always that")
            }
            _ if self.is_ranked() => "use one dim for both".to_owned(),
            _ => format!(
                "`{a}` and `{b}` are two sizes: use one for both if they are always equal, else {other} is meant"
            ),
        }
    }

    /// The clause that two extents are equal, of which one is computed.
    pub(super) fn equal_clause(&self, a: &Dim, b: &Dim) -> Option<Fix> {
        // A power of a size is a dim taken twice by mistake, and a difference is one of windows.
        let is_product = |d: &Dim| {
            let squared = |monomial: &[Atom]| monomial.windows(2).any(|two| two[0] == two[1]);
            let mut terms = d.terms();
            let first = terms.next();
            terms.next().is_none() && !first.is_some_and(|(monomial, _)| squared(monomial))
        };
        // What both have a factor of is the same of the rest.
        let shared = a
            .symbols()
            .iter()
            .any(|symbol| b.symbols().contains(symbol));
        let exact = self.exact_quotient(a, CmpOp::Eq, b).is_some();
        let meant =
            exact || !(shared || is_size(a) && is_size(b)) && is_product(a) && is_product(b);
        meant.then(|| self.add_clause(a, CmpOp::Eq, b))?
    }

    /// The parameter `name`, which nothing else reads, declared with extent `to` for the axis in which it is `from`: one
    /// that has a dim of its own there, or no other axis.
    pub(super) fn declared_instead(
        &self,
        name: &str,
        axis: usize,
        from: &Dim,
        to: &Dim,
    ) -> Option<Fix> {
        let param = self.ast.params.iter().find(|p| p.name.as_str() == name)?;
        let own = &self.vars[self.lookup(name)?.at()];
        let ty = own.ty.as_ref()?.tensor()?;
        let read_once = own.span == param.name.span && walk::uses(self.ast, name) == 1;
        if !read_once || !is_size(from) || !is_size(to) {
            return None;
        }
        let own_dim = from.as_symbol().and_then(|dim| self.only_of(dim));
        if own_dim.is_none() && ty.axes.len() > 1 {
            return None;
        }
        let fix = self.declared_axis(param, axis, to)?;
        Some(match own_dim {
            Some(place) => fix.and(place, ""),
            None => fix,
        })
    }

    /// The same of the only axis in which it is `from`.
    pub(super) fn given_instead(&self, name: &str, from: &Dim, to: &Dim) -> Option<Fix> {
        let axes = &self.vars[self.lookup(name)?.at()]
            .ty
            .as_ref()?
            .tensor()?
            .axes;
        let mut at = (0..axes.len()).filter(|&at| axes[at] == *from);
        match (at.next(), at.next()) {
            (Some(axis), None) => self.declared_instead(name, axis, from, to),
            _ => None,
        }
    }

    /// The place of a dim among the generics, with a comma, if one axis of a parameter alone mentions it.
    fn only_of(&self, dim: &str) -> Option<Span> {
        let generics = &self.ast.generics;
        let at = generics
            .iter()
            .position(|g| matches!(g, Generic::Dim(name) if name.as_str() == dim))?;
        let params = self.block.params.iter().map(|param| &param.ty);
        let results = self.block.results.iter().map(|result| &result.ty);
        let dims = params.chain(results).flat_map(Type::dims);
        let mentioned = dims.filter(|d| d.symbols().iter().any(|s| **s == *dim));
        let stmts = self.ast.stmts.iter().map(ast::Stmt::to_string);
        let clauses = self.ast.clauses.iter().map(ast::Clause::to_string);
        let word = |text: String| {
            let mut words = text.split(|c: char| !c.is_alphanumeric() && c != '_');
            words.any(|word| word == dim)
        };
        if mentioned.count() != 1 || stmts.chain(clauses).any(word) {
            return None;
        }
        let name = |nth: usize| match generics.get(nth)? {
            Generic::Dim(name) => Some(name.span),
            _ => None,
        };
        let own = name(at)?;
        let before = || name(at.checked_sub(1)?);
        match name(at + 1) {
            Some(next) => Some(Span::new(own.start, next.start)),
            None if at + 1 == generics.len() => Some(Span::new(before()?.end, own.end)),
            None => None,
        }
    }
}

/// The parameter that alone reads an index over `b`, declared with the extent `a` of all others. Of a batch, several axes
/// are hardly.
pub(super) fn declared_instead(
    cx: &BodyCx<'_>,
    reading: &Reading<'_, '_>,
    index: IndexId,
    (a, b): (&Dim, &Dim),
    odd: Vec<&Use>,
) -> Option<Fix> {
    let [only] = odd[..] else { return None };
    let batch = is_batch(reading, index) && only.access.subs.len() > 1;
    if batch && only.access.subs.len() < reading.left().count() {
        return None;
    }
    cx.declared_instead(&only.access.place, only.axis, b, a)
}

/// The index and one that nothing mentions as the members of the axis that both are as long as: `h in H` reads `D` with
/// `e in D / H`.
pub(super) fn members(reading: &Reading<'_, '_>, index: IndexId, wrong: &Place) -> Option<Fix> {
    let access = wrong.access.as_ref()?;
    let (own, _) = reading.decls[index.at()].extent.as_ref()?;
    let other = (0..reading.decls.len()).find(|&at| {
        let other = &reading.decls[at];
        let extent = other.extent.as_ref().filter(|_| !other.used_right);
        let visible = access.visible.contains(&IndexId(at as u16));
        let product = extent.and_then(|(extent, _)| own.try_mul(extent));
        visible && product.is_some_and(|product| reading.equal(&product, &wrong.extent))
    })?;
    let mut both = [index.at(), other];
    both.sort_unstable();
    let both = format!("({})", listed(&both.map(|at| &reading.decls[at].name)));
    let at = reading.bare.iter().find(|u| u.span == wrong.span)?.axis;
    let mut subs = access.subs.clone();
    subs[at].clone_from(&both);
    let help = format!("did you mean `{}[{}]`?", access.place, subs.join(", "));
    Some(Fix::replace(wrong.span, both, &help))
}

/// The beginning of a table that is shared by a result of more axes, over a dim of its own. What all of the first of
/// them share is no batch.
pub(super) fn beginning(
    cx: &BodyCx<'_>,
    reading: &Reading<'_, '_>,
    index: IndexId,
    (known, wrong): (&Place, &Place),
) -> Option<Fix> {
    let (decl, table) = (&reading.decls[index.at()], wrong.access.as_ref()?);
    let (a, b) = (&known.extent, &wrong.extent);
    let dims = a.as_symbol().is_some() && b.as_symbol().is_some();
    let is_dim = |name: &str| cx.ast.generics.iter().any(|g| g.name().as_str() == name);
    let fixed =
        b.as_symbol().is_some_and(|b| !is_dim(b)) && a.as_symbol().is_some_and(|a| is_dim(a));
    let shared = table.subs.len() > 1 && (fixed || table.subs.len() < reading.left().count());
    let place = table.subs.iter().position(|sub| *sub == *decl.name)?;
    let root = table.place.split('.').next()?;
    let mut params = cx.ast.params.iter();
    params.find(|param| param.name.as_str() == root)?;
    if !dims || !shared || !fixed && is_batch(reading, index) || decl.reduced {
        return None;
    }
    let mut subs = table.subs.clone();
    subs[place] = format!("0 + {}", decl.name);
    let help = format!("did you mean `{}[{}]`?", table.place, subs.join(", "));
    let fix = Fix::before(wrong.span, "0 + ", &help);
    Some(fix.then(cx.add_clause(a, CmpOp::Le, b)?))
}

/// Is it the first index on the left?
fn is_batch(reading: &Reading<'_, '_>, index: IndexId) -> bool {
    let name = &reading.decls[index.at()].name;
    reading
        .left()
        .next()
        .is_some_and(|first| first.name == *name)
}

/// `a[t[b]]` for `a[b]`: the element of an axis that an integer for each value of the index names, where nothing else reads
/// these integers.
pub(super) fn looked_up(cx: &BodyCx<'_>, (a, odd): (&Dim, &[&Use])) -> Option<Fix> {
    let [only] = odd else { return None };
    let integers = |ty: &TensorType| ty.dtype.is_int() && ty.axes.len() == 1;
    let mut unread = (cx.unread()).filter(|(_, ty)| integers(ty) && cx.facts.equal(&ty.axes[0], a));
    let ((name, _), None) = (unread.next()?, unread.next()) else {
        return None;
    };
    let mut subs = only.access.subs.clone();
    let text = format!("{name}[{}]", subs[only.axis]);
    subs[only.axis].clone_from(&text);
    let help = format!("did you mean `{}[{}]`?", only.access.place, subs.join(", "));
    Some(Fix::replace(only.span, text, &help))
}
