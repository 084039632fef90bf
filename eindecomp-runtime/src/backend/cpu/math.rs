//! f32 functions as straight-line code that vectorises.
//!
//! Bounds are checked against the table's f64 values in `tests.rs`. `exp`, `ln` and `tanh` follow
//! Cephes (S. Moshier), `erf` the minimax fits of N. Juffa's single-precision `erff`.

/// `a·b + c`, fused where that is one instruction.
#[inline(always)]
fn fma<const FMA: bool>(a: f32, b: f32, c: f32) -> f32 {
    if FMA { a.mul_add(b, c) } else { a * b + c }
}

/// 1.5 · 2^23: adding it rounds to an integer, which is then in the low bits.
pub(super) const ROUND: f32 = 12_582_912.0;

/// ln 2 in two parts, the first so short that its products with exponents are exact.
pub(super) const LN2_HIGH: f32 = 355.0 / 512.0;
pub(super) const LN2_LOW: f32 = -2.121_944_4e-4;

/// Below, e^x is 0.
pub(super) const EXP_LOWEST: f32 = -105.0;
/// (e^r − 1 − r) / r² for |r| ≤ ln 2 / 2, highest power first.
pub(super) const EXP: [f32; 6] = [
    1.987_569_1e-4,
    1.398_2e-3,
    8.333_452e-3,
    4.166_579_6e-2,
    1.666_666_5e-1,
    5.000_000_3e-1,
];

#[inline(always)]
pub(super) fn exp<const FMA: bool>(x: f32) -> f32 {
    // Outside, the result is 0 or inf whatever x is; comparisons let NaN through.
    let x = if x > 90.0 { 90.0 } else { x };
    let x = if x < EXP_LOWEST { EXP_LOWEST } else { x };
    let shifted = fma::<FMA>(x, std::f32::consts::LOG2_E, ROUND);
    let n = shifted - ROUND;
    let r = fma::<FMA>(n, -LN2_HIGH, x);
    let r = fma::<FMA>(n, -LN2_LOW, r);
    let mut p = EXP[0];
    for &c in &EXP[1..] {
        p = fma::<FMA>(p, r, c);
    }
    let y = fma::<FMA>(p * r, r, r) + 1.0;
    // 2^n in two factors, since 2^128 and 2^-150 are no normal numbers.
    let n = (shifted.to_bits() as i32).wrapping_sub(ROUND.to_bits() as i32);
    let half = n >> 1;
    let power = |n: i32| f32::from_bits((n.wrapping_add(127) as u32) << 23);
    y * power(half) * power(n.wrapping_sub(half))
}

#[inline(always)]
pub(super) fn ln<const FMA: bool>(x: f32) -> f32 {
    let tiny = x < f32::MIN_POSITIVE;
    let scaled = if tiny { x * 8_388_608.0 } else { x };
    // x = m · 2^e with m in [√½, √2)
    let bits = scaled.to_bits().wrapping_sub(0x3f35_04f3);
    let e = (bits as i32 >> 23) as f32 - if tiny { 23.0 } else { 0.0 };
    let m = f32::from_bits((bits & 0x007f_ffff).wrapping_add(0x3f35_04f3)) - 1.0;
    let z = m * m;
    let mut p = 7.037_683_6e-2;
    for c in [
        -1.151_461e-1,
        1.167_699_9e-1,
        -1.242_014_1e-1,
        1.424_932_3e-1,
        -1.666_805_7e-1,
        2.000_071_5e-1,
        -2.499_999_4e-1,
        3.333_333e-1,
    ] {
        p = fma::<FMA>(p, m, c);
    }
    let y = fma::<FMA>(e, LN2_LOW, p * m * z);
    let y = fma::<FMA>(z, -0.5, y) + m;
    let y = fma::<FMA>(e, LN2_HIGH, y);
    let y = if x == f32::INFINITY { x } else { y };
    let y = if x == 0.0 { f32::NEG_INFINITY } else { y };
    if x < 0.0 || x.is_nan() { f32::NAN } else { y }
}

#[inline(always)]
pub(super) fn ln_1p<const FMA: bool>(x: f32) -> f32 {
    let w = 1.0 + x;
    // What 1 + x lost in rounding comes back as its first-order effect.
    let lost = (x - (w - 1.0)) / w;
    let y = ln::<FMA>(w) + if lost.is_finite() { lost } else { 0.0 };
    if w == 1.0 { x } else { y }
}

