//! Calls in expressions: functions of the table, scalar functions, and what is none of them.

use super::dtype::cast;
use super::expr::{MAX_SIZE, StmtCx};
use super::quotients::fraction;
use super::tree::Expr;
use super::walk::positions;
use crate::ein::{Agg, DType, ScalarFn};
use crate::syntax::ast;
use crate::syntax::diag::{Code, Diag, Fix};
use crate::syntax::names::{
    alias, are, count, formula, instead, is_known_elsewhere, nearest, nearest_function,
};
use crate::syntax::token::Span;

/// Scalar functions that one statement may inline.
const MAX_INLINED: usize = 1000;
impl StmtCx<'_, '_> {
    pub(super) fn call(
        &mut self,
        path: &ast::Path,
        args: &[ast::Expr],
        span: Span,
    ) -> Option<Expr> {
        let name = path.to_string();
        let function = ScalarFn::from_name(&name, args.len()).filter(|f| f.row().symbol.is_none());
        if let Some(function) = function {
            let made = args.iter().map(|a| self.expr(a)).collect();
            let made = self.all(made)?;
            let texts: Vec<&ast::Expr> = args.iter().collect();
            return self.apply(function, made, &texts, span);
        }
        if let Some(scalar) = self.cx.items.scalars.get(&*name).copied() {
            return self.inline_scalar(scalar, args, span);
        }
        let mut renamed = true;
        if !self.cx.items.declared.lost.contains(&*name) {
            let diag = self.unknown_function(path, args, span);
            let mut edits = diag.fixes.iter().flat_map(|fix| &fix.edits);
            renamed = !diag.fixes.is_empty() && edits.all(|(place, _)| *place == path.span);
            self.report(diag);
        }
        self.look_at(args, renamed);
        None
    }

    /// Arguments of what is no function here: their accesses say how long indices are. What is wrong with
    /// them is told where another name alone is meant.
    fn look_at(&mut self, args: &[ast::Expr], tell: bool) {
        let before = self.cx.errors.len();
        let made: Vec<Option<Expr>> = args.iter().map(|arg| self.expr(arg)).collect();
        match tell {
            true => self.keep(made.into_iter().flatten()),
            false => self.cx.errors.truncate(before),
        }
    }

    fn unknown_function(&self, path: &ast::Path, args: &[ast::Expr], span: Span) -> Diag {
        let name = path.to_string();
        if self.cx.items.blocks.contains(&*name) {
            return self.cx.inner_call(path, args, span);
        }
        if let Some(fix) = self.called_tensor(path, args, span) {
            let text = format!("`{name}` is a tensor, and is read in square brackets");
            return Diag::new(Code::UnknownFunction, path.span, text).fix(fix);
        }
        let arity = (1..=3).find(|n| ScalarFn::from_name(&name, *n).is_some());
        if let Some(arity) = arity.filter(|_| ScalarFn::from_name(&name, args.len()).is_none()) {
            let text = format!(
                "`{name}` takes {}, but {} given",
                count(arity, "argument", "arguments"),
                are(args.len())
            );
            let diag = Diag::new(Code::Arity, path.span, text);
            let nested = |args: &[ast::Expr]| {
                let shown = args.iter().map(ast::Expr::to_string);
                shown.reduce(|all, arg| format!("{name}({all}, {arg})"))
            };
            return match (Agg::from_name(&name), args) {
                (Some(_), [arg]) => match self.over_axes(&name, arg, span) {
                    Some(fix) => diag.fix(fix),
                    None => diag.help(format!("over an axis it is `{name}[i] …`")),
                },
                (Some(_), [_, _, ..]) => {
                    diag.fixes(nested(args).map(|text| Fix::replace(span, text, "write {}")))
                }
                _ => diag.help(format!("it is `{}`", usage(&name, arity))),
            };
        }
        let text = format!("there is no function `{name}`");
        let diag = Diag::new(Code::UnknownFunction, path.span, text);
        if let (Some(dtype), [arg]) = (DType::from_name(&name), args) {
            let fix = cast(arg, dtype);
            let text = fix.help.trim_matches('`').to_owned();
            let text = match fraction(arg, dtype) {
                Some(_) => format!("({text})"),
                None => text,
            };
            return diag.fix(Fix::replace(span, text, "write {}"));
        }
        if let ("not", [_]) = (&*name, args) {
            return diag.fix(Fix::replace(path.span, "!", "write {}"));
        }
        if path.as_ident().is_none() {
            let help = "a scalar function stands in the `ein!` that uses it; a block of another is called alone";
            return diag.help(format!("{help}: `let y: f32[…] = {name}(…);`"));
        }
        if let [arg] = args
            && let Some(formula) = formula(&name, &arg.to_string(), &within_product(arg))
        {
            let help = format!("write `{formula}`");
            return diag.fix(Fix::replace(span, format!("({formula})"), &help));
        }
        if is_known_elsewhere(&name)
            && nearest(&name, self.cx.items.scalars.keys().copied()).is_none()
            && alias(&name).is_none()
        {
            return diag.help(instead(&name));
        }
        match nearest_function(&name, self.cx.items.scalars.keys().copied()) {
            Some(meant) => diag.fix(Fix::replace(path.span, meant, "did you mean {}?")),
            None => diag.help(instead(&name)),
        }
    }

