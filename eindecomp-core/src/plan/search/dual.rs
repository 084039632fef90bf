//! The dual of the linear relaxation: costs moved between edges and variables (a
//! reparametrisation), and a price on every position of the limits.
//!
//! Whatever is moved and whatever prices are asked, the sum of every variable's and every edge's
//! least entry, less what the limits are worth at those prices, is a lower bound: [`Dual::bound`]
//! in exact integers. Passes of sequential reweighted message passing (TRW-S, Kolmogorov 2006)
//! raise it, in floats; prices follow subgradients.

use std::ops::Range;

use super::limits::Usage;
use super::problem::{PairTable, Problem, VarId};

/// A reparametrisation with prices, in units of 2⁻ˢᶜᵃˡᵉ: what a bound is recomputed from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dual {
    /// Costs are multiplied by 2 to this power.
    pub scale: u32,
    /// Per position of the limits: the price of one unit used.
    pub prices: Vec<u64>,
    /// Per edge of the problem, then per pair that uses something: what the variable of the rows
    /// gets per class, and that of the columns; the edge loses it.
    pub moved: Vec<[Vec<i64>; 2]>,
}

impl Dual {
    /// The same for a problem of whose limits this one saw those at some positions, ascending.
    pub(super) fn spread(self, problem: &Problem, positions: &[u32]) -> Dual {
        let mut prices = vec![0; problem.limits().len()];
        for (&t, price) in positions.iter().zip(self.prices) {
            prices[t as usize] = price;
        }
        let edges = problem.raw_edges().len();
        let mut moved = self.moved.into_iter();
        let mut all: Vec<[Vec<i64>; 2]> = moved.by_ref().take(edges).collect();
        for (at, usage) in problem.usages() {
            let Usage::Pair(e) = usage else { continue };
            let none = [e.pair.rows, e.pair.columns].map(|m| vec![0; problem.maps.classes(m)]);
            let seen = positions.iter().any(|t| at.contains(t));
            all.push(match seen {
                true => moved.next().unwrap_or(none),
                false => none,
            });
        }
        Dual {
            scale: self.scale,
            prices,
            moved: all,
        }
    }
}

struct Link {
    ends: [VarId; 2],
    pair: PairTable,
    /// Index of the table among [`Passes::tables`].
    table: usize,
    /// Positions priced; `None`: a cost.
    positions: Option<Range<u32>>,
    factor: f64,
    classes: [usize; 2],
}

/// Message passing under way.
pub(super) struct Passes<'a> {
    problem: &'a Problem,
    links: Vec<Link>,
    tables: Vec<Vec<f64>>,
    /// Per variable: its links to earlier ones, then to later ones, with its side.
    earlier: Vec<Vec<(usize, usize)>>,
    later: Vec<Vec<(usize, usize)>>,
    moved: Vec<[Vec<f64>; 2]>,
    /// Per variable: positions and usage per value.
    uses: Vec<Vec<(Range<u32>, Vec<f64>)>>,
    /// Costs and prices per value.
    own: Vec<Vec<f64>>,
    pub prices: Vec<f64>,
    cap: f64,
    /// Number of additions of one pass.
    pub work: u64,
}

