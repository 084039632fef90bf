//! What has to be planned: blocks × dims × clusters.

use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroU32;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use eindecomp_core::graph::BoundGraph;
use eindecomp_core::pass::{Passed, Pipeline};
use eindecomp_core::plan::cache::{Key, Subject, WrittenKey};
use eindecomp_core::plan::{Cluster, Constraints, PlanOptions};

use super::args::Project;
use super::cluster;
use super::config::{Config, FILE, Values, Wanted, dims, unknown_dim};
use super::failure::Failure;
use super::project::Package;
use crate::Error;
use crate::blocks::told::Block;
use crate::cache::{Lowered, Task};
use crate::planner::PLANNER;
use crate::session::bind;

/// One plan that the crate needs.
pub struct Target {
    pub subject: Subject,
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
            subject: &self.subject,
            limit: None,
            // the command has a bar of its own
            shown: false,
        };
        let make = PLANNER.expect("the command is built with the planner");
        make(task)
    }
}

impl std::fmt::Display for Target {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.subject.fmt(f)
    }
}

/// The targets of a crate, and its folder of plans.
pub struct Targets {
    pub all: Vec<Target>,
    pub folder: PathBuf,
    /// Whose blocks they are: the crate, and those of which it names blocks.
    crates: BTreeSet<String>,
    filter: Option<Filter>,
}

/// What the command line leaves of a crate's targets.
struct Filter {
    block: Option<String>,
    dims: Vec<BTreeMap<String, i64>>,
    /// Names of clusters; none if the command line names neither clusters nor dims.
    clusters: BTreeSet<String>,
    /// Keys of all that eindecomp.toml asks for.
    needed: BTreeSet<String>,
}

impl Targets {
    /// Is it left to these targets whether an entry is needed? Not where it is another crate's, the command line leaves out
    /// what it is for, or eindecomp.toml needs it.
    pub fn judge(&self, key: &str, subject: Option<&Subject>) -> bool {
        if subject.is_some_and(|s| !self.crates.contains(crate_of(&s.block))) {
            return false;
        }
        let Some(filter) = &self.filter else {
            return true;
        };
        let Some(subject) = subject else {
            return false;
        };
        let at = |given: &BTreeMap<String, i64>| {
            let mut dims = subject.dims.iter();
            dims.all(|(dim, value)| given.get(dim) == Some(value))
        };
        let block = |end: &String| ends_in(&subject.block, end);
        !filter.needed.contains(key)
            && filter.block.as_ref().is_none_or(block)
            && (filter.dims.is_empty() || filter.dims.iter().any(at))
            && (filter.clusters.is_empty() || filter.clusters.contains(&subject.cluster))
    }
}

/// The crate of a block's path.
fn crate_of(block: &str) -> &str {
    block.split("::").next().unwrap_or(block)
}

/// The crate that the command line means, and what its `eindecomp.toml` asks for.
pub struct Configured {
    package: Package,
    config: Config,
    /// Of its plans.
    pub folder: PathBuf,
}

impl Configured {
    /// # Errors
    /// No crate, or a bad `eindecomp.toml`.
    pub fn find(args: &Project) -> Result<Configured, Failure> {
        let package = Package::find(args)?;
        let config = Config::read(&package.root)?;
        Ok(Configured {
            folder: config.folder(&package.root, args.folder.as_deref()),
            package,
            config,
        })
    }

    /// Its targets: builds the crate, to ask it for its blocks.
    ///
    /// # Errors
    /// All that is wrong with the command line or `eindecomp.toml`.
    pub fn targets(self, args: &Project) -> Result<Targets, Failure> {
        let Configured {
            package,
            config,
            folder,
        } = self;
        let given: Vec<BTreeMap<String, i64>> = args
            .dims
            .iter()
            .map(|text| dims(text))
            .collect::<Result<_, Failure>>()?;
        let wanted = wanted(args, &config, &package.root, &given)?;
        let passes = Pipeline::up_to(args.stop_after.as_deref());
        let passes = passes.map_err(|e| Failure::Usage(e.to_string()))?;
        let blocks = package.blocks(args)?;
        let named = blocks.iter().map(|b| crate_of(&b.name).to_string());
        let crates = named.chain([package.name.replace('-', "_")]).collect();
        let block = args.block.as_deref();
        let all = some(expand_all(block, &passes, &wanted, &blocks)?, block)?;
        let narrowed = !given.is_empty() || !args.cluster.is_empty();
        let filter = (narrowed || block.is_some()).then(|| {
            // what is wrong with the rest of the file is not asked about
            let whole = expand_all(None, &passes, &config.plans, &blocks).unwrap_or_default();
            let clusters = all.iter().filter(|_| narrowed);
            Filter {
                block: args.block.clone(),
                dims: given,
                clusters: clusters.map(|t| t.subject.cluster.clone()).collect(),
                needed: whole.iter().map(|t| t.hash().into()).collect(),
            }
        });
        Ok(Targets {
            all,
            folder,
            crates,
            filter,
        })
    }
}

