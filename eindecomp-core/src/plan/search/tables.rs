//! Hash-consed cost tables: equal contents share one allocation and one number.

use crate::quick::Table;
use std::hash::Hash;
use std::sync::Arc;

/// A table: equal ids iff equal contents, within one [`Tables`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct TableId(u32);

/// Every distinct table.
#[derive(Clone, Debug, Default)]
pub(super) struct Tables(Interned<u64>);

impl Tables {
    pub(super) fn intern(&mut self, table: impl Into<Arc<[u64]>> + AsRef<[u64]>) -> TableId {
        TableId(self.0.intern(table))
    }

    pub(super) fn get(&self, id: TableId) -> &Arc<[u64]> {
        &self.0.all[id.0 as usize]
    }
}

/// Distinct slices, numbered in order of appearance.
#[derive(Clone, Debug)]
pub(super) struct Interned<T> {
    pub all: Vec<Arc<[T]>>,
    /// By digest, so that a slice is read once and kept once.
    ids: Table<[u64; 5], Vec<u32>>,
}

impl<T> Default for Interned<T> {
    fn default() -> Interned<T> {
        Interned {
            all: Vec::new(),
            ids: Table::default(),
        }
    }
}

impl<T: Word> Interned<T> {
    pub fn intern(&mut self, slice: impl Into<Arc<[T]>> + AsRef<[T]>) -> u32 {
        let same = self.ids.entry(digest(slice.as_ref())).or_default();
        let found = same
            .iter()
            .find(|&&id| *self.all[id as usize] == *slice.as_ref());
        if let Some(&id) = found {
            return id;
        }
        let id = self.all.len() as u32;
        same.push(id);
        self.all.push(slice.into());
        id
    }
}

/// What slices are made of.
pub(super) trait Word: Copy + Eq + Hash {
    fn word(self) -> u64;
}

impl Word for u64 {
    fn word(self) -> u64 {
        self
    }
}

impl Word for u32 {
    fn word(self) -> u64 {
        self.into()
    }
}

/// A digest of a slice of many megabytes at the speed of memory: four independent chains.
fn digest<T: Word>(slice: &[T]) -> [u64; 5] {
    const PRIME: u64 = 0x9e37_79b9_7f4a_7c15;
    let mix = |h: u64, x: T| (h ^ x.word()).wrapping_mul(PRIME).rotate_left(29);
    let mut chains = [1, 2, 3, 4, slice.len() as u64];
    let blocks = slice.chunks_exact(4);
    for (i, &x) in blocks.remainder().iter().enumerate() {
        chains[i] = mix(chains[i], x);
    }
    for block in blocks {
        for i in 0..4 {
            chains[i] = mix(chains[i], block[i]);
        }
    }
    chains
}
