//! Reference tensors ↔ run-time tensors; how long property tests run.
#![allow(dead_code, reason = "each test binary uses a part")]

pub mod gpu;
pub mod models;
pub mod ranks;
pub mod run;
pub mod seen;

use eindecomp_core::ein::{DType, Value};
use eindecomp_core::reference::RefTensor;
use eindecomp_runtime::{Data, Tensor};
use half::{bf16, f16};
use proptest::test_runner::Config;

/// `sample` cases, unless a campaign asks for another number by `PROPTEST_CASES`.
pub fn config(sample: u32) -> Config {
    match std::env::var_os("PROPTEST_CASES") {
        Some(_) => Config::default(),
        None => Config::with_cases(sample),
    }
}

pub fn to_runtime(t: &RefTensor) -> Tensor {
    let values = t.data().iter();
    let data = match t.dtype() {
        DType::F64 => Data::F64(values.map(|v| v.as_f64()).collect()),
        DType::F32 => Data::F32(values.map(|v| v.as_f64() as f32).collect()),
        DType::BF16 => Data::BF16(values.map(|v| bf16::from_f64(v.as_f64())).collect()),
        DType::F16 => Data::F16(values.map(|v| f16::from_f64(v.as_f64())).collect()),
        DType::I64 => Data::I64(values.map(|v| v.as_i64()).collect()),
        DType::I32 => Data::I32(values.map(|v| v.as_i64() as i32).collect()),
        DType::U32 => Data::U32(values.map(|v| v.as_i64() as u32).collect()),
        DType::U8 => Data::U8(values.map(|v| v.as_i64() as u8).collect()),
        DType::Bool => Data::Bool(values.map(|v| v.as_bool()).collect()),
    };
    Tensor::new(t.shape().to_vec(), data).expect("same number of elements")
}

pub fn to_reference(t: &Tensor) -> RefTensor {
    let values: Vec<Value> = match t.data() {
        Data::F64(v) => v.iter().map(|&x| Value::Float(x)).collect(),
        Data::F32(v) => v.iter().map(|&x| Value::Float(x.into())).collect(),
        Data::BF16(v) => v.iter().map(|x| Value::Float(x.to_f64())).collect(),
        Data::F16(v) => v.iter().map(|x| Value::Float(x.to_f64())).collect(),
        Data::I64(v) => v.iter().map(|&x| Value::Int(x)).collect(),
        Data::I32(v) => v.iter().map(|&x| Value::Int(x.into())).collect(),
        Data::U32(v) => v.iter().map(|&x| Value::Int(x.into())).collect(),
        Data::U8(v) => v.iter().map(|&x| Value::Int(x.into())).collect(),
        Data::Bool(v) => v.iter().map(|&x| Value::Bool(x)).collect(),
    };
    RefTensor::new(t.dtype(), t.shape().to_vec(), values).expect("same number of elements")
}

/// The tensors with −0 as 0, since the sign of a zero sum depends on where the sum began, and with
/// a number in place of NaN, so that equal means equal.
pub fn comparable(tensors: Vec<RefTensor>) -> Vec<RefTensor> {
    let plain = |v: &Value| match v {
        Value::Float(x) if *x == 0.0 => Value::Float(0.0),
        Value::Float(x) if x.is_nan() => Value::Float(f32::MAX.into()),
        other => *other,
    };
    let each = |t: RefTensor| {
        let values = t.data().iter().map(plain).collect();
        RefTensor::new(t.dtype(), t.shape().to_vec(), values).expect("same number of elements")
    };
    tensors.into_iter().map(each).collect()
}
