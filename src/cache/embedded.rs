//! Plans that a binary carries.

/// Plans that a binary carries, by [`include_plans!`](crate::include_plans).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct EmbeddedPlans(&'static [(&'static str, &'static [u8])]);

impl EmbeddedPlans {
    #[doc(hidden)]
    pub const fn new(entries: &'static [(&'static str, &'static [u8])]) -> EmbeddedPlans {
        EmbeddedPlans(entries)
    }

    /// How many there are.
    pub const fn len(&self) -> usize {
        self.0.len()
    }

    /// Is there none?
    pub const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The entry of a key.
    pub(super) fn get(&self, hash: &str) -> Option<&'static [u8]> {
        let found = self.0.iter().find(|(name, _)| *name == hash);
        found.map(|(_, text)| *text)
    }

    /// Every entry: its key's hash and its text.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&'static str, &'static [u8])> {
        self.0.iter().copied()
    }
}
