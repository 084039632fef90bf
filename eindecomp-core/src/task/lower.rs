//! Plan → tasks. Vertices in graph order; per vertex and tuple its reads, its kernel, then the
//! folds and moves that bring its results to their owners.

use std::sync::Arc;

use super::arena;
use super::exchange::{Held, Join, Source, Supply, overlaps, weight_boxes};
use super::lifetime::{free_after_last_use, load_late};
use super::{Buffer, BufferId, BufferRole, Task, TaskGraph, TaskId, TaskKind};
use crate::ein::DType;
use crate::ein::einsum::Part;
use crate::graph::{BoundGraph, NodeId, Op, Role};
use crate::plan::verify::{InvalidPlan, structure};
use crate::plan::{Layout, NodePlan, Plan, Region};

/// Why a plan has no task graph.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LowerError {
    /// The plan does not fit the graph.
    #[error(transparent)]
    Plan(#[from] InvalidPlan),
    /// More steps than can be numbered.
    #[error("the plan has more than 2^32 tasks or buffers")]
    TooLarge,
}

/// The tasks of a plan.
///
/// # Errors
/// A plan that breaks a rule of [`structure`], or has too many steps.
pub fn lower(graph: &BoundGraph, plan: &Plan) -> Result<TaskGraph, LowerError> {
    let _span = tracing::info_span!("lower", devices = plan.devices()).entered();
    structure(graph, plan.devices(), &plan.nodes)?;
    let mut lowering = Lowering {
        graph,
        nodes: &plan.nodes,
        tasks: Tasks {
            graph: TaskGraph {
                devices: plan.devices(),
                arenas: Vec::new(),
                buffers: Vec::new(),
                load: Vec::new(),
                tasks: Vec::new(),
            },
            writers: Vec::new(),
            memory: graph.ids().map(|(node, _)| node).collect(),
            readers: vec![Vec::new(); plan.nodes.len()],
        },
        held: Held::new(plan.hierarchy),
        tiles: vec![Vec::new(); plan.nodes.len()],
        replaced: replaced(graph),
    };
    lowering.weights()?;
    for (node, vertex) in graph.ids() {
        match &vertex.op {
            Op::Input(role) => lowering.input(node, *role)?,
            Op::EinSum(_) => lowering.vertex(node)?,
        }
        lowering.gather(node)?;
    }
    lowering.keep()?;
    let mut tasks = lowering.tasks.graph;
    load_late(&mut tasks);
    free_after_last_use(&mut tasks)?;
    arena::assign(&mut tasks);
    Ok(tasks)
}

/// Per tensor: the version that alone reads it from some point on, and may take its memory.
fn replaced(graph: &BoundGraph) -> Vec<Option<NodeId>> {
    let mut last: Vec<Option<NodeId>> = vec![None; graph.nodes().len()];
    for (node, vertex) in graph.ids() {
        for operand in vertex.einsum().iter().flat_map(|e| &e.operands) {
            last[operand.node.at()] = Some(node);
        }
    }
    let stores = |old: NodeId, node: &NodeId| {
        let vertex = graph.node(*node);
        let store = vertex.store.as_ref().zip(vertex.einsum());
        store.is_some_and(|(s, e)| {
            let of = |n: usize| e.operands[n].node;
            of(s.old) == old && (0..e.operands.len()).all(|n| n == s.old || of(n) != old)
        })
    };
    let each = last.into_iter().enumerate();
    each.map(|(old, last)| last.filter(|node| stores(NodeId(old as u32), node)))
        .collect()
}

struct Lowering<'a> {
    graph: &'a BoundGraph,
    nodes: &'a [NodePlan],
    tasks: Tasks,
    /// What each device can read.
    held: Held<BufferId>,
    /// Per tensor: the buffer of each of its owner's tiles; `None` for an empty one.
    tiles: Vec<Vec<Option<BufferId>>>,
    /// Per tensor: the version that may take its memory.
    replaced: Vec<Option<NodeId>>,
}

impl<'a> Lowering<'a> {
    /// Weights that each device keeps as its tuples need them.
    fn weights(&mut self) -> Result<(), LowerError> {
        for (node, device, region) in weight_boxes(self.graph, self.nodes) {
            let buffer = self.buffer(device, node, &region, BufferRole::Weight)?;
            self.tasks.load(device, buffer);
            self.held.push(node, device, region, buffer);
        }
        Ok(())
    }

