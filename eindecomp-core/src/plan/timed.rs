//! Plans of least time: candidates by the sum without overlap, the best of them by simulation.

use super::cost::time::{Time, Timings};
use super::place::{Evaluator, Placed, Search};
use super::planner::{Algorithm, Objective, PlanError, PlanOptions};
use super::planner::{best, by_vectors, evaluated, improved, strategies};
use super::search::Watch;
use super::{Certificate, Cluster, Plan};
use crate::graph::BoundGraph;
use crate::task::lower::lower;

/// How many plans of least sum are simulated.
const SIMULATED: usize = 4;

/// The plan of least time. Candidates are the partition vectors of least time, and the plans of the
/// other objectives and of every named strategy; all are evaluated as placed. Where there is little to look at, layouts of the one of
/// least sum are changed as long as the sum gets less. One that does not fit the memory is
/// returned only if none does.
///
/// # Errors
/// As [`plan`](super::plan).
pub(super) fn by_time(
    graph: &BoundGraph,
    cluster: &Cluster,
    options: &PlanOptions,
    watch: &Watch,
) -> Result<Plan, PlanError> {
    let (model, on) = (
        Time::new(graph, cluster, options.residency, options.constraints)?,
        cluster.hierarchy(),
    );
    let found = by_vectors(graph, on, options, &model, watch)?;
    let proved = found.certificate.clone();
    let mut plans = vec![found];
    for objective in [Objective::Placed, Objective::Communication] {
        let options = PlanOptions {
            objective,
            algorithm: Algorithm::Exact,
            ..*options
        };
        if watch.goes_on() {
            plans.push(best(graph, on, &options, watch)?);
        }
    }
    let placed = PlanOptions {
        objective: Objective::Placed,
        ..*options
    };
    let mut search = Search::new(graph, on, (&placed).into(), watch)?;
    let evaluator = &mut Evaluator::default();
    plans.extend(strategies(
        graph,
        on,
        &placed,
        &mut search,
        evaluator,
        &mut |_| true,
    )?);
    let known = &mut Timings::default();
    let mut plans: Vec<Plan> = plans
        .into_iter()
        .map(|plan| timed(graph, &model, &proved, plan, known))
        .collect::<Result<_, PlanError>>()?;
    // stable: of equal sums the earlier candidate stays first
    plans.sort_by_key(|plan| plan.certificate.cost);
    plans.dedup_by(|a, b| a.nodes == b.nodes);
    let least = plans[0].nodes.clone();
    let better = improved(&search, &least, watch, &mut |nodes| {
        let costs = model.of_several(graph, nodes, known);
        Ok(costs.map_err(PlanError::Rule)?.iter().sum::<u128>())
    })?;
    if let Some(nodes) = better.filter(|nodes| *nodes != least) {
        let better = evaluated(graph, on, &placed, Placed::of(nodes), evaluator)?;
        plans.insert(0, timed(graph, &model, &proved, better, known)?);
    }
    let (mut fastest, mut simulated) = (None::<(u128, Plan)>, 0);
    let mut unfit = None;
    // simulation takes time, too
    let most = if watch.has_stopped() { 1 } else { SIMULATED };
    for plan in plans {
        let tasks = lower(graph, &plan).map_err(|e| PlanError::Rule(e.into()))?;
        if tasks.arenas.iter().any(|&bytes| bytes > cluster.capacity()) {
            unfit.get_or_insert(plan);
            continue;
        }
        let time = model.simulate(graph, &tasks);
        tracing::debug!(sum = %plan.certificate.cost, simulated = %time, "candidate");
        if fastest.as_ref().is_none_or(|(least, _)| time < *least) {
            fastest = Some((time, plan));
        }
        simulated += 1;
        if simulated == most {
            break;
        }
    }
    let fastest = fastest.map(|(_, plan)| plan);
    Ok(fastest.or(unfit).expect("there is a candidate"))
}

/// A plan by another objective as one by time, of which `proved` was.
///
/// # Errors
/// A plan that breaks a rule: a defect of the planner.
pub(super) fn as_timed(
    graph: &BoundGraph,
    cluster: &Cluster,
    plan: Plan,
    proved: &Certificate,
) -> Result<Plan, PlanError> {
    let model = Time::new(graph, cluster, plan.residency, plan.constraints)?;
    timed(graph, &model, proved, plan, &mut Timings::default())
}

fn timed(
    graph: &BoundGraph,
    model: &Time,
    proved: &Certificate,
    plan: Plan,
    known: &mut Timings,
) -> Result<Plan, PlanError> {
    let costs = model.of_several(graph, &plan.nodes, known);
    let costs = costs.map_err(PlanError::Rule)?;
    let mut nodes = plan.nodes;
    for (node, cost) in nodes.iter_mut().zip(&costs) {
        node.cost = *cost;
    }
    let certificate = Certificate {
        cost: costs.iter().sum(),
        bound: proved.bound,
        space: "partition vectors with one tuple per device, without overlap".into(),
        wider: None,
        checked: proved.checked,
        stopped: false,
    };
    Ok(Plan {
        model: Objective::Time.model().into(),
        nodes,
        certificate,
        ..plan
    })
}
