//! Types.

use super::attrs::AttrPlace;
use super::{Parse, Parser};
use crate::ein::DType;
use crate::syntax::ast::{Dim, Field, Ident, Param, Path, RType, Type, TypeKind};
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
}
