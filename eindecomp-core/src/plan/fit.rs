//! Memory as a hard constraint: plans that fit the devices, or what stands in the way.
//!
//! The plan without the limit comes first. If its arenas do not fit, placements are searched under limits on
//! what joins use at each position; what lowering needs beyond that tightens the limits, round by
//! round. Named strategies that may move less are tried too. A plan is taken only when its own arenas fit. Where none was found, layouts
//! are changed one by one, at last two at once, as long as the largest arena shrinks; and where there are few placements, each is tried, so that it
//! is known whether one fits.
//!
//! What the search proves at the capacity itself holds for every plan that fits. That more memory never makes a plan worse
//! is not promised: between bound and plan, searches under other limits find other plans.

use std::collections::HashMap;

use super::layout::{Layout, Numbered};
use super::place::{Assignment, Evaluator, Placed, Search};
use super::planner::{
    PlanError, PlanOptions, as_communication, best, cheaper, evaluated, weighted,
};
use super::search::Watch;
use super::timed::as_timed;
use super::{Cluster, NodePlan, Objective, Plan};
use crate::ein::DType;
use crate::graph::{BoundGraph, Node, NodeId, Role};
use crate::task::arena::ALIGN;
use crate::task::exchange::{Join, overlaps};
use crate::task::lower::lower;
use crate::task::memory::{Peak, peak};

/// Most searches under limits that are tightened, and after the first plan that fits; and the parts of the capacity in which
/// limits are told apart.
const ROUNDS: usize = 8;
const BETWEEN: usize = 2;
const STEPS: u64 = 32;
/// Most placements of which each is tried.
const EVERY: u64 = 1 << 13;
/// Nodes of plans times devices that are lowered beyond the rounds, in search of a smaller arena.
const LOWERED: u64 = 400_000;

/// No plan was found that fits.
pub(super) struct Misfit {
    peak: Peak,
    capacity: u64,
    least: u64,
    tried_all: bool,
}

impl Misfit {
    /// What two kinds of plans have in common.
    pub fn or(self, other: Misfit) -> Misfit {
        let least = self.least.min(other.least);
        let tried_all = self.tried_all && other.tried_all;
        let nearer = match self.peak.bytes <= other.peak.bytes {
            true => self,
            false => other,
        };
        Misfit {
            least,
            tried_all,
            ..nearer
        }
    }
}

impl From<Misfit> for PlanError {
    fn from(m: Misfit) -> PlanError {
        PlanError::Memory {
            peak: m.peak,
            capacity: m.capacity,
            least: m.least,
            tried_all: m.tried_all,
        }
    }
}

/// `plan`, if it fits; else the plan of its residency that moves least of those found that do, among these the named
/// strategies.
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
    let Some(peak) = excess(graph, cluster, &plan)? else {
        return Ok(Ok(plan));
    };
    let options = PlanOptions {
        residency: plan.residency,
        ..*options
    };
    let (devices, capacity) = (cluster.devices(), cluster.capacity());
    if options.objective != Objective::Placed {
        return otherwise(graph, cluster, &options, plan, peak, watch);
    }
    let mut search = Search::new(graph, plan.hierarchy, (&options).into(), watch)?;
    let least = search.least_bytes(graph).div_ceil(devices.into());
    let mut fitting = Fitting {
        graph,
        cluster,
        best: None,
        peak,
        at: None,
    };
    let mut tried_all = false;
    if least <= capacity {
        let evaluator = &mut Evaluator::default();
        let (proved, checked) = fitting.limited(&mut search, &options, watch, evaluator)?;
        let until = fitting.moved();
        let named = cheaper(
            graph,
            plan.hierarchy,
            &options,
            &mut search,
            evaluator,
            watch,
            until,
        )?;
        for named in named.into_iter().flatten() {
            fitting.keep(named)?;
        }
        if fitting.best.is_none() {
            tried_all = fitting.shrink(&mut search, &options, watch, evaluator)?;
        }
        // without limits the search bounded every plan
        let bound = proved.max(plan.certificate.bound);
        let checked = checked.max(plan.certificate.bound_checked());
        let wider = plan.certificate.wider.map(|w| proved.max(w.bound));
        if let Some(best) = &mut fitting.best {
            let all = &mut best.certificate;
            all.bound = bound.min(all.cost);
            all.checked = (checked < all.bound).then_some(checked);
            all.space += WITHIN;
            for (wider, bound) in all.wider.iter_mut().zip(wider) {
                wider.bound = bound.min(all.cost);
                wider.space += WITHIN;
            }
        }
    }
    let misfit = Misfit {
        peak: fitting.peak,
        capacity,
        least,
        tried_all,
    };
    Ok(fitting.best.ok_or(misfit))
}

/// The same for a plan by another objective: what fits is searched by bytes, and counted as was asked.
fn otherwise(
    graph: &BoundGraph,
    cluster: &Cluster,
    options: &PlanOptions,
    plan: Plan,
    peak: Peak,
    watch: &Watch,
) -> Result<Result<Plan, Misfit>, PlanError> {
    let placed = PlanOptions {
        objective: Objective::Placed,
        ..*options
    };
    let free = best(graph, plan.hierarchy, &placed, watch)?;
    let found = match fit(graph, cluster, &placed, free, watch)? {
        Ok(found) => found,
        Err(other) => return Ok(Err(Misfit { peak, ..other }.or(other))),
    };
    let proved = &plan.certificate;
    match options.objective {
        Objective::Time => as_timed(graph, cluster, found, proved).map(Ok),
        _ => Ok(Ok(as_communication(graph, found, proved))),
    }
}

