//! The planner's front door: options in, a plan with its certificate out.

use std::sync::Arc;

use super::cluster::ClusterError;
use super::communication;
use super::cost::CostModel;
use super::cost::communication::Communication;
use super::fit::{excess, fit};
use super::place::{Evaluator, Keep, Placed, Rules, Search};
use super::search::{Progress, Unwatched, Watch};
use super::strategy::{Roles, Strategy};
use super::timed::by_time;
use super::verify::{self, structure};
use super::{
    Certificate, Cluster, Constraints, Hierarchy, Layout, NodePlan, Plan, Residency, Wider,
};
use crate::graph::{BoundGraph, Node, NodeId};
use crate::task::memory::Peak;
use crate::task::traffic::{Counts, bytes, bytes_with};

pub use super::options::{Algorithm, Objective, PlanOptions};

/// Points of a statement that are too many.
const MAX_POINTS: u128 = 1 << 63;

/// Why there is no plan.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PlanError {
    /// The cluster cannot be.
    #[error("the cluster breaks a rule: {0}")]
    Cluster(#[from] ClusterError),
    /// A statement that no machine computes.
    #[error("`{tensor}` is computed at {} points; 2^63 are too many", match *points {
        u128::MAX => "2^128 or more".to_string(),
        points => points.to_string(),
    })]
    Points {
        /// The statement's tensor.
        tensor: Arc<str>,
        /// Points of its iteration space, [`u128::MAX`] if they are more.
        points: u128,
    },
    /// A pin names an index that the statement does not have.
    #[error("`{tensor}` is pinned to split `{label}`, but has no such index")]
    PinLabel {
        /// The statement's tensor.
        tensor: Arc<str>,
        /// The name in the pin.
        label: Arc<str>,
    },
    /// No partition vector keeps the pins and the constraints.
    #[error(
        "`{tensor}` cannot be split as it is pinned on {devices} devices ({pins}): an index is too \
         small, or it cannot be split, or there are too few devices"
    )]
    Pins {
        /// The statement's tensor.
        tensor: Arc<str>,
        /// Number of devices.
        devices: u32,
        /// Each pinned index with its extent and its parts, then the constraints.
        pins: String,
    },
    /// No owner of the planner's kind is as a pin says.
    #[error(
        "`{tensor}` of {shape:?} on {devices} devices cannot have {pin}{}: its tiles are too many or too small, or no \
         mixed radix of the devices puts them so",
        match constraints.is_default() {
            true => String::new(),
            false => format!(" ({constraints})"),
        }
    )]
    PinOwner {
        /// The tensor.
        tensor: Arc<str>,
        /// Number of devices.
        devices: u32,
        /// Extents of the tensor.
        shape: Vec<usize>,
        /// The pin.
        pin: String,
        /// What every vertex must keep beside it.
        constraints: Constraints,
    },
    /// No plan fits the memory of the devices, or none that does was found.
    #[error(
        "{peak}, more than its capacity of {capacity} B: {}",
        match (least > capacity, tried_all) {
            (true, _) => format!("no plan needs less than {least} B per device"),
            (_, true) => "every placement by device axes was tried, and none fits".to_string(),
            _ => "no plan that fits was found, and not all were tried".to_string(),
        }
    )]
    Memory {
        /// The smallest peak of the plans that were tried.
        peak: Peak,
        /// Bytes per device.
        capacity: u64,
        /// What was proved that some device needs.
        least: u64,
        /// Was every placement by device axes tried? Then `peak` is the smallest of all.
        tried_all: bool,
    },
    /// The plan that was found breaks a rule: a defect of the planner.
    #[error("the planner's own plan breaks a rule: {0}")]
    Rule(#[source] verify::InvalidPlan),
    /// The exhaustive search was asked for too much.
    #[error("more than {limit} plans: too many to try each of them")]
    TooManyPlans {
        /// Most that are tried.
        limit: u128,
    },
}

/// The decomposition and placement of `graph` over `cluster` that costs least.
///
/// Under [`Objective::Placed`] every named [`Strategy`] is evaluated too, so that the plan never
/// moves more than one of them, even if it is to end early. Under [`Objective::Time`] the certificate is of the sum without
/// overlap; of the plans of least sum, among these the named strategies, the one is taken whose
/// tasks end first when they are run over the cluster's resources.
///
/// # Errors
/// A cluster that breaks a rule, pins that cannot be kept, no plan that fits the memory of the devices,
/// or a search that would not end.
pub fn plan(
    graph: &BoundGraph,
    cluster: &Cluster,
    options: &PlanOptions,
) -> Result<Plan, PlanError> {
    plan_watched(graph, cluster, options, &Unwatched)
}

