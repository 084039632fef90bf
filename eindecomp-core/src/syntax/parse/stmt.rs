//! Statements and results.

use super::attrs::AttrPlace;
use super::whole::Left;
use super::{Parse, Parser};
use crate::syntax::ast::{
    Dim, Expr, ExprKind, Ident, IndexDecl, LeftIndex, Path, Place, ResultNames, Stmt, StmtKind,
};
use crate::syntax::diag::{Code, Diag, Fix};
use crate::syntax::token::{Delim, Tok};

/// What the next statement is, by its first tokens.
enum Start {
    Let,
    For,
    Store,
    Carry,
    /// `if … { h[n] = …; }`.
    Choice,
    /// `dim H = …`, which belongs to the head of the block.
    Dim,
    /// None: what follows can only be the result.
    Result,
}

impl Parser {
    /// Statements and the result, or what stands in its place, up to the closing brace at `end`.
    /// Errors are reported here.
    pub(super) fn body(&mut self, end: usize) -> (Vec<Stmt>, Option<ResultNames>, Option<Expr>) {
        let mut stmts = Vec::new();
        while self.at < end {
            if self.stmt_recovering(end, &mut stmts) {
                continue;
            }
            self.operators = 0;
            let start = self.at;
            let result = self.result(end);
            match self.report(result) {
                Some(Ok(names)) => return (stmts, Some(names), None),
                Some(Err(value)) => return (stmts, None, Some(value)),
                None => self.at = self.after_stmt(start, end),
            }
            if self.at == end {
                return (stmts, None, None);
            }
        }
        let broken = matches!(
            stmts.last(),
            Some(Stmt {
                kind: StmtKind::Error(_),
                ..
            })
        );
        if !broken {
            let text = "a block ends in the name of its result";
            let mut diag = Diag::new(Code::Syntax, self.buffer.span(end), text);
            if stmts.is_empty() {
                diag = diag.help("its result is a parameter, or what a `let` defines");
            }
            if let Some(Stmt {
                kind: StmtKind::Let { pat, .. },
                ..
            }) = stmts.last()
                && let [name] = &pat.names[..]
            {
                let end = self.buffer.span(end);
                diag = diag.fix(Fix::before(end, format!("{name} "), "add {} at the end"));
            }
            self.diags.push(diag);
        }
        (stmts, None, None)
    }

    /// Reads one statement, or reports why not and goes on behind it. False if none starts here.
    pub(super) fn stmt_recovering(&mut self, end: usize, stmts: &mut Vec<Stmt>) -> bool {
        while self.is(";") {
            self.stray_semicolon();
        }
        if self.at == end {
            return true;
        }
        self.stmt = self.span();
        self.left = None;
        let attrs = self.attrs(AttrPlace::Stmt);
        let (start, span) = (self.at, self.span());
        if matches!(self.start(), Start::Result) {
            if let Some(attr) = attrs.last() {
                let text = "an attribute needs a statement to stand on";
                self.diags.push(Diag::new(Code::Attribute, attr.span, text));
            }
            return false;
        }
        self.operators = 0;
        let kind = match self.stmt() {
            Ok(kind) => kind,
            Err(diag) => {
                self.diags.push(*diag);
                self.at = self.after_stmt(start, end);
                StmtKind::Error(self.names_bound(start))
            }
        };
        stmts.push(Stmt {
            attrs,
            kind,
            span: self.since(span),
        });
        true
    }

    fn start(&self) -> Start {
        if self.is_word("let") || self.is_foreign_let() {
            return Start::Let;
        }
        if self.is_word("for") {
            return Start::For;
        }
        if self.is_choice() {
            return Start::Choice;
        }
        if self.is_word("dim") && self.is_name_at(self.at + 1) && self.is_at(self.at + 2, "=") {
            return Start::Dim;
        }
        if self.is_name_at(self.at) {
            let next = self.at + 1;
            if self.is_at(next, "=") || self.compound(next).is_some() {
                return Start::Carry;
            }
            let mut open = next;
            while self.is_at(open, ".") && self.is_name_at(open + 1) {
                open += 2;
            }
            if self.peek_at(open) == Some(&Tok::Open(Delim::Bracket)) {
                let after = self.buffer.after_tree(open);
                if self.assigns(after) || self.compound(after).is_some() {
                    return Start::Store;
                }
            }
        }
        if self.is_open(Delim::Paren) && self.is_at(self.buffer.after_tree(self.at), "=") {
            return Start::Carry;
        }
        Start::Result
    }

