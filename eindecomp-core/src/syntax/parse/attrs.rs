//! Attributes: what they are and where they stand.

use super::{Parse, Parser};
use crate::syntax::ast::{Attr, AttrKind, Path};
use crate::syntax::diag::{Code, Diag, Fix};
use crate::syntax::token::{Delim, Tok};
use crate::syntax::{literal, names};

/// What an attribute stands on.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum AttrPlace {
    Item,
    Field,
    Param,
    Stmt,
}

impl AttrPlace {
    fn expected(self) -> &'static str {
        match self {
            AttrPlace::Item => "an item takes docs and Rust's attributes",
            AttrPlace::Field => "a field takes docs and `#[name = \"…\"]`",
            AttrPlace::Param => {
                "a parameter takes docs, `#[weight]`, `#[state]`, `#[host]` and `#[name = \"…\"]`"
            }
            AttrPlace::Stmt => "a statement takes docs, `#[whole]` and `#[split(index = parts)]`",
        }
    }

    fn names(self) -> &'static [&'static str] {
        match self {
            AttrPlace::Item => &[],
            AttrPlace::Field => &["name"],
            AttrPlace::Param => &["weight", "state", "host", "name"],
            AttrPlace::Stmt => &["whole", "split"],
        }
    }

    fn allows(self, kind: &AttrKind) -> bool {
        match kind {
            AttrKind::Doc(_) => true,
            AttrKind::Rust(_) | AttrKind::Kernel(_) => self == AttrPlace::Item,
            AttrKind::Name(_) => matches!(self, AttrPlace::Field | AttrPlace::Param),
            AttrKind::Weight | AttrKind::State | AttrKind::Host => self == AttrPlace::Param,
            AttrKind::Whole | AttrKind::Split(_) => self == AttrPlace::Stmt,
        }
    }
}

impl Parser {
    fn string(&mut self, what: &str) -> Parse<String> {
        if let Some(Tok::Literal(text)) = self.peek()
            && let Some(value) = literal::string(text)
        {
            self.at += 1;
            return Ok(value);
        }
        self.unexpected(what)
    }

    /// The attributes here. Wrong ones are reported and left out.
    pub(super) fn attrs(&mut self, place: AttrPlace) -> Vec<Attr> {
        let mut attrs = Vec::new();
        while self.is("#") && !(place == AttrPlace::Param && self.is_bare_role(self.at + 1)) {
            let start = self.at;
            let attr = self.attr(place);
            if let Some(attr) = self.report(attr) {
                attrs.push(attr);
            } else {
                let bracket = start + 1 + usize::from(self.is_at(start + 1, "!"));
                let is_attr = self.peek_at(bracket) == Some(&Tok::Open(Delim::Bracket));
                self.at = if is_attr {
                    self.buffer.after_tree(bracket)
                } else {
                    start + 1
                };
            }
        }
        attrs
    }

    fn attr(&mut self, place: AttrPlace) -> Parse<Attr> {
        let start = self.span();
        self.expect("#")?;
        let open = self.at;
        self.open(Delim::Bracket)?;
        let kind = self.attr_kind(open)?;
        self.close(Delim::Bracket)?;
        let span = self.since(start);
        if !place.allows(&kind) {
            let code = Code::Attribute;
            let diag = Diag::new(code, span, "this attribute does not belong here");
            return Err(Box::new(match &kind {
                AttrKind::Rust(tokens) => {
                    let near = tokens.first().and_then(|token| {
                        let name = token.tok.to_string();
                        let meant = names::nearest(&name, place.names().iter().copied())?;
                        Some(Fix::replace(token.span, meant, "did you mean {}?"))
                    });
                    diag.fixes(near).help(place.expected())
                }
                AttrKind::Weight if place == AttrPlace::Field => {
                    let help = "leave it out: a block's parameter of this struct is `#[weight]`";
                    diag.fix(Fix::replace(span, "", help))
                }
                _ => diag.help(place.expected()),
            }));
        }
        Ok(Attr { kind, span })
    }

    fn attr_kind(&mut self, open: usize) -> Parse<AttrKind> {
        let name = match self.peek() {
            Some(Tok::Ident(name)) => name.clone(),
            _ => return self.unexpected("an attribute"),
        };
        let valued = self.is_at(self.at + 1, "=");
        let kind = match &*name {
            "weight" => AttrKind::Weight,
            "state" => AttrKind::State,
            "host" => AttrKind::Host,
            "whole" => AttrKind::Whole,
            "doc" | "name" if valued => {
                self.at += 2;
                let text = self.string("a string")?.into();
                return Ok(if &*name == "doc" {
                    AttrKind::Doc(text)
                } else {
                    AttrKind::Name(text)
                });
            }
            "kernel" => {
                self.at += 1;
                self.expect("=")?;
                return self.kernel_path().map(AttrKind::Kernel);
            }
            "name" => {
                self.at += 1;
                return self.unexpected("`= \"…\"`");
            }
            "split" => {
                self.at += 1;
                self.open(Delim::Paren)?;
                return Ok(AttrKind::Split(self.list1(
                    Delim::Paren,
                    "an index",
                    |p| {
                        let index = p.ident("an index")?;
                        if p.is(":") {
                            let fix = Fix::replace(p.span(), " =", "write {}");
                            p.slip(p.span(), "a number of parts stands behind `=`", fix);
                            p.at += 1;
                        } else {
                            p.expect("=")?;
                        }
                        Ok((index, p.integer("a number of parts")?))
                    },
                )?));
            }
            _ => {
                let close = self.buffer.partner(open);
                if let Some(at) = self.no_attribute(open + 1, close) {
                    self.at = at;
                    return self.unexpected("an attribute as Rust has them");
                }
                let tokens = self.buffer.tokens()[open + 1..close].to_vec();
                self.at = close;
                return Ok(AttrKind::Rust(tokens));
            }
        };
        self.at += 1;
        Ok(kind)
    }

    /// The function of a kernel; a string is reported.
    fn kernel_path(&mut self) -> Parse<Path> {
        let span = self.span();
        let text = match self.peek() {
            Some(Tok::Literal(text)) => literal::string(text),
            _ => None,
        };
        let part = |name: &str| name.chars().all(|ch| ch.is_alphanumeric() || ch == '_');
        match text.filter(|text| text.split("::").all(|name| !name.is_empty() && part(name))) {
            Some(text) => {
                let fix = Fix::replace(span, text.as_str(), "write {}");
                self.slip(span, "a kernel is named by its path, not by a string", fix);
                self.at += 1;
                Ok(Path {
                    span,
                    ..Path::from_text(&text)
                })
            }
            None => self.path("the path of a Rust function"),
        }
    }

    /// What Rust would not read as an attribute: it is a path, then nothing, a bracket, or `=` and
    /// a literal or macro.
    fn no_attribute(&self, from: usize, close: usize) -> Option<usize> {
        let path = |mut at: usize| {
            while self.is_at(at + 1, "::") && matches!(self.peek_at(at + 2), Some(Tok::Ident(_))) {
                at += 2;
            }
            at + 1
        };
        let bracket = |at: usize| match self.peek_at(at) {
            Some(Tok::Open(_)) => self.buffer.after_tree(at),
            _ => at,
        };
        let mut at = path(from);
        if self.is_at(at, "=") {
            at += 1;
            match self.peek_at(at) {
                Some(Tok::Literal(_)) => at += 1,
                Some(Tok::Ident(_)) if self.is_at(path(at), "!") => at = bracket(path(at) + 1),
                _ => return Some(at),
            }
        } else {
            at = bracket(at);
        }
        (at != close).then_some(at)
    }
}
