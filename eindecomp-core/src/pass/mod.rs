//! Passes: graph → graph.
