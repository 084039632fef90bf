//! Solves an instance of the ASPLOS 2025 / EuroSys 2025 contest on intra-operator parallelism
//! (github.com/google/iopddl, benchmarks/) with the planner's search.
//!
//! `cargo run --release -p eindecomp-core --example iopddl -- FILE.json [--seconds N]` prints cost
//! and bound on standard error and the list of strategies on standard output, as `cargo eindecomp solve`
//! does, with an independent check of both.

use std::time::{Duration, Instant};

use eindecomp_core::plan::search::{Budget, Progress, Status, check, iopddl, solve};

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
    let text = std::fs::read(file.ok_or("usage: iopddl FILE.json [--seconds N]")?)?;
    let problem = iopddl::read(&text)?;
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
