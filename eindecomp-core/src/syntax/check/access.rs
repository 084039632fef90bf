//! Accesses: ranks, bare and merged reads, gathers, values outside.

use std::sync::Arc;

use super::dtype::{Flex, cast, fix, flex, whole};
use super::expr::{Mode, StmtCx};
use super::extents::{Access, MergedUse, Shifted, Use};
use super::tree::{Expr, ExprKind, IndexId, Mixed, Read, Sub, Type, listed};
use super::walk;
use crate::ein::{DType, Dim, Value};
use crate::syntax::ast::{self, Ident, Lit, Outside};
use crate::syntax::diag::{Code, Diag, Fix};
use crate::syntax::names::count;
use crate::syntax::token::Span;

impl StmtCx<'_, '_> {
    pub(super) fn access(
        &mut self,
        place: &ast::Place,
        subs: &[ast::Sub],
        default: Option<&Outside>,
        span: Span,
    ) -> Option<Expr> {
        if let Some(definition) = &self.definition {
            let diag = definition.refuse("an access", span);
            self.report(diag);
            return None;
        }
        // The subscripts are looked at even where the tensor is unknown: they use indices.
        let tensor = self.cx.place(place);
        let Some(tensor) = tensor else {
            subs.iter().for_each(|sub| self.mark(sub));
            return None;
        };
        let Type::Tensor(t) = tensor.ty.clone() else {
            let text = format!(
                "`{place}` is `{}`, which has no elements to read",
                tensor.ty
            );
            self.report(Diag::new(Code::UnknownField, place.span, text).help("name a field of it"));
            subs.iter().for_each(|sub| self.mark(sub));
            return None;
        };
        if let Some(ast::Sub::Rest(name)) = subs.iter().find(|s| matches!(s, ast::Sub::Rest(_))) {
            self.no_rest(name);
            return None;
        }
        if t.axes.len() != subs.len() {
            subs.iter().for_each(|sub| self.mark(sub));
            let diag = self.wrong_rank(place, &t.axes, subs, span);
            self.report(diag);
            return None;
        }
        let otherwise = match default {
            None => Some(None),
            Some(outside) => self.outside(outside, t.dtype).map(Some),
        };
        let access = Arc::new(Access {
            place: place.to_string(),
            subs: subs.iter().map(|s| s.to_string()).collect(),
            dtype: t.dtype,
            span,
            padded: default.is_some(),
            visible: self.visible.clone(),
        });
        self.accesses.insert(span, access.clone());
        let (mut made, before) = (Some(Vec::new()), self.cx.errors.len());
        for (at, sub) in subs.iter().enumerate() {
            let axis = (at, &t.axes[at]);
            match (self.sub(sub, axis, &access), &mut made) {
                (Some(sub), Some(made)) => made.push(sub),
                _ => made = None,
            }
        }
        self.mend_positions(before, subs, &t.axes, &access);
        let read = Read {
            place: tensor,
            subs: made?,
            otherwise: otherwise?,
            guarded: false,
        };
        Some(Expr {
            kind: ExprKind::Read(Box::new(read)),
            dtype: t.dtype,
            span,
        })
    }

    /// Looks at a subscript of what cannot be read: its indices are used.
    fn mark(&mut self, sub: &ast::Sub) {
        match sub {
            ast::Sub::Expr(e) => match bare_name(e) {
                Some(name) => {
                    if let Some(index) = self.visible_index(name.as_str()) {
                        self.indices[index.at()].used_right = true;
                        self.uses.poisoned.insert(index);
                    }
                }
                None => drop(self.position(e)),
            },
            ast::Sub::Merged(parts, _) => parts.iter().for_each(|part| self.mark(part)),
            ast::Sub::Rest(_) => {}
        }
    }

