//! Strategies in words: what a vertex does, and plans that do one thing everywhere.
//!
//! Words come from structure, never from names. Every index has an [`IndexRole`]: the first axis
//! of an activation input is the batch, the last one of a float input and all axes of weights are
//! features, the others are the sequence. Roles follow indices through the statements; a feature
//! that a contraction of activations keeps on both sides is a head.

use std::fmt;

use super::NodePlan;
use super::cost::placed::Holding;
use crate::ein::access::{AccessMap, AxisAccess};
use crate::ein::{EinSum, LabelId};
use crate::graph::{BoundGraph, Node, NodeId, Op, Role};

/// What an index is to a model. The first of several wins.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum IndexRole {
    /// Examples that do not see each other.
    Batch,
    /// Positions.
    Sequence,
    /// Features that attention keeps apart.
    Head,
    /// Everything else.
    Feature,
}

/// The role of every label of every vertex; of every axis of every input.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Roles(Vec<Vec<IndexRole>>);

impl Roles {
    /// Of a graph.
    pub fn of(graph: &BoundGraph) -> Roles {
        // per tensor, per axis
        let mut axes: Vec<Vec<IndexRole>> = Vec::new();
        let mut labels = Vec::new();
        for node in graph.nodes() {
            match &node.op {
                Op::Input(role) => {
                    let roles = input_roles(node, *role);
                    labels.push(roles.clone());
                    axes.push(roles);
                }
                Op::EinSum(e) => {
                    let roles = label_roles(graph, e, &axes);
                    let first = |axis: &Vec<LabelId>| {
                        axis.first().map_or(IndexRole::Feature, |l| roles[l.at()])
                    };
                    axes.push(e.out.iter().map(first).collect());
                    labels.push(roles);
                }
            }
        }
        Roles(labels)
    }

    /// Of the labels of a vertex, in label order.
    pub fn labels(&self, node: NodeId) -> &[IndexRole] {
        &self.0[node.at()]
    }
}

fn input_roles(node: &Node, role: Role) -> Vec<IndexRole> {
    let rank = node.shape.len();
    let of = |axis| match axis {
        _ if role == Role::Weight => IndexRole::Feature,
        0 => IndexRole::Batch,
        _ if axis + 1 == rank && node.dtype.is_float() => IndexRole::Feature,
        _ => IndexRole::Sequence,
    };
    (0..rank).map(of).collect()
}

fn is_weight(graph: &BoundGraph, node: NodeId) -> bool {
    graph.node(node).role() == Some(Role::Weight)
}

/// The label that an axis is cut by: the one that moves what is read most, as the slowest of a
/// merged axis; an output label before a reduced one.
fn cut_by(access: &AxisAccess) -> Option<LabelId> {
    access.labels().next().map(|l| LabelId(l as u16))
}

fn label_roles(graph: &BoundGraph, e: &EinSum, axes: &[Vec<IndexRole>]) -> Vec<IndexRole> {
    let mut roles = vec![IndexRole::Feature; e.labels.len()];
    for operand in &e.operands {
        for (access, &role) in AccessMap::of(operand)
            .axes
            .iter()
            .zip(&axes[operand.node.at()])
        {
            if let Some(l) = cut_by(access) {
                roles[l.at()] = roles[l.at()].min(role);
            }
        }
    }
    let activations = e.operands.iter().filter(|o| !is_weight(graph, o.node));
    let reads: Vec<Vec<LabelId>> = activations
        .map(|o| AccessMap::of(o).axes.iter().filter_map(cut_by).collect())
        .collect();
    if e.reduce.is_some() && reads.len() > 1 {
        for l in e.out.iter().flatten() {
            let feature = roles[l.at()] == IndexRole::Feature;
            if feature && reads.iter().all(|read| read.contains(l)) {
                roles[l.at()] = IndexRole::Head;
            }
        }
    }
    roles
}

