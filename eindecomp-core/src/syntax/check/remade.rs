//! The statement of a result as it may be meant where its axes are not those declared: two of its indices in each
//! other's place, a tensor read with two of its axes so, or axes merged or apart.

use std::collections::BTreeMap;

use super::body::BodyCx;
use super::tree::Type;
use super::walk;
use crate::ein::Dim;
use crate::syntax::ast::{
    BinaryOp, Expr, ExprKind, IndexDecl, LeftIndex, Pattern, Reduce, ReduceBody, Sub,
};
use crate::syntax::diag::Fix;
use crate::syntax::names::is_like;
use crate::syntax::token::Span;

/// What its indices run over, by name.
type Extents = BTreeMap<String, Dim>;

/// The statement that defines a result.
struct Statement<'a, 'c> {
    cx: &'c BodyCx<'a>,
    pattern: &'c Pattern,
    left: &'c [LeftIndex],
    value: &'c Expr,
    extents: Extents,
    declared: &'c [Dim],
}

impl BodyCx<'_> {
    /// The statement that defines the name at `place` with a change by which its axes are those `declared`; of several, the
    /// one with which most of its indices are called like them.
    pub(super) fn remade(&self, place: Span, found: &Type, declared: &Type) -> Option<Fix> {
        let (statement, reduces) = self.statement_at(place, found, declared)?;
        let mut all: Vec<(usize, Fix)> = statement.merged().into_iter().collect();
        all.extend(statement.reordered());
        all.extend(statement.reduced(&reduces));
        all.extend(statement.read_otherwise());
        // The first of equals.
        let best = all.into_iter().rev().max_by_key(|(alike, _)| *alike);
        best.map(|(_, fix)| fix)
    }

    /// The same where a reduction over `index` is one over another index.
    pub(super) fn reduced_otherwise(
        &self,
        place: Span,
        found: &Type,
        declared: &Type,
        index: &str,
    ) -> Option<Fix> {
        let (statement, mut reduces) = self.statement_at(place, found, declared)?;
        // A contraction is over what both of its factors have.
        let contracts = |reduce: &Reduce| match &reduce.body {
            ReduceBody::Product(body) => match &body.kind {
                ExprKind::Binary(BinaryOp::Mul, a, b) => walk::accesses(a) && walk::accesses(b),
                _ => false,
            },
            ReduceBody::Args(_) => true,
        };
        reduces.retain(|(reduce, _)| {
            let mut names = reduce.indices.iter();
            names.any(|decl| decl.name.as_str() == index) && !contracts(reduce)
        });
        let mut all = statement.reduced(&reduces).into_iter();
        let (first, none) = (all.next(), all.next());
        first.filter(|_| none.is_none()).map(|(_, fix)| fix)
    }

    /// The statement that defines the name at `place`, and its reductions with their places.
    fn statement_at<'c>(
        &'c self,
        place: Span,
        found: &Type,
        declared: &'c Type,
    ) -> Option<(Statement<'c, 'c>, Vec<(&'c Reduce, Span)>)> {
        let (found, declared) = (found.tensor()?, declared.tensor()?);
        let (pattern, value) = self.defined_at(place)?;
        let left = pattern.indices.as_ref()?;
        // What it reads under its own name is another tensor.
        let mut names = pattern.names.iter();
        let own = names.any(|name| walk::uses_in(value, name.as_str()) > 0);
        if own || found.dtype != declared.dtype || pattern.names.len() != 1 {
            return None;
        }
        let mut names: Vec<&IndexDecl> = left.iter().flat_map(members).collect();
        let mut reduces = Vec::new();
        reductions(value, &mut reduces);
        names.extend(reduces.iter().flat_map(|(reduce, _)| &reduce.indices));
        let extent = |decl: &&IndexDecl| {
            let name = decl.name.as_str();
            let axes = self.axes_of(value, name);
            let read = axes
                .first()
                .filter(|first| axes.iter().all(|axis| axis == *first));
            let ranged = || {
                let extent = decl.extent.as_ref()?;
                self.dims.clone().dim(extent, &mut Vec::new())
            };
            Some((name.to_owned(), read.cloned().or_else(ranged)?))
        };
        let mut extents: Extents = names.iter().filter_map(extent).collect();
        for (index, axis) in left.iter().zip(&found.axes) {
            if let LeftIndex::Index(decl) = index {
                extents.insert(decl.name.to_string(), axis.clone());
            }
        }
        let statement = Statement {
            cx: self,
            pattern,
            left,
            value,
            extents,
            declared: &declared.axes,
        };
        Some((statement, reduces))
    }
}

