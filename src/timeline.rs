//! A run as a timeline: trace events in Chrome's JSON format, which <https://ui.perfetto.dev> opens.
//!
//! Devices are its processes and workers their threads; a piece of a task is a complete event (`X`), and a
//! move a flow (`s`, `f`) from what made its box on the sender to what put it there on the receiver.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use eindecomp_core::graph::{BoundGraph, NodeId, Place};
use eindecomp_core::plan::layout::Region;
use eindecomp_core::plan::work::Work;
use eindecomp_core::task::{BufferId, TaskGraph, TaskKind};
use eindecomp_runtime::{Executor, TaskSpan, Trace};
use serde::ser::SerializeStruct;
use serde::{Serialize, Serializer};

use crate::Error;

/// What a run did when, and where.
#[derive(Clone, PartialEq)]
pub(crate) struct Timeline {
    graph: Arc<BoundGraph>,
    tasks: Arc<TaskGraph>,
    /// By node.
    kernels: BTreeMap<u32, String>,
    /// Each with the boxes of its labels that it computed, if it is of a kernel.
    spans: Vec<(TaskSpan, Vec<Region>)>,
    wall: Duration,
    workers: usize,
    /// Whether a device is of this process.
    here: Vec<bool>,
}

/// Short: a profile is printed with it.
impl std::fmt::Debug for Timeline {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Timeline({} spans)", self.spans.len())
    }
}

/// One element of `traceEvents`. Times are microseconds.
#[derive(Serialize)]
#[serde(tag = "ph")]
enum Event<'a> {
    #[serde(rename = "M")]
    Name {
        name: &'static str,
        pid: u32,
        tid: usize,
        args: Named,
    },
    #[serde(rename = "X")]
    Complete {
        name: String,
        cat: &'static str,
        pid: u32,
        tid: usize,
        ts: f64,
        dur: f64,
        args: Args<'a>,
    },
    #[serde(rename = "s")]
    Leaves(Flow),
    #[serde(rename = "f")]
    Arrives(Flow),
}

#[derive(Serialize)]
struct Named {
    name: String,
}

/// One end of an arrow; both have the task's number, also in the files of two ranks.
#[derive(Serialize)]
struct Flow {
    name: &'static str,
    cat: &'static str,
    id: usize,
    pid: u32,
    tid: usize,
    ts: f64,
    /// The event around it has the arrow.
    bp: &'static str,
}

/// What is shown of an event that is selected.
#[derive(Default, Serialize)]
struct Args<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    task: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    piece: Option<usize>,
    /// Of the statement.
    #[serde(skip_serializing_if = "Option::is_none")]
    source: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    kernel: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tile: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    from: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    to: Option<u32>,
    /// Moved or copied.
    #[serde(skip_serializing_if = "Option::is_none")]
    bytes: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    read: Option<u128>,
    #[serde(skip_serializing_if = "Option::is_none")]
    written: Option<u128>,
}

impl Timeline {
    pub fn new(
        executor: &Executor,
        graph: Arc<BoundGraph>,
        trace: &Trace,
        workers: usize,
    ) -> Timeline {
        let boxes = |span: &TaskSpan| match &span.stored {
            Some(boxes) => boxes.clone(),
            None => executor
                .piece(span.task, span.piece)
                .into_iter()
                .cloned()
                .collect(),
        };
        let tasks = executor.tasks().clone();
        Timeline {
            graph,
            kernels: executor
                .kernels()
                .map(|(node, (_, kernel))| (node, kernel))
                .collect(),
            spans: trace.tasks.iter().map(|s| (s.clone(), boxes(s))).collect(),
            wall: trace.wall,
            workers,
            here: (0..tasks.devices).map(|d| executor.has_device(d)).collect(),
            tasks,
        }
    }

    pub fn write(&self, path: &Path) -> Result<(), Error> {
        let written = File::create(path).and_then(|file| {
            let mut file = BufWriter::new(file);
            serde_json::to_writer(&mut file, self)?;
            file.flush()
        });
        written.map_err(|source| {
            let path = path.into();
            Error::Timeline { path, source }
        })
    }

