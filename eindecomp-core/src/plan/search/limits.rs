//! Limits over time: what chosen values use at each position of a schedule, and how much may be.

use std::ops::Range;

use super::problem::{RawEdge, VarId};
use super::tables::TableId;

/// Whose value decides how much is used.
#[derive(Clone, Copy, Debug)]
pub(super) enum Usage {
    Value(VarId, TableId),
    Pair(RawEdge),
}

/// Usages over positions, with the most that is allowed at each.
#[derive(Clone, Debug, Default)]
pub(super) struct Limits {
    at: Vec<u64>,
    usages: Vec<(Range<u32>, Usage)>,
}

impl Limits {
    pub fn set(&mut self, at: Vec<u64>) {
        self.at = at;
        for (positions, _) in &self.usages {
            self.check(positions);
        }
    }

    pub fn add(&mut self, positions: Range<u32>, usage: Usage) {
        self.check(&positions);
        if !positions.is_empty() {
            self.usages.push((positions, usage));
        }
    }

    fn check(&self, positions: &Range<u32>) {
        assert!(
            positions.is_empty() || positions.end as usize <= self.at.len(),
            "a usage at positions {positions:?} of {}",
            self.at.len()
        );
    }

    pub fn at(&self) -> &[u64] {
        &self.at
    }

    pub fn usages(&self) -> &[(Range<u32>, Usage)] {
        &self.usages
    }
}
