//! Element types: literals take theirs from context, operands widen to a common one, statements
//! may narrow.

use super::quotients::fraction;
use super::traps::counted;
use super::tree::{Expr, ExprKind};
use crate::ein::{Agg, DType, Value};
use crate::syntax::ast::{self, Ident};
use crate::syntax::diag::{Code, Diag, Fix};
use crate::syntax::names::nearest;

/// `complex64`, `c64`, and the like.
fn is_complex(name: &str) -> bool {
    name.starts_with("complex") || matches!(name, "c32" | "c64" | "c128")
}

/// A dtype by its name.
pub(super) fn element_type(name: &Ident, errors: &mut Vec<Diag>) -> Option<DType> {
    let found = DType::from_name(name.as_str());
    if found.is_none() {
        let known = DType::ALL.map(DType::name);
        let text = format!("there is no dtype `{name}`");
        let diag = Diag::new(Code::UnknownType, name.span, text);
        let meant = match name.as_str() {
            "float" | "float32" => Some("f32"),
            "double" | "float64" => Some("f64"),
            "half" | "float16" | "fp16" => Some("f16"),
            "fp32" => Some("f32"),
            "fp64" => Some("f64"),
            "bfloat16" => Some("bf16"),
            "int" | "usize" | "isize" | "u64" | "i128" | "u128" | "long" => Some("i64"),
            // The narrowest that holds them.
            "i8" | "i16" | "u16" | "int8" | "int16" | "short" => Some("i32"),
            "uint8" | "byte" => Some("u8"),
            "f8" | "fp8" | "f4" | "i4" | "u4" => None,
            other if is_complex(other) => None,
            other => {
                let same = known
                    .into_iter()
                    .find(|known| known.eq_ignore_ascii_case(other));
                same.or_else(|| nearest(other, known))
            }
        };
        errors.push(match meant {
            Some(meant) => diag.fix(Fix::replace(name.span, meant, "did you mean {}?")),
            None if is_complex(name.as_str()) => Diag::new(
                Code::OutOfScope,
                name.span,
                "complex numbers are outside the language",
            )
            .help("keep real and imaginary parts in two tensors"),
            None if name.as_str().len() < 3 && name.as_str().starts_with(char::is_uppercase) => {
                diag.help(format!(
                    "a dtype variable is declared: `<{name}: Float>` or `<{name}: Int>`"
                ))
            }
            None => diag.help(format!("dtypes are `{}`", known.join("`, `"))),
        });
    }
    found
}

/// The kind of an expression of literals alone, whose dtype is not settled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Flex {
    Int,
    Float,
}

/// Is it made of numeric literals alone?
pub(super) fn flex(e: &Expr) -> Option<Flex> {
    let join = |parts: &[&Expr]| {
        let mut joined = Flex::Int;
        for part in parts {
            if flex(part)? == Flex::Float {
                joined = Flex::Float;
            }
        }
        Some(joined)
    };
    match &e.kind {
        ExprKind::Lit(Value::Int(_)) => Some(Flex::Int),
        ExprKind::Lit(Value::Float(_)) => Some(Flex::Float),
        ExprKind::Call(_, args) if e.dtype != DType::Bool => join(&args.iter().collect::<Vec<_>>()),
        ExprKind::If(_, a, b) => join(&[a, b]),
        _ => None,
    }
}

/// The least number that a float dtype rounds to infinity: half a step above its largest.
fn infinite_from(dtype: DType) -> f64 {
    // bits of the mantissa, and the largest exponent
    let (bits, exponent) = match dtype {
        DType::F16 => (10, 15),
        DType::BF16 => (7, 127),
        DType::F32 => (23, 127),
        _ => return f64::INFINITY,
    };
    (2.0 - 0.5f64.powi(bits + 1)) * 2f64.powi(exponent)
}