#[inline(always)]
pub(super) fn tanh<const FMA: bool>(x: f32) -> f32 {
    let z = x * x;
    let mut p = -5.704_988_7e-3;
    for c in [2.063_909e-2, -5.373_971_6e-2, 1.333_144_2e-1, -3.333_328e-1] {
        p = fma::<FMA>(p, z, c);
    }
    let small = fma::<FMA>(p * z, x, x);
    let large = 1.0 - 2.0 / (exp::<FMA>(2.0 * x.abs()) + 1.0);
    if x.abs() < 0.625 {
        small
    } else {
        large.copysign(x)
    }
}

/// Where erf goes from its own polynomial to 1 − exp of one.
const ERF_SPLIT: f32 = 0.927_734_4;

/// erf(x) for |x| ≤ [`ERF_SPLIT`].
#[inline(always)]
fn erf_small<const FMA: bool>(x: f32) -> f32 {
    let s = x * x;
    let mut p = -5.967_617e-4;
    for c in [
        4.991_194_2e-3,
        -2.676_813_5e-2,
        1.128_199_25e-1,
        -3.761_253_4e-1,
        1.283_791_7e-1,
    ] {
        p = fma::<FMA>(p, s, c);
    }
    fma::<FMA>(p, x, x)
}

/// 1 − erf(t) for t > [`ERF_SPLIT`].
#[inline(always)]
fn erfc_large<const FMA: bool>(t: f32) -> f32 {
    let s = t * t;
    let r = fma::<FMA>(-1.728_534_7e-5, t, 3.831_971_3e-4);
    let u = fma::<FMA>(-3.883_964_4e-3, t, 2.425_462_2e-2);
    let mut r = fma::<FMA>(r, s, u);
    for c in [-1.067_778_8e-1, -6.348_468_7e-1, -1.287_175_1e-1] {
        r = fma::<FMA>(r, t, c);
    }
    let y = exp::<FMA>(fma::<FMA>(r, t, -t));
    // The fit ends where f32 has no more digits of erfc to give to 1 + erf.
    if t > 10.0 { 0.0 } else { y }
}

#[inline(always)]
pub(super) fn erf<const FMA: bool>(x: f32) -> f32 {
    let t = x.abs();
    let large = (1.0 - erfc_large::<FMA>(t)).copysign(x);
    if t > ERF_SPLIT {
        large
    } else {
        erf_small::<FMA>(x)
    }
}

/// x·Φ(x), with Φ from erfc in the left tail, so that nothing cancels there.
#[inline(always)]
pub(super) fn gelu<const FMA: bool>(x: f32) -> f32 {
    let u = x * std::f32::consts::FRAC_1_SQRT_2;
    let tail = erfc_large::<FMA>(u.abs());
    let large = if u < 0.0 { tail } else { 2.0 - tail };
    let twice = if u.abs() > ERF_SPLIT {
        large
    } else {
        1.0 + erf_small::<FMA>(u)
    };
    0.5 * x * twice
}

#[inline(always)]
pub(super) fn gelu_tanh<const FMA: bool>(x: f32) -> f32 {
    let inner = 0.797_884_6 * fma::<FMA>(0.044_715 * x * x, x, x);
    // ½(1 + tanh u) = sigmoid(2u), without the cancellation of the left tail.
    x * sigmoid::<FMA>(2.0 * inner)
}

#[inline(always)]
pub(super) fn sigmoid<const FMA: bool>(x: f32) -> f32 {
    1.0 / (1.0 + exp::<FMA>(-x))
}

#[inline(always)]
pub(super) fn softplus<const FMA: bool>(x: f32) -> f32 {
    max(x, 0.0) + ln_1p::<FMA>(exp::<FMA>(-x.abs()))
}

#[inline(always)]
pub(super) fn max<T: PartialOrd + Copy>(a: T, b: T) -> T {
    #[expect(clippy::eq_op, reason = "only NaN differs from itself")]
    if a != a || a > b { a } else { b }
}

#[inline(always)]
pub(super) fn min<T: PartialOrd + Copy>(a: T, b: T) -> T {
    #[expect(clippy::eq_op, reason = "only NaN differs from itself")]
    if a != a || a < b { a } else { b }
}
