//! Solves an instance of the ASPLOS 2025 / EuroSys 2025 contest on intra-operator parallelism
//! (github.com/google/iopddl, benchmarks/) with the planner's search: one strategy per node at
//! least cost, under a limit on memory over time.
//!
//! `cargo run --release -p eindecomp-core --example iopddl -- FILE.json [--seconds N]` prints cost
//! and bound on standard error and the list of strategies on standard output.

use std::time::{Duration, Instant};

use eindecomp_core::plan::search::{Budget, Problem, Progress, Status, VarId, check, solve};
use serde_json::Value;

/// Ends a search after a time.
struct Clock {
    start: Instant,
    limit: Duration,
}

impl Progress for Clock {
    fn keep_going(&self, _: &Status) -> bool {
        self.start.elapsed() < self.limit
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let (mut file, mut seconds) = (None, 60);
    let mut args = std::env::args().skip(1);
    while let Some(arg) = args.next() {
        match arg.as_str() {
            "--seconds" => seconds = args.next().ok_or("--seconds needs a number")?.parse()?,
            _ => file = Some(arg),
        }
    }
    let clock = Clock {
        start: Instant::now(),
        limit: Duration::from_secs(seconds),
    };
    let text = std::fs::read_to_string(file.ok_or("usage: iopddl FILE.json [--seconds N]")?)?;
    let instance: Value = serde_json::from_str(&text)?;
    let problem = read(&instance["problem"]).ok_or("not an instance")?;
    let budget = Budget {
        table_bytes: 4 << 20,
        work: u64::MAX,
    };
    let found = solve(&problem, budget, &clock);
    check::check(&problem, &found)?;
    if !found.is_feasible() {
        eprintln!("no solution found; none costs less than {}", found.bound);
        return Ok(());
    }
    let gap = (found.cost as f64 / found.bound.max(1) as f64 - 1.0) * 100.0;
    eprintln!("cost {}, bound {}, gap {gap:.2} %", found.cost, found.bound);
    println!("{:?}", found.assignment);
    Ok(())
}

fn read(instance: &Value) -> Option<Problem> {
    let numbers =
        |v: &Value| -> Option<Vec<u64>> { v.as_array()?.iter().map(Value::as_u64).collect() };
    let lists =
        |v: &Value| -> Option<Vec<Vec<u64>>> { v.as_array()?.iter().map(numbers).collect() };
    let (nodes, edges) = (&instance["nodes"], &instance["edges"]);
    let intervals = lists(&nodes["intervals"])?;
    let end = intervals.iter().filter_map(|i| i.get(1)).max().copied()?;
    let mut problem = Problem::new();
    let limit = instance["usage_limit"].as_u64();
    problem.set_limits(vec![limit.unwrap_or(u64::MAX); end as usize]);
    let usages = lists(&nodes["usages"])?;
    for ((costs, used), interval) in lists(&nodes["costs"])?
        .into_iter()
        .zip(usages)
        .zip(&intervals)
    {
        let [from, to] = interval[..] else {
            return None;
        };
        if costs.is_empty() || costs.len() != used.len() {
            return None;
        }
        let v = problem.add_variable(costs);
        if from < to {
            problem.add_usage(v, from as u32..to as u32, &used);
        }
    }
    for (ends, costs) in lists(&edges["nodes"])?
        .into_iter()
        .zip(lists(&edges["costs"])?)
    {
        let [a, b] = ends[..] else { return None };
        if a == b || a.max(b) >= problem.variables() as u64 {
            return None;
        }
        let (a, b) = (VarId(a as u32), VarId(b as u32));
        if costs.len() != problem.domain(a) * problem.domain(b) {
            return None;
        }
        problem.add_edge(a, b, costs);
    }
    Some(problem)
}