/// As [`plan`], until `progress` says no: then the best that was found by then, with what was proved by then,
/// and a certificate that says so ([`Certificate::stopped`]).
///
/// # Errors
/// As [`plan`]; a plan that fits the memory may not have been found yet.
pub fn plan_watched(
    graph: &BoundGraph,
    cluster: &Cluster,
    options: &PlanOptions,
    progress: &dyn Progress,
) -> Result<Plan, PlanError> {
    let watch = Watch::new(progress);
    let mut plan = planned(graph, cluster, options, &watch)?;
    plan.certificate.stopped = watch.has_stopped();
    Ok(plan)
}

fn planned(
    graph: &BoundGraph,
    cluster: &Cluster,
    options: &PlanOptions,
    watch: &Watch,
) -> Result<Plan, PlanError> {
    cluster.verify()?;
    let too_many = |(id, vertex): (NodeId, &Node)| {
        let (tensor, points) = (vertex.name.clone(), graph.points(id));
        (points >= MAX_POINTS).then_some(PlanError::Points { tensor, points })
    };
    if let Some(error) = graph.ids().find_map(too_many) {
        return Err(error);
    }
    let _span = tracing::info_span!("plan", devices = cluster.devices()).entered();
    let with = |residency| -> Result<Plan, PlanError> {
        let options = PlanOptions {
            residency,
            ..*options
        };
        match options.objective {
            Objective::Time => by_time(graph, cluster, &options, watch),
            _ => best(graph, cluster.hierarchy(), &options, watch),
        }
    };
    let within = |residency| fit(graph, cluster, options, with(residency)?, watch);
    if options.residency != Residency::Auto {
        return within(options.residency)?.map_err(PlanError::from);
    }
    // one copy of the weights is less than what each device reads, but moves at every run
    let first = with(Residency::AsNeeded)?;
    if excess(graph, cluster, &first)?.is_none() {
        return Ok(first);
    }
    match (
        fit(graph, cluster, options, first, watch)?,
        within(Residency::Sharded)?,
    ) {
        (Ok(kept), Ok(sharded)) if weighted(&kept) <= weighted(&sharded) => Ok(kept),
        (_, Ok(sharded)) => Ok(sharded),
        (Ok(kept), Err(_)) => Ok(kept),
        (Err(kept), Err(sharded)) => Err(kept.or(sharded).into()),
    }
}

pub(super) fn best(
    graph: &BoundGraph,
    on: Hierarchy,
    options: &PlanOptions,
    watch: &Watch,
) -> Result<Plan, PlanError> {
    if options.objective == Objective::Communication {
        return by_vectors(graph, on, options, &Communication, watch);
    }
    let mut search = Search::new(graph, on, options.into(), watch)?;
    let mut evaluator = Evaluator::default();
    let found = search.solve(options.algorithm)?;
    let mut plan = evaluated(graph, on, options, found, &mut evaluator)?;
    // a certificate is over one replica layout per tensor, which a named strategy need not have
    if plan.moved_bytes == 0 {
        return Ok(plan);
    }
    let moved = weighted(&plan);
    let named = cheaper(
        graph,
        on,
        options,
        &mut search,
        &mut evaluator,
        watch,
        moved,
    )?;
    let Some(named) = named else {
        return Ok(plan);
    };
    for named in named {
        if weighted(&named) < weighted(&plan) {
            // what was proved holds for it too: it is one of those that were searched
            let cost = plan.certificate.cost.min(named.certificate.cost);
            plan = Plan {
                certificate: Certificate {
                    cost,
                    ..plan.certificate
                },
                ..named
            };
        }
    }
    // several replica layouts of a tensor move less than is predicted of one
    let counts = &mut Counts::kept();
    let better = improved(&search, &plan.nodes, watch, &mut |nodes| {
        let all = bytes_with(graph, on, nodes, counts).map_err(PlanError::Rule)?;
        Ok(all.iter().map(|b| b.weighted).sum::<u128>())
    })?;
    if let Some(nodes) = better {
        let better = evaluated(graph, on, options, Placed::of(nodes), &mut evaluator)?;
        if weighted(&better) < weighted(&plan) {
            plan = Plan {
                certificate: plan.certificate,
                ..better
            };
        }
    }
    Ok(plan)
}

/// Nodes of placements near one that are looked at.
const LOOKED: u64 = 10_000;

