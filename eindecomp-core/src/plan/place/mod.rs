//! Placement: the layout of every join and the owner of every tensor, so that the fewest bytes
//! move.
//!
//! Files: `axes` (layouts as assignments of device axes), `lists` (hash-consed holdings and
//! tables), `model` (the labelling problem and how its solutions are read).

mod axes;
mod lists;
mod model;

use crate::graph::{BoundGraph, Node, NodeId};
use crate::plan::layout::Layout;
use crate::plan::partition::Room;
use crate::plan::planner::{Algorithm, PlanError};
use crate::plan::search::{Budget, Solution, Unwatched, exhaustive, linearized, solve};
use crate::plan::{NodePlan, Residency};

use axes::{Axes, Orders};
pub(crate) use model::Keep;
use model::Model;

/// Most values of a variable before fewer orders of axes are searched.
const VALUES: u64 = 300;
/// Most assignments that `exhaustive` tries.
const EXHAUSTIVE: u128 = 1 << 32;

/// What the search found.
pub(crate) struct Placed {
    /// One entry per node; costs are still 0.
    pub nodes: Vec<NodePlan>,
    /// Predicted bytes: at least those that move.
    pub cost: u128,
    /// No plan of the space costs less.
    pub bound: u128,
    /// Is every assignment of axes in the space?
    pub all_axes: bool,
}

/// Every layout of a join stays.
pub(crate) fn keep_all(_: NodeId, _: &Layout) -> bool {
    true
}

/// A placement problem.
pub(crate) struct Search {
    model: Model,
    orders: Orders,
}

impl Search {
    /// Over the joins that `keep` keeps.
    ///
    /// # Errors
    /// Pins that cannot be kept.
    pub fn new(
        graph: &BoundGraph,
        devices: u32,
        residency: Residency,
        keep: Keep<'_>,
    ) -> Result<Search, PlanError> {
        let orders = orders(graph, devices);
        let model = Model::build(graph, devices, residency, orders, keep)?;
        Ok(Search { model, orders })
    }

    /// Did the predicate keep a layout of some vertex?
    pub fn keeps_some(&self) -> bool {
        self.model.keeps_some()
    }

    /// The cheapest placement.
    ///
    /// # Errors
    /// [`PlanError::TooManyPlans`].
    pub fn solve(&self, algorithm: Algorithm) -> Result<Placed, PlanError> {
        let problem = self.model.problem();
        let Solution {
            assignment,
            cost,
            bound,
            ..
        } = match algorithm {
            Algorithm::Exact => solve(problem, Budget::default(), &Unwatched),
            Algorithm::Linearized => linearized::solve(problem),
            Algorithm::Exhaustive => exhaustive::solve(problem, EXHAUSTIVE)
                .ok_or(PlanError::TooManyPlans { limit: EXHAUSTIVE })?,
        };
        Ok(Placed {
            nodes: self.model.read(&assignment),
            cost: self.model.bytes(cost),
            bound: self.model.bytes(bound),
            all_axes: self.orders != Orders::Canonical,
        })
    }
}

/// The largest space in which no variable has too many values.
fn orders(graph: &BoundGraph, devices: u32) -> Orders {
    let labels = |(id, node): (NodeId, &Node)| {
        let extents = graph.label_extents(id);
        let axes = graph.shape(id).iter().filter(|&&n| n > 1).count();
        let room = |e| Room::of_vertex(node, e, extents, devices).ok();
        let room = node.einsum().and_then(room);
        let labels = room.map_or(0, |r| r.most.iter().filter(|&&n| n > 1).count());
        labels.max(axes)
    };
    let (axes, labels) = (
        Axes::of(devices),
        graph.ids().map(labels).max().unwrap_or(0),
    );
    let all = [Orders::All, Orders::Ascending];
    let fits = all.into_iter().find(|&o| axes.count(labels, o) <= VALUES);
    fits.unwrap_or(Orders::Canonical)
}

#[cfg(test)]
mod tests;
