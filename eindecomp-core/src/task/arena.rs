//! Where every buffer is in its device's arena.
//!
//! What stays across runs is stacked at the bottom. Buffers of the run may share bytes if, in the
//! order of tasks, one is freed before the other is first written; whatever writes the later one
//! then waits for that free (*reuse edges*), so that no run has both in use at once.
//!
//! Buffers are placed largest first, each into the gap that it fits best; of the gaps that do, one
//! whose reuse edges lengthen no path through the tasks comes first.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};

use super::{BufferId, BufferRole, TaskGraph, TaskId, TaskKind};

/// Offsets are multiples of this many bytes: a cache line, so that kernels load whole vectors.
pub const ALIGN: u64 = 64;

/// Gives every buffer its offset, every arena its size, and adds the reuse edges. Every buffer of
/// the run has been freed.
pub(super) fn assign(graph: &mut TaskGraph) {
    let lives = lives(graph);
    let mut top = vec![0u64; graph.devices as usize];
    let mut run: Vec<Vec<(BufferId, Life)>> = vec![Vec::new(); graph.devices as usize];
    for (at, life) in lives.into_iter().enumerate() {
        let buffer = &mut graph.buffers[at];
        let device = buffer.device as usize;
        match (buffer.role, life) {
            (BufferRole::Version(_), _) => {}
            (BufferRole::Weight | BufferRole::State, _) => {
                buffer.offset = top[device];
                top[device] += aligned(buffer.bytes());
            }
            (_, Some(life)) => run[device].push((BufferId(at as u32), life)),
            (_, None) => {}
        }
    }
    // devices that do the same share the work
    let mut known: HashMap<Vec<Life>, Vec<u64>> = HashMap::new();
    for (run, top) in run.iter_mut().zip(&top) {
        rank(run);
        let lives: Vec<Life> = run.iter().map(|(_, life)| life.clone()).collect();
        let offsets = known.entry(lives).or_insert_with_key(|lives| place(lives));
        for ((buffer, _), offset) in run.iter().zip(offsets) {
            graph.buffers[buffer.0 as usize].offset = top + *offset;
        }
    }
    for at in 0..graph.buffers.len() {
        // a version comes after the one before
        if let BufferRole::Version(over) = graph.buffers[at].role {
            graph.buffers[at].offset = graph.buffer(over).offset;
        }
    }
    graph.arenas = vec![0; graph.devices as usize];
    for buffer in graph.buffers.iter().filter(|b| b.bytes() > 0) {
        let arena = &mut graph.arenas[buffer.device as usize];
        *arena = (*arena).max(buffer.range().end);
    }
    add_reuse_edges(graph);
}

fn aligned(bytes: u64) -> u64 {
    bytes.next_multiple_of(ALIGN)
}

/// What the placement of a buffer of the run depends on.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Life {
    /// Its aligned size.
    size: u64,
    /// The first task that writes it, and its free.
    born: u32,
    freed: u32,
    /// How many tasks, without frees, come one after the other until the first write, and until the free.
    earliest: u32,
    latest: u32,
}

impl Life {
    /// Does one end before the other begins in the order of tasks?
    fn apart(&self, other: &Life) -> bool {
        self.freed < other.born || other.freed < self.born
    }

    /// Of two that are apart: may the later one's writers wait for the earlier one's free without
    /// any path becoming longer?
    fn follows(&self, other: &Life) -> bool {
        let (first, then) = match self.freed < other.born {
            true => (self, other),
            false => (other, self),
        };
        first.latest < then.earliest
    }
}

/// Per buffer of the run that has elements, its life.
fn lives(graph: &TaskGraph) -> Vec<Option<Life>> {
    let mut depth = vec![0u32; graph.tasks.len()];
    let mut lives: Vec<Option<Life>> = vec![None; graph.buffers.len()];
    for (at, task) in graph.tasks.iter().enumerate() {
        let before = task.deps.iter().map(|d| depth[d.0 as usize]).max();
        let step = u32::from(!matches!(task.kind, TaskKind::Free { .. }));
        depth[at] = before.map_or(0, |d| d + step);
        for &b in task.kind.writes() {
            let buffer = graph.buffer(b);
            if !buffer.role.stays() && buffer.bytes() > 0 {
                let life = lives[b.0 as usize].get_or_insert(Life {
                    size: aligned(buffer.bytes()),
                    born: at as u32,
                    freed: u32::MAX,
                    earliest: depth[at],
                    latest: u32::MAX,
                });
                life.earliest = life.earliest.min(depth[at]);
            }
        }
        if let TaskKind::Free { buffer } = task.kind
            && let Some(life) = &mut lives[buffer.0 as usize]
        {
            (life.freed, life.latest) = (at as u32, depth[at]);
        }
    }
    lives
}

