//! An atom in brackets, such as `[13CH3-]` or `[C@@H:7]`.

use super::element::Element;
use super::smiles::SmilesError;
use super::tokenizer::Token;

/// What a bracket says about its atom that matters here.
pub struct BracketAtom {
    /// Its element.
    pub element: Element,
    /// Written in lower case.
    pub aromatic: bool,
    /// Hydrogens that are not atoms of their own.
    pub hydrogens: u32,
}

/// Reads `[` isotope? symbol chirality? hydrogens? charge? class? `]`.
///
/// # Errors
/// [`SmilesError::UnknownElement`], [`SmilesError::MalformedBracket`].
pub fn read(token: Token) -> Result<BracketAtom, SmilesError> {
    let inside = &token.text[1..token.text.len() - 1];
    let rest = skip_digits(inside);
    let (element, aromatic, length) =
        Element::prefix(rest).ok_or_else(|| SmilesError::UnknownElement {
            at: token.at,
            token: token.text.to_owned(),
        })?;
    let rest = skip_chirality(&rest[length..]);
    let (hydrogens, rest) = match rest.strip_prefix('H') {
        Some(rest) => match rest.as_bytes().first() {
            Some(digit @ b'0'..=b'9') => (u32::from(digit - b'0'), &rest[1..]),
            _ => (1, rest),
        },
        None => (0, rest),
    };
    let rest = skip_charge(rest);
    let rest = match rest
        .strip_prefix(':')
        .map(|class| (class, skip_digits(class)))
    {
        Some((class, after)) if after.len() < class.len() => after,
        _ => rest,
    };
    if rest.is_empty() {
        return Ok(BracketAtom {
            element,
            aromatic,
            hydrogens,
        });
    }
    let at = token.at + token.text.len() - 1 - rest.len();
    Err(SmilesError::MalformedBracket {
        at,
        rest: rest.to_owned(),
    })
}

fn skip_digits(text: &str) -> &str {
    text.trim_start_matches(|c: char| c.is_ascii_digit())
}

/// `@`, `@@`, or `@` with a class and a number, such as `@TH1` or `@OH12`.
fn skip_chirality(text: &str) -> &str {
    let Some(rest) = text.strip_prefix('@') else {
        return text;
    };
    if let Some(rest) = rest.strip_prefix('@') {
        return rest;
    }
    let class = ["TH", "AL", "SP", "TB", "OH"]
        .iter()
        .find_map(|c| rest.strip_prefix(c));
    match class.map(|numbered| (numbered, skip_digits(numbered))) {
        Some((numbered, after)) if after.len() < numbered.len() => after,
        _ => rest,
    }
}

/// `+`, `-`, repeated, or followed by a number.
fn skip_charge(text: &str) -> &str {
    let sign = |c: char| c == '+' || c == '-';
    let Some(first) = text.chars().next().filter(|&c| sign(c)) else {
        return text;
    };
    let repeated = text.trim_start_matches(first);
    if repeated.len() + 1 == text.len() {
        skip_digits(repeated)
    } else {
        repeated
    }
}
