//! What other languages do with whole tensors, `x @ w`, `x.sum()`, `x.T`, `x[2:5]`, by the elements.

use std::sync::Arc;

use super::axes::over_axis;
use super::compound::not_on;
use super::slips::function;
use super::{Parse, Parser};
use crate::ein::Agg;
use crate::syntax::ast::{
    AttrKind, Expr, ExprKind, Ident, LeftIndex, Param, Path, Pattern, Place, Sub, TypeKind,
};
use crate::syntax::diag::{Code, Diag, Fix};
use crate::syntax::names;
use crate::syntax::token::{Delim, Span, Tok};

/// The left side of the `let` that is being read.
pub(super) struct Left {
    /// Its name, or the first of several.
    pub(super) name: String,
    /// All of it.
    pub(super) span: Span,
    /// Its indices, if it has brackets.
    pub(super) indices: Option<Vec<String>>,
}

impl Left {
    pub(super) fn of(pattern: &Pattern) -> Left {
        let indices = pattern.indices.as_ref();
        Left {
            name: pattern
                .names
                .first()
                .map(Ident::to_string)
                .unwrap_or_default(),
            span: pattern.span,
            indices: indices.map(|all| all.iter().filter_map(index_name).collect()),
        }
    }
}

/// Of a position on the left that is an index alone.
fn index_name(index: &LeftIndex) -> Option<String> {
    match index {
        LeftIndex::Index(decl) => Some(decl.name.to_string()),
        _ => None,
    }
}

impl Parser {
    /// Notes the axes of the parameters of a block, each by the name that its index would have.
    pub(super) fn note_params(&mut self, params: &[Param]) {
        self.shapes.clear();
        self.kept.clear();
        self.axes.clear();
        self.lets.clear();
        self.states.clear();
        for param in params {
            if param
                .attrs
                .iter()
                .any(|attr| matches!(attr.kind, AttrKind::State))
            {
                self.states.push(param.name.name.clone());
            }
            if let TypeKind::Tensor {
                axes: Some(axes), ..
            } = &param.ty.kind
            {
                self.axes.insert(param.name.name.clone(), axes.clone());
                let names = axes.iter().map(|axis| axis.to_string().to_lowercase());
                let names: Vec<String> = names.collect();
                let plain = |name: &String| name.chars().all(|c| c.is_alphanumeric() || c == '_');
                if names.iter().all(plain) {
                    self.shapes.insert(param.name.name.clone(), names);
                }
            }
        }
    }

    /// Notes the axes of what a `let` defines.
    pub(super) fn note_let(&mut self, pattern: &Pattern) {
        let indices = pattern.indices.as_ref();
        let indices: Option<Vec<String>> =
            indices.and_then(|all| all.iter().map(index_name).collect());
        for name in &pattern.names {
            self.not_kept(name);
            self.lets.push(name.name.clone());
            match &indices {
                Some(indices) => drop(self.shapes.insert(name.name.clone(), indices.clone())),
                None => drop(self.shapes.remove(&name.name)),
            }
        }
    }

    /// Does the statement end here, so that what was read since its `=` is all of its value?
    pub(super) fn ends(&self) -> bool {
        self.is(";")
    }

    /// `x[:, 0]`: each `:` stands for an index of the left that the access does not name.
    fn whole_axes(&self, place: &Place) -> Option<Diag> {
        let (open, close) = (self.at, self.buffer.partner(self.at));
        let ends = |at: usize| at == close || self.is_at(at, ",");
        let starts = |at: usize| at == open + 1 || self.is_at(at - 1, ",");
        let colons =
            (open + 1..close).filter(|&at| self.is_at(at, ":") && starts(at) && ends(at + 1));
        let colons: Vec<usize> = colons.collect();
        let first = self.buffer.span(*colons.first()?);
        let diag = Diag::new(Code::Syntax, first, "an axis is read by an index");
        let named = |name: &str| (open..close).any(|at| self.is_word_at(at, name));
        let left = self.left.as_ref().and_then(|left| left.indices.as_ref());
        let free = left.into_iter().flatten().filter(|name| !named(name));
        let free: Vec<&String> = free.collect();
        if free.len() != colons.len() {
            return Some(diag.help("name it as on the left: `let y[b] = x[b, 0];`"));
        }
        let mut names = colons.iter().zip(&free);
        let shown: String = (open + 1..close)
            .map(|at| match names.clone().find(|(colon, _)| **colon == at) {
                Some((_, name)) => (*name).clone(),
                None if self.is_at(at, ",") => ", ".into(),
                None => self.written(at, at + 1),
            })
            .collect();
        let help = format!("write `{place}[{shown}]`");
        let (at, name) = names.next()?;
        let fix = Fix::replace(self.buffer.span(*at), name.as_str(), &help);
        Some(diag.fix(names.fold(fix, |fix, (at, name)| {
            fix.and(self.buffer.span(*at), name.as_str())
        })))
    }

