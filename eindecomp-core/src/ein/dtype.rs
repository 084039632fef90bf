//! Element types and scalar values.

use std::fmt;

/// The element type of a tensor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[cfg_attr(feature = "plan", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "plan", serde(rename_all = "lowercase"))]
pub enum DType {
    /// IEEE double.
    F64,
    /// IEEE single.
    F32,
    /// bfloat16.
    BF16,
    /// IEEE half.
    F16,
    /// Signed 64 bits.
    I64,
    /// Signed 32 bits.
    I32,
    /// Unsigned 32 bits.
    U32,
    /// Unsigned 8 bits.
    U8,
    /// One byte, 0 or 1.
    Bool,
}

impl DType {
    /// Every element type, widest floats first.
    pub const ALL: [DType; 9] = [
        DType::F64,
        DType::F32,
        DType::BF16,
        DType::F16,
        DType::I64,
        DType::I32,
        DType::U32,
        DType::U8,
        DType::Bool,
    ];

    /// The name in source text and dumps.
    pub fn name(self) -> &'static str {
        match self {
            DType::F64 => "f64",
            DType::F32 => "f32",
            DType::BF16 => "bf16",
            DType::F16 => "f16",
            DType::I64 => "i64",
            DType::I32 => "i32",
            DType::U32 => "u32",
            DType::U8 => "u8",
            DType::Bool => "bool",
        }
    }

    /// The element type called `name`.
    pub fn from_name(name: &str) -> Option<DType> {
        DType::ALL.into_iter().find(|d| d.name() == name)
    }

    /// Bytes of one stored element.
    pub fn size(self) -> usize {
        match self {
            DType::F64 | DType::I64 => 8,
            DType::F32 | DType::I32 | DType::U32 => 4,
            DType::BF16 | DType::F16 => 2,
            DType::U8 | DType::Bool => 1,
        }
    }

    /// Is it one of the four float types?
    pub fn is_float(self) -> bool {
        matches!(self, DType::F64 | DType::F32 | DType::BF16 | DType::F16)
    }

    /// Is it one of the four integer types (bool is none)?
    pub fn is_int(self) -> bool {
        matches!(self, DType::I64 | DType::I32 | DType::U32 | DType::U8)
    }

    /// Can it store the integer as it is? Of integer types; no other one can.
    pub fn holds(self, n: i64) -> bool {
        match self {
            DType::I64 => true,
            DType::I32 => i32::try_from(n).is_ok(),
            DType::U32 => u32::try_from(n).is_ok(),
            DType::U8 => u8::try_from(n).is_ok(),
            _ => false,
        }
    }

    /// Does every value of `self` have an equal value in `to`?
    pub fn widens_to(self, to: DType) -> bool {
        use DType::*;
        self == to
            || matches!(
                (self, to),
                (F32 | BF16 | F16 | I32 | U32 | U8, F64)
                    | (BF16 | F16 | U8, F32)
                    | (U8, BF16 | F16)
                    | (I32 | U32 | U8, I64)
                    | (U8, I32 | U32)
            )
    }

    /// The type both widen to without loss, if one of them is it.
    pub fn common(self, other: DType) -> Option<DType> {
        if self.widens_to(other) {
            Some(other)
        } else if other.widens_to(self) {
            Some(self)
        } else {
            None
        }
    }

    /// The type in which reductions accumulate unless told otherwise.
    pub fn default_accumulator(self) -> DType {
        match self {
            DType::BF16 | DType::F16 => DType::F32,
            other => other,
        }
    }
}

impl fmt::Display for DType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A scalar as the reference interpreter computes with it: floats in f64, integers in i64.
#[derive(Clone, Copy, Debug)]
#[cfg_attr(feature = "plan", derive(serde::Serialize, serde::Deserialize))]
pub enum Value {
    /// Any float.
    Float(f64),
    /// Any integer.
    Int(i64),
    /// A truth value.
    Bool(bool),
}

impl Value {
    /// As a float; a bool is 0 or 1.
    pub fn as_f64(self) -> f64 {
        match self {
            Value::Float(x) => x,
            Value::Int(x) => x as f64,
            Value::Bool(b) => b as u8 as f64,
        }
    }

    /// As an integer; floats truncate and saturate as Rust's `as`.
    pub fn as_i64(self) -> i64 {
        match self {
            Value::Float(x) => x as i64,
            Value::Int(x) => x,
            Value::Bool(b) => b as i64,
        }
    }

    /// As a truth value: non-zero is true.
    pub fn as_bool(self) -> bool {
        match self {
            Value::Float(x) => x != 0.0,
            Value::Int(x) => x != 0,
            Value::Bool(b) => b,
        }
    }

    /// Is it a value on which passes and plans may branch (0, 1, ±inf, a bool)?
    pub fn is_structural(self) -> bool {
        match self {
            Value::Float(x) => x == 0.0 || x == 1.0 || x.is_infinite(),
            Value::Int(x) => x == 0 || x == 1,
            Value::Bool(_) => true,
        }
    }
}

/// Equal bits, so that NaN equals itself and −0 differs from 0: for keys and tests.
impl PartialEq for Value {
    fn eq(&self, other: &Value) -> bool {
        match (self, other) {
            (Value::Float(a), Value::Float(b)) => a.to_bits() == b.to_bits(),
            (Value::Int(a), Value::Int(b)) => a == b,
            (Value::Bool(a), Value::Bool(b)) => a == b,
            _ => false,
        }
    }
}
impl Eq for Value {}
impl std::hash::Hash for Value {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        match self {
            Value::Float(x) => (0u8, x.to_bits()).hash(state),
            Value::Int(x) => (1u8, x).hash(state),
            Value::Bool(b) => (2u8, b).hash(state),
        }
    }
}

/// Rust's own spelling: `1.0`, `3`, `true`, `inf`, `nan`.
impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Value::Float(x) if x.is_nan() => f.write_str("nan"),
            Value::Float(x) => write!(f, "{x:?}"),
            Value::Int(x) => write!(f, "{x}"),
            Value::Bool(b) => write!(f, "{b}"),
        }
    }
}
