//! Arguments and calls that need a statement of their own, before the one they stand in.

use super::body::BodyCx;
use super::fixes::{index_names, whole_tensors};
use super::results::read_by;
use super::tree::{Block, Param, ParamRole, TensorType, Type, listed};
use super::walk::{accessed, free, name, sub_name};
use crate::ein::{DType, Dim};
use crate::syntax::ast::{self, Expr, ExprKind, Path, Pattern, Sub};
use crate::syntax::diag::{Code, Diag, Fix};
use crate::syntax::names::{are_distinct, fresh};
use crate::syntax::token::Span;

/// Statements to write before another.
struct Lets<'c, 'a> {
    cx: &'c BodyCx<'a>,
    made: Vec<String>,
    names: Vec<String>,
}

impl Lets<'_, '_> {
    fn fresh(&mut self) -> String {
        let taken = |name: &str| {
            let later = self.cx.upcoming.iter().any(|(n, _)| **n == *name);
            later || self.cx.lookup(name).is_some() || self.names.iter().any(|n| n == name)
        };
        let name = fresh(taken);
        self.names.push(name.clone());
        name
    }

    fn add(&mut self, left: &str, right: &str) -> String {
        let name = self.fresh();
        self.made.push(format!("let {name}{left} = {right};"));
        name
    }

    /// What to write in a call in place of an argument for a parameter of the type, if that is
    /// known.
    fn argument(&mut self, e: &Expr, wanted: Option<&TensorType>) -> Option<String> {
        if self.cx.is_size(e) {
            let rank0 = wanted.is_none_or(|t| t.axes.is_empty());
            let dtype = wanted.map_or(DType::I64, |t| t.dtype);
            let value = match dtype {
                DType::I64 => e.to_string(),
                other => format!("{e} as {other}"),
            };
            return rank0.then(|| self.add("[]", &value));
        }
        match &e.kind {
            ExprKind::Paren(inner) => self.argument(inner, wanted),
            ExprKind::Name(_) | ExprKind::Lit(_) => Some(e.to_string()),
            ExprKind::Call { path, args } if self.cx.is_block(path) => self.call(path, args),
            _ => {
                let (left, right) = self.cx.elements(e, wanted)?;
                Some(self.add(&left, &right))
            }
        }
    }

    /// A block's result by a name.
    fn call(&mut self, path: &Path, args: &[Expr]) -> Option<String> {
        let block = self.cx.items.checked.block(&path.to_string());
        let wanted = |at: usize| block.and_then(|b| b.params.get(at)?.ty.tensor());
        let args = args.iter().enumerate();
        let args: Option<Vec<String>> = args
            .map(|(at, arg)| self.argument(arg, wanted(at)))
            .collect();
        Some(self.add("", &format!("{path}({})", listed(&args?))))
    }
}

/// Tensors and calls of blocks that an expression computes with as wholes.
#[derive(Default)]
struct Found<'e> {
    whole: Vec<(String, Span, Vec<Dim>)>,
    calls: Vec<(Span, &'e Path, &'e [Expr])>,
}

impl<'e> Found<'e> {
    fn within(&mut self, cx: &BodyCx<'_>, e: &'e Expr) {
        match &e.kind {
            ExprKind::Call { path, args } if cx.is_block(path) => {
                self.calls.push((e.span, path, args));
            }
            ExprKind::Name(_) => self.whole.extend(whole_tensors(cx, e)),
            _ => e.children().into_iter().for_each(|e| self.within(cx, e)),
        }
    }
}

