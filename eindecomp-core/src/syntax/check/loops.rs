//! Loops: over arrays side by side, or over numbers.

use std::collections::BTreeMap;

use super::body::BodyCx;
use super::prove::Equality;
use super::tree::{LoopVar, MAX_LENGTH, ParamRole, Stmt, Type, VarId};
use super::walk;
use crate::ein::Dim;
use crate::syntax::ast::{self, CmpOp, ForRange, Ident};
use crate::syntax::diag::{Code, Diag, Fix};
use crate::syntax::token::Span;

pub(super) const NO_STEP: &str =
    "what is no step after another is an index: a statement runs over all of it";

const NO_RECURRENCE: &str = "recurrences of symbolic length are outside the language";

impl<'a> BodyCx<'a> {
    pub(super) fn for_stmt(
        &mut self,
        vars: &[Ident],
        range: &ForRange,
        body: &'a [ast::Stmt],
    ) -> Option<Stmt> {
        let outermost = self.once.is_none();
        if outermost {
            self.once = self.as_once(vars, range, body);
        }
        self.scopes.push(BTreeMap::new());
        let facts = self.facts.clone();
        let loop_var = match range {
            ForRange::Arrays(arrays) => self.over_arrays(vars, arrays),
            ForRange::Range(low, high) => {
                let over = vars.first().and_then(|var| self.over_range(var, low, high));
                if over.is_none() {
                    for var in vars {
                        self.define(var, None, false);
                    }
                }
                over
            }
        };
        let body = self.stmts(body);
        self.scopes.pop();
        self.facts = facts;
        if outermost {
            self.once = None;
        }
        if let Some(LoopVar::Number { symbol, .. }) = &loop_var {
            self.dims.dims.remove(symbol);
        }
        let (var, body) = (loop_var?, body?);
        let place = match range {
            ForRange::Arrays(arrays) => arrays.iter().map(|array| array.span).reduce(Span::join)?,
            ForRange::Range(low, high) => low.span.join(high.span),
        };
        if let Some(diag) = self.too_many_rounds(&var, &body, place) {
            self.errors.push(diag.help(NO_STEP));
            return None;
        }
        Some(Stmt::For { var, body })
    }

    /// Over arrays side by side, which have one length. The elements of a state are states.
    fn over_arrays(&mut self, vars: &[Ident], arrays: &[Ident]) -> Option<LoopVar> {
        let (mut elements, mut first) = (Some(Vec::new()), None::<(&Ident, Dim)>);
        for (at, var) in vars.iter().enumerate() {
            let found = arrays.get(at).and_then(|array| self.array(var, array));
            let Some((array, element, length)) = found else {
                self.define(var, None, false);
                elements = None;
                continue;
            };
            if let Some((name, expected)) = &first {
                let shown = |length: &Dim| match length.as_const() {
                    Some(n) => n.to_string(),
                    None => format!("`{length}`"),
                };
                let text = format!(
                    "`{}` has {} elements, but `{name}` has {}",
                    arrays[at],
                    shown(&length),
                    shown(expected)
                );
                let diag = Diag::new(Code::Loop, arrays[at].span, text);
                let diag = diag.secondary(name.span, "side by side with this");
                let diag = diag.help("arrays of one loop have one length where they are declared");
                let what = "arrays of one loop have one length";
                let equal = self.equal(expected, &length, what, || diag.clone());
                if !matches!(equal, Equality::Equal) {
                    self.errors.push(diag);
                    elements = None;
                }
            } else {
                first = Some((&arrays[at], length));
            }
            let id = self.define(var, Some(element), false);
            let role = self.vars[array.at()].role;
            self.vars[id.at()].role = role.filter(|r| *r == ParamRole::State);
            self.vars[id.at()].element_of = Some(array);
            if let Some(elements) = &mut elements {
                elements.push((id, array));
            }
        }
        if vars.len() != arrays.len() {
            let [first, .., last] = vars else { return None };
            let text = format!(
                "{} loop variables run over {} arrays",
                vars.len(),
                arrays.len()
            );
            let span = first.span.join(last.span);
            let diag = Diag::new(Code::Loop, span, text);
            let names = || vars[..arrays.len()].iter().map(Ident::as_str);
            let surplus = vars.iter().skip(arrays.len());
            let unread = surplus
                .into_iter()
                .all(|var| !walk::reads(self.ast, var.as_str()));
            self.errors.push(match vars.len() > arrays.len() && unread {
                true => {
                    let text = names().collect::<Vec<_>>().join(", ");
                    diag.fix(Fix::replace(span, text, "write {}"))
                }
                false => diag.help("name one variable for each array"),
            });
            return None;
        }
        elements.map(LoopVar::Elements)
    }

