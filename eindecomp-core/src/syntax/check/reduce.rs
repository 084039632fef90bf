//! Reductions, and the three traps of writing them.

use std::collections::BTreeSet;

use super::dtype::{Flex, fix, flex};
use super::expr::StmtCx;
use super::names::nearest_agg;
use super::tree::{Expr, ExprKind, IndexId, Reduce};
use super::types::{element_type, not_yet};
use crate::ein::{Agg, DType};
use crate::syntax::ast::{self, BinaryOp, ReduceBody, UnaryOp};
use crate::syntax::diag::{Code, Diag, Fix};
use crate::syntax::token::Span;

impl StmtCx<'_, '_> {
    pub(super) fn reduce(&mut self, reduce: &ast::Reduce, span: Span) -> Option<Expr> {
        let name = reduce.agg.to_string();
        let agg = Agg::from_name(&name);
        let (Some(agg), ReduceBody::Product(body)) = (agg, &reduce.body) else {
            self.report(self.no_agg(&name, reduce));
            return None;
        };
        self.naked(reduce, body)?;
        let before = self.visible.len();
        let depth = self.guards.len();
        let declared: Vec<Option<IndexId>> = reduce
            .indices
            .iter()
            .map(|decl| self.declare(decl, true))
            .collect();
        if declared.contains(&None) {
            self.suggest_free(body);
            self.visible.truncate(before);
            return None;
        }
        let filter = reduce.filter.as_ref().map(|f| self.condition(f));
        if let Some(Some(filter)) = &filter {
            self.guard(filter);
        }
        let value = self.expr(body);
        self.guards.truncate(depth);
        self.closed
            .extend(reduce.indices.iter().map(|decl| decl.name.name.clone()));
        self.visible.truncate(before);
        let acc = match &reduce.acc {
            None => None,
            Some(dtype) => Some(element_type(dtype, &mut self.cx.errors)?),
        };
        let indices = declared.into_iter().collect::<Option<Vec<_>>>()?;
        let filter = match filter {
            None => None,
            Some(filter) => Some(filter?),
        };
        let value = value?;
        self.traps(agg, reduce, body, &indices)?;
        let (acc, dtype, value) = self.reduced_dtype(agg, reduce, body, value, acc)?;
        let reduce = Reduce {
            agg,
            indices,
            filter,
            acc,
            body: value,
        };
        Some(Expr {
            kind: ExprKind::Reduce(Box::new(reduce)),
            dtype,
            span,
        })
    }

    fn no_agg(&self, name: &str, reduce: &ast::Reduce) -> Diag {
        let span = reduce.agg.span;
        if name == "softmax_sum" {
            return not_yet(span, "`softmax_sum`");
        }
        if matches!(reduce.body, ReduceBody::Args(_)) && nearest_agg(name).is_none() {
            return not_yet(span, "an aggregation of one's own");
        }
        let diag = Diag::new(
            Code::UnknownAgg,
            span,
            format!("there is no aggregation `{name}`"),
        );
        match nearest_agg(name) {
            Some(meant) => diag.help(format!("did you mean `{meant}`?")),
            None => {
                let known = crate::ein::agg::AGGS
                    .iter()
                    .map(|row| row.name)
                    .collect::<Vec<_>>();
                diag.help(format!("aggregations are `{}`", known.join("`, `")))
            }
        }
    }

