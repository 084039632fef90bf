//! Declarations as other languages write them: parameters, results, extents, scalar functions.

use super::attrs::AttrPlace;
use super::{Parse, Parser};
use crate::ein::DType;
use crate::syntax::ast::{
    Attr, AttrKind, Dim, DimKind, DimOp, Expr, ExprKind, Ident, Param, Pattern, Place, Stmt,
    StmtKind, Type, TypeKind,
};
use crate::syntax::diag::{Code, Diag, Fix};
use crate::syntax::token::{Delim, Span, Tok};

impl Parser {
    /// `(H, E)` behind its first member, which is reported and read as `H * E`.
    pub(super) fn merged_extent(&mut self, start: Span, first: Dim) -> Parse<Dim> {
        let mut all = vec![first];
        while self.eat(",") && !self.is_close(Delim::Paren) {
            all.push(self.nested(Self::dim)?);
        }
        self.close(Delim::Paren)?;
        let span = self.since(start);
        let factors = all.into_iter().map(|dim| match dim.kind {
            DimKind::Binary(..) | DimKind::Neg(_) => Dim {
                span: dim.span,
                kind: DimKind::Paren(Box::new(dim)),
            },
            _ => dim,
        });
        let product = factors.reduce(|a, b| Dim {
            kind: DimKind::Binary(DimOp::Mul, Box::new(a), Box::new(b)),
            span,
        });
        let Some(product) = product else {
            return self.unexpected("an extent");
        };
        let text = "an axis has one extent: it is merged where it is read, `x[b, (h, e)]`";
        let shown = product.to_string();
        // In a product of more it keeps its parentheses.
        let lone = |at: usize| {
            matches!(
                self.peek_at(at),
                Some(Tok::Punct("," | ">" | ";") | Tok::Close(_))
            )
        };
        let shown = match lone(self.at) {
            true => shown,
            false => format!("({shown})"),
        };
        self.slip(span, text, Fix::replace(span, shown, "write {}"));
        Ok(product)
    }

    /// A parameter behind its attributes, of which there may be more where other languages have
    /// them.
    pub(super) fn typed(&mut self, mut attrs: Vec<Attr>) -> Parse<Param> {
        attrs.extend(self.bare_role());
        let rebound = self.rebound();
        if let Some((name, ty)) = self.type_first()? {
            return Ok(Param { attrs, name, ty });
        }
        let name = self.ident("a parameter")?;
        if let Some(place) = rebound {
            self.mutable_param(place, &name);
        }
        if self.is(",") || self.is_close(Delim::Paren) {
            return self.untyped(attrs, name);
        }
        if self.is_name_at(self.at) {
            let diag = self.unexpected_diag("`:`");
            self.diags
                .push(diag.fix(Fix::after(name.span, ":", "add {}")));
        } else {
            self.expect(":")?;
        }
        attrs.extend(self.late_attributes(name.span)?);
        let ty = self.ty()?;
        if self.is("=") {
            let start = self.span();
            self.at += 1;
            self.expr()?;
            let span = self.since(start);
            let fix = Fix::replace(span, "", "leave it out: whatever is fixed is a Rust const");
            self.slip(span, "a parameter has no default", fix);
        }
        Ok(Param { attrs, name, ty })
    }

    /// `weight w` and `@weight w`, reported.
    fn bare_role(&mut self) -> Option<Attr> {
        let start = self.span();
        let word = self.at + usize::from(self.is("@") || self.is("#"));
        if !self.is_bare_role(word) {
            return None;
        }
        let kind = match self.peek_at(word) {
            Some(Tok::Ident(role)) if &**role == "weight" => AttrKind::Weight,
            Some(Tok::Ident(role)) if &**role == "state" => AttrKind::State,
            _ => AttrKind::Host,
        };
        self.at = word + 1;
        let span = self.since(start);
        let attr = Attr { kind, span };
        let fix = Fix::replace(span, attr.to_string(), "write {}");
        self.slip(span, "what a parameter is for is an attribute", fix);
        Some(attr)
    }

