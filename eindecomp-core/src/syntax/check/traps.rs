//! Reductions whose body hardly means what it says.

use super::dims::is_const;
use super::expr::StmtCx;
use super::heads::head;
use super::tree::IndexId;
use super::unbound::name_at;
use super::walk::{accessed, binds, mentions, path_to, reads_in, sub_name};
use crate::ein::{Agg, DType, Dim};
use crate::syntax::ast::{self, BinaryOp, UnaryOp};
use crate::syntax::diag::{Code, Diag, Fix};
use crate::syntax::names::SOFTMAX_SUM;
use crate::syntax::token::Span;

impl StmtCx<'_, '_> {
    /// Reports a reduction that no parentheses hold in the body.
    pub(super) fn naked(
        &mut self,
        reduce: &ast::Reduce,
        body: &ast::Expr,
        whole: Span,
    ) -> Option<()> {
        let mut factors = Vec::new();
        flatten(body, &mut factors);
        let head = head(reduce);
        for (at, factor) in factors.iter().enumerate() {
            if let Some((inner, span)) = naked_reduction(factor) {
                let rebinds = |decl: &ast::IndexDecl| {
                    reduce
                        .indices
                        .iter()
                        .any(|outer| outer.name.name == decl.name.name)
                };
                let rebinds = inner.indices.iter().any(rebinds);
                let text = "a reduction stands unparenthesised inside another's body";
                let diag = Diag::new(Code::NestedReduction, span, text);
                let outside = (at > 0).then(|| {
                    let text = format!("({head} {}) {}", product(body, at), rest(body, at));
                    Fix::replace(whole, text, "did you mean {}?")
                });
                let inside = (!rebinds).then(|| held(&head, body));
                let once = (factors.len() == 1
                    && rebinds
                    && inner.agg.to_string() == reduce.agg.to_string())
                .then(|| Fix::replace(whole, factor.to_string(), "did you mean {}?"));
                self.report(diag.fixes(outside).fixes(inside).fixes(once));
                return None;
            }
        }
        Some(())
    }

    /// Reports a mean that is divided by the extent that it divides by already.
    pub(super) fn divided(
        &mut self,
        agg: Agg,
        reduce: &ast::Reduce,
        body: &ast::Expr,
    ) -> Option<()> {
        if agg != Agg::MEAN {
            return Some(());
        }
        let (mut product, mut held) = (body, false);
        while let ast::ExprKind::Paren(inner) = &product.kind {
            (product, held) = (inner, true);
        }
        while let ast::ExprKind::Binary(op, left, right) = &product.kind {
            let (mut divisor, mut cast) = (&**right, false);
            while let ast::ExprKind::Paren(inner) | ast::ExprKind::Cast(inner, _) = &divisor.kind {
                cast |= matches!(divisor.kind, ast::ExprKind::Cast(..));
                divisor = inner;
            }
            let again = *op == BinaryOp::Div && self.is_extent(divisor, reduce, body);
            // In parentheses, a division by a number is meant.
            if again && !(held && cast) {
                let text = format!("this divides by `{divisor}` again, as the `{agg}` does");
                let diag = Diag::new(Code::FactorInReduction, right.span, text);
                let help = format!("leave out `/ {right}`");
                let rest = Span::new(left.span.end, right.span.end);
                self.report(diag.fix(Fix::replace(rest, "", &help)));
                return None;
            }
            product = left;
        }
        Some(())
    }

    /// Is it the extent of an index that the reduction reduces?
    fn is_extent(&self, e: &ast::Expr, reduce: &ast::Reduce, body: &ast::Expr) -> bool {
        let ast::ExprKind::Name(place) = &e.kind else {
            return false;
        };
        let known = || is_const(&place.path).then(|| Dim::sym(place.path.to_string()));
        let Some(dim) = self.cx.dims.known(&place.path).or_else(known) else {
            return false;
        };
        let indices = reduce.indices.iter();
        let mut axes = indices.flat_map(|decl| self.cx.axes_of(body, decl.name.as_str()));
        axes.any(|axis| axis == dim)
    }

