//! Good placements: axes that agree with those of neighbours, chosen among a few candidates per
//! variable by the exact search, again and again.

use std::rc::Rc;

use super::model::Model;
use super::spread::{Spread, Vector};
use super::values::{List, Tables};
use crate::plan::search::{Budget, Solution, Watch, solve};
use crate::quick::Table;

/// Most neighbours that a candidate agrees with before all others.
const FIRST: usize = 4;
/// Most rounds of candidates.
const ROUNDS: usize = 8;

/// One spread per variable, and its cost.
#[derive(Clone, Debug)]
pub(super) struct Incumbent {
    pub spreads: Vec<Spread>,
    pub cost: u128,
}

/// What a neighbour wishes: per label, its slowest axes; and the bytes at stake.
struct Wish {
    stake: u64,
    axes: Vec<(usize, Vec<u8>)>,
}

/// A neighbour that is placed: the kind of the edge, whether that is its have, and its list.
type Near = (usize, bool, usize);

pub(super) struct Aligner<'a> {
    model: &'a Model,
    tables: &'a mut Tables<Spread>,
    watch: &'a Watch<'a>,
    /// Per variable: its edges, and whether it is the need.
    around: Vec<Vec<(usize, bool)>>,
    stakes: Table<(usize, Vector, Vector), u64>,
}

