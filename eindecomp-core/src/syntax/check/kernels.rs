//! `extern fn`: an opaque kernel and the dims along which it may be split.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::tree::{Block, ParamRole, Type, Warning};
use crate::syntax::ast::{self, Ident};
use crate::syntax::diag::{Code, Diag, Fix};
use crate::syntax::names::nearest;
use crate::syntax::token::Span;

/// The kernel, and what is wrong with it.
pub(super) fn check(
    ast: &ast::Block,
    block: &Block,
    splits: &[Ident],
) -> (Block, Vec<Diag>, Vec<Warning>) {
    let mut errors = Vec::new();
    for (param, declared) in ast.params.iter().zip(&block.params) {
        if declared.role != ParamRole::Data || declared.ty.tensor().is_none() {
            let text = "a parameter of an `extern fn` is a tensor that is given at each call";
            errors.push(Diag::new(Code::Attribute, param.name.span, text));
        }
    }
    let mut seen = BTreeSet::new();
    for dim in splits {
        if !seen.insert(dim.as_str()) {
            let text = format!("dim `{dim}` stands twice in `splits`");
            errors.push(Diag::new(Code::Duplicate, dim.span, text));
        } else if !block.dims.contains(&dim.name) {
            let text = format!("dim `{dim}` is not declared");
            let diag = Diag::new(Code::UndefinedName, dim.span, text);
            errors.push(
                match nearest(dim.as_str(), block.dims.iter().map(|d| &**d)) {
                    Some(meant) => diag.fix(Fix::replace(dim.span, meant, "did you mean {}?")),
                    None => diag,
                },
            );
        } else {
            errors.extend(unfit(ast, block, dim));
        }
    }
    let splits = splits.iter().map(|dim| dim.name.clone()).collect();
    let mut done = block.clone();
    if errors.is_empty() {
        done.splits = Some(splits);
    }
    (done, errors, Vec::new())
}

/// Why a tile of the dim is no call of its own: the dim must be one axis of every result, and
/// wherever it is in an argument, once and by itself.
fn unfit(ast: &ast::Block, block: &Block, dim: &Ident) -> Option<Diag> {
    let results = block.results.iter().zip(&ast.ret.types);
    let results = results.map(|(result, ty)| (&result.ty, ty.span, true));
    let params = block.params.iter().zip(&ast.params);
    let params = params.map(|(param, p)| (&param.ty, p.ty.span, false));
    let mut places = results.chain(params);
    places.find_map(|(ty, span, result)| misplaced(ty, span, &dim.name, result, dim))
}

fn misplaced(ty: &Type, span: Span, name: &Arc<str>, result: bool, dim: &Ident) -> Option<Diag> {
    let axes = &ty.tensor()?.axes;
    let bare = axes
        .iter()
        .filter(|axis| axis.as_symbol() == Some(name))
        .count();
    let mixed = axes
        .iter()
        .any(|axis| axis.as_symbol() != Some(name) && axis.symbols().contains(name));
    let why = match (bare, mixed) {
        (_, true) => format!("`{dim}` is in arithmetic in `{ty}`"),
        (0, _) if result => format!("`{ty}` has no axis `{dim}`"),
        (0 | 1, _) => return None,
        _ => format!("`{dim}` is more than one axis of `{ty}`"),
    };
    let text = format!("the kernel cannot be split along `{dim}`: {why}");
    let diag = Diag::new(Code::Splits, dim.span, text).secondary(span, "here");
    Some(diag.help(format!(
        "take `{dim}` out of `splits`: it stays whole; or make it one axis of every result"
    )))
}
