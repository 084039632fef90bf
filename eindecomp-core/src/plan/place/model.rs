//! The labelling problem of `placed`: which variables there are, and what each pair costs.
//!
//! * `J_v`: how a vertex's join is cut (one block per device, of one tuple or so many as are asked for);
//! * `O_T`: how a tensor's single copy is cut, unless the join's own tiles are one already:
//!   then moving a tile away from where it is made never pays (what a reader lacks beyond the
//!   maker's tile is at most what it lacks beyond the owner's and the owner's beyond the maker's);
//! * `R_T`: what each device holds of a tensor with several readers, so that a box which two of
//!   them need on one device is fetched once.
//!
//! Costs are bytes; ties break by bytes loaded and held, then by the size of the largest tuple.
//! Both follow from vectors alone, as does which variables and edges there are.

use std::collections::BTreeSet;
use std::rc::Rc;
use std::sync::Arc;

use super::kind::Kind;
use super::spread::{Spread, Vector};
use super::values::{List, Lists};
use crate::graph::NodeId;
use crate::plan::room::{Blocks, Room};
use crate::plan::search::VarId;
use crate::plan::{Hierarchy, Layout, NodePlan};
use crate::quick::Table;

/// A predicate that keeps some partition vectors of a join; where it keeps none, all stay.
pub(crate) type Keep<'a> = &'a dyn Fn(NodeId, &[u32]) -> bool;

/// The label of a space that cuts each axis of a tensor; `None`: the space is the tensor's.
pub(super) type Cuts = Option<Rc<Vec<Option<usize>>>>;

/// A variable.
pub(super) struct Variable {
    /// The vertex, if it is a join.
    pub join: Option<NodeId>,
    /// Its vectors.
    pub domain: Rc<List<Vector>>,
    /// Per vector: what breaks ties.
    pub ties: Rc<Vec<u64>>,
    /// What a pin leaves.
    pub fixed: Option<Spread>,
}

/// Where a tensor is found: a variable, and how its space cuts the tensor.
#[derive(Clone)]
pub(super) struct Source {
    pub variable: VarId,
    pub cuts: Cuts,
    /// How many find it there, if each of them counts for that part of the most.
    pub among: u64,
}

/// Bytes that the needs of one variable lack beyond what another one has.
pub(super) struct Edge {
    pub need: VarId,
    pub have: VarId,
    /// Position in [`Model::kinds`].
    pub kind: usize,
}

/// A kind, and how it sees its variables.
pub(super) struct Seen {
    pub kind: Kind,
    /// Per label of the need's space: does it matter?
    pub need: Vec<bool>,
    /// How the have's space cuts the tensor.
    pub have: Cuts,
    /// Of so many needs, of which the largest counts: a part each.
    pub among: u64,
}

impl Seen {
    /// Does a vector of the need's space, or of the have's, cut what is read in even parts?
    pub fn is_even(&self, vector: &Vector, need: bool) -> bool {
        let even = |(parts, extent): (&u32, &usize)| extent.is_multiple_of(*parts as usize);
        match (need, &self.have) {
            (true, _) => vector.parts.iter().zip(&self.kind.extents).all(even),
            (false, Some(cuts)) => vector
                .through(cuts)
                .parts
                .iter()
                .zip(&self.kind.shape)
                .all(even),
            (false, None) => vector.parts.iter().zip(&self.kind.shape).all(even),
        }
    }
}

/// What a plan's entry is read from.
#[derive(Default)]
pub(super) struct Entry {
    pub join: Option<VarId>,
    /// How a block of the join is cut, if it is.
    pub cut: Option<Cut>,
    /// `None` for weights that each device keeps.
    pub owner: Option<Source>,
}

/// How the blocks of a join are cut in calls.
pub(super) struct Cut {
    pub room: Room,
    pub of: Blocks,
    /// Number of labels of the output.
    pub outputs: usize,
}

