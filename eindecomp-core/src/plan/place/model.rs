//! The labelling problem of `placed`: which variables there are and what each pair costs.
//!
//! * `J_v`: the layout of a vertex's join (one tuple per device);
//! * `O_T`: the layout of a tensor's single copy, unless the join's own tiles are one already:
//!   then moving a tile away from where it is made never pays (what a reader lacks beyond the
//!   maker's tile is at most what it lacks beyond the owner's and the owner's beyond the maker's);
//! * `R_T`: what each device holds of a tensor with several readers, so that a box which two of
//!   them need on one device is fetched once.
//!
//! Costs are bytes; ties break by bytes loaded and held, then by the size of the largest tuple.

use std::collections::HashSet;
use std::rc::Rc;

use crate::ein::EinSum;
use crate::ein::access::AccessMap;
use crate::graph::{BoundGraph, Node, NodeId, Op, Role};
use crate::plan::layout::Layout;
use crate::plan::partition::{Room, no_room};
use crate::plan::planner::PlanError;
use crate::plan::search::{Problem, VarId};
use crate::plan::{NodePlan, Residency};

use super::axes::Orders;
use super::lists::{Holdings, Layouts, Lists, Rows, saturate};

/// A predicate that keeps some layouts of a join; where it keeps none, all stay.
pub(crate) type Keep<'a> = &'a dyn Fn(NodeId, &Layout) -> bool;

/// A variable with what its values are.
struct Choice {
    variable: VarId,
    layouts: Rc<Layouts>,
}

/// Where readers find a tensor: the variable and what each of its values holds.
#[derive(Clone)]
struct Source {
    variable: VarId,
    holds: Rc<Holdings>,
}

/// What a plan's entry is read from.
#[derive(Default)]
struct Entry {
    join: Option<Choice>,
    /// `None` for weights that each device keeps; fused with the join: the same variable.
    owner: Option<Choice>,
}

/// A variable's two costs per value: bytes moved are all on edges, so only ties are here.
struct Edge {
    from: VarId,
    to: VarId,
    bytes: Rc<Vec<u64>>,
}

/// The problem, and how its solutions are read.
pub(crate) struct Model {
    problem: Problem,
    entries: Vec<Entry>,
    /// One byte moved costs this much; what is below breaks ties.
    unit: u64,
    keeps_some: bool,
}

impl Model {
    /// The problem of a graph over `devices` devices.
    ///
    /// # Errors
    /// Pins that cannot be kept.
    pub fn build(
        graph: &BoundGraph,
        devices: u32,
        residency: Residency,
        orders: Orders,
        keep: Keep<'_>,
    ) -> Result<Model, PlanError> {
        let mut build = Build {
            graph,
            residency,
            lists: Lists::new(devices, orders),
            readers: readers(graph),
            ties: Vec::new(),
            edges: Vec::new(),
            sources: Vec::new(),
            entries: Vec::new(),
            keeps_some: false,
        };
        for (id, node) in graph.ids() {
            let (entry, source) = match &node.op {
                Op::Input(role) => build.input(id, *role),
                Op::EinSum(e) => build.vertex(id, node, e, keep)?,
            };
            build.entries.push(entry);
            build.sources.push(source);
        }
        for (state, last) in graph.states() {
            build.home(state, last);
        }
        Ok(build.finish())
    }

    /// What to solve.
    pub fn problem(&self) -> &Problem {
        &self.problem
    }

    /// Did the predicate keep a layout of some vertex?
    pub fn keeps_some(&self) -> bool {
        self.keeps_some
    }

    /// Bytes of a cost of the problem.
    pub fn bytes(&self, cost: u128) -> u128 {
        cost / u128::from(self.unit)
    }

    /// The plan entries of an assignment; their costs are still 0.
    pub fn read(&self, assignment: &[u32]) -> Vec<NodePlan> {
        let layout = |c: &Choice| c.layouts.all[assignment[c.variable.at()] as usize].clone();
        let entry = |e: &Entry| NodePlan {
            join: e.join.as_ref().map(layout),
            owner: e.owner.as_ref().map(layout),
            cost: 0,
        };
        self.entries.iter().map(entry).collect()
    }
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

fn reads(e: &EinSum) -> Vec<(NodeId, AccessMap)> {
    let mut seen = HashSet::new();
    let all = e.operands.iter().map(|o| (o.node, AccessMap::of(o)));
    all.filter(|read| seen.insert(read.clone())).collect()
}

struct Build<'a> {
    graph: &'a BoundGraph,
    residency: Residency,
    lists: Lists,
    readers: Vec<usize>,
    /// Per variable, per value: what breaks ties.
    ties: Vec<Vec<u64>>,
    edges: Vec<Edge>,
    sources: Vec<Option<Source>>,
    entries: Vec<Entry>,
    keeps_some: bool,
}

