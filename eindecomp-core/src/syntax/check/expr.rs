//! Expressions: names, operators, functions, `if`, casts.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::aggs::Definition;
use super::body::BodyCx;
use super::dims::{in_signature, is_const, no_rest};
use super::dtype::{Flex, element_type, fix, flex, store};
use super::extents::{Decl, Uses};
use super::ranges::Accesses;
use super::tree::{Expr, ExprKind, IndexId, ParamRole, Place, Read, Type};
use super::unbound::mend;
use crate::ein::{Agg, DType, Value};
use crate::syntax::ast::{self, Ident, LeftIndex, Lit};
use crate::syntax::diag::{Code, Diag, Fix};
use crate::syntax::names::{constant, count, rust_number};
use crate::syntax::token::Span;

/// Nodes that the arguments of one inlined function may have.
pub(super) const MAX_SIZE: usize = 4000;

/// Arguments of a scalar function, by parameter.
pub(super) type Args = BTreeMap<Arc<str>, Expr>;

/// What an expression is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mode {
    /// A value: a Rust const needs a cast.
    Value,
    /// A position in an axis.
    Index,
    /// A condition or the inside of a cast: consts are numbers like dims.
    Number,
}

/// A statement being checked.
pub(super) struct StmtCx<'c, 'a> {
    pub(super) cx: &'c mut BodyCx<'a>,
    pub(super) indices: Vec<Decl>,
    /// What gives indices their extents.
    pub(super) uses: Uses,
    /// Indices in scope.
    pub(super) visible: Vec<IndexId>,
    /// Indices in the affine conditions around here.
    pub(super) guards: Vec<IndexId>,
    pub(super) mode: Mode,
    /// Names of reductions that are over: what stands behind them cannot see them.
    pub(super) closed: Vec<Arc<str>>,
    /// The scalar functions being inlined with their arguments, innermost last.
    pub(super) inline: Vec<(Arc<str>, Args)>,
    /// How many were inlined.
    pub(super) inlined: usize,
    /// The aggregation that is being defined; its names are the outermost of `inline`.
    pub(super) definition: Option<Definition>,
    /// Accesses as written, for messages.
    pub(super) accesses: Accesses,
    /// Parts of what is wrong as a whole.
    pub(super) kept: Vec<Expr>,
    /// Indices already reported.
    unbound: BTreeSet<Arc<str>>,
}

impl<'c, 'a> StmtCx<'c, 'a> {
    /// Declares the indices on the left.
    #[allow(clippy::type_complexity)]
    pub(super) fn new(
        cx: &'c mut BodyCx<'a>,
        left: &[LeftIndex],
    ) -> Option<(StmtCx<'c, 'a>, Vec<Vec<IndexId>>)> {
        let mut this = StmtCx {
            cx,
            indices: Vec::new(),
            uses: Uses::default(),
            visible: Vec::new(),
            guards: Vec::new(),
            mode: Mode::Value,
            closed: Vec::new(),
            inline: Vec::new(),
            inlined: 0,
            definition: None,
            accesses: Accesses::new(),
            kept: Vec::new(),
            unbound: BTreeSet::new(),
        };
        let mut axes = Vec::new();
        for index in left {
            let mut axis = Vec::new();
            this.left_axis(index, &mut axis)?;
            axes.push(axis);
        }
        Some((this, axes))
    }

    fn left_axis(&mut self, index: &LeftIndex, axis: &mut Vec<IndexId>) -> Option<()> {
        match index {
            LeftIndex::Index(decl) => {
                axis.push(self.declare(decl, false)?);
                Some(())
            }
            LeftIndex::Rest(name) => {
                self.no_rest(name);
                None
            }
            LeftIndex::Merged(parts, _) => {
                parts.iter().try_for_each(|part| self.left_axis(part, axis))
            }
        }
    }

    pub(super) fn report(&mut self, diag: Diag) {
        if !self.cx.errors.contains(&diag) {
            self.cx.errors.push(diag);
        }
    }

    /// Reports a `..` without its dim, unless the signature, where that is told, has one like it.
    pub(super) fn no_rest(&mut self, name: &Ident) {
        if !in_signature(self.cx.ast, &name.as_str().to_uppercase()) {
            self.report(no_rest(name.span, &format!("..{name}")));
        }
    }