impl<'a> Passes<'a> {
    /// Costs above `cap` count as it: what is never chosen must not cost the others precision.
    pub fn new(problem: &'a Problem, cap: f64) -> Passes<'a> {
        let n = problem.variables();
        let mut numbers = std::collections::HashMap::new();
        let mut state = Passes {
            problem,
            links: Vec::new(),
            tables: Vec::new(),
            earlier: vec![Vec::new(); n],
            later: vec![Vec::new(); n],
            moved: Vec::new(),
            uses: vec![Vec::new(); n],
            own: Vec::new(),
            prices: vec![0.0; problem.limits().len()],
            cap,
            work: 0,
        };
        let float = |t: &[u64]| t.iter().map(|&c| c as f64).collect::<Vec<f64>>();
        let edges = problem.raw_edges().iter().map(|e| (e, None));
        let usages = problem.usages().iter();
        let pairs = usages.filter_map(|(positions, usage)| match usage {
            Usage::Pair(e) => Some((e, Some(positions.clone()))),
            Usage::Value(..) => None,
        });
        for (e, positions) in edges.chain(pairs) {
            let priced = positions.is_some();
            let table = *numbers.entry((e.pair.table, priced)).or_insert_with(|| {
                let mut table = float(problem.tables.get(e.pair.table));
                if !priced {
                    table.iter_mut().for_each(|c| *c = c.min(cap));
                }
                state.tables.push(table);
                state.tables.len() - 1
            });
            let classes = [e.pair.rows, e.pair.columns].map(|m| problem.maps.classes(m));
            let number = state.links.len();
            for (side, (own, other)) in [(e.from, e.to), (e.to, e.from)].into_iter().enumerate() {
                let list = if other < own {
                    &mut state.earlier
                } else {
                    &mut state.later
                };
                list[own.at()].push((number, side));
            }
            state.work += 2 * (classes[0] * classes[1]) as u64;
            state.moved.push(classes.map(|c| vec![0.0; c]));
            state.links.push(Link {
                ends: [e.from, e.to],
                pair: e.pair,
                table,
                factor: if positions.is_some() { 0.0 } else { 1.0 },
                positions,
                classes,
            });
        }
        for (positions, usage) in problem.usages() {
            if let Usage::Value(v, table) = usage {
                let used = float(problem.tables.get(*table));
                state.uses[v.at()].push((positions.clone(), used));
            }
        }
        state.set_prices(vec![0.0; problem.limits().len()]);
        state
    }

    /// Goes on from what others moved along the edges of the same problem.
    pub fn resume(&mut self, moved: Vec<[Vec<f64>; 2]>) {
        let edges = self.problem.raw_edges().len();
        for (own, old) in self.moved.iter_mut().zip(moved).take(edges) {
            *own = old;
        }
    }

    /// What was moved along links.
    pub fn moved(self) -> Vec<[Vec<f64>; 2]> {
        self.moved
    }

    /// Asks other prices; what was moved stays.
    pub fn set_prices(&mut self, prices: Vec<f64>) {
        let mut sums = vec![0.0; prices.len() + 1];
        for (t, price) in prices.iter().enumerate() {
            sums[t + 1] = sums[t] + price;
        }
        let over = |r: &Range<u32>| sums[r.end as usize] - sums[r.start as usize];
        self.own = self
            .problem
            .ids()
            .map(|v| {
                let costs = self.problem.costs(v).iter();
                let mut own: Vec<f64> = costs.map(|&c| (c as f64).min(self.cap)).collect();
                for (positions, used) in &self.uses[v.at()] {
                    let price = over(positions);
                    for (c, u) in own.iter_mut().zip(used) {
                        *c += price * u;
                    }
                }
                own
            })
            .collect();
        for link in &mut self.links {
            if let Some(positions) = &link.positions {
                link.factor = over(positions);
            }
        }
        self.prices = prices;
    }

    fn map(&self, link: usize, side: usize) -> &'a [u32] {
        let pair = self.links[link].pair;
        self.problem.maps.get([pair.rows, pair.columns][side])
    }

    /// Moves to one side of a link all that its least entries allow.
    fn pull(&mut self, link: usize, side: usize) {
        let l = &self.links[link];
        let table = &self.tables[l.table];
        let width = l.classes[1];
        let [rows, columns] = &mut self.moved[link];
        if side == 0 {
            for (line, row) in table.chunks_exact(width).zip(rows) {
                *row = least_left(line, columns, l.factor);
            }
        } else {
            columns.fill(f64::INFINITY);
            for (line, row) in table.chunks_exact(width).zip(&*rows) {
                for (column, t) in columns.iter_mut().zip(line) {
                    let c = l.factor * t - row;
                    *column = if c < *column { c } else { *column };
                }
            }
        }
    }

    /// Costs of a variable with all that was moved to it.
    fn gather(&self, v: VarId, costs: &mut Vec<f64>) {
        costs.clone_from(&self.own[v.at()]);
        for &(link, side) in self.earlier[v.at()].iter().chain(&self.later[v.at()]) {
            let moved = &self.moved[link][side];
            for (c, &class) in costs.iter_mut().zip(self.map(link, side)) {
                *c += moved[class as usize];
            }
        }
    }

    fn links(&self, v: VarId, later: bool) -> &[(usize, usize)] {
        match later {
            true => &self.later[v.at()],
            false => &self.earlier[v.at()],
        }
    }

    /// One pass over the variables, forwards or backwards.
    pub fn pass(&mut self, forwards: bool) {
        let n = self.problem.variables();
        let (mut costs, mut least) = (Vec::new(), Vec::new());
        for i in 0..n {
            let v = VarId(if forwards { i } else { n - 1 - i } as u32);
            let (come, go) = (
                self.links(v, !forwards).len(),
                self.links(v, forwards).len(),
            );
            for at in 0..come {
                let (link, side) = self.links(v, !forwards)[at];
                self.pull(link, side);
            }
            if go == 0 {
                continue;
            }
            self.gather(v, &mut costs);
            let share = 1.0 / come.max(go) as f64;
            for at in 0..go {
                let (link, side) = self.links(v, forwards)[at];
                let map = self.map(link, side);
                let moved = &mut self.moved[link][side];
                least.clear();
                least.resize(moved.len(), f64::INFINITY);
                for (&class, &c) in map.iter().zip(&costs) {
                    let least = &mut least[class as usize];
                    *least = if c < *least { c } else { *least };
                }
                for (m, c) in moved.iter_mut().zip(&least) {
                    *m -= share * c;
                }
            }
        }
    }

