//! The scalar functions over registers, one tight loop each.
//!
//! A function without a loop of its own here runs through its row of the table, so that a new
//! row works without a change to this file.

use eindecomp_core::ein::ScalarFn;

use super::exec::Lane;
use super::math;
use super::nest::LANES;
use crate::backend::program::Reg;

#[inline(always)]
pub(super) fn unary<T: Copy>(file: &mut [T], a: Reg, dst: Reg, n: usize, f: impl Fn(T) -> T) {
    let (before, out) = file.split_at_mut(dst.at * LANES);
    let a = &before[a.at * LANES..][..n];
    for (d, &x) in out[..n].iter_mut().zip(a) {
        *d = f(x);
    }
}

#[inline(always)]
fn binary<T: Copy>(file: &mut [T], args: &[Reg], dst: Reg, n: usize, f: impl Fn(T, T) -> T) {
    let (before, out) = file.split_at_mut(dst.at * LANES);
    let a = &before[args[0].at * LANES..][..n];
    let b = &before[args[1].at * LANES..][..n];
    for ((d, &x), &y) in out[..n].iter_mut().zip(a).zip(b) {
        *d = f(x, y);
    }
}

#[inline(always)]
fn ternary<T: Copy>(file: &mut [T], args: &[Reg], dst: Reg, n: usize, f: impl Fn(T, T, T) -> T) {
    let (before, out) = file.split_at_mut(dst.at * LANES);
    let a = &before[args[0].at * LANES..][..n];
    let b = &before[args[1].at * LANES..][..n];
    let c = &before[args[2].at * LANES..][..n];
    for (((d, &x), &y), &z) in out[..n].iter_mut().zip(a).zip(b).zip(c) {
        *d = f(x, y, z);
    }
}

#[inline(always)]
pub(super) fn select<T: Copy>(
    file: &mut [T],
    bools: &[u8],
    cond: Reg,
    yes: Reg,
    no: Reg,
    dst: Reg,
    n: usize,
) {
    let cond = &bools[cond.at * LANES..][..n];
    let (before, out) = file.split_at_mut(dst.at * LANES);
    let yes = &before[yes.at * LANES..][..n];
    let no = &before[no.at * LANES..][..n];
    for (((d, &c), &y), &z) in out[..n].iter_mut().zip(cond).zip(yes).zip(no) {
        *d = if c != 0 { y } else { z };
    }
}

/// Through the table's row, lane by lane.
fn by_row<T: Copy, W: Copy + Default>(
    file: &mut [T],
    f: fn(&[W]) -> W,
    args: &[Reg],
    dst: Reg,
    n: usize,
    widen: impl Fn(T) -> W,
    narrow: impl Fn(W) -> T,
) {
    let mut row = [W::default(); 3];
    for i in 0..n {
        for (x, a) in row.iter_mut().zip(args) {
            *x = widen(file[a.at * LANES + i]);
        }
        file[dst.at * LANES + i] = narrow(f(&row[..args.len()]));
    }
}

#[inline(always)]
pub(super) fn f32<const FMA: bool>(
    file: &mut [f32],
    f: ScalarFn,
    args: &[Reg],
    dst: Reg,
    n: usize,
) {
    macro_rules! one {
        ($f:expr) => {
            unary(file, args[0], dst, n, $f)
        };
    }
    macro_rules! two {
        ($f:expr) => {
            binary(file, args, dst, n, $f)
        };
    }
    match f {
        ScalarFn::ADD => two!(|x, y| x + y),
        ScalarFn::SUB => two!(|x, y| x - y),
        ScalarFn::MUL => two!(|x, y| x * y),
        ScalarFn::DIV => two!(|x, y| x / y),
        ScalarFn::MAX => two!(math::max),
        ScalarFn::MIN => two!(math::min),
        ScalarFn::NEG => one!(|x: f32| -x),
        ScalarFn::ABS => one!(f32::abs),
        ScalarFn::SQ => one!(|x| x * x),
        ScalarFn::SQRT => one!(f32::sqrt),
        ScalarFn::RSQRT => one!(|x: f32| 1.0 / x.sqrt()),
        ScalarFn::RECIP => one!(|x: f32| 1.0 / x),
        ScalarFn::RELU => one!(|x| math::max(x, 0.0)),
        ScalarFn::FLOOR => one!(f32::floor),
        ScalarFn::CEIL => one!(f32::ceil),
        ScalarFn::ROUND => one!(f32::round_ties_even),
        ScalarFn::EXP => one!(math::exp::<FMA>),
        ScalarFn::LOG => one!(math::ln::<FMA>),
        ScalarFn::LOG1P => one!(math::ln_1p::<FMA>),
        ScalarFn::TANH => one!(math::tanh::<FMA>),
        ScalarFn::ERF => one!(math::erf::<FMA>),
        ScalarFn::SIGMOID => one!(math::sigmoid::<FMA>),
        ScalarFn::SOFTPLUS => one!(math::softplus::<FMA>),
        ScalarFn::SILU => one!(|x| x * math::sigmoid::<FMA>(x)),
        ScalarFn::GELU => one!(math::gelu::<FMA>),
        ScalarFn::GELU_TANH => one!(math::gelu_tanh::<FMA>),
        ScalarFn::CLAMP => {
            ternary(file, args, dst, n, |x, y, z| math::min(math::max(x, y), z));
        }
        _ => {
            if let Some(row) = f.row().float {
                by_row(file, row, args, dst, n, f64::from, |x| x as f32);
            }
        }
    }
}

