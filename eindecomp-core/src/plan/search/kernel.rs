//! The min-plus product of cost tables.
//!
//! In 64-bit floats where every sum is an integer below 2⁵³, hence exact: their minimum is a vector
//! instruction on every processor, that of 64-bit integers is not. Else in saturating integers.

use std::cmp::Reverse;

use super::INFEASIBLE;

/// An axis of a table: which axis of the space it is, and the entry of each of its values.
pub(super) struct Axis<'a> {
    /// Below the number of extents; equal to it: the axis that is minimised over.
    pub at: usize,
    /// `None`: value i has entry i.
    pub map: Option<&'a [u32]>,
    /// Entries of the table along it.
    pub entries: usize,
}

/// A table, row-major over its axes, which are any axes of the space in any order.
pub(super) struct Part<'a> {
    pub table: &'a [u64],
    pub axes: Vec<Axis<'a>>,
}

/// Over a space of `extents`, row-major: the least over x < `d` of the parts' sum.
pub(super) fn min_sum(extents: &[usize], d: usize, parts: &[Part]) -> Vec<u64> {
    let most = |p: &Part| p.table.iter().copied().filter(|&c| c != INFEASIBLE).max();
    let most: u128 = parts.iter().filter_map(most).map(u128::from).sum();
    if most < 1 << 53 {
        product::<f64>(extents, d, parts)
    } else {
        product::<u64>(extents, d, parts)
    }
}

/// The sum of the parts over a space of `extents`, row-major.
pub(super) fn sum(extents: &[usize], parts: &[Part]) -> Vec<u64> {
    let mut out = vec![0u64; extents.iter().product()];
    for part in parts {
        let wide = dense::<u64>(part, extents, 1, &(0..extents.len()).collect::<Vec<_>>());
        for (o, w) in out.iter_mut().zip(wide.iter()) {
            *o = o.saturating_add(*w);
        }
    }
    out
}

/// Takes from a table over `extents`, per combination of the values of `axes`, ascending, its least entry over the others: a
/// table over these.
pub(super) fn apart(table: &mut [u64], extents: &[usize], axes: &[usize]) -> Vec<u64> {
    let extents = if axes.is_empty() { &[] } else { extents };
    let mut steps = vec![0; extents.len()];
    let mut entries = 1;
    for &a in axes.iter().rev() {
        steps[a] = entries;
        entries *= extents[a];
    }
    let mut least = vec![INFEASIBLE; entries];
    let (row, along) = match extents {
        [.., extent] => (*extent, steps[extents.len() - 1]),
        [] => (table.len(), 0),
    };
    let mut starts = vec![0];
    for (extent, step) in extents.iter().zip(&steps).rev().skip(1).rev() {
        let along = |&s: &usize| (0..*extent).map(move |x| s + x * step);
        starts = starts.iter().flat_map(along).collect();
    }
    for (row, &start) in table.chunks_exact(row.max(1)).zip(&starts) {
        for (x, &c) in row.iter().enumerate() {
            let least = &mut least[start + x * along];
            *least = c.min(*least);
        }
    }
    for (row, &start) in table.chunks_exact_mut(row.max(1)).zip(&starts) {
        for (x, c) in row.iter_mut().enumerate() {
            if *c < INFEASIBLE {
                *c -= least[start + x * along];
            }
        }
    }
    least
}

trait Cost: Copy + PartialOrd {
    const ZERO: Self;
    const TOP: Self;
    fn of(cost: u64) -> Self;
    fn cost(self) -> u64;
    fn plus(self, other: Self) -> Self;

    fn least(self, other: Self) -> Self {
        if other < self { other } else { self }
    }
}

impl Cost for f64 {
    const ZERO: f64 = 0.0;
    const TOP: f64 = f64::INFINITY;

    fn of(cost: u64) -> f64 {
        if cost == INFEASIBLE {
            f64::INFINITY
        } else {
            cost as f64
        }
    }

    fn cost(self) -> u64 {
        // infinity saturates
        self as u64
    }

    fn plus(self, other: f64) -> f64 {
        self + other
    }
}

impl Cost for u64 {
    const ZERO: u64 = 0;
    const TOP: u64 = INFEASIBLE;

    fn of(cost: u64) -> u64 {
        cost
    }

    fn cost(self) -> u64 {
        self
    }

    fn plus(self, other: u64) -> u64 {
        self.saturating_add(other)
    }
}

