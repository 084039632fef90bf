//! THE table of scalar functions (⊗): one row each, read by parser, checker, interpreter,
//! kernels and generated code.

use super::dtype::{DType, Value};

/// How the result's element type follows from the arguments'.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DTypeRule {
    /// Numbers of one common type; the result has it.
    Same,
    /// Floats of one common type; the result has it.
    Float,
    /// Numbers (or bools) of one common type; the result is bool.
    Compare,
    /// Bools; the result is bool.
    Logic,
    /// A float; the result is bool.
    FloatToBool,
}

/// One row of the table.
pub struct ScalarRow {
    /// Name in source and dumps.
    pub name: &'static str,
    /// The infix or prefix token, if the language has one.
    pub symbol: Option<&'static str>,
    /// Number of arguments.
    pub arity: usize,
    /// Result type.
    pub rule: DTypeRule,
    /// Value on floats, if defined there.
    pub float: Option<fn(&[f64]) -> f64>,
    /// Value on integers (and bools as 0 and 1), if defined there; wraps on overflow.
    pub int: Option<fn(&[i64]) -> i64>,
    /// C and CUDA expression on floats; `$0`, `$1`, … are names of the arguments, `F` the suffix of
    /// math functions and literals (`f` for float).
    pub c: &'static str,
    /// The same on integers (`i64`, `u64` are the 64-bit types) and bools; empty where `int` is `None`.
    pub c_int: &'static str,
    /// Derivatives, one per argument, as `ein!` expressions in `x`, `y`, `z` and `r` (the result).
    pub derivative: &'static [&'static str],
}

/// A row of [`SCALARS`].
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ScalarFn(u8);

