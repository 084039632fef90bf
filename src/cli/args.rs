//! The command line.

use std::path::PathBuf;

use clap::{Args, CommandFactory, Parser, Subcommand};

use super::config::{ObjectiveName, ResidencyName};

/// What `--help` says; no doc comment, in which the file would be a test of Rust.
const ABOUT: &str = r#"Makes, checks and shows the plans that a crate's production binary ships with.

One line in the crate names its blocks: `eindecomp::blocks! { model, decoder::step }`. What they are
planned for stands in `eindecomp.toml` beside `Cargo.toml`, or is given by --dims and --cluster:

    folder = "plans"

    [[plan]]
    block = "decoder::step"            # a path or its end; all blocks if it is left out
    dims = { B = [1, 8], S = 512 }     # every combination
    cluster = ["cpus:4", "dgx_a100"]   # or "2xdgx_h100", "machine:4", or a JSON file
                                       # beside this one, of a `Cluster` as serde_json writes it
    residency = "as_needed"            # or sharded, auto
    objective = "placed"               # or communication, time
    algorithm = "exact"                # or linearized
    min_tile = 16                      # least extent of a part; 1 if it is left out
    oversubscribe = 4                  # kernel calls per device; 1 if it is left out

From development to production: `plan`, commit the folder, `check` in continuous integration, ship with
`include_plans!` and mode `frozen`. Plans that come by git are in the next build if a build.rs prints
`cargo::rerun-if-changed=plans`.

Exit codes:

    0  all is well
    1  `check`: an entry is missing or stale; `diff`: the plans differ; `solve`: no solution was found
    2  the command line or eindecomp.toml is wrong: an option, block, dim or cluster that there is not
    3  failed: the crate does not build, a file cannot be read or written, a graph cannot be planned
    4  `check`: nothing is missing or stale, but an entry is dead"#;

/// Makes, checks and shows the plans that a crate's production binary ships with.
#[derive(Parser)]
#[command(
    name = "cargo eindecomp",
    bin_name = "cargo eindecomp",
    version,
    long_about = ABOUT
)]
pub struct Cli {
    /// Print JSON instead of text.
    #[arg(long, global = true)]
    pub json: bool,
    #[command(subcommand)]
    pub command: Command,
}

#[derive(Subcommand)]
pub enum Command {
    /// Make the plans that are missing, and write them into the folder.
    Plan(PlanArgs),
    /// For continuous integration: is every plan there, good, and needed? Writes nothing.
    ///
    /// Says of each plan that is needed whether it is ok, missing (there is no entry) or stale (its entry is damaged), and
    /// of each other entry whether it is stale (damaged, or of another version of the planner) or dead (a good entry
    /// that nothing needs). With --block, --dims or --cluster only entries that are for these are looked at.
    ///
    /// Exit codes: 0 all are ok; 1 an entry is missing or stale; 2 the command line or eindecomp.toml is wrong;
    /// 3 failed; 4 none is missing or stale, but an entry is dead.
    #[command(verbatim_doc_comment)]
    Check(Project),
    /// Remove stale and dead entries, as `check` calls them.
    Prune(PruneArgs),
    /// Show what a plan does, statement by statement.
    Explain(Project),
    /// List the entries of a folder.
    List(Folder),
    /// Compare two entries: keys, bytes, and the statements that are split otherwise. Exit code 1: they differ.
    Diff(DiffArgs),
    /// Measure this machine, and keep the figures for plans of least time.
    Calibrate(CalibrateArgs),
    /// Solve one planning problem from a file: cost, bound and what is proved.
    Solve(SolveArgs),
    /// Print a script that completes this command in a shell.
    Completions {
        /// Which shell.
        shell: clap_complete::Shell,
    },
}

/// Which crate, and what of it is planned for what.
#[derive(Args)]
pub struct Project {
    /// The crate's Cargo.toml [default: that of this folder].
    #[arg(long, value_name = "PATH")]
    pub manifest_path: Option<PathBuf>,
    /// The package, in a workspace.
    #[arg(long, short, value_name = "NAME")]
    pub package: Option<String>,
    /// Features of the package that its blocks need. May be repeated.
    #[arg(long, value_name = "FEATURES", value_delimiter = ',')]
    pub features: Vec<String>,
    /// Without the default features of the package.
    #[arg(long)]
    pub no_default_features: bool,
    /// Only blocks whose path, from the crate on, ends so: `step`, `decoder::step`.
    #[arg(long, value_name = "PATH")]
    pub block: Option<String>,
    /// Values of dims to plan for, instead of those of eindecomp.toml: `B=1,S=512`. All else is as the [[plan]]s of
    /// these dims say. May be repeated.
    #[arg(long, value_name = "DIMS")]
    pub dims: Vec<String>,
    /// Clusters to plan for: cpus:N, machine:N (N devices of this machine, as `calibrate` measured it),
    /// dgx_a100, dgx_h100, dgx1_v100, Kx… for K of them, or a JSON file. May be repeated
    /// [default: cpus:1].
    #[arg(long, value_name = "CLUSTER")]
    pub cluster: Vec<String>,
    /// The folder of plans [default: that of eindecomp.toml, else plans].
    #[arg(long, value_name = "PATH")]
    pub folder: Option<PathBuf>,
    /// Only the passes up to this one rewrite graphs, none for `none`: to find one that is at fault.
    /// `explain` shows what each did.
    #[arg(long, value_name = "PASS")]
    pub stop_after: Option<String>,
}

