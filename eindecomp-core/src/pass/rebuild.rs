//! What passes build graphs with.

use std::borrow::Cow;

use super::Rewrite;
use crate::ein::{EinSum, EinSumSpec, Expr, Operand};
use crate::graph::{EinGraph, GraphBuilder, GraphError, Node, NodeId, Op, Store};

/// The statement of a node, which may have been rewritten.
pub(super) type Spec<'g> = Cow<'g, EinSumSpec>;

/// A graph being built from another one, node by node. As long as all nodes are those of the old graph, none
/// is made: mostly a pass finds nothing to do.
pub(super) struct Rebuild<'a> {
    pub old: &'a EinGraph,
    new: GraphBuilder,
    /// Old node → new node, for those done so far.
    pub map: Vec<Option<NodeId>>,
    /// How many nodes at the start are those of the old graph; `None` once they are made.
    same: Option<u32>,
}

impl<'a> Rebuild<'a> {
    fn of(old: &'a EinGraph) -> Rebuild<'a> {
        Rebuild {
            old,
            new: GraphBuilder::like(old),
            map: vec![None; old.nodes().len()],
            same: Some(0),
        }
    }

    /// Goes over the nodes in order: `change` says what it did with one, or leaves it to be taken over.
    pub fn each(
        old: &'a EinGraph,
        mut change: impl FnMut(&mut Rebuild<'a>, NodeId) -> Result<Option<String>, GraphError>,
    ) -> Result<Rewrite, GraphError> {
        let (mut rebuild, mut did) = (Rebuild::of(old), Vec::new());
        for (id, _) in old.ids() {
            match change(&mut rebuild, id)? {
                Some(what) => {
                    rebuild.builder()?;
                    did.push(what);
                }
                None => rebuild.copy(id)?,
            }
        }
        rebuild.rewrite(did)
    }

    /// What an old node became; nodes are asked for after they are made.
    pub fn node(&self, old: NodeId) -> NodeId {
        self.map[old.at()].expect("operands precede uses")
    }

    /// The new graph, as far as it is.
    pub fn builder(&mut self) -> Result<&mut GraphBuilder, GraphError> {
        for same in 0..self.same.take().unwrap_or(0) {
            self.copy(NodeId(same))?;
        }
        Ok(&mut self.new)
    }

    /// Takes a node over.
    pub fn copy(&mut self, id: NodeId) -> Result<(), GraphError> {
        if let Some(same) = &mut self.same {
            *same += 1;
            self.map[id.at()] = Some(id);
            return Ok(());
        }
        let node = self.old.node(id);
        match &node.op {
            Op::Input(role) => {
                let (name, shape) = (node.name.clone(), node.shape.clone());
                let new = self.new.input(name, *role, node.dtype, shape)?;
                self.new.pin(new, node.pins.iter().cloned());
                self.map[id.at()] = Some(new);
                Ok(())
            }
            Op::EinSum(e) => self.put(id, e.clone().into_spec()),
        }
    }

    /// Takes a statement over that computes the same in another way. Its operands are old nodes.
    pub fn put(&mut self, id: NodeId, mut spec: EinSumSpec) -> Result<(), GraphError> {
        for operand in &mut spec.operands {
            operand.node = self.node(operand.node);
        }
        let e = EinSum::new(spec).expect("a pass keeps the rules of statements");
        let node = self.old.node(id);
        let (name, pins) = (node.name.clone(), node.pins.clone());
        let new = match &node.store {
            None => self.builder()?.einsum(name, e, pins)?,
            Some(store) => {
                let state = self.node(store.state);
                let store = Store {
                    state,
                    ..store.clone()
                };
                self.builder()?.store(name, e, store, pins)?
            }
        };
        self.map[id.at()] = Some(new);
        Ok(())
    }

    /// Takes over what results and states need of these statements, one per node that is no input, with
    /// which something was done.
    pub fn all(
        old: &'a EinGraph,
        mut specs: Vec<Option<Spec<'_>>>,
        did: Vec<String>,
    ) -> Result<Rewrite, GraphError> {
        if did.is_empty() {
            return Ok(Rewrite::Unchanged);
        }
        let (mut rebuild, needed) = (Rebuild::of(old), needed(old, &specs));
        rebuild.builder()?;
        for (id, node) in old.ids() {
            match specs[id.at()].take() {
                Some(spec) if needed[id.at()] => rebuild.put(id, spec.into_owned())?,
                None if node.role().is_some() => rebuild.copy(id)?,
                _ => {}
            }
        }
        rebuild.rewrite(did)
    }

    /// The graph, which is another one if something was done.
    fn rewrite(self, did: Vec<String>) -> Result<Rewrite, GraphError> {
        if did.is_empty() {
            return Ok(Rewrite::Unchanged);
        }
        let graph = self.finish()?;
        Ok(Rewrite::Changed { graph, did })
    }

    fn finish(mut self) -> Result<EinGraph, GraphError> {
        for output in self.old.outputs() {
            let node = self.node(output.node);
            self.new.output(output.name.clone(), node)?;
        }
        self.new.finish()
    }
}

/// The statement of every node that is no input.
pub(super) fn statements(graph: &EinGraph) -> Vec<Option<Spec<'_>>> {
    let spec = |n| Node::einsum(n).map(|e| Spec::Borrowed(e));
    graph.nodes().iter().map(spec).collect()
}

/// The reads of a tensor in a statement, and their numbers.
pub(super) fn reads_of(spec: &EinSumSpec, from: NodeId) -> (Vec<usize>, Vec<&Operand>) {
    let reads = spec.operands.iter().enumerate();
    reads.filter(|(_, o)| o.node == from).unzip()
}

/// The tensors that a statement reads, each once.
pub(super) fn sources(spec: &EinSumSpec) -> Vec<NodeId> {
    let mut all: Vec<NodeId> = Vec::new();
    for operand in &spec.operands {
        if !all.contains(&operand.node) {
            all.push(operand.node);
        }
    }
    all
}

/// Which nodes results and states need, if these are the statements.
pub(super) fn needed(graph: &EinGraph, specs: &[Option<Spec<'_>>]) -> Vec<bool> {
    let mut needed = vec![false; specs.len()];
    let outputs = graph.outputs().iter().map(|o| o.node);
    for id in outputs.chain(graph.states().map(|(_, last)| last)) {
        needed[id.at()] = true;
    }
    for at in (0..specs.len()).rev().filter(|&at| specs[at].is_some()) {
        if needed[at] {
            let read = specs[at].iter().flat_map(|spec| sources(spec));
            read.for_each(|id| needed[id.at()] = true);
        }
    }
    needed
}

/// Calls `f` on every node of every expression of a statement, children first.
pub(super) fn map_exprs(spec: &mut EinSumSpec, f: &mut dyn FnMut(Expr) -> Expr) {
    let filter = spec.reduce.iter_mut().flat_map(|r| &mut r.filter);
    let index = spec.operands.iter_mut().flat_map(|o| &mut o.index);
    for x in index.chain(filter).chain([&mut spec.body]) {
        *x = std::mem::replace(x, Expr::int(0)).map(f);
    }
}

/// How many parts an expression has.
pub(super) fn size(x: &Expr) -> usize {
    let mut parts = 0;
    x.visit(&mut |_| parts += 1);
    parts
}

/// The operands that an expression reads itself, in order and as often as it does.
pub(super) fn operands_of(x: &Expr) -> Vec<usize> {
    let mut found = Vec::new();
    x.visit(&mut |x| {
        if let Expr::Operand(n) = x {
            found.push(*n);
        }
    });
    found
}

/// Puts operands in the order in which they are read, filter first, and drops those that are read nowhere;
/// an opaque kernel reads all of its own.
pub(super) fn prune(spec: &mut EinSumSpec) {
    if matches!(spec.body, Expr::Opaque(_)) {
        return;
    }
    fn read(n: usize, operands: &[Operand], order: &mut Vec<usize>) {
        if !order.contains(&n) {
            let through = operands[n].index.iter().flat_map(operands_of);
            through.for_each(|m| read(m, operands, order));
            order.push(n);
        }
    }
    let mut order = Vec::new();
    let filter = spec.reduce.as_ref().and_then(|r| r.filter.as_ref());
    for n in filter.into_iter().chain([&spec.body]).flat_map(operands_of) {
        read(n, &spec.operands, &mut order);
    }
    spec.operands = order.iter().map(|&n| spec.operands[n].clone()).collect();
    let place = |n: usize| order.iter().position(|&o| o == n).expect("it is read");
    map_exprs(spec, &mut |x| match x {
        Expr::Operand(n) => Expr::Operand(place(n)),
        other => other,
    });
}
