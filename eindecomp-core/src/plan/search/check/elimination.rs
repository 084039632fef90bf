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
use super::{Wrong, over_time};
use crate::quick::Table;

/// Infeasible; no sum of costs comes to it.
const NEVER: u128 = u128::MAX;
/// What is asked for a use at most: a cap only lowers a bound.
const MOST: u128 = 1 << 100;

/// No assignment costs less; `None` if that takes more than so many additions.
pub(super) fn least(problem: &Problem, by: &Elimination, work: u64) -> Result<Option<u128>, Wrong> {
    let limits = problem.limits();
    let free = by.prices.is_empty();
    if by.scale > 30 || !(free || by.prices.len() == limits.len()) {
        return Err(Wrong::Proof);
    }
    let price = over_time(&by.prices);
    let mut all = Functions {
        all: Vec::new(),
        of: vec![Vec::new(); problem.variables()],
        maps: Vec::new(),
        classes: Vec::new(),
        numbers: Table::default(),
        tables: Vec::new(),
        known_tables: Table::default(),
        read: Table::default(),
        known: Table::default(),
        paid: 0,
        feasible: true,
        left: work,
    };
    let scaled = |&c: &u64| match c {
        INFEASIBLE => NEVER,
        c => u128::from(c) << by.scale,
    };
    for v in problem.ids() {
        let costs = problem.costs(v);
        let map = all.map((0..costs.len() as u32).collect());
        let read = |all: &mut Functions| all.table(costs.iter().map(scaled).collect());
        let table = all.once(costs, read);
        all.add(Function {
            over: vec![(v, map)],
            table,
        });
    }
    for e in problem.edges() {
        let read = |all: &mut Functions| all.table(e.table.iter().map(scaled).collect());
        let table = all.once(e.table, read);
        all.add_edge(&e, table);
    }
    for (positions, usage) in problem.usages().iter().filter(|_| !free) {
        let price = price(positions);
        let asked = |&used: &u64| price.saturating_mul(used.into()).min(MOST);
        match usage {
            Usage::Value(v, table) => {
                let used = problem.tables.get(*table);
                let map = all.map((0..used.len() as u32).collect());
                let table = all.table(used.iter().map(asked).collect());
                all.add(Function {
                    over: vec![(*v, map)],
                    table,
                });
            }
            Usage::Pair(e) => {
                let e = problem.edge(e);
                let table = all.table(e.table.iter().map(asked).collect());
                all.add_edge(&e, table);
            }
        }
    }
    for fold in &by.order {
        let done = match fold {
            Fold::Least(v) if v.at() < problem.variables() => all.eliminate(*v),
            Fold::Cut(cut)
                if cut.windows(2).all(|v| v[0] < v[1])
                    && cut.last().is_none_or(|v| v.at() < problem.variables()) =>
            {
                all.cut(cut)
            }
            _ => return Err(Wrong::Proof),
        };
        if done.is_none() {
            return Ok(None);
        }
    }
    if all.all.iter().any(Option::is_some) {
        return Err(Wrong::Proof);
    }
    if !all.feasible {
        return Ok(Some(u128::MAX));
    }
    let worth = by
        .prices
        .iter()
        .zip(limits)
        .map(|(&p, &l)| u128::from(p) * u128::from(l));
    let left = all.paid.saturating_sub(worth.fold(0, u128::saturating_add));
    // rounded up: costs are whole
    Ok(Some(left.div_ceil(1 << by.scale)))
}

/// Per variable, a map from its values to classes; row-major in the order of the variables, a number per combination of classes.
#[derive(Clone)]
struct Function {
    over: Vec<(VarId, usize)>,
    table: usize,
}

/// Of a function in a sum: its table, and per variable which one of the sum's it is and its map.
type Part = (usize, Vec<(usize, usize)>);

struct Functions {
    all: Vec<Option<Function>>,
    /// Per variable: the functions over it.
    of: Vec<Vec<usize>>,
    /// Classes are numbered in order of appearance.
    maps: Vec<Rc<[u32]>>,
    /// Per map: how many.
    classes: Vec<usize>,
    numbers: Table<Rc<[u32]>, usize>,
    tables: Vec<Rc<[u128]>>,
    known_tables: Table<Rc<[u128]>, usize>,
    /// What was read of the problem, by where it is: costs, and maps.
    read: Table<(usize, usize), usize>,
    /// By parts of a sum: table, maps of its variables, and the least that is paid.
    known: Table<Vec<Part>, (usize, Vec<usize>, u128)>,
    paid: u128,
    feasible: bool,
    /// Additions.
    left: u64,
}

impl Functions {
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

    fn table(&mut self, table: Vec<u128>) -> usize {
        if let Some(&known) = self.known_tables.get(&table[..]) {
            return known;
        }
        let table: Rc<[u128]> = table.into();
        self.tables.push(table.clone());
        self.known_tables.insert(table, self.tables.len() - 1);
        self.tables.len() - 1
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
    fn once<T>(&mut self, of: &[T], make: impl FnOnce(&mut Functions) -> usize) -> usize {
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
            let least = self.least(v, &over)?;
            self.add_unless_constant(least);
        }
        Some(())
    }