/// A part written out over its own axes, in the order in which they are walked, the minimised one last and
/// always there, with the step of each axis of the space.
struct Dense<C> {
    data: Vec<C>,
    steps: Vec<usize>,
}

impl<C> Dense<C> {
    /// Where the row of a point starts; axes that the point lacks are at 0.
    fn start(&self, point: &[usize]) -> usize {
        point.iter().zip(&self.steps).map(|(p, s)| p * s).sum()
    }

    fn row(&self, point: &[usize], d: usize) -> &[C] {
        &self.data[self.start(point)..][..d]
    }
}

/// The part over the axes `own` and, last, the minimised one.
fn dense<C: Cost>(part: &Part, extents: &[usize], d: usize, own: &[usize]) -> Vec<C> {
    let mut step = part.table.len();
    let mut steps = vec![0; extents.len() + 1];
    let mut maps: Vec<Option<&[u32]>> = vec![None; extents.len() + 1];
    for axis in &part.axes {
        step /= axis.entries;
        (steps[axis.at], maps[axis.at]) = (step, axis.map);
    }
    let offsets = |axis: usize, extent: usize| -> Vec<usize> {
        let entry = |i: usize| maps[axis].map_or(i, |m| m[i] as usize);
        (0..extent).map(|i| steps[axis] * entry(i)).collect()
    };
    let mut starts = vec![0usize];
    for &axis in own {
        let along = offsets(axis, extents[axis]);
        starts = starts
            .iter()
            .flat_map(|s| along.iter().map(move |a| s + a))
            .collect();
    }
    let last = offsets(extents.len(), d);
    let mut out = Vec::with_capacity(starts.len() * d);
    for s in starts {
        let row = &part.table[s..];
        out.extend(last.iter().map(|&o| C::of(row[o])));
    }
    out
}

/// A product's space. Its axes are walked in the order in which fewer and fewer parts are over them, so that the
/// innermost loop adds as little as may be.
struct Space<C> {
    extents: Vec<usize>,
    /// Of the result, along each axis.
    steps: Vec<usize>,
    /// By the deepest axis of a table, plus one.
    levels: Vec<Vec<Dense<C>>>,
    d: usize,
}

fn product<C: Cost>(extents: &[usize], d: usize, parts: &[Part]) -> Vec<u64> {
    let n = extents.len();
    let uses = |a: usize| {
        let over = |p: &&Part| p.axes.iter().any(|x| x.at == a);
        parts.iter().filter(over).count()
    };
    let mut order: Vec<usize> = (0..n).collect();
    order.sort_by_key(|&a| (Reverse(uses(a)), extents[a]));
    let mut place = vec![0; n];
    order.iter().enumerate().for_each(|(at, &a)| place[a] = at);
    let mut steps = vec![0; n];
    let mut size = 1;
    for a in (0..n).rev() {
        steps[place[a]] = size;
        size *= extents[a];
    }
    let mut space = Space {
        extents: order.iter().map(|&a| extents[a]).collect(),
        steps,
        levels: (0..=n).map(|_| Vec::new()).collect(),
        d,
    };
    for part in parts {
        let mut own: Vec<usize> = part.axes.iter().map(|a| a.at).collect();
        own.retain(|&a| a < n);
        own.sort_unstable_by_key(|&a| place[a]);
        let mut steps = vec![0; n];
        let mut step = d;
        for &axis in own.iter().rev() {
            steps[place[axis]] = step;
            step *= extents[axis];
        }
        space.levels[own.last().map_or(0, |&a| place[a] + 1)].push(Dense {
            data: dense(part, extents, d, &own),
            steps,
        });
    }
    let mut first = vec![C::ZERO; d];
    for table in &space.levels[0] {
        add(&mut first, &table.data);
    }
    let mut out = vec![0; size];
    let mut scratch = vec![vec![C::ZERO; ROWS * d]; n];
    space.fill(
        &mut Vec::with_capacity(n),
        0,
        &first,
        &mut scratch,
        &mut out,
    );
    out
}

/// Rows of a product that are made together, so that the other side is read once for all.
const ROWS: usize = 4;