    fn sub(
        &mut self,
        sub: &ast::Sub,
        (axis, extent): (usize, &Dim),
        access: &Arc<Access>,
    ) -> Option<Sub> {
        match sub {
            ast::Sub::Rest(_) => None,
            ast::Sub::Merged(parts, span) => {
                let mut made = Vec::new();
                self.members(parts, &mut made)?;
                let bare = made.iter().map(|member| match member.kind {
                    ExprKind::Index(index) => Some(index),
                    _ => None,
                });
                let Some(members) = bare.collect::<Option<Vec<IndexId>>>() else {
                    let text: Arc<str> = access.subs[axis].as_str().into();
                    let indices = made.iter().filter_map(|e| match e.kind {
                        ExprKind::Index(id) => Some((id, text.clone())),
                        _ => None,
                    });
                    self.uses.mixed.extend(indices);
                    return self.mixed(made, *span, access.padded);
                };
                self.uses.merged.push(MergedUse {
                    members: members.clone(),
                    axis: extent.clone(),
                    span: *span,
                    access: access.clone(),
                });
                Some(Sub::Merged(members, *span))
            }
            ast::Sub::Expr(e) => {
                let value = self.position(e)?;
                if let ExprKind::Index(index) = value.kind
                    && bare_name(e).is_some()
                {
                    self.uses.bare.push(Use {
                        index,
                        axis,
                        extent: extent.clone(),
                        span: e.span,
                        weak: self.guards.contains(&index),
                        access: access.clone(),
                        meant: None,
                    });
                } else {
                    let indices = value.indices();
                    let guarded = indices.iter().any(|(_, id)| self.guards.contains(id));
                    self.uses.shifted.push(Shifted {
                        at: value.clone(),
                        axis,
                        extent: extent.clone(),
                        guarded: access.padded || guarded,
                        access: access.clone(),
                    });
                }
                Some(Sub::Expr(value))
            }
        }
    }

    /// Says of errors about an unbound index that reads axes by itself, that the indices which are
    /// called like these axes are meant.
    fn mend_positions(&mut self, since: usize, subs: &[ast::Sub], axes: &[Dim], access: &Access) {
        for at in since..self.cx.errors.len() {
            let error = &self.cx.errors[at];
            let wrong =
                |sub: &ast::Sub| matches!(sub, ast::Sub::Expr(e) if e.span == error.primary);
            let wrong = subs.iter().position(wrong);
            let Some(wrong) = wrong.filter(|_| error.code == Code::UnboundIndex) else {
                continue;
            };
            let mut shown = access.subs.clone();
            let mut edits = Vec::new();
            for (axis, sub) in subs.iter().enumerate() {
                if let ast::Sub::Expr(e) = sub
                    && access.subs[axis] == access.subs[wrong]
                    && let Some(meant) = self.index_like(&axes[axis])
                    && !shown.contains(&meant)
                {
                    shown[axis].clone_from(&meant);
                    edits.push((e.span, meant));
                }
            }
            if !shown.contains(&access.subs[wrong]) {
                let help = format!("did you mean `{}[{}]`?", access.place, shown.join(", "));
                self.cx.errors[at].fixes.push(Fix { help, edits });
            }
        }
    }

    /// A merged read with arithmetic; the extents of its members are found with the ranges.
    fn mixed(&mut self, members: Vec<Expr>, span: Span, padded: bool) -> Option<Sub> {
        if padded {
            let text = "a merged read with arithmetic has no value outside";
            let diag = Diag::new(Code::Tuple, span, text);
            self.report(diag.help("read it under an `if` that keeps its members in range"));
            return None;
        }
        // Where data leaves a member's part, nothing would tell.
        if let Some(member) = members.iter().find(|member| member.has_data()) {
            let text = "a member of a merged read depends on data";
            let diag = Diag::new(Code::Tuple, member.span, text);
            self.report(diag.help("store the tensor with an axis of its own for this member"));
            return None;
        }
        Some(Sub::Mixed(Mixed {
            members,
            extents: Vec::new(),
            span,
        }))
    }

    /// The members of a merged read, nested tuples flattened.
    fn members(&mut self, parts: &[ast::Sub], out: &mut Vec<Expr>) -> Option<()> {
        for part in parts {
            match part {
                ast::Sub::Merged(inner, _) => self.members(inner, out)?,
                ast::Sub::Rest(name) => {
                    self.no_rest(name);
                    return None;
                }
                ast::Sub::Expr(e) => out.push(self.position(e)?),
            }
        }
        Some(())
    }

