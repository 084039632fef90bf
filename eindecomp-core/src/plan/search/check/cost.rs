//! Numbers that costs are added in.

use super::super::INFEASIBLE;

/// A cost, or more than any sum of costs: infeasible.
pub(super) trait Cost: Copy + PartialOrd {
    const ZERO: Self;
    const NEVER: Self;

    fn plus(self, more: Self) -> Self;

    fn minus(self, less: Self) -> Self;

    fn or_less(self, other: Self) -> Self {
        if other < self { other } else { self }
    }
}

/// One that tables hold.
pub(super) trait Whole: Cost {
    /// `u128::MAX`: infeasible.
    fn of(cost: u128) -> Self;

    fn cost(self) -> u128;

    /// Below 2⁵³ the same number.
    fn float(self) -> f64;

    fn whole(float: f64) -> Self;

    /// For a hash.
    fn word(self) -> u64;
}

/// Where no sum comes to 2⁶³.
impl Cost for u64 {
    const ZERO: u64 = 0;
    const NEVER: u64 = INFEASIBLE;

    fn plus(self, more: u64) -> u64 {
        self.saturating_add(more)
    }

    fn minus(self, less: u64) -> u64 {
        self - less
    }
}

impl Whole for u64 {
    fn of(cost: u128) -> u64 {
        match cost {
            u128::MAX => INFEASIBLE,
            cost => u64::try_from(cost).unwrap_or(u64::MAX).min(INFEASIBLE - 1),
        }
    }

    fn cost(self) -> u128 {
        match self {
            INFEASIBLE => u128::MAX,
            cost => cost.into(),
        }
    }

    fn float(self) -> f64 {
        match self {
            INFEASIBLE => f64::INFINITY,
            cost => cost as f64,
        }
    }

    fn whole(float: f64) -> u64 {
        // infinity saturates
        float as u64
    }

    fn word(self) -> u64 {
        self
    }
}

impl Cost for u128 {
    const ZERO: u128 = 0;
    const NEVER: u128 = u128::MAX;

    fn plus(self, more: u128) -> u128 {
        self.saturating_add(more)
    }

    fn minus(self, less: u128) -> u128 {
        self - less
    }
}

impl Whole for u128 {
    fn of(cost: u128) -> u128 {
        cost
    }

    fn cost(self) -> u128 {
        self
    }

    fn float(self) -> f64 {
        match self {
            u128::MAX => f64::INFINITY,
            cost => cost as f64,
        }
    }

    fn whole(float: f64) -> u128 {
        float as u128
    }

    fn word(self) -> u64 {
        self as u64 ^ (self >> 64) as u64
    }
}

/// Where every sum is a whole number below 2⁵³, and so exact: the least of several is an instruction.
impl Cost for f64 {
    const ZERO: f64 = 0.0;
    const NEVER: f64 = f64::INFINITY;

    fn plus(self, more: f64) -> f64 {
        self + more
    }

    fn minus(self, less: f64) -> f64 {
        self - less
    }
}

pub(super) fn lowest<C: Cost>(costs: impl Iterator<Item = C>) -> C {
    costs.fold(C::NEVER, C::or_less)
}