    /// Declares an index; it is visible from here.
    pub(super) fn declare(&mut self, decl: &ast::IndexDecl, reduced: bool) -> Option<IndexId> {
        let name = &decl.name;
        self.cx.reserved(name);
        let extent = match &decl.extent {
            None => None,
            Some(dim) => Some((self.range_of(name, dim)?, dim.span)),
        };
        let known = self.cx.dims.dims.contains(&name.name);
        // A declared dim in lower case is reported.
        let mut generics = self.cx.ast.generics.iter();
        if known
            && generics.any(|g| {
                g.name().name == name.name && name.as_str().starts_with(char::is_lowercase)
            })
        {
            return None;
        }
        if known || name.as_str().starts_with(char::is_uppercase) {
            let diag = match known {
                true => {
                    let text = format!("`{name}` is a dim or loop variable here");
                    Diag::new(Code::Duplicate, name.span, text)
                }
                false => {
                    let text = format!("`{name}` is upper case, as dims are");
                    Diag::new(Code::ReservedName, name.span, text)
                }
            };
            let taken = |name: &str| self.visible_index(name).is_some();
            self.report(match self.cx.in_lower_case(name, &taken) {
                Some(fix) => diag.fix(fix),
                None => diag.help("indices are written in lower case, and called otherwise"),
            });
            return None;
        }
        if let Some(other) = self.visible_index(&name.name) {
            let first = &self.indices[other.at()];
            let diag = if !reduced {
                let text = format!("index `{name}` stands twice on the left");
                Diag::new(Code::Duplicate, name.span, text)
                    .help("each axis has an index of its own")
            } else if first.reduced {
                let text = format!("this reduction rebinds index `{name}` of the one around it");
                Diag::new(Code::NestedReduction, name.span, text)
            } else {
                let text = format!("index `{name}` is both on the left and reduced");
                Diag::new(Code::ReducedOutput, name.span, text)
            };
            let diag = diag.secondary(first.span, "first here");
            self.report(diag);
            return None;
        }
        let id = IndexId(self.indices.len() as u16);
        let (name, span) = (name.name.clone(), name.span);
        self.indices.push(Decl {
            name,
            span,
            extent,
            reduced,
            used_right: false,
            idle: false,
        });
        self.visible.push(id);
        Some(id)
    }

    pub(super) fn visible_index(&self, name: &str) -> Option<IndexId> {
        self.visible
            .iter()
            .copied()
            .find(|id| *self.indices[id.at()].name == *name)
    }

    /// The values of a statement, one per name, with the dtypes they are annotated with.
    pub(super) fn values(
        &mut self,
        value: &ast::Expr,
        pat: &ast::Pattern,
        dtypes: &[Option<DType>],
    ) -> Option<Vec<Expr>> {
        let before = self.cx.errors.len();
        let made = match &pat.names[..] {
            [_] => self.expr(value).map(|e| vec![e]),
            names => {
                let mut text = value;
                while let ast::ExprKind::Paren(inner) = &text.kind {
                    text = inner;
                }
                let made = match &text.kind {
                    ast::ExprKind::Reduce(reduce) => self.results(reduce, text.span),
                    _ => self.expr(text).map(|e| vec![e]),
                };
                made.filter(|made| {
                    let found = count(made.len(), "result", "results");
                    let message = format!("{} names stand for {found}", names.len());
                    let fits = made.len() == names.len();
                    if !fits {
                        let diag = Diag::new(Code::Pattern, pat.span, message);
                        let fewer = (names.len() > made.len())
                            .then(|| self.cx.as_many(pat, made.len()))
                            .flatten();
                        let selects = selected(text);
                        self.report(match fewer {
                            Some(fix) => diag.fix(fix),
                            None if selects.is_some() => diag.help(selects.unwrap_or_default()),
                            None => diag.help(format!(
                                "write {found} on the left, `_` for what is not needed"
                            )),
                        });
                    }
                    fits
                })
            }
        };
        self.mend_unbound(before, value);
        self.mend_compared(before, value);
        self.mend_consts(before, value);
        let made = made?;
        if let ([e], [Some(dtype)]) = (&made[..], dtypes) {
            self.wrapped(e, value, *dtype)?;
        }
        let stored = made.into_iter().zip(dtypes);
        let stored: Vec<Option<Expr>> = stored
            .map(|(e, dtype)| store(e, *dtype, value, &mut self.cx.errors))
            .collect();
        for decl in self.indices.iter().filter(|d| d.reduced && !d.used_right) {
            let message = format!("index `{}` is reduced but not used", decl.name);
            self.cx.warnings.push(super::tree::Warning {
                span: decl.span,
                unused: true,
                message,
            });
        }
        stored.into_iter().collect()
    }

