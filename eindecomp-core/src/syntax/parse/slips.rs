//! What other languages write, with how it is written here: methods, slices, `@`, `**`, `?:`, words
//! for operators. What is clear is reported and read as it is meant.

use super::{Parse, Parser};
use crate::ein::{Agg, DType, ScalarFn};
use crate::syntax::ast::{
    BinaryOp, Clause, ClauseKind, Expr, ExprKind, Ident, Lit, Path, Place, ReduceBody, Sub, UnaryOp,
};
use crate::syntax::diag::{Code, Diag, Fix};
use crate::syntax::literal;
use crate::syntax::names;
use crate::syntax::token::{Delim, Span, Tok};

/// Where a condition may stand.
pub(super) const WHERE: &str = "a condition stands in the brackets of its reduction, \
    `sum[t where t <= s] …`; a choice is `if … { … } else { … }`";

impl Parser {
    /// Reports a slip from which reading goes on.
    pub(super) fn slip(&mut self, span: Span, text: &str, fix: Fix) {
        self.diags
            .push(Diag::new(Code::Syntax, span, text).fix(fix));
    }

    /// What stands behind a value: a method, more brackets, a power.
    pub(super) fn postfix(&mut self, mut value: Expr) -> Parse<Expr> {
        loop {
            let power = self.is("*") && self.is_at(self.at + 1, "*");
            if power || self.is("^") {
                let first = self.span();
                self.at += if power { 2 } else { 1 };
                self.operator()?;
                value = self.power(value, self.since(first))?;
            } else if self.is(".") && self.is_name_at(self.at + 1) {
                value = self.method(value)?;
            } else if self.is_open(Delim::Bracket) && matches!(value.kind, ExprKind::Access { .. })
            {
                value = self.more_brackets(value)?;
            } else if self.is_open(Delim::Bracket) && matches!(value.kind, ExprKind::Call { .. }) {
                return Err(Box::new(self.element_of_call(&value)));
            } else {
                return Ok(value);
            }
        }
    }

    /// `.5`, read as `0.5`.
    pub(super) fn fraction(&mut self) -> Parse<Lit> {
        let start = self.span();
        let text = match self.peek_at(self.at + 1) {
            Some(Tok::Literal(digits)) => format!("0.{digits}"),
            _ => String::new(),
        };
        let Ok(value) = literal::number(&text) else {
            return self.unexpected("an expression");
        };
        self.at += 2;
        let span = self.since(start);
        self.slip(
            span,
            "a number begins with a digit",
            Fix::replace(span, text, "write {}"),
        );
        Ok(value)
    }

    fn power(&mut self, base: Expr, operator: Span) -> Parse<Expr> {
        let exponent = self.nested(Self::unary)?;
        let span = base.span.join(exponent.span);
        let text = match exponent.kind {
            ExprKind::Lit(Lit::Int(2)) => format!("sq({})", bare(&base)),
            ExprKind::Lit(Lit::Int(3)) => format!("({base} * {base} * {base})"),
            ExprKind::Lit(Lit::Int(n)) => format!("pow({}, {n}.0)", bare(&base)),
            _ => format!("pow({}, {exponent})", bare(&base)),
        };
        let fix = Fix::replace(span, text, "write {}");
        self.slip(operator, "a power is a function", fix);
        Ok(called("pow", vec![base, as_float(exponent)], span))
    }