    /// An input with owners: one load per tile, of a weight once per session; a state is there.
    fn input(&mut self, node: NodeId, role: Role) -> Result<(), LowerError> {
        let weight = role == Role::Weight;
        let kind = match role {
            Role::Weight => BufferRole::Weight,
            Role::State => BufferRole::State,
            Role::Data => BufferRole::Owned,
        };
        self.own(node, kind)?;
        if role == Role::State {
            return Ok(());
        }
        let buffers: Vec<BufferId> = self.tiles[node.at()].iter().flatten().copied().collect();
        for dst in buffers {
            let Buffer { device, region, .. } = self.tasks.graph.buffer(dst).clone();
            if weight {
                self.tasks.load(device, dst);
            } else {
                self.tasks
                    .push(device, TaskKind::Load { dst }, vec![], vec![(dst, region)])?;
            }
        }
        Ok(())
    }

    /// Kernels of one vertex, and the way of their results to their owners.
    fn vertex(&mut self, node: NodeId) -> Result<(), LowerError> {
        let (graph, nodes) = (self.graph, self.nodes);
        let (Some(join), Some(owner)) = (Join::of(graph, nodes, node), &nodes[node.at()].owner)
        else {
            return Ok(());
        };
        let tuples = join.tuples();
        if !self.in_place(node, &join)? {
            self.own(node, BufferRole::Owned)?;
        }
        for group in tuples.chunks(join.folds()) {
            let pieces = overlaps(owner, graph.shape(node), &group[0].output);
            let direct = match pieces.as_slice() {
                [(tile, _)] if group.len() == 1 && owner.devices[*tile] == group[0].device => {
                    self.tiles[node.at()][*tile]
                }
                _ => None,
            };
            let mut results: Vec<Vec<BufferId>> = Vec::with_capacity(group.len());
            for tuple in group {
                let mut reads = Vec::new();
                for (operand, want) in join.reads(tuple) {
                    reads.push((self.read(operand, tuple.device, &want)?, want));
                }
                let mut writes = Vec::new();
                match direct {
                    Some(tile) => writes.push((tile, tuple.output.clone())),
                    None => {
                        for part in join.parts() {
                            let region = part.region(&tuple.output);
                            let buffer =
                                self.partial(tuple.device, node, part.dtype, region.clone())?;
                            writes.push((buffer, region));
                        }
                    }
                }
                let kind = TaskKind::Kernel {
                    node,
                    key: join.key(tuple),
                    tile: tuple.tile.clone(),
                    reads: reads.iter().map(|r| r.0).collect(),
                    writes: writes.iter().map(|w| w.0).collect(),
                };
                results.push(writes.iter().map(|w| w.0).collect());
                self.tasks.push(tuple.device, kind, reads, writes)?;
            }
            if direct.is_none() {
                for (tile, region) in pieces {
                    if let Some(dst) = self.tiles[node.at()][tile] {
                        self.deliver(node, &results, dst, region, join.parts())?;
                    }
                }
            }
        }
        Ok(())
    }

    /// Makes the tiles of a new version in the memory of the version before, if that is a state's,
    /// nobody reads it afterwards, and each tuple makes the tile that its device owns.
    fn in_place(&mut self, node: NodeId, join: &Join<'_>) -> Result<bool, LowerError> {
        let vertex = self.graph.node(node);
        let store = vertex.store.as_ref().zip(vertex.einsum());
        let Some(old) = store.map(|(s, e)| e.operands[s.old].node) else {
            return Ok(false);
        };
        let (nodes, shape) = (self.nodes, self.graph.shape(node));
        let owner = &nodes[node.at()].owner;
        let stays =
            |tile: &Option<BufferId>| tile.is_none_or(|b| self.tasks.graph.buffer(b).role.stays());
        let tile =
            |(region, device): (Region, u32)| (!region.is_empty()).then_some((region, device));
        let owned = owner.iter().flat_map(|o| o.iter(shape)).filter_map(tile);
        let made = join.tuples().into_iter().map(|t| (t.output, t.device));
        let same = self.replaced[old.at()] == Some(node)
            && *owner == nodes[old.at()].owner
            && self.tiles[old.at()].iter().all(stays)
            && join.folds() == 1
            && owned.eq(made);
        if !same {
            return Ok(false);
        }
        self.tasks.memory[node.at()] = self.tasks.memory[old.at()];
        for tile in self.tiles[old.at()].clone() {
            let buffer = match tile {
                None => None,
                Some(over) => {
                    let Buffer { device, region, .. } = self.tasks.graph.buffer(over).clone();
                    let made = self.buffer(device, node, &region, BufferRole::Version(over))?;
                    self.held.push(node, device, region, made);
                    Some(made)
                }
            };
            self.tiles[node.at()].push(buffer);
        }
        Ok(true)
    }