    fn add_unless_constant(&mut self, f: Function) {
        // its least entry is paid
        if !f.over.is_empty() {
            self.add(f);
        }
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
                    f = self.least(v, &[f, share])?;
                }
            }
            self.add_unless_constant(f);
        }
        Some(())
    }

    /// So many shares of what a variable costs alone, which it costs no longer.
    fn shares(&mut self, v: VarId, count: u128) -> Vec<Function> {
        let alone = |f: &&Function| f.over.len() == 1;
        let mut sums: Vec<u128> = Vec::new();
        for f in self.of[v.at()].clone() {
            let Some(own) = self.all[f].as_ref().filter(alone) else {
                continue;
            };
            let (map, table) = (&self.maps[own.over[0].1], &self.tables[own.table]);
            sums.resize(map.len(), 0);
            for (sum, &class) in sums.iter_mut().zip(map.iter()) {
                *sum = sum.saturating_add(table[class as usize]);
            }
            self.all[f] = None;
        }
        let least = sums.iter().copied().min().unwrap_or(0);
        let map = self.map((0..sums.len() as u32).collect());
        let share = |n| {
            let share = |&c: &u128| match (c, n) {
                (NEVER, _) => NEVER,
                (c, 0) => c - (c - least) / count * (count - 1),
                (c, _) => (c - least) / count,
            };
            let table = self.table(sums.iter().map(share).collect());
            let over = vec![(v, map)];
            Function { over, table }
        };
        (0..count).map(share).collect()
    }

    /// The least of the sum of functions over the values of a variable, less its own least, which is paid; `None` if that takes
    /// too much.
    fn least(&mut self, v: VarId, sum: &[Function]) -> Option<Function> {
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
        let (table, maps, least) = match self.known.get(&parts) {
            Some(known) => known.clone(),
            None => {
                let made = self.made(&parts, scope.len())?;
                self.known.insert(parts, made.clone());
                made
            }
        };
        match least {
            NEVER => self.feasible = false,
            cost => self.paid += cost,
        }
        let over = scope.into_iter().zip(maps).collect();
        Some(Function { over, table })
    }

    fn made(&mut self, parts: &[Part], others: usize) -> Option<(usize, Vec<usize>, u128)> {
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
        let mut alone = vec![NEVER; self.classes[fine]];
        for (x, &class) in self.maps[fine].iter().enumerate() {
            let cost = |p: &&Part| self.tables[p.0][self.maps[p.1[0].1][x] as usize];
            let sum = own.iter().map(cost).fold(0, u128::saturating_add);
            let least = &mut alone[class as usize];
            *least = sum.min(*least);
        }
        let extents: Vec<usize> = maps.iter().map(|&m| self.classes[m]).collect();
        let cells = extents
            .iter()
            .fold(1u64, |n, &e| n.saturating_mul(e as u64));
        let each = (alone.len() * (shared.len() + 1)) as u64;
        self.left = self.left.checked_sub(cells.saturating_mul(each))?;
        let mut fine_maps = maps.clone();
        fine_maps.push(fine);
        let rows: Vec<Rows> = shared.iter().map(|p| self.rows(p, &fine_maps)).collect();
        let mut out = Vec::with_capacity(cells as usize);
        // along the last axis only some of the functions change
        let last = others.checked_sub(1);
        let changes = |row: &&Rows| last.is_some_and(|last| row.steps[last] > 0);
        let (moving, fixed): (Vec<&Rows>, Vec<&Rows>) = rows.iter().partition(changes);
        let (one, more) = match moving.split_first() {
            Some((one, more)) => (Some(one), more),
            None => (None, &[][..]),
        };
        let mut point = vec![0; others];
        let (mut sums, mut here) = (alone.clone(), alone.clone());
        loop {
            sums.copy_from_slice(&alone);
            fixed.iter().for_each(|row| row.add(&point, &mut sums));
            for x in 0..last.map_or(1, |last| extents[last]) {
                last.into_iter().for_each(|last| point[last] = x);
                here.copy_from_slice(&sums);
                more.iter().for_each(|row| row.add(&point, &mut here));
                out.push(match one {
                    Some(one) => one.least(&point, &here),
                    None => here.iter().copied().min().unwrap_or(NEVER),
                });
            }
            // the next point but for the last axis, the one before it fastest
            let mut before = (0..last.unwrap_or(0)).rev();
            let Some(axis) = before.find(|&a| point[a] + 1 < extents[a]) else {
                break;
            };
            point[axis] += 1;
            point[axis + 1..].fill(0);
        }
        let least = out.iter().copied().min().unwrap_or(NEVER);
        if least < NEVER {
            out.iter_mut()
                .filter(|c| **c < NEVER)
                .for_each(|c| *c -= least);
        }
        Some((self.table(out), maps, least))
    }

    /// A function by points of the finer classes, those of the eliminated variable innermost.
    fn rows(&self, (table, axes): &Part, fine: &[usize]) -> Rows {
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
        let mut starts = vec![0];
        for (_, offsets) in &along {
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
        Rows {
            costs: starts.into_iter().map(|at| table[at]).collect(),
            steps,
        }
    }
}

struct Rows {
    costs: Vec<u128>,
    /// Per axis of a point.
    steps: Vec<usize>,
}

impl Rows {
    fn at(&self, point: &[usize]) -> &[u128] {
        let start: usize = point.iter().zip(&self.steps).map(|(p, s)| p * s).sum();
        &self.costs[start..]
    }

    fn add(&self, point: &[usize], sums: &mut [u128]) {
        let sums = sums.iter_mut().zip(self.at(point));
        sums.for_each(|(sum, &more)| *sum = sum.saturating_add(more));
    }

    /// The least of the sums with these.
    fn least(&self, point: &[usize], sums: &[u128]) -> u128 {
        let all = sums.iter().zip(self.at(point));
        let all = all.map(|(&sum, &more)| sum.saturating_add(more));
        all.min().unwrap_or(NEVER)
    }
}
