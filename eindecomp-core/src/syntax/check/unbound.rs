//! What is meant by an index that nothing binds, by the statement around it.

use super::heads::{another_index, head};
use super::walk::{accessed, mentions, named, positions, reads_in, sub_name};
use crate::ein::Agg;
use crate::syntax::ast::{BinaryOp, Expr, ExprKind, Ident, IndexDecl, Reduce, ReduceBody};
use crate::syntax::diag::{Diag, Fix};
use crate::syntax::names::nearest;
use crate::syntax::token::Span;

/// Adds to an error about an unbound index how the statement's value may be mended; `left` are the
/// indices on the left, and whether the right uses them; `unbound` are the places of all that nothing binds.
pub(super) fn mend(diag: Diag, value: &Expr, left: &[(&str, bool)], unbound: &[Span]) -> Diag {
    let mut path = Vec::new();
    let Some(name) = find(value, diag.primary, &mut path) else {
        return diag;
    };
    if let Some((reduce, held, span)) = closed(value, name.as_str()) {
        if let Some(help) = beside(value, reduce, span, name, left) {
            return diag.help(help);
        }
        let unused = left.iter().filter(|(_, used)| !used);
        let unused: Vec<&str> = unused.map(|(name, _)| *name).collect();
        return match (
            whole_body(value, reduce, held, span, name),
            &unused[..],
        ) {
            (Some(Whole::Held(fixes)), _) => diag.fixes(fixes),
            (Some(Whole::Cancels(help)), _) => diag.help(help),
            // It stands beside the reduction, where another one is left.
            (None, [only]) => diag.fix(Fix::replace(name.span, *only, "did you mean {}?")),
            (None, _) if span.start > name.span.start => diag.help(format!(
                "the reduction over `{name}` is behind this: put `{name}` on the left, and use another index there"
            )),
            (None, _) => diag.help(format!(
                "the reduction over `{name}` ends before this; put its whole body in parentheses"
            )),
        };
    }
    let around: Vec<&Reduce> = path
        .iter()
        .filter_map(|e| match &e.kind {
            ExprKind::Reduce(reduce) => Some(&**reduce),
            _ => None,
        })
        .collect();
    let bound = around.iter().flat_map(|reduce| &reduce.indices);
    let visible = bound.map(|decl| decl.name.as_str());
    let visible = visible.chain(left.iter().map(|(name, _)| *name));
    let meant = nearest(name.as_str(), visible).filter(|_| name.as_str().len() > 1);
    if let Some(meant) = meant {
        return diag.fix(Fix::replace(name.span, meant, "did you mean {}?"));
    }
    let unused: Vec<&str> = left
        .iter()
        .filter(|(_, used)| !used)
        .map(|(n, _)| *n)
        .collect();
    if let [only] = unused[..] {
        let mut uses = Vec::new();
        named(value, name.as_str(), &mut uses);
        let help = format!("did you mean `{only}`?");
        let edits = uses.into_iter().map(|span| (span, only.to_owned()));
        return diag.fix(Fix {
            help,
            edits: edits.collect(),
        });
    }
    // A sum needs a use that gives the index its extent, and a name that is free.
    let mut alone = Vec::new();
    positions(value, &mut alone);
    let summable = (!around.is_empty() || alone.contains(&name.as_str()))
        && Agg::from_name(name.as_str()).is_none();
    let outside = around.last().is_some_and(|reduce| {
        let (mut all, mut inside) = (Vec::new(), Vec::new());
        named(value, name.as_str(), &mut all);
        let bodies = match &reduce.body {
            ReduceBody::Product(body) => std::slice::from_ref(body),
            ReduceBody::Args(args) => args,
        };
        let bodies = bodies.iter().chain(&reduce.filter);
        bodies.for_each(|e| named(e, name.as_str(), &mut inside));
        inside.len() < all.len()
    });
    let ranked = left.iter().any(|(other, _)| {
        let number = other.strip_prefix(name.as_str());
        number.is_some_and(|n| !n.is_empty() && n.chars().all(|c| c.is_ascii_digit()))
    });
    match around.last() {
        _ if ranked => diag.fix(Fix::before(
            name.span,
            "..",
            &format!("did you mean `..{name}`?"),
        )),
        _ if outside => diag.help("put it on the left"),
        _ if !summable => diag.help("put it on the left, or reduce it"),
        Some(reduce) => match within(reduce, name) {
            Within::Contracted(fix) => diag.fix(fix),
            Within::Reduced if selects(reduce) => diag.help("put it on the left"),
            Within::Reduced => diag.fixes(reduced_too(reduce, name)),
            Within::Unclear => diag.help(format!(
                "put it on the left, or reduce it where that is meant: `sum[{name}] …`"
            )),
        },
        None => {
            // Those that stand in the same term are summed together.
            let names = unbound.iter().filter_map(|place| name_at(value, *place));
            let term = term(value, name.as_str()).span;
            let together = names.filter(|other| {
                let alone = alone.contains(&other.as_str());
                alone && self::term(value, other.as_str()).span == term
            });
            let names: Vec<&str> = together.map(Ident::as_str).collect();
            let help = match names.len() {
                1 => "or put it on the left",
                _ => "or put them on the left",
            };
            diag.fix(summed(value, name, &names)).help(help)
        }
    }
}

