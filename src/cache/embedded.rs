//! Plans that a binary carries.

/// Plans that a binary carries, by [`include_plans!`](crate::include_plans).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct EmbeddedPlans {
    /// The folder that they are of, as it was written.
    folder: &'static str,
    entries: &'static [(&'static str, &'static [u8])],
}

impl EmbeddedPlans {
    #[doc(hidden)]
    pub const fn new(
        folder: &'static str,
        entries: &'static [(&'static str, &'static [u8])],
    ) -> EmbeddedPlans {
        EmbeddedPlans { folder, entries }
    }

    /// How many there are.
    pub const fn len(&self) -> usize {
        self.entries.len()
    }

    /// Is there none?
    pub const fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Where they are from, if the session was given any folder of them: the folder may have others by now.
    pub(super) fn place(&self) -> Option<String> {
        let (folder, n) = (self.folder, self.len());
        let place =
            format!("the plans that the binary carries (folder `{folder}`, {n} when it was built)");
        (!folder.is_empty()).then_some(place)
    }

    /// The entry of a key.
    pub(super) fn get(&self, hash: &str) -> Option<&'static [u8]> {
        let found = self.entries.iter().find(|(name, _)| *name == hash);
        found.map(|(_, text)| *text)
    }

    /// Every entry: its key's hash and its text.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&'static str, &'static [u8])> {
        self.entries.iter().copied()
    }
}
