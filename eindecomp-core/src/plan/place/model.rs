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

use std::collections::{HashMap, HashSet};
use std::rc::Rc;

use super::kind::{Kind, saturate};
use super::spread::{Spread, Vector, joins, owner, owners, replicas};
use super::values::{List, Lists};
use crate::ein::access::{AccessMap, AxisAccess};
use crate::ein::einsum::Part;
use crate::ein::{DType, EinSum, LabelId};
use crate::graph::{BoundGraph, Node, NodeId, Op, Pin, Role};
use crate::plan::partition::{no_label, no_room};
use crate::plan::planner::PlanError;
use crate::plan::room::{Blocks, Room};
use crate::plan::search::VarId;
use crate::plan::{Constraints, Hierarchy, NodePlan, PlanOptions, Residency};

/// A predicate that keeps some partition vectors of a join; where it keeps none, all stay.
pub(crate) type Keep<'a> = &'a dyn Fn(NodeId, &[u32]) -> bool;

/// The label of a space that cuts each axis of a tensor; `None`: the space is the tensor's.
type Cuts = Option<Rc<Vec<Option<usize>>>>;

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
struct Source {
    variable: VarId,
    cuts: Cuts,
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
}

/// What a plan's entry is read from.
#[derive(Default)]
struct Entry {
    join: Option<VarId>,
    /// How a block of the join is cut, if it is.
    cut: Option<Cut>,
    /// `None` for weights that each device keeps.
    owner: Option<Source>,
}

/// How the blocks of a join are cut in calls.
struct Cut {
    room: Room,
    of: Blocks,
    /// Number of labels of the output.
    outputs: usize,
}

/// What a model depends on beside its graph and its devices.
#[derive(Clone, Copy)]
pub(crate) struct Rules<'a> {
    pub residency: Residency,
    pub constraints: Constraints,
    /// The vectors of all joins, if these are decided.
    pub vectors: Option<&'a [Option<Vec<u32>>]>,
}

impl<'a> From<&PlanOptions> for Rules<'a> {
    fn from(options: &PlanOptions) -> Rules<'a> {
        Rules {
            residency: options.residency,
            constraints: options.constraints,
            vectors: None,
        }
    }
}

/// The variables and edges of a graph, and how assignments are read.
pub(super) struct Model {
    pub on: Hierarchy,
    pub variables: Vec<Variable>,
    pub edges: Vec<Edge>,
    pub kinds: Vec<Seen>,
    pub vectors: Lists<Vector>,
    entries: Vec<Entry>,
    /// One byte moved costs this much; what is below breaks ties.
    pub unit: u64,
    /// What ties are divided by.
    shrink: u64,
}

impl Model {
    /// The problem of a graph over some devices.
    ///
    /// # Errors
    /// Pins that cannot be kept.
    pub fn build(graph: &BoundGraph, on: Hierarchy, rules: Rules<'_>) -> Result<Model, PlanError> {
        let mut build = Build {
            graph,
            rules,
            readers: readers(graph),
            numbers: HashMap::new(),
            joins: HashMap::new(),
            owners: HashMap::new(),
            replicas: HashMap::new(),
            ties: HashMap::new(),
            equal: HashMap::new(),
            sources: Vec::new(),
            model: Model {
                on,
                variables: Vec::new(),
                edges: Vec::new(),
                kinds: Vec::new(),
                vectors: Lists::default(),
                entries: Vec::new(),
                unit: 1,
                shrink: 1,
            },
        };
        for (id, node) in graph.ids() {
            let (entry, source) = match &node.op {
                Op::Input(role) => build.input(id, node, *role)?,
                Op::EinSum(e) => build.vertex(id, node, e)?,
            };
            build.model.entries.push(entry);
            build.sources.push(source);
        }
        for (state, last) in graph.states() {
            build.home(state, last);
        }
        Ok(build.finish())
    }

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
            let kept: Vec<Vector> = all.filter(|v| keep(node, &v.parts)).cloned().collect();
            some |= !kept.is_empty();
            if !kept.is_empty() && kept.len() < domain.all.len() {
                *domain = self.vectors.intern(kept);
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

    /// The plan entries of an assignment; their costs are still 0.
    pub fn read(&self, assignment: &[Spread]) -> Vec<NodePlan> {
        let owner = |s: &Source| {
            let spread = &assignment[s.variable.at()];
            match &s.cuts {
                Some(cuts) => spread.through(cuts).layout(),
                None => spread.layout(),
            }
        };
        let join = |e: &Entry, j: VarId| {
            let blocks = assignment[j.at()].layout();
            match &e.cut {
                Some(cut) => blocks.cut(&cut.room.calls(cut.of, &blocks.parts, cut.outputs)),
                None => blocks,
            }
        };
        let entry = |e: &Entry| NodePlan {
            join: e.join.map(|j| join(e, j)),
            owner: e.owner.as_ref().map(owner),
            cost: 0,
        };
        self.entries.iter().map(entry).collect()
    }
}

/// A pin, the parts that it asks for, and the devices.
type OwnerPin<'a> = (&'a Pin, &'a [u32], Option<&'a [u32]>);

