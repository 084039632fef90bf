//! The bracket that is missing in a text, or is one too many: the only change of one bracket
//! behind which the text is read without errors.

use super::parse;
use crate::syntax::diag::{Diag, Fix};
use crate::syntax::lex::lex;
use crate::syntax::token::{Delim, Tok, Token, TokenBuffer};

/// All that is read again for the sake of one error is at most so long, so that it costs little.
const MAX_BYTES: usize = 1 << 20;

/// Adds to an error about a bracket what to do, in a text that has no other such error. Spans are
/// offsets into `source`.
pub(super) fn with_fix(diag: Diag, source: &str, tokens: &TokenBuffer) -> Diag {
    let at = tokens.tokens().iter().position(|t| t.span == diag.primary);
    let open = at.and_then(|at| match tokens.get(at)?.tok {
        Tok::Open(delim) => Some((at, delim)),
        _ => None,
    });
    let places = match open {
        Some((at, delim)) => closings(at, delim, tokens),
        None => vec![Fix::replace(diag.primary, "", "leave it out")],
    };
    if source.len().saturating_mul(places.len()) > MAX_BYTES {
        return diag;
    }
    let mut right = places.into_iter().filter(|fix| is_read(&fix.apply(source)));
    match (right.next(), right.next(), open) {
        (Some(only), None, _) => diag.fix(only),
        _ if diag.help.is_some() => diag,
        (_, _, Some((_, delim))) => diag.help(format!("add `{}` where it ends", delim.close())),
        _ => diag,
    }
}

/// The places at which the bracket at `at` may be meant to be closed.
fn closings(at: usize, delim: Delim, tokens: &TokenBuffer) -> Vec<Fix> {
    // What was closed for want of a bracket has no extent.
    let real = |token: &&Token| token.span.start < token.span.end;
    let inside = tokens.tokens()[at + 1..].iter().filter(real);
    let close = match delim {
        Delim::Brace => " }",
        _ => delim.close(),
    };
    inside
        .map(|token| Fix::after(token.span, close, "close it: add {}"))
        .collect()
}

/// Is the text a program, as far as its syntax goes?
fn is_read(source: &str) -> bool {
    let (tokens, unread) = lex(source);
    unread.is_empty() && parse(tokens).1.is_empty()
}
