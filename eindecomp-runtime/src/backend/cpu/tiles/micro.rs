//! Micro-kernels: one register tile of C ⊕= A ⊗ B, for each pair of operators and instruction set.

use std::fmt;
use std::sync::LazyLock;

use super::Power;
use super::few::{self, Along, Strip, Strips};
use super::lanes::{Exponential, Lanes, Portable};
#[cfg(target_arch = "x86_64")]
use super::lanes::{F32x8, F32x16, F64x4, F64x8};
use super::pack::{self, Pack, Packing};
use crate::backend::cpu::math;
use crate::backend::cpu::reduce::Real;
use crate::backend::cpu::simd::{Loop, vectorised};

/// ⊗ of two floats.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) enum Times {
    Product,
    Sum,
    Difference,
    SquaredDifference,
    AbsoluteDifference,
}

/// ⊕ of floats.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) enum Plus {
    Sum,
    Max,
    Min,
}

impl fmt::Display for Times {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Times::Product => "a * b",
            Times::Sum => "a + b",
            Times::Difference => "a - b",
            Times::SquaredDifference => "sq(a - b)",
            Times::AbsoluteDifference => "abs(a - b)",
        })
    }
}

impl fmt::Display for Plus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Plus::Sum => "sum",
            Plus::Max => "max",
            Plus::Min => "min",
        })
    }
}

/// What a tile is computed from, and where it goes.
pub(in super::super) struct Tile<T> {
    pub(super) depth: usize,
    /// `depth` times the rows of a tile.
    pub(super) a: *const T,
    /// `depth` times the columns of a tile.
    pub(super) b: *const T,
    pub(super) c: *mut T,
    /// From row to row of C; its columns are neighbours.
    pub(super) stride: isize,
    /// C holds nothing yet.
    pub(super) first: bool,
    /// What will be read next, of which depth by depth so many elements are fetched; it need not be there.
    pub(super) ahead: *const T,
    pub(super) fetched: usize,
}

/// A micro-kernel.
#[derive(Clone, Copy)]
pub(in super::super) struct Micro<T> {
    pub(super) rows: usize,
    pub(super) columns: usize,
    /// # Safety
    /// The machine has the instruction set; `a`, `b` and `c` have the elements of a full tile.
    pub(super) run: unsafe fn(&Tile<T>),
}

/// Floats that have micro-kernels.
pub(in super::super) trait Element:
    bytemuck::Pod + Default + PartialOrd + From<f32>
{
    const ZERO: Self;
    fn is_finite(self) -> bool;
    fn is_nan(self) -> bool;
    /// The micro-kernel of an instruction set, which this machine has. `finite`: no operand has an
    /// infinity or NaN.
    fn micro(set: Set, times: Times, plus: Plus, finite: bool) -> Micro<Self>;
    /// The sums of exponentials on an instruction set, which this machine has.
    fn exponentials(set: Set, times: Times) -> Exponentials<Self>;
    /// Lanes of a register of an instruction set, which this machine has, and the steps of few rows
    /// times a matrix on it.
    fn strips(set: Set, along: Along) -> (usize, Strips<Self>);
    /// How panels are packed on an instruction set, which this machine has.
    fn pack(set: Set) -> Pack<Self>;
    /// a ⊕ b.
    fn combine(plus: Plus, a: Self, b: Self) -> Self;
    /// The sum, in a tree of halves.
    fn total(lanes: &mut [Self]) -> Self;
    /// Each element of panels becomes its power.
    fn raise(panels: &mut [Self], width: usize, power: Power<Self>);
    /// The largest of what `into` has and the elements, or their negatives, of each lane of panels.
    fn largest(panels: &[Self], width: usize, negated: bool, into: &mut [Self]);
    /// Each sum becomes its logarithm plus the number of `base` beside it.
    fn logarithms(base: &[Self], sums: &mut [Self]);
}

/// Adds e^(a ⊗ b − m) along the depth to a tile of sums, for the numbers m of a tile, where no
/// a ⊗ b is above its m.
///
/// # Safety
/// As of [`Micro::run`]; `m` has the elements of a full tile, dense, as `c` is.
pub(in super::super) type Exponentials<T> = unsafe fn(&Tile<T>, *const T);

/// Instruction sets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) enum Set {
    #[cfg(target_arch = "x86_64")]
    Avx512,
    #[cfg(target_arch = "x86_64")]
    Avx2,
    Portable,
}

