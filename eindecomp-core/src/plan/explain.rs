//! A plan as one readable table.

use std::fmt;

use super::cluster::LinkClass;
use super::communication::columns;
use super::compare::{Compared, Outcome, compare};
use super::cost::limit::vertex_limit;
use super::strategy::{Roles, Strategy, words};
use super::verify::InvalidPlan;
use super::{Certificate, Cluster, Constraints, Hierarchy, Layout, Plan, PlanError, Residency};
use crate::ein::EinSum;
use crate::graph::{BoundGraph, NodeId};
use crate::pass::Passed;
use crate::task::TaskGraph;
use crate::task::exchange::weight_boxes;
use crate::task::traffic::traffic;

const LINE: usize = 120;
const NAME: usize = 22;
const VECTOR: usize = 28;
const WORDS: usize = 41;

/// One statement of a plan.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Row {
    /// The vertex.
    #[serde(skip)]
    pub node: NodeId,
    /// What people call it.
    pub name: String,
    /// Partition vector: `[b=1 s=4 d=1]`; ` | ` is before what is aggregated.
    pub vector: String,
    /// What it means.
    pub words: String,
    /// Bytes that its operands and partials move in one run.
    #[serde(with = "super::decimal")]
    pub bytes: u128,
    /// JOIN + AGG + REPART of the model `communication`, in elements.
    #[serde(with = "super::decimal")]
    pub elements: u128,
    /// What no partition vector of as many tuples can beat, in elements.
    #[serde(with = "super::decimal")]
    pub limit: u128,
}

impl Row {
    /// Is it the same row of another round of a loop?
    fn same(&self, other: &Row) -> bool {
        self.vector == other.vector
            && (self.bytes, self.elements) == (other.bytes, other.elements)
            && roundless(&self.name) == roundless(&other.name)
            && roundless(&self.words) == roundless(&other.words)
    }
}

/// The text without numbers of loop rounds: `3.x.q` is `x.q`.
fn roundless(text: &str) -> String {
    let word = |word: &str| {
        let parts = word
            .split('.')
            .filter(|p| p.is_empty() || p.contains(|c: char| !c.is_ascii_digit()));
        parts.collect::<Vec<_>>().join(".")
    };
    text.split(' ').map(word).collect::<Vec<_>>().join(" ")
}

/// What a plan does and costs: `Display` prints a table of at most 120 columns, with repeated
/// layers folded; it serialises under the names of its fields.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Explain {
    /// Name and version of the cost model.
    pub model: String,
    /// Devices on servers.
    pub hierarchy: Hierarchy,
    /// Where weights live.
    pub residency: Residency,
    /// What was asked of every vertex.
    pub constraints: Constraints,
    /// What was asked of single tensors: `y: split b in 4`.
    pub pins: Vec<String>,
    /// What was proved.
    pub certificate: Certificate,
    /// The strategy that every split statement follows.
    pub follows: Option<Strategy>,
    /// One row per EinSum, in the graph's order.
    pub rows: Vec<Row>,
    /// Bytes that Moves copy in one run.
    #[serde(with = "super::decimal")]
    pub moved: u128,
    /// Of these, bytes between servers.
    #[serde(with = "super::decimal")]
    pub network: u128,
    /// Cost of the partition vectors under the model `communication`, in elements.
    #[serde(with = "super::decimal")]
    pub elements: u128,
    /// What no partition vectors of as many tuples can beat, in elements.
    #[serde(with = "super::decimal")]
    pub limit: u128,
    /// Bytes of weights that all devices load, once.
    pub loaded: u64,
    /// Peak bytes of each device, weights included.
    pub peaks: Vec<u64>,
    /// What passes did before to the graph that was given; empty unless [told](Explain::after).
    pub passes: Vec<Passed>,
    /// What was amiss when the plan was looked for: entries that were left out, a folder that could not be written;
    /// empty unless [told](Explain::warned).
    pub warnings: Vec<String>,
    /// Named strategies beside the plan; empty unless [asked for](Explain::beside).
    pub strategies: Vec<Compared>,
}