/// The name that stands at `place`.
pub(super) fn name_at(value: &Expr, place: Span) -> Option<&Ident> {
    find(value, place, &mut Vec::new())
}

/// The change that puts an index on the left, with another index for each reduction over it.
pub(super) fn renamed(e: &Expr, index: &str, fix: Fix) -> Option<Fix> {
    let fix = match &e.kind {
        ExprKind::Reduce(reduce) if reduce.indices.iter().any(|d| d.name.as_str() == index) => {
            fix.then(another_index(reduce)?)
        }
        _ => fix,
    };
    let mut children = e.children().into_iter();
    children.try_fold(fix, |fix, e| renamed(e, index, fix))
}

/// The node at `place`, with everything around it.
fn find<'e>(e: &'e Expr, place: Span, path: &mut Vec<&'e Expr>) -> Option<&'e Ident> {
    if let ExprKind::Name(name) = &e.kind
        && e.span == place
    {
        return name.as_ident();
    }
    path.push(e);
    let found = e.children().into_iter().find_map(|e| find(e, place, path));
    if found.is_none() {
        path.pop();
    }
    found
}

/// A reduction over the index, which is over where the index is used; the parentheses that hold
/// it, and its own place.
fn closed<'e>(e: &'e Expr, name: &str) -> Option<(&'e Reduce, Option<Span>, Span)> {
    let of = |e: &'e Expr| match &e.kind {
        ExprKind::Reduce(reduce) => {
            let binds = reduce.indices.iter().any(|decl| decl.name.as_str() == name);
            binds.then_some(&**reduce)
        }
        _ => None,
    };
    if let Some(reduce) = of(e) {
        return Some((reduce, None, e.span));
    }
    if let ExprKind::Paren(inner) = &e.kind
        && let Some(reduce) = of(inner)
    {
        return Some((reduce, Some(e.span), inner.span));
    }
    e.children().into_iter().find_map(|e| closed(e, name))
}

/// What to do about a term beside a sum that is read by the sum's index alone, where others are on the left: a bias,
/// which is hardly meant to be summed.
fn beside(
    value: &Expr,
    reduce: &Reduce,
    span: Span,
    name: &Ident,
    left: &[(&str, bool)],
) -> Option<String> {
    let ReduceBody::Product(body) = &reduce.body else {
        return None;
    };
    let mut path = Vec::new();
    find(value, name.span, &mut path)?;
    let ([.., around, read], true) = (&path[..], span.end < name.span.start) else {
        return None;
    };
    let (place, subs) = accessed(read)?;
    let term = matches!(
        around.kind,
        ExprKind::Binary(BinaryOp::Add | BinaryOp::Sub, ..)
    );
    // Beside anything but a contraction the sum is meant to go on.
    let reads = |e: &Expr| accessed(e).is_some() && mentions(e, &[name.as_str()]);
    let contracts =
        matches!(&body.kind, ExprKind::Binary(BinaryOp::Mul, a, b) if reads(a) && reads(b));
    let mut others = left.iter().filter(|(other, _)| mentions(body, &[*other]));
    let (Some(_), true, [_]) = (others.next(), term && contracts, subs) else {
        return None;
    };
    Some(format!(
        "the reduction over `{name}` ends before this: read `{place}` by an index on the left, or hold both in \
         parentheses if each `{name}` adds it"
    ))
}