impl Set {
    /// Those of this machine, best first.
    pub(super) fn all() -> Vec<Set> {
        let mut all = Vec::new();
        #[cfg(target_arch = "x86_64")]
        {
            use std::arch::is_x86_feature_detected as has;
            all.extend((has!("avx512f") && has!("avx512dq")).then_some(Set::Avx512));
            all.extend((has!("avx2") && has!("fma")).then_some(Set::Avx2));
        }
        all.push(Set::Portable);
        all
    }

    pub(in super::super) fn best() -> Set {
        static BEST: LazyLock<Set> = LazyLock::new(|| Set::all()[0]);
        *BEST
    }
}

/// ⊗ at compile time.
trait Multiply<T> {
    unsafe fn times<V: Lanes<T>>(a: V, b: V) -> V;
    /// acc + a ⊗ b.
    #[inline(always)]
    unsafe fn add_times<V: Lanes<T>>(acc: V, a: V, b: V) -> V {
        // SAFETY: the caller's.
        unsafe { acc.add(Self::times(a, b)) }
    }
}

/// ⊕ at compile time.
trait Fold<T> {
    const IDENTITY: f32;
    unsafe fn step<V: Lanes<T>, X: Multiply<T>>(acc: V, a: V, b: V) -> V;
    unsafe fn combine<V: Lanes<T>>(a: V, b: V) -> V;
}

struct Product;
struct Sum;
struct Difference;
struct SquaredDifference;
struct AbsoluteDifference;

impl<T> Multiply<T> for Product {
    #[inline(always)]
    unsafe fn times<V: Lanes<T>>(a: V, b: V) -> V {
        // SAFETY: the caller's, as in all that follow.
        unsafe { a.mul(b) }
    }
    #[inline(always)]
    unsafe fn add_times<V: Lanes<T>>(acc: V, a: V, b: V) -> V {
        unsafe { a.mul_add(b, acc) }
    }
}

impl<T> Multiply<T> for Sum {
    #[inline(always)]
    unsafe fn times<V: Lanes<T>>(a: V, b: V) -> V {
        unsafe { a.add(b) }
    }
}

impl<T> Multiply<T> for Difference {
    #[inline(always)]
    unsafe fn times<V: Lanes<T>>(a: V, b: V) -> V {
        unsafe { a.sub(b) }
    }
}

impl<T> Multiply<T> for SquaredDifference {
    #[inline(always)]
    unsafe fn times<V: Lanes<T>>(a: V, b: V) -> V {
        unsafe {
            let d = a.sub(b);
            d.mul(d)
        }
    }
    #[inline(always)]
    unsafe fn add_times<V: Lanes<T>>(acc: V, a: V, b: V) -> V {
        unsafe {
            let d = a.sub(b);
            d.mul_add(d, acc)
        }
    }
}

impl<T> Multiply<T> for AbsoluteDifference {
    #[inline(always)]
    unsafe fn times<V: Lanes<T>>(a: V, b: V) -> V {
        unsafe { a.sub(b).abs() }
    }
}

impl<T> Fold<T> for Sum {
    const IDENTITY: f32 = 0.0;
    #[inline(always)]
    unsafe fn step<V: Lanes<T>, X: Multiply<T>>(acc: V, a: V, b: V) -> V {
        unsafe { X::add_times(acc, a, b) }
    }
    #[inline(always)]
    unsafe fn combine<V: Lanes<T>>(a: V, b: V) -> V {
        unsafe { a.add(b) }
    }
}

/// Extrema. With `NAN`, a NaN stays; without, there is none.
struct Max<const NAN: bool>;
struct Min<const NAN: bool>;

macro_rules! extremum {
    ($name:ident, $method:ident, $identity:expr) => {
        impl<T, const NAN: bool> Fold<T> for $name<NAN> {
            const IDENTITY: f32 = $identity;
            #[inline(always)]
            unsafe fn step<V: Lanes<T>, X: Multiply<T>>(acc: V, a: V, b: V) -> V {
                unsafe { <Self as Fold<T>>::combine(acc, X::times(a, b)) }
            }
            #[inline(always)]
            unsafe fn combine<V: Lanes<T>>(a: V, b: V) -> V {
                unsafe {
                    let found = a.$method(b);
                    if NAN { a.where_nan(a, found) } else { found }
                }
            }
        }
    };
}
extremum!(Max, max, f32::NEG_INFINITY);
extremum!(Min, min, f32::INFINITY);

/// Depths of B that are fetched into the first-level cache ahead of their use.
const SOON: usize = 8;