impl Statement<'_, '_> {
    /// How many of these indices on the left are called like their axes, if the axes then are those declared.
    fn fits(&self, left: &[Vec<&str>], extents: &Extents) -> Option<usize> {
        let axes: Option<Vec<Dim>> = left
            .iter()
            .map(|members| {
                let extents: Option<Vec<&Dim>> =
                    members.iter().map(|name| extents.get(*name)).collect();
                Dim::try_product(extents?)
            })
            .collect();
        let axes = axes.filter(|axes| axes.len() == self.declared.len())?;
        let mut pairs = axes.iter().zip(self.declared);
        let fits = pairs.all(|(a, b)| self.cx.facts.equal(a, b));
        let like = |name: &&&str| {
            extents
                .get(**name)
                .is_some_and(|extent| is_like(extent, name))
        };
        fits.then(|| left.iter().flatten().filter(like).count())
    }

    /// The names on the left, axis by axis.
    fn names(&self) -> Vec<Vec<&str>> {
        let axis = |index| {
            let decls = members(index).into_iter();
            decls.map(|decl| decl.name.as_str()).collect()
        };
        self.left.iter().map(axis).collect()
    }

    fn decls(&self) -> Vec<&IndexDecl> {
        self.left.iter().flat_map(members).collect()
    }

    /// `let y[…]` with the edits made that stand on the left.
    fn shown(&self, edits: &[(Span, String)]) -> String {
        let text = |decl: &IndexDecl| {
            let edit = edits.iter().find(|(span, _)| *span == whole(decl));
            edit.map_or_else(|| decl.to_string(), |(_, text)| text.clone())
        };
        fn axis(index: &LeftIndex, text: &dyn Fn(&IndexDecl) -> String) -> String {
            match index {
                LeftIndex::Index(decl) => text(decl),
                LeftIndex::Rest(name) => format!("..{name}"),
                LeftIndex::Merged(parts, _) => {
                    let parts: Vec<String> = parts.iter().map(|part| axis(part, text)).collect();
                    format!("({})", parts.join(", "))
                }
            }
        }
        let axes: Vec<String> = self.left.iter().map(|index| axis(index, &text)).collect();
        format!("let {}[{}]", self.pattern.names[0], axes.join(", "))
    }

    /// Neighbours on the left as one axis, or the members of one as axes.
    fn merged(&self) -> Option<(usize, Fix)> {
        let names = self.names();
        if let Some(more) = names
            .len()
            .checked_sub(self.declared.len())
            .filter(|n| *n > 0)
        {
            return (0..self.declared.len()).find_map(|at| {
                let mut joined = names.clone();
                let merged = joined.splice(at..=at + more, []).flatten().collect();
                joined.insert(at, merged);
                let alike = self.fits(&joined, &self.extents)?;
                let plain = |index: &LeftIndex| matches!(index, LeftIndex::Index(_));
                let parts = &self.left[at..=at + more];
                if !parts.iter().all(plain) {
                    return None;
                }
                let decls: Vec<&IndexDecl> = parts.iter().flat_map(members).collect();
                let span = whole(decls.first()?).join(whole(decls.last()?));
                let texts: Vec<String> = decls.iter().map(|decl| decl.to_string()).collect();
                let text = format!("({})", texts.join(", "));
                Some((alike, Fix::replace(span, text, "merge {}")))
            });
        }
        let apart: Vec<Vec<&str>> = names.iter().flatten().map(|name| vec![*name]).collect();
        let alike = self
            .fits(&apart, &self.extents)
            .filter(|_| apart.len() > names.len())?;
        let decls = self.decls();
        let texts: Vec<String> = decls.iter().map(|decl| decl.to_string()).collect();
        let help = format!(
            "did you mean `let {}[{}]`?",
            self.pattern.names[0],
            texts.join(", ")
        );
        let merged = self.left.iter().filter_map(|index| match index {
            LeftIndex::Merged(_, span) => {
                let decls = members(index).into_iter();
                let texts: Vec<String> = decls.map(IndexDecl::to_string).collect();
                Some((*span, texts.join(", ")))
            }
            _ => None,
        });
        let edits = merged.collect();
        Some((alike, Fix { help, edits }))
    }

    /// Two indices on the left in each other's place, at least one of them in a merged axis.
    fn reordered(&self) -> Vec<(usize, Fix)> {
        let (names, decls) = (self.names(), self.decls());
        let mut out = Vec::new();
        if names.iter().all(|members| members.len() == 1) {
            return out;
        }
        for (at, a) in decls.iter().enumerate() {
            for b in &decls[at + 1..] {
                let (one, other) = (a.name.as_str(), b.name.as_str());
                let Some(alike) = self.fits(&exchanged(&names, one, other), &self.extents) else {
                    continue;
                };
                let edits = vec![(whole(a), b.to_string()), (whole(b), a.to_string())];
                let help = format!("did you mean `{}`?", self.shown(&edits));
                out.push((alike, Fix { help, edits }));
            }
        }
        out
    }

