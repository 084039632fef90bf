//! Fractions that integer division loses before they become floats: `(1 / D) as f32`.

use super::body::BodyCx;
use super::heads::head;
use super::prove::Facts;
use super::ranges::{Walk, poly};
use super::tree::{Expr, ExprKind, Read, VarId};
use super::variables::Known;
use super::walk::{self, path_to};
use crate::ein::{Agg, DType, Dim, ScalarFn};
use crate::syntax::ast::{self, BinaryOp, CmpOp, Lit, StmtKind, UnaryOp};
use crate::syntax::diag::{Code, Diag, Fix};
use crate::syntax::token::Span;

/// Quotients of integers that are part of an integer value.
pub(super) fn quotients<'e>(e: &'e Expr, out: &mut Vec<&'e Expr>) {
    match &e.kind {
        ExprKind::Call(f, args) if e.dtype.is_int() => {
            if *f == ScalarFn::DIV {
                out.push(e);
            }
            args.iter().for_each(|arg| quotients(arg, out));
        }
        ExprKind::If(_, a, b) => [a, b].into_iter().for_each(|e| quotients(e, out)),
        ExprKind::Reduce(reduce) => quotients(&reduce.body, out),
        _ => {}
    }
}

/// Is a quotient lost in the conversion of this to a float, perhaps?
pub(super) fn rounds(e: &Expr) -> bool {
    let ExprKind::Cast(inner) = &e.kind else {
        return false;
    };
    let mut found = Vec::new();
    if e.dtype.is_float() && inner.dtype.is_int() {
        quotients(inner, &mut found);
    }
    !found.is_empty()
}

/// Reads of tensors that are part of an integer value.
fn parts<'e>(e: &'e Expr, out: &mut Vec<&'e Read>) {
    match &e.kind {
        ExprKind::Read(read) if e.dtype.is_int() => out.push(read),
        ExprKind::Call(_, args) if e.dtype.is_int() => args.iter().for_each(|arg| parts(arg, out)),
        ExprKind::If(_, a, b) => [a, b].into_iter().for_each(|e| parts(e, out)),
        ExprKind::Reduce(reduce) => parts(&reduce.body, out),
        _ => {}
    }
}

/// An integer tensor whose statement loses a fraction.
pub(super) struct Fraction {
    pub(super) var: VarId,
    /// The quotient.
    pub(super) place: Span,
    /// Where it becomes a float, for each read that does.
    casts: Vec<(Span, DType)>,
}

impl Fraction {
    pub(super) fn new(var: VarId, place: Span) -> Fraction {
        Fraction {
            var,
            place,
            casts: Vec::new(),
        }
    }
}

impl BodyCx<'_> {
    /// Notes what a statement reads of tensors that have lost a fraction, and converts to floats.
    pub(super) fn note_conversions(&mut self, value: &Expr) {
        if self.fractions.is_empty() {
            return;
        }
        for e in value.nodes() {
            let ExprKind::Cast(inner) = &e.kind else {
                continue;
            };
            let mut reads = Vec::new();
            if e.dtype.is_float() {
                parts(inner, &mut reads);
            }
            for read in reads {
                let mut fractions = self.fractions.iter_mut();
                if let Some(fraction) = fractions.find(|f| f.var == read.place.var) {
                    fraction.casts.push((e.span, e.dtype));
                }
            }
        }
    }

    /// Reports what is divided as integers in one statement, and read as a float only.
    pub(super) fn lost_fractions(&mut self) {
        for fraction in std::mem::take(&mut self.fractions) {
            let Known { name, span, .. } = &self.vars[fraction.var.at()];
            let Some((cast, dtype)) = fraction.casts.first() else {
                continue;
            };
            if walk::uses(self.ast, name) != fraction.casts.len() {
                continue;
            }
            let Some((ty, value)) = bound(&self.ast.stmts, *span) else {
                continue;
            };
            let mut path = Vec::new();
            // In a scalar function it is divided for others too.
            let Some(text) = path_to(value, fraction.place, &mut path)
                .then(|| path.pop())
                .flatten()
            else {
                continue;
            };
            let message = format!(
                "`{text}` is a whole number: integers are divided, rounding down, before `{name}` is {dtype}"
            );
            let diag = Diag::new(Code::Narrowing, fraction.place, message)
                .secondary(*cast, "it becomes a float here");
            let mut casts = fraction.casts.iter();
            let one = casts.all(|(_, other)| other == dtype);
            let fix = one.then(|| floated(value, &[fraction.place], *dtype));
            let fix = fix.flatten().map(|text| {
                let fix = Fix::replace(value.span, text, "did you mean {}?");
                match ty {
                    Some(ty) => fix.and(ty.span, dtype.to_string()),
                    None => fix,
                }
            });
            self.errors.push(with_fix(diag, fix));
        }
    }
}

