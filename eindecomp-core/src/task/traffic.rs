//! Bytes that a placement moves, counted without building tasks. What one tensor's readers fetch depends on
//! kinds of nodes ([`BoundGraph::kinds`]) and layouts alone: repeated layers are counted once.

use std::collections::BTreeMap;
use std::ops::Range;
use std::rc::Rc;

use super::exchange::{Held, Join, Tuple, homes, overlaps};
use crate::ein::einsum::Part;
use crate::graph::{BoundGraph, NodeId};
use crate::plan::cluster::{Hierarchy, LinkClass};
use crate::plan::layout::Numbered;
use crate::plan::verify::{InvalidPlan, numbered};
use crate::plan::{Layout, NodePlan};
use crate::quick::Table;

/// Bytes that Moves copy, per ordered pair (sender, receiver) of different devices.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    bytes: BTreeMap<(u32, u32), u64>,
}

/// What counts Moves.
pub(crate) trait Count: Clone + Default {
    /// Counts one Move; nothing if it is empty or stays on its device.
    fn count(&mut self, on: Hierarchy, from: u32, to: u32, bytes: u64);
}

impl Count for Traffic {
    fn count(&mut self, _: Hierarchy, from: u32, to: u32, bytes: u64) {
        self.add(from, to, bytes);
    }
}

impl Count for Bytes {
    fn count(&mut self, on: Hierarchy, from: u32, to: u32, bytes: u64) {
        if from != to {
            self.moved += u128::from(bytes);
            self.weighted += on.weighted(from, to, bytes);
        }
    }
}

impl Traffic {
    /// Counts one Move; nothing if it is empty or stays on its device.
    pub fn add(&mut self, from: u32, to: u32, bytes: u64) {
        if from != to && bytes > 0 {
            *self.bytes.entry((from, to)).or_default() += bytes;
        }
    }

    /// Counts all of `other` too.
    pub fn merge(&mut self, other: &Traffic) {
        for (from, to, bytes) in other.iter() {
            self.add(from, to, bytes);
        }
    }

    /// Sender, receiver and bytes, of every pair with traffic, in order.
    pub fn iter(&self) -> impl Iterator<Item = (u32, u32, u64)> {
        self.bytes.iter().map(|(&(from, to), &b)| (from, to, b))
    }

    /// Bytes from one device to another.
    pub fn between(&self, from: u32, to: u32) -> u64 {
        self.bytes.get(&(from, to)).copied().unwrap_or(0)
    }

    /// All bytes.
    pub fn total(&self) -> u128 {
        self.bytes.values().map(|&b| b as u128).sum()
    }

    /// Bytes over links of one class.
    pub fn of_class(&self, hierarchy: Hierarchy, class: LinkClass) -> u128 {
        let crosses = |&(from, to, _): &(u32, u32, u64)| hierarchy.class(from, to) == class;
        let bytes = self
            .iter()
            .filter(crosses)
            .map(|(_, _, bytes)| u128::from(bytes));
        bytes.sum()
    }

    /// All bytes, those between servers times their weight: what plans minimise.
    pub fn weighted(&self, hierarchy: Hierarchy) -> u128 {
        let all = self.iter();
        all.map(|(from, to, bytes)| hierarchy.weighted(from, to, bytes))
            .sum()
    }
}

/// [`Traffic`] of a node in two numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Bytes {
    /// All bytes.
    pub moved: u128,
    /// Those between servers times their weight.
    pub weighted: u128,
}

/// Bytes that every Move of one run copies.
///
/// # Errors
/// The first rule of [`structure`](crate::plan::verify::structure) that `nodes` breaks.
pub fn moved_bytes(
    graph: &BoundGraph,
    hierarchy: impl Into<Hierarchy>,
    nodes: &[NodePlan],
) -> Result<Traffic, InvalidPlan> {
    let mut all = Traffic::default();
    let counts = &mut Counts::default();
    each(
        graph,
        hierarchy.into(),
        nodes,
        counts,
        |step: Step<&Traffic>| all.merge(step.found),
    )?;
    Ok(all)
}

