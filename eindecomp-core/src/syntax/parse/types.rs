//! Types, extents, generics and `where` clauses.

use super::cursor::AttrPlace;
use super::{Parse, Parser};
use crate::ein::DType;
use crate::syntax::ast::{
    Clause, ClauseKind, CmpOp, Dim, DimKind, DimOp, DtypeClass, Field, Generic, Ident, Param, Path,
    RType, Type, TypeKind,
};
use crate::syntax::diag::{Code, Diag, Fix};
use crate::syntax::token::{Delim, Span, Tok};

impl Parser {
    /// `<…>`, if any.
    pub(super) fn generics(&mut self) -> Parse<Vec<Generic>> {
        let mut generics = Vec::new();
        if !self.eat("<") {
            return Ok(generics);
        }
        loop {
            generics.push(self.generic()?);
            if !self.eat(",") {
                break;
            }
            if self.is(">") {
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
                false => Generic::Dim(self.ident("a dim")?),
            });
        }
        if self.is_word("const") && self.is_name_at(self.at + 1) {
            return self.const_generic();
        }
        let name = self.ident("`dim` or a dtype variable")?;
        if !self.is(":") {
            return Ok(self.bare_generic(name));
        }
        self.at += 1;
        let class = match self.peek() {
            Some(Tok::Ident(word)) if **word == *"Float" => DtypeClass::Float,
            Some(Tok::Ident(word)) if **word == *"Int" => DtypeClass::Int,
            _ => return self.unexpected("`Float` or `Int`"),
        };
        self.at += 1;
        Ok(Generic::Dtype(name, class))
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

    pub(super) fn param(&mut self) -> Parse<Param> {
        let attrs = self.attrs(AttrPlace::Param);
        let name = self.ident("a parameter")?;
        self.take(&name);
        self.expect(":")?;
        Ok(Param {
            attrs,
            name,
            ty: self.ty()?,
        })
    }

    pub(super) fn field(&mut self) -> Parse<Field> {
        let attrs = self.attrs(AttrPlace::Field);
        if self.is_word("pub") {
            let text = "a field is as visible as its struct";
            let diag = Diag::new(Code::Syntax, self.span(), text);
            let fix = Fix::replace(self.span(), "", "leave out the `pub`");
            return Err(Box::new(diag.fix(fix)));
        }
        let name = self.ident("a field")?;
        self.expect(":")?;
        Ok(Field {
            attrs,
            name,
            ty: self.ty()?,
        })
    }

    pub(super) fn ty(&mut self) -> Parse<Type> {
        let start = self.span();
        let kind = self.nested(Self::type_kind)?;
        Ok(Type {
            kind,
            span: self.since(start),
        })
    }

    fn type_kind(&mut self) -> Parse<TypeKind> {
        if self.is_open(Delim::Bracket) {
            self.at += 1;
            let element = self.ty()?;
            self.expect(";")?;
            let length = self.dim()?;
            self.close(Delim::Bracket)?;
            return Ok(TypeKind::Array(Box::new(element), length));
        }
        if self.is("&") {
            self.reference();
        }
        let start = self.span();
        let path = self.path("a type")?;
        if self.is_open(Delim::Bracket) {
            let Some(dtype) = path.as_ident().cloned() else {
                let text = format!("expected a dtype before the axes, found `{path}`");
                return self.fail(Code::UnknownType, path.span, text);
            };
            self.at += 1;
            let mut axes = self.list(Delim::Bracket, Self::dim)?;
            if self.is_open(Delim::Bracket) {
                while self.is_open(Delim::Bracket) {
                    self.at += 1;
                    axes.extend(self.list(Delim::Bracket, Self::dim)?);
                }
                let text = "all axes of a tensor stand in one pair of brackets";
                return Ok(self.as_tensor(start, text, dtype, axes));
            }
            let axes = Some(axes);
            return Ok(TypeKind::Tensor { dtype, axes });
        }
        if self.eat("<") {
            if let Some(dtype) = self.element(&path) {
                let axes = self.list_of_extents()?;
                self.close_angle()?;
                if axes.is_empty() {
                    let text = format!("`{path}` is no type of this language");
                    let diag = Diag::new(Code::UnknownType, self.since(start), text);
                    let help = format!("a tensor's type is a dtype and its extents: `{dtype}[N]`");
                    return Err(Box::new(diag.help(help)));
                }
                let text = "a tensor's type is a dtype and its extents in brackets";
                return Ok(self.as_tensor(start, text, dtype, axes));
            }
            let mut args = vec![self.dim()?];
            while self.eat(",") && !self.is(">") {
                args.push(self.dim()?);
            }
            self.close_angle()?;
            return Ok(TypeKind::Struct { path, args });
        }
        match path.as_ident() {
            Some(name) if !self.names_struct(name.as_str()) => Ok(TypeKind::Tensor {
                dtype: name.clone(),
                axes: None,
            }),
            _ => Ok(TypeKind::Struct {
                path,
                args: Vec::new(),
            }),
        }
    }

    /// Takes the `&` in front of a type, which is reported and read as if it were not there.
    fn reference(&mut self) {
        let start = self.span();
        self.at += 1;
        if self.is("'") {
            self.at += 2;
        }
        self.eat_word("mut");
        let diag = Diag::new(Code::Syntax, self.since(start), "types have no references");
        let fix = Fix::replace(self.since(start), "", "leave it out");
        self.diags.push(diag.fix(fix));
    }

