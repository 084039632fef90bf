//! Expressions, by precedence climbing: operators, choices, and what starts with a name.

use super::{Parse, Parser};
use crate::ein::{self, ScalarFn};
use crate::syntax::ast::{
    BinaryOp, CmpOp, Expr, ExprKind, Ident, Lit, Path, Place, ReduceBody, UnaryOp,
};
use crate::syntax::diag::{Code, Diag, Fix};
use crate::syntax::names;
use crate::syntax::token::{Delim, Span, Tok};

/// Binding strengths; a chain of equal strength groups to the left.
const OR: u8 = 0;
const AND: u8 = 1;
const COMPARE: u8 = 2;
const PRODUCT: u8 = 4;

fn strength(op: BinaryOp) -> u8 {
    match op {
        BinaryOp::Or => OR,
        BinaryOp::And => AND,
        BinaryOp::Cmp(_) => COMPARE,
        BinaryOp::Add | BinaryOp::Sub => 3,
        BinaryOp::Mul | BinaryOp::Div | BinaryOp::Rem => PRODUCT,
    }
}

impl Parser {
    pub(super) fn expr(&mut self) -> Parse<Expr> {
        let value = self.nested(|p| p.binary(OR))?;
        match self.is("?") || self.is_word("if") {
            true => self.ternary(value),
            false => Ok(value),
        }
    }

    /// Operators that bind at least as strongly as `min`.
    fn binary(&mut self, min: u8) -> Parse<Expr> {
        let start = self.span();
        let mut left = self.cast()?;
        loop {
            if min <= PRODUCT && self.is("@") {
                return self.matmul(&left);
            }
            let Some((op, tokens)) = self.binary_op().filter(|(op, _)| strength(*op) >= min) else {
                break;
            };
            self.take_operator(op, tokens)?;
            self.operator()?;
            let right = self.binary(strength(op) + 1)?;
            let compares = |(op, _)| strength(op) == COMPARE;
            if strength(op) == COMPARE && self.binary_op().is_some_and(compares) {
                return Err(self.chained(&left, op, &right)?);
            }
            let kind = ExprKind::Binary(op, Box::new(left), Box::new(right));
            left = Expr {
                kind,
                span: self.since(start),
            };
        }
        Ok(left)
    }

    /// The operator that stands here, in whatever spelling, and the number of its tokens.
    fn binary_op(&self) -> Option<(BinaryOp, usize)> {
        if let Some(Tok::Close(_) | Tok::Punct("," | ";")) = self.peek() {
            return None;
        }
        if let Some(foreign) = self.foreign_operator() {
            return Some(foreign);
        }
        if let Some(cmp) = self.comparison() {
            return Some((BinaryOp::Cmp(cmp), 1));
        }
        let Some(Tok::Punct(punct)) = self.peek() else {
            return None;
        };
        let op = match *punct {
            "||" => BinaryOp::Or,
            "&&" => BinaryOp::And,
            "+" => BinaryOp::Add,
            "-" => BinaryOp::Sub,
            "*" => BinaryOp::Mul,
            "/" => BinaryOp::Div,
            "%" => BinaryOp::Rem,
            "=" if self.compares => BinaryOp::Cmp(CmpOp::Eq),
            _ => return None,
        };
        Some((op, 1))
    }

    /// Takes an operator; another language's spelling of it is reported.
    fn take_operator(&mut self, op: BinaryOp, tokens: usize) -> Parse<()> {
        let first = self.span();
        let ours = tokens == 1 && self.is(op.symbol());
        self.at += tokens;
        let place = self.since(first);
        if !ours {
            self.respelt(place, op)?;
        }
        Ok(())
    }

    /// A condition, in which `=` can only be meant as `==`.
    pub(super) fn conditional(&mut self) -> Parse<Expr> {
        let outer = std::mem::replace(&mut self.compares, true);
        let made = self.expr();
        self.compares = outer;
        made
    }

    /// A comparison, or what binds more strongly.
    pub(super) fn compared(&mut self) -> Parse<Expr> {
        self.binary(COMPARE)
    }

    /// What is compared.
    pub(super) fn operands(&mut self) -> Parse<Expr> {
        self.binary(COMPARE + 1)
    }

    /// A product, or what binds more strongly.
    pub(super) fn product(&mut self) -> Parse<Expr> {
        self.binary(PRODUCT)
    }

    /// One operand of a product.
    pub(super) fn operand(&mut self) -> Parse<Expr> {
        self.binary(PRODUCT + 1)
    }

    fn cast(&mut self) -> Parse<Expr> {
        let start = self.span();
        let mut value = self.unary()?;
        while self.eat_word("as") {
            self.operator()?;
            let dtype = self.ident("a dtype")?;
            value = Expr {
                kind: ExprKind::Cast(Box::new(value), dtype),
                span: self.since(start),
            };
        }
        Ok(value)
    }