/// The tile in registers: `ROWS` rows of `WIDTH` vectors.
#[inline(always)]
unsafe fn tile<T, V, X, P, const ROWS: usize, const WIDTH: usize>(t: &Tile<T>, identity: T)
where
    T: Copy,
    V: Lanes<T>,
    X: Multiply<T>,
    P: Fold<T>,
{
    // SAFETY: `a`, `b` and `c` have a full tile's elements, by the caller of `Micro::run`.
    unsafe {
        let mut acc = [[V::splat(identity); WIDTH]; ROWS];
        if !t.first {
            for i in 0..ROWS {
                for j in 0..WIDTH {
                    V::prefetch(
                        t.c.wrapping_offset(i as isize * t.stride)
                            .wrapping_add(j * V::LANES),
                    );
                }
            }
        }
        let (mut a, mut b, mut ahead) = (t.a, t.b, t.ahead);
        for _ in 0..t.depth {
            V::prefetch_second(ahead);
            ahead = ahead.wrapping_add(t.fetched);
            for j in 0..WIDTH {
                V::prefetch(b.wrapping_add((SOON * WIDTH + j) * V::LANES));
            }
            let right: [V; WIDTH] = std::array::from_fn(|j| V::load(b.add(j * V::LANES)));
            for (i, row) in acc.iter_mut().enumerate() {
                let left = V::splat(*a.add(i));
                for (x, &y) in row.iter_mut().zip(&right) {
                    *x = P::step::<V, X>(*x, left, y);
                }
            }
            (a, b) = (a.add(ROWS), b.add(WIDTH * V::LANES));
        }
        for (i, row) in acc.iter().enumerate() {
            for (j, &x) in row.iter().enumerate() {
                let to = t.c.offset(i as isize * t.stride).add(j * V::LANES);
                let x = if t.first {
                    x
                } else {
                    P::combine(V::load(to), x)
                };
                x.store(to);
            }
        }
    }
}

/// [`Exponentials`], one vector at a time: they are bound by arithmetic, not by loads.
#[inline(always)]
unsafe fn exponentials<T, V, X, const ROWS: usize, const WIDTH: usize>(t: &Tile<T>, m: *const T)
where
    T: Copy,
    V: Exponential<T>,
    X: Multiply<T>,
{
    for i in 0..ROWS {
        for j in 0..WIDTH {
            // SAFETY: all are elements of full tiles, by the caller.
            unsafe {
                let at = (i * WIDTH + j) * V::LANES;
                let m = V::load(m.add(at));
                let mut sum = V::load(t.c.add(at));
                for p in 0..t.depth {
                    let left = V::splat(*t.a.add(p * ROWS + i));
                    let right = V::load(t.b.add((p * WIDTH + j) * V::LANES));
                    sum = sum.add(X::times(left, right).sub(m).exp());
                }
                sum.store(t.c.add(at));
            }
        }
    }
}

/// Logarithms of sums.
struct Logarithms<'a, T> {
    base: &'a [T],
    sums: &'a mut [T],
}

impl<T: Real> Loop for Logarithms<'_, T> {
    type Output = ();
    #[inline(always)]
    fn run<const FMA: bool>(self) {
        for (sum, &base) in self.sums.iter_mut().zip(self.base) {
            *sum = base.add(sum.ln::<FMA>());
        }
    }
}

/// Powers in place.
struct Raise<'a, T> {
    panels: &'a mut [T],
    width: usize,
    power: Power<'a, T>,
}

impl<T: Real> Loop for Raise<'_, T> {
    type Output = ();
    #[inline(always)]
    fn run<const FMA: bool>(self) {
        let Power {
            relative_to,
            negated,
        } = self.power;
        let panel = self.panels.len() / relative_to.len().div_ceil(self.width).max(1);
        let panels = self.panels.chunks_mut(panel.max(1));
        for (panel, m) in panels.zip(relative_to.chunks(self.width)) {
            for row in panel.chunks_mut(self.width) {
                for (x, &m) in row.iter_mut().zip(m) {
                    let of = if negated { T::default().sub(*x) } else { *x };
                    *x = of.sub(m).exp::<FMA>();
                }
            }
        }
    }
}

/// Extremes by lane.
struct Largest<'a, T> {
    panels: &'a [T],
    width: usize,
    negated: bool,
    into: &'a mut [T],
}

impl<T: Real> Loop for Largest<'_, T> {
    type Output = ();
    #[inline(always)]
    fn run<const FMA: bool>(self) {
        let panel = self.panels.len() / self.into.len().div_ceil(self.width).max(1);
        let panels = self.panels.chunks(panel.max(1));
        for (panel, into) in panels.zip(self.into.chunks_mut(self.width)) {
            for row in panel.chunks(self.width) {
                for (largest, &x) in into.iter_mut().zip(row) {
                    let x = if self.negated { T::default().sub(x) } else { x };
                    *largest = math::max(*largest, x);
                }
            }
        }
    }
}

