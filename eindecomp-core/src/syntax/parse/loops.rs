//! Loops, also as other languages write them.

use super::{Parse, Parser};
use crate::syntax::ast::{Dim, DimKind, ForRange, Ident, Stmt, StmtKind};
use crate::syntax::diag::{Code, Diag, Fix};
use crate::syntax::token::{Delim, Span, Tok};

/// What is wrong with `range(n)`.
const RANGE: &str = "a range is `low..high`";

pub(super) fn zero(span: Span) -> Dim {
    let kind = DimKind::Int(0);
    Dim { kind, span }
}

impl Parser {
    /// `for l in ls { … }`
    pub(super) fn for_stmt(&mut self) -> Parse<StmtKind> {
        let start = self.span();
        self.expect_word("for")?;
        let head = self.span();
        let vars = match self.is_open(Delim::Paren) {
            true => {
                self.at += 1;
                self.list1(Delim::Paren, "a loop variable", |p| {
                    p.binding("a loop variable")
                })?
            }
            false => vec![self.binding("a loop variable")?],
        };
        let head = self.since(head);
        self.expect_word("in")?;
        self.not_enumerated(&vars, head)?;
        self.not_zipped(&vars)?;
        self.no_fields(start)?;
        let bounds = self.foreign_range()?;
        let over = self.at + 1;
        let range = if let Some((low, high)) = bounds {
            ForRange::Range(low, high)
        } else if self.peek_at(over) == Some(&Tok::Open(Delim::Brace)) || self.is_at(over, ".") {
            let array = self.ident("a struct array")?;
            self.iterated()?;
            ForRange::Arrays(vec![array])
        } else if vars.len() > 1 {
            self.open(Delim::Paren)?;
            ForRange::Arrays(self.list1(Delim::Paren, "a struct array", |p| {
                p.ident("a struct array")
            })?)
        } else {
            let low = self.dim()?;
            self.expect("..")?;
            if self.is("=") {
                let diag = self.unexpected_diag("an extent");
                let last = match self.peek_at(self.at + 1) {
                    Some(Tok::Literal(text)) => text.parse::<u64>().ok(),
                    _ => None,
                };
                let help = "ranges exclude their end";
                return Err(Box::new(match last.and_then(|last| last.checked_add(1)) {
                    Some(end) => {
                        let place = self.span().join(self.buffer.span(self.at + 1));
                        let help = format!("{help}: `{low}..{end}`");
                        diag.fix(Fix::replace(place, end.to_string(), &help))
                    }
                    None => diag.help(format!("{help}: `0 .. N`")),
                }));
            }
            ForRange::Range(low, self.dim()?)
        };
        let end = self.buffer.partner(self.at);
        self.open(Delim::Brace)?;
        self.loops += 1;
        let outer = self.over.len();
        self.over.extend(vars.iter().map(|var| var.name.clone()));
        let body = self.for_body(end);
        self.over.truncate(outer);
        self.loops -= 1;
        self.at = end + 1;
        Ok(StmtKind::For { vars, range, body })
    }

    /// The statements of a `for`, up to the closing brace at `end`.
    fn for_body(&mut self, end: usize) -> Vec<Stmt> {
        let mut stmts = Vec::new();
        while self.at < end {
            if !self.stmt_recovering(end, &mut stmts) {
                let diag = self.unexpected_diag("a statement");
                self.diags
                    .push(diag.help("a `for` has no result; assign to a `let mut` instead"));
                self.at = self.after_stmt(self.at, end);
            }
        }
        stmts
    }

