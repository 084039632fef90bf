//! Calls as other languages write them: without brackets, `sum x[i]` and `exp x[i]`; of a module,
//! `torch.exp(x[i])`; `where(c, a, b)`; `einsum("ij,jk->ik", a, b)`.

use super::compound::not_on;
use super::foreign::is_module;
use super::slips::function;
use super::{Parse, Parser};
use crate::ein::{Agg, DType, ScalarFn};
use crate::syntax::ast::{Expr, ExprKind, Ident, IndexDecl, Place, Reduce, ReduceBody};
use crate::syntax::diag::{Code, Diag, Fix};
use crate::syntax::token::{Delim, Span, Tok};
use crate::syntax::{literal, names};

impl Parser {
    /// A name by itself, or what is applied to the value that stands behind it: `sum x[i]`,
    /// `sum_i x[i]`, `sum{i} x[i]`, `sum<i> x[i]`, `exp x[i]`. That is reported, and read as it
    /// is meant.
    pub(super) fn applied(&mut self, place: Place) -> Parse<ExprKind> {
        let Some(name) = place.as_ident().filter(|name| {
            !self.taken.contains(&name.name) && !self.shapes.contains_key(&name.name)
        }) else {
            return Ok(ExprKind::Name(place));
        };
        let indices = self.is_open(Delim::Brace) || self.is("<");
        if !indices && !self.starts_value() {
            return Ok(ExprKind::Name(place));
        }
        let begin = self.at;
        let (head, below) = match name.as_str().split_once('_') {
            Some((head, below)) if meant_agg(head).is_some() => (head, below),
            _ => (name.as_str(), ""),
        };
        let agg = meant_agg(head);
        let over = match (agg, below) {
            (Some(_), "") => self.braced_indices(),
            _ => vec![below.to_owned()],
        };
        // Near names are looked for where something is wrong only: that is slow.
        let known = || agg.is_some() || function(name.as_str(), 1).is_some();
        if !self.starts_value() || !known() {
            self.at = begin;
            return Ok(ExprKind::Name(place));
        }
        match agg {
            Some(agg) => self.unbracketed(name, agg, over),
            None => self.unparenthesised(name),
        }
    }

    /// Indices in `{}` or `<>` behind an aggregation, if they are meant there.
    fn braced_indices(&mut self) -> Vec<String> {
        if self.is_open(Delim::Brace) {
            self.at += 1;
            let given = self.list(Delim::Brace, |p| p.ident("an index"));
            return given.into_iter().flatten().map(|i| i.to_string()).collect();
        }
        let angles = self.is("<") && self.is_at(self.at + 2, ">");
        match self.peek_at(self.at + 1) {
            Some(Tok::Ident(index)) if angles => {
                let index = index.to_string();
                self.at += 3;
                vec![index]
            }
            _ => Vec::new(),
        }
    }

    /// `exp x[i]`, at its argument.
    fn unparenthesised(&mut self, name: &Ident) -> Parse<ExprKind> {
        let Some(function) = function(name.as_str(), 1) else {
            return self.unexpected("`(`");
        };
        let arg = self.nested(Self::unary)?;
        let span = name.span.join(arg.span);
        let fix = Fix::replace(span, format!("{function}({arg})"), "write {}");
        let text = "a function's arguments stand in parentheses";
        self.slip(name.span, text, fix);
        Ok(call(function, name.span, vec![arg]))
    }

    /// Does a value start here that nothing joins to what is before?
    pub(super) fn starts_value(&self) -> bool {
        match self.peek() {
            Some(Tok::Ident(_)) => self.is_name_at(self.at) && !self.starts_next(),
            Some(Tok::Literal(text)) => text.starts_with(|ch: char| ch.is_ascii_digit()),
            _ => false,
        }
    }