    /// `var y[i] = …`: a word in front of what a `let` would define.
    fn is_foreign_let(&self) -> bool {
        let word = match self.peek() {
            Some(Tok::Ident(word)) => !matches!(&**word, "let" | "for" | "if" | "return" | "dim"),
            _ => false,
        };
        let name = self.at + 1;
        let mut behind = name + 1;
        if self.peek_at(behind) == Some(&Tok::Open(Delim::Bracket)) {
            behind = self.buffer.after_tree(behind);
        }
        word && self.is_name_at(name) && self.is_at(behind, "=")
    }

    fn stmt(&mut self) -> Parse<StmtKind> {
        match self.start() {
            Start::Let => self.let_stmt(),
            Start::For => self.nested(Self::for_stmt),
            Start::Store => self.store(),
            Start::Carry => self.carry(),
            Start::Choice => self.choice(),
            Start::Dim => self.dim_stmt().map(|()| StmtKind::Error(Vec::new())),
            Start::Result => self.unexpected("a statement"),
        }
    }

    /// Where reading goes on after an error in the statement that starts at `start`.
    pub(super) fn after_stmt(&self, start: usize, end: usize) -> usize {
        let is_for = self.is_word_at(start, "for");
        let mut at = start;
        while at < end {
            match self.peek_at(at) {
                Some(Tok::Punct(";")) => return at + 1,
                Some(Tok::Open(Delim::Brace)) if is_for => return self.buffer.after_tree(at),
                Some(Tok::Ident(word)) if at > start && matches!(&**word, "let" | "for") => {
                    return at;
                }
                _ => at = self.buffer.after_tree(at),
            }
        }
        end
    }

    /// The names that the unreadable statement at `start` would have bound, as far as known.
    fn names_bound(&self, start: usize) -> Vec<Ident> {
        let mut first = start;
        for word in ["let", "mut"] {
            first += usize::from(self.is_word_at(first, word));
        }
        let name = first + 1;
        let stores = self.peek_at(name) == Some(&Tok::Open(Delim::Bracket));
        let defines = first > start || stores || self.is_at(name, "=");
        if !defines {
            return Vec::new();
        }
        let last = match self.peek_at(first) {
            Some(Tok::Open(Delim::Paren)) => self.buffer.partner(first),
            _ => first + 1,
        };
        (first..last)
            .filter(|&at| self.is_name_at(at))
            .filter_map(|at| match self.peek_at(at) {
                Some(Tok::Ident(name)) => Some(Ident {
                    name: name.clone(),
                    span: self.buffer.span(at),
                }),
                _ => None,
            })
            .collect()
    }

    fn let_stmt(&mut self) -> Parse<StmtKind> {
        let mut at_mut = None;
        if self.is_foreign_let() {
            at_mut = self.is_word("mut").then(|| self.span());
            let word = if at_mut.is_some() { "let mut" } else { "let" };
            let fix = Fix::replace(self.span(), word, "write {}");
            self.slip(self.span(), "a new tensor is defined by `let`", fix);
            self.at += 1;
        } else {
            self.expect_word("let")?;
        }
        let own = self.span();
        let mutable = self.eat_word("mut").then_some(own).or(at_mut);
        let mut pat = self.pattern()?;
        let assigns = self.is_at(self.at + 1, "=");
        let ty = if !assigns && self.eat(":") {
            Some(self.rtype()?)
        } else {
            None
        };
        self.left = Some(Left::of(&pat));
        self.ranges.clear();
        let mut value = match self.compound(self.at) {
            Some(op) => self.let_compound(&pat, op)?,
            None => {
                self.expect("=")?;
                self.expr()?
            }
        };
        for (name, extent) in std::mem::take(&mut self.ranges) {
            let left = pat.indices.iter_mut().flatten();
            if !left
                .into_iter()
                .any(|index| ranged_left(index, &name, &extent))
            {
                ranged(&mut value, &name, &extent);
            }
        }
        self.note_let(&pat);
        self.semicolon(&value)?;
        self.left = None;
        Ok(StmtKind::Let {
            mutable,
            pat,
            ty,
            value,
        })
    }

