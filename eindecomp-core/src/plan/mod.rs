//! Plans: a partition vector and a placement per vertex, with their cost.
//!
//! Files: `layout` (boxes, tiles), `cluster`, `constraints` (what users ask), `room` (what they leave),
//! `partition` (viable partition vectors), `work` (operations and bytes of a kernel call), `cost/`
//! (cost models), `search/` (exact, linearized, exhaustive), `place` (placement), `verify`,
//! `explain`, `strategy` (names in words), `compare` (named strategies beside a plan), `timed` (plans
//! by time), `options`, `cache` (keys and entries). Without the feature `planner` plans are read,
//! verified and lowered, but not made.

pub mod cache;
pub mod cluster;
#[cfg(feature = "planner")]
pub mod communication;
#[cfg(feature = "planner")]
pub mod compare;
pub mod constraints;
pub mod cost;
#[cfg(feature = "planner")]
pub mod explain;
#[cfg(feature = "planner")]
mod fit;
pub mod layout;
pub mod options;
#[cfg(feature = "planner")]
pub mod partition;
#[cfg(feature = "planner")]
mod place;
#[cfg(feature = "planner")]
pub mod planner;
pub mod rebind;
mod room;
#[cfg(any(test, feature = "testing"))]
pub mod samples;
#[cfg(feature = "planner")]
pub mod search;
#[cfg(feature = "planner")]
pub mod strategy;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
#[cfg(feature = "planner")]
mod timed;
pub mod verify;
pub mod work;

pub use cluster::{Cluster, Hierarchy};
pub use constraints::Constraints;
#[cfg(feature = "planner")]
pub use explain::Explain;
pub use layout::{Layout, Region};
pub use options::{Algorithm, Objective, PlanOptions};
#[cfg(feature = "planner")]
pub use planner::{PlanError, plan, plan_watched};

use std::fmt;
use std::sync::Arc;

/// Where the tiles of a weight live between runs.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize,
)]
#[serde(rename_all = "snake_case")]
pub enum Residency {
    /// Each device keeps what its tuples read: no traffic at a run, memory counted.
    #[default]
    AsNeeded,
    /// One copy over all devices; each run gathers what it reads (FSDP).
    Sharded,
    /// The planner chooses under the capacity.
    Auto,
}

/// How one vertex is decomposed and placed. Vertices that are placed alike may share a layout.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct NodePlan {
    /// The join: partition vector over the EinSum's labels (canonical label order) and the device
    /// of each tuple. `None` for inputs.
    pub join: Option<Arc<Layout>>,
    /// Who owns the tensor between producer and consumers: parts per axis, device per tile.
    /// For a weight with `as_needed` residency: `None`, each device loads what it reads.
    pub owner: Option<Arc<Layout>>,
    /// Predicted cost of the vertex in the model's unit (JOIN + AGG under `communication`; bytes
    /// that its operands and partials move under `placed`), as a decimal string in files.
    #[serde(with = "decimal")]
    pub cost: u128,
}

/// What the search proved.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Certificate {
    /// Cost of the plan, in the model's unit.
    #[serde(with = "decimal")]
    pub cost: u128,
    /// No plan of the searched space costs less.
    #[serde(with = "decimal")]
    pub bound: u128,
    /// Which space was searched, in words.
    pub space: String,
    /// What was proved over a larger space.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wider: Option<Wider>,
    /// What an independent checker found again of `bound`, from what the search wrote down; `None`: all of it.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        with = "decimal::option"
    )]
    pub checked: Option<u128>,
    /// Did a limit end the search early? Then another run may find a better plan and prove more.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub stopped: bool,
}

/// A bound over a larger space than the searched one.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Wider {
    /// No plan of the space costs less.
    #[serde(with = "decimal")]
    pub bound: u128,
    /// Which space, in words.
    pub space: String,
}

impl Certificate {
    /// The part of [`bound`](Certificate::bound) that an independent checker found again.
    pub fn bound_checked(&self) -> u128 {
        self.checked.unwrap_or(self.bound)
    }

    /// Is the plan proved optimal in its space?
    pub fn is_optimal(&self) -> bool {
        self.cost == self.bound
    }
}

/// `optimal over axis layouts`, or `within 1.2 % of the optimum over axis layouts`; after semicolons the same of a
/// larger space, what of that is not checked independently, and `stopped at the limit`.
impl fmt::Display for Certificate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // of an entry that was not verified the bound may be anything
        let gap = |bound: u128| self.cost.saturating_sub(bound) as f64 / bound as f64 * 100.0;
        let claim = |f: &mut fmt::Formatter<'_>, bound: u128, space: &str| {
            if self.cost == bound {
                write!(f, "optimal over {space}")
            } else if bound == 0 {
                write!(f, "no bound above 0 over {space}")
            } else {
                let gap = gap(bound);
                write!(f, "within {gap:.1} % of the optimum over {space}")
            }
        };
        claim(f, self.bound, &self.space)?;
        if let Some(wider) = &self.wider {
            f.write_str("; ")?;
            claim(f, wider.bound, &wider.space)?;
        }
        match self.checked {
            None => {}
            Some(0) => f.write_str("; no bound above 0 is checked independently")?,
            Some(checked) => {
                let gap = gap(checked);
                write!(
                    f,
                    "; checked independently: within {gap:.1} % of the optimum"
                )?;
            }
        }
        if self.stopped {
            f.write_str("; stopped at the limit")?;
        }
        Ok(())
    }
}

/// A decomposition of one bound graph over one cluster.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Plan {
    /// Devices on servers.
    pub hierarchy: Hierarchy,
    /// Name and version of the cost model, e.g. `placed/1`.
    pub model: String,
    /// Residency that weights were planned with (never `auto`).
    pub residency: Residency,
    /// What was asked of every vertex.
    #[serde(default, skip_serializing_if = "Constraints::is_default")]
    pub constraints: Constraints,
    /// One entry per node of the graph.
    pub nodes: Vec<NodePlan>,
    /// Bytes that Moves copy in one run, by `task::exchange` on this placement.
    #[serde(with = "decimal")]
    pub moved_bytes: u128,
    /// What was proved.
    pub certificate: Certificate,
}

impl Plan {
    /// Number of devices.
    pub fn devices(&self) -> u32 {
        self.hierarchy.devices()
    }
}

/// u128 as a decimal string: JSON numbers lose digits past 2^53.
pub(crate) mod decimal {
    use serde::{Deserialize, Deserializer, Serializer, de::Error};

    pub fn serialize<S: Serializer>(value: &u128, s: S) -> Result<S::Ok, S::Error> {
        s.serialize_str(&value.to_string())
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(d: D) -> Result<u128, D::Error> {
        let text = String::deserialize(d)?;
        text.parse()
            .map_err(|_| D::Error::custom(format!("`{text}` is not a decimal number")))
    }

    /// The same of what may not be there.
    pub mod option {
        use super::{Deserializer, Serializer};

        pub fn serialize<S: Serializer>(value: &Option<u128>, s: S) -> Result<S::Ok, S::Error> {
            match value {
                Some(value) => super::serialize(value, s),
                None => s.serialize_none(),
            }
        }

        pub fn deserialize<'de, D: Deserializer<'de>>(d: D) -> Result<Option<u128>, D::Error> {
            super::deserialize(d).map(Some)
        }
    }
}