impl<'a> Aligner<'a> {
    pub fn new(
        model: &'a Model,
        tables: &'a mut Tables<Spread>,
        watch: &'a Watch<'a>,
    ) -> Aligner<'a> {
        let mut around = vec![Vec::new(); model.variables.len()];
        for (at, e) in model.edges.iter().enumerate() {
            around[e.need.at()].push((at, true));
            around[e.have.at()].push((at, false));
        }
        Aligner {
            model,
            tables,
            watch,
            around,
            stakes: Table::default(),
        }
    }

    /// A placement with these vectors.
    pub fn place(&mut self, vectors: &[Vector]) -> Incumbent {
        let model = self.model;
        // equal vectors among neighbours that are placed alike are placed alike
        let mut known: Table<(&Vector, Vec<Near>), Rc<List<Spread>>> = Table::default();
        let mut placed: Vec<Rc<List<Spread>>> = Vec::with_capacity(vectors.len());
        for (v, vector) in vectors.iter().enumerate() {
            if let Some(fixed) = &model.variables[v].fixed {
                placed.push(self.tables.lists.intern(vec![fixed.clone()]));
                continue;
            }
            let near = self.around[v].iter().filter_map(|&(e, needs)| {
                let edge = &model.edges[e];
                let other = if needs { edge.have } else { edge.need };
                Some((edge.kind, needs, placed.get(other.at())?.id))
            });
            let alike = known.entry((vector, near.collect())).or_insert_with(|| {
                let wishes = self.wishes(v, vector, |u| Some(&placed.get(u)?.all[0]));
                let lists = &mut self.tables.lists;
                lists.intern(vec![aligned(vector, wishes.iter())])
            });
            placed.push(alike.clone());
        }
        let problem = self.tables.problem(model, &placed);
        let spreads: Vec<Spread> = placed.iter().map(|p| p.all[0].clone()).collect();
        let cost = problem.cost(&vec![0; spreads.len()]);
        Incumbent { spreads, cost }
    }

    /// A placement at most as costly, with vectors among `vectors(variable)` or the given ones. A
    /// vector with at most `all` assignments of axes is tried with each of them.
    pub fn improve(
        &mut self,
        mut best: Incumbent,
        bound: u128,
        all: u64,
        vectors: &dyn Fn(usize) -> Vec<Vector>,
    ) -> Incumbent {
        for _ in 0..ROUNDS {
            if best.cost <= bound || !self.watch.goes_on() {
                break;
            }
            let pools = (0..best.spreads.len())
                .map(|v| {
                    let mut pool = vec![best.spreads[v].clone()];
                    let own = &best.spreads[v].vector;
                    self.candidates(v, own, &best.spreads, all, &mut pool);
                    for vector in vectors(v) {
                        if vector != *own {
                            self.candidates(v, &vector, &best.spreads, all, &mut pool);
                        }
                    }
                    pool
                })
                .collect();
            let next = self.choose(pools);
            if next.cost >= best.cost {
                break;
            }
            best = next;
        }
        best
    }

    /// The cheapest choice of one candidate per variable.
    fn choose(&mut self, pools: Vec<Vec<Spread>>) -> Incumbent {
        let lists = &mut self.tables.lists;
        let domains: Vec<Rc<List<Spread>>> = pools.into_iter().map(|p| lists.intern(p)).collect();
        let problem = self.tables.problem(self.model, &domains);
        let Solution {
            assignment, cost, ..
        } = solve(&problem, Budget::default(), self.watch);
        let chosen = domains.iter().zip(assignment);
        Incumbent {
            spreads: chosen.map(|(d, x)| d.all[x as usize].clone()).collect(),
            cost,
        }
    }

    /// Adds spreads of a vector that agree with what neighbours have.
    fn candidates(
        &mut self,
        v: usize,
        vector: &Vector,
        now: &[Spread],
        all: u64,
        pool: &mut Vec<Spread>,
    ) {
        let mut add = |spread: Spread| {
            if !pool.contains(&spread) {
                pool.push(spread);
            }
        };
        if self.model.variables[v].fixed.is_some() || vector.count() <= all {
            self.model.spreads(v, vector).into_iter().for_each(add);
            return;
        }
        let wishes = self.wishes(v, vector, |u| Some(&now[u]));
        for first in 0..wishes.len().clamp(1, FIRST) {
            let chosen = wishes.get(first).into_iter().chain(&wishes);
            add(aligned(vector, chosen));
        }
    }

    /// What the neighbours of a variable wish of it, most bytes first.
    fn wishes<'s>(
        &mut self,
        v: usize,
        vector: &Vector,
        now: impl Fn(usize) -> Option<&'s Spread>,
    ) -> Vec<Wish> {
        let mut wishes = Vec::new();
        for &(e, needs) in &self.around[v] {
            let edge = &self.model.edges[e];
            let other = if needs { edge.have } else { edge.need };
            let Some(other) = now(other.at()).filter(|o| o.vector.grid == vector.grid) else {
                continue;
            };
            let seen = &self.model.kinds[edge.kind];
            let through = |h: &Vector| match &seen.have {
                Some(cuts) => h.through(cuts),
                None => h.clone(),
            };
            let (need, have) = if needs {
                (vector.seen(&seen.need), through(&other.vector))
            } else {
                (other.vector.seen(&seen.need), through(vector))
            };
            let kind = &seen.kind;
            let stake = *(self.stakes)
                .entry((edge.kind, need, have))
                .or_insert_with_key(|(_, need, have)| kind.stake(need, have));
            if stake == 0 {
                continue;
            }
            let mut axes = Vec::new();
            for (axis, access) in kind.access.axes.iter().enumerate() {
                let label = access.labels().next();
                let held = match &seen.have {
                    Some(cuts) => cuts[axis],
                    None => Some(axis),
                };
                if let (Some(label), Some(held)) = (label, held) {
                    let (mine, theirs) = if needs { (label, held) } else { (held, label) };
                    axes.push((mine, other.axes[theirs].clone()));
                }
            }
            wishes.push(Wish { stake, axes });
        }
        wishes.sort_by_key(|w| std::cmp::Reverse(w.stake));
        wishes
    }
}

fn aligned<'w>(vector: &Vector, wishes: impl Iterator<Item = &'w Wish>) -> Spread {
    let all: Vec<(usize, &[u8])> = wishes
        .flat_map(|w| w.axes.iter().map(|(l, axes)| (*l, &axes[..])))
        .collect();
    vector.aligned(&all)
}
