//! Dynamic programming once more, along a given order.
//!
//! A function is over classes of the values of some variables. The least over a variable's values of the sum of all functions over
//! it is a function over the others; its own least is paid, so that functions of equal layers are equal. What was computed of equal
//! functions is known.

use std::collections::BTreeSet;
use std::rc::Rc;

use super::super::INFEASIBLE;
use super::super::limits::Usage;
use super::super::problem::{Edge, Problem, VarId};
use super::super::proof::{Elimination, Fold};
use super::cost::Whole;
use super::product::{self, Rows};
use super::{Wrong, over_time};
use crate::quick::Table;

/// What is asked for a use at most: a cap only lowers a bound.
const MOST: u128 = 1 << 100;
/// Sums of whole numbers below this are exact in floats.
const EXACT: u128 = 1 << 53;
/// So many functions over a variable make it one whose costs are kept apart.
const MANY: usize = 16;

/// No assignment costs less; `None` if that takes more than so many additions.
pub(super) fn least(problem: &Problem, by: &Elimination, work: u64) -> Result<Option<u128>, Wrong> {
    let free = by.prices.is_empty();
    if by.scale > 30 || !(free || by.prices.len() == problem.limits().len()) {
        return Err(Wrong::Proof);
    }
    match Functions::<u64>::of(problem, by, work) {
        all if all.most < 1 << 63 => all.run(problem, by),
        _ => Functions::<u128>::of(problem, by, work).run(problem, by),
    }
}

/// Costs of a problem as `u128`, infeasible ones as its largest.
fn scaled(by: &Elimination) -> impl Fn(u64) -> u128 {
    let scale = by.scale;
    move |cost| match cost {
        INFEASIBLE => u128::MAX,
        cost => u128::from(cost) << scale,
    }
}

/// Per variable, a map from its values to classes; row-major in the order of the variables, a number per combination of classes.
#[derive(Clone)]
struct Function {
    over: Vec<(VarId, usize)>,
    table: usize,
}

/// Of a function in a sum: its table, and per variable which one of the sum's it is and its map.
type Part = (usize, Vec<(usize, usize)>);

/// What a least is: a table over maps, one over those of some axes, which are kept apart, and what is paid anyhow.
#[derive(Clone)]
struct Made {
    table: usize,
    maps: Vec<usize>,
    apart: Option<usize>,
    least: u128,
}

struct Functions<C> {
    all: Vec<Option<Function>>,
    /// Per variable: the functions over it.
    of: Vec<Vec<usize>>,
    /// Classes are numbered in order of appearance.
    maps: Vec<Rc<[u32]>>,
    /// Per map: how many.
    classes: Vec<usize>,
    numbers: Table<Rc<[u32]>, usize>,
    tables: Vec<Rc<[C]>>,
    /// By hash.
    known_tables: Table<u64, Vec<usize>>,
    /// Per table: the largest entry that is feasible.
    largest: Vec<u128>,
    /// What was read of the problem, by where it is: costs, and maps.
    read: Table<(usize, usize), usize>,
    /// By parts of a sum, and the axes that are kept apart.
    known: Table<(Vec<Part>, Vec<usize>), Made>,
    /// What only shared variables decide, by these and their maps.
    apart: Table<Vec<(VarId, usize)>, usize>,
    /// Per variable: is it one of many functions?
    shared: Vec<bool>,
    /// No sum of functions is more.
    most: u128,
    paid: u128,
    feasible: bool,
    /// Additions.
    left: u64,
}

