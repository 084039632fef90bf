//! Memory as a hard constraint: plans that fit the devices, or what stands in the way.
//!
//! The plan without the limit comes first. If its arenas do not fit, placements are searched under limits on
//! what joins use at each position; what lowering needs beyond that tightens the limits, round by
//! round. A plan is taken only when its own arenas fit.

use std::collections::HashMap;

use super::layout::{Layout, Numbered};
use super::place::{Evaluator, Search};
use super::planner::{PlanError, PlanOptions, evaluated};
use super::search::Watch;
use super::{Cluster, Objective, Plan};
use crate::ein::DType;
use crate::graph::{BoundGraph, Node, NodeId, Role};
use crate::task::arena::ALIGN;
use crate::task::exchange::{Join, overlaps};
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

/// Bytes that no arena is larger than: as if no two buffers shared memory, and no two vertices what they read. Of
/// equal vertices with equal layouts it is counted once.
fn fits_anyhow(graph: &BoundGraph, plan: &Plan) -> u128 {
    let (kinds, layouts) = (graph.kinds(), Numbered::of(&plan.nodes));
    let mut known: HashMap<_, u128> = HashMap::new();
    let vertex = |(id, node): (NodeId, &Node)| {
        let operands = node.einsum().map_or(&[][..], |e| &e.operands).iter();
        let operands = operands.map(|o| (kinds[o.node.at()], layouts.owners[o.node.at()]));
        let own = (layouts.joins[id.at()], layouts.owners[id.at()]);
        let key = (kinds[id.at()], own, operands.collect::<Vec<_>>());
        *known
            .entry(key)
            .or_insert_with(|| most_held(graph, plan, id))
    };
    graph.ids().map(vertex).sum()
}

/// Bytes of the buffers that lowering makes for a vertex or an input on the device with most of them.
fn most_held(graph: &BoundGraph, plan: &Plan, id: NodeId) -> u128 {
    let (node, shape) = (graph.node(id), graph.shape(id));
    let mut bytes = vec![0u128; plan.devices() as usize];
    let mut add = |device: u32, elements: usize, dtype: DType| {
        bytes[device as usize] += (elements * dtype.size()) as u128 + u128::from(ALIGN);
    };
    let owner = plan.nodes[id.at()].owner.as_deref();
    match owner {
        Some(owner) => {
            // the last version of a state comes home, once more
            let state = node.role() == Some(Role::State);
            for (tile, device) in owner.iter(shape) {
                (0..=u8::from(state)).for_each(|_| add(device, tile.volume(), node.dtype));
            }
        }
        // a weight that is a result is whole on the first device
        None => add(0, graph.elements(id), node.dtype),
    }
    if let (Some(join), Some(owner)) = (Join::of(graph, &plan.nodes, id), owner) {
        for group in join.tuples().chunks(join.folds()) {
            let pieces = overlaps(owner, shape, &group[0].output);
            let direct = group.len() == 1
                && matches!(&pieces[..], &[(tile, _)] if owner.devices[tile] == group[0].device);
            for tuple in group {
                for (operand, want) in join.reads(tuple) {
                    let has = |o: &Layout| match overlaps(o, graph.shape(operand), &want)[..] {
                        [(tile, _)] => o.devices[tile] == tuple.device,
                        _ => false,
                    };
                    if !plan.nodes[operand.at()].owner.as_deref().is_some_and(has) {
                        add(tuple.device, want.volume(), graph.node(operand).dtype);
                    }
                }
                for part in join.parts().iter().filter(|_| !direct) {
                    add(
                        tuple.device,
                        part.region(&tuple.output).volume(),
                        part.dtype,
                    );
                }
            }
            // what is folded comes to where the result is owned
            for (tile, piece) in pieces.iter().filter(|_| group.len() > 1) {
                for part in group.iter().flat_map(|_| join.parts()) {
                    add(
                        owner.devices[*tile],
                        part.region(piece).volume(),
                        part.dtype,
                    );
                }
            }
        }
    }
    bytes.into_iter().max().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::graph::testing::random_graph;
    use crate::plan::planner::plan;
    use crate::plan::samples::{ffn, transformer};
    use crate::plan::testing::random_plan;
    use crate::plan::verify::verify;
    use crate::plan::{Residency, planner};
    use crate::task::Buffer;

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

    proptest! {
        #[test]
        fn no_arena_is_larger_than_all_that_may_be_in_it(
            seed: u64, statements in 1usize..8, devices in 1u32..9, placed: u64,
        ) {
            let graph = random_graph(seed, statements).bound();
            let plan = random_plan(&graph, devices, placed);
            let tasks = lower(&graph, &plan).unwrap();
            let largest = tasks.arenas.into_iter().max().unwrap_or(0);
            prop_assert!(u128::from(largest) <= fits_anyhow(&graph, &plan));
        }
    }

    #[test]
    fn what_surely_fits_is_not_lowered() {
        let graph = transformer(8, [8, 64, 8, 32, 256]);
        let plan = plan(&graph, &Cluster::cpus(8), &PlanOptions::default()).unwrap();
        let tasks = lower(&graph, &plan).unwrap();
        let largest = tasks.arenas.into_iter().max().unwrap_or(0);
        // all that a device ever holds, at most three times over
        let held = |device| {
            let buffers = tasks.buffers.iter().filter(move |b| b.device == device);
            buffers.map(Buffer::bytes).sum::<u64>()
        };
        let held = (0..8).map(held).max().unwrap();
        let bound = fits_anyhow(&graph, &plan);
        assert!(
            bound >= largest.into() && bound <= 3 * u128::from(held),
            "{bound} {held}"
        );
    }
}
