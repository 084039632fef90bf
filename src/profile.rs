//! Where the time of a run went, by statement, and what its kernels did.

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use eindecomp_core::graph::{BoundGraph, Place};
use eindecomp_core::plan::cluster::{Rates, ShapeClass};
use eindecomp_core::plan::work::Work;
use eindecomp_core::task::{BufferRole, TaskGraph, TaskKind};
use eindecomp_runtime::{Executor, TaskSpan, Trace};

use crate::Error;
use crate::timeline::Timeline;

/// How many statements a printed profile shows; the others are one line.
const SHOWN: usize = 5;

/// Where the time of one run went. Printed, it is a table of the statements that took most.
#[derive(Clone, Debug, PartialEq)]
pub struct Profile {
    /// From start to end.
    pub wall: Duration,
    /// Workers that ran it.
    pub workers: usize,
    /// Statements that had work, those that took most first.
    pub statements: Vec<StatementProfile>,
    /// Of all workers together, that they moved, copied, loaded, gathered.
    pub moving: Duration,
    /// Of all workers together, that they waited for each other.
    pub idle: Duration,
    /// The devices of this process.
    pub memory: Vec<DeviceMemory>,
    timeline: Timeline,
}

/// What one statement took.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StatementProfile {
    /// Its name.
    pub name: String,
    /// Where it stands, `src/model.rs:12`, if it was read from a file.
    pub source: Option<String>,
    /// How its kernel runs.
    pub kernel: String,
    /// Tiles.
    pub calls: usize,
    /// Of all workers together, in its kernels and folds.
    pub busy: Duration,
    /// Operations of its kernels, as [`Work`] counts them from the statement: one per scalar function at
    /// every point, and one per point that is reduced; a multiply-add is two, an exponential one. Folds of
    /// partial results count nothing, so that the sum does not depend on the partition. `None` for an
    /// opaque kernel, of which nothing is known.
    pub flops: Option<u64>,
    /// Bytes that its kernels read: of each call, every operand's footprint once.
    pub read: u64,
    /// Bytes that its kernels wrote: results as they are stored, partial ones as they are accumulated.
    pub written: u64,
    /// Operations per second of one core at its peak: what [`calibrate`](crate::machine::calibrate) measured of a
    /// product of large matrices of the element type of the operands. `None` where nothing was measured.
    pub peak: Option<u64>,
}

/// The memory of one device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeviceMemory {
    /// The device.
    pub device: u32,
    /// Bytes that were in use at most since the program was compiled.
    pub peak: u64,
    /// Bytes of its arena, as planned.
    pub arena: u64,
    /// Bytes of all buffers that lived in it, weights and states included.
    pub buffers: u64,
}

impl DeviceMemory {
    /// How often a byte of the arena was used by different buffers on average: 1 without reuse.
    pub fn reuse(&self) -> f64 {
        self.buffers as f64 / self.arena.max(1) as f64
    }
}

impl StatementProfile {
    /// Operations per second of a worker while it was busy.
    pub fn rate(&self) -> Option<f64> {
        let seconds = self.busy.as_secs_f64();
        self.flops
            .filter(|_| seconds > 0.0)
            .map(|n| n as f64 / seconds)
    }

    /// The part of a core's peak that a worker had while it was busy: 1 is all.
    pub fn share_of_peak(&self) -> Option<f64> {
        Some(self.rate()? / self.peak? as f64)
    }
}

/// Sums of a statement while its spans are read.
#[derive(Default)]
struct Sums {
    calls: usize,
    busy: Duration,
    operations: u128,
    read: u128,
    written: u128,
    rate: u64,
}