/// The same per node: what its operands and partials move when it runs. A box that an earlier
/// vertex brought to the device is not counted again.
///
/// # Errors
/// The first rule of [`structure`](crate::plan::verify::structure) that `nodes` breaks.
pub fn traffic(
    graph: &BoundGraph,
    hierarchy: impl Into<Hierarchy>,
    nodes: &[NodePlan],
) -> Result<Vec<Traffic>, InvalidPlan> {
    let mut all = vec![Traffic::default(); nodes.len()];
    let counts = &mut Counts::default();
    each(
        graph,
        hierarchy.into(),
        nodes,
        counts,
        |step: Step<&Traffic>| {
            all[step.vertex.at()].merge(step.found);
        },
    )?;
    Ok(all)
}

/// The same in two numbers.
///
/// # Errors
/// The first rule of [`structure`](crate::plan::verify::structure) that `nodes` breaks.
pub fn bytes(
    graph: &BoundGraph,
    hierarchy: Hierarchy,
    nodes: &[NodePlan],
) -> Result<Vec<Bytes>, InvalidPlan> {
    bytes_with(graph, hierarchy, nodes, &mut Counts::default())
}

/// The same, with counts of other placements.
pub(crate) fn bytes_with(
    graph: &BoundGraph,
    hierarchy: Hierarchy,
    nodes: &[NodePlan],
    counts: &mut Counts<Bytes>,
) -> Result<Vec<Bytes>, InvalidPlan> {
    let mut all = vec![Bytes::default(); nodes.len()];
    each(graph, hierarchy, nodes, counts, |step: Step<&Bytes>| {
        let here = &mut all[step.vertex.at()];
        here.moved += step.found.moved;
        here.weighted += step.found.weighted;
    })?;
    Ok(all)
}

/// What moves for one reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step<T = Traffic> {
    /// The vertex that runs, or the last version of a state that goes home.
    pub vertex: NodeId,
    /// What it reads; the vertex itself where results go to their owners.
    pub tensor: NodeId,
    /// What moves.
    pub found: T,
}

/// The same per vertex and tensor: operands that it fetches, results that go to their owners; in the
/// order of tensors, those that move something.
///
/// # Errors
/// The first rule of [`structure`](crate::plan::verify::structure) that `nodes` breaks.
pub fn steps(
    graph: &BoundGraph,
    hierarchy: impl Into<Hierarchy>,
    nodes: &[NodePlan],
) -> Result<Vec<Step>, InvalidPlan> {
    let mut all = Vec::new();
    let counts = &mut Counts::default();
    each(
        graph,
        hierarchy.into(),
        nodes,
        counts,
        |step: Step<&Traffic>| {
            if step.found.total() > 0 {
                all.push(Step {
                    vertex: step.vertex,
                    tensor: step.tensor,
                    found: step.found.clone(),
                });
            }
        },
    )?;
    Ok(all)
}

/// No layout.
const NONE: u32 = u32::MAX;

/// A join with its tuples.
type Made<'a> = Rc<(Join<'a>, Vec<Tuple>)>;

/// A vertex and the operands of it that are one tensor.
struct Reader {
    vertex: NodeId,
    operands: Range<usize>,
}

/// Who reads each tensor.
struct Readers {
    /// By tensor, in graph order.
    all: Vec<Reader>,
    /// Per tensor, which of them.
    of: Vec<Range<usize>>,
    /// Numbers of operands.
    operands: Vec<u32>,
}