    /// Reports a score or a value that is the same for every reduced index.
    pub(super) fn weighted(&mut self, reduce: &ast::Reduce, texts: &[&ast::Expr]) -> Option<()> {
        let names: Vec<&str> = reduce.indices.iter().map(|d| d.name.as_str()).collect();
        let [score, value] = texts[..] else {
            return Some(());
        };
        for (arg, other, what) in [(score, value, "score"), (value, score, "value")] {
            let meant = matches!(arg.kind, ast::ExprKind::Paren(_) | ast::ExprKind::Lit(_));
            if meant || names.is_empty() || mentions(arg, &names) {
                continue;
            }
            let text = format!(
                "the {what} `{arg}` does not depend on the indices that this `{SOFTMAX_SUM}` reduces"
            );
            let diag = Diag::new(Code::FactorInReduction, arg.span, text);
            let read = names.iter().find_map(|name| {
                let axes = self.cx.axes_of(other, name);
                let read = self.read_along(arg, name, &axes);
                read.or_else(|| self.cached(arg, (*name, &axes), None))
            });
            let mean = (what == "score" && read.is_none()).then(|| {
                let agg = ast::Reduce {
                    agg: named_path("mean", reduce.agg.span),
                    ..reduce.clone()
                };
                format!(
                    "with equal weights it is `{} {}`",
                    head(&agg),
                    factor(value)
                )
            });
            let shown = format!("({arg})");
            let held = Fix::wrap(arg.span, "(", ")", &shown, "{} if it is meant");
            let renamed = |fix: &Fix| fix.edits.len() > 1;
            let certain =
                read.as_ref().is_some_and(renamed) || read.is_some() && self.disagrees(arg);
            let diag = diag.fixes(read).fixes((!certain).then_some(held));
            self.report(match mean {
                Some(mean) => diag.help(mean),
                None => diag,
            });
            return None;
        }
        Some(())
    }

    /// Does an index of an argument read axes of different extents in the statement?
    fn disagrees(&self, arg: &ast::Expr) -> bool {
        let mut names = Vec::new();
        super::walk::positions(arg, &mut names);
        let axes = |name: &str| self.cx.value().map(|value| self.cx.axes_of(value, name));
        let differ = |axes: Vec<Dim>| axes.windows(2).any(|pair| pair[0] != pair[1]);
        names.into_iter().any(|name| axes(name).is_some_and(differ)) || self.inner_disagrees(arg)
    }

    /// The same of what a sum in it reads.
    fn inner_disagrees(&self, arg: &ast::Expr) -> bool {
        let inner =
            |e: &&ast::Expr| matches!(arg.kind, ast::ExprKind::Reduce(_)) && self.disagrees(e);
        arg.children().iter().any(inner)
    }

    /// The index in place of the one that reads an axis of one of these extents.
    fn read_along(&self, e: &ast::Expr, index: &str, extents: &[Dim]) -> Option<Fix> {
        if let Some((place, subs)) = accessed(e) {
            let t = self.cx.type_of(place)?;
            let mut fits = subs
                .iter()
                .zip(&t.axes)
                .filter(|(sub, axis)| sub_name(sub).is_some() && extents.contains(axis));
            if let (Some((sub, _)), None) = (fits.next(), fits.next()) {
                let put = |other: &ast::Sub| match other.span() == sub.span() {
                    true => index.to_owned(),
                    false => other.to_string(),
                };
                let shown: Vec<String> = subs.iter().map(put).collect();
                let help = format!("did you mean `{place}[{}]`?", shown.join(", "));
                return Some(Fix::replace(sub.span(), index, &help));
            }
        }
        let children = e.children().into_iter();
        children
            .filter_map(|e| self.read_along(e, index, extents))
            .next()
    }