impl Explain {
    /// Of a plan of `graph` and its tasks.
    ///
    /// # Errors
    /// The first rule that the plan breaks.
    pub fn new(graph: &BoundGraph, plan: &Plan, tasks: &TaskGraph) -> Result<Explain, InvalidPlan> {
        let moves = traffic(graph, plan.hierarchy, &plan.nodes)?;
        let roles = Roles::of(graph);
        let vectors: Vec<Option<Vec<u32>>> = (plan.nodes.iter())
            .map(|n| n.join.as_ref().map(|j| j.parts.clone()))
            .collect();
        let rows = graph.ids().filter_map(|(node, vertex)| {
            let join = plan.nodes[node.at()].join.as_ref()?;
            Some(Row {
                node,
                name: vertex.name.to_string(),
                vector: vector(vertex.einsum()?, join),
                words: words(graph, &roles, plan.devices(), &plan.nodes, node),
                bytes: moves[node.at()].total(),
                elements: columns(graph, node, &vectors).into_iter().sum(),
                limit: vertex_limit(graph, node, join.tiles() as u32),
            })
        });
        let rows: Vec<Row> = rows.collect();
        let pins = graph.nodes().iter();
        let pins = pins.flat_map(|n| n.pins.iter().map(|pin| format!("{}: {pin}", n.name)));
        let mut pins: Vec<String> = pins.collect();
        pins.dedup();
        let size = |node: NodeId| graph.node(node).dtype.size() as u64;
        let kept = weight_boxes(graph, &plan.nodes).into_iter();
        Ok(Explain {
            model: plan.model.clone(),
            hierarchy: plan.hierarchy,
            residency: plan.residency,
            constraints: plan.constraints,
            pins,
            certificate: plan.certificate.clone(),
            follows: Strategy::followed(graph, &roles, &plan.nodes),
            elements: rows.iter().map(|r| r.elements).sum(),
            limit: rows.iter().map(|r| r.limit).sum(),
            moved: rows.iter().map(|r| r.bytes).sum(),
            network: (moves.iter())
                .map(|t| t.of_class(plan.hierarchy, LinkClass::Network))
                .sum(),
            rows,
            loaded: kept.map(|(n, _, r)| r.volume() as u64 * size(n)).sum(),
            peaks: tasks.arenas.clone(),
            passes: Vec::new(),
            warnings: Vec::new(),
            strategies: Vec::new(),
        })
    }

    /// The same with what passes did to make the graph that was planned.
    #[must_use]
    pub fn after(self, passes: Vec<Passed>) -> Explain {
        Explain { passes, ..self }
    }

    /// The same with what was amiss when the plan was looked for.
    #[must_use]
    pub fn warned(self, warnings: Vec<String>) -> Explain {
        Explain { warnings, ..self }
    }

    /// The same with every named strategy beside the plan, those that move least first.
    ///
    /// # Errors
    /// As [`compare`].
    pub fn beside(
        self,
        graph: &BoundGraph,
        cluster: &Cluster,
        plan: &Plan,
    ) -> Result<Explain, PlanError> {
        let mut strategies = compare(graph, cluster, plan)?;
        strategies.sort_by_key(|s| match s.outcome {
            Outcome::Feasible { moved, .. } => moved,
            _ => u128::MAX,
        });
        Ok(Explain { strategies, ..self })
    }
}

fn vector(e: &EinSum, join: &Layout) -> String {
    let outputs: usize = e.out.iter().map(Vec::len).sum();
    let part = |(at, (label, d)): (usize, (&crate::ein::Label, &u32))| {
        let bar = if at == outputs { "| " } else { "" };
        format!("{bar}{}={d}", label.name)
    };
    let parts = e.labels.iter().zip(&join.parts).enumerate().map(part);
    format!("[{}]", parts.collect::<Vec<_>>().join(" "))
}

