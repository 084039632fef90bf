//! Moves of many variables: those of a tree, chosen together at least cost.
//!
//! A tree grows from a random variable over neighbours that have no other neighbour in it, so that
//! dynamic programming chooses exactly, given the others. What is used is asked the prices of the
//! dual, more or less of them at random; then limits are repaired. What got worse by more than a random amount is undone
//! (simulated annealing): none at first in some walks, and less and less of it in each.

use super::local::{Local, Near};
use super::problem::VarId;
use crate::dice::Dice;

/// Most variables of a tree: a power of two.
const SIZE: u64 = 8;
/// Variables with more neighbours let a tree through now and then.
const DEGREE: usize = 100;
const SELDOM: u64 = 8;
/// What a move may lose in the warmest walk, in mean costs of a variable; and so many walks, each a tenth as warm.
const WARMEST: f64 = 10.0;
const WALKS: u64 = 5;

/// A variable of a tree.
struct Node {
    v: VarId,
    /// Position of the parent; of a root its own.
    parent: usize,
    /// The edge to it.
    near: Option<Near>,
}

impl Local<'_> {
    /// Walks until `work` is reached, and returns to the best assignment it came by.
    pub fn rearrange(&mut self, asked: &[Vec<f64>], work: u64) {
        let n = self.problem.variables() as u64;
        let mut dice = Dice::new(self.work);
        let (from, mut looked_at) = (self.work, self.work);
        let warmth = match dice.roll(WALKS + 1) {
            0 => 0.0,
            walk => self.total.abs() / n as f64 * WARMEST * 0.1f64.powi(walk as i32 - 1),
        };
        let mut best = (self.total, self.chosen.clone());
        let mut inside = vec![0; self.chosen.len()];
        while self.work < work && self.goes_on(self.work - looked_at) {
            looked_at = self.work;
            self.work += 1;
            let v = VarId(dice.roll(n) as u32);
            if self.problem.domain(v) == 1 {
                continue;
            }
            let mut seeds = vec![v];
            let positions = self.users.len() as u64;
            if positions > 0 && dice.roll(2) == 0 {
                let users = &self.users[dice.roll(positions) as usize];
                for _ in 0..dice.roll(4) {
                    seeds.extend(users.get(dice.roll(users.len() as u64) as usize));
                }
            }
            let most = 1 << dice.roll(SIZE + 1);
            let size = 1 + dice.roll(most) as usize;
            let tree = self.grow(seeds, size, &mut inside, &mut dice);
            let left = (work.saturating_sub(self.work)) as f64 / (work - from) as f64;
            let loss = warmth * left * left * -dice.part().ln();
            let share = dice.roll(5) as f64 / 2.0;
            self.rearrange_tree(&tree, &inside, [share, loss], asked);
            tree.iter().for_each(|node| inside[node.v.at()] = 0);
            if self.total < best.0 && self.slack.tightest().1 >= 0 {
                best.0 = self.total;
                best.1.clone_from(&self.chosen);
            }
        }
        if best.1 != self.chosen {
            self.set(best.1);
        }
    }

    /// Trees around the seeds, of so many variables in all at most, no two of which are neighbours
    /// but along the trees. `inside` says of each variable where in them it is, plus one.
    fn grow(
        &self,
        seeds: Vec<VarId>,
        size: usize,
        inside: &mut [usize],
        dice: &mut Dice,
    ) -> Vec<Node> {
        let mut tree: Vec<Node> = Vec::new();
        let root = |v: VarId| (v, None);
        let mut front: Vec<(VarId, Option<(usize, Near)>)> = seeds.into_iter().map(root).collect();
        while let Some(at) = front.len().checked_sub(1) {
            if tree.len() >= size {
                break;
            }
            let (v, parent) = front.swap_remove(dice.roll(at as u64 + 1) as usize);
            let around = &self.around[v.at()];
            let above = parent.map_or(0, |p| p.0 + 1);
            let apart = |u: VarId| inside[u.at()] == 0 || inside[u.at()] == above;
            let wide = around.len() > DEGREE && parent.is_some() && dice.roll(SELDOM) > 0;
            if inside[v.at()] > 0
                || wide
                || self.problem.domain(v) == 1
                || !around.iter().all(|n| apart(n.other))
            {
                continue;
            }
            let own = tree.len();
            inside[v.at()] = own + 1;
            tree.push(Node {
                v,
                parent: parent.map_or(own, |p| p.0),
                // as the parent is to it
                near: around
                    .iter()
                    .find(|n| inside[n.other.at()] == above && above > 0)
                    .copied(),
            });
            let further = around.iter().filter(|n| inside[n.other.at()] == 0);
            front.extend(further.map(|n| (n.other, Some((own, *n)))));
        }
        tree
    }

    /// Chooses the values of a tree anew, with a share of the prices, unless that costs more by `loss`.
    fn rearrange_tree(
        &mut self,
        tree: &[Node],
        inside: &[usize],
        [share, loss]: [f64; 2],
        asked: &[Vec<f64>],
    ) {
        let mut costs: Vec<Vec<f64>> = Vec::with_capacity(tree.len());
        for node in tree {
            let mut own = self.costs(node.v, &|u| inside[u.at()] > 0);
            for (c, asked) in own.iter_mut().zip(&asked[node.v.at()]) {
                *c += share * asked;
            }
            costs.push(own);
        }
        // children come after their parents
        for at in (0..tree.len()).rev() {
            let Some(near) = tree[at].near else { continue };
            let (low, high) = costs.split_at_mut(at);
            for (y, cost) in (0u32..).zip(&mut low[tree[at].parent]) {
                let line = self.line_at(tree[at].v, &near, y);
                *cost += least(&high[0], line);
            }
            self.work += (low[tree[at].parent].len() * high[0].len()) as u64;
        }
        let before = self.total;
        self.trail.clear();
        let mut chosen: Vec<u32> = Vec::with_capacity(tree.len());
        for (at, node) in tree.iter().enumerate() {
            let own = self.chosen[node.v.at()];
            let line = node
                .near
                .map(|near| self.line_at(node.v, &near, chosen[node.parent]));
            let cost = |x: u32| costs[at][x as usize] + line.map_or(0.0, |l| l[x as usize]);
            let cheapest = (0..costs[at].len() as u32).map(|x| (cost(x), x));
            let cheapest = cheapest
                .min_by(|a, b| a.0.total_cmp(&b.0))
                .map_or(own, |c| c.1);
            chosen.push(if cost(own) <= cost(cheapest) {
                own
            } else {
                cheapest
            });
        }
        for (node, &x) in tree.iter().zip(&chosen) {
            if self.chosen[node.v.at()] != x {
                self.put(node.v, x);
            }
        }
        if self.trail.is_empty() {
            return;
        }
        let fits = self.slack.tightest().1 >= 0 || self.repair(asked);
        if fits {
            let changed: Vec<VarId> = self.trail.iter().map(|t| t.0).collect();
            self.descend(false, changed);
        }
        if !fits || self.total > before + loss {
            self.undo();
        }
        self.trail.clear();
    }
}

/// The least sum of two lines, in independent chains.
fn least(a: &[f64], b: &[f64]) -> f64 {
    const LANES: usize = 8;
    let ((a, last), (b, rest)) = (a.as_chunks::<LANES>(), b.as_chunks::<LANES>());
    let mut least = [f64::INFINITY; LANES];
    for (a, b) in a.iter().zip(b) {
        for i in 0..LANES {
            let sum = a[i] + b[i];
            least[i] = if sum < least[i] { sum } else { least[i] };
        }
    }
    let rest = last.iter().zip(rest).map(|(a, b)| a + b);
    least.into_iter().chain(rest).fold(f64::INFINITY, f64::min)
}
