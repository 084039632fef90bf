//! The min-plus product of cost tables.
//!
//! In 64-bit floats where every sum is an integer below 2⁵³, hence exact: their minimum is a vector
//! instruction on every processor, that of 64-bit integers is not. Else in saturating integers.

use std::borrow::Cow;

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

/// A part written out over its own axes in ascending order, the minimised one last and always
/// there, with the step of each axis of the space.
struct Dense<C> {
    data: Vec<C>,
    steps: Vec<usize>,
}

impl<C> Dense<C> {
    fn row(&self, point: &[usize], d: usize) -> &[C] {
        let start: usize = point.iter().zip(&self.steps).map(|(p, s)| p * s).sum();
        &self.data[start..][..d]
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
    let row = |s: &usize| {
        let row = &part.table[*s..];
        last.iter().map(|&o| C::of(row[o])).collect::<Vec<C>>()
    };
    starts.iter().flat_map(row).collect()
}

fn product<C: Cost>(extents: &[usize], d: usize, parts: &[Part]) -> Vec<u64> {
    let mut levels: Vec<Vec<Dense<C>>> = (0..=extents.len()).map(|_| Vec::new()).collect();
    for part in parts {
        let mut own: Vec<usize> = part.axes.iter().map(|a| a.at).collect();
        own.retain(|&a| a < extents.len());
        own.sort_unstable();
        let mut steps = vec![0; extents.len()];
        let mut step = d;
        for &axis in own.iter().rev() {
            steps[axis] = step;
            step *= extents[axis];
        }
        levels[own.last().map_or(0, |a| a + 1)].push(Dense {
            data: dense(part, extents, d, &own),
            steps,
        });
    }
    let mut first = vec![C::ZERO; d];
    for table in &levels[0] {
        add(&mut first, &table.data);
    }
    let mut fill = Fill {
        extents,
        levels,
        d,
        point: vec![0; extents.len()],
        out: Vec::with_capacity(extents.iter().product()),
    };
    fill.at(0, &first);
    fill.out
}

/// Rows of a product that are made together, so that the other side is read once for all.
const ROWS: usize = 4;

struct Fill<'a, C> {
    extents: &'a [usize],
    /// By the deepest axis of a table, plus one.
    levels: Vec<Vec<Dense<C>>>,
    d: usize,
    point: Vec<usize>,
    out: Vec<u64>,
}

impl<C: Cost> Fill<'_, C> {
    /// `sums` is the sum of every table whose axes are all below `depth`, at the point.
    fn at(&mut self, depth: usize, sums: &[C]) {
        let left = self.extents.len() - depth;
        let Some(&extent) = self.extents.get(depth) else {
            self.out.push(least(sums).cost());
            return;
        };
        if left == 1
            && let [table] = &self.levels[depth + 1][..]
        {
            for x in 0..extent {
                self.point[depth] = x;
                let sum = least_sums([sums], table.row(&self.point, self.d));
                self.out.push(sum[0].cost());
            }
            return;
        }
        let shared =
            left == 2 && matches!(&self.levels[depth + 2][..], [table] if table.steps[depth] == 0);
        if shared {
            let mut x = 0;
            while x < extent {
                let rows = ROWS.min(extent - x);
                let sums: Vec<Cow<[C]>> =
                    (x..x + rows).map(|x| self.with(depth, x, sums)).collect();
                self.block(depth + 1, &sums);
                x += rows;
            }
            return;
        }
        for x in 0..extent {
            let sums = self.with(depth, x, sums).into_owned();
            self.at(depth + 1, &sums);
        }
    }

    /// `sums` with the tables whose deepest axis is `depth`, there at `x`.
    fn with<'s>(&mut self, depth: usize, x: usize, sums: &'s [C]) -> Cow<'s, [C]> {
        self.point[depth] = x;
        let mut sums = Cow::Borrowed(sums);
        for table in &self.levels[depth + 1] {
            add(sums.to_mut(), table.row(&self.point, self.d));
        }
        sums
    }

    /// Up to [`ROWS`] rows of the last axis, over one table that they share.
    fn block(&mut self, last: usize, sums: &[Cow<[C]>]) {
        let (width, table) = (self.extents[last], &self.levels[last + 1][0]);
        let start = self.out.len();
        self.out.resize(start + sums.len() * width, 0);
        let rows = &mut self.out[start..];
        let full: Option<[&[C]; ROWS]> = sums
            .iter()
            .map(|s| &**s)
            .collect::<Vec<_>>()
            .try_into()
            .ok();
        for x in 0..width {
            self.point[last] = x;
            let other = table.row(&self.point, self.d);
            match full {
                Some(sums) => {
                    for (i, sum) in least_sums(sums, other).into_iter().enumerate() {
                        rows[i * width + x] = sum.cost();
                    }
                }
                None => {
                    for (i, sums) in sums.iter().enumerate() {
                        rows[i * width + x] = least_sums([&**sums], other)[0].cost();
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
