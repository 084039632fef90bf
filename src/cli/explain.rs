//! `cargo eindecomp explain`.

use super::args::Project;
use super::failure::Failure;
use super::{Outcome, folder, print_json, targets};
use crate::Explain;

pub fn run(args: &Project, json: bool) -> Result<Outcome, Failure> {
    let targets = targets::of(args)?;
    let mut all = Vec::new();
    for target in &targets.all {
        let (plan, tasks, from) = match folder::plan(&targets.folder, target) {
            Some(Ok((plan, tasks))) => (plan, tasks, "in the folder".into()),
            other => {
                let (plan, tasks) = target.plan().map_err(|e| format!("{target}: {e}"))?;
                let stale = other.and_then(Result::err);
                let stale = stale.map(|why| format!(": the entry in the folder is stale: {why}"));
                (
                    plan,
                    tasks,
                    format!("planned now{}", stale.unwrap_or_default()),
                )
            }
        };
        let explain =
            Explain::new(&target.graph, &plan, &tasks).map_err(|e| format!("{target}: {e}"))?;
        let explain = explain.after(target.passed.clone());
        if json {
            let explain = serde_json::to_value(&explain).map_err(|e| e.to_string())?;
            all.push(serde_json::json!({
                "block": target.subject.block,
                "dims": target.subject.dims,
                "cluster": target.subject.cluster,
                "key": target.hash(),
                "from": from,
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