impl Readers {
    fn of(graph: &BoundGraph) -> Readers {
        let read = |node: NodeId| graph.node(node).einsum().map_or(&[][..], |e| &e.operands);
        let vertices = || graph.ids().map(|(vertex, _)| vertex);
        // where the reads of each tensor begin, those of a tensor in graph order
        let mut next = vec![0; graph.nodes().len() + 1];
        for operand in vertices().flat_map(read) {
            next[operand.node.at() + 1] += 1;
        }
        for tensor in 1..next.len() {
            next[tensor] += next[tensor - 1];
        }
        let ends = next.clone();
        let mut reads = vec![(NodeId(0), 0); ends[graph.nodes().len()]];
        for vertex in vertices() {
            for (n, operand) in read(vertex).iter().enumerate() {
                let at = &mut next[operand.node.at()];
                reads[*at] = (vertex, n as u32);
                *at += 1;
            }
        }
        let mut all: Vec<Reader> = Vec::with_capacity(reads.len());
        let of = ends.windows(2).map(|ends| {
            let first = all.len();
            let mut from = ends[0];
            for operands in reads[ends[0]..ends[1]].chunk_by(|a, b| a.0 == b.0) {
                all.push(Reader {
                    vertex: operands[0].0,
                    operands: from..from + operands.len(),
                });
                from += operands.len();
            }
            first..all.len()
        });
        let of = of.collect();
        let operands = reads.into_iter().map(|(_, n)| n).collect();
        Readers { all, of, operands }
    }
}

/// What was counted, by kinds of nodes and layouts.
pub(crate) struct Counts<T> {
    /// The layouts of all placements by number, if there are several.
    layouts: Option<Table<Layout, u32>>,
    sent: Table<[u32; 3], T>,
    fetched: Table<Vec<u32>, Rc<[T]>>,
}

/// Of one placement.
impl<T> Default for Counts<T> {
    fn default() -> Counts<T> {
        Counts {
            layouts: None,
            sent: Table::default(),
            fetched: Table::default(),
        }
    }
}

impl<T> Counts<T> {
    /// Of several placements of one graph on the same devices.
    #[cfg(feature = "planner")]
    pub fn kept() -> Counts<T> {
        Counts {
            layouts: Some(Table::default()),
            ..Counts::default()
        }
    }

    /// Numbers that equal layouts of other placements have too.
    fn numbers(&mut self, nodes: &[NodePlan], mut of: Numbered) -> Numbered {
        let Some(known) = &mut self.layouts else {
            return of;
        };
        let mut numbers: Table<u32, u32> = Table::default();
        for (at, node) in nodes.iter().enumerate() {
            for (layout, number) in [
                (&node.join, &mut of.joins[at]),
                (&node.owner, &mut of.owners[at]),
            ] {
                let (Some(layout), Some(number)) = (layout.as_deref(), number) else {
                    continue;
                };
                let known = || match known.get(layout) {
                    Some(&known) => known,
                    None => {
                        let next = known.len() as u32;
                        known.insert(layout.clone(), next);
                        next
                    }
                };
                *number = *numbers.entry(*number).or_insert_with(known);
            }
        }
        of
    }
}

