//! Positions of the limits: values that alone pass one, and what is left of them in the end.

use std::ops::Range;

use super::super::problem::Problem;
use super::{Contraction, State};

impl State {
    /// Leaves out values that alone use more than the others leave anyhow; were there any?
    pub(super) fn fitting(&mut self, limits: &[u64]) -> Option<bool> {
        let mut used = 0i128;
        let mut left = Vec::with_capacity(limits.len());
        for (&limit, base) in limits.iter().zip(&self.base) {
            used += base;
            left.push(u64::try_from(i128::from(limit) - used).ok()?);
        }
        let left = Least::of(left);
        let mut any = false;
        for v in 0..self.costs.len() as u32 {
            let mut fits = vec![true; self.domain(v)];
            for (r, used) in &self.uses[v as usize] {
                let left = left.over(r);
                for (fits, &used) in fits.iter_mut().zip(used) {
                    *fits &= used <= left;
                }
            }
            if fits.contains(&false) {
                any = true;
                let kept: Vec<u32> = (0..).zip(fits).filter(|f| f.1).map(|f| f.0).collect();
                if kept.is_empty() {
                    return None;
                }
                self.keep(v, kept);
            }
        }
        Some(any)
    }

    pub(super) fn finish(self, problem: &Problem) -> Option<Contraction> {
        let positions = problem.limits().len();
        let mut change = vec![0i128; positions + 1];
        // where some value begins to use more than before, and less
        let (mut begins, mut ends) = (vec![false; positions + 1], vec![false; positions + 1]);
        let own = self
            .uses
            .iter()
            .map(|uses| uses.iter().map(|(r, used)| (r, used)).collect());
        let pairs = self.pairs.iter().map(|(r, _, used)| vec![(r, used)]);
        for uses in own.chain(pairs) {
            let uses: Vec<(&Range<u32>, &Vec<u64>)> = uses;
            let mut last: Option<(u32, &Vec<u64>)> = None;
            for (r, used) in uses {
                let most = i128::from(used.iter().copied().max().unwrap_or(0));
                change[r.start as usize] += most;
                change[r.end as usize] -= most;
                begins[r.start as usize] |= match last {
                    Some((end, before)) if end == r.start => {
                        ends[r.start as usize] |= before.iter().zip(used).any(|(b, u)| b > u);
                        before.iter().zip(used).any(|(b, u)| b < u)
                    }
                    Some((end, _)) => {
                        ends[end as usize] = true;
                        true
                    }
                    None => true,
                };
                last = Some((r.end, used));
            }
            if let Some((end, _)) = last {
                ends[end as usize] = true;
            }
        }
        // what is left of the limits, where they can be passed at all
        let (mut used, mut most) = (0i128, 0i128);
        let mut left: Vec<(u32, u64)> = Vec::new();
        let mut since = (false, false);
        for (t, &limit) in problem.limits().iter().enumerate() {
            used += self.base[t];
            most += change[t];
            since = (since.0 | begins[t], since.1 | ends[t]);
            let limit = u64::try_from(i128::from(limit) - used).ok()?;
            if most <= i128::from(limit) {
                continue;
            }
            // where nothing ended since the last one, that is never passed before this one; where nothing began, the
            // other way round
            match left.last_mut() {
                Some(last) if !since.1 && last.1 >= limit => *last = (t as u32, limit),
                Some(last) if !since.0 && last.1 <= limit => continue,
                _ => left.push((t as u32, limit)),
            }
            since = (false, false);
        }
        let place = |t: u32| left.partition_point(|l| l.0 < t) as u32;
        let mut out = Problem::new();
        out.set_limits(left.iter().map(|l| l.1).collect());
        let mut at = vec![None; self.costs.len()];
        let mut kept = Vec::new();
        for (v, costs) in self.costs.iter().enumerate().filter(|c| !c.1.is_empty()) {
            let new = out.add_variable(costs.clone());
            at[v] = Some(new);
            kept.push(v as u32);
            for (r, used) in &self.uses[v] {
                out.add_usage(new, place(r.start)..place(r.end), used);
            }
        }
        let mut tables: Vec<_> = self.tables.into_iter().collect();
        tables.sort_unstable_by_key(|t| t.0);
        for ((a, b), table) in tables {
            if let (Some(a), Some(b)) = (at[a as usize], at[b as usize]) {
                out.add_edge(a, b, table);
            }
        }
        for (r, ends, used) in self.pairs {
            if let [Some(a), Some(b)] = ends.map(|v| at[v as usize]) {
                let pair = out.dense(out.domain(a), out.domain(b), used);
                out.add_pair_usage(a, b, place(r.start)..place(r.end), pair);
            }
        }
        Some(Contraction {
            problem: out,
            constant: self.constant,
            steps: self.steps,
            kept,
            positions: left.into_iter().map(|l| l.0).collect(),
            variables: problem.variables(),
        })
    }
}

/// The least over ranges: per power of two, that of so many entries from each on.
struct Least(Vec<Vec<u64>>);

impl Least {
    pub fn of(entries: Vec<u64>) -> Least {
        let mut all = vec![entries];
        let mut span = 1;
        while let Some(last) = all.last().filter(|l| l.len() > span) {
            let next = last
                .iter()
                .zip(&last[span..])
                .map(|(a, b)| *a.min(b))
                .collect();
            all.push(next);
            span *= 2;
        }
        Least(all)
    }

    fn over(&self, r: &Range<u32>) -> u64 {
        let level = (r.end - r.start).ilog2();
        let level_entries = &self.0[level as usize];
        let last = r.end as usize - (1 << level);
        level_entries[r.start as usize].min(level_entries[last])
    }
}