#[inline(always)]
pub(super) fn f64(file: &mut [f64], f: ScalarFn, args: &[Reg], dst: Reg, n: usize) {
    macro_rules! two {
        ($f:expr) => {
            binary(file, args, dst, n, $f)
        };
    }
    match f {
        ScalarFn::ADD => two!(|x, y| x + y),
        ScalarFn::SUB => two!(|x, y| x - y),
        ScalarFn::MUL => two!(|x, y| x * y),
        ScalarFn::DIV => two!(|x, y| x / y),
        ScalarFn::MAX => two!(math::max),
        ScalarFn::MIN => two!(math::min),
        ScalarFn::NEG => unary(file, args[0], dst, n, |x: f64| -x),
        ScalarFn::SQ => unary(file, args[0], dst, n, |x| x * x),
        ScalarFn::SQRT => unary(file, args[0], dst, n, f64::sqrt),
        _ => {
            if let Some(row) = f.row().float {
                by_row(file, row, args, dst, n, |x| x, |x| x);
            }
        }
    }
}

#[inline(always)]
pub(super) fn i64(file: &mut [i64], f: ScalarFn, args: &[Reg], dst: Reg, n: usize) {
    match f {
        ScalarFn::ADD => binary(file, args, dst, n, i64::wrapping_add),
        ScalarFn::SUB => binary(file, args, dst, n, i64::wrapping_sub),
        ScalarFn::MUL => binary(file, args, dst, n, i64::wrapping_mul),
        _ => {
            if let Some(row) = f.row().int {
                by_row(file, row, args, dst, n, |x| x, |x| x);
            }
        }
    }
}

/// Functions of numbers with a bool as result.
#[inline(always)]
pub(super) fn compare<T: Lane>(
    file: &[T],
    bools: &mut [u8],
    f: ScalarFn,
    args: &[Reg],
    dst: Reg,
    n: usize,
) {
    let a = &file[args[0].at * LANES..][..n];
    let b = &file[args[args.len() - 1].at * LANES..][..n];
    let out = &mut bools[dst.at * LANES..][..n];
    macro_rules! each {
        ($f:expr) => {{
            let f = $f;
            for ((d, x), y) in out.iter_mut().zip(a).zip(b) {
                *d = u8::from(f(x, y));
            }
        }};
    }
    match f {
        ScalarFn::EQ => each!(|x: &T, y: &T| x == y),
        ScalarFn::LT => each!(|x: &T, y: &T| x < y),
        ScalarFn::LE => each!(|x: &T, y: &T| x <= y),
        ScalarFn::GT => each!(|x: &T, y: &T| x > y),
        ScalarFn::GE => each!(|x: &T, y: &T| x >= y),
        // `is_nan` has its one argument on both sides.
        ScalarFn::NE | ScalarFn::IS_NAN => each!(|x: &T, y: &T| x != y),
        _ => {
            if let Some(row) = f.row().float {
                each!(|x: &T, y: &T| row(&[x.to_f64(), y.to_f64()][..args.len()]) != 0.0);
            }
        }
    }
}

#[inline(always)]
pub(super) fn bool(file: &mut [u8], f: ScalarFn, args: &[Reg], dst: Reg, n: usize) {
    match f {
        ScalarFn::AND => binary(file, args, dst, n, |x, y| x & y),
        ScalarFn::OR => binary(file, args, dst, n, |x, y| x | y),
        ScalarFn::NOT => unary(file, args[0], dst, n, |x| x ^ 1),
        _ => {
            if let Some(row) = f.row().int {
                by_row(file, row, args, dst, n, i64::from, |x| u8::from(x != 0));
            }
        }
    }
}