/// Gives an expression of literals its dtype.
pub(super) fn fix(e: &mut Expr, dtype: DType, errors: &mut Vec<Diag>) -> Option<()> {
    match &mut e.kind {
        ExprKind::Lit(Value::Int(n)) => {
            let fits = (*n as f64).abs() < infinite_from(dtype);
            if dtype.is_float() && fits {
                let text = format!("an integer literal stands where {dtype} is needed");
                let float = Fix::replace(e.span, format!("{n}.0"), "write {}");
                errors.push(Diag::new(Code::IntegerLiteral, e.span, text).fix(float));
                // What is meant is plain, so the rest is read as if it were written.
                e.kind = ExprKind::Lit(Value::Float(*n as f64));
                e.dtype = dtype;
                return Some(());
            }
            if dtype == DType::Bool {
                return mismatch(e, "an integer", dtype, errors);
            }
            if dtype.is_float() {
                let inf = if *n > 0 { "inf" } else { "-inf" };
                let text = format!("this literal does not fit {dtype}: it would be {inf}");
                let inf = Fix::replace(e.span, inf.to_string(), "write {} if that is meant");
                errors.push(Diag::new(Code::Literal, e.span, text).fix(inf));
                return None;
            }
            if !dtype.holds(*n) {
                let text = format!("the literal `{n}` does not fit {dtype}");
                let diag = Diag::new(Code::Literal, e.span, text);
                errors.push(diag.help("cast the other operand to a wider dtype: `as i64`"));
                return None;
            }
        }
        ExprKind::Lit(Value::Float(x)) => {
            if !dtype.is_float() {
                return mismatch(e, "a float", dtype, errors);
            }
            if x.is_finite() && x.abs() >= infinite_from(dtype) {
                let inf = if *x > 0.0 { "inf" } else { "-inf" };
                let text = format!("this literal does not fit {dtype}: it would be {inf}");
                let inf = Fix::replace(e.span, inf.to_string(), "write {} if that is meant");
                errors.push(Diag::new(Code::Literal, e.span, text).fix(inf));
                return None;
            }
        }
        ExprKind::Call(_, args) => {
            let fixed: Vec<_> = args.iter_mut().map(|a| fix(a, dtype, errors)).collect();
            fixed.into_iter().collect::<Option<Vec<_>>>()?;
        }
        ExprKind::If(_, a, b) => {
            let (a, b) = (fix(a, dtype, errors), fix(b, dtype, errors));
            a.and(b)?;
        }
        _ => return Some(()),
    }
    e.dtype = dtype;
    Some(())
}

fn mismatch(e: &Expr, what: &str, dtype: DType, errors: &mut Vec<Diag>) -> Option<()> {
    let text = format!("{what} literal stands where {dtype} is needed");
    let meant = match (&e.kind, dtype) {
        (ExprKind::Lit(Value::Int(0)), DType::Bool) => Some("false".to_owned()),
        (ExprKind::Lit(Value::Int(1)), DType::Bool) => Some("true".to_owned()),
        (ExprKind::Lit(Value::Float(x)), _) if dtype.is_int() => whole(*x),
        _ => None,
    };
    let meant = meant.map(|meant| Fix::replace(e.span, meant, "write {}"));
    let endless = matches!(e.kind, ExprKind::Lit(Value::Float(x)) if x.is_infinite());
    let diag = Diag::new(Code::NoCommonDtype, e.span, text).fixes(meant);
    errors.push(match endless && dtype.is_int() {
        true => {
            diag.help("integers have no infinity: leave elements out instead, `max[i where …] …`")
        }
        false => diag,
    });
    None
}

/// A whole float as an integer literal.
pub(super) fn whole(x: f64) -> Option<String> {
    (x.fract() == 0.0 && x.abs() < 1e15).then(|| format!("{x:.0}"))
}

/// The dtype that all of `exprs` widen to; literals among them get it.
pub(super) fn unify(
    exprs: &mut [Expr],
    texts: &[&ast::Expr],
    errors: &mut Vec<Diag>,
) -> Option<DType> {
    let mut known: Option<(usize, DType)> = None;
    for (at, e) in exprs.iter().enumerate().filter(|(_, e)| flex(e).is_none()) {
        known = match known {
            None => Some((at, e.dtype)),
            Some((first, dtype)) => match dtype.common(e.dtype) {
                Some(common) => Some((first, common)),
                None => {
                    errors.push(no_common(texts[first], dtype, texts[at], e.dtype));
                    return None;
                }
            },
        };
    }
    let dtype = known.map(|(_, dtype)| dtype).unwrap_or_else(|| {
        let float = exprs.iter().any(|e| flex(e) == Some(Flex::Float));
        if float { DType::F32 } else { DType::I64 }
    });
    // A fraction beside an index means that the index is a float too.
    let float = exprs.iter().position(|e| flex(e) == Some(Flex::Float));
    if let (Some(at), Some((first, _))) = (float, known)
        && dtype.is_int()
        && counts(&exprs[first])
    {
        let text = format!(
            "`{}` is a float, but `{}` counts in {dtype}",
            texts[at], texts[first]
        );
        let diag = Diag::new(Code::NoCommonDtype, texts[first].span, text);
        errors.push(match texts[first].kind {
            ast::ExprKind::Name(_) => diag.fix(cast(texts[first], DType::F32)),
            _ => {
                let text = fraction(texts[first], DType::F32);
                let text = text.as_deref().unwrap_or("i as f32 / N as f32");
                diag.help(format!(
                    "indices and dims are integers: cast each one, `{text}`"
                ))
            }
        });
        return None;
    }
    let fixed: Vec<_> = exprs
        .iter_mut()
        .filter(|e| flex(e).is_some())
        .map(|e| fix(e, dtype, errors))
        .collect();
    fixed.into_iter().collect::<Option<Vec<_>>>()?;
    Some(dtype)
}

/// Is it made of indices and dims, at least one, and literals?
pub(super) fn counts(e: &Expr) -> bool {
    match &e.kind {
        ExprKind::Index(_) | ExprKind::Dim(_) => true,
        ExprKind::Call(_, args) => {
            args.iter().any(counts) && args.iter().all(|e| counts(e) || flex(e).is_some())
        }
        _ => false,
    }
}