/// Of the command line and `eindecomp.toml`.
///
/// # Errors
/// All that is wrong with either of them.
pub fn of(args: &Project) -> Result<Targets, Failure> {
    Configured::find(args)?.targets(args)
}

/// What is asked for: the command line's dims before those of the file.
fn wanted(
    args: &Project,
    config: &Config,
    root: &Path,
    given: &[BTreeMap<String, i64>],
) -> Result<Vec<Wanted>, Failure> {
    // what the file says for these dims but their values; where it says nothing, all blocks that have them
    let at = |dims: &BTreeMap<String, i64>| -> Vec<Wanted> {
        let plans = config
            .plans
            .iter()
            .filter(|plan| plan.dims.keys().eq(dims.keys()));
        let mut plans: Vec<Wanted> = plans.cloned().collect();
        if plans.is_empty() {
            plans.push(Wanted::default());
        }
        for plan in &mut plans {
            plan.dims = dims
                .iter()
                .map(|(dim, &n)| (dim.clone(), Values::One(n)))
                .collect();
        }
        plans
    };
    let mut wanted: Vec<Wanted> = match given {
        [] => config.plans.clone(),
        given => given.iter().flat_map(at).collect(),
    };
    if wanted.is_empty() {
        return Err(Failure::Usage(format!(
            "nothing to plan for: give --dims B=1,S=512, or write {} (--help shows one)",
            root.join(FILE).display()
        )));
    }
    if !args.cluster.is_empty() {
        for wanted in &mut wanted {
            wanted.cluster = Some(Values::List(args.cluster.clone()));
        }
    }
    Ok(wanted)
}

/// At least one target: nothing to do is a slip, not a success.
fn some<T>(all: Vec<T>, block: Option<&str>) -> Result<Vec<T>, Failure> {
    if all.is_empty() {
        let of = block.map_or(String::new(), |block| format!(" of `{block}`"));
        return Err(Failure::Usage(format!(
            "eindecomp.toml asks for no plan{of}: give --dims, or add a [[plan]]"
        )));
    }
    Ok(all)
}

/// The targets of all that is wanted, each once.
fn expand_all(
    block: Option<&str>,
    passes: &Pipeline,
    wanted: &[Wanted],
    blocks: &[Block],
) -> Result<Vec<Target>, Failure> {
    let (mut all, mut errors, mut seen) = (Vec::new(), Vec::new(), BTreeSet::new());
    for wanted in wanted {
        for target in expand(block, passes, wanted, blocks) {
            match target {
                Ok(target) if seen.insert(target.hash().to_string()) => all.push(target),
                Ok(_) => {}
                Err(error) => errors.push(error),
            }
        }
    }
    match errors.is_empty() {
        true => Ok(all),
        false => Err(Failure::all(errors)),
    }
}

/// Does `path` end in the segments of `end`? Element types need not be in it.
fn ends_in(path: &str, end: &str) -> bool {
    let bare = path.split('<').next().unwrap_or(path);
    [path, bare]
        .iter()
        .any(|path| *path == end || path.strip_suffix(end).is_some_and(|p| p.ends_with("::")))
}

