//! Compares sentences with all-MiniLM-L6-v2, decomposed over devices.
//!
//! The model is written in `ein!` (`model.rs`); weights and tokenizer come with a Python package,
//! which the README says how to get.

mod model;
mod options;
mod report;
mod text;

use std::error::Error;
use std::process::ExitCode;
use std::time::Instant;

use eindecomp::ndarray::Array2;
use eindecomp::{Cluster, Session};
use model::{POSITIONS, minilm};
use options::{Options, USAGE};
use text::Text;

/// Compared if no sentences are given.
const DEMO: [&str; 4] = [
    "A man is eating food.",
    "Someone has a meal.",
    "The planner splits a matrix over devices.",
    "Tensors are partitioned between processors.",
];

fn main() -> ExitCode {
    // Warnings of the library, such as an unusable plan cache.
    tracing_subscriber::fmt()
        .with_max_level(tracing::Level::WARN)
        .with_writer(std::io::stderr)
        .without_time()
        .init();
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            let mut cause = error.source();
            while let Some(error) = cause {
                eprintln!("  {error}");
                cause = error.source();
            }
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<(), Box<dyn Error>> {
    let options = Options::parse(std::env::args().skip(1))?;
    let (Some(weights), Some(tokenizer)) = (options.weights(), options.tokenizer()) else {
        println!("{USAGE}");
        return Ok(());
    };
    let sentences: Vec<&str> = match options.sentences.is_empty() {
        true => DEMO.to_vec(),
        false => options.sentences.iter().map(String::as_str).collect(),
    };
    let batch = Text::open(&tokenizer, POSITIONS)?.encode(&sentences)?;
    let (b, s) = batch.shape;

    let devices = options.devices.get();
    let session = Session::builder().cluster(Cluster::cpus(devices)).build()?;
    let start = Instant::now();
    let compiled = session.compile(minilm::graph(), minilm::Dims { b, s })?;
    let compiling = start.elapsed();
    let mut model = compiled.load_file(weights)?;
    let out = model.run(minilm::Inputs {
        ids: Array2::from_shape_vec(batch.shape, batch.ids)?,
        mask: Array2::from_shape_vec(batch.shape, batch.mask)?,
    })?;

    println!("{}", model.explain()?);
    let report = model.program().report();
    println!(
        "plan {} in {:.1?}; compiled in {compiling:.1?}",
        report.origin, report.planning
    );
    let trace = model.trace();
    let moved = trace.traffic.moved();
    println!(
        "ran in {:.1?} on {devices} devices: {} bytes moved ({} copied, {} shared), as planned\n",
        trace.wall,
        moved.total(),
        moved.copied,
        moved.shared,
    );
    print!(
        "{}",
        report::similarities(&sentences, &out.vectors.dot(&out.vectors.t()))
    );
    Ok(())
}
