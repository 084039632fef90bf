//! What a round of a loop computes and loses, because a `let` hides the name that is meant.

use super::body::BodyCx;
use super::variables::Known;
use crate::syntax::ast::{ExprKind, Ident, Stmt, StmtKind};
use crate::syntax::diag::{Code, Diag, Fix};
use crate::syntax::token::Span;

/// The error about `var`, which nothing reads and which hides an `outer` one of its type.
pub(super) fn lost(cx: &BodyCx<'_>, var: &Known, outer: &Known) -> Diag {
    let name = &var.name;
    let text = format!(
        "this `{name}` ends with the round and is never read: it hides the `{name}` outside"
    );
    let diag = Diag::new(Code::NotMutable, var.span, text).secondary(outer.span, "that one");
    match carried(cx, var, outer) {
        Some(fix) => diag.fix(fix),
        None => diag.help(format!(
            "a loop carries the result of a block: `{name} = f({name});`, with `let mut {name}` outside"
        )),
    }
}

/// The name assigned in place of bound, by a call that gives it alone.
fn carried(cx: &BodyCx<'_>, var: &Known, outer: &Known) -> Option<Fix> {
    let stmt = bound(&cx.ast.stmts, var.span)?;
    let StmtKind::Let { pat, value, .. } = &stmt.kind else {
        return None;
    };
    let ExprKind::Call { .. } = &value.kind else {
        return None;
    };
    let [name] = &pat.names[..] else { return None };
    if pat.indices.is_some() {
        return None;
    }
    let help = format!("did you mean `{name} = {value};`?");
    let head = Span::new(stmt.span.start, value.span.start);
    let fix = Fix::replace(head, format!("{name} = "), &help);
    match outer.mutable {
        true => Some(fix),
        false => Some(fix.then(cx.mutable(outer)?)),
    }
}

/// The statement that binds the name at `place`.
fn bound(stmts: &[Stmt], place: Span) -> Option<&Stmt> {
    let is = |name: &Ident| name.span == place;
    stmts.iter().find_map(|stmt| match &stmt.kind {
        StmtKind::Let { pat, .. } => pat.names.iter().any(is).then_some(stmt),
        StmtKind::For { body, .. } => bound(body, place),
        _ => None,
    })
}