    /// A reduction whose indices do not stand in brackets, at its body.
    fn unbracketed(&mut self, name: &Ident, agg: Agg, over: Vec<String>) -> Parse<ExprKind> {
        let body = self.nested(Self::product)?;
        let text = "an aggregation names the indices it reduces in brackets";
        let diag = Diag::new(Code::Syntax, name.span, text);
        let over = match (over.is_empty(), &self.left) {
            (false, _) => over,
            (true, Some(left)) => {
                let left = left.indices.as_deref().unwrap_or_default();
                not_on(left, &body).into_iter().map(str::to_owned).collect()
            }
            (true, None) => over,
        };
        if over.is_empty() {
            return Err(Box::new(diag.help(format!("write `{agg}[i] …`"))));
        }
        let head = format!("{agg}[{}] ", over.join(", "));
        let help = format!("write `{head}{body}`");
        let place = Span::new(name.span.start, body.span.start);
        self.diags.push(diag.fix(Fix::replace(place, head, &help)));
        let named = |name: &str| Ident {
            name: name.into(),
            span: body.span,
        };
        Ok(ExprKind::Reduce(Box::new(Reduce {
            agg: named(agg.name()).into(),
            indices: over
                .iter()
                .map(|name| IndexDecl {
                    name: named(name),
                    extent: None,
                })
                .collect(),
            filter: None,
            acc: None,
            body: ReduceBody::Product(body),
        })))
    }

    /// Takes the `where` behind indices; an `if` or `|` there is reported.
    pub(super) fn eat_where(&mut self) -> bool {
        if self.is_word("if") || self.is("|") {
            let fix = Fix::replace(self.span(), "where", "write {}");
            self.slip(self.span(), "a condition stands behind `where`", fix);
            self.at += 1;
            return true;
        }
        self.eat_word("where")
    }

    /// The accumulator behind a `,` instead of a `;`, `sum[k, f32]`, reported.
    pub(super) fn acc_of(&mut self, indices: &mut Vec<IndexDecl>) -> Option<Ident> {
        let [.., before, last] = &indices[..] else {
            return None;
        };
        let dtype = last.name.clone();
        DType::from_name(dtype.as_str()).filter(|_| last.extent.is_none())?;
        let place = Span::new(before.name.span.end, dtype.span.start);
        let text = "an accumulator's dtype stands behind a `;`";
        self.slip(dtype.span, text, Fix::replace(place, "; ", "write {}"));
        indices.pop();
        Some(dtype)
    }

    /// The error about `sum[j < i]` and `sum[j, j < i]`, at the comparison.
    pub(super) fn bare_condition(&self, diag: Diag, indices: &[IndexDecl]) -> Diag {
        let [before @ .., last] = indices else {
            return diag;
        };
        let name = &last.name;
        let mut end = self.at;
        while !matches!(self.peek_at(end), None | Some(Tok::Close(_))) {
            end = self.buffer.after_tree(end);
        }
        let condition = self.written(self.at, end);
        let help = format!("a condition stands behind `where`: `{name} where {name} {condition}`");
        let fix = match before.last() {
            Some(comma) if before.iter().any(|decl| decl.name.name == name.name) => {
                let place = Span::new(comma.name.span.end, name.span.start);
                Fix::replace(place, " where ", &help)
            }
            _ => Fix::after(name.span, format!(" where {name}"), &help),
        };
        diag.fix(fix)
    }

    /// The name of what is called here, without the module of another language.
    pub(super) fn called(&self, place: &Place) -> Option<Ident> {
        let known = |name: &Ident| self.shapes.contains_key(&name.name);
        let module = |name: &Ident| is_module(name.as_str()) && !known(name);
        let segments = &place.path.segments;
        match (&segments[..], &place.fields[..]) {
            ([name], []) => Some(name.clone()),
            ([first, ..], [.., last]) if module(first) => Some(last.clone()),
            ([first, .., last], []) if module(first) => Some(last.clone()),
            _ => None,
        }
    }

    /// Is what is called here of another language's module, or given a string?
    pub(super) fn is_foreign_call(&self, place: &Place) -> bool {
        let string =
            |at| matches!(self.peek_at(at), Some(Tok::Literal(text)) if text.starts_with('"'));
        place.as_ident().is_none() && self.called(place).is_some() || string(self.at + 1)
    }

