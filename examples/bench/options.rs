//! The command line.

use std::path::PathBuf;

use super::cases::{CASES, Case, Size};

pub const USAGE: &str = "\
usage: bench [CASE…] [--threads N] [--devices P] [--gpus] [--repeats R] [--json] [--profile] [--trace FILE]
             [--small] [--stop-after PASS]

  CASE         cases whose names start so; none: all
  --threads N  worker threads that the devices share (default: cores)
  --devices P  devices to plan for (default: 1)
  --gpus       devices are virtual ones of the first GPU
  --repeats R  runs of each case, at least (default: 7)
  --json       one JSON line per case, as the peers' scripts print
  --profile    where the time of one run goes, by statement
  --trace FILE a timeline of one run, which ui.perfetto.dev opens; of one case
  --small      at the sizes of the tests, to try things out
  --stop-after only the passes up to PASS rewrite the graphs; none for `none`";

pub struct Options {
    pub cases: Vec<String>,
    pub threads: usize,
    pub devices: u32,
    pub gpus: bool,
    pub repeats: usize,
    pub json: bool,
    pub profile: bool,
    pub trace: Option<PathBuf>,
    pub size: Size,
    pub stop_after: Option<String>,
    pub help: bool,
}

impl Options {
    pub fn parse(args: impl Iterator<Item = String>) -> Result<Options, String> {
        let mut options = Options {
            cases: Vec::new(),
            threads: std::thread::available_parallelism().map_or(1, usize::from),
            devices: 1,
            gpus: false,
            repeats: 7,
            json: false,
            profile: false,
            trace: None,
            size: Size::Full,
            stop_after: None,
            help: false,
        };
        let mut args = args;
        while let Some(arg) = args.next() {
            let mut number = || -> Result<u32, String> {
                let text = args.next().ok_or(format!("{arg} needs a number"))?;
                let number = text.parse().ok().filter(|&n| n > 0);
                number.ok_or(format!("{arg} {text}: a whole number from 1 is needed"))
            };
            match arg.as_str() {
                "--threads" => options.threads = number()? as usize,
                "--devices" => options.devices = number()?,
                "--repeats" => options.repeats = number()? as usize,
                "--gpus" => options.gpus = true,
                "--json" => options.json = true,
                "--profile" => options.profile = true,
                "--trace" => {
                    let file = args.next().ok_or(format!("{arg} needs a file"))?;
                    options.trace = Some(file.into());
                }
                "--small" => options.size = Size::Small,
                "--stop-after" => {
                    let pass = args.next().ok_or(format!("{arg} needs a pass"))?;
                    options.stop_after = Some(pass);
                }
                "-h" | "--help" => options.help = true,
                _ if CASES.iter().any(|c| c.name.starts_with(&arg)) => options.cases.push(arg),
                _ => {
                    let names = CASES.map(|c| c.name).join(", ");
                    return Err(format!(
                        "`{arg}` is neither an option nor the start of a case: {names}"
                    ));
                }
            }
        }
        let chosen = options.chosen().count();
        if options.trace.is_some() && chosen != 1 && !options.help {
            return Err(format!("--trace is of one case, but {chosen} are chosen"));
        }
        Ok(options)
    }

    /// The cases to run.
    pub fn chosen(&self) -> impl Iterator<Item = &'static Case> {
        let named = |c: &&Case| self.cases.iter().any(|p| c.name.starts_with(p.as_str()));
        CASES
            .iter()
            .filter(move |c| self.cases.is_empty() || named(c))
    }
}
