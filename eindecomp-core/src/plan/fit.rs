//! Memory as a hard constraint: plans that fit the devices, or what stands in the way.
//!
//! The plan without the limit comes first. If its arenas do not fit, placements are searched under limits on
//! what joins use at each position; what lowering needs beyond that tightens the limits, round by
//! round. A plan is taken only when its own arenas fit.

use super::place::{Evaluator, Search};
use super::planner::{PlanError, PlanOptions, evaluated};
use super::search::Watch;
use super::{Cluster, Objective, Plan};
use crate::graph::BoundGraph;
use crate::task::lower::lower;
use crate::task::memory::{Peak, peak};

/// How often limits are tightened.
const ROUNDS: usize = 8;

/// No plan was found that fits.
pub(super) struct Misfit {
    peak: Peak,
    capacity: u64,
    least: u64,
}

impl Misfit {
    /// What two kinds of plans have in common.
    pub fn or(self, other: Misfit) -> Misfit {
        let least = self.least.min(other.least);
        let nearer = match self.peak.bytes <= other.peak.bytes {
            true => self,
            false => other,
        };
        Misfit { least, ..nearer }
    }
}

impl From<Misfit> for PlanError {
    fn from(m: Misfit) -> PlanError {
        PlanError::Memory {
            peak: m.peak,
            capacity: m.capacity,
            least: m.least,
        }
    }
}

/// `plan`, if it fits; else the plan of its residency that moves least of those found that do.
///
/// # Errors
/// Those of the planner.
pub(super) fn fit(
    graph: &BoundGraph,
    cluster: &Cluster,
    options: &PlanOptions,
    plan: Plan,
    watch: &Watch,
) -> Result<Result<Plan, Misfit>, PlanError> {
    let Some(mut least_peak) = excess(graph, cluster, &plan)? else {
        return Ok(Ok(plan));
    };
    let options = PlanOptions {
        residency: plan.residency,
        ..*options
    };
    let (devices, capacity) = (cluster.devices(), cluster.capacity());
    let mut search = Search::new(graph, plan.hierarchy, (&options).into(), watch)?;
    let least = search.least_bytes(graph).div_ceil(devices.into());
    let misfit = |peak| Misfit {
        peak,
        capacity,
        least,
    };
    // the plans of other models are not searched under limits
    if options.objective != Objective::Placed || least > capacity {
        return Ok(Err(misfit(least_peak)));
    }
    let mut limit = capacity;
    for _ in 0..ROUNDS {
        if !watch.goes_on() {
            break;
        }
        let Some(found) = search.within(graph, limit.saturating_mul(devices.into())) else {
            break;
        };
        let mut limited = evaluated(
            graph,
            plan.hierarchy,
            &options,
            found,
            &mut Evaluator::default(),
        )?;
        // under tightened limits the search bounds nothing; without them it bounded every plan
        limited.certificate.bound = plan.certificate.bound.min(limited.certificate.cost);
        limited.certificate.wider = None;
        let Some(over) = excess(graph, cluster, &limited)? else {
            return Ok(Ok(limited));
        };
        limit = limit.saturating_sub((over.bytes - capacity).max(capacity / 32));
        if over.bytes < least_peak.bytes {
            least_peak = over;
        }
    }
    Ok(Err(misfit(least_peak)))
}

/// The device whose arena is largest, if that is more than its capacity.
///
/// # Errors
/// A plan that breaks a rule: a defect of the planner.
pub(super) fn excess(
    graph: &BoundGraph,
    cluster: &Cluster,
    plan: &Plan,
) -> Result<Option<Peak>, PlanError> {
    if fits_anyhow(graph, plan) <= u128::from(cluster.capacity()) {
        return Ok(None);
    }
    let tasks = lower(graph, plan).map_err(|e| PlanError::Rule(e.into()))?;
    let largest = (0..).zip(&tasks.arenas).max_by_key(|(_, bytes)| **bytes);
    let over = largest.filter(|(_, bytes)| **bytes > cluster.capacity());
    Ok(over.map(|(device, _)| peak(graph, &tasks, device)))
}

