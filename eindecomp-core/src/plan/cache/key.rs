//! Everything that a plan depends on, its text and its hash.

use std::fmt::{self, Write as _};
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::{Digest, Sha256};

use super::PLANNER;
use super::lines::{list_of_lines, to_string};
use crate::graph::{BoundGraph, Pin};
use crate::plan::{Algorithm, Cluster, Constraints, Hierarchy, Objective, PlanOptions, Residency};

/// Everything that a plan depends on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Key {
    /// The canonical graph, bound dims included; in files by lines.
    #[serde(with = "by_lines")]
    pub graph: Arc<str>,
    /// The graph's pins: `%2 #0 in 4`, `%3 whole`, `%4 owner [2, 2]`.
    pub pins: Vec<String>,
    /// Where weights may live.
    pub residency: Residency,
    /// What every vertex must keep.
    #[serde(default, skip_serializing_if = "Constraints::is_default")]
    pub constraints: Constraints,
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
                    Pin::Whole | Pin::Owner { .. } => format!("{id} {pin}"),
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
            graph: graph.canonical().clone(),
            pins,
            residency: options.residency,
            constraints: options.constraints,
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

    /// The key with its text and hash.
    pub fn written(self) -> WrittenKey {
        let text = self.text();
        let hash = sha256([text.as_bytes()]);
        WrittenKey {
            key: self,
            text,
            hash,
        }
    }

    /// What [`to_string`] writes. Nearly all of it is the graph, the first list, and no line of that is
    /// looked at byte by byte.
    fn text(&self) -> String {
        let rest = Key {
            graph: "".into(),
            ..self.clone()
        };
        let rest = to_string(&rest);
        let (before, after) = rest.split_once("[]").expect("no line is an empty list");
        // indentation and quotes are a tenth of it
        let mut text = String::with_capacity(rest.len() + self.graph.len() * 5 / 4);
        text.push_str(before);
        list_of_lines(&self.graph, &mut text);
        text.push_str(after);
        text
    }
}

/// A key with its text, as entries have it, and the hash of that.
#[derive(Clone, Debug)]
pub struct WrittenKey {
    key: Key,
    text: String,
    hash: String,
}

impl WrittenKey {
    /// The key as JSON, the only text of it.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// 64 hexadecimal digits: the entry's name.
    pub fn hash(&self) -> &str {
        &self.hash
    }
}

impl std::ops::Deref for WrittenKey {
    type Target = Key;

    fn deref(&self) -> &Key {
        &self.key
    }
}

/// Hexadecimal SHA-256 of the parts, one after the other.
pub(super) fn sha256<'a>(parts: impl IntoIterator<Item = &'a [u8]>) -> String {
    let mut hash = Sha256::new();
    parts.into_iter().for_each(|part| hash.update(part));
    let mut out = String::with_capacity(64);
    for byte in hash.finalize() {
        let _ = write!(out, "{byte:02x}");
    }
    out
}

/// A text as a list of its lines.
mod by_lines {
    use std::sync::Arc;

    use serde::{Deserialize, Deserializer, Serializer};

    pub fn serialize<S: Serializer>(text: &Arc<str>, s: S) -> Result<S::Ok, S::Error> {
        s.collect_seq(text.lines())
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(d: D) -> Result<Arc<str>, D::Error> {
        let lines = Vec::<String>::deserialize(d)?;
        let text: String = lines.into_iter().map(|line| line + "\n").collect();
        Ok(text.into())
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
    let count = |key: &Key| key.graph.lines().count();
    let lines = wanted.graph.lines().zip(found.graph.lines());
    let different = lines.filter(|(a, b)| a != b).count();
    different + count(wanted).abs_diff(count(found))
}