    /// `x[i].exp()`, read as `exp(x[i])`.
    fn method(&mut self, value: Expr) -> Parse<Expr> {
        let method = self
            .peek_at(self.at + 1)
            .map(Tok::to_string)
            .unwrap_or_default();
        if self.peek_at(self.at + 2) != Some(&Tok::Open(Delim::Paren)) {
            let diag = self.unexpected_diag("an operator");
            return Err(Box::new(match &*method {
                "T" | "mT" => diag.help(names::instead("transpose")),
                _ if matches!(value.kind, ExprKind::Access { .. }) => diag.help(
                    "an element of an array of structs is the variable of a `for`, or a parameter of its own",
                ),
                _ => diag,
            }));
        }
        let start = self.at;
        self.at += 3;
        let args = self.arguments()?;
        let span = value.span.join(self.buffer.span(self.at - 1));
        let name = match function(&method, args.len() + 1) {
            Some(name) => name,
            None => {
                let at = self.buffer.span(start).join(self.buffer.span(self.at - 1));
                let text = format!("`.{method}` is no function of an element");
                let diag = Diag::new(Code::Syntax, at, text);
                return Err(Box::new(diag.help(match Agg::from_name(&method) {
                    Some(agg) => format!("an aggregation stands in front: `{agg}[i] …`"),
                    None => names::instead(&method),
                })));
            }
        };
        let whole = matches!(
            &args[..],
            [Expr {
                kind: ExprKind::Lit(Lit::Int(2)),
                ..
            }]
        );
        if method == "powi" && whole {
            let text = format!("sq({})", bare(&value));
            self.slip(
                span,
                "a function stands in front of its argument",
                Fix::replace(span, text, "write {}"),
            );
            return Ok(called("sq", vec![value], span));
        }
        let args: Vec<Expr> = match &*method {
            "powi" => args.into_iter().map(as_float).collect(),
            _ => args,
        };
        let mut shown = vec![bare(&value)];
        shown.extend(args.iter().map(Expr::to_string));
        let text = format!("{name}({})", shown.join(", "));
        self.slip(
            span,
            "a function stands in front of its argument",
            Fix::replace(span, text, "write {}"),
        );
        Ok(called(
            name,
            std::iter::once(value).chain(args).collect(),
            span,
        ))
    }

    /// `x[i][j]`, read as `x[i, j]`.
    fn more_brackets(&mut self, value: Expr) -> Parse<Expr> {
        let ExprKind::Access {
            place, mut subs, ..
        } = value.kind
        else {
            return Ok(value);
        };
        let between = self.buffer.span(self.at - 1).join(self.span());
        self.at += 1;
        subs.extend(self.list1(Delim::Bracket, "an index", Self::sub)?);
        let span = value.span.join(self.buffer.span(self.at - 1));
        let shown: Vec<String> = subs.iter().map(Sub::to_string).collect();
        self.joined_brackets(between, &format!("{place}[{}]", shown.join(", ")));
        let kind = ExprKind::Access {
            place,
            subs,
            default: None,
        };
        Ok(Expr { kind, span })
    }

    /// Reports the `][` in the middle of indices.
    pub(super) fn joined_brackets(&mut self, between: Span, whole: &str) {
        let fix = Fix::replace(between, ", ", &format!("write `{whole}`"));
        self.slip(between, "all indices stand in one pair of brackets", fix);
    }

    /// Reports the parentheses here as brackets, and reads them so.
    pub(super) fn indices_in_parens(&mut self, name: &Ident) {
        let (open, close) = (self.span(), self.buffer.span(self.buffer.partner(self.at)));
        let help = format!("write `{name}[{}]`", self.inside(self.at));
        let fix = Fix::replace(open, "[", &help).and(close, "]");
        self.slip(open, "indices stand in brackets", fix);
        self.buffer.set_delim(self.at, Delim::Bracket);
    }

    /// Takes a `;` behind nothing.
    pub(super) fn stray_semicolon(&mut self) {
        let fix = Fix::replace(self.span(), "", "leave it out");
        self.slip(self.span(), "nothing stands in front of this `;`", fix);
        self.at += 1;
    }

    /// The error about a condition behind a value.
    pub(super) fn trailing_where(&mut self, value: &Expr) -> Parse<Diag> {
        let start = self.span();
        self.at += 1;
        let cond = self.conditional()?;
        let ExprKind::Reduce(reduce) = &value.kind else {
            let diag = Diag::new(Code::Syntax, start, "no condition stands behind a value");
            return Ok(diag.help(WHERE));
        };
        let text = "a condition stands in the brackets of its reduction";
        let diag = Diag::new(Code::Syntax, start, text);
        let Some(last) = reduce.indices.last().filter(|_| reduce.filter.is_none()) else {
            return Ok(diag.help(WHERE));
        };
        let end = last.extent.as_ref().map_or(last.name.span, |dim| dim.span);
        let mut meant = reduce.clone();
        meant.filter = Some(cond.clone());
        let meant = Expr {
            kind: ExprKind::Reduce(meant),
            span: value.span,
        };
        let help = format!("write `{meant}`");
        let place = Span::new(value.span.end, cond.span.end);
        let fix = Fix::after(end, format!(" where {cond}"), &help);
        Ok(diag.fix(fix.and(place, "")))
    }

