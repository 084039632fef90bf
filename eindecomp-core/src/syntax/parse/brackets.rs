//! The bracket that is missing in a text, or is one too many: the change of one bracket behind which the text is read
//! without errors.

use std::collections::BTreeSet;

use super::parse;
use crate::syntax::diag::{Diag, Fix};
use crate::syntax::lex::lex;
use crate::syntax::token::{Delim, Span, Tok, TokenBuffer};

/// All that is read again for the sake of one error is at most so long, so that it costs little.
const MAX_BYTES: usize = 1 << 20;
/// All brackets that are looked at again for the sake of one error are at most so many.
const MAX_BRACKETS: usize = 1 << 22;

/// A bracket, and where it stands in the text.
type Bracket = (Tok, Span);

/// A bracket more, or less.
struct Change {
    /// Which of the brackets goes, or stands behind the new one.
    at: usize,
    added: Option<Tok>,
    fix: Fix,
}

impl Change {
    /// The bracket that is told to be wrong, if all brackets nest then: the one that goes, or the partner of the new one.
    fn wrong(&self, brackets: &[Bracket]) -> Option<Span> {
        let mut open: Vec<(Delim, Option<Span>)> = Vec::new();
        let mut wrong = match &self.added {
            Some(_) => None,
            None => Some(brackets.get(self.at)?.1),
        };
        let added = self.added.clone().map(|tok| (tok, None));
        let mut there = brackets
            .iter()
            .map(|(tok, span)| (tok.clone(), Some(*span)));
        let mut all: Vec<(Tok, Option<Span>)> = there.by_ref().take(self.at).collect();
        match added {
            Some(added) => all.push(added),
            None => drop(there.next()),
        }
        for (tok, span) in all.into_iter().chain(there) {
            match tok {
                Tok::Open(delim) => open.push((delim, span)),
                Tok::Close(delim) => {
                    let (_, partner) = open.pop().filter(|(d, _)| *d == delim)?;
                    if span.is_none() || partner.is_none() {
                        wrong = span.or(partner);
                    }
                }
                _ => {}
            }
        }
        open.is_empty().then_some(wrong)?
    }
}

/// What is said of the brackets of a text, `said` being what was found on the way: where one of them is missing or too
/// many, that alone. Spans are offsets into `source`.
pub(super) fn one_mistake(said: Vec<Diag>, source: &str, tokens: &TokenBuffer) -> Vec<Diag> {
    let brackets = tokens.brackets();
    let places: BTreeSet<Span> = brackets.iter().map(|(_, span)| *span).collect();
    let is_about = |diag: &Diag| places.contains(&diag.primary);
    let (mut about, mut out): (Vec<Diag>, Vec<Diag>) = said.into_iter().partition(is_about);
    if let Some((delim, missing)) = only_mistake(brackets) {
        about.truncate(1);
        about = about
            .into_iter()
            .map(|diag| told(diag, (delim, missing), source, tokens))
            .collect();
    }
    out.extend(about);
    out
}

/// The only kind of bracket that opens once more than it closes, or (`false`) once less.
fn only_mistake(brackets: &[Bracket]) -> Option<(Delim, bool)> {
    let more = |delim: Delim| {
        let count = |tok: Tok| brackets.iter().filter(|(other, _)| *other == tok).count();
        (count(Tok::Open(delim)), count(Tok::Close(delim)))
    };
    let kinds = [Delim::Paren, Delim::Bracket, Delim::Brace];
    let mut wrong = kinds
        .into_iter()
        .filter(|kind| more(*kind).0 != more(*kind).1);
    let (only, None) = (wrong.next()?, wrong.next()) else {
        return None;
    };
    let (opens, closes) = more(only);
    (opens.abs_diff(closes) == 1).then_some((only, opens > closes))
}