    /// Does the word at `at` say what the parameter behind it is for?
    pub(super) fn is_bare_role(&self, at: usize) -> bool {
        let mut roles = ["weight", "state", "host"].into_iter();
        roles.any(|role| self.is_word_at(at, role)) && self.is_name_at(at + 1)
    }

    pub(super) fn is_dtype_at(&self, at: usize) -> bool {
        matches!(self.peek_at(at), Some(Tok::Ident(word)) if DType::from_name(word).is_some())
    }

    /// The `mut` in front of a parameter.
    fn rebound(&mut self) -> Option<Span> {
        let span = self.span();
        let found = self.is_word("mut") && self.is_name_at(self.at + 1);
        self.at += usize::from(found);
        found.then_some(span)
    }

    fn mutable_param(&mut self, place: Span, name: &Ident) {
        let diag = Diag::new(Code::Syntax, place, "a parameter is not `mut`");
        let text = format!("let mut {name} = {name};");
        let help = format!("begin the block with `{text}`");
        let open = self.buffer.span(self.next_brace());
        let begin = Fix::after(open, format!(" {text}"), &help);
        self.diags.push(diag.fix(begin.and(place, "")));
        self.rebound.push(name.clone());
    }

    /// The statements that parameters which are called `mut` stand for.
    pub(super) fn rebinding(&mut self) -> Vec<Stmt> {
        let rebound = std::mem::take(&mut self.rebound).into_iter();
        let stmt = |name: Ident| {
            let span = name.span;
            let place = Place {
                path: name.clone().into(),
                fields: Vec::new(),
                span,
            };
            let pat = Pattern {
                names: vec![name],
                indices: None,
                span,
            };
            let kind = ExprKind::Name(place);
            Stmt {
                attrs: Vec::new(),
                kind: StmtKind::Let {
                    mutable: Some(span),
                    pat,
                    ty: None,
                    value: Expr { kind, span },
                },
                span,
            }
        };
        rebound.map(stmt).collect()
    }

    /// The next `{` that stands in no bracket.
    pub(super) fn next_brace(&self) -> usize {
        let mut at = self.at;
        while at < self.end && self.peek_at(at) != Some(&Tok::Open(Delim::Brace)) {
            // Out of the brackets around.
            at = match self.peek_at(at) {
                Some(Tok::Close(_)) => at + 1,
                _ => self.buffer.after_tree(at),
            };
        }
        at
    }

    /// `f32[N] x`, which is reported.
    fn type_first(&mut self) -> Parse<Option<(Ident, Type)>> {
        let dtype = self.is_dtype_at(self.at);
        let after = self.buffer.after_tree(self.at + 1);
        let axes = self.peek_at(self.at + 1) == Some(&Tok::Open(Delim::Bracket));
        let named = match axes {
            true => self.is_name_at(after),
            false => self.is_name_at(self.at + 1),
        };
        if !dtype || !named {
            return Ok(None);
        }
        let ty = self.ty()?;
        let name = self.ident("a name")?;
        let span = ty.span.join(name.span);
        let fix = Fix::replace(span, format!("{name}: {ty}"), "write {}");
        self.slip(span, "the name stands in front of the type", fix);
        Ok(Some((name, ty)))
    }

    /// `w: #[weight] f32[N]`, reported.
    fn late_attributes(&mut self, name: Span) -> Parse<Vec<Attr>> {
        let attrs = self.attrs(AttrPlace::Param);
        for attr in &attrs {
            let help = format!("write `{attr}` in front of the name");
            let fix = Fix::before(name, format!("{attr} "), &help).and(attr.span, "");
            let text = "an attribute stands in front of the parameter";
            self.slip(attr.span, text, fix);
        }
        Ok(attrs)
    }

