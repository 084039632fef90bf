//! `cargo eindecomp diff`.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use eindecomp_core::plan::cache::{Difference, Entry, Key, differences};
use eindecomp_core::plan::{Layout, Plan};
use serde_json::json;

use super::args::DiffArgs;
use super::config::Config;
use super::failure::Failure;
use super::{Outcome, folder, print_json};

/// A statement or tensor that two plans treat otherwise.
struct Changed {
    /// Its line in the graph.
    line: String,
    /// `join` or `owner`.
    what: &'static str,
    first: String,
    second: String,
}

pub fn run(args: &DiffArgs, json: bool) -> Result<Outcome, Failure> {
    let (root, config) = Config::here()?;
    let folder = config.folder(&root, args.folder.as_deref());
    let first = open(&folder, &args.first)?;
    let second = open(&folder, &args.second)?;
    let (plan, other) = (first.plan, second.plan);
    let keys = differences(&first.key, &second.key);
    let changed = changed(&first.key, &plan, &other);
    let same = keys.is_empty() && plan == other;
    if json {
        let key = |d: &Difference| json!({ "part": d.part, "first": d.wanted, "second": d.found });
        let node = |c: &Changed| json!({ "line": c.line, "what": c.what, "first": c.first, "second": c.second });
        print_json(&json!({
            "for": [first.subject, second.subject],
            "key": keys.iter().map(key).collect::<Vec<_>>(),
            "moved_bytes": [plan.moved_bytes.to_string(), other.moved_bytes.to_string()],
            "proved": [plan.certificate.to_string(), other.certificate.to_string()],
            "nodes": changed.iter().map(node).collect::<Vec<_>>(),
        }))?;
    } else {
        say!("for: {} | {}", first.subject, second.subject)?;
        for d in &keys {
            say!("key: {}: {} | {}", d.part, d.wanted, d.found)?;
        }
        say!("moves: {} B | {} B", plan.moved_bytes, other.moved_bytes)?;
        say!("proved: {} | {}", plan.certificate, other.certificate)?;
        for c in &changed {
            say!("{}\n    {}: {} | {}", c.line, c.what, c.first, c.second)?;
        }
    }
    Ok(match same {
        true => Outcome::Good,
        false => Outcome::Found,
    })
}

/// Nodes that both plans have.
fn changed(key: &Key, first: &Plan, second: &Plan) -> Vec<Changed> {
    let line = |at: usize| {
        let id = format!("%{at} ");
        let found = key
            .graph
            .lines()
            .map(str::trim)
            .find(|l| l.starts_with(&id));
        found.map_or(id, String::from)
    };
    let mut out = Vec::new();
    for (at, (a, b)) in first.nodes.iter().zip(&second.nodes).enumerate() {
        for (what, a, b) in [("join", &a.join, &b.join), ("owner", &a.owner, &b.owner)] {
            if a != b {
                out.push(Changed {
                    line: line(at),
                    what,
                    first: text(a),
                    second: text(b),
                });
            }
        }
    }
    out
}

/// `[2, 1] on 0 1`
fn text(layout: &Option<Arc<Layout>>) -> String {
    let Some(layout) = layout else {
        return "what each device reads".into();
    };
    let devices: Vec<String> = layout.devices.iter().map(u32::to_string).collect();
    format!("{:?} on {}", layout.parts, devices.join(" "))
}

/// An entry by file, or by the start of its name.
fn open(folder: &Path, name: &str) -> Result<Entry, Failure> {
    let file = Path::new(name);
    let path = if file.is_file() {
        PathBuf::from(file)
    } else {
        let entries = folder::entries(folder)?;
        let start = name.strip_suffix(".json").unwrap_or(name);
        let mut fits = entries.into_iter().filter(|e| e.hash.starts_with(start));
        match (fits.next(), fits.next()) {
            (Some(entry), None) => entry.path,
            (None, _) => {
                return Err(Failure::Usage(format!(
                    "no entry in {} starts with `{name}`",
                    folder.display()
                )));
            }
            _ => {
                return Err(Failure::Usage(format!(
                    "several entries in {} start with `{name}`",
                    folder.display()
                )));
            }
        }
    };
    let shown = path.display().to_string();
    let content = folder::entry(path).content;
    content.map_err(|e| format!("{shown}: {e}").into())
}