    /// `max[d] x[n, d]` for `max(x[n, d])`, over the indices that nothing else binds.
    fn over_axes(&self, name: &str, arg: &ast::Expr, span: Span) -> Option<Fix> {
        let mut over = Vec::new();
        positions(arg, &mut over);
        let known = |name: &str| {
            self.visible_index(name).is_some()
                || self.cx.lookup(name).is_some()
                || self.cx.dims.named(name).is_some()
        };
        over.retain(|name| !known(name));
        let text = format!("{name}[{}] {}", over.join(", "), within_product(arg));
        let whole = self.cx.value().is_some_and(|value| value.span == span);
        let text = if whole { text } else { format!("({text})") };
        (!over.is_empty()).then(|| Fix::replace(span, text, "over an axis it is {}"))
    }

    /// An access of a tensor that is written as a call.
    fn called_tensor(&self, path: &ast::Path, args: &[ast::Expr], span: Span) -> Option<Fix> {
        let var = self.cx.lookup(path.as_ident()?.as_str())?;
        let tensor = self.cx.vars[var.at()].ty.as_ref()?.tensor()?;
        let shown = super::tree::listed(args);
        let fits = !args.is_empty() && tensor.axes.len() == args.len();
        fits.then(|| Fix::replace(span, format!("{path}[{shown}]"), "write {}"))
    }

    fn inline_scalar(
        &mut self,
        scalar: &ast::ScalarFn,
        args: &[ast::Expr],
        span: Span,
    ) -> Option<Expr> {
        let name = &scalar.head.name;
        if args.len() != scalar.params.len() {
            let wanted = scalar.params.len();
            let text = format!(
                "`{name}` takes {}, but {} given",
                count(wanted, "argument", "arguments"),
                are(args.len())
            );
            let diag = Diag::new(Code::Arity, span, text).secondary(name.span, "declared here");
            let params = super::tree::listed(&scalar.params);
            self.report(diag.help(format!("it is `{name}({params})`")));
            self.look_at(args, true);
            return None;
        }
        if self.cx.items.declared.broken.contains(name.as_str()) {
            self.look_at(args, true);
            return None;
        }
        self.inlined += 1;
        let made = args.iter().map(|a| self.expr(a)).collect();
        let made = self.all(made)?;
        let parts: usize = made.iter().map(|e| e.nodes().len()).sum();
        if self.inlined > MAX_INLINED || parts > MAX_SIZE {
            let text = "the scalar functions of this statement unfold to too much";
            let diag = Diag::new(Code::TooDeep, name.span, text);
            self.report(diag.help("define the inner part by a `let` of its own"));
            return None;
        }
        let params = scalar.params.iter().map(|p| p.name.clone());
        self.inline
            .push((name.name.clone(), params.zip(made).collect()));
        let value = self.expr(&scalar.body);
        self.inline.pop();
        value
    }
}

/// An expression as it stands in a product.
fn within_product(e: &ast::Expr) -> String {
    use ast::ExprKind::{Access, Call, Lit, Name, Paren};
    match &e.kind {
        Access { .. } | Call { .. } | Lit(_) | Name(_) | Paren(_) => e.to_string(),
        _ => format!("({e})"),
    }
}

/// How a function of the table is called.
pub(super) fn usage(name: &str, arity: usize) -> String {
    let params = match (name, arity) {
        ("clamp", _) => "x, low, high",
        (_, 1) => "x",
        (_, 2) => "x, y",
        _ => "x, y, z",
    };
    format!("{name}({params})")
}
