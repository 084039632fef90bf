//! What has to be planned: blocks × dims × clusters.

use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroU32;
use std::path::PathBuf;
use std::sync::Arc;

use eindecomp_core::graph::BoundGraph;
use eindecomp_core::pass::{Passed, Pipeline};
use eindecomp_core::plan::cache::{Key, WrittenKey};
use eindecomp_core::plan::{Cluster, Constraints, PlanOptions};

use super::args::Project;
use super::config::{Config, Values, Wanted, dims};
use super::project::Package;
use super::{Failure, cluster};
use crate::Error;
use crate::blocks::told::Block;
use crate::cache::{Lowered, Task};
use crate::planner::PLANNER;
use crate::session::bind;

/// One plan that the crate needs.
pub struct Target {
    pub block: String,
    /// `B=1 S=512`.
    pub dims: String,
    /// As it was named.
    pub cluster_name: String,
    pub cluster: Cluster,
    pub options: PlanOptions,
    /// After passes.
    pub graph: BoundGraph,
    /// What passes did.
    pub passed: Vec<Passed>,
    pub key: WrittenKey,
}

impl Target {
    /// The name of its entry.
    pub fn hash(&self) -> &str {
        self.key.hash()
    }

    /// Makes its plan, and the tasks of it.
    ///
    /// # Errors
    /// Those of the planner.
    pub fn plan(&self) -> Result<Lowered, Error> {
        let task = Task {
            graph: &self.graph,
            cluster: &self.cluster,
            options: &self.options,
            limit: None,
            // the command has a bar of its own
            shown: false,
        };
        let make = PLANNER.expect("the command is built with the planner");
        make(task)
    }
}

/// `decoder::step B=1 S=512 on cpus:4`
impl std::fmt::Display for Target {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Target {
            block,
            dims,
            cluster_name,
            ..
        } = self;
        write!(f, "{block} {dims} on {cluster_name}")
    }
}

/// The targets of a crate, and its folder of plans.
pub struct Targets {
    pub all: Vec<Target>,
    pub folder: PathBuf,
}

/// Of the command line and `eindecomp.toml`.
///
/// # Errors
/// All that is wrong with either of them.
pub fn of(args: &Project) -> Result<Targets, Failure> {
    let package = Package::find(args)?;
    let config = Config::read(&package.root)?;
    let wanted = wanted(args, &config)?;
    let folder = match (&args.folder, &config.folder) {
        (Some(folder), _) => folder.clone(),
        (None, Some(folder)) => package.root.join(folder),
        (None, None) => package.root.join("plans"),
    };
    let passes = Pipeline::up_to(args.stop_after.as_deref()).map_err(|e| e.to_string())?;
    let blocks = package.blocks(args)?;
    let (mut all, mut errors, mut seen) = (Vec::new(), Vec::new(), BTreeSet::new());
    for wanted in &wanted {
        for target in expand(args, &passes, wanted, &blocks) {
            match target {
                Ok(target) if seen.insert(target.hash().to_string()) => all.push(target),
                Ok(_) => {}
                Err(error) => errors.push(error),
            }
        }
    }
    match errors.is_empty() {
        true => Ok(Targets { all, folder }),
        false => Err(errors.join("\nerror: ")),
    }
}

/// What is asked for: the command line's dims before those of the file.
fn wanted(args: &Project, config: &Config) -> Result<Vec<Wanted>, Failure> {
    let mut wanted: Vec<Wanted> = if args.dims.is_empty() {
        config.plans.clone()
    } else {
        let of = |text: &String| {
            Ok(Wanted {
                dims: dims(text)?,
                ..Wanted::default()
            })
        };
        args.dims.iter().map(of).collect::<Result<_, Failure>>()?
    };
    if wanted.is_empty() {
        return Err("nothing to plan for: give --dims B=1,S=512, or write eindecomp.toml (--help shows one)".into());
    }
    if !args.cluster.is_empty() {
        for wanted in &mut wanted {
            wanted.cluster = Some(Values::List(args.cluster.clone()));
        }
    }
    Ok(wanted)
}

/// Does `path` end in the segments of `end`?
fn ends_in(path: &str, end: &str) -> bool {
    path == end || path.strip_suffix(end).is_some_and(|p| p.ends_with("::"))
}

