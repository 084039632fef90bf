//! `cargo eindecomp check` and `prune`: entries against targets.

use std::collections::BTreeSet;

use eindecomp_core::plan::cache::PLANNER;
use serde_json::json;

use super::args::{Project, PruneArgs};
use super::folder::{self, Entry};
use super::targets::{self, Targets};
use super::{Failure, Outcome, print_json};

/// Something that is not as it should be.
struct Fault {
    /// `missing`, `stale` or `dead`.
    kind: &'static str,
    key: String,
    what: String,
    entry: Option<Entry>,
}

/// What is wrong with a folder.
///
/// * missing: a target without an entry;
/// * stale: an entry that is damaged, or of another version of the planner;
/// * dead: a good entry of no target.
fn faults(targets: &Targets) -> Result<Vec<Fault>, Failure> {
    let mut faults = Vec::new();
    let needed: BTreeSet<&str> = targets.all.iter().map(|t| t.hash()).collect();
    for target in &targets.all {
        let (kind, why) = match folder::plan(&targets.folder, target) {
            Some(Ok(_)) => continue,
            Some(Err(why)) => ("stale", format!(": {why}")),
            None => ("missing", String::new()),
        };
        faults.push(Fault {
            kind,
            key: target.hash().into(),
            what: format!("{target}{why}"),
            entry: None,
        });
    }
    for entry in folder::entries(&targets.folder)? {
        if needed.contains(&entry.hash[..]) {
            continue;
        }
        let (kind, what) = match &entry.content {
            Err(why) => ("stale", why.clone()),
            Ok((key, _)) if key.planner != PLANNER => {
                ("stale", format!("made by {}, not {PLANNER}", key.planner))
            }
            Ok((key, _)) => (
                "dead",
                format!(
                    "no target needs it: {} devices, {} lines of graph",
                    key.hierarchy.devices(),
                    key.graph.lines().count()
                ),
            ),
        };
        faults.push(Fault {
            kind,
            key: entry.hash.clone(),
            what,
            entry: Some(entry),
        });
    }
    Ok(faults)
}

fn show(faults: &[Fault], targets: &Targets, json: bool) -> Result<(), Failure> {
    if json {
        let one = |f: &Fault| json!({ "kind": f.kind, "key": f.key, "what": f.what });
        return print_json(&faults.iter().map(one).collect());
    }
    for fault in faults {
        say!("{:7} {} {}", fault.kind, &fault.key[..12], fault.what)?;
    }
    let count = |kind| faults.iter().filter(|f| f.kind == kind).count();
    say!(
        "{} plans needed; {} missing, {} stale, {} dead in {}",
        targets.all.len(),
        count("missing"),
        count("stale"),
        count("dead"),
        targets.folder.display()
    )?;
    Ok(())
}

pub fn run(args: &Project, json: bool) -> Result<Outcome, Failure> {
    let targets = targets::of(args)?;
    let faults = faults(&targets)?;
    show(&faults, &targets, json)?;
    Ok(match faults.is_empty() {
        true => Outcome::Good,
        false => Outcome::Found,
    })
}

pub fn prune(args: &PruneArgs, json: bool) -> Result<Outcome, Failure> {
    let project = &args.project;
    if project.block.is_some() || !project.dims.is_empty() || !project.cluster.is_empty() {
        return Err(
            "prune looks at all that eindecomp.toml names: leave out --block, --dims and --cluster"
                .into(),
        );
    }
    let targets = targets::of(project)?;
    let faults = faults(&targets)?.into_iter().filter(|f| f.entry.is_some());
    let faults: Vec<Fault> = faults.collect();
    show(&faults, &targets, json)?;
    if !args.dry_run {
        for entry in faults.iter().filter_map(|f| f.entry.as_ref()) {
            std::fs::remove_file(&entry.path)
                .map_err(|e| format!("{}: {e}", entry.path.display()))?;
        }
    }
    Ok(Outcome::Good)
}
