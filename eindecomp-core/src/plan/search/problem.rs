//! A pairwise labelling problem: variables with a cost per value, edges with a cost per pair, and
//! limits on what values use over time.

use std::ops::Range;
use std::sync::Arc;

use super::limits::{Limits, Usage};
use super::maps::{MapId, Maps};
use super::tables::{TableId, Tables};
use crate::quick::Table;

/// The cost of a value or pair that must not be chosen. Sums saturate here.
pub const INFEASIBLE: u64 = u64::MAX;

/// A variable: its number, in the order of [`Problem::add_variable`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct VarId(pub u32);

impl VarId {
    /// As a position in [`super::Solution::assignment`].
    pub fn at(self) -> usize {
        self.0 as usize
    }
}

/// A number per pair of values of two variables, kept once by its [`Problem`]: the values of each
/// side fall into classes, and the table is over classes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PairTable {
    pub(super) rows: MapId,
    pub(super) columns: MapId,
    /// Row-major, classes of rows × classes of columns.
    pub(super) table: TableId,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct RawEdge {
    pub from: VarId,
    pub to: VarId,
    pub pair: PairTable,
}

/// An edge: two variables and what each pair of values costs.
#[derive(Clone, Copy, Debug)]
pub struct Edge<'a> {
    /// The variable of the rows.
    pub from: VarId,
    /// The variable of the columns.
    pub to: VarId,
    /// Per value of `from`: its class.
    pub rows: &'a [u32],
    /// Per value of `to`: its class.
    pub columns: &'a [u32],
    /// Row-major, classes × classes.
    pub table: &'a [u64],
    /// Number of classes of columns.
    pub width: usize,
}

impl Edge<'_> {
    /// The cost of `from = x` together with `to = y`.
    pub fn cost(&self, x: u32, y: u32) -> u64 {
        let row = self.rows[x as usize] as usize;
        self.table[row * self.width + self.columns[y as usize] as usize]
    }
}

/// Variables, edges and limits; equal tables are kept once, whoever made them.
#[derive(Clone, Debug, Default)]
pub struct Problem {
    unary: Vec<TableId>,
    edges: Vec<RawEdge>,
    limits: Limits,
    pub(super) tables: Tables,
    pub(super) maps: Maps,
    dense: Table<(TableId, usize), PairTable>,
}

impl Problem {
    /// Without variables.
    pub fn new() -> Problem {
        Problem::default()
    }

    /// Another one without variables that knows the same tables.
    pub(super) fn without_variables(&self) -> Problem {
        Problem {
            tables: self.tables.clone(),
            maps: self.maps.clone(),
            ..Problem::default()
        }
    }

    /// Adds a variable with one value per entry of `costs`.
    ///
    /// # Panics
    /// If there is no entry: a variable without values has no assignment.
    pub fn add_variable(&mut self, costs: impl Into<Arc<[u64]>> + AsRef<[u64]>) -> VarId {
        assert!(!costs.as_ref().is_empty(), "a variable without values");
        self.unary.push(self.tables.intern(costs));
        VarId(self.unary.len() as u32 - 1)
    }

    /// Adds an edge: `table[x * domain(b) + y]` is the cost of `a = x` together with `b = y`.
    /// Several edges between two variables add up.
    ///
    /// # Panics
    /// If `a` is `b`, or the table has another size.
    pub fn add_edge(&mut self, a: VarId, b: VarId, table: impl Into<Arc<[u64]>> + AsRef<[u64]>) {
        let pair = self.dense(self.domain(a), self.domain(b), table);
        self.add_pair(a, b, pair);
    }

    /// Adds an edge of a table that [`pair_table`](Problem::pair_table) or
    /// [`dense`](Problem::dense) made.
    ///
    /// # Panics
    /// If `a` is `b`, or a side of the table has another number of values.
    pub fn add_pair(&mut self, a: VarId, b: VarId, pair: PairTable) {
        assert_ne!(a, b, "an edge joins two variables");
        self.check(a, b, pair);
        self.edges.push(RawEdge {
            from: a,
            to: b,
            pair,
        });
    }

    fn check(&self, a: VarId, b: VarId, pair: PairTable) {
        let values = [pair.rows, pair.columns].map(|m| self.maps.get(m).len());
        let domains = [a, b].map(|v| self.domain(v));
        assert_eq!(values, domains, "an edge has one cost per pair of values");
    }

