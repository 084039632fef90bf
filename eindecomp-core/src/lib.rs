//! Language, graph, planner and task graph of eindecomp. Core never sees a device, a thread or a
//! clock, so all of planning and distribution is tested as text.
//!
//! Without the feature `plan` (default) only [`syntax`] and the operator tables are built:
//! that is what the `ein!` macro depends on.
#![forbid(unsafe_code)]

/// `Debug` of errors as their text: what a `main` that returns one prints, and `unwrap`.
#[doc(hidden)]
#[macro_export]
macro_rules! debug_is_text {
    ($($error:ty),+ $(,)?) => {
        $(impl ::core::fmt::Debug for $error {
            fn fmt(&self, f: &mut ::core::fmt::Formatter<'_>) -> ::core::fmt::Result {
                ::core::fmt::Display::fmt(self, f)
            }
        })+
    };
}

#[cfg(feature = "plan")]
mod dice;
pub mod ein;
#[cfg(feature = "plan")]
pub mod graph;
#[cfg(feature = "plan")]
pub mod kernel;
#[cfg(feature = "plan")]
pub mod pass;
#[cfg(feature = "plan")]
pub mod plan;
#[cfg(feature = "plan")]
mod quick;
#[cfg(feature = "plan")]
pub mod reference;
pub mod syntax;
#[cfg(feature = "plan")]
pub mod task;
