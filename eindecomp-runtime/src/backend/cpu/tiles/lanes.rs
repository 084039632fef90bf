//! Vectors of one instruction set each, as registers of the micro-kernels.

/// A register of floats.
///
/// # Safety
/// Methods may be called only where the machine has the instruction set: the micro-kernels are
/// chosen after asking for it.
pub(super) unsafe trait Lanes<T>: Copy {
    const LANES: usize;
    /// All lanes alike.
    unsafe fn splat(x: T) -> Self;
    /// `LANES` elements from an address.
    unsafe fn load(from: *const T) -> Self;
    /// `LANES` elements to an address.
    unsafe fn store(self, to: *mut T);
    unsafe fn add(self, b: Self) -> Self;
    unsafe fn sub(self, b: Self) -> Self;
    unsafe fn mul(self, b: Self) -> Self;
    /// `self · b + c`, rounded once where the instruction set can.
    unsafe fn mul_add(self, b: Self, c: Self) -> Self;
    unsafe fn abs(self) -> Self;
    /// The larger; `b` if one is NaN.
    unsafe fn max(self, b: Self) -> Self;
    /// The smaller; `b` if one is NaN.
    unsafe fn min(self, b: Self) -> Self;
    /// `other` where this is NaN, `otherwise` elsewhere.
    unsafe fn where_nan(self, other: Self, otherwise: Self) -> Self;
    /// Has the caches fetch what is at an address, which need not be there.
    unsafe fn prefetch(at: *const T);
    /// The same, but for the first-level cache.
    unsafe fn prefetch_second(at: *const T);
    /// The first `LANES` registers, as the rows of a square, become its columns.
    unsafe fn transpose(square: &mut [Self; 16]);
}

/// A register whose lanes have an exponential.
///
/// # Safety
/// As of [`Lanes`].
pub(super) unsafe trait Exponential<T>: Lanes<T> {
    /// e^x of x ≤ 0 or NaN, within (2 + |x|) · 2^-24 of it, relative.
    unsafe fn exp(self) -> Self;
}

/// Lane by lane.
macro_rules! lanewise_exp {
    ($name:ty, $t:ident, $lanes:literal, $exp:expr) => {
        // SAFETY: as of its `Lanes`.
        unsafe impl Exponential<$t> for $name {
            #[inline(always)]
            unsafe fn exp(self) -> Self {
                let mut lanes = [0.0; $lanes];
                // SAFETY: there is room for all lanes.
                unsafe {
                    self.store(lanes.as_mut_ptr());
                    Self::load(lanes.map($exp).as_ptr())
                }
            }
        }
    };
}

