//! Looking through expressions as written.

use crate::syntax::ast::{
    Block, Expr, ExprKind, ForRange, Ident, IndexDecl, Place, Stmt, StmtKind, Sub,
};
use crate::syntax::token::Span;

/// The name that an expression is.
pub(super) fn name(e: &Expr) -> Option<&str> {
    match &e.kind {
        ExprKind::Name(place) => place.as_ident().map(|name| name.as_str()),
        _ => None,
    }
}

/// What an expression reads all or an element of.
pub(super) fn place(e: &Expr) -> Option<&Place> {
    match &e.kind {
        ExprKind::Access { place, .. } | ExprKind::Name(place) => Some(place),
        _ => None,
    }
}

/// Does an expression name one of these?
pub(super) fn mentions(e: &Expr, names: &[&str]) -> bool {
    name(e).is_some_and(|name| names.contains(&name))
        || e.children().into_iter().any(|e| mentions(e, names))
}

/// The nodes from `e` to the one at `place`, both of them included; false if there is none.
pub(super) fn path_to<'e>(e: &'e Expr, place: Span, path: &mut Vec<&'e Expr>) -> bool {
    path.push(e);
    let children = || e.children().into_iter();
    let found = e.span == place && !children().any(|child| child.span == place)
        || children().any(|child| path_to(child, place, path));
    if !found {
        path.pop();
    }
    found
}

/// Does a block read something of this name?
pub(super) fn reads(block: &Block, wanted: &str) -> bool {
    uses(block, wanted) > 0
}

/// Does a statement of a block read something of this name?
pub(super) fn goes_on(block: &Block, wanted: &str) -> bool {
    stmts_use(&block.stmts, wanted) > 0
}

/// How often a block reads something of this name. A statement that is not understood may do so more
/// than once.
pub(super) fn uses(block: &Block, wanted: &str) -> usize {
    let result = block.result.iter().flat_map(|result| &result.names);
    let result = result.filter(|name| name.as_str() == wanted).count();
    result + stmts_use(&block.stmts, wanted)
}

pub(super) fn stmts_use(stmts: &[Stmt], wanted: &str) -> usize {
    let names = |names: &[Ident]| names.iter().filter(|n| n.as_str() == wanted).count();
    let all = |all: &[Expr]| all.iter().map(|e| uses_in(e, wanted)).sum::<usize>();
    let each = stmts.iter().map(|stmt| match &stmt.kind {
        StmtKind::Let { value, .. } => uses_in(value, wanted),
        StmtKind::Store { subs, value, .. } => uses_in(value, wanted) + all(subs),
        StmtKind::Carry { targets, args, .. } => names(targets) + all(args),
        StmtKind::For { range, body, .. } => {
            let arrays = match range {
                ForRange::Arrays(arrays) => &arrays[..],
                ForRange::Range(..) => &[],
            };
            names(arrays) + stmts_use(body, wanted)
        }
        StmtKind::Error(_) => 2,
    });
    each.sum()
}

/// How often an expression reads this, an element or a field of it.
pub(super) fn uses_in(e: &Expr, wanted: &str) -> usize {
    let root = place(e).and_then(|place| place.path.as_ident());
    let here = root.is_some_and(|root| root.as_str() == wanted);
    let children = e.children().into_iter().map(|e| uses_in(e, wanted));
    usize::from(here) + children.sum::<usize>()
}

/// Where an expression names this.
pub(super) fn named(e: &Expr, wanted: &str, out: &mut Vec<Span>) {
    if name(e) == Some(wanted) {
        out.push(e.span);
    }
    e.children().into_iter().for_each(|e| named(e, wanted, out));
}

/// Does an access read at positions that are read themselves?
pub(super) fn gathers(e: &Expr) -> bool {
    let here = accessed(e).is_some_and(|(_, subs)| {
        let mut positions = subs.iter().flat_map(Sub::exprs);
        positions.any(accesses)
    });
    here || e.children().into_iter().any(gathers)
}

/// Every access in an expression, inner ones behind those around them.
pub(super) fn reads_in<'e>(e: &'e Expr, out: &mut Vec<(&'e Place, &'e [Sub])>) {
    out.extend(accessed(e));
    e.children().into_iter().for_each(|e| reads_in(e, out));
}

/// Where this stands alone as a position in an access.
pub(super) fn stands(e: &Expr, wanted: &str, out: &mut Vec<Span>) {
    let access = matches!(e.kind, ExprKind::Access { .. });
    for child in e.children() {
        match name(child) {
            Some(name) if access && name == wanted => out.push(child.span),
            _ => stands(child, wanted, out),
        }
    }
}

/// How often the positions of accesses name this.
pub(super) fn in_accesses(e: &Expr, wanted: &str) -> usize {
    if accessed(e).is_some() {
        let mut places = Vec::new();
        named(e, wanted, &mut places);
        return places.len();
    }
    let children = e.children().into_iter();
    children.map(|e| in_accesses(e, wanted)).sum()
}

/// Names that stand alone as positions in accesses, in order. What an inner reduction binds is its
/// own affair.
pub(super) fn positions<'e>(e: &'e Expr, out: &mut Vec<&'e str>) {
    match &e.kind {
        ExprKind::Reduce(_) => {}
        ExprKind::Access { .. } => e.children().into_iter().for_each(|e| match name(e) {
            Some(name) if out.contains(&name) => {}
            Some(name) => out.push(name),
            None => positions(e, out),
        }),
        _ => e.children().into_iter().for_each(|e| positions(e, out)),
    }
}

/// Indices that stand alone as positions, in order, but for those that a reduction binds.
pub(in crate::syntax) fn free(e: &Expr) -> Vec<&str> {
    let children = e.children().into_iter();
    let mut out: Vec<&str> = Vec::new();
    for child in children {
        let found = match (&e.kind, name(child)) {
            (ExprKind::Access { .. }, Some(name)) => vec![name],
            _ => free(child),
        };
        found.into_iter().for_each(|name| {
            if !out.contains(&name) {
                out.push(name);
            }
        });
    }
    if let ExprKind::Reduce(reduce) = &e.kind {
        let bound = |name: &str| reduce.indices.iter().any(|decl| decl.name.as_str() == name);
        out.retain(|name| !bound(name));
    }
    out
}

/// An access as written.
pub(super) fn accessed(e: &Expr) -> Option<(&Place, &[Sub])> {
    match &e.kind {
        ExprKind::Access { place, subs, .. } => Some((place, subs)),
        _ => None,
    }
}

/// The name that a subscript is.
pub(super) fn sub_name(sub: &Sub) -> Option<&str> {
    match sub {
        Sub::Expr(e) => name(e),
        _ => None,
    }
}

/// Does an expression read elements of a tensor?
pub(super) fn accesses(e: &Expr) -> bool {
    accessed(e).is_some() || e.children().into_iter().any(accesses)
}

/// Does a reduction in an expression bind the index?
pub(super) fn binds(e: &Expr, index: &str) -> bool {
    let here = matches!(&e.kind, ExprKind::Reduce(reduce)
        if reduce.indices.iter().any(|decl| decl.name.as_str() == index));
    here || e.children().into_iter().any(|e| binds(e, index))
}

/// The index that a reduction in an expression declares at `place`.
pub(super) fn declared(e: &Expr, place: Span) -> Option<&IndexDecl> {
    let here = match &e.kind {
        ExprKind::Reduce(reduce) => reduce.indices.iter().find(|decl| decl.name.span == place),
        _ => None,
    };
    here.or_else(|| e.children().into_iter().find_map(|e| declared(e, place)))
}