impl<C: Whole> Functions<C> {
    fn of(problem: &Problem, by: &Elimination, work: u64) -> Functions<C> {
        let mut all = Functions {
            all: Vec::new(),
            of: vec![Vec::new(); problem.variables()],
            maps: Vec::new(),
            classes: Vec::new(),
            numbers: Table::default(),
            tables: Vec::new(),
            known_tables: Table::default(),
            largest: Vec::new(),
            read: Table::default(),
            known: Table::default(),
            apart: Table::default(),
            shared: Vec::new(),
            most: 0,
            paid: 0,
            feasible: true,
            left: work,
        };
        let scaled = scaled(by);
        for v in problem.ids() {
            let costs = problem.costs(v);
            let map = all.map((0..costs.len() as u32).collect());
            let table = all.once(costs, |all| all.table_of(costs, &scaled));
            all.add(Function {
                over: vec![(v, map)],
                table,
            });
        }
        for e in problem.edges() {
            let table = all.once(e.table, |all| all.table_of(e.table, &scaled));
            all.add_edge(&e, table);
        }
        let price = over_time(&by.prices);
        let free = by.prices.is_empty();
        for (positions, usage) in problem.usages().iter().filter(|_| !free) {
            let price = price(positions);
            let asked = |used: u64| price.saturating_mul(used.into()).min(MOST);
            match usage {
                Usage::Value(v, table) => {
                    let used = problem.tables.get(*table);
                    let map = all.map((0..used.len() as u32).collect());
                    let table = all.table_of(used, asked);
                    all.add(Function {
                        over: vec![(*v, map)],
                        table,
                    });
                }
                Usage::Pair(e) => {
                    let e = problem.edge(e);
                    let table = all.table_of(e.table, asked);
                    all.add_edge(&e, table);
                }
            }
        }
        let most = all.all.iter().flatten().map(|f| all.largest[f.table]);
        all.most = most.fold(0, u128::saturating_add);
        all.shared = all.of.iter().map(|of| of.len() > MANY).collect();
        all
    }

    /// What the order proves.
    fn run(mut self, problem: &Problem, by: &Elimination) -> Result<Option<u128>, Wrong> {
        for fold in &by.order {
            let done = match fold {
                Fold::Least(v) if v.at() < problem.variables() => self.eliminate(*v),
                Fold::Cut(cut)
                    if cut.windows(2).all(|v| v[0] < v[1])
                        && cut.last().is_none_or(|v| v.at() < problem.variables()) =>
                {
                    self.cut(cut)
                }
                _ => return Err(Wrong::Proof),
            };
            if done.is_none() {
                return Ok(None);
            }
        }
        if self.all.iter().any(Option::is_some) {
            return Err(Wrong::Proof);
        }
        if !self.feasible {
            return Ok(Some(u128::MAX));
        }
        let worth = by
            .prices
            .iter()
            .zip(problem.limits())
            .map(|(&p, &l)| u128::from(p) * u128::from(l));
        let left = self
            .paid
            .saturating_sub(worth.fold(0, u128::saturating_add));
        // rounded up: costs are whole
        Ok(Some(left.div_ceil(1 << by.scale)))
    }

    fn map(&mut self, classes: Vec<u32>) -> usize {
        if let Some(&known) = self.numbers.get(&classes[..]) {
            return known;
        }
        self.classes
            .push(classes.iter().max().map_or(0, |c| *c as usize + 1));
        let map: Rc<[u32]> = classes.into();
        self.maps.push(map.clone());
        self.numbers.insert(map, self.maps.len() - 1);
        self.maps.len() - 1
    }

    fn table(&mut self, table: Vec<C>) -> usize {
        let mix =
            |h: u64, c: &C| (h.rotate_left(29) ^ c.word()).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let hash = table.iter().fold(table.len() as u64, mix);
        let same = self.known_tables.entry(hash).or_default();
        let known = same.iter().find(|&&t| *self.tables[t] == table[..]);
        if let Some(&known) = known {
            return known;
        }
        same.push(self.tables.len());
        let feasible = table.iter().filter(|c| **c < C::NEVER).map(|c| c.cost());
        self.largest.push(feasible.max().unwrap_or(0));
        self.tables.push(table.into());
        self.tables.len() - 1
    }

