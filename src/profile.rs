//! Where the time of a run went, by statement.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use eindecomp_core::task::TaskKind;
use eindecomp_runtime::{Executor, Trace};

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
}

/// What one statement took.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StatementProfile {
    /// Its name.
    pub name: String,
    /// How its kernel runs.
    pub kernel: String,
    /// Tiles.
    pub calls: usize,
    /// Of all workers together, in its kernels and folds.
    pub busy: Duration,
}

impl Profile {
    pub(crate) fn new(executor: &Executor, trace: &Trace, workers: usize) -> Profile {
        let tasks = &executor.tasks().tasks;
        let mut by_node: BTreeMap<u32, (usize, Duration)> = BTreeMap::new();
        let mut moving = Duration::ZERO;
        for span in &trace.tasks {
            let took = span.end - span.start;
            match &tasks[span.task].kind {
                TaskKind::Kernel { node, .. } | TaskKind::Aggregate { node, .. } => {
                    let kernel = matches!(tasks[span.task].kind, TaskKind::Kernel { .. });
                    let (calls, busy) = by_node.entry(node.0).or_default();
                    *calls += usize::from(kernel && span.piece == 0);
                    *busy += took;
                }
                _ => moving += took,
            }
        }
        let kernels: BTreeMap<u32, (&str, String)> = executor.kernels().collect();
        let mut statements: Vec<StatementProfile> = by_node
            .into_iter()
            .filter_map(|(node, (calls, busy))| {
                let (name, kernel) = kernels.get(&node)?;
                Some(StatementProfile {
                    name: (*name).to_string(),
                    kernel: kernel.clone(),
                    calls,
                    busy,
                })
            })
            .collect();
        statements.sort_by_key(|s| std::cmp::Reverse(s.busy));
        let busy: Duration = statements.iter().map(|s| s.busy).sum();
        let all = trace.wall * u32::try_from(workers).unwrap_or(u32::MAX);
        Profile {
            wall: trace.wall,
            workers,
            statements,
            moving,
            idle: all.saturating_sub(busy + moving),
        }
    }
}

impl fmt::Display for Profile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let all = self.wall.as_secs_f64() * self.workers as f64;
        let row = |f: &mut fmt::Formatter<'_>, name: &str, time: Duration, rest: String| {
            let (ms, share) = (time.as_secs_f64() * 1e3, 100.0 * time.as_secs_f64() / all);
            writeln!(f, "{ms:>10.3} {share:>5.1} %  {name:<20} {rest}")
        };
        writeln!(f, "{:.3?} on {} workers", self.wall, self.workers)?;
        writeln!(f, "   busy ms   share  statement")?;
        for s in &self.statements {
            row(f, &s.name, s.busy, format!("{} × {}", s.calls, s.kernel))?;
        }
        row(f, "(moving)", self.moving, String::new())?;
        row(f, "(idle)", self.idle, String::new())
    }
}
