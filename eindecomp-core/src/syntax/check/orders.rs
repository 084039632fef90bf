//! Structs whose dims a parameter gives in another order.

use super::body::BodyCx;
use super::extents::Access;
use super::misplaced::orders;
use super::tree::{StructType, Type};
use super::walk;
use crate::ein::Dim;
use crate::syntax::ast;
use crate::syntax::diag::Fix;
use crate::syntax::names::is_like;
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
    in_order(&path.to_string(), root, args, &declared)
}

/// The same of dims in any order, where the struct gives the axes of that field's read the names of its indices.
pub(super) fn order_of_names(
    cx: &BodyCx<'_>,
    access: &Access,
    axis: usize,
    wanted: &Dim,
) -> Option<Fix> {
    let (root, field) = access.place.split_once('.')?;
    let mut params = cx.ast.params.iter();
    let param = params.find(|param| param.name.as_str() == root)?;
    let ast::TypeKind::Struct { path, args } = &param.ty.kind else {
        return None;
    };
    let structure = cx.items.checked.structure(&path.to_string())?;
    let mut fields = structure.fields.iter();
    let declared = fields.find(|f| f.name.as_str() == field)?.ty.tensor()?;
    let named = declared.axes.len() == access.subs.len()
        && declared
            .axes
            .iter()
            .zip(&access.subs)
            .all(|(axis, sub)| is_like(axis, sub));
    let var = &cx.vars[cx.lookup(root)?.at()];
    let Some(Type::Struct(given)) = &var.ty else {
        return None;
    };
    if !named || given.args.len() != args.len() {
        return None;
    }
    let mut orders = orders(args.len()).into_iter().filter(|order| {
        let args = order.iter().map(|from| given.args[*from].clone());
        let ty = StructType {
            name: given.name.clone(),
            args: args.collect(),
        };
        let field = cx.items.checked.field_type(&ty, field);
        let axes = field.as_ref().and_then(Type::tensor).map(|t| &t.axes);
        axes.is_some_and(|axes| axes[axis] == *wanted)
    });
    let (Some(order), None) = (orders.next(), orders.next()) else {
        return None;
    };
    let meant: Vec<String> = order.iter().map(|from| args[*from].to_string()).collect();
    let meant: Vec<&str> = meant.iter().map(String::as_str).collect();
    in_order(&path.to_string(), root, args, &meant)
}

/// The same where arguments of these types do not fit the block that is called: of the parameter that one of
/// them is, or an element of, in the only order with which they do.
pub(super) fn reordered_argument(
    cx: &BodyCx<'_>,
    args: &[ast::Expr],
    types: &[Type],
    fit: &dyn Fn(&[Type]) -> bool,
) -> Option<Fix> {
    types.iter().enumerate().find_map(|(at, ty)| {
        let Type::Struct(given) = ty else { return None };
        let (root, path, written) = declared(cx, walk::name(&args[at])?)?;
        if written.len() != given.args.len() {
            return None;
        }
        let same = |order: &Vec<usize>| order.iter().enumerate().all(|(at, from)| at == *from);
        let orders = orders(written.len()).into_iter();
        let mut fitting = orders.filter(|order| !same(order)).filter(|order| {
            let mut types = types.to_vec();
            let args = order.iter().map(|from| given.args[*from].clone());
            types[at] = Type::Struct(StructType {
                name: given.name.clone(),
                args: args.collect(),
            });
            fit(&types)
        });
        let (Some(order), None) = (fitting.next(), fitting.next()) else {
            return None;
        };
        let meant: Vec<String> = order
            .iter()
            .map(|from| written[*from].to_string())
            .collect();
        let meant: Vec<&str> = meant.iter().map(String::as_str).collect();
        in_order(&path.to_string(), root, written, &meant)
    })
}

/// The parameter that a variable is, or an element of, and the struct that it is declared with.
fn declared<'a>(cx: &BodyCx<'a>, name: &str) -> Option<(&'a str, &'a ast::Path, &'a [ast::Dim])> {
    let mut var = cx.lookup(name)?;
    while let Some(array) = cx.vars[var.at()].element_of {
        var = array;
    }
    let place = cx.vars[var.at()].span;
    let param = cx
        .ast
        .params
        .iter()
        .find(|param| param.name.span == place)?;
    let mut ty = &param.ty;
    while let ast::TypeKind::Array(element, _) = &ty.kind {
        ty = element;
    }
    match &ty.kind {
        ast::TypeKind::Struct { path, args } => Some((param.name.as_str(), path, args)),
        _ => None,
    }
}

/// Dims as `meant` in place of those that are written.
fn in_order(path: &str, root: &str, written: &[ast::Dim], meant: &[&str]) -> Option<Fix> {
    let (first, last) = (written.first()?.span, written.last()?.span);
    let meant = meant.join(", ");
    let help = format!("the dims of `{path}` are in another order: `{root}: {path}<{meant}>`");
    let place = Span::new(first.start, last.end);
    Some(Fix::replace(place, meant, &help))
}