    pub(super) fn unary(&mut self) -> Parse<Expr> {
        if self.is("&") {
            self.dereferenced();
        }
        if self.is("+") {
            self.plus();
        }
        let op = match self.peek() {
            Some(Tok::Punct("-")) => UnaryOp::Neg,
            Some(Tok::Punct("!" | "~")) => self.not(),
            _ => {
                let value = self.primary()?;
                return self.postfix(value);
            }
        };
        let start = self.span();
        self.at += 1;
        let kind = ExprKind::Unary(op, Box::new(self.nested(Self::unary)?));
        Ok(Expr {
            kind,
            span: self.since(start),
        })
    }

    fn primary(&mut self) -> Parse<Expr> {
        let start = self.span();
        let kind = self.primary_kind(start)?;
        Ok(Expr {
            kind,
            span: self.since(start),
        })
    }

    // Results are handed on as they are, which keeps the frames of a deep nesting small.
    fn primary_kind(&mut self, start: Span) -> Parse<ExprKind> {
        match self.peek() {
            Some(Tok::Literal(_)) => self.number("an expression").map(ExprKind::Lit),
            Some(Tok::Open(Delim::Paren)) => self.parens(),
            Some(Tok::Punct("::")) => self.named(),
            Some(Tok::Punct(".")) => self.fraction().map(ExprKind::Lit),
            Some(Tok::Ident(word)) => match &**word {
                "if" => self.nested(Self::condition),
                "inf" => self.word_literal(Lit::Inf),
                "nan" => self.word_literal(Lit::Nan),
                "true" => self.word_literal(Lit::Bool(true)),
                "false" => self.word_literal(Lit::Bool(false)),
                "where" if self.is_where_call() => self.where_call(start),
                "not"
                    if matches!(
                        self.peek_at(self.at + 1),
                        Some(Tok::Ident(_) | Tok::Literal(_))
                    ) =>
                {
                    self.negation()
                }
                _ => match self.named_number(start) {
                    Some(kind) => Ok(kind),
                    None => self.named(),
                },
            },
            _ => self.unexpected("an expression"),
        }
    }

    fn word_literal(&mut self, lit: Lit) -> Parse<ExprKind> {
        self.at += 1;
        Ok(ExprKind::Lit(lit))
    }

    fn parens(&mut self) -> Parse<ExprKind> {
        if let Some(kind) = self.cast_before()? {
            return Ok(kind);
        }
        self.open(Delim::Paren)?;
        let outer = std::mem::replace(&mut self.bare_else, false);
        let items = self.list1(Delim::Paren, "an expression", Self::expr);
        self.bare_else = outer;
        let mut items = items?;
        Ok(match items.pop() {
            Some(only) if items.is_empty() => ExprKind::Paren(Box::new(only)),
            last => {
                items.extend(last);
                ExprKind::Tuple(items)
            }
        })
    }

    fn condition(&mut self) -> Parse<ExprKind> {
        let start = self.span();
        self.at += 1;
        let cond = Box::new(self.conditional()?);
        let mut naked = Vec::new();
        let then = Box::new(self.branch(&mut naked)?);
        if self.is_else_if() {
            let fix = Fix::replace(self.span(), "else if", "write {}");
            self.slip(
                self.span(),
                "another condition stands behind `else if`",
                fix,
            );
        } else if !self.eat_word("else") {
            // Something stands where the `else` is missing.
            if matches!(self.peek(), Some(Tok::Ident(_) | Tok::Open(_))) {
                return Err(self.no_else(start));
            }
            return Ok(ExprKind::If {
                cond,
                then,
                otherwise: None,
            });
        }
        let otherwise = if self.is_word("if") || self.is_else_if() {
            let start = self.span();
            let kind = self.nested(Self::condition)?;
            Expr {
                kind,
                span: self.since(start),
            }
        } else {
            self.branch(&mut naked)?
        };
        let kind = ExprKind::If {
            cond,
            then,
            otherwise: Some(Box::new(otherwise)),
        };
        match naked.first() {
            Some(first) => Ok(self.braces(*first, self.since(start), kind)),
            None => Ok(kind),
        }
    }

    fn no_else(&self, start: Span) -> Box<Diag> {
        let diag = Diag::new(Code::MissingElse, self.since(start), names::NO_ELSE);
        Box::new(diag.help("write `else { … }`"))
    }

