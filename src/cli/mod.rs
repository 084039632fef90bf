//! The command `cargo eindecomp`.
//!
//! Files: `args` (the command line), `config` (`eindecomp.toml`), `project` (the crate and its
//! blocks), `sources` (which of its targets name some), `targets` (what has to be planned), `folder` (the entries of
//! a folder), `failure` (errors and their exit codes), and one per command.

/// A line on standard output.
macro_rules! say {
    ($($text:tt)*) => {
        super::print(format_args!($($text)*))
    };
}

mod args;
mod calibrate;
mod check;
mod cluster;
mod config;
mod diff;
mod explain;
mod failure;
mod folder;
mod list;
mod plan;
mod project;
mod solve;
mod sources;
mod targets;

use std::fmt;
use std::io::{self, Write};
use std::process::ExitCode;

use args::{Cli, Command};
use failure::Failure;
use indicatif::{ProgressBar, ProgressStyle};

/// What a command comes to.
enum Outcome {
    /// All is well.
    Good,
    /// It found what it looks for: the exit code is 1.
    Found,
    /// It found nothing but what is not needed: the exit code is 4.
    Spare,
}

/// Runs the command line of this process.
pub fn main() -> ExitCode {
    let cli = args::parse();
    match run(&cli) {
        Ok(Outcome::Good) => ExitCode::SUCCESS,
        Ok(Outcome::Found) => ExitCode::from(1),
        Ok(Outcome::Spare) => ExitCode::from(4),
        Err(error) => {
            note(format_args!("error: {error}"));
            ExitCode::from(match error {
                Failure::Usage(_) => 2,
                Failure::Failed(_) => 3,
            })
        }
    }
}

fn run(cli: &Cli) -> Result<Outcome, Failure> {
    match &cli.command {
        Command::Plan(args) => plan::run(args, cli.json),
        Command::Check(args) => check::run(args, cli.json),
        Command::Prune(args) => check::prune(args, cli.json),
        Command::Explain(args) => explain::run(args, cli.json),
        Command::List(args) => list::run(args, cli.json),
        Command::Diff(args) => diff::run(args, cli.json),
        Command::Calibrate(args) => calibrate::run(args, cli.json),
        Command::Solve(args) => solve::run(args, cli.json),
        Command::Completions { shell } => {
            print(format_args!("{}", args::completions(*shell))).map(|()| Outcome::Good)
        }
    }
}

/// A bar of so many steps, drawn on terminals only.
fn bar(steps: u64) -> Result<ProgressBar, Failure> {
    let bar = ProgressBar::new(steps);
    let style = ProgressStyle::with_template("{bar:30} {pos}/{len} {wide_msg}");
    bar.set_style(style.map_err(|e| e.to_string())?);
    Ok(bar)
}

/// Prints a value for programs.
fn print_json(value: &serde_json::Value) -> Result<(), Failure> {
    let text = serde_json::to_string_pretty(value).map_err(|e| e.to_string())?;
    print(format_args!("{text}"))
}

/// A line for people, beside the output. Where nobody reads it, the exit code still tells.
fn note(line: fmt::Arguments) {
    let _ = writeln!(io::stderr(), "{}", plain(&line.to_string()));
}

/// Prints a line. A reader that has gone (`| head`) has seen what it wanted: the command goes on, and its exit
/// code stays true.
fn print(line: fmt::Arguments) -> Result<(), Failure> {
    match writeln!(io::stdout(), "{}", plain(&line.to_string())) {
        Err(e) if e.kind() != io::ErrorKind::BrokenPipe => {
            Err(format!("standard output: {e}").into())
        }
        _ => Ok(()),
    }
}

/// `1 plan`, `2 plans`
fn counted(n: usize, one: &str, many: &str) -> String {
    format!("{n} {}", if n == 1 { one } else { many })
}

/// The text without what terminals obey: entries and graphs are files of whoever wrote them.
fn plain(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    for c in text.chars() {
        match c.is_control() && c != '\n' && c != '\t' {
            true => plain.extend(c.escape_default()),
            false => plain.push(c),
        }
    }
    plain
}

#[cfg(test)]
mod tests {
    #[test]
    fn what_files_say_moves_no_cursor() {
        assert_eq!(super::plain("a\tb\nµ"), "a\tb\nµ");
        assert_eq!(super::plain("\u{1b}[2J\r\u{9b}"), "\\u{1b}[2J\\r\\u{9b}");
    }
}
