//! Matrix products by cuBLASLt: how each shape is done is asked once.
//!
//! cuBLASLt counts columns first. A product whose result lies row by row is that of the transposes, in the other
//! order: `Cᵀ = Bᵀ·Aᵀ`, whose memory is the same.

use std::collections::HashMap;
use std::ffi::c_void;

use cudarc::cublaslt::{result, sys};
use cudarc::driver::sys::CUstream;
use eindecomp_core::ein::DType;

use crate::backend::cuda::call::{Compute, Gemm, Matrix};
use crate::backend::cuda::driver::{GpuError, MATMUL_WORKSPACE};

/// What the way of a product depends on: its card, itself without addresses, and how these are aligned.
#[derive(Clone, PartialEq, Eq, Hash)]
struct Key {
    card: usize,
    sizes: [i64; 4],
    matrices: [(DType, bool, i64, i64); 3],
    compute: Compute,
    aligned: [u32; 3],
}

/// A way.
struct Way {
    description: sys::cublasLtMatmulDesc_t,
    /// Of the first operand, the second one and the result.
    layouts: [sys::cublasLtMatrixLayout_t; 3],
    heuristic: sys::cublasLtMatmulHeuristicResult_t,
}

impl Drop for Way {
    fn drop(&mut self) {
        // SAFETY: created by `plan`, destroyed once.
        unsafe {
            let _ = result::destroy_matmul_desc(self.description);
            for layout in self.layouts {
                let _ = result::destroy_matrix_layout(layout);
            }
        }
    }
}

/// Every way that was asked for, and a handle per card.
#[derive(Default)]
pub(super) struct Matmuls {
    handles: HashMap<usize, sys::cublasLtHandle_t>,
    ways: HashMap<Key, Way>,
}

fn failed(error: result::CublasError) -> GpuError {
    GpuError::Call {
        call: "cublasLtMatmul",
        message: error.to_string(),
    }
}

fn key(card: usize, gemm: &Gemm, starts: [u64; 3]) -> Key {
    let matrix = |m: &Matrix| (m.dtype, m.transposed, m.leading, m.stride);
    Key {
        card,
        sizes: [gemm.m, gemm.n, gemm.k, gemm.batch],
        matrices: [matrix(&gemm.a), matrix(&gemm.b), matrix(&gemm.c)],
        compute: gemm.compute,
        aligned: starts.map(|start| 1 << start.trailing_zeros().min(8)),
    }
}

fn of(dtype: DType) -> Result<sys::cudaDataType, GpuError> {
    Ok(match dtype {
        DType::F64 => sys::cudaDataType_t::CUDA_R_64F,
        DType::F32 => sys::cudaDataType_t::CUDA_R_32F,
        DType::BF16 => sys::cudaDataType_t::CUDA_R_16BF,
        DType::F16 => sys::cudaDataType_t::CUDA_R_16F,
        other => return Err(GpuError::Rule(format!("cuBLASLt has no {other}"))),
    })
}

/// The operands in the order and form of cuBLASLt: each with rows, columns and whether it is transposed, and
/// whether they change places.
fn columns_first(gemm: &Gemm) -> ([(Matrix, i64, i64, bool); 3], bool) {
    // A matrix that lies column by column is what it is, one that lies row by row is its transpose.
    let lies = |m: Matrix, rows: i64, columns: i64, transpose: bool| match m.transposed {
        true => (m, rows, columns, transpose),
        false => (m, columns, rows, !transpose),
    };
    let Gemm {
        m, n, k, a, b, c, ..
    } = *gemm;
    match c.transposed {
        true => (
            [lies(a, m, k, false), lies(b, k, n, false), (c, m, n, false)],
            false,
        ),
        false => (
            [lies(b, k, n, true), lies(a, m, k, true), (c, n, m, false)],
            true,
        ),
    }
}