    /// What to write instead of the range whose `..` stands at `at`, in words.
    fn part_of(&self, place: &Place, at: usize, close: usize) -> String {
        let comma = |at: &usize| self.is_at(*at, ",");
        let from = (self.at + 1..at)
            .rev()
            .find(comma)
            .map_or(self.at + 1, |at| at + 1);
        let end = (at + 1..close).find(comma).unwrap_or(close);
        let low = match from == at {
            true => "0".to_owned(),
            false => self.written(from, at),
        };
        let range = match end == at + 1 {
            true => "i in …".to_owned(),
            false => format!("i in {}", length(&low, &self.written(at + 1, end))),
        };
        let (before, after) = (self.written(self.at + 1, from), self.written(end, close));
        let space = if before.is_empty() { "" } else { " " };
        format!("`{place}[{before}{space}{low} + i{after}]` with `{range}` reads a part of an axis")
    }

    /// `x[2..5]` and `x[2:5]`, where nothing else is read.
    fn slice(&mut self, place: &Place) -> Option<Diag> {
        let close = self.buffer.partner(self.at);
        if let Some(diag) = self.whole_axes(place) {
            let free = diag.fixes.is_empty();
            let fix = free.then(|| self.sliced(place)).flatten();
            return Some(match fix {
                Some(fix) => Diag { help: None, ..diag }.fix(fix),
                None => diag,
            });
        }
        let mut at = self.at + 1;
        // A `..` in front is that of any number of axes.
        at = self.buffer.after_tree(at);
        let rest = |at: usize| self.is_at(at, "..") && self.is_at(at - 1, ",");
        while at < close && (rest(at) || !(self.is_at(at, "..") || self.is_at(at, ":"))) {
            at = self.buffer.after_tree(at);
        }
        if at >= close {
            return None;
        }
        let text = "an index runs over a whole axis";
        let diag = Diag::new(Code::Syntax, self.buffer.span(at), text);
        if let Some(fix) = self.sliced(place) {
            return Some(diag.fix(fix));
        }
        let help = self.part_of(place, at, close);
        let begin = self.at;
        self.at += 1;
        let low = self.dim();
        let bounds = low.ok().filter(|_| self.at == at).and_then(|low| {
            self.at += 1;
            let high = self.dim().ok()?;
            (self.at == close && self.is_at(close + 1, ";")).then_some((low, high))
        });
        self.at = begin;
        if let Some(fix) = self.part(begin, close) {
            return Some(diag.fix(fix));
        }
        let Some(((low, high), left)) = bounds.zip(self.left.as_ref()) else {
            return Some(diag.help(help));
        };
        let index = match left.indices.as_deref() {
            None => "i".to_owned(),
            Some([only]) => only.clone(),
            Some(_) => return Some(diag.help(help)),
        };
        let extent = match &*low.to_string() {
            "0" => high.to_string(),
            low => format!("{high} - {low}"),
        };
        let whole = place.span.join(self.buffer.span(close));
        let read = format!("{place}[{low} + {index}]");
        let help = format!("write `let {}[{index} in {extent}] = {read}`", left.name);
        let end = left.span.end;
        let range = match left.indices {
            None => Fix::after(left.span, format!("[{index} in {extent}]"), &help),
            Some(_) => Fix::before(Span::new(end - 1, end - 1), format!(" in {extent}"), &help),
        };
        Some(diag.fix(range.and(whole, read)))
    }

