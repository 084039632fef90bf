//! The planner's front door: options in, a plan with its certificate out.

use std::sync::Arc;

use super::place::{self, Placed};
use super::{Certificate, Cluster, Plan, Residency};
use crate::graph::BoundGraph;

/// What a plan minimises.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Objective {
    /// Bytes that move between devices, given where every tile is.
    #[default]
    Placed,
    /// Elements that move when every tile is remote (EinDecomp, arXiv 2410.02682, §5).
    Communication,
}

/// How the optimum is searched.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Algorithm {
    /// Elimination: optimal while its tables fit a budget, else with a bound.
    #[default]
    Exact,
    /// The paper's dynamic programming along longest paths.
    Linearized,
    /// Every assignment: for tests, on small graphs.
    Exhaustive,
}

/// What a user may choose about planning. Pins are part of the graph.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct PlanOptions {
    /// What is minimised.
    pub objective: Objective,
    /// Where weights live between runs.
    pub residency: Residency,
    /// How.
    pub algorithm: Algorithm,
}

/// Why there is no plan.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PlanError {
    /// A pin names an index that the statement does not have.
    #[error("`{tensor}` is pinned to split `{label}`, but has no such index")]
    PinLabel {
        /// The statement's tensor.
        tensor: Arc<str>,
        /// The name in the pin.
        label: Arc<str>,
    },
    /// No partition vector keeps the pins.
    #[error(
        "`{tensor}` cannot be split as it is pinned on {devices} devices: an index is too small, \
         or it cannot be split, or there are too few devices"
    )]
    Pins {
        /// The statement's tensor.
        tensor: Arc<str>,
        /// Number of devices.
        devices: u32,
    },
    /// The exhaustive search was asked for too much.
    #[error("more than {limit} plans: too many to try each of them")]
    TooManyPlans {
        /// Most that are tried.
        limit: u128,
    },
}

/// The decomposition and placement of `graph` over `cluster` that costs least.
///
/// # Errors
/// Pins that cannot be kept, or a search that would not end.
pub fn plan(
    graph: &BoundGraph,
    cluster: &Cluster,
    options: &PlanOptions,
) -> Result<Plan, PlanError> {
    let _span = tracing::info_span!("plan", devices = cluster.devices()).entered();
    let devices = cluster.devices();
    let residency = options.residency;
    let Placed {
        nodes,
        cost,
        bound,
        all_axes,
    } = place::solve(
        graph,
        devices,
        residency,
        options.algorithm,
        &place::keep_all,
    )?;
    Ok(Plan {
        devices,
        model: super::cost::placed::MODEL.into(),
        residency,
        nodes,
        moved_bytes: cost,
        certificate: Certificate {
            cost,
            bound,
            space: match all_axes {
                true => "axis layouts with one replica layout per tensor",
                false => "canonical axis layouts with one replica layout per tensor",
            }
            .into(),
        },
    })
}