    /// Says of unbound indices, by the errors since number `before`, in a score or value without an index that its reduction
    /// reduces, what it reads along that.
    pub(super) fn mend_weighted(&mut self, before: usize, value: &ast::Expr) {
        for at in before..self.cx.errors.len() {
            let error = &self.cx.errors[at];
            let mut path = Vec::new();
            if error.code != Code::UnboundIndex || !path_to(value, error.primary, &mut path) {
                continue;
            }
            let weighted = path.windows(2).rev().find_map(|two| match &two[0].kind {
                ast::ExprKind::Reduce(reduce) => match &reduce.body {
                    ast::ReduceBody::Args(args) if args.len() == 2 => {
                        Some((&reduce.indices, args, two[1]))
                    }
                    _ => None,
                },
                _ => None,
            });
            let Some((indices, args, arg)) = weighted else {
                continue;
            };
            let names: Vec<&str> = indices.iter().map(|decl| decl.name.as_str()).collect();
            if names.is_empty() || mentions(arg, &names) {
                continue;
            }
            let others = || args.iter().filter(|other| !std::ptr::eq(*other, arg));
            let read = names.iter().find_map(|name| {
                let axes: Vec<Dim> = others().flat_map(|e| self.cx.axes_of(e, name)).collect();
                self.cached(arg, (*name, &axes), Some(self.cx.errors[at].primary))
            });
            let error = &mut self.cx.errors[at];
            // What is the same along the reduced index would be the next error.
            error.help = read
                .is_none()
                .then(|| format!("nothing in `{arg}` runs over `{}`", names.join(", ")));
            error.fixes = read.into_iter().collect();
        }
    }

    /// A tensor that nothing reads, such as the cache of what is read in `e`, read along the index in the axis of one of these
    /// extents: in the access with an unbound index at `place_of`, else in the one of the most similar name.
    fn cached(
        &self,
        e: &ast::Expr,
        (index, extents): (&str, &[Dim]),
        place_of: Option<Span>,
    ) -> Option<Fix> {
        let mut reads = Vec::new();
        reads_in(e, &mut reads);
        let holds = |subs: &[ast::Sub]| {
            let mut spans = subs.iter().map(ast::Sub::span);
            place_of.is_none_or(|place| spans.any(|span| span.contains(place)))
        };
        let reads = reads.into_iter().filter(|(_, subs)| holds(subs));
        let found = reads.filter_map(|(place, subs)| {
            let t = self.cx.type_of(place)?;
            let along = |axes: &[Dim]| {
                let mut other = (0..axes.len()).filter(|&at| t.axes.get(at) != Some(&axes[at]));
                let (Some(at), None) = (other.next(), other.next()) else {
                    return None;
                };
                (axes.len() == subs.len() && extents.contains(&axes[at])).then_some(at)
            };
            let unread = self.cx.unread().filter(|(_, ty)| ty.dtype == t.dtype);
            let own = place.to_string();
            let found = unread.filter_map(|(name, ty)| {
                let at = along(&ty.axes)?;
                Some((name.contains(&own), name.to_owned(), at))
            });
            let (like, name, at) = found.max_by_key(|(like, ..)| *like)?;
            let text = |(nth, sub): (usize, &ast::Sub)| match sub_name(sub) {
                _ if nth == at => index.to_owned(),
                Some(own) if place_of == Some(sub.span()) => {
                    let axis = t.axes[nth].as_symbol().map(|axis| axis.to_lowercase());
                    let bound = axis.filter(|axis| binds(e, axis));
                    bound.unwrap_or_else(|| own.to_owned())
                }
                _ => sub.to_string(),
            };
            let texts: Vec<String> = subs.iter().enumerate().map(text).collect();
            let help = format!("did you mean `{name}[{}]`?", texts.join(", "));
            let edits = subs.iter().zip(texts).map(|(sub, text)| (sub.span(), text));
            let edits = std::iter::once((place.span, name)).chain(edits).collect();
            Some((like, Fix { help, edits }))
        });
        // The last of equals: behind what it is compared with.
        found.max_by_key(|(like, _)| *like).map(|(_, fix)| fix)
    }

