//! Reductions: how values of one result are folded, whatever the order of loops.

use eindecomp_core::ein::Agg;

use super::exec::Lane;
use super::math;
use super::nest::LANES;
use super::simd::Loop;

/// A fold of many values into one state. Orders are fixed by the caller, so results are too.
pub(super) trait Fold<T: Lane>: Copy {
    /// What is kept of the values so far.
    type State: Copy;
    /// The result.
    type Out: Lane;
    /// The state of no value.
    fn empty(self) -> Self::State;
    /// Takes one value, number `index` of the reduced range.
    fn value<const FMA: bool>(self, state: &mut Self::State, x: T, index: i64);
    /// Takes a later state.
    fn merge<const FMA: bool>(self, state: &mut Self::State, later: Self::State);
    /// Takes a run of values, numbered from `index`; it may overwrite them.
    #[inline(always)]
    fn run<const FMA: bool>(self, state: &mut Self::State, values: &mut [T], index: i64) {
        for (i, &x) in values.iter().enumerate() {
            self.value::<FMA>(state, x, index + i as i64);
        }
    }
    /// The result of two ranges, from their results.
    fn pair<const FMA: bool>(self, a: T, b: T) -> T;
    /// The result of a state.
    fn finish<const FMA: bool>(self, state: Self::State) -> Self::Out;
}

/// ⊕ on plain values: sum, product, extrema, any, all, and rows new to the table.
#[derive(Clone, Copy)]
pub(super) struct Plain<T, F> {
    pub(super) identity: T,
    pub(super) combine: F,
}

impl<T: Lane, F: Fn(T, T) -> T + Copy> Fold<T> for Plain<T, F> {
    type State = T;
    type Out = T;
    #[inline(always)]
    fn empty(self) -> T {
        self.identity
    }
    #[inline(always)]
    fn value<const FMA: bool>(self, state: &mut T, x: T, _: i64) {
        *state = (self.combine)(*state, x);
    }
    #[inline(always)]
    fn merge<const FMA: bool>(self, state: &mut T, later: T) {
        *state = (self.combine)(*state, later);
    }
    /// In a tree, which keeps rounding errors at the logarithm of the length.
    #[inline(always)]
    fn run<const FMA: bool>(self, state: &mut T, values: &mut [T], _: i64) {
        let mut n = values.len();
        while n > 1 {
            let half = n.next_power_of_two() / 2;
            let (low, high) = values.split_at_mut(half);
            for (a, &b) in low.iter_mut().zip(&high[..n - half]) {
                *a = (self.combine)(*a, b);
            }
            n = half;
        }
        if n == 1 {
            *state = (self.combine)(*state, values[0]);
        }
    }
    #[inline(always)]
    fn pair<const FMA: bool>(self, a: T, b: T) -> T {
        (self.combine)(a, b)
    }
    #[inline(always)]
    fn finish<const FMA: bool>(self, state: T) -> T {
        state
    }
}

/// Floats with exp and ln.
pub(super) trait Real: Lane {
    const LOWEST: Self;
    fn exp<const FMA: bool>(self) -> Self;
    fn ln<const FMA: bool>(self) -> Self;
    fn add(self, b: Self) -> Self;
    fn sub(self, b: Self) -> Self;
    fn mul(self, b: Self) -> Self;
    fn finite(self) -> bool;
}

macro_rules! real {
    ($t:ident, $exp:expr, $ln:expr) => {
        impl Real for $t {
            const LOWEST: $t = $t::NEG_INFINITY;
            #[inline(always)]
            fn exp<const FMA: bool>(self) -> $t {
                $exp(self)
            }
            #[inline(always)]
            fn ln<const FMA: bool>(self) -> $t {
                $ln(self)
            }
            #[inline(always)]
            fn add(self, b: $t) -> $t {
                self + b
            }
            #[inline(always)]
            fn sub(self, b: $t) -> $t {
                self - b
            }
            #[inline(always)]
            fn mul(self, b: $t) -> $t {
                self * b
            }
            #[inline(always)]
            fn finite(self) -> bool {
                self.is_finite()
            }
        }
    };
}
real!(f32, math::exp::<FMA>, math::ln::<FMA>);
real!(f64, f64::exp, f64::ln);

/// log Σ exp, as the largest value so far and the sum of exponentials of distances to it.
#[derive(Clone, Copy)]
pub(super) struct LogSumExp;

/// e^(x − m), 1 where both are the same infinity.
#[inline(always)]
fn weight<T: Real, const FMA: bool>(x: T, m: T) -> T {
    let d = x.sub(m);
    (if x == m { T::default() } else { d }).exp::<FMA>()
}

