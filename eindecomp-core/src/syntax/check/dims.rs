//! Extents as polynomials of dims and Rust consts.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::ranges::multiplies_exactly;
use super::tree::{Clause, Origin};
use crate::ein::{DType, Dim};
use crate::syntax::ast::{self, CmpOp, DimKind, DimOp};
use crate::syntax::diag::{Code, Diag, Fix};
use crate::syntax::names::nearest;
use crate::syntax::token::Span;

/// Numbers in extents and clauses are at most this, so that no sum of them leaves 64 bits.
const LARGEST: i64 = 1 << 53;

/// A `..` without its dim, or where none can stand.
pub(super) fn no_rest(span: Span, text: &str) -> Diag {
    let name = text.trim_start_matches("..").to_uppercase();
    let text = format!("`{text}` stands for the axes of no `dim ..{name}`");
    Diag::new(Code::UndefinedName, span, text).help(format!(
        "declare it, `fn …<dim ..{name}>(…)`, and write it as an axis of a tensor"
    ))
}

/// The refusal of a polynomial that is out of all proportion.
pub(super) fn too_long(span: Span) -> Diag {
    let text = "the extents here multiply out to hundreds of terms";
    Diag::new(Code::TooDeep, span, text).help("give a factor a name of its own: `dim …`")
}

/// What extents are resolved in, and what comes out beside them.
#[derive(Clone, Debug, Default)]
pub(super) struct DimScope {
    /// Declared dims, and loop variables that run over numbers.
    pub(super) dims: BTreeSet<Arc<str>>,
    /// `where dim X = …`
    pub(super) defs: BTreeMap<Arc<str>, Dim>,
    /// Rust consts met so far.
    pub(super) consts: BTreeMap<Arc<str>, ast::Path>,
    /// Conditions that arithmetic brings: divisors.
    pub(super) implicit: Vec<Clause>,
    /// Parameters without axes: numbers of a run.
    pub(super) numbers: BTreeSet<Arc<str>>,
    /// Parameters with axes, which are no sizes.
    pub(super) tensors: BTreeSet<Arc<str>>,
    /// Declared dims that no parameter mentions.
    pub(super) unused: Vec<Arc<str>>,
    /// Of its results, whose dims parameters give?
    pub(super) in_result: bool,
    /// Of a block's statements, where a lower-case letter may be meant as an index?
    pub(super) in_body: bool,
    /// Where a dim more would be declared, and how, `{}` being its name.
    pub(super) generics: Option<(Span, &'static str)>,
}

impl DimScope {
    /// An extent as a polynomial.
    pub(super) fn dim(&mut self, dim: &ast::Dim, errors: &mut Vec<Diag>) -> Option<Dim> {
        match &dim.kind {
            DimKind::Int(n) => match i64::try_from(*n) {
                Ok(n) if n <= LARGEST => Some(Dim::from(n)),
                _ => {
                    errors.push(Diag::new(
                        Code::Literal,
                        dim.span,
                        "this extent is too large",
                    ));
                    None
                }
            },
            DimKind::Name(path) => self.name(path, errors),
            DimKind::Rest(name) => {
                let mut diag = no_rest(dim.span, &dim.to_string());
                let is_dim = name.as_str().starts_with(char::is_uppercase);
                if let Some((place, text)) = self.generics.filter(|_| is_dim) {
                    let text = text.replace("{}", &format!("..{name}"));
                    diag.help = None;
                    diag = diag.fix(Fix::after(
                        place,
                        text,
                        &format!("declare it: `<dim ..{name}>`"),
                    ));
                }
                errors.push(diag);
                None
            }
            DimKind::Neg(inner) => Some(-&self.dim(inner, errors)?),
            DimKind::Paren(inner) => self.dim(inner, errors),
            DimKind::Binary(op, left, right) => {
                let (a, b) = (self.dim(left, errors), self.dim(right, errors));
                let (a, b) = (a?, b?);
                Some(match op {
                    DimOp::Add => &a + &b,
                    DimOp::Sub => &a - &b,
                    DimOp::Mul => match a.try_mul(&b) {
                        Some(product) if multiplies_exactly(&a, &b) => product,
                        _ => {
                            errors.push(too_long(dim.span));
                            return None;
                        }
                    },
                    DimOp::Div | DimOp::Rem => {
                        self.divisor(&b, right.span, errors)?;
                        if *op == DimOp::Div {
                            a.floor_div(&b)
                        } else {
                            a.rem(&b)
                        }
                    }
                })
            }
        }
    }

