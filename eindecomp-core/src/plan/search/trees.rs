//! Moves of many variables: those of a tree, chosen together at least cost.
//!
//! A tree grows from a random variable over neighbours that have no other neighbour in it, so that
//! dynamic programming chooses exactly, given the others. What is used is asked the prices of the
//! dual, more or less of them at random; then limits are repaired, and what got worse is undone.

use super::local::{BLOCK, Local, price};
use super::problem::{Edge, VarId};

/// Most variables of a tree.
const SIZE: usize = 40;
/// Variables with more neighbours do not let a tree through.
const DEGREE: usize = 100;

/// A variable of a tree.
struct Node {
    v: VarId,
    /// Position of the parent; of a root its own.
    parent: usize,
}

impl Local<'_> {
    /// Rearranges trees until `work` is reached.
    pub fn rearrange(&mut self, asked: &dyn Fn(VarId, u32) -> f64, work: u64) {
        let n = self.problem.variables() as u64;
        let mut dice = self.work ^ 0x9e37_79b9_7f4a_7c15;
        let mut roll = |below: u64| {
            // xorshift
            dice ^= dice << 13;
            dice ^= dice >> 7;
            dice ^= dice << 17;
            dice % below.max(1)
        };
        let mut looked_at = self.work;
        while self.work < work && self.goes_on(self.work - looked_at) {
            looked_at = self.work;
            self.work += 1;
            let v = VarId(roll(n) as u32);
            if self.problem.domain(v) == 1 {
                continue;
            }
            let mut seeds = vec![v];
            let positions = self.uses[v.at()].first().map(|u| u.0.clone());
            if let (Some(positions), true) = (positions, roll(2) == 0) {
                let span = u64::from(positions.end - positions.start);
                let t = (u64::from(positions.start) + roll(span)) as usize;
                let users = &self.users[t / BLOCK];
                for _ in 0..roll(4) {
                    seeds.push(VarId(users[roll(users.len() as u64) as usize]));
                }
            }
            let size = 1 + roll(SIZE as u64) as usize;
            let tree = self.grow(seeds, size, &mut roll);
            let share = roll(5) as f64 / 2.0;
            self.rearrange_tree(&tree, &|v, x| share * asked(v, x), asked);
        }
    }

    /// Trees around the seeds, of so many variables in all at most, no two of which are neighbours
    /// but along the trees.
    fn grow(&self, seeds: Vec<VarId>, size: usize, roll: &mut dyn FnMut(u64) -> u64) -> Vec<Node> {
        let mut tree: Vec<Node> = Vec::new();
        let mut front: Vec<(VarId, Option<usize>)> = seeds.into_iter().map(|v| (v, None)).collect();
        while let Some(at) = front.len().checked_sub(1) {
            if tree.len() >= size {
                break;
            }
            let (v, parent) = front.swap_remove(roll(at as u64 + 1) as usize);
            let around = &self.around[v.at()];
            let known = tree.iter().any(|n| n.v == v);
            let allowed = |u: VarId| u == v || parent.is_some_and(|p: usize| tree[p].v == u);
            let apart = |u: VarId| allowed(u) || !tree.iter().any(|n| n.v == u);
            let wide = around.len() > DEGREE && parent.is_some();
            if known
                || wide
                || self.problem.domain(v) == 1
                || !around.iter().all(|e| apart(e.from) && apart(e.to))
            {
                continue;
            }
            let own = tree.len();
            tree.push(Node {
                v,
                parent: parent.unwrap_or(own),
            });
            if around.len() <= DEGREE {
                let near = around.iter().flat_map(|e| [e.from, e.to]);
                front.extend(near.filter(|u| *u != v).map(|u| (u, Some(own))));
            }
        }
        tree
    }

    fn rearrange_tree(
        &mut self,
        tree: &[Node],
        asked: &dyn Fn(VarId, u32) -> f64,
        repaired: &dyn Fn(VarId, u32) -> f64,
    ) {
        let inside = |u: VarId| tree.iter().any(|n| n.v == u);
        let mut costs: Vec<Vec<f64>> = Vec::with_capacity(tree.len());
        for node in tree {
            let own = self.costs(node.v, &inside);
            let with = |(x, c): (usize, &u128)| *c as f64 + asked(node.v, x as u32);
            costs.push(own.iter().enumerate().map(with).collect());
        }
        // children come after their parents
        let mut best: Vec<Vec<u32>> = vec![Vec::new(); tree.len()];
        for at in (0..tree.len()).rev() {
            let Node { v, parent } = tree[at];
            if parent == at {
                continue;
            }
            let above = tree[parent].v;
            let edges: Vec<Edge> = self.around[v.at()]
                .iter()
                .filter(|e| e.from == above || e.to == above)
                .copied()
                .collect();
            let (low, high) = costs.split_at_mut(at);
            for (y, cost) in low[parent].iter_mut().enumerate() {
                let with = |x: usize| {
                    let pair = |e: &Edge| match e.from == v {
                        true => e.cost(x as u32, y as u32),
                        false => e.cost(y as u32, x as u32),
                    };
                    high[0][x] + edges.iter().map(|e| price(pair(e)) as f64).sum::<f64>()
                };
                let least = (0..high[0].len()).map(|x| (with(x), x as u32));
                let least = least.min_by(|a, b| a.0.total_cmp(&b.0));
                let (least, x) = least.unwrap_or((0.0, 0));
                *cost += least;
                best[at].push(x);
            }
            self.work += (low[parent].len() * high[0].len()) as u64;
        }
        let before = self.total;
        self.trail.clear();
        let mut chosen: Vec<u32> = Vec::with_capacity(tree.len());
        for (at, node) in tree.iter().enumerate() {
            let x = match node.parent == at {
                true => {
                    let own = self.chosen[node.v.at()];
                    let all = (0..costs[at].len() as u32).map(|x| (costs[at][x as usize], x));
                    let least = all.min_by(|a, b| {
                        let kept = |x: u32| x != own;
                        a.0.total_cmp(&b.0).then(kept(a.1).cmp(&kept(b.1)))
                    });
                    least.map_or(own, |l| l.1)
                }
                false => best[at][chosen[node.parent] as usize],
            };
            chosen.push(x);
        }
        for (node, &x) in tree.iter().zip(&chosen) {
            if self.chosen[node.v.at()] != x {
                self.put(node.v, x);
            }
        }
        if self.trail.is_empty() {
            return;
        }
        let fits = self.slack.tightest().1 >= 0 || self.repair(repaired);
        if fits {
            let changed: Vec<VarId> = self.trail.iter().map(|t| t.0).collect();
            self.descend(false, changed);
        }
        if !fits || self.total > before {
            self.undo();
        }
        self.trail.clear();
    }
}