    /// An array with the type of its elements and its length.
    fn array(&mut self, var: &Ident, array: &Ident) -> Option<(VarId, Type, Dim)> {
        if self.lookup(array.as_str()).is_none() && self.dims.dims.contains(&array.name) {
            let text =
                format!("`{array}` is a dim, but a `for` needs an array or a constant range");
            let diag = Diag::new(Code::Loop, array.span, text);
            self.errors.push(diag.help(NO_RECURRENCE));
            return None;
        }
        let id = self.lookup_or_report(array)?;
        match self.vars[id.at()].ty.clone()? {
            Type::Array(element, length) => Some((id, *element, length)),
            other => {
                let text = format!("`{array}` is `{other}`, but a `for` needs an array");
                let diag = Diag::new(Code::Loop, array.span, text);
                let diag = diag.secondary(var.span, "to give this its values");
                self.errors.push(diag.help(match other {
                    Type::Struct(_) => format!("an array of them is declared as `[{other}; 4]`"),
                    _ => "a `for` runs over a struct array or a constant range, `0..4`".to_owned(),
                }));
                None
            }
        }
    }

    fn over_range(&mut self, var: &Ident, low: &ast::Dim, high: &ast::Dim) -> Option<LoopVar> {
        let bounds = [low, high].map(|bound| {
            let value = self.dims.dim(bound, &mut self.errors)?;
            if value.as_const().is_some_and(|n| n > MAX_LENGTH) {
                let text = format!("a `for` is written out, so it runs to {MAX_LENGTH} at most");
                let diag = Diag::new(Code::Loop, bound.span, text);
                self.errors.push(diag.help(NO_STEP));
                return None;
            }
            let known = value.as_const().is_some() || self.dims.only_consts(&value);
            if known || self.once.is_some() {
                return Some(value);
            }
            let text = format!("a `for` needs a constant range, but `{value}` is a dim");
            let diag = Diag::new(Code::Loop, bound.span, text);
            self.errors.push(diag.help(NO_RECURRENCE));
            None
        });
        let [Some(first), Some(last)] = bounds else {
            return None;
        };
        let place = low.span.join(high.span);
        let (low, high) = (first, last);
        if self.dims.dims.contains(&var.name) {
            let text = format!("`{var}` is a dim or loop variable here");
            let diag = Diag::new(Code::Duplicate, var.span, text);
            self.errors
                .push(diag.help("each loop has a variable of its own"));
            return None;
        }
        // Symbols are at least 0.
        if !self.facts.nonneg(&low) {
            let text = format!("a `for` starts at 0 or above, not at `{low}`");
            let diag = Diag::new(Code::Loop, var.span, text);
            self.errors
                .push(diag.help("start at 0, and subtract where the number is used"));
            return None;
        }
        if let (Some(from), Some(to)) = (low.as_const(), high.as_const())
            && from > to
        {
            let message = format!("a `for` runs upwards, but `{from}..{to}` has nothing in it");
            let diag = Diag::new(Code::Loop, place, message);
            let upwards = Fix::replace(place, format!("{to}..{from}"), "did you mean {}?");
            self.errors.push(diag.fix(upwards));
            return None;
        }
        let symbol = var.name.clone();
        self.dims.dims.insert(symbol.clone());
        self.numbers.push(symbol.clone());
        self.facts
            .assume(&Dim::sym(symbol.clone()), CmpOp::Ge, &low);
        self.facts
            .assume(&Dim::sym(symbol.clone()), CmpOp::Lt, &high);
        Some(LoopVar::Number { symbol, low, high })
    }
}
