//! Placement: the layout of every join and the owner of every tensor, so that the fewest bytes
//! move.
//!
//! 1. *Bound*: partition vectors alone; an edge costs the least that any devices allow. Solved
//!    exactly, it bounds every placement with one tuple per device.
//! 2. *Incumbent*: the vectors of 1, with device axes that agree along edges.
//! 3. *Close*: min-marginals of 1 discard every vector that no better placement has; what is left
//!    is searched with axes that agree and such as are given out in turn, and with all its axes, if that is little enough.
//!
//! Files: `spread` (vectors and assignments of device axes), `kind` and
//! `boxes` (what an edge costs), `model`
//! (variables and edges), `build` (those of a graph), `values` (lists of values and the problems over them),
//! `incumbent` (axes that agree), `near` (one layout changed after the other), `usage` (memory), `evaluate` (what placements move).

mod boxes;
mod build;
mod evaluate;
mod incumbent;
mod kind;
mod model;
mod near;
mod spread;
mod usage;
mod values;

use std::rc::Rc;

use crate::graph::BoundGraph;
use crate::plan::planner::{Algorithm, PlanError};
use crate::plan::search::{
    Budget, Marginals, VarId, Watch, bound, check, exhaustive, linearized, marginals, nearly, solve,
};
use crate::plan::{Hierarchy, NodePlan};

pub(crate) use build::Rules;
pub(crate) use evaluate::Evaluator;
use incumbent::{Aligner, Incumbent};
pub(crate) use model::Keep;
use model::Model;
pub(crate) use near::Assignment;
use spread::{Spread, Vector};
use usage::Usage;
use values::{List, Tables};

/// A vector with at most so many assignments of axes is tried with all of them.
const ALL: u64 = 24;
/// Most spreads of a variable before those that agree with neighbours are searched alone.
const VALUES: u64 = 400;
/// What discarding vectors may use.
const MARGINALS: Budget = Budget {
    table_bytes: 1 << 20,
    work: 300_000_000,
};
/// What the search of all their axes may use.
const CLOSE: Budget = Budget {
    table_bytes: 16 << 20,
    work: 500_000_000,
};
/// What a bound alone may use.
const LEAST: Budget = Budget {
    table_bytes: 1 << 20,
    work: 100_000_000,
};
/// Most vectors of a variable, beside the incumbent's, that are tried at once.
const TRIED: usize = 12;
/// Searches among all vectors that may be part of a better placement.
const WIDER: usize = 2;
/// Most assignments that `exhaustive` tries.
const EXHAUSTIVE: u128 = 1 << 32;

/// What the search found.
pub(crate) struct Placed {
    /// One entry per node; costs are still 0.
    pub nodes: Vec<NodePlan>,
    /// Where it was found.
    pub at: Assignment,
    /// Predicted bytes, weighed by link: at least those that move.
    pub cost: u128,
    /// No placement by device axes costs less.
    pub bound: u128,
    /// No placement with one tuple per device costs less.
    pub any: u128,
    /// What an independent checker found again of `any`; 0 where nobody asks.
    pub checked: u128,
}

impl Placed {
    /// Layouts of which nothing is known.
    pub fn of(nodes: Vec<NodePlan>) -> Placed {
        Placed {
            nodes,
            at: Assignment(Vec::new()),
            cost: 0,
            bound: 0,
            any: 0,
            checked: 0,
        }
    }
}

/// A placement problem, with what was computed for it so far.
pub(crate) struct Search<'a> {
    watch: &'a Watch<'a>,
    model: Model,
    vectors: Tables<Vector>,
    spreads: Tables<Spread>,
}

type Domains = Vec<Rc<List<Vector>>>;