macro_rules! element {
    ($t:ident, $avx512:ident, $avx2:ident) => {
        impl Element for $t {
            const ZERO: $t = 0.0;

            fn is_finite(self) -> bool {
                $t::is_finite(self)
            }

            fn is_nan(self) -> bool {
                $t::is_nan(self)
            }

            fn micro(set: Set, times: Times, plus: Plus, finite: bool) -> Micro<$t> {
                /// One pair of operators on every instruction set.
                fn on<X: Multiply<$t>, P: Fold<$t>>(set: Set) -> Micro<$t> {
                    #[cfg(target_arch = "x86_64")]
                    #[target_feature(enable = "avx512f,avx512dq")]
                    unsafe fn avx512<X: Multiply<$t>, P: Fold<$t>>(t: &Tile<$t>) {
                        // SAFETY: the caller's, here and below.
                        unsafe { tile::<$t, $avx512, X, P, 12, 2>(t, P::IDENTITY.into()) }
                    }
                    #[cfg(target_arch = "x86_64")]
                    #[target_feature(enable = "avx2,fma")]
                    unsafe fn avx2<X: Multiply<$t>, P: Fold<$t>>(t: &Tile<$t>) {
                        unsafe { tile::<$t, $avx2, X, P, 6, 2>(t, P::IDENTITY.into()) }
                    }
                    unsafe fn portable<X: Multiply<$t>, P: Fold<$t>>(t: &Tile<$t>) {
                        unsafe { tile::<$t, Portable<$t>, X, P, 4, 2>(t, P::IDENTITY.into()) }
                    }
                    match set {
                        #[cfg(target_arch = "x86_64")]
                        Set::Avx512 => Micro {
                            rows: 12,
                            columns: 2 * <$avx512 as Lanes<$t>>::LANES,
                            run: avx512::<X, P>,
                        },
                        #[cfg(target_arch = "x86_64")]
                        Set::Avx2 => Micro {
                            rows: 6,
                            columns: 2 * <$avx2 as Lanes<$t>>::LANES,
                            run: avx2::<X, P>,
                        },
                        Set::Portable => Micro {
                            rows: 4,
                            columns: 2 * <Portable<$t> as Lanes<$t>>::LANES,
                            run: portable::<X, P>,
                        },
                    }
                }
                fn folded<X: Multiply<$t>>(set: Set, plus: Plus, finite: bool) -> Micro<$t> {
                    match (plus, finite) {
                        (Plus::Sum, _) => on::<X, Sum>(set),
                        (Plus::Max, true) => on::<X, Max<false>>(set),
                        (Plus::Max, false) => on::<X, Max<true>>(set),
                        (Plus::Min, true) => on::<X, Min<false>>(set),
                        (Plus::Min, false) => on::<X, Min<true>>(set),
                    }
                }
                match times {
                    Times::Product => folded::<Product>(set, plus, finite),
                    Times::Sum => folded::<Sum>(set, plus, finite),
                    Times::Difference => folded::<Difference>(set, plus, finite),
                    Times::SquaredDifference => folded::<SquaredDifference>(set, plus, finite),
                    Times::AbsoluteDifference => folded::<AbsoluteDifference>(set, plus, finite),
                }
            }

            fn exponentials(set: Set, times: Times) -> Exponentials<$t> {
                fn on<X: Multiply<$t>>(set: Set) -> Exponentials<$t> {
                    #[cfg(target_arch = "x86_64")]
                    #[target_feature(enable = "avx512f,avx512dq")]
                    unsafe fn avx512<X: Multiply<$t>>(t: &Tile<$t>, m: *const $t) {
                        // SAFETY: the caller's, here and below.
                        unsafe { exponentials::<$t, $avx512, X, 12, 2>(t, m) }
                    }
                    #[cfg(target_arch = "x86_64")]
                    #[target_feature(enable = "avx2,fma")]
                    unsafe fn avx2<X: Multiply<$t>>(t: &Tile<$t>, m: *const $t) {
                        unsafe { exponentials::<$t, $avx2, X, 6, 2>(t, m) }
                    }
                    unsafe fn portable<X: Multiply<$t>>(t: &Tile<$t>, m: *const $t) {
                        unsafe { exponentials::<$t, Portable<$t>, X, 4, 2>(t, m) }
                    }
                    match set {
                        #[cfg(target_arch = "x86_64")]
                        Set::Avx512 => avx512::<X>,
                        #[cfg(target_arch = "x86_64")]
                        Set::Avx2 => avx2::<X>,
                        Set::Portable => portable::<X>,
                    }
                }
                match times {
                    Times::Product => on::<Product>(set),
                    Times::Sum => on::<Sum>(set),
                    Times::Difference => on::<Difference>(set),
                    Times::SquaredDifference => on::<SquaredDifference>(set),
                    Times::AbsoluteDifference => on::<AbsoluteDifference>(set),
                }
            }

            fn strips(set: Set, along: Along) -> (usize, Strips<$t>) {
                fn on<V: Lanes<$t>>(
                    along: Along,
                    by_columns: Strips<$t>,
                    by_depth: Strips<$t>,
                ) -> (usize, Strips<$t>) {
                    match along {
                        Along::Columns => (V::LANES, by_columns),
                        Along::Depth => (V::LANES, by_depth),
                    }
                }
                #[cfg(target_arch = "x86_64")]
                mod x86 {
                    use super::*;
                    #[target_feature(enable = "avx512f,avx512dq")]
                    pub(super) unsafe fn columns_512(s: &Strip<$t>) {
                        // SAFETY: the caller's, here and below.
                        unsafe { few::columns::<$t, $avx512>(s) }
                    }
                    #[target_feature(enable = "avx512f,avx512dq")]
                    pub(super) unsafe fn depth_512(s: &Strip<$t>) {
                        unsafe { few::depth::<$t, $avx512>(s) }
                    }
                    #[target_feature(enable = "avx2,fma")]
                    pub(super) unsafe fn columns_2(s: &Strip<$t>) {
                        unsafe { few::columns::<$t, $avx2>(s) }
                    }
                    #[target_feature(enable = "avx2,fma")]
                    pub(super) unsafe fn depth_2(s: &Strip<$t>) {
                        unsafe { few::depth::<$t, $avx2>(s) }
                    }
                }
                match set {
                    #[cfg(target_arch = "x86_64")]
                    Set::Avx512 => on::<$avx512>(along, x86::columns_512, x86::depth_512),
                    #[cfg(target_arch = "x86_64")]
                    Set::Avx2 => on::<$avx2>(along, x86::columns_2, x86::depth_2),
                    Set::Portable => on::<Portable<$t>>(
                        along,
                        few::columns::<$t, Portable<$t>>,
                        few::depth::<$t, Portable<$t>>,
                    ),
                }
            }

            fn pack(set: Set) -> Pack<$t> {
                #[cfg(target_arch = "x86_64")]
                #[target_feature(enable = "avx512f,avx512dq")]
                unsafe fn avx512(p: &Packing<$t>) {
                    // SAFETY: the caller's, here and below.
                    unsafe { pack::panels::<$t, $avx512>(p) }
                }
                #[cfg(target_arch = "x86_64")]
                #[target_feature(enable = "avx2,fma")]
                unsafe fn avx2(p: &Packing<$t>) {
                    unsafe { pack::panels::<$t, $avx2>(p) }
                }
                match set {
                    #[cfg(target_arch = "x86_64")]
                    Set::Avx512 => avx512,
                    #[cfg(target_arch = "x86_64")]
                    Set::Avx2 => avx2,
                    Set::Portable => pack::panels::<$t, Portable<$t>>,
                }
            }

            fn total(lanes: &mut [$t]) -> $t {
                let mut n = lanes.len();
                while n > 1 {
                    n /= 2;
                    let (low, high) = lanes.split_at_mut(n);
                    low.iter_mut().zip(high).for_each(|(a, b)| *a += *b);
                }
                lanes[0]
            }

            fn logarithms(base: &[$t], sums: &mut [$t]) {
                vectorised(Logarithms { base, sums });
            }

            fn raise(panels: &mut [$t], width: usize, power: Power<$t>) {
                vectorised(Raise {
                    panels,
                    width,
                    power,
                });
            }

            fn largest(panels: &[$t], width: usize, negated: bool, into: &mut [$t]) {
                vectorised(Largest {
                    panels,
                    width,
                    negated,
                    into,
                });
            }

            fn combine(plus: Plus, a: $t, b: $t) -> $t {
                match plus {
                    Plus::Sum => a + b,
                    Plus::Max => super::super::math::max(a, b),
                    Plus::Min => super::super::math::min(a, b),
                }
            }
        }
    };
}
element!(f32, F32x16, F32x8);
element!(f64, F64x8, F64x4);
