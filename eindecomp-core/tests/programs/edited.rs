//! Right programs with one token changed: nothing panics, and what a help proposes removes its
//! error. `EINDECOMP_EVERY=1` tries every such program instead of a sample.

use eindecomp_core::syntax::lex::lex;
use eindecomp_core::syntax::token::{Tok, Token};
use eindecomp_core::syntax::{Diag, Fix};

use crate::case::{errors, files, read, stem};

/// Programs that differ from `source` in one token: left out, or another of the same kind in its
/// place.
fn edited(source: &str) -> Vec<String> {
    let (buffer, _) = lex(source);
    let tokens = buffer.tokens();
    let with = |start: u32, end: u32, text: &str| {
        format!(
            "{}{text}{}",
            &source[..start as usize],
            &source[end as usize..]
        )
    };
    let mut out = Vec::new();
    for (at, token) in tokens.iter().enumerate() {
        let (start, end) = (token.span.start, token.span.end);
        if matches!(token.tok, Tok::Open(_) | Tok::Close(_)) {
            continue;
        }
        out.push(with(start, end, ""));
        let same = |other: &&Token| {
            std::mem::discriminant(&other.tok) == std::mem::discriminant(&token.tok)
                && other.tok != token.tok
        };
        // The next three of its kind.
        for other in tokens[at..].iter().filter(same).take(3) {
            out.push(with(start, end, &other.tok.to_string()));
        }
    }
    out
}

/// Where the tokens of an error are after a change.
fn moved(error: &Diag, fix: &Fix) -> usize {
    let before = fix
        .edits
        .iter()
        .filter(|(span, _)| span.end <= error.primary.start);
    let grown: usize = before.clone().map(|(_, text)| text.len()).sum();
    let lost: usize = before
        .map(|(span, _)| (span.end - span.start) as usize)
        .sum();
    error.primary.start as usize + grown - lost
}

#[test]
fn helps_of_programs_with_a_slip_remove_their_error() {
    let every: usize = std::env::var("EINDECOMP_EVERY").map_or(31, |n| n.parse().unwrap());
    let (mut tried, mut wrong, mut helps, mut mended) = (0, 0, 0, 0);
    let mut faults = Vec::new();
    for file in files("right") {
        // Long programs give many.
        let every = every * if stem(&file) == "users" { 24 } else { 1 };
        for case in read(&file) {
            for source in edited(&case.source).into_iter().step_by(every) {
                tried += 1;
                let said = errors(&source);
                wrong += usize::from(!said.is_empty());
                for error in &said {
                    for fix in &error.fixes {
                        helps += 1;
                        let after = fix.apply(&source);
                        let left = errors(&after);
                        mended += usize::from(left.is_empty());
                        let place = moved(error, fix);
                        let same = |e: &&Diag| (e.code, &e.message) == (error.code, &error.message);
                        let again = left
                            .iter()
                            .filter(same)
                            .find(|e| e.primary.start as usize == place);
                        if let Some(again) = again {
                            faults.push(format!(
                                "{}: {}: {error}\n{source}\nafter `{}`\n{after}\n{}",
                                stem(&file),
                                case.name,
                                fix.help,
                                again.render(&after)
                            ));
                        }
                    }
                }
            }
        }
    }
    println!(
        "{tried} programs, {wrong} of them wrong, {helps} helps, {mended} of them leave no error"
    );
    assert!(
        faults.is_empty(),
        "{} faults\n{}",
        faults.len(),
        faults.join("\n\n")
    );
}
