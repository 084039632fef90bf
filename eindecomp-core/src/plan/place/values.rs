//! Hash-consed lists of values, and the problems over them.

use std::hash::Hash;
use std::rc::Rc;
use std::sync::Arc;

use super::kind::Kind;
use super::model::{Model, Seen};
use super::spread::{Spread, Vector};
use crate::plan::Hierarchy;
use crate::plan::search::{PairTable, Problem, VarId};
use crate::quick::{Table, classes};

/// Distinct values; lists of one [`Lists`] have equal ids iff they are equal.
#[derive(Debug)]
pub(super) struct List<T> {
    pub id: usize,
    pub all: Vec<T>,
    at: Table<T, usize>,
}

impl<T: Eq + Hash> List<T> {
    /// Position of a value.
    pub fn at(&self, value: &T) -> Option<usize> {
        self.at.get(value).copied()
    }
}

/// Every list that was made.
#[derive(Debug)]
pub(super) struct Lists<T> {
    known: Table<Vec<T>, Rc<List<T>>>,
}

impl<T> Default for Lists<T> {
    fn default() -> Lists<T> {
        Lists {
            known: Table::default(),
        }
    }
}

impl<T: Clone + Eq + Hash> Lists<T> {
    /// The list of these values.
    pub fn intern(&mut self, all: Vec<T>) -> Rc<List<T>> {
        if let Some(found) = self.known.get(&all) {
            return found.clone();
        }
        let list = Rc::new(List {
            id: self.known.len(),
            at: all.iter().cloned().zip(0..).collect(),
            all: all.clone(),
        });
        self.known.insert(all, list.clone());
        list
    }
}

/// What a variable may be: a vector, or a vector with axes.
pub(super) trait Value: Clone + Eq + Hash {
    fn vector(&self) -> &Vector;
    fn seen(&self, labels: &[bool]) -> Self;
    fn through(&self, cuts: &[Option<usize>]) -> Self;
    /// Row-major over needs and haves: bytes weighed by link, or a bound of them.
    fn table(kind: &Kind, needs: &[Self], haves: &[Self], on: Hierarchy) -> Vec<u64>;
}

impl Value for Vector {
    fn vector(&self) -> &Vector {
        self
    }

    fn seen(&self, labels: &[bool]) -> Vector {
        Vector::seen(self, labels)
    }

    fn through(&self, cuts: &[Option<usize>]) -> Vector {
        Vector::through(self, cuts)
    }

    fn table(kind: &Kind, needs: &[Vector], haves: &[Vector], _: Hierarchy) -> Vec<u64> {
        kind.bound(needs, haves)
    }
}

impl Value for Spread {
    fn vector(&self) -> &Vector {
        &self.vector
    }

    fn seen(&self, labels: &[bool]) -> Spread {
        Spread::seen(self, labels)
    }

    fn through(&self, cuts: &[Option<usize>]) -> Spread {
        Spread::through(self, cuts)
    }

    fn table(kind: &Kind, needs: &[Spread], haves: &[Spread], on: Hierarchy) -> Vec<u64> {
        kind.exact(needs, haves, on)
    }
}

/// The classes of values that tell apart what a kind sees, and one value as seen per class.
type View<T> = Rc<(Vec<u32>, Vec<T>)>;

/// Tables between lists, each made once: repeated layers share all of them.
pub(super) struct Tables<T> {
    pub lists: Lists<T>,
    /// By kind and list, as needs or as haves.
    views: Table<(usize, usize, bool), View<T>>,
    scaled: Table<(usize, usize, usize), Rc<Vec<u64>>>,
}

impl<T> Default for Tables<T> {
    fn default() -> Tables<T> {
        Tables {
            lists: Lists::default(),
            views: Table::default(),
            scaled: Table::default(),
        }
    }
}

impl<T: Value> Tables<T> {
    fn view(&mut self, model: &Model, kind: usize, list: &List<T>, need: bool) -> View<T> {
        let seen = &model.kinds[kind];
        let make = || {
            let see = |v: &T| match (need, &seen.have) {
                (true, _) => v.seen(&seen.need),
                (false, Some(cuts)) => v.through(cuts),
                (false, None) => v.clone(),
            };
            Rc::new(classes(list.all.iter().map(see)))
        };
        self.views
            .entry((kind, list.id, need))
            .or_insert_with(make)
            .clone()
    }

    /// The problem over these values of every variable.
    pub fn problem(&mut self, model: &Model, domains: &[Rc<List<T>>]) -> Problem {
        let mut problem = Problem::new();
        let mut costs = Table::default();
        for ((v, domain), variable) in domains.iter().enumerate().zip(&model.variables) {
            let key = (Rc::as_ptr(&variable.ties), variable.domain.id, domain.id);
            let ties = costs.entry(key).or_insert_with(|| {
                let tie = |x: &T| model.tie(VarId(v as u32), x.vector());
                domain.all.iter().map(tie).collect::<Arc<[u64]>>()
            });
            problem.add_variable(ties.clone());
        }
        let mut pairs: Table<(usize, usize, usize), PairTable> = Table::default();
        for e in &model.edges {
            let (needs, haves) = (&domains[e.need.at()], &domains[e.have.at()]);
            let key = (e.kind, needs.id, haves.id);
            let pair = *pairs.entry(key).or_insert_with(|| {
                let (rows, columns) = (
                    self.view(model, e.kind, needs, true),
                    self.view(model, e.kind, haves, false),
                );
                let table = self.scaled.entry(key).or_insert_with(|| {
                    let Seen { kind, among, .. } = &model.kinds[e.kind];
                    let bytes = T::table(kind, &rows.1, &columns.1, model.on);
                    let scale = |b: u64| b.saturating_mul(model.unit) / among;
                    Rc::new(bytes.into_iter().map(scale).collect())
                });
                problem.pair_table(&rows.0, &columns.0, table)
            });
            problem.add_pair(e.need, e.have, pair);
        }
        problem
    }
}
