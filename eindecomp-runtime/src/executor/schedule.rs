//! A task list as one process runs it: its own tasks, and its halves of those that cross to others.

use std::collections::HashMap;

use eindecomp_core::plan::layout::Region;
use eindecomp_core::task::{BufferId, BufferRole, TaskGraph, TaskId, TaskKind};

use super::exchange::Ranks;
use super::lent::{Host, lent};
use crate::backend::cpu::Kernel;
use crate::error::RunError;
use crate::storage::MemoryMode;
use crate::transport::FIRST_TAG;

/// What this process does of a task.
#[derive(Clone, Copy, Debug)]
pub(super) enum Part {
    /// All of it.
    Whole,
    /// Gives the box away: packs it, and is done.
    Send(Envelope),
    /// Takes the box: asks for it when there is room, and puts it there when it has come.
    Receive(Envelope),
}

/// The other process, and the message's tag.
#[derive(Clone, Copy, Debug)]
pub(super) struct Envelope {
    pub rank: u32,
    pub tag: u32,
}

/// A part of a task.
#[derive(Clone, Copy, Debug)]
pub(super) struct Step {
    pub task: TaskId,
    pub part: Part,
}

/// Steps ready to run: who waits for whom, and the sub-tiles of each kernel.
pub(super) struct Schedule {
    pub steps: Vec<Step>,
    pub waits: Vec<u32>,
    pub successors: Vec<Vec<u32>>,
    pub pieces: Vec<Vec<Region>>,
    /// Per buffer, the host tensor that takes its place.
    pub lent: Vec<Option<Host>>,
}

impl Schedule {
    /// # Errors
    /// [`RunError::Tags`].
    pub fn new(
        graph: &TaskGraph,
        kernels: &[Option<Kernel>],
        workers: usize,
        mode: MemoryMode,
        ranks: &Ranks,
    ) -> Result<Schedule, RunError> {
        let tasks = &graph.tasks;
        let (steps, first) = steps(graph, ranks)?;
        // So that workers which end early find more, without packing much twice.
        let most = (2 * workers).div_ceil(ranks.per_rank(graph).max(1) as usize);
        let mut waits = vec![0; steps.len()];
        let mut successors = vec![Vec::new(); steps.len()];
        for (n, step) in steps.iter().enumerate() {
            // What others do first is known from their messages.
            for dep in &tasks[step.task.0 as usize].deps {
                let dep = dep.0 as usize;
                for before in first[dep]..first[dep + 1] {
                    successors[before as usize].push(n as u32);
                    waits[n] += 1;
                }
            }
        }
        let in_place = |b: &BufferId| matches!(graph.buffer(*b).role, BufferRole::Version(_));
        let pieces = |step: &Step| match &tasks[step.task.0 as usize].kind {
            // A store writes a small part of its tile, which only the run tells.
            TaskKind::Kernel { tile, writes, .. } if writes.iter().any(in_place) => {
                vec![tile.clone()]
            }
            TaskKind::Kernel { node, tile, .. } => kernels[node.at()]
                .as_ref()
                .map_or(Vec::new(), |k| k.subtiles(tile, most)),
            _ => vec![Region(Vec::new())],
        };
        Ok(Schedule {
            waits,
            successors,
            pieces: steps.iter().map(pieces).collect(),
            lent: lent(graph, mode),
            steps,
        })
    }

    /// How many pieces can start when everything before a step is done: a receive's second one is the
    /// arrival of its message.
    pub fn starting_pieces(&self, step: usize) -> u32 {
        self.pieces[step].len().max(1) as u32
    }

    /// How many pieces a step has.
    pub fn pieces_of(&self, step: usize) -> u32 {
        match self.steps[step].part {
            Part::Receive(_) => 2,
            _ => self.starting_pieces(step),
        }
    }
}

/// The steps in task order, and per task the number of its first one.
fn steps(graph: &TaskGraph, ranks: &Ranks) -> Result<(Vec<Step>, Vec<u32>), RunError> {
    let mut steps = Vec::new();
    let mut first = vec![0];
    // Per other rank, the messages to it and from it so far: both ends count alike.
    let mut sent: HashMap<u32, u32> = HashMap::new();
    let mut received: HashMap<u32, u32> = HashMap::new();
    for (n, task) in graph.tasks.iter().enumerate() {
        let task_id = TaskId(n as u32);
        let mut push = |part| {
            steps.push(Step {
                task: task_id,
                part,
            })
        };
        let owner = ranks.of(graph, task.device);
        let source = match task.kind {
            TaskKind::Move { src, .. } => ranks.of(graph, graph.buffer(src).device),
            _ => owner,
        };
        let mut message = |from: u32, to: u32| {
            let number = |count: &mut HashMap<u32, u32>, rank: u32| {
                let count = count.entry(rank).or_insert(FIRST_TAG);
                let tag = *count;
                *count += 1;
                Envelope { rank, tag }
            };
            match ranks.rank() {
                me if me == from => Some(Part::Send(number(&mut sent, to))),
                me if me == to => Some(Part::Receive(number(&mut received, from))),
                _ => None,
            }
        };
        if source != owner {
            message(source, owner).into_iter().for_each(&mut push);
        } else if owner == ranks.rank() {
            push(Part::Whole);
        }
        if let TaskKind::Gather { .. } = task.kind {
            for to in ranks.readers(owner) {
                message(owner, to).into_iter().for_each(&mut push);
            }
        }
        first.push(steps.len() as u32);
    }
    let last = sent.values().chain(received.values()).max();
    ranks.check_tags(last.map_or(0, |next| next - 1))?;
    Ok((steps, first))
}
