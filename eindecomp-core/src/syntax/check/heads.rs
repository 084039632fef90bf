//! Heads of reductions: as text, and as helps change them.

use super::slips::renamed;
use super::tree::listed;
use super::walk::named;
use crate::syntax::ast::{self, ReduceBody};
use crate::syntax::diag::{Code, Diag, Fix};
use crate::syntax::token::Span;

/// The error about an index that stands twice in a reduction.
pub(super) fn twice(reduce: &ast::Reduce) -> Option<Diag> {
    let mut indices = reduce.indices.iter().enumerate();
    let (first, second) = indices.find_map(|(at, decl)| {
        let mut before = reduce.indices[..at].iter();
        let first = before.find(|other| other.name.name == decl.name.name)?;
        Some((&first.name, &decl.name))
    })?;
    let text = format!("index `{second}` stands twice in this reduction");
    let diag = Diag::new(Code::Duplicate, second.span, text).secondary(first.span, "first here");
    let agg = &reduce.agg;
    Some(diag.help(format!(
        "two axes have two indices: `{agg}[i, j] x[i, j]`; one for both reads the diagonal: `{agg}[i] x[i, i]`"
    )))
}

/// `sum[k where p; f32]`
pub(super) fn head(reduce: &ast::Reduce) -> String {
    let mut text = format!("{}[{}", reduce.agg, listed(&reduce.indices));
    if let Some(filter) = &reduce.filter {
        text += &format!(" where {filter}");
    }
    if let Some(acc) = &reduce.acc {
        text += &format!("; {acc}");
    }
    text + "]"
}

/// A reduction with one more condition; `{}` in `help` is its head.
pub(super) fn with_filter(reduce: &ast::Reduce, condition: &str, help: &str) -> Option<Fix> {
    let last = reduce.indices.last()?;
    let or = |e: &ast::Expr| matches!(&e.kind, ast::ExprKind::Binary(ast::BinaryOp::Or, ..));
    let text = match &reduce.filter {
        None => condition.to_owned(),
        Some(filter) if or(filter) => format!("({filter}) && {condition}"),
        Some(filter) => format!("{filter} && {condition}"),
    };
    let fix = match &reduce.filter {
        Some(filter) => Fix::replace(filter.span, &*text, ""),
        None => {
            let place = last.extent.as_ref().map_or(last.name.span, |dim| dim.span);
            Fix::after(place, format!(" where {text}"), "")
        }
    };
    let mut shown = format!("{}[{}", reduce.agg, listed(&reduce.indices));
    shown += &format!(" where {text}");
    if let Some(acc) = &reduce.acc {
        shown += &format!("; {acc}");
    }
    let shown = format!("`{shown}]`");
    Some(Fix {
        help: match help {
            "" => shown,
            help => help.replace("{}", &shown),
        },
        ..fix
    })
}

/// A reduction without what it says of its accumulator.
pub(super) fn without_accumulator(reduce: &ast::Reduce, help: &str) -> Option<Fix> {
    let acc = reduce.acc.as_ref()?;
    let last = reduce.indices.last();
    let index = last.map(|i| i.extent.as_ref().map_or(i.name.span, |d| d.span));
    let before = reduce.filter.as_ref().map(|f| f.span).or(index)?;
    Some(Fix::replace(Span::new(before.end, acc.span.end), "", help))
}

/// Another name for the one index of a reduction.
pub(super) fn another_index(reduce: &ast::Reduce) -> Option<Fix> {
    let ([decl], ReduceBody::Product(body)) = (&reduce.indices[..], &reduce.body) else {
        return None;
    };
    let name = decl.name.as_str();
    let fresh = format!("{name}2");
    let shown = renamed(&format!("{} {body}", head(reduce)), &[(name, &fresh)]);
    let help = format!("use another index: `{shown}`");
    let mut fix = Fix::replace(decl.name.span, &*fresh, &help);
    let mut uses = Vec::new();
    let filter = reduce.filter.iter();
    filter.chain([body]).for_each(|e| named(e, name, &mut uses));
    fix.edits
        .extend(uses.into_iter().map(|span| (span, fresh.clone())));
    Some(fix)
}