/// Replaces times by their ranks on this device: the placement compares them only.
fn rank(run: &mut [(BufferId, Life)]) {
    let mut ranks = |times: fn(&mut Life) -> [&mut u32; 2]| {
        let mut all: Vec<u32> = (run.iter_mut())
            .flat_map(|(_, l)| times(l).map(|t| *t))
            .collect();
        all.sort_unstable();
        all.dedup();
        for (_, life) in run.iter_mut() {
            for time in times(life) {
                *time = all.partition_point(|t| t < time) as u32;
            }
        }
    };
    ranks(|l| [&mut l.born, &mut l.freed]);
    ranks(|l| [&mut l.earliest, &mut l.latest]);
}

/// An offset per buffer.
fn place(lives: &[Life]) -> Vec<u64> {
    let mut order: Vec<usize> = (0..lives.len()).collect();
    order.sort_by_key(|&n| (Reverse(lives[n].size), n));
    let mut offsets = vec![0u64; lives.len()];
    let mut end = 0;
    for (count, &n) in order.iter().enumerate() {
        let life = &lives[n];
        let (mut taken, mut slow) = (Vec::new(), Vec::new());
        for &other in &order[..count] {
            let range = (offsets[other], offsets[other] + lives[other].size);
            match life.apart(&lives[other]) {
                false => taken.push(range),
                true if !life.follows(&lives[other]) => slow.push(range),
                true => {}
            }
        }
        taken.sort_unstable();
        let above = taken.iter().map(|t| t.1).max().unwrap_or(0);
        let mut free = 0;
        let mut best: Option<(bool, u64, u64)> = None;
        // the last gap is below the end that the arena has already
        for (lo, hi) in taken.into_iter().chain([(end, end)]) {
            let starts = slow.iter().map(|s| s.1).filter(|s| (free..lo).contains(s));
            for start in starts.chain([free]) {
                let stop = start + life.size;
                if stop <= lo {
                    let waits = slow.iter().any(|&(a, b)| a < stop && start < b);
                    let fit = (waits, lo - free, start);
                    best = Some(best.map_or(fit, |b| b.min(fit)));
                }
            }
            free = free.max(hi);
        }
        offsets[n] = best.map_or(above, |b| b.2);
        end = end.max(offsets[n] + life.size);
    }
    offsets
}

/// Whatever writes a buffer waits until all that were in its bytes before are freed.
fn add_reuse_edges(graph: &mut TaskGraph) {
    let mut frees: Vec<Option<TaskId>> = vec![None; graph.buffers.len()];
    for (at, task) in graph.tasks.iter().enumerate() {
        if let TaskKind::Free { buffer } = task.kind {
            frees[buffer.0 as usize] = Some(TaskId(at as u32));
        }
    }
    let mut tenants = vec![Tenants::default(); graph.devices as usize];
    let mut waits: Vec<Option<Vec<TaskId>>> = vec![None; graph.buffers.len()];
    for task in &mut graph.tasks {
        for &id in task.kind.writes() {
            let buffer = &graph.buffers[id.0 as usize];
            if buffer.role.stays() || buffer.bytes() == 0 {
                continue;
            }
            let waits = waits[id.0 as usize].get_or_insert_with(|| {
                let before = tenants[buffer.device as usize].replace(buffer.range(), id);
                before
                    .into_iter()
                    .filter_map(|b| frees[b.0 as usize])
                    .collect()
            });
            task.deps.extend(waits.iter());
        }
        task.deps.sort_unstable();
        task.deps.dedup();
    }
}

/// Who had which bytes last: start → end and buffer, without overlaps.
#[derive(Clone, Debug, Default)]
struct Tenants(BTreeMap<u64, (u64, BufferId)>);

