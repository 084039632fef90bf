//! The least of sums over the values of a variable, written out over the values of others.

use super::cost::{Cost, lowest};

/// What one function costs, by axes of a point and, innermost and always there, the values that are minimised over.
pub(super) struct Rows<C> {
    pub costs: Vec<C>,
    /// Per axis of a point.
    pub steps: Vec<usize>,
}

impl<C: Cost> Rows<C> {
    fn at(&self, point: &[usize]) -> &[C] {
        let start: usize = point.iter().zip(&self.steps).map(|(p, s)| p * s).sum();
        &self.costs[start..]
    }

    fn add(&self, point: &[usize], sums: &mut [C]) {
        let sums = sums.iter_mut().zip(self.at(point));
        sums.for_each(|(sum, &more)| *sum = sum.plus(more));
    }

    /// The least of the sums with these.
    fn least(&self, point: &[usize], sums: &[C]) -> C {
        let with = &self.at(point)[..sums.len()];
        // independent chains
        let (sums, rest) = sums.as_chunks::<4>();
        let (with, others) = with.as_chunks::<4>();
        let mut chains = [C::NEVER; 4];
        for (sums, with) in sums.iter().zip(with) {
            for (chain, (&sum, &more)) in chains.iter_mut().zip(sums.iter().zip(with)) {
                *chain = chain.or_less(sum.plus(more));
            }
        }
        let rest = rest.iter().zip(others).map(|(&s, &m)| s.plus(m));
        lowest(chains.into_iter().chain(rest))
    }
}

/// Per point of `extents`, row-major: the least of `alone` and the rows there.
pub(super) fn least<C: Cost>(alone: &[C], rows: &[Rows<C>], extents: &[usize]) -> Vec<C> {
    let mut out = Vec::with_capacity(extents.iter().product());
    // along the last axis only some of the functions change
    let last = extents.len().checked_sub(1);
    let changes = |row: &&Rows<C>| last.is_some_and(|last| row.steps[last] > 0);
    let (moving, fixed): (Vec<&Rows<C>>, Vec<&Rows<C>>) = rows.iter().partition(changes);
    let (one, more) = match moving.split_first() {
        Some((one, more)) => (Some(one), more),
        None => (None, &[][..]),
    };
    let mut point = vec![0; extents.len()];
    let (mut sums, mut here) = (alone.to_vec(), alone.to_vec());
    loop {
        sums.copy_from_slice(alone);
        fixed.iter().for_each(|row| row.add(&point, &mut sums));
        for x in 0..last.map_or(1, |last| extents[last]) {
            last.into_iter().for_each(|last| point[last] = x);
            let all = match more {
                [] => &sums,
                more => {
                    here.copy_from_slice(&sums);
                    more.iter().for_each(|row| row.add(&point, &mut here));
                    &here
                }
            };
            out.push(match one {
                Some(one) => one.least(&point, all),
                None => lowest(all.iter().copied()),
            });
        }
        // the next point but for the last axis, the one before it fastest
        let mut before = (0..last.unwrap_or(0)).rev();
        let Some(axis) = before.find(|&a| point[a] + 1 < extents[a]) else {
            return out;
        };
        point[axis] += 1;
        point[axis + 1..].fill(0);
    }
}

/// Takes from costs over `extents` the least over all axes but `kept`, per point of these, from what is feasible.
pub(super) fn take_least<C: Cost>(costs: &mut [C], extents: &[usize], kept: &[usize]) -> Vec<C> {
    // how far apart neighbours along an axis are in `costs`, in the result, and how many there are
    let (mut inner, mut step) = (1, 1);
    let mut axes = Vec::new();
    for (axis, &extent) in extents.iter().enumerate().rev() {
        if kept.contains(&axis) {
            axes.push((inner, step, extent));
            step *= extent;
        }
        inner *= extent;
    }
    let to = |at: usize| -> usize {
        let along = |&(inner, step, extent): &(usize, usize, usize)| at / inner % extent * step;
        axes.iter().map(along).sum()
    };
    let mut least = vec![C::NEVER; step];
    for (at, &cost) in costs.iter().enumerate() {
        let least = &mut least[to(at)];
        *least = least.or_less(cost);
    }
    for (at, cost) in costs.iter_mut().enumerate() {
        if *cost < C::NEVER {
            *cost = cost.minus(least[to(at)]);
        }
    }
    least
}