impl Profile {
    pub(crate) fn new(
        executor: &Executor,
        graph: &Arc<BoundGraph>,
        trace: &Trace,
        workers: usize,
        peak: Option<&Rates>,
    ) -> Profile {
        let graph_tasks = executor.tasks();
        let mut by_node: BTreeMap<u32, Sums> = BTreeMap::new();
        let mut moving = Duration::ZERO;
        for span in &trace.tasks {
            let took = span.end - span.start;
            match &graph_tasks.tasks[span.task].kind {
                kind @ TaskKind::Kernel { node, .. } => {
                    let sums = by_node.entry(node.0).or_default();
                    sums.busy += took;
                    if span.piece == 0 {
                        sums.call(graph, graph_tasks, kind, span, peak);
                    }
                }
                TaskKind::Aggregate { node, .. } => by_node.entry(node.0).or_default().busy += took,
                _ => moving += took,
            }
        }
        let mut statements = Vec::new();
        for (node, (name, kernel)) in executor.kernels() {
            let Some(sums) = by_node.remove(&node) else {
                continue;
            };
            let vertex = graph.nodes()[node as usize].einsum();
            let opaque = vertex.is_some_and(|e| e.opaque().is_some());
            statements.push(StatementProfile {
                name: name.to_string(),
                source: graph.graph().place(name).map(Place::to_string),
                kernel,
                calls: sums.calls,
                busy: sums.busy,
                flops: (!opaque).then_some(counted(sums.operations)),
                read: counted(sums.read),
                written: counted(sums.written),
                peak: peak.filter(|_| sums.rate > 0).map(|_| sums.rate),
            });
        }
        statements.sort_by_key(|s| std::cmp::Reverse(s.busy));
        let busy: Duration = statements.iter().map(|s| s.busy).sum();
        let all = trace.wall * u32::try_from(workers).unwrap_or(u32::MAX);
        Profile {
            wall: trace.wall,
            workers,
            statements,
            moving,
            idle: all.saturating_sub(busy + moving),
            memory: memory(executor, trace),
            timeline: Timeline::new(executor, graph.clone(), trace, workers),
        }
    }

    /// Writes the run as a timeline, which <https://ui.perfetto.dev> opens (JSON, Chrome's trace events): a process
    /// per device, a thread per worker, an event per piece of a task with its statement, tile, kernel and bytes, and
    /// an arrow per move. Each rank of a job writes its own devices; arrows between ranks have the same number in both
    /// files.
    ///
    /// # Errors
    /// [`Error::Timeline`]: the file cannot be written.
    pub fn write_timeline(&self, path: impl AsRef<Path>) -> Result<(), Error> {
        self.timeline.write(path.as_ref())
    }
}

impl Sums {
    /// Adds what one call of a kernel does, however it was cut in pieces.
    fn call(
        &mut self,
        graph: &BoundGraph,
        tasks: &TaskGraph,
        kind: &TaskKind,
        span: &TaskSpan,
        peak: Option<&Rates>,
    ) {
        let TaskKind::Kernel {
            node, tile, writes, ..
        } = kind
        else {
            return;
        };
        self.calls += 1;
        for tile in span.stored.as_deref().unwrap_or(std::slice::from_ref(tile)) {
            let work = Work::of(graph, *node, tile);
            self.operations += work.operations();
            self.read += work.read;
            let partial = writes.iter().map(|&b| tasks.buffer(b));
            let partial = partial.filter(|b| b.role == BufferRole::Partial);
            let partial: u64 = partial.map(|b| b.bytes()).sum();
            self.written += match partial {
                0 => work.written,
                bytes => bytes.into(),
            };
            self.rate = peak.map_or(0, |rates| work.rate(rates, ShapeClass::Matmul));
        }
    }
}

fn counted(number: u128) -> u64 {
    u64::try_from(number).unwrap_or(u64::MAX)
}

fn memory(executor: &Executor, trace: &Trace) -> Vec<DeviceMemory> {
    let tasks = executor.tasks();
    let mut buffers = vec![0u64; tasks.devices as usize];
    for buffer in &tasks.buffers {
        buffers[buffer.device as usize] += buffer.bytes();
    }
    let here = (0..tasks.devices).filter(|&device| executor.has_device(device));
    here.map(|device| DeviceMemory {
        device,
        peak: trace.peaks[device as usize],
        arena: tasks.arenas[device as usize],
        buffers: buffers[device as usize],
    })
    .collect()
}

/// A line of the table.
struct Row {
    busy: Duration,
    flops: Option<u64>,
    peak: Option<f64>,
    bytes: Option<(u64, u64)>,
    what: String,
}

impl Row {
    fn of(s: &StatementProfile) -> Row {
        Row {
            busy: s.busy,
            flops: s.flops,
            peak: s.share_of_peak(),
            bytes: Some((s.read, s.written)),
            what: {
                let source = s.source.as_ref().map(|place| format!(", {place}"));
                let source = source.unwrap_or_default();
                format!("{:<20} {} × {}{source}", s.name, s.calls, s.kernel)
            },
        }
    }

    /// Those that are not shown by themselves.
    fn others(all: &[StatementProfile]) -> Row {
        let s = if all.len() == 1 { "" } else { "s" };
        let flops: u64 = all.iter().filter_map(|s| s.flops).sum();
        // the time that their operations would take at peak
        let timed = |s: &StatementProfile| Some(s.flops? as f64 / s.peak? as f64);
        let busy: Duration = all.iter().map(|s| s.busy).sum();
        let best: Option<f64> = all.iter().map(timed).sum();
        Row {
            busy,
            flops: all.iter().all(|s| s.flops.is_some()).then_some(flops),
            peak: best.map(|best| best / busy.as_secs_f64()),
            bytes: Some((
                all.iter().map(|s| s.read).sum(),
                all.iter().map(|s| s.written).sum(),
            )),
            what: format!("({} other{s})", all.len()),
        }
    }

