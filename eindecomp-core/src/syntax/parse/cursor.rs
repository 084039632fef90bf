//! Looking at tokens and taking them; names, paths, lists and attributes.

use std::sync::Arc;

use super::{MAX_DEPTH, MAX_OPERATORS, Parse, Parser};
use crate::syntax::ast::{Ident, Lit, Path};
use crate::syntax::diag::{Code, Diag, Fix};
use crate::syntax::literal;
use crate::syntax::token::{Delim, Span, Tok};

/// Does Rust keep the word for itself? Every name can be one in the generated code too. Asked of
/// each word of a program, so it is no search in a list, and few words are as long as it.
fn is_keyword(word: &str) -> bool {
    match word.len() {
        2 => matches!(word, "as" | "do" | "fn" | "if" | "in"),
        3 => matches!(
            word,
            "box" | "dyn" | "for" | "gen" | "let" | "mod" | "mut" | "pub" | "ref" | "try" | "use"
        ),
        4 => matches!(
            word,
            "else" | "enum" | "impl" | "loop" | "move" | "priv" | "self" | "Self" | "true" | "type"
        ),
        5 => matches!(
            word,
            "async"
                | "await"
                | "break"
                | "const"
                | "crate"
                | "false"
                | "final"
                | "macro"
                | "match"
                | "super"
                | "trait"
                | "where"
                | "while"
                | "yield"
        ),
        6 => matches!(
            word,
            "become" | "extern" | "return" | "static" | "struct" | "typeof" | "unsafe"
        ),
        7 => matches!(word, "unsized" | "virtual"),
        8 => matches!(word, "abstract" | "continue" | "override"),
        _ => false,
    }
}

/// Those of them that the language uses.
const USED: &[&str] = &[
    "as", "const", "else", "extern", "false", "fn", "for", "if", "in", "let", "mut", "pub",
    "return", "struct", "true", "use", "where", "while", "loop",
];

impl Parser {
    pub(super) fn peek(&self) -> Option<&Tok> {
        self.peek_at(self.at)
    }

    pub(super) fn peek_at(&self, index: usize) -> Option<&Tok> {
        self.buffer.get(index).map(|token| &token.tok)
    }

    pub(super) fn span(&self) -> Span {
        self.buffer.span(self.at)
    }

    /// From `start` to the last token taken.
    pub(super) fn since(&self, start: Span) -> Span {
        if self.at == 0 {
            start
        } else {
            start.join(self.buffer.span(self.at - 1))
        }
    }

    /// What stands between two tokens, as a user would write it.
    pub(super) fn written(&self, from: usize, to: usize) -> String {
        let mut out = String::new();
        for at in from..to {
            let Some(tok) = self.peek_at(at) else { break };
            let close = at == from
                || matches!(
                    tok,
                    Tok::Close(_) | Tok::Punct("," | ":" | ";" | "." | "::")
                )
                || matches!(
                    self.peek_at(at - 1),
                    Some(Tok::Open(_) | Tok::Punct("." | "::" | ".."))
                )
                || *tok == Tok::Open(Delim::Bracket) && self.is_name_at(at - 1)
                || *tok == Tok::Open(Delim::Paren) && self.is_name_at(at - 1);
            if !close {
                out.push(' ');
            }
            out += &tok.to_string();
        }
        out
    }

    /// What stands between the bracket at `open` and its partner.
    pub(super) fn inside(&self, open: usize) -> String {
        self.written(open + 1, self.buffer.partner(open))
    }

    pub(super) fn is(&self, punct: &str) -> bool {
        self.is_at(self.at, punct)
    }

    pub(super) fn is_at(&self, index: usize, punct: &str) -> bool {
        matches!(self.peek_at(index), Some(Tok::Punct(p)) if *p == punct)
    }

    pub(super) fn is_word(&self, word: &str) -> bool {
        self.is_word_at(self.at, word)
    }

    pub(super) fn is_word_at(&self, index: usize, word: &str) -> bool {
        matches!(self.peek_at(index), Some(Tok::Ident(w)) if **w == *word)
    }

