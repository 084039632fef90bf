//! The variables and edges of a graph: which there are, their domains, ties and kinds.

use std::collections::HashSet;
use std::rc::Rc;

use super::kind::{Kind, saturate};
use super::model::{Cut, Cuts, Edge, Entry, Model, Seen, Source, Variable};
use super::spread::{Vector, joins, owner, owners, replicas};
use super::values::{List, Lists};
use crate::ein::access::{AccessMap, AxisAccess};
use crate::ein::einsum::Part;
use crate::ein::{DType, EinSum, LabelId, Operand};
use crate::graph::{BoundGraph, Node, NodeId, Op, Pin, Role};
use crate::plan::partition::{no_label, no_room};
use crate::plan::planner::PlanError;
use crate::plan::room::{Blocks, Room};
use crate::plan::search::VarId;
use crate::plan::{Constraints, Hierarchy, PlanOptions, Residency};
use crate::quick::Table;

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
            numbers: Table::default(),
            joins: Table::default(),
            forms: Table::default(),
            owners: Table::default(),
            replicas: Table::default(),
            equal: Table::default(),
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
    for o in (graph.nodes().iter().filter_map(Node::einsum)).flat_map(distinct) {
        count[o.node.at()] += 1;
    }
    for (_, last) in graph.states().filter(|(state, last)| state != last) {
        count[last.at()] += 1;
    }
    count
}

pub(super) fn reads(e: &EinSum) -> Vec<(NodeId, AccessMap)> {
    distinct(e).map(|o| (o.node, AccessMap::of(o))).collect()
}

/// Operands but for those that read as one before them does.
fn distinct(e: &EinSum) -> impl Iterator<Item = &Operand> {
    (e.operands.iter().enumerate()).filter_map(|(at, o)| {
        let mut same = e.operands[..at].iter().filter(|p| p.node == o.node);
        let known = same.any(|p| AccessMap::of(p) == AccessMap::of(o));
        (!known).then_some(o)
    })
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

/// Vectors and their ties.
type Ranked = (Rc<List<Vector>>, Rc<Vec<u64>>);

/// What equal vertices have in common.
struct Form {
    domain: Rc<List<Vector>>,
    ties: Rc<Vec<u64>>,
    room: Room,
    of: Blocks,
    /// Operands, each tensor and access once, and the kinds of the edges to where they are found.
    fetched: Vec<(usize, usize)>,
    owner: Owner,
}

/// Where a result is found.
enum Owner {
    /// Where it is made: how the join cuts it.
    Tiles(Rc<Vec<Option<usize>>>),
    /// At a variable of its own, over an edge of this kind.
    Copy(usize),
}

/// What decides the form of a vertex without pins: its kind, and of every operand the kind, the first operand that is the
/// same tensor, and how it is found.
type FormKey = (u32, Vec<(u32, Option<usize>, Option<(Cuts, u64)>)>);

/// The blocks that a room has, and their vectors.
type Joins = (Blocks, Rc<List<Vector>>);

struct Build<'a> {
    graph: &'a BoundGraph,
    rules: Rules<'a>,
    readers: Vec<usize>,
    numbers: Table<(Kind, Cuts, u64), usize>,
    joins: Table<Room, Option<Joins>>,
    forms: Table<FormKey, Rc<Form>>,
    owners: Table<Vec<usize>, Ranked>,
    /// By the owner's vectors and the tensor's kind: what they may be, and the kind of the edge to the owner.
    replicas: Table<(usize, Cuts, u32), (Ranked, usize)>,
    /// Equal ties are one.
    equal: Table<Vec<u64>, Rc<Vec<u64>>>,
    sources: Vec<Option<Source>>,
    model: Model,
}