fn expand(
    block: Option<&str>,
    passes: &Pipeline,
    wanted: &Wanted,
    blocks: &[Block],
) -> Vec<Result<Target, Failure>> {
    let asked = [block, wanted.block.as_deref()];
    let chosen = blocks.iter().filter(|block| {
        let fits = |end: &&str| ends_in(&block.name, end);
        asked.iter().all(|asked| asked.as_ref().is_none_or(fits))
    });
    let chosen: Vec<&Block> = chosen.collect();
    if chosen.is_empty() {
        // a choice on the command line leaves out others of the file
        let end = block.or(wanted.block.as_deref());
        let unknown = end.filter(|end| !blocks.iter().any(|b| ends_in(&b.name, end)));
        return unknown
            .map(|end| Err(unknown_block(end, blocks)))
            .into_iter()
            .collect();
    }
    let symbols: BTreeSet<Arc<str>> = chosen.iter().flat_map(|b| b.graph.symbols()).collect();
    let unused = wanted.dims.keys().filter(|dim| !symbols.contains(&***dim));
    let what = match chosen[..] {
        [block] => format!("`{}` has no dim", block.name),
        _ => "no block that is planned has a dim".into(),
    };
    let mut out: Vec<Result<Target, Failure>> = unused
        .map(|dim| Err(unknown_dim(&what, dim, &symbols)))
        .collect();
    let one = [String::from("cpus:1")];
    let clusters = wanted.cluster.as_ref().map_or(&one[..], Values::as_slice);
    for name in clusters {
        match cluster::named(name) {
            Ok(cluster) => {
                for block in &chosen {
                    out.extend(at_all_dims(passes, wanted, block, &cluster));
                }
            }
            Err(error) => out.push(Err(error)),
        }
    }
    out
}

/// Says that there is no such block, and which is near, and which there are.
fn unknown_block(end: &str, blocks: &[Block]) -> Failure {
    let names: BTreeSet<&str> = blocks.iter().map(|b| &b.name[..]).collect();
    let last = |name: &&str| name.rsplit("::").next().map(String::from);
    let ends: Vec<String> = names.iter().filter_map(last).collect();
    let near = crate::nearest(
        end,
        names.iter().copied().chain(ends.iter().map(|e| &e[..])),
    );
    let near = near.map_or(String::new(), |near| format!("; did you mean `{near}`?"));
    let names: Vec<&str> = names.into_iter().collect();
    Failure::Usage(format!(
        "there is no block `{end}`: there are {}{near}",
        names.join(", ")
    ))
}

fn at_all_dims(
    passes: &Pipeline,
    wanted: &Wanted,
    block: &Block,
    cluster: &Cluster,
) -> Vec<Result<Target, Failure>> {
    let symbols = block.graph.symbols();
    let missing: Vec<&str> = symbols
        .iter()
        .map(|s| &**s)
        .filter(|s| !wanted.dims.contains_key(*s))
        .collect();
    if !missing.is_empty() {
        return vec![Err(Failure::Usage(format!(
            "`{}` needs a value of {}",
            block.name,
            missing.join(", ")
        )))];
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
        .map(|dims| target(passes, wanted, block, dims, cluster))
        .collect()
}

fn target(
    passes: &Pipeline,
    wanted: &Wanted,
    block: &Block,
    dims: &BTreeMap<Arc<str>, i64>,
    cluster: &Cluster,
) -> Result<Target, Failure> {
    let named = dims.iter().map(|(name, &value)| (&**name, value));
    let subject = Subject::new(Some(&block.name), &block.graph, named, cluster);
    let (graph, passed) =
        bind(&block.graph, dims, passes).map_err(|e| Failure::Usage(format!("{subject}: {e}")))?;
    let options = PlanOptions {
        objective: wanted.objective.into(),
        residency: wanted.residency.into(),
        constraints: Constraints {
            min_tile: wanted.min_tile.unwrap_or(NonZeroU32::MIN),
            oversubscribe: wanted.oversubscribe.unwrap_or(NonZeroU32::MIN),
        },
        algorithm: wanted.algorithm.into(),
    };
    let key = Key::new(&graph, cluster, &options).written();
    Ok(Target {
        subject,
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
    fn nothing_to_do_is_a_slip() {
        let none = some::<Target>(Vec::new(), Some("step")).err();
        let text = "eindecomp.toml asks for no plan of `step`: give --dims, or add a [[plan]]";
        assert_eq!(none, Some(Failure::Usage(text.into())));
    }

    #[test]
    fn a_block_is_named_by_its_end() {
        assert!(ends_in("krate::decoder::step", "step"));
        assert!(ends_in("krate::decoder::step", "decoder::step"));
        assert!(ends_in("step", "step"));
        assert!(!ends_in("krate::one_step", "step"));
        assert!(ends_in("krate::total<f32>", "total"));
        assert!(ends_in("krate::total<f32>", "total<f32>"));
        assert!(!ends_in("krate::total<f32>", "total<f64>"));
    }
}
