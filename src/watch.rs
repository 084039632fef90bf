//! Tensors inside of a program that its user wants to see: results behind its own.

use std::collections::BTreeSet;
use std::sync::Arc;

use eindecomp_core::graph::EinGraph;
use eindecomp_runtime::Tensor;

use crate::{Error, nearest};

/// The watched tensors of a program.
#[derive(Debug)]
pub(crate) struct Watched {
    /// Results that are the program's own.
    own: usize,
    /// Of those behind them, what each is watched as, and its path.
    names: Vec<(Arc<str>, Arc<str>)>,
    /// As the last run left them; none before.
    tensors: Vec<Tensor>,
}

impl Watched {
    /// A graph with every tensor of these names, in graph order, as a result behind its own.
    ///
    /// # Errors
    /// A name that no tensor of the graph has.
    pub fn add(graph: EinGraph, wanted: &[Arc<str>]) -> Result<(EinGraph, Watched), Error> {
        let own = graph.outputs().len();
        let (mut watching, mut names) = (graph, Vec::new());
        for name in wanted.iter().collect::<BTreeSet<_>>() {
            let paths = watching.nodes().iter().map(|node| &*node.name);
            let near = nearest(name, paths.flat_map(|p| [p, last(p)])).map(String::from);
            let missing = |_| Error::MissingTensor {
                name: name.to_string(),
                near,
            };
            watching = watching.watched(name).map_err(missing)?;
            let new = watching.outputs()[own + names.len()..].iter();
            names.extend(new.map(|o| (name.clone(), watching.node(o.node).name.clone())));
        }
        let watched = Watched {
            own,
            names,
            tensors: Vec::new(),
        };
        Ok((watching, watched))
    }

    /// How many results are the program's own.
    pub fn own(&self) -> usize {
        self.own
    }

    /// Is there none?
    pub fn is_empty(&self) -> bool {
        self.names.is_empty()
    }

    /// Keeps what is behind the program's own results.
    pub fn keep(&mut self, results: &mut Vec<Tensor>) {
        self.tensors = results.split_off(self.own);
    }

    /// The tensors of one name with their paths, as the last run left them.
    ///
    /// # Errors
    /// A name that is not watched.
    pub fn of(&self, name: &str) -> Result<Vec<(&str, &Tensor)>, Error> {
        if !self.names.iter().any(|(watched, _)| **watched == *name) {
            return Err(Error::MissingTensor {
                name: name.into(),
                near: nearest(name, self.names.iter().map(|(n, _)| &**n)).map(String::from),
            });
        }
        let all = self.names.iter().zip(&self.tensors);
        let named = all.filter(|((watched, _), _)| **watched == *name);
        Ok(named.map(|((_, path), tensor)| (&**path, tensor)).collect())
    }
}

/// The last part of a path.
fn last(path: &str) -> &str {
    path.rsplit('.').next().unwrap_or(path)
}