    /// The error about a `,` behind a value.
    pub(super) fn behind_comma(&mut self, value: &Expr) -> Parse<Diag> {
        let comma = self.span();
        let diag = self.unexpected_diag("`;`");
        self.at += 1;
        if self.starts_next() {
            return Ok(diag.fix(Fix::replace(comma, ";", "write {}")));
        }
        let ExprKind::Reduce(reduce) = &value.kind else {
            return Ok(diag);
        };
        let ReduceBody::Product(first) = &reduce.body else {
            return Ok(diag);
        };
        let mut args = vec![first.to_string()];
        let mut last = first.span;
        loop {
            let arg = self.expr()?;
            last = last.join(arg.span);
            args.push(arg.to_string());
            if !self.eat(",") {
                break;
            }
        }
        let text = "the arguments of an aggregation stand in parentheses";
        let help = format!("write `({})`", args.join(", "));
        let diag = Diag::new(Code::Syntax, last, text);
        Ok(diag.fix(Fix::wrap(last, "(", ")", "", &help)))
    }

    /// `dim H = S / 2;`, read as the clause that it is.
    pub(super) fn dim_stmt(&mut self) -> Parse<()> {
        let start = self.span();
        self.at += 1;
        let name = self.ident("a dim")?;
        self.expect("=")?;
        let value = self.dim()?;
        let clause = format!("dim {name} = {value}");
        self.eat(";");
        let span = self.since(start);
        let diag = Diag::new(
            Code::Syntax,
            start,
            "a dim is defined in the head of the block, behind `where`",
        );
        let help = format!("write `where {clause}` before the `{{`");
        let place = self.clause_fix(self.block, &clause, &help);
        self.diags.push(diag.fix(place.and(span, "")));
        let kind = ClauseKind::Define(name, value);
        self.clauses.push(Clause { kind, span });
        Ok(())
    }

    /// Adds a clause in front of the `{` at `open`.
    pub(super) fn clause_fix(&self, open: usize, clause: &str, help: &str) -> Fix {
        let head = self.buffer.tokens()[..open].iter().rev();
        let mut since = head.take_while(|token| token.tok != Tok::Punct("->"));
        let has = since.any(|token| matches!(&token.tok, Tok::Ident(word) if **word == *"where"));
        let text = match has {
            true => format!(", {clause}"),
            false => format!(" where {clause}"),
        };
        Fix::after(self.buffer.span(open.saturating_sub(1)), text, help)
    }

    /// `g(x)[i]`: a block's result has a name.
    fn element_of_call(&self, call: &Expr) -> Diag {
        let text = "what a call gives has a name before it has indices";
        let diag = Diag::new(Code::Syntax, self.span(), text);
        let name = names::fresh(|name| {
            let mut tokens = self.buffer.tokens().iter();
            tokens.any(|t| matches!(&t.tok, Tok::Ident(w) if **w == *name))
        });
        let help = format!("put `let {name} = {call};` before, and read `{name}[…]`");
        let before = Fix::before(self.stmt, format!("let {name} = {call}; "), &help);
        diag.fix(before.and(call.span, name))
    }

    /// `c ? a : b` and `a if c else b` behind what was read of them.
    pub(super) fn ternary(&mut self, first: Expr) -> Parse<Expr> {
        let (cond, then, otherwise) = if self.eat("?") {
            let then = self.expr()?;
            self.expect(":")?;
            (first, then, self.expr()?)
        } else if self.is_word("if") {
            self.at += 1;
            let cond = self.without_default(Self::expr)?;
            self.expect_word("else")?;
            (cond, first, self.expr()?)
        } else {
            return Ok(first);
        };
        let parts = [cond.span, then.span, otherwise.span].into_iter();
        let span = parts.reduce(Span::join).unwrap_or_default();
        let kind = ExprKind::If {
            cond: Box::new(cond),
            then: Box::new(then),
            otherwise: Some(Box::new(otherwise)),
        };
        let value = Expr { kind, span };
        let fix = Fix::replace(span, value.to_string(), "write {}");
        self.slip(span, "a choice is an `if` with both values in braces", fix);
        Ok(value)
    }

    /// Reads what has an `else` of its own behind it, which is that of no access.
    pub(super) fn without_default<T>(
        &mut self,
        read: impl FnOnce(&mut Self) -> Parse<T>,
    ) -> Parse<T> {
        let outer = std::mem::replace(&mut self.bare_else, true);
        let made = read(self);
        self.bare_else = outer;
        made
    }

