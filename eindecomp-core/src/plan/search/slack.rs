//! What is left of the limits at every position, under changes over ranges.

use std::ops::Range;

/// Slacks, one by one: those who ask look at few positions.
#[derive(Clone, Debug)]
pub(super) struct Slack(Vec<i128>);

impl Slack {
    /// Nothing is used.
    pub fn new(limits: &[u64]) -> Slack {
        Slack(limits.iter().map(|&l| l.into()).collect())
    }

    /// Uses so much more (less, if negative) at every position of a range.
    pub fn take(&mut self, range: &Range<u32>, amount: i128) {
        let left = &mut self.0[range.start as usize..range.end as usize];
        left.iter_mut().for_each(|l| *l -= amount);
    }

    /// The least slack over a range; negative where a limit is passed.
    pub fn least(&self, range: &Range<u32>) -> i128 {
        let left = &self.0[range.start as usize..range.end as usize];
        left.iter().copied().min().unwrap_or(i128::MAX)
    }

    /// The first position with the least slack, and that slack; without positions there is more than enough.
    pub fn tightest(&self) -> (u32, i128) {
        let left = self.0.iter().copied().zip(0..);
        left.min().map_or((0, i128::MAX), |(slack, t)| (t, slack))
    }
}