/// A reduction's body with all that follows up to a use of its index.
enum Whole {
    /// Held by parentheses, all of it or its last factor.
    Held(Vec<Fix>),
    /// Nothing would be left of it, `a - a` or `a / a`: what to do.
    Cancels(String),
}

/// What to do about `a` behind a reduction of `a`, which it would cancel: `logsumexp[j] s[i, j] - s[i, j]`.
fn cancelled(name: &Ident, whole: &str, right: &Expr) -> String {
    let mut reads = Vec::new();
    reads_in(right, &mut reads);
    let meant = reads.iter().find_map(|(place, subs)| {
        let names: Option<Vec<&str>> = subs.iter().map(sub_name).collect();
        let mut names = names?;
        let other = *names.iter().find(|other| **other != name.as_str())?;
        let own = names.iter_mut().find(|own| **own == name.as_str())?;
        *own = other;
        Some(format!(", as `{place}[{}]`", names.join(", ")))
    });
    format!(
        "the reduction over `{name}` ends before this, and `{whole}` would cancel within it: read this by an index \
         that is bound here{}",
        meant.unwrap_or_default()
    )
}

/// Parentheses around the reduction's body and all that follows up to the use, and around those of reductions that
/// are its body, which that uses too.
fn whole_body(
    value: &Expr,
    reduce: &Reduce,
    held: Option<Span>,
    span: Span,
    name: &Ident,
) -> Option<Whole> {
    let ReduceBody::Product(body) = &reduce.body else {
        return None;
    };
    let outer = held.unwrap_or(span);
    let inside = |e: &Expr, s: Span| e.span.contains(s);
    // The innermost operator with the reduction at the end of its left side, and those behind it.
    let mut around = vec![value];
    while let Some(next) = around[around.len() - 1]
        .children()
        .into_iter()
        .find(|e| inside(e, outer) && inside(e, name.span))
    {
        around.push(next);
    }
    let operator = |e: &'_ Expr| {
        let ExprKind::Binary(op, left, right) = &e.kind else {
            return None;
        };
        let continues = matches!(
            op,
            BinaryOp::Add | BinaryOp::Sub | BinaryOp::Mul | BinaryOp::Div
        );
        let used = mentions(right, &[name.as_str()]);
        (continues && used).then(|| (left.span.end, format!("{} {right}", op.symbol())))
    };
    let mut node = around.pop()?;
    let (start, mut rest) = operator(node)?;
    if start != outer.end {
        return None;
    }
    if let ExprKind::Binary(BinaryOp::Sub | BinaryOp::Div, _, right) = &node.kind
        && right.to_string() == body.to_string()
    {
        return Some(Whole::Cancels(cancelled(
            name,
            &format!("{body} {rest}"),
            right,
        )));
    }
    let first = node;
    while let Some(next) = around.pop() {
        match operator(next) {
            Some((start, more)) if start == node.span.end => rest = format!("{rest} {more}"),
            _ => break,
        }
        node = next;
    }
    let used = |index: &IndexDecl| {
        let mut places = Vec::new();
        named(node, index.name.as_str(), &mut places);
        places.iter().any(|place| place.start >= outer.end)
    };
    let end = Span::new(node.span.end, node.span.end);
    let mut heads = vec![head(reduce)];
    let (mut body, mut closed, mut edits) = (body, String::new(), Vec::new());
    loop {
        let held = match &body.kind {
            ExprKind::Paren(inner) => Some((body.span, inner)),
            _ => None,
        };
        let within = held.map_or(body, |(_, inner)| inner);
        let ExprKind::Reduce(inner) = &within.kind else {
            break;
        };
        let ReduceBody::Product(next) = &inner.body else {
            break;
        };
        if !inner.indices.iter().any(used) {
            break;
        }
        match held {
            Some((span, _)) => edits.push((Span::new(span.end - 1, span.end), String::new())),
            None => edits.push((Span::new(body.span.start, body.span.start), "(".to_owned())),
        }
        heads.push(head(inner));
        closed.push(')');
        body = next;
    }
    let opened = Span::new(body.span.start, body.span.start);
    edits.insert(0, (opened, "(".to_owned()));
    edits.push((end, closed.clone() + ")"));
    let shown = format!("`{} ({body} {rest}{closed})`", heads.join(" ("));
    let help = format!("did you mean {shown}?");
    let fix = Fix { help, edits };
    let all = match held {
        None => fix,
        Some(held) => fix
            .and(Span::new(held.start, held.start + 1), "")
            .and(Span::new(held.end - 1, held.end), ""),
    };
    let alone = held.is_none() && std::ptr::eq(node, first) && !is_reduced(value, span);
    let factor = alone.then(|| last_factor(reduce, first)).flatten();
    Some(Whole::Held(factor.into_iter().chain([all]).collect()))
}

