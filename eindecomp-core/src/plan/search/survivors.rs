//! Which values may still belong to a cheaper assignment, by a dual.

use std::collections::HashMap;

use super::dual::Dual;
use super::limits::Usage;
use super::problem::{Edge, Problem};

/// Per variable, the values for which the dual does not prove that every assignment with them costs
/// at least `cost`, ascending. Never none: where all are discarded, the first stays.
pub(super) fn survivors(problem: &Problem, dual: &Dual, cost: u128) -> Vec<Vec<u32>> {
    let scaled = |c: u64| i128::from(c) << dual.scale;
    let mut sums = vec![0i128; dual.prices.len() + 1];
    for (t, &price) in dual.prices.iter().enumerate() {
        sums[t + 1] = sums[t] + i128::from(price);
    }
    let price = |r: &std::ops::Range<u32>| sums[r.end as usize] - sums[r.start as usize];
    let mut own: Vec<Vec<i128>> = problem
        .ids()
        .map(|v| problem.costs(v).iter().map(|&c| scaled(c)).collect())
        .collect();
    // beyond the least of an edge, per value
    let mut beyond: Vec<Vec<i128>> = own.iter().map(|o| vec![0; o.len()]).collect();
    let mut links: Vec<(Edge, Option<i128>)> = problem.edges().map(|e| (e, None)).collect();
    for (positions, usage) in problem.usages() {
        match usage {
            Usage::Value(v, table) => {
                for (c, &u) in own[v.at()]
                    .iter_mut()
                    .zip(problem.tables.get(*table).iter())
                {
                    *c += price(positions) * i128::from(u);
                }
            }
            Usage::Pair(e) => links.push((problem.edge(e), Some(price(positions)))),
        }
    }
    let mut bound = 0i128;
    for ((e, price), [rows, columns]) in links.iter().zip(&dual.moved) {
        let mut by_row = vec![i128::MAX; rows.len()];
        let mut by_column = vec![i128::MAX; columns.len()];
        for ((line, &r), by_row) in e.table.chunks_exact(e.width).zip(rows).zip(&mut by_row) {
            for ((&cost, &c), by_column) in line.iter().zip(columns).zip(&mut by_column) {
                let cost = price.map_or_else(|| scaled(cost), |p| p * i128::from(cost));
                let left = cost - i128::from(r) - i128::from(c);
                *by_row = left.min(*by_row);
                *by_column = left.min(*by_column);
            }
        }
        let least = by_row.iter().copied().min().unwrap_or(0);
        bound += least;
        let sides = [
            (e.from, e.rows, rows, &by_row),
            (e.to, e.columns, columns, &by_column),
        ];
        for (v, map, moved, by_class) in sides {
            for (x, &class) in map.iter().enumerate() {
                own[v.at()][x] += i128::from(moved[class as usize]);
                beyond[v.at()][x] += by_class[class as usize] - least;
            }
        }
    }
    let least = |costs: &Vec<i128>| costs.iter().copied().min().unwrap_or(0);
    bound += own.iter().map(least).sum::<i128>();
    let worth = dual.prices.iter().zip(problem.limits());
    bound -= worth
        .map(|(&p, &l)| i128::from(p) * i128::from(l))
        .sum::<i128>();
    // whole costs below `cost` are at most this
    let most = i128::try_from(cost.saturating_sub(1)).unwrap_or(i128::MAX >> 32) << dual.scale;
    let kept = |(own, beyond): (&Vec<i128>, &Vec<i128>)| {
        let least = least(own);
        let stays = |x: &u32| {
            let x = *x as usize;
            bound - least + own[x] + beyond[x] <= most
        };
        let kept: Vec<u32> = (0..own.len() as u32).filter(stays).collect();
        if kept.is_empty() { vec![0] } else { kept }
    };
    own.iter().zip(&beyond).map(kept).collect()
}

/// The problem over some values of each variable, without limits.
pub(super) fn restrict(problem: &Problem, kept: &[Vec<u32>]) -> Problem {
    let mut out = Problem::new();
    for v in problem.ids() {
        let costs = problem.costs(v);
        let costs: Vec<u64> = kept[v.at()].iter().map(|&x| costs[x as usize]).collect();
        out.add_variable(costs);
    }
    let mut made = HashMap::new();
    for raw in problem.raw_edges() {
        let (from, to) = (&kept[raw.from.at()], &kept[raw.to.at()]);
        let pair = *made.entry((raw.pair, from, to)).or_insert_with(|| {
            let e = problem.edge(raw);
            let side = |map: &[u32], kept: &[u32]| -> Vec<u32> {
                kept.iter().map(|&x| map[x as usize]).collect()
            };
            let (rows, columns) = (side(e.rows, from), side(e.columns, to));
            // as many columns of classes as are left
            let width = columns.iter().max().map_or(0, |c| *c as usize + 1);
            let height = rows.iter().max().map_or(0, |r| *r as usize + 1);
            let lines = e.table.chunks_exact(e.width).take(height);
            let table: Vec<u64> = lines.flat_map(|l| &l[..width]).copied().collect();
            out.pair_table(&rows, &columns, &table)
        });
        out.add_pair(raw.from, raw.to, pair);
    }
    out
}
