//! `cargo eindecomp explain`.

use super::args::Project;
use super::{Failure, Outcome, folder, print_json, targets};
use crate::Explain;

pub fn run(args: &Project, json: bool) -> Result<Outcome, Failure> {
    let targets = targets::of(args)?;
    let mut all = Vec::new();
    for target in &targets.all {
        let kept = folder::plan(&targets.folder, target).and_then(Result::ok);
        let from = if kept.is_some() {
            "in the folder"
        } else {
            "planned now"
        };
        let (plan, tasks) = match kept {
            Some(plan) => plan,
            None => target.plan().map_err(|e| format!("{target}: {e}"))?,
        };
        let explain =
            Explain::new(&target.graph, &plan, &tasks).map_err(|e| format!("{target}: {e}"))?;
        let explain = explain.after(target.passed.clone());
        if json {
            let explain = serde_json::to_value(&explain).map_err(|e| e.to_string())?;
            all.push(serde_json::json!({
                "block": target.block,
                "dims": target.dims,
                "cluster": target.cluster_name,
                "key": target.hash(),
                "explain": explain,
            }));
        } else {
            say!("{target} ({from}, {})\n{explain}", &target.hash()[..12])?;
        }
    }
    if json {
        print_json(&all.into())?;
    }
    Ok(Outcome::Good)
}
