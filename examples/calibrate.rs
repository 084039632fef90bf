//! Measures this machine, for plans of least time: `cargo run --release --example calibrate [FOLDER]`.
//!
//! The figures go to `machine.json` in the folder of plans, where
//! `Session::builder().this_machine(devices)` finds them.

use std::path::PathBuf;
use std::process::ExitCode;

use eindecomp::machine::{self, Outcome};
use indicatif::{ProgressBar, ProgressStyle};

fn main() -> ExitCode {
    let given = std::env::args_os().nth(1).map(PathBuf::from);
    let Some(folder) = given.or_else(machine::default_folder) else {
        eprintln!("no folder for the figures: give one, or set EINDECOMP_CACHE");
        return ExitCode::FAILURE;
    };
    // drawn on terminals only
    let bar = ProgressBar::new(0);
    if let Ok(style) = ProgressStyle::with_template("{bar:30} {pos}/{len} {msg}") {
        bar.set_style(style);
    }
    let measured = machine::calibrate(&folder, &mut |done, all, what| {
        bar.set_length(all as u64);
        bar.set_position(done as u64);
        bar.set_message(what.to_string());
    });
    bar.finish_and_clear();
    let cluster =
        measured.and_then(|(_, outcome)| Ok((machine::cluster(Some(&folder), 1)?, outcome)));
    match cluster {
        Ok((cluster, outcome)) => {
            println!("{cluster}");
            for (dtype, rate) in cluster.server.device.rates.iter() {
                let figures = rate
                    .iter()
                    .map(|(class, n)| format!("{class} {:.1}", n as f64 / 1e9));
                println!(
                    "  {dtype:5} Gop/s of a core: {}",
                    figures.collect::<Vec<_>>().join(", ")
                );
            }
            println!(
                "{} {}",
                folder.join("machine.json").display(),
                match outcome {
                    Outcome::New => "is new",
                    Outcome::Changed => "has new figures",
                    Outcome::Kept => "stays: no figure has changed by more than 15 %",
                }
            );
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}