    /// The dtypes of partial results and of the result.
    fn reduced_dtype(
        &mut self,
        agg: Agg,
        reduce: &ast::Reduce,
        text: &ast::Expr,
        mut value: Expr,
        acc: Option<DType>,
    ) -> Option<(DType, DType, Expr)> {
        if let Some(kind) = flex(&value) {
            let own = if kind == Flex::Float {
                DType::F32
            } else {
                DType::I64
            };
            fix(&mut value, acc.unwrap_or(own), &mut self.cx.errors)?;
        }
        let row = agg.row();
        let undefined = |help: Option<String>| {
            let message = format!("`{agg}` is not defined for {}", value.dtype);
            let diag = Diag::new(Code::DtypeRule, text.span, message);
            match help {
                Some(help) => diag.help(help),
                None => diag,
            }
        };
        let bad = if row.boolean {
            (value.dtype != DType::Bool)
                .then(|| undefined(Some(format!("compare it: `({text}) != 0`"))))
        } else if value.dtype == DType::Bool {
            Some(undefined(Some(format!("`({text}) as i64`"))))
        } else if row.int_identity.is_none() && value.dtype.is_int() {
            Some(undefined(Some(format!("`({text}) as f32`"))))
        } else {
            None
        };
        if let Some(diag) = bad {
            self.report(diag);
            return None;
        }
        if row.selects && reduce.indices.len() != 1 {
            let message = format!("`{agg}` takes exactly one index");
            self.report(Diag::new(Code::Arity, reduce.agg.span, message));
            return None;
        }
        if row.selects {
            return Some((value.dtype, DType::I64, value));
        }
        let Some(wanted) = acc else {
            return Some((value.dtype.default_accumulator(), value.dtype, value));
        };
        if !value.dtype.widens_to(wanted) {
            let message = format!("this {} value would be narrowed to {wanted}", value.dtype);
            let diag = Diag::new(Code::Narrowing, text.span, message);
            self.report(diag.help(format!("`({text}) as {wanted}`")));
            return None;
        }
        Some((wanted, wanted, value))
    }

    /// Adds to the error about a reduced index that is on the left: the only free index of the
    /// body is the one that is meant.
    fn suggest_free(&mut self, body: &ast::Expr) {
        let mut names = BTreeSet::new();
        positions(body, &mut names);
        names.retain(|name| {
            self.visible_index(name).is_none()
                && self.cx.lookup(name).is_none()
                && !self.cx.dims.dims.contains(*name)
        });
        let names: Vec<&str> = names.into_iter().collect();
        if let ([name], Some(error)) = (&names[..], self.cx.errors.last_mut())
            && error.code == Code::ReducedOutput
        {
            let meant = Fix::replace(error.primary, *name, "did you mean {}?");
            error.fixes.push(meant);
        }
    }

    /// Reports a reduction that no parentheses hold in the body.
    fn naked(&mut self, reduce: &ast::Reduce, body: &ast::Expr) -> Option<()> {
        let mut factors = Vec::new();
        flatten(body, &mut factors);
        let head = head(reduce);
        for (at, factor) in factors.iter().enumerate() {
            if let Some((inner, span)) = naked_reduction(factor) {
                let rebinds = |decl: &ast::IndexDecl| {
                    reduce
                        .indices
                        .iter()
                        .any(|outer| outer.name.name == decl.name.name)
                };
                let rebinds = inner.indices.iter().any(rebinds);
                let text = "a reduction stands unparenthesised inside another's body";
                let diag = Diag::new(Code::NestedReduction, span, text);
                let help = match at {
                    0 if rebinds => "use another index for the inner one".to_owned(),
                    _ if rebinds => format!("`({head} {}) {}`", product(body, at), rest(body, at)),
                    0 => format!("`{head} ({factor})` if it is meant"),
                    _ => format!(
                        "`({head} {}) {}`, or `{head} ({body})` if it is meant",
                        product(body, at),
                        rest(body, at)
                    ),
                };
                self.report(diag.help(help));
                return None;
            }
        }
        Some(())
    }

    /// Reports a body that hardly means what it says.
    fn traps(
        &mut self,
        agg: Agg,
        reduce: &ast::Reduce,
        body: &ast::Expr,
        indices: &[IndexId],
    ) -> Option<()> {
        let mut factors = Vec::new();
        flatten(body, &mut factors);
        let head = head(reduce);
        if agg != Agg::SUM && factors.len() > 1 {
            for (at, factor) in factors.iter().enumerate() {
                let names = reduce.indices.iter().map(|d| d.name.as_str());
                if mentions(factor, &names.collect::<Vec<_>>()) || indices.is_empty() {
                    continue;
                }
                let text =
                    format!("`{factor}` does not depend on the indices that this `{agg}` reduces");
                let diag = Diag::new(Code::FactorInReduction, factor.span, text);
                let outside = match at {
                    0 => format!("`({head} {}) * {factor}`", rest_after_first(body)),
                    _ => format!("`({head} {}) {}`", product(body, at), rest(body, at)),
                };
                self.report(diag.help(format!("{outside}, or `{head} ({body})` if it is meant")));
                return None;
            }
        }
        if let Some(ast::Expr {
            kind: ast::ExprKind::Cast(value, dtype),
            span,
        }) = factors.last().copied()
            && let Some(to) = DType::from_name(dtype.as_str())
            && self.narrows(value, to)
        {
            let at = factors.len() - 1;
            let text = format!("this narrows only `{value}` to {to}, not the result");
            let diag = Diag::new(Code::NarrowingFactor, *span, text);
            let whole = match at {
                0 => format!("{value}"),
                _ => format!("{} {}", product(body, at), rest_with(body, at, value)),
            };
            self.report(diag.help(format!(
                "`({head} {whole}) as {to}`, or `{head} ({body})` if it is meant"
            )));
            return None;
        }
        Some(())
    }

