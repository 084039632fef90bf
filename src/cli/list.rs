//! `cargo eindecomp list`.

use serde_json::json;

use super::args::Folder;
use super::{Failure, Outcome, folder, print_json};

pub fn run(args: &Folder, json: bool) -> Result<Outcome, Failure> {
    let entries = folder::entries(&args.folder)?;
    if json {
        let one = |e: &folder::Entry| match &e.content {
            Ok((key, plan)) => json!({
                "key": e.hash,
                "devices": plan.devices(),
                "model": key.model,
                "planner": key.planner,
                "residency": key.residency,
                "statements": plan.nodes.iter().filter(|n| n.join.is_some()).count(),
                "moved_bytes": plan.moved_bytes.to_string(),
                "proved": plan.certificate.to_string(),
            }),
            Err(error) => json!({ "key": e.hash, "error": error }),
        };
        print_json(&entries.iter().map(one).collect())?;
        return Ok(Outcome::Good);
    }
    for entry in &entries {
        let short = &entry.hash[..12];
        match &entry.content {
            Ok((key, plan)) => {
                let statements = plan.nodes.iter().filter(|n| n.join.is_some()).count();
                say!(
                    "{short} {statements} statements on {} devices, {} by {}, moves {} B, {}",
                    plan.devices(),
                    key.model,
                    key.planner,
                    plan.moved_bytes,
                    plan.certificate
                )?;
                let inputs = key.graph.lines().filter(|line| line.contains("input"));
                for line in inputs {
                    say!("    {}", line.trim())?;
                }
            }
            Err(error) => say!("{short} left out: {error}")?,
        }
    }
    say!("{} entries in {}", entries.len(), args.folder.display())?;
    Ok(Outcome::Good)
}
