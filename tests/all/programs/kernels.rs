//! The Rust functions behind the `extern fn` of random programs.

use eindecomp_core::ein::DType;
use eindecomp_core::kernel::{Call, Element, KernelFn, KernelResult};
use half::{bf16, f16};

/// By the names that programs give them.
pub const KERNELS: [(&str, KernelFn); 7] = [
    ("best", best),
    ("scan", scan),
    ("sorted", sorted),
    ("joined", joined),
    ("turned", turned),
    ("totals", totals),
    ("scaled", scaled),
];

/// An element as a number, and back.
trait Number: Element {
    fn number(self) -> f64;
    fn of_number(x: f64) -> Self;
}

macro_rules! numbers {
    ($($ty:ty: $number:expr, $of:expr;)*) => {
        $(impl Number for $ty {
            fn number(self) -> f64 { $number(self) }
            fn of_number(x: f64) -> Self { $of(x) }
        })*
    };
}
numbers! {
    f64: |x| x, |x| x;
    f32: f64::from, |x| x as f32;
    bf16: bf16::to_f64, bf16::from_f64;
    f16: f16::to_f64, f16::from_f64;
    i64: |x| x as f64, |x| x as i64;
    i32: f64::from, |x| x as i32;
    u32: f64::from, |x| x as u32;
    u8: f64::from, |x| x as u8;
}

/// Calls the function for the element type of the first argument.
macro_rules! by_dtype {
    ($call:ident, $of:ident) => {
        match $call.inputs()[0].elements.dtype() {
            DType::F64 => $of::<f64>($call),
            DType::F32 => $of::<f32>($call),
            DType::BF16 => $of::<bf16>($call),
            DType::F16 => $of::<f16>($call),
            DType::I64 => $of::<i64>($call),
            DType::I32 => $of::<i32>($call),
            DType::U32 => $of::<u32>($call),
            DType::U8 => $of::<u8>($call),
            DType::Bool => Err("no numbers".into()),
        }
    };
}

/// The length of the last axis.
fn width(shape: &[usize]) -> usize {
    shape.last().copied().unwrap_or(1)
}

/// The two largest of each row, and where they are.
fn best(call: &mut Call<'_>) -> KernelResult {
    fn of<T: Number>(call: &mut Call<'_>) -> KernelResult {
        let x = call.input::<T>(0)?;
        let n = width(&x.shape);
        if n < 2 {
            return Err(format!("the best two of {n} are wanted").into());
        }
        let order = |row: usize| {
            let row = &x.elements[row * n..(row + 1) * n];
            let mut order: Vec<usize> = (0..n).collect();
            order.sort_by(|&a, &b| row[b].number().total_cmp(&row[a].number()));
            order
        };
        if let Some(y) = call.output::<T>(0)? {
            for (row, out) in y.elements.chunks_mut(2).enumerate() {
                let order = order(row);
                out.copy_from_slice(&[0, 1].map(|k| x.elements[row * n + order[k]]));
            }
        }
        if let Some(y) = call.output::<i64>(1)? {
            for (row, out) in y.elements.chunks_mut(2).enumerate() {
                let order = order(row);
                out.copy_from_slice(&[0, 1].map(|k| order[k] as i64));
            }
        }
        Ok(())
    }
    by_dtype!(call, of)
}

/// The sums of the starts of each row.
fn scan(call: &mut Call<'_>) -> KernelResult {
    fn of<T: Number>(call: &mut Call<'_>) -> KernelResult {
        let (x, start) = (call.input::<T>(0)?, call.input::<T>(1)?);
        let n = width(&x.shape).max(1);
        if let Some(y) = call.output::<T>(0)? {
            let rows = x.elements.chunks(n).zip(start.elements);
            for ((x, start), y) in rows.zip(y.elements.chunks_mut(n)) {
                let mut sum = start.number();
                for (x, y) in x.iter().zip(y) {
                    sum += x.number();
                    *y = T::of_number(sum);
                }
            }
        }
        Ok(())
    }
    by_dtype!(call, of)
}

/// Each row in ascending order.
fn sorted(call: &mut Call<'_>) -> KernelResult {
    fn of<T: Number>(call: &mut Call<'_>) -> KernelResult {
        let x = call.input::<T>(0)?;
        if let Some(y) = call.output::<T>(0)? {
            y.elements.copy_from_slice(x.elements);
            for row in y.elements.chunks_mut(width(&y.shape).max(1)) {
                row.sort_by(|a, b| a.number().total_cmp(&b.number()));
            }
        }
        Ok(())
    }
    by_dtype!(call, of)
}

/// One behind the other.
fn joined(call: &mut Call<'_>) -> KernelResult {
    let (x, y) = (call.input::<f32>(0)?, call.input::<f32>(1)?);
    if let Some(z) = call.output::<f32>(0)? {
        z.elements
            .copy_from_slice(&[x.elements, y.elements].concat());
    }
    Ok(())
}

/// The transpose.
fn turned(call: &mut Call<'_>) -> KernelResult {
    let x = call.input::<i64>(0)?;
    let (n, m) = (x.shape[0], x.shape[1]);
    if let Some(y) = call.output::<i64>(0)? {
        for (at, y) in y.elements.iter_mut().enumerate() {
            *y = x.elements[at % n * m + at / n];
        }
    }
    Ok(())
}

/// The sum of each row, and what it is without each of its elements.
fn totals(call: &mut Call<'_>) -> KernelResult {
    let x = call.input::<f64>(0)?;
    let (n, m) = (x.shape[0], x.shape[1]);
    let total = |row: usize| x.elements[row * m..(row + 1) * m].iter().sum::<f64>();
    if let Some(y) = call.output::<f64>(0)? {
        for (row, y) in y.elements.iter_mut().enumerate() {
            *y = total(row);
        }
    }
    if let Some(y) = call.output::<f64>(1)? {
        for (at, y) in y.elements.iter_mut().enumerate() {
            *y = total(at % n) - x.elements[at % n * m + at / n];
        }
    }
    Ok(())
}

/// Each element by a factor.
fn scaled(call: &mut Call<'_>) -> KernelResult {
    fn of<T: Number>(call: &mut Call<'_>) -> KernelResult {
        let (x, by) = (call.input::<T>(0)?, call.input::<T>(1)?);
        let by = by.elements[0].number();
        if let Some(y) = call.output::<T>(0)? {
            for (x, y) in x.elements.iter().zip(y.elements.iter_mut()) {
                *y = T::of_number(x.number() * by);
            }
        }
        Ok(())
    }
    by_dtype!(call, of)
}
