//! Scalar functions by themselves, whether or not anything uses them.

use std::collections::{BTreeMap, BTreeSet};

use super::cycles::{Node, cycles};
use super::dims::is_const;
use super::functions::usage;
use super::types::Declared;
use crate::ein::ScalarFn;
use crate::syntax::ast::{Expr, ExprKind, Item, Path, Program, ScalarFn as Function};
use crate::syntax::diag::{Code, Diag, Fix};
use crate::syntax::names::{NO_ELSE, are, count, instead, nearest_function};
use crate::syntax::token::Span;

/// Reports what is wrong with scalar functions; uses of those with errors say nothing more.
pub(super) fn check<'a>(
    program: &'a Program,
    declared: &Declared<'_>,
    errors: &mut Vec<Diag>,
) -> BTreeSet<&'a str> {
    let functions = program.items.iter().filter_map(|item| match item {
        Item::ScalarFn(function) => Some((function.head.name.as_str(), function)),
        _ => None,
    });
    let functions: BTreeMap<&str, &Function> = functions.collect();
    let nodes = functions.values().map(|function| {
        let mut uses = Vec::new();
        calls(&function.body, &mut uses);
        let name = &function.head.name;
        Node { name, uses }
    });
    let mut nodes: Vec<Node> = nodes.collect();
    nodes.sort_by_key(|node| node.name.span);
    let help = "a scalar function is put in where it is used";
    let mut broken = cycles(&nodes, ("", "calls"), help, errors);
    for (name, function) in &functions {
        let before = errors.len();
        let mut cx = Body {
            functions: &functions,
            declared,
            function,
            errors,
        };
        cx.parameters();
        cx.expr(&function.body);
        if errors.len() > before {
            broken.insert(*name);
        }
    }
    broken
}

fn calls<'e>(e: &'e Expr, out: &mut Vec<(&'e str, Span)>) {
    if let ExprKind::Call { path, .. } = &e.kind {
        out.extend(path.as_ident().map(|name| (name.as_str(), name.span)));
    }
    e.children().into_iter().for_each(|e| calls(e, out));
}

struct Body<'c, 'a> {
    functions: &'c BTreeMap<&'a str, &'a Function>,
    declared: &'c Declared<'c>,
    function: &'a Function,
    errors: &'c mut Vec<Diag>,
}

impl Body<'_, '_> {
    fn parameters(&mut self) {
        let mut seen: BTreeMap<&str, Span> = BTreeMap::new();
        for param in &self.function.params {
            if let Some(first) = seen.insert(param.as_str(), param.span) {
                let text = format!("argument `{param}` is declared twice");
                let diag = Diag::new(Code::Duplicate, param.span, text);
                let diag = diag.secondary(first, "first here");
                self.errors.push(diag.help("give one of them another name"));
            }
        }
    }

    fn expr(&mut self, e: &Expr) {
        match &e.kind {
            ExprKind::Name(place) => {
                let known = match place.as_ident() {
                    Some(name) => self.function.params.iter().any(|p| p.name == name.name),
                    None => place.fields.is_empty() && is_const(&place.path),
                };
                if !known {
                    let text = format!("`{place}` is not an argument of this function");
                    self.arguments_alone(e.span, text);
                }
            }
            ExprKind::Access { place, .. } => {
                let text = format!("`{place}` is read, but a scalar function works on numbers");
                self.arguments_alone(place.span, text);
                return;
            }
            ExprKind::Reduce(reduce) => {
                let text = format!(
                    "`{}` needs an axis, but a scalar function works on numbers",
                    reduce.agg
                );
                self.arguments_alone(reduce.agg.span, text);
                return;
            }
            ExprKind::Call { path, args } => self.call(path, args.len()),
            ExprKind::If {
                otherwise: None, ..
            } => {
                let fix = Fix::after(e.span, " else { 0.0 }", "add {}");
                let diag = Diag::new(Code::MissingElse, e.span, NO_ELSE);
                self.errors.push(diag.fix(fix));
            }
            _ => {}
        }
        e.children().into_iter().for_each(|e| self.expr(e));
    }

    fn arguments_alone(&mut self, span: Span, text: String) {
        let diag = Diag::new(Code::UndefinedName, span, text);
        self.errors
            .push(diag.help("a scalar function knows its arguments alone"));
    }

    fn call(&mut self, path: &Path, given: usize) {
        let name = path.to_string();
        let builtin =
            |n: usize| ScalarFn::from_name(&name, n).is_some_and(|f| f.row().symbol.is_none());
        let wanted = match self.functions.get(&*name) {
            _ if builtin(given) => return,
            Some(function) => Some(function.params.len()),
            None => (1..=3).find(|n| builtin(*n)),
        };
        match wanted {
            Some(wanted) if wanted == given => {}
            Some(wanted) => {
                let text = format!(
                    "`{name}` takes {}, but {} given",
                    count(wanted, "argument", "arguments"),
                    are(given)
                );
                let diag = Diag::new(Code::Arity, path.span, text);
                self.errors.push(match self.functions.get(&*name) {
                    Some(function) => diag.secondary(function.head.name.span, "declared here"),
                    None => diag.help(format!("it is `{}`", usage(&name, wanted))),
                });
            }
            None if self.declared.lost.contains(&*name) => {}
            None => {
                let text = format!("there is no function `{name}`");
                let diag = Diag::new(Code::UnknownFunction, path.span, text);
                let meant = nearest_function(&name, self.functions.keys().copied());
                self.errors.push(match meant {
                    Some(meant) => diag.fix(Fix::replace(path.span, meant, "did you mean {}?")),
                    None => diag.help(instead(&name)),
                });
            }
        }
    }
}
