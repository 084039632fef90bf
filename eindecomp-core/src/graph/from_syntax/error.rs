//! What keeps a block from becoming a graph.

use std::fmt;
use std::sync::Arc;

use crate::ein::dim::DimError;
use crate::ein::{Dim, EinSumError};
use crate::graph::GraphError;
use crate::syntax::Diag;
use crate::syntax::check::{MAX_LENGTH, MAX_STATEMENTS};

/// Why a block is no graph.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum LowerError {
    /// There is no such block.
    #[error("there is no block `{0}`")]
    NoBlock(Arc<str>),
    /// Arguments whose ranks and dtypes fit no instance of a generic block.
    #[error("block `{0}` has no instance for arguments of these ranks and dtypes")]
    NoInstance(Arc<str>),
    /// A block with errors.
    #[error("block `{block}` has errors: {first}")]
    Invalid {
        /// The block.
        block: Arc<str>,
        /// The first of them.
        first: String,
    },
    /// A Rust const without a value.
    #[error("no value is given for the const `{0}`")]
    MissingConst(Arc<str>),
    /// A `#[host]` parameter without a value.
    #[error("no value is given for the `#[host]` parameter `{0}`")]
    MissingHost(Arc<str>),
    /// A number of arguments that is not that of the parameters.
    #[error("block `{block}` takes {expected} arguments, but {given} are given")]
    Arity {
        /// The block.
        block: Arc<str>,
        /// Number of parameters.
        expected: usize,
        /// Number of arguments.
        given: usize,
    },
    /// An argument of another kind, element type or rank.
    #[error("`{param}` of block `{block}` is `{expected}`, but the argument is {given}")]
    Argument {
        /// The block.
        block: Arc<str>,
        /// Path of the parameter.
        param: Arc<str>,
        /// Its type.
        expected: String,
        /// What the argument is.
        given: String,
    },
    /// An argument with another extent.
    #[error(
        "axis {axis} (`{declared}`) of `{param}` of block `{block}` is {expected}, but this argument's is {actual}"
    )]
    Extent {
        /// The block.
        block: Arc<str>,
        /// Path of the parameter.
        param: Arc<str>,
        /// The axis, from 0.
        axis: usize,
        /// The extent, as declared.
        declared: Box<Dim>,
        /// The extent, by the other arguments.
        expected: Dim,
        /// The argument's extent.
        actual: Dim,
    },
    /// A dim that the arguments do not determine.
    #[error("dim `{dim}` of block `{block}` does not follow from the arguments")]
    Undetermined {
        /// The block.
        block: Arc<str>,
        /// The dim.
        dim: Arc<str>,
    },
    /// A condition that does not hold.
    #[error("`{clause}` does not hold in block `{block}`: {origin}")]
    Clause {
        /// The block.
        block: Arc<str>,
        /// The condition, as declared.
        clause: String,
        /// What it comes from.
        origin: String,
    },
    /// The length of an array or loop, which must be a number.
    #[error("`{0}` must be a number when the graph is built")]
    Length(Dim),
    /// A block that calls itself by way of another program.
    #[error("block `{0}` calls itself")]
    Recursion(Arc<str>),
    /// What keeps a block of another program from being appended.
    #[error("{0}")]
    Other(String),
    /// More statements than a graph can hold.
    #[error(
        "block `{block}` is more than {MAX_STATEMENTS} statements when its loops and calls are written out"
    )]
    TooLarge {
        /// The block.
        block: Arc<str>,
    },
    /// An array or loop that is too long.
    #[error("`{length}` = {value} is too long: an array or loop has {MAX_LENGTH} at most")]
    TooLong {
        /// The length, as declared.
        length: Dim,
        /// Its value.
        value: i64,
    },
    /// An extent without a value.
    #[error(transparent)]
    Dim(#[from] DimError),
    /// A vertex that the graph refuses.
    #[error(transparent)]
    Graph(#[from] GraphError),
    /// A vertex that is none.
    #[error("`{statement}`: {source}")]
    EinSum {
        /// The statement.
        statement: Arc<str>,
        /// Why.
        #[source]
        source: EinSumError,
    },
}

/// Why a text is no graph. Displayed, and shown by `unwrap`, with the lines that it is about.
#[derive(Clone, PartialEq)]
#[non_exhaustive]
pub enum TextError {
    /// Errors of the program.
    Program {
        /// The text, of which the errors' places are byte offsets.
        source: Arc<str>,
        /// All of them, in order of place.
        errors: Vec<Diag>,
    },
    /// The text has no block of this name.
    UnknownBlock {
        /// The name.
        block: Arc<str>,
        /// The blocks that it has.
        known: Vec<Arc<str>>,
    },
    /// A block with `T: Float`, `T: Int` or `dim ..L`, of which an instance must be named.
    Generic {
        /// The block.
        block: Arc<str>,
        /// Names of some of its instances.
        instances: Vec<Arc<str>>,
    },
    /// The block cannot be built.
    Block(Vec<LowerError>),
}

/// So many errors of a program are shown with their lines; the rest is counted.
const SHOWN: usize = 50;

impl fmt::Display for TextError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = |names: &[Arc<str>]| {
            let shown: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
            shown.join(", ")
        };
        match self {
            TextError::Program { source, errors } => {
                for (at, error) in errors.iter().take(SHOWN).enumerate() {
                    let gap = if at > 0 { "\n\n" } else { "" };
                    let shown = error.render(source).to_string();
                    write!(f, "{gap}{}", shown.trim_end())?;
                }
                match errors.len().saturating_sub(SHOWN) {
                    0 => Ok(()),
                    more => write!(f, "\n\n{more} more errors"),
                }
            }
            TextError::UnknownBlock { block, known } if known.is_empty() => {
                write!(f, "there is no block `{block}`: the text has none")
            }
            TextError::UnknownBlock { block, known } => {
                write!(
                    f,
                    "there is no block `{block}`: the text has {}",
                    names(known)
                )
            }
            TextError::Generic { block, instances } => write!(
                f,
                "block `{block}` is generic: name an instance, such as {}",
                names(instances)
            ),
            TextError::Block(errors) => {
                let shown: Vec<String> = errors.iter().map(LowerError::to_string).collect();
                f.write_str(&shown.join("\n"))
            }
        }
    }
}

crate::debug_is_text!(TextError);

impl std::error::Error for TextError {}