impl Tenants {
    /// `buffer` takes the bytes; returns who had any of them, each once.
    fn replace(&mut self, bytes: std::ops::Range<u64>, buffer: BufferId) -> Vec<BufferId> {
        let below = self.0.range(..bytes.start).next_back();
        let from = below.filter(|(_, t)| t.0 > bytes.start);
        let from = from.map_or(bytes.start, |(&start, _)| start);
        let over: Vec<(u64, (u64, BufferId))> = self
            .0
            .range(from..bytes.end)
            .map(|(&s, &t)| (s, t))
            .collect();
        let mut before = Vec::new();
        for (start, (end, tenant)) in over {
            self.0.remove(&start);
            if start < bytes.start {
                self.0.insert(start, (bytes.start, tenant));
            }
            if bytes.end < end {
                self.0.insert(bytes.end, (end, tenant));
            }
            if !before.contains(&tenant) {
                before.push(tenant);
            }
        }
        self.0.insert(bytes.start, (bytes.end, buffer));
        before
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::testing::random_graph;
    use crate::plan::samples::{Sample, ffn, transformer};
    use crate::plan::testing::random_plan;
    use crate::plan::{Cluster, PlanOptions, plan};
    use crate::task::lower;
    use proptest::prelude::*;

    fn planned(graph: &crate::graph::BoundGraph, devices: u32) -> TaskGraph {
        let plan = plan(graph, &Cluster::cpus(devices), &PlanOptions::default()).unwrap();
        lower(graph, &plan).unwrap()
    }

    /// Most bytes that are in use at once when tasks run in their order.
    fn live(graph: &TaskGraph) -> Vec<u64> {
        let mut now = vec![0u64; graph.devices as usize];
        for b in graph.buffers.iter().filter(|b| b.role.stays()) {
            if !matches!(b.role, BufferRole::Version(_)) {
                now[b.device as usize] += b.bytes();
            }
        }
        let (mut most, mut written) = (now.clone(), vec![false; graph.buffers.len()]);
        for task in &graph.tasks {
            for b in task.kind.writes() {
                let buffer = graph.buffer(*b);
                if !buffer.role.stays() && !std::mem::replace(&mut written[b.0 as usize], true) {
                    now[buffer.device as usize] += buffer.bytes();
                }
            }
            for (most, now) in most.iter_mut().zip(&now) {
                *most = (*most).max(*now);
            }
            if let TaskKind::Free { buffer } = task.kind {
                now[graph.buffer(buffer).device as usize] -= graph.buffer(buffer).bytes();
            }
        }
        most
    }

    proptest! {
        /// Tasks run in an order that only their dependencies restrict.
        #[test]
        fn no_order_has_two_buffers_in_one_place(
            seed: u64,
            statements in 1usize..8,
            devices in 1u32..6,
        ) {
            let graph = random_graph(seed, statements).bound();
            let tasks = lower(&graph, &random_plan(&graph, devices, seed)).unwrap();
            let mut waits: Vec<usize> = tasks.tasks.iter().map(|t| t.deps.len()).collect();
            let mut ready: Vec<usize> = (0..waits.len()).filter(|&t| waits[t] == 0).collect();
            let stays = |b: &BufferId| match tasks.buffer(*b).role {
                BufferRole::Version(_) => false,
                role => role.stays(),
            };
            let all = (0..tasks.buffers.len() as u32).map(BufferId);
            let mut used: Vec<BufferId> = all.filter(stays).collect();
            let (mut dice, mut ran) = (seed, 0);
            while !ready.is_empty() {
                dice = dice.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
                let at = ready.swap_remove((dice >> 33) as usize % ready.len());
                ran += 1;
                for &b in tasks.tasks[at].kind.writes() {
                    let new = tasks.buffer(b);
                    if new.role.stays() || used.contains(&b) {
                        continue;
                    }
                    for &other in &used {
                        let old = tasks.buffer(other);
                        let (x, y) = (old.range(), new.range());
                        let apart = old.device != new.device || x.end <= y.start || y.end <= x.start;
                        prop_assert!(apart, "b{} and b{} of\n{tasks}", other.0, b.0);
                    }
                    used.push(b);
                }
                if let TaskKind::Free { buffer } = tasks.tasks[at].kind {
                    used.retain(|b| *b != buffer);
                }
                for (next, task) in tasks.tasks.iter().enumerate() {
                    if task.deps.contains(&TaskId(at as u32)) {
                        waits[next] -= 1;
                        if waits[next] == 0 {
                            ready.push(next);
                        }
                    }
                }
            }
            prop_assert_eq!(ran, tasks.tasks.len());
        }
    }

    #[test]
    fn arenas_are_hardly_larger_than_what_is_in_use() {
        let graphs = [ffn(64, 32, 128), transformer(2, [2, 16, 4, 16, 128])];
        for (n, graph) in graphs.iter().enumerate() {
            for devices in [1, 2, 4, 8] {
                let tasks = planned(graph, devices);
                for (arena, live) in tasks.arenas.iter().zip(live(&tasks)) {
                    let ratio = *arena as f64 / live as f64;
                    assert!(*arena >= live && ratio <= 1.05, "{n} on {devices}: {ratio}");
                }
            }
        }
    }

    #[test]
    fn a_long_chain_needs_two_of_its_tensors() {
        let mut g = Sample::default();
        let mut x = g.data("x", &[16, 16]);
        for _ in 0..20 {
            x = g.einsum("y", "ij->ij", &[x]);
        }
        let graph = g.finish(x);
        assert_eq!(planned(&graph, 1).arenas, [2 * 16 * 16 * 4]);
        assert_eq!(planned(&graph, 4).arenas, [2 * 16 * 4 * 4; 4]);
    }

    /// Two chains that no task joins before the end, which needs far more memory: they have room.
    #[test]
    fn reuse_follows_the_paths() {
        let mut g = Sample::default();
        let (a, b) = (g.data("a", &[16, 16]), g.data("b", &[16, 16]));
        let (mut x, mut y) = (a, b);
        for _ in 0..6 {
            (x, y) = (g.einsum("x", "ij->ij", &[x]), g.einsum("y", "ij->ij", &[y]));
        }
        let z = g.einsum("z", "ij,ik->ijk", &[x, y]);
        let tasks = planned(&g.finish(z), 1);
        let mut depth = vec![0; tasks.tasks.len()];
        for (at, task) in tasks.tasks.iter().enumerate() {
            let step = usize::from(!matches!(task.kind, TaskKind::Free { .. }));
            let before = task.deps.iter().map(|d| depth[d.0 as usize] + step);
            depth[at] = before.max().unwrap_or(0);
        }
        // a load, 6 statements of one chain, the product and gather: no chain waits for the other
        assert_eq!(depth.iter().max(), Some(&8), "{tasks}");
    }
}