fn expand(
    args: &Project,
    passes: &Pipeline,
    wanted: &Wanted,
    blocks: &[Block],
) -> Vec<Result<Target, Failure>> {
    let asked = [&args.block, &wanted.block];
    let chosen = blocks.iter().filter(|block| {
        let fits = |end: &String| ends_in(&block.name, end);
        asked.iter().all(|asked| asked.as_ref().is_none_or(fits))
    });
    let chosen: Vec<&Block> = chosen.collect();
    if chosen.is_empty() {
        // a choice on the command line leaves out others of the file
        let end = args.block.as_ref().or(wanted.block.as_ref());
        let unknown = end.filter(|end| !blocks.iter().any(|b| ends_in(&b.name, end)));
        let names: Vec<&str> = blocks.iter().map(|b| &b.name[..]).collect();
        let error = |end| format!("there is no block `{end}`: there are {}", names.join(", "));
        return unknown.map(|end| Err(error(end))).into_iter().collect();
    }
    let unused = wanted.dims.keys().filter(|dim| {
        let has = |b: &&Block| b.graph.symbols().iter().any(|s| **s == ***dim);
        !chosen.iter().any(has)
    });
    let mut out: Vec<Result<Target, Failure>> = unused
        .map(|dim| Err(format!("no block that is planned has a dim `{dim}`")))
        .collect();
    let one = [String::from("cpus:1")];
    let clusters = wanted.cluster.as_ref().map_or(&one[..], Values::as_slice);
    for name in clusters {
        match cluster::named(name) {
            Ok(cluster) => {
                for block in &chosen {
                    out.extend(at_all_dims(passes, wanted, block, name, &cluster));
                }
            }
            Err(error) => out.push(Err(error)),
        }
    }
    out
}

fn at_all_dims(
    passes: &Pipeline,
    wanted: &Wanted,
    block: &Block,
    name: &str,
    cluster: &Cluster,
) -> Vec<Result<Target, Failure>> {
    let symbols = block.graph.symbols();
    let missing: Vec<&str> = symbols
        .iter()
        .map(|s| &**s)
        .filter(|s| !wanted.dims.contains_key(*s))
        .collect();
    if !missing.is_empty() {
        return vec![Err(format!(
            "`{}` needs a value of {}",
            block.name,
            missing.join(", ")
        ))];
    }
    let mut points: Vec<BTreeMap<Arc<str>, i64>> = vec![BTreeMap::new()];
    for symbol in &symbols {
        let values = wanted.dims[&**symbol].as_slice();
        points = points
            .iter()
            .flat_map(|point| values.iter().map(move |&v| (point, v)))
            .map(|(point, value)| {
                let mut point = point.clone();
                point.insert(symbol.clone(), value);
                point
            })
            .collect();
    }
    points
        .iter()
        .map(|dims| target(passes, wanted, block, dims, name, cluster))
        .collect()
}

fn target(
    passes: &Pipeline,
    wanted: &Wanted,
    block: &Block,
    dims: &BTreeMap<Arc<str>, i64>,
    name: &str,
    cluster: &Cluster,
) -> Result<Target, Failure> {
    let text: Vec<String> = dims
        .iter()
        .map(|(dim, value)| format!("{dim}={value}"))
        .collect();
    let text = text.join(" ");
    let (graph, passed) =
        bind(&block.graph, dims, passes).map_err(|e| format!("{} {text}: {e}", block.name))?;
    let options = PlanOptions {
        objective: wanted.objective.into(),
        residency: wanted.residency.into(),
        constraints: Constraints {
            min_tile: wanted.min_tile.unwrap_or(NonZeroU32::MIN),
            oversubscribe: wanted.oversubscribe.unwrap_or(NonZeroU32::MIN),
        },
        ..PlanOptions::default()
    };
    let key = Key::new(&graph, cluster, &options).written();
    Ok(Target {
        block: block.name.clone(),
        dims: text,
        cluster_name: name.into(),
        cluster: cluster.clone(),
        options,
        graph,
        passed,
        key,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_is_named_by_its_end() {
        assert!(ends_in("krate::decoder::step", "step"));
        assert!(ends_in("krate::decoder::step", "decoder::step"));
        assert!(ends_in("step", "step"));
        assert!(!ends_in("krate::one_step", "step"));
    }
}