/// The pin of a tensor's owner.
fn owner_pin(node: &Node) -> Option<OwnerPin<'_>> {
    node.pins.iter().find_map(|pin| match pin {
        Pin::Owner { parts, devices } => Some((pin, &parts[..], devices.as_deref())),
        _ => None,
    })
}

/// Number of distinct reads of each tensor: an operand that one vertex reads twice in the same way
/// is one; a state reads its last version.
fn readers(graph: &BoundGraph) -> Vec<usize> {
    let mut count = vec![0; graph.nodes().len()];
    for e in graph.nodes().iter().filter_map(Node::einsum) {
        for (tensor, _) in reads(e) {
            count[tensor.at()] += 1;
        }
    }
    for (_, last) in graph.states().filter(|(state, last)| state != last) {
        count[last.at()] += 1;
    }
    count
}

pub(super) fn reads(e: &EinSum) -> Vec<(NodeId, AccessMap)> {
    let mut seen = HashSet::new();
    let all = e.operands.iter().map(|o| (o.node, AccessMap::of(o)));
    all.filter(|read| seen.insert(read.clone())).collect()
}

/// What a tile of the labels makes of the output.
pub(super) fn makes(e: &EinSum, extents: &[usize]) -> AccessMap {
    let axis = |axis: &Vec<LabelId>| {
        let mut step = 1i64;
        let mut terms: Vec<(LabelId, i64)> = Vec::new();
        for &l in axis.iter().rev() {
            terms.push((l, step));
            step = step.saturating_mul(extents[l.at()] as i64);
        }
        match terms.as_slice() {
            &[(l, 1)] => AxisAccess::Bare(l),
            _ => AxisAccess::Affine { terms, offset: 0 },
        }
    };
    AccessMap {
        axes: e.out.iter().map(axis).collect(),
    }
}

/// The tiles themselves.
fn tiles(rank: usize) -> AccessMap {
    let axis = |axis: usize| AxisAccess::Bare(LabelId(axis as u16));
    AccessMap {
        axes: (0..rank).map(axis).collect(),
    }
}

pub(super) fn element(dtype: DType, rank: usize) -> Vec<Part> {
    vec![Part {
        dtype,
        axes: vec![true; rank],
    }]
}

/// What decides the ties of a join: its vectors, extents, and what it reads of kept weights.
type TieKey = (usize, Vec<usize>, Vec<(AccessMap, Vec<usize>, DType)>);

/// The blocks that a room has, and their vectors.
type Joins = (Blocks, Rc<List<Vector>>);

struct Build<'a> {
    graph: &'a BoundGraph,
    rules: Rules<'a>,
    readers: Vec<usize>,
    numbers: HashMap<(Kind, Cuts), usize>,
    joins: HashMap<Room, Option<Joins>>,
    owners: HashMap<Vec<usize>, Rc<List<Vector>>>,
    replicas: HashMap<(usize, Vec<usize>), Rc<List<Vector>>>,
    ties: HashMap<TieKey, Rc<Vec<u64>>>,
    /// Equal ties are one.
    equal: HashMap<Vec<u64>, Rc<Vec<u64>>>,
    sources: Vec<Option<Source>>,
    model: Model,
}

