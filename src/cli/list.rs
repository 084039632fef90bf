//! `cargo eindecomp list`.

use serde_json::json;

use super::args::Folder;
use super::config::Config;
use super::failure::Failure;
use super::{Outcome, counted, folder, print_json};

pub fn run(args: &Folder, json: bool) -> Result<Outcome, Failure> {
    let (root, config) = Config::here()?;
    let folder = config.folder(&root, args.folder.as_deref());
    let files = folder::entries(&folder)?;
    if json {
        let one = |file: &folder::File| match &file.content {
            Ok(entry) => json!({
                "key": file.hash,
                "block": entry.subject.block,
                "dims": entry.subject.dims,
                "cluster": entry.subject.cluster,
                "devices": entry.plan.devices(),
                "model": entry.key.model,
                "planner": entry.key.planner,
                "residency": entry.key.residency,
                "statements": entry.plan.nodes.iter().filter(|n| n.join.is_some()).count(),
                "moved_bytes": entry.plan.moved_bytes.to_string(),
                "proved": entry.plan.certificate.to_string(),
            }),
            Err(error) => json!({ "key": file.hash, "error": error }),
        };
        print_json(&files.iter().map(one).collect())?;
        return Ok(Outcome::Good);
    }
    for file in &files {
        let short = &file.hash[..12];
        match &file.content {
            Ok(entry) => {
                let statements = entry.plan.nodes.iter().filter(|n| n.join.is_some()).count();
                say!(
                    "{short} {}: {}, {} by {}, moves {} B, {}",
                    entry.subject,
                    counted(statements, "statement", "statements"),
                    entry.key.model,
                    entry.key.planner,
                    entry.plan.moved_bytes,
                    entry.plan.certificate
                )?;
            }
            Err(error) => say!("{short} left out: {error}")?,
        }
    }
    let left_out = files.iter().filter(|f| f.content.is_err()).count();
    say!(
        "{} in {}, {left_out} left out",
        counted(files.len() - left_out, "entry", "entries"),
        folder.display()
    )?;
    Ok(Outcome::Good)
}
