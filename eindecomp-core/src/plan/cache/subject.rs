//! What a plan is for, in words of people.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

use crate::graph::EinGraph;
use crate::plan::Cluster;

/// What a plan is for, by the names that its author uses. No part of its key, which has no names: of several
/// blocks with one plan it is the one that was planned first.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Subject {
    /// The block's path, `my_crate::decoder::step`; of a graph that is none, what it takes and gives: `(x, w) -> (y)`.
    pub block: String,
    /// The dims that the plan was made for.
    pub dims: BTreeMap<String, i64>,
    /// The cluster's [name](Cluster::label).
    pub cluster: String,
}

impl Subject {
    /// Of `graph` at `dims` on `cluster`; `block` is its path, if it is a block.
    pub fn new<'a>(
        block: Option<&str>,
        graph: &EinGraph,
        dims: impl IntoIterator<Item = (&'a str, i64)>,
        cluster: &Cluster,
    ) -> Subject {
        let dims = dims.into_iter().map(|(name, value)| (name.into(), value));
        Subject {
            block: block.map_or_else(|| signature(graph), String::from),
            dims: dims.collect(),
            cluster: cluster.label(),
        }
    }
}

/// `(x, w) -> (y)`
fn signature(graph: &EinGraph) -> String {
    let inputs = graph.nodes().iter().filter(|n| n.role().is_some());
    let inputs: Vec<&str> = inputs.map(|n| &*n.name).collect();
    let outputs: Vec<&str> = graph.outputs().iter().map(|o| &*o.name).collect();
    format!("({}) -> ({})", inputs.join(", "), outputs.join(", "))
}

/// `my_crate::decoder::step B=2 S=64 on cpus:4`. What a file says is printed as text, whatever it is.
impl fmt::Display for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Subject {
            block,
            dims,
            cluster,
        } = self;
        printable(f, block)?;
        for (dim, value) in dims {
            f.write_str(" ")?;
            printable(f, dim)?;
            write!(f, "={value}")?;
        }
        f.write_str(" on ")?;
        printable(f, cluster)
    }
}

/// Control characters, which terminals obey, are escaped.
fn printable(f: &mut fmt::Formatter<'_>, text: &str) -> fmt::Result {
    for c in text.chars() {
        match c.is_control() {
            true => write!(f, "{}", c.escape_default())?,
            false => write!(f, "{c}")?,
        }
    }
    Ok(())
}
