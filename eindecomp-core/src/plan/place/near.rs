//! Placements near one that was found, and all of them where there are few: for what no search sees, as the arenas of devices.

use super::Search;
use super::spread::{Spread, Vector};
use crate::plan::planner::PlanError;
use crate::plan::search::VarId;
use crate::plan::{Layout, NodePlan};

/// Most values of a variable that are each tried with all their axes.
const VALUES: u64 = 64;
/// Most assignments of axes to a vector that are listed to take the first.
const LISTED: u64 = 5040;

/// What a placement measures; `None` if there is no more to say.
pub(crate) type Measure<'a, K> = &'a mut dyn FnMut(&[NodePlan]) -> Result<Option<K>, PlanError>;

/// Where a search stands.
#[derive(Clone, Debug)]
pub(crate) struct Assignment(pub(super) Vec<Spread>);

impl Search<'_> {
    /// Where a placement is; `None` if it is not of the planner's kind.
    pub fn at(&self, nodes: &[NodePlan]) -> Option<Assignment> {
        let model = &self.model;
        let first = |v: usize| {
            Some(
                model
                    .spreads(v, model.variables[v].domain.all.first()?)
                    .swap_remove(0),
            )
        };
        let mut at = (0..model.variables.len())
            .map(first)
            .collect::<Option<Vec<Spread>>>()?;
        let mut set = |v: VarId, layout: Option<&Layout>| {
            let (layout, domain) = (layout?, &model.variables[v.at()].domain);
            let mut cut = domain
                .all
                .iter()
                .filter(|vector| vector.parts == layout.parts);
            at[v.at()] = cut.find_map(|vector| vector.on(&layout.devices))?;
            Some(())
        };
        for (entry, node) in model.entries.iter().zip(nodes) {
            if let Some(join) = entry.join {
                set(join, node.join.as_deref())?;
            }
            if let Some(owner) = entry.owner.as_ref().filter(|o| o.cuts.is_none()) {
                set(owner.variable, node.owner.as_deref())?;
            }
        }
        Some(Assignment(at))
    }

    /// The layouts there; costs are still 0.
    pub fn read(&self, at: &Assignment) -> Vec<NodePlan> {
        self.model.read(&at.0)
    }

    /// Placements that [`descend`](Search::descend) looks at before it changes two layouts at once, if it finds none that is better.
    pub fn near(&self) -> u64 {
        let all = |v: usize| &self.model.variables[v].domain.all;
        let near = |v: usize| {
            let counts = all(v).iter().map(Vector::count);
            let count = counts.fold(0, u64::saturating_add);
            // many are not listed to take one of them
            let few = all(v).iter().all(|x| x.count() <= LISTED);
            match (count <= VALUES, few) {
                (true, _) => count,
                (_, true) => all(v).len() as u64,
                _ => u64::MAX,
            }
        };
        let read = self.model.read_from().into_iter();
        read.map(near).fold(0, u64::saturating_add)
    }

    /// From a placement to ones that measure less: one layout after the other is changed, two at once where no single one helps,
    /// until nothing does or `measure` has no more to say.
    ///
    /// # Errors
    /// Those of `measure`.
    pub fn descend<K: Ord>(
        &self,
        from: Assignment,
        measure: Measure<K>,
    ) -> Result<Assignment, PlanError> {
        let Assignment(mut best) = from;
        let Some(mut least) = measure(&self.model.read(&best))? else {
            return Ok(Assignment(best));
        };
        let values = self.values();
        loop {
            let mut better = false;
            for (v, all) in &values {
                for x in all {
                    let old = std::mem::replace(&mut best[*v], x.clone());
                    match measure(&self.model.read(&best))? {
                        Some(next) if next < least => (least, better) = (next, true),
                        next => {
                            best[*v] = old;
                            if next.is_none() {
                                return Ok(Assignment(best));
                            }
                        }
                    }
                }
            }
            if !better && !self.two(&values, &mut best, &mut least, measure)? {
                return Ok(Assignment(best));
            }
        }
    }

    /// Changes the first two layouts that together measure less. Are there such?
    fn two<K: Ord>(
        &self,
        values: &[(usize, Vec<Spread>)],
        best: &mut [Spread],
        least: &mut K,
        measure: Measure<K>,
    ) -> Result<bool, PlanError> {
        for (n, (v, all)) in values.iter().enumerate() {
            for (u, others) in &values[n + 1..] {
                let old = (best[*v].clone(), best[*u].clone());
                for x in all {
                    for y in others {
                        (best[*v], best[*u]) = (x.clone(), y.clone());
                        match measure(&self.model.read(best))? {
                            Some(next) if next < *least => {
                                *least = next;
                                return Ok(true);
                            }
                            Some(_) => {}
                            None => {
                                (best[*v], best[*u]) = old;
                                return Ok(false);
                            }
                        }
                    }
                }
                (best[*v], best[*u]) = old;
            }
        }
        Ok(false)
    }

    /// Visits every placement by device axes, if there are no more than `most` and `visit` does not end it: were all visited?
    ///
    /// # Errors
    /// Those of `visit`.
    pub fn every(
        &self,
        most: u64,
        visit: &mut dyn FnMut(&[NodePlan]) -> Result<bool, PlanError>,
    ) -> Result<bool, PlanError> {
        let count = |v: usize| -> u64 {
            let all = self.model.variables[v].domain.all.iter();
            all.map(|x| x.count()).fold(0, u64::saturating_add)
        };
        let read = self.model.read_from();
        let counts = read.iter().map(|&v| count(v));
        if counts.fold(1, u64::saturating_mul) > most {
            return Ok(false);
        }
        let all = |v: usize| -> Vec<Spread> {
            let vectors = self.model.variables[v].domain.all.iter();
            vectors.flat_map(|x| self.model.spreads(v, x)).collect()
        };
        let values: Vec<Vec<Spread>> = read.iter().map(|&v| all(v)).collect();
        let first = |v| {
            self.model
                .spreads(v, &self.model.variables[v].domain.all[0])
        };
        let firsts = (0..self.model.variables.len()).map(|v| first(v).swap_remove(0));
        let mut now: Vec<Spread> = firsts.collect();
        let mut at = vec![0; read.len()];
        loop {
            for ((&v, all), &x) in read.iter().zip(&values).zip(&at) {
                now[v].clone_from(&all[x]);
            }
            if !visit(&self.model.read(&now))? {
                return Ok(false);
            }
            let Some(next) = (0..at.len()).rev().find(|&n| at[n] + 1 < values[n].len()) else {
                return Ok(true);
            };
            at[next] += 1;
            at[next + 1..].fill(0);
        }
    }

    /// Variables that layouts are read from, and what each is tried as: every value, or one per vector where these are many.
    fn values(&self) -> Vec<(usize, Vec<Spread>)> {
        let values = |v: usize| {
            let all = &self.model.variables[v].domain.all;
            let count = all.iter().map(|x| x.count()).fold(0, u64::saturating_add);
            let each = if count <= VALUES { usize::MAX } else { 1 };
            let spreads = |x| self.model.spreads(v, x).into_iter().take(each);
            (v, all.iter().flat_map(spreads).collect())
        };
        self.model.read_from().into_iter().map(values).collect()
    }
}
