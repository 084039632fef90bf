//! Blocks, structs, scalar functions, aggregations, opaque kernels.

use super::foreign::item;
use super::{Parse, Parser};
use crate::syntax::ast::{
    Agg, Attr, AttrKind, Block, Head, Ident, Item, Param, Path, RType, Record, RecordBlock,
    RecordValue, ScalarFn, StateField, Struct, Type, TypeKind, Vis,
};
use crate::syntax::diag::{Code, Diag, Fix};
use crate::syntax::names::nearest;
use crate::syntax::token::{Delim, Span, Tok};

/// The parts of an aggregation.
const SECTIONS: [&str; 4] = ["state", "lift", "merge", "finish"];

impl Parser {
    pub(super) fn item(&mut self, attrs: Vec<Attr>) -> Parse<Item> {
        let start = self.span();
        let vis = self.vis()?;
        let word = match self.peek() {
            Some(Tok::Ident(word)) => word.clone(),
            _ => return self.unexpected("`fn`, `struct`, `agg` or `extern fn`"),
        };
        match self.item_word(&word) {
            "fn" => {
                let head = self.head(attrs, vis, "the name of the block")?;
                self.no_kernel(&head);
                let after = self.buffer.after_tree(self.at);
                if self.is_open(Delim::Paren) && (self.is_at(after, "=") || self.is_untyped()) {
                    return self.scalar_fn(head).map(Item::ScalarFn);
                }
                self.block(head, start).map(Item::Block)
            }
            "struct" => {
                let head = self.head(attrs, vis, "the name of the struct")?;
                self.no_kernel(&head);
                self.structure(head).map(Item::Struct)
            }
            "agg" => {
                let head = self.head(attrs, vis, "the name of the aggregation")?;
                self.no_kernel(&head);
                self.aggregation(head).map(|agg| Item::Agg(Box::new(agg)))
            }
            "extern" => {
                self.at += 1;
                if matches!(self.peek(), Some(Tok::Literal(_))) {
                    let fix = Fix::replace(self.span(), "", "leave it out");
                    self.slip(self.span(), "a kernel has no calling convention", fix);
                    self.at += 1;
                }
                if !self.is_word("fn") {
                    return self.unexpected("`fn`");
                }
                let head = self.head(attrs, vis, "the name of the kernel")?;
                self.extern_fn(head, start).map(Item::Block)
            }
            "const" | "use" | "static" | "mod" | "type" | "enum" | "impl" | "trait" => {
                let diag = self.unexpected_diag("`fn`, `struct`, `agg` or `extern fn`");
                Err(Box::new(
                    diag.help(format!("put the `{word}` outside of `ein!`")),
                ))
            }
            _ => self.unexpected("`fn`, `struct`, `agg` or `extern fn`"),
        }
    }

