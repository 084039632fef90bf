//! What a plan is kept under, and the file it is kept in. Folders and clocks are the façade's.
//!
//! A [`Key`] holds everything that a plan depends on, readable; its hash names the entry. An entry
//! is one JSON document: format, key, plan, and the hash of the last two. Read back, it is
//! untrusted: see [`decode`].

use std::fmt::{self, Write as _};
use std::io;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::{Digest, Sha256};

use super::cluster::Hierarchy;
use super::verify::{self, verify};
use super::{Algorithm, Cluster, Objective, Plan, PlanOptions, Residency};
use crate::graph::{BoundGraph, Pin};
use crate::task::TaskGraph;

/// Version of the planner: raised whenever it makes another plan of the same key. A test compares
/// plans with stored ones.
pub const PLANNER: &str = "planner/3";
/// Version of the entry's format.
const FORMAT: u32 = 1;
/// Larger files are no entries.
pub const MAX_BYTES: u64 = 64 << 20;

/// Everything that a plan depends on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Key {
    /// The canonical graph, bound dims included, by lines.
    pub graph: Vec<String>,
    /// The graph's pins: `%2 #0 in 4`, `%3 whole`.
    pub pins: Vec<String>,
    /// Where weights may live.
    pub residency: Residency,
    /// Bytes per device.
    pub capacity: u64,
    /// Devices on servers, and what a byte between these counts.
    pub hierarchy: Hierarchy,
    /// What `time` reads beside these, two digits of each: `None` under other models.
    pub machine: Option<Cluster>,
    /// Cost model with its version.
    pub model: String,
    /// How the optimum is searched.
    pub algorithm: String,
    /// Planner with its version.
    pub planner: String,
}

impl Key {
    /// Of one planning task.
    pub fn new(graph: &BoundGraph, cluster: &Cluster, options: &PlanOptions) -> Key {
        let mut pins = Vec::new();
        for (id, node) in graph.ids() {
            for pin in &node.pins {
                pins.push(match pin {
                    Pin::Whole => format!("{id} whole"),
                    Pin::Split(name, parts) => {
                        let labels = node.einsum().map_or(&[][..], |e| &e.labels);
                        match labels.iter().position(|l| l.name == *name) {
                            Some(label) => format!("{id} #{label} in {parts}"),
                            None => format!("{id} {name:?} in {parts}"),
                        }
                    }
                });
            }
        }
        Key {
            graph: graph.canonical().lines().map(String::from).collect(),
            pins,
            residency: options.residency,
            capacity: cluster.capacity(),
            hierarchy: cluster.hierarchy(),
            machine: (options.objective == Objective::Time).then(|| cluster.rounded()),
            model: options.objective.model().into(),
            algorithm: match options.algorithm {
                Algorithm::Exact => "exact",
                Algorithm::Linearized => "linearized",
                Algorithm::Exhaustive => "exhaustive",
            }
            .into(),
            planner: PLANNER.into(),
        }
    }

