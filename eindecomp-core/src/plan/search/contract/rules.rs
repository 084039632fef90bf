//! What is done to one variable at a time.

use super::super::INFEASIBLE;
use super::super::problem::VarId;
use super::super::proof::Step;
use super::{State, key};

/// A variable is eliminated into tables of at most so many entries.
const ENTRIES: usize = 1 << 10;
/// Entries that are compared of one variable to see which value dominates which.
const COMPARED: usize = 1 << 26;
/// Variables with more neighbours become part only of those whose value they decide in turn.
const SPREAD: usize = 64;

impl State {
    /// Leaves out values that are infeasible.
    pub(super) fn supported(&mut self, v: u32) -> Option<()> {
        let d = self.domain(v);
        let mut fine: Vec<bool> = self.costs[v as usize]
            .iter()
            .map(|&c| c < INFEASIBLE)
            .collect();
        for &u in &self.near[v as usize] {
            let table = &self.tables[&key(v, u)];
            if v < u {
                let lines = table.chunks_exact(table.len() / d);
                for (fine, line) in fine.iter_mut().zip(lines) {
                    *fine &= line.iter().any(|&c| c < INFEASIBLE);
                }
            } else {
                let mut any = vec![false; d];
                for line in table.chunks_exact(d) {
                    for (any, &c) in any.iter_mut().zip(line) {
                        *any |= c < INFEASIBLE;
                    }
                }
                for (fine, any) in fine.iter_mut().zip(any) {
                    *fine &= any;
                }
            }
        }
        let kept: Vec<u32> = (0..d as u32).filter(|&x| fine[x as usize]).collect();
        if kept.is_empty() {
            return None;
        }
        self.keep(v, kept);
        Some(())
    }

    /// Takes from edges what their lines cost at least, and leaves out those that cost nothing.
    pub(super) fn normalise(&mut self, v: u32) {
        let near: Vec<u32> = self.near[v as usize].iter().copied().collect();
        for u in near {
            let (a, b) = key(v, u);
            let width = self.domain(b);
            let Some(table) = self.tables.get_mut(&(a, b)) else {
                continue;
            };
            // what is infeasible stays, and moves nothing
            let part = |least: u64| if least < INFEASIBLE { least } else { 0 };
            let mut rows = Vec::with_capacity(table.len() / width);
            for line in table.chunks_exact_mut(width) {
                let least = part(line.iter().copied().min().unwrap_or(0));
                let feasible = line.iter_mut().filter(|c| **c < INFEASIBLE);
                feasible.for_each(|c| *c -= least);
                rows.push(least);
            }
            let mut columns = vec![INFEASIBLE; width];
            for line in table.chunks_exact(width) {
                for (l, c) in columns.iter_mut().zip(line) {
                    *l = (*l).min(*c);
                }
            }
            columns.iter_mut().for_each(|l| *l = part(*l));
            for line in table.chunks_exact_mut(width) {
                for (c, l) in line.iter_mut().zip(&columns) {
                    if *c < INFEASIBLE {
                        *c -= l;
                    }
                }
            }
            let empty = table.iter().all(|&c| c == 0);
            for (end, moved) in [(a, &rows), (b, &columns)] {
                for (cost, more) in self.costs[end as usize].iter_mut().zip(moved) {
                    *cost = cost.saturating_add(*more);
                }
            }
            let changed = rows.iter().chain(&columns).any(|&m| m > 0);
            if empty {
                self.take(v, u);
            }
            if empty || changed {
                let step = Step::Moved([a, b].map(VarId), [rows, columns]);
                self.steps.push(step);
                self.push(u);
            }
        }
        let costs = &mut self.costs[v as usize];
        let least = costs.iter().copied().min().unwrap_or(0);
        if least > 0 && least < INFEASIBLE {
            self.constant += u128::from(least);
            costs
                .iter_mut()
                .filter(|c| **c < INFEASIBLE)
                .for_each(|c| *c -= least);
        }
    }

