//! What is left of the limits at every position, under changes over ranges.

use std::ops::Range;

/// A segment tree of least slacks: a change or a question costs the logarithm of the positions.
#[derive(Clone, Debug)]
pub(super) struct Slack {
    positions: u32,
    /// Per node of a binary tree (children of n: 2n, 2n + 1): the least slack below it, without
    /// what was taken at its ancestors.
    least: Vec<i128>,
    /// Per node: taken at every position below it.
    taken: Vec<i128>,
}

impl Slack {
    /// Nothing is used.
    pub fn new(limits: &[u64]) -> Slack {
        let leaves = limits.len().next_power_of_two();
        let mut least = vec![i128::MAX / 2; 2 * leaves];
        for (leaf, &limit) in least[leaves..].iter_mut().zip(limits) {
            *leaf = limit.into();
        }
        for node in (1..leaves).rev() {
            least[node] = least[2 * node].min(least[2 * node + 1]);
        }
        Slack {
            positions: leaves as u32,
            taken: vec![0; 2 * leaves],
            least,
        }
    }

    /// Uses so much more (less, if negative) at every position of a range.
    pub fn take(&mut self, range: &Range<u32>, amount: i128) {
        if amount != 0 && !range.is_empty() {
            self.take_below(1, 0..self.positions, range, amount);
        }
    }

    fn take_below(&mut self, node: usize, of: Range<u32>, range: &Range<u32>, amount: i128) {
        if range.end <= of.start || of.end <= range.start {
            return;
        }
        if range.start <= of.start && of.end <= range.end {
            self.least[node] -= amount;
            self.taken[node] += amount;
            return;
        }
        let middle = of.start + (of.end - of.start) / 2;
        self.take_below(2 * node, of.start..middle, range, amount);
        self.take_below(2 * node + 1, middle..of.end, range, amount);
        let below = self.least[2 * node].min(self.least[2 * node + 1]);
        self.least[node] = below - self.taken[node];
    }

    /// The least slack over a range; negative where a limit is passed.
    pub fn least(&self, range: &Range<u32>) -> i128 {
        self.least_below(1, 0..self.positions, range)
    }

    fn least_below(&self, node: usize, of: Range<u32>, range: &Range<u32>) -> i128 {
        if range.end <= of.start || of.end <= range.start {
            return i128::MAX / 2;
        }
        if range.start <= of.start && of.end <= range.end {
            return self.least[node];
        }
        let middle = of.start + (of.end - of.start) / 2;
        let left = self.least_below(2 * node, of.start..middle, range);
        let right = self.least_below(2 * node + 1, middle..of.end, range);
        left.min(right) - self.taken[node]
    }

    /// The first position with the least slack, and that slack.
    pub fn tightest(&self) -> (u32, i128) {
        let (mut node, leaves) = (1, self.positions as usize);
        while node < leaves {
            node = 2 * node + usize::from(self.least[2 * node + 1] < self.least[2 * node]);
        }
        ((node - leaves) as u32, self.least[1])
    }
}