    /// An expression in another mode.
    pub(super) fn within(&mut self, mode: Mode, e: &ast::Expr) -> Option<Expr> {
        let outer = std::mem::replace(&mut self.mode, mode);
        let made = self.expr(e);
        self.mode = outer;
        made
    }

    pub(super) fn expr(&mut self, e: &ast::Expr) -> Option<Expr> {
        let span = e.span;
        let make = |kind, dtype| Some(Expr { kind, dtype, span });
        match &e.kind {
            ast::ExprKind::Lit(lit) => self.literal(*lit, span),
            ast::ExprKind::Name(place) => self.name(place, span),
            ast::ExprKind::Access {
                place,
                subs,
                default,
            } => self.access(place, subs, default.as_ref(), span),
            ast::ExprKind::Call { path, args } => self.call(path, args, span),
            ast::ExprKind::Reduce(reduce) => self.reduce(reduce, span),
            ast::ExprKind::Unary(op, inner) => self.unary(*op, inner, span),
            ast::ExprKind::Binary(op, left, right) => self.binary(*op, left, right, span),
            ast::ExprKind::Paren(inner) => self.expr(inner),
            ast::ExprKind::Cast(inner, dtype) => {
                let dtype = element_type(dtype, &mut self.cx.errors);
                let mut value = self.within(Mode::Number, inner)?;
                let dtype = dtype?;
                match flex(&value) {
                    Some(Flex::Float) if dtype.is_float() => {
                        fix(&mut value, dtype, &mut self.cx.errors)?;
                    }
                    Some(Flex::Float) => fix(&mut value, DType::F64, &mut self.cx.errors)?,
                    Some(Flex::Int) => fix(&mut value, DType::I64, &mut self.cx.errors)?,
                    None => self.wrapped(&value, inner, dtype)?,
                }
                make(ExprKind::Cast(Box::new(value)), dtype)
            }
            ast::ExprKind::Tuple(_) => {
                let text = "a tuple stands in accesses and in an aggregation's arguments only";
                let diag = Diag::new(Code::Tuple, span, text);
                self.report(diag.help("a statement has one value: make it two statements"));
                None
            }
            ast::ExprKind::If {
                cond,
                then,
                otherwise,
            } => self.branch(cond, then, otherwise.as_deref(), span),
        }
    }

    fn literal(&mut self, lit: Lit, span: Span) -> Option<Expr> {
        let (value, dtype) = match lit {
            Lit::Int(n) => match i64::try_from(n) {
                Ok(n) => (Value::Int(n), DType::I64),
                Err(_) => {
                    let text = format!("the literal `{n}` does not fit i64");
                    self.report(Diag::new(Code::Literal, span, text));
                    return None;
                }
            },
            Lit::Float(x) => (Value::Float(x), DType::F32),
            Lit::Inf => (Value::Float(f64::INFINITY), DType::F32),
            Lit::Nan => (Value::Float(f64::NAN), DType::F32),
            Lit::Bool(b) => (Value::Bool(b), DType::Bool),
        };
        Some(Expr {
            kind: ExprKind::Lit(value),
            dtype,
            span,
        })
    }