    /// The word that begins an item here, another language's being reported.
    fn item_word<'w>(&mut self, word: &'w str) -> &'w str {
        let modifier = matches!(word, "const" | "async" | "unsafe" | "inline");
        if modifier && self.is_word_at(self.at + 1, "fn") {
            let fix = Fix::replace(self.span(), "", "leave it out");
            self.slip(self.span(), "a block begins with `fn` alone", fix);
            self.at += 1;
            return "fn";
        }
        let behind = matches!(
            self.peek_at(self.at + 2),
            Some(Tok::Punct("<") | Tok::Open(_))
        );
        match item(word).filter(|_| behind && self.is_name_at(self.at + 1)) {
            Some(meant) => {
                let fix = Fix::replace(self.span(), meant, "did you mean {}?");
                let text = format!(
                    "an item begins with `fn`, `struct`, `agg` or `extern fn`, not `{word}`"
                );
                self.slip(self.span(), &text, fix);
                meant
            }
            None => word,
        }
    }

    /// Takes the keyword before the name, and the name.
    fn head(&mut self, attrs: Vec<Attr>, vis: Vis, what: &str) -> Parse<Head> {
        self.at += 1;
        Ok(Head {
            attrs,
            vis,
            name: self.ident(what)?,
        })
    }

    /// Reports a `#[kernel]` on what has none.
    fn no_kernel(&mut self, head: &Head) {
        let kernels = head
            .attrs
            .iter()
            .filter(|attr| matches!(attr.kind, AttrKind::Kernel(_)));
        for attr in kernels {
            let text = "`#[kernel = …]` stands on an `extern fn`";
            self.diags.push(Diag::new(Code::Attribute, attr.span, text));
        }
    }

    fn vis(&mut self) -> Parse<Vis> {
        let span = self.span();
        if !self.eat_word("pub") {
            return Ok(Vis::Private);
        }
        if !self.is_open(Delim::Paren) {
            return Ok(Vis::Public(span));
        }
        self.at += 1;
        let path = match self.peek().cloned() {
            Some(Tok::Ident(name)) if matches!(&*name, "crate" | "self" | "super") => {
                let span = self.span();
                self.at += 1;
                Path {
                    global: false,
                    segments: vec![Ident { name, span }],
                    span,
                }
            }
            _ => {
                self.expect_word("in")?;
                self.path("a module")?
            }
        };
        self.close(Delim::Paren)?;
        Ok(Vis::Restricted(path))
    }

    fn block(&mut self, head: Head, start: Span) -> Parse<Block> {
        let generics = self.generics()?;
        let open = self.at;
        self.open(Delim::Paren)?;
        let params = self.list(Delim::Paren, Self::param)?;
        self.note_params(&params);
        self.arrow()?;
        let ret = self.rtype()?;
        if self.is("=") {
            return Err(Box::new(self.typed_scalar(open, &params)));
        }
        let mut clauses = self.clauses()?;
        self.clauses.clear();
        let signature = self.since(start);
        let end = self.buffer.partner(self.at);
        self.block = self.at;
        self.open(Delim::Brace)?;
        let mut stmts = self.rebinding();
        let (body, result, unnamed) = self.body(end);
        stmts.extend(body);
        clauses.append(&mut self.clauses);
        self.at = end + 1;
        Ok(Block {
            head,
            generics,
            params,
            ret,
            clauses,
            stmts,
            result,
            unnamed,
            signature,
            splits: None,
        })
    }

    /// The `->` in front of the type of the result, or what stands there instead.
    fn arrow(&mut self) -> Parse<()> {
        if self.eat("->") {
            return Ok(());
        }
        let diag = self.unexpected_diag("`->` and the type of the result");
        let before = self.buffer.span(self.at - 1);
        let fix = match self.peek() {
            Some(Tok::Punct(":" | "=>")) => Fix::replace(self.span(), " ->", "write {}"),
            Some(Tok::Ident(_) | Tok::Open(Delim::Paren)) if self.is_typed() => {
                Fix::after(before, " ->", "add {}")
            }
            _ => {
                let help = match self.is_word("where") {
                    true => "clauses stand behind the type of the result",
                    false => "a block returns a tensor or a tuple of tensors",
                };
                return Err(Box::new(diag.help(help)));
            }
        };
        self.at += usize::from(self.is(":") || self.is("=>"));
        self.diags.push(diag.fix(fix));
        Ok(())
    }

    /// Does a type stand here, with a block behind?
    fn is_typed(&self) -> bool {
        let open = self.is_open(Delim::Paren);
        open || self.is_name_at(self.at) && !self.is_word("splits")
    }

    /// What can be read of the signature of the block that starts at `start`, which has an error
    /// that is reported.
    pub(super) fn broken(&mut self, attrs: Vec<Attr>, start: usize) -> Option<Block> {
        let (diags, depth) = (self.diags.len(), self.depth);
        self.at = start;
        let block = self.signature(attrs);
        self.diags.truncate(diags);
        self.depth = depth;
        block
    }

    fn signature(&mut self, attrs: Vec<Attr>) -> Option<Block> {
        let start = self.span();
        let vis = self.vis().ok()?;
        if !self.is_word("fn") {
            return None;
        }
        let head = self.head(attrs, vis, "the name of the block").ok()?;
        let generics = self.generics().unwrap_or_default();
        while self.at < self.end && !self.is_open(Delim::Paren) && !self.is_open(Delim::Brace) {
            self.at = self.buffer.after_tree(self.at);
        }
        let mut params = Vec::new();
        if self.is_open(Delim::Paren) {
            let end = self.buffer.partner(self.at);
            self.at += 1;
            while self.at < end {
                params.push(self.readable_param(end));
            }
            self.at = end + 1;
        }
        if self.is("=") {
            return None;
        }
        let ret = match self.eat("->") {
            true => self.rtype().ok(),
            false => None,
        };
        let whole = |p: &Parser| p.is_word("where") || p.is_open(Delim::Brace);
        let ret = ret.filter(|_| whole(self)).unwrap_or_else(|| RType {
            types: vec![unreadable(self.span())],
            span: self.span(),
        });
        Some(Block {
            head,
            generics,
            params,
            ret,
            clauses: Vec::new(),
            stmts: Vec::new(),
            result: None,
            unnamed: None,
            signature: self.since(start),
            splits: None,
        })
    }

    /// The parameter here, and its comma; its type is `_` if there is an error in it.
    fn readable_param(&mut self, end: usize) -> Param {
        let start = self.at;
        let param = self.param().ok();
        let param = param.filter(|_| self.at == end || self.is(","));
        while self.at < end && !self.is(",") {
            self.at = self.buffer.after_tree(self.at);
        }
        self.eat(",");
        param.unwrap_or_else(|| {
            let name = (start..self.at).find(|&at| self.is_name_at(at));
            let at = name.unwrap_or(start);
            let span = self.buffer.span(at);
            let name = match self.buffer.get(at).map(|token| &token.tok) {
                Some(Tok::Ident(word)) if name.is_some() => word.clone(),
                _ => "_".into(),
            };
            Param {
                attrs: Vec::new(),
                name: Ident { name, span },
                ty: unreadable(span),
            }
        })
    }

    fn structure(&mut self, head: Head) -> Parse<Struct> {
        let generics = self.generics()?;
        if self.is_open(Delim::Paren) || self.is(";") {
            let diag = self.unexpected_diag("`{`");
            let help = "a struct has named fields: `struct Layer<dim D> { w: f32[D, D] }`";
            return Err(Box::new(diag.help(help)));
        }
        self.open(Delim::Brace)?;
        let fields = self.list(Delim::Brace, Self::field)?;
        Ok(Struct {
            head,
            generics,
            fields,
        })
    }

    fn scalar_fn(&mut self, head: Head) -> Parse<ScalarFn> {
        self.open(Delim::Paren)?;
        let params = self.list1(Delim::Paren, "an argument", |p| {
            let name = p.ident("an argument")?;
            if p.is(":") {
                let diag = p.unexpected_diag("`,` or `)`");
                let help = "a scalar function takes any dtype: leave out its arguments' types";
                let typed = match p.peek_at(p.at + 1) {
                    Some(Tok::Ident(_)) => p.span().join(p.buffer.span(p.at + 1)),
                    _ => p.span(),
                };
                return Err(Box::new(diag.fix(Fix::replace(typed, "", help))));
            }
            Ok(name)
        })?;
        let close = self.scalar_body()?;
        let body = self.expr()?;
        match close {
            Some(close) if self.at == close => self.at += 1,
            Some(_) => return self.unexpected("`}`"),
            None => self.item_end()?,
        }
        Ok(ScalarFn { head, params, body })
    }

    fn extern_fn(&mut self, head: Head, start: Span) -> Parse<Block> {
        let generics = self.generics()?;
        self.open(Delim::Paren)?;
        let params = self.list(Delim::Paren, Self::param)?;
        self.arrow()?;
        let ret = self.rtype()?;
        let signature = self.since(start);
        self.no_body(" splits();")?;
        if !self.eat_word("splits") {
            let diag = self.unexpected_diag("`splits(…)`");
            let dims = self.buffer.after_tree(self.at + 1);
            let word = self.peek().map(Tok::to_string).unwrap_or_default();
            let near = nearest(&word, ["splits"]).is_some() && self.is_at(dims, ";");
            let help = "add {}: the dims along which tiles may be computed apart, or none";
            return Err(Box::new(match self.peek() {
                _ if near => diag.fix(Fix::replace(self.span(), "splits", "did you mean {}?")),
                Some(Tok::Open(Delim::Paren)) => diag.fix(Fix::before(self.span(), "splits", help)),
                Some(Tok::Punct(";")) => diag.fix(Fix::after(signature, " splits()", help)),
                _ => {
                    diag.help("`splits(…)` names the dims along which tiles may be computed apart")
                }
            }));
        }
        self.open(Delim::Paren)?;
        let splits = self.list(Delim::Paren, |p| p.ident("a dim"))?;
        self.no_body(";")?;
        self.item_end()?;
        Ok(Block {
            head,
            generics,
            params,
            ret,
            clauses: Vec::new(),
            stmts: Vec::new(),
            result: None,
            unnamed: None,
            signature,
            splits: Some(splits),
        })
    }

    /// The `;` behind an item.
    fn item_end(&mut self) -> Parse<()> {
        let next = self.at == self.end || self.is_word("fn") || self.is_word("pub") || self.is("#");
        if self.is(";") || !next {
            return self.expect(";");
        }
        let before = self.buffer.span(self.at - 1);
        let diag = self.unexpected_diag("`;`");
        self.diags.push(diag.fix(Fix::after(before, ";", "add {}")));
        Ok(())
    }

    /// Refuses a body of an `extern fn`, in whose place is `rest`.
    fn no_body(&self, rest: &str) -> Parse<()> {
        if !self.is_open(Delim::Brace) {
            return Ok(());
        }
        let body = self
            .span()
            .join(self.buffer.span(self.buffer.partner(self.at)));
        let text = "the body of a kernel is a Rust function, which `#[kernel = …]` names";
        let diag = Diag::new(Code::Syntax, self.span(), text);
        Err(Box::new(diag.fix(Fix::replace(
            body,
            rest,
            "write {} instead of it",
        ))))
    }

    fn aggregation(&mut self, head: Head) -> Parse<Agg> {
        self.open(Delim::Paren)?;
        let params = self.list1(Delim::Paren, "an argument", |p| {
            let name = p.ident("an argument")?;
            if p.is(",") || p.is_close(Delim::Paren) {
                let diag = p.unexpected_diag("`:` and a dtype");
                p.diags
                    .push(diag.fix(Fix::after(name.span, ": f32", "add {}")));
                let dtype = Ident {
                    name: "f32".into(),
                    span: name.span,
                };
                return Ok((name, dtype));
            }
            p.expect(":")?;
            Ok((name, p.ident("a dtype")?))
        })?;
        self.open(Delim::Brace)?;
        self.section("state")?;
        self.open(Delim::Brace)?;
        let state = self.list1(Delim::Brace, "a state component", |p| {
            let name = p.ident("a state component")?;
            p.expect(":")?;
            let dtype = p.ident("a dtype")?;
            p.expect("=")?;
            Ok(StateField {
                name,
                dtype,
                identity: p.expr()?,
            })
        })?;
        self.section("lift")?;
        let lift = self.record()?;
        self.section("merge")?;
        self.open(Delim::Paren)?;
        let first = self.ident("the name of the first state")?;
        self.expect(",")?;
        let second = self.ident("the name of the second state")?;
        self.close(Delim::Paren)?;
        let merge = self.record_block()?;
        self.section("finish")?;
        let finish = self.record_block()?;
        self.close(Delim::Brace)?;
        Ok(Agg {
            head,
            params,
            state,
            lift,
            merge_args: (first, second),
            merge,
            finish,
        })
    }

    /// The word in front of a part of an aggregation.
    fn section(&mut self, name: &'static str) -> Parse<()> {
        while self.is(",") || self.is(";") {
            let fix = Fix::replace(self.span(), "", "leave it out");
            self.slip(
                self.span(),
                "nothing stands between the parts of an aggregation",
                fix,
            );
            self.at += 1;
        }
        if self.eat_word(name) {
            return Ok(());
        }
        let diag = self.unexpected_diag(&format!("`{name}`"));
        let word = self.peek().map(Tok::to_string).unwrap_or_default();
        if !SECTIONS.contains(&&*word) && matches!(self.peek_at(self.at + 1), Some(Tok::Open(_))) {
            self.diags
                .push(diag.fix(Fix::replace(self.span(), name, "write {}")));
            self.at += 1;
            return Ok(());
        }
        let help = "an aggregation has `state`, `lift`, `merge` and `finish`, in this order";
        Err(Box::new(diag.help(help)))
    }

    fn record(&mut self) -> Parse<Record> {
        let start = self.span();
        self.open(Delim::Brace)?;
        let fields = self.list1(Delim::Brace, "a component", |p| {
            let name = p.ident("a component")?;
            p.expect(":")?;
            Ok((name, p.expr()?))
        })?;
        Ok(Record {
            fields,
            span: self.since(start),
        })
    }

    fn record_block(&mut self) -> Parse<RecordBlock> {
        let start = self.span();
        let end = self.buffer.partner(self.at);
        self.open(Delim::Brace)?;
        let mut lets = Vec::new();
        while self.eat_word("let") {
            self.operators = 0;
            let name = self.ident("a name")?;
            self.expect("=")?;
            lets.push((name, self.expr()?));
            self.expect(";")?;
        }
        self.operators = 0;
        if lets.is_empty() && self.is_name_at(self.at) && self.is_at(self.at + 1, ":") {
            // `finish { a: x, b: y }`: the block's braces are the record's.
            self.at -= 1;
            let record = self.record()?;
            let span = record.span;
            return Ok(RecordBlock {
                lets,
                value: RecordValue::Record(record),
                span,
            });
        }
        let value = if self.is_open(Delim::Brace) {
            RecordValue::Record(self.record()?)
        } else {
            RecordValue::Expr(self.expr()?)
        };
        if self.at != end {
            let text = "expected the end of this block";
            return Err(Box::new(Diag::new(Code::Syntax, self.span(), text)));
        }
        self.close(Delim::Brace)?;
        Ok(RecordBlock {
            lets,
            value,
            span: self.since(start),
        })
    }
}

/// The type of what could not be read.
fn unreadable(span: Span) -> Type {
    let dtype = Ident {
        name: "_".into(),
        span,
    };
    let kind = TypeKind::Tensor { dtype, axes: None };
    Type { kind, span }
}