    /// Brings the last versions of states where the states live, unless they are there.
    fn keep(&mut self) -> Result<(), LowerError> {
        let graph = self.graph;
        for (state, last) in graph.states().filter(|(state, last)| state != last) {
            if self.tasks.memory[last.at()] == state {
                continue;
            }
            for dst in self.tiles[state.at()].clone().into_iter().flatten() {
                let Buffer { device, region, .. } = self.tasks.graph.buffer(dst).clone();
                let src = self.read(last, device, &region)?;
                let (reads, writes) = (vec![(src, region.clone())], vec![(dst, region.clone())]);
                let kind = TaskKind::Keep { src, dst, region };
                self.tasks.push(device, kind, reads, writes)?;
            }
        }
        Ok(())
    }

    /// Brings a box of a result, final or in partial results, to its owner's tile.
    fn deliver(
        &mut self,
        node: NodeId,
        results: &[Vec<BufferId>],
        dst: BufferId,
        region: Region,
        parts: &[Part],
    ) -> Result<(), LowerError> {
        let device = self.tasks.graph.buffer(dst).device;
        if let [result] = results {
            return self.transfer(result[0], dst, region);
        }
        let mut reads = Vec::with_capacity(results.len() * parts.len());
        for result in results {
            for (&partial, part) in result.iter().zip(parts) {
                let region = part.region(&region);
                if self.tasks.graph.buffer(partial).device == device {
                    reads.push((partial, region));
                    continue;
                }
                let piece = self.partial(device, node, part.dtype, region.clone())?;
                self.transfer(partial, piece, region.clone())?;
                reads.push((piece, region));
            }
        }
        let kind = TaskKind::Aggregate {
            node,
            srcs: reads.iter().map(|r| r.0).collect(),
            dst,
            region: region.clone(),
        };
        self.tasks.push(device, kind, reads, vec![(dst, region)])
    }

    /// A new buffer of a part of a result.
    fn partial(
        &mut self,
        device: u32,
        node: NodeId,
        dtype: DType,
        region: Region,
    ) -> Result<BufferId, LowerError> {
        self.tasks.buffer(Buffer {
            device,
            node,
            region,
            dtype,
            role: BufferRole::Partial,
            offset: 0,
        })
    }

    /// A buffer of `device` that covers the box `want`: one it has, or a new replica.
    fn read(&mut self, node: NodeId, device: u32, want: &Region) -> Result<BufferId, LowerError> {
        let (owner, shape) = (
            self.nodes[node.at()].owner.as_deref(),
            self.graph.shape(node),
        );
        let supply = self.held.supply(node, device, want, owner, shape);
        let (copies, moves) = match supply {
            Supply::Held(buffer) => return Ok(buffer),
            Supply::Replica { copies, moves } => (copies, moves),
        };
        let replica = self.buffer(device, node, want, BufferRole::Replica)?;
        let buffer = |(source, region): (Source<BufferId>, Region)| match source {
            Source::Tile(tile) => Some((self.tiles[node.at()][tile]?, region)),
            Source::Held(_, buffer) => Some((buffer, region)),
        };
        let sources: Vec<_> = copies
            .into_iter()
            .chain(moves.into_iter().filter_map(buffer))
            .collect();
        for (src, region) in sources {
            self.transfer(src, replica, region)?;
        }
        self.held.push(node, device, want.clone(), replica);
        Ok(replica)
    }

    /// Results of the graph, from their owners.
    fn gather(&mut self, node: NodeId) -> Result<(), LowerError> {
        let graph = self.graph;
        let of_node = graph.outputs().iter().enumerate();
        for (output, _) in of_node.filter(|(_, o)| o.node == node) {
            let buffers: Vec<BufferId> = match &self.nodes[node.at()].owner {
                Some(_) => self.tiles[node.at()].iter().flatten().copied().collect(),
                None => vec![self.read(node, 0, &Region::whole(graph.shape(node)))?],
            };
            for src in buffers {
                let Buffer { device, region, .. } = self.tasks.graph.buffer(src).clone();
                let kind = TaskKind::Gather {
                    src,
                    output,
                    region: region.clone(),
                };
                self.tasks.act(device, kind, vec![(src, region)])?;
            }
        }
        Ok(())
    }