/// Does a reduction stand around what is at `span`?
fn is_reduced(e: &Expr, span: Span) -> bool {
    let around = matches!(e.kind, ExprKind::Reduce(_)) && e.span != span && e.span.contains(span);
    around || e.children().into_iter().any(|e| is_reduced(e, span))
}

/// `sum[c] p[c] * (log(p[c]) - log(q[c]))`: parentheses around the last factor and what follows the reduction, where
/// both are the same function of something.
fn last_factor(reduce: &Reduce, node: &Expr) -> Option<Fix> {
    let ReduceBody::Product(body) = &reduce.body else {
        return None;
    };
    let ExprKind::Binary(BinaryOp::Mul, factors, last) = &body.kind else {
        return None;
    };
    let ExprKind::Binary(op @ (BinaryOp::Add | BinaryOp::Sub), _, right) = &node.kind else {
        return None;
    };
    let (ExprKind::Call { path: a, .. }, ExprKind::Call { path: b, .. }) =
        (&last.kind, &right.kind)
    else {
        return None;
    };
    let shown = format!(
        "{} {factors} * ({last} {} {right})",
        head(reduce),
        op.symbol()
    );
    let help = format!("did you mean `{shown}`?");
    let (start, end) = (last.span.start, right.span.end);
    (a.to_string() == b.to_string()).then(|| Fix {
        help,
        edits: vec![
            (Span::new(start, start), "(".to_owned()),
            (Span::new(end, end), ")".to_owned()),
        ],
    })
}

/// Does the aggregation take one index only?
fn selects(reduce: &Reduce) -> bool {
    Agg::from_name(&reduce.agg.to_string()).is_some_and(|agg| agg.row().selects)
}

/// An index of a reduction that nothing in it uses.
fn unused(reduce: &Reduce) -> Option<&IndexDecl> {
    let ReduceBody::Product(body) = &reduce.body else {
        return None;
    };
    let used = |decl: &IndexDecl| {
        let name = [decl.name.as_str()];
        mentions(body, &name) || reduce.filter.iter().any(|filter| mentions(filter, &name))
    };
    reduce.indices.iter().find(|decl| !used(decl))
}

/// What a reduction does with an index in its body that nothing binds.
enum Within {
    /// It contracts a product, which has a sum of its own.
    Contracted(Fix),
    /// It is reduced with the reduction's own indices.
    Reduced,
    /// One is as likely as the other.
    Unclear,
}