    /// A call by the name that another language has for it.
    pub(super) fn foreign_call(&mut self, place: &Place) -> Parse<ExprKind> {
        let text = format!("there are no functions of other libraries, such as `{place}`");
        let diag = Diag::new(Code::UnknownFunction, place.span, text);
        let Some(name) = self.called(place) else {
            return Err(Box::new(diag));
        };
        let open = self.at;
        if matches!(self.peek_at(open + 1), Some(Tok::Literal(text)) if text.starts_with('"')) {
            return Err(Box::new(self.einsum(place.span)?));
        }
        self.at += 1;
        let (args, keeps) = self.axis_arguments()?;
        let whole = place.span.join(self.buffer.span(self.at - 1));
        let known = function(name.as_str(), args.len());
        let fix = match &args[..] {
            [left, right] if names::is_product(name.as_str()) => {
                self.product_fix(left, right, whole)
            }
            [first, rest @ ..] => match &first.kind {
                ExprKind::Name(tensor) => self.tensor(tensor).and_then(|(root, shape)| {
                    if keeps {
                        self.keeps_axis(place.span, rest, shape.len());
                    }
                    self.method_fix((&root, &shape), name.as_str(), rest, whole)
                }),
                _ => None,
            },
            [] => None,
        };
        match (fix, known) {
            (Some(fix), _) => Err(Box::new(diag.fix(fix))),
            (None, Some(known)) => {
                let fix = Fix::replace(place.span, known, "write {}");
                self.diags.push(diag.fix(fix));
                Ok(call(known, place.span, args))
            }
            (None, None) if Agg::from_name(name.as_str()).is_some() => {
                self.at = open;
                Err(self.called_agg(&name, place.span)?)
            }
            (None, None) => Err(Box::new(diag.help(names::instead(name.as_str())))),
        }
    }

    /// Takes the generics of a call, `f::<N>(x)` and `f<N>(x)`, which are reported.
    pub(super) fn turbofish(&mut self) {
        let begin = self.at;
        let mut at = begin + usize::from(self.is("::"));
        if !self.is_at(at, "<") {
            return;
        }
        let part = |tok: Option<&Tok>| match tok {
            Some(Tok::Ident(_) | Tok::Literal(_)) => true,
            Some(Tok::Punct(punct)) => matches!(*punct, "," | "::"),
            _ => false,
        };
        at += 1;
        while part(self.peek_at(at)) {
            at += 1;
        }
        if self.is_at(at, ">") && self.peek_at(at + 1) == Some(&Tok::Open(Delim::Paren)) {
            let span = self.span().join(self.buffer.span(at));
            self.at = at + 1;
            let fix = Fix::replace(span, "", "leave it out");
            self.slip(
                span,
                "what is called takes its sizes from its arguments",
                fix,
            );
        }
    }

    /// Arguments, of which an axis may be named as in Python; the bracket is taken.
    pub(super) fn arguments(&mut self) -> Parse<Vec<Expr>> {
        self.list(Delim::Paren, Self::argument)
    }

    pub(super) fn argument(&mut self) -> Parse<Expr> {
        if self.is_name_at(self.at) && self.is_at(self.at + 1, "=") {
            let span = self.span().join(self.buffer.span(self.at + 1));
            let axis = self.is_word("dim") || self.is_word("axis");
            if !axis {
                let fix = Fix::replace(span, "", "leave it out");
                self.slip(span, "arguments are told apart by their order", fix);
            }
            self.at += 2;
        }
        self.expr()
    }

    pub(super) fn is_where_call(&self) -> bool {
        self.is_word("where") && self.peek_at(self.at + 1) == Some(&Tok::Open(Delim::Paren))
    }

