//! The matrix product of cuBLASLt, element by element.

use eindecomp_core::ein::DType;
use half::{bf16, f16};

use crate::backend::cuda::call::{Compute, Gemm, Matrix};
use crate::backend::cuda::driver::GpuError;

/// Computes a product; each slice begins where its operand does.
///
/// # Errors
/// An operand that leaves its memory, or types that cuBLASLt does not have.
pub fn run(gemm: &Gemm, a: &[u8], b: &[u8], c: &mut [u8]) -> Result<(), GpuError> {
    let rule = |what: String| GpuError::Rule(format!("{what} in {gemm:?}"));
    if gemm.a.dtype != gemm.b.dtype {
        return Err(rule("A and B differ in type".into()));
    }
    let (m, n, k) = (gemm.m, gemm.n, gemm.k);
    let shapes = [(&gemm.a, m, k), (&gemm.b, k, n), (&gemm.c, m, n)];
    for (matrix, rows, columns) in shapes {
        let least = if matrix.transposed { rows } else { columns };
        if matrix.leading < least {
            return Err(rule(format!("a leading dimension below {least}")));
        }
    }
    for batch in 0..gemm.batch {
        for row in 0..m {
            for column in 0..n {
                let mut sum = 0.0;
                for at in 0..k {
                    let x =
                        load(&gemm.a, a, batch, row, at).ok_or_else(|| rule("A ends".into()))?;
                    let y =
                        load(&gemm.b, b, batch, at, column).ok_or_else(|| rule("B ends".into()))?;
                    sum = match gemm.compute {
                        Compute::F64 => sum + x * y,
                        Compute::F32 => (sum as f32 + x as f32 * y as f32).into(),
                    };
                }
                let stored = store(&gemm.c, c, batch, row, column, sum);
                stored.ok_or_else(|| rule("C ends".into()))?;
            }
        }
    }
    Ok(())
}

fn place(matrix: &Matrix, batch: i64, row: i64, column: i64) -> usize {
    let (slow, fast) = match matrix.transposed {
        false => (row, column),
        true => (column, row),
    };
    (batch * matrix.stride + slow * matrix.leading + fast) as usize
}

fn load(matrix: &Matrix, bytes: &[u8], batch: i64, row: i64, column: i64) -> Option<f64> {
    let at = place(matrix, batch, row, column) * matrix.dtype.size();
    let bytes = bytes.get(at..at + matrix.dtype.size())?;
    Some(match matrix.dtype {
        DType::F64 => f64::from_ne_bytes(bytes.try_into().ok()?),
        DType::F32 => f32::from_ne_bytes(bytes.try_into().ok()?).into(),
        DType::BF16 => bf16::from_ne_bytes(bytes.try_into().ok()?).into(),
        DType::F16 => f16::from_ne_bytes(bytes.try_into().ok()?).into(),
        _ => return None,
    })
}

fn store(
    matrix: &Matrix,
    bytes: &mut [u8],
    batch: i64,
    row: i64,
    column: i64,
    x: f64,
) -> Option<()> {
    let at = place(matrix, batch, row, column) * matrix.dtype.size();
    let bytes = bytes.get_mut(at..at + matrix.dtype.size())?;
    match matrix.dtype {
        DType::F64 => bytes.copy_from_slice(&x.to_ne_bytes()),
        DType::F32 => bytes.copy_from_slice(&(x as f32).to_ne_bytes()),
        DType::BF16 => bytes.copy_from_slice(&bf16::from_f64(x).to_ne_bytes()),
        DType::F16 => bytes.copy_from_slice(&f16::from_f64(x).to_ne_bytes()),
        _ => return None,
    }
    Some(())
}