    /// `not a < b`, read as `!(a < b)`; the word was not taken.
    pub(super) fn negation(&mut self) -> Parse<ExprKind> {
        let start = self.span();
        self.at += 1;
        let operand = self.nested(Self::compared)?;
        let text = "logical operators are `&&`, `||` and `!`";
        let word = Span::new(start.start, operand.span.start);
        let fix = match operand.kind {
            ExprKind::Binary(..) | ExprKind::Cast(..) => {
                let help = format!("write `!({operand})`");
                let end = Span::new(operand.span.end, operand.span.end);
                Fix::replace(word, "!(", &help).and(end, ")")
            }
            _ => Fix::replace(word, "!", "write {}"),
        };
        self.slip(start, text, fix);
        Ok(ExprKind::Unary(UnaryOp::Not, Box::new(operand)))
    }

    /// The error about `a < b < c`.
    pub(super) fn chained(&mut self, left: &Expr, op: BinaryOp, right: &Expr) -> Parse<Box<Diag>> {
        let diag = Diag::new(Code::Syntax, self.span(), "comparisons cannot be chained");
        let second = self.written(self.at, self.at + 1);
        self.at += 1;
        let last = self.nested(Self::operands)?;
        let help = format!(
            "write `{left} {} {right} && {right} {second} {last}`",
            op.symbol()
        );
        let both = Fix::after(right.span, format!(" && {right}"), &help);
        Ok(Box::new(diag.fix(both)))
    }

    /// Reports an `if` whose values have no braces, the `first` of them.
    pub(super) fn braces(&mut self, first: Span, span: Span, kind: ExprKind) -> ExprKind {
        let whole = Expr { kind, span };
        let fix = Fix::replace(span, whole.to_string(), "write {}");
        self.slip(first, "the values of an `if` stand in braces", fix);
        whole.kind
    }

    /// Takes a `&` in front of a value, which is reported.
    pub(super) fn dereferenced(&mut self) {
        let fix = Fix::replace(self.span(), "", "leave it out");
        self.slip(self.span(), "there are no references", fix);
        self.at += 1;
    }

    pub(super) fn is_else_if(&self) -> bool {
        ["elif", "elseif", "elsif"]
            .iter()
            .any(|word| self.is_word(word))
    }

    /// `(f32) x[i]`, read as `x[i] as f32`.
    pub(super) fn cast_before(&mut self) -> Parse<Option<ExprKind>> {
        let start = self.span();
        let dtype = match self.peek_at(self.at + 1) {
            Some(Tok::Ident(word)) if DType::from_name(word).is_some() => Ident {
                name: word.clone(),
                span: self.buffer.span(self.at + 1),
            },
            _ => return Ok(None),
        };
        let begin = self.at;
        self.at = self.buffer.after_tree(begin);
        if self.at != begin + 3 || !(self.starts_value() || self.is_open(Delim::Paren)) {
            self.at = begin;
            return Ok(None);
        }
        let value = self.nested(Self::unary)?;
        let span = self.since(start);
        let text = format!("({value} as {dtype})");
        self.slip(
            start,
            "a dtype stands behind what it converts",
            Fix::replace(span, text, "write {}"),
        );
        Ok(Some(ExprKind::Cast(Box::new(value), dtype)))
    }

    /// Takes the third dot of a `...`, which is reported.
    pub(super) fn third_dot(&mut self) {
        if self.is(".") && self.is_name_at(self.at + 1) {
            let fix = Fix::replace(self.span(), "", "leave out the third dot");
            self.slip(self.span(), "any number of axes has two dots in front", fix);
            self.at += 1;
        }
    }

    /// Reports brackets around the indices of a merged axis, and reads them as parentheses.
    pub(super) fn merged_brackets(&mut self) {
        let (open, close) = (self.span(), self.buffer.span(self.buffer.partner(self.at)));
        let help = format!("write `({})`", self.inside(self.at));
        let fix = Fix::replace(open, "(", &help).and(close, ")");
        self.slip(
            open,
            "the indices of a merged axis stand in parentheses",
            fix,
        );
        self.buffer.set_delim(self.at, Delim::Paren);
    }