/// The error about one bracket that is missing or too many.
fn told(diag: Diag, (delim, missing): (Delim, bool), source: &str, tokens: &TokenBuffer) -> Diag {
    let brackets = tokens.brackets();
    let Some(right) = right(delim, missing, source, tokens) else {
        return diag;
    };
    let wrong: BTreeSet<Span> = right
        .iter()
        .filter_map(|change| change.wrong(brackets))
        .collect();
    let text = match missing {
        true => format!("this `{}` is never closed", delim.open()),
        false => format!("unexpected closing `{}`", delim.close()),
    };
    let diag = match wrong.first() {
        Some(only) if wrong.len() == 1 => Diag::new(diag.code, *only, text),
        _ => diag,
    };
    match (&right[..], missing) {
        ([only], _) => Diag {
            help: None,
            fixes: Vec::new(),
            ..diag
        }
        .fix(only.fix.clone()),
        _ if diag.help.is_some() || !diag.fixes.is_empty() => diag,
        (_, true) => diag.help(format!("add `{}` where it ends", delim.close())),
        (_, false) => diag.help(format!("add `{}` where it begins", delim.open())),
    }
}

/// The changes of one bracket behind which the text is read; `None` where there are too many to try. One that closes
/// is more often written for nothing than one that opens is forgotten.
fn right(delim: Delim, missing: bool, source: &str, tokens: &TokenBuffer) -> Option<Vec<Change>> {
    let brackets = tokens.brackets();
    let mut left = MAX_BYTES / source.len().max(1);
    for adds in [missing, !missing] {
        let (mut right, mut seen) = (Vec::new(), BTreeSet::new());
        let changes = match adds {
            true => additions(delim, missing, tokens),
            false => removals(delim, missing, brackets),
        };
        if changes.len().saturating_mul(brackets.len()) > MAX_BRACKETS {
            return None;
        }
        for change in changes
            .into_iter()
            .filter(|change| change.wrong(brackets).is_some())
        {
            let mended = change.fix.apply(source);
            left = left.checked_sub(1)?;
            if is_read(&mended) && seen.insert(mended) {
                right.push(change);
            }
        }
        if !right.is_empty() {
            return Some(right);
        }
    }
    Some(Vec::new())
}

/// The places at which a bracket may be missing that closes, or opens.
fn additions(delim: Delim, closes: bool, tokens: &TokenBuffer) -> Vec<Change> {
    let brackets = tokens.brackets();
    // What was closed for want of a bracket has no extent.
    let real = tokens
        .tokens()
        .iter()
        .filter(|token| token.span.start < token.span.end);
    let change = |span: Span| {
        let (place, tok) = match closes {
            true => (span.end, Tok::Close(delim)),
            false => (span.start, Tok::Open(delim)),
        };
        let fix = match (closes, delim) {
            (true, Delim::Brace) => Fix::after(span, " }", "close it: add {}"),
            (true, _) => Fix::after(span, delim.close(), "close it: add {}"),
            (false, _) => Fix::before(span, delim.open(), "add {} where it begins"),
        };
        Change {
            at: brackets.partition_point(|(_, bracket)| bracket.start < place),
            added: Some(tok),
            fix,
        }
    };
    real.map(|token| change(token.span)).collect()
}

/// The brackets that may be too many.
fn removals(delim: Delim, opens: bool, brackets: &[Bracket]) -> Vec<Change> {
    let tok = match opens {
        true => Tok::Open(delim),
        false => Tok::Close(delim),
    };
    // Of several side by side, the last.
    let kind = brackets
        .iter()
        .enumerate()
        .rev()
        .filter(|(_, (other, _))| *other == tok);
    kind.map(|(at, (_, span))| Change {
        at,
        added: None,
        fix: Fix::replace(*span, "", "leave it out"),
    })
    .collect()
}

/// Is the text a program, as far as its syntax goes?
fn is_read(source: &str) -> bool {
    let (tokens, unread) = lex(source);
    unread.is_empty() && parse(tokens).1.is_empty()
}
