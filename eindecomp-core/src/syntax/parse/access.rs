//! Accesses, behind what they read: positions, merged ones among them, and the value outside.

use super::{Parse, Parser};
use crate::syntax::ast::{ExprKind, Place, Sub};
use crate::syntax::token::{Delim, Span, Tok};

impl Parser {
    pub(super) fn access(&mut self, place: Place) -> Parse<ExprKind> {
        self.not_slice(&place)?;
        let open = self.at;
        self.open(Delim::Bracket)?;
        if self.is_close(Delim::Bracket) {
            let diag = self.unexpected_diag("an index");
            let help = format!("a tensor without axes is read by its name: `{place}`");
            return Err(Box::new(diag.help(help)));
        }
        let subs = self.list(Delim::Bracket, Self::sub);
        let subs = subs.map_err(|diag| match self.peek() {
            Some(Tok::Ident(word)) if **word == *"else" => {
                Box::new(self.inner_else(&place, open, *diag))
            }
            Some(Tok::Punct(".")) => {
                Box::new(diag.help("any number of leading axes is `..l`, under `dim ..L`"))
            }
            _ => diag,
        })?;
        let subs = self.without_kept(&place, open, subs);
        let default = if !self.bare_else && self.eat_word("else") {
            Some(self.outside()?)
        } else {
            None
        };
        Ok(ExprKind::Access {
            place,
            subs,
            default,
        })
    }

    pub(super) fn sub(&mut self) -> Parse<Sub> {
        if self.eat("..") {
            return Ok(Sub::Rest(self.rest_index()?));
        }
        if self.is_open(Delim::Bracket) {
            self.merged_brackets();
        }
        if let Some(span) = self.merged() {
            self.at += 1;
            let mut parts = self.nested(|p| p.list1(Delim::Paren, "an index", |p| p.sub()))?;
            return Ok(match parts.pop() {
                Some(only) if parts.is_empty() => only,
                last => {
                    parts.extend(last);
                    Sub::Merged(parts, span)
                }
            });
        }
        let position = self.expr()?;
        if self.is_word("in") {
            self.ranged_access(&position)?;
        }
        Ok(Sub::Expr(position))
    }

    /// The span of the tuple that makes up the whole subscript here, if one does.
    fn merged(&self) -> Option<Span> {
        if !self.is_open(Delim::Paren) {
            return None;
        }
        let close = self.buffer.partner(self.at);
        let whole = self.is_at(close + 1, ",")
            || matches!(
                self.peek_at(close + 1),
                Some(Tok::Close(Delim::Bracket | Delim::Paren))
            );
        let mut inside = self.at + 1;
        // Between two names a comma is missing.
        let next = |at: usize| self.is_name_at(at) && self.is_name_at(at + 1);
        while inside < close && !self.is_at(inside, ",") && !next(inside) {
            inside = self.buffer.after_tree(inside);
        }
        (whole && inside < close).then(|| self.span().join(self.buffer.span(close)))
    }
}