/// What spaces of plans are called under a capacity.
const WITHIN: &str = " within the memory";

/// The search for a plan that fits.
struct Fitting<'a> {
    graph: &'a BoundGraph,
    cluster: &'a Cluster,
    /// The one that moves least.
    best: Option<Plan>,
    /// The smallest of those that are too large.
    peak: Peak,
    /// The smallest of those that were searched, and where it is.
    at: Option<(u64, Assignment)>,
}

impl Fitting<'_> {
    fn moved(&self) -> u128 {
        self.best.as_ref().map_or(u128::MAX, weighted)
    }

    /// Keeps a plan if it fits and moves less than the best; returns by how much it is too large.
    fn keep(&mut self, plan: Plan) -> Result<Option<u64>, PlanError> {
        if let Some(over) = excess(self.graph, self.cluster, &plan)? {
            let by = over.bytes - self.cluster.capacity();
            if over.bytes < self.peak.bytes {
                self.peak = over;
            }
            return Ok(Some(by));
        }
        if weighted(&plan) < self.moved() {
            self.best = Some(plan);
        }
        Ok(None)
    }

    /// Searches under limits: from the capacity down to the first plan that fits, then between these limits and the last ones
    /// whose plan did not. Returns what was proved about every plan that fits, and what of that is checked.
    fn limited(
        &mut self,
        search: &mut Search,
        options: &PlanOptions,
        watch: &Watch,
        evaluator: &mut Evaluator,
    ) -> Result<(u128, u128), PlanError> {
        let (on, capacity) = (self.cluster.hierarchy(), self.cluster.capacity());
        let step = (capacity / STEPS).max(1);
        // the largest limit whose plan fits, and the smallest whose plan does not
        let (mut low, mut high) = (None, capacity);
        let (mut proved, mut checked) = (0, 0);
        let (mut limit, mut rounds) = (capacity, ROUNDS);
        while rounds > 0 && watch.goes_on() {
            rounds -= 1;
            let all = limit.saturating_mul(on.devices().into());
            let Some(found) = search.within(self.graph, all) else {
                break;
            };
            if limit == capacity {
                // joins never use more than lowering; tightened limits bound nothing
                (proved, checked) = (found.bound, found.checked);
            }
            let at = found.at.clone();
            let plan = evaluated(self.graph, on, options, found, evaluator)?;
            let over = self.keep(plan)?;
            let by = over.unwrap_or(0);
            if self.at.as_ref().is_none_or(|(least, _)| by < *least) {
                self.at = Some((by, at));
            }
            match over {
                Some(_) => high = limit,
                None => {
                    if low.replace(limit).is_none() {
                        rounds = rounds.min(BETWEEN);
                    }
                }
            }
            limit = match (low, over) {
                (Some(low), _) if high - low <= step || self.moved() <= proved => break,
                (Some(low), _) => low + (high - low) / 2,
                (None, over) => limit.saturating_sub(over.unwrap_or(0).max(step)),
            };
        }
        Ok((proved, checked))
    }
}

impl Fitting<'_> {
    /// Makes the largest arena smaller until it fits, then what moves; if that fails, tries every placement, if there are few. Were
    /// all tried?
    fn shrink(
        &mut self,
        search: &mut Search,
        options: &PlanOptions,
        watch: &Watch,
        evaluator: &mut Evaluator,
    ) -> Result<bool, PlanError> {
        let at = match self.at.take() {
            Some((_, at)) => at,
            None => search.place().at,
        };
        let on = self.cluster.hierarchy();
        let each = self.graph.nodes().len() as u64 * u64::from(on.devices());
        let mut left = LOWERED / each.max(1);
        let at = search.descend(at, &mut |nodes| {
            if left == 0 || self.best.is_some() || !watch.goes_on() {
                return Ok(None);
            }
            left -= 1;
            self.measured(nodes, options, evaluator).map(Some)
        })?;
        if self.best.is_some() {
            search.descend(at, &mut |nodes| {
                if left == 0 || !watch.goes_on() {
                    return Ok(None);
                }
                left -= 1;
                self.measured(nodes, options, evaluator).map(Some)
            })?;
            return Ok(false);
        }
        let most = EVERY.min(LOWERED / each.max(1));
        search.every(most, &mut |nodes| {
            self.measured(nodes, options, evaluator)?;
            Ok(watch.goes_on())
        })
    }

    /// Keeps a placement if it fits. By how much its largest arena is too large, then what it moves if it fits, else all that is too much.
    fn measured(
        &mut self,
        nodes: &[NodePlan],
        options: &PlanOptions,
        evaluator: &mut Evaluator,
    ) -> Result<(u64, u128), PlanError> {
        let plan = evaluated(
            self.graph,
            self.cluster.hierarchy(),
            options,
            Placed::of(nodes.to_vec()),
            evaluator,
        )?;
        let arenas = lower(self.graph, &plan)
            .map_err(|e| PlanError::Rule(e.into()))?
            .arenas;
        let capacity = self.cluster.capacity();
        let over = arenas.iter().map(|a| a.saturating_sub(capacity));
        let moved = weighted(&plan);
        match over.clone().max().unwrap_or(0) {
            0 => {
                self.keep(plan)?;
                Ok((0, moved))
            }
            most => {
                if most + capacity < self.peak.bytes {
                    self.keep(plan)?;
                }
                Ok((most, over.map(u128::from).sum()))
            }
        }
    }
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
pub(super) fn fits_anyhow(graph: &BoundGraph, plan: &Plan) -> u128 {
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
mod tests;