    /// A table over every pair of values, row-major.
    ///
    /// # Panics
    /// If it does not have `rows` × `columns` entries.
    pub fn dense(
        &mut self,
        rows: usize,
        columns: usize,
        table: impl Into<Arc<[u64]>> + AsRef<[u64]>,
    ) -> PairTable {
        let size = table.as_ref().len();
        assert_eq!(
            size,
            rows * columns,
            "an edge has one cost per pair of values"
        );
        let id = self.tables.intern(table);
        if let Some(&pair) = self.dense.get(&(id, rows)) {
            return pair;
        }
        let number = |n: usize| (0..n as u32).collect::<Vec<_>>();
        let table = self.tables.get(id).clone();
        let pair = self.pair_table(&number(rows), &number(columns), &table);
        self.dense.insert((id, rows), pair);
        pair
    }

    /// A table over classes of values: `rows` and `columns` give the class of every value, and
    /// `table[r * width + c]` is for classes r and c, where the width is one more than the largest
    /// class of a column.
    ///
    /// # Panics
    /// If the table has another size than rows × columns of classes.
    pub fn pair_table(&mut self, rows: &[u32], columns: &[u32], table: &[u64]) -> PairTable {
        let count = |map: &[u32]| map.iter().max().map_or(0, |m| *m as usize + 1);
        let (height, width) = (count(rows), count(columns));
        assert_eq!(
            table.len(),
            height * width,
            "a table has one cost per pair of classes"
        );
        let used = |map: &[u32], count: usize| -> Vec<usize> {
            let mut used = vec![false; count];
            map.iter().for_each(|&m| used[m as usize] = true);
            (0..count).filter(|&m| used[m]).collect()
        };
        let (used_rows, used_columns) = (used(rows, height), used(columns, width));
        // classes with equal lines are one: the first of them
        let firsts = |used: &[usize], count: usize, line: &dyn Fn(usize) -> Vec<u64>| {
            let (mut seen, mut first) = (Table::default(), vec![0u32; count]);
            for &m in used {
                first[m] = *seen.entry(line(m)).or_insert(m as u32);
            }
            first
        };
        let first_row = firsts(&used_rows, height, &|r| {
            let line = &table[r * width..][..width];
            used_columns.iter().map(|&c| line[c]).collect()
        });
        let first_column = firsts(&used_columns, width, &|c| {
            used_rows.iter().map(|&r| table[r * width + c]).collect()
        });
        let merged = |first: &[u32], map: &[u32]| -> Vec<u32> {
            map.iter().map(|&m| first[m as usize]).collect()
        };
        let (rows, row) = self.maps.intern(&merged(&first_row, rows));
        let (columns, column) = self.maps.intern(&merged(&first_column, columns));
        let line = |&r: &u32| {
            let line = &table[r as usize * width..][..width];
            column.iter().map(|&c| line[c as usize]).collect::<Vec<_>>()
        };
        let small: Vec<u64> = row.iter().flat_map(line).collect();
        PairTable {
            rows,
            columns,
            table: self.tables.intern(small),
        }
    }

    /// The same with limits at some positions alone, ascending.
    pub(super) fn limited_at(&self, positions: &[u32]) -> Problem {
        let place = |t: u32| positions.partition_point(|&p| p < t) as u32;
        let mut limits = Limits::default();
        limits.set(
            positions
                .iter()
                .map(|&t| self.limits()[t as usize])
                .collect(),
        );
        for (r, usage) in self.usages() {
            limits.add(place(r.start)..place(r.end), *usage);
        }
        Problem {
            limits,
            ..self.clone()
        }
    }

    /// At every position t, the values chosen may use at most `limits[t]` together. Before the
    /// first call there are no positions.
    pub fn set_limits(&mut self, limits: Vec<u64>) {
        self.limits.set(limits);
    }

    /// Value x of `v` uses `usage[x]` at every position of the range. Several usages add up.
    ///
    /// # Panics
    /// If the range ends after the last position, or there is not one usage per value.
    pub fn add_usage(&mut self, v: VarId, positions: Range<u32>, usage: &[u64]) {
        assert_eq!(usage.len(), self.domain(v), "a usage per value");
        let table = self.tables.intern(usage);
        self.limits.add(positions, Usage::Value(v, table));
    }

