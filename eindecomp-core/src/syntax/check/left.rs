//! Indices that are missing on the left of a statement.

use super::body::BodyCx;
use super::walk::{accessed, sub_name};
use crate::syntax::ast::{Expr, IndexDecl, LeftIndex, Pattern, Stmt, StmtKind, Sub};
use crate::syntax::diag::Fix;
use crate::syntax::names::is_like;
use crate::syntax::token::Span;

impl BodyCx<'_> {
    /// An index more on the left of a statement whose result is declared with one axis more, at the
    /// axis of its name, or is read with it in a later statement.
    pub(super) fn put_left(&self, pattern: &Pattern, index: &str) -> Option<Fix> {
        let [name] = &pattern.names[..] else {
            return None;
        };
        let indices = bare(pattern)?;
        if let Some(axes) = self.result_axes(name.as_str()) {
            let at = axes.iter().position(|axis| is_like(axis, index))?;
            return (axes.len() == indices.len() + 1)
                .then(|| inserted(pattern, &indices, at, index));
        }
        let reads = self.reads_of(name.as_str());
        let at = reads.first()?.iter().position(|sub| sub == index)?;
        let same = |subs: &Vec<String>| {
            let mut rest = subs.clone();
            rest.len() == indices.len() + 1 && rest.remove(at) == index && {
                let names = indices.iter().map(|decl| decl.name.as_str());
                rest.iter().map(String::as_str).eq(names)
            }
        };
        reads
            .iter()
            .all(same)
            .then(|| inserted(pattern, &indices, at, index))
    }

    /// An index more on the left of a statement, which all of several reads on the right share, behind
    /// others that they share. Nothing says how many axes the tensor has.
    pub(super) fn batched(&self, pattern: &Pattern, index: &str, value: &Expr) -> Option<Fix> {
        let [name] = &pattern.names[..] else {
            return None;
        };
        let indices = bare(pattern)?;
        let open =
            self.result_axes(name.as_str()).is_none() && self.reads_of(name.as_str()).is_empty();
        let mut reads = Vec::new();
        accesses(value, &mut reads);
        let shared = |name: &str| {
            let stands = |subs: &&[Sub]| subs.iter().any(|sub| sub_name(sub) == Some(name));
            reads.iter().all(stands)
        };
        let leading = indices.iter().take_while(|decl| shared(decl.name.as_str()));
        let at = leading.count();
        (open && reads.len() > 1 && shared(index)).then(|| inserted(pattern, &indices, at, index))
    }

    /// Do all factors have an index, of whose tensor others read elements without it?
    pub(super) fn left_out_everywhere(&self, pattern: &Pattern, index: &str, value: &Expr) -> bool {
        let mut reads = Vec::new();
        accesses(value, &mut reads);
        let stands = |subs: &&[Sub]| subs.iter().any(|sub| sub_name(sub) == Some(index));
        let name = pattern.names[0].as_str();
        let read = !self.reads_of(name).is_empty();
        reads.len() > 1 && reads.iter().all(stands) && self.result_axes(name).is_none() && read
    }

    /// The subscripts of all accesses of a tensor in the block.
    pub(super) fn reads_of(&self, name: &str) -> Vec<Vec<String>> {
        let mut values = Vec::new();
        stmts_values(&self.ast.stmts, &mut values);
        let mut out = Vec::new();
        values
            .into_iter()
            .for_each(|e| of_tensor(e, name, &mut out));
        out
    }
}

/// The left indices, if none is merged or of any rank.
fn bare(pattern: &Pattern) -> Option<Vec<&IndexDecl>> {
    let indices = pattern.indices.as_ref()?.iter().map(|index| match index {
        LeftIndex::Index(decl) => Some(decl),
        _ => None,
    });
    indices.collect()
}

/// An index as number `at` on the left.
fn inserted(pattern: &Pattern, indices: &[&IndexDecl], at: usize, index: &str) -> Fix {
    let mut shown: Vec<&str> = indices.iter().map(|decl| decl.name.as_str()).collect();
    shown.insert(at, index);
    let name = &pattern.names[0];
    let help = format!("put it on the left: `let {name}[{}]`", shown.join(", "));
    let end = |decl: &IndexDecl| decl.extent.as_ref().map_or(decl.name.span, |dim| dim.span);
    let close = Span::new(pattern.span.end - 1, pattern.span.end - 1);
    match (indices.get(at), indices.last()) {
        (Some(next), _) => Fix::before(next.name.span, format!("{index}, "), &help),
        (None, Some(last)) => Fix::after(end(last), format!(", {index}"), &help),
        (None, None) => Fix::replace(close, index, &help),
    }
}

fn accesses<'e>(e: &'e Expr, out: &mut Vec<&'e [Sub]>) {
    out.extend(accessed(e).map(|(_, subs)| subs));
    e.children().into_iter().for_each(|e| accesses(e, out));
}

fn of_tensor(e: &Expr, name: &str, out: &mut Vec<Vec<String>>) {
    if let Some((place, subs)) = accessed(e)
        && place.as_ident().is_some_and(|ident| ident.as_str() == name)
    {
        out.push(subs.iter().map(Sub::to_string).collect());
    }
    let children = e.children().into_iter();
    children.for_each(|e| of_tensor(e, name, out));
}

fn stmts_values<'s>(stmts: &'s [Stmt], out: &mut Vec<&'s Expr>) {
    for stmt in stmts {
        match &stmt.kind {
            StmtKind::Let { value, .. } | StmtKind::Store { value, .. } => out.push(value),
            StmtKind::For { body, .. } => stmts_values(body, out),
            StmtKind::Carry { .. } | StmtKind::Error(_) => {}
        }
    }
}
