//! Slices as whole values, `let q = x[:, 0:D];`, by their elements.

use super::Parser;
use super::whole::length;
use crate::syntax::ast::{Dim, DimKind, Place};
use crate::syntax::diag::Fix;
use crate::syntax::token::Tok;

impl Parser {
    /// `x[:, 0:D]`, whose bracket is the next token, as a statement of its elements if it is all of the value and
    /// the axes of `x` are known.
    pub(super) fn sliced(&mut self, place: &Place) -> Option<Fix> {
        let (open, close) = (self.at, self.buffer.partner(self.at));
        let whole = place.span.join(self.buffer.span(close));
        let left = self.left.as_ref().filter(|left| left.indices.is_none())?;
        let (name, end) = (left.name.clone(), left.span);
        let axes = self.axes.get(&place.as_ident()?.name)?.clone();
        if !self.is_at(close + 1, ";") || !self.is_whole(whole) {
            return None;
        }
        let begin = self.at;
        let (mut left, mut read, mut taken) = (Vec::new(), Vec::new(), Vec::new());
        let mut from = open + 1;
        for axis in &axes {
            let mut to = from;
            while to < close && !self.is_at(to, ",") {
                to = self.buffer.after_tree(to);
            }
            let part = self.one_slice(axis, (from, to), &mut taken);
            self.at = begin;
            let (index, position) = part?;
            left.extend(index);
            read.push(position);
            from = to + 1;
        }
        if from != close + 1 || left.is_empty() {
            return None;
        }
        let left = format!("[{}]", left.join(", "));
        let text = format!("{place}[{}]", read.join(", "));
        let help = format!("write `let {name}{left} = {text}`");
        Some(Fix::after(end, left, &help).and(whole, text))
    }

    /// The index on the left and the position for what is written of an axis between two tokens.
    fn one_slice(
        &mut self,
        axis: &Dim,
        (from, to): (usize, usize),
        taken: &mut Vec<String>,
    ) -> Option<(Option<String>, String)> {
        let between = |p: &Self, at: usize| p.is_at(at, ":") || p.is_at(at, "..");
        let colons: Vec<usize> = (from..to).filter(|&at| between(self, at)).collect();
        let colon = match &colons[..] {
            [] if matches!(self.peek_at(from), Some(Tok::Literal(_) | Tok::Ident(_))) => {
                return Some((None, self.written(from, to)));
            }
            [colon] => *colon,
            _ => return None,
        };
        let own = match &axis.kind {
            DimKind::Name(path) => path.as_ident().map(|name| name.as_str().to_lowercase()),
            _ => None,
        };
        let mut names = own
            .into_iter()
            .chain(["i", "j", "k", "l"].map(str::to_owned));
        let name = names.find(|name| !taken.contains(name) && !self.known(name))?;
        taken.push(name.clone());
        if from + 1 == to {
            return Some((Some(name.clone()), name));
        }
        let mut bound = |from: usize, to: usize| -> Option<Option<String>> {
            if from == to {
                return Some(None);
            }
            self.at = from;
            let dim = self.dim().ok().filter(|_| self.at == to)?;
            Some(Some(dim.to_string()))
        };
        let (low, high) = (bound(from, colon)?, bound(colon + 1, to)?);
        let low = low.unwrap_or_else(|| "0".into());
        let high = high.unwrap_or_else(|| axis.to_string());
        let extent = length(&low, &high);
        Some((
            Some(format!("{name} in {extent}")),
            format!("{low} + {name}"),
        ))
    }

    /// Is it a tensor of this block?
    fn known(&self, name: &str) -> bool {
        self.axes.contains_key(name) || self.lets.iter().any(|other| **other == *name)
    }
}
