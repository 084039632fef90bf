//! Factors, and what is done with their tables: sums, and the least over the values of a variable. Each product is
//! memoised by the identity of its factors.

use super::INFEASIBLE;
use super::kernel::{self, Axis, Part};
use super::maps::{MapId, Maps};
use super::problem::Problem;
use super::tables::{TableId, Tables};
use crate::quick::Table;

/// A table over classes of some variables, row-major in ascending variable order.
#[derive(Clone, Debug)]
pub(super) struct Factor {
    pub scope: Vec<(u32, MapId)>,
    pub table: TableId,
    /// The cluster that sent it, if it is no cost of the problem.
    pub from: Option<usize>,
}

impl Factor {
    pub fn map(&self, v: u32) -> Option<MapId> {
        let at = self.scope.binary_search_by_key(&v, |s| s.0).ok()?;
        Some(self.scope[at].1)
    }
}

/// The least of a sum over the values of a variable, in parts that are its sum.
pub(super) struct Product {
    /// Over all that the sum is over.
    pub factor: Factor,
    /// What every combination of values of the hubs costs whatever the others have, where both are in the sum. Without it, steps along
    /// equal layers are equal sooner or later.
    pub hubs: Option<Factor>,
    /// What every combination costs.
    pub least: u64,
    /// Additions that were not memoised.
    pub work: u64,
}

/// Memoised operations on tables.
#[derive(Debug, Default)]
pub(super) struct Algebra {
    pub tables: Tables,
    pub maps: Maps,
    products: Table<ProductKey, (TableId, Option<TableId>, u64)>,
    sums: Table<SumKey, TableId>,
}

/// A factor in a product: its table and, per axis, which one of the space it is and what entry
/// each value has.
type PartKey = (TableId, Vec<(usize, MapId)>);
/// Extents, number of joint classes of the eliminated variable, parts; costs of single values; axes of hubs.
type ProductKey = (
    Vec<usize>,
    usize,
    Vec<PartKey>,
    Vec<PartKey>,
    MapId,
    Vec<usize>,
);
type SumKey = (Vec<usize>, Vec<PartKey>);

impl Algebra {
    pub fn of(problem: &Problem) -> Algebra {
        Algebra {
            tables: problem.tables.clone(),
            maps: problem.maps.clone(),
            ..Algebra::default()
        }
    }

