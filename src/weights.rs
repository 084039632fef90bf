//! Weights from safetensors files: every missing or unfit tensor is reported in one error.

use std::path::{Path, PathBuf};

use eindecomp_core::ein::DType;
use eindecomp_runtime::{Data, Element, Tensor};
use ndarray::Dimension;
use safetensors::SafeTensors;
use safetensors::tensor::{Dtype, Metadata};

use crate::model::{Array, to_array};
use crate::{Error, nearest};

/// An open safetensors file. Generated `Weights::from_safetensors` takes its fields from one.
pub struct WeightsFile {
    path: PathBuf,
    bytes: Vec<u8>,
    data: usize,
    metadata: Metadata,
    errors: Vec<Error>,
}

impl WeightsFile {
    /// Reads a file.
    ///
    /// # Errors
    /// [`Error::WeightsFile`]: it cannot be read, is no safetensors file, or is cut short.
    pub fn open(path: impl AsRef<Path>) -> Result<WeightsFile, Error> {
        let path = path.as_ref().to_path_buf();
        let wrong = |message: String| Error::WeightsFile {
            path: path.clone(),
            message,
        };
        let bytes = std::fs::read(&path).map_err(|e| wrong(e.to_string()))?;
        let (header, metadata) =
            SafeTensors::read_metadata(&bytes).map_err(|e| wrong(e.to_string()))?;
        let data = header + 8;
        let end = metadata
            .tensors()
            .values()
            .map(|t| t.data_offsets.1)
            .max()
            .unwrap_or(0);
        if data + end > bytes.len() {
            return Err(wrong(format!(
                "cut short: {} bytes where {} are announced",
                bytes.len(),
                data + end
            )));
        }
        Ok(WeightsFile {
            path,
            bytes,
            data,
            metadata,
            errors: Vec::new(),
        })
    }

    /// Names of all tensors.
    pub fn names(&self) -> Vec<String> {
        self.metadata.offset_keys()
    }

    /// One tensor as it is stored.
    ///
    /// # Errors
    /// [`Error::MissingTensor`] with the nearest name; [`Error::WeightsFile`] for an element type
    /// that the language does not have.
    pub fn tensor(&self, name: &str) -> Result<Tensor, Error> {
        let wrong = |message: String| Error::WeightsFile {
            path: self.path.clone(),
            message,
        };
        let info = self.metadata.info(name).ok_or_else(|| {
            let names = self.names();
            let near = nearest(name, names.iter().map(String::as_str));
            Error::MissingTensor {
                name: name.into(),
                near: near.map(str::to_owned),
            }
        })?;
        let dtype = match info.dtype {
            Dtype::F64 => DType::F64,
            Dtype::F32 => DType::F32,
            Dtype::BF16 => DType::BF16,
            Dtype::F16 => DType::F16,
            Dtype::I64 => DType::I64,
            Dtype::I32 => DType::I32,
            Dtype::U32 => DType::U32,
            Dtype::U8 => DType::U8,
            Dtype::BOOL => DType::Bool,
            other => {
                return Err(wrong(format!(
                    "`{name}` has element type {other:?}, which the language does not have"
                )));
            }
        };
        let (start, end) = info.data_offsets;
        let bytes = &self.bytes[self.data + start..self.data + end];
        let tensor =
            Data::from_bytes(dtype, bytes).and_then(|data| Tensor::new(info.shape.clone(), data));
        tensor.ok_or_else(|| {
            wrong(format!(
                "`{name}` has {} bytes, not those of its shape",
                bytes.len()
            ))
        })
    }

    /// One tensor as a typed array; empty, and an error noted for [`WeightsFile::finish`], if it
    /// is not there or of another type.
    pub fn take<D: Element, const RANK: usize>(&mut self, name: &str) -> Array<D, RANK>
    where
        ndarray::Dim<[usize; RANK]>: Dimension,
    {
        match self.tensor(name).and_then(|tensor| to_array(name, tensor)) {
            Ok(array) => array,
            Err(error) => {
                self.errors.push(error);
                ndarray::Array::default(ndarray::Dim::<[usize; RANK]>::default())
            }
        }
    }

    /// `weights`, unless some tensor was missing or unfit.
    ///
    /// # Errors
    /// [`Error::Weights`] with all of them.
    pub fn finish<W>(self, weights: W) -> Result<W, Error> {
        if self.errors.is_empty() {
            Ok(weights)
        } else {
            Err(Error::Weights {
                path: self.path,
                errors: self.errors,
            })
        }
    }
}