    pub(super) fn is_open(&self, delim: Delim) -> bool {
        self.peek() == Some(&Tok::Open(delim))
    }

    pub(super) fn is_close(&self, delim: Delim) -> bool {
        self.peek() == Some(&Tok::Close(delim))
    }

    /// An identifier that is no keyword stands at `index`.
    pub(super) fn is_name_at(&self, index: usize) -> bool {
        let reserved = |w: &Arc<str>| is_keyword(w) && !self.keywords.contains(w);
        matches!(self.peek_at(index), Some(Tok::Ident(w)) if !reserved(w))
    }

    pub(super) fn eat(&mut self, punct: &str) -> bool {
        let found = self.is(punct);
        self.at += usize::from(found);
        found
    }

    pub(super) fn eat_word(&mut self, word: &str) -> bool {
        let found = self.is_word(word);
        self.at += usize::from(found);
        found
    }

    /// Takes a `punct`; what other languages have in its place is reported.
    pub(super) fn expect(&mut self, punct: &'static str) -> Parse<()> {
        if self.eat(punct) {
            return Ok(());
        }
        let Some(tokens) = self.substitute(punct) else {
            return self.unexpected(&format!("`{punct}`"));
        };
        let diag = self.unexpected_diag(&format!("`{punct}`"));
        let start = self.span();
        self.at += tokens;
        let fix = Fix::replace(self.since(start), punct, "write {}");
        self.diags.push(diag.fix(fix));
        Ok(())
    }

    pub(super) fn expect_word(&mut self, word: &str) -> Parse<()> {
        if self.eat_word(word) {
            Ok(())
        } else {
            self.unexpected(&format!("`{word}`"))
        }
    }

    /// Takes the opening bracket; `[` instead of `(` and `(` instead of `[` are reported.
    pub(super) fn open(&mut self, delim: Delim) -> Parse<()> {
        if let (Delim::Paren, Some(Tok::Open(Delim::Bracket)))
        | (Delim::Bracket, Some(Tok::Open(Delim::Paren))) = (delim, self.peek())
        {
            let diag = self.unexpected_diag(&format!("`{}`", delim.open()));
            let close = self.buffer.span(self.buffer.partner(self.at));
            let help = format!("write `{}…{}`", delim.open(), delim.close());
            let fix = Fix::replace(diag.primary, delim.open(), &help);
            self.diags.push(diag.fix(fix.and(close, delim.close())));
            self.buffer.set_delim(self.at, delim);
        }
        if self.is_open(delim) {
            self.at += 1;
            return Ok(());
        }
        self.unexpected(&format!("`{}`", delim.open()))
    }

    pub(super) fn close(&mut self, delim: Delim) -> Parse<()> {
        if self.is_close(delim) {
            self.at += 1;
            return Ok(());
        }
        self.unexpected(&format!("`{}`", delim.close()))
    }

    /// Takes the `>` that closes generics, splitting a `>=`.
    pub(super) fn close_angle(&mut self) -> Parse<()> {
        if self.is(">=") {
            self.buffer.split_angle(self.at);
            return Ok(());
        }
        if self.eat(">") {
            Ok(())
        } else {
            self.unexpected("`,` or `>`")
        }
    }

    /// The next token, in words.
    fn found(&self) -> String {
        match self.peek() {
            None => "the end of the program".into(),
            Some(Tok::Ident(word)) if is_keyword(word) => format!("keyword `{word}`"),
            Some(tok) => format!("`{tok}`"),
        }
    }

    /// The error that something else was expected here.
    pub(super) fn unexpected<T>(&self, expected: &str) -> Parse<T> {
        let diag = self.unexpected_diag(expected);
        Err(Box::new(match self.hint() {
            Some(help) => diag.help(help),
            None => diag,
        }))
    }

    pub(super) fn unexpected_diag(&self, expected: &str) -> Diag {
        let message = format!("expected {expected}, found {}", self.found());
        Diag::new(Code::Syntax, self.span(), message)
    }

    pub(super) fn fail<T>(&self, code: Code, span: Span, message: impl Into<String>) -> Parse<T> {
        Err(Box::new(Diag::new(code, span, message)))
    }