    /// Every variable of the factors, ascending, with the coarsest map that tells apart what they do.
    pub fn scope<'a>(
        &mut self,
        factors: impl IntoIterator<Item = &'a Factor>,
    ) -> Vec<(u32, MapId)> {
        let all = factors.into_iter().flat_map(|f| &f.scope);
        let mut scope: Vec<(u32, MapId)> = all.copied().collect();
        scope.sort_unstable();
        scope.dedup_by(|next, kept| {
            let same = next.0 == kept.0;
            if same {
                kept.1 = self.maps.join(kept.1, next.1);
            }
            same
        });
        scope
    }

    /// The factor as part of a product over `scope` and, last, `v`.
    fn part(&mut self, f: &Factor, scope: &[(u32, MapId)], v: Option<(u32, MapId)>) -> PartKey {
        let axis = |&(u, map): &(u32, MapId)| {
            let joint = v.filter(|v| v.0 == u);
            let (at, fine) = match joint {
                Some((_, fine)) => (scope.len(), fine),
                None => {
                    let at = scope.binary_search_by_key(&u, |s| s.0).unwrap_or(0);
                    (at, scope[at].1)
                }
            };
            (at, self.maps.translate(fine, map))
        };
        (f.table, f.scope.iter().map(axis).collect())
    }

    /// The least sum of the factors over the values of `v`. What hubs cost, and every value, comes apart.
    pub fn eliminate(
        &mut self,
        factors: &[Factor],
        v: u32,
        is_hub: &dyn Fn(u32) -> bool,
    ) -> Product {
        let (own, pairs): (Vec<_>, Vec<_>) = factors.iter().partition(|f| f.scope.len() == 1);
        let mut scope = self.scope(pairs.iter().copied());
        let joint = scope.binary_search_by_key(&v, |s| s.0).ok();
        let joint = joint.map(|at| scope.remove(at).1);
        let single = own.iter().filter_map(|f| f.map(v));
        let values = single
            .chain(joint)
            .next()
            .map_or(0, |m| self.maps.get(m).len());
        let joint = joint.unwrap_or_else(|| self.maps.blind(values));
        let identity = self.maps.identity(values);
        let mut parts: Vec<PartKey> = pairs
            .iter()
            .map(|f| self.part(f, &scope, Some((v, joint))))
            .collect();
        let mut own: Vec<PartKey> = own
            .iter()
            .map(|f| self.part(f, &[], Some((v, identity))))
            .collect();
        parts.sort_unstable();
        own.sort_unstable();
        let extents: Vec<usize> = scope.iter().map(|s| self.maps.classes(s.1)).collect();
        let d = self.maps.classes(joint);
        let mut hubs: Vec<usize> = (0..scope.len()).filter(|&a| is_hub(scope[a].0)).collect();
        if hubs.len() == scope.len() {
            hubs.clear();
        }
        let key = (extents, d, parts, own, joint, hubs);
        let mut work = 0;
        let (table, shared, least) = match self.products.get(&key) {
            Some(&found) => found,
            None => {
                let cells = key.0.iter().map(|&n| n as u64).product::<u64>();
                work = cells * d as u64 + values as u64 * key.3.len() as u64;
                let single = kernel::sum(&[values], &self.parts(&key.3));
                let mut least = vec![INFEASIBLE; d];
                for (&class, cost) in self.maps.get(joint).iter().zip(single) {
                    let least = &mut least[class as usize];
                    *least = cost.min(*least);
                }
                let mut parts = self.parts(&key.2);
                parts.push(Part {
                    table: &least,
                    axes: vec![Axis {
                        at: key.0.len(),
                        map: None,
                        entries: d,
                    }],
                });
                let mut product = kernel::min_sum(&key.0, d, &parts);
                let mut shared = kernel::apart(&mut product, &key.0, &key.5);
                let least = kernel::apart(&mut shared, &[], &[])[0];
                let shared = (!key.5.is_empty()).then(|| self.tables.intern(shared));
                let made = (self.tables.intern(product), shared, least);
                self.products.insert(key.clone(), made);
                made
            }
        };
        let hubs = shared.map(|table| Factor {
            scope: key.5.iter().map(|&a| scope[a]).collect(),
            table,
            from: None,
        });
        let factor = Factor {
            scope,
            table,
            from: None,
        };
        Product {
            factor,
            hubs,
            least,
            work,
        }
    }

    fn parts<'a>(&'a self, keys: &'a [PartKey]) -> Vec<Part<'a>> {
        let axis = |&(at, map): &(usize, MapId)| Axis {
            at,
            map: (!self.maps.is_identity(map)).then(|| self.maps.get(map)),
            entries: self.maps.classes(map),
        };
        let part = |(table, axes): &'a PartKey| Part {
            table: self.tables.get(*table),
            axes: axes.iter().map(axis).collect(),
        };
        keys.iter().map(part).collect()
    }

    /// The sum of factors over the same variables.
    pub fn sum(&mut self, factors: &[Factor]) -> Option<Factor> {
        let (first, rest) = factors.split_first()?;
        if rest.is_empty() {
            return Some(first.clone());
        }
        let scope = self.scope(factors);
        let mut parts: Vec<PartKey> = factors.iter().map(|f| self.part(f, &scope, None)).collect();
        parts.sort_unstable();
        let extents: Vec<usize> = scope.iter().map(|s| self.maps.classes(s.1)).collect();
        let key = (extents, parts);
        let table = match self.sums.get(&key) {
            Some(&found) => found,
            None => {
                let sum = kernel::sum(&key.0, &self.parts(&key.1));
                let table = self.tables.intern(sum);
                self.sums.insert(key, table);
                table
            }
        };
        Some(Factor {
            scope,
            table,
            from: None,
        })
    }

    /// The sum of factors over `v` alone, per value.
    pub fn values(&self, factors: &[Factor], values: usize) -> Vec<u64> {
        let mut costs = vec![0u64; values];
        for f in factors {
            let table = self.tables.get(f.table);
            match f.scope.first() {
                Some(&(_, map)) => {
                    for (c, &class) in costs.iter_mut().zip(self.maps.get(map)) {
                        *c = c.saturating_add(table[class as usize]);
                    }
                }
                None => costs
                    .iter_mut()
                    .for_each(|c| *c = c.saturating_add(table[0])),
            }
        }
        costs
    }
}