    fn table_of(&mut self, costs: &[u64], cost: impl Fn(u64) -> u128) -> usize {
        self.table(costs.iter().map(|&c| C::of(cost(c))).collect())
    }

    /// The coarsest map that tells apart what one of these does.
    fn joined(&mut self, maps: &[usize]) -> usize {
        if maps.windows(2).all(|m| m[0] == m[1]) {
            return maps[0];
        }
        let mut numbers = Table::default();
        let class = |x: usize| {
            let key: Vec<u32> = maps.iter().map(|&m| self.maps[m][x]).collect();
            let next = numbers.len() as u32;
            *numbers.entry(key).or_insert(next)
        };
        let classes = (0..self.maps[maps[0]].len()).map(class).collect();
        self.map(classes)
    }

    fn add(&mut self, f: Function) {
        for (v, _) in &f.over {
            self.of[v.at()].push(self.all.len());
        }
        self.all.push(Some(f));
    }

    fn add_edge(&mut self, e: &Edge, table: usize) {
        let over = [(e.from, e.rows), (e.to, e.columns)];
        let map = |(v, map): (VarId, &[u32])| (v, self.once(map, |all| all.map(map.to_vec())));
        let over = over.map(map).to_vec();
        self.add(Function { over, table });
    }

    /// What is made of a slice of the problem, once.
    fn once<T>(&mut self, of: &[T], make: impl FnOnce(&mut Functions<C>) -> usize) -> usize {
        let key = (of.as_ptr() as usize, size_of_val(of));
        if let Some(&known) = self.read.get(&key) {
            return known;
        }
        let made = make(self);
        self.read.insert(key, made);
        made
    }

    fn eliminate(&mut self, v: VarId) -> Option<()> {
        let of = std::mem::take(&mut self.of[v.at()]);
        let over: Vec<Function> = of.into_iter().filter_map(|f| self.all[f].take()).collect();
        if !over.is_empty() {
            let all = self.least(v, &over, true)?;
            let mut all = all.into_iter();
            all.next()
                .into_iter()
                .for_each(|f| self.add_unless_constant(f));
            all.for_each(|f| self.add_apart(f));
        }
        Some(())
    }

    fn add_unless_constant(&mut self, f: Function) {
        // its least entry is paid
        if !f.over.is_empty() {
            self.add(f);
        }
    }

    /// Adds what only shared variables decide: of equal ones the sum is kept.
    fn add_apart(&mut self, f: Function) {
        let known = self.apart.get(&f.over).copied();
        let same = known.and_then(|at| Some((at, self.all[at].as_ref()?.table)));
        let Some((at, table)) = same else {
            self.apart.insert(f.over.clone(), self.all.len());
            return self.add(f);
        };
        let both = self.tables[table].iter().zip(&*self.tables[f.table]);
        let sum = both.map(|(&a, &b)| a.plus(b)).collect();
        let table = self.table(sum);
        self.all[at] = Some(Function { table, ..f });
    }

    /// Cuts variables in one copy per function over it and others, which are eliminated.
    fn cut(&mut self, cut: &[VarId]) -> Option<()> {
        let mut whole = BTreeSet::new();
        let mut shares = Table::default();
        for &v in cut {
            let of = self.of[v.at()].iter().copied();
            let several = |f: &usize| self.all[*f].as_ref().is_some_and(|f| f.over.len() > 1);
            let others: Vec<usize> = of.filter(several).collect();
            match others.len() as u128 {
                0 => self.eliminate(v)?,
                count => drop(shares.insert(v, self.shares(v, count).into_iter())),
            }
            whole.extend(others);
        }
        for f in whole {
            let Some(mut f) = self.all[f].take() else {
                continue;
            };
            for &(v, _) in &f.over.clone() {
                if let Some(share) = shares.get_mut(&v).and_then(Iterator::next) {
                    let least = self.least(v, &[f, share], false)?;
                    f = least.into_iter().next()?;
                }
            }
            self.add_unless_constant(f);
        }
        Some(())
    }