impl fmt::Display for Explain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let weights = match self.residency {
            Residency::AsNeeded => "as needed",
            Residency::Sharded => "sharded",
            Residency::Auto => "auto",
        };
        write!(f, "plan by {} for {}", self.model, self.hierarchy)?;
        if let Some(strategy) = self.follows {
            write!(f, ", {strategy}-parallel")?;
        }
        writeln!(f, ", weights {weights}")?;
        let constraints = Some(self.constraints.to_string()).filter(|c| !c.is_empty());
        let asked: Vec<String> = constraints.into_iter().chain(self.pins.clone()).collect();
        if !asked.is_empty() {
            let line = format!("as asked: {}", asked.join("; "));
            writeln!(f, "{}", cut(&line, LINE))?;
        }
        writeln!(f, "{}", self.certificate.to_string().replace("; ", "\n"))?;
        let peak = self.peaks.iter().copied().max().unwrap_or(0);
        let within = match self.hierarchy.servers {
            1 => String::new(),
            _ => format!(
                ", {} within servers and {} between",
                size(self.moved - self.network),
                size(self.network)
            ),
        };
        writeln!(
            f,
            "moved {} per run{within}; weights loaded once {}; peak memory per device {}",
            size(self.moved),
            size(self.loaded.into()),
            size(peak.into()),
        )?;
        write!(f, "model communication {} elements", decimal(self.elements))?;
        if self.limit > 0 {
            let ratio = self.elements as f64 / self.limit as f64;
            write!(f, ", {ratio:.2} × the least of any vectors")?;
        }
        writeln!(f)?;
        writeln!(
            f,
            "{:NAME$} {:VECTOR$} {:WORDS$} {:>9} {:>7} {:>8}",
            "statement", "parts", "what it does", "moves", "share", "elements"
        )?;
        let mut at = 0;
        while at < self.rows.len() {
            let (period, times) = repeats(&self.rows[at..]);
            for row in &self.rows[at..at + period] {
                self.row(f, row)?;
            }
            if times > 1 {
                writeln!(
                    f,
                    "  … and {}, as the {} above",
                    count(times - 1, "more time"),
                    count(period, "row")
                )?;
            }
            at += period * times;
        }
        for Passed { pass, did } in &self.passes {
            let line = format!("pass {pass} ({}): {}", did.len(), did.join(", "));
            writeln!(f, "{}", cut(&line, LINE))?;
        }
        for warning in &self.warnings {
            writeln!(f, "warning: {warning}")?;
        }
        for s in &self.strategies {
            let line = format!("strategy {}: {}", s.strategy, s.outcome);
            writeln!(f, "{}", cut(&line, LINE))?;
        }
        Ok(())
    }
}

impl Explain {
    fn row(&self, f: &mut fmt::Formatter<'_>, row: &Row) -> fmt::Result {
        let moves = match row.bytes {
            0 => "0".into(),
            bytes => size(bytes),
        };
        let share = match row.bytes {
            0 => String::new(),
            bytes => format!("{:.1} %", bytes as f64 / self.moved as f64 * 100.0),
        };
        writeln!(
            f,
            "{:NAME$} {:VECTOR$} {:WORDS$} {moves:>9} {share:>7} {:>8}",
            cut(&row.name, NAME),
            cut(&row.vector, VECTOR),
            cut(&row.words, WORDS),
            decimal(row.elements),
        )
    }
}

/// How many rows from the start repeat, and how often: the pair that covers most rows, of these
/// the shortest; `(1, 1)` if nothing is saved by folding.
fn repeats(rows: &[Row]) -> (usize, usize) {
    let mut best = (1, 1);
    for period in 1..=rows.len() / 2 {
        let same = rows
            .iter()
            .zip(&rows[period..])
            .take_while(|(a, b)| a.same(b));
        let times = same.count() / period + 1;
        let saved = |(period, times): (usize, usize)| period * (times - 1);
        if saved((period, times)) > saved(best).max(2) {
            best = (period, times);
        }
    }
    best
}

/// `1 device`, `4 devices`.
fn count(n: usize, what: &str) -> String {
    format!("{n} {what}{}", if n == 1 { "" } else { "s" })
}

/// Bytes with three digits: `12.3 MiB`.
pub(super) fn size(bytes: u128) -> String {
    scaled(bytes, 1024.0, &["B", "KiB", "MiB", "GiB", "TiB"])
}

/// A number with three digits: `12.3 M`.
fn decimal(n: u128) -> String {
    scaled(n, 1000.0, &["", "k", "M", "G", "T"])
        .trim_end()
        .into()
}