    /// A single value: what its neighbours pay becomes theirs. Nothing is used beyond what is used anyhow.
    pub(super) fn fix(&mut self, v: u32) {
        let near: Vec<u32> = self.near[v as usize].iter().copied().collect();
        for u in near {
            let table = self.take(v, u);
            for (cost, more) in self.costs[u as usize].iter_mut().zip(table) {
                *cost = cost.saturating_add(more);
            }
            self.push(u);
        }
        self.constant += u128::from(self.costs[v as usize][0]);
        self.costs[v as usize].clear();
        self.steps
            .push(Step::Decided(VarId(v), Vec::new(), vec![0]));
    }

    /// Makes a neighbour whose value this one's decides part of it; or this one of a neighbour.
    pub(super) fn decides(&mut self, v: u32) -> bool {
        let mut merged = false;
        let near: Vec<u32> = self.near[v as usize].iter().copied().collect();
        for u in near {
            let Some(table) = self.tables.get(&key(v, u)) else {
                continue;
            };
            if self.pinned[u as usize] {
                continue;
            }
            let (d, e) = (self.domain(v), self.domain(u));
            let cell = |x: usize, y: usize| match v < u {
                true => table[x * e + y],
                false => table[y * d + x],
            };
            let only = |x: usize| {
                let mut fine = (0..e).filter(|&y| cell(x, y) < INFEASIBLE);
                match (fine.next(), fine.next()) {
                    (Some(y), None) => Some(y as u32),
                    _ => None,
                }
            };
            let Some(map) = (0..d).map(only).collect::<Option<Vec<u32>>>() else {
                continue;
            };
            let degrees = [v, u].map(|w| self.near[w as usize].len());
            let mut back = vec![None; e];
            (0u32..)
                .zip(&map)
                .for_each(|(x, &y)| back[y as usize] = Some(x));
            // one decides the other as well where every value has its own: not if one is left that nothing supports
            let back = back.into_iter().collect::<Option<Vec<u32>>>();
            let (into, part, map) = match back.filter(|_| d == e) {
                Some(back) if degrees[0] < degrees[1] => (u, v, back),
                None if degrees[1] > SPREAD => continue,
                _ => (v, u, map),
            };
            self.merge(into, part, map);
            self.push(into);
            merged = true;
            if part == v {
                break;
            }
        }
        merged
    }

    /// `part` has the value that `map` says per value of `into`.
    pub(super) fn merge(&mut self, into: u32, part: u32, map: Vec<u32>) {
        let between = self.take(into, part);
        let (d, e) = (self.domain(into), self.domain(part));
        for x in 0..d {
            let y = map[x] as usize;
            let more = between[x * e + y].saturating_add(self.costs[part as usize][y]);
            let cost = &mut self.costs[into as usize][x];
            *cost = cost.saturating_add(more);
        }
        let near: Vec<u32> = self.near[part as usize].iter().copied().collect();
        for u in near {
            let old = self.take(part, u);
            let width = self.domain(u);
            let line = |&y: &u32| &old[y as usize * width..][..width];
            let table = map.iter().flat_map(line).copied().collect();
            self.add(into, u, table);
            self.push(u);
        }
        for (r, used) in std::mem::take(&mut self.uses[part as usize]) {
            let used = map.iter().map(|&y| used[y as usize]).collect();
            self.uses[into as usize].push((r, used));
        }
        self.scattered[into as usize] = true;
        self.costs[part as usize].clear();
        let by = vec![(VarId(into), d)];
        self.steps.push(Step::Decided(VarId(part), by, map));
    }