    /// No statement.
    fn rest(busy: Duration, what: &str) -> Row {
        Row {
            busy,
            flops: None,
            peak: None,
            bytes: None,
            what: format!("({what})"),
        }
    }
}

impl fmt::Display for Profile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown = self.statements.len().min(SHOWN);
        // one more is a line as well
        let shown = if self.statements.len() == shown + 1 {
            shown + 1
        } else {
            shown
        };
        let (first, others) = self.statements.split_at(shown);
        let mut rows: Vec<Row> = first.iter().map(Row::of).collect();
        rows.extend((!others.is_empty()).then(|| Row::others(others)));
        rows.push(Row::rest(self.moving, "moving"));
        rows.push(Row::rest(self.idle, "idle"));

        let measured = self.statements.iter().any(|s| s.peak.is_some());
        let s = if self.workers == 1 { "" } else { "s" };
        writeln!(
            f,
            "{:.3?} on {} worker{s}; times are of all together, rates of one",
            self.wall, self.workers
        )?;
        let peak = if measured { "  of peak" } else { "" };
        writeln!(
            f,
            "   busy ms   share      flop    flop/s{peak}      read   written  statement"
        )?;
        let all = self.wall.as_secs_f64() * self.workers as f64;
        for row in rows {
            let seconds = row.busy.as_secs_f64();
            let share = 100.0 * seconds / all;
            write!(f, "{:>10.3} {share:>5.1} %", seconds * 1e3)?;
            let flops = row.flops.map(|n| n as f64);
            let rate = flops.filter(|_| seconds > 0.0).map(|n| n / seconds);
            write!(f, " {:>9} {:>9}", si(flops), si(rate))?;
            if measured {
                let peak = row.peak.map(|p| format!("{:.1} %", 100.0 * p));
                write!(f, " {:>8}", peak.unwrap_or_default())?;
            }
            let (read, written) = row.bytes.unzip();
            let bytes = |n: Option<u64>| si(n.map(|n| n as f64)) + n.map_or("", |_| "B");
            let (read, written) = (bytes(read), bytes(written));
            let line = format!(" {read:>9} {written:>9}  {}", row.what);
            writeln!(f, "{}", line.trim_end())?;
        }
        // devices that have the same are one line
        let same = |a: &DeviceMemory, b: &DeviceMemory| {
            DeviceMemory {
                device: b.device,
                ..*a
            } == *b
        };
        for group in self.memory.chunk_by(same) {
            let (first, last) = (&group[0], &group[group.len() - 1]);
            let devices = match first.device == last.device {
                true => format!("device {}", first.device),
                false => format!("devices {} to {}, each", first.device, last.device),
            };
            let bytes = |n: u64| si(Some(n as f64));
            writeln!(
                f,
                "{devices}: peak memory {}B for {}B of buffers, reuse {:.2} ×",
                bytes(first.peak),
                bytes(first.buffers),
                first.reuse()
            )?;
        }
        Ok(())
    }
}

/// Three digits and a decimal prefix: `312 M`; nothing of nothing.
pub(crate) fn si(number: Option<f64>) -> String {
    let Some(mut value) = number else {
        return String::new();
    };
    let mut prefixes = ["", "k", "M", "G", "T"].into_iter();
    let mut prefix = prefixes.next().unwrap_or_default();
    for next in prefixes {
        if value < 999.5 {
            break;
        }
        (value, prefix) = (value / 1e3, next);
    }
    let digits = match value {
        _ if value == value.trunc() && prefix.is_empty() => 0,
        v if v < 9.995 => 2,
        v if v < 99.95 => 1,
        _ => 0,
    };
    format!("{value:.digits$} {prefix}")
}

#[cfg(test)]
mod tests {
    use super::si;

    #[test]
    fn numbers_have_three_digits() {
        let shown = [
            0.0, 7.0, 0.5, 999.0, 999.6, 1234.0, 99_960.0, 5e6, 3.1e11, 2e15,
        ];
        let shown = shown.map(|n| si(Some(n)));
        let want = [
            "0 ", "7 ", "0.50 ", "999 ", "1.00 k", "1.23 k", "100 k", "5.00 M", "310 G", "2000 T",
        ];
        assert_eq!(shown, want);
        assert_eq!(si(None), "");
    }
}