    /// In order, each variable takes what is cheapest given the earlier ones and what later ones
    /// sent in the last pass backwards.
    pub fn decode(&self) -> Vec<u32> {
        let mut chosen = vec![0u32; self.problem.variables()];
        for v in self.problem.ids() {
            let mut costs = self.own[v.at()].clone();
            for &(link, side) in &self.later[v.at()] {
                let moved = &self.moved[link][side];
                for (c, &class) in costs.iter_mut().zip(self.map(link, side)) {
                    *c += moved[class as usize];
                }
            }
            for &(link, side) in &self.earlier[v.at()] {
                let l = &self.links[link];
                let other = l.ends[1 - side];
                let fixed = self.map(link, 1 - side)[chosen[other.at()] as usize] as usize;
                let (step, start) = match side {
                    0 => (l.classes[1], fixed),
                    _ => (1, fixed * l.classes[1]),
                };
                let table = &self.tables[l.table];
                for (c, &class) in costs.iter_mut().zip(self.map(link, side)) {
                    *c += l.factor * table[start + step * class as usize];
                }
            }
            let best = (0..costs.len()).min_by(|&x, &y| costs[x].total_cmp(&costs[y]));
            chosen[v.at()] = best.unwrap_or(0) as u32;
        }
        chosen
    }

    /// What the prices ask of every value.
    pub fn asked(&self) -> Vec<Vec<f64>> {
        let beyond = |v: VarId| {
            let own = self.own[v.at()].iter().zip(self.problem.costs(v).iter());
            own.map(|(o, &c)| o - (c as f64).min(self.cap)).collect()
        };
        self.problem.ids().map(beyond).collect()
    }

    /// What they bound, in floats.
    pub fn value(&self) -> f64 {
        let mut value = 0.0;
        for (l, [rows, columns]) in self.links.iter().zip(&self.moved) {
            let table = &self.tables[l.table];
            let mut least = f64::INFINITY;
            for (line, r) in table.chunks_exact(l.classes[1]).zip(rows) {
                least = least.min(least_left(line, columns, l.factor) - r);
            }
            value += least;
        }
        let mut costs = Vec::new();
        for v in self.problem.ids() {
            self.gather(v, &mut costs);
            value += costs.iter().copied().fold(f64::INFINITY, f64::min);
        }
        let limits = self.problem.limits().iter();
        value
            - limits
                .zip(&self.prices)
                .map(|(&l, p)| l as f64 * p)
                .sum::<f64>()
    }

    /// What was moved and asked, in integers.
    pub fn dual(&self) -> Dual {
        let most = self.problem.limits().len() as f64 + self.moved.len() as f64 + 1.0;
        let largest = self
            .moved
            .iter()
            .flatten()
            .flatten()
            .fold(1.0, |a: f64, m| a.max(m.abs()));
        let largest = self
            .prices
            .iter()
            .fold(largest * most, |a: f64, p| a.max(p * most));
        // far below 2⁶³, and fine enough that rounding does not show
        let scale = (60.0 - largest.log2()).clamp(0.0, 20.0) as u32;
        let unit = f64::from(1u32 << scale);
        let moved = |m: &Vec<f64>| m.iter().map(|m| (m * unit).floor() as i64).collect();
        Dual {
            scale,
            prices: self.prices.iter().map(|p| (p * unit) as u64).collect(),
            moved: self
                .moved
                .iter()
                .map(|[a, b]| [moved(a), moved(b)])
                .collect(),
        }
    }
}

/// The least of a line times a factor, less what was moved, in independent chains.
fn least_left(line: &[f64], moved: &[f64], factor: f64) -> f64 {
    const LANES: usize = 8;
    let (lines, rest) = line.as_chunks::<LANES>();
    let (moves, last) = moved.as_chunks::<LANES>();
    let mut least = [f64::INFINITY; LANES];
    for (line, moved) in lines.iter().zip(moves) {
        for i in 0..LANES {
            let left = factor * line[i] - moved[i];
            least[i] = if left < least[i] { left } else { least[i] };
        }
    }
    let rest = rest.iter().zip(last).map(|(t, m)| factor * t - m);
    least.into_iter().chain(rest).fold(f64::INFINITY, f64::min)
}
