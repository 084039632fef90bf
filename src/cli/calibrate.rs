//! `cargo eindecomp calibrate`.

use serde_json::json;

use super::args::CalibrateArgs;
use super::failure::Failure;
use super::{Outcome, bar, print_json};
use crate::machine::{self, Outcome as Kept};

pub fn run(args: &CalibrateArgs, json: bool) -> Result<Outcome, Failure> {
    let folder = args.folder.clone().or_else(machine::default_folder);
    let folder = folder.ok_or(
        "there is no folder for the figures: give --folder, or set EINDECOMP_CACHE or HOME",
    )?;
    let bar = bar(0)?;
    let measured = machine::calibrate(&folder, &mut |done, all, what| {
        bar.set_length(all as u64);
        bar.set_position(done as u64);
        bar.set_message(what.to_string());
    });
    bar.finish_and_clear();
    let (figures, kept) = measured.map_err(|e| e.to_string())?;
    let file = folder.join("machine.json");
    if json {
        let outcome = match kept {
            Kept::New => "new",
            Kept::Changed => "changed",
            Kept::Kept => "kept",
        };
        let figures: serde_json::Value =
            serde_json::from_str(&figures.to_json()).map_err(|e| e.to_string())?;
        let file = file.display().to_string();
        print_json(&json!({ "file": file, "outcome": outcome, "figures": figures }))?;
        return Ok(Outcome::Good);
    }
    let cluster = machine::cluster(Some(&folder), 1).map_err(|e| e.to_string())?;
    say!("{cluster}")?;
    for (dtype, rates) in cluster.server.device.rates.iter() {
        let rates = rates.iter();
        let rates = rates.map(|(class, rate)| format!("{class} {:.1}", rate as f64 / 1e9));
        let rates = rates.collect::<Vec<_>>().join(", ");
        say!("  {dtype:5} Gop/s of a core: {rates}")?;
    }
    let outcome = match kept {
        Kept::New => "is new",
        Kept::Changed => "has new figures",
        Kept::Kept => "stays: no figure has changed by more than 15 %",
    };
    say!("{} {outcome}", file.display())?;
    Ok(Outcome::Good)
}