impl<'a> Search<'a> {
    /// Of a graph.
    ///
    /// # Errors
    /// Pins that cannot be kept.
    pub fn new(
        graph: &BoundGraph,
        on: Hierarchy,
        rules: Rules<'_>,
        watch: &'a Watch<'a>,
    ) -> Result<Search<'a>, PlanError> {
        Ok(Search {
            watch,
            model: Model::build(graph, on, rules)?,
            vectors: Tables::default(),
            spreads: Tables::default(),
        })
    }

    /// The cheapest placement.
    ///
    /// # Errors
    /// [`PlanError::TooManyPlans`].
    pub fn solve(&mut self, algorithm: Algorithm) -> Result<Placed, PlanError> {
        let domains = self.model.domains();
        match algorithm {
            Algorithm::Exact => Ok(self.exact(&domains, true)),
            Algorithm::Linearized => Ok(self.linearized(&domains)),
            Algorithm::Exhaustive => self.exhaustive(&domains, EXHAUSTIVE),
        }
    }

    /// A good placement whose joins have vectors that `keep` keeps; `None` if it keeps none. The same whenever a plan is to
    /// end: few vectors are left, and what a plan is compared with must not depend on a clock.
    pub fn kept(&mut self, keep: Keep<'_>) -> Option<Placed> {
        let (domains, some) = self.model.kept(keep);
        let watch = self.watch;
        some.then(|| watch.through(|| self.exact(&domains, false)))
    }

    /// No placement whose joins have vectors that `keep` keeps is predicted to move fewer bytes; `None` if it keeps
    /// none. What is more than `until` is not looked for.
    pub fn least(&mut self, keep: Keep<'_>, until: u128) -> Option<u128> {
        let (domains, some) = self.model.kept(keep);
        if !some {
            return None;
        }
        let problem = self.vectors.problem(&self.model, &domains);
        let until = until.saturating_mul(self.model.unit.into());
        Some(self.model.bytes(bound(&problem, LEAST, until, self.watch)))
    }

    /// A good placement: what is left between it and the bound is not searched.
    pub fn place(&mut self) -> Placed {
        let domains = self.model.domains();
        self.exact(&domains, false)
    }

    /// A good placement that uses at most `bytes` of all devices' memory together when any kernel
    /// runs, as far as vectors tell ([`Usage`]); `None` if none was found.
    pub fn within(&mut self, graph: &BoundGraph, bytes: u64) -> Option<Placed> {
        let domains = self.model.domains();
        let mut problem = self.vectors.problem(&self.model, &domains);
        let usage = Usage::of(graph, &self.model);
        let limits = usage.limits(bytes)?;
        let all = 0..limits.len() as u32;
        problem.set_limits(limits);
        for (variable, at, bytes) in usage.iter() {
            let positions = at.map_or(all.clone(), |at| at as u32..at as u32 + 1);
            problem.add_usage(variable, positions, bytes);
        }
        let found = nearly(&problem, Budget::default(), self.watch);
        if !found.is_feasible() {
            return None;
        }
        let vectors = chosen(&domains, &found.assignment);
        let mut aligner = Aligner::new(&self.model, &mut self.spreads, self.watch);
        let best = aligner.place(&vectors);
        let best = aligner.improve(best, found.bound, ALL, &|_| Vec::new());
        let checked = check::confirmed(&problem, &found);
        Some(self.placed(best, found.bound, [found.bound, checked]))
    }

    /// No placement with one tuple per device uses less of all devices' memory together.
    pub fn least_bytes(&self, graph: &BoundGraph) -> u64 {
        Usage::of(graph, &self.model).least()
    }

    fn exact(&mut self, domains: &Domains, close: bool) -> Placed {
        let problem = self.vectors.problem(&self.model, domains);
        let search = if close { solve } else { nearly };
        let found = search(&problem, Budget::default(), self.watch);
        let vectors = chosen(domains, &found.assignment);
        let mut aligner = Aligner::new(&self.model, &mut self.spreads, self.watch);
        let mut best = aligner.place(&vectors);
        // ties alone are not worth a further search
        let bytes = self.model.bytes(found.bound);
        let good = bytes * u128::from(self.model.unit) + u128::from(self.model.unit - 1);
        best = aligner.improve(best, good, 1, &|_| Vec::new());
        best = aligner.improve(best, good, ALL, &|_| Vec::new());
        let mut bound = found.bound;
        if close && best.cost > good && self.watch.goes_on() {
            let marginals = marginals(&problem, MARGINALS, self.watch);
            let first = |v| {
                lowest(&marginals, domains, v)
                    .take(TRIED)
                    .map(|x| x.1)
                    .collect()
            };
            best = aligner.improve(best, good, 1, &first);
            for _ in 0..WIDER {
                let cost = best.cost;
                if cost <= good || !self.watch.goes_on() {
                    break;
                }
                let all = |v| lowest(&marginals, domains, v).take_while(|x| x.0 < cost);
                best = aligner.among(best, &|v| all(v).map(|x| x.1).collect());
                best = aligner.improve(best, good, ALL, &|_| Vec::new());
                if best.cost == cost {
                    break;
                }
            }
            let open = survivors(&marginals, domains, best.cost);
            if best.cost > good && spreads(&open) <= VALUES {
                let closed;
                (best, closed) = self.closed(&open, best);
                bound = bound.max(closed);
            }
        }
        let checked = match close {
            true => check::confirmed(&problem, &found),
            false => 0,
        };
        self.placed(best, bound, [found.bound, checked])
    }

    /// The cheapest placement, given that no better one has vectors outside these, and its bound.
    fn closed(&mut self, open: &[Vec<Vector>], best: Incumbent) -> (Incumbent, u128) {
        let lists = &mut self.spreads.lists;
        let domains: Vec<Rc<List<Spread>>> = (open.iter().zip(&best.spreads))
            .enumerate()
            .map(|(v, (vectors, own))| {
                let spreads = |vector| self.model.spreads(v, vector);
                let mut all: Vec<Spread> = vectors.iter().flat_map(spreads).collect();
                if !all.contains(own) {
                    all.push(own.clone());
                }
                lists.intern(all)
            })
            .collect();
        let problem = self.spreads.problem(&self.model, &domains);
        let found = solve(&problem, CLOSE, self.watch);
        let bound = found.bound.min(best.cost);
        if found.cost >= best.cost {
            return (best, bound);
        }
        let chosen = domains.iter().zip(found.assignment);
        let best = Incumbent {
            spreads: chosen.map(|(d, x)| d.all[x as usize].clone()).collect(),
            cost: found.cost,
        };
        (best, bound)
    }

    fn linearized(&mut self, domains: &Domains) -> Placed {
        let problem = self.vectors.problem(&self.model, domains);
        let found = linearized::solve(&problem);
        let vectors = chosen(domains, &found.assignment);
        let mut aligner = Aligner::new(&self.model, &mut self.spreads, self.watch);
        let best = aligner.place(&vectors);
        let best = aligner.improve(best, found.bound, ALL, &|_| Vec::new());
        let checked = check::confirmed(&problem, &found);
        self.placed(best, found.bound, [found.bound, checked])
    }

    fn exhaustive(&mut self, domains: &Domains, limit: u128) -> Result<Placed, PlanError> {
        let lists = &mut self.spreads.lists;
        let domains: Vec<Rc<List<Spread>>> = domains
            .iter()
            .enumerate()
            .map(|(v, d)| {
                let spreads = |vector| self.model.spreads(v, vector);
                lists.intern(d.all.iter().flat_map(spreads).collect())
            })
            .collect();
        let problem = self.spreads.problem(&self.model, &domains);
        let found = exhaustive::solve(&problem, limit).ok_or(PlanError::TooManyPlans { limit })?;
        let chosen = domains.iter().zip(found.assignment);
        let best = Incumbent {
            spreads: chosen.map(|(d, x)| d.all[x as usize].clone()).collect(),
            cost: found.cost,
        };
        Ok(self.placed(best, found.bound, [0, 0]))
    }

    /// With a bound over axis layouts, one over any devices and what is checked of it.
    fn placed(&self, best: Incumbent, bound: u128, [any, checked]: [u128; 2]) -> Placed {
        Placed {
            nodes: self.model.read(&best.spreads),
            cost: self.model.bytes(best.cost),
            bound: self.model.bytes(bound.min(best.cost)),
            any: self.model.bytes(any.min(best.cost)),
            checked: self.model.bytes(checked.min(best.cost)),
            at: Assignment(best.spreads),
        }
    }
}