    /// Replaces a variable that uses nothing by what its neighbours pay for it.
    pub(super) fn eliminate(&mut self, v: u32) -> bool {
        let near: Vec<u32> = self.near[v as usize].iter().copied().collect();
        let domains: Vec<usize> = near.iter().map(|&u| self.domain(u)).collect();
        let size = domains.iter().product::<usize>();
        if near.len() == 2 && size > ENTRIES.max(self.domain(v) * domains.iter().sum::<usize>()) {
            return false;
        }
        let tables: Vec<Vec<u64>> = near.iter().map(|&u| self.take(u, v)).collect();
        let costs = std::mem::take(&mut self.costs[v as usize]);
        let d = costs.len();
        let (mut least, mut values) = (Vec::with_capacity(size), Vec::with_capacity(size));
        let line = |n: usize, x: usize| &tables[n][x * d..][..d];
        let mut best = |lines: &[&[u64]]| {
            let sum = |z: usize| lines.iter().fold(costs[z], |s, l| s.saturating_add(l[z]));
            let (cost, z) = (0..d)
                .map(|z| (sum(z), z as u32))
                .min()
                .unwrap_or((INFEASIBLE, 0));
            least.push(cost);
            values.push(z);
        };
        match near[..] {
            [] => best(&[]),
            [_] => (0..domains[0]).for_each(|x| best(&[line(0, x)])),
            _ => {
                for x in 0..domains[0] {
                    (0..domains[1]).for_each(|y| best(&[line(0, x), line(1, y)]));
                }
            }
        }
        match near[..] {
            [] => self.constant += u128::from(least[0]),
            [u] => {
                for (cost, more) in self.costs[u as usize].iter_mut().zip(&least) {
                    *cost = cost.saturating_add(*more);
                }
            }
            _ => self.add(near[0], near[1], least),
        }
        near.iter().for_each(|&u| self.push(u));
        self.steps.push(Step::Decided(
            VarId(v),
            near.into_iter().map(VarId).zip(domains).collect(),
            values,
        ));
        true
    }

    /// Leaves out values than which another one is never worse.
    pub(super) fn dominated(&mut self, v: u32) {
        let d = self.domain(v);
        let near: Vec<u32> = self.near[v as usize].iter().copied().collect();
        let width: usize = near.iter().map(|&u| self.domain(u)).sum();
        if d * d * (width + 1) > COMPARED {
            return;
        }
        // per value: everything that its neighbours tell apart, in one line
        let tables: Vec<(bool, &[u64], usize)> = near
            .iter()
            .map(|&u| (v < u, &self.tables[&key(v, u)][..], self.domain(u)))
            .collect();
        let line = |x: usize| -> Vec<u64> {
            let mut line = Vec::with_capacity(width);
            for &(rows, table, e) in &tables {
                match rows {
                    true => line.extend_from_slice(&table[x * e..][..e]),
                    false => line.extend(table.iter().skip(x).step_by(d)),
                }
            }
            line
        };
        let lines: Vec<Vec<u64>> = (0..d).map(line).collect();
        let ends: Vec<usize> = tables
            .iter()
            .scan(0, |at, t| {
                *at += t.2;
                Some(*at)
            })
            .collect();
        let costs = &self.costs[v as usize];
        let uses = &self.uses[v as usize];
        // is y never worse than x?
        let over = |y: usize, x: usize| {
            if uses.iter().any(|(_, used)| used[y] > used[x]) {
                return false;
            }
            let mut worse = i128::from(costs[y]) - i128::from(costs[x]);
            let mut from = 0;
            for &to in &ends {
                let mut most = i128::MIN;
                for (&a, &b) in lines[y][from..to].iter().zip(&lines[x][from..to]) {
                    if b == INFEASIBLE {
                        continue;
                    }
                    if a == INFEASIBLE {
                        return false;
                    }
                    most = most.max(i128::from(a) - i128::from(b));
                }
                if most == i128::MIN {
                    return true;
                }
                worse += most;
                from = to;
            }
            worse <= 0
        };
        let mut kept: Vec<u32> = (0..d as u32).collect();
        let mut at = kept.len();
        while at > 0 {
            at -= 1;
            let x = kept[at] as usize;
            if kept.iter().any(|&y| y as usize != x && over(y as usize, x)) {
                kept.remove(at);
            }
        }
        self.keep(v, kept);
    }
}
