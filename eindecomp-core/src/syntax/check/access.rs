//! Accesses: ranks, bare and merged reads, gathers, values outside.

use std::sync::Arc;

use super::dtype::{Flex, fix, flex};
use super::expr::{Mode, StmtCx};
use super::extents::{MergedUse, Use};
use super::names::count;
use super::tree::{Expr, ExprKind, IndexId, Read, Sub, Type, listed};
use super::types::{no_rest, not_yet};
use crate::ein::{DType, Dim, Value};
use crate::syntax::ast::{self, Lit, Outside};
use crate::syntax::diag::{Code, Diag};
use crate::syntax::token::Span;

impl StmtCx<'_, '_> {
    pub(super) fn access(
        &mut self,
        place: &ast::Place,
        subs: &[ast::Sub],
        default: Option<&Outside>,
        span: Span,
    ) -> Option<Expr> {
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
            self.report(no_rest(name.span, &format!("..{name}")));
            return None;
        }
        if t.axes.len() != subs.len() {
            subs.iter().for_each(|sub| self.mark(sub));
            self.report(wrong_rank(place, &t.axes, subs, span));
            return None;
        }
        let otherwise = match default {
            None => None,
            Some(outside) => Some(self.outside(outside, t.dtype)?),
        };
        let bare = subs
            .iter()
            .map(|s| s.to_string())
            .collect::<Vec<_>>()
            .join(", ");
        let text: Arc<str> = format!("{place}[{bare}]").into();
        self.texts.insert(span, text.clone());
        let mut made = Some(Vec::new());
        for (sub, axis) in subs.iter().zip(&t.axes) {
            match (self.sub(sub, axis, &text, default.is_some()), &mut made) {
                (Some(sub), Some(made)) => made.push(sub),
                _ => made = None,
            }
        }
        let read = Read {
            place: tensor,
            subs: made?,
            otherwise,
            guarded: false,
        };
        Some(Expr {
            kind: ExprKind::Read(Box::new(read)),
            dtype: t.dtype,
            span,
        })
    }

    /// Counts the indices in a subscript as used.
    fn mark(&mut self, sub: &ast::Sub) {
        match sub {
            ast::Sub::Expr(e) => {
                if let Some(index) = bare_name(e).and_then(|n| self.visible_index(n.as_str())) {
                    self.indices[index.at()].used_right = true;
                    self.poisoned.insert(index);
                }
            }
            ast::Sub::Merged(parts, _) => parts.iter().for_each(|part| self.mark(part)),
            ast::Sub::Rest(_) => {}
        }
    }

    fn sub(&mut self, sub: &ast::Sub, axis: &Dim, access: &Arc<str>, weak: bool) -> Option<Sub> {
        self.texts.insert(sub.span(), sub.to_string().into());
        match sub {
            ast::Sub::Rest(_) => None,
            ast::Sub::Merged(parts, span) => {
                let mut members = Vec::new();
                self.members(parts, &mut members)?;
                self.merged.push(MergedUse {
                    members: members.clone(),
                    axis: axis.clone(),
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
                    self.uses.push(Use {
                        index,
                        extent: axis.clone(),
                        span: e.span,
                        weak: weak || self.guards.contains(&index),
                        access: access.clone(),
                    });
                }
                Some(Sub::Expr(value))
            }
        }
    }

    /// The indices of a merged read, nested tuples flattened.
    fn members(&mut self, parts: &[ast::Sub], out: &mut Vec<IndexId>) -> Option<()> {
        for part in parts {
            match part {
                ast::Sub::Merged(inner, _) => self.members(inner, out)?,
                ast::Sub::Rest(name) => {
                    self.report(no_rest(name.span, &format!("..{name}")));
                    return None;
                }
                ast::Sub::Expr(e) => match self.position(e)?.kind {
                    ExprKind::Index(index) => out.push(index),
                    _ => {
                        self.report(not_yet(e.span, "arithmetic inside a merged read"));
                        return None;
                    }
                },
            }
        }
        Some(())
    }

    /// A position in an axis: an integer.
    fn position(&mut self, e: &ast::Expr) -> Option<Expr> {
        let mut value = self.within(Mode::Index, e)?;
        match flex(&value) {
            Some(Flex::Int) => fix(&mut value, DType::I64, &mut self.cx.errors)?,
            Some(Flex::Float) => {}
            None if value.dtype.is_int() => return Some(value),
            None => {}
        }
        if value.dtype.is_int() {
            return Some(value);
        }
        let gathered = matches!(value.kind, ExprKind::Read(_));
        let (text, help) = match (&value.kind, &e.kind) {
            (ExprKind::Read(read), ast::ExprKind::Access { place, .. }) => {
                let axes = read
                    .place
                    .ty
                    .tensor()
                    .map_or(String::new(), |t| listed(&t.axes));
                (
                    format!(
                        "a gather index must be an integer tensor; `{place}` is {}",
                        value.dtype
                    ),
                    format!("declare `{place}: u32[{axes}]`"),
                )
            }
            (_, ast::ExprKind::Lit(_)) => (
                format!("an index must be an integer, but `{e}` is a float"),
                "write an integer".to_owned(),
            ),
            _ => (
                format!("an index must be an integer, but `{e}` is {}", value.dtype),
                super::dtype::cast_text(e, DType::I64),
            ),
        };
        let span = if gathered { value.span } else { e.span };
        self.report(Diag::new(Code::GatherIndex, span, text).help(help));
        None
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

fn bare_name(e: &ast::Expr) -> Option<&ast::Ident> {
    match &e.kind {
        ast::ExprKind::Name(place) => place.as_ident(),
        _ => None,
    }
}

fn wrong_rank(place: &ast::Place, axes: &[Dim], subs: &[ast::Sub], span: Span) -> Diag {
    let text = format!(
        "`{place}` has {} [{}], but {} given",
        count(axes.len(), "axis", "axes"),
        listed(axes),
        count(subs.len(), "index is", "indices are"),
    );
    let diag = Diag::new(Code::RankMismatch, span, text);
    let names: Vec<String> = subs.iter().map(|s| s.to_string()).collect();
    if subs.len() + 1 == axes.len() {
        // The axis to leave out so that most indices stand on an axis of their own name.
        let score = |gap: usize| {
            let kept = axes
                .iter()
                .enumerate()
                .filter(|(at, _)| *at != gap)
                .map(|(_, axis)| axis);
            kept.zip(&names)
                .filter(|(axis, name)| axis.to_string().to_lowercase() == **name)
                .count()
        };
        let gap = (0..axes.len())
            .rev()
            .max_by_key(|gap| score(*gap))
            .unwrap_or(0);
        let mut shown = names;
        shown.insert(gap, "?".into());
        let help = format!(
            "axis `{}` is missing: `{place}[{}]`",
            axes[gap],
            shown.join(", ")
        );
        return diag.help(help);
    }
    if subs.len() > axes.len() {
        return diag.help(format!("leave out {} of them", subs.len() - axes.len()));
    }
    diag.help(format!("give an index for each axis of [{}]", listed(axes)))
}