    /// `f32(N)`, behind its dtype, reported.
    pub(super) fn axes_in_parens(&mut self, dtype: &Ident) -> Parse<Option<TypeKind>> {
        if !self.is_open(Delim::Paren) || DType::from_name(dtype.as_str()).is_none() {
            return Ok(None);
        }
        self.at += 1;
        let axes = self.list(Delim::Paren, Self::dim)?;
        let text = "the axes of a tensor stand in brackets";
        Ok(Some(self.as_tensor(dtype.span, text, dtype.clone(), axes)))
    }

    /// More types behind the result's, `-> A, B`, reported; `types` are those before.
    pub(super) fn more_results(&mut self, types: &mut Vec<Type>) -> Parse<()> {
        let Some(first) = types.first().map(|ty| ty.span) else {
            return Ok(());
        };
        while self.eat(",") {
            types.push(self.ty()?);
        }
        let span = self.since(first);
        let shown: Vec<String> = types.iter().map(Type::to_string).collect();
        let help = format!("write `({})`", shown.join(", "));
        let fix = Fix::wrap(span, "(", ")", "", &help);
        self.slip(span, "several results stand in parentheses", fix);
        Ok(())
    }

    /// Is `fn mish(x) …` at its bracket: arguments without types?
    pub(super) fn is_untyped(&self) -> bool {
        let close = self.buffer.partner(self.at);
        let first = self.at + 1;
        let behind = first + 1;
        self.is_open(Delim::Paren)
            && self.is_name_at(first)
            && (self.is_at(behind, ",") || behind == close)
    }

    /// The `=` in front of the body of a scalar function, or what stands there instead. Gives the
    /// brace that is to be read as the `;`.
    pub(super) fn scalar_body(&mut self) -> Parse<Option<usize>> {
        let text = "the body of a scalar function stands behind a `=`";
        if self.is_open(Delim::Brace) {
            let close = self.buffer.partner(self.at);
            let fix = Fix::replace(self.span(), "=", "write `= …;`");
            let fix = fix.and(self.buffer.span(close), ";");
            self.slip(self.span(), text, fix);
            self.at += 1;
            return Ok(Some(close));
        }
        if self.is("->") {
            self.slip(
                self.span(),
                text,
                Fix::replace(self.span(), "=", "write {}"),
            );
            self.at += 1;
            return Ok(None);
        }
        self.expect("=").map(|()| None)
    }

    /// The error about the types in the head of a scalar function, at its `=`; its parameters
    /// begin at `open`.
    /// `x` in `x, y: f32[N]`, which is reported and read as of the type of the next that has one.
    fn untyped(&mut self, attrs: Vec<Attr>, name: Ident) -> Parse<Param> {
        let diag = self.unexpected_diag("`:` and a type");
        let (at, told) = (self.at, self.diags.len());
        while self.is(",") && self.is_name_at(self.at + 1) {
            self.at += 2;
        }
        let ty = self.eat(":").then(|| self.ty());
        self.at = at;
        self.diags.truncate(told);
        let Some(Ok(ty)) = ty else {
            return Err(Box::new(diag.help(format!(
                "each has its type: `{name}: f32[…]`, or `{name}: f32` for a single number"
            ))));
        };
        let fix = Fix::after(name.span, format!(": {ty}"), "each has its type: add {}");
        self.diags.push(diag.fix(fix));
        Ok(Param { attrs, name, ty })
    }

    pub(super) fn typed_scalar(&self, open: usize, params: &[Param]) -> Diag {
        let span = self.buffer.span(open).join(self.span());
        let names: Vec<&str> = params.iter().map(|param| param.name.as_str()).collect();
        let head = format!("({}) =", names.join(", "));
        let text = "a scalar function takes any dtype, so its head has no types";
        Diag::new(Code::Syntax, span, text).fix(Fix::replace(span, head, "write {}"))
    }
}
