//! What is told of a plan that is not there.

use std::collections::BTreeMap;
use std::fmt;

use eindecomp_core::plan::cache::{Difference, Key, Subject, differences, distance, head};

use super::CacheMode;

/// A plan that was not found where planning is not allowed.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct PlanMiss {
    /// What the plan is for.
    pub subject: Subject,
    /// The dims of the run, if the plan is that of their bucket.
    pub run: Option<BTreeMap<String, i64>>,
    /// Hash of the plan's key: the name of the entry that is missing.
    pub key: String,
    /// The session's mode; `auto` in a build without the planner.
    pub mode: CacheMode,
    /// Where the entry was looked for.
    pub looked_in: Vec<String>,
    /// Which entries of that name were left out, or could not be looked for, and why.
    pub left_out: Vec<String>,
    /// The entry whose key differs least.
    pub nearest: Option<Nearest>,
}

/// An entry of another key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Nearest {
    /// Its key's hash.
    pub key: String,
    /// What its plan is for.
    pub subject: Subject,
    /// What differs, graph last.
    pub differences: Vec<Difference>,
}

impl fmt::Display for PlanMiss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let PlanMiss {
            subject, key, mode, ..
        } = self;
        write!(f, "there is no plan of {subject}, ")?;
        if let Some(run) = &self.run {
            let rounded = run
                .iter()
                .filter(|(dim, n)| subject.dims.get(*dim) != Some(n));
            let rounded: Vec<String> = rounded.map(|(dim, n)| format!("{dim}={n}")).collect();
            write!(f, "the bucket of {}, ", rounded.join(" "))?;
        }
        f.write_str("and ")?;
        match mode {
            CacheMode::Auto => write!(f, "this build has no planner: ")?,
            mode => write!(f, "mode `{mode}` makes none: ")?,
        }
        match &self.looked_in[..] {
            [] => write!(f, "no plans are embedded and no folder is set")?,
            places => {
                let good = if self.left_out.is_empty() {
                    ""
                } else {
                    " that is good"
                };
                write!(f, "no entry {key}{good} in {}", places.join(" or "))?
            }
        }
        for left_out in &self.left_out {
            write!(f, "; {left_out}")?;
        }
        if let Some(near) = &self.nearest {
            write!(
                f,
                "; the nearest entry, {} of {}, differs in",
                near.key, near.subject
            )?;
            for (i, difference) in near.differences.iter().enumerate() {
                write!(f, "{} {difference}", if i > 0 { ";" } else { "" })?;
            }
        }
        f.write_str(". `cargo eindecomp plan` and mode `record` make plans; a binary has those of when it is built")
    }
}

/// Of entries `(hash, text)` the one whose key differs least: in the fewest lines of its graph, then
/// in the fewest parts, then in its dims.
pub(super) fn nearest(
    wanted: &Key,
    of: &Subject,
    entries: impl Iterator<Item = (String, Vec<u8>)>,
) -> Option<Nearest> {
    let heads = entries.filter_map(|(hash, text)| Some((hash, head(&text).ok()?)));
    // what stands under another name, or was altered, is not what it says
    let heads = heads.filter(|(hash, (_, key))| key.clone().written().hash() == hash);
    let ranked = heads.map(|(key, (subject, found))| {
        let differences = differences(wanted, &found);
        let apart = |(dim, n): (&String, &i64)| {
            let other = subject.dims.get(dim).map_or(0, |other| n.abs_diff(*other));
            u128::from(other)
        };
        let apart: u128 = of.dims.iter().map(apart).sum();
        let rank = (
            distance(wanted, &found),
            differences.len(),
            apart,
            key.clone(),
        );
        let near = Nearest {
            key,
            subject,
            differences,
        };
        (rank, near)
    });
    // an entry of the very key was left out for another reason
    let others = ranked.filter(|(_, near)| !near.differences.is_empty());
    others.min_by(|a, b| a.0.cmp(&b.0)).map(|(_, near)| near)
}
