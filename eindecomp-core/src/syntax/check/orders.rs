//! Structs whose dims a parameter gives in another order.

use super::body::BodyCx;
use crate::ein::Dim;
use crate::syntax::ast;
use crate::syntax::diag::Fix;
use crate::syntax::token::Span;

/// The dims of the struct that `place` is a field of in the order in which it declares them, where a parameter
/// gives them in another, with which an axis of `extent` would be `wanted`.
pub(super) fn other_order(cx: &BodyCx<'_>, place: &str, extent: &Dim, wanted: &Dim) -> Option<Fix> {
    let (root, _) = place.split_once('.')?;
    let param = cx
        .ast
        .params
        .iter()
        .find(|param| param.name.as_str() == root)?;
    let ast::TypeKind::Struct { path, args } = &param.ty.kind else {
        return None;
    };
    let structure = cx.items.checked.structure(&path.to_string())?;
    let declared: Vec<&str> = structure.dims.iter().map(|dim| &**dim).collect();
    let given: Vec<String> = args.iter().map(ast::Dim::to_string).collect();
    let sorted = |mut names: Vec<String>| {
        names.sort_unstable();
        names
    };
    let owned = declared.iter().map(|name| (*name).to_owned()).collect();
    if given == declared || sorted(given.clone()) != sorted(owned) {
        return None;
    }
    let meant = extent.try_substitute(&|symbol| {
        let at = given.iter().position(|name| **name == *symbol)?;
        Some(Dim::sym(declared[at]))
    })?;
    if !cx.facts.equal(&meant, wanted) {
        return None;
    }
    let (first, last) = (args.first()?.span, args.last()?.span);
    let declared = declared.join(", ");
    let help = format!("the dims of `{path}` are in another order: `{root}: {path}<{declared}>`");
    Some(Fix::replace(
        Span::new(first.start, last.end),
        declared,
        &help,
    ))
}
