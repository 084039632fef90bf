//! What joins use of the devices' memory, all devices together, when their kernels run: never more
//! than any lowering of the same vectors uses, so that it bounds peaks from below.
//!
//! Position t is the vertex with number t. There a join uses the boxes that it reads and what it makes
//! of the output; what is made or read before and read later is there too, one copy at least. The
//! boxes of kept weights are there at every position.

use std::collections::BTreeMap;
use std::rc::Rc;

use super::build::{element, makes, readers, reads};
use super::kind::Kind;
use super::model::Model;
use super::spread::Vector;
use super::values::List;
use crate::graph::{BoundGraph, NodeId, Op, Role};
use crate::plan::cost::limit::least_read;
use crate::plan::layout::Region;
use crate::plan::search::VarId;
use crate::quick::Table;

/// Of one join, in bytes per vector of its whole domain.
struct Join {
    variable: VarId,
    vertex: usize,
    /// At every position.
    kept: Vec<u64>,
    /// At its own.
    here: Vec<u64>,
}

/// Of a graph.
pub(super) struct Usage {
    joins: Vec<Join>,
    /// Per position, what does not depend on vectors.
    fixed: Vec<u64>,
}

impl Usage {
    pub fn of(graph: &BoundGraph, model: &Model) -> Usage {
        let mut counts = Counts {
            graph,
            model,
            readers: readers(graph),
            needed: Table::default(),
        };
        let joins = (0..).map(VarId).zip(&model.variables);
        let joins = joins.filter_map(|(id, v)| Some((id, v.join?, &*v.domain)));
        Usage {
            joins: joins
                .map(|(id, node, domain)| counts.join(id, node, domain))
                .collect(),
            fixed: fixed(graph, model),
        }
    }

    /// What is left of `bytes` at every position for the joins; `None` if it is less than nothing.
    pub fn limits(&self, bytes: u64) -> Option<Vec<u64>> {
        self.fixed.iter().map(|f| bytes.checked_sub(*f)).collect()
    }

    /// Every variable with the position of a usage (`None`: all) and the usage of each vector.
    pub fn iter(&self) -> impl Iterator<Item = (VarId, Option<usize>, &[u64])> {
        self.joins.iter().flat_map(|join| {
            let kept = (join.variable, None, join.kept.as_slice());
            [
                kept,
                (join.variable, Some(join.vertex), join.here.as_slice()),
            ]
        })
    }

    /// No choice of vectors uses less at the position where it uses most.
    pub fn least(&self) -> u64 {
        let least = |bytes: &[u64]| bytes.iter().copied().min().unwrap_or(0);
        let kept: u64 = self.joins.iter().map(|j| least(&j.kept)).sum();
        let at = |j: &Join| {
            let both = j.kept.iter().zip(&j.here).map(|(k, h)| k + h);
            self.fixed[j.vertex] + kept - least(&j.kept) + both.min().unwrap_or(0)
        };
        self.joins.iter().map(at).max().unwrap_or(kept)
    }
}

/// What was counted so far: repeated layers need the same.
struct Counts<'a> {
    graph: &'a BoundGraph,
    model: &'a Model,
    readers: Vec<usize>,
    /// By kind and list of vectors.
    needed: Table<(Kind, usize), Rc<Vec<u64>>>,
}

