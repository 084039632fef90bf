//! What holds of every input.

use eindecomp_core::syntax::{Diag, Span, check, parse_text};
use proc_macro2::TokenStream;

use super::input::Input;

/// How far an input came.
pub struct Outcome {
    /// Without an error of syntax.
    pub parsed: bool,
    /// Without any error.
    pub accepted: bool,
    /// As Rust tokens, by the macro.
    pub expanded: bool,
}

/// Runs an input; `twice` is to be thorough: all that is found is found again, what is printed is
/// the same tree, and what the macro gives are Rust items.
///
/// # Errors
/// What does not hold.
pub fn hold(input: &Input, twice: bool) -> Result<Outcome, String> {
    let (mut parsed, mut accepted) = (false, false);
    if let Some(text) = input.text() {
        (parsed, accepted) = as_text(&text, twice)?;
    }
    let stream = input.stream();
    let expanded = stream.is_some();
    if let Some(stream) = stream {
        let out = crate::run(stream.clone());
        if twice {
            are_items(out, stream)?;
        }
    }
    Ok(Outcome {
        parsed,
        accepted,
        expanded,
    })
}

/// Whether a text parses, and is accepted.
fn as_text(text: &str, twice: bool) -> Result<(bool, bool), String> {
    let (program, errors) = parse_text(text);
    let checked = check::check_program(&program);
    let all: Vec<&Diag> = errors.iter().chain(&checked.errors).collect();
    for diag in &all {
        placed(text, diag)?;
    }
    for warning in &checked.warnings {
        inside(text, warning.span).ok_or_else(|| format!("a warning is at {:?}", warning.span))?;
    }
    if twice {
        let (twin, same) = parse_text(text);
        if same != errors || check::check_program(&twin).errors != checked.errors {
            return Err("the second time, other errors are found".into());
        }
    }
    if errors.is_empty() {
        let printed = program.to_string();
        let (again, refused) = parse_text(&printed);
        if let Some(first) = refused.first() {
            return Err(format!("it prints as what is refused: {first}\n{printed}"));
        }
        if twice && bare(&again) != bare(&program) {
            return Err(format!("it prints as another program:\n{printed}"));
        }
        if again.to_string() != printed {
            return Err(format!("it prints differently the second time:\n{printed}"));
        }
    }
    Ok((errors.is_empty(), all.is_empty()))
}

/// Every place of an error is in the text, between characters; what is said can be shown.
fn placed(text: &str, diag: &Diag) -> Result<(), String> {
    let second = diag.secondary.iter().map(|(span, _)| *span);
    let edits = diag.fixes.iter().flat_map(|fix| &fix.edits);
    let spans = [diag.primary].into_iter().chain(second);
    for span in spans.chain(edits.map(|(span, _)| *span)) {
        inside(text, span).ok_or_else(|| format!("{span:?} is no place of the text: {diag}"))?;
    }
    if diag.message.is_empty() || diag.render(text).to_string().is_empty() {
        return Err(format!("{} says nothing", diag.code));
    }
    for fix in &diag.fixes {
        fix.apply(text);
    }
    Ok(())
}

fn inside(text: &str, span: Span) -> Option<&str> {
    text.get(span.start as usize..span.end as usize)
}

/// A tree without its places.
fn bare(program: &impl std::fmt::Debug) -> String {
    let shown = format!("{program:?}");
    let mut parts = shown.split('@');
    let mut out = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let place = |ch: char| ch.is_ascii_digit() || ch == '.';
        out.push_str(part.trim_start_matches(place));
    }
    out
}

/// What the macro gave are Rust items.
fn are_items(out: TokenStream, program: TokenStream) -> Result<(), String> {
    let items = syn::parse2::<syn::File>(out);
    items.map(drop).map_err(|error| {
        let text = crate::run(program).to_string();
        let from = text.len().saturating_sub(300);
        let end = text.get(from..).unwrap_or(&text);
        format!("no Rust items come out: {error}\n…{end}")
    })
}