fn scaled(n: u128, step: f64, units: &[&str]) -> String {
    let mut value = n as f64;
    let mut power = 0;
    while value >= step && power + 1 < units.len() {
        value /= step;
        power += 1;
    }
    let digits = match value {
        _ if power == 0 => 0,
        v if v < 10.0 => 2,
        v if v < 100.0 => 1,
        _ => 0,
    };
    format!("{value:.digits$} {}", units[power])
}

/// At most `width` columns; what is left out shows as `…`.
fn cut(text: &str, width: usize) -> String {
    if text.chars().count() <= width {
        return text.into();
    }
    text.chars().take(width - 1).chain(['…']).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::samples::{ffn, transformer};
    use crate::plan::{Cluster, PlanOptions, plan};
    use crate::task::lower;

    fn explain(graph: &BoundGraph, devices: u32) -> Explain {
        let plan = plan(graph, &Cluster::cpus(devices), &PlanOptions::default()).unwrap();
        Explain::new(graph, &plan, &lower(graph, &plan).unwrap()).unwrap()
    }

    #[test]
    fn one_token_through_an_ffn() {
        insta::assert_snapshot!(explain(&ffn(1, 64, 256), 4), @r"
        plan by placed/2 for 4 devices, tensor-parallel, weights as needed
        optimal over axis layouts with one replica layout per tensor
        optimal over one tuple per device anywhere, with such replicas
        moved 1.50 KiB per run; weights loaded once 128 KiB; peak memory per device 32.6 KiB
        model communication 33.7 k elements, 1.00 × the least of any vectors
        statement              parts                        what it does                                  moves   share elements
        h                      [b=1 f=4 | d=1]              column-parallel; gathers x                    768 B  50.0 %   16.6 k
        a                      [b=1 f=4]                    feature-parallel                                  0              256
        y                      [b=1 d=1 | f=4]              row-parallel, then reduce-scatter             768 B  50.0 %   16.8 k
        ");
    }

    #[test]
    fn layers_are_folded_and_lines_are_short() {
        let explain = explain(&transformer(4, [1, 16, 4, 8, 64]), 4);
        let text = explain.to_string();
        assert!(text.lines().all(|l| l.chars().count() <= 120));
        insta::assert_snapshot!(text, @r"
        plan by placed/2 for 4 devices, heads-parallel, weights as needed
        optimal over axis layouts with one replica layout per tensor
        optimal over one tuple per device anywhere, with such replicas
        moved 24.0 KiB per run; weights loaded once 512 KiB; peak memory per device 132 KiB
        model communication 242 k elements, 2.13 × the least of any vectors
        statement              parts                        what it does                                  moves   share elements
        q                      [b=1 s=4 h=1 e=1 | d=1]      sequence-parallel; reshards (result)       1.50 KiB   6.2 %   4.61 k
        k                      [b=1 t=4 h=1 e=1 | d=1]      sequence-parallel; reshards (result)       1.50 KiB   6.2 %   4.61 k
        v                      [b=1 t=4 h=1 e=1 | d=1]      sequence-parallel; reshards (result)       1.50 KiB   6.2 %   4.61 k
        c                      [b=1 h=4 s=1 t=1 | e=1]      head-parallel                                     0           8.19 k
        m                      [b=1 h=4 s=1 | t=1]          head-parallel                                     0           1.02 k
        p                      [b=1 h=4 s=1 t=1]            head-parallel                                     0           1.09 k
        z                      [b=1 h=4 s=1 | t=1]          head-parallel                                     0           1.02 k
        a                      [b=1 h=4 s=1 t=1]            head-parallel                                     0           1.09 k
        o                      [b=1 s=1 h=4 e=1 | t=1]      head-parallel                                     0           5.12 k
        y                      [b=1 s=4 d=1 | h=1 e=1]      sequence-parallel; reshards o              1.50 KiB   6.2 %   8.19 k
        r                      [b=1 s=4 d=1]                sequence-parallel                                 0           1.02 k
        u                      [b=1 s=4 f=1 | d=1]          sequence-parallel                                 0           8.70 k
        n                      [b=1 s=4 f=1]                sequence-parallel                                 0           1.02 k
        t                      [b=1 s=4 d=1 | f=1]          sequence-parallel                                 0           9.22 k
        x1                     [b=1 s=4 d=1]                sequence-parallel                                 0           1.02 k
          … and 3 more times, as the 15 rows above
        ");
    }
}