impl<T: Real> Fold<T> for LogSumExp {
    type State = (T, T);
    type Out = T;
    #[inline(always)]
    fn empty(self) -> (T, T) {
        (T::LOWEST, T::default())
    }
    #[inline(always)]
    fn value<const FMA: bool>(self, state: &mut (T, T), x: T, _: i64) {
        let m = math::max(state.0, x);
        let old = state.1.mul(weight::<T, FMA>(state.0, m));
        *state = (m, old.add(weight::<T, FMA>(x, m)));
    }
    #[inline(always)]
    fn merge<const FMA: bool>(self, state: &mut (T, T), later: (T, T)) {
        let m = math::max(state.0, later.0);
        let a = state.1.mul(weight::<T, FMA>(state.0, m));
        *state = (m, a.add(later.1.mul(weight::<T, FMA>(later.0, m))));
    }
    #[inline(always)]
    fn run<const FMA: bool>(self, state: &mut (T, T), values: &mut [T], _: i64) {
        let mut copy = [T::default(); LANES];
        for part in values.chunks_mut(LANES) {
            let copy = &mut copy[..part.len()];
            copy.copy_from_slice(part);
            let max = Plain {
                identity: T::LOWEST,
                combine: math::max,
            };
            let mut m = T::LOWEST;
            max.run::<FMA>(&mut m, copy, 0);
            for x in part.iter_mut() {
                *x = weight::<T, FMA>(*x, m);
            }
            let sum = Plain {
                identity: T::default(),
                combine: T::add,
            };
            let mut s = T::default();
            sum.run::<FMA>(&mut s, part, 0);
            Fold::<T>::merge::<FMA>(self, state, (m, s));
        }
    }
    #[inline(always)]
    fn pair<const FMA: bool>(self, a: T, b: T) -> T {
        let mut state = (a, T::default().exp::<FMA>());
        Fold::<T>::value::<FMA>(self, &mut state, b, 0);
        Fold::<T>::finish::<FMA>(self, state)
    }
    #[inline(always)]
    fn finish<const FMA: bool>(self, (m, s): (T, T)) -> T {
        if m.finite() { m.add(s.ln::<FMA>()) } else { m }
    }
}

/// Position of the first NaN, else of the first extremum; −1 of nothing.
#[derive(Clone, Copy)]
pub(super) struct Position {
    /// The smallest, not the largest.
    pub(super) least: bool,
}

impl Position {
    #[inline(always)]
    fn replaces<T: Lane>(self, best: T, new: T) -> bool {
        #[expect(clippy::eq_op, reason = "only NaN differs from itself")]
        let (best_nan, new_nan) = (best != best, new != new);
        let better = if self.least { new < best } else { new > best };
        !best_nan && (new_nan || better)
    }
}

impl<T: Lane> Fold<T> for Position {
    type State = (T, i64);
    type Out = i64;
    #[inline(always)]
    fn empty(self) -> (T, i64) {
        (T::default(), -1)
    }
    #[inline(always)]
    fn value<const FMA: bool>(self, state: &mut (T, i64), x: T, index: i64) {
        if state.1 < 0 || self.replaces(state.0, x) {
            *state = (x, index);
        }
    }
    #[inline(always)]
    fn merge<const FMA: bool>(self, state: &mut (T, i64), later: (T, i64)) {
        if later.1 >= 0 {
            Fold::<T>::value::<FMA>(self, state, later.0, later.1);
        }
    }
    /// The extremum first, in lanes, then where it is: the index of each value is not carried along.
    #[inline(always)]
    fn run<const FMA: bool>(self, state: &mut (T, i64), values: &mut [T], index: i64) {
        const WIDTH: usize = 16;
        let Some(&first) = values.first() else { return };
        let better = |a: T, b: T| {
            if self.least {
                math::min(a, b)
            } else {
                math::max(a, b)
            }
        };
        let mut lanes = [first; WIDTH];
        let parts = values.chunks_exact(WIDTH);
        let rest = parts.remainder();
        for part in parts {
            for (a, &b) in lanes.iter_mut().zip(part) {
                *a = better(*a, b);
            }
        }
        let best = lanes.iter().chain(rest).fold(first, |a, &b| better(a, b));
        if state.1 < 0 || self.replaces(state.0, best) {
            #[expect(clippy::eq_op, reason = "only NaN differs from itself")]
            let same = |x: &T| *x == best || (best != best && *x != *x);
            let at = values.iter().position(same).unwrap_or(0);
            *state = (best, index + at as i64);
        }
    }
    /// Selections are not split, so that there is nothing to pair; the earlier range stands.
    #[inline(always)]
    fn pair<const FMA: bool>(self, a: T, _: T) -> T {
        a
    }
    #[inline(always)]
    fn finish<const FMA: bool>(self, state: (T, i64)) -> i64 {
        state.1
    }
}

/// Folds rows of `length` values that lie one after the other, one state each.
pub(super) struct Rows<'a, T: Lane, F: Fold<T>> {
    pub(super) fold: F,
    pub(super) values: &'a mut [T],
    /// Which values take part; all without it.
    pub(super) selected: Option<&'a [u8]>,
    pub(super) length: usize,
    /// Number of each row's first value.
    pub(super) index: i64,
    pub(super) states: &'a mut [F::State],
}

