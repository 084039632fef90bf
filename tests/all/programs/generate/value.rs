//! Expressions as text, with what is known of their values.

use eindecomp_core::ein::DType;

/// Binding strengths.
pub const OR: u8 = 0;
pub const AND: u8 = 1;
pub const COMPARE: u8 = 2;
pub const SUM: u8 = 3;
/// A reduction, whose body takes in all factors behind it.
pub const REDUCTION: u8 = 4;
pub const PRODUCT: u8 = 5;
pub const CAST: u8 = 6;
pub const UNARY: u8 = 7;
pub const PRIMARY: u8 = 8;

/// An expression.
#[derive(Clone, Debug)]
pub struct Val {
    pub text: String,
    pub strength: u8,
    pub dtype: DType,
    /// No value is larger.
    pub bound: f64,
    /// How far it may be from the reference; 0 is exact.
    pub error: f64,
    /// It may be NaN.
    pub nan: bool,
    /// It has its dtype of itself, and not from where it stands as a literal does.
    pub typed: bool,
}

impl Val {
    /// An exact value.
    pub fn exact(text: impl Into<String>, strength: u8, dtype: DType, bound: f64) -> Val {
        Val {
            text: text.into(),
            strength,
            dtype,
            bound,
            error: 0.0,
            nan: false,
            typed: true,
        }
    }

    /// Its text where an operand of this strength stands.
    pub fn at(&self, strength: u8) -> String {
        match self.strength >= strength {
            true => self.text.clone(),
            false => format!("({})", self.text),
        }
    }
}

/// Up to here whole numbers are exact.
pub fn limit(dtype: DType) -> f64 {
    match dtype {
        DType::F64 | DType::I64 => 1e9,
        DType::F32 | DType::I32 | DType::U32 => 1e6,
        DType::F16 => 1000.0,
        DType::BF16 => 120.0,
        DType::U8 => 200.0,
        DType::Bool => 1.0,
    }
}

/// A value may be this far from the reference, and no farther.
pub const ROUGHEST: f64 = 1e-2;

/// What rounding adds at a value.
pub fn rounding(bound: f64) -> f64 {
    2e-7 * bound.max(1.0)
}

/// Has it no negative values?
pub fn unsigned(dtype: DType) -> bool {
    matches!(dtype, DType::U32 | DType::U8)
}

/// A literal of the dtype.
pub fn literal(dtype: DType, n: i64) -> Val {
    let text = match dtype {
        DType::Bool => (n != 0).to_string(),
        d if d.is_float() => format!("{n}.0"),
        _ => n.to_string(),
    };
    let strength = if n < 0 { UNARY } else { PRIMARY };
    Val {
        typed: false,
        ..Val::exact(text, strength, dtype, n.unsigned_abs() as f64)
    }
}

/// What rounding adds to a sum of values that are not exact.
pub fn spread(error: f64, bound: f64) -> f64 {
    if error > 0.0 { rounding(bound) } else { 0.0 }
}

/// The dtype of what is made of two values: a literal has that of the other.
pub fn common(a: &Val, b: &Val) -> DType {
    match (a.typed, b.typed) {
        (false, true) => b.dtype,
        (true, false) => a.dtype,
        _ => a.dtype.common(b.dtype).unwrap_or(a.dtype),
    }
}

/// Bound and error of `a op b`.
pub fn bounds(op: &str, a: &Val, b: &Val) -> (f64, f64) {
    let (bound, error) = match op {
        "*" => (
            a.bound * b.bound,
            a.bound * b.error + b.bound * a.error + a.error * b.error,
        ),
        _ => (a.bound + b.bound, a.error + b.error),
    };
    (bound, error + spread(error, bound))
}

/// May `a op b` be NaN though neither is? Only what is infinite can make it so.
pub fn undefined(op: &str, a: &Val, b: &Val) -> bool {
    match op {
        "*" => a.bound.is_infinite() || b.bound.is_infinite(),
        _ => a.bound.is_infinite() && b.bound.is_infinite(),
    }
}
