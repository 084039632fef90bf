//! Integer arithmetic whose results are wanted in a wider dtype than the one that it wraps in.

use super::body::BodyCx;
use super::expr::StmtCx;
use super::tree::{Expr, ExprKind};
use crate::ein::{Agg, DType, ScalarFn};
use crate::syntax::ast::{self, Lit, Reduce, ReduceBody};
use crate::syntax::diag::{Code, Diag, Fix};

/// The operations that leave the range of their operands.
const LEAVE: [ScalarFn; 6] = [
    ScalarFn::ADD,
    ScalarFn::SUB,
    ScalarFn::MUL,
    ScalarFn::NEG,
    ScalarFn::SQ,
    ScalarFn::POW,
];

impl StmtCx<'_, '_> {
    /// Reports integers that wrap before they are reduced in the wider `wanted`.
    pub(super) fn wraps(
        &mut self,
        reduce: &Reduce,
        text: &ast::Expr,
        value: &Expr,
        wanted: DType,
    ) -> Option<()> {
        let narrow = value.dtype;
        if !narrow.is_int() || !wanted.is_int() || narrow == wanted || !leaves(value) {
            return Some(());
        }
        let message = format!("this wraps in {narrow} before it is accumulated in {wanted}");
        let mut diag = Diag::new(Code::Narrowing, text.span, message);
        if let Some(acc) = &reduce.acc {
            diag = diag.secondary(acc.span, format!("{wanted} is wanted here"));
        }
        let help = format!("convert to {wanted} first");
        self.report(match widened(self.cx, text, wanted) {
            Some(fix) => diag.fix(fix),
            None => diag.help(help),
        });
        None
    }
}

impl StmtCx<'_, '_> {
    /// Reports arithmetic on bytes whose result is widened: it has wrapped by then.
    pub(super) fn wrapped(&mut self, e: &Expr, text: &ast::Expr, wanted: DType) -> Option<()> {
        if e.dtype != DType::U8 || wanted == DType::U8 || !leaves(e) {
            return Some(());
        }
        let message = format!("this wraps in u8 before it is widened to {wanted}");
        let diag = Diag::new(Code::Narrowing, text.span, message);
        self.report(match widened(self.cx, text, wanted) {
            Some(fix) => diag.fix(fix),
            None => diag.help(format!("convert to {wanted} first")),
        });
        None
    }
}

impl StmtCx<'_, '_> {
    /// Reports a position whose arithmetic wraps in less than i64: it would be another one, and in range.
    pub(super) fn wraps_as_position(&mut self, e: &Expr, text: &ast::Expr) -> Option<()> {
        if e.dtype == DType::I64 || !leaves(e) {
            return Some(());
        }
        let message = format!("this wraps in {} before it is a position", e.dtype);
        let diag = Diag::new(Code::Narrowing, text.span, message);
        self.report(match widened(self.cx, text, DType::I64) {
            Some(fix) => diag.fix(fix),
            None => diag.help("convert to i64 first"),
        });
        None
    }
}

/// Is there integer arithmetic in a value that may leave its dtype?
fn leaves(e: &Expr) -> bool {
    match &e.kind {
        ExprKind::Call(f, args) => LEAVE.contains(f) || args.iter().any(leaves),
        ExprKind::If(_, a, b) => leaves(a) || leaves(b),
        ExprKind::Reduce(reduce) => {
            let sums = reduce.agg == Agg::SUM || reduce.agg == Agg::PROD;
            sums && e.dtype == reduce.body.dtype
        }
        _ => false,
    }
}

/// What is read in an expression as `wanted`, of which each is a narrower integer.
pub(super) fn widened(cx: &BodyCx<'_>, e: &ast::Expr, wanted: DType) -> Option<Fix> {
    let mut meant = e.clone();
    widen(cx, &mut meant, wanted, false)
        .then(|| Fix::replace(e.span, meant.to_string(), "did you mean {}?"))
}

/// Whether something was widened; in `held`, a cast needs parentheses.
fn widen(cx: &BodyCx<'_>, e: &mut ast::Expr, wanted: DType, held: bool) -> bool {
    use ast::ExprKind as Kind;
    match &mut e.kind {
        Kind::Access { place, default, .. } => {
            let bare = default.is_none();
            let dtype = cx.type_of(place).map(|t| t.dtype);
            let narrower = dtype.is_some_and(|d| d.is_int() && d != wanted);
            if narrower {
                cast(e, wanted, bare, held);
            }
            narrower
        }
        Kind::Name(place) => {
            let scalar = cx.type_of(place).filter(|t| t.axes.is_empty());
            let narrower = scalar.is_some_and(|t| t.dtype.is_int() && t.dtype != wanted);
            if narrower {
                cast(e, wanted, true, held);
            }
            narrower
        }
        Kind::Cast(..) => {
            cast(e, wanted, false, held);
            true
        }
        Kind::Lit(Lit::Int(n)) if wanted.is_float() => {
            e.kind = Kind::Lit(Lit::Float(*n as f64));
            false
        }
        Kind::Reduce(reduce) => match (&reduce.acc, &mut reduce.body) {
            (None, ReduceBody::Product(body)) => widen(cx, body, wanted, false),
            _ => {
                cast(e, wanted, false, held);
                true
            }
        },
        Kind::Unary(_, inner) => widen(cx, inner, wanted, true),
        Kind::Paren(inner) => widen(cx, inner, wanted, false),
        Kind::Binary(op, left, right) if !matches!(op, ast::BinaryOp::Cmp(_)) => {
            let left = widen(cx, left, wanted, false);
            widen(cx, right, wanted, false) | left
        }
        Kind::Call { args, .. } => {
            let each = args.iter_mut().map(|arg| widen(cx, arg, wanted, false));
            each.fold(false, |any, one| any | one)
        }
        Kind::If {
            then, otherwise, ..
        } => {
            let then = widen(cx, then, wanted, false);
            let otherwise = otherwise.as_deref_mut();
            otherwise.is_some_and(|e| widen(cx, e, wanted, false)) | then
        }
        _ => false,
    }
}

/// `e as wanted`; what is no `atom` stands in parentheses.
fn cast(e: &mut ast::Expr, wanted: DType, atom: bool, held: bool) {
    let span = e.span;
    let paren = |e: ast::Expr| ast::Expr {
        kind: ast::ExprKind::Paren(Box::new(e)),
        span,
    };
    let whole = match atom {
        true => e.clone(),
        false => paren(e.clone()),
    };
    let name = ast::Ident {
        name: wanted.name().into(),
        span,
    };
    let cast = ast::Expr {
        kind: ast::ExprKind::Cast(Box::new(whole), name),
        span,
    };
    *e = match held {
        true => paren(cast),
        false => cast,
    };
}
