//! Weights may be elsewhere than in memory: they are read box by box, and no box that no device here keeps.

use std::io;

use eindecomp_core::ein::DType;
use eindecomp_core::plan::Region;

use crate::Tensor;

/// A tensor of which boxes can be read.
pub trait TensorSource {
    /// Its element type.
    fn dtype(&self) -> DType;

    /// Extents of its axes.
    fn shape(&self) -> &[usize];

    /// The elements of a box that lies in it.
    ///
    /// # Errors
    /// They cannot be read.
    fn contents(&self, region: &Region) -> io::Result<Contents<'_>>;
}

/// Where the elements of a box are.
#[derive(Debug)]
pub enum Contents<'t> {
    /// In the whole tensor.
    Whole(&'t Tensor),
    /// In a tensor of the box's shape.
    Box(Tensor),
}

impl TensorSource for Tensor {
    fn dtype(&self) -> DType {
        self.dtype()
    }

    fn shape(&self) -> &[usize] {
        self.shape()
    }

    fn contents(&self, _: &Region) -> io::Result<Contents<'_>> {
        Ok(Contents::Whole(self))
    }
}
