//! Reference interpreter in f64.