    /// A value in braces; the place of one without goes to `naked`.
    fn branch(&mut self, naked: &mut Vec<Span>) -> Parse<Expr> {
        let starts = matches!(
            self.peek_at(self.at + 1),
            Some(Tok::Ident(_) | Tok::Literal(_))
        );
        self.at += usize::from(self.is_word("then") && starts);
        if matches!(self.peek(), Some(Tok::Ident(_) | Tok::Literal(_))) && !self.is_word("else") {
            let value = self.without_default(|p| p.nested(|p| p.binary(OR)))?;
            naked.push(value.span);
            return Ok(value);
        }
        if self.is(":") {
            let diag = self.unexpected_diag("`{`");
            let help = "both values of a choice stand in braces: `if … { … } else { … }`";
            return Err(Box::new(diag.help(help)));
        }
        self.open(Delim::Brace)?;
        if self.is_word("let") {
            let diag = self.unexpected_diag("an expression");
            return Err(Box::new(
                diag.help("a branch is one expression; put the `let` before"),
            ));
        }
        let value = self.expr()?;
        if self.is(";") && self.peek_at(self.at + 1) == Some(&Tok::Close(Delim::Brace)) {
            let fix = Fix::replace(self.span(), "", "leave it out");
            self.slip(self.span(), "the value of a branch stands without `;`", fix);
            self.at += 1;
        }
        self.close(Delim::Brace)?;
        Ok(value)
    }

    /// What starts with a name: a reduction, an access, a call, or the name itself.
    fn named(&mut self) -> Parse<ExprKind> {
        let start = self.span();
        let path = self.path("an expression")?;
        if self.is_open(Delim::Bracket) {
            let builtin = path.as_ident().filter(|name| is_builtin(name.as_str()));
            if builtin.is_some_and(|name| !self.taken.contains(&name.name)) {
                let body = |p: &mut Self| p.binary(PRODUCT).map(ReduceBody::Product);
                return self.reduction(path, body);
            }
            let after = self.buffer.after_tree(self.at);
            if self.peek_at(after) == Some(&Tok::Open(Delim::Paren)) {
                return self.reduction(path, |p| {
                    p.open(Delim::Paren)?;
                    p.list1(Delim::Paren, "an expression", Self::expr)
                        .map(ReduceBody::Args)
                });
            }
            let tensor = path
                .as_ident()
                .is_some_and(|name| self.shapes.contains_key(&name.name));
            if !tensor && self.attempts_reduction(after) {
                return self.reduction(path, |p| p.binary(PRODUCT).map(ReduceBody::Product));
            }
        }
        self.placed(path, start)
    }

    /// What starts with a name that is no reduction's.
    fn placed(&mut self, path: Path, start: Span) -> Parse<ExprKind> {
        let mut fields = Vec::new();
        while self.eat(".") {
            if self.is_where_call() {
                return self.where_call(start);
            }
            fields.push(self.ident("a field")?);
        }
        let place = Place {
            span: self.since(start),
            path,
            fields,
        };
        self.turbofish();
        self.not_transposed(&place)?;
        match self.peek() {
            Some(Tok::Open(Delim::Bracket)) => self.access(place),
            Some(Tok::Open(Delim::Paren)) => self.call(place),
            _ => self.applied(place),
        }
    }

    fn call(&mut self, place: Place) -> Parse<ExprKind> {
        if self.is_foreign_call(&place) {
            return self.foreign_call(&place);
        }
        if !place.fields.is_empty() {
            return Err(self.whole_method(&place)?);
        }
        if let Some(agg) = place.as_ident().filter(|name| self.is_by_axis(name)) {
            return Err(self.by_axis(agg)?);
        }
        if let Some(agg) = place.as_ident().filter(|name| is_only_agg(name.as_str())) {
            return Err(self.called_agg(agg, agg.span)?);
        }
        if let Some(name) = place.as_ident().filter(|_| self.is_given_a_list()) {
            let text = format!("there is no function `{name}`, nor are there lists");
            let diag = Diag::new(Code::UnknownFunction, name.span, text);
            return Err(Box::new(diag.help(names::instead(name.as_str()))));
        }
        self.at += 1;
        let args = self.arguments()?;
        Ok(ExprKind::Call {
            path: place.path,
            args,
        })
    }

    /// Notes that a name which is declared is an aggregation's.
    pub(super) fn take(&mut self, name: &Ident) {
        if is_builtin(name.as_str()) {
            self.taken.push(name.name.clone());
        }
    }
}

/// Is it an aggregation, but no function?
fn is_only_agg(name: &str) -> bool {
    is_builtin(name) && !(1..=3).any(|n| ScalarFn::from_name(name, n).is_some())
}

/// Takes a product as its body; every other aggregation takes arguments in parentheses.
fn is_builtin(name: &str) -> bool {
    ein::Agg::from_name(name).is_some()
}