    /// Makes the buffers of a tensor's tiles.
    fn own(&mut self, node: NodeId, role: BufferRole) -> Result<(), LowerError> {
        let (graph, nodes) = (self.graph, self.nodes);
        let tiles = |o: &Arc<Layout>| o.iter(graph.shape(node)).collect::<Vec<_>>();
        for (region, device) in nodes[node.at()].owner.iter().flat_map(tiles) {
            let buffer = match region.is_empty() {
                true => None,
                false => Some(self.buffer(device, node, &region, role)?),
            };
            self.tiles[node.at()].push(buffer);
            if let Some(buffer) = buffer {
                self.held.push(node, device, region, buffer);
            }
        }
        Ok(())
    }

    /// A new buffer of final values.
    fn buffer(
        &mut self,
        device: u32,
        node: NodeId,
        region: &Region,
        role: BufferRole,
    ) -> Result<BufferId, LowerError> {
        self.tasks.buffer(Buffer {
            device,
            node,
            region: region.clone(),
            dtype: self.graph.node(node).dtype,
            role,
            offset: 0,
        })
    }

    /// A Copy or a Move, as the devices of the two buffers are.
    fn transfer(&mut self, src: BufferId, dst: BufferId, region: Region) -> Result<(), LowerError> {
        let device = self.tasks.graph.buffer(dst).device;
        let (reads, writes) = (vec![(src, region.clone())], vec![(dst, region.clone())]);
        let kind = match self.tasks.graph.buffer(src).device == device {
            true => TaskKind::Copy { src, dst, region },
            false => TaskKind::Move { src, dst, region },
        };
        self.tasks.push(device, kind, reads, writes)
    }
}

/// The task graph as it grows, and who wrote which box of each buffer.
struct Tasks {
    graph: TaskGraph,
    writers: Vec<Vec<(TaskId, Region)>>,
    /// Per tensor: the one whose memory it is in, itself or a state.
    memory: Vec<NodeId>,
    /// Per such tensor: who read which box of a version in its memory, on any device: where
    /// memory is shared, replicas are windows on it.
    readers: Vec<Vec<(TaskId, Region)>>,
}

impl Tasks {
    fn buffer(&mut self, buffer: Buffer) -> Result<BufferId, LowerError> {
        let id = u32::try_from(self.graph.buffers.len()).map_err(|_| LowerError::TooLarge)?;
        self.graph.buffers.push(buffer);
        self.writers.push(Vec::new());
        Ok(BufferId(id))
    }

    /// A load of a weight, once per session: whoever reads it later need not wait.
    fn load(&mut self, device: u32, dst: BufferId) {
        self.graph.load.push(Task {
            device,
            kind: TaskKind::Load { dst },
            deps: Vec::new(),
        });
    }

    /// A task that writes no buffer; it waits for the writers of what it reads.
    fn act(
        &mut self,
        device: u32,
        kind: TaskKind,
        reads: Vec<(BufferId, Region)>,
    ) -> Result<TaskId, LowerError> {
        let id = u32::try_from(self.graph.tasks.len()).map_err(|_| LowerError::TooLarge)?;
        let mut deps: Vec<TaskId> = Vec::new();
        for (buffer, region) in &reads {
            let writers = self.writers[buffer.0 as usize].iter();
            deps.extend(
                writers
                    .filter(|(_, written)| written.common(region) > 0)
                    .map(|w| w.0),
            );
        }
        for &written in kind.writes() {
            let written = self.graph.buffer(written);
            if let BufferRole::State | BufferRole::Version(_) = written.role {
                let readers = self.readers[self.memory[written.node.at()].at()].iter();
                let overwritten = readers.filter(|(_, read)| read.common(&written.region) > 0);
                deps.extend(overwritten.map(|r| r.0));
            }
        }
        deps.sort_unstable();
        deps.dedup();
        for (buffer, region) in reads {
            let memory = self.memory[self.graph.buffer(buffer).node.at()];
            self.readers[memory.at()].push((TaskId(id), region));
        }
        self.graph.tasks.push(Task { device, kind, deps });
        Ok(TaskId(id))
    }

    /// A task that writes boxes of buffers.
    fn push(
        &mut self,
        device: u32,
        kind: TaskKind,
        reads: Vec<(BufferId, Region)>,
        writes: Vec<(BufferId, Region)>,
    ) -> Result<(), LowerError> {
        let id = self.act(device, kind, reads)?;
        for (buffer, region) in writes {
            self.writers[buffer.0 as usize].push((id, region));
        }
        Ok(())
    }
}