impl Matmuls {
    /// Asks how a product is done, unless that is known. The card's context is current.
    pub fn plan(&mut self, card: usize, gemm: &Gemm, starts: [u64; 3]) -> Result<(), GpuError> {
        let key = key(card, gemm, starts);
        if self.ways.contains_key(&key) {
            return Ok(());
        }
        let handle = match self.handles.get(&card) {
            Some(&handle) => handle,
            None => {
                let handle = result::create_handle().map_err(failed)?;
                self.handles.insert(card, handle);
                handle
            }
        };
        let (operands, swapped) = columns_first(gemm);
        let (compute, scale) = match gemm.compute {
            Compute::F64 => (
                sys::cublasComputeType_t::CUBLAS_COMPUTE_64F,
                sys::cudaDataType_t::CUDA_R_64F,
            ),
            Compute::F32 => (
                sys::cublasComputeType_t::CUBLAS_COMPUTE_32F,
                sys::cudaDataType_t::CUDA_R_32F,
            ),
        };
        // SAFETY: descriptors are created before they are set, and values have the sizes of their attributes.
        unsafe {
            let description = result::create_matmul_desc(compute, scale).map_err(failed)?;
            let mut layouts = [std::ptr::null_mut(); 3];
            for (layout, (matrix, rows, columns, _)) in layouts.iter_mut().zip(&operands) {
                let made = result::create_matrix_layout(
                    of(matrix.dtype)?,
                    *rows as u64,
                    *columns as u64,
                    matrix.leading,
                );
                *layout = made.map_err(failed)?;
                let batch = gemm.batch as i32;
                for (attribute, value, size) in [
                    (
                        sys::cublasLtMatrixLayoutAttribute_t::CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT,
                        std::ptr::from_ref(&batch).cast::<c_void>(),
                        size_of::<i32>(),
                    ),
                    (
                        sys::cublasLtMatrixLayoutAttribute_t::CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET,
                        std::ptr::from_ref(&matrix.stride).cast::<c_void>(),
                        size_of::<i64>(),
                    ),
                ] {
                    let set = result::set_matrix_layout_attribute(*layout, attribute, value, size);
                    set.map_err(failed)?;
                }
            }
            for (attribute, (.., transposed)) in [
                sys::cublasLtMatmulDescAttributes_t::CUBLASLT_MATMUL_DESC_TRANSA,
                sys::cublasLtMatmulDescAttributes_t::CUBLASLT_MATMUL_DESC_TRANSB,
            ]
            .into_iter()
            .zip(&operands)
            {
                let op = i32::from(*transposed);
                let value = std::ptr::from_ref(&op).cast::<c_void>();
                let size = size_of::<i32>();
                let set = result::set_matmul_desc_attribute(description, attribute, value, size);
                set.map_err(failed)?;
            }
            let preference = result::create_matmul_pref().map_err(failed)?;
            let workspace = MATMUL_WORKSPACE as usize;
            let [a, b, c] = key.aligned;
            let (first, second) = if swapped { (b, a) } else { (a, b) };
            use sys::cublasLtMatmulPreferenceAttributes_t as Attribute;
            let aligned = [
                (Attribute::CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, first),
                (
                    Attribute::CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
                    second,
                ),
                (Attribute::CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, c),
                (Attribute::CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, c),
            ];
            let mut set = result::set_matmul_pref_attribute(
                preference,
                Attribute::CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES,
                std::ptr::from_ref(&workspace).cast(),
                size_of::<usize>(),
            );
            for (attribute, bytes) in aligned {
                let value = std::ptr::from_ref(&bytes).cast();
                set = set.and(result::set_matmul_pref_attribute(
                    preference,
                    attribute,
                    value,
                    size_of::<u32>(),
                ));
            }
            let [x, y, z] = layouts;
            let heuristic = set.and_then(|()| {
                result::get_matmul_algo_heuristic(handle, description, x, y, z, z, preference)
            });
            let _ = result::destroy_matmul_pref(preference);
            let heuristic = heuristic.map_err(failed)?;
            let way = Way {
                description,
                layouts,
                heuristic,
            };
            self.ways.insert(key, way);
        }
        Ok(())
    }