/// The annotation and the value of the statement that binds the name at `place`.
fn bound(stmts: &[ast::Stmt], place: Span) -> Option<(Option<&ast::RType>, &ast::Expr)> {
    stmts.iter().find_map(|stmt| match &stmt.kind {
        StmtKind::Let { pat, ty, value, .. } => {
            let mut names = pat.names.iter();
            let own = names.any(|name| name.span == place);
            own.then_some((ty.as_ref(), value))
        }
        StmtKind::For { body, .. } => bound(body, place),
        _ => None,
    })
}

fn with_fix(diag: Diag, fix: Option<Fix>) -> Diag {
    match fix {
        Some(fix) => diag.fix(fix),
        None => diag.help("convert what is divided, and what it is divided by, before"),
    }
}

/// What is said of a quotient that is hardly meant as an integer.
enum Lost {
    /// It is 0 whatever its indices and dims are.
    Zero,
    /// It is of a number or a sum, or one of two values.
    Fraction,
}

impl Walk<'_, '_> {
    /// Reports a quotient in what is converted to a float that is 0 for every index, or of a number by
    /// what is not known to divide it.
    pub(super) fn rounded_down(&mut self, e: &Expr, facts: &Facts) {
        let ExprKind::Cast(inner) = &e.kind else {
            return;
        };
        let mut all = Vec::new();
        if rounds(e) {
            quotients(inner, &mut all);
        }
        let lost = all.iter().filter_map(|q| Some((*q, self.lost(q, facts)?)));
        let lost: Vec<(&Expr, Lost)> = lost.collect();
        let Some((quotient, kind)) = lost.first() else {
            return;
        };
        let mut path = Vec::new();
        // In a scalar function it is divided for others too.
        let Some(_) = self
            .cx
            .value()
            .filter(|value| path_to(value, quotient.span, &mut path))
        else {
            return;
        };
        let Some(text) = path.last() else { return };
        let what = match kind {
            Lost::Zero => "is always 0",
            Lost::Fraction => "is a whole number",
        };
        let dtype = e.dtype;
        let message =
            format!("`{text}` {what}: integers are divided, rounding down, before this is {dtype}");
        let diag = Diag::new(Code::Narrowing, quotient.span, message);
        let places: Vec<Span> = lost.iter().map(|(q, _)| q.span).collect();
        let cast = path.iter().rev().find_map(|around| match &around.kind {
            ast::ExprKind::Cast(inner, _) if around.span == e.span => Some((around.span, &**inner)),
            _ => None,
        });
        let (place, value) = cast.unwrap_or((text.span, text));
        let fix = floated(value, &places, dtype)
            .map(|text| Fix::replace(place, text, "did you mean {}?"));
        self.cx.errors.push(with_fix(diag, fix));
    }

    /// Notes a quotient of the value that loses a fraction, where all of it is an integer.
    pub(super) fn note_fraction(&mut self, e: &Expr, facts: &Facts) {
        if self.quotients.contains(&e.span) && self.lost(e, facts).is_some() {
            self.cx.fraction.get_or_insert(e.span);
        }
    }

    fn lost(&self, quotient: &Expr, facts: &Facts) -> Option<Lost> {
        let ExprKind::Call(_, args) = &quotient.kind else {
            return None;
        };
        let [whole, by] = &args[..] else { return None };
        let zero = Dim::from(0);
        let (n, d) = (poly(whole, &self.names), poly(by, &self.names));
        let is_zero = n.as_ref().is_some_and(|n| facts.equal(n, &zero));
        if is_zero {
            return None;
        }
        if let Some((n, d)) = n.as_ref().zip(d.as_ref()) {
            if facts.holds(&n.rem(d), CmpOp::Eq, &zero) {
                return None;
            }
            if facts.nonneg(n) && facts.holds(n, CmpOp::Lt, d) {
                return Some(Lost::Zero);
            }
            // Rounded down it is 0 or -1.
            if facts.nonneg(&-n) && facts.holds(&-n, CmpOp::Lt, d) {
                return Some(Lost::Fraction);
            }
        }
        let number = n.is_some_and(|n| n.as_const().is_some());
        // Of the steps of an index, a mean, and a byte divided by what is larger than most.
        let mean = self.cx.is_sum(whole)
            && match &d {
                Some(d) => d.as_const().is_none(),
                None => self.cx.is_sum(by),
            };
        let steps = d.as_ref().is_some_and(|d| {
            let mut used = whole.indices().into_iter();
            d.as_const().is_none() && used.any(|(_, id)| self.indices[id.at()].extent == *d)
        });
        let byte =
            whole.dtype == DType::U8 && d.and_then(|d| d.as_const()).is_some_and(|d| d > 127);
        (number || steps || mean || byte).then_some(Lost::Fraction)
    }
}

