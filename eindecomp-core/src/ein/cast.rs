//! Conversion of values. Not part of what the macro builds: rounding to bf16 and f16 needs a crate.

use super::{DType, Value};

impl Value {
    /// Rounded into `dtype` and widened again, as a store and a load would do.
    pub fn cast(self, dtype: DType) -> Value {
        match dtype {
            DType::F64 => Value::Float(self.as_f64()),
            DType::F32 => Value::Float(self.as_f64() as f32 as f64),
            DType::BF16 => Value::Float(half::bf16::from_f64(self.as_f64()).to_f64()),
            DType::F16 => Value::Float(half::f16::from_f64(self.as_f64()).to_f64()),
            DType::I64 => Value::Int(self.as_i64()),
            DType::I32 => Value::Int(match self {
                Value::Float(x) => x as i32 as i64,
                v => v.as_i64() as i32 as i64,
            }),
            DType::U32 => Value::Int(match self {
                Value::Float(x) => x as u32 as i64,
                v => v.as_i64() as u32 as i64,
            }),
            DType::U8 => Value::Int(match self {
                Value::Float(x) => x as u8 as i64,
                v => v.as_i64() as u8 as i64,
            }),
            DType::Bool => Value::Bool(self.as_bool()),
        }
    }
}