    /// A reduced index in place of one in a factor that does not fit its axis.
    fn mixed_up(&self, factor: &ast::Expr, reduce: &ast::Reduce, body: &ast::Expr) -> Option<Fix> {
        let (place, subs) = accessed(factor)?;
        let t = self.cx.type_of(place)?;
        let mut wrong = subs.iter().zip(&t.axes).filter(|(sub, axis)| {
            let axes = sub_name(sub).map(|name| self.cx.axes_of(body, name));
            axes.is_some_and(|axes| axes.iter().any(|other| other != *axis))
        });
        let (sub, axis) = wrong.next()?;
        let indices = reduce.indices.iter().map(|decl| decl.name.as_str());
        let mut fits = indices.filter(|name| self.cx.axes_of(body, name).contains(axis));
        let (Some(index), None) = (fits.next(), fits.next()) else {
            return None;
        };
        let fix = self.read_along(factor, index, std::slice::from_ref(axis))?;
        fix.edits
            .iter()
            .all(|(span, _)| *span == sub.span())
            .then_some(fix)
    }

    /// Reports a body that hardly means what it says.
    pub(super) fn traps(
        &mut self,
        agg: Agg,
        (reduce, whole): (&ast::Reduce, Span),
        body: &ast::Expr,
        indices: &[IndexId],
    ) -> Option<()> {
        let mut factors = Vec::new();
        flatten(body, &mut factors);
        let head = head(reduce);
        if agg != Agg::SUM && factors.len() > 1 {
            for (at, factor) in factors.iter().enumerate() {
                let names = reduce.indices.iter().map(|d| d.name.as_str());
                if mentions(factor, &names.collect::<Vec<_>>()) || indices.is_empty() {
                    continue;
                }
                let text =
                    format!("`{factor}` does not depend on the indices that this `{agg}` reduces");
                let diag = Diag::new(Code::FactorInReduction, factor.span, text);
                if let Some(other) = self.mixed_up(factor, reduce, body) {
                    self.report(diag.fix(other));
                    return None;
                }
                // A divided first factor has no product that could stay inside.
                let outside = match at {
                    0 => after_first(body).map(|rest| format!("({head} {rest}) * {factor}")),
                    _ => Some(format!("({head} {}) {}", product(body, at), rest(body, at))),
                };
                let outside = outside.map(|text| Fix::replace(whole, text, "did you mean {}?"));
                self.report(diag.fixes(outside).fix(held(&head, body)));
                return None;
            }
        }
        if let Some(ast::Expr {
            kind: ast::ExprKind::Cast(value, dtype),
            span,
        }) = factors.last().copied()
            && let Some(to) = DType::from_name(dtype.as_str())
            && reduce.acc.is_none()
            && !(factors.len() > 1 && factors.iter().all(|f| is_cast_to(f, dtype)))
            && self.narrows(value, to)
        {
            // An accumulator, or a cast of every factor, says that factors are what is to be narrowed.
            let text = format!("this narrows only `{value}` to {to}, not the result");
            let diag = Diag::new(Code::NarrowingFactor, *span, text);
            let body_text = match &body.kind {
                ast::ExprKind::Binary(op, left, _) => {
                    format!("{left} {} {value}", op.symbol())
                }
                _ => value.to_string(),
            };
            let result = format!("({head} {body_text}) as {to}");
            let result = Fix::replace(whole, result, "did you mean {}?");
            // As it stands the product is wider than what is declared.
            let others = &factors[..factors.len() - 1];
            let sure = self.cx.wanted_dtype(whole) == Some(to)
                && others.iter().any(|factor| self.narrows(factor, to));
            let meant = (!sure).then(|| held(&head, body));
            self.report(diag.fix(result).fixes(meant));
            return None;
        }
        Some(())
    }