fn no_common(a: &ast::Expr, x: DType, b: &ast::Expr, y: DType) -> Diag {
    let text = format!("`{a}` is {x} and `{b}` is {y}, which have no common dtype");
    let diag = Diag::new(Code::NoCommonDtype, b.span, text);
    let diag = diag.secondary(a.span, format!("this is {x}"));
    // Of two that are alike, one is cast to what the other widens to.
    let wider = |wide: DType| x.widens_to(wide) && y.widens_to(wide);
    let wide = [DType::F32, DType::I64]
        .into_iter()
        .find(|wide| wider(*wide));
    diag.fix(match wide {
        Some(wide) => cast(b, wide),
        None if x.is_float() || !y.is_float() => cast(b, x),
        None => cast(a, y),
    })
}

/// `e as dtype`, with the parentheses it needs.
pub(super) fn cast(e: &ast::Expr, dtype: DType) -> Fix {
    use ast::ExprKind::{Access, Call, Lit, Name, Paren};
    if let Some(summed) = summed(e).filter(|_| dtype.is_float()) {
        let shown = e.to_string();
        let at = shown.len() - usize::from(matches!(e.kind, Paren(_)));
        let help = format!("`{} as {dtype}{}`", &shown[..at], &shown[at..]);
        return Fix::after(summed.span, format!(" as {dtype}"), &help);
    }
    if let Some(text) = fraction(e, dtype) {
        return Fix::replace(e.span, text, "{}");
    }
    match &e.kind {
        Access { default: None, .. } | Call { .. } | Lit(_) | Name(_) | Paren(_) => {
            let help = format!("`{e} as {dtype}`");
            Fix::after(e.span, format!(" as {dtype}"), &help)
        }
        _ => {
            let (close, shown) = (format!(") as {dtype}"), format!("({e}) as {dtype}"));
            Fix::wrap(e.span, "(", &close, &shown, "{}")
        }
    }
}

/// The elements of a sum, perhaps in parentheses, that are converted one by one: the sum of integers
/// wraps in their own type.
fn summed(e: &ast::Expr) -> Option<&ast::Expr> {
    let inner = match &e.kind {
        ast::ExprKind::Paren(inner) => inner,
        _ => e,
    };
    let ast::ExprKind::Reduce(reduce) = &inner.kind else {
        return None;
    };
    let sums = matches!(
        Agg::from_name(&reduce.agg.to_string()),
        Some(Agg::SUM | Agg::PROD | Agg::MEAN)
    );
    match &reduce.body {
        ast::ReduceBody::Product(body) if sums && reduce.acc.is_none() => {
            matches!(body.kind, ast::ExprKind::Access { default: None, .. }).then_some(body)
        }
        _ => None,
    }
}

/// Literals alone get the dtype that they have without context.
pub(super) fn settle(e: &mut Expr, errors: &mut Vec<Diag>) -> Option<()> {
    match flex(e) {
        Some(Flex::Float) => fix(e, DType::F32, errors),
        Some(Flex::Int) => fix(e, DType::I64, errors),
        None => Some(()),
    }
}

/// A value as `dtype`, to which it must widen.
pub(super) fn coerce(
    mut e: Expr,
    dtype: DType,
    text: &ast::Expr,
    errors: &mut Vec<Diag>,
) -> Option<Expr> {
    if flex(&e).is_some() {
        fix(&mut e, dtype, errors)?;
    }
    if e.dtype == dtype {
        return Some(e);
    }
    if e.dtype.widens_to(dtype) {
        let span = e.span;
        return Some(Expr {
            kind: ExprKind::Cast(Box::new(e)),
            dtype,
            span,
        });
    }
    let narrows = e.dtype.is_float() == dtype.is_float() && e.dtype.is_int() == dtype.is_int();
    let (code, message) = match narrows {
        true => (
            Code::Narrowing,
            format!("this {} value would be narrowed to {dtype}", e.dtype),
        ),
        false => (
            Code::NoCommonDtype,
            format!("this value is {}, which is no {dtype}", e.dtype),
        ),
    };
    let counted = (e.dtype == DType::Bool)
        .then(|| counted(text, dtype))
        .flatten();
    let fix = counted.unwrap_or_else(|| cast(text, dtype));
    errors.push(Diag::new(code, text.span, message).fix(fix));
    None
}

/// The value of a statement annotated with `dtype`: it widens, narrows within floats or ints, and
/// literals take it.
pub(super) fn store(
    mut e: Expr,
    dtype: Option<DType>,
    text: &ast::Expr,
    errors: &mut Vec<Diag>,
) -> Option<Expr> {
    let Some(dtype) = dtype else {
        settle(&mut e, errors)?;
        return Some(e);
    };
    let alike = e.dtype.is_float() == dtype.is_float() && e.dtype.is_int() == dtype.is_int();
    match flex(&e) {
        None if alike => Some(e),
        _ => coerce(e, dtype, text, errors),
    }
}
