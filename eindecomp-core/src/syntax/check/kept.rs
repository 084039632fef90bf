//! Axes that are kept where they are reduced, as other languages do: `let m[i, j] = max[j] x[i, j];`.

use super::body::BodyCx;
use super::walk;
use crate::syntax::ast::{self, Expr, LeftIndex, Stmt, StmtKind};
use crate::syntax::diag::Fix;
use crate::syntax::token::Span;

impl BodyCx<'_> {
    /// A reduced index left out on the left, and in what reads the result, if `reduction` alone uses it.
    pub(super) fn not_kept(&self, index: &str, reduction: Span) -> Option<Fix> {
        let stmt = self.stmt?;
        let StmtKind::Let { pat, value, .. } = &stmt.kind else {
            return None;
        };
        let ([name], Some(left)) = (&pat.names[..], &pat.indices) else {
            return None;
        };
        let mut uses = Vec::new();
        walk::named(value, index, &mut uses);
        let declared = self.result_axes(name.as_str());
        if uses.iter().any(|place| !reduction.contains(*place))
            || declared.is_some_and(|axes| axes.len() == left.len())
        {
            return None;
        }
        let own = |left: &LeftIndex| {
            let LeftIndex::Index(decl) = left else {
                return None;
            };
            Some(decl.name.as_str() == index)
        };
        let own: Vec<bool> = left.iter().map(own).collect::<Option<_>>()?;
        let at = own.iter().position(|own| *own)?;
        let without = |all: Vec<String>| -> String {
            let others = all.into_iter().enumerate().filter(|(i, _)| *i != at);
            others.map(|(_, text)| text).collect::<Vec<_>>().join(", ")
        };
        let shown = without(left.iter().map(ToString::to_string).collect());
        let kept = format!("{name}[{shown}]");
        let help =
            format!("what is reduced is no axis of the result: `let {kept}`, which is read so");
        let place = Span::new(name.span.start, pat.span.end);
        let mut fix = Fix::replace(place, kept, &help);
        let mut reads = Reads {
            name: name.as_str(),
            found: Vec::new(),
            whole: false,
        };
        reads.stmts(&self.ast.stmts, stmt.span.end);
        for (read, subs) in reads.found {
            match subs.len() {
                n if n == left.len() => {}
                // It is read right.
                n if n + 1 == left.len() => continue,
                _ => return None,
            }
            let shown = without(subs.iter().map(ToString::to_string).collect());
            let text = match shown.is_empty() {
                true => name.to_string(),
                false => format!("{name}[{shown}]"),
            };
            fix = fix.and(read, text);
        }
        (!reads.whole).then_some(fix)
    }
}

/// What reads the elements of a tensor.
struct Reads<'e> {
    name: &'e str,
    found: Vec<(Span, &'e [ast::Sub])>,
    /// Something reads all of it.
    whole: bool,
}

impl<'e> Reads<'e> {
    /// In what stands behind `from`, up to another tensor of the name.
    fn stmts(&mut self, stmts: &'e [Stmt], from: u32) {
        for stmt in stmts {
            let behind = stmt.span.start >= from;
            match &stmt.kind {
                StmtKind::Let { pat, value, .. } if behind => {
                    self.expr(value);
                    if pat.names.iter().any(|name| name.as_str() == self.name) {
                        return;
                    }
                }
                StmtKind::Store { subs, value, .. } if behind => {
                    subs.iter().chain([value]).for_each(|e| self.expr(e));
                }
                StmtKind::Carry { args, .. } if behind => {
                    args.iter().for_each(|e| self.expr(e));
                }
                StmtKind::For { body, .. } => self.stmts(body, from),
                _ => {}
            }
        }
    }

    fn expr(&mut self, e: &'e Expr) {
        match walk::accessed(e) {
            Some((place, subs)) if place.as_ident().is_some_and(|i| i.as_str() == self.name) => {
                self.found.push((e.span, subs));
            }
            _ => self.whole |= walk::name(e) == Some(self.name),
        }
        e.children().into_iter().for_each(|e| self.expr(e));
    }
}
