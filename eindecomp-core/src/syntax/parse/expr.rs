//! Expressions, by precedence climbing.

use super::{Parse, Parser};
use crate::ein::{self, ScalarFn};
use crate::syntax::ast::{
    BinaryOp, CmpOp, Expr, ExprKind, Ident, IndexDecl, Lit, Path, Place, Reduce, ReduceBody, Sub,
    UnaryOp,
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

    /// An expression starts behind the brackets, so that they can only be meant as a reduction's.
    /// A name in front of the closing brace is the block's result behind a forgotten `;`, whatever
    /// comma stands between.
    fn attempts_reduction(&self, after: usize) -> bool {
        let ends = |at: usize| self.peek_at(at) == Some(&Tok::Close(Delim::Brace));
        match self.peek_at(after) {
            Some(Tok::Literal(_)) => true,
            Some(Tok::Ident(word)) if **word == *"if" => true,
            Some(Tok::Ident(_)) => {
                let next = after + 1;
                let result = ends(next) || self.is_at(next, ",") && ends(next + 1);
                self.is_name_at(after) && !result && !self.is_at(next, "=")
            }
            _ => false,
        }
    }

    fn reduction(
        &mut self,
        agg: Path,
        body: impl FnOnce(&mut Self) -> Parse<ReduceBody>,
    ) -> Parse<ExprKind> {
        self.open(Delim::Bracket)?;
        let mut indices = self.reduced_indices()?;
        let filter = if self.eat_where() {
            Some(self.filter()?)
        } else {
            None
        };
        let acc = match self.eat(";") {
            true => Some(self.ident("a dtype")?),
            false => self.acc_of(&mut indices),
        };
        if !self.is_close(Delim::Bracket) {
            let diag = self.unexpected_diag("`,`, `where`, `;` or `]`");
            let condition = self.comparison().zip(indices.last());
            return Err(Box::new(match condition {
                Some((_, decl)) if decl.extent.is_none() => self.bare_condition(diag, &indices),
                _ => diag,
            }));
        }
        self.at += 1;
        let body = self.nested(body)?;
        Ok(ExprKind::Reduce(Box::new(Reduce {
            agg,
            indices,
            filter,
            acc,
            body,
        })))
    }

    /// The indices of a reduction, up to what stands behind them.
    fn reduced_indices(&mut self) -> Parse<Vec<IndexDecl>> {
        let mut indices = Vec::new();
        loop {
            while !self.is_close(Delim::Bracket) && !self.is(";") && !self.is_word("where") {
                if self.is("..") {
                    let diag = self.unexpected_diag("an index to reduce");
                    let help = "a reduction names each axis, `sum[i, j]`: `..l` stands on the left and in reads";
                    return Err(Box::new(diag.help(help)));
                }
                if self.is("-") || matches!(self.peek(), Some(Tok::Literal(_))) {
                    let diag = self.unexpected_diag("an index to reduce");
                    let help = "an axis is reduced by the index that reads it: `sum[j] x[i, j]`";
                    return Err(Box::new(diag.help(help)));
                }
                let option = self.span();
                if self.keeping() {
                    let text = "a reduced axis is not kept: the result has the indices on the left";
                    let comma = self.buffer.span(self.at.saturating_sub(4));
                    let fix = Fix::replace(
                        comma.join(self.buffer.span(self.at - 1)),
                        "",
                        "leave it out",
                    );
                    self.slip(option, text, fix);
                } else {
                    indices.push(self.index_decl(true)?);
                }
                if !self.eat(",") {
                    break;
                }
            }
            // More of them, `sum[i][j] x[i, j]`.
            let after = self.at + 1;
            let more = self.is_close(Delim::Bracket)
                && self.peek_at(after) == Some(&Tok::Open(Delim::Bracket));
            if indices.is_empty() || !more {
                break;
            }
            let between = self.span().join(self.buffer.span(after));
            let shown = indices.iter().map(IndexDecl::to_string);
            let shown: Vec<String> = shown.chain([self.inside(after)]).collect();
            self.at += 2;
            self.joined_brackets(between, &format!("[{}]", shown.join(", ")));
        }
        if indices.is_empty() {
            return self.unexpected("an index to reduce");
        }
        Ok(indices)
    }

    /// The condition of a reduction; several are reported and read as one.
    fn filter(&mut self) -> Parse<Expr> {
        let mut cond = self.conditional()?;
        while self.is(",") {
            let fix = Fix::replace(self.span(), " &&", "write {}");
            self.slip(self.span(), "conditions are joined by `&&`", fix);
            self.at += 1;
            self.operator()?;
            let right = self.conditional()?;
            let span = cond.span.join(right.span);
            let kind = ExprKind::Binary(BinaryOp::And, Box::new(cond), Box::new(right));
            cond = Expr { kind, span };
        }
        Ok(cond)
    }

    fn access(&mut self, place: Place) -> Parse<ExprKind> {
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

/// Is it an aggregation, but no function?
fn is_only_agg(name: &str) -> bool {
    is_builtin(name) && !(1..=3).any(|n| ScalarFn::from_name(name, n).is_some())
}

/// Takes a product as its body; every other aggregation takes arguments in parentheses.
fn is_builtin(name: &str) -> bool {
    ein::Agg::from_name(name).is_some()
}
