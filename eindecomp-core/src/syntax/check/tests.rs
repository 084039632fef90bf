//! Programs that are right, and one wrong program per code with what is said of it.

use super::{Checked, check_program};
use crate::syntax::{Span, parse_text};

fn check(source: &str) -> Checked {
    let (program, errors) = parse_text(source);
    assert!(errors.is_empty(), "{}", errors[0].render(source));
    check_program(&program)
}

/// Every error: code, the tokens that are wrong, message, second place, help.
fn shown(source: &str) -> String {
    let at = |span: Span| &source[span.start as usize..span.end as usize];
    let (program, mut errors) = parse_text(source);
    errors.extend(check_program(&program).errors);
    let mut text = String::new();
    for e in errors {
        text += &format!("{} `{}`: {}\n", e.code, at(e.primary), e.message);
        if let Some((span, message)) = &e.secondary {
            text += &format!("  second `{}`: {message}\n", at(*span));
        }
        if let Some(help) = &e.help {
            text += &format!("  help: {help}\n");
        }
    }
    text
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