impl Counts<'_> {
    fn join(&mut self, variable: VarId, node: NodeId, domain: &List<Vector>) -> Join {
        let mut join = Join {
            variable,
            vertex: node.at(),
            kept: vec![0; domain.all.len()],
            here: vec![0; domain.all.len()],
        };
        let graph = self.graph;
        let Some(e) = graph.node(node).einsum() else {
            return join;
        };
        let extents = graph.label_extents(node);
        let shape = graph.shape(node);
        let result = Kind {
            access: makes(e, extents),
            extents: extents.to_vec(),
            shape: shape.to_vec(),
            once: element(e.dtype, shape.len()),
            folded: e.parts(),
        };
        // of several calls per device one runs
        let calls = self.model.calls(node);
        // a new version of a state may be made where the old one is
        if graph.node(node).store.is_none() {
            add(&mut join.here, &self.needed(result, domain), calls);
        }
        // what is read of one tensor in several ways may be one box
        let mut here: BTreeMap<NodeId, Vec<u64>> = BTreeMap::new();
        // of no points nothing is read
        let points = !extents.contains(&0);
        for (tensor, access) in reads(e).into_iter().filter(|_| points) {
            let shape = graph.shape(tensor);
            let kind = Kind {
                access,
                extents: extents.to_vec(),
                shape: shape.to_vec(),
                once: element(graph.node(tensor).dtype, shape.len()),
                folded: Vec::new(),
            };
            let readers = self.readers[tensor.at()].max(1) as u64;
            let needed = self.needed(kind, domain);
            if self.model.is_kept(tensor) {
                // several readers may share their boxes
                add(&mut join.kept, &needed, readers);
                continue;
            }
            let most = here.entry(tensor).or_insert_with(|| needed.to_vec());
            let both = most.iter_mut().zip(needed.iter());
            both.for_each(|(most, &bytes)| *most = bytes.max(*most));
        }
        for needed in here.values() {
            add(&mut join.here, needed, calls);
        }
        join
    }

    fn needed(&mut self, kind: Kind, domain: &List<Vector>) -> Rc<Vec<u64>> {
        let needed = self.needed.entry((kind, domain.id));
        let needed = needed.or_insert_with_key(|(kind, _)| {
            let seen = kind.seen();
            let needs: Vec<Vector> = domain.all.iter().map(|v| v.seen(&seen)).collect();
            Rc::new(kind.needed(&needs))
        });
        needed.clone()
    }
}

/// Adds a part of each.
fn add(sum: &mut [u64], needed: &[u64], share: u64) {
    for (sum, bytes) in sum.iter_mut().zip(needed) {
        *sum = sum.saturating_add(bytes / share);
    }
}

/// Tensors that are there beside what a vertex reads and makes: what was made or read before, and is read after it.
fn fixed(graph: &BoundGraph, model: &Model) -> Vec<u64> {
    let nodes = graph.nodes().len();
    let mut fixed = vec![0u64; nodes];
    // per tensor, its readers ascending, with how many elements each reads at least
    let mut reading: Vec<Vec<(usize, u64)>> = vec![Vec::new(); nodes];
    for (id, node) in graph.ids() {
        let Some(e) = node.einsum() else { continue };
        let whole = Region::whole(graph.label_extents(id));
        let points = !graph.label_extents(id).contains(&0);
        for (tensor, access) in reads(e) {
            let least = match points {
                true => least_read(&access, graph.shape(tensor), &whole).0 as u64,
                false => 0,
            };
            match reading[tensor.at()].last_mut() {
                Some((at, most)) if *at == id.at() => *most = least.max(*most),
                _ => reading[tensor.at()].push((id.at(), least)),
            }
        }
    }
    for (id, node) in graph.ids().filter(|(id, _)| !model.is_kept(*id)) {
        let (reading, all) = (&reading[id.at()], graph.elements(id) as u64);
        let last = reading.last().map_or(0, |r| r.0);
        let (there, made) = match &node.op {
            // in the memory of its state
            Op::EinSum(_) if node.store.is_some() => continue,
            // between runs, too
            Op::Input(Role::State | Role::Weight) => (0..nodes, None),
            // loaded just before it is read
            Op::Input(Role::Data) => (0..last, Some(0)),
            Op::EinSum(_) => (id.at() + 1..last, Some(all)),
        };
        for at in there {
            let split = reading.partition_point(|r| r.0 < at);
            if reading.get(split).is_some_and(|r| r.0 == at) {
                continue;
            }
            let most = |some: &[(usize, u64)]| some.iter().map(|r| r.1).max().unwrap_or(0);
            // what is in both: all but what is not in one of them
            let elements = made.map_or(all, |made| {
                let before = made.max(most(&reading[..split]));
                (before + most(&reading[split..])).saturating_sub(all)
            });
            let bytes = elements.saturating_mul(node.dtype.size() as u64);
            fixed[at] = fixed[at].saturating_add(bytes);
        }
    }
    fixed
}