    /// `x[b, :D]` and `x[b, 2:D]` between `open` and `close`, by an index of the left side, which has one
    /// for each axis: `x[b, 0 + d]`.
    fn part(&mut self, open: usize, close: usize) -> Option<Fix> {
        let names = self.left.as_ref()?.indices.clone()?;
        let (mut at, mut axis, mut from) = (open + 1, 0, open + 1);
        let mut found = None;
        while at <= close {
            if at == close || self.is_at(at, ",") {
                let colon = (from..at).find(|&at| self.is_at(at, ":") || self.is_at(at, ".."));
                if let Some(colon) = colon {
                    found = found.is_none().then_some((axis, from, colon, at));
                    found?;
                }
                (axis, from) = (axis + 1, at + 1);
            }
            at = self.buffer.after_tree(at);
        }
        let (nth, from, colon, end) = found.filter(|_| axis == names.len() && axis > 1)?;
        let index = names.get(nth)?;
        let place = self.declaration(index)?;
        let begin = std::mem::replace(&mut self.at, from);
        let low = match from == colon {
            true => None,
            false => self.dim().ok().filter(|_| self.at == colon).map(Some)?,
        };
        self.at = colon + 1;
        let high = self.dim().ok().filter(|_| self.at == end);
        self.at = begin;
        let (low, high) = (low.map_or("0".to_owned(), |low| low.to_string()), high?);
        let high = high.to_string();
        let extent = length(&low, &high);
        let whole = self.buffer.span(from).join(self.buffer.span(end - 1));
        let text = format!("{low} + {index}");
        let help = format!("write `{text}`, and `{index} in {extent}` on the left");
        let fix = Fix::replace(whole, text, &help);
        Some(fix.and(Span::new(place.end, place.end), format!(" in {extent}")))
    }

    /// What `x @ w` is in full, where the indices of both are known and nothing else is computed.
    pub(super) fn matmul(&mut self, left: &Expr) -> Parse<Expr> {
        let span = self.span();
        self.at += 1;
        let right = self.operand()?;
        let diag = Diag::new(Code::Syntax, span, "a product of matrices is written out");
        let whole = left.span.join(right.span);
        Err(Box::new(match self.product_fix(left, &right, whole) {
            Some(fix) => diag.fix(fix),
            None => diag.help(names::instead("matmul")),
        }))
    }

    /// The product of two matrices, written out in the place of `whole`.
    pub(super) fn product_fix(&self, left: &Expr, right: &Expr, whole: Span) -> Option<Fix> {
        let (a, b) = (self.indexed(left)?, self.indexed(right)?);
        let elements = |e: &Expr| matches!(e.kind, ExprKind::Access { .. });
        let contracted = match elements(left) {
            true => a.iter().find(|index| b.contains(index)),
            false => a.last().filter(|last| b.first() == Some(*last)),
        };
        let fits = elements(left) == elements(right) && self.ends();
        let (k, to) = (contracted.filter(|_| fits)?, self.left.as_ref()?);
        let mut out: Vec<String> = a.iter().filter(|index| *index != k).cloned().collect();
        out.extend(b.iter().filter(|index| *index != k).cloned());
        let mut names = [&a, &b, &out].into_iter();
        if !names.all(|names| names::are_distinct(names)) {
            return None;
        }
        let read = |e: &Expr, indices: &[String]| match &e.kind {
            ExprKind::Name(place) if place.fields.is_empty() => {
                format!("{place}[{}]", indices.join(", "))
            }
            ExprKind::Name(place) => {
                let swapped: Vec<String> = indices.iter().rev().cloned().collect();
                format!("{}[{}]", place.path, swapped.join(", "))
            }
            _ => e.to_string(),
        };
        let text = format!("sum[{k}] {} * {}", read(left, &a), read(right, &b));
        match &to.indices {
            None => {
                let out = out.join(", ");
                let help = format!("write `let {}[{out}] = {text}`", to.name);
                Some(Fix::after(to.span, format!("[{out}]"), &help).and(whole, text))
            }
            Some(given) => (*given == out).then(|| Fix::replace(whole, text, "write {}")),
        }
    }

    /// The indices of an access, or those that a tensor named or transposed would have.
    fn indexed(&self, e: &Expr) -> Option<Vec<String>> {
        match &e.kind {
            ExprKind::Access { subs, .. } => {
                let name = |sub: &Sub| match sub {
                    Sub::Expr(e) => match &e.kind {
                        ExprKind::Name(place) => place.as_ident().map(Ident::to_string),
                        _ => None,
                    },
                    _ => None,
                };
                subs.iter().map(name).collect()
            }
            ExprKind::Name(place) => {
                let shape = self.shapes.get(&place.path.as_ident()?.name)?.clone();
                match &place.fields[..] {
                    [] => Some(shape),
                    [field] if field.as_str() == "T" && shape.len() == 2 => {
                        Some(shape.into_iter().rev().collect())
                    }
                    _ => None,
                }
            }
            _ => None,
        }
    }

    /// Refuses a slice.
    pub(super) fn not_slice(&mut self, place: &Place) -> Parse<()> {
        self.slice(place).map_or(Ok(()), |diag| Err(Box::new(diag)))
    }

    /// Refuses a transposed tensor.
    pub(super) fn not_transposed(&mut self, place: &Place) -> Parse<()> {
        let found = self.transposed(place);
        found.map_or(Ok(()), |diag| Err(Box::new(diag)))
    }