    /// An index, a dim, a const, a tensor of rank 0 or a host value.
    fn name(&mut self, place: &ast::Place, span: Span) -> Option<Expr> {
        let number = |kind| {
            Some(Expr {
                kind,
                dtype: DType::I64,
                span,
            })
        };
        let known = place.as_ident().is_some_and(|name| {
            self.cx.dims.dims.contains(&name.name) || self.cx.lookup(name.as_str()).is_some()
        });
        let number_of_rust = rust_number(&place.path).filter(|_| place.fields.is_empty() && !known);
        if let Some(number) = number_of_rust {
            let text = format!("`{place}` is a number of Rust, and is written out here");
            let fix = Fix::replace(span, number, "write {}");
            self.report(Diag::new(Code::DimValue, span, text).fix(fix));
            return None;
        }
        let truth = place.as_ident().filter(|_| !known);
        if let Some(name) = truth.filter(|name| matches!(name.as_str(), "True" | "False")) {
            let text = format!("`{name}` is written in lower case");
            let fix = Fix::replace(span, name.as_str().to_lowercase(), "did you mean {}?");
            self.report(Diag::new(Code::UndefinedName, span, text).fix(fix));
            return None;
        }
        let nothing = place.as_ident().filter(|_| !known);
        if nothing.is_some_and(|name| matches!(name.as_str(), "None" | "Null" | "NULL" | "Nil")) {
            let text = format!("there is no `{place}`: every value is a number");
            let help = "what is not given is a parameter less, or a mask: `if given[b] { … } else { 0.0 }`";
            self.report(Diag::new(Code::UndefinedName, span, text).help(help));
            return None;
        }
        if let (Some(definition), [(_, known)]) = (&self.definition, &self.inline[..]) {
            let Some(arg) = known.get(&*place.to_string()) else {
                let diag = definition.unknown(place, known);
                let told = |other: &Diag| diag.fixes.is_empty() && other.message == diag.message;
                if !self.cx.errors.iter().any(told) {
                    self.report(diag);
                }
                return None;
            };
            return Some(Expr {
                span,
                ..arg.clone()
            });
        }
        if let Some(name) = place.as_ident() {
            let inlined = self
                .inline
                .last()
                .map(|(_, args)| args.get(&name.name).cloned());
            match inlined {
                Some(Some(arg)) => return Some(arg),
                // Reported with the function.
                Some(None) => return None,
                None => {}
            }
            if let Some(index) = self.visible_index(name.as_str()) {
                self.indices[index.at()].used_right = true;
                return number(ExprKind::Index(index));
            }
        }
        if place.fields.is_empty() {
            if let Some(dim) = self.cx.dims.known(&place.path) {
                return number(ExprKind::Dim(dim));
            }
            let shadowed = place
                .as_ident()
                .is_some_and(|name| self.cx.lookup(name.as_str()).is_some());
            if !shadowed && is_const(&place.path) {
                let dim = self.cx.dims.constant(&place.path);
                if self.mode == Mode::Value {
                    let text = format!("the Rust const `{}` needs a cast as a value", place.path);
                    let help = format!("`{} as f32`", place.path);
                    let cast = Fix::after(span, " as f32", &help);
                    // Consts are sizes, so one of this name is hardly meant.
                    let name = place.as_ident().map(Ident::as_str);
                    let number = name.filter(|name| name.len() > 1).and_then(constant);
                    let number = number.map(|number| Fix::replace(span, number, "write {}"));
                    self.report(Diag::new(Code::DimValue, span, text).fix(number.unwrap_or(cast)));
                    return None;
                }
                return number(ExprKind::Dim(dim));
            }
            if let Some(name) = place
                .as_ident()
                .filter(|_| !shadowed && self.mode == Mode::Index)
            {
                self.unbound_index(name);
                return None;
            }
        }
        if let Some(name) = place.as_ident()
            && self.cx.lookup(name.as_str()).is_none()
            && self.closed.contains(&name.name)
        {
            self.unbound_index(name);
            return None;
        }
        if let Some(name) = place.as_ident().filter(|_| self.mode == Mode::Index)
            && self.cx.dims.named(&name.as_str().to_uppercase()).is_some()
            && (self.cx.type_of(place)).is_some_and(|t| !t.axes.is_empty() && !t.dtype.is_int())
        {
            // An axis' index that has the name of a tensor, which is no position.
            self.unbound_index(name);
            return None;
        }
        let text = place;
        let place = self.cx.place(place)?;
        self.rank0(place, text, span)
    }

    fn rank0(&mut self, place: Place, text: &ast::Place, span: Span) -> Option<Expr> {
        let Type::Tensor(t) = &place.ty else {
            let text = format!("a value of type `{}` is no number", place.ty);
            self.report(Diag::new(Code::UnknownField, span, text).help("name one of its fields"));
            return None;
        };
        let dtype = t.dtype;
        if !t.axes.is_empty() {
            let diag = self.no_index(text, t.dtype, &t.axes);
            self.report(diag);
            return None;
        }
        let kind = if self.cx.vars[place.var.at()].role == Some(ParamRole::Host) {
            ExprKind::Host(place.var)
        } else {
            let read = Read {
                place,
                subs: Vec::new(),
                otherwise: None,
                guarded: false,
            };
            ExprKind::Read(Box::new(read))
        };
        Some(Expr { kind, dtype, span })
    }

