//! Handles: what the block functions that `ein!` makes take and give.

use std::cell::RefCell;
use std::fmt;
use std::marker::PhantomData;
use std::panic::Location;

use eindecomp_core::ein::Dim;
use eindecomp_core::graph::{EinGraph, GraphBuilder, NodeId, Role};
use eindecomp_runtime::Element;

/// A mistake in the composition of a graph, with the place of the call.
#[derive(Clone, Debug)]
pub struct CompositionError {
    /// What is wrong.
    pub message: String,
    /// Where it was written.
    pub location: &'static Location<'static>,
}

impl fmt::Display for CompositionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.location, self.message)
    }
}

/// Every mistake in the composition of a graph.
#[derive(Clone)]
pub struct CompositionErrors(pub Vec<CompositionError>);

impl fmt::Display for CompositionErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, e) in self.0.iter().enumerate() {
            write!(f, "{}{e}", if i > 0 { "\n" } else { "" })?;
        }
        Ok(())
    }
}
impl std::error::Error for CompositionErrors {}
eindecomp_core::debug_is_text!(CompositionErrors);

/// A graph under construction: block functions append to it through their handles.
///
/// Nothing here fails at once: a mistake is recorded with the caller's place and poisons the
/// handle it would have made; [`Graph::finish`] returns all of them.
#[derive(Default)]
pub struct Graph {
    state: RefCell<State>,
}

#[derive(Default)]
struct State {
    builder: GraphBuilder,
    errors: Vec<CompositionError>,
}

impl Graph {
    /// An empty graph.
    pub fn new() -> Graph {
        Graph::default()
    }

    /// A tensor that is given at each run.
    #[track_caller]
    pub fn input<D: Element, const RANK: usize>(
        &self,
        name: &str,
        shape: [Dim; RANK],
    ) -> Tensor<'_, D, RANK> {
        self.add_input(name, Role::Data, shape)
    }

    /// A tensor that is given once.
    #[track_caller]
    pub fn weight<D: Element, const RANK: usize>(
        &self,
        name: &str,
        shape: [Dim; RANK],
    ) -> Tensor<'_, D, RANK> {
        self.add_input(name, Role::Weight, shape)
    }

    /// A tensor that stays across runs: blocks store into it, and what reads it later reads what was
    /// stored.
    #[track_caller]
    pub fn state<D: Element, const RANK: usize>(
        &self,
        name: &str,
        shape: [Dim; RANK],
    ) -> Tensor<'_, D, RANK> {
        self.add_input(name, Role::State, shape)
    }

    #[track_caller]
    fn add_input<D: Element, const RANK: usize>(
        &self,
        name: &str,
        role: Role,
        shape: [Dim; RANK],
    ) -> Tensor<'_, D, RANK> {
        let node = self.build(|b| {
            b.input(name, role, D::DTYPE, shape.to_vec())
                .map_err(|e| vec![e.to_string()])
        });
        Tensor::new(self, node)
    }

    /// Names a result.
    #[track_caller]
    pub fn output<D, const RANK: usize>(&self, name: &str, tensor: Tensor<'_, D, RANK>) {
        if let Some(node) = tensor.node {
            self.build(|b| match std::ptr::eq(tensor.graph, self) {
                true => b
                    .output(name, b.version(node))
                    .map_err(|e| vec![e.to_string()]),
                false => Err(vec![format!("result `{name}` belongs to another graph")]),
            });
        }
    }

    /// The graph, or every mistake that was made on the way.
    ///
    /// # Errors
    /// All recorded mistakes, in order.
    #[track_caller]
    pub fn finish(self) -> Result<EinGraph, CompositionErrors> {
        let State {
            builder,
            mut errors,
        } = self.state.into_inner();
        if errors.is_empty() {
            match builder.finish() {
                Ok(graph) => return Ok(graph),
                Err(e) => errors.push(CompositionError {
                    message: e.to_string(),
                    location: Location::caller(),
                }),
            }
        }
        Err(CompositionErrors(errors))
    }

    /// Runs `step` on the builder; records what it refuses at the caller's place.
    #[doc(hidden)]
    #[track_caller]
    pub fn build<T>(
        &self,
        step: impl FnOnce(&mut GraphBuilder) -> Result<T, Vec<String>>,
    ) -> Option<T> {
        let state = &mut *self.state.borrow_mut();
        match step(&mut state.builder) {
            Ok(value) => Some(value),
            Err(messages) => {
                let location = Location::caller();
                state.errors.extend(
                    messages
                        .into_iter()
                        .map(|message| CompositionError { message, location }),
                );
                None
            }
        }
    }
}

/// A tensor of a graph under construction: element type and rank are in the type, extents are
/// checked by the blocks.
pub struct Tensor<'g, D, const RANK: usize> {
    graph: &'g Graph,
    node: Option<NodeId>,
    element: PhantomData<fn() -> D>,
}

impl<D, const RANK: usize> Clone for Tensor<'_, D, RANK> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<D, const RANK: usize> Copy for Tensor<'_, D, RANK> {}

impl<'g, D, const RANK: usize> Tensor<'g, D, RANK> {
    /// A handle on `node`; `None` is a poisoned handle. A rank that the caller chose and `node`
    /// does not have is a mistake.
    #[doc(hidden)]
    #[track_caller]
    pub fn new(graph: &'g Graph, node: Option<NodeId>) -> Self {
        let node = match node {
            None => None,
            // Not a closure around it, which would be the caller.
            Some(node) => graph.build(|builder| match builder.node(node) {
                Some(made) if made.shape.len() != RANK => {
                    let (name, rank) = (&made.name, made.shape.len());
                    let text =
                        format!("`{name}` has {rank} axes, but a handle of {RANK} is wanted");
                    Err(vec![text])
                }
                _ => Ok(node),
            }),
        };
        Tensor {
            graph,
            node,
            element: PhantomData,
        }
    }

    /// The graph it belongs to.
    pub fn graph(self) -> &'g Graph {
        self.graph
    }

    /// Its node; `None` after a mistake.
    pub fn node(self) -> Option<NodeId> {
        self.node
    }
}

impl<D, const RANK: usize> fmt::Debug for Tensor<'_, D, RANK> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.node {
            Some(node) => write!(f, "{node}"),
            None => f.write_str("poisoned"),
        }
    }
}
