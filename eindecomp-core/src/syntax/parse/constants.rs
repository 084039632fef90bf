//! The value outside of an access, `else -inf`, and numbers that have no digits as other languages write them:
//! `np.inf`, `float("-inf")`, `math.pi`, `torch.finfo(torch.float32).min`.

use super::foreign::is_module;
use super::{Parse, Parser};
use crate::syntax::ast::{Expr, ExprKind, Lit, Outside, UnaryOp};
use crate::syntax::diag::Fix;
use crate::syntax::literal;
use crate::syntax::names;
use crate::syntax::token::{Delim, Span, Tok};

/// A number, perhaps negated.
#[derive(Clone, Copy)]
pub(super) struct Constant {
    pub(super) negative: bool,
    pub(super) lit: Lit,
    /// How many tokens it is written with.
    tokens: usize,
}

impl Constant {
    fn text(&self) -> String {
        let sign = if self.negative { "-" } else { "" };
        format!("{sign}{}", self.lit)
    }
}

impl Parser {
    /// The literal behind an `else`.
    pub(super) fn outside(&mut self) -> Parse<Outside> {
        let start = self.span();
        let negative = self.eat("-");
        if let Some(found) = self
            .constant_at(self.at)
            .filter(|c| !(c.negative && negative))
        {
            self.constant();
            let (negative, lit, span) = (negative || found.negative, found.lit, self.since(start));
            return Ok(Outside {
                negative,
                lit,
                span,
            });
        }
        let word = match self.peek() {
            Some(Tok::Ident(word)) => match &**word {
                "inf" => Some(Lit::Inf),
                "nan" => Some(Lit::Nan),
                "true" if !negative => Some(Lit::Bool(true)),
                "false" if !negative => Some(Lit::Bool(false)),
                _ => None,
            },
            _ => None,
        };
        if word.is_none() && self.is_name_at(self.at) && self.is_at(self.at + 1, "::") {
            let diag = self.unexpected_diag("a literal after `else`");
            let path = self.path("a literal after `else`")?;
            let number = names::rust_number(&path);
            let fix = number.map(|number| Fix::replace(path.span, number, "write {}"));
            return Err(Box::new(diag.fixes(fix)));
        }
        if word.is_none() && self.is_name_at(self.at) {
            let diag = self.unexpected_diag("a literal after `else`");
            let help = "a value that is computed stands in a branch: `if … { x[…] } else { … }`";
            return Err(Box::new(diag.help(help)));
        }
        self.at += usize::from(word.is_some());
        let lit = match word {
            Some(lit) => lit,
            None => self.number("a literal after `else`")?,
        };
        Ok(Outside {
            negative,
            lit,
            span: self.since(start),
        })
    }

    /// The number that stands at `index`, in the words of another language.
    pub(super) fn constant_at(&self, index: usize) -> Option<Constant> {
        let word = |at: usize| match self.peek_at(at) {
            Some(Tok::Ident(word)) => Some(&**word),
            _ => None,
        };
        let called = |at: usize| self.peek_at(at) == Some(&Tok::Open(Delim::Paren));
        let dotted = self.is_at(index + 1, ".");
        let first = word(index).filter(|_| dotted || called(index + 1))?;
        if self.shapes.contains_key(first) {
            return None;
        }
        let made = |lit, negative, tokens| {
            Some(Constant {
                negative,
                lit,
                tokens,
            })
        };
        let (name, at) = match dotted && is_module(first) {
            true => (word(index + 2)?, index + 2),
            false => (first, index),
        };
        let of_module = at > index;
        if called(at + 1) {
            let close = self.buffer.partner(at + 1);
            if matches!(name, "finfo" | "iinfo") && self.is_at(close + 1, ".") {
                let tokens = close + 3 - index;
                return match word(close + 2)? {
                    "min" => made(Lit::Inf, true, tokens),
                    "max" => made(Lit::Inf, false, tokens),
                    "eps" => made(Lit::Float(f64::from(f32::EPSILON)), false, tokens),
                    _ => None,
                };
            }
            let (lit, negative) = number(&self.quoted(at + 2, close)?)?;
            return made(lit, negative, close + 1 - index);
        }
        // A field of something that is called like a module is read on.
        let read = |tok: &Tok| matches!(tok, Tok::Open(Delim::Bracket) | Tok::Punct("."));
        let alone = of_module && !self.peek_at(at + 1).is_some_and(read);
        let (lit, negative) = number(name).filter(|_| alone)?;
        made(lit, negative, at + 1 - index)
    }

    /// What stands in quotes of one kind or the other between two brackets.
    fn quoted(&self, from: usize, close: usize) -> Option<String> {
        match self.peek_at(from)? {
            Tok::Literal(text) if text.starts_with('"') && from + 1 == close => {
                literal::string(text)
            }
            Tok::Punct("'") if self.is_at(close - 1, "'") && from + 1 < close => {
                Some(self.written(from + 1, close - 1))
            }
            _ => None,
        }
    }

    /// Takes such a number, if one stands here; it is reported.
    pub(super) fn constant(&mut self) -> Option<Constant> {
        let found = self.constant_at(self.at)?;
        let start = self.span();
        self.at += found.tokens;
        let span = self.since(start);
        let text = "numbers are `inf`, `nan` and what is written in digits";
        self.slip(span, text, Fix::replace(span, found.text(), "write {}"));
        Some(found)
    }

    /// The same as an expression.
    pub(super) fn named_number(&mut self, start: Span) -> Option<ExprKind> {
        self.constant().map(|found| match found.negative {
            false => ExprKind::Lit(found.lit),
            true => {
                let kind = ExprKind::Lit(found.lit);
                let span = self.since(start);
                ExprKind::Unary(UnaryOp::Neg, Box::new(Expr { kind, span }))
            }
        })
    }
}

/// A number by its name, and its sign.
fn number(name: &str) -> Option<(Lit, bool)> {
    let lower = name.to_lowercase();
    let lower = lower.replace(' ', "");
    let (negative, lower) = match lower.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, lower.strip_prefix('+').unwrap_or(&lower)),
    };
    let of_rust = || {
        let value = names::constant(&name.to_uppercase())?;
        Some((Lit::Float(value.parse().ok()?), false))
    };
    match lower {
        "inf" | "infty" | "infinity" | "pinf" => Some((Lit::Inf, negative)),
        "ninf" | "neg_inf" => Some((Lit::Inf, true)),
        "nan" => Some((Lit::Nan, false)),
        "pi" | "e" | "tau" => of_rust(),
        _ => None,
    }
}
