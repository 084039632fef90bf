//! Opaque kernels: tiles are copied into dense arrays for the function, and its result into the
//! window.

use eindecomp_core::kernel::{Call, Input, KernelFn, Slice, SliceMut};
use eindecomp_core::plan::layout::Region;

use super::copy;
use crate::storage::{box_view, box_view_mut};
use crate::tensor::{Data, Tensor};
use crate::view::{View, ViewMut};

/// The arguments of one call, and where its result goes.
pub(super) struct Tiles<'a> {
    inputs: Vec<Tensor>,
    write: &'a ViewMut,
    output: Region,
}

fn zeros(view_dtype: eindecomp_core::ein::DType, region: &Region) -> Tensor {
    let shape: Vec<usize> = region.0.iter().map(|&(lo, hi)| hi - lo).collect();
    Tensor::zeros(view_dtype, shape)
}

impl<'a> Tiles<'a> {
    /// Copies the boxes `footprints`, one per window.
    pub(super) fn new(
        reads: &[View],
        footprints: &[Region],
        write: &'a ViewMut,
        output: Region,
    ) -> Tiles<'a> {
        let dense = |(view, region): (&View, &Region)| {
            let mut tensor = zeros(view.dtype(), region);
            copy(view, &box_view_mut(&mut tensor, region.clone()), region);
            tensor
        };
        Tiles {
            inputs: reads.iter().zip(footprints).map(dense).collect(),
            write,
            output,
        }
    }

    /// Calls the function for result number `result`.
    pub(super) fn run(self, function: KernelFn, result: u16) -> Result<(), String> {
        let inputs = self.inputs.iter().map(|tensor| Input {
            shape: tensor.shape().to_vec(),
            elements: slice(tensor.data()),
        });
        let mut made = zeros(self.write.dtype(), &self.output);
        let shape = made.shape().to_vec();
        let elements = slice_mut(made.data_mut());
        Call::new(inputs.collect(), result.into(), shape, elements).run(function)?;
        let made = box_view(&made, self.output.clone());
        copy(&made, self.write, &self.output);
        Ok(())
    }
}

fn slice(data: &Data) -> Slice<'_> {
    match data {
        Data::F64(v) => Slice::F64(v),
        Data::F32(v) => Slice::F32(v),
        Data::BF16(v) => Slice::BF16(v),
        Data::F16(v) => Slice::F16(v),
        Data::I64(v) => Slice::I64(v),
        Data::I32(v) => Slice::I32(v),
        Data::U32(v) => Slice::U32(v),
        Data::U8(v) => Slice::U8(v),
        Data::Bool(v) => Slice::Bool(v),
    }
}

fn slice_mut(data: &mut Data) -> SliceMut<'_> {
    match data {
        Data::F64(v) => SliceMut::F64(v),
        Data::F32(v) => SliceMut::F32(v),
        Data::BF16(v) => SliceMut::BF16(v),
        Data::F16(v) => SliceMut::F16(v),
        Data::I64(v) => SliceMut::I64(v),
        Data::I32(v) => SliceMut::I32(v),
        Data::U32(v) => SliceMut::U32(v),
        Data::U8(v) => SliceMut::U8(v),
        Data::Bool(v) => SliceMut::Bool(v),
    }
}
