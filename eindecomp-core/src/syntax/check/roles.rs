//! Roles of parameters: weights, host values, states.

use std::collections::{BTreeMap, BTreeSet};

use super::tree::ParamRole;
use super::walk;
use crate::syntax::ast::{self, AttrKind, StmtKind};
use crate::syntax::diag::{Code, Diag, Fix};
use crate::syntax::token::Span;

/// Structs as written.
type Structs<'a> = BTreeMap<&'a str, &'a ast::Struct>;

/// The role of a parameter of `block`.
pub(super) fn role(
    param: &ast::Param,
    block: &ast::Block,
    structs: &Structs<'_>,
    errors: &mut Vec<Diag>,
) -> Option<ParamRole> {
    let mut role = ParamRole::Data;
    for attr in &param.attrs {
        let next = match attr.kind {
            AttrKind::Weight => ParamRole::Weight,
            AttrKind::Host => ParamRole::Host,
            AttrKind::State => ParamRole::State,
            _ => continue,
        };
        if role != ParamRole::Data {
            let text = "a parameter is one of `#[weight]`, `#[state]`, `#[host]`";
            let diag = Diag::new(Code::Attribute, attr.span, text);
            errors.push(diag.fix(Fix::replace(attr.span, "", "leave this one out")));
        }
        role = next;
    }
    if role == ParamRole::Host && !is_number(&param.ty) {
        let text = "a `#[host]` parameter is a number: it has no axes";
        let mut attrs = param.attrs.iter();
        let host = attrs.find(|attr| attr.kind == AttrKind::Host);
        let help = "leave out the `#[host]`: what has axes comes in at each run";
        let fix = host.map(|attr| Fix::replace(attr.span, "", help));
        errors.push(Diag::new(Code::Attribute, param.ty.span, text).fixes(fix));
        return None;
    }
    if role == ParamRole::State {
        errors.extend(number_as_state(param, block, structs));
    }
    Some(role)
}

/// A tensor without axes.
fn is_number(ty: &ast::Type) -> bool {
    matches!(&ty.kind, ast::TypeKind::Tensor { axes, .. }
        if axes.as_ref().is_none_or(|axes| axes.is_empty()))
}

/// The refusal of a state that is a number, or has one in it.
fn number_as_state(param: &ast::Param, block: &ast::Block, structs: &Structs<'_>) -> Option<Diag> {
    let name = &param.name;
    if let ast::TypeKind::Tensor { dtype, .. } = &param.ty.kind {
        if !is_number(&param.ty) {
            return None;
        }
        let text = format!("a state has at least one axis, but `{name}` is a number");
        let diag = Diag::new(Code::Attribute, param.ty.span, text);
        let ty = format!("{dtype}[1]");
        let help = format!("declare `{ty}`, and read `{name}[0]`");
        let declare = Fix::replace(param.ty.span, ty, &help);
        let mut reads = Vec::new();
        let elements = elements(&block.stmts, name.as_str(), &mut reads);
        if positions(&block.stmts, name.as_str()) {
            let help = "leave out the `#[state]`: a position is given at each run";
            let mut attrs = param.attrs.iter();
            let state = attrs.find(|attr| attr.kind == AttrKind::State);
            return Some(diag.fixes(state.map(|attr| Fix::replace(attr.span, "", help))));
        }
        let returned = block.result.iter().flat_map(|result| &result.names);
        let returned = returned.into_iter().any(|other| other.name == name.name);
        return Some(match elements && !returned {
            true => diag.fix(reads.into_iter().fold(declare, |fix, read| {
                fix.and(Span::new(read.end, read.end), "[0]")
            })),
            false => diag.help(declare.help),
        });
    }
    let field = number_in(&param.ty, structs, &mut BTreeSet::new())?;
    let text = format!("a state has at least one axis, but `{field}` in `{name}` is a number");
    let diag = Diag::new(Code::Attribute, param.ty.span, text);
    Some(diag.help(format!(
        "declare `{field}` with one axis of 1, and read `{field}[0]`"
    )))
}

/// A field that is a number, of a struct or of one in it.
fn number_in<'a>(
    ty: &ast::Type,
    structs: &Structs<'a>,
    seen: &mut BTreeSet<&'a str>,
) -> Option<&'a str> {
    match &ty.kind {
        ast::TypeKind::Tensor { .. } => None,
        ast::TypeKind::Array(element, _) => number_in(element, structs, seen),
        ast::TypeKind::Struct { path, .. } => {
            let structure = *structs.get(path.as_ident()?.as_str())?;
            let new = seen.insert(structure.head.name.as_str());
            let mut fields = structure.fields.iter().filter(|_| new);
            fields.find_map(|field| match is_number(&field.ty) {
                true => Some(field.name.as_str()),
                false => number_in(&field.ty, structs, seen),
            })
        }
    }
}

/// Where statements read `name` without indices; false if some use of it cannot be an element.
fn elements(stmts: &[ast::Stmt], name: &str, out: &mut Vec<Span>) -> bool {
    stmts.iter().all(|stmt| match &stmt.kind {
        StmtKind::Let { value, pat, .. } => {
            walk::named(value, name, out);
            pat.indices.is_some() || !walk::mentions(value, &[name])
        }
        StmtKind::Store { value, .. } => {
            walk::named(value, name, out);
            true
        }
        StmtKind::Carry { args, .. } => !args.iter().any(|arg| walk::mentions(arg, &[name])),
        StmtKind::For { body, .. } => elements(body, name, out),
        StmtKind::Error(_) => true,
    })
}

/// Does a store go where `name` says?
fn positions(stmts: &[ast::Stmt], name: &str) -> bool {
    stmts.iter().any(|stmt| match &stmt.kind {
        StmtKind::Store { subs, .. } => subs.iter().any(|sub| walk::mentions(sub, &[name])),
        StmtKind::For { body, .. } => positions(body, name),
        _ => false,
    })
}
