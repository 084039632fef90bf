//! Plans of least time: candidates by the sum without overlap, the best of them by simulation.

use super::cost::time::Time;
use super::place::{Evaluator, Search};
use super::planner::{Algorithm, Objective, PlanError, PlanOptions};
use super::planner::{best, by_vectors, strategies};
use super::search::Watch;
use super::{Certificate, Cluster, Plan};
use crate::graph::BoundGraph;
use crate::task::lower::lower;

/// How many plans of least sum are simulated.
const SIMULATED: usize = 4;

/// The plan of least time. Candidates are the partition vectors of least time, and the plans of the
/// other objectives and of every named strategy; all are evaluated as placed. One that does not fit the memory is
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
        if objective == Objective::Placed {
            let mut search = Search::new(graph, on, (&options).into(), watch)?;
            let mut evaluator = Evaluator::default();
            plans.extend(strategies(
                graph,
                on,
                &options,
                &mut search,
                &mut evaluator,
                &mut |_| true,
            )?);
        }
    }
    let mut plans: Vec<Plan> = plans
        .into_iter()
        .map(|plan| timed(graph, &model, &proved, plan))
        .collect::<Result<_, PlanError>>()?;
    // stable: of equal sums the earlier candidate stays first
    plans.sort_by_key(|plan| plan.certificate.cost);
    plans.dedup_by(|a, b| a.nodes == b.nodes);
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
    timed(graph, &model, proved, plan)
}

fn timed(
    graph: &BoundGraph,
    model: &Time,
    proved: &Certificate,
    plan: Plan,
) -> Result<Plan, PlanError> {
    let costs = model.of(graph, &plan.nodes).map_err(PlanError::Rule)?;
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