/// What one vertex does under a plan: `column-parallel`, `row-parallel, then reduce-scatter`,
/// `data × head-parallel; gathers k v; reshards (result)`, `spatial-parallel; exchanges halos of u`.
/// Empty for an input.
pub fn words(
    graph: &BoundGraph,
    roles: &Roles,
    devices: u32,
    nodes: &[NodePlan],
    node: NodeId,
) -> String {
    let (Some(e), Some(join)) = (graph.node(node).einsum(), &nodes[node.at()].join) else {
        return String::new();
    };
    let mut ways: Vec<&str> = Vec::new();
    for (at, _) in join.parts.iter().enumerate().filter(|&(_, &d)| d > 1) {
        let way = way(graph, node, e, LabelId(at as u16), roles.labels(node)[at]);
        if !ways.contains(&way) {
            ways.push(way);
        }
    }
    let mut text = match ways.as_slice() {
        [] => "on one device".into(),
        ways => format!("{}-parallel", ways.join(" × ")),
    };
    let outputs: usize = e.out.iter().map(Vec::len).sum();
    let tiles: u32 = join.parts[..outputs].iter().product();
    if tiles < join.tiles() as u32 {
        let owners = nodes[node.at()].owner.as_ref().map_or(1, |o| o.tiles());
        text += match owners > tiles as usize {
            true => ", then reduce-scatter",
            false => ", then reduce",
        };
    }
    let fetched = fetches(graph, devices, nodes, node);
    let verbs = [
        ("gathers", Fetch::Gather),
        ("exchanges halos of", Fetch::Halo),
        ("reshards", Fetch::Reshard),
    ];
    for (verb, kind) in verbs {
        let some = fetched.iter().filter(|f| f.1 == kind);
        let mut names: Vec<&str> = some.map(|f| &*graph.node(f.0).name).collect();
        if kind == Fetch::Reshard && hands_over(graph, devices, nodes, node) {
            names.push("(result)");
        }
        if !names.is_empty() {
            text += &format!("; {verb} {}", names.join(" "));
        }
    }
    text
}

/// Is the finished result moved to other owners?
fn hands_over(graph: &BoundGraph, devices: u32, nodes: &[NodePlan], node: NodeId) -> bool {
    let plan = &nodes[node.at()];
    let (Some(e), Some(join), Some(owner)) = (graph.node(node).einsum(), &plan.join, &plan.owner)
    else {
        return false;
    };
    let outputs: usize = e.out.iter().map(Vec::len).sum();
    let made = Holding::outputs(e, join, graph.label_extents(node), devices);
    join.parts[outputs..].iter().all(|&d| d == 1)
        && made.beyond(&Holding::tiles(owner, graph.shape(node), devices)) > 0
}

fn way(
    graph: &BoundGraph,
    node: NodeId,
    e: &EinSum,
    label: LabelId,
    role: IndexRole,
) -> &'static str {
    let reads = |o: &crate::ein::Operand| {
        let axes = AccessMap::of(o).axes;
        axes.iter().any(|a| cut_by(a) == Some(label))
    };
    let weight = e
        .operands
        .iter()
        .any(|o| is_weight(graph, o.node) && reads(o));
    let extents = graph.label_extents(node);
    let window = (e.operands.iter().flat_map(|o| AccessMap::of(o).axes))
        .any(|a| a.is_window(extents) && cut_by(&a) == Some(label));
    match (role, e.is_output(label), weight) {
        (IndexRole::Batch | IndexRole::Feature, true, _) if window => "spatial",
        (_, false, true) => "row",
        (_, false, false) => "contraction",
        (IndexRole::Batch, ..) => "data",
        (IndexRole::Sequence, ..) => "sequence",
        (IndexRole::Head, ..) => "head",
        (IndexRole::Feature, _, true) if e.reduce.is_some() => "column",
        (IndexRole::Feature, ..) => "feature",
    }
}

/// How devices get what they read and do not own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Fetch {
    /// Each element goes to one device.
    Reshard,
    /// The surroundings of what a device owns: windows, and neighbours of points.
    Halo,
    /// Some element goes to several devices.
    Gather,
}

