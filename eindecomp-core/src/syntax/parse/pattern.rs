//! Patterns: the names and indices that a statement defines.

use std::sync::Arc;

use super::loops::zero;
use super::{Parse, Parser};
use crate::syntax::ast::{Dim, DimKind, DimOp, Ident, IndexDecl, LeftIndex, Pattern};
use crate::syntax::diag::{Code, Diag, Fix};
use crate::syntax::token::{Delim, Span, Tok};

impl Parser {
    pub(super) fn pattern(&mut self) -> Parse<Pattern> {
        let start = self.span();
        let names = if self.is_open(Delim::Paren) {
            self.at += 1;
            self.list1(Delim::Paren, "a name", |p| p.binding("a name"))?
        } else {
            self.bare_names()?
        };
        names.iter().for_each(|name| self.take(name));
        if self.is_open(Delim::Paren) {
            self.indices_in_parens(&names[0]);
        }
        let indices = if self.is_open(Delim::Bracket) {
            self.at += 1;
            let mut indices = self.left_indices(&names[0])?;
            while self.is_open(Delim::Bracket) {
                let between = self.buffer.span(self.at - 1).join(self.span());
                self.at += 1;
                indices.extend(self.list(Delim::Bracket, Self::left_index)?);
                let shown: Vec<String> = indices.iter().map(LeftIndex::to_string).collect();
                let name = &names[0];
                self.joined_brackets(between, &format!("{name}[{}]", shown.join(", ")));
            }
            Some(indices)
        } else {
            None
        };
        Ok(Pattern {
            names,
            indices,
            span: self.since(start),
        })
    }

    /// A name, or several without parentheses or in brackets, which is reported, or only indices.
    fn bare_names(&mut self) -> Parse<Vec<Ident>> {
        let start = self.span();
        let text = "several names stand in parentheses";
        if self.is_open(Delim::Bracket) && !self.calls_behind_brackets() {
            let name = self.result_behind().unwrap_or_else(|| "t".into());
            let left = self.inside(self.at);
            let help = format!("write `let {name}[{left}]`");
            let fix = Fix::before(start, &*name, &help);
            self.slip(start, "the name is missing before these indices", fix);
            return Ok(vec![Ident { name, span: start }]);
        }
        if self.is_open(Delim::Bracket) {
            self.at += 1;
            let names = self.list1(Delim::Bracket, "a name", |p| p.binding("a name"))?;
            let end = self.buffer.span(self.at - 1);
            let help = format!("write `({})`", listed(&names));
            let fix = Fix::replace(start, "(", &help).and(end, ")");
            self.slip(start, text, fix);
            return Ok(names);
        }
        let mut names = vec![self.binding("a name")?];
        while self.is(",") && self.is_name_at(self.at + 1) {
            self.at += 1;
            names.push(self.binding("a name")?);
        }
        if names.len() > 1 {
            let span = self.since(start);
            let shown = format!("({})", listed(&names));
            self.slip(span, text, Fix::wrap(span, "(", ")", &shown, "write {}"));
        }
        Ok(names)
    }

    /// Is what these brackets are given a call, whose results they may name?
    fn calls_behind_brackets(&self) -> bool {
        let end = self.buffer.partner(self.at);
        let called = self.peek_at(end + 3) == Some(&Tok::Open(Delim::Paren));
        self.is_at(end + 1, "=") && self.is_name_at(end + 2) && called
    }

    /// The name alone at the end of the statements, which a block returns.
    fn result_behind(&self) -> Option<Arc<str>> {
        let mut at = self.at;
        while !matches!(self.peek_at(at), None | Some(Tok::Close(_))) {
            at = match self.peek_at(at) {
                Some(Tok::Open(_)) => self.buffer.partner(at) + 1,
                _ => at + 1,
            };
        }
        let alone = self.is_at(at.checked_sub(2)?, ";");
        match self.peek_at(at - 1) {
            Some(Tok::Ident(name)) if alone => Some(name.clone()),
            _ => None,
        }
    }

    pub(super) fn left_index(&mut self) -> Parse<LeftIndex> {
        if self.eat("..") {
            return Ok(LeftIndex::Rest(self.rest_index()?));
        }
        if self.is_open(Delim::Bracket) {
            self.merged_brackets();
        }
        if self.is_open(Delim::Paren) {
            let start = self.span();
            self.at += 1;
            let mut parts =
                self.nested(|p| p.list1(Delim::Paren, "an index", |p| p.left_index()))?;
            return Ok(match parts.pop() {
                Some(only) if parts.is_empty() => only,
                last => {
                    parts.extend(last);
                    LeftIndex::Merged(parts, self.since(start))
                }
            });
        }
        if let Some(Tok::Literal(_)) = self.peek() {
            let help = "a `let` defines a whole tensor: name each axis";
            return Err(Box::new(self.unexpected_diag("an index").help(help)));
        }
        let index = self.index_decl(false)?;
        if matches!(self.peek(), Some(Tok::Punct("+" | "-" | "*" | "/" | "%"))) {
            let diag = self.unexpected_diag("`,` or `]`");
            if let Some(fix) = self.flattened_left(&index) {
                return Err(Box::new(diag.fix(fix)));
            }
            let help = "a `let` defines all elements: an axis has one index, a merged one `(h, e)`; what is \
                        stored into a state stands without `let`";
            return Err(Box::new(diag.help(help)));
        }
        Ok(LeftIndex::Index(index))
    }