    /// The range of a `for` as other languages write it, read as far as it is none of ours:
    /// `range(n)`, `&ls`, `n`, `zip(a, b)`. Gives its bounds, if it has some.
    fn foreign_range(&mut self) -> Parse<Option<(Dim, Dim)>> {
        if self.is("&") {
            self.dereferenced();
        }
        let start = self.span();
        let zip =
            self.is_word("zip") && self.peek_at(self.at + 1) == Some(&Tok::Open(Delim::Paren));
        if zip {
            self.at += 1;
            let fix = Fix::replace(start, "", "leave it out");
            self.slip(start, "arrays side by side stand in parentheses", fix);
            return Ok(None);
        }
        let ranged =
            self.is_word("range") && self.peek_at(self.at + 1) == Some(&Tok::Open(Delim::Paren));
        let number = matches!(self.peek(), Some(Tok::Literal(_)))
            && self.peek_at(self.at + 1) == Some(&Tok::Open(Delim::Brace));
        if !ranged && !number {
            return Ok(None);
        }
        let (low, high) = match ranged {
            true => self.foreign_bounds()?,
            false => (zero(start), self.dim()?),
        };
        let span = self.since(start);
        let diag = Diag::new(Code::Syntax, span, RANGE);
        self.diags
            .push(diag.fix(Fix::replace(span, format!("{low}..{high}"), "write {}")));
        Ok(Some((low, high)))
    }

    /// The bounds of `range(n)` and `range(m, n)`, which stands here.
    pub(super) fn foreign_bounds(&mut self) -> Parse<(Dim, Dim)> {
        let start = self.span();
        self.at += 2;
        let mut bounds = self.list1(Delim::Paren, "an extent", Self::dim)?;
        match (bounds.pop(), bounds.pop(), bounds.is_empty()) {
            (Some(high), None, true) => Ok((zero(start), high)),
            (Some(high), Some(low), true) => Ok((low, high)),
            _ => {
                let diag = Diag::new(Code::Syntax, self.since(start), RANGE);
                Err(Box::new(
                    diag.help("a step is part of what is read: `2 * i`"),
                ))
            }
        }
    }

    /// The token trees from here to `end`.
    fn trees(&self, end: usize) -> impl Iterator<Item = usize> {
        let before_end = move |at: &usize| *at < end;
        let next = |at: &usize| Some(self.buffer.after_tree(*at));
        std::iter::successors(Some(self.at), next).take_while(before_end)
    }

    /// Where the body of a loop begins whose head goes on here.
    fn head_end(&self) -> usize {
        let mut trees = self.trees(self.end);
        let brace = trees.find(|at| self.peek_at(*at) == Some(&Tok::Open(Delim::Brace)));
        brace.unwrap_or(self.end)
    }

    /// Refuses `for (i, l) in enumerate(ls)` and `for (i, l) in ls.iter().enumerate()`.
    fn not_enumerated(&self, vars: &[Ident], head: Span) -> Parse<()> {
        let end = self.head_end();
        let Some(at) = (self.at..end).find(|&at| self.is_word_at(at, "enumerate")) else {
            return Ok(());
        };
        let text = "a loop over an array gives no number beside its elements";
        let diag = Diag::new(Code::Syntax, self.buffer.span(at), text);
        let array = match at == self.at {
            true => at + 2,
            false => self.at,
        };
        let body = end..self.buffer.partner(end).max(end);
        let names = (vars, self.peek_at(array));
        let ([number, element], Some(Tok::Ident(array))) = names else {
            return Err(Box::new(diag));
        };
        if number.as_str() != "_"
            && body
                .into_iter()
                .any(|at| self.is_word_at(at, number.as_str()))
        {
            let help = "what differs from element to element is a field of them; a loop over numbers is \
                        `for i in 0..N`";
            return Err(Box::new(diag.help(help)));
        }
        let help = format!("write `for {element} in {array}`");
        let over = self.span().join(self.buffer.span(end - 1));
        let fix = Fix::replace(over, array.to_string(), &help).and(head, element.as_str());
        Err(Box::new(diag.fix(fix)))
    }

