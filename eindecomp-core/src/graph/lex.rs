//! Tokens of the dump.

use super::parse::{ParseError, ParseErrorKind};

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Token {
    /// Letters, digits and `_`, possibly joined by `::`.
    Word(String),
    /// Digits, with a fraction or an exponent if it is a float.
    Number(String),
    Text(String),
    /// `%0`, `@0`, `$0`, `#0`, `&0`.
    Ref(char, u32),
    Punct(&'static str),
    End,
}

/// Longest first.
const PUNCTS: [&str; 25] = [
    "->", "==", "!=", "<=", ">=", "&&", "||", "{", "}", "[", "]", "(", ")", "=", ",", ";", ":",
    "+", "-", "*", "/", "%", "<", ">", "!",
];

/// Line and column of a character, from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    pub line: usize,
    pub column: usize,
}

pub(super) fn tokens(text: &str) -> Result<Vec<(Token, Place)>, ParseError> {
    let mut out = Vec::new();
    let mut lines = 0;
    for (at, line) in text.lines().enumerate() {
        lines = at + 1;
        let (mut rest, mut column) = (line, 1);
        loop {
            let blank = rest.len() - rest.trim_start().len();
            column += rest[..blank].chars().count();
            rest = &rest[blank..];
            let place = Place {
                line: lines,
                column,
            };
            let Some((token, bytes)) = token(rest).map_err(|kind| ParseError::new(place, kind))?
            else {
                break;
            };
            out.push((token, place));
            column += rest[..bytes].chars().count();
            rest = &rest[bytes..];
        }
    }
    let end = Place {
        line: lines + 1,
        column: 1,
    };
    out.push((Token::End, end));
    Ok(out)
}

/// The first token of `s`, which starts with no white space, and its length in bytes.
fn token(s: &str) -> Result<Option<(Token, usize)>, ParseErrorKind> {
    let Some(first) = s.chars().next() else {
        return Ok(None);
    };
    let run = |s: &str, of: fn(char) -> bool| s.find(|c| !of(c)).unwrap_or(s.len());
    let word = |c: char| c.is_alphanumeric() || c == '_';
    if first.is_alphabetic() || first == '_' {
        let mut end = run(s, word);
        while let Some(rest) = s[end..].strip_prefix("::") {
            end += 2 + run(rest, word);
        }
        return Ok(Some((Token::Word(s[..end].into()), end)));
    }
    let digits = |s: &str| run(s, |c| c.is_ascii_digit());
    if first.is_ascii_digit() {
        let mut end = digits(s);
        if let Some(rest) = s[end..].strip_prefix('.') {
            end += 1 + digits(rest);
        }
        if let Some(rest) = s[end..].strip_prefix('e') {
            let sign = usize::from(rest.starts_with(['-', '+']));
            end += 1 + sign + digits(&rest[sign..]);
        }
        return Ok(Some((Token::Number(s[..end].into()), end)));
    }
    if "%@$#&".contains(first) {
        let number = &s[1..1 + digits(&s[1..])];
        if !number.is_empty() {
            let n = number.parse().map_err(|_| ParseErrorKind::Number)?;
            return Ok(Some((Token::Ref(first, n), 1 + number.len())));
        }
    }
    if first == '"' {
        return quoted(s).map(Some);
    }
    match PUNCTS.iter().find(|p| s.starts_with(**p)) {
        Some(p) => Ok(Some((Token::Punct(p), p.len()))),
        None => Err(ParseErrorKind::BadChar(first)),
    }
}

/// A string as Rust's `{:?}` writes it.
fn quoted(s: &str) -> Result<(Token, usize), ParseErrorKind> {
    let mut text = String::new();
    let mut chars = s.char_indices().skip(1);
    while let Some((at, c)) = chars.next() {
        match c {
            '"' => return Ok((Token::Text(text), at + 1)),
            '\\' => match chars.next().map(|(_, c)| c) {
                Some('n') => text.push('\n'),
                Some('r') => text.push('\r'),
                Some('t') => text.push('\t'),
                Some('0') => text.push('\0'),
                Some(c @ ('\\' | '"' | '\'')) => text.push(c),
                Some('u') => {
                    let hex: String = chars
                        .by_ref()
                        .map(|(_, c)| c)
                        .skip_while(|&c| c == '{')
                        .take_while(|&c| c != '}')
                        .collect();
                    let code = u32::from_str_radix(&hex, 16).ok();
                    text.push(
                        code.and_then(char::from_u32)
                            .ok_or(ParseErrorKind::Escape)?,
                    );
                }
                _ => return Err(ParseErrorKind::Escape),
            },
            c => text.push(c),
        }
    }
    Err(ParseErrorKind::Unterminated)
}