/// Layouts near some of the planner's kind that measure less; `None` if there are none, or more to look at than pays.
pub(super) fn improved<K: Ord>(
    search: &Search<'_>,
    nodes: &[NodePlan],
    watch: &Watch,
    measure: &mut dyn FnMut(&[NodePlan]) -> Result<K, PlanError>,
) -> Result<Option<Vec<NodePlan>>, PlanError> {
    let mut left = LOOKED / (nodes.len() as u64).max(1);
    let from = match search.near() <= left && watch.goes_on() {
        true => search.at(nodes),
        false => None,
    };
    let Some(from) = from else {
        return Ok(None);
    };
    let better = search.descend(from, &mut |nodes| {
        if left == 0 || !watch.goes_on() {
            return Ok(None);
        }
        left -= 1;
        measure(nodes).map(Some)
    })?;
    Ok(Some(search.read(&better)))
}

/// The best plan of each named strategy, unless it is proved to move as much as `moved`; `None` if every plan is.
pub(super) fn cheaper(
    graph: &BoundGraph,
    on: Hierarchy,
    options: &PlanOptions,
    search: &mut Search,
    evaluator: &mut Evaluator,
    watch: &Watch,
    moved: u128,
) -> Result<Option<Vec<Plan>>, PlanError> {
    // under any replicas: a strategy's plan need not have one replica layout per tensor
    let rules = Rules {
        replicas: false,
        ..options.into()
    };
    let mut any = Search::new(graph, on, rules, watch)?;
    let mut less = |keep: Keep| any.least(keep, moved).is_some_and(|least| least < moved);
    match less(&|_, _| true) {
        true => strategies(graph, on, options, search, evaluator, &mut less).map(Some),
        false => Ok(None),
    }
}

/// The best plan of each named strategy that some vertex can follow, and whose vectors are `wanted`, in their order.
pub(super) fn strategies(
    graph: &BoundGraph,
    on: Hierarchy,
    options: &PlanOptions,
    search: &mut Search,
    evaluator: &mut Evaluator,
    wanted: &mut dyn FnMut(Keep) -> bool,
) -> Result<Vec<Plan>, PlanError> {
    let roles = Roles::of(graph);
    let follow = |strategy: Strategy| {
        let keeps = |node, d: &[u32]| strategy.keeps(graph, &roles, node, d);
        if !wanted(&keeps) {
            return None;
        }
        let found = search.kept(&keeps)?;
        Some(evaluated(graph, on, options, found, evaluator))
    };
    Strategy::ALL.into_iter().filter_map(follow).collect()
}

/// The partition vectors of least cost under a model that sees no more, placed so that the fewest
/// bytes move.
pub(super) fn by_vectors(
    graph: &BoundGraph,
    on: Hierarchy,
    options: &PlanOptions,
    model: &dyn CostModel,
    watch: &Watch,
) -> Result<Plan, PlanError> {
    let found = communication::decompose(graph, on.devices(), model, options, watch)?;
    let vectors = &found.vectors;
    let rules = Rules {
        vectors: Some(vectors),
        ..options.into()
    };
    let placed = Search::new(graph, on, rules, watch)?.place();
    let plan = evaluated(graph, on, options, placed, &mut Evaluator::default())?;
    Ok(as_vectors(graph, model, plan, found.certificate))
}

/// A placed plan as one by a model of its vectors.
fn as_vectors(
    graph: &BoundGraph,
    model: &dyn CostModel,
    mut plan: Plan,
    certificate: Certificate,
) -> Plan {
    for ((id, _), node) in graph.ids().zip(&mut plan.nodes) {
        let cost = |join: &Arc<Layout>| model.vertex(graph, id, &join.parts);
        node.cost = node.join.as_ref().map_or(0, cost);
    }
    Plan {
        model: model.name().into(),
        certificate,
        ..plan
    }
}

/// A placed plan as one by `communication`, of which `proved` was.
pub(super) fn as_communication(graph: &BoundGraph, plan: Plan, proved: &Certificate) -> Plan {
    let parts = |n: &NodePlan| Some(n.join.as_ref()?.parts.clone());
    let vectors: Vec<Option<Vec<u32>>> = plan.nodes.iter().map(parts).collect();
    let certificate = Certificate {
        cost: communication::evaluate(graph, &vectors, &Communication),
        ..proved.clone()
    };
    as_vectors(graph, &Communication, plan, certificate)
}