/// Bytes that no device needs more than, whoever has what: every tensor whole, once owned and once per tuple
/// that reads it; every partial result whole, where it is made and where it is folded.
fn fits_anyhow(graph: &BoundGraph, plan: &Plan) -> u128 {
    let devices = plan.hierarchy.devices() as usize;
    let tensor = |node| u128::from(graph.bytes(node)) + 64 * 1024;
    let vertex = |((id, node), entry): ((_, &crate::graph::Node), &super::NodePlan)| {
        let mut bytes = tensor(id);
        if let (Some(e), Some(join)) = (node.einsum(), &entry.join) {
            let tuples = join.tiles().div_ceil(devices) as u128;
            let reads: u128 = e.operands.iter().map(|o| tensor(o.node)).sum();
            let outputs: usize = e.out.iter().map(Vec::len).sum();
            let folds: u128 = join.parts[outputs..]
                .iter()
                .map(|&d| u128::from(d))
                .product();
            let record = 8 * (e.parts().len() as u128) * graph.elements(id) as u128;
            bytes += tuples * reads + (tuples + folds) * (record + 64 * 1024);
        }
        bytes
    };
    graph.ids().zip(&plan.nodes).map(vertex).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::planner::plan;
    use crate::plan::samples::{ffn, transformer};
    use crate::plan::verify::verify;
    use crate::plan::{Residency, planner};

    /// Peak and moved bytes of the plans at ever smaller capacities, and the error in the end.
    fn shrinking(
        graph: &BoundGraph,
        devices: u32,
        residency: Residency,
    ) -> (Vec<(u64, u128)>, PlanError) {
        let options = PlanOptions {
            residency,
            ..PlanOptions::default()
        };
        let (mut capacity, mut found) = (1 << 30, Vec::new());
        loop {
            let cluster = Cluster::cpus(devices).with_capacity(capacity);
            let plan = match plan(graph, &cluster, &options) {
                Ok(plan) => plan,
                Err(error) => return (found, error),
            };
            let tasks = verify(graph, &plan, &cluster).unwrap();
            let peak = tasks.arenas.iter().copied().max().unwrap();
            assert!(peak <= capacity, "{peak} of {capacity}");
            assert!(plan.certificate.bound <= plan.certificate.cost);
            found.push((peak, plan.moved_bytes));
            capacity = peak - 1;
        }
    }

    #[test]
    fn less_memory_moves_more_until_nothing_fits() {
        let cases = [
            (ffn(64, 32, 128), Residency::AsNeeded),
            (ffn(64, 32, 128), Residency::Auto),
            (transformer(1, [4, 8, 4, 8, 64]), Residency::AsNeeded),
        ];
        for (n, (graph, residency)) in cases.into_iter().enumerate() {
            let (found, error) = shrinking(&graph, 4, residency);
            assert!(
                found.len() > 2 && found.is_sorted_by_key(|f| f.1),
                "{n}: {found:?}"
            );
            assert!(found[found.len() - 1].1 > found[0].1, "{n}: {found:?}");
            let PlanError::Memory {
                peak,
                capacity,
                least,
            } = &error
            else {
                panic!("{error}");
            };
            assert!(peak.bytes > *capacity && *least <= found[found.len() - 1].0);
            assert!(!peak.tenants.is_empty() && peak.tenants.len() <= 5);
        }
    }

    #[test]
    fn what_cannot_fit_is_proved() {
        let graph = ffn(64, 32, 128);
        let cluster = Cluster::cpus(4).with_capacity(1 << 12);
        for residency in [Residency::AsNeeded, Residency::Sharded, Residency::Auto] {
            let options = PlanOptions {
                residency,
                ..PlanOptions::default()
            };
            let error = planner::plan(&graph, &cluster, &options).unwrap_err();
            // both weights have 16 KiB, and 4 devices
            assert!(
                matches!(error, PlanError::Memory { least, .. } if least > 1 << 13),
                "{error}"
            );
            assert!(
                error.to_string().contains("no plan needs less than"),
                "{error}"
            );
        }
    }
}