    fn events(&self) -> impl Iterator<Item = Event<'_>> {
        let arrows = self.arrows();
        // devices whose kept tensors an arrow leaves
        let kept: BTreeSet<u32> = arrows.iter().filter(|a| a.kept).map(|a| a.from).collect();
        let names = self.names(&kept);
        let kept: Vec<Event> = kept.into_iter().map(|device| self.kept(device)).collect();
        let spans = self
            .spans
            .iter()
            .map(|(span, boxes)| self.span(span, boxes));
        names
            .into_iter()
            .chain(kept)
            .chain(spans)
            .chain(arrows.into_iter().flat_map(|a| a.ends))
    }

    /// Of processes and threads: the devices of this process with the workers that did something there.
    fn names(&self, kept: &BTreeSet<u32>) -> Vec<Event<'_>> {
        let mut names = Vec::new();
        let mut name = |what, device, tid, name| {
            let (pid, args) = (pid(device), Named { name });
            names.push(Event::Name {
                name: what,
                pid,
                tid,
                args,
            });
        };
        let here = self.here.iter().zip(0..).filter(|(here, _)| **here);
        for (_, device) in here {
            name("process_name", device, tid(0), format!("device {device}"));
        }
        let used: BTreeSet<(u32, usize)> = self
            .spans
            .iter()
            .map(|(s, _)| (s.device, s.worker))
            .collect();
        for (device, worker) in used {
            name(
                "thread_name",
                device,
                tid(worker),
                format!("worker {worker}"),
            );
        }
        for &device in kept {
            name(
                "thread_name",
                device,
                tid(self.workers),
                "kept across runs".into(),
            );
        }
        names
    }

    /// What an arrow of a weight or state leaves, which no task of the run has made.
    fn kept(&self, device: u32) -> Event<'_> {
        Event::Complete {
            name: "weights and states".into(),
            cat: "kept",
            pid: pid(device),
            tid: tid(self.workers),
            ts: 0.0,
            dur: micros(self.wall),
            args: Args::default(),
        }
    }

    fn span(&self, span: &TaskSpan, boxes: &[Region]) -> Event<'_> {
        let task = &self.tasks.tasks[span.task];
        let tensor = |b: BufferId| &*self.graph.node(self.tasks.buffer(b).node).name;
        let bytes = |b: BufferId, region: &Region| {
            let size = self.tasks.buffer(b).dtype.size() as u64;
            Some(region.volume() as u64 * size)
        };
        let place = |name: &str| self.graph.graph().place(name).map(Place::to_string);
        let mut args = Args {
            task: Some(span.task),
            piece: Some(span.piece),
            ..Args::default()
        };
        let mut boxed = |b: BufferId, region: &Region| {
            args.bytes = bytes(b, region);
            args.tile = Some(region.to_string());
            args.source = place(tensor(b));
            tensor(b).to_string()
        };
        let (cat, name) = match &task.kind {
            TaskKind::Kernel { node, .. } => {
                args.kernel = self.kernels.get(&node.0).map(String::as_str);
                let work = boxes.iter().map(|b| Work::of(&self.graph, *node, b));
                let (read, written) =
                    work.fold((0, 0), |sum, w| (sum.0 + w.read, sum.1 + w.written));
                (args.read, args.written) = (Some(read), Some(written));
                let tiles: Vec<String> = boxes.iter().map(|b| self.tile(*node, b)).collect();
                args.tile = Some(tiles.join("; "));
                let name = &self.graph.node(*node).name;
                args.source = place(name);
                ("kernel", name.to_string())
            }
            TaskKind::Aggregate {
                node, dst, region, ..
            } => {
                args.kernel = self.kernels.get(&node.0).map(String::as_str);
                ("fold", boxed(*dst, region))
            }
            TaskKind::Move { src, region, .. } => {
                let name = boxed(*src, region);
                let from = self.tasks.buffer(*src).device;
                (args.from, args.to) = (Some(from), Some(task.device));
                (if span.device == from { "send" } else { "move" }, name)
            }
            TaskKind::Copy { src, region, .. } => ("copy", boxed(*src, region)),
            TaskKind::Keep { src, region, .. } => ("keep", boxed(*src, region)),
            TaskKind::Gather { src, region, .. } => ("gather", boxed(*src, region)),
            TaskKind::Load { dst } => ("load", boxed(*dst, &self.tasks.buffer(*dst).region)),
            TaskKind::Free { buffer } => {
                ("free", boxed(*buffer, &self.tasks.buffer(*buffer).region))
            }
        };
        Event::Complete {
            name: match cat {
                "kernel" => name,
                _ => format!("{cat} {name}"),
            },
            cat,
            pid: pid(span.device),
            tid: tid(span.worker),
            ts: micros(span.start),
            dur: micros(span.end - span.start),
            args,
        }
    }

    /// `i 0..4, j 0..8`
    fn tile(&self, node: NodeId, tile: &Region) -> String {
        let labels = self
            .graph
            .node(node)
            .einsum()
            .map_or(&[][..], |e| &e.labels);
        let ranges = labels.iter().zip(&tile.0);
        let ranges = ranges.map(|(label, (lo, hi))| format!("{} {lo}..{hi}", label.name));
        ranges.collect::<Vec<_>>().join(", ")
    }

    /// The moves of the run.
    fn arrows(&self) -> Vec<Arrow> {
        let mut makers: HashMap<BufferId, Vec<&TaskSpan>> = HashMap::new();
        let mut moves: BTreeMap<usize, Vec<&TaskSpan>> = BTreeMap::new();
        for (span, _) in &self.spans {
            let kind = &self.tasks.tasks[span.task].kind;
            if let TaskKind::Move { .. } = kind {
                moves.entry(span.task).or_default().push(span);
            }
            for &buffer in kind.writes() {
                makers.entry(buffer).or_default().push(span);
            }
        }
        let mut arrows = Vec::new();
        for (id, spans) in moves {
            let TaskKind::Move { src, .. } = self.tasks.tasks[id].kind else {
                continue;
            };
            let from = self.tasks.buffer(src).device;
            let sent = spans.iter().find(|s| s.device == from);
            let taken = spans
                .iter()
                .filter(|s| s.device != from)
                .max_by_key(|s| s.piece);
            let mut arrow = Arrow {
                from,
                kept: false,
                ends: Vec::new(),
            };
            let mut end = |event: fn(Flow) -> Event<'static>, device, tid, at| {
                arrow.ends.push(event(Flow {
                    name: "move",
                    cat: "move",
                    id,
                    pid: pid(device),
                    tid,
                    ts: micros(at),
                    bp: "e",
                }));
            };
            if let Some(span) = sent {
                end(Event::Leaves, from, tid(span.worker), last(span));
            } else if let Some(taken) = taken.filter(|_| self.here[from as usize]) {
                let before = makers.get(&src).into_iter().flatten();
                let before = before.filter(|s| s.device == from && s.end <= taken.start);
                match before.max_by_key(|s| s.end) {
                    Some(maker) => end(Event::Leaves, from, tid(maker.worker), last(maker)),
                    None => {
                        end(Event::Leaves, from, tid(self.workers), taken.start);
                        arrow.kept = true;
                    }
                }
            }
            if let Some(span) = taken {
                end(Event::Arrives, span.device, tid(span.worker), span.start);
            }
            arrows.push(arrow);
        }
        arrows
    }
}

/// A move: its ends that are in this process.
struct Arrow {
    from: u32,
    /// Does it leave a weight or state?
    kept: bool,
    ends: Vec<Event<'static>>,
}

/// The last nanosecond of a span, which is within it.
fn last(span: &TaskSpan) -> Duration {
    let end = span.end.saturating_sub(Duration::from_nanos(1));
    end.max(span.start)
}

/// Viewers take 0 for the system's idle process.
fn pid(device: u32) -> u32 {
    device + 1
}

/// As [`pid`].
fn tid(worker: usize) -> usize {
    worker + 1
}

fn micros(time: Duration) -> f64 {
    time.as_nanos() as f64 / 1e3
}

/// A JSON object whose events are made while they are written.
impl Serialize for Timeline {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        struct Events<'a>(&'a Timeline);
        impl Serialize for Events<'_> {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_seq(self.0.events())
            }
        }
        let mut object = serializer.serialize_struct("Timeline", 2)?;
        object.serialize_field("displayTimeUnit", "ns")?;
        object.serialize_field("traceEvents", &Events(self))?;
        object.end()
    }
}
