//! What a user may choose about planning. Part of a plan's key, so it is there without the planner.

/// What a plan minimises.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Objective {
    /// Bytes that move between devices, given where every tile is.
    #[default]
    Placed,
    /// Elements that move when every tile is remote (EinDecomp, arXiv 2410.02682, §5).
    Communication,
    /// Nanoseconds without overlap, by the rates of the cluster; of the best plans the one whose
    /// tasks end first with overlap.
    Time,
}

impl Objective {
    /// Every objective.
    pub const ALL: [Objective; 3] = [Objective::Placed, Objective::Communication, Objective::Time];

    /// The objective whose cost model has this name and version.
    pub fn of_model(model: &str) -> Option<Objective> {
        Objective::ALL.into_iter().find(|o| o.model() == model)
    }

    /// Name and version of the cost model, as in plans and keys.
    pub fn model(self) -> &'static str {
        match self {
            Objective::Placed => "placed/2",
            Objective::Communication => "communication/1",
            Objective::Time => "time/1",
        }
    }
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
    pub residency: super::Residency,
    /// How.
    pub algorithm: Algorithm,
    /// What every vertex must keep.
    pub constraints: super::Constraints,
}
