//! Indices of a reduction that what it reduces does not use.

use super::expr::StmtCx;
use super::heads::head;
use super::tree::{Expr, ExprKind};
use super::walk::{accessed, mentions, stands, sub_name};
use crate::ein::{Agg, DType, Dim};
use crate::syntax::ast;
use crate::syntax::diag::{Code, Diag, Fix};
use crate::syntax::token::Span;

/// A position of an access that is an index around the reduction and reads an axis of the extent of
/// one of the reduction.
struct Position<'e> {
    access: &'e ast::Expr,
    name: &'e str,
    span: Span,
}

impl StmtCx<'_, '_> {
    /// Reports a reduction of tensors over an index that nothing in it uses, or that its condition alone
    /// does. What reads no element of one counts: `sum[k in K] 1.0`.
    pub(super) fn unused(
        &mut self,
        (reduce, whole): (&ast::Reduce, Span),
        bodies: &[&ast::Expr],
        values: &[&Expr],
    ) -> Option<()> {
        let reads = |e: &&Expr| matches!(&e.kind, ExprKind::Read(read) if !read.subs.is_empty());
        if !values.iter().any(|e| e.nodes().iter().any(reads)) {
            return Some(());
        }
        let uses = |name: &str| bodies.iter().any(|body| mentions(body, &[name]));
        let mut names = reduce.indices.iter().map(|decl| decl.name.as_str());
        let constant = !names.any(uses);
        let filtered = |name: &str| reduce.filter.iter().any(|f| mentions(f, &[name]));
        let unused = |decl: &&ast::IndexDecl| {
            let name = decl.name.as_str();
            !uses(name) && (constant || !filtered(name))
        };
        let Some(decl) = reduce.indices.iter().find(unused) else {
            return Some(());
        };
        // One without a range may be told from what else is wrong with its statement.
        let mut declared = self.indices.iter_mut();
        let declared = declared.find(|d| d.span == decl.name.span);
        let ranged = declared.as_ref().is_some_and(|d| d.extent.is_some());
        if !ranged && !filtered(decl.name.as_str()) {
            declared.into_iter().for_each(|d| d.idle = true);
            return Some(());
        }
        let (agg, name) = (&reduce.agg, &decl.name);
        let text = format!("what this `{agg}` reduces does not depend on its index `{name}`");
        let diag = Diag::new(Code::FactorInReduction, name.span, text);
        let found = self.along(reduce, decl, bodies);
        let first = found.first().map(|position| position.name);
        // Of two of them in one access it is not known which.
        let twice = found.iter().enumerate().any(|(at, one)| {
            let mut before = found[..at].iter();
            before.any(|other| other.access.span == one.access.span)
        });
        let same = !twice && found.iter().all(|position| Some(position.name) == first);
        let meant = first.filter(|_| same).map(|other| {
            let shown = shown(&found, name.as_str());
            let edits = found.iter().map(|p| (p.span, name.to_string()));
            let fix = Fix {
                help: format!("did you mean {shown}?"),
                edits: edits.collect(),
            };
            match self.stays(other, &found) {
                true => Ok(fix),
                false => Err(format!(
                    "to reduce that axis write {shown}; the result then has no axis of `{other}`"
                )),
            }
        });
        let times = constant.then(|| times((reduce, whole), bodies, values));
        self.report(match meant {
            Some(Ok(fix)) => diag.fix(fix),
            Some(Err(help)) => diag.help(help),
            None => match times.flatten() {
                Some(fix) => diag.fix(fix),
                None if constant => diag.help(not_used(name.as_str())),
                // What else is wrong may say where it is meant.
                None => {
                    self.uses.idle.push(diag.help(not_used(name.as_str())));
                    return Some(());
                }
            },
        });
        None
    }

    /// The positions of indices around a reduction that read an axis as long as its index.
    fn along<'e>(
        &self,
        reduce: &'e ast::Reduce,
        decl: &ast::IndexDecl,
        bodies: &[&'e ast::Expr],
    ) -> Vec<Position<'e>> {
        let declared = self.indices.iter().find(|d| d.span == decl.name.span);
        let range = declared.and_then(|d| Some(d.extent.as_ref()?.0.clone()));
        let read = || {
            let filter = reduce.filter.as_ref()?;
            self.cx
                .axes_of(filter, decl.name.as_str())
                .into_iter()
                .next()
        };
        let mut found = Vec::new();
        if let Some(extent) = range.or_else(read) {
            for body in bodies {
                self.positions_along(body, &extent, &mut found);
            }
        }
        found
    }

    fn positions_along<'e>(&self, e: &'e ast::Expr, extent: &Dim, out: &mut Vec<Position<'e>>) {
        if let Some((place, subs)) = accessed(e)
            && let Some(t) = self.cx.type_of(place)
            && t.axes.len() == subs.len()
        {
            let named = subs.iter().zip(&t.axes).filter_map(|(sub, axis)| {
                let name = sub_name(sub).filter(|name| self.visible_index(name).is_some())?;
                let (access, span) = (e, sub.span());
                let long = self.cx.facts.equal(axis, extent);
                long.then_some(Position { access, name, span })
            });
            out.extend(named);
        }
        let children = e.children().into_iter();
        children.for_each(|e| self.positions_along(e, extent, out));
    }

    /// Does an index still have its extent, and a use, without these positions?
    fn stays(&self, name: &str, without: &[Position<'_>]) -> bool {
        let decl = self.visible_index(name).map(|id| &self.indices[id.at()]);
        let ranged = decl.is_some_and(|decl| !decl.reduced && decl.extent.is_some());
        let mut places = Vec::new();
        if let Some(value) = self.cx.value() {
            stands(value, name, &mut places);
        }
        let left = |place: &Span| without.iter().all(|position| position.span != *place);
        ranged || places.iter().any(left)
    }
}

/// What to do with an index that nothing uses.
pub(super) fn not_used(name: &str) -> String {
    format!("read an axis by `{name}`, or leave it out")
}

/// The accesses with an index in place of those at the positions.
fn shown(positions: &[Position<'_>], index: &str) -> String {
    let mut texts: Vec<String> = Vec::new();
    for Position { access, .. } in positions {
        let Some((place, subs)) = accessed(access) else {
            continue;
        };
        let put = |sub: &ast::Sub| match positions.iter().any(|p| p.span == sub.span()) {
            true => index.to_owned(),
            false => sub.to_string(),
        };
        let subs: Vec<String> = subs.iter().map(put).collect();
        let text = format!("`{place}[{}]`", subs.join(", "));
        if !texts.contains(&text) {
            texts.push(text);
        }
    }
    texts.join(" and ")
}

/// A sum of what is the same for all indices as that times their number.
fn times(
    (reduce, whole): (&ast::Reduce, Span),
    bodies: &[&ast::Expr],
    values: &[&Expr],
) -> Option<Fix> {
    let ([body], [value]) = (bodies, values) else {
        return None;
    };
    if Agg::from_name(&reduce.agg.to_string()) != Some(Agg::SUM) {
        return None;
    }
    let one = match value.dtype {
        DType::F32 | DType::F64 => "1.0",
        DType::I64 => "1",
        _ => return None,
    };
    let body = match &body.kind {
        ast::ExprKind::If { .. } => format!("({body})"),
        _ => body.to_string(),
    };
    let text = format!("({body} * {} {one})", head(reduce));
    Some(Fix::replace(whole, text, "{} if it is meant"))
}