/// One implementation of the trait by intrinsics.
#[cfg(target_arch = "x86_64")]
macro_rules! intrinsics {
    ($name:ident, $t:ident, $register:ident, $lanes:literal,
     $splat:ident, $load:ident, $store:ident, $add:ident, $sub:ident, $mul:ident, $fma:ident, $max:ident, $min:ident,
     |$x:ident| $abs:expr, |$of:ident, $other:ident, $else:ident| $where_nan:expr, $transpose:ident) => {
        #[derive(Clone, Copy)]
        pub(in crate::backend::cpu::tiles) struct $name($register);

        // SAFETY: each method is one or a few instructions of the set that its caller asked for.
        unsafe impl Lanes<$t> for $name {
            const LANES: usize = $lanes;
            #[inline(always)]
            unsafe fn splat(x: $t) -> Self {
                unsafe { $name($splat(x)) }
            }
            #[inline(always)]
            unsafe fn load(from: *const $t) -> Self {
                unsafe { $name($load(from)) }
            }
            #[inline(always)]
            unsafe fn store(self, to: *mut $t) {
                unsafe { $store(to, self.0) }
            }
            #[inline(always)]
            unsafe fn add(self, b: Self) -> Self {
                unsafe { $name($add(self.0, b.0)) }
            }
            #[inline(always)]
            unsafe fn sub(self, b: Self) -> Self {
                unsafe { $name($sub(self.0, b.0)) }
            }
            #[inline(always)]
            unsafe fn mul(self, b: Self) -> Self {
                unsafe { $name($mul(self.0, b.0)) }
            }
            #[inline(always)]
            unsafe fn mul_add(self, b: Self, c: Self) -> Self {
                unsafe { $name($fma(self.0, b.0, c.0)) }
            }
            #[inline(always)]
            unsafe fn abs(self) -> Self {
                let $x = self.0;
                unsafe { $name($abs) }
            }
            #[inline(always)]
            unsafe fn max(self, b: Self) -> Self {
                unsafe { $name($max(self.0, b.0)) }
            }
            #[inline(always)]
            unsafe fn min(self, b: Self) -> Self {
                unsafe { $name($min(self.0, b.0)) }
            }
            #[inline(always)]
            unsafe fn where_nan(self, other: Self, otherwise: Self) -> Self {
                let ($of, $other, $else) = (self.0, other.0, otherwise.0);
                unsafe { $name($where_nan) }
            }
            #[inline(always)]
            unsafe fn prefetch(at: *const $t) {
                unsafe { _mm_prefetch::<_MM_HINT_T0>(at.cast()) }
            }
            #[inline(always)]
            unsafe fn prefetch_second(at: *const $t) {
                unsafe { _mm_prefetch::<_MM_HINT_T1>(at.cast()) }
            }
            #[inline(always)]
            unsafe fn transpose(square: &mut [Self; 16]) {
                unsafe { $transpose(square) }
            }
        }
    };
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use std::arch::x86_64::*;

    use super::{Exponential, Lanes};

    // SAFETY: as of its `Lanes`.
    unsafe impl Exponential<f32> for F32x16 {
        /// 2^t, t = x · log₂ e: two instructions take t apart and scale by 2^n. The polynomial is that
        /// of Cephes' `exp2f`.
        #[inline(always)]
        unsafe fn exp(self) -> Self {
            const EXP2: [f32; 7] = [
                1.535_336_2e-4,
                1.339_887_4e-3,
                9.618_437e-3,
                5.550_332_5e-2,
                2.402_264_8e-1,
                6.931_472e-1,
                1.0,
            ];
            // SAFETY: the caller's.
            unsafe {
                let t = self.mul(Self::splat(std::f32::consts::LOG2_E));
                let r = F32x16(_mm512_reduce_ps::<0>(t.0));
                let mut p = Self::splat(EXP2[0]);
                for &c in &EXP2[1..] {
                    p = p.mul_add(r, Self::splat(c));
                }
                F32x16(_mm512_scalef_ps(p.0, t.sub(r).0))
            }
        }
    }

    // SAFETY: as of its `Lanes`.
    unsafe impl Exponential<f32> for F32x8 {
        /// The steps of `math::exp`.
        #[inline(always)]
        unsafe fn exp(self) -> Self {
            use crate::backend::cpu::math::{EXP, EXP_LOWEST, LN2_HIGH, LN2_LOW, ROUND};
            // SAFETY: the caller's; AVX2 has the integer instructions.
            unsafe {
                let x = Self::splat(EXP_LOWEST).max(self);
                let round = Self::splat(ROUND);
                let n = x
                    .mul_add(Self::splat(std::f32::consts::LOG2_E), round)
                    .sub(round);
                let r = n.mul_add(Self::splat(-LN2_HIGH), x);
                let r = n.mul_add(Self::splat(-LN2_LOW), r);
                let mut p = Self::splat(EXP[0]);
                for &c in &EXP[1..] {
                    p = p.mul_add(r, Self::splat(c));
                }
                let y = p.mul(r).mul_add(r, r).add(Self::splat(1.0));
                // 2^n in two factors, since 2^-150 is no normal number.
                let n = _mm256_cvtps_epi32(n.0);
                let half = _mm256_srai_epi32::<1>(n);
                let power = |n| {
                    let biased = _mm256_add_epi32(n, _mm256_set1_epi32(127));
                    F32x8(_mm256_castsi256_ps(_mm256_slli_epi32::<23>(biased)))
                };
                y.mul(power(half)).mul(power(_mm256_sub_epi32(n, half)))
            }
        }
    }

    /// Rows of a square to its columns: each step takes the rows whose numbers differ by a distance, two
    /// by two. `|c|`: where column `c` is after all steps.
    macro_rules! transposition {
        ($name:ident, $register:ident, $lanes:literal, |$c:ident| $from:expr,
         $($distance:literal: |$a:ident, $b:ident| $low:expr, $high:expr;)*) => {
            #[inline(always)]
            unsafe fn $name(square: &mut [$register; 16]) {
                $(
                    for at in 0..$lanes {
                        if at & $distance == 0 {
                            let ($a, $b) = (square[at].0, square[at + $distance].0);
                            // SAFETY: the caller's.
                            unsafe { (square[at].0, square[at + $distance].0) = ($low, $high) };
                        }
                    }
                )*
                let rows = *square;
                for $c in 0..$lanes {
                    square[$c] = rows[$from];
                }
            }
        };
    }

    /// A 64-bit unpacking of singles.
    macro_rules! pairs {
        ($unpack:ident, $to:ident, $from:ident, $a:ident, $b:ident) => {
            $from($unpack($to($a), $to($b)))
        };
    }

    transposition!(transpose_16_f32, F32x16, 16, |c| c & 12 | (c & 1) << 1 | (c & 2) >> 1,
        1: |a, b| _mm512_unpacklo_ps(a, b), _mm512_unpackhi_ps(a, b);
        2: |a, b| pairs!(_mm512_unpacklo_pd, _mm512_castps_pd, _mm512_castpd_ps, a, b),
            pairs!(_mm512_unpackhi_pd, _mm512_castps_pd, _mm512_castpd_ps, a, b);
        4: |a, b| _mm512_shuffle_f32x4::<0x88>(a, b), _mm512_shuffle_f32x4::<0xdd>(a, b);
        8: |a, b| _mm512_shuffle_f32x4::<0x88>(a, b), _mm512_shuffle_f32x4::<0xdd>(a, b););
    transposition!(transpose_8_f32, F32x8, 8, |c| c & 4 | (c & 1) << 1 | (c & 2) >> 1,
        1: |a, b| _mm256_unpacklo_ps(a, b), _mm256_unpackhi_ps(a, b);
        2: |a, b| pairs!(_mm256_unpacklo_pd, _mm256_castps_pd, _mm256_castpd_ps, a, b),
            pairs!(_mm256_unpackhi_pd, _mm256_castps_pd, _mm256_castpd_ps, a, b);
        4: |a, b| _mm256_permute2f128_ps::<0x20>(a, b), _mm256_permute2f128_ps::<0x31>(a, b););
    transposition!(transpose_8_f64, F64x8, 8, |c| c,
        1: |a, b| _mm512_unpacklo_pd(a, b), _mm512_unpackhi_pd(a, b);
        2: |a, b| _mm512_shuffle_f64x2::<0x88>(a, b), _mm512_shuffle_f64x2::<0xdd>(a, b);
        4: |a, b| _mm512_shuffle_f64x2::<0x88>(a, b), _mm512_shuffle_f64x2::<0xdd>(a, b););
    transposition!(transpose_4_f64, F64x4, 4, |c| c,
        1: |a, b| _mm256_unpacklo_pd(a, b), _mm256_unpackhi_pd(a, b);
        2: |a, b| _mm256_permute2f128_pd::<0x20>(a, b), _mm256_permute2f128_pd::<0x31>(a, b););

    lanewise_exp!(F64x8, f64, 8, f64::exp);
    lanewise_exp!(F64x4, f64, 4, f64::exp);

    intrinsics!(
        F32x16,
        f32,
        __m512,
        16,
        _mm512_set1_ps,
        _mm512_loadu_ps,
        _mm512_storeu_ps,
        _mm512_add_ps,
        _mm512_sub_ps,
        _mm512_mul_ps,
        _mm512_fmadd_ps,
        _mm512_max_ps,
        _mm512_min_ps,
        |x| _mm512_abs_ps(x),
        |of, other, otherwise| _mm512_mask_mov_ps(
            otherwise,
            _mm512_cmp_ps_mask::<_CMP_UNORD_Q>(of, of),
            other
        ),
        transpose_16_f32
    );
    intrinsics!(
        F64x8,
        f64,
        __m512d,
        8,
        _mm512_set1_pd,
        _mm512_loadu_pd,
        _mm512_storeu_pd,
        _mm512_add_pd,
        _mm512_sub_pd,
        _mm512_mul_pd,
        _mm512_fmadd_pd,
        _mm512_max_pd,
        _mm512_min_pd,
        |x| _mm512_abs_pd(x),
        |of, other, otherwise| _mm512_mask_mov_pd(
            otherwise,
            _mm512_cmp_pd_mask::<_CMP_UNORD_Q>(of, of),
            other
        ),
        transpose_8_f64
    );
    intrinsics!(
        F32x8,
        f32,
        __m256,
        8,
        _mm256_set1_ps,
        _mm256_loadu_ps,
        _mm256_storeu_ps,
        _mm256_add_ps,
        _mm256_sub_ps,
        _mm256_mul_ps,
        _mm256_fmadd_ps,
        _mm256_max_ps,
        _mm256_min_ps,
        |x| _mm256_andnot_ps(_mm256_set1_ps(-0.0), x),
        |of, other, otherwise| _mm256_blendv_ps(
            otherwise,
            other,
            _mm256_cmp_ps::<_CMP_UNORD_Q>(of, of)
        ),
        transpose_8_f32
    );
    intrinsics!(
        F64x4,
        f64,
        __m256d,
        4,
        _mm256_set1_pd,
        _mm256_loadu_pd,
        _mm256_storeu_pd,
        _mm256_add_pd,
        _mm256_sub_pd,
        _mm256_mul_pd,
        _mm256_fmadd_pd,
        _mm256_max_pd,
        _mm256_min_pd,
        |x| _mm256_andnot_pd(_mm256_set1_pd(-0.0), x),
        |of, other, otherwise| _mm256_blendv_pd(
            otherwise,
            other,
            _mm256_cmp_pd::<_CMP_UNORD_Q>(of, of)
        ),
        transpose_4_f64
    );
}
#[cfg(target_arch = "x86_64")]
pub(super) use x86::{F32x8, F32x16, F64x4, F64x8};