    /// 64 hexadecimal digits: the entry's name.
    pub fn hash(&self) -> String {
        hash(self)
    }
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry<K, P> {
    format: u32,
    payload_sha256: String,
    key: K,
    plan: P,
}

/// Why a file is no entry for a key.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EntryError {
    /// Not an entry's JSON.
    #[error("it is no plan entry: {0}")]
    Json(#[from] serde_json::Error),
    /// Another format.
    #[error("it has format {0}, not {FORMAT}")]
    Format(u32),
    /// Key and plan are not what was hashed.
    #[error("its content does not match its hash")]
    Hash,
    /// Other text of the same content: [`encode`] writes only one.
    #[error("it is not written as entries are")]
    Text,
    /// An entry of another key.
    #[error("it is for another key: the {0} differs")]
    Key(String),
    /// A plan by another model or residency than the key's.
    #[error("its plan is not one of its key's: the {0} differs")]
    Plan(&'static str),
    /// A plan that does not fit the graph or the cluster.
    #[error("its plan breaks a rule: {0}")]
    Rule(#[from] verify::InvalidPlan),
}

/// The entry of a plan: equal for equal keys and plans.
pub fn encode(key: &Key, plan: &Plan) -> String {
    let entry = Entry {
        format: FORMAT,
        payload_sha256: hash(&(key, plan)),
        key,
        plan,
    };
    let mut out = Vec::new();
    let mut writer = serde_json::Serializer::with_formatter(
        &mut out,
        Lines {
            depth: 0,
            first: true,
        },
    );
    entry
        .serialize(&mut writer)
        .expect("an entry has string keys only, and a vector takes all");
    out.push(b'\n');
    String::from_utf8(out).expect("JSON is UTF-8")
}

/// What an entry says, whatever it is an entry of: JSON (serde_json bounds its depth), format, payload
/// hash and text are checked; whether the plan fits its graph is not.
///
/// # Errors
/// The first check that fails.
pub fn read(text: &[u8]) -> Result<(Key, Plan), EntryError> {
    let entry: Entry<Key, Plan> = serde_json::from_slice(text)?;
    if entry.format != FORMAT {
        return Err(EntryError::Format(entry.format));
    }
    if entry.payload_sha256 != hash(&(&entry.key, &entry.plan)) {
        return Err(EntryError::Hash);
    }
    // The hash is of what was understood: not of names that no field has, or of white space.
    if encode(&entry.key, &entry.plan).as_bytes() != text {
        return Err(EntryError::Text);
    }
    Ok((entry.key, entry.plan))
}

/// The plan of an entry of a key, after every check: those of [`read`], the key, and the plan's own
/// rules against graph and cluster.
///
/// # Errors
/// The first check that fails.
pub fn decode(
    text: &[u8],
    key: &Key,
    graph: &BoundGraph,
    cluster: &Cluster,
) -> Result<(Plan, TaskGraph), EntryError> {
    let (found, plan) = read(text)?;
    if found != *key {
        let all = differences(key, &found);
        let part = all.into_iter().next().map(|d| d.part);
        return Err(EntryError::Key(part.unwrap_or_default()));
    }
    if plan.model != key.model {
        return Err(EntryError::Plan("cost model"));
    }
    if key.residency != Residency::Auto && plan.residency != key.residency {
        return Err(EntryError::Plan("residency"));
    }
    let tasks = verify(graph, &plan, cluster)?;
    Ok((plan, tasks))
}

/// The key of an entry, whatever its plan is worth: for telling what the entries of a folder are.
///
/// # Errors
/// No entry's JSON, or another format.
pub fn decode_key(text: &[u8]) -> Result<Key, EntryError> {
    let entry: Entry<Key, serde::de::IgnoredAny> = serde_json::from_slice(text)?;
    match entry.format {
        FORMAT => Ok(entry.key),
        other => Err(EntryError::Format(other)),
    }
}

/// A part in which two keys differ.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// The part: a field of [`Key`].
    pub part: String,
    /// What is wanted: of a list, the first item that differs.
    pub wanted: String,
    /// What was found there.
    pub found: String,
}

/// `devices: 8 wanted, 4 found`
impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Difference {
            part,
            wanted,
            found,
        } = self;
        write!(f, "{part}: {wanted} wanted, {found} found")
    }
}

/// Every part in which two keys differ, down to numbers, names and lines; the graph last.
pub fn differences(wanted: &Key, found: &Key) -> Vec<Difference> {
    let value = |key| serde_json::to_value(key).expect("keys have string keys only");
    let mut all = Vec::new();
    compare("", &value(wanted), &value(found), &mut all);
    all.sort_by_key(|d| d.part.starts_with("graph"));
    all
}

fn compare(part: &str, wanted: &Value, found: &Value, all: &mut Vec<Difference>) {
    match (wanted, found) {
        _ if wanted == found => {}
        (Value::Object(wanted), Value::Object(found)) => {
            for (name, wanted) in wanted {
                let part = [part, name].join(if part.is_empty() { "" } else { " " });
                compare(&part, wanted, found.get(name).unwrap_or(&Value::Null), all);
            }
        }
        (Value::Array(wanted), Value::Array(found)) => {
            let mut at = 0..wanted.len().max(found.len());
            let at = at.find(|&i| wanted.get(i) != found.get(i)).unwrap_or(0);
            let item = |items: &[Value]| items.get(at).cloned().unwrap_or_default();
            compare(part, &item(wanted), &item(found), all);
        }
        _ => all.push(Difference {
            part: part.into(),
            wanted: text(wanted),
            found: text(found),
        }),
    }
}