impl Build<'_> {
    fn variable(&mut self, join: Option<NodeId>, (domain, ties): Ranked) -> VarId {
        self.model.variables.push(Variable {
            join,
            domain,
            ties,
            fixed: None,
        });
        VarId(self.model.variables.len() as u32 - 1)
    }

    fn ranked(&mut self, domain: Rc<List<Vector>>, ties: Vec<u64>) -> Ranked {
        let equal = self.equal.entry(ties);
        let ties = equal.or_insert_with_key(|ties| Rc::new(ties.clone()));
        (domain, ties.clone())
    }

    fn number(&mut self, kind: Kind, cuts: Cuts, among: u64) -> usize {
        let kinds = &mut self.model.kinds;
        let known = self.numbers.entry((kind, cuts, among));
        *known.or_insert_with_key(|(kind, cuts, among)| {
            kinds.push(Seen {
                among: *among,
                need: kind.seen(),
                have: cuts.clone(),
                kind: kind.clone(),
            });
            kinds.len() - 1
        })
    }

    fn edge(&mut self, need: VarId, have: VarId, kind: usize) {
        self.model.edges.push(Edge { need, have, kind });
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
        let form = self.form(id, node, e)?;
        let join = self.variable(Some(id), (form.domain.clone(), form.ties.clone()));
        for &(operand, kind) in &form.fetched {
            if let Some(source) = &self.sources[e.operands[operand].node.at()] {
                self.edge(join, source.variable, kind);
            }
        }
        let owner = match &form.owner {
            Owner::Tiles(cuts) => Source {
                variable: join,
                cuts: Some(cuts.clone()),
                among: 1,
            },
            Owner::Copy(kind) => {
                let owner = self.owner(id, node)?;
                self.edge(join, owner.variable, *kind);
                owner
            }
        };
        let entry = Entry {
            join: Some(join),
            cut: (form.of.calls > 1).then(|| Cut {
                room: form.room.clone(),
                of: form.of,
                outputs: e.out.iter().map(Vec::len).sum(),
            }),
            owner: Some(owner.clone()),
        };
        Ok((entry, Some(self.share(id, owner))))
    }

    /// The form of a vertex, made once for equal ones.
    fn form(&mut self, id: NodeId, node: &Node, e: &EinSum) -> Result<Rc<Form>, PlanError> {
        if !node.pins.is_empty() || self.rules.vectors.is_some() {
            return Ok(Rc::new(self.new_form(id, node, e)?));
        }
        let kinds = self.graph.kinds();
        let operand = |o: &Operand| {
            let source = self.sources[o.node.at()].as_ref();
            (
                kinds[o.node.at()],
                e.operands.iter().position(|p| p.node == o.node),
                source.map(|s| (s.cuts.clone(), s.among)),
            )
        };
        let key = (
            kinds[id.at()],
            e.operands.iter().map(operand).collect::<Vec<_>>(),
        );
        if let Some(known) = self.forms.get(&key) {
            return Ok(known.clone());
        }
        let form = Rc::new(self.new_form(id, node, e)?);
        self.forms.insert(key, form.clone());
        Ok(form)
    }

    fn new_form(&mut self, id: NodeId, node: &Node, e: &EinSum) -> Result<Form, PlanError> {
        let extents = self.graph.label_extents(id).to_vec();
        let (room, of, domain) = self.domain(id, node, e, &extents)?;
        let (mut kept, mut fetched) = (Vec::new(), Vec::new());
        // what makes nothing reads nothing
        let empty = self.graph.shape(id).contains(&0);
        for (tensor, access) in reads(e).into_iter().filter(|_| !empty) {
            let (shape, dtype) = (self.graph.shape(tensor), self.graph.node(tensor).dtype);
            let operand = e.operands.iter().position(|o| o.node == tensor);
            match (self.sources[tensor.at()].clone(), operand) {
                (Some(source), Some(operand)) => {
                    let kind = Kind {
                        access,
                        extents: extents.clone(),
                        shape: shape.to_vec(),
                        once: element(dtype, shape.len()),
                        folded: Vec::new(),
                    };
                    let number = self.number(kind, source.cuts, source.among);
                    fetched.push((operand, number));
                }
                _ => kept.push((access, shape.to_vec(), dtype)),
            }
        }
        let (domain, ties) = self.join_ties(domain, &extents, kept);
        let shape = self.graph.shape(id);
        let tiles = match owner_pin(node) {
            None => own_tiles(e, &domain, &extents, shape),
            Some(_) => None,
        };
        let owner = match tiles {
            Some(cuts) => Owner::Tiles(Rc::new(cuts)),
            None => {
                let kind = Kind {
                    access: makes(e, &extents),
                    extents,
                    shape: shape.to_vec(),
                    once: element(e.dtype, shape.len()),
                    folded: e.parts(),
                };
                Owner::Copy(self.number(kind, None, 1))
            }
        };
        Ok(Form {
            domain,
            ties,
            room,
            of,
            fetched,
            owner,
        })
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

    /// The vectors of a join with their ties: by what it reads of kept weights, too.
    fn join_ties(
        &mut self,
        domain: Rc<List<Vector>>,
        extents: &[usize],
        kept: Vec<(AccessMap, Vec<usize>, DType)>,
    ) -> Ranked {
        let mut ties = excess(&domain.all, extents, self.model.on.devices());
        for (access, shape, dtype) in kept {
            let kind = Kind {
                access,
                extents: extents.to_vec(),
                once: element(dtype, shape.len()),
                shape,
                folded: Vec::new(),
            };
            let seen = kind.seen();
            let needs: Vec<Vector> = domain.all.iter().map(|v| v.seen(&seen)).collect();
            for (tie, loaded) in ties.iter_mut().zip(kind.needed(&needs)) {
                *tie = tie.saturating_add(loaded);
            }
        }
        self.ranked(domain, ties)
    }

    /// A variable for the owner of a tensor.
    ///
    /// # Errors
    /// A pin that no layout by device axes keeps.
    fn owner(&mut self, id: NodeId, node: &Node) -> Result<Source, PlanError> {
        let (shape, on) = (self.graph.shape(id), self.model.on);
        let constraints = self.rules.constraints;
        let mut fixed = None;
        let ranked = match owner_pin(node) {
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
                let domain = self.model.vectors.intern(vec![vector]);
                let ties = excess(&domain.all, shape, on.devices());
                self.ranked(domain, ties)
            }
            None => match self.owners.get(shape) {
                Some(known) => known.clone(),
                None => {
                    let domain = self.model.vectors.intern(owners(on, shape, constraints));
                    let ties = excess(&domain.all, shape, on.devices());
                    let made = self.ranked(domain, ties);
                    self.owners.insert(shape.to_vec(), made.clone());
                    made
                }
            },
        };
        let variable = self.variable(None, ranked);
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
        let kind = self.number(self.copies(state), have.cuts, have.among);
        self.edge(owner.variable, have.variable, kind);
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
        let own = self.model.variables[owner.variable.at()].domain.clone();
        let key = (own.id, owner.cuts.clone(), self.graph.kinds()[id.at()]);
        let (ranked, kind) = match self.replicas.get(&key) {
            Some(known) => known.clone(),
            None => {
                let (kind, on) = (self.copies(id), self.model.on);
                let tiles = own.all.iter().map(|v| match &owner.cuts {
                    Some(cuts) => v.through(cuts),
                    None => v.clone(),
                });
                let all = replicas(on, self.graph.shape(id), &tiles.collect::<Vec<_>>());
                let domain = self.model.vectors.intern(all);
                let ties = kind.needed(&domain.all);
                let made = (
                    self.ranked(domain, ties),
                    self.number(kind, owner.cuts, owner.among),
                );
                self.replicas.insert(key, made.clone());
                made
            }
        };
        let variable = self.variable(None, ranked);
        self.edge(variable, owner.variable, kind);
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
        let mut largest = Table::default();
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
