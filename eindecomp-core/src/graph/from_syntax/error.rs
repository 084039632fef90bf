//! What keeps a block from becoming a graph.

use std::sync::Arc;

use crate::ein::dim::DimError;
use crate::ein::{Dim, EinSumError};
use crate::graph::GraphError;
use crate::syntax::Diag;

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
        declared: Dim,
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
    /// More than a graph can hold.
    #[error("the program unfolds to too many statements, or an array or loop is too long")]
    TooLarge,
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

/// Why a text is no graph.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum TextError {
    /// Errors of the program, in order of place.
    #[error("{}", .0.iter().map(Diag::to_string).collect::<Vec<_>>().join("\n"))]
    Program(Vec<Diag>),
    /// The block cannot be built.
    #[error("{}", .0.iter().map(LowerError::to_string).collect::<Vec<_>>().join("\n"))]
    Block(Vec<LowerError>),
}
