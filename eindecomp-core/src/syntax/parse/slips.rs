//! What other languages write, with how it is written here: methods, slices, `@`, `**`, `?:`, words
//! for operators. What is clear is reported and read as it is meant.

use super::whole::Left;
use super::{Parse, Parser};
use crate::ein::{Agg, ScalarFn};
use crate::syntax::ast::{
    BinaryOp, Clause, ClauseKind, Expr, ExprKind, Ident, IndexDecl, Lit, Path, Pattern, Place,
    ReduceBody, Sub, UnaryOp,
};
use crate::syntax::check::free;
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
                "a function stands in front",
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
            "a function stands in front",
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
        let shown: Vec<String> = reduce.indices.iter().map(|i| i.to_string()).collect();
        let help = format!(
            "write `{}[{} where {cond}] …`",
            reduce.agg,
            shown.join(", ")
        );
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
        let diag = Diag::new(Code::Syntax, start, "a dim is defined behind the types");
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
    pub(super) fn chained(&self, left: &Expr, op: BinaryOp, right: &Expr) -> Box<Diag> {
        let diag = Diag::new(Code::Syntax, self.span(), "comparisons cannot be chained");
        let help = format!("write `{left} {} {right} && {right} …`", op.symbol());
        let both = Fix::after(right.span, format!(" && {right}"), &help);
        Box::new(diag.fix(both))
    }

    /// Reports the values of an `if` that have no braces.
    pub(super) fn braces(
        &mut self,
        naked: &[Span],
        (cond, then, otherwise): (&Expr, &Expr, &Expr),
    ) {
        let edits = naked.iter().flat_map(|span| {
            let (start, end) = (span.start, span.end);
            let open = (Span::new(start, start), "{ ".to_owned());
            [open, (Span::new(end, end), " }".to_owned())]
        });
        let fix = Fix {
            help: format!("write `if {cond} {{ {then} }} else {{ {otherwise} }}`"),
            edits: edits.collect(),
        };
        self.slip(naked[0], "the values of an `if` stand in braces", fix);
    }

    /// Takes a `&` in front of a value, which is reported.
    pub(super) fn dereferenced(&mut self) {
        let fix = Fix::replace(self.span(), "", "leave it out");
        self.slip(self.span(), "there are no references", fix);
        self.at += 1;
    }

    /// The end of `i in low..high`, whose `low` was read; an index starts at 0.
    pub(super) fn range(&mut self, name: &Ident, low: crate::syntax::ast::Dim) -> Parse<IndexDecl> {
        let text = "an index runs from 0 to below its extent";
        self.at += 1;
        let closed = self.eat("=");
        let high = self.dim()?;
        let span = low.span.join(high.span);
        let extent = match closed {
            true => format!("{high} + 1"),
            false => high.to_string(),
        };
        if low.to_string() != "0" {
            let diag = Diag::new(Code::Syntax, span, text);
            let help = format!("write `{name} in {extent} - {low}`, and read `x[{name} + {low}]`");
            return Err(Box::new(diag.help(help)));
        }
        let help = format!("write `{name} in {extent}`");
        self.slip(span, text, Fix::replace(span, extent, &help));
        Ok(IndexDecl {
            name: name.clone(),
            extent: Some(high),
        })
    }

    /// The operator of a `+=` that stands at `index`.
    pub(super) fn compound(&self, index: usize) -> Option<BinaryOp> {
        let op = match self.peek_at(index) {
            Some(Tok::Punct("+")) => BinaryOp::Add,
            Some(Tok::Punct("-")) => BinaryOp::Sub,
            Some(Tok::Punct("*")) => BinaryOp::Mul,
            Some(Tok::Punct("/")) => BinaryOp::Div,
            _ => return None,
        };
        self.is_at(index + 1, "=").then_some(op)
    }

    /// `let y[i] += …`: a sum that names its indices, or a value like every other.
    pub(super) fn let_compound(&mut self, pattern: &Pattern, op: BinaryOp) -> Parse<Expr> {
        let place = self.span().join(self.buffer.span(self.at + 1));
        self.at += 2;
        let value = self.expr()?;
        let text = "a `let` gives each element its value once";
        let diag = Diag::new(Code::Syntax, place, text);
        let left = Left::of(pattern).indices.unwrap_or_default();
        let over = not_on(&left, &value);
        let fix = Fix::replace(place, "=", "write {}");
        if over.is_empty() || op != BinaryOp::Add {
            return Err(Box::new(match over.is_empty() {
                true => diag.fix(fix),
                false => diag.help("write `=`"),
            }));
        }
        let head = format!("sum[{}] ", over.join(", "));
        let product = matches!(
            value.kind,
            ExprKind::Binary(BinaryOp::Mul | BinaryOp::Div, ..)
                | ExprKind::Access { .. }
                | ExprKind::Call { .. }
                | ExprKind::Paren(_)
        );
        let shown = match product {
            true => format!("{head}{value}"),
            false => format!("{head}({value})"),
        };
        let sum = match product {
            true => Fix::before(value.span, head, ""),
            false => Fix::wrap(value.span, &format!("{head}("), ")", "", ""),
        };
        let edits = fix.edits.into_iter().chain(sum.edits).collect();
        let help = format!("a sum names its indices: `let {pattern} = {shown}`");
        Err(Box::new(diag.fix(Fix { help, edits })))
    }

    /// `k[i] += x[i]`, read as `k[i] = k[i] + x[i]`; the operator is not taken.
    pub(super) fn store_compound(
        &mut self,
        target: &Place,
        subs: &[Expr],
        op: BinaryOp,
    ) -> Parse<Expr> {
        let place = self.span().join(self.buffer.span(self.at + 1));
        self.at += 2;
        let value = self.expr()?;
        let shown: Vec<String> = subs.iter().map(Expr::to_string).collect();
        let old = format!("{target}[{}] {}", shown.join(", "), op.symbol());
        let atom = !matches!(value.kind, ExprKind::Binary(..) | ExprKind::If { .. });
        let shown = match atom {
            true => format!("= {old} {value}"),
            false => format!("= {old} ({value})"),
        };
        let mut fix = Fix::replace(place, format!("= {old}"), &format!("write `{shown}`"));
        if !atom {
            let (start, end) = (value.span.start, value.span.end);
            fix = fix
                .and(Span::new(start, start), "(")
                .and(Span::new(end, end), ")");
        }
        if target
            .as_ident()
            .is_some_and(|name| self.lets.contains(&name.name))
        {
            let text = format!("`{target}` is no state, so nothing can be stored into it");
            let help = format!(
                "make a new tensor of that name: `let {} {shown}`",
                &old[..old.len() - 2]
            );
            let fix =
                Fix { help, ..fix }.and(Span::new(target.span.start, target.span.start), "let ");
            return Err(Box::new(
                Diag::new(Code::StoreTarget, target.span, text).fix(fix),
            ));
        }
        self.slip(place, "a store gives its elements a value", fix);
        let span = value.span;
        let access = ExprKind::Access {
            place: target.clone(),
            subs: subs.iter().cloned().map(Sub::Expr).collect(),
            default: None,
        };
        let access = Expr {
            kind: access,
            span: target.span,
        };
        Ok(Expr {
            kind: ExprKind::Binary(op, Box::new(access), Box::new(value)),
            span,
        })
    }

    /// `y += …`, which is no statement.
    pub(super) fn carry_compound(&self, name: &Ident) -> Diag {
        let text = "an assignment without `let` calls a block";
        let place = self.span().join(self.buffer.span(self.at + 1));
        let diag = Diag::new(Code::Syntax, place, text);
        diag.help(match self.loops {
            0 => format!("`let {name}2[…] = {name}[…] + …;` defines a new tensor"),
            _ => format!(
                "a loop carries the result of a block: make what a round does a `fn`, and call it, \
                 `{name} = step({name});`"
            ),
        })
    }
}

/// The free names of a value that are no indices of the left side.
pub(super) fn not_on<'e>(left: &[String], value: &'e Expr) -> Vec<&'e str> {
    let names = free(value).into_iter();
    names
        .filter(|name| left.iter().all(|l| l != name))
        .collect()
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