    /// Records an error from which reading goes on at once.
    pub(super) fn report<T>(&mut self, result: Parse<T>) -> Option<T> {
        result.map_err(|diag| self.diags.push(*diag)).ok()
    }

    /// Runs `read` one level deeper.
    pub(super) fn nested<T>(&mut self, read: impl FnOnce(&mut Self) -> Parse<T>) -> Parse<T> {
        if self.depth == MAX_DEPTH {
            let text = format!("this is nested over {MAX_DEPTH} levels deep");
            let diag = Diag::new(Code::TooDeep, self.span(), text);
            return Err(Box::new(
                diag.help("define the inner part by a `let` of its own"),
            ));
        }
        self.depth += 1;
        let result = read(self);
        self.depth -= 1;
        result
    }

    /// Counts an operator of the statement.
    pub(super) fn operator(&mut self) -> Parse<()> {
        self.operators += 1;
        if self.operators > MAX_OPERATORS {
            let text = format!("one statement has over {MAX_OPERATORS} operators");
            let diag = Diag::new(Code::TooDeep, self.span(), text);
            return Err(Box::new(diag.help("make it several statements")));
        }
        Ok(())
    }

    /// Items separated by commas up to the closing bracket, which is taken; the opening one is
    /// taken already. A last comma is allowed.
    pub(super) fn list<T>(
        &mut self,
        delim: Delim,
        mut item: impl FnMut(&mut Self) -> Parse<T>,
    ) -> Parse<Vec<T>> {
        let mut items = Vec::new();
        while !self.is_close(delim) {
            items.push(item(self)?);
            if !self.is_close(delim) {
                self.separator(delim.close())?;
            }
        }
        self.close(delim)?;
        Ok(items)
    }

    /// Takes the `,` in front of another item, `close` being what stands behind the last one.
    /// Where it is missing, or is a `;`, that is reported.
    pub(super) fn separator(&mut self, close: &str) -> Parse<()> {
        if self.eat(",") {
            return Ok(());
        }
        let diag = self.unexpected_diag(&format!("`,` or `{close}`"));
        if self.eat(";") {
            let fix = Fix::replace(diag.primary, ",", "items are separated by {}");
            self.diags.push(diag.fix(fix));
            return Ok(());
        }
        let starts = match self.peek() {
            Some(Tok::Ident(_)) => self.is_name_at(self.at),
            Some(Tok::Literal(_)) => true,
            // `a..b` is a range, not two axes.
            Some(Tok::Punct(punct)) => {
                let apart = self.buffer.span(self.at - 1).end < self.span().start;
                *punct == "#" || *punct == ".." && apart
            }
            _ => false,
        };
        if !starts {
            return self.unexpected(&format!("`,` or `{close}`"));
        }
        let before = self.buffer.span(self.at - 1);
        self.diags.push(diag.fix(Fix::after(before, ",", "add {}")));
        Ok(())
    }

    /// Like [`Parser::list`], at least one; `what` names an item.
    pub(super) fn list1<T>(
        &mut self,
        delim: Delim,
        what: &str,
        item: impl FnMut(&mut Self) -> Parse<T>,
    ) -> Parse<Vec<T>> {
        if self.is_close(delim) {
            return self.unexpected(what);
        }
        self.list(delim, item)
    }

    /// A name; `what` says of what.
    pub(super) fn ident(&mut self, what: &str) -> Parse<Ident> {
        match self.peek() {
            Some(Tok::Ident(name)) if matches!(&**name, "inf" | "nan") => {
                let text = format!("`{name}` is a value and cannot be {what}");
                let diag = Diag::new(Code::ReservedName, self.span(), text);
                Err(Box::new(diag.help("give it another name")))
            }
            Some(Tok::Ident(name)) if self.is_name_at(self.at) && **name != *"_" => {
                let ident = Ident {
                    name: name.clone(),
                    span: self.span(),
                };
                self.at += 1;
                Ok(ident)
            }
            Some(Tok::Ident(word)) if is_keyword(word) => {
                let word = word.clone();
                self.keyword(word, what)
            }
            _ => self.unexpected(what),
        }
    }

