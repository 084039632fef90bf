//! List scheduling of the tasks of a plan over the resources of a cluster.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};

use super::links::Resource;
use super::{Time, nanoseconds};
use crate::graph::BoundGraph;
use crate::plan::work::Work;
use crate::task::{Task, TaskGraph, TaskKind};

/// What is busy while a task runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Unit {
    /// What computes for a device: itself, or the cores of its server.
    Compute(u32),
    /// What moves cross.
    Link(Resource),
}

impl Time {
    /// Nanoseconds until the last task of a run has ended. Whenever something is free, the task that
    /// can start first does, the first in order of those; a kernel uses all cores that its device
    /// shares, since the runtime cuts its output into pieces. What the host gives and takes costs
    /// nothing.
    pub fn simulate(&self, graph: &BoundGraph, tasks: &TaskGraph) -> u128 {
        let mut waits: Vec<usize> = tasks.tasks.iter().map(|t| t.deps.len()).collect();
        let mut successors: Vec<Vec<usize>> = vec![Vec::new(); tasks.tasks.len()];
        for (at, task) in tasks.tasks.iter().enumerate() {
            for dep in &task.deps {
                successors[dep.0 as usize].push(at);
            }
        }
        let first = waits.iter().enumerate().filter(|(_, n)| **n == 0);
        let mut ready: BinaryHeap<Reverse<(u128, usize)>> =
            first.map(|(at, _)| Reverse((0, at))).collect();
        let mut earliest = vec![0u128; tasks.tasks.len()];
        let mut free: HashMap<Unit, u128> = HashMap::new();
        let mut end = 0;
        while let Some(Reverse((known, at))) = ready.pop() {
            let uses = self.uses(graph, tasks, &tasks.tasks[at]);
            let busy = uses.busy.iter().filter_map(|(unit, _)| free.get(unit));
            let start = busy.copied().max().unwrap_or(0).max(earliest[at]);
            if start > known {
                ready.push(Reverse((start, at)));
                continue;
            }
            for (unit, time) in &uses.busy {
                free.insert(*unit, start + time);
            }
            let done = start + uses.time();
            end = end.max(done);
            for &next in &successors[at] {
                earliest[next] = earliest[next].max(done);
                waits[next] -= 1;
                if waits[next] == 0 {
                    ready.push(Reverse((earliest[next], next)));
                }
            }
        }
        end
    }

    fn uses(&self, graph: &BoundGraph, tasks: &TaskGraph, task: &Task) -> Uses {
        let volume = |b| tasks.buffer(b).bytes();
        match &task.kind {
            TaskKind::Kernel { node, tile, .. } => {
                let rates = &self.machine.server.device.rates;
                let work = Work::of(graph, *node, tile);
                self.computes(task.device, work.attoseconds(rates), work.bytes())
            }
            TaskKind::Aggregate {
                srcs, dst, region, ..
            } => {
                let written = region.volume() * tasks.buffer(*dst).dtype.size();
                let read: u64 = srcs.iter().map(|&b| volume(b)).sum();
                self.moves_within(task.device, u128::from(read) + written as u128)
            }
            TaskKind::Copy { src, region, .. } | TaskKind::Keep { src, region, .. } => {
                let bytes = region.volume() * tasks.buffer(*src).dtype.size();
                self.moves_within(task.device, 2 * bytes as u128)
            }
            TaskKind::Move { src, region, .. } => {
                let from = tasks.buffer(*src);
                let bytes = (region.volume() * from.dtype.size()) as u128;
                let mut uses = Uses::default();
                for (resource, link) in self.crossed(from.device, task.device) {
                    uses.latency = uses.latency.max(link.latency.into());
                    uses.add(Unit::Link(resource), nanoseconds(bytes, link.bandwidth));
                }
                uses
            }
            TaskKind::Load { .. } | TaskKind::Gather { .. } | TaskKind::Free { .. } => {
                Uses::default()
            }
        }
    }

    fn moves_within(&self, device: u32, bytes: u128) -> Uses {
        self.computes(device, 0, bytes)
    }

    fn computes(&self, device: u32, attoseconds: u128, bytes: u128) -> Uses {
        let server = &self.machine.server;
        let on = self.hierarchy.server(device);
        let (unit, workers) = match server.cores {
            Some(cores) => (on, u128::from(cores)),
            None => (device, 1),
        };
        let busy = attoseconds.div_ceil(workers * 1_000_000_000);
        let memory = nanoseconds(bytes, server.device.memory_bandwidth);
        let overhead = u128::from(server.device.overhead).div_ceil(workers);
        let mut uses = Uses::default();
        uses.add(Unit::Compute(unit), busy.max(memory) + overhead);
        if let Some(bus) = server.memory_bus {
            uses.add(Unit::Link(Resource::Bus(on)), nanoseconds(bytes, bus));
        }
        uses
    }
}

/// What a task keeps busy, each for how long.
#[derive(Default)]
struct Uses {
    busy: Vec<(Unit, u128)>,
    latency: u128,
}

impl Uses {
    fn add(&mut self, unit: Unit, time: u128) {
        match self.busy.iter_mut().find(|(known, _)| *known == unit) {
            Some(slot) => slot.1 += time,
            None => self.busy.push((unit, time)),
        }
    }

    fn time(&self) -> u128 {
        self.latency + self.busy.iter().map(|b| b.1).max().unwrap_or(0)
    }
}
