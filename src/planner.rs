//! How plans are made, where the build can.

use crate::cache::Planner;

/// Plans a task and checks the plan; `None` without the feature `planner`.
#[cfg(not(feature = "planner"))]
pub(crate) const PLANNER: Planner = None;

/// Plans a task and checks the plan; `None` without the feature `planner`.
#[cfg(feature = "planner")]
pub(crate) const PLANNER: Planner = Some(|task| {
    let plan = eindecomp_core::plan::plan(task.graph, task.cluster, task.options)?;
    let tasks = eindecomp_core::plan::verify::verify(task.graph, &plan, task.cluster)?;
    Ok((plan, tasks))
});