/// For any machine: loops over few elements, which the compiler turns into its registers.
#[derive(Clone, Copy)]
pub(super) struct Portable<T>([T; 4]);

macro_rules! portable {
    ($t:ident) => {
        // SAFETY: nothing here needs an instruction set.
        unsafe impl Lanes<$t> for Portable<$t> {
            const LANES: usize = 4;
            #[inline(always)]
            unsafe fn splat(x: $t) -> Self {
                Portable([x; 4])
            }
            #[inline(always)]
            unsafe fn load(from: *const $t) -> Self {
                // SAFETY: the caller's.
                unsafe { Portable(from.cast::<[$t; 4]>().read_unaligned()) }
            }
            #[inline(always)]
            unsafe fn store(self, to: *mut $t) {
                // SAFETY: the caller's.
                unsafe { to.cast::<[$t; 4]>().write_unaligned(self.0) }
            }
            #[inline(always)]
            unsafe fn add(self, b: Self) -> Self {
                Portable(std::array::from_fn(|i| self.0[i] + b.0[i]))
            }
            #[inline(always)]
            unsafe fn sub(self, b: Self) -> Self {
                Portable(std::array::from_fn(|i| self.0[i] - b.0[i]))
            }
            #[inline(always)]
            unsafe fn mul(self, b: Self) -> Self {
                Portable(std::array::from_fn(|i| self.0[i] * b.0[i]))
            }
            #[inline(always)]
            unsafe fn mul_add(self, b: Self, c: Self) -> Self {
                // Everywhere else a fused one would be a call.
                if cfg!(target_arch = "aarch64") {
                    Portable(std::array::from_fn(|i| self.0[i].mul_add(b.0[i], c.0[i])))
                } else {
                    Portable(std::array::from_fn(|i| self.0[i] * b.0[i] + c.0[i]))
                }
            }
            #[inline(always)]
            unsafe fn abs(self) -> Self {
                Portable(self.0.map($t::abs))
            }
            #[inline(always)]
            unsafe fn max(self, b: Self) -> Self {
                Portable(std::array::from_fn(|i| {
                    if self.0[i] > b.0[i] {
                        self.0[i]
                    } else {
                        b.0[i]
                    }
                }))
            }
            #[inline(always)]
            unsafe fn min(self, b: Self) -> Self {
                Portable(std::array::from_fn(|i| {
                    if self.0[i] < b.0[i] {
                        self.0[i]
                    } else {
                        b.0[i]
                    }
                }))
            }
            #[inline(always)]
            unsafe fn prefetch(_: *const $t) {}
            #[inline(always)]
            unsafe fn prefetch_second(_: *const $t) {}
            #[inline(always)]
            unsafe fn transpose(square: &mut [Self; 16]) {
                let rows = *square;
                for (i, column) in square[..4].iter_mut().enumerate() {
                    column.0 = std::array::from_fn(|j| rows[j].0[i]);
                }
            }
            #[inline(always)]
            unsafe fn where_nan(self, other: Self, otherwise: Self) -> Self {
                let of = |i: usize| {
                    if self.0[i].is_nan() {
                        other.0[i]
                    } else {
                        otherwise.0[i]
                    }
                };
                Portable(std::array::from_fn(of))
            }
        }
    };
}
portable!(f32);
portable!(f64);
lanewise_exp!(
    Portable<f32>,
    f32,
    4,
    crate::backend::cpu::math::exp::<false>
);
lanewise_exp!(Portable<f64>, f64, 4, f64::exp);