    /// `i * X + j` on the left as the merged axis `(i, j)` that it is, behind its `i`.
    fn flattened_left(&self, index: &IndexDecl) -> Option<Fix> {
        let times = self.is("*") && self.is_name_at(self.at + 1) && self.is_at(self.at + 2, "+");
        let last = self.at + 3;
        let ends = self.is_at(last + 1, ",")
            || self.peek_at(last + 1) == Some(&Tok::Close(Delim::Bracket));
        match self.peek_at(last) {
            Some(Tok::Ident(second)) if times && ends && index.extent.is_none() => {
                let place = index.name.span.join(self.buffer.span(last));
                let text = format!("({}, {second})", index.name);
                Some(Fix::replace(
                    place,
                    text,
                    "a merged axis has its indices in parentheses: {}",
                ))
            }
            _ => None,
        }
    }

    /// The index behind a `..`, which is taken; its place is that of both.
    pub(super) fn rest_index(&mut self) -> Parse<Ident> {
        let dots = self.buffer.span(self.at - 1);
        self.third_dot();
        if !self.is_name_at(self.at) {
            let diag = self.unexpected_diag("an index after `..`");
            let help = "any number of axes has a name, `..l`, over a `dim ..L`";
            return Err(Box::new(diag.help(help)));
        }
        let index = self.ident("an index after `..`")?;
        Ok(Ident {
            span: dots.join(index.span),
            ..index
        })
    }

    /// `i` or `i in N`, of a reduction or on the left.
    pub(super) fn index_decl(&mut self, reduced: bool) -> Parse<IndexDecl> {
        let name = self.ident("an index")?;
        if self.is("=") || self.is(":") {
            let fix = Fix::replace(self.span(), " in", "write {}");
            self.slip(self.span(), "the range of an index stands behind `in`", fix);
            self.at += 1;
        } else if !self.eat_word("in") {
            return Ok(IndexDecl { name, extent: None });
        }
        if self.is_word("range") && self.peek_at(self.at + 1) == Some(&Tok::Open(Delim::Paren)) {
            let start = self.span();
            let (low, high) = self.foreign_bounds()?;
            let span = self.since(start);
            return self.ranged(&name, (low, high), (span, false), reduced);
        }
        let open = self.is("..") && (self.is_at(self.at + 1, "=") || self.is_name_at(self.at + 1));
        if reduced && open {
            let low = zero(self.span());
            return self.range(&name, low, reduced);
        }
        let extent = self.dim()?;
        if self.is("..") {
            return self.range(&name, extent, reduced);
        }
        Ok(IndexDecl {
            name,
            extent: Some(extent),
        })
    }

    /// The end of `i in low..high`, whose `low` was read; an index starts at 0.
    pub(super) fn range(&mut self, name: &Ident, low: Dim, reduced: bool) -> Parse<IndexDecl> {
        self.at += 1;
        let closed = self.eat("=");
        let high = self.dim()?;
        let span = low.span.join(high.span);
        self.ranged(name, (low, high), (span, closed), reduced)
    }

    fn ranged(
        &mut self,
        name: &Ident,
        (low, high): (Dim, Dim),
        (span, closed): (Span, bool),
        reduced: bool,
    ) -> Parse<IndexDecl> {
        let text = "an index runs from 0 to below its extent";
        // Up to an index or a number of a run: the check says what is meant.
        if reduced && low.to_string() == "0" && high.names().iter().any(|name| is_small(name)) {
            let kind = match closed {
                true => DimKind::Binary(DimOp::Add, Box::new(high), Box::new(one(span))),
                false => high.kind,
            };
            let extent = Some(Dim { kind, span });
            let name = name.clone();
            return Ok(IndexDecl { name, extent });
        }
        let extent = match closed {
            true => format!("{high} + 1"),
            false => high.to_string(),
        };
        if low.to_string() != "0" {
            let diag = Diag::new(Code::Syntax, span, text);
            let moving = [&low, &high]
                .iter()
                .any(|dim| dim.names().iter().any(|n| is_small(n)));
            let below = if closed { "<=" } else { "<" };
            let help = match reduced && moving {
                true => format!(
                    "an index runs over a whole axis; a condition takes a part of it: \
                     `{name} where {name} >= {low} && {name} {below} {high}`"
                ),
                false => {
                    format!("write `{name} in {extent} - {low}`, and read `x[{name} + {low}]`")
                }
            };
            return Err(Box::new(diag.help(help)));
        }
        let help = format!("write `{name} in {extent}`");
        self.slip(span, text, Fix::replace(span, extent, &help));
        Ok(IndexDecl {
            name: name.clone(),
            extent: Some(high),
        })
    }
}

/// Is it in lower case, as no dim is?
fn is_small(name: &Ident) -> bool {
    name.as_str().starts_with(char::is_lowercase)
}

fn one(span: Span) -> Dim {
    let kind = DimKind::Int(1);
    Dim { kind, span }
}

/// Names as they are listed.
fn listed(names: &[Ident]) -> String {
    let names: Vec<&str> = names.iter().map(Ident::as_str).collect();
    names.join(", ")
}