fn text(value: &Value) -> String {
    match value {
        Value::Null => "nothing".into(),
        Value::String(text) => format!("`{}`", text.trim()),
        value => value.to_string(),
    }
}

/// How many lines of `wanted`'s graph are not `found`'s: which of several entries is nearest.
pub fn distance(wanted: &Key, found: &Key) -> usize {
    let lines = wanted.graph.iter().zip(&found.graph);
    let different = lines.filter(|(a, b)| a != b).count();
    different + wanted.graph.len().abs_diff(found.graph.len())
}

/// SHA-256 of the compact JSON.
fn hash(value: &impl Serialize) -> String {
    let bytes = serde_json::to_vec(value).expect("keys and plans have string keys only");
    let mut out = String::with_capacity(64);
    for byte in Sha256::digest(&bytes) {
        let _ = write!(out, "{byte:02x}");
    }
    out
}

/// JSON with one line per item down to [`Lines::DEPTH`] (a line per node of a plan), the rest of
/// an item on its line.
struct Lines {
    depth: usize,
    /// Is the collection that was opened last still empty?
    first: bool,
}

impl Lines {
    const DEPTH: usize = 3;

    fn open(&mut self) {
        self.depth += 1;
        self.first = true;
    }

    fn close<W: ?Sized + io::Write>(&mut self, w: &mut W) -> io::Result<()> {
        self.depth -= 1;
        let empty = std::mem::replace(&mut self.first, false);
        if self.depth < Self::DEPTH && !empty {
            self.newline(w)?;
        }
        Ok(())
    }

    fn item<W: ?Sized + io::Write>(&mut self, w: &mut W, first: bool) -> io::Result<()> {
        self.first = false;
        if !first {
            w.write_all(b",")?;
        }
        if self.depth <= Self::DEPTH {
            self.newline(w)
        } else if first {
            Ok(())
        } else {
            w.write_all(b" ")
        }
    }

    fn newline<W: ?Sized + io::Write>(&self, w: &mut W) -> io::Result<()> {
        w.write_all(b"\n")?;
        (0..self.depth).try_for_each(|_| w.write_all(b"  "))
    }
}

impl serde_json::ser::Formatter for Lines {
    fn begin_array<W: ?Sized + io::Write>(&mut self, w: &mut W) -> io::Result<()> {
        self.open();
        w.write_all(b"[")
    }

    fn end_array<W: ?Sized + io::Write>(&mut self, w: &mut W) -> io::Result<()> {
        self.close(w)?;
        w.write_all(b"]")
    }

    fn begin_array_value<W: ?Sized + io::Write>(
        &mut self,
        w: &mut W,
        first: bool,
    ) -> io::Result<()> {
        self.item(w, first)
    }

    fn begin_object<W: ?Sized + io::Write>(&mut self, w: &mut W) -> io::Result<()> {
        self.open();
        w.write_all(b"{")
    }

    fn end_object<W: ?Sized + io::Write>(&mut self, w: &mut W) -> io::Result<()> {
        self.close(w)?;
        w.write_all(b"}")
    }

    fn begin_object_key<W: ?Sized + io::Write>(
        &mut self,
        w: &mut W,
        first: bool,
    ) -> io::Result<()> {
        self.item(w, first)
    }

