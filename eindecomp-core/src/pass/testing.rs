//! What tests of passes share.

use std::collections::BTreeMap;

use super::{Pass, Pipeline};
use crate::graph::EinGraph;

/// What a pass alone makes of a dump, and what it says that it did.
pub fn rewritten(pass: impl Pass + 'static, dump: &str) -> (String, Vec<String>) {
    let graph = EinGraph::parse(dump).unwrap_or_else(|e| panic!("{e}\n{dump}"));
    assert_eq!(graph.verify(), Ok(()));
    let bound = graph.bind(&BTreeMap::new()).unwrap();
    let (done, passed) = Pipeline::new(vec![Box::new(pass)]).run(bound).unwrap();
    let did = passed.into_iter().flat_map(|p| p.did).collect();
    (done.graph().to_string(), did)
}

/// Does a pass leave the graph as it is?
pub fn stays(pass: impl Pass + 'static, dump: &str) {
    let (text, did) = rewritten(pass, dump);
    assert_eq!(did, [""; 0], "{dump}");
    assert_eq!(text, EinGraph::parse(dump).unwrap().to_string());
}
