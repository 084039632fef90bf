//! In which order the factors of a product are multiplied: a tree of least cost.
//!
//! Cost is the points of all iteration spaces, and elements of the intermediates on ties. The tree
//! of at most [`EXACT`] factors is exact, by dynamic programming over their subsets. Of more,
//! greedy trees are made under several weights, by the local score of Gray and Kourtis,
//! "Hyper-optimized tensor network contraction" (Quantum 5, 410, 2021), section 4, at random but in
//! the same way in every run, since a plan's key is made of what comes out; then
//! every subtree of the best is ordered exactly, until that gains nothing.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};

use fixedbitset::FixedBitSet;

use crate::dice::Dice;

/// Labels.
pub(super) type Set = FixedBitSet;

/// Factors up to which the order is exact: 3^12 splits of subsets are half a million.
const EXACT: usize = 12;
/// Parts of a subtree that is ordered exactly: 3^8 splits.
const SUBTREE: usize = 8;
/// Greedy trees that are tried, times factors; and at least and at most so many.
const TRIES: usize = 10_000;
const FEWEST: usize = 16;
const MOST: usize = 128;
/// Greedy trees whose subtrees are ordered.
const IMPROVED: usize = 4;

/// A product's order.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Tree {
    /// The factor itself.
    Leaf(usize),
    /// The product of two.
    Pair(Box<(Tree, Tree)>),
}

/// Compared by points, then elements.
#[derive(Clone, Copy, Debug, Default, PartialEq, PartialOrd)]
pub(super) struct Cost {
    /// Of all iteration spaces.
    pub points: f64,
    /// Of all products.
    pub elements: f64,
}

impl std::ops::Add for Cost {
    type Output = Cost;

    fn add(self, other: Cost) -> Cost {
        Cost {
            points: self.points + other.points,
            elements: self.elements + other.elements,
        }
    }
}

/// Factors whose product is summed over all labels but some.
pub(super) struct Network {
    /// Labels of each factor: at least one factor.
    pub factors: Vec<Set>,
    /// Labels that stay.
    pub out: Set,
    /// Extent of each label.
    pub extents: Vec<f64>,
}

impl Network {
    /// The tree, and what it costs. A label that only one factor has is summed before that is multiplied.
    pub fn order(&self) -> (Tree, Cost) {
        let parts: Vec<Set> = (0..self.factors.len()).map(|n| self.shared(n)).collect();
        let summed = |(own, shared): (&Set, &Set)| match own == shared {
            true => 0.0,
            false => self.points([own]),
        };
        let sums: f64 = self.factors.iter().zip(&parts).map(summed).sum();
        let (tree, cost) = match parts.len() {
            0..=EXACT => self.exact(&parts, &self.out),
            _ => self.searched(&parts),
        };
        let points = sums + cost.points;
        (tree, Cost { points, ..cost })
    }

    /// Labels of a factor that another one has too, or that stay.
    fn shared(&self, n: usize) -> Set {
        let mut others = self.out.clone();
        let all = self.factors.iter().enumerate();
        all.filter(|(at, _)| *at != n)
            .for_each(|(_, f)| others.union_with(f));
        others.intersect_with(&self.factors[n]);
        others
    }

    /// Points of the space of all labels of some sets of the same length.
    pub fn points<const N: usize>(&self, sets: [&Set; N]) -> f64 {
        let blocks = |at: usize| sets.iter().fold(0, |word, s| word | s.as_slice()[at]);
        let mut points = 1.0;
        for at in 0..self.out.as_slice().len() {
            let mut word = blocks(at);
            while word != 0 {
                points *= self.extents[at * usize::BITS as usize + word.trailing_zeros() as usize];
                word &= word - 1;
            }
        }
        points
    }