    /// A keyword of Rust where a name is meant. One that the language does not use is reported
    /// once and read as a name from then on.
    fn keyword(&mut self, name: Arc<str>, what: &str) -> Parse<Ident> {
        let span = self.span();
        if USED.contains(&&*name) || !self.names_something() {
            let diag = self.unexpected_diag(what);
            let help = self.hint().unwrap_or("give it another name");
            let named = self.names_something() && what != "an expression";
            return Err(Box::new(match named {
                true => diag.help("give it another name"),
                false => diag.help(help),
            }));
        }
        let text = format!("`{name}` is a keyword of Rust and cannot be used as a name");
        let diag = Diag::new(Code::ReservedName, span, text);
        let other = format!("{name}_");
        let uses = self.buffer.tokens().iter();
        let uses = uses.filter(|token| matches!(&token.tok, Tok::Ident(word) if *word == name));
        let fix = Fix {
            help: format!("call it `{other}`"),
            edits: uses.map(|token| (token.span, other.clone())).collect(),
        };
        self.diags.push(diag.fix(fix));
        self.keywords.push(name.clone());
        self.at += 1;
        Ok(Ident { name, span })
    }

    /// Does what follows the word here belong behind a name?
    fn names_something(&self) -> bool {
        match self.peek_at(self.at + 1) {
            Some(Tok::Punct(punct)) => matches!(*punct, ":" | "," | "<" | ">" | "=" | "."),
            Some(Tok::Open(delim)) => *delim == Delim::Bracket,
            Some(Tok::Close(_)) => true,
            _ => false,
        }
    }

    /// A name or `_`.
    pub(super) fn binding(&mut self, what: &str) -> Parse<Ident> {
        if self.is_word("_") {
            self.at += 1;
            return Ok(Ident {
                name: "_".into(),
                span: self.buffer.span(self.at - 1),
            });
        }
        self.ident(what)
    }

    /// A Rust path; `what` says of what.
    pub(super) fn path(&mut self, what: &str) -> Parse<Path> {
        let start = self.span();
        let global = self.eat("::");
        let mut segments = Vec::new();
        loop {
            let root = |w: &str| matches!(w, "crate" | "self" | "super");
            match self.peek().cloned() {
                Some(Tok::Ident(name)) if root(&name) && self.is_at(self.at + 1, "::") => {
                    segments.push(Ident {
                        name,
                        span: self.span(),
                    });
                    self.at += 1;
                }
                _ => segments.push(self.ident(what)?),
            }
            if self.is_at(self.at + 1, "<") || !self.eat("::") {
                break;
            }
        }
        Ok(Path {
            global,
            segments,
            span: self.since(start),
        })
    }

    /// A number.
    pub(super) fn number(&mut self, what: &str) -> Parse<Lit> {
        let Some(Tok::Literal(text)) = self.peek() else {
            return self.unexpected(what);
        };
        if !text.starts_with(|ch: char| ch.is_ascii_digit()) {
            return self.unexpected(what);
        }
        match literal::number(text) {
            Ok(lit) => {
                self.at += 1;
                Ok(lit)
            }
            Err(message) => {
                let bare = literal::without_suffix(text);
                let fix = bare.map(|bare| Fix::replace(self.span(), bare, "write {}"));
                let diag = Diag::new(Code::Literal, self.span(), message);
                Err(Box::new(diag.fixes(fix)))
            }
        }
    }

    pub(super) fn integer(&mut self, what: &str) -> Parse<u64> {
        let span = self.span();
        match self.number(what)? {
            Lit::Int(value) => Ok(value),
            Lit::Float(x) if x.fract() == 0.0 && x < 1e15 => {
                let text = format!("expected {what}, found a float");
                let fix = Fix::replace(span, format!("{x:.0}"), "write {}");
                Err(Box::new(Diag::new(Code::Literal, span, text).fix(fix)))
            }
            _ => self.fail(
                Code::Literal,
                span,
                format!("expected {what}, found a float"),
            ),
        }
    }
}
