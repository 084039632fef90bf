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
                let least = line.iter().zip(&*columns);
                *row = least.fold(f64::INFINITY, |a, (t, m)| {
                    let c = l.factor * t - m;
                    if c < a { c } else { a }
                });
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
    fn gathered(&self, v: VarId) -> Vec<f64> {
        let mut costs = self.own[v.at()].clone();
        for &(link, side) in self.earlier[v.at()].iter().chain(&self.later[v.at()]) {
            let moved = &self.moved[link][side];
            for (c, &class) in costs.iter_mut().zip(self.map(link, side)) {
                *c += moved[class as usize];
            }
        }
        costs
    }

    /// One pass over the variables, forwards or backwards.
    pub fn pass(&mut self, forwards: bool) {
        let n = self.problem.variables();
        for i in 0..n {
            let v = VarId(if forwards { i } else { n - 1 - i } as u32);
            let (come, go) = if forwards {
                (&self.earlier, &self.later)
            } else {
                (&self.later, &self.earlier)
            };
            let (come, go) = (come[v.at()].clone(), go[v.at()].clone());
            for &(link, side) in &come {
                self.pull(link, side);
            }
            if go.is_empty() {
                continue;
            }
            let costs = self.gathered(v);
            let share = 1.0 / come.len().max(go.len()) as f64;
            for (link, side) in go {
                let map = self.map(link, side);
                let moved = &mut self.moved[link][side];
                let mut least = vec![f64::INFINITY; moved.len()];
                for (&class, &c) in map.iter().zip(&costs) {
                    let least = &mut least[class as usize];
                    *least = if c < *least { c } else { *least };
                }
                for (m, c) in moved.iter_mut().zip(least) {
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

    /// What the prices ask of a value.
    pub fn asked(&self, v: VarId, x: u32) -> f64 {
        let own = self.problem.costs(v)[x as usize] as f64;
        self.own[v.at()][x as usize] - own.min(self.cap)
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