    /// Refuses `for (l, m) in ls.iter().zip(ms)`.
    fn not_zipped(&self, vars: &[Ident]) -> Parse<()> {
        let end = self.head_end();
        let is_zip = |at: &usize| self.is_word_at(*at, "zip") && self.is_at(at - 1, ".");
        let mut trees = self.trees(end);
        let Some(zip) = trees.find(is_zip) else {
            return Ok(());
        };
        let methods = ["zip", "iter", "iter_mut", "into_iter"];
        let arrays = (self.at..end).filter_map(|at| match self.peek_at(at) {
            Some(Tok::Ident(word)) if !methods.contains(&&**word) => Some(word.to_string()),
            _ => None,
        });
        let arrays: Vec<String> = arrays.collect();
        let text = "arrays side by side stand in parentheses";
        let diag = Diag::new(Code::Syntax, self.buffer.span(zip), text);
        let shown = format!("({})", arrays.join(", "));
        let over = self.span().join(self.buffer.span(end - 1));
        Err(Box::new(match arrays.len() == vars.len() {
            true => diag.fix(Fix::replace(over, shown, "write {}")),
            false => diag.help("`for (a, b) in (xs, ys) { … }`"),
        }))
    }

    /// Refuses `for l in model.layers`, also of several side by side: an array in a struct gets a name before the loop,
    /// which starts at `start`.
    fn no_fields(&self, start: Span) -> Parse<()> {
        let end = self.head_end();
        let ident = |at: usize| match self.peek_at(at) {
            Some(Tok::Ident(word)) => Some(&**word),
            _ => None,
        };
        let mut fields: Vec<(Span, Vec<&str>)> = Vec::new();
        let mut at = self.at;
        while at < end {
            let first = at;
            at += 1;
            let Some(root) = ident(first) else { continue };
            let mut words = vec![root];
            while self.is_at(at, ".")
                && let Some(field) = ident(at + 1)
                && self.peek_at(at + 2) != Some(&Tok::Open(Delim::Paren))
            {
                words.push(field);
                at += 2;
            }
            if words.len() > 1 {
                let span = self.buffer.span(first).join(self.buffer.span(at - 1));
                fields.push((span, words));
            }
        }
        let [(first, _), ..] = fields[..] else {
            return Ok(());
        };
        let text = "a `for` takes an array by its name, and this is a field";
        let diag = Diag::new(Code::Syntax, first, text);
        // A `let` would be the value of a state.
        let state = |root: &str| {
            let mut before = 2..self.at;
            before.any(|at| ident(at) == Some(root) && self.is_word_at(at - 2, "state"))
        };
        if fields.iter().any(|(_, words)| state(words[0])) {
            let help =
                "an array of states is a parameter of its own: `#[state] caches: [Cache<B, C>; N]`";
            return Err(Box::new(diag.help(help)));
        }
        let last = |words: &[&str]| words[words.len() - 1].to_owned();
        let names: Vec<String> = fields.iter().map(|(_, words)| last(words)).collect();
        let distinct = (names.iter().enumerate()).all(|(at, name)| !names[..at].contains(name));
        let names: Vec<String> = match distinct {
            true => names,
            false => fields.iter().map(|(_, words)| words.join("_")).collect(),
        };
        let lets = fields.iter().zip(&names);
        let lets = lets.map(|((_, words), name)| format!("let {name} = {};", words.join(".")));
        let lets = lets.collect::<Vec<String>>().join(" ");
        let help = format!(
            "name it before, `{lets}`, and run over `{}`",
            names.join("`, `")
        );
        let fix = Fix::before(start, format!("{lets} "), &help);
        let fix = fields
            .iter()
            .zip(names)
            .fold(fix, |fix, ((span, _), name)| fix.and(*span, name));
        Err(Box::new(diag.fix(fix)))
    }

    /// `ls.iter()`, behind the array, reported.
    fn iterated(&mut self) -> Parse<()> {
        let start = self.span();
        let method = match self.peek_at(self.at + 1) {
            Some(Tok::Ident(word)) if self.is(".") => word.to_string(),
            _ => return Ok(()),
        };
        let text = "a `for` takes an array by its name";
        if !matches!(&*method, "iter" | "into_iter" | "iter_mut" | "values") {
            return Err(Box::new(Diag::new(Code::Syntax, start, text).help(
                "`for l in ls { … }`, or `for (a, b) in (xs, ys) { … }` side by side",
            )));
        }
        self.at += 2;
        self.open(Delim::Paren)?;
        self.close(Delim::Paren)?;
        let span = self.since(start);
        self.slip(span, text, Fix::replace(span, "", "leave it out"));
        Ok(())
    }
}
