//! Why a command did not do what it is for.

use std::fmt;

/// Why a command did not do what it is for, with what it happened to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Failure {
    /// The command line or `eindecomp.toml` asks for what is not there. Exit code 2, as of a command line that cannot
    /// be read.
    Usage(String),
    /// What was asked for could not be done. Exit code 3.
    Failed(String),
}

impl Failure {
    /// All of several, of which there is at least one; each once.
    pub fn all(failures: Vec<Failure>) -> Failure {
        let usage = failures.iter().any(|f| matches!(f, Failure::Usage(_)));
        let mut texts: Vec<String> = Vec::new();
        for text in failures.iter().map(Failure::to_string) {
            if !texts.contains(&text) {
                texts.push(text);
            }
        }
        let text = texts.join("\nerror: ");
        match usage {
            true => Failure::Usage(text),
            false => Failure::Failed(text),
        }
    }

    /// The same, said of something.
    pub fn of(self, what: impl fmt::Display) -> Failure {
        match self {
            Failure::Usage(text) => Failure::Usage(format!("{what}: {text}")),
            Failure::Failed(text) => Failure::Failed(format!("{what}: {text}")),
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (Failure::Usage(text) | Failure::Failed(text)) = self;
        f.write_str(text)
    }
}

impl From<String> for Failure {
    fn from(text: String) -> Failure {
        Failure::Failed(text)
    }
}

impl From<&str> for Failure {
    fn from(text: &str) -> Failure {
        Failure::Failed(text.into())
    }
}