    fn begin_object_value<W: ?Sized + io::Write>(&mut self, w: &mut W) -> io::Result<()> {
        w.write_all(b": ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ein::Agg;
    use crate::plan::samples::{Sample, ffn, matmul};
    use crate::plan::{Objective, plan};

    fn planned(graph: &BoundGraph, devices: u32) -> (Key, Plan, Cluster) {
        let (cluster, options) = (Cluster::cpus(devices), PlanOptions::default());
        let key = Key::new(graph, &cluster, &options);
        let plan = plan(graph, &cluster, &options).unwrap();
        (key, plan, cluster)
    }

    #[test]
    fn entries_read_back() {
        for devices in [1, 3, 4] {
            let graph = ffn(4, 6, 8);
            let (key, plan, cluster) = planned(&graph, devices);
            let text = encode(&key, &plan);
            let (read, _) = decode(text.as_bytes(), &key, &graph, &cluster).unwrap();
            assert_eq!(read, plan);
            assert_eq!(text, encode(&key, &read));
            assert!(text.lines().all(|l| l.len() < 400), "{text}");
        }
    }

    /// If this fails, plans or entries have changed: raise [`PLANNER`] or [`FORMAT`], say so in the
    /// changelog, and accept the new snapshot.
    #[test]
    fn plans_change_with_the_version_only() {
        let (key, plan, _) = planned(&ffn(4, 6, 8), 4);
        insta::assert_snapshot!(encode(&key, &plan));
    }

    #[test]
    fn random_graphs_read_back() {
        for seed in 0..20 {
            let graph = crate::graph::testing::random_graph(seed, 3).bound();
            let (key, plan, cluster) = planned(&graph, 1 + seed as u32 % 8);
            let text = encode(&key, &plan);
            assert_eq!(
                decode(text.as_bytes(), &key, &graph, &cluster).unwrap().0,
                plan
            );
        }
    }

    #[test]
    fn every_part_of_the_key_counts() {
        let (graph, options) = (ffn(4, 6, 8), PlanOptions::default());
        let key = |g: &BoundGraph, c: Cluster, o: PlanOptions| Key::new(g, &c, &o).hash();
        let base = key(&graph, Cluster::cpus(2), options);
        assert_eq!(base.len(), 64);
        assert_eq!(base, key(&ffn(4, 6, 8), Cluster::cpus(2), options));
        let others = [
            key(&ffn(5, 6, 8), Cluster::cpus(2), options),
            key(&graph, Cluster::cpus(3), options),
            key(&graph, Cluster::cpus(2).with_servers(2), options),
            key(&graph, Cluster::cpus(1).with_servers(2), options),
            key(&graph, Cluster::cpus(2).with_capacity(1 << 30), options),
            key(
                &graph,
                Cluster::cpus(2),
                PlanOptions {
                    residency: Residency::Sharded,
                    ..options
                },
            ),
            key(
                &graph,
                Cluster::cpus(2),
                PlanOptions {
                    objective: Objective::Communication,
                    ..options
                },
            ),
            key(
                &graph,
                Cluster::cpus(2),
                PlanOptions {
                    algorithm: Algorithm::Linearized,
                    ..options
                },
            ),
        ];
        for (i, other) in others.iter().enumerate() {
            assert_ne!(*other, base);
            assert!(!others[..i].contains(other));
        }
        let pinned = |pin| {
            let mut g = Sample::default();
            let x = g.data("x", &[8, 8]);
            let y = g.pinned("y", "ij->i", &[x], Agg::SUM, pin);
            Key::new(&g.finish(y), &Cluster::cpus(2), &options)
        };
        assert_eq!(pinned(vec![Pin::Split("j".into(), 2)]).pins, ["%1 #1 in 2"]);
        assert_eq!(pinned(vec![Pin::Whole]).pins, ["%1 whole"]);
    }

    /// The machine is part of the key where the model reads it, in two digits.
    #[test]
    fn keys_hold_what_the_model_reads_of_the_cluster() {
        let graph = ffn(4, 6, 8);
        let key = |objective, cluster: &Cluster| {
            let options = PlanOptions {
                objective,
                ..PlanOptions::default()
            };
            Key::new(&graph, cluster, &options)
        };
        let base = Cluster::dgx_a100().with_servers(2);
        let changed = |change: &dyn Fn(&mut Cluster)| {
            let mut cluster = base.clone();
            change(&mut cluster);
            let all = [Objective::Communication, Objective::Placed, Objective::Time];
            all.map(|o| key(o, &cluster).hash() != key(o, &base).hash())
        };
        assert_eq!(changed(&|c| c.name = "mine".into()), [false; 3]);
        assert_eq!(changed(&|c| c.servers = 3), [true; 3]);
        assert_eq!(changed(&|c| c.server.device.capacity -= 1), [true; 3]);
        // a byte between servers counts 8
        assert_eq!(
            changed(&|c| c.network.bandwidth = 300_000_000_000),
            [true; 3]
        );
        let time_only = [false, false, true];
        assert_eq!(
            changed(&|c| c.server.device.rates.bf16.matmul *= 2),
            time_only
        );
        assert_eq!(changed(&|c| c.server.device.overhead += 1_000), time_only);
        assert_eq!(changed(&|c| c.server.cores = Some(8)), time_only);
        // less than half a second digit
        assert_eq!(
            changed(&|c| c.server.device.rates.bf16.matmul += 1_000_000_000_000),
            [false; 3]
        );
        // one server has no network
        let one = |bandwidth| {
            let mut one = Cluster::dgx_a100();
            one.network.bandwidth = bandwidth;
            key(Objective::Time, &one)
        };
        assert_eq!(one(1), one(2));
        let machine = serde_json::to_string_pretty(&one(1).machine).unwrap();
        insta::assert_snapshot!(machine);
    }

    #[test]
    fn bad_entries_are_refused() {
        let graph = matmul(8, 8, 8);
        let (key, plan, cluster) = planned(&graph, 2);
        let text = encode(&key, &plan);
        let read = |text: &[u8]| decode(text, &key, &graph, &cluster).unwrap_err();
        for junk in [
            &b""[..],
            b"{}",
            b"\xff\xfe",
            b"null",
            &text.as_bytes()[..text.len() / 2],
        ] {
            assert!(matches!(read(junk), EntryError::Json(_)));
        }
        let deep = "[".repeat(1 << 20);
        assert!(matches!(read(deep.as_bytes()), EntryError::Json(_)));
        let newer = text.replacen("\"format\": 1", "\"format\": 2", 1);
        assert!(matches!(read(newer.as_bytes()), EntryError::Format(2)));
        let edited = text.replacen("\"moved_bytes\": \"", "\"moved_bytes\": \"1", 1);
        assert!(matches!(read(edited.as_bytes()), EntryError::Hash));

        // the same content for a JSON reader that skips what it does not know
        let renamed = text.replacen("\"join\": null", "\"jomn\": null", 1);
        assert_ne!(renamed, text);
        for other in [renamed, text.clone() + "\n"] {
            assert!(matches!(read(other.as_bytes()), EntryError::Text));
        }

        // hashed as it is, but wrong
        let refused = |change: &dyn Fn(&mut Key, &mut Plan)| {
            let (mut key, mut plan) = (key.clone(), plan.clone());
            change(&mut key, &mut plan);
            read(encode(&key, &plan).as_bytes())
        };
        let error = refused(&|key, _| key.hierarchy = Hierarchy::flat(3));
        assert!(matches!(error, EntryError::Key(part) if part == "hierarchy per_server"));
        let error = refused(&|_, plan| plan.moved_bytes += 1);
        assert!(matches!(
            error,
            EntryError::Rule(verify::InvalidPlan::MovedBytes { .. })
        ));
        let error = refused(&|_, plan| plan.nodes[2].join.as_mut().unwrap().devices[0] = 9);
        assert!(matches!(
            error,
            EntryError::Rule(verify::InvalidPlan::Device { .. })
        ));
        let error = refused(&|_, plan| plan.certificate.bound = plan.certificate.cost + 1);
        assert!(matches!(
            error,
            EntryError::Rule(verify::InvalidPlan::Bound { .. })
        ));
        let error = refused(&|_, plan| plan.model = "guess/1".into());
        assert!(matches!(error, EntryError::Plan("cost model")));
        let error = refused(&|_, plan| plan.residency = Residency::Sharded);
        assert!(matches!(error, EntryError::Plan("residency")));
    }
}