    /// `x.T`, where `x` has two axes that are known: in front of indices, or as a whole value.
    fn transposed(&mut self, place: &Place) -> Option<Diag> {
        let [last] = &place.fields[..] else {
            return None;
        };
        if !matches!(last.as_str(), "T" | "mT") {
            return None;
        }
        let (root, shape) = self.tensor_of(place)?;
        let [a, b] = &shape[..] else { return None };
        let text = format!("`{root}` has no field `{last}`: axes change places by their indices");
        let diag = Diag::new(Code::UnknownField, last.span, text);
        if self.is_open(Delim::Bracket) {
            let begin = self.at;
            self.at += 1;
            let subs = self.list(Delim::Bracket, Self::sub).unwrap_or_default();
            let [first, second] = &subs[..] else {
                self.at = begin;
                return None;
            };
            let span = place.span.join(self.buffer.span(self.at - 1));
            let text = format!("{root}[{second}, {first}]");
            return Some(diag.fix(Fix::replace(span, text, "write {}")));
        }
        let left = self.left.as_ref().filter(|left| left.indices.is_none())?;
        let (read, out) = (format!("{root}[{a}, {b}]"), format!("[{b}, {a}]"));
        let help = format!("write `let {}{out} = {read}`", left.name);
        let fix = Fix::after(left.span, out, &help).and(place.span, read);
        let alone = self.ends() && self.is_whole(place.span);
        (alone && a != b).then(|| diag.fix(fix))
    }

    /// The tensor with known axes of which a method or field is named, and those axes.
    fn tensor_of(&self, place: &Place) -> Option<(Arc<str>, Vec<String>)> {
        self.rooted(place).filter(|_| place.fields.len() == 1)
    }

    /// A tensor with known axes that is named as a whole, and those axes.
    pub(super) fn tensor(&self, place: &Place) -> Option<(Arc<str>, Vec<String>)> {
        self.rooted(place).filter(|_| place.fields.is_empty())
    }

    fn rooted(&self, place: &Place) -> Option<(Arc<str>, Vec<String>)> {
        let root = place.path.as_ident()?;
        let shape = self.shapes.get(&root.name)?;
        Some((root.name.clone(), shape.clone()))
    }

    /// `x.sum()`, `x.exp()`, `x.transpose()` of a whole tensor; the arguments are not taken yet.
    pub(super) fn whole_method(&mut self, place: &Place) -> Parse<Box<Diag>> {
        let text = match self.tensor_of(place) {
            Some((root, _)) => format!("`{root}` is a tensor, which has no methods"),
            None => format!("`{place}` is a field and cannot be called"),
        };
        let diag = Diag::new(Code::Syntax, place.span, text);
        let Some(method) = place.fields.last() else {
            return Ok(Box::new(diag));
        };
        let help = method_help(&place.path, method.as_str());
        self.at += 1;
        let (args, keeps) = self.axis_arguments()?;
        let span = place.span.join(self.buffer.span(self.at - 1));
        if let (true, Some((_, shape))) = (keeps, self.tensor_of(place)) {
            self.keeps_axis(place.span, &args, shape.len());
        }
        let fix = self.tensor_of(place).and_then(|(root, shape)| {
            self.method_fix((&root, &shape), method.as_str(), &args, span)
        });
        Ok(Box::new(match fix {
            Some(fix) => diag.fix(fix),
            None => diag.help(help),
        }))
    }

    pub(super) fn method_fix(
        &self,
        (root, shape): (&str, &[String]),
        method: &str,
        args: &[Expr],
        span: Span,
    ) -> Option<Fix> {
        let left = self.left.as_ref()?;
        let alone = self.ends() && self.is_whole(span);
        if !names::are_distinct(shape) {
            return None;
        }
        // The value, and the indices that it has then.
        let (text, out) = if let Some(agg) = Agg::from_name(method) {
            let axis = match args {
                [] => None,
                [e] => Some(e),
                _ => return None,
            };
            over_axis(agg, (root, shape), axis, left.indices.as_deref())?
        } else if matches!(method, "t" | "transpose") && args.is_empty() && shape.len() == 2 {
            let out = shape.iter().rev().cloned().collect();
            (format!("{root}[{}]", shape.join(", ")), out)
        } else {
            let name = function(method, args.len() + 1)?;
            let mut shown = vec![format!("{root}[{}]", shape.join(", "))];
            shown.extend(args.iter().map(Expr::to_string));
            (format!("{name}({})", shown.join(", ")), shape.to_vec())
        };
        match &left.indices {
            None if alone => {
                let out = out.join(", ");
                let help = format!("write `let {}[{out}] = {text}`", left.name);
                Some(Fix::after(left.span, format!("[{out}]"), &help).and(span, text))
            }
            None => None,
            Some(given) => {
                let known = out.iter().all(|name| given.contains(name));
                let text = match alone || !text.contains("] ") {
                    true => text,
                    false => format!("({text})"),
                };
                known.then(|| Fix::replace(span, text, "write {}"))
            }
        }
    }