    /// The tree of least cost of parts, of whose product the labels `out` stay.
    fn exact(&self, parts: &[Set], out: &Set) -> (Tree, Cost) {
        let n = parts.len();
        let full = (1usize << n) - 1;
        let union: Vec<Set> = (0..=full)
            .map(|s| {
                let mut union = Set::with_capacity(self.extents.len());
                let inside = (0..n).filter(|f| s >> f & 1 == 1);
                inside.for_each(|f| union.union_with(&parts[f]));
                union
            })
            .collect();
        let kept: Vec<Set> = (0..=full)
            .map(|s| {
                let mut kept = &union[full & !s] | out;
                kept.intersect_with(&union[s]);
                kept
            })
            .collect();
        // Of the empty set and of one factor nothing is asked.
        let mut best = vec![(Cost::default(), 0); full + 1];
        for s in (1..=full).filter(|s| s.count_ones() > 1) {
            let lowest = s & s.wrapping_neg();
            let mut found: Option<(Cost, usize)> = None;
            // Every split of `s`, named by the side that has its first factor.
            let mut left = (s - 1) & s;
            while left > 0 {
                if left & lowest != 0 {
                    let right = s & !left;
                    let own = Cost {
                        points: self.points([&kept[left], &kept[right]]),
                        elements: 0.0,
                    };
                    let cost = own + best[left].0 + best[right].0;
                    if found.is_none_or(|f| cost < f.0) {
                        found = Some((cost, left));
                    }
                }
                left = (left - 1) & s;
            }
            let (mut cost, left) = found.expect("two factors have a split");
            cost.elements += self.points([&kept[s]]);
            best[s] = (cost, left);
        }
        fn tree(best: &[(Cost, usize)], s: usize) -> Tree {
            if s.count_ones() == 1 {
                return Tree::Leaf(s.trailing_zeros() as usize);
            }
            let left = best[s].1;
            Tree::Pair(Box::new((tree(best, left), tree(best, s & !left))))
        }
        (tree(&best, full), best[full].0)
    }

    /// The best tree that was found.
    fn searched(&self, parts: &[Set]) -> (Tree, Cost) {
        let tries = (TRIES / parts.len()).clamp(FEWEST, MOST);
        let mut trees: Vec<(Cost, Growing)> = (0..tries as u64)
            .map(|seed| {
                let tree = self.greedy(parts, seed);
                (tree.cost(), tree)
            })
            .collect();
        trees.sort_by(|a, b| a.0.points.total_cmp(&b.0.points));
        trees.dedup_by(|a, b| a.0 == b.0);
        trees.truncate(IMPROVED);
        for (cost, tree) in &mut trees {
            self.improve(tree);
            *cost = tree.cost();
        }
        let best = trees
            .iter()
            .min_by(|a, b| a.0.points.total_cmp(&b.0.points));
        let (cost, tree) = best.expect("at least one was tried");
        (tree.tree(tree.root), *cost)
    }

    /// A tree of pairs, each of the least score among factors that share a label; then the smallest.
    /// Seed 0 knows no chance.
    fn greedy(&self, parts: &[Set], seed: u64) -> Growing {
        let mut dice = Dice::new(seed);
        let (weight, warmth) = match seed {
            0 => (1.0, 0.0),
            _ => (2.0 * dice.part(), 0.001f64.powf(dice.part())),
        };
        let mut growing = Growing::new(self, parts);
        // How many live parts have a label, and the world outside.
        let mut holders = vec![0usize; self.extents.len()];
        let all = parts.iter().chain([&self.out]).flat_map(Set::ones);
        all.for_each(|l| holders[l] += 1);
        let mut live: BTreeSet<usize> = (0..parts.len()).collect();
        let mut having: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
        for (n, part) in parts.iter().enumerate() {
            part.ones()
                .for_each(|l| having.entry(l).or_default().push(n));
        }
        let mut heap = BinaryHeap::new();
        let mut score = |growing: &Growing, holders: &[usize], a: usize, b: usize| {
            let kept = kept(&growing.nodes[a].kept, &growing.nodes[b].kept, holders);
            let before = growing.nodes[a].elements + growing.nodes[b].elements;
            let gain = self.points([&kept]) / weight - before * weight;
            let gain = libm::log2(gain.abs().max(1.0)).copysign(gain);
            // Gumbel's distribution: a choice by Boltzmann's weights.
            let chance = match warmth > 0.0 {
                true => warmth * -libm::log(-libm::log(dice.part() * (1.0 - f64::EPSILON))),
                false => 0.0,
            };
            Scored {
                score: gain - chance,
                pair: (a, b),
            }
        };
        for holding in having.values() {
            for (at, &a) in holding.iter().enumerate() {
                heap.extend(
                    holding[at + 1..]
                        .iter()
                        .map(|&b| score(&growing, &holders, a, b)),
                );
            }
        }
        while live.len() > 1 {
            let (a, b) = match heap.pop() {
                Some(Scored { pair, .. }) => pair,
                None => {
                    // No two share a label.
                    let mut by_size: Vec<usize> = live.iter().copied().collect();
                    let size = |n: &usize| growing.nodes[*n].elements;
                    by_size.sort_by(|a, b| size(a).total_cmp(&size(b)));
                    (by_size[0], by_size[1])
                }
            };
            if !live.contains(&a) || !live.contains(&b) {
                continue;
            }
            let kept = kept(&growing.nodes[a].kept, &growing.nodes[b].kept, &holders);
            for part in [a, b] {
                live.remove(&part);
                growing.nodes[part]
                    .kept
                    .ones()
                    .for_each(|l| holders[l] -= 1);
            }
            let made = growing.pair(self, a, b, kept);
            let mut near = BTreeSet::new();
            for l in growing.nodes[made].kept.ones() {
                holders[l] += 1;
                let holding = having.get_mut(&l).expect("a part had it");
                holding.retain(|n| live.contains(n));
                near.extend(holding.iter().copied());
                holding.push(made);
            }
            live.insert(made);
            growing.root = made;
            heap.extend(near.into_iter().map(|n| score(&growing, &holders, n, made)));
        }
        growing
    }