impl Build<'_> {
    fn variable(&mut self, ties: Vec<u64>) -> VarId {
        self.ties.push(ties);
        VarId(self.ties.len() as u32 - 1)
    }

    fn input(&mut self, id: NodeId, role: Role) -> (Entry, Option<Source>) {
        if role == Role::Weight && self.residency != Residency::Sharded {
            return (Entry::default(), None);
        }
        let (owner, source) = self.owner(id);
        let entry = Entry {
            join: None,
            owner: Some(owner),
        };
        (entry, Some(self.share(id, source)))
    }

    fn vertex(
        &mut self,
        id: NodeId,
        node: &Node,
        e: &EinSum,
        keep: Keep<'_>,
    ) -> Result<(Entry, Option<Source>), PlanError> {
        let extents = self.graph.label_extents(id);
        let joins = self.joins(id, node, e, keep)?;
        let outputs = self.lists.outputs(e, &joins, extents);
        let mut ties = vec![0u64; joins.all.len()];
        let mut fetched = Vec::new();
        for (tensor, access) in reads(e) {
            let size = self.graph.node(tensor).dtype.size() as u64;
            let shape = self.graph.shape(tensor);
            let need = self.lists.footprints(access, &joins, extents, shape);
            match self.sources[tensor.at()].clone() {
                Some(source) => {
                    let size = vec![size; joins.all.len()];
                    let bytes = self.lists.table(&need, &source.holds, &size, Rows::Have);
                    fetched.push((source.variable, bytes));
                }
                None => add(
                    &mut ties,
                    need.iter().map(|n| saturate(n.elements()) * size),
                ),
            }
        }
        add(
            &mut ties,
            excess(&joins.all, extents, self.lists.devices).into_iter(),
        );
        let variable = self.variable(ties);
        for (from, bytes) in fetched {
            self.edges.push(Edge {
                from,
                to: variable,
                bytes,
            });
        }
        let join = Choice {
            variable,
            layouts: joins.clone(),
        };
        let shape = self.graph.shape(id);
        let own = self.lists.own(e, &joins);
        let tiles = self.lists.tiles(&own, shape);
        if partials(e, &joins.all).iter().all(|&n| n == 1) && tiles.same(&outputs) {
            let owner = Choice {
                variable,
                layouts: own,
            };
            let source = Source {
                variable,
                holds: outputs,
            };
            let entry = Entry {
                join: Some(join),
                owner: Some(owner),
            };
            return Ok((entry, Some(self.share(id, source))));
        }
        let (owner, source) = self.owner(id);
        let folds = partials(e, &joins.all);
        let (parts, stored) = (e.parts(), e.dtype.size() as u64);
        let bytes = match &parts[..] {
            [part] if !part.axes.contains(&false) => {
                let folded = part.dtype.size() as u64;
                let size = |n| if n > 1 { folded } else { stored };
                let size: Vec<u64> = folds.into_iter().map(size).collect();
                self.lists.table(&outputs, &source.holds, &size, Rows::Need)
            }
            _ => self
                .lists
                .sent(&outputs, &source.holds, parts, folds, stored),
        };
        self.edges.push(Edge {
            from: variable,
            to: source.variable,
            bytes,
        });
        let entry = Entry {
            join: Some(join),
            owner: Some(owner),
        };
        Ok((entry, Some(self.share(id, source))))
    }

    fn joins(
        &mut self,
        id: NodeId,
        node: &Node,
        e: &EinSum,
        keep: Keep<'_>,
    ) -> Result<Rc<Layouts>, PlanError> {
        let extents = self.graph.label_extents(id);
        let room = Room::of_vertex(node, e, extents, self.lists.devices)?;
        let all = self.lists.joins(room);
        let all = all
            .filter(|l| !l.all.is_empty())
            .ok_or_else(|| no_room(node, e, extents, self.lists.devices))?;
        let kept: Vec<Layout> = all.all.iter().filter(|l| keep(id, l)).cloned().collect();
        self.keeps_some |= !kept.is_empty();
        if kept.is_empty() || kept.len() == all.all.len() {
            return Ok(all);
        }
        Ok(self.lists.layouts(kept))
    }

    /// A variable for the owner of a tensor.
    fn owner(&mut self, id: NodeId) -> (Choice, Source) {
        let shape = self.graph.shape(id);
        let layouts = self.lists.owners(shape);
        let holds = self.lists.tiles(&layouts, shape);
        let ties = excess(&layouts.all, shape, self.lists.devices);
        let variable = self.variable(ties);
        (Choice { variable, layouts }, Source { variable, holds })
    }

    /// The owners of a state get its last version at the end of a run.
    fn home(&mut self, state: NodeId, last: NodeId) {
        let owner = self.entries[state.at()].owner.as_ref();
        let have = self.sources[last.at()].clone();
        let (Some(owner), Some(have), false) = (owner, have, state == last) else {
            return;
        };
        let (from, layouts) = (owner.variable, owner.layouts.clone());
        let need = self.lists.tiles(&layouts, self.graph.shape(state));
        let size = self.graph.node(state).dtype.size() as u64;
        let size = vec![size; layouts.all.len()];
        let bytes = self.lists.table(&need, &have.holds, &size, Rows::Need);
        let to = have.variable;
        self.edges.push(Edge { from, to, bytes });
    }

    /// A variable for the replicas of a tensor with several readers.
    fn share(&mut self, id: NodeId, owner: Source) -> Source {
        if self.readers[id.at()] < 2 {
            return owner;
        }
        let size = self.graph.node(id).dtype.size() as u64;
        let holds = self.lists.replicas(&owner.holds, self.graph.shape(id));
        let ties: Vec<u64> = holds
            .iter()
            .map(|h| saturate(h.elements()) * size)
            .collect();
        let sizes = vec![size; ties.len()];
        let bytes = self.lists.table(&holds, &owner.holds, &sizes, Rows::Have);
        let variable = self.variable(ties);
        self.edges.push(Edge {
            from: owner.variable,
            to: variable,
            bytes,
        });
        Source { variable, holds }
    }

    /// Bytes and ties as one number per entry: a byte weighs more than all ties together, as far
    /// as 64 bits allow.
    fn finish(self) -> Model {
        let most = |t: &Vec<u64>| u128::from(t.iter().copied().max().unwrap_or(0));
        let bytes: u128 = self.edges.iter().map(|e| most(&e.bytes)).sum();
        let ties: u128 = self.ties.iter().map(most).sum();
        let room = u128::from(u64::MAX / 4) / bytes.max(1);
        let unit = saturate(room.clamp(1, 1 << 24));
        // every tie rounds down, so their sum stays below one byte's weight
        let shrink = saturate(ties / u128::from(unit) + 1);
        let mut problem = Problem::new();
        for ties in &self.ties {
            let ties: Vec<u64> = ties.iter().map(|t| t / shrink).collect();
            problem.add_variable(ties);
        }
        let mut scaled = std::collections::HashMap::new();
        for e in &self.edges {
            let table = scaled.entry(Rc::as_ptr(&e.bytes)).or_insert_with(|| {
                let table = e.bytes.iter().map(|b| b.saturating_mul(unit));
                table.collect::<std::sync::Arc<[u64]>>()
            });
            problem.add_edge(e.from, e.to, table.clone());
        }
        Model {
            problem,
            entries: self.entries,
            unit,
            keeps_some: self.keeps_some,
        }
    }
}

fn add(sum: &mut [u64], more: impl Iterator<Item = u64>) {
    for (s, m) in sum.iter_mut().zip(more) {
        *s = s.saturating_add(m);
    }
}

/// Per layout: devices × largest tile − all tiles, what an even cut would not waste.
fn excess(layouts: &[Layout], extents: &[usize], devices: u32) -> Vec<u64> {
    let waste = |l: &Layout| {
        let largest = l
            .parts
            .iter()
            .zip(extents)
            .map(|(&d, &n)| n.div_ceil(d as usize) as u128);
        let total = extents.iter().map(|&n| n as u128);
        let all = largest.fold(u128::from(devices), u128::saturating_mul);
        saturate(all.saturating_sub(total.fold(1, u128::saturating_mul)))
    };
    layouts.iter().map(waste).collect()
}

/// Per join: tuples that make parts of one output element.
fn partials(e: &EinSum, joins: &[Layout]) -> Vec<u32> {
    let reduced = e.reduce.as_ref().map_or(&[][..], |r| &r.labels);
    let of = |j: &Layout| reduced.iter().map(|l| j.parts[l.at()]).product();
    joins.iter().map(of).collect()
}
