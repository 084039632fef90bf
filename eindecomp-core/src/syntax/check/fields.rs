//! Fields that a value does not have, and those that are meant.

use super::body::BodyCx;
use super::tree::{Field, Type};
use super::walk::place;
use crate::syntax::ast::{self, Ident};
use crate::syntax::diag::{Code, Diag, Fix};
use crate::syntax::names::nearest;
use crate::syntax::token::Span;

impl BodyCx<'_> {
    /// The error about a field that the type does not have.
    pub(super) fn no_field(&self, ty: &Type, field: &Ident) -> Diag {
        let Type::Struct(s) = ty else {
            let text = format!("a value of type `{ty}` has no fields");
            let diag = Diag::new(Code::UnknownField, field.span, text);
            return match (field.as_str(), ty.tensor()) {
                ("T" | "t" | "mT", Some(_)) => {
                    diag.help("axes change places by their indices: `let y[n, m] = x[m, n];`")
                }
                ("shape" | "size" | "len" | "dim", Some(t)) if !t.axes.is_empty() => {
                    let sizes = super::tree::listed(&t.axes);
                    diag.help(format!("its sizes have names: {sizes}"))
                }
                _ if matches!(ty, Type::Array(..)) => diag.help(
                    "a loop gives the elements of an array, one after the other: `for l in … { … }`",
                ),
                _ => diag,
            };
        };
        let text = format!("struct `{}` has no field `{field}`", s.name);
        let diag = Diag::new(Code::UnknownField, field.span, text);
        let Some(structure) = self.items.checked.structure(&s.name) else {
            return diag;
        };
        let all: Vec<&str> = structure.fields.iter().map(|f| f.name.as_str()).collect();
        let known = format!("its fields are `{}`", all.join("`, `"));
        let subs = self.value().and_then(|value| read_at(value, field.span));
        let fits = |f: &&Field| match subs {
            Some(subs) => f.ty.tensor().is_some_and(|t| t.axes.len() == subs.len()),
            None => true,
        };
        let fields = structure.fields.iter().filter(fits);
        let fields: Vec<&str> = fields.map(|f| f.name.as_str()).collect();
        match self.meant_field(field, &fields) {
            Some(meant) => diag.fix(Fix::replace(field.span, meant, "did you mean {}?")),
            None => diag.help(known),
        }
    }

    /// The field that is meant: one of a near name, but for another number of one that the block reads, else the
    /// only one of which it is an abbreviation, or which is one of it.
    fn meant_field<'f>(&self, field: &Ident, fields: &[&'f str]) -> Option<&'f str> {
        let letters = |name: &str| {
            name.trim_end_matches(|c: char| c.is_ascii_digit())
                .to_owned()
        };
        let another =
            |name: &&str| letters(name) == letters(field.as_str()) && self.reads_field(name);
        let near = nearest(
            field.as_str(),
            fields.iter().copied().filter(|name| !another(name)),
        );
        let short = |name: &&&str| is_short(field.as_str(), name) || is_short(name, field.as_str());
        let mut short = fields.iter().filter(short).filter(|name| !another(name));
        near.or_else(|| short.next().filter(|_| short.next().is_none()).copied())
    }

    /// Does the block read a field of this name?
    fn reads_field(&self, name: &str) -> bool {
        let reads = |e: &ast::Expr| names_field(e, name);
        let mut open: Vec<&ast::Stmt> = self.ast.stmts.iter().collect();
        while let Some(stmt) = open.pop() {
            let found = match &stmt.kind {
                ast::StmtKind::Let { value, .. } => reads(value),
                ast::StmtKind::Store { value, subs, .. } => reads(value) || subs.iter().any(reads),
                ast::StmtKind::Carry { args, .. } => args.iter().any(reads),
                ast::StmtKind::For { body, .. } => {
                    open.extend(body);
                    false
                }
                ast::StmtKind::Error(_) => false,
            };
            if found {
                return true;
            }
        }
        false
    }
}

fn names_field(e: &ast::Expr, name: &str) -> bool {
    let here = place(e).is_some_and(|place| place.fields.iter().any(|f| f.as_str() == name));
    here || e.children().into_iter().any(|e| names_field(e, name))
}

/// The positions by which a field at `place`, the last one, is read.
fn read_at(e: &ast::Expr, place: Span) -> Option<&[ast::Sub]> {
    match &e.kind {
        ast::ExprKind::Access {
            place: read, subs, ..
        } if read.fields.last().is_some_and(|field| field.span == place) => Some(subs),
        _ => e.children().into_iter().find_map(|e| read_at(e, place)),
    }
}

/// Are the characters of `short` those of `name` with others left out, from the first on?
fn is_short(short: &str, name: &str) -> bool {
    let mut rest = name.chars();
    let first = short.chars().next();
    first == name.chars().next() && short.chars().all(|ch| rest.any(|other| other == ch))
}