    /// Orders subtrees exactly while that gains something.
    fn improve(&self, tree: &mut Growing) {
        let mut seen = BTreeSet::new();
        let mut gains = true;
        while std::mem::take(&mut gains) {
            for at in tree.pairs() {
                let (parts, within) = tree.subtree(at);
                if parts.len() < 3 || !seen.insert(parts.clone()) {
                    continue;
                }
                let before = within.iter().fold(Cost::default(), |c, &n| c + tree.own(n));
                let sets: Vec<Set> = parts.iter().map(|&n| tree.nodes[n].kept.clone()).collect();
                let (order, cost) = self.exact(&sets, &tree.nodes[at].kept);
                // What rounding alone may gain is nothing.
                if cost.points < before.points * (1.0 - 1e-9) {
                    tree.reorder(self, at, &order, &parts);
                    gains = true;
                }
            }
        }
    }
}

/// Labels of the product of two parts that anything else has.
fn kept(a: &Set, b: &Set, holders: &[usize]) -> Set {
    let mut kept = a | b;
    let gone: Vec<usize> = kept
        .ones()
        .filter(|&l| holders[l] == usize::from(a[l]) + usize::from(b[l]))
        .collect();
    gone.into_iter().for_each(|l| kept.set(l, false));
    kept
}

/// A pair of parts; of a heap the one of least score comes first.
struct Scored {
    score: f64,
    pair: (usize, usize),
}

impl Ord for Scored {
    fn cmp(&self, other: &Scored) -> Ordering {
        let score = other.score.total_cmp(&self.score);
        score.then_with(|| other.pair.cmp(&self.pair))
    }
}