/// The variables and edges of a graph, and how assignments are read.
pub(super) struct Model {
    pub on: Hierarchy,
    pub variables: Vec<Variable>,
    pub edges: Vec<Edge>,
    pub kinds: Vec<Seen>,
    pub vectors: Lists<Vector>,
    pub entries: Vec<Entry>,
    /// One byte moved costs this much; what is below breaks ties.
    pub unit: u64,
    /// What ties are divided by.
    pub shrink: u64,
}

impl Model {
    /// The whole domain of every variable.
    pub fn domains(&self) -> Vec<Rc<List<Vector>>> {
        self.variables.iter().map(|v| v.domain.clone()).collect()
    }

    /// The domains that a predicate leaves, and whether it kept a vector of some vertex.
    pub fn kept(&mut self, keep: Keep<'_>) -> (Vec<Rc<List<Vector>>>, bool) {
        let mut some = false;
        let mut domains = self.domains();
        for (domain, variable) in domains.iter_mut().zip(&self.variables) {
            let Some(node) = variable.join else { continue };
            let all = domain.all.iter();
            let kept: Vec<&Vector> = all.filter(|v| keep(node, &v.parts)).collect();
            some |= !kept.is_empty();
            if !kept.is_empty() && kept.len() < domain.all.len() {
                *domain = self.vectors.intern(kept.into_iter().cloned().collect());
            }
        }
        (domains, some)
    }

    /// Every assignment of axes to a vector of a variable that its pin leaves.
    pub fn spreads(&self, v: usize, vector: &Vector) -> Vec<Spread> {
        match &self.variables[v].fixed {
            Some(fixed) => vec![fixed.clone()],
            None => vector.spreads(),
        }
    }

    /// What a value of a variable adds to the cost.
    pub fn tie(&self, v: VarId, vector: &Vector) -> u64 {
        let variable = &self.variables[v.at()];
        variable
            .domain
            .at(vector)
            .map_or(0, |at| variable.ties[at] / self.shrink)
    }

    /// In how many calls a block of a vertex is cut.
    pub fn calls(&self, vertex: NodeId) -> u64 {
        let cut = self.entries[vertex.at()].cut.as_ref();
        cut.map_or(1, |c| c.of.calls.into())
    }

    /// Is it a weight that each device keeps as it reads it?
    pub fn is_kept(&self, tensor: NodeId) -> bool {
        self.entries[tensor.at()].owner.is_none()
    }

    /// Bytes of a cost of the problem.
    pub fn bytes(&self, cost: u128) -> u128 {
        cost / u128::from(self.unit)
    }

    /// The variables that plan entries are read from, ascending.
    pub fn read_from(&self) -> Vec<usize> {
        let of = |e: &Entry| [e.join, e.owner.as_ref().map(|o| o.variable)];
        let all = self.entries.iter().flat_map(of).flatten();
        let all: BTreeSet<usize> = all.map(VarId::at).collect();
        all.into_iter().collect()
    }

    /// The plan entries of an assignment; their costs are still 0.
    pub fn read(&self, assignment: &[Spread]) -> Vec<NodePlan> {
        // equal layouts are one
        let mut known: Table<Spread, Arc<Layout>> = Table::default();
        let mut layout = |spread: &Spread, cuts: &Cuts| {
            let spread = match cuts {
                Some(cuts) => spread.through(cuts),
                None => spread.clone(),
            };
            let made = known.entry(spread);
            made.or_insert_with_key(|s| s.layout().into()).clone()
        };
        let entry = |e: &Entry| NodePlan {
            join: e.join.map(|j| {
                let spread = &assignment[j.at()];
                let blocks = layout(spread, &None);
                match &e.cut {
                    Some(cut) => {
                        let parts = &spread.vector.parts;
                        let calls = cut.room.calls(cut.of, parts, cut.outputs);
                        blocks.cut(&calls).into()
                    }
                    None => blocks,
                }
            }),
            owner: (e.owner.as_ref()).map(|o| layout(&assignment[o.variable.at()], &o.cuts)),
            cost: 0,
        };
        self.entries.iter().map(entry).collect()
    }
}