    /// Says of errors since number `before` about a reduction with a comparison behind it that the
    /// comparison is meant to be its body: once, for the body and for the reduced indices behind it.
    pub(super) fn mend_compared(&mut self, before: usize, value: &ast::Expr) {
        let mut found = Vec::new();
        comparisons(value, &mut found);
        for e in found {
            let Some((reduce, body, _, right)) = comparison(e) else {
                continue;
            };
            let inside = |span: Span| right.span.contains(span);
            let reduced = |name: &str| reduce.indices.iter().any(|decl| decl.name.as_str() == name);
            let follows = |diag: &Diag| match diag.code {
                Code::DtypeRule => diag.primary == body.span,
                Code::UnboundIndex => {
                    let name = name_at(right, diag.primary).filter(|_| inside(diag.primary));
                    name.is_some_and(|name| reduced(name.as_str()))
                }
                _ => false,
            };
            let Some(fix) = compared(e, self.cx.wanted_dtype(value.span)) else {
                continue;
            };
            let made = self.cx.errors.split_off(before);
            let (follow, rest): (Vec<Diag>, Vec<Diag>) = made.into_iter().partition(follows);
            let first = follow.into_iter().next();
            self.cx.errors.extend(first.map(|diag| Diag {
                fixes: vec![fix],
                help: None,
                ..diag
            }));
            self.cx.errors.extend(rest);
        }
    }

    /// Would a cast of this to `to` lose something? Its errors are reported already.
    fn narrows(&mut self, value: &ast::Expr, to: DType) -> bool {
        fn dtype_of(cx: &StmtCx<'_, '_>, e: &ast::Expr) -> Option<DType> {
            match &e.kind {
                ast::ExprKind::Access { place, .. } | ast::ExprKind::Name(place) => {
                    cx.cx.type_of(place).map(|t| t.dtype)
                }
                ast::ExprKind::Cast(_, dtype) => DType::from_name(dtype.as_str()),
                ast::ExprKind::Call { args, .. } => dtype_of(cx, args.first()?),
                ast::ExprKind::Paren(inner) | ast::ExprKind::Unary(_, inner) => dtype_of(cx, inner),
                ast::ExprKind::Binary(_, a, b) => match (dtype_of(cx, a), dtype_of(cx, b)) {
                    (Some(a), Some(b)) => a.common(b),
                    (a, b) => a.or(b),
                },
                _ => None,
            }
        }
        dtype_of(self, value).is_some_and(|from| {
            let same_kind = from.is_float() == to.is_float() && from != DType::Bool;
            same_kind && !from.widens_to(to)
        })
    }
}

/// The comparison that follows a reduction as its body, as a number where that is what is reduced.
fn compared(e: &ast::Expr, wanted: Option<DType>) -> Option<Fix> {
    let (reduce, ..) = comparison(e)?;
    let number = match Agg::from_name(&reduce.agg.to_string())? {
        Agg::ANY | Agg::ALL => None,
        Agg::MEAN => Some(wanted.filter(|d| d.is_float()).unwrap_or(DType::F32)),
        Agg::SUM => Some(wanted.filter(|d| *d != DType::Bool).unwrap_or(DType::I64)),
        _ => return None,
    };
    as_body(e, number)
}

/// The comparison that follows a reduction as its body, converted.
fn as_body(e: &ast::Expr, to: Option<DType>) -> Option<Fix> {
    let (reduce, body, op, right) = comparison(e)?;
    let cast = to.map_or(String::new(), |dtype| format!(" as {dtype}"));
    let shown = format!("{} ({body} {} {right}){cast}", head(reduce), op.symbol());
    let fix = Fix::before(body.span, "(", &format!("did you mean `{shown}`?"));
    Some(fix.and(Span::new(e.span.end, e.span.end), format!("){cast}")))
}

/// The comparisons behind reductions in an expression.
fn comparisons<'e>(e: &'e ast::Expr, out: &mut Vec<&'e ast::Expr>) {
    if comparison(e).is_some() {
        out.push(e);
    }
    for child in e.children() {
        comparisons(child, out);
    }
}

