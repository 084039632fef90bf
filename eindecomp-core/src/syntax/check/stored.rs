//! What a store means whose value has an index that no position has.

use std::fmt::Display;

use super::expr::StmtCx;
use super::tree::TensorType;
use super::unbound::name_at;
use super::walk::{self, accessed, mentions};
use crate::ein::Dim;
use crate::syntax::ast::{self, CmpOp};
use crate::syntax::diag::{Code, Fix};
use crate::syntax::names::is_like;
use crate::syntax::token::Span;

impl StmtCx<'_, '_> {
    /// The indices that the positions of a store use, which its value has not used yet.
    pub(super) fn read_by_positions(&mut self) -> Vec<bool> {
        let used = self.indices.iter_mut();
        used.map(|decl| std::mem::take(&mut decl.used_right))
            .collect()
    }

    /// They are used, whether the value does or not.
    pub(super) fn use_again(&mut self, read: &[bool]) {
        for (decl, read) in self.indices.iter_mut().zip(read) {
            decl.used_right |= read;
        }
    }

    /// Says of the one index of a store's value that nothing binds, if there is one among the errors since number
    /// `since`, where it is meant. Returns the places of another index that is mended with it.
    pub(super) fn moved(
        &mut self,
        since: usize,
        target: &ast::Place,
        subs: &[ast::Expr],
        value: &ast::Expr,
    ) -> Vec<Span> {
        let unbound = (since..self.cx.errors.len())
            .filter(|&at| self.cx.errors[at].code == Code::UnboundIndex)
            .collect::<Vec<usize>>();
        let &[error] = &unbound[..] else {
            return Vec::new();
        };
        let place = self.cx.errors[error].primary;
        let state = self.cx.type_of(target);
        let state = state.filter(|state| state.axes.len() == subs.len());
        let (Some(name), Some(state)) = (name_at(value, place), state) else {
            return Vec::new();
        };
        let [extent] = &self.cx.axes_of(value, name.as_str())[..] else {
            return Vec::new();
        };
        let index = |sub: &ast::Expr| {
            let name = walk::name(sub).filter(|name| self.visible_index(name).is_some());
            name.map(str::to_owned)
        };
        let indices: Vec<Option<String>> = subs.iter().map(index).collect();
        let store = Store {
            target,
            subs,
            value,
            state: &state,
            indices: &indices,
        };
        let own = (name.as_str(), extent);
        let mut idle = (indices.iter().enumerate()).filter(|(_, index)| {
            index
                .as_ref()
                .is_some_and(|index| !mentions(value, &[index]))
        });
        let (fix, told) = match (idle.next(), idle.next()) {
            (None, _) => self.beside_number(&store, own),
            (Some((at, _)), None) => (self.instead(&store, at, own), Vec::new()),
            _ => (None, Vec::new()),
        };
        if let Some(fix) = fix {
            let error = &mut self.cx.errors[error];
            (error.fixes, error.help) = (vec![fix], None);
        }
        told
    }

    /// It is added to the one position that is a number of a run; an index that does not fit the axis where it stands is
    /// meant there then, or changes places with the number.
    fn beside_number(
        &self,
        store: &Store<'_>,
        (name, extent): (&str, &Dim),
    ) -> (Option<Fix>, Vec<Span>) {
        let Store {
            subs,
            value,
            state,
            indices,
            ..
        } = store;
        let number = |name: &str| self.cx.lookup(name).is_some();
        let mut still = (0..subs.len())
            .filter(|&at| indices[at].is_none() && walk::name(&subs[at]).is_some_and(number));
        let (Some(at), None) = (still.next(), still.next()) else {
            return (None, Vec::new());
        };
        let equal = |a: &Dim, b: &Dim| self.cx.facts.equal(a, b);
        let odd = |other: usize| {
            let index = indices[other].as_ref()?;
            let own = self.cx.axes_of(value, index);
            let fits = own.iter().all(|own| equal(own, &state.axes[other]));
            (!fits).then_some((other, index))
        };
        let mut odd = (0..subs.len()).filter_map(odd);
        let put = |other: &str| format!("{} + {other}", subs[at]);
        let (changes, told) = match (odd.next(), odd.next()) {
            (None, _) if !self.cx.facts.refuted(extent, CmpOp::Le, &state.axes[at]) => {
                (vec![(at, put(name))], Vec::new())
            }
            (Some((other, index)), None) => {
                let changes = if equal(extent, &state.axes[other]) {
                    vec![(other, name.to_owned()), (at, put(index))]
                } else if equal(extent, &state.axes[at]) {
                    vec![(other, put(index)), (at, name.to_owned())]
                } else {
                    return (None, Vec::new());
                };
                let mut told = vec![subs[other].span];
                walk::named(value, index, &mut told);
                (changes, told)
            }
            _ => return (None, Vec::new()),
        };
        (Some(store.with(changes)), told)
    }

    /// It is the index of axis `at`, which the value does not read: in the one place or in the other, or of another
    /// tensor that has this axis.
    fn instead(&self, store: &Store<'_>, at: usize, (name, extent): (&str, &Dim)) -> Option<Fix> {
        let (axis, own) = (&store.state.axes[at], store.indices[at].as_ref()?);
        if self.cx.facts.equal(axis, extent) {
            if is_like(extent, name) && !is_like(extent, own) {
                return Some(store.with(vec![(at, name.to_owned())]));
            }
            let mut places = Vec::new();
            walk::named(store.value, name, &mut places);
            let edits = places.into_iter().map(|place| (place, own.clone()));
            let shown = match accessed(store.value) {
                Some((place, subs)) => renamed(place, subs, (name, own)),
                None => own.clone(),
            };
            let help = format!("did you mean `{shown}`?");
            let edits = edits.collect();
            return Some(Fix { help, edits });
        }
        let (place, subs) = accessed(store.value)?;
        let nth = (subs.iter()).position(|sub| walk::sub_name(sub) == Some(name))?;
        let mut wanted = self.cx.type_of(place)?;
        *wanted.axes.get_mut(nth)? = axis.clone();
        let source = self.cx.another(&wanted, &[place, store.target])?;
        let help = format!("did you mean `{}`?", renamed(source, subs, (name, own)));
        Some(Fix::replace(place.span, source, &help).and(subs[nth].span(), own.clone()))
    }
}

/// An access of `place` with one of its indices called otherwise.
fn renamed(place: impl Display, subs: &[ast::Sub], (from, to): (&str, &str)) -> String {
    let text = |sub: &ast::Sub| match walk::sub_name(sub) == Some(from) {
        true => to.to_owned(),
        false => sub.to_string(),
    };
    let shown: Vec<String> = subs.iter().map(text).collect();
    format!("{place}[{}]", shown.join(", "))
}

/// A store as written, with the indices that are positions by themselves.
struct Store<'s> {
    target: &'s ast::Place,
    subs: &'s [ast::Expr],
    value: &'s ast::Expr,
    state: &'s TensorType,
    indices: &'s [Option<String>],
}

impl Store<'_> {
    /// It with other positions on some of its axes.
    fn with(&self, changes: Vec<(usize, String)>) -> Fix {
        let mut shown: Vec<String> = self.subs.iter().map(ast::Expr::to_string).collect();
        for (at, text) in &changes {
            shown[*at].clone_from(text);
        }
        let help = format!("did you mean `{}[{}]`?", self.target, shown.join(", "));
        let edits = changes.into_iter();
        let edits = edits.map(|(at, text)| (self.subs[at].span, text)).collect();
        Fix { help, edits }
    }
}
