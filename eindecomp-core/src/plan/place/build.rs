//! The variables and edges of a graph: which there are, their domains, ties and kinds.

use std::collections::{HashMap, HashSet};
use std::rc::Rc;

use super::kind::{Kind, saturate};
use super::model::{Cut, Cuts, Edge, Entry, Model, Seen, Source, Variable};
use super::spread::{Vector, joins, owner, owners, replicas};
use super::values::{List, Lists};
use crate::ein::access::{AccessMap, AxisAccess};
use crate::ein::einsum::Part;
use crate::ein::{DType, EinSum, LabelId};
use crate::graph::{BoundGraph, Node, NodeId, Op, Pin, Role};
use crate::plan::partition::{no_label, no_room};
use crate::plan::planner::PlanError;
use crate::plan::room::{Blocks, Room};
use crate::plan::search::VarId;
use crate::plan::{Constraints, Hierarchy, PlanOptions, Residency};

/// What a model depends on beside its graph and its devices.
#[derive(Clone, Copy)]
pub(crate) struct Rules<'a> {
    pub residency: Residency,
    pub constraints: Constraints,
    /// The vectors of all joins, if these are decided.
    pub vectors: Option<&'a [Option<Vec<u32>>]>,
    /// Is there one replica layout per tensor with several readers? Without, costs are at most what moves under any
    /// replicas: of a tensor at least what its neediest reader lacks, so of k readers a k-th each.
    pub replicas: bool,
}

impl<'a> From<&PlanOptions> for Rules<'a> {
    fn from(options: &PlanOptions) -> Rules<'a> {
        Rules {
            residency: options.residency,
            constraints: options.constraints,
            vectors: None,
            replicas: true,
        }
    }
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
pub(super) fn readers(graph: &BoundGraph) -> Vec<usize> {
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

/// Vectors and their ties.
type Ranked = (Rc<List<Vector>>, Rc<Vec<u64>>);

/// The blocks that a room has, and their vectors.
type Joins = (Blocks, Rc<List<Vector>>);

struct Build<'a> {
    graph: &'a BoundGraph,
    rules: Rules<'a>,
    readers: Vec<usize>,
    numbers: HashMap<(Kind, Cuts, u64), usize>,
    joins: HashMap<Room, Option<Joins>>,
    owners: HashMap<Vec<usize>, Rc<List<Vector>>>,
    replicas: HashMap<(usize, Cuts, Kind), Ranked>,
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
            .entry((kind.clone(), have.cuts.clone(), have.among))
            .or_insert_with(|| {
                kinds.push(Seen {
                    among: have.among,
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
        // what makes nothing reads nothing
        let empty = self.graph.shape(id).contains(&0);
        for (tensor, access) in reads(e).into_iter().filter(|_| !empty) {
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
                among: 1,
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
            among: 1,
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
        let readers = self.readers[id.at()];
        if readers < 2 {
            return owner;
        }
        if !self.rules.replicas {
            return Source {
                among: readers as u64,
                ..owner
            };
        }
        let kind = self.copies(id);
        let (shape, on) = (self.graph.shape(id), self.model.on);
        let lists = &mut self.model.vectors;
        let own = &self.model.variables[owner.variable.at()].domain;
        let key = (own.id, owner.cuts.clone(), kind.clone());
        let known = self.replicas.entry(key).or_insert_with_key(|key| {
            let own = own.all.iter().map(|v| match &owner.cuts {
                Some(cuts) => v.through(cuts),
                None => v.clone(),
            });
            let all = lists.intern(replicas(on, shape, &own.collect::<Vec<_>>()));
            let ties = Rc::new(key.2.needed(&all.all));
            (all, ties)
        });
        let (domain, ties) = known.clone();
        let variable = self.variable(None, domain, ties);
        self.edge(variable, &owner, kind);
        Source {
            variable,
            cuts: None,
            among: 1,
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