/// A reduction of a product with a comparison behind it.
fn comparison(e: &ast::Expr) -> Option<(&ast::Reduce, &ast::Expr, BinaryOp, &ast::Expr)> {
    let ast::ExprKind::Binary(op @ BinaryOp::Cmp(_), left, right) = &e.kind else {
        return None;
    };
    let ast::ExprKind::Reduce(reduce) = &left.kind else {
        return None;
    };
    match &reduce.body {
        ast::ReduceBody::Product(body) => Some((reduce, body, *op, right)),
        ast::ReduceBody::Args(_) => None,
    }
}

/// A sum or mean that is compared, as one of the comparisons, for a statement of the dtype.
pub(super) fn counted(e: &ast::Expr, dtype: DType) -> Option<Fix> {
    let (reduce, ..) = comparison(e)?;
    let agg = Agg::from_name(&reduce.agg.to_string())?;
    let counts = agg == Agg::SUM && dtype != DType::Bool || agg == Agg::MEAN && dtype.is_float();
    counts.then(|| as_body(e, Some(dtype))).flatten()
}

fn named_path(name: &str, span: Span) -> ast::Path {
    let name = ast::Ident {
        name: name.into(),
        span,
    };
    ast::Path {
        global: false,
        segments: vec![name],
        span,
    }
}

/// As one factor of a product.
fn factor(e: &ast::Expr) -> String {
    match &e.kind {
        ast::ExprKind::Access { .. } | ast::ExprKind::Call { .. } | ast::ExprKind::Name(_) => {
            e.to_string()
        }
        _ => format!("({e})"),
    }
}

/// The factors and divisors of an unparenthesised product.
/// `x as f32`, of the dtype `f32`.
fn is_cast_to(e: &ast::Expr, to: &ast::Dtype) -> bool {
    matches!(&e.kind, ast::ExprKind::Cast(_, dtype) if dtype.as_str() == to.as_str())
}

fn flatten<'e>(e: &'e ast::Expr, out: &mut Vec<&'e ast::Expr>) {
    match &e.kind {
        ast::ExprKind::Binary(BinaryOp::Mul | BinaryOp::Div | BinaryOp::Rem, a, b) => {
            flatten(a, out);
            out.push(b);
        }
        _ => out.push(e),
    }
}

/// The first `at` factors of a product, as written.
fn product(e: &ast::Expr, at: usize) -> String {
    let mut factors = Vec::new();
    flatten(e, &mut factors);
    let mut node = e;
    for _ in at..factors.len() {
        if let ast::ExprKind::Binary(_, a, _) = &node.kind {
            node = a;
        }
    }
    node.to_string()
}

/// The operators and factors from number `at` on.
fn rest(e: &ast::Expr, at: usize) -> String {
    let mut factors = Vec::new();
    flatten(e, &mut factors);
    let (mut node, mut parts) = (e, Vec::new());
    for _ in at..factors.len() {
        if let ast::ExprKind::Binary(op, a, b) = &node.kind {
            parts.push(format!("{} {b}", op.symbol()));
            node = a;
        }
    }
    parts.reverse();
    parts.join(" ")
}

/// A product without its first factor, if that is multiplied.
fn after_first(e: &ast::Expr) -> Option<String> {
    rest(e, 1).strip_prefix("* ").map(str::to_owned)
}

/// The body in parentheses.
fn held(head: &str, body: &ast::Expr) -> Fix {
    let shown = format!("{head} ({body})");
    Fix::wrap(body.span, "(", ")", &shown, "{} if it is meant")
}

/// A reduction that no parentheses hold, and where it stands.
fn naked_reduction(e: &ast::Expr) -> Option<(&ast::Reduce, Span)> {
    match &e.kind {
        ast::ExprKind::Reduce(reduce) => Some((reduce, e.span)),
        ast::ExprKind::Unary(UnaryOp::Neg | UnaryOp::Not, inner)
        | ast::ExprKind::Cast(inner, _) => naked_reduction(inner),
        _ => None,
    }
}