#[derive(Args)]
pub struct PlanArgs {
    #[command(flatten)]
    pub project: Project,
    /// Make all plans again.
    #[arg(long)]
    pub force: bool,
    /// Plans that are made at the same time [default: the cores of this machine].
    #[arg(long, short, value_name = "N")]
    pub jobs: Option<std::num::NonZeroUsize>,
}

#[derive(Args)]
pub struct PruneArgs {
    #[command(flatten)]
    pub project: Project,
    /// Only say what would be removed.
    #[arg(long)]
    pub dry_run: bool,
}

#[derive(Args)]
pub struct Folder {
    /// The folder of plans [default: that of the crate around this folder].
    pub folder: Option<PathBuf>,
}

#[derive(Args)]
pub struct DiffArgs {
    /// An entry: a file, or the start of its name in the folder.
    pub first: String,
    /// The other one.
    pub second: String,
    /// The folder of plans [default: that of the crate around this folder].
    #[arg(long, value_name = "PATH")]
    pub folder: Option<PathBuf>,
}

/// Measures this machine, which takes some seconds; nothing else should run. The figures are kept in
/// machine.json, unless none of those that are there has changed by more than 15 %: so plans stay what
/// they are. Sessions with `this_machine(N)` and clusters `machine:N` read them.
#[derive(Args)]
#[command(verbatim_doc_comment)]
pub struct CalibrateArgs {
    /// Where the file is kept [default: EINDECOMP_CACHE, else eindecomp in the user's cache folder].
    #[arg(long, value_name = "PATH")]
    pub folder: Option<PathBuf>,
}

/// Solves one planning problem. The file is either of
///
///   a graph, as a program prints one (`println!("{graph}")`): text that starts with `eingraph`. It is
///   planned for --cluster at --dims, and the plan is explained;
///
///   an instance of the ASPLOS 2025 contest (github.com/google/iopddl): JSON. One strategy per node at
///   least cost, within a limit on memory over time. The list of strategies is the last line.
///
/// The bound says how far from the optimum the answer can be. What is printed was checked by code that
/// shares nothing with the search.
///
/// Exit codes: 0 solved; 1 no solution was found; 2 the command line is wrong, or gives dims that the graph has not;
/// 3 the file is neither, or the graph cannot be planned.
#[derive(Args)]
#[command(verbatim_doc_comment)]
pub struct SolveArgs {
    /// The file; `-` is the standard input.
    pub file: PathBuf,
    /// Of a graph: a value of each of its dims, `B=1,S=512`. May be repeated, for other dims.
    #[arg(long, value_name = "DIMS")]
    pub dims: Vec<String>,
    /// Of a graph: the cluster, as for `plan` [default: cpus:1].
    #[arg(long, value_name = "CLUSTER")]
    pub cluster: Option<String>,
    /// Of a graph: what the plan minimises.
    #[arg(long, value_enum, default_value_t)]
    pub objective: ObjectiveName,
    /// Of a graph: where weights live.
    #[arg(long, value_enum, default_value_t)]
    pub residency: ResidencyName,
    /// Of an instance: end the search after so many seconds [default: after 10^10 additions].
    #[arg(long, value_name = "N")]
    pub seconds: Option<u64>,
}

/// The arguments of this process. As `cargo eindecomp`, the first one is the command's own name.
pub fn parse() -> Cli {
    let mut args: Vec<_> = std::env::args_os().collect();
    if args.get(1).is_some_and(|a| a == "eindecomp") {
        args.remove(1);
    }
    Cli::parse_from(args)
}

/// The script of a shell.
pub fn completions(shell: clap_complete::Shell) -> String {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "cargo-eindecomp", &mut script);
    String::from_utf8_lossy(script.trim_ascii_end()).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_well_formed() {
        Cli::command().debug_assert();
    }
}
