//! Axes by their numbers, as other languages name them: `mean(x, axis=(1, 2))`, `x.sum(-1)`.

use crate::ein::Agg;
use crate::syntax::ast::{Expr, ExprKind, Lit, UnaryOp};
use crate::syntax::names;

/// A reduction of a tensor over an axis by its number, or several, or over all, and the indices that it leaves: those on the
/// left, where they are given.
pub(super) fn over_axis(
    agg: Agg,
    (root, shape): (&str, &[String]),
    over: Option<&Expr>,
    given: Option<&[String]>,
) -> Option<(String, Vec<String>)> {
    let over = match over {
        None => None,
        Some(Expr {
            kind: ExprKind::Tuple(all),
            ..
        }) => Some(
            all.iter()
                .map(|e| axis(e, shape.len()))
                .collect::<Option<Vec<_>>>()?,
        ),
        Some(e) => Some(vec![axis(e, shape.len())?]),
    };
    let reduced = |at: usize| over.as_ref().is_none_or(|axes| axes.contains(&at));
    let left: Vec<usize> = (0..shape.len()).filter(|at| !reduced(*at)).collect();
    let mut names = shape.to_vec();
    if let Some(given) = given {
        // Those on the left are what is left, or more: what else the statement reads.
        if given.len() == left.len() {
            let pairs = left.iter().zip(given);
            pairs.for_each(|(at, name)| names[*at].clone_from(name));
        }
        for name in (0..shape.len()).filter(|at| reduced(*at)) {
            if given.contains(&names[name]) {
                names[name] = format!("{}2", names[name]);
            }
        }
    }
    let reduced: Vec<String> = (0..shape.len())
        .filter(|at| reduced(*at))
        .map(|at| names[at].clone())
        .collect();
    if reduced.is_empty() || agg.row().selects && reduced.len() > 1 || !names::are_distinct(&names)
    {
        return None;
    }
    let text = format!("{agg}[{}] {root}[{}]", reduced.join(", "), names.join(", "));
    let out = left.into_iter().map(|at| names[at].clone()).collect();
    Some((text, out))
}

/// An axis by its number, counted from the end if that is negative.
pub(super) fn axis(e: &Expr, rank: usize) -> Option<usize> {
    match &e.kind {
        ExprKind::Lit(Lit::Int(n)) => usize::try_from(*n).ok().filter(|n| *n < rank),
        ExprKind::Unary(UnaryOp::Neg, inner) => match inner.kind {
            ExprKind::Lit(Lit::Int(n)) => rank.checked_sub(usize::try_from(n).ok()?),
            _ => None,
        },
        _ => None,
    }
}