fn within(reduce: &Reduce, name: &Ident) -> Within {
    if unused(reduce).is_some() {
        return Within::Reduced;
    }
    let names = [name.as_str()];
    let (bodies, product) = match &reduce.body {
        ReduceBody::Product(body) => (vec![body], true),
        ReduceBody::Args(args) => (args.iter().collect(), false),
    };
    let mut using = bodies.into_iter().filter(|body| mentions(body, &names));
    let (Some(mut node), None) = (using.next(), using.next()) else {
        return Within::Unclear;
    };
    // Does a sum over the node mean the same around the whole body? Do brackets hold the node?
    let (mut linear, mut held) = (true, !product);
    loop {
        let children = node.children().into_iter();
        let uses: Vec<&Expr> = children.filter(|e| mentions(e, &names)).collect();
        let next = match (&node.kind, &uses[..]) {
            (ExprKind::Access { .. }, _) => break,
            (_, [only]) => *only,
            _ => break,
        };
        linear &= match &node.kind {
            ExprKind::Binary(BinaryOp::Mul, ..) | ExprKind::Paren(_) => true,
            ExprKind::Binary(BinaryOp::Div, left, _) => std::ptr::eq(&**left, next),
            _ => false,
        };
        held = matches!(
            node.kind,
            ExprKind::Paren(_) | ExprKind::Call { .. } | ExprKind::If { .. }
        );
        node = next;
    }
    let sum = Agg::from_name(&reduce.agg.to_string()) == Some(Agg::SUM);
    match &node.kind {
        ExprKind::Binary(BinaryOp::Mul, ..) if !(sum && linear) => {
            let shown = format!("sum[{name}] {node}");
            let (open, close) = match held {
                true => (format!("sum[{name}] "), ""),
                false => (format!("(sum[{name}] "), ")"),
            };
            let help = "it is used in this product alone, so sum there: {}";
            Within::Contracted(Fix::wrap(node.span, &open, close, &shown, help))
        }
        ExprKind::Access { .. } if product => Within::Reduced,
        _ if sum && product => Within::Reduced,
        _ => Within::Unclear,
    }
}

/// The index in place of one that the reduction does not use, or beside those that it does.
fn reduced_too(reduce: &Reduce, name: &Ident) -> Option<Fix> {
    if let Some(decl) = unused(reduce) {
        let range = decl.extent.as_ref().map_or(decl.name.span, |dim| dim.span);
        let put = |other: &IndexDecl| match other.name.span == decl.name.span {
            true => name.to_string(),
            false => other.to_string(),
        };
        let shown: Vec<String> = reduce.indices.iter().map(put).collect();
        let help = format!("did you mean `{}[{}]`?", reduce.agg, shown.join(", "));
        return Some(Fix::replace(
            decl.name.span.join(range),
            name.as_str(),
            &help,
        ));
    }
    let last = reduce.indices.last()?;
    let place = last.extent.as_ref().map_or(last.name.span, |dim| dim.span);
    let names: Vec<&str> = reduce.indices.iter().map(|d| d.name.as_str()).collect();
    let help = format!(
        "reduce it too: `{}[{}, {name}]`",
        reduce.agg,
        names.join(", ")
    );
    Some(Fix::after(place, format!(", {name}"), &help))
}

/// The smallest term or factor that holds every use of an index.
fn term<'e>(value: &'e Expr, name: &str) -> &'e Expr {
    let mut node = value;
    loop {
        let within = match &node.kind {
            ExprKind::Binary(_, a, b) => vec![&**a, &**b],
            ExprKind::Paren(a) | ExprKind::Unary(_, a) | ExprKind::Cast(a, _) => vec![&**a],
            _ => return node,
        };
        let mut uses = within.into_iter().filter(|e| mentions(e, &[name]));
        match (uses.next(), uses.next()) {
            (Some(only), None) => node = only,
            _ => return node,
        }
    }
}

/// A sum over the indices around the term of one of them.
fn summed(value: &Expr, name: &Ident, names: &[&str]) -> Fix {
    let node = term(value, name.as_str());
    let over = names.join(", ");
    let product = matches!(
        node.kind,
        ExprKind::Binary(BinaryOp::Mul | BinaryOp::Div, ..)
            | ExprKind::Access { .. }
            | ExprKind::Call { .. }
    );
    let shown = match product {
        true => format!("sum[{over}] {node}"),
        false => format!("sum[{over}] ({node})"),
    };
    let last = node.span.end == value.span.end;
    let (open, close) = match (product, last) {
        (true, true) => (format!("sum[{over}] "), ""),
        (false, true) => (format!("sum[{over}] ("), ")"),
        (true, false) => (format!("(sum[{over}] "), ")"),
        (false, false) => (format!("(sum[{over}] ("), "))"),
    };
    let help = match names.len() {
        1 => "reduce it: {}",
        _ => "reduce them: {}",
    };
    Fix::wrap(node.span, &open, close, &shown, help)
}
