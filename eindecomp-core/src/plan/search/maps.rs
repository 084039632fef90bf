//! Class maps: which values of a variable an edge does not tell apart.
//!
//! A map gives every value the number of its class; classes are numbered in order of appearance,
//! so that equal partitions of the values are equal maps, kept once.

use super::tables::Interned;
use crate::quick::Table;

/// A class map: equal ids iff equal maps, within one [`Maps`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct MapId(u32);

/// Every distinct map.
#[derive(Clone, Debug, Default)]
pub(super) struct Maps {
    maps: Interned<u32>,
    /// Per map: number of classes.
    classes: Vec<usize>,
    /// By number of values: the finest and the coarsest.
    extremes: Table<usize, [MapId; 2]>,
    joined: Table<(MapId, MapId), MapId>,
    translated: Table<(MapId, MapId), MapId>,
}

impl Maps {
    /// The map of numbers given per value, and which given number each class has.
    pub fn intern<T: Copy + Eq + std::hash::Hash>(&mut self, given: &[T]) -> (MapId, Vec<T>) {
        let (mut numbers, mut all) = (Table::default(), Vec::new());
        let map: Vec<u32> = given
            .iter()
            .map(|&g| {
                *numbers.entry(g).or_insert_with(|| {
                    all.push(g);
                    all.len() as u32 - 1
                })
            })
            .collect();
        let id = self.maps.intern(map);
        if id as usize == self.classes.len() {
            self.classes.push(all.len());
        }
        (MapId(id), all)
    }

    /// Every value its own class.
    pub fn identity(&mut self, values: usize) -> MapId {
        self.extremes(values)[0]
    }

    /// All values in one class.
    pub fn blind(&mut self, values: usize) -> MapId {
        self.extremes(values)[1]
    }

    fn extremes(&mut self, values: usize) -> [MapId; 2] {
        if let Some(&known) = self.extremes.get(&values) {
            return known;
        }
        let finest: Vec<u32> = (0..values as u32).collect();
        let made = [self.intern(&finest).0, self.intern(&vec![0u32; values]).0];
        self.extremes.insert(values, made);
        made
    }

    /// Per value, the number of its class.
    pub fn get(&self, id: MapId) -> &[u32] {
        &self.maps.all[id.0 as usize]
    }

    /// Number of classes.
    pub fn classes(&self, id: MapId) -> usize {
        self.classes[id.0 as usize]
    }

    /// Is every value a class of its own?
    pub fn is_identity(&self, id: MapId) -> bool {
        self.classes(id) == self.get(id).len()
    }

    /// The coarsest map that tells apart what one of two maps of one variable does.
    pub fn join(&mut self, a: MapId, b: MapId) -> MapId {
        if a == b || self.is_identity(a) {
            return a;
        }
        if self.is_identity(b) {
            return b;
        }
        let key = (a.min(b), a.max(b));
        if let Some(&id) = self.joined.get(&key) {
            return id;
        }
        let (x, y) = (self.get(a), self.get(b));
        let pairs: Vec<(u32, u32)> = x.iter().copied().zip(y.iter().copied()).collect();
        let id = self.intern(&pairs).0;
        self.joined.insert(key, id);
        id
    }

    /// From the classes of `fine` to those of `coarse`, which tells nothing apart that `fine` does
    /// not: a map again.
    pub fn translate(&mut self, fine: MapId, coarse: MapId) -> MapId {
        if self.is_identity(fine) {
            return coarse;
        }
        if let Some(&id) = self.translated.get(&(fine, coarse)) {
            return id;
        }
        let (x, y) = (self.get(fine), self.get(coarse));
        let mut of = Vec::with_capacity(self.classes(fine));
        for (&x, &y) in x.iter().zip(y) {
            if x as usize == of.len() {
                of.push(y);
            }
        }
        let id = self.intern(&of).0;
        self.translated.insert((fine, coarse), id);
        id
    }
}
