//! The program behind the items of one `ein!`: its text is read again, by the same parser and
//! check, when it is first used.

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use eindecomp_core::ein::Value;
use eindecomp_core::graph::NodeId;
use eindecomp_core::syntax::check::{Checked, check_program};
use eindecomp_core::syntax::parse_text;

use crate::fields::Args;
use crate::model::{Model, ModelGraph};
use crate::{Error, Graph};

/// A program: its text, and the values of the Rust consts in it.
pub struct Source {
    text: &'static str,
    consts: &'static [(&'static str, i64)],
    checked: OnceLock<Result<Checked, String>>,
}

impl Source {
    /// The program of an `ein!`.
    pub const fn new(text: &'static str, consts: &'static [(&'static str, i64)]) -> Source {
        Source { text, consts, checked: OnceLock::new() }
    }

    fn checked(&self) -> Result<&Checked, String> {
        let read = || {
            let (program, mut errors) = parse_text(self.text);
            let mut checked = check_program(&program);
            errors.append(&mut checked.errors);
            match errors.is_empty() {
                true => Ok(checked),
                false => Err(errors.iter().map(|e| e.render(self.text).to_string()).collect()),
            }
        };
        self.checked.get_or_init(read).as_ref().map_err(String::clone)
    }

    fn consts(&self) -> BTreeMap<Arc<str>, i64> {
        self.consts.iter().map(|&(name, value)| (name.into(), value)).collect()
    }

    /// The graph of a block as a program by itself.
    pub fn graph<M: Model>(&self, block: &str, hosts: &[(&str, Value)]) -> ModelGraph<M> {
        let hosts = hosts.iter().map(|&(name, value)| (name.into(), value)).collect();
        let graph = self.checked().and_then(|checked| {
            pending::graph(checked, block, &self.consts(), &hosts)
        });
        ModelGraph::new(graph.map_err(Error::Source))
    }

    /// Appends a block to the graph of its arguments and gives its results. Mistakes are recorded
    /// at the caller's place; then, as after an earlier one, there are no results.
    #[track_caller]
    pub fn call<const N: usize>(&self, block: &str, args: Args<'_>) -> [Option<NodeId>; N] {
        let args = args.finish();
        let graph: &Graph = args.graph;
        if args.poisoned && args.errors.is_empty() {
            return [None; N];
        }
        let results = graph.build(|builder| {
            if !args.errors.is_empty() {
                return Err(args.errors);
            }
            let checked = self.checked().map_err(|e| vec![e])?;
            let nodes = args.nodes.into_iter().map(|(path, node)| (path.into(), node)).collect();
            let hosts = args.hosts.into_iter().map(|(name, value)| (name.into(), value)).collect();
            pending::append(checked, block, &self.consts(), &hosts, &nodes, builder)
        });
        let mut results = results.into_iter().flatten();
        std::array::from_fn(|_| results.next())
    }
}

mod pending {
    use super::*;
    use eindecomp_core::graph::{EinGraph, GraphBuilder};
    pub fn graph(_: &Checked, _: &str, _: &BTreeMap<Arc<str>, i64>, _: &BTreeMap<Arc<str>, Value>) -> Result<EinGraph, String> { Err("pending".into()) }
    pub fn append(_: &Checked, _: &str, _: &BTreeMap<Arc<str>, i64>, _: &BTreeMap<Arc<str>, Value>, _: &BTreeMap<Arc<str>, NodeId>, _: &mut GraphBuilder) -> Result<Vec<NodeId>, Vec<String>> { Err(vec!["pending".into()]) }
}