impl Build<'_> {
    fn variable(
        &mut self,
        join: Option<NodeId>,
        domain: Rc<List<Vector>>,
        ties: Rc<Vec<u64>>,
    ) -> VarId {
        let ties = self.equal.entry(ties.to_vec()).or_insert(ties).clone();
        self.model.variables.push(Variable {
            join,
            domain,
            ties,
            fixed: None,
        });
        VarId(self.model.variables.len() as u32 - 1)
    }

    fn edge(&mut self, need: VarId, have: &Source, kind: Kind) {
        let kinds = &mut self.model.kinds;
        let number = *(self.numbers)
            .entry((kind.clone(), have.cuts.clone()))
            .or_insert_with(|| {
                kinds.push(Seen {
                    need: kind.seen(),
                    have: have.cuts.clone(),
                    kind,
                });
                kinds.len() - 1
            });
        self.model.edges.push(Edge {
            need,
            have: have.variable,
            kind: number,
        });
    }

    fn input(
        &mut self,
        id: NodeId,
        node: &Node,
        role: Role,
    ) -> Result<(Entry, Option<Source>), PlanError> {
        let kept = role == Role::Weight && self.rules.residency != Residency::Sharded;
        if kept && owner_pin(node).is_none() {
            return Ok((Entry::default(), None));
        }
        let owner = self.owner(id, node)?;
        let entry = Entry {
            owner: Some(owner.clone()),
            ..Entry::default()
        };
        Ok((entry, Some(self.share(id, owner))))
    }

    fn vertex(
        &mut self,
        id: NodeId,
        node: &Node,
        e: &EinSum,
    ) -> Result<(Entry, Option<Source>), PlanError> {
        let extents = self.graph.label_extents(id).to_vec();
        let (room, of, domain) = self.domain(id, node, e, &extents)?;
        let cut = (of.calls > 1).then(|| Cut {
            room,
            of,
            outputs: e.out.iter().map(Vec::len).sum(),
        });
        let (mut kept, mut fetched) = (Vec::new(), Vec::new());
        for (tensor, access) in reads(e) {
            let (shape, dtype) = (self.graph.shape(tensor), self.graph.node(tensor).dtype);
            match self.sources[tensor.at()].clone() {
                Some(source) => fetched.push((
                    source,
                    Kind {
                        access,
                        extents: extents.clone(),
                        shape: shape.to_vec(),
                        once: element(dtype, shape.len()),
                        folded: Vec::new(),
                    },
                )),
                None => kept.push((access, shape.to_vec(), dtype)),
            }
        }
        let ties = self.join_ties(&domain, &extents, kept);
        let join = self.variable(Some(id), domain.clone(), ties);
        for (source, kind) in fetched {
            self.edge(join, &source, kind);
        }
        let shape = self.graph.shape(id);
        if owner_pin(node).is_none()
            && let Some(cuts) = own_tiles(e, &domain, &extents, shape)
        {
            let own = Source {
                variable: join,
                cuts: Some(Rc::new(cuts)),
            };
            let entry = Entry {
                join: Some(join),
                cut,
                owner: Some(own.clone()),
            };
            return Ok((entry, Some(self.share(id, own))));
        }
        let owner = self.owner(id, node)?;
        let kind = Kind {
            access: makes(e, &extents),
            extents,
            shape: shape.to_vec(),
            once: element(e.dtype, shape.len()),
            folded: e.parts(),
        };
        self.edge(join, &owner, kind);
        let entry = Entry {
            join: Some(join),
            cut,
            owner: Some(owner.clone()),
        };
        Ok((entry, Some(self.share(id, owner))))
    }

    fn domain(
        &mut self,
        id: NodeId,
        node: &Node,
        e: &EinSum,
        extents: &[usize],
    ) -> Result<(Room, Blocks, Rc<List<Vector>>), PlanError> {
        let (on, constraints) = (self.model.on, self.rules.constraints);
        let room = Room::of_vertex(node, e, extents, on.devices(), constraints);
        let mut room = room.map_err(|label| no_label(node, label))?;
        if let Some(Some(vector)) = self.rules.vectors.map(|all| &all[id.at()]) {
            room.exact = vector.iter().map(|&d| Some(d)).collect();
        }
        let lists = &mut self.model.vectors;
        let all = self.joins.entry(room.clone()).or_insert_with_key(|room| {
            let of = room.blocks(on.devices(), constraints)?;
            Some((of, lists.intern(joins(on, room, of))))
        });
        match all.clone() {
            Some((of, all)) => Ok((room, of, all)),
            None => Err(no_room(node, e, extents, on.devices(), constraints)),
        }
    }

    fn join_ties(
        &mut self,
        domain: &Rc<List<Vector>>,
        extents: &[usize],
        kept: Vec<(AccessMap, Vec<usize>, DType)>,
    ) -> Rc<Vec<u64>> {
        let devices = self.model.on.devices();
        let key = (domain.id, extents.to_vec(), kept);
        let make = |(_, extents, kept): &TieKey| {
            let mut ties = excess(&domain.all, extents, devices);
            for (access, shape, dtype) in kept {
                let kind = Kind {
                    access: access.clone(),
                    extents: extents.clone(),
                    shape: shape.clone(),
                    once: element(*dtype, shape.len()),
                    folded: Vec::new(),
                };
                let seen = kind.seen();
                let needs: Vec<Vector> = domain.all.iter().map(|v| v.seen(&seen)).collect();
                for (tie, loaded) in ties.iter_mut().zip(kind.needed(&needs)) {
                    *tie = tie.saturating_add(loaded);
                }
            }
            Rc::new(ties)
        };
        self.ties.entry(key).or_insert_with_key(make).clone()
    }

    /// A variable for the owner of a tensor.
    ///
    /// # Errors
    /// A pin that no layout by device axes keeps.
    fn owner(&mut self, id: NodeId, node: &Node) -> Result<Source, PlanError> {
        let (shape, on) = (self.graph.shape(id), self.model.on);
        let constraints = self.rules.constraints;
        let lists = &mut self.model.vectors;
        let mut fixed = None;
        let domain = match owner_pin(node) {
            Some((pin, parts, devices)) => {
                let room = Room::of_tensor(shape, constraints);
                let large = parts.iter().zip(&room.most).all(|(d, most)| d <= most);
                let vector = owner(on, parts).filter(|_| large && parts.len() == shape.len());
                let misfit = || PlanError::PinOwner {
                    tensor: node.name.clone(),
                    devices: on.devices(),
                    shape: shape.to_vec(),
                    pin: pin.to_string(),
                    constraints,
                };
                let vector = vector.ok_or_else(misfit)?;
                if let Some(devices) = devices {
                    fixed = Some(vector.on(devices).ok_or_else(misfit)?);
                }
                lists.intern(vec![vector])
            }
            None => {
                let make = |shape: &Vec<usize>| lists.intern(owners(on, shape, constraints));
                let known = self.owners.entry(shape.to_vec());
                known.or_insert_with_key(make).clone()
            }
        };
        let ties = Rc::new(excess(&domain.all, shape, on.devices()));
        let variable = self.variable(None, domain, ties);
        self.model.variables[variable.at()].fixed = fixed;
        Ok(Source {
            variable,
            cuts: None,
        })
    }

    /// The owners of a state get its last version at the end of a run.
    fn home(&mut self, state: NodeId, last: NodeId) {
        let owner = self.model.entries[state.at()].owner.clone();
        let have = self.sources[last.at()].clone();
        let (Some(owner), Some(have), false) = (owner, have, state == last) else {
            return;
        };
        let kind = self.copies(state);
        self.edge(owner.variable, &have, kind);
    }

    /// Needs the tiles of a tensor.
    fn copies(&self, id: NodeId) -> Kind {
        let shape = self.graph.shape(id);
        Kind {
            access: tiles(shape.len()),
            extents: shape.to_vec(),
            shape: shape.to_vec(),
            once: element(self.graph.node(id).dtype, shape.len()),
            folded: Vec::new(),
        }
    }

    /// A variable for the replicas of a tensor with several readers.
    fn share(&mut self, id: NodeId, owner: Source) -> Source {
        if self.readers[id.at()] < 2 {
            return owner;
        }
        let (shape, on) = (self.graph.shape(id), self.model.on);
        let lists = &mut self.model.vectors;
        let own = &self.model.variables[owner.variable.at()].domain;
        let key = (own.id, shape.to_vec());
        let domain = self.replicas.entry(key).or_insert_with(|| {
            let own = own.all.iter().map(|v| match &owner.cuts {
                Some(cuts) => v.through(cuts),
                None => v.clone(),
            });
            lists.intern(replicas(on, shape, &own.collect::<Vec<_>>()))
        });
        let domain = domain.clone();
        let kind = self.copies(id);
        let ties = Rc::new(kind.needed(&domain.all));
        let variable = self.variable(None, domain, ties);
        self.edge(variable, &owner, kind);
        Source {
            variable,
            cuts: None,
        }
    }

    /// Bytes and ties as one number per entry: a byte weighs more than all ties together, as far
    /// as 64 bits allow.
    fn finish(self) -> Model {
        let mut model = self.model;
        let mut largest = HashMap::new();
        let mut bytes = 0u128;
        for e in &model.edges {
            let needs = &model.variables[e.need.at()].domain;
            let most = largest.entry((e.kind, needs.id)).or_insert_with(|| {
                let seen = &model.kinds[e.kind];
                let needs: Vec<Vector> = needs.all.iter().map(|v| v.seen(&seen.need)).collect();
                seen.kind.needed(&needs).into_iter().max().unwrap_or(0)
            });
            bytes += u128::from(*most) * u128::from(model.on.weight);
        }
        let most = |v: &Variable| u128::from(v.ties.iter().copied().max().unwrap_or(0));
        let ties: u128 = model.variables.iter().map(most).sum();
        let room = u128::from(u64::MAX / 4) / bytes.max(1);
        model.unit = saturate(room.clamp(1, 1 << 24));
        // every tie rounds down, so their sum stays below one byte's weight
        model.shrink = saturate(ties / u128::from(model.unit) + 1);
        model
    }
}

