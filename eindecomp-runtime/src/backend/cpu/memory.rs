//! Runs of elements between windows and registers: the only code that touches tensor memory.
#![expect(
    unsafe_code,
    reason = "elements are read and written through raw pointers"
)]

use eindecomp_core::ein::DType;
use half::{bf16, f16};

use super::exec::Lane;
use super::nest::Chunk;
use crate::view::{View, ViewMut};

/// Reads `dst.len()` elements from element `at` of a window on, `step` apart.
///
/// # Safety
/// They are elements of the window.
#[inline(always)]
pub(super) unsafe fn read<T: Lane>(view: &View, at: i64, step: i64, dst: &mut [T]) {
    // SAFETY: passed on to the caller.
    unsafe {
        let ptr = view.ptr();
        match view.dtype() {
            DType::F64 => read_as::<f64, T>(ptr, at, step, dst, T::from_f64),
            DType::F32 => read_as::<f32, T>(ptr, at, step, dst, T::from_f32),
            DType::BF16 => read_as::<bf16, T>(ptr, at, step, dst, |x| {
                T::from_f32(f32::from_bits(u32::from(x.to_bits()) << 16))
            }),
            DType::F16 => read_as::<f16, T>(ptr, at, step, dst, |x| T::from_f32(x.to_f32())),
            DType::I64 => read_as::<i64, T>(ptr, at, step, dst, T::from_i64),
            DType::I32 => read_as::<i32, T>(ptr, at, step, dst, |x| T::from_i64(x.into())),
            DType::U32 => read_as::<u32, T>(ptr, at, step, dst, |x| T::from_i64(x.into())),
            DType::U8 => read_as::<u8, T>(ptr, at, step, dst, |x| T::from_i64(x.into())),
            DType::Bool => read_as::<u8, T>(ptr, at, step, dst, |x| T::from_i64((x != 0).into())),
        }
    }
}

/// # Safety
/// As [`read`]; the elements are `S`.
#[inline(always)]
unsafe fn read_as<S: Copy, T: Copy>(
    ptr: *const u8,
    at: i64,
    step: i64,
    dst: &mut [T],
    convert: impl Fn(S) -> T,
) {
    // SAFETY: passed on to the caller; only offsets `at + i·step` with `i < dst.len()` are read.
    unsafe {
        let src = ptr.cast::<S>();
        if dst.is_empty() {
            return;
        }
        let src = src.offset(at as isize);
        match step {
            0 => dst.fill(convert(*src)),
            1 => {
                for (i, d) in dst.iter_mut().enumerate() {
                    *d = convert(*src.add(i));
                }
            }
            _ => {
                for (i, d) in dst.iter_mut().enumerate() {
                    *d = convert(*src.offset(i as isize * step as isize));
                }
            }
        }
    }
}

/// Writes `src` from element `at` of a window on, `step` apart.
///
/// # Safety
/// They are elements of the window, in a box that the caller may write.
#[inline(always)]
pub(super) unsafe fn write<T: Lane>(view: &ViewMut, at: i64, step: i64, src: &[T]) {
    // SAFETY: passed on to the caller.
    unsafe {
        let ptr = view.ptr();
        match view.dtype() {
            DType::F64 => write_as(ptr, at, step, src, T::to_f64),
            DType::F32 => write_as(ptr, at, step, src, T::to_f32),
            DType::BF16 => write_as(ptr, at, step, src, T::to_bf16),
            DType::F16 => write_as(ptr, at, step, src, T::to_f16),
            DType::I64 => write_as(ptr, at, step, src, T::to_i64),
            DType::I32 => write_as(ptr, at, step, src, |x| x.to_i64() as i32),
            DType::U32 => write_as(ptr, at, step, src, |x| x.to_i64() as u32),
            DType::U8 => write_as(ptr, at, step, src, |x| x.to_i64() as u8),
            DType::Bool => write_as(ptr, at, step, src, |x| u8::from(x.to_i64() != 0)),
        }
    }
}

/// # Safety
/// As [`write`]; the elements are `D`.
#[inline(always)]
unsafe fn write_as<T: Copy, D>(
    ptr: *mut u8,
    at: i64,
    step: i64,
    src: &[T],
    convert: impl Fn(T) -> D,
) {
    if src.is_empty() {
        return;
    }
    // SAFETY: passed on to the caller; only offsets `at + i·step` with `i < src.len()` are written.
    unsafe {
        let dst = ptr.cast::<D>().offset(at as isize);
        if step == 1 {
            for (i, &s) in src.iter().enumerate() {
                dst.add(i).write(convert(s));
            }
        } else {
            for (i, &s) in src.iter().enumerate() {
                dst.offset(i as isize * step as isize).write(convert(s));
            }
        }
    }
}

/// Writes a chunk's values along walk `walk` of its nest.
///
/// # Safety
/// As [`write`], for every point of the chunk.
#[inline(always)]
pub(super) unsafe fn write_chunk<T: Lane>(
    view: &ViewMut,
    chunk: &Chunk,
    walk: usize,
    start: i64,
    step: i64,
    values: &[T],
) {
    for (run, &(lane, len)) in chunk.runs.iter().enumerate() {
        // SAFETY: passed on to the caller.
        unsafe {
            write(
                view,
                start + chunk.offset(run, walk),
                step,
                &values[lane..lane + len],
            );
        }
    }
}