/// Owned operands of which some device reads what it does not own.
fn fetches(
    graph: &BoundGraph,
    devices: u32,
    nodes: &[NodePlan],
    node: NodeId,
) -> Vec<(NodeId, Fetch)> {
    let mut found: Vec<(NodeId, Fetch)> = Vec::new();
    let (Some(e), Some(join)) = (graph.node(node).einsum(), &nodes[node.at()].join) else {
        return found;
    };
    for operand in &e.operands {
        let Some(owner) = &nodes[operand.node.at()].owner else {
            continue;
        };
        let shape = graph.shape(operand.node);
        let extents = graph.label_extents(node);
        let access = AccessMap::of(operand);
        let need = Holding::footprints(&access, join, extents, shape, devices);
        let lacking = need.beyond(&Holding::tiles(owner, shape, devices));
        if lacking > 0 {
            let window = access.axes.iter().any(|a| a.is_window(extents));
            let fetch = if window && lacking <= need.elements() / 2 {
                Fetch::Halo
            } else if need.elements() > graph.elements(operand.node) as u128 {
                Fetch::Gather
            } else {
                Fetch::Reshard
            };
            match found.iter_mut().find(|f| f.0 == operand.node) {
                Some(f) => f.1 = f.1.max(fetch),
                None => found.push((operand.node, fetch)),
            }
        }
    }
    found
}

/// A plan that splits one kind of index wherever it can.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Strategy {
    /// Batch indices.
    Data,
    /// Sequence indices.
    Sequence,
    /// Heads in attention, sequences elsewhere (Ulysses, arXiv 2309.14509).
    Heads,
    /// Features and heads (Megatron, arXiv 1909.08053).
    Tensor,
    /// Two indices of every result (SUMMA).
    Grid2,
    /// Two indices of the result of every contraction, and reduced ones (3-D matrix products).
    Grid3,
}

impl Strategy {
    /// Every one.
    pub const ALL: [Strategy; 6] = [
        Strategy::Data,
        Strategy::Sequence,
        Strategy::Heads,
        Strategy::Tensor,
        Strategy::Grid2,
        Strategy::Grid3,
    ];

    /// Does the partition vector of a vertex split as the strategy does?
    pub fn keeps(self, graph: &BoundGraph, roles: &Roles, node: NodeId, d: &[u32]) -> bool {
        let Some(e) = graph.node(node).einsum() else {
            return false;
        };
        let split: Vec<usize> = (0..d.len()).filter(|&l| d[l] > 1).collect();
        let roles = roles.labels(node);
        let all = |these: &[IndexRole]| split.iter().all(|&l| these.contains(&roles[l]));
        let outputs = |&&l: &&usize| e.is_output(LabelId(l as u16));
        let made = split.iter().filter(outputs).count();
        let contraction = e.reduce.is_some() && e.operands.len() > 1;
        !split.is_empty()
            && match self {
                Strategy::Data => all(&[IndexRole::Batch]),
                Strategy::Sequence => all(&[IndexRole::Sequence]),
                Strategy::Heads => all(&[IndexRole::Head]) || all(&[IndexRole::Sequence]),
                Strategy::Tensor => all(&[IndexRole::Head, IndexRole::Feature]),
                Strategy::Grid2 => split.len() == 2 && made == 2,
                Strategy::Grid3 => contraction && made == 2 && split.len() > 2,
            }
    }

    /// The first strategy that every split statement of a plan follows; under
    /// [`Strategy::Grid3`], every contraction does.
    pub fn followed(graph: &BoundGraph, roles: &Roles, nodes: &[NodePlan]) -> Option<Strategy> {
        let split = |strategy: Strategy| {
            let joins = graph.ids().zip(nodes);
            joins.filter_map(move |((node, vertex), plan)| {
                let (e, join) = (vertex.einsum()?, plan.join.as_ref()?);
                let counts =
                    strategy != Strategy::Grid3 || (e.reduce.is_some() && e.operands.len() > 1);
                (join.tiles() > 1 && counts).then_some((node, &join.parts))
            })
        };
        let follows = |s: &Strategy| {
            split(*s).next().is_some() && split(*s).all(|(node, d)| s.keeps(graph, roles, node, d))
        };
        Strategy::ALL.into_iter().find(follows)
    }
}

impl fmt::Display for Strategy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Strategy::Data => "data",
            Strategy::Sequence => "sequence",
            Strategy::Heads => "heads",
            Strategy::Tensor => "tensor",
            Strategy::Grid2 => "2-D",
            Strategy::Grid3 => "3-D",
        })
    }
}