    /// The dtype in `Tensor<f32, N>` and `f32<N>`, behind whose `<` this is. A struct has no dtype
    /// among its arguments. The comma behind it is taken.
    fn element(&mut self, path: &Path) -> Option<Ident> {
        let is_dtype = |name: &str| {
            DType::from_name(name).is_some() || self.dtype_vars.iter().any(|var| **var == *name)
        };
        if let Some(name) = path.as_ident().filter(|name| is_dtype(name.as_str())) {
            return Some(name.clone());
        }
        let Some(Tok::Ident(word)) = self.peek() else {
            return None;
        };
        if !is_dtype(word) || !(self.is_at(self.at + 1, ",") || self.is_at(self.at + 1, ">")) {
            return None;
        }
        let dtype = self.ident("a dtype").ok();
        self.eat(",");
        dtype
    }

    /// Extents up to a `>`, with or without brackets around them.
    fn list_of_extents(&mut self) -> Parse<Vec<Dim>> {
        let mut axes = Vec::new();
        while !self.is(">") {
            if self.is_open(Delim::Bracket) {
                self.at += 1;
                axes.extend(self.list(Delim::Bracket, Self::dim)?);
            } else {
                axes.push(self.dim()?);
            }
            if !self.eat(",") {
                break;
            }
        }
        Ok(axes)
    }

    /// A tensor's type, written in another way from `start` on, which is reported.
    fn as_tensor(&mut self, start: Span, text: &str, dtype: Ident, axes: Vec<Dim>) -> TypeKind {
        let span = self.since(start);
        let shown: Vec<String> = axes.iter().map(Dim::to_string).collect();
        let fix = Fix::replace(span, format!("{dtype}[{}]", shown.join(", ")), "write {}");
        self.diags
            .push(Diag::new(Code::Syntax, span, text).fix(fix));
        let axes = Some(axes);
        TypeKind::Tensor { dtype, axes }
    }

    fn names_struct(&self, name: &str) -> bool {
        name.starts_with(char::is_uppercase) && !self.dtype_vars.iter().any(|var| **var == *name)
    }

    pub(super) fn rtype(&mut self) -> Parse<RType> {
        let start = self.span();
        let types = if self.is_open(Delim::Paren) {
            self.at += 1;
            self.list1(Delim::Paren, "a type", Self::ty)?
        } else {
            vec![self.ty()?]
        };
        Ok(RType {
            types,
            span: self.since(start),
        })
    }

    /// `where …`, if any.
    pub(super) fn clauses(&mut self) -> Parse<Vec<Clause>> {
        let mut clauses = Vec::new();
        if self.eat_word("where") {
            loop {
                clauses.push(self.clause()?);
                if !self.eat(",") || self.is_open(Delim::Brace) {
                    break;
                }
            }
        }
        Ok(clauses)
    }

    fn clause(&mut self) -> Parse<Clause> {
        let start = self.span();
        let kind = if self.is_word("dim") && self.is_name_at(self.at + 1) {
            self.at += 1;
            let name = self.ident("a dim")?;
            self.expect("=")?;
            ClauseKind::Define(name, self.dim()?)
        } else {
            let left = self.dim()?;
            let Some(op) = self.comparison().filter(|op| *op != CmpOp::Ne) else {
                return self.unexpected("`==`, `<=`, `>=`, `<` or `>`");
            };
            self.at += 1;
            ClauseKind::Compare(left, op, self.dim()?)
        };
        Ok(Clause {
            kind,
            span: self.since(start),
        })
    }

    /// The comparison that stands here, not taken.
    pub(super) fn comparison(&self) -> Option<CmpOp> {
        let Some(Tok::Punct(punct)) = self.peek() else {
            return None;
        };
        Some(match *punct {
            "==" => CmpOp::Eq,
            "!=" => CmpOp::Ne,
            "<" => CmpOp::Lt,
            "<=" => CmpOp::Le,
            ">" => CmpOp::Gt,
            ">=" => CmpOp::Ge,
            _ => return None,
        })
    }

    pub(super) fn dim(&mut self) -> Parse<Dim> {
        let start = self.span();
        let mut left = self.dim_product()?;
        loop {
            let op = match self.peek() {
                Some(Tok::Punct("+")) => DimOp::Add,
                Some(Tok::Punct("-")) => DimOp::Sub,
                _ => return Ok(left),
            };
            self.at += 1;
            self.operator()?;
            let right = self.dim_product()?;
            let kind = DimKind::Binary(op, Box::new(left), Box::new(right));
            left = Dim {
                kind,
                span: self.since(start),
            };
        }
    }

    fn dim_product(&mut self) -> Parse<Dim> {
        let start = self.span();
        let mut left = self.dim_atom()?;
        loop {
            let op = match self.peek() {
                Some(Tok::Punct("*")) => DimOp::Mul,
                Some(Tok::Punct("/")) => DimOp::Div,
                Some(Tok::Punct("%")) => DimOp::Rem,
                _ => return Ok(left),
            };
            self.at += 1;
            self.operator()?;
            let right = self.dim_atom()?;
            let kind = DimKind::Binary(op, Box::new(left), Box::new(right));
            left = Dim {
                kind,
                span: self.since(start),
            };
        }
    }

    fn dim_atom(&mut self) -> Parse<Dim> {
        let start = self.span();
        let kind = match self.peek() {
            Some(Tok::Punct("-")) => {
                self.at += 1;
                DimKind::Neg(Box::new(self.nested(Self::dim_atom)?))
            }
            Some(Tok::Punct("..")) => {
                self.at += 1;
                DimKind::Rest(self.ident("a dim after `..`")?)
            }
            Some(Tok::Open(Delim::Paren)) => {
                self.at += 1;
                let inner = self.nested(Self::dim)?;
                self.close(Delim::Paren)?;
                DimKind::Paren(Box::new(inner))
            }
            Some(Tok::Literal(_)) => DimKind::Int(self.integer("an extent")?),
            _ => DimKind::Name(self.path("an extent")?),
        };
        Ok(Dim {
            kind,
            span: self.since(start),
        })
    }
}