impl<C: Cost> Space<C> {
    /// Fills `out` from `at`, for the axes beyond those of `point`. `sums` is the sum of every table whose axes are
    /// all among these, there; `scratch` has rows for each axis to come.
    fn fill(
        &self,
        point: &mut Vec<usize>,
        at: usize,
        sums: &[C],
        scratch: &mut [Vec<C>],
        out: &mut [u64],
    ) {
        let (depth, d) = (point.len(), self.d);
        let Some(&extent) = self.extents.get(depth) else {
            out[at] = least(sums).cost();
            return;
        };
        let left = self.extents.len() - depth;
        if left == 1 {
            return self.line(point, at, sums, &mut scratch[0], out);
        }
        let shared =
            left == 2 && matches!(&self.levels[depth + 2][..], [table] if table.steps[depth] == 0);
        let Some((rows, deeper)) = scratch.split_first_mut() else {
            return;
        };
        let wide = if shared { ROWS } else { 1 };
        let mut x = 0;
        while x < extent {
            let count = wide.min(extent - x);
            for (n, row) in rows.chunks_exact_mut(d.max(1)).take(count).enumerate() {
                row.copy_from_slice(sums);
                point.push(x + n);
                for table in &self.levels[depth + 1] {
                    add(row, table.row(point, d));
                }
                point.pop();
            }
            let at = at + x * self.steps[depth];
            point.push(x);
            if shared {
                self.block(point, at, &rows[..count * d], out);
            } else {
                self.fill(point, at, &rows[..d], deeper, out);
            }
            point.pop();
            x += count;
        }
    }

    /// Along the last axis.
    fn line(
        &self,
        point: &mut Vec<usize>,
        at: usize,
        sums: &[C],
        scratch: &mut [C],
        out: &mut [u64],
    ) {
        let (depth, d) = (point.len(), self.d);
        let step = self.steps[depth];
        let Some((last, others)) = self.levels[depth + 1].split_last() else {
            let cost = least(sums).cost();
            (0..self.extents[depth]).for_each(|x| out[at + x * step] = cost);
            return;
        };
        let starts = last.start(point);
        for x in 0..self.extents[depth] {
            let row = &last.data[starts + x * last.steps[depth]..][..d];
            let sums = match others {
                [] => sums,
                others => {
                    let sum = &mut scratch[..d];
                    sum.copy_from_slice(sums);
                    point.push(x);
                    others.iter().for_each(|t| add(sum, t.row(point, d)));
                    point.pop();
                    sum
                }
            };
            out[at + x * step] = least_sums([sums], row)[0].cost();
        }
    }

    /// Up to [`ROWS`] values of the last axis but one from that of `point`, over one table that they share along the
    /// last one.
    fn block(&self, point: &[usize], at: usize, sums: &[C], out: &mut [u64]) {
        let (depth, d) = (point.len(), self.d);
        let (across, along) = (self.steps[depth - 1], self.steps[depth]);
        let table = &self.levels[depth + 1][0];
        let start = table.start(point);
        let rows: Vec<&[C]> = sums.chunks_exact(d.max(1)).collect();
        let full: Option<[&[C]; ROWS]> = rows.as_slice().try_into().ok();
        for x in 0..self.extents[depth] {
            let other = &table.data[start + x * table.steps[depth]..][..d];
            let at = at + x * along;
            match full {
                Some(rows) => {
                    for (n, sum) in least_sums(rows, other).into_iter().enumerate() {
                        out[at + n * across] = sum.cost();
                    }
                }
                None => {
                    for (n, row) in rows.iter().enumerate() {
                        out[at + n * across] = least_sums([*row], other)[0].cost();
                    }
                }
            }
        }
    }
}

fn add<C: Cost>(sum: &mut [C], more: &[C]) {
    for (s, m) in sum.iter_mut().zip(more) {
        *s = s.plus(*m);
    }
}

fn least<C: Cost>(costs: &[C]) -> C {
    costs.iter().fold(C::TOP, |a, &b| a.least(b))
}

/// Per row a: min (a + b), in independent chains.
fn least_sums<C: Cost, const N: usize>(rows: [&[C]; N], b: &[C]) -> [C; N] {
    const LANES: usize = 4;
    let mut least = [[C::TOP; LANES]; N];
    let d = b.len();
    let rows = rows.map(|r| &r[..d]);
    let whole = d - d % LANES;
    for at in (0..whole).step_by(LANES) {
        for n in 0..N {
            for i in 0..LANES {
                least[n][i] = least[n][i].least(rows[n][at + i].plus(b[at + i]));
            }
        }
    }
    let mut out = [C::TOP; N];
    for n in 0..N {
        let rest = (whole..d).map(|i| rows[n][i].plus(b[i]));
        out[n] = least[n].into_iter().chain(rest).fold(C::TOP, C::least);
    }
    out
}