/// The label that cuts each axis of the output, if the tiles of every join are tiles of a single
/// copy.
fn own_tiles(
    e: &EinSum,
    domain: &List<Vector>,
    extents: &[usize],
    shape: &[usize],
) -> Option<Vec<Option<usize>>> {
    let outputs: usize = e.out.iter().map(Vec::len).sum();
    let first = |axis: &Vec<LabelId>| axis.first().map(|l| l.at());
    let cuts: Vec<Option<usize>> = e.out.iter().map(first).collect();
    let mut seen = HashSet::new();
    let own = |v: &Vector| {
        let axes = cuts.iter().zip(&e.out).zip(shape);
        let mut axes = axes.map(|((cut, labels), &extent)| {
            let Some(l) = *cut else { return true };
            let (parts, inner) = (v.parts[l], extent.checked_div(extents[l]).unwrap_or(1));
            let same = |k| {
                let (a, b) = crate::plan::layout::tile_range(extents[l], parts, k);
                (a * inner, b * inner) == crate::plan::layout::tile_range(extent, parts, k)
            };
            labels[1..].iter().all(|m| v.parts[m.at()] == 1)
                && (labels.len() == 1 || (0..parts).all(same))
        });
        v.parts[outputs..].iter().all(|&d| d == 1) && axes.all(|own| own)
    };
    let all = domain.all.iter();
    all.filter(|v| seen.insert(v.parts.clone()))
        .all(own)
        .then_some(cuts)
}

/// Per vector: devices × largest tile − all tiles, what an even cut would not waste.
fn excess(vectors: &[Vector], extents: &[usize], devices: u32) -> Vec<u64> {
    let waste = |v: &Vector| {
        let largest = v
            .parts
            .iter()
            .zip(extents)
            .map(|(&d, &n)| n.div_ceil(d as usize) as u128);
        let total = extents.iter().map(|&n| n as u128);
        let all = largest.fold(u128::from(devices), u128::saturating_mul);
        saturate(all.saturating_sub(total.fold(1, u128::saturating_mul)))
    };
    vectors.iter().map(waste).collect()
}
