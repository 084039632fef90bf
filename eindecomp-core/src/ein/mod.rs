//! The algebra: element types, extents, scalar functions (⊗), aggregations (⊕), EinSums.

pub mod agg;
pub mod dim;
pub mod dtype;
pub mod scalar;

#[cfg(feature = "plan")]
pub mod access;
#[cfg(feature = "plan")]
mod cast;
#[cfg(feature = "plan")]
pub mod einsum;
#[cfg(feature = "plan")]
pub mod expr;
#[cfg(feature = "plan")]
pub mod record;

pub use agg::Agg;
pub use dim::Dim;
pub use dtype::{DType, Value};
pub use scalar::ScalarFn;

#[cfg(feature = "plan")]
pub use einsum::{EinSum, EinSumError, EinSumSpec, Label, LabelId, Operand, Reduce};
#[cfg(feature = "plan")]
pub use expr::{Expr, Fold, Opaque};
#[cfg(feature = "plan")]
pub use record::{Aggregation, Component, RecordAgg};