    /// Puts a product, which was planned, on a stream. The card's context is current.
    pub fn run(
        &self,
        card: usize,
        device: u32,
        gemm: &Gemm,
        starts: [u64; 3],
        workspace: u64,
        stream: CUstream,
    ) -> Result<(), GpuError> {
        let way = self.ways.get(&key(card, gemm, starts));
        let (Some(way), Some(&handle)) = (way, self.handles.get(&card)) else {
            return Err(GpuError::Rule("a product was not planned".into()));
        };
        let (_, swapped) = columns_first(gemm);
        let [a, b, c] = starts;
        let (first, second) = if swapped { (b, a) } else { (a, b) };
        let (one, none, one_f32, none_f32) = (1.0f64, 0.0f64, 1.0f32, 0.0f32);
        let (alpha, beta): (*const c_void, *const c_void) = match gemm.compute {
            Compute::F64 => (
                std::ptr::from_ref(&one).cast(),
                std::ptr::from_ref(&none).cast(),
            ),
            Compute::F32 => (
                std::ptr::from_ref(&one_f32).cast(),
                std::ptr::from_ref(&none_f32).cast(),
            ),
        };
        let [x, y, z] = way.layouts;
        // SAFETY: descriptors live as long as the way; operands and workspace are device memory that the command
        // says; the scalars are read during the call.
        let multiplied = unsafe {
            result::matmul(
                handle,
                way.description,
                alpha,
                beta,
                first as *const c_void,
                x,
                second as *const c_void,
                y,
                c as *const c_void,
                z,
                c as *mut c_void,
                z,
                &way.heuristic.algo,
                workspace as *mut c_void,
                MATMUL_WORKSPACE as usize,
                stream.cast(),
            )
        };
        multiplied.map_err(|error| GpuError::Launch {
            device,
            what: "cublasLtMatmul".into(),
            message: error.to_string(),
        })
    }
}

impl Drop for Matmuls {
    fn drop(&mut self) {
        self.ways.clear();
        for handle in self.handles.values() {
            // SAFETY: created by `plan`, destroyed once, behind every way.
            let _ = unsafe { result::destroy_handle(*handle) };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::cuda::call::{Place, Pointer};

    /// What cuBLASLt computes with its operands, on numbers.
    fn multiplied(gemm: &Gemm, a: &[f64], b: &[f64], c: &mut [f64]) {
        let ([x, y, (z, rows, columns, _)], swapped) = columns_first(gemm);
        let (first, second) = if swapped { (b, a) } else { (a, b) };
        let at = |(matrix, rows, columns, transposed): (Matrix, i64, i64, bool), i: i64, j: i64| {
            let (i, j) = if transposed { (j, i) } else { (i, j) };
            assert!(i < rows && j < columns && matrix.leading >= rows);
            (i + j * matrix.leading) as usize
        };
        for i in 0..rows {
            for j in 0..columns {
                let sum = (0..gemm.k).map(|n| first[at(x, i, n)] * second[at(y, n, j)]);
                c[(i + j * z.leading) as usize] = sum.sum();
            }
        }
    }

    #[test]
    fn every_layout_is_the_same_product() {
        let (m, n, k) = (3, 4, 2);
        let lies = |rows: i64, columns: i64, transposed: bool| Matrix {
            start: Pointer {
                place: Place::Read(0),
                offset: 0,
                bytes: 256,
            },
            dtype: DType::F64,
            transposed,
            leading: if transposed { rows } else { columns } + 1,
            stride: 0,
        };
        let place = |matrix: &Matrix, row: i64, column: i64| match matrix.transposed {
            true => (column * matrix.leading + row) as usize,
            false => (row * matrix.leading + column) as usize,
        };
        for layout in 0..8 {
            let [a, b, c] = [
                lies(m, k, layout & 1 > 0),
                lies(k, n, layout & 2 > 0),
                lies(m, n, layout & 4 > 0),
            ];
            let gemm = Gemm {
                m,
                n,
                k,
                batch: 1,
                a,
                b,
                c,
                compute: Compute::F64,
            };
            let (mut x, mut y, mut z) = (vec![f64::NAN; 32], vec![f64::NAN; 32], vec![0.0; 32]);
            for row in 0..m.max(k) {
                for column in 0..n.max(k) {
                    if row < m && column < k {
                        x[place(&a, row, column)] = (row * 10 + column) as f64;
                    }
                    if row < k && column < n {
                        y[place(&b, row, column)] = (row - 3 * column) as f64;
                    }
                }
            }
            multiplied(&gemm, &x, &y, &mut z);
            for row in 0..m {
                for column in 0..n {
                    let term = |i: i64| ((row * 10 + i) * (i - 3 * column)) as f64;
                    let want: f64 = (0..k).map(term).sum();
                    assert_eq!(z[place(&c, row, column)], want, "layout {layout}");
                }
            }
        }
    }
}