    /// An index on the left and the one of a reduction in each other's place: what reads either is in that reduction.
    fn reduced(&self, reduces: &[(&Reduce, Span)]) -> Vec<(usize, Fix)> {
        let (names, mut out) = (self.names(), Vec::new());
        for (reduce, place) in reduces {
            let [inner] = &reduce.indices[..] else {
                continue;
            };
            let again = reduces.iter().filter(|(other, _)| {
                let mut names = other.indices.iter();
                names.any(|decl| decl.name.name == inner.name.name)
            });
            if again.count() > 1 {
                continue;
            }
            for decl in self.decls() {
                let (one, other) = (decl.name.as_str(), inner.name.as_str());
                let mut uses = Vec::new();
                walk::named(self.value, one, &mut uses);
                let outside = uses.iter().any(|span| !place.contains(*span));
                let fits = self.fits(&exchanged(&names, one, other), &self.extents);
                let Some(alike) = fits.filter(|_| !outside) else {
                    continue;
                };
                let edits = vec![
                    (whole(decl), inner.to_string()),
                    (whole(inner), decl.to_string()),
                ];
                let body = match &reduce.body {
                    ReduceBody::Product(body) => format!("{}[{decl}] {body}", reduce.agg),
                    ReduceBody::Args(_) => format!("{}[{decl}] …", reduce.agg),
                };
                let help = format!("did you mean `{}` and `{body}`?", self.shown(&edits));
                out.push((alike, Fix { help, edits }));
            }
        }
        out
    }

    /// Two bare subscripts of a tensor in each other's place, in every read of it that has both or the same axes.
    fn read_otherwise(&self) -> Vec<(usize, Fix)> {
        let mut reads = Vec::new();
        walk::reads_in(self.value, &mut reads);
        let (names, mut out) = (self.names(), Vec::new());
        let mut told: Vec<String> = Vec::new();
        for (place, first) in &reads {
            let tensor = place.to_string();
            let Some(ty) = self
                .cx
                .type_of(place)
                .filter(|t| t.axes.len() == first.len())
            else {
                continue;
            };
            if told.contains(&tensor) {
                continue;
            }
            told.push(tensor.clone());
            let same = || {
                reads
                    .iter()
                    .filter(|(other, _)| other.to_string() == tensor)
            };
            for a in 0..first.len() {
                for b in a + 1..first.len() {
                    let bare = |subs: &&[Sub]| {
                        let both = [a, b].map(|at| subs.get(at).and_then(walk::sub_name));
                        both.iter().all(Option::is_some)
                    };
                    if ty.axes[a] == ty.axes[b] || !same().all(|(_, subs)| bare(subs)) {
                        continue;
                    }
                    // What else reads these indices would disagree.
                    let mut extents = self.extents.clone();
                    let mut agree = true;
                    let mut edits = Vec::new();
                    let mut shown = Vec::new();
                    for (_, subs) in same() {
                        let mut texts: Vec<String> = subs.iter().map(Sub::to_string).collect();
                        texts.swap(a, b);
                        for (at, other) in [(a, b), (b, a)] {
                            let name = walk::sub_name(&subs[at]).unwrap_or_default();
                            extents.insert(name.to_owned(), ty.axes[other].clone());
                            edits.push((subs[at].span(), texts[at].clone()));
                            let axes = self.cx.axes_of(self.value, name).len();
                            let here = same().flat_map(|(_, subs)| subs.iter());
                            let here = here.filter(|sub| walk::sub_name(sub) == Some(name));
                            agree &= axes == here.count();
                        }
                        let text = format!("`{tensor}[{}]`", texts.join(", "));
                        if !shown.contains(&text) {
                            shown.push(text);
                        }
                    }
                    let fits = self.fits(&names, &extents).filter(|_| agree);
                    let Some(alike) = fits else { continue };
                    let help = format!("did you mean {}?", shown.join(" and "));
                    out.push((alike, Fix { help, edits }));
                }
            }
        }
        out
    }
}

/// Names with two of them in each other's place; the second may be none of them.
fn exchanged<'n>(names: &[Vec<&'n str>], one: &'n str, other: &'n str) -> Vec<Vec<&'n str>> {
    let put = |name: &&'n str| match *name {
        name if name == one => other,
        name if name == other => one,
        name => name,
    };
    let axis = |members: &Vec<&'n str>| members.iter().map(put).collect();
    names.iter().map(axis).collect()
}

/// The indices of an axis on the left; none where it stands for any number of axes.
fn members(index: &LeftIndex) -> Vec<&IndexDecl> {
    match index {
        LeftIndex::Index(decl) => vec![decl],
        LeftIndex::Rest(_) => Vec::new(),
        LeftIndex::Merged(parts, _) => parts.iter().flat_map(members).collect(),
    }
}

/// An index with its range.
fn whole(decl: &IndexDecl) -> Span {
    let range = decl.extent.as_ref().map(|extent| extent.span);
    range.map_or(decl.name.span, |range| decl.name.span.join(range))
}

/// Every reduction in an expression, with its place.
fn reductions<'e>(e: &'e Expr, out: &mut Vec<(&'e Reduce, Span)>) {
    if let ExprKind::Reduce(reduce) = &e.kind {
        out.push((reduce, e.span));
    }
    e.children().into_iter().for_each(|e| reductions(e, out));
}