    /// Would a cast of this to `to` lose something? Its errors are reported already.
    fn narrows(&mut self, value: &ast::Expr, to: DType) -> bool {
        fn dtype_of(cx: &StmtCx<'_, '_>, e: &ast::Expr) -> Option<DType> {
            match &e.kind {
                ast::ExprKind::Access { place, .. } | ast::ExprKind::Name(place) => {
                    let var = cx.cx.lookup(place.path.as_ident()?.as_str())?;
                    let mut ty = cx.cx.vars[var.at()].ty.clone()?;
                    for field in &place.fields {
                        let super::tree::Type::Struct(s) = &ty else {
                            return None;
                        };
                        ty = cx.cx.items.checked.field_type(s, field.as_str())?;
                    }
                    ty.tensor().map(|t| t.dtype)
                }
                ast::ExprKind::Cast(_, dtype) => DType::from_name(dtype.as_str()),
                ast::ExprKind::Call { args, .. } => dtype_of(cx, args.first()?),
                ast::ExprKind::Paren(inner) | ast::ExprKind::Unary(_, inner) => dtype_of(cx, inner),
                ast::ExprKind::Binary(_, a, b) => match (dtype_of(cx, a), dtype_of(cx, b)) {
                    (Some(a), Some(b)) => a.common(b),
                    (a, b) => a.or(b),
                },
                _ => None,
            }
        }
        dtype_of(self, value).is_some_and(|from| {
            let same_kind = from.is_float() == to.is_float();
            same_kind && !from.widens_to(to)
        })
    }
}

/// `sum[k where p; f32]`
fn head(reduce: &ast::Reduce) -> String {
    let mut text = format!("{}[{}", reduce.agg, super::tree::listed(&reduce.indices));
    if let Some(filter) = &reduce.filter {
        text += &format!(" where {filter}");
    }
    if let Some(acc) = &reduce.acc {
        text += &format!("; {acc}");
    }
    text + "]"
}

/// The factors and divisors of an unparenthesised product.
fn flatten<'e>(e: &'e ast::Expr, out: &mut Vec<&'e ast::Expr>) {
    match &e.kind {
        ast::ExprKind::Binary(BinaryOp::Mul | BinaryOp::Div | BinaryOp::Rem, a, b) => {
            flatten(a, out);
            out.push(b);
        }
        _ => out.push(e),
    }
}

/// The first `at` factors of a product, as written.
fn product(e: &ast::Expr, at: usize) -> String {
    let mut factors = Vec::new();
    flatten(e, &mut factors);
    let mut node = e;
    for _ in at..factors.len() {
        if let ast::ExprKind::Binary(_, a, _) = &node.kind {
            node = a;
        }
    }
    node.to_string()
}

/// The operators and factors from number `at` on.
fn rest(e: &ast::Expr, at: usize) -> String {
    let mut factors = Vec::new();
    flatten(e, &mut factors);
    let (mut node, mut parts) = (e, Vec::new());
    for _ in at..factors.len() {
        if let ast::ExprKind::Binary(op, a, b) = &node.kind {
            parts.push(format!("{} {b}", op.symbol()));
            node = a;
        }
    }
    parts.reverse();
    parts.join(" ")
}