impl PartialOrd for Scored {
    fn partial_cmp(&self, other: &Scored) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Scored {
    fn eq(&self, other: &Scored) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Scored {}

/// A tree that can be changed: nodes, the factors first.
struct Growing {
    nodes: Vec<Part>,
    root: usize,
}

struct Part {
    /// Labels that remain.
    kept: Set,
    /// Of the tensor with those labels.
    elements: f64,
    /// Of the space of the product of its two sides.
    points: f64,
    sides: Option<(usize, usize)>,
}

impl Growing {
    fn new(network: &Network, parts: &[Set]) -> Growing {
        let part = |kept: &Set| Part {
            kept: kept.clone(),
            elements: network.points([kept]),
            points: 0.0,
            sides: None,
        };
        Growing {
            nodes: parts.iter().map(part).collect(),
            root: 0,
        }
    }

    /// Adds the product of two.
    fn pair(&mut self, network: &Network, a: usize, b: usize, kept: Set) -> usize {
        self.nodes.push(Part {
            elements: network.points([&kept]),
            points: network.points([&self.nodes[a].kept, &self.nodes[b].kept]),
            kept,
            sides: Some((a, b)),
        });
        self.nodes.len() - 1
    }

    /// What a node costs itself.
    fn own(&self, n: usize) -> Cost {
        let Part {
            points, elements, ..
        } = self.nodes[n];
        Cost { points, elements }
    }

    fn cost(&self) -> Cost {
        let pairs = self.pairs().into_iter();
        pairs.fold(Cost::default(), |cost, n| cost + self.own(n))
    }

    /// Every product, each before those that it is of.
    fn pairs(&self) -> Vec<usize> {
        let mut pairs = Vec::new();
        let mut open = vec![self.root];
        while let Some(n) = open.pop() {
            if let Some((a, b)) = self.nodes[n].sides {
                pairs.push(n);
                open.extend([a, b]);
            }
        }
        pairs
    }

    /// Parts of which a product is, [`SUBTREE`] at most and in order, and the products between them and
    /// it: the dearest are taken apart first.
    fn subtree(&self, at: usize) -> (Vec<usize>, Vec<usize>) {
        let (mut parts, mut within) = (vec![at], Vec::new());
        while parts.len() < SUBTREE {
            let inner = parts.iter().enumerate();
            let inner = inner.filter(|(_, n)| self.nodes[**n].sides.is_some());
            let points = |n: usize| self.nodes[n].points;
            let dearest = inner.max_by(|(_, a), (_, b)| points(**a).total_cmp(&points(**b)));
            let Some((place, &n)) = dearest else { break };
            let (a, b) = self.nodes[n].sides.expect("it has two sides");
            within.push(n);
            parts.swap_remove(place);
            parts.extend([a, b]);
        }
        parts.sort_unstable();
        (parts, within)
    }

    /// Multiplies `parts` in another order to what `at` is. Its number stays, since it is the same product;
    /// those between are new.
    fn reorder(&mut self, network: &Network, at: usize, order: &Tree, parts: &[usize]) {
        let kept = self.nodes[at].kept.clone();
        let made = self.place(network, order, &kept, parts);
        self.nodes.swap(at, made);
        self.nodes.truncate(made);
    }

    /// The node of a tree of parts, of whose labels those of `outside` remain.
    fn place(&mut self, network: &Network, tree: &Tree, outside: &Set, parts: &[usize]) -> usize {
        let sides = match tree {
            Tree::Leaf(n) => return parts[*n],
            Tree::Pair(sides) => sides,
        };
        let [left, right] = [&sides.0, &sides.1].map(|side| self.labels(side, parts));
        let a = self.place(network, &sides.0, &(outside | &right), parts);
        let b = self.place(network, &sides.1, &(outside | &left), parts);
        let mut kept = &left | &right;
        kept.intersect_with(outside);
        self.pair(network, a, b, kept)
    }

    /// Labels of the parts of a tree.
    fn labels(&self, tree: &Tree, parts: &[usize]) -> Set {
        match tree {
            Tree::Leaf(n) => self.nodes[parts[*n]].kept.clone(),
            Tree::Pair(sides) => &self.labels(&sides.0, parts) | &self.labels(&sides.1, parts),
        }
    }

    fn tree(&self, at: usize) -> Tree {
        match self.nodes[at].sides {
            None => Tree::Leaf(at),
            Some((a, b)) => Tree::Pair(Box::new((self.tree(a), self.tree(b)))),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn set(labels: &[usize], of: usize) -> Set {
        let mut set = Set::with_capacity(of);
        labels.iter().for_each(|&l| set.insert(l));
        set
    }

    /// Factors on the sites of a square, a label on each side that two share.
    fn lattice(n: usize, extent: f64) -> Network {
        let label = |x: usize, y: usize, down: usize| 2 * (x * n + y) + down;
        let of = 2 * n * n;
        let site = |at: usize| {
            let (x, y) = (at / n, at % n);
            let mut labels = Vec::new();
            labels.extend((x > 0).then(|| label(x - 1, y, 0)));
            labels.extend((x + 1 < n).then(|| label(x, y, 0)));
            labels.extend((y > 0).then(|| label(x, y - 1, 1)));
            labels.extend((y + 1 < n).then(|| label(x, y, 1)));
            set(&labels, of)
        };
        Network {
            factors: (0..n * n).map(site).collect(),
            out: set(&[], of),
            extents: vec![extent; of],
        }
    }

    fn leaves(tree: &Tree, out: &mut Vec<usize>) {
        match tree {
            Tree::Leaf(n) => out.push(*n),
            Tree::Pair(sides) => {
                leaves(&sides.0, out);
                leaves(&sides.1, out);
            }
        }
    }

    /// Labels and cost of a tree, as the definition says.
    fn cost(network: &Network, tree: &Tree, outside: &Set) -> (Set, Cost) {
        let (own, points) = match tree {
            Tree::Leaf(n) => {
                let own = network.factors[*n].clone();
                let summed = !own.is_subset(outside);
                let points = if summed { network.points([&own]) } else { 0.0 };
                (
                    own,
                    Cost {
                        points,
                        elements: 0.0,
                    },
                )
            }
            Tree::Pair(sides) => {
                let labels = |t: &Tree| {
                    let mut of = Vec::new();
                    leaves(t, &mut of);
                    let none = Set::with_capacity(network.extents.len());
                    of.iter().fold(none, |s, &n| &s | &network.factors[n])
                };
                let a = cost(network, &sides.0, &(outside | &labels(&sides.1)));
                let b = cost(network, &sides.1, &(outside | &labels(&sides.0)));
                let union = &a.0 | &b.0;
                let mut kept = union.clone();
                kept.intersect_with(outside);
                let own = Cost {
                    points: network.points([&union]),
                    elements: network.points([&kept]),
                };
                (union, own + a.1 + b.1)
            }
        };
        let mut kept = own;
        kept.intersect_with(outside);
        (kept, points)
    }

    proptest! {
        /// All that a search of few factors may change is ordered exactly; of more it is no better
        /// than exact; and every tree costs what it says.
        #[test]
        fn searched_trees_are_exact_or_near(
            factors in prop::collection::vec(prop::collection::btree_set(0usize..70, 1..4), 2..11),
            out in prop::collection::btree_set(0usize..70, 0..3),
            extents in prop::collection::vec(1u32..6, 70),
            wrapped in 1usize..12,
        ) {
            // Few labels, so that factors share some.
            let wrap = |labels: &BTreeSet<usize>| -> Vec<usize> {
                labels.iter().map(|l| l % wrapped * 63 % 70).collect()
            };
            let network = Network {
                factors: factors.iter().map(|f| set(&wrap(f), 70)).collect(),
                out: set(&wrap(&out), 70),
                extents: extents.iter().map(|&n| f64::from(n)).collect(),
            };
            let parts: Vec<Set> = (0..factors.len()).map(|n| network.shared(n)).collect();
            let exact = network.exact(&parts, &network.out);
            let searched = network.searched(&parts);
            prop_assert!(searched.1.points >= exact.1.points * (1.0 - 1e-9));
            if parts.len() <= SUBTREE {
                prop_assert!(searched.1.points <= exact.1.points * (1.0 + 1e-9));
            }
            let of_parts = Network { factors: parts, out: network.out.clone(), extents: network.extents.clone() };
            for (tree, claimed) in [exact, searched] {
                let (_, real) = cost(&of_parts, &tree, &of_parts.out);
                prop_assert!((real.points - claimed.points).abs() <= 1e-9 * real.points);
                prop_assert!((real.elements - claimed.elements).abs() <= 1e-9 * real.elements);
                let mut of = Vec::new();
                leaves(&tree, &mut of);
                of.sort_unstable();
                prop_assert_eq!(of, (0..factors.len()).collect::<Vec<_>>());
            }
        }
    }

    /// 8 × 8 sites of extent 2 are contracted from one side in 64 steps of at most 2^10 points.
    #[test]
    fn hundreds_of_labels_are_ordered_the_same_in_every_run() {
        let network = lattice(8, 2.0);
        let (tree, cost) = network.order();
        assert!(cost.points < 64.0 * 1024.0, "{}", cost.points);
        assert_eq!(network.order().0, tree);
    }
}