    /// Values x of `a` and y of `b` together use an entry of `pair` at every position of the range.
    ///
    /// # Panics
    /// As [`add_usage`](Problem::add_usage).
    pub fn add_pair_usage(&mut self, a: VarId, b: VarId, positions: Range<u32>, pair: PairTable) {
        self.check(a, b, pair);
        let edge = RawEdge {
            from: a,
            to: b,
            pair,
        };
        self.limits.add(positions, Usage::Pair(edge));
    }

    /// Number of variables.
    pub fn variables(&self) -> usize {
        self.unary.len()
    }

    /// Every variable.
    pub fn ids(&self) -> impl Iterator<Item = VarId> + use<> {
        (0..self.variables() as u32).map(VarId)
    }

    /// Number of values of a variable.
    pub fn domain(&self, v: VarId) -> usize {
        self.costs(v).len()
    }

    /// The cost of every value of a variable.
    pub fn costs(&self, v: VarId) -> &Arc<[u64]> {
        self.tables.get(self.unary[v.at()])
    }

    /// Every edge.
    pub fn edges(&self) -> impl Iterator<Item = Edge<'_>> {
        self.edges.iter().map(|e| self.edge(e))
    }

    pub(super) fn edge(&self, e: &RawEdge) -> Edge<'_> {
        Edge {
            from: e.from,
            to: e.to,
            rows: self.maps.get(e.pair.rows),
            columns: self.maps.get(e.pair.columns),
            table: self.tables.get(e.pair.table),
            width: self.maps.classes(e.pair.columns),
        }
    }

    pub(super) fn usages(&self) -> &[(Range<u32>, Usage)] {
        self.limits.usages()
    }

    pub(super) fn raw_edges(&self) -> &[RawEdge] {
        &self.edges
    }

    pub(super) fn unary(&self, v: VarId) -> TableId {
        self.unary[v.at()]
    }

    /// Are there limits?
    pub fn is_limited(&self) -> bool {
        !self.limits.at().is_empty()
    }

    /// The limit at every position.
    pub fn limits(&self) -> &[u64] {
        self.limits.at()
    }

    /// What an assignment uses at every position.
    pub fn usage(&self, assignment: &[u32]) -> Vec<u128> {
        let mut change = vec![0i128; self.limits().len() + 1];
        for (positions, usage) in self.usages() {
            let used = match usage {
                Usage::Value(v, table) => self.tables.get(*table)[assignment[v.at()] as usize],
                Usage::Pair(e) => self
                    .edge(e)
                    .cost(assignment[e.from.at()], assignment[e.to.at()]),
            };
            change[positions.start as usize] += i128::from(used);
            change[positions.end as usize] -= i128::from(used);
        }
        let mut level = 0i128;
        let levels = change[..self.limits().len()].iter().map(|c| {
            level += c;
            level.unsigned_abs()
        });
        levels.collect()
    }

    /// The cost of an assignment; `u128::MAX` if it uses an [`INFEASIBLE`] entry or more than a
    /// limit.
    ///
    /// # Panics
    /// If it does not have one value in range per variable.
    pub fn cost(&self, assignment: &[u32]) -> u128 {
        assert_eq!(assignment.len(), self.variables());
        let unary = self
            .ids()
            .map(|v| self.costs(v)[assignment[v.at()] as usize]);
        let pairs = self
            .edges()
            .map(|e| e.cost(assignment[e.from.at()], assignment[e.to.at()]));
        let fits = || {
            let used = self.usage(assignment);
            used.iter().zip(self.limits()).all(|(&u, &l)| u <= l.into())
        };
        unary
            .chain(pairs)
            .try_fold(0u128, |sum, c| {
                (c != INFEASIBLE).then(|| sum + u128::from(c))
            })
            .filter(|_| fits())
            .unwrap_or(u128::MAX)
    }

    /// No assignment that is feasible costs more.
    pub(super) fn most(&self) -> f64 {
        let most = |costs: &[u64]| {
            let feasible = costs.iter().filter(|c| **c < INFEASIBLE);
            feasible.max().map_or(0.0, |&c| c as f64)
        };
        let own: f64 = self.ids().map(|v| most(self.costs(v))).sum();
        own + self.edges().map(|e| most(e.table)).sum::<f64>()
    }

    /// The sum of every table's least entry: a lower bound that needs no search.
    pub fn trivial_bound(&self) -> u128 {
        let least = |t: &[u64]| u128::from(t.iter().copied().min().unwrap_or(0));
        let unary = self.unary.iter().map(|&t| least(self.tables.get(t)));
        unary.chain(self.edges().map(|e| least(e.table))).sum()
    }
}