fn chosen(domains: &Domains, assignment: &[u32]) -> Vec<Vector> {
    let value = |(d, &x): (&Rc<List<Vector>>, &u32)| d.all[x as usize].clone();
    domains.iter().zip(assignment).map(value).collect()
}

/// The vectors of a variable with their least costs, lowest first.
fn lowest<'a>(
    marginals: &Marginals,
    domains: &'a Domains,
    v: usize,
) -> impl Iterator<Item = (u128, Vector)> + use<'a> {
    let least = |x: usize| marginals.least(VarId(v as u32), x as u32);
    let mut order: Vec<(u128, usize)> = (0..domains[v].all.len()).map(|x| (least(x), x)).collect();
    order.sort_unstable();
    let of = move |(least, x): (u128, usize)| (least, domains[v].all[x].clone());
    order.into_iter().map(of)
}

/// Per variable: the vectors that a placement of less than `cost` may have.
fn survivors(marginals: &Marginals, domains: &Domains, cost: u128) -> Vec<Vec<Vector>> {
    let open = |(v, domain): (usize, &Rc<List<Vector>>)| {
        let all = domain.all.iter().enumerate();
        let all = all.filter(|(x, _)| marginals.least(VarId(v as u32), *x as u32) < cost);
        all.map(|(_, vector)| vector.clone()).collect()
    };
    domains.iter().enumerate().map(open).collect()
}

/// Most spreads of a variable.
fn spreads(open: &[Vec<Vector>]) -> u64 {
    let count = |vectors: &Vec<Vector>| {
        vectors
            .iter()
            .map(Vector::count)
            .fold(0, u64::saturating_add)
    };
    open.iter().map(count).max().unwrap_or(0)
}

#[cfg(test)]
mod tests;
