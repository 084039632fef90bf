//! Tables whose hash is quick, classes of equal things, and lines.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

/// A table by things that a graph bounds the number of: its hash is quick, and can be made to collide.
pub(crate) type Table<K, V> = HashMap<K, V, BuildHasherDefault<Quick>>;

/// The hash of [`Table`]: rotate, xor, multiply by an odd number with as many ones as zeros.
#[derive(Default)]
pub(crate) struct Quick(u64);

impl Quick {
    fn add(&mut self, word: u64) {
        self.0 = (self.0.rotate_left(5) ^ word).wrapping_mul(0x517c_c1b7_2722_0a95);
    }
}

impl Hasher for Quick {
    fn write(&mut self, bytes: &[u8]) {
        let (words, rest) = bytes.as_chunks::<8>();
        words.iter().for_each(|w| self.add(u64::from_le_bytes(*w)));
        rest.iter().for_each(|&b| self.add(b.into()));
    }

    fn write_u32(&mut self, word: u32) {
        self.add(word.into());
    }

    fn write_usize(&mut self, word: usize) {
        self.add(word as u64);
    }

    /// Lower bits choose the place in a table, and depend on lower ones alone: higher ones come there.
    fn finish(&self) -> u64 {
        self.0.rotate_left(26)
    }
}

/// Distinct items in order of appearance, and the number of each given one.
#[cfg(feature = "planner")]
pub(crate) fn classes<T: Clone + std::hash::Hash + Eq>(
    items: impl Iterator<Item = T>,
) -> (Vec<u32>, Vec<T>) {
    let (mut all, mut ids) = (Vec::new(), Table::default());
    let of = |item: T| {
        *ids.entry(item).or_insert_with_key(|item| {
            all.push(item.clone());
            all.len() as u32 - 1
        })
    };
    let numbers = items.map(of).collect();
    (numbers, all)
}

/// The lines of a text, each of which ends in a line break: found by whole registers.
pub(crate) fn lines(text: &str) -> impl Iterator<Item = &str> {
    let ends = memchr::memchr_iter(b'\n', text.as_bytes());
    ends.scan(0, |start, end| {
        let line = &text[*start..end];
        *start = end + 1;
        Some(line)
    })
}
