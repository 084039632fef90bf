//! THE table of aggregations (⊕): one row each.

use super::dtype::{DType, Value};
use super::scalar::{nan_max, nan_min};

/// One row of the table.
pub struct AggRow {
    /// Name in source and dumps.
    pub name: &'static str,
    /// Identity on floats: the result over an empty range.
    pub float_identity: f64,
    /// Identity on integers; `None` where the aggregation is not defined on integers.
    pub int_identity: Option<i64>,
    /// Combines two floats.
    pub float: fn(f64, f64) -> f64,
    /// Combines two integers (bools as 0 and 1).
    pub int: fn(i64, i64) -> i64,
    /// C and CUDA expression on floats, as in [`super::scalar::ScalarRow`]; empty where it takes more than two
    /// values to say (`logsumexp`, selections).
    pub c: &'static str,
    /// The same on integers and bools.
    pub c_int: &'static str,
    /// Associative and commutative on single values, so that it may be split over devices.
    pub splits: bool,
    /// Takes and gives bools.
    pub boolean: bool,
    /// The result is the i64 position of the selected element of the one reduced index
    /// (−1 on an empty range).
    pub selects: bool,
    /// Surface form only: lowered to other rows (`mean` is a sum with an epilogue).
    pub derived: bool,
}

/// A row of [`AGGS`].
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Agg(u8);

macro_rules! aggs {
    ($($id:ident $name:literal $fi:expr, $ii:expr; $float:expr, $int:expr; $c:literal $c_int:literal $splits:literal $boolean:literal $selects:literal $derived:literal;)*) => {
        #[derive(Clone, Copy)]
        #[allow(clippy::upper_case_acronyms)]
        enum Row { $($id),* }
        impl Agg { $(#[doc = concat!("`", $name, "`")] pub const $id: Agg = Agg(Row::$id as u8);)* }
        /// Every aggregation.
        pub static AGGS: &[AggRow] = &[$(AggRow {
            name: $name, float_identity: $fi, int_identity: $ii, float: $float, int: $int,
            c: $c, c_int: $c_int, splits: $splits, boolean: $boolean, selects: $selects, derived: $derived,
        }),*];
    };
}

// name, identities; combine; C expressions, splits, boolean, selects, derived
aggs! {
    SUM "sum" 0.0, Some(0); |a, b| a + b, |a, b| a.wrapping_add(b); "($0 + $1)" "((i64)((u64)$0 + (u64)$1))" true false false false;
    PROD "prod" 1.0, Some(1); |a, b| a * b, |a, b| a.wrapping_mul(b); "($0 * $1)" "((i64)((u64)$0 * (u64)$1))" true false false false;
    MAX "max" f64::NEG_INFINITY, Some(i64::MIN); nan_max, |a, b| a.max(b); "($0 != $0 || $0 > $1 ? $0 : $1)" "($0 > $1 ? $0 : $1)" true false false false;
    MIN "min" f64::INFINITY, Some(i64::MAX); nan_min, |a, b| a.min(b); "($0 != $0 || $0 < $1 ? $0 : $1)" "($0 < $1 ? $0 : $1)" true false false false;
    LOGSUMEXP "logsumexp" f64::NEG_INFINITY, None; log_add_exp, |a, _| a; "" "" true false false false;
    ANY "any" 0.0, Some(0); |a, _| a, |a, b| (a != 0 || b != 0) as i64; "($0 || $1)" "($0 || $1)" true true false false;
    ALL "all" 1.0, Some(1); |a, _| a, |a, b| (a != 0 && b != 0) as i64; "($0 && $1)" "($0 && $1)" true true false false;
    ARGMAX "argmax" f64::NEG_INFINITY, Some(i64::MIN); nan_max, |a, b| a.max(b); "" "" false false true false;
    ARGMIN "argmin" f64::INFINITY, Some(i64::MAX); nan_min, |a, b| a.min(b); "" "" false false true false;
    MEAN "mean" 0.0, None; |a, b| a + b, |a, _| a; "" "" true false false true;
}

/// log(eᵃ + eᵇ) without overflow; −inf is its identity, and two of them stay −inf.
pub fn log_add_exp(a: f64, b: f64) -> f64 {
    let m = nan_max(a, b);
    if !m.is_finite() {
        return m;
    }
    m + ((a - m).exp() + (b - m).exp()).ln()
}

impl Agg {
    /// Its row.
    pub fn row(self) -> &'static AggRow {
        &AGGS[self.0 as usize]
    }

    /// Its name.
    pub fn name(self) -> &'static str {
        self.row().name
    }

    /// The aggregation called `name`.
    pub fn from_name(name: &str) -> Option<Agg> {
        AGGS.iter()
            .position(|r| r.name == name)
            .map(|i| Agg(i as u8))
    }

    /// The identity when accumulating in `acc` (integer bounds are those of `acc`).
    pub fn identity(self, acc: DType) -> Value {
        let row = self.row();
        if acc == DType::Bool {
            return Value::Bool(row.int_identity == Some(1));
        }
        if acc.is_float() {
            return Value::Float(row.float_identity);
        }
        let (lo, hi) = match acc {
            DType::I32 => (i32::MIN as i64, i32::MAX as i64),
            DType::U32 => (0, u32::MAX as i64),
            DType::U8 => (0, u8::MAX as i64),
            _ => (i64::MIN, i64::MAX),
        };
        Value::Int(row.int_identity.unwrap_or(0).clamp(lo, hi))
    }

    /// Combines two accumulator values.
    pub fn combine(self, a: Value, b: Value) -> Value {
        let row = self.row();
        match (a, b) {
            (Value::Bool(x), Value::Bool(y)) => Value::Bool((row.int)(x as i64, y as i64) != 0),
            (Value::Int(x), Value::Int(y)) => Value::Int((row.int)(x, y)),
            _ => Value::Float((row.float)(a.as_f64(), b.as_f64())),
        }
    }

    /// For selecting rows: does `new` replace `best`? The first NaN wins, ties keep the lowest index.
    pub fn replaces(self, best: f64, new: f64) -> bool {
        if best.is_nan() {
            return false;
        }
        new.is_nan()
            || if self == Agg::ARGMIN {
                new < best
            } else {
                new > best
            }
    }
}

impl std::fmt::Debug for Agg {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}
impl std::fmt::Display for Agg {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}