    /// The error about `x[i - 1 else 0.0]`, at the `else`.
    pub(super) fn inner_else(&self, place: &Place, open: usize, diag: Diag) -> Diag {
        let help = "the value outside stands behind the brackets: `(x[i - 1] else 0.0)`";
        let last = self.at + 1 + usize::from(self.is_at(self.at + 1, "-"));
        let value: String = (self.at + 1..=last)
            .filter_map(|at| self.peek_at(at))
            .map(Tok::to_string)
            .collect();
        if self.peek_at(last + 1) != Some(&Tok::Close(Delim::Bracket)) {
            return diag.help(help);
        }
        let before = self.buffer.span(self.at - 1).end;
        let gone = Span::new(before, self.buffer.span(last).end);
        let close = self.buffer.span(last + 1);
        let fix = Fix::before(
            place.span,
            "(",
            &format!(
                "write `({place}[{}] else {value})`",
                self.written(open + 1, self.at)
            ),
        );
        let fix = fix.and(gone, "");
        diag.fix(fix.and(Span::new(close.end, close.end), format!(" else {value})")))
    }

    /// Is an argument of the call here a list, `f(x, [B, S])`?
    pub(super) fn is_given_a_list(&self) -> bool {
        let close = self.buffer.partner(self.at);
        let mut at = self.at + 1;
        while at < close {
            let first = self.is_at(at - 1, ",") || at == self.at + 1;
            if first && self.peek_at(at) == Some(&Tok::Open(Delim::Bracket)) {
                return true;
            }
            at = self.buffer.after_tree(at);
        }
        false
    }

    /// Takes the `in` of `x[(h in H, e)]`, which is reported.
    pub(super) fn ranged_access(&mut self, position: &Expr) -> Parse<()> {
        let start = self.span();
        self.at += 1;
        let extent = self.dim()?;
        let range = Span::new(position.span.end, extent.span.end);
        let text = "an index has its range where it is declared, not in an access";
        let diag = Diag::new(Code::Syntax, start.join(extent.span), text);
        let name = position.to_string();
        let diag = match self.declaration(&name) {
            Some(place) => {
                let help = format!("write `{name} in {extent}` there");
                self.ranges.push((name.as_str().into(), extent.clone()));
                diag.fix(Fix::after(place, format!(" in {extent}"), &help).and(range, ""))
            }
            None => diag.fix(Fix::replace(range, "", "leave it out")),
        };
        self.diags.push(diag);
        Ok(())
    }

    /// Where the statement declares an index without a range: the first of its name, on the left or in
    /// a reduction.
    pub(super) fn declaration(&self, index: &str) -> Option<Span> {
        let mut before = (0..self.at).filter(|&at| self.buffer.span(at).start >= self.stmt.start);
        let first = before.find(|&at| self.is_word_at(at, index))?;
        let opens = matches!(
            self.peek_at(first.checked_sub(1)?),
            Some(Tok::Open(_) | Tok::Punct(","))
        );
        let ends = matches!(
            self.peek_at(first + 1),
            Some(Tok::Close(_) | Tok::Punct(","))
        );
        (opens && ends).then(|| self.buffer.span(first))
    }

    /// Takes a `+` in front of a value, which is reported.
    pub(super) fn plus(&mut self) {
        self.slip(
            self.span(),
            "there is no sign `+`",
            Fix::replace(self.span(), "", "leave it out"),
        );
        self.at += 1;
    }

    /// The `!` here; a `~` is reported.
    pub(super) fn not(&mut self) -> UnaryOp {
        if self.is("~") {
            let fix = Fix::replace(self.span(), "!", "write {}");
            self.slip(self.span(), "logical operators are `&&`, `||` and `!`", fix);
        }
        UnaryOp::Not
    }
}

/// A function that a method is, of so many arguments.
pub(super) fn function(method: &str, arity: usize) -> Option<&'static str> {
    let name = match method {
        "powf" | "powi" => "pow",
        "clip" => "clamp",
        other => names::nearest_function(other, [])
            .filter(|near| *near == other || names::is_alias(other))?,
    };
    let known = ScalarFn::from_name(name, arity)?;
    Some(known.name())
}

/// An integer literal as a float.
fn as_float(e: Expr) -> Expr {
    match e.kind {
        ExprKind::Lit(Lit::Int(n)) => Expr {
            kind: ExprKind::Lit(Lit::Float(n as f64)),
            ..e
        },
        _ => e,
    }
}

/// Without the brackets around all of it.
fn bare(e: &Expr) -> String {
    match &e.kind {
        ExprKind::Paren(inner) => inner.to_string(),
        _ => e.to_string(),
    }
}

fn called(name: &str, args: Vec<Expr>, span: Span) -> Expr {
    let name = Ident {
        name: name.into(),
        span,
    };
    let path = Path {
        global: false,
        segments: vec![name],
        span,
    };
    Expr {
        kind: ExprKind::Call { path, args },
        span,
    }
}