    /// Notes that `divisor` must be at least 1.
    pub(super) fn divisor(
        &mut self,
        divisor: &Dim,
        span: Span,
        errors: &mut Vec<Diag>,
    ) -> Option<()> {
        match divisor.as_const() {
            Some(n) if n >= 1 => {}
            Some(n) => {
                let text = format!("a divisor must be at least 1, but this one is {n}");
                let diag = Diag::new(Code::Extent, span, text);
                errors.push(diag.help("integer `/` and `%` round down"));
                return None;
            }
            None => self.implicit.push(Clause {
                left: divisor.clone(),
                cmp: CmpOp::Ge,
                right: Dim::from(1),
                origin: Origin::Divisor,
                span,
            }),
        }
        Some(())
    }

    /// The dim or const; of what is neither, the dim that is meant.
    fn name(&mut self, path: &ast::Path, errors: &mut Vec<Diag>) -> Option<Dim> {
        if let Some(known) = self.known(path) {
            return Some(known);
        }
        if is_const(path) && !self.is_misspelt(path) {
            return Some(self.constant(path));
        }
        let name = path.to_string();
        let number = self.numbers.contains(&*name);
        let text = match number {
            true => format!("`{path}` is a number of a run, on which no extent depends"),
            false => format!("dim `{path}` is not declared"),
        };
        let mut diag = Diag::new(Code::UndefinedName, path.span, text);
        let candidates = || self.dims.iter().chain(self.defs.keys()).map(|d| &**d);
        let (upper, mut known) = (name.to_uppercase(), None);
        if let Some(meant) = candidates().find(|d| **d == *upper) {
            let help = "did you mean {}? Dims are written in upper case";
            diag = diag.fix(Fix::replace(path.span, meant, help));
            known = self.named(meant);
        } else if number {
            diag = diag.help(
                "an extent is made of dims (`<dim N>`), literals and Rust consts; a number of a run \
                 stands in values and positions, `x[i + k]`",
            );
        } else if let Some(meant) = nearest(&name, candidates()) {
            diag = diag.fix(Fix::replace(path.span, meant, "did you mean {}?"));
            known = self.named(meant);
        } else if self.tensors.contains(&*name) {
            diag = diag.help(format!(
                "`{name}` is a tensor; an extent is made of dims: `<dim N>`"
            ));
        } else if let ([meant], false) = (&self.unused[..], self.in_body)
            && DType::from_name(&name).is_none()
        {
            diag = diag.fix(Fix::replace(path.span, &**meant, "did you mean {}?"));
        } else if let Some((place, text)) = self.generics
            && DType::from_name(&name).is_none()
            && (self.dims.is_empty() || name.len() > 1 || !self.in_body)
            && (!self.in_result || errors.iter().any(|e| e.message == diag.message))
        {
            let help = format!("declare it, in upper case: `<dim {upper}>`");
            let text = text.replace("{}", &upper);
            diag = diag.fix(Fix::replace(path.span, upper, &help).and(place, text));
        } else {
            diag = diag.help(format!("sizes are declared as `<dim {upper}>`"));
        }
        errors.push(diag);
        known
    }

    /// Is it like a dim, and not in capitals, as Rust's consts are?
    fn is_misspelt(&self, path: &ast::Path) -> bool {
        let small = |name: &&str| name.len() > 3 && name.contains(char::is_lowercase);
        let name = path.as_ident().map(|ident| ident.as_str());
        let dims = self.dims.iter().chain(self.defs.keys()).map(|dim| &**dim);
        name.filter(small)
            .is_some_and(|name| nearest(name, dims.filter(small)).is_some())
    }

