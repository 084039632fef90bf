//! Opaque kernels, called on whole tensors.

use half::{bf16, f16};

use super::{RefError, RefTensor};
use crate::ein::{DType, EinSum, Value};
use crate::graph::{BoundGraph, NodeId};
use crate::kernel::{Call, Input, Slice, SliceMut};

macro_rules! data {
    ($($variant:ident $ty:ty: $read:expr, $write:expr;)*) => {
        enum Data { $($variant(Vec<$ty>)),* }

        impl Data {
            fn of(tensor: &RefTensor) -> Data {
                let values = tensor.data.iter();
                match tensor.dtype { $(DType::$variant => Data::$variant(values.map($read).collect())),* }
            }

            fn zeros(dtype: DType, len: usize) -> Data {
                match dtype { $(DType::$variant => Data::$variant(vec![<$ty>::default(); len])),* }
            }

            fn slice(&self) -> Slice<'_> {
                match self { $(Data::$variant(v) => Slice::$variant(v)),* }
            }

            fn slice_mut(&mut self) -> SliceMut<'_> {
                match self { $(Data::$variant(v) => SliceMut::$variant(v)),* }
            }

            fn values(self) -> Vec<Value> {
                match self { $(Data::$variant(v) => v.into_iter().map($write).collect()),* }
            }
        }
    };
}
data! {
    F64 f64: |v| v.as_f64(), Value::Float;
    F32 f32: |v| v.as_f64() as f32, |x| Value::Float(x.into());
    BF16 bf16: |v| bf16::from_f64(v.as_f64()), |x| Value::Float(x.to_f64());
    F16 f16: |v| f16::from_f64(v.as_f64()), |x| Value::Float(x.to_f64());
    I64 i64: |v| v.as_i64(), Value::Int;
    I32 i32: |v| v.as_i64() as i32, |x| Value::Int(x.into());
    U32 u32: |v| v.as_i64() as u32, |x| Value::Int(x.into());
    U8 u8: |v| v.as_i64() as u8, |x| Value::Int(x.into());
    Bool bool: |v| v.as_bool(), Value::Bool;
}

/// The tensor that vertex `id`, an opaque kernel, makes.
pub(super) fn run(
    e: &EinSum,
    graph: &BoundGraph,
    id: NodeId,
    tensors: &[RefTensor],
) -> Result<RefTensor, RefError> {
    let (node, shape) = (graph.node(id), graph.shape(id).to_vec());
    let missing = || RefError::NoKernel {
        statement: node.name.clone(),
        kernel: e.opaque().map_or_else(|| "".into(), |o| o.kernel.clone()),
    };
    let opaque = e.opaque().ok_or_else(missing)?;
    let kernel = graph.kernels().get(&opaque.kernel).ok_or_else(missing)?;
    let operands = e.operands.iter().map(|o| &tensors[o.node.at()]);
    let given: Vec<(Vec<usize>, Data)> = operands.map(|t| (t.shape.clone(), Data::of(t))).collect();
    let inputs = given.iter().map(|(shape, data)| Input {
        shape: shape.clone(),
        elements: data.slice(),
    });
    let mut data = Data::zeros(node.dtype, graph.elements(id));
    // As on devices, a tile without elements is not computed.
    if graph.elements(id) > 0 {
        let result = opaque.result.into();
        let call = Call::new(inputs.collect(), result, shape.clone(), data.slice_mut());
        call.run(kernel).map_err(|message| RefError::Kernel {
            statement: node.name.clone(),
            kernel: opaque.kernel.clone(),
            message,
        })?;
    }
    RefTensor::new(node.dtype, shape, data.values())
}
