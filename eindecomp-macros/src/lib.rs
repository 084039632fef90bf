//! The `ein!` macro.
