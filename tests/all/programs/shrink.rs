//! The least program with a fault.

use crate::programs::generate::Program;
use crate::programs::run::{Outcome, Runner};

/// As many programs are tried.
const TRIES: usize = 3000;

/// What faults have in common whose cause is the same, as far as words tell.
pub fn kind(what: &str) -> String {
    let words = what.chars().filter(|c| !c.is_ascii_digit());
    words.take(40).collect()
}

/// The text of `program` with all left out that does not matter to its fault.
pub fn least(runner: &Runner, program: &Program, seed: u64, what: &str) -> String {
    let mut least = program.clone();
    let mut tries = 0;
    loop {
        let next = smaller(&least.text).into_iter().find(|text| {
            tries += 1;
            let program = Program {
                text: text.clone(),
                ..least.clone()
            };
            tries < TRIES
                && matches!(runner.run(&program, seed),
                    Outcome::Fault(other) if kind(&other) == kind(what))
        });
        match next {
            Some(text) => least.text = text,
            None => return least.text,
        }
    }
}

/// Programs without a line, or with something simple in place of what stands in brackets.
fn smaller(text: &str) -> Vec<String> {
    let mut out = Vec::new();
    let lines: Vec<&str> = text.lines().collect();
    for at in 0..lines.len() {
        let left = lines[..at].iter().chain(&lines[at + 1..]);
        out.push(left.flat_map(|line| [line, "\n"]).collect());
    }
    let mut open = Vec::new();
    for (at, ch) in text.char_indices() {
        match ch {
            '(' | '{' => open.push(at),
            ')' | '}' => {
                let Some(from) = open.pop() else { continue };
                let inner = &text[from + 1..at];
                let (before, after) = (&text[..from], &text[at + 1..]);
                if inner.contains('\n') {
                    continue;
                }
                for with in ["1.0", "1", "true"] {
                    out.push(format!("{before}{with}{after}"));
                }
                out.push(format!("{before}{inner}{after}"));
                // The call or branch too.
                let name = before.trim_end_matches(|c: char| c.is_alphanumeric() || c == '_');
                out.push(format!("{name}{inner}{after}"));
                for part in inner.split([',', '+', '*']).filter(|part| *part != inner) {
                    out.push(format!("{name}({part}){after}"));
                }
            }
            _ => {}
        }
    }
    out.retain(|smaller| smaller.len() < text.len());
    out.sort_by_key(String::len);
    out
}