    /// A declared or defined dim.
    pub(super) fn known(&self, path: &ast::Path) -> Option<Dim> {
        self.named(path.as_ident()?.as_str())
    }

    /// The declared or defined dim called `name`.
    pub(super) fn named(&self, name: &str) -> Option<Dim> {
        let symbol = || self.dims.get(name).map(|symbol| Dim::sym(symbol.clone()));
        self.defs.get(name).cloned().or_else(symbol)
    }

    /// The symbol of a Rust const.
    pub(super) fn constant(&mut self, path: &ast::Path) -> Dim {
        let text: Arc<str> = path.to_string().into();
        self.consts
            .entry(text.clone())
            .or_insert_with(|| path.clone());
        Dim::sym(text)
    }

    /// Does a dim have the name?
    pub(super) fn hides(&self, name: &str) -> bool {
        self.dims.contains(name) || self.defs.contains_key(name)
    }

    /// Are its symbols Rust consts alone, at least one?
    pub(super) fn only_consts(&self, dim: &Dim) -> bool {
        let symbols = dim.symbols();
        !symbols.is_empty() && symbols.iter().all(|s| self.consts.contains_key(s))
    }
}

/// The parameters of a block that have axes or fields.
pub(super) fn tensors(block: &ast::Block) -> BTreeSet<Arc<str>> {
    let numbers = numbers(block);
    let params = block.params.iter().map(|param| param.name.name.clone());
    params.filter(|name| !numbers.contains(name)).collect()
}

/// The dims of a block that no parameter mentions.
pub(super) fn unused(block: &ast::Block) -> Vec<Arc<str>> {
    let dims = block.generics.iter().filter_map(|generic| match generic {
        ast::Generic::Dim(name) => Some(name.name.clone()),
        _ => None,
    });
    let mentioned = |name: &Arc<str>| {
        let mut params = block.params.iter();
        params.any(|param| in_type(&param.ty, name))
    };
    dims.filter(|name| !mentioned(name)).collect()
}

/// Does the signature of a block mention a dim?
pub(super) fn in_signature(block: &ast::Block, name: &str) -> bool {
    let params = block.params.iter().map(|param| &param.ty);
    params.chain(&block.ret.types).any(|ty| in_type(ty, name))
}

/// Does a type mention a dim?
fn in_type(ty: &ast::Type, name: &str) -> bool {
    match &ty.kind {
        ast::TypeKind::Tensor { axes, .. } => {
            let mut axes = axes.iter().flatten();
            axes.any(|axis| in_dim(axis, name))
        }
        ast::TypeKind::Struct { args, .. } => args.iter().any(|arg| in_dim(arg, name)),
        ast::TypeKind::Array(element, length) => in_type(element, name) || in_dim(length, name),
    }
}

fn in_dim(dim: &ast::Dim, name: &str) -> bool {
    match &dim.kind {
        DimKind::Name(path) => path.as_ident().is_some_and(|ident| ident.as_str() == name),
        DimKind::Rest(ident) => ident.as_str() == name,
        DimKind::Int(_) => false,
        DimKind::Neg(inner) | DimKind::Paren(inner) => in_dim(inner, name),
        DimKind::Binary(_, a, b) => in_dim(a, name) || in_dim(b, name),
    }
}

/// The parameters of a block that have no axes.
pub(super) fn numbers(block: &ast::Block) -> BTreeSet<Arc<str>> {
    let number = |ty: &ast::Type| match &ty.kind {
        ast::TypeKind::Tensor { axes, .. } => axes.as_ref().is_none_or(|axes| axes.is_empty()),
        _ => false,
    };
    let params = block.params.iter().filter(|param| number(&param.ty));
    params.map(|param| param.name.name.clone()).collect()
}

/// A Rust const is a path, or a capitalised name.
pub(super) fn is_const(path: &ast::Path) -> bool {
    path.as_ident()
        .is_none_or(|name| name.as_str().starts_with(|c: char| c.is_uppercase()))
}
