//! Generics: dims and dtype variables.

use super::foreign::class;
use super::{Parse, Parser};
use crate::syntax::ast::{DtypeClass, Generic, Ident};
use crate::syntax::diag::{Code, Diag, Fix};
use crate::syntax::token::{Delim, Tok};

impl Parser {
    /// `<…>`, if any.
    pub(super) fn generics(&mut self) -> Parse<Vec<Generic>> {
        let mut generics = Vec::new();
        if self.is_open(Delim::Bracket) {
            let (open, close) = (self.span(), self.buffer.span(self.buffer.partner(self.at)));
            let diag = Diag::new(Code::Syntax, open, "generics stand in `<` and `>`");
            let help = format!("write `<{}>`", self.inside(self.at));
            let fix = Fix::replace(open, "<", &help).and(close, ">");
            return Err(Box::new(diag.fix(fix)));
        }
        if !self.eat("<") {
            return Ok(generics);
        }
        loop {
            generics.push(self.generic()?);
            if !self.is(">") && !self.is(">=") {
                self.separator(">")?;
            }
            if self.is(">") || self.is(">=") {
                break;
            }
        }
        self.close_angle()?;
        self.dtype_vars = generics
            .iter()
            .filter_map(|generic| match generic {
                Generic::Dtype(name, _) => Some(name.name.clone()),
                _ => None,
            })
            .collect();
        Ok(generics)
    }

    fn generic(&mut self) -> Parse<Generic> {
        let is_dim = self.is_word("dim") && !self.is_at(self.at + 1, ":");
        if is_dim {
            self.at += 1;
            return Ok(match self.eat("..") {
                true => Generic::Rest(self.ident("a dim")?),
                false => Generic::Dim(self.ident("a dim").and_then(|dim| self.bare_dim(dim))?),
            });
        }
        if self.is_word("const") && self.is_name_at(self.at + 1) {
            return self.const_generic();
        }
        let begins = matches!(self.peek_at(self.at - 1), Some(Tok::Punct("<" | ",")));
        if self.is("..") && self.is_name_at(self.at + 1) && begins {
            let dots = self.span();
            self.at += 1;
            let name = self.ident("a dim")?;
            let fix = Fix::before(dots, "dim ", "write {}");
            self.slip(dots.join(name.span), "a dim is declared by `dim`", fix);
            return Ok(Generic::Rest(name));
        }
        let name = self.ident("`dim` or a dtype variable")?;
        if !self.is(":") {
            return Ok(self.bare_generic(name));
        }
        self.at += 1;
        let class = self.class()?;
        Ok(Generic::Dtype(name, class))
    }

    /// `Float` or `Int`, or the bound that stands there instead.
    fn class(&mut self) -> Parse<DtypeClass> {
        let found = self.peek().map(Tok::to_string).unwrap_or_default();
        let diag = self.unexpected_diag("`Float` or `Int`");
        let Some(meant) = class(&found) else {
            let help = "a dtype variable is any float, `Float`, or any integer, `Int`";
            return Err(Box::new(diag.help(help)));
        };
        let start = self.span();
        self.at += 1;
        if self.is("+") {
            while !self.is(",") && !self.is(">") && self.at < self.end {
                self.at = self.buffer.after_tree(self.at);
            }
        }
        let span = self.since(start);
        if span != start || found != meant {
            let text = "a dtype variable is `Float` or `Int`";
            self.slip(span, text, Fix::replace(span, meant, "write {}"));
        }
        Ok(match meant {
            "Int" => DtypeClass::Int,
            _ => DtypeClass::Float,
        })
    }

    /// A dim among the generics, without what other languages have behind it: `: usize`, `= 4`.
    fn bare_dim(&mut self, dim: Ident) -> Parse<Ident> {
        let start = self.span();
        if self.eat(":") {
            self.path("a type")?;
            // `dim N: T: Float`
            if self.is(":") {
                let diag = Diag::new(Code::Syntax, start, "generics are separated by `,`");
                return Err(Box::new(diag.fix(Fix::replace(start, ",", "write {}"))));
            }
            let fix = Fix::replace(self.since(start), "", "leave it out");
            self.slip(self.since(start), "a dim is a number of type `usize`", fix);
        }
        let start = self.span();
        if self.eat("=") {
            let value = self.dim()?;
            let span = self.since(start);
            let diag = Diag::new(Code::Syntax, span, "a dim has no default");
            let open = self.next_brace();
            let help = format!("write `where {dim} == {value}` before the `{{`");
            let fix = self.clause_fix(open, &format!("{dim} == {value}"), &help);
            self.diags.push(diag.fix(fix.and(span, "")));
        }
        Ok(dim)
    }

    /// A generic without its `dim`, which is reported and read as if it were there; a dtype
    /// variable without its class.
    fn bare_generic(&mut self, name: Ident) -> Generic {
        let text = format!("`{name}` is declared neither as a dim nor as a dtype variable");
        let diag = Diag::new(Code::Syntax, name.span, text);
        // `N D`: another language's words for a size before its name.
        if self.is_name_at(self.at)
            && let Ok(size) = self.ident("a dim")
        {
            let help = format!("a size is declared by `dim {size}`");
            self.diags
                .push(diag.fix(Fix::replace(name.span, "dim", &help)));
            return Generic::Dim(size);
        }
        if self.is_dtype(&name) {
            let help = format!("a dtype variable is declared by `{name}: Float` or `{name}: Int`");
            self.diags
                .push(diag.fix(Fix::after(name.span, ": Float", &help)));
            return Generic::Dtype(name, DtypeClass::Float);
        }
        let help = format!("a size is declared by `dim {name}`");
        self.diags
            .push(diag.fix(Fix::before(name.span, "dim ", &help)));
        Generic::Dim(name)
    }

    /// `const N: usize`, which is reported and read as `dim N`.
    fn const_generic(&mut self) -> Parse<Generic> {
        let start = self.span();
        self.at += 1;
        let name = self.ident("a dim")?;
        if self.eat(":") {
            self.path("a type")?;
        }
        let span = self.since(start);
        let text = format!("`{name}` is declared as in Rust");
        let (size, help) = (
            format!("dim {name}"),
            format!("a size is declared by `dim {name}`"),
        );
        let diag = Diag::new(Code::Syntax, span, text);
        self.diags.push(diag.fix(Fix::replace(span, size, &help)));
        Ok(Generic::Dim(name))
    }

    /// Does the item use the generic as a dtype, `T[…]` or `: T`?
    fn is_dtype(&self, name: &Ident) -> bool {
        let mut at = self.at;
        while let Some(tok) = self
            .peek_at(at)
            .filter(|tok| **tok != Tok::Open(Delim::Brace))
        {
            let before = at.checked_sub(1);
            let typed = before.is_some_and(|at| self.is_at(at, ":") || self.is_at(at, "->"));
            let axes = self.peek_at(at + 1) == Some(&Tok::Open(Delim::Bracket));
            if matches!(tok, Tok::Ident(word) if *word == name.name) && (typed || axes) {
                return true;
            }
            at += 1;
        }
        false
    }
}