/// The last operator with another operand.
fn rest_with(e: &ast::Expr, _at: usize, value: &ast::Expr) -> String {
    match &e.kind {
        ast::ExprKind::Binary(op, _, _) => format!("{} {value}", op.symbol()),
        _ => value.to_string(),
    }
}

/// A product without its first factor.
fn rest_after_first(e: &ast::Expr) -> String {
    let rest = rest(e, 1);
    rest.strip_prefix("* ")
        .map_or_else(|| format!("1.0 {rest}"), str::to_owned)
}

/// A reduction that no parentheses hold, and where it stands.
fn naked_reduction(e: &ast::Expr) -> Option<(&ast::Reduce, Span)> {
    match &e.kind {
        ast::ExprKind::Reduce(reduce) => Some((reduce, e.span)),
        ast::ExprKind::Unary(UnaryOp::Neg | UnaryOp::Not, inner)
        | ast::ExprKind::Cast(inner, _) => naked_reduction(inner),
        _ => None,
    }
}

/// Does an expression name one of the indices?
fn mentions(e: &ast::Expr, names: &[&str]) -> bool {
    let sub = |sub: &ast::Sub| {
        fn within(sub: &ast::Sub, names: &[&str]) -> bool {
            match sub {
                ast::Sub::Expr(e) => mentions(e, names),
                ast::Sub::Rest(_) => false,
                ast::Sub::Merged(parts, _) => parts.iter().any(|p| within(p, names)),
            }
        }
        within(sub, names)
    };
    match &e.kind {
        ast::ExprKind::Lit(_) => false,
        ast::ExprKind::Name(place) => place
            .as_ident()
            .is_some_and(|name| names.contains(&name.as_str())),
        ast::ExprKind::Access { subs, .. } => subs.iter().any(sub),
        ast::ExprKind::Call { args, .. } | ast::ExprKind::Tuple(args) => {
            args.iter().any(|a| mentions(a, names))
        }
        ast::ExprKind::Reduce(reduce) => {
            let inner = match &reduce.body {
                ReduceBody::Product(body) => mentions(body, names),
                ReduceBody::Args(args) => args.iter().any(|a| mentions(a, names)),
            };
            inner || reduce.filter.as_ref().is_some_and(|f| mentions(f, names))
        }
        ast::ExprKind::Unary(_, inner)
        | ast::ExprKind::Cast(inner, _)
        | ast::ExprKind::Paren(inner) => mentions(inner, names),
        ast::ExprKind::Binary(_, a, b) => mentions(a, names) || mentions(b, names),
        ast::ExprKind::If {
            cond,
            then,
            otherwise,
        } => [cond, then, otherwise]
            .into_iter()
            .any(|e| mentions(e, names)),
    }
}

/// Names that stand alone as positions in accesses.
fn positions<'e>(e: &'e ast::Expr, out: &mut BTreeSet<&'e str>) {
    fn sub<'e>(s: &'e ast::Sub, out: &mut BTreeSet<&'e str>) {
        match s {
            ast::Sub::Rest(_) => {}
            ast::Sub::Merged(parts, _) => parts.iter().for_each(|part| sub(part, out)),
            ast::Sub::Expr(e) => match &e.kind {
                ast::ExprKind::Name(place) => {
                    out.extend(place.as_ident().map(|name| name.as_str()));
                }
                _ => positions(e, out),
            },
        }
    }
    match &e.kind {
        ast::ExprKind::Access { subs, .. } => subs.iter().for_each(|s| sub(s, out)),
        ast::ExprKind::Call { args, .. } | ast::ExprKind::Tuple(args) => {
            args.iter().for_each(|e| positions(e, out));
        }
        ast::ExprKind::Unary(_, a) | ast::ExprKind::Cast(a, _) | ast::ExprKind::Paren(a) => {
            positions(a, out);
        }
        ast::ExprKind::Binary(_, a, b) => [a, b].into_iter().for_each(|e| positions(e, out)),
        ast::ExprKind::If {
            cond,
            then,
            otherwise,
        } => {
            [cond, then, otherwise]
                .into_iter()
                .for_each(|e| positions(e, out));
        }
        // What an inner reduction binds is its own affair.
        ast::ExprKind::Reduce(_) | ast::ExprKind::Lit(_) | ast::ExprKind::Name(_) => {}
    }
}
