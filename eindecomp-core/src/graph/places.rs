//! Where in the files of their users vertices come from.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use crate::syntax::ast::{Program, statements};
use crate::syntax::token::Span;

/// Where a statement stands: `src/model.rs:12`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// The file, as the compiler was given it.
    pub file: Arc<str>,
    /// The line, from 1.
    pub line: u32,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.file, self.line)
    }
}

/// The lines of a program's statements.
#[derive(Clone, Debug)]
pub struct Lines {
    file: Arc<str>,
    /// Of each statement where it begins in the program's text, ascending, and its line in the file.
    lines: Vec<(u32, u32)>,
}

impl Lines {
    /// Of a program in `file`, with the line of each of its [`statements`].
    pub fn new(program: &Program, file: &str, lines: &[u32]) -> Lines {
        let starts = statements(program).map(|span| span.start);
        Lines {
            file: file.into(),
            lines: starts.zip(lines.iter().copied()).collect(),
        }
    }

    /// Of the statement that begins at `span` or last before it.
    pub(super) fn place(&self, span: Span) -> Option<Place> {
        let before = self
            .lines
            .partition_point(|(start, _)| *start <= span.start);
        let &(_, line) = self.lines[..before].last()?;
        let file = self.file.clone();
        Some(Place { file, line })
    }
}

/// Places of vertices by their names. Dumps do not have them, and they are never what tells graphs apart.
#[derive(Clone, Debug, Default)]
pub(super) struct Places(Arc<BTreeMap<Arc<str>, Place>>);

impl Places {
    /// Of the vertex called `name`.
    pub fn of(&self, name: &str) -> Option<&Place> {
        self.0.get(name)
    }

    /// Adds that of a vertex, unless one of its name has one.
    pub fn add(&mut self, name: &Arc<str>, place: &Place) {
        let all = Arc::make_mut(&mut self.0);
        all.entry(name.clone()).or_insert_with(|| place.clone());
    }
}

impl PartialEq for Places {
    fn eq(&self, _: &Places) -> bool {
        true
    }
}

impl Eq for Places {}