/// The best plan that follows a strategy wherever it can; `None` if it can nowhere.
///
/// # Errors
/// As [`plan`].
pub fn named(
    graph: &BoundGraph,
    on: impl Into<Hierarchy>,
    options: &PlanOptions,
    strategy: Strategy,
) -> Result<Option<Plan>, PlanError> {
    let on = on.into();
    let roles = Roles::of(graph);
    let watch = Watch::new(&Unwatched);
    let mut search = Search::new(graph, on, options.into(), &watch)?;
    let found = search.kept(&|node, d| strategy.keeps(graph, &roles, node, d));
    found
        .map(|found| evaluated(graph, on, options, found, &mut Evaluator::default()))
        .transpose()
}

/// Bytes that a plan by `placed` moves, those between servers times their weight.
pub(super) fn weighted(plan: &Plan) -> u128 {
    plan.nodes.iter().map(|n| n.cost).sum()
}

/// The plan with what it really moves.
pub(super) fn evaluated(
    graph: &BoundGraph,
    on: Hierarchy,
    options: &PlanOptions,
    placed: Placed,
    evaluator: &mut Evaluator,
) -> Result<Plan, PlanError> {
    let mut nodes = placed.nodes;
    structure(graph, on.devices(), &nodes).map_err(PlanError::Rule)?;
    let moved = evaluator.moved(graph, &nodes);
    let moved_bytes = moved.iter().sum();
    let costs = match on.servers {
        1 => moved,
        _ => {
            let all = bytes(graph, on, &nodes).map_err(PlanError::Rule)?;
            all.iter().map(|b| b.weighted).collect()
        }
    };
    for (node, cost) in nodes.iter_mut().zip(costs) {
        node.cost = cost;
    }
    let calls = match options.constraints.oversubscribe.get() > 1 {
        true => ", each device's part cut in calls",
        false => "",
    };
    // what is folded on one device is predicted as one partial result, whatever its calls
    let moved: u128 = nodes.iter().map(|n| n.cost).sum();
    Ok(Plan {
        hierarchy: on,
        model: Objective::Placed.model().into(),
        residency: options.residency,
        constraints: options.constraints,
        moved_bytes,
        nodes,
        certificate: Certificate {
            cost: placed.cost.max(moved),
            bound: placed.bound,
            space: format!("axis layouts with one replica layout per tensor{calls}"),
            wider: Some(Wider {
                bound: placed.any,
                space: format!("one tuple per device anywhere, with such replicas{calls}"),
            }),
            checked: (placed.checked < placed.bound).then_some(placed.checked),
            stopped: false,
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::testing::random_graph;
    use crate::plan::samples::{ffn, matmul, transformer};
    use crate::plan::verify::verify;
    use proptest::prelude::{prop_assert, proptest};

    #[test]
    fn plans_pass_their_rules_and_move_what_they_say() {
        let graphs = [
            matmul(5, 7, 3),
            ffn(1, 6, 10),
            ffn(3, 2, 2),
            transformer(1, [2, 5, 2, 3, 7]),
        ];
        for graph in &graphs {
            for devices in 1..=8 {
                for residency in [Residency::AsNeeded, Residency::Sharded] {
                    let options = PlanOptions {
                        residency,
                        ..PlanOptions::default()
                    };
                    let cluster = Cluster::cpus(devices);
                    let plan = plan(graph, &cluster, &options).unwrap();
                    verify(graph, &plan, &cluster).unwrap();
                    assert!(plan.moved_bytes <= plan.certificate.cost);
                }
            }
        }
    }

    #[test]
    fn certificates_say_what_is_not_checked() {
        let mut certificate = Certificate {
            cost: 103,
            bound: 103,
            space: "plans".into(),
            wider: None,
            checked: None,
            stopped: false,
        };
        assert_eq!(certificate.to_string(), "optimal over plans");
        certificate.checked = Some(100);
        assert_eq!(
            certificate.to_string(),
            "optimal over plans; checked independently: within 3.0 % of the optimum"
        );
        certificate.checked = Some(0);
        assert_eq!(
            certificate.to_string(),
            "optimal over plans; no bound above 0 is checked independently"
        );
    }

    proptest! {
        #[test]
        fn any_graph_is_planned_within_its_rules(
            seed: u64,
            statements in 1usize..8,
            devices in 1u32..9,
            sharded: bool,
            placed: bool,
        ) {
            let graph = random_graph(seed, statements).bound();
            let cluster = Cluster::cpus(devices);
            let options = PlanOptions {
                objective: if placed { Objective::Placed } else { Objective::Communication },
                residency: if sharded { Residency::Sharded } else { Residency::AsNeeded },
                ..PlanOptions::default()
            };
            let plan = plan(&graph, &cluster, &options).unwrap();
            prop_assert!(verify(&graph, &plan, &cluster).is_ok());
            prop_assert!(plan.certificate.is_optimal());
            // over axis layouts it may be what min-marginals leave, which is not written down
            let any = plan.certificate.wider.as_ref().map_or(plan.certificate.bound, |w| w.bound);
            prop_assert!(plan.certificate.bound_checked() >= any);
            let total: u128 = plan.nodes.iter().map(|n| n.cost).sum();
            // JOIN and AGG of `communication`, whose certificate counts REPART too
            prop_assert!(total <= plan.certificate.cost);
            prop_assert!(!placed || total == plan.moved_bytes);
        }

        #[test]
        fn bounds_of_strategies_are_below_what_they_move(
            seed: u64,
            statements in 1usize..8,
            devices in 1u32..9,
            sharded: bool,
        ) {
            let graph = random_graph(seed, statements).bound();
            let options = PlanOptions {
                residency: if sharded { Residency::Sharded } else { Residency::AsNeeded },
                ..PlanOptions::default()
            };
            let rules = Rules {
                replicas: false,
                ..(&options).into()
            };
            let (watch, roles) = (Watch::new(&Unwatched), Roles::of(&graph));
            let mut any = Search::new(&graph, devices.into(), rules, &watch).unwrap();
            for strategy in Strategy::ALL {
                let least = any.least(&|node, d| strategy.keeps(&graph, &roles, node, d), u128::MAX);
                let named = named(&graph, devices, &options, strategy).unwrap();
                prop_assert!(least.is_some() == named.is_some());
                prop_assert!(least <= named.map(|named| named.moved_bytes));
            }
        }
    }

    /// Says no after so many questions.
    struct After(std::cell::Cell<u32>);

    impl Progress for After {
        fn keep_going(&self, _: &crate::plan::search::Status) -> bool {
            let left = self.0.get();
            self.0.set(left.saturating_sub(1));
            left > 0
        }
    }

    #[test]
    fn no_strategy_moves_less_than_a_plan_that_ended_early() {
        let cases = [
            (matmul(24, 24, 24), 12),
            (matmul(24, 24, 24), 64),
            (ffn(16, 64, 256), 16),
            (transformer(1, [2, 8, 4, 4, 64]), 8),
            (transformer(1, [8, 16, 8, 4, 16]), 16),
        ];
        let mut ended = 0;
        for (n, (graph, devices)) in cases.iter().enumerate() {
            for residency in [Residency::AsNeeded, Residency::Sharded] {
                let options = PlanOptions {
                    residency,
                    ..PlanOptions::default()
                };
                let named = Strategy::ALL.into_iter().filter_map(|strategy| {
                    let plan = named(graph, *devices, &options, strategy).unwrap()?;
                    let arenas = crate::task::lower::lower(graph, &plan).unwrap().arenas;
                    Some((
                        strategy,
                        plan.moved_bytes,
                        arenas.into_iter().max().unwrap(),
                    ))
                });
                let named: Vec<_> = named.collect();
                assert!(!named.is_empty(), "{n}");
                let least = named.iter().map(|(_, _, peak)| *peak).min().unwrap();
                for capacity in [u64::MAX, least] {
                    let cluster = Cluster::cpus(*devices).with_capacity(capacity);
                    for questions in [0, 1, 2, 5, 20] {
                        let after = After(questions.into());
                        let plan = plan_watched(graph, &cluster, &options, &after).unwrap();
                        verify(graph, &plan, &cluster).unwrap();
                        assert!(plan.certificate.bound <= plan.certificate.cost);
                        ended += usize::from(plan.certificate.stopped);
                        for (strategy, moved, peak) in &named {
                            let what = format!("{n}, {residency:?}, {questions}: {strategy}");
                            assert!(*peak > capacity || plan.moved_bytes <= *moved, "{what}");
                        }
                    }
                }
            }
        }
        assert!(ended > 50, "{ended} ended early");
    }

    #[test]
    fn placement_keeps_the_vectors_of_communication() {
        let options = PlanOptions {
            objective: Objective::Communication,
            ..PlanOptions::default()
        };
        let graph = transformer(1, [2, 6, 2, 4, 12]);
        for devices in [1, 3, 4, 8] {
            let plan = plan(&graph, &Cluster::cpus(devices), &options).unwrap();
            let found = communication::plan(&graph, devices, Algorithm::Exact).unwrap();
            let vectors = plan
                .nodes
                .into_iter()
                .map(|n| n.join.map(|j| j.parts.clone()));
            assert_eq!(vectors.collect::<Vec<_>>(), found.vectors);
        }
    }
}