    /// Does a `=` stand in front of it?
    pub(super) fn is_whole(&self, span: Span) -> bool {
        let tokens = self.buffer.tokens();
        let at = tokens
            .iter()
            .position(|token| token.span.start == span.start);
        at.is_some_and(|at| at > 0 && self.is_at(at - 1, "="))
    }

    /// `sum(x[i])` and `sum(i) x[i]`; the arguments are not taken yet.
    /// `start` is where the call begins.
    pub(super) fn called_agg(&mut self, agg: &Ident, start: Span) -> Parse<Box<Diag>> {
        let text = format!("`{agg}` is an aggregation, so it names the indices it reduces");
        let diag = Diag::new(Code::UnknownFunction, agg.span, text);
        let help = format!("write `{agg}[i] x[i]`");
        let (open, close) = (self.span(), self.buffer.partner(self.at));
        self.at += 1;
        let Ok(args) = self.list(Delim::Paren, Self::expr) else {
            return Ok(Box::new(diag.help(help)));
        };
        let whole = start.join(self.buffer.span(close));
        let name =
            |e: &Expr| matches!(&e.kind, ExprKind::Name(place) if place.as_ident().is_some());
        let follows = matches!(self.peek(), Some(Tok::Ident(_) | Tok::Open(Delim::Paren)));
        if follows && !args.is_empty() && args.iter().all(name) {
            let shown: Vec<String> = args.iter().map(Expr::to_string).collect();
            let Ok(body) = self.nested(Self::product) else {
                return Ok(Box::new(diag.help(help)));
            };
            let help = format!("write `{agg}[{}] {body}`", shown.join(", "));
            let fix = Fix::replace(open, "[", &help).and(self.buffer.span(close), "]");
            return Ok(Box::new(diag.fix(fix)));
        }
        if let [
            Expr {
                kind: ExprKind::Name(place),
                ..
            },
        ] = &args[..]
            && let Some((root, shape)) = self.tensor(place)
            && let Some(fix) = self.method_fix((&root, &shape), agg.as_str(), &[], whole)
        {
            return Ok(Box::new(diag.fix(fix)));
        }
        let left = self.left.as_ref().and_then(|left| left.indices.clone());
        let ([arg, named @ ..], Some(left)) = (&args[..], left) else {
            return Ok(Box::new(diag.help(help)));
        };
        let free: Vec<String> = (not_on(&left, arg).into_iter())
            .map(str::to_owned)
            .collect();
        // `sum(x[n, d], d)`
        let named: Vec<String> = named.iter().map(Expr::to_string).collect();
        let over = if named.is_empty() {
            free.clone()
        } else {
            named
        };
        if over.is_empty() || !over.iter().all(|name| free.contains(name)) {
            return Ok(Box::new(diag.help(help)));
        }
        let over = over.join(", ");
        let body = match arg.kind {
            ExprKind::Access { .. } | ExprKind::Call { .. } => arg.to_string(),
            _ => format!("({arg})"),
        };
        let alone = self.ends() && self.is_whole(whole);
        let text = match alone {
            true => format!("{agg}[{over}] {body}"),
            false => format!("({agg}[{over}] {body})"),
        };
        Ok(Box::new(diag.fix(Fix::replace(whole, text, "write {}"))))
    }
}

/// What a method of other libraries is here.
fn method_help(of: &Path, method: &str) -> String {
    if Agg::from_name(method).is_some() {
        format!("an aggregation stands in front: `{method}[i] {of}[i]`")
    } else if let Some(name) = function(method, 1) {
        format!("a function stands in front: `{name}({of}[i])`")
    } else {
        match names::is_known_elsewhere(method) {
            true => names::instead(method),
            false => format!("a block is called by its name: `{method}({of})`"),
        }
    }
}

/// How long the range from `low` to below `high` is.
pub(super) fn length(low: &str, high: &str) -> String {
    match (low, high.strip_prefix(&format!("{low} + "))) {
        ("0", _) => high.to_owned(),
        (_, Some(length)) => length.to_owned(),
        _ => format!("{high} - {low}"),
    }
}
