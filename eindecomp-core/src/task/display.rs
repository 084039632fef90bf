//! The dump of a [`TaskGraph`]: buffers, then tasks, by number.

use std::fmt;

use super::{Buffer, BufferId, BufferRole, Task, TaskGraph, TaskId, TaskKind};

impl fmt::Display for BufferId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "b{}", self.0)
    }
}

impl fmt::Display for BufferRole {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            BufferRole::Owned => "owned",
            BufferRole::Replica => "replica",
            BufferRole::Partial => "partial",
            BufferRole::Weight => "weight",
            BufferRole::State => "state",
            BufferRole::Version(over) => return write!(f, "over {over}"),
        })
    }
}

/// `owned   @0+64 %2 f32 [0..4, 0..8]`: the buffer starts 64 bytes into the arena of device 0.
impl fmt::Display for Buffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Buffer {
            device,
            node,
            region,
            dtype,
            role,
            offset,
        } = self;
        write!(
            f,
            "{:<7} @{device}+{offset} {node} {dtype} {region}",
            role.to_string()
        )
    }
}

/// ```text
/// taskgraph arenas=640B,512B
///   b0 = owned   @0+64 %0 f32 [0..4, 0..8]
///   t6  kernel %2(0,0,0) @0 reads b0 b2 -> b6 [0..4, 0..8, 0..4] after t1 t3
///   t10 move   b8 @2 -> b9 @0 [0..4, 0..8] 128B after t6
///   t11 agg    %2 b6 b9 -> b10 @0 [0..4, 0..8] after t6 t10
/// ```
///
/// A kernel's box is its range of every label. Tasks that fill the weights are `w0`, `w1`, …
impl fmt::Display for TaskGraph {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let arenas: Vec<String> = self.arenas.iter().map(|a| format!("{a}B")).collect();
        writeln!(f, "taskgraph arenas={}", arenas.join(","))?;
        for (at, buffer) in self.buffers.iter().enumerate() {
            writeln!(f, "  b{at} = {buffer}")?;
        }
        for (prefix, tasks) in [('w', &self.load), ('t', &self.tasks)] {
            for (at, task) in tasks.iter().enumerate() {
                write!(f, "  {prefix}{at} ")?;
                self.task(f, task)?;
                for (n, dep) in task.deps.iter().enumerate() {
                    write!(
                        f,
                        "{} {prefix}{}",
                        if n == 0 { " after" } else { "" },
                        dep.0
                    )?;
                }
                writeln!(f)?;
            }
        }
        Ok(())
    }
}

impl TaskGraph {
    /// One task of a run as the dump shows it, without what comes before it; `t9` if there is none.
    pub fn describe(&self, id: TaskId) -> String {
        let task = self.tasks.get(id.0 as usize);
        let shown = task.map(|task| Shown(self, task).to_string());
        format!("t{} {}", id.0, shown.unwrap_or_default())
            .trim_end()
            .into()
    }

    fn task(&self, f: &mut fmt::Formatter<'_>, task: &Task) -> fmt::Result {
        let device = task.device;
        let list = |buffers: &[BufferId]| {
            let names: Vec<String> = buffers.iter().map(BufferId::to_string).collect();
            names.join(" ")
        };
        match &task.kind {
            TaskKind::Load { dst } => {
                let Buffer { node, region, .. } = self.buffer(*dst);
                write!(f, "load   {node} -> {dst} @{device} {region}")
            }
            TaskKind::Kernel {
                node,
                key,
                tile,
                reads,
                writes,
            } => {
                let key: Vec<String> = key.iter().map(u32::to_string).collect();
                let (key, reads, writes) = (key.join(","), list(reads), list(writes));
                write!(
                    f,
                    "kernel {node}({key}) @{device} reads {reads} -> {writes} {tile}"
                )
            }
            TaskKind::Move { src, dst, region } => {
                let from = self.buffer(*src);
                let bytes = region.volume() * from.dtype.size();
                let from = from.device;
                write!(
                    f,
                    "move   {src} @{from} -> {dst} @{device} {region} {bytes}B"
                )
            }
            TaskKind::Copy { src, dst, region } => {
                write!(f, "copy   {src} -> {dst} @{device} {region}")
            }
            TaskKind::Keep { src, dst, region } => {
                write!(f, "keep   {src} -> {dst} @{device} {region}")
            }
            TaskKind::Aggregate {
                node,
                srcs,
                dst,
                region,
            } => write!(
                f,
                "agg    {node} {} -> {dst} @{device} {region}",
                list(srcs)
            ),
            TaskKind::Gather {
                src,
                output,
                region,
            } => write!(f, "gather {src} @{device} -> output {output} {region}"),
            TaskKind::Free { buffer } => write!(f, "free   {buffer} @{device}"),
        }
    }
}

struct Shown<'a>(&'a TaskGraph, &'a Task);

impl fmt::Display for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.task(f, self.1)
    }
}
