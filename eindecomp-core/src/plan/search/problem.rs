//! A pairwise labelling problem: variables with a cost per value, edges with a cost per pair.

use std::sync::Arc;

use super::tables::{TableId, Tables};

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

#[derive(Clone, Copy, Debug)]
pub(super) struct Edge {
    pub from: VarId,
    pub to: VarId,
    /// Row-major, `from` × `to`.
    pub table: TableId,
}

/// Variables and edges; equal tables are kept once, whoever made them.
#[derive(Clone, Debug, Default)]
pub struct Problem {
    unary: Vec<TableId>,
    edges: Vec<Edge>,
    tables: Tables,
}

impl Problem {
    /// Without variables.
    pub fn new() -> Problem {
        Problem::default()
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
        assert_ne!(a, b, "an edge joins two variables");
        assert_eq!(
            table.as_ref().len(),
            self.domain(a) * self.domain(b),
            "an edge has one cost per pair of values"
        );
        let table = self.tables.intern(table);
        self.edges.push(Edge {
            from: a,
            to: b,
            table,
        });
    }

    /// Number of variables.
    pub fn variables(&self) -> usize {
        self.unary.len()
    }

    /// Number of values of a variable.
    pub fn domain(&self, v: VarId) -> usize {
        self.costs(v).len()
    }

    /// The cost of every value of a variable.
    pub fn costs(&self, v: VarId) -> &Arc<[u64]> {
        self.tables.get(self.unary[v.at()])
    }

    /// Every edge: `(a, b, table)`.
    pub fn edges(&self) -> impl Iterator<Item = (VarId, VarId, &Arc<[u64]>)> {
        self.edges
            .iter()
            .map(|e| (e.from, e.to, self.tables.get(e.table)))
    }

    pub(super) fn raw_edges(&self) -> &[Edge] {
        &self.edges
    }

    /// The cost of an assignment; `u128::MAX` if it uses an [`INFEASIBLE`] entry.
    ///
    /// # Panics
    /// If it does not have one value in range per variable.
    pub fn cost(&self, assignment: &[u32]) -> u128 {
        assert_eq!(assignment.len(), self.variables());
        let value = |v: VarId| assignment[v.at()] as usize;
        let unary = (0..self.variables() as u32)
            .map(VarId)
            .map(|v| self.costs(v)[value(v)]);
        let pairs = self
            .edges()
            .map(|(a, b, t)| t[value(a) * self.domain(b) + value(b)]);
        unary
            .chain(pairs)
            .try_fold(0u128, |sum, c| {
                (c != INFEASIBLE).then(|| sum + u128::from(c))
            })
            .unwrap_or(u128::MAX)
    }

    /// The sum of every table's least entry: a lower bound that needs no search.
    pub fn trivial_bound(&self) -> u128 {
        let least = |t: &Arc<[u64]>| u128::from(t.iter().copied().min().unwrap_or(0));
        let unary = self.unary.iter().map(|&t| least(self.tables.get(t)));
        unary.chain(self.edges().map(|(_, _, t)| least(t))).sum()
    }
}
