//! `cargo eindecomp solve`: one problem from a file, a graph or an instance of the contest.

use std::collections::BTreeMap;
use std::io::Read;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use eindecomp_core::graph::EinGraph;
use eindecomp_core::pass::Pipeline;
use eindecomp_core::plan::search::{Budget, check, iopddl, solve};
use eindecomp_core::plan::{PlanOptions, verify};
use serde_json::json;

use super::args::SolveArgs;
use super::failure::Failure;
use super::{Outcome, cluster, config, counted, print_json};
use crate::Explain;
use crate::planner::watched::Clock;
use crate::session::bind;

pub fn run(args: &SolveArgs, json: bool) -> Result<Outcome, Failure> {
    let start = Instant::now();
    let clock = Clock::start(args.seconds.map(Duration::from_secs), false);
    let file = args.file.display();
    let text = text(&args.file).map_err(|e| format!("{file}: {e}"))?;
    let graph = text.trim_ascii_start().starts_with(b"eingraph");
    let solved = match graph {
        true => of_graph(args, &text, json),
        false => of_instance(args, &text, json, (start, &clock)),
    };
    solved.map_err(|e| e.of(file))
}

/// Of a problem: the largest of the contest has a tenth of it.
const MAX_BYTES: u64 = 1 << 30;

/// Of a file, or of the standard input.
fn text(file: &Path) -> std::io::Result<Vec<u8>> {
    let source: Box<dyn Read> = match file.as_os_str() == "-" {
        true => Box::new(std::io::stdin()),
        false => Box::new(std::fs::File::open(file)?),
    };
    let mut text = Vec::new();
    source.take(MAX_BYTES + 1).read_to_end(&mut text)?;
    match text.len() as u64 > MAX_BYTES {
        true => Err(std::io::Error::other(format!(
            "it has more than {MAX_BYTES} B"
        ))),
        false => Ok(text),
    }
}

/// Since `start`, which counts reading, and until `clock` says no.
fn of_instance(
    args: &SolveArgs,
    text: &[u8],
    json: bool,
    (start, clock): (Instant, &Clock),
) -> Result<Outcome, Failure> {
    if !args.dims.is_empty() || args.cluster.is_some() {
        return Err(Failure::Usage(
            "--dims and --cluster are for graphs, which start with `eingraph`".into(),
        ));
    }
    let problem = iopddl::read(text).map_err(|e| e.to_string())?;
    let budget = match args.seconds {
        // small tables leave time for the search around what they find
        Some(_) => Budget {
            table_bytes: 4 << 20,
            work: u64::MAX,
        },
        None => Budget::default(),
    };
    let found = solve(&problem, budget, clock);
    let seconds = start.elapsed().as_secs_f64();
    // by code that shares nothing with the search
    check::check(&problem, &found).map_err(|e| format!("a defect of the search: {e}"))?;
    let proved = found.proved.as_ref().map_or(0, |proved| proved.bound);
    let outcome = match found.is_feasible() {
        true => Outcome::Good,
        false => Outcome::Found,
    };
    if json {
        let feasible = found.is_feasible();
        print_json(&json!({
            "cost": feasible.then(|| found.cost.to_string()),
            "bound": found.bound.to_string(),
            "checked": proved.to_string(),
            "optimal": feasible && found.is_optimal(),
            "stopped": found.stopped,
            "seconds": seconds,
            "assignment": feasible.then_some(found.assignment),
        }))?;
        return Ok(outcome);
    }
    let (cost, bound) = (found.cost, found.bound);
    let nodes = problem.variables();
    if !found.is_feasible() {
        say!("no assignment was found in {seconds:.1} s; none costs less than {bound}")?;
        return Ok(outcome);
    }
    let gap = match (found.is_optimal(), bound) {
        (true, _) => "optimal".into(),
        (false, 0) => "no bound above 0".into(),
        (false, bound) => {
            let gap = (cost - bound) as f64 / bound as f64 * 100.0;
            format!("within {gap:.1} % of the optimum")
        }
    };
    let checked = match proved {
        proved if proved == bound => "cost and bound are checked".into(),
        0 => "the cost is checked, the bound is the search's".to_string(),
        proved => format!("the cost is checked, the bound up to {proved}"),
    };
    say!("{nodes} nodes in {seconds:.1} s: cost {cost}, bound {bound}, {gap}; {checked}")?;
    say!("{:?}", found.assignment)?;
    Ok(outcome)
}

fn of_graph(args: &SolveArgs, text: &[u8], json: bool) -> Result<Outcome, Failure> {
    if args.seconds.is_some() {
        return Err(Failure::Usage(
            "--seconds is for instances: the planner of graphs counts its work".into(),
        ));
    }
    let text = std::str::from_utf8(text).map_err(|e| e.to_string())?;
    let graph = EinGraph::parse(text).map_err(|e| e.to_string())?;
    let dims = dims(&args.dims, &graph)?;
    let (graph, passed) =
        bind(&graph, &dims, &Pipeline::default()).map_err(|e| Failure::Usage(e.to_string()))?;
    let on = cluster::named(args.cluster.as_deref().unwrap_or("cpus:1"))?;
    let options = PlanOptions {
        objective: args.objective.into(),
        residency: args.residency.into(),
        ..PlanOptions::default()
    };
    let start = Instant::now();
    let plan = eindecomp_core::plan::plan(&graph, &on, &options).map_err(|e| e.to_string())?;
    let seconds = start.elapsed().as_secs_f64();
    let tasks = verify::verify(&graph, &plan, &on).map_err(|e| e.to_string())?;
    let explain = Explain::new(&graph, &plan, &tasks).map_err(|e| e.to_string())?;
    let explain = explain.after(passed);
    let certificate = &plan.certificate;
    if json {
        let explain = serde_json::to_value(&explain).map_err(|e| e.to_string())?;
        print_json(&json!({
            "cost": certificate.cost.to_string(),
            "bound": certificate.bound.to_string(),
            "optimal": certificate.is_optimal(),
            "proved": certificate.to_string(),
            "moved_bytes": plan.moved_bytes.to_string(),
            "seconds": seconds,
            "explain": explain,
        }))?;
        return Ok(Outcome::Good);
    }
    let statements = plan.nodes.iter().filter(|n| n.join.is_some()).count();
    say!(
        "{} planned in {seconds:.1} s: cost {}, bound {}\n{explain}",
        counted(statements, "statement", "statements"),
        certificate.cost,
        certificate.bound
    )?;
    Ok(Outcome::Good)
}

/// The dims of a graph, each of which is given once.
fn dims(given: &[String], graph: &EinGraph) -> Result<BTreeMap<Arc<str>, i64>, Failure> {
    let known = graph.symbols();
    let mut dims: BTreeMap<Arc<str>, i64> = BTreeMap::new();
    for text in given {
        for (name, value) in config::dims(text)? {
            if !known.iter().any(|known| **known == *name) {
                return Err(config::unknown_dim("the graph has no dim", &name, &known));
            }
            if let Some(before) = dims.insert(name.as_str().into(), value) {
                return Err(Failure::Usage(format!(
                    "`{name}` is given twice in --dims, as {before} and {value}"
                )));
            }
        }
    }
    Ok(dims)
}