    /// Reports an index that nothing binds, once per statement.
    pub(super) fn unbound_index(&mut self, name: &Ident) {
        if !self.unbound.insert(name.name.clone()) {
            return;
        }
        let text = format!("index `{name}` is neither on the left nor reduced");
        let diag = Diag::new(Code::UnboundIndex, name.span, text);
        // Indices of any rank are numbered.
        let numbered = name.as_str().ends_with(|ch: char| ch.is_ascii_digit());
        self.report(match numbered && self.cx.is_ranked() {
            true => diag.help(format!("put `{name}` on the left")),
            false => diag,
        });
    }

    /// Says of each unbound index since error number `before` what may be meant.
    fn mend_unbound(&mut self, before: usize, value: &ast::Expr) {
        let left = self.indices.iter().filter(|decl| !decl.reduced);
        let left: Vec<(&str, bool)> = left.map(|decl| (&*decl.name, decl.used_right)).collect();
        let new = &mut self.cx.errors[before..];
        let unbound = new.iter().filter(|diag| diag.code == Code::UnboundIndex);
        let unbound: Vec<Span> = unbound.map(|diag| diag.primary).collect();
        for diag in new {
            if diag.code == Code::UnboundIndex && diag.help.is_none() && diag.fixes.is_empty() {
                *diag = mend(diag.clone(), value, &left, &unbound);
            }
        }
        self.mend_weighted(before, value);
        // Parentheses around all that follows hold a reduction that stood without any.
        let unbound = self.cx.errors[before..].iter();
        let unbound = unbound.filter(|diag| diag.code == Code::UnboundIndex);
        let edits = unbound
            .flat_map(|diag| &diag.fixes)
            .flat_map(|fix| &fix.edits);
        let opened = edits
            .filter(|(_, text)| text == "(")
            .map(|(span, _)| span.start);
        let opened: BTreeSet<u32> = opened.collect();
        // Those around all of them mend the inner reductions too.
        let first = |diag: &Diag| Some(diag.fixes.first()?.edits.first()?.clone());
        let unbound = self.cx.errors[before..].iter();
        let unbound: Vec<&Diag> = unbound.filter(|d| d.code == Code::UnboundIndex).collect();
        let told = |(at, diag): (usize, &&Diag)| {
            let (place, text) = first(diag)?;
            let mut wider = unbound[..at].iter().flat_map(|diag| &diag.fixes);
            let same = |fix: &Fix| fix.edits[0] == (place, text.clone());
            (text == "(" && wider.any(same)).then_some(diag.primary)
        };
        let told: Vec<Span> = unbound.iter().enumerate().filter_map(told).collect();
        // A factor that is meant as an argument of the reduction before it.
        let arguments = self.cx.errors[before..].iter();
        let arguments = arguments.filter(|diag| diag.code == Code::Arity);
        let arguments = arguments.flat_map(|diag| &diag.fixes).filter_map(|fix| {
            let (first, last) = (fix.edits.first()?, fix.edits.last()?);
            Some(first.0.join(last.0))
        });
        let arguments: Vec<Span> = arguments.collect();
        let mut at = 0;
        self.cx.errors.retain(|diag| {
            at += 1;
            let held = diag.code == Code::NestedReduction && opened.contains(&diag.primary.start);
            let inside = |s: &Span| s.contains(diag.primary);
            let argument = diag.code == Code::UnboundIndex && arguments.iter().any(inside);
            let told = diag.code == Code::UnboundIndex && told.contains(&diag.primary);
            at <= before || !(held || argument || told)
        });
    }

    /// An expression of an aggregation's definition, which reads `known` names.
    pub(super) fn defined(
        &mut self,
        definition: Definition,
        known: Args,
        e: &ast::Expr,
    ) -> Option<Expr> {
        let name = self.cx.block.name.name.clone();
        self.definition = Some(definition);
        self.inline.push((name, known));
        self.expr(e)
    }

    /// Names of all indices, by number.
    pub(super) fn index_names(&self) -> Vec<Arc<str>> {
        self.indices.iter().map(|d| d.name.clone()).collect()
    }
}

/// What to write where `argmax` or `argmin` is taken to give the value too.
fn selected(e: &ast::Expr) -> Option<String> {
    let ast::ExprKind::Reduce(reduce) = &e.kind else {
        return None;
    };
    let name = reduce.agg.to_string();
    let agg = Agg::from_name(&name).filter(|agg| agg.row().selects)?;
    let value = name.trim_start_matches("arg");
    Some(format!(
        "`{agg}` gives the place alone; a `{value}` in a statement of its own gives the value"
    ))
}
