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
/// Most candidates of a variable that are compared at once; where it can only be fewer than these, none are.
const MANY: usize = 256;
const FEW: usize = 16;
/// Most pairs of candidates that are looked at, and how many the boxes of a device count for; where servers are told apart, too.
const COMPARED: u64 = 2_000_000;
const BOXES: [u64; 2] = [1, 8];

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
            let next = self.choose(pools, Budget::default());
            if next.cost >= best.cost {
                break;
            }
            best = next;
        }
        best
    }

    /// A placement at most as costly, among many vectors at once: `vectors(variable)`, with axes that agree with neighbours and
    /// such as are given out in turn ([`Vector::turns`]), as many of the first ones as can be compared.
    pub fn among(&mut self, best: Incumbent, vectors: &dyn Fn(usize) -> Vec<Vector>) -> Incumbent {
        let on = self.model.on;
        let mut turns: Table<Vector, Rc<Vec<Spread>>> = Table::default();
        let mut pools: Vec<Rc<List<Spread>>> = Vec::with_capacity(best.spreads.len());
        for v in 0..best.spreads.len() {
            let mut pool = Vec::new();
            if self.model.variables[v].fixed.is_none() {
                for vector in vectors(v) {
                    let turns = turns.entry(vector.clone());
                    let turns = turns.or_insert_with_key(|vector| vector.turns(on).into());
                    let mut more = turns.to_vec();
                    self.candidates(v, &vector, &best.spreads, 1, &mut more);
                    pool.extend(more);
                    if pool.len() >= MANY {
                        break;
                    }
                }
            }
            pool.truncate(MANY);
            pools.push(self.tables.lists.intern(pool));
        }
        let mut most = MANY;
        while self.compared(&pools, most) > COMPARED {
            most /= 2;
        }
        if most < FEW {
            return best;
        }
        let first = |(pool, own): (&Rc<List<Spread>>, &Spread)| {
            let mut pool = pool.all[..most.min(pool.all.len())].to_vec();
            add(&mut pool, own.clone());
            pool
        };
        let next = self.choose(
            pools.iter().zip(&best.spreads).map(first).collect(),
            super::CLOSE,
        );
        if next.cost < best.cost { next } else { best }
    }

    /// Pairs that tables of the first so many spreads are over; those of uneven splits count for the boxes of all devices.
    fn compared(&self, pools: &[Rc<List<Spread>>], most: usize) -> u64 {
        let mut tables: Table<(usize, usize, usize), u64> = Table::default();
        let on = self.model.on;
        let boxes = u64::from(on.devices()) * BOXES[usize::from(on.servers > 1)];
        for e in &self.model.edges {
            let (need, have) = (&pools[e.need.at()], &pools[e.have.at()]);
            let seen = &self.model.kinds[e.kind];
            let looked = || {
                let count = |list: &List<Spread>, needs| -> [u64; 2] {
                    let first = &list.all[..most.min(list.all.len())];
                    let even = first.iter().filter(|s| seen.is_even(&s.vector, needs));
                    [first.len() as u64, even.count() as u64]
                };
                let ([needs, even_needs], [haves, even_haves]) =
                    (count(need, true), count(have, false));
                let (pairs, even) = (needs * haves, even_needs * even_haves);
                even + (pairs - even) * boxes
            };
            tables
                .entry((e.kind, need.id, have.id))
                .or_insert_with(looked);
        }
        tables.values().sum()
    }

    /// The cheapest choice of one candidate per variable.
    fn choose(&mut self, pools: Vec<Vec<Spread>>, budget: Budget) -> Incumbent {
        let lists = &mut self.tables.lists;
        let domains: Vec<Rc<List<Spread>>> = pools.into_iter().map(|p| lists.intern(p)).collect();
        let problem = self.tables.problem(self.model, &domains);
        let Solution {
            assignment, cost, ..
        } = solve(&problem, budget, self.watch);
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
        if self.model.variables[v].fixed.is_some() || vector.count() <= all {
            let all = self.model.spreads(v, vector);
            all.into_iter().for_each(|spread| add(pool, spread));
            return;
        }
        let wishes = self.wishes(v, vector, |u| Some(&now[u]));
        for first in 0..wishes.len().clamp(1, FIRST) {
            let chosen = wishes.get(first).into_iter().chain(&wishes);
            add(pool, aligned(vector, chosen));
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

fn add(pool: &mut Vec<Spread>, spread: Spread) {
    if !pool.contains(&spread) {
        pool.push(spread);
    }
}

fn aligned<'w>(vector: &Vector, wishes: impl Iterator<Item = &'w Wish>) -> Spread {
    let all: Vec<(usize, &[u8])> = wishes
        .flat_map(|w| w.axes.iter().map(|(l, axes)| (*l, &axes[..])))
        .collect();
    vector.aligned(&all)
}
