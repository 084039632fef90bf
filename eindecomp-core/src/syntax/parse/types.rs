//! Types, extents, generics and `where` clauses.

use super::attrs::AttrPlace;
use super::foreign::class;
use super::{Parse, Parser};
use crate::ein::DType;
use crate::syntax::ast::{
    BinaryOp, Clause, ClauseKind, CmpOp, Dim, DimKind, DimOp, DtypeClass, Field, Generic, Ident,
    Param, Path, RType, Type, TypeKind,
};
use crate::syntax::diag::{Code, Diag, Fix};
use crate::syntax::token::{Delim, Span, Tok};

/// Is it a type of Rust or Python around another one?
fn is_container(name: &str) -> bool {
    matches!(
        name,
        "Vec" | "List" | "list" | "Array" | "Option" | "Box" | "Rc" | "Arc"
    )
}

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

    pub(super) fn param(&mut self) -> Parse<Param> {
        let attrs = self.attrs(AttrPlace::Param);
        let param = self.typed(attrs)?;
        self.take(&param.name);
        Ok(param)
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

    /// `[f32; N, D]` behind its dtype, which is reported and read as `f32[N, D]`.
    fn axes_behind(&mut self, element: &Type) -> Parse<Option<TypeKind>> {
        let TypeKind::Tensor { dtype, axes: None } = &element.kind else {
            return Ok(None);
        };
        let Some(open) = self.at.checked_sub(2) else {
            return Ok(None);
        };
        let mut inside = self.at..self.buffer.partner(open);
        if !self.is(";") || !inside.any(|at| self.is_at(at, ",")) {
            return Ok(None);
        }
        let start = self.buffer.span(open);
        self.at += 1;
        let axes = self.list(Delim::Bracket, Self::dim)?;
        let text = "the axes of a tensor stand behind its dtype";
        Ok(Some(self.as_tensor(start, text, dtype.clone(), axes)))
    }

    fn type_kind(&mut self) -> Parse<TypeKind> {
        if self.is_open(Delim::Bracket) {
            self.at += 1;
            let element = self.ty()?;
            if let Some(axes) = self.axes_behind(&element)? {
                return Ok(axes);
            }
            if self.is(",") {
                let fix = Fix::replace(self.span(), ";", "write {}");
                self.slip(self.span(), "an array's length stands behind a `;`", fix);
                self.at += 1;
            } else {
                self.expect(";")?;
            }
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
        if self.is("::") && self.is_at(self.at + 1, "<") {
            let fix = Fix::replace(self.span(), "", "leave it out");
            self.slip(self.span(), "a struct's dims stand behind its name", fix);
            self.at += 1;
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
            if path
                .as_ident()
                .is_some_and(|name| is_container(name.as_str()))
            {
                return Err(Box::new(self.container(&path)?));
            }
            let mut args = vec![self.dim()?];
            while self.eat(",") && !self.is(">") {
                args.push(self.dim()?);
            }
            self.close_angle()?;
            return Ok(TypeKind::Struct { path, args });
        }
        if let Some(dtype) = path.as_ident()
            && let Some(kind) = self.axes_in_parens(dtype)?
        {
            return Ok(kind);
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

    /// The error about `Vec<T>`, behind whose `<` this is.
    fn container(&mut self, path: &Path) -> Parse<Diag> {
        let inner = self.ty()?;
        let text = format!("`{path}` is no type of this language");
        let diag = Diag::new(Code::UnknownType, path.span, text);
        Ok(diag.help(match path.to_string().as_str() {
            "Option" | "Box" | "Rc" | "Arc" => {
                format!("write `{inner}`: nothing is left out or shared")
            }
            _ => format!("an array of structs has a length, `[{inner}; N]`"),
        }))
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
    pub(super) fn as_tensor(
        &mut self,
        start: Span,
        text: &str,
        dtype: Ident,
        axes: Vec<Dim>,
    ) -> TypeKind {
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
        let mut types = if self.is_open(Delim::Paren) {
            self.at += 1;
            self.list1(Delim::Paren, "a type", Self::ty)?
        } else {
            vec![self.ty()?]
        };
        if self.is(",") {
            self.more_results(&mut types)?;
        }
        Ok(RType {
            types,
            span: self.since(start),
        })
    }

    /// `where …`, if any.
    pub(super) fn clauses(&mut self) -> Parse<Vec<Clause>> {
        let mut clauses = Vec::new();
        if self.eat_clauses() {
            loop {
                clauses.push(self.clause()?);
                if self.is("&&") || self.is("&") || self.is_word("and") {
                    let fix = Fix::replace(self.span(), ",", "clauses are separated by {}");
                    self.slip(self.span(), "each clause must hold", fix);
                    self.at += 1;
                    continue;
                }
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
            let op = self.clause_op()?;
            ClauseKind::Compare(left, op, self.dim()?)
        };
        Ok(Clause {
            kind,
            span: self.since(start),
        })
    }

    /// Takes the `where` in front of clauses; another language's word is reported.
    fn eat_clauses(&mut self) -> bool {
        let foreign = ["requires", "require", "given", "with", "if"];
        if foreign.iter().any(|word| self.is_word(word)) {
            let fix = Fix::replace(self.span(), "where", "write {}");
            self.slip(self.span(), "what must hold stands behind `where`", fix);
            self.at += 1;
            return true;
        }
        self.eat_word("where")
    }

    fn clause_op(&mut self) -> Parse<CmpOp> {
        let foreign = match self.foreign_operator() {
            Some((BinaryOp::Cmp(op), tokens)) => Some((op, tokens)),
            _ => self.is("=").then_some((CmpOp::Eq, 1)),
        };
        if let Some((op, tokens)) = foreign.filter(|(op, _)| *op != CmpOp::Ne) {
            let start = self.span();
            self.at += tokens;
            self.respelt(self.since(start), BinaryOp::Cmp(op))?;
            return Ok(op);
        }
        let Some(op) = self.comparison().filter(|op| *op != CmpOp::Ne) else {
            let diag = self.unexpected_diag("`==`, `<=`, `>=`, `<` or `>`");
            return Err(Box::new(match self.is("!=") {
                true => {
                    diag.help("a clause says what a size is: that it is another one cannot be used")
                }
                false => diag,
            }));
        };
        self.at += 1;
        Ok(op)
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
                self.third_dot();
                DimKind::Rest(self.ident("a dim after `..`")?)
            }
            Some(Tok::Open(Delim::Paren)) => {
                self.at += 1;
                let inner = self.nested(Self::dim)?;
                if self.is(",") {
                    return self.merged_extent(start, inner);
                }
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