    /// A position in an axis: an integer.
    fn position(&mut self, e: &ast::Expr) -> Option<Expr> {
        if let Some((name, dtype)) = self.no_integer(e) {
            let text = format!("an index must be an integer, but `{name}` is {dtype}");
            let diag = Diag::new(Code::GatherIndex, name.span, text);
            let var = self.cx.lookup(name.as_str());
            let var = var.map(|var| &mut self.cx.vars[var.at()]);
            let place = var.map(|var| {
                var.used = true;
                var.span
            });
            let declared = place.and_then(|place| self.cx.declared_as(name, place, "i64", ""));
            self.report(match declared {
                Some(fix) => diag.fix(fix),
                None => diag.help(format!("make `{name}` an integer where it is defined")),
            });
            return None;
        }
        if let Some((read, dtype)) = self.float_moves(e) {
            let text = format!("an index must be an integer, but `{read}` is {dtype}");
            let diag = Diag::new(Code::GatherIndex, read.span, text);
            self.report(diag.fix(cast(read, DType::I64)));
            return None;
        }
        let before = self.cx.errors.len();
        let Some(mut value) = self.within(Mode::Index, e) else {
            self.no_gather(e, before);
            return None;
        };
        match flex(&value) {
            Some(Flex::Int) => fix(&mut value, DType::I64, &mut self.cx.errors)?,
            Some(Flex::Float) | None => {}
        }
        if value.dtype.is_int() {
            self.wraps_as_position(&value, e)?;
            return Some(value);
        }
        let diag = match (&value.kind, &e.kind) {
            (ExprKind::Read(read), ast::ExprKind::Access { place, .. }) => {
                let text = format!(
                    "a gather index must be an integer tensor; `{place}` is {}",
                    value.dtype
                );
                let diag = Diag::new(Code::GatherIndex, value.span, text);
                let declared = match value.dtype {
                    DType::Bool => None,
                    _ => self.declared_dtype(place, read),
                };
                let position = || self.cx.position_of(place);
                match self.integers_beside(place, read, e).or_else(position) {
                    Some(meant) => diag.fix(meant),
                    None => diag.fix(declared.unwrap_or_else(|| cast(e, DType::I64))),
                }
            }
            (_, ast::ExprKind::Lit(_)) => {
                let text = format!("an index must be an integer, but `{e}` is a float");
                let meant = match value.kind {
                    ExprKind::Lit(Value::Float(x)) => whole(x),
                    _ => None,
                };
                let meant = meant.map(|meant| Fix::replace(e.span, meant, "write {}"));
                Diag::new(Code::GatherIndex, e.span, text).fixes(meant)
            }
            _ => {
                let text = format!("an index must be an integer, but `{e}` is {}", value.dtype);
                Diag::new(Code::GatherIndex, e.span, text).fix(cast(e, DType::I64))
            }
        };
        self.report(diag);
        None
    }

    /// Reports what is read as a position and is no integer, where its own indices alone have errors, those since
    /// number `before`.
    fn no_gather(&mut self, e: &ast::Expr, before: usize) {
        let unbound = |diag: &Diag| diag.code == Code::UnboundIndex;
        let gathered = walk::accessed(e).and_then(|(place, subs)| {
            let tensor = self.cx.type_of(place)?;
            let ranks = tensor.axes.len() == subs.len() && tensor.dtype.is_float();
            ranks.then_some((place, tensor))
        });
        let Some((place, tensor)) =
            gathered.filter(|_| self.cx.errors[before..].iter().all(unbound))
        else {
            return;
        };
        let text = format!(
            "a gather index must be an integer tensor; `{place}` is {}",
            tensor.dtype
        );
        let root = place
            .as_ident()
            .and_then(|name| self.cx.lookup(name.as_str()));
        let declared = root.and_then(|var| {
            let axes = format!("[{}]", listed(&tensor.axes));
            let place = place.as_ident()?;
            self.cx
                .declared_as(place, self.cx.vars[var.at()].span, "u32", &axes)
        });
        let fix = declared.unwrap_or_else(|| cast(e, DType::I64));
        self.report(Diag::new(Code::GatherIndex, e.span, text).fix(fix));
    }