    /// The `;` behind a value.
    fn semicolon(&mut self, value: &Expr) -> Parse<()> {
        if self.eat(";") {
            return Ok(());
        }
        let diag = self.unexpected_diag("`;`");
        let before = self.buffer.span(self.at.saturating_sub(1));
        let missing = match self.peek() {
            Some(Tok::Ident(_)) => self.starts_next(),
            Some(Tok::Close(Delim::Brace)) => self.loops > 0,
            _ => false,
        };
        if missing {
            self.diags.push(diag.fix(Fix::after(before, ";", "add {}")));
            return Ok(());
        }
        Err(Box::new(match self.peek() {
            Some(Tok::Ident(word)) if **word == *"where" => self.trailing_where(value)?,
            Some(Tok::Punct(",")) => self.behind_comma(value)?,
            Some(Tok::Punct("..")) => diag.help("a range stands in a `for` only"),
            Some(Tok::Ident(_) | Tok::Literal(_)) if self.starts_value() => {
                diag.fix(Fix::after(before, " *", "a product is written with {}"))
            }
            _ => return self.unexpected("`;`"),
        }))
    }

    /// Does a statement or the result start here?
    pub(super) fn starts_next(&self) -> bool {
        let result = self.is_name_at(self.at)
            && matches!(
                self.peek_at(self.at + 1),
                Some(Tok::Close(Delim::Brace)) | None
            );
        result || !matches!(self.start(), Start::Result)
    }

    fn store(&mut self) -> Parse<StmtKind> {
        let start = self.span();
        let name = self.ident("a state")?;
        let path = Path {
            global: false,
            span: name.span,
            segments: vec![name],
        };
        let mut fields = Vec::new();
        while self.eat(".") {
            fields.push(self.ident("a field")?);
        }
        let target = Place {
            span: self.since(start),
            path,
            fields,
        };
        self.open(Delim::Bracket)?;
        let subs = self.list1(Delim::Bracket, "an index expression", |p| {
            if p.is("..") {
                let text = "a store names each axis of its state";
                let diag = Diag::new(Code::Syntax, p.span(), text);
                let help =
                    "declare the state with axes of their own, `f32[B, C]`, not with a `..L`";
                return Err(Box::new(diag.help(help)));
            }
            let low = p.expr()?;
            if p.is("..") || p.is(":") {
                let text = "a position of a store is that of one element";
                let diag = Diag::new(Code::Syntax, p.span(), text);
                let help = format!("say it for each: `{low} + s`, with `s` in the value");
                return Err(Box::new(diag.help(help)));
            }
            Ok(low)
        })?;
        let value = match self.compound(self.at) {
            Some(op) => self.store_compound(&target, &subs, op)?,
            None => {
                self.expect("=")?;
                self.expr()?
            }
        };
        self.semicolon(&value)?;
        Ok(StmtKind::Store {
            target,
            subs,
            value,
        })
    }

    fn carry(&mut self) -> Parse<StmtKind> {
        let targets = if self.is_open(Delim::Paren) {
            self.at += 1;
            self.list1(Delim::Paren, "a name", |p| p.ident("a name"))?
        } else {
            vec![self.ident("a name")?]
        };
        if self.compound(self.at).is_some() {
            return Err(Box::new(self.carry_compound(&targets[0])));
        }
        self.expect("=")?;
        let call = self.expr()?;
        self.semicolon(&call)?;
        let ExprKind::Call { path, args } = call.kind else {
            let text = "an assignment without `let` calls a block";
            let diag = Diag::new(Code::Syntax, call.span, text);
            let name = &targets[0];
            let store = self
                .whole_store(name, &call)
                .filter(|_| self.loops == 0 && targets.len() == 1);
            if store.is_some() {
                return Err(Box::new(diag.fixes(store)));
            }
            // A `let` in a loop would last for one round of it.
            return Err(Box::new(match as_name(&call) {
                _ if self.loops > 0 => diag.help(format!(
                    "a loop carries the result of a block: make what a round does a `fn`, and call \
                     it, `{name} = step({name});`"
                )),
                Some(_) if targets.len() == 1 => {
                    let help = format!("write `let {name} = {call};`");
                    diag.fix(Fix::before(name.span, "let ", &help))
                }
                _ => diag.help(format!(
                    "`let {name}[…] = {call};` defines a new tensor; a state is stored into by its \
                     elements, `{name}[0] = …;`"
                )),
            }));
        };
        Ok(StmtKind::Carry {
            targets,
            path,
            args,
        })
    }