impl BodyCx<'_> {
    /// Is it a sum, here or where it is defined?
    pub(super) fn is_sum(&self, e: &Expr) -> bool {
        match &e.kind {
            ExprKind::Reduce(reduce) => reduce.agg == Agg::SUM,
            ExprKind::Cast(inner) => self.is_sum(inner),
            ExprKind::Read(read) => {
                read.place.fields.is_empty() && self.vars[read.place.var.at()].sum
            }
            _ => false,
        }
    }
}

/// An integer expression with its quotients at `places` as quotients of floats, if that is of the same form.
fn floated(e: &ast::Expr, places: &[Span], dtype: DType) -> Option<String> {
    use ast::ExprKind as Kind;
    if !places.iter().any(|place| e.span.contains(*place)) {
        return Some(number(e, dtype));
    }
    let of = |e: &ast::Expr| floated(e, places, dtype);
    Some(match &e.kind {
        Kind::Paren(inner) => format!("({})", of(inner)?),
        Kind::Unary(UnaryOp::Neg, inner) => format!("-{}", of(inner)?),
        Kind::Binary(op @ (BinaryOp::Add | BinaryOp::Sub | BinaryOp::Mul), a, b) => {
            format!("{} {} {}", of(a)?, op.symbol(), of(b)?)
        }
        Kind::Binary(BinaryOp::Div, a, b) => format!("{} / {}", of(a)?, of(b)?),
        Kind::Call { path, args } => {
            let args: Option<Vec<String>> = args.iter().map(of).collect();
            format!("{path}({})", args?.join(", "))
        }
        Kind::If {
            cond,
            then,
            otherwise: Some(otherwise),
        } => {
            let (then, otherwise) = (of(then)?, of(otherwise)?);
            format!("if {cond} {{ {then} }} else {{ {otherwise} }}")
        }
        Kind::Reduce(reduce) if reduce.acc.is_none() => match &reduce.body {
            ast::ReduceBody::Product(body) => format!("{} {}", head(reduce), of(body)?),
            ast::ReduceBody::Args(_) => return None,
        },
        _ => return None,
    })
}

/// An integer as a float.
fn number(e: &ast::Expr, dtype: DType) -> String {
    use ast::ExprKind as Kind;
    match &e.kind {
        Kind::Lit(Lit::Int(n)) => format!("{n}.0"),
        Kind::Unary(UnaryOp::Neg, inner) => match inner.kind {
            Kind::Lit(_) => format!("-{}", number(inner, dtype)),
            _ => format!("({e}) as {dtype}"),
        },
        Kind::Access { default: None, .. } | Kind::Call { .. } | Kind::Name(_) | Kind::Paren(_) => {
            format!("{e} as {dtype}")
        }
        _ => format!("({e}) as {dtype}"),
    }
}

/// A quotient as one of floats, where its text says that it is meant so: of a number, or of what varies
/// by a dim.
pub(super) fn fraction(e: &ast::Expr, dtype: DType) -> Option<String> {
    let mut inner = e;
    while let ast::ExprKind::Paren(held) = &inner.kind {
        inner = held;
    }
    let ast::ExprKind::Binary(BinaryOp::Div, whole, by) = &inner.kind else {
        return None;
    };
    let sized = walk::name(by).is_some_and(|name| name.starts_with(char::is_uppercase));
    let number = match &whole.kind {
        ast::ExprKind::Lit(Lit::Int(_)) => true,
        ast::ExprKind::Unary(UnaryOp::Neg, n) => matches!(n.kind, ast::ExprKind::Lit(_)),
        _ => sized && varies(whole),
    };
    (number && dtype.is_float()).then(|| floated(e, &[inner.span], dtype))?
}

/// Is there an index or a reduction in it?
fn varies(e: &ast::Expr) -> bool {
    let here = matches!(e.kind, ast::ExprKind::Reduce(_))
        || walk::name(e).is_some_and(|name| name.starts_with(char::is_lowercase));
    here || e.children().into_iter().any(varies)
}