    /// What is read of a float tensor in the arithmetic of a position, beside an index.
    fn float_moves<'e>(&self, e: &'e ast::Expr) -> Option<(&'e ast::Expr, DType)> {
        let ast::ExprKind::Binary(_, a, b) = &e.kind else {
            return None;
        };
        let read = |e: &'e ast::Expr| {
            let (place, _) = walk::accessed(e)?;
            let dtype = self.cx.type_of(place)?.dtype;
            dtype.is_float().then_some((e, dtype))
        };
        let (read, other) = match (read(a), read(b)) {
            (Some(read), None) => (read, b),
            (None, Some(read)) => (read, a),
            _ => return None,
        };
        let name = bare_name(other)?;
        self.visible_index(name.as_str()).map(|_| read)
    }

    /// A number in the arithmetic of a position that is no integer.
    fn no_integer<'e>(&self, e: &'e ast::Expr) -> Option<(&'e Ident, DType)> {
        match &e.kind {
            ast::ExprKind::Binary(_, a, b) => self.no_integer(a).or_else(|| self.no_integer(b)),
            ast::ExprKind::Paren(inner) | ast::ExprKind::Unary(_, inner) => self.no_integer(inner),
            ast::ExprKind::Name(place) => {
                let name = place.as_ident()?;
                let known = self.visible_index(name.as_str()).is_some()
                    || self.cx.dims.named(name.as_str()).is_some();
                let number = self.cx.type_of(place).filter(|t| t.axes.is_empty())?;
                (!known && !number.dtype.is_int()).then_some((name, number.dtype))
            }
            _ => None,
        }
    }

    /// An integer dtype where the tensor is declared, if it is a parameter.
    fn declared_dtype(&self, place: &ast::Place, read: &Read) -> Option<Fix> {
        let axes = listed(&read.place.ty.tensor()?.axes);
        let span = self.cx.vars[read.place.var.at()].span;
        let axes = format!("[{axes}]");
        self.cx.declared_as(place.as_ident()?, span, "u32", &axes)
    }

    /// The tensor of integers of these axes that nothing reads, in place of one that is no position: its
    /// scores.
    fn integers_beside(&self, place: &ast::Place, read: &Read, e: &ast::Expr) -> Option<Fix> {
        let axes = &read.place.ty.tensor()?.axes;
        let mut integers = self
            .cx
            .unread()
            .filter(|(_, t)| t.dtype.is_int() && t.axes == *axes);
        let ((name, _), None) = (integers.next()?, integers.next()) else {
            return None;
        };
        let ast::ExprKind::Access { subs, .. } = &e.kind else {
            return None;
        };
        let help = format!("did you mean `{name}[{}]`?", listed(subs));
        Some(Fix::replace(place.span, name, &help))
    }

    /// The index in scope that is called like the axis.
    pub(super) fn index_like(&self, axis: &Dim) -> Option<String> {
        let name = axis.as_symbol()?.to_lowercase();
        self.visible_index(&name).map(|_| name)
    }

    /// The error about a tensor named without indices.
    pub(super) fn no_index(&self, place: &ast::Place, dtype: DType, axes: &[Dim]) -> Diag {
        let text = format!(
            "`{place}` has {} [{}], but no index is given",
            count(axes.len(), "axis", "axes"),
            listed(axes)
        );
        let diag = Diag::new(Code::RankMismatch, place.span, text);
        let names: Option<Vec<String>> = axes.iter().map(|axis| self.index_like(axis)).collect();
        let gathers = self.mode != Mode::Index || dtype.is_int();
        match names.filter(|_| gathers) {
            Some(names) => {
                let names = names.join(", ");
                let help = format!("did you mean `{place}[{names}]`?");
                diag.fix(Fix::after(place.span, format!("[{names}]"), &help))
            }
            // There is one element.
            None if axes.iter().all(|axis| axis.as_const() == Some(1)) => {
                let zeros = vec!["0"; axes.len()].join(", ");
                let help = format!("did you mean `{place}[{zeros}]`?");
                diag.fix(Fix::after(place.span, format!("[{zeros}]"), &help))
            }
            None => diag.help(format!("give it an index for each axis: `{place}[…]`")),
        }
    }

    fn outside(&mut self, outside: &Outside, dtype: DType) -> Option<Value> {
        let sign = |x: f64| if outside.negative { -x } else { x };
        let value = match outside.lit {
            Lit::Int(n) => {
                let n = i64::try_from(n).unwrap_or(i64::MAX);
                Value::Int(if outside.negative { -n } else { n })
            }
            Lit::Float(x) => Value::Float(sign(x)),
            Lit::Inf => Value::Float(sign(f64::INFINITY)),
            Lit::Nan => Value::Float(f64::NAN),
            Lit::Bool(b) => Value::Bool(b),
        };
        let kind = match value {
            Value::Bool(_) => DType::Bool,
            _ => DType::F32,
        };
        let mut literal = Expr {
            kind: ExprKind::Lit(value),
            dtype: kind,
            span: outside.span,
        };
        if flex(&literal).is_some() {
            fix(&mut literal, dtype, &mut self.cx.errors)?;
        } else if dtype != DType::Bool {
            let text = format!("a bool literal stands where {dtype} is needed");
            self.report(Diag::new(Code::NoCommonDtype, outside.span, text));
            return None;
        }
        Some(value)
    }
}

pub(super) fn bare_name(e: &ast::Expr) -> Option<&ast::Ident> {
    match &e.kind {
        ast::ExprKind::Name(place) => place.as_ident(),
        _ => None,
    }
}