    /// So many shares of what a variable costs alone, which it costs no longer.
    fn shares(&mut self, v: VarId, count: u128) -> Vec<Function> {
        let alone = |f: &&Function| f.over.len() == 1;
        let mut sums: Vec<C> = Vec::new();
        for f in self.of[v.at()].clone() {
            let Some(own) = self.all[f].as_ref().filter(alone) else {
                continue;
            };
            let (map, table) = (&self.maps[own.over[0].1], &self.tables[own.table]);
            sums.resize(map.len(), C::ZERO);
            for (sum, &class) in sums.iter_mut().zip(map.iter()) {
                *sum = sum.plus(table[class as usize]);
            }
            self.all[f] = None;
        }
        let sums: Vec<u128> = sums.into_iter().map(C::cost).collect();
        let least = sums.iter().copied().min().unwrap_or(0);
        let map = self.map((0..sums.len() as u32).collect());
        let share = |n| {
            let share = |&c: &u128| {
                C::of(match (c, n) {
                    (u128::MAX, _) => u128::MAX,
                    (c, 0) => c - (c - least) / count * (count - 1),
                    (c, _) => (c - least) / count,
                })
            };
            let table = self.table(sums.iter().map(share).collect());
            let over = vec![(v, map)];
            Function { over, table }
        };
        (0..count).map(share).collect()
    }

    /// The least of the sum of functions over the values of a variable, less its own least, which is paid; after it, if `apart`,
    /// what it costs by the values of shared variables alone. `None` if that takes too much.
    fn least(&mut self, v: VarId, sum: &[Function], apart: bool) -> Option<Vec<Function>> {
        let mut scope: Vec<VarId> = sum
            .iter()
            .flat_map(|f| f.over.iter().map(|o| o.0))
            .collect();
        scope.retain(|u| *u != v);
        scope.sort_unstable();
        scope.dedup();
        // the variable itself comes last
        let axis =
            |&(u, map): &(VarId, usize)| (scope.binary_search(&u).unwrap_or(scope.len()), map);
        let part = |f: &Function| (f.table, f.over.iter().map(axis).collect());
        let mut parts: Vec<Part> = sum.iter().map(part).collect();
        parts.sort_unstable();
        let is_shared = |&a: &usize| apart && self.shared[scope[a].at()];
        let shared: Vec<usize> = (0..scope.len()).filter(is_shared).collect();
        let key = (parts, shared);
        let made = match self.known.get(&key) {
            Some(known) => known.clone(),
            None => {
                let made = self.made(&key.0, &key.1, scope.len())?;
                self.known.insert(key.clone(), made.clone());
                made
            }
        };
        match made.least {
            u128::MAX => self.feasible = false,
            cost => self.paid += cost,
        }
        let over: Vec<(VarId, usize)> = scope.into_iter().zip(made.maps).collect();
        let apart = made.apart.map(|table| Function {
            over: key.1.iter().map(|&a| over[a]).collect(),
            table,
        });
        let table = made.table;
        Some(
            [Function { over, table }]
                .into_iter()
                .chain(apart)
                .collect(),
        )
    }