    /// `where(c, a, b)`, read as an `if`; the word is not taken.
    pub(super) fn where_call(&mut self, start: Span) -> Parse<ExprKind> {
        self.at += 2;
        let args = self.list(Delim::Paren, Self::expr)?;
        let span = self.since(start);
        let text = "a choice is an `if` with both values in braces";
        let Ok([cond, then, otherwise]) = <[Expr; 3]>::try_from(args) else {
            let diag = Diag::new(Code::Syntax, span, text);
            return Err(Box::new(diag.help("write `if … { … } else { … }`")));
        };
        let kind = ExprKind::If {
            cond: Box::new(cond),
            then: Box::new(then),
            otherwise: Some(Box::new(otherwise)),
        };
        let value = Expr { kind, span };
        let fix = Fix::replace(span, value.to_string(), "write {}");
        self.slip(span, text, fix);
        Ok(value.kind)
    }

    /// `einsum("ij,jk->ik", a, b)`, by its elements.
    fn einsum(&mut self, start: Span) -> Parse<Diag> {
        self.at += 1;
        let spec = match self.peek() {
            Some(Tok::Literal(text)) => literal::string(text).unwrap_or_default(),
            _ => String::new(),
        };
        let text = "an einsum is a statement, without a string";
        let help = names::instead("einsum");
        self.at += 1;
        let mut diag = Diag::new(Code::Syntax, start, text);
        if !self.eat(",") {
            return Ok(diag.help(help));
        }
        let Ok(args) = self.list(Delim::Paren, Self::expr) else {
            return Ok(diag.help(help));
        };
        let whole = self.since(start);
        diag.primary = whole;
        let name = |e: &Expr| matches!(&e.kind, ExprKind::Name(_));
        let written = args.iter().all(name).then(|| written_out(&spec, &args));
        let fix = written.flatten().and_then(|(out, text)| {
            let left = self.left.as_ref().filter(|_| self.ends())?;
            match &left.indices {
                None => {
                    let out = out.join(", ");
                    let help = format!("write `let {}[{out}] = {text}`", left.name);
                    Some(Fix::after(left.span, format!("[{out}]"), &help).and(whole, text))
                }
                Some(given) => (*given == out).then(|| Fix::replace(whole, text, "write {}")),
            }
        });
        Ok(match fix {
            Some(fix) => diag.fix(fix),
            None => diag.help(help),
        })
    }
}

fn call(function: &str, span: Span, args: Vec<Expr>) -> ExprKind {
    let name = Ident {
        name: function.into(),
        span,
    };
    ExprKind::Call {
        path: name.into(),
        args,
    }
}

/// The aggregation that a name means, by itself or as other languages call it.
fn meant_agg(name: &str) -> Option<Agg> {
    let meant = names::alias(name).unwrap_or(name);
    Agg::from_name(meant).filter(|agg| ScalarFn::from_name(agg.name(), 1).is_none())
}

/// The indices and the value that an einsum string says of operands.
fn written_out(spec: &str, args: &[Expr]) -> Option<(Vec<String>, String)> {
    let spec: String = spec.chars().filter(|ch| !ch.is_whitespace()).collect();
    let (inputs, out) = spec.split_once("->")?;
    let indices = |word: &str| -> Option<Vec<String>> {
        let letters = word.chars().all(|ch| ch.is_ascii_lowercase());
        letters.then(|| word.chars().map(String::from).collect())
    };
    let inputs: Vec<Vec<String>> = inputs.split(',').map(indices).collect::<Option<_>>()?;
    let out = indices(out)?;
    let distinct = names::are_distinct(&out);
    if inputs.len() != args.len() || !distinct || inputs.iter().any(Vec::is_empty) {
        return None;
    }
    let mut over: Vec<&String> = Vec::new();
    for index in inputs.iter().flatten() {
        if !out.contains(index) && !over.contains(&index) {
            over.push(index);
        }
    }
    let over: Vec<&str> = over.into_iter().map(String::as_str).collect();
    let factors = args.iter().zip(&inputs);
    let factors: Vec<String> = factors
        .map(|(arg, indices)| format!("{arg}[{}]", indices.join(", ")))
        .collect();
    let product = factors.join(" * ");
    Some((
        out,
        match over.is_empty() {
            true => product,
            false => format!("sum[{}] {product}", over.join(", ")),
        },
    ))
}