impl BodyCx<'_> {
    /// The name of a dim or of a loop's number?
    pub(super) fn is_size(&self, e: &Expr) -> bool {
        name(e).is_some_and(|name| self.lookup(name).is_none() && self.dims.named(name).is_some())
    }

    fn is_block(&self, path: &Path) -> bool {
        self.items.blocks.contains(&*path.to_string())
    }

    /// Left indices and right side of a statement of the elements of `e`.
    fn elements(&self, e: &Expr, wanted: Option<&TensorType>) -> Option<(String, String)> {
        let mut used = free(e);
        used.retain(|name| self.lookup(name).is_none() && self.dims.named(name).is_none());
        let whole = whole_tensors(self, e);
        let left: Vec<String> = match whole.first() {
            None => used.iter().map(|name| (*name).to_owned()).collect(),
            Some((_, _, axes)) => index_names(axes),
        };
        let same = |(_, _, axes): &(String, Span, Vec<Dim>)| axes.len() == left.len();
        let mixed = !whole.is_empty() && !used.is_empty() || !whole.iter().all(same);
        let rank = wanted.is_none_or(|t| t.axes.len() == left.len());
        // Another order than that of the one access with all indices would be a guess.
        let ordered = whole.len() + usize::from(left.len() < 2) > 0 || in_order(e, &used);
        if mixed || !rank || !ordered || self.calls_block(e) {
            return None;
        }
        let mut right = e.clone();
        let spans: Vec<Span> = whole.iter().map(|(_, span, _)| *span).collect();
        read_by(&mut right, &spans, &left);
        Some((format!("[{}]", left.join(", ")), right.to_string()))
    }

    /// Statements before the one that is being checked, and `text` in place of `span`.
    fn before(&self, lets: &[String], span: Span, text: &str, then: &str) -> Option<Fix> {
        let stmt = self.stmt?;
        let first = stmt.attrs.first().map_or(stmt.span, |attr| attr.span);
        let lets = lets.join(" ");
        let help = format!("put `{lets}` before, {then}");
        Some(Fix::before(first, lets + " ", &help).and(span, text))
    }

    /// The elements of an expression with calls of blocks in it: these by names of their own, before.
    pub(super) fn with_calls(&self, pattern: &Pattern, value: &Expr) -> Option<Fix> {
        let [name] = &pattern.names[..] else {
            return None;
        };
        let mut lets = Lets {
            cx: self,
            made: Vec::new(),
            names: Vec::new(),
        };
        let mut found = Found::default();
        found.within(self, value);
        if !free(value).is_empty() {
            return None;
        }
        let mut axes: Vec<Vec<Dim>> = found
            .whole
            .iter()
            .map(|(_, _, axes)| axes.clone())
            .collect();
        let mut reads: Vec<(Span, String)> = Vec::new();
        for (span, path, args) in found.calls {
            let [result] = &self.items.checked.block(&path.to_string())?.results[..] else {
                return None;
            };
            axes.push(result.ty.tensor()?.axes.clone());
            reads.push((span, lets.call(path, args)?));
        }
        let first = axes.first()?;
        if axes.iter().any(|other| other.len() != first.len()) {
            return None;
        }
        let indices = format!("[{}]", index_names(first).join(", "));
        let whole = found.whole.into_iter().map(|(name, span, _)| (span, name));
        let reads: Vec<(Span, String)> = whole.chain(reads).collect();
        let mut shown = vec![format!("`let {name}{indices}`")];
        for (_, name) in &reads {
            let read = format!("`{name}{indices}`");
            if !shown.contains(&read) {
                shown.push(read);
            }
        }
        let then = format!("and write {}", shown.join(" and "));
        let end = Span::new(pattern.span.end, pattern.span.end);
        let fix = self.before(&lets.made, end, &indices, &then)?;
        Some(
            reads
                .into_iter()
                .fold(fix, |fix, (span, name)| fix.and(span, name + &indices)),
        )
    }

    /// A statement before for what stands at `span`.
    pub(super) fn hoisted(&self, left: &str, right: &str, span: Span) -> Option<Fix> {
        let mut lets = Lets {
            cx: self,
            made: Vec::new(),
            names: Vec::new(),
        };
        let name = lets.add(left, right);
        self.before(&lets.made, span, &name, &format!("and give `{name}`"))
    }

    /// The refusal of an argument that is an expression; of one whose tensor is unknown, that.
    pub(super) fn no_argument(
        &mut self,
        arg: &Expr,
        inner: &Expr,
        wanted: Option<&Param>,
    ) -> Option<Diag> {
        let text = match self.is_size(inner) {
            true => format!(
                "`{inner}` is a size, and an argument is a tensor, a literal or a host value"
            ),
            false => "an argument is a name, a field, or a literal or host value".to_owned(),
        };
        let diag = Diag::new(Code::Argument, arg.span, text);
        if wanted.is_some_and(|p| p.role == ParamRole::Host) {
            return Some(diag.help("a `#[host]` parameter takes a literal, or one of this block"));
        }
        let tensor = wanted.and_then(|p| p.ty.tensor());
        if let ExprKind::Access { place, subs, .. } = &inner.kind {
            match self.place(place)?.ty {
                Type::Tensor(t) => {
                    if let Some(refusal) = self.no_elements(&diag, (arg, place, subs), &t, tensor) {
                        return Some(refusal);
                    }
                }
                Type::Array(..) => {
                    let help = "a loop gives the elements of an array";
                    return Some(diag.help(format!("{help}: `for l in {place} {{ … }}`")));
                }
                Type::Struct(_) => return Some(diag),
            }
        }
        let mut lets = Lets {
            cx: self,
            made: Vec::new(),
            names: Vec::new(),
        };
        let name = lets.argument(inner, tensor);
        let fix = name.and_then(|name| {
            self.before(&lets.made, arg.span, &name, &format!("and give `{name}`"))
        });
        Some(match fix {
            Some(fix) => diag.fix(fix),
            None if self.calls_block(inner) => diag.help(
                "call each block by a `let` of its own, `let t = f(x);`, and compute with its elements, `t[i]`",
            ),
            None => diag.help(format!("give it a name before: `let t[…] = {inner};`")),
        })
    }

    /// What is said of an argument that reads elements of a tensor, where the whole of it is meant
    /// or a block works on fewer axes.
    fn no_elements(
        &self,
        diag: &Diag,
        (arg, place, subs): (&Expr, &ast::Place, &[Sub]),
        t: &TensorType,
        wanted: Option<&TensorType>,
    ) -> Option<Diag> {
        let bare = |sub: &Sub| match sub {
            Sub::Rest(name) => Some(format!("..{name}")),
            other => sub_name(other).map(str::to_owned),
        };
        let given: Option<Vec<String>> = subs.iter().map(bare).collect();
        let own = index_names(&t.axes);
        // The axes in an order that is not theirs are another tensor.
        let moved = |given: &Vec<String>| given != &own && own.iter().all(|n| given.contains(n));
        let rank = wanted.map(|wanted| wanted.axes.len());
        let every = given.as_ref();
        let every = every.is_some_and(|given| given.len() == own.len() && !moved(given));
        if every && rank.is_none_or(|rank| rank == own.len()) {
            let help = "a block takes the whole tensor: {}";
            return Some(
                diag.clone()
                    .fix(Fix::replace(arg.span, place.to_string(), help)),
            );
        }
        if given.as_ref().is_some_and(moved) {
            let help = "a block takes whole tensors: make this one before";
            return Some(diag.clone().help(format!("{help}, `let t[…] = {arg};`")));
        }
        let fewer = rank.filter(|rank| *rank < own.len() && every_name(subs));
        fewer.map(|_| diag.clone().help(whole_rows(place, &t.axes)))
    }

    /// The error about a block's result with indices on the left: the call of whole tensors, if
    /// that is what its arguments are meant to be.
    pub(super) fn bound_whole(&self, pat: &Pattern, path: &Path, args: &[Expr]) -> Diag {
        let text = format!("`{path}` is a block, so its result is bound whole");
        let diag = Diag::new(Code::Pattern, pat.span, text);
        let name = &pat.names[0];
        let block = self.items.checked.block(&path.to_string());
        let (mut shown, mut edits) = (Vec::new(), Vec::new());
        for (at, arg) in args.iter().enumerate() {
            let tensor = accessed(arg).and_then(|(place, subs)| {
                let t = self.type_of(place).filter(|_| every_name(subs))?;
                Some((place, t))
            });
            let Some((place, t)) = tensor else {
                shown.push(arg.to_string());
                continue;
            };
            let wanted = block.and_then(|b: &Block| b.params.get(at)?.ty.tensor());
            if wanted.is_some_and(|wanted| wanted.axes.len() < t.axes.len()) {
                return diag.help(whole_rows(place, &t.axes));
            }
            shown.push(place.to_string());
            edits.push((arg.span, place.to_string()));
        }
        let help = format!("`let {name} = {path}({});`", shown.join(", "));
        let mut fix = Fix::replace(Span::new(name.span.end, pat.span.end), "", &help);
        fix.edits.extend(edits);
        diag.fix(fix)
    }

    /// The error about a call of a block inside of an expression.
    pub(super) fn inner_call(&self, path: &Path, args: &[Expr], span: Span) -> Diag {
        let text = format!("`{path}` is a block, so its result needs a name of its own");
        let diag = Diag::new(Code::Pattern, path.span, text);
        match self.element_of(path, args, span) {
            Some(fix) => diag.fix(fix),
            None => diag.help(format!(
                "put `let t = {path}({});` before, and read `t[…]`",
                listed(args)
            )),
        }
    }

    /// `g(x[n])` as an element of a result that has the axes of the argument.
    fn element_of(&self, path: &Path, args: &[Expr], span: Span) -> Option<Fix> {
        let block = self.items.checked.block(&path.to_string())?;
        let [result] = &block.results[..] else {
            return None;
        };
        let axes = &result.ty.tensor()?.axes;
        let mut read = None;
        let mut given = Vec::new();
        for (arg, param) in args.iter().zip(&block.params) {
            let Some((place, subs)) = accessed(arg) else {
                given.push(name(arg)?.to_owned());
                continue;
            };
            let wanted = &param.ty.tensor()?.axes;
            let whole = every_name(subs) && self.type_of(place)?.axes.len() == wanted.len();
            given.push(whole.then(|| place.to_string())?);
            if wanted == axes {
                read = read.or(Some(subs));
            }
        }
        let mut lets = Lets {
            cx: self,
            made: Vec::new(),
            names: Vec::new(),
        };
        let t = lets.add("", &format!("{path}({})", given.join(", ")));
        let element = format!("{t}[{}]", listed(read?));
        let then = format!("and read `{element}`");
        self.before(&lets.made, span, &element, &then)
    }
}

/// Are the subscripts different names?
fn every_name(subs: &[Sub]) -> bool {
    let names: Option<Vec<&str>> = subs.iter().map(sub_name).collect();
    names.is_some_and(|names| are_distinct(&names))
}

/// What to do where a block works on fewer axes than a tensor has.
fn whole_rows(place: &ast::Place, axes: &[Dim]) -> String {
    format!(
        "a block takes whole tensors: for all of the [{}] of `{place}`, give its parameter the other \
         axes too, or `dim ..L`",
        listed(axes)
    )
}

/// Does one access have all the indices, in this order?
fn in_order(e: &Expr, indices: &[&str]) -> bool {
    let here = accessed(e).is_some_and(|(_, subs)| {
        let names: Vec<&str> = subs.iter().filter_map(sub_name).collect();
        names == indices
    });
    here || e.children().into_iter().any(|e| in_order(e, indices))
}