    /// The result: a name or a tuple of names, behind which the block closes, or what stands there
    /// instead.
    fn result(&mut self, end: usize) -> Parse<Result<ResultNames, Expr>> {
        if self.is_word("return") && self.is_name_at(self.at + 1) {
            let text = "the last line of a block is its result, without `return`";
            let last = match self.is_at(self.at + 2, ";") {
                true => self.at + 2,
                false => self.at + 1,
            };
            let place = self.span().join(self.buffer.span(last));
            let name = self.peek_at(self.at + 1).map(Tok::to_string);
            let fix = name.map(|name| Fix::replace(place, name, "write {}"));
            let fix = fix.filter(|_| last + 1 == end);
            return Err(Box::new(
                Diag::new(Code::Syntax, self.span(), text).fixes(fix),
            ));
        }
        let value = self.expr()?;
        if self.at != end {
            if self.is(",") {
                return self.bare_result(value, end);
            }
            if self.is(";") {
                let text = "expected a statement: `let`, a store, an assignment or `for`";
                let diag = Diag::new(Code::Syntax, value.span, text);
                let last = self.at + 1 == end && as_name(&value).is_some();
                let help = "the result stands without `;`";
                let fix = last.then(|| Fix::replace(self.span(), "", help));
                return Err(Box::new(diag.fixes(fix)));
            }
            return self.unexpected("`;` or the end of the block");
        }
        let span = value.span;
        let names: Option<Vec<Ident>> = match &value.kind {
            ExprKind::Tuple(items) => items.iter().map(as_name).collect(),
            ExprKind::Paren(inner) => as_name(inner).map(|name| vec![name]),
            _ => as_name(&value).map(|name| vec![name]),
        };
        Ok(names.map(|names| ResultNames { names, span }).ok_or(value))
    }

    /// `a, b` behind what was read of it, read as `(a, b)`.
    fn bare_result(&mut self, first: Expr, end: usize) -> Parse<Result<ResultNames, Expr>> {
        let mut items = vec![first];
        while self.eat(",") && self.at != end {
            items.push(self.expr()?);
        }
        let names: Option<Vec<Ident>> = items.iter().map(as_name).collect();
        let (Some(names), true) = (names, self.at == end) else {
            return self.unexpected("`;` or the end of the block");
        };
        let span = names[0].span.join(names[names.len() - 1].span);
        let shown: Vec<&str> = names.iter().map(Ident::as_str).collect();
        let help = format!("write `({})`", shown.join(", "));
        let fix = Fix::wrap(span, "(", ")", "", &help);
        self.slip(span, "several results stand in parentheses", fix);
        Ok(Ok(ResultNames { names, span }))
    }
}

fn as_name(expr: &Expr) -> Option<Ident> {
    match &expr.kind {
        ExprKind::Name(place) => place.as_ident().cloned(),
        _ => None,
    }
}

/// Gives an index on the left its range, if it is there without one.
fn ranged_left(left: &mut LeftIndex, name: &str, extent: &Dim) -> bool {
    match left {
        LeftIndex::Index(decl) => ranged_decl(decl, name, extent),
        LeftIndex::Merged(parts, _) => parts.iter_mut().any(|part| ranged_left(part, name, extent)),
        LeftIndex::Rest(_) => false,
    }
}

fn ranged_decl(decl: &mut IndexDecl, name: &str, extent: &Dim) -> bool {
    let own = decl.name.as_str() == name && decl.extent.is_none();
    if own {
        decl.extent = Some(extent.clone());
    }
    own
}

/// Gives an index of a reduction its range.
fn ranged(e: &mut Expr, name: &str, extent: &Dim) -> bool {
    if let ExprKind::Reduce(reduce) = &mut e.kind {
        let mut indices = reduce.indices.iter_mut();
        if indices.any(|decl| ranged_decl(decl, name, extent)) {
            return true;
        }
    }
    let mut children = e.children_mut().into_iter();
    children.any(|e| ranged(e, name, extent))
}
