//! Times programs as the peers' scripts do, one JSON line or one row of a table per case:
//! `cargo run --release --example bench -- [CASE…] --threads N --devices P [--gpus] --repeats R [--json]`.

mod blocks;
mod cases;
mod numpy;
mod options;

use std::error::Error;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use eindecomp::{Cluster, Launched, Session};
use eindecomp_runtime::{Data, Tensor};
use serde::Serialize;

use cases::Case;
use options::Options;

/// A quick case is repeated for so long.
const LEAST: Duration = Duration::from_millis(500);
/// A slow one is stopped after this, and at least three runs.
const MOST: Duration = Duration::from_secs(20);

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<(), Box<dyn Error>> {
    let options = Options::parse(std::env::args().skip(1))?;
    if options.help {
        println!("{}", options::USAGE);
        return Ok(());
    }
    let mut session = Session::builder().workers(options.threads);
    session = match options.gpus {
        true => session.cluster(Cluster::gpu_virtual(options.devices)?),
        false => session.cluster(Cluster::cpus(options.devices)),
    };
    if let Some(pass) = &options.stop_after {
        session = session.stop_after(pass);
    }
    let session = session.build()?;
    if !options.json {
        println!("{}", Line::HEAD);
    }
    for case in options.chosen() {
        let line = time(case, &session, &options)?;
        match options.json {
            true => println!("{}", serde_json::to_string(&line)?),
            false => println!("{line}"),
        }
    }
    Ok(())
}

/// The peers' fields, and the number of devices.
#[derive(Serialize)]
struct Line {
    peer: &'static str,
    case: &'static str,
    median_ms: f64,
    min_ms: f64,
    threads: usize,
    devices: u32,
    repeats: usize,
    gflops: f64,
    checksum: f64,
    other_cpus: f64,
}

impl Line {
    const HEAD: &str = "case               median ms     min ms   GFLOP/s   checksum  other cpus";
}

impl std::fmt::Display for Line {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "{:<16} {:>11.3} {:>10.3} {:>9.2} {:>10.6} {:>11.2}",
            self.case, self.median_ms, self.min_ms, self.gflops, self.checksum, self.other_cpus
        )
    }
}

fn time(case: &Case, session: &Session, options: &Options) -> Result<Line, Box<dyn Error>> {
    let graph = (case.graph)()?;
    let dims = case.dims_at(options.size);
    let inputs = case.inputs(&graph, &dims);
    let mut program = session.compile_graph(graph, dims.clone())?;
    program.load(inputs.weights)?;
    program.set_state(inputs.states)?;
    let outputs = program.run(&inputs.data)?;
    let names: Vec<String> = program
        .graph()
        .outputs()
        .iter()
        .map(|o| o.name.to_string())
        .collect();
    let mut outputs: Vec<Tensor> = names.iter().map(|n| outputs[n].clone()).collect();
    program.run_into(&inputs.data, &mut outputs)?;

    if options.profile || options.trace.is_some() {
        let profile = program.profile(&inputs.data)?;
        if options.profile {
            println!("{}: {profile}", case.name);
        }
        if let Some(file) = &options.trace {
            profile.write_timeline(file)?;
        }
    }

    let (mut times, busy, start) = (Vec::new(), Busy::now(), Instant::now());
    while times.len() < options.repeats || start.elapsed() < LEAST {
        let run = Instant::now();
        program.run_into(&inputs.data, &mut outputs)?;
        times.push(run.elapsed().as_secs_f64() * 1e3);
        if start.elapsed() > MOST && times.len() >= 3 {
            break;
        }
    }
    let others = busy.zip(Busy::now()).map_or(0.0, |(before, after)| {
        ((after.all - before.all) - (after.own - before.own)) / start.elapsed().as_secs_f64()
    });
    times.sort_by(f64::total_cmp);
    let n = times.len();
    let median = (times[(n - 1) / 2] + times[n / 2]) / 2.0;
    Ok(Line {
        peer: "eindecomp",
        case: case.name,
        median_ms: median,
        min_ms: times[0],
        threads: options.threads,
        devices: options.devices,
        repeats: n,
        gflops: (case.flops)(&dims) / median / 1e6,
        checksum: mean_magnitude(&outputs[0]),
        other_cpus: others.max(0.0),
    })
}

/// The peers' checksum.
fn mean_magnitude(tensor: &Tensor) -> f64 {
    match tensor.data() {
        Data::F32(v) => v.iter().map(|x| f64::from(x.abs())).sum::<f64>() / v.len() as f64,
        _ => f64::NAN,
    }
}

/// CPU seconds that were used since some time in the past.
struct Busy {
    all: f64,
    own: f64,
}

impl Busy {
    /// `None` where `/proc` has no such figures.
    fn now() -> Option<Busy> {
        /// Linux reports these in hundredths of a second, whatever the kernel's own tick.
        const TICKS: f64 = 100.0;
        let number = |s: &str| s.parse::<f64>().ok();
        let all = std::fs::read_to_string("/proc/stat").ok()?;
        let all: Vec<f64> = all
            .lines()
            .next()?
            .split_whitespace()
            .skip(1)
            .map_while(number)
            .collect();
        let own = std::fs::read_to_string("/proc/self/stat").ok()?;
        // The name before may hold blanks.
        let own: Vec<&str> = own.rsplit_once(')')?.1.split_whitespace().collect();
        let idle = all.get(3)? + all.get(4)?;
        Some(Busy {
            all: (all.iter().take(8).sum::<f64>() - idle) / TICKS,
            own: (number(own.get(11)?)? + number(own.get(12)?)?) / TICKS,
        })
    }
}
