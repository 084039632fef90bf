//! Dominance within equal projections: of values that no edge tells apart, the cheapest stays.

use std::collections::HashMap;

use super::problem::{Problem, VarId};
use super::tables::TableId;

/// The same problem over fewer values, and which value each one was.
pub(super) struct Compact {
    pub problem: Problem,
    /// Per variable, the kept values, ascending.
    pub kept: Vec<Vec<u32>>,
}

/// Drops every value for which another one has the same costs in all edges and a cost of its own
/// that is not larger (equal: the first stays). The optimum's cost is unchanged.
pub(super) fn compact(problem: &Problem) -> Compact {
    let n = problem.variables();
    let mut sides: Vec<Vec<(TableId, bool)>> = vec![Vec::new(); n];
    for e in problem.raw_edges() {
        sides[e.from.at()].push((e.table, true));
        sides[e.to.at()].push((e.table, false));
    }
    for s in &mut sides {
        s.sort_unstable();
        s.dedup();
    }
    let tables: HashMap<TableId, &[u64]> = problem
        .raw_edges()
        .iter()
        .zip(problem.edges())
        .map(|(e, (_, _, t))| (e.table, &**t))
        .collect();
    let mut classes: HashMap<(TableId, bool, usize), Vec<u32>> = HashMap::new();
    let mut kept = Vec::with_capacity(n);
    for v in (0..n as u32).map(VarId) {
        let costs = problem.costs(v);
        let mut seen: HashMap<Vec<u32>, usize> = HashMap::new();
        for side in &sides[v.at()] {
            classes
                .entry((side.0, side.1, costs.len()))
                .or_insert_with(|| lines(tables[&side.0], costs.len(), side.1));
        }
        for x in 0..costs.len() {
            let projection = sides[v.at()]
                .iter()
                .map(|&(t, rows)| classes[&(t, rows, costs.len())][x])
                .collect();
            let best = seen.entry(projection).or_insert(x);
            if costs[x] < costs[*best] {
                *best = x;
            }
        }
        let mut values: Vec<u32> = seen.into_values().map(|x| x as u32).collect();
        values.sort_unstable();
        kept.push(values);
    }
    let mut small = Problem::new();
    for v in (0..n as u32).map(VarId) {
        let costs = problem.costs(v);
        let picked: Vec<u64> = kept[v.at()].iter().map(|&x| costs[x as usize]).collect();
        small.add_variable(picked);
    }
    // table and kept values of both sides → the smaller table
    type Memo<'a> = HashMap<(TableId, &'a [u32], &'a [u32]), std::sync::Arc<[u64]>>;
    let mut memo = Memo::new();
    for (e, (a, b, table)) in problem.raw_edges().iter().zip(problem.edges()) {
        let (rows, columns) = (&kept[a.at()][..], &kept[b.at()][..]);
        let width = problem.domain(b);
        let picked = memo.entry((e.table, rows, columns)).or_insert_with(|| {
            rows.iter()
                .flat_map(|&x| {
                    columns
                        .iter()
                        .map(move |&y| table[x as usize * width + y as usize])
                })
                .collect()
        });
        small.add_edge(a, b, picked.clone());
    }
    Compact {
        problem: small,
        kept,
    }
}

/// The class of each row (or column) of a table: equal numbers iff equal lines.
fn lines(table: &[u64], count: usize, rows: bool) -> Vec<u32> {
    let other = table.len() / count;
    let mut seen: HashMap<Vec<u64>, u32> = HashMap::new();
    (0..count)
        .map(|x| {
            let line: Vec<u64> = if rows {
                table[x * other..][..other].to_vec()
            } else {
                table.iter().skip(x).step_by(count).copied().collect()
            };
            let next = seen.len() as u32;
            *seen.entry(line).or_insert(next)
        })
        .collect()
}
