//! Buckets of dims: one plan for all runs whose dims fall into one.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::nearest;

/// Which values of a dim share a plan.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Buckets {
    /// Each value has a plan of its own.
    #[default]
    Exact,
    /// The plan of the next power of two.
    PowersOfTwo,
    /// The plan of the least of these that is not smaller; a value above all of them has a plan of its
    /// own.
    List(Vec<usize>),
}

impl Buckets {
    /// The value that `value` is planned as.
    fn of(&self, value: i64) -> i64 {
        let up = match self {
            Buckets::Exact => None,
            Buckets::PowersOfTwo => u64::try_from(value)
                .ok()
                .and_then(u64::checked_next_power_of_two)
                .and_then(|up| i64::try_from(up).ok()),
            Buckets::List(list) => {
                let fits = list.iter().filter_map(|&n| i64::try_from(n).ok());
                fits.filter(|&n| n >= value).min()
            }
        };
        up.unwrap_or(value)
    }
}

/// Buckets by the name of their dim.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Policy(BTreeMap<Arc<str>, Buckets>);

impl Policy {
    pub fn set(&mut self, dim: &str, buckets: Buckets) {
        self.0.insert(dim.into(), buckets);
    }

    /// What is amiss with the names of dims that a graph with these is compiled for: buckets of a dim that it has
    /// not, where one of its dims is likely meant.
    pub fn slips(&self, dims: &BTreeMap<Arc<str>, i64>) -> Vec<String> {
        let unknown = self.0.keys().filter(|dim| !dims.contains_key(*dim));
        let slip = |dim: &Arc<str>| {
            let same = dims.keys().find(|known| known.eq_ignore_ascii_case(dim));
            let near = same.map(|known| &**known);
            // dims of one letter are all alike
            let alike =
                || nearest(dim, dims.keys().map(|known| &**known)).filter(|_| dim.len() > 2);
            let near = near.or_else(alike);
            near.filter(|near| !self.0.contains_key(*near)).map(|near| {
                format!(
                    "there are buckets for `{dim}`, but no dim of that name; did you mean `{near}`?"
                )
            })
        };
        unknown.filter_map(slip).collect()
    }

    /// The dims that a plan is made for, if they are others than these. Dims of weights and states are
    /// always planned as they are: they do not change from run to run.
    pub fn planned(
        &self,
        dims: &BTreeMap<Arc<str>, i64>,
        fixed: &BTreeSet<Arc<str>>,
    ) -> Option<BTreeMap<Arc<str>, i64>> {
        let mut planned = dims.clone();
        for (dim, value) in &mut planned {
            if let Some(buckets) = self.0.get(dim).filter(|_| !fixed.contains(dim)) {
                *value = buckets.of(*value);
            }
        }
        (planned != *dims).then_some(planned)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slips_in_names_are_told() {
        let mut policy = Policy::default();
        policy.set("SEQ", Buckets::PowersOfTwo);
        policy.set("S", Buckets::PowersOfTwo);
        policy.set("batch", Buckets::PowersOfTwo);
        let slips = |dims: &[&str]| policy.slips(&dims.iter().map(|&d| (d.into(), 1)).collect());
        let told = |dim, near| {
            format!(
                "there are buckets for `{dim}`, but no dim of that name; did you mean `{near}`?"
            )
        };
        assert_eq!(slips(&["SEQ", "S", "BATCH"]), [told("batch", "BATCH")]);
        // another block's
        assert_eq!(slips(&["SEQ", "D"]), [] as [String; 0]);
    }

    #[test]
    fn values_are_rounded_up() {
        let two = |n| Buckets::PowersOfTwo.of(n);
        assert_eq!([0, 1, 2, 3, 64, 65].map(two), [1, 1, 2, 4, 64, 128]);
        assert_eq!(two(i64::MAX), i64::MAX);
        let list = Buckets::List(vec![512, 128]);
        assert_eq!([1, 128, 129, 513].map(|n| list.of(n)), [128, 128, 512, 513]);
        assert_eq!(Buckets::Exact.of(7), 7);
    }
}