macro_rules! scalars {
    ($($id:ident $name:literal $symbol:expr, $arity:literal $rule:ident
        float $float:expr, int $int:expr, $c:literal $c_int:literal [$($d:literal),*];)*) => {
        #[allow(non_camel_case_types, clippy::upper_case_acronyms)]
        #[derive(Clone, Copy)]
        enum Row { $($id),* }
        impl ScalarFn {
            $(#[doc = concat!("`", $name, "`")] pub const $id: ScalarFn = ScalarFn(Row::$id as u8);)*
        }
        /// Every scalar function.
        pub static SCALARS: &[ScalarRow] = &[$(ScalarRow {
            name: $name, symbol: $symbol, arity: $arity, rule: DTypeRule::$rule,
            float: $float, int: $int, c: $c, c_int: $c_int, derivative: &[$($d),*],
        }),*];
    };
}

scalars! {
    ADD "add" Some("+"), 2 Same float Some(|a| a[0] + a[1]), int Some(|a| a[0].wrapping_add(a[1])), "($0 + $1)" "((i64)((u64)$0 + (u64)$1))" ["1", "1"];
    SUB "sub" Some("-"), 2 Same float Some(|a| a[0] - a[1]), int Some(|a| a[0].wrapping_sub(a[1])), "($0 - $1)" "((i64)((u64)$0 - (u64)$1))" ["1", "-1"];
    MUL "mul" Some("*"), 2 Same float Some(|a| a[0] * a[1]), int Some(|a| a[0].wrapping_mul(a[1])), "($0 * $1)" "((i64)((u64)$0 * (u64)$1))" ["y", "x"];
    DIV "div" Some("/"), 2 Same float Some(|a| a[0] / a[1]), int Some(|a| floor_div(a[0], a[1])), "($0 / $1)" "floor_div($0, $1)" ["1 / y", "-r / y"];
    REM "rem" Some("%"), 2 Same float Some(|a| a[0] - (a[0] / a[1]).floor() * a[1]), int Some(|a| floor_rem(a[0], a[1])), "($0 - floorF($0 / $1) * $1)" "floor_rem($0, $1)" ["1", "-floor(x / y)"];
    NEG "neg" Some("-"), 1 Same float Some(|a| -a[0]), int Some(|a| a[0].wrapping_neg()), "(-$0)" "((i64)(0 - (u64)$0))" ["-1"];
    EQ "eq" Some("=="), 2 Compare float Some(|a| (a[0] == a[1]) as u8 as f64), int Some(|a| (a[0] == a[1]) as i64), "($0 == $1)" "($0 == $1)" [];
    NE "ne" Some("!="), 2 Compare float Some(|a| (a[0] != a[1]) as u8 as f64), int Some(|a| (a[0] != a[1]) as i64), "($0 != $1)" "($0 != $1)" [];
    LT "lt" Some("<"), 2 Compare float Some(|a| (a[0] < a[1]) as u8 as f64), int Some(|a| (a[0] < a[1]) as i64), "($0 < $1)" "($0 < $1)" [];
    LE "le" Some("<="), 2 Compare float Some(|a| (a[0] <= a[1]) as u8 as f64), int Some(|a| (a[0] <= a[1]) as i64), "($0 <= $1)" "($0 <= $1)" [];
    GT "gt" Some(">"), 2 Compare float Some(|a| (a[0] > a[1]) as u8 as f64), int Some(|a| (a[0] > a[1]) as i64), "($0 > $1)" "($0 > $1)" [];
    GE "ge" Some(">="), 2 Compare float Some(|a| (a[0] >= a[1]) as u8 as f64), int Some(|a| (a[0] >= a[1]) as i64), "($0 >= $1)" "($0 >= $1)" [];
    AND "and" Some("&&"), 2 Logic float None, int Some(|a| (a[0] != 0 && a[1] != 0) as i64), "($0 && $1)" "($0 && $1)" [];
    OR "or" Some("||"), 2 Logic float None, int Some(|a| (a[0] != 0 || a[1] != 0) as i64), "($0 || $1)" "($0 || $1)" [];
    NOT "not" Some("!"), 1 Logic float None, int Some(|a| (a[0] == 0) as i64), "(!$0)" "(!$0)" [];
    EXP "exp" None, 1 Float float Some(|a| a[0].exp()), int None, "expF($0)" "" ["r"];
    LOG "log" None, 1 Float float Some(|a| a[0].ln()), int None, "logF($0)" "" ["1 / x"];
    LOG1P "log1p" None, 1 Float float Some(|a| a[0].ln_1p()), int None, "log1pF($0)" "" ["1 / (1 + x)"];
    SQRT "sqrt" None, 1 Float float Some(|a| a[0].sqrt()), int None, "sqrtF($0)" "" ["0.5 / r"];
    RSQRT "rsqrt" None, 1 Float float Some(|a| 1.0 / a[0].sqrt()), int None, "(1 / sqrtF($0))" "" ["-0.5 * r / x"];
    RECIP "recip" None, 1 Float float Some(|a| 1.0 / a[0]), int None, "(1 / $0)" "" ["-r * r"];
    ABS "abs" None, 1 Same float Some(|a| a[0].abs()), int Some(|a| a[0].wrapping_abs()), "fabsF($0)" "($0 < 0 ? (i64)(0 - (u64)$0) : $0)" ["sign(x)"];
    SQ "sq" None, 1 Same float Some(|a| a[0] * a[0]), int Some(|a| a[0].wrapping_mul(a[0])), "($0 * $0)" "((i64)((u64)$0 * (u64)$0))" ["2 * x"];
    POW "pow" None, 2 Float float Some(|a| a[0].powf(a[1])), int None, "powF($0, $1)" "" ["y * pow(x, y - 1)", "r * log(x)"];
    SIN "sin" None, 1 Float float Some(|a| a[0].sin()), int None, "sinF($0)" "" ["cos(x)"];
    COS "cos" None, 1 Float float Some(|a| a[0].cos()), int None, "cosF($0)" "" ["-sin(x)"];
    TANH "tanh" None, 1 Float float Some(|a| a[0].tanh()), int None, "tanhF($0)" "" ["1 - r * r"];
    ERF "erf" None, 1 Float float Some(|a| libm::erf(a[0])), int None, "erfF($0)" "" ["1.1283791670955126 * exp(-x * x)"];
    SIGMOID "sigmoid" None, 1 Float float Some(|a| sigmoid(a[0])), int None, "(1 / (1 + expF(-$0)))" "" ["r * (1 - r)"];
    SOFTPLUS "softplus" None, 1 Float float Some(|a| nan_max(a[0], 0.0) + (-a[0].abs()).exp().ln_1p()), int None, "($0 != $0 ? $0 : ($0 > 0 ? $0 : 0) + log1pF(expF(-fabsF($0))))" "" ["sigmoid(x)"];
    SILU "silu" None, 1 Float float Some(|a| a[0] * sigmoid(a[0])), int None, "($0 / (1 + expF(-$0)))" "" ["sigmoid(x) * (1 + x - r)"];
    GELU "gelu" None, 1 Float float Some(|a| 0.5 * a[0] * (1.0 + libm::erf(a[0] * std::f64::consts::FRAC_1_SQRT_2))), int None, "(0.5F * $0 * (1 + erfF($0 * 0.70710678118654752F)))" "" ["0.5 * (1 + erf(x * 0.7071067811865476)) + x * 0.3989422804014327 * exp(-0.5 * x * x)"];
    GELU_TANH "gelu_tanh" None, 1 Float float Some(|a| 0.5 * a[0] * (1.0 + (GELU_K * (a[0] + 0.044715 * a[0] * a[0] * a[0])).tanh())), int None, "(0.5F * $0 * (1 + tanhF(0.7978845608028654F * ($0 + 0.044715F * $0 * $0 * $0))))" "" ["0.5 * (1 + tanh(0.7978845608028654 * (x + 0.044715 * x * x * x))) + 0.5 * x * (1 - sq(tanh(0.7978845608028654 * (x + 0.044715 * x * x * x)))) * 0.7978845608028654 * (1 + 0.134145 * x * x)"];
    RELU "relu" None, 1 Same float Some(|a| nan_max(a[0], 0.0)), int Some(|a| a[0].max(0)), "($0 != $0 || $0 > 0 ? $0 : 0)" "($0 > 0 ? $0 : 0)" ["if x > 0.0 { 1.0 } else { 0.0 }"];
    MAX "max" None, 2 Same float Some(|a| nan_max(a[0], a[1])), int Some(|a| a[0].max(a[1])), "($0 != $0 || $0 > $1 ? $0 : $1)" "($0 > $1 ? $0 : $1)" ["if x >= y { 1.0 } else { 0.0 }", "if x >= y { 0.0 } else { 1.0 }"];
    MIN "min" None, 2 Same float Some(|a| nan_min(a[0], a[1])), int Some(|a| a[0].min(a[1])), "($0 != $0 || $0 < $1 ? $0 : $1)" "($0 < $1 ? $0 : $1)" ["if x <= y { 1.0 } else { 0.0 }", "if x <= y { 0.0 } else { 1.0 }"];
    FLOOR "floor" None, 1 Float float Some(|a| a[0].floor()), int None, "floorF($0)" "" ["0"];
    CEIL "ceil" None, 1 Float float Some(|a| a[0].ceil()), int None, "ceilF($0)" "" ["0"];
    ROUND "round" None, 1 Float float Some(|a| a[0].round_ties_even()), int None, "rintF($0)" "" ["0"];
    SIGN "sign" None, 1 Same float Some(|a| if a[0].is_nan() { a[0] } else { (a[0] > 0.0) as u8 as f64 - (a[0] < 0.0) as u8 as f64 }), int Some(|a| a[0].signum()), "($0 != $0 ? $0 : ($0 > 0) - ($0 < 0))" "((i64)($0 > 0) - (i64)($0 < 0))" ["0"];
    CLAMP "clamp" None, 3 Same float Some(|a| nan_min(nan_max(a[0], a[1]), a[2])), int Some(|a| a[0].max(a[1]).min(a[2])), "($0 != $0 || $0 > $1 ? ($0 != $0 || $0 < $2 ? $0 : $2) : ($1 != $1 || $1 < $2 ? $1 : $2))" "(($0 > $1 ? $0 : $1) < $2 ? ($0 > $1 ? $0 : $1) : $2)" ["if x >= y && x <= z { 1.0 } else { 0.0 }", "if x < y { 1.0 } else { 0.0 }", "if x > z { 1.0 } else { 0.0 }"];
    IS_NAN "is_nan" None, 1 FloatToBool float Some(|a| a[0].is_nan() as u8 as f64), int None, "($0 != $0)" "" [];
}

const GELU_K: f64 = 0.797_884_560_802_865_4;

fn sigmoid(x: f64) -> f64 {
    if x >= 0.0 {
        1.0 / (1.0 + (-x).exp())
    } else {
        x.exp() / (1.0 + x.exp())
    }
}

/// Maximum that propagates NaN.
pub fn nan_max(a: f64, b: f64) -> f64 {
    if a.is_nan() || a > b { a } else { b }
}

/// Minimum that propagates NaN.
pub fn nan_min(a: f64, b: f64) -> f64 {
    if a.is_nan() || a < b { a } else { b }
}

/// Floor division; 0 where the divisor is 0 (clauses refuse that case first).
pub fn floor_div(a: i64, b: i64) -> i64 {
    if b == 0 {
        return 0;
    }
    let q = a.wrapping_div(b);
    if a.wrapping_rem(b) != 0 && (a < 0) != (b < 0) {
        q - 1
    } else {
        q
    }
}

/// The remainder of [`floor_div`]: it has the divisor's sign; 0 where the divisor is 0.
pub fn floor_rem(a: i64, b: i64) -> i64 {
    if b == 0 {
        return 0;
    }
    let r = a.wrapping_rem(b);
    if r != 0 && (r < 0) != (b < 0) {
        r + b
    } else {
        r
    }
}

impl ScalarFn {
    /// Its row.
    pub fn row(self) -> &'static ScalarRow {
        &SCALARS[self.0 as usize]
    }

    /// Its name.
    pub fn name(self) -> &'static str {
        self.row().name
    }

    /// The function called `name` with `arity` arguments.
    pub fn from_name(name: &str, arity: usize) -> Option<ScalarFn> {
        let at = SCALARS
            .iter()
            .position(|r| r.name == name && r.arity == arity)?;
        Some(ScalarFn(at as u8))
    }

    /// The function written with `symbol` and `arity` arguments.
    pub fn from_symbol(symbol: &str, arity: usize) -> Option<ScalarFn> {
        let at = SCALARS
            .iter()
            .position(|r| r.symbol == Some(symbol) && r.arity == arity)?;
        Some(ScalarFn(at as u8))
    }

    /// The value on `args`, computed in f64 or i64 by the arguments' common kind.
    /// `None` if the function is not defined on them.
    pub fn eval(self, args: &[Value]) -> Option<Value> {
        let row = self.row();
        if args.len() != row.arity {
            return None;
        }
        let to_bool = matches!(
            row.rule,
            DTypeRule::Compare | DTypeRule::Logic | DTypeRule::FloatToBool
        );
        if args.iter().any(|a| matches!(a, Value::Float(_))) {
            let mut a = [0.0; 3];
            for (slot, v) in a.iter_mut().zip(args) {
                *slot = v.as_f64();
            }
            let r = row.float?(&a[..row.arity]);
            Some(if to_bool {
                Value::Bool(r != 0.0)
            } else {
                Value::Float(r)
            })
        } else {
            let mut a = [0; 3];
            for (slot, v) in a.iter_mut().zip(args) {
                *slot = v.as_i64();
            }
            let r = row.int?(&a[..row.arity]);
            Some(if to_bool {
                Value::Bool(r != 0)
            } else {
                Value::Int(r)
            })
        }
    }

    /// The result's element type, or `None` if the arguments do not fit the function.
    pub fn result_dtype(self, args: &[DType]) -> Option<DType> {
        let row = self.row();
        if args.len() != row.arity {
            return None;
        }
        let common = args[1..].iter().try_fold(args[0], |a, &b| a.common(b))?;
        match row.rule {
            DTypeRule::Same => (common != DType::Bool).then_some(common),
            DTypeRule::Float => common.is_float().then_some(common),
            DTypeRule::Compare => Some(DType::Bool),
            DTypeRule::Logic => (common == DType::Bool).then_some(DType::Bool),
            DTypeRule::FloatToBool => common.is_float().then_some(DType::Bool),
        }
    }
}

impl std::fmt::Debug for ScalarFn {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}
impl std::fmt::Display for ScalarFn {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}