/// Tells every step to `found`.
pub(crate) fn each<T: Count>(
    graph: &BoundGraph,
    hierarchy: Hierarchy,
    nodes: &[NodePlan],
    counts: &mut Counts<T>,
    mut found: impl FnMut(Step<&T>),
) -> Result<(), InvalidPlan> {
    let layouts = numbered(graph, hierarchy.devices(), nodes)?;
    let layouts = counts.numbers(nodes, layouts);
    let (kinds, readers) = (graph.kinds(), Readers::of(graph));
    let mut states: Vec<Option<NodeId>> = vec![None; nodes.len()];
    for (state, last) in graph.states().filter(|(state, last)| state != last) {
        states[last.at()] = Some(state);
    }
    let number = |layout: Option<u32>| layout.unwrap_or(NONE);
    let mut joins: Table<[u32; 2], Option<Made<'_>>> = Table::default();
    let mut made = |node: NodeId| {
        let key = [kinds[node.at()], number(layouts.joins[node.at()])];
        let make = || {
            let join = Join::of(graph, nodes, node)?;
            let tuples = join.tuples();
            Some(Rc::new((join, tuples)))
        };
        joins.entry(key).or_insert_with(make).clone()
    };
    let mut key = Vec::new();
    for (tensor, _) in graph.ids() {
        let at = tensor.at();
        let (kind, owner) = (kinds[at], number(layouts.owners[at]));
        if let Some(join) = layouts.joins[at] {
            let sent = counts.sent.entry([kind, join, owner]).or_insert_with(|| {
                let sent = made(tensor).map(|made| sent(graph, hierarchy, nodes, tensor, &made));
                sent.unwrap_or_default()
            });
            found(Step {
                vertex: tensor,
                tensor,
                found: sent,
            });
        }
        let (state, read) = (states[at], &readers.all[readers.of[at].clone()]);
        if owner == NONE || (read.is_empty() && state.is_none()) {
            continue;
        }
        key.clear();
        let home = state.map(|state| number(layouts.owners[state.at()]));
        key.extend([kind, owner, home.unwrap_or(NONE)]);
        for reader in read {
            let (at, operands) = (
                reader.vertex.at(),
                &readers.operands[reader.operands.clone()],
            );
            key.extend([kinds[at], number(layouts.joins[at]), operands.len() as u32]);
            key.extend(operands);
        }
        let counted = match counts.fetched.get(&key) {
            Some(known) => known.clone(),
            None => {
                let mut held = owned(graph, hierarchy, nodes, tensor);
                let mut all: Vec<T> = Vec::with_capacity(read.len() + 1);
                for reader in read {
                    let operands = &readers.operands[reader.operands.clone()];
                    let mut here = T::default();
                    if let Some((join, tuples)) = made(reader.vertex).as_deref() {
                        for tuple in tuples {
                            for &operand in operands {
                                let want = join.read(operand as usize, tuple, graph.shape(tensor));
                                held.fetch(graph, nodes, tensor, tuple.device, want, &mut here);
                            }
                        }
                    }
                    all.push(here);
                }
                if state.is_some() {
                    let mut here = T::default();
                    let homes = homes(graph, nodes).filter(|(last, ..)| *last == tensor);
                    for (_, device, want) in homes {
                        held.fetch(graph, nodes, tensor, device, want, &mut here);
                    }
                    all.push(here);
                }
                let all: Rc<[T]> = all.into();
                counts.fetched.insert(key.clone(), all.clone());
                all
            }
        };
        let vertices = read.iter().map(|r| r.vertex).chain(state.map(|_| tensor));
        for (vertex, found_here) in vertices.zip(counted.iter()) {
            found(Step {
                vertex,
                tensor,
                found: found_here,
            });
        }
    }
    Ok(())
}

/// The tiles of a tensor where they are owned.
fn owned(graph: &BoundGraph, on: Hierarchy, nodes: &[NodePlan], tensor: NodeId) -> Held<()> {
    let mut held = Held::new(on);
    let owner = nodes[tensor.at()].owner.iter();
    for (tile, device) in owner.flat_map(|o| o.iter(graph.shape(tensor))) {
        held.push(tensor, device, tile, ());
    }
    held
}

/// What the tuples of a vertex send to the owners of their results.
fn sent<T: Count>(
    graph: &BoundGraph,
    on: Hierarchy,
    nodes: &[NodePlan],
    node: NodeId,
    (join, tuples): &(Join<'_>, Vec<Tuple>),
) -> T {
    let mut traffic = T::default();
    let Some(owner) = &nodes[node.at()].owner else {
        return traffic;
    };
    for group in tuples.chunks(join.folds()) {
        for (tile, piece) in overlaps(owner, graph.shape(node), &group[0].output) {
            let bytes = |p: &Part| p.region(&piece).volume() * p.dtype.size();
            let bytes: usize = join.parts().iter().map(bytes).sum();
            for tuple in group {
                traffic.count(on, tuple.device, owner.devices[tile], bytes as u64);
            }
        }
    }
    traffic
}