impl<T: Lane, F: Fold<T>> Loop for Rows<'_, T, F> {
    type Output = ();
    #[inline(always)]
    fn run<const FMA: bool>(self) {
        let rows = self.values.chunks_mut(self.length.max(1));
        for (row, (values, state)) in rows.zip(self.states).enumerate() {
            match self.selected {
                None => self.fold.run::<FMA>(state, values, self.index),
                Some(mask) => {
                    let mask = &mask[row * self.length..][..values.len()];
                    for (i, (&x, &take)) in values.iter().zip(mask).enumerate() {
                        if take != 0 {
                            self.fold.value::<FMA>(state, x, self.index + i as i64);
                        }
                    }
                }
            }
        }
    }
}

/// Takes one value into each of many states.
pub(super) struct Columns<'a, T: Lane, F: Fold<T>> {
    pub(super) fold: F,
    pub(super) values: &'a [T],
    pub(super) selected: Option<&'a [u8]>,
    pub(super) index: i64,
    pub(super) states: &'a mut [F::State],
}

impl<T: Lane, F: Fold<T>> Loop for Columns<'_, T, F> {
    type Output = ();
    #[inline(always)]
    fn run<const FMA: bool>(self) {
        match self.selected {
            None => {
                for (state, &x) in self.states.iter_mut().zip(self.values) {
                    self.fold.value::<FMA>(state, x, self.index);
                }
            }
            Some(mask) => {
                for ((state, &x), &take) in self.states.iter_mut().zip(self.values).zip(mask) {
                    if take != 0 {
                        self.fold.value::<FMA>(state, x, self.index);
                    }
                }
            }
        }
    }
}

/// Merges each state of `later` into its state.
pub(super) struct Merge<'a, T: Lane, F: Fold<T>> {
    pub(super) fold: F,
    pub(super) states: &'a mut [F::State],
    pub(super) later: &'a [F::State],
}

impl<T: Lane, F: Fold<T>> Loop for Merge<'_, T, F> {
    type Output = ();
    #[inline(always)]
    fn run<const FMA: bool>(self) {
        for (state, later) in self.states.iter_mut().zip(self.later) {
            self.fold.merge::<FMA>(state, *later);
        }
    }
}

/// The results of states.
pub(super) struct Finish<'a, T: Lane, F: Fold<T>> {
    pub(super) fold: F,
    pub(super) states: &'a [F::State],
    pub(super) out: &'a mut [F::Out],
}

impl<T: Lane, F: Fold<T>> Loop for Finish<'_, T, F> {
    type Output = ();
    #[inline(always)]
    fn run<const FMA: bool>(self) {
        for (out, state) in self.out.iter_mut().zip(self.states) {
            *out = self.fold.finish::<FMA>(*state);
        }
    }
}

/// Something to do with the fold of an aggregation.
pub(super) trait WithFold<T: Lane> {
    type Output;
    fn with<F: Fold<T>>(self, fold: F) -> Self::Output;
}

/// Element kinds, and the folds that they have.
pub(super) trait Folds: Lane {
    /// Calls `work` with the fold of `agg`, whose result over nothing is `identity`.
    fn with<W: WithFold<Self>>(agg: Agg, identity: Self, work: W) -> W::Output;
}

/// The ⊕ of kind `$t` that have a loop of their own; any other runs through its row of the table.
macro_rules! folds {
    ($t:ident, $row:ident as $wide:ident, { $($agg:ident => $combine:expr),* }, $($lse:ident)?) => {
        impl Folds for $t {
            fn with<W: WithFold<$t>>(agg: Agg, identity: $t, work: W) -> W::Output {
                match agg {
                    $(Agg::$agg => work.with(Plain { identity, combine: $combine }),)*
                    Agg::ARGMAX => work.with(Position { least: false }),
                    Agg::ARGMIN => work.with(Position { least: true }),
                    $(Agg::$lse => work.with(LogSumExp),)?
                    _ => {
                        let row = agg.row().$row;
                        let combine = move |a: $t, b: $t| row(a as $wide, b as $wide) as $t;
                        work.with(Plain { identity, combine })
                    }
                }
            }
        }
    };
}

folds!(f32, float as f64, {
    SUM => |a, b| a + b, PROD => |a, b| a * b, MAX => math::max, MIN => math::min
}, LOGSUMEXP);
folds!(f64, float as f64, {
    SUM => |a, b| a + b, PROD => |a, b| a * b, MAX => math::max, MIN => math::min
}, LOGSUMEXP);
folds!(i64, int as i64, {
    SUM => i64::wrapping_add, PROD => i64::wrapping_mul, MAX => math::max, MIN => math::min
},);
folds!(u8, int as i64, { ANY => |a, b| a | b, ALL => |a, b| a & b },);