    fn made(&mut self, parts: &[Part], apart: &[usize], others: usize) -> Option<Made> {
        // costs of values alone do not make its classes finer
        let (own, shared): (Vec<&Part>, Vec<&Part>) = parts.iter().partition(|p| p.1.len() == 1);
        let of = |at: usize| -> Vec<usize> {
            let axes = shared.iter().flat_map(|p| &p.1);
            axes.filter(|a| a.0 == at).map(|a| a.1).collect()
        };
        let all: Vec<Vec<usize>> = (0..=others).map(of).collect();
        let maps: Vec<usize> = all[..others].iter().map(|maps| self.joined(maps)).collect();
        let values = parts.first().map_or(0, |p| {
            let axis = p.1.iter().find(|a| a.0 == others);
            axis.map_or(0, |a| self.maps[a.1].len())
        });
        let fine = match &all[others][..] {
            [] => self.map(vec![0; values]),
            maps => self.joined(maps),
        };
        let mut alone = vec![C::NEVER; self.classes[fine]];
        for (x, &class) in self.maps[fine].iter().enumerate() {
            let cost = |p: &&Part| self.tables[p.0][self.maps[p.1[0].1][x] as usize];
            let sum = own.iter().map(cost).fold(C::ZERO, C::plus);
            let least = &mut alone[class as usize];
            *least = least.or_less(sum);
        }
        let extents: Vec<usize> = maps.iter().map(|&m| self.classes[m]).collect();
        let cells = extents
            .iter()
            .fold(1u64, |n, &e| n.saturating_mul(e as u64));
        let each = (alone.len() * (shared.len() + 1)) as u64;
        self.left = self.left.checked_sub(cells.saturating_mul(each))?;
        let mut fine_maps = maps.clone();
        fine_maps.push(fine);
        let most = parts.iter().map(|p| self.largest[p.0]);
        let mut out: Vec<C> = match most.fold(0, u128::saturating_add) {
            0..EXACT => {
                let rows = |p: &&Part| self.rows(p, &fine_maps, C::float);
                let rows: Vec<Rows<f64>> = shared.iter().map(rows).collect();
                let alone: Vec<f64> = alone.into_iter().map(C::float).collect();
                let out = product::least(&alone, &rows, &extents);
                out.into_iter().map(C::whole).collect()
            }
            _ => {
                let rows = |p: &&Part| self.rows(p, &fine_maps, |c| c);
                let rows: Vec<Rows<C>> = shared.iter().map(rows).collect();
                product::least(&alone, &rows, &extents)
            }
        };
        let paid = product::take_least(&mut out, &[], &[])[0];
        let apart = (!apart.is_empty() && apart.len() < others)
            .then(|| product::take_least(&mut out, &extents, apart));
        Some(Made {
            table: self.table(out),
            maps,
            apart: apart.map(|costs| self.table(costs)),
            least: paid.cost(),
        })
    }

    /// A function, in numbers to sum, by points of the finer classes, those of the eliminated variable innermost.
    fn rows<K>(&self, (table, axes): &Part, fine: &[usize], as_sum: impl Fn(C) -> K) -> Rows<K> {
        let (mut step, mut steps) = (1, vec![0; axes.len()]);
        for (s, axis) in steps.iter_mut().zip(axes).rev() {
            *s = step;
            step *= self.classes[axis.1];
        }
        // per axis: where its finer classes are in the table
        let offsets = |(axis, step): (&(usize, usize), &usize)| {
            let mut offsets = vec![0; self.classes[fine[axis.0]]];
            for (&to, &class) in self.maps[fine[axis.0]].iter().zip(self.maps[axis.1].iter()) {
                offsets[to as usize] = step * class as usize;
            }
            (axis.0, offsets)
        };
        let mut along: Vec<(usize, Vec<usize>)> = axes.iter().zip(&steps).map(offsets).collect();
        along.sort_unstable();
        let (last, before) = match along.split_last() {
            Some(((_, last), before)) => (&last[..], before),
            None => (&[0][..], &[][..]),
        };
        let mut starts = vec![0];
        for (_, offsets) in before {
            starts = starts
                .iter()
                .flat_map(|s| offsets.iter().map(move |o| s + o))
                .collect();
        }
        let mut steps = vec![0; fine.len() - 1];
        let mut step = 1;
        for (axis, offsets) in along.iter().rev() {
            if let Some(s) = steps.get_mut(*axis) {
                *s = step;
            }
            step *= offsets.len();
        }
        let table = &self.tables[*table];
        let mut costs = Vec::with_capacity(starts.len() * last.len());
        for start in starts {
            costs.extend(last.iter().map(|o| as_sum(table[start + o])));
        }
        Rows { costs, steps }
    }
}
