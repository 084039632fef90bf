//! Reductions over a range that ends at an index or at a number of a run, `sum[t in 0..s]`: every
//! index runs over one extent, and a condition says which part of it is reduced.

use super::expr::StmtCx;
use super::fixes::range;
use super::heads::with_filter;
use super::walk::stands;
use crate::ein::Dim;
use crate::syntax::ast::{self, DimKind, DimOp, Ident, IndexDecl};
use crate::syntax::diag::{Code, Diag, Fix};
use crate::syntax::token::Span;

impl StmtCx<'_, '_> {
    /// The error about an index of a reduction whose range depends on what is no size, or starts with `0..`.
    pub(super) fn prefix(&self, reduce: &ast::Reduce, bodies: &[&ast::Expr]) -> Option<Diag> {
        let mut decls = reduce.indices.iter().enumerate();
        decls.find_map(|(at, decl)| self.ends_at(reduce, (at, decl), bodies))
    }

    fn ends_at(
        &self,
        reduce: &ast::Reduce,
        (at, decl): (usize, &IndexDecl),
        bodies: &[&ast::Expr],
    ) -> Option<Diag> {
        let (name, extent) = (&decl.name, decl.extent.as_ref()?);
        let names = extent.names();
        let Some(end) = names.iter().find(|name| self.is_no_size(name)) else {
            return whole(decl);
        };
        let what = match self.visible_index(end.as_str()) {
            Some(_) => "index",
            None => "number",
        };
        let text = format!("an extent is made of dims, but `{name}` runs up to the {what} `{end}`");
        let diag = Diag::new(Code::Extent, extent.span, text);
        let condition = match &extent.kind {
            DimKind::Binary(DimOp::Add, last, one) if matches!(one.kind, DimKind::Int(1)) => {
                format!("{name} <= {last}")
            }
            _ => format!("{name} < {extent}"),
        };
        // `t in s` may be a slip of the pen.
        let certain =
            !matches!(extent.kind, DimKind::Name(_)) || is_range(extent) || what == "number";
        let mut reads = Vec::new();
        bodies
            .iter()
            .for_each(|body| stands(body, name.as_str(), &mut reads));
        let mut all = reduce.clone();
        all.indices[at].extent = None;
        let fix = with_filter(&all, &condition, "did you mean {}?");
        let range = Span::new(name.span.end, extent.span.end);
        let axis = || {
            bodies
                .iter()
                .find_map(|body| self.cx.axes_of(body, name.as_str()).pop())
        };
        let ends = self.ranged(end.as_str(), axis);
        Some(match fix.filter(|_| certain && !reads.is_empty()).zip(ends) {
            Some((fix, ends)) => {
                let fix = fix.and(range, "");
                diag.fix(ends.into_iter().fold(fix, Fix::then))
            }
            None => diag.help(format!(
                "an index runs over a whole axis; a condition takes a part of it: `{}[{name} where {condition}]`",
                reduce.agg
            )),
        })
    }

    /// What stands behind the `in` of an index; of a name that is no dim, the axis that the index reads alone.
    pub(super) fn range_of(&mut self, index: &Ident, dim: &ast::Dim) -> Option<Dim> {
        let before = self.cx.errors.len();
        let made = self.cx.dims.dim(dim, &mut self.cx.errors);
        let value = self.cx.value().filter(|_| !self.cx.is_ranked());
        let axes = value.map(|value| self.cx.axes_of(value, index.as_str()));
        let axes = axes.unwrap_or_default();
        let one = axes
            .first()
            .filter(|axis| axes.iter().all(|other| other == *axis));
        if let ([error], DimKind::Name(_), Some(axis)) =
            (&mut self.cx.errors[before..], &dim.kind, one)
            && error.code == Code::UndefinedName
            && made.as_ref() != Some(axis)
        {
            error.help = None;
            error.fixes = vec![Fix::replace(dim.span, axis.to_string(), "did you mean {}?")];
            return Some(axis.clone());
        }
        made
    }

    /// The range that an index on the left needs where no axis is read by it: that of the declared result,
    /// else `axis`. `None` if it needs one that is not known.
    fn ranged(&self, index: &str, axis: impl FnOnce() -> Option<Dim>) -> Option<Option<Fix>> {
        let decl = self.visible_index(index).map(|id| &self.indices[id.at()]);
        let Some(decl) = decl.filter(|decl| decl.extent.is_none()) else {
            return Some(None);
        };
        let mut reads = Vec::new();
        stands(self.cx.value()?, index, &mut reads);
        if !reads.is_empty() {
            return Some(None);
        }
        let declared = self.cx.axis_of(decl.span).map(|axis| axis.extent.clone());
        let extent = declared.or_else(axis)?;
        Some(Some(range(index, decl.span, &extent.to_string())))
    }

    /// Is it an index here, or a number of a run?
    fn is_no_size(&self, name: &Ident) -> bool {
        let number = || {
            let var = self.cx.lookup(name.as_str())?;
            let ty = self.cx.vars[var.at()].ty.as_ref()?.tensor()?;
            Some(ty.axes.is_empty() && ty.dtype.is_int())
        };
        let size = self.cx.dims.named(name.as_str()).is_some();
        !size && (self.visible_index(name.as_str()).is_some() || number() == Some(true))
    }
}

/// The error about `i in 0..n`, which the parser leaves to the check.
fn whole(decl: &IndexDecl) -> Option<Diag> {
    let extent = decl.extent.as_ref().filter(|extent| is_range(extent))?;
    let text = "an index runs from 0 to below its extent";
    let help = format!("write `{} in {extent}`", decl.name);
    let diag = Diag::new(Code::Syntax, extent.span, text);
    Some(diag.fix(Fix::replace(extent.span, extent.to_string(), &help)))
}

/// Was it written behind `0..`?
fn is_range(extent: &ast::Dim) -> bool {
    let mut first = extent;
    while let DimKind::Binary(_, left, _) = &first.kind {
        first = left;
    }
    match &first.kind {
        DimKind::Name(path) => extent.span.start < path.span.start,
        _ => extent.span.start < first.span.start,
    }
}
