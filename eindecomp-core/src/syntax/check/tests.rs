//! Programs that are right, and one wrong program per code with what is said of it.

use super::{Checked, check_program};
use crate::syntax::parse_text;

fn check(source: &str) -> Checked {
    let (program, errors) = parse_text(source);
    assert!(errors.is_empty(), "{}", errors[0].render(source));
    check_program(&program)
}

/// Every error, as shown to people.
fn errors(source: &str) -> String {
    check(source)
        .errors
        .iter()
        .map(|e| e.render(source).to_string())
        .collect()
}

#[track_caller]
fn accepts(source: &str) -> Checked {
    let checked = check(source);
    let shown: String = checked
        .errors
        .iter()
        .map(|e| e.render(source).to_string())
        .collect();
    assert!(shown.is_empty(), "{shown}");
    assert!(checked.blocks.iter().all(|b| b.body.is_some()));
    checked
}

mod right;
mod wrong;
