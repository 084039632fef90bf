//! An error as text, with the lines of the source that it is about.

use std::fmt;

use super::Diag;
use crate::syntax::token::Span;

/// An error with the lines it is about.
#[derive(Debug)]
pub struct Rendered<'a> {
    diag: &'a Diag,
    source: &'a str,
}

impl<'a> Rendered<'a> {
    pub(super) fn new(diag: &'a Diag, source: &'a str) -> Self {
        Rendered { diag, source }
    }
}

impl fmt::Display for Rendered<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let diag = self.diag;
        writeln!(f, "error[{}]: {}", diag.code, diag.message)?;
        snippet(f, self.source, diag.primary, '^', "")?;
        if let Some((span, message)) = &diag.secondary {
            snippet(f, self.source, *span, '-', message)?;
        }
        for help in diag.helps() {
            writeln!(f, "  help: {}", help.replace('\n', "\n        "))?;
        }
        writeln!(f, "  docs: {}", diag.code.page())
    }
}

/// Of a line, so many characters are shown from where the span starts.
const AFTER: usize = 120;
/// And so many before it, where it starts further right than `AFTER`.
const BEFORE: usize = 40;

/// The first line of `span` in `source`, underlined; of a long one, the part around the span.
fn snippet(
    f: &mut fmt::Formatter<'_>,
    source: &str,
    span: Span,
    mark: char,
    note: &str,
) -> fmt::Result {
    let floor = |at: u32| {
        let mut at = (at as usize).min(source.len());
        while !source.is_char_boundary(at) {
            at -= 1;
        }
        at
    };
    let (start, end) = (floor(span.start), floor(span.end));
    let line_start = source[..start].rfind('\n').map_or(0, |at| at + 1);
    let line_end = source[start..]
        .find('\n')
        .map_or(source.len(), |at| start + at);
    let line = source[..line_start].matches('\n').count() + 1;
    let column = source[line_start..start].chars().count() + 1;
    let width = source[start..end.clamp(start, line_end)]
        .chars()
        .take(AFTER);
    let width = width.count().max(1);
    let mut before = source[line_start..start].char_indices().rev();
    let from = match column > AFTER {
        true => before
            .nth(BEFORE - 1)
            .map_or(line_start, |(at, _)| line_start + at),
        false => line_start,
    };
    let mut after = source[start..line_end].char_indices();
    let to = after.nth(AFTER).map_or(line_end, |(at, _)| start + at);
    let dots = |cut: bool| if cut { "…" } else { "" };
    let (left, right) = (dots(from > line_start), dots(to < line_end));
    let number = line.to_string();
    let margin = " ".repeat(number.len());
    writeln!(f, "{margin}--> {line}:{column}")?;
    writeln!(
        f,
        "{number} | {}",
        format!("{left}{}{right}", &source[from..to]).replace('\t', " ")
    )?;
    let marks: String = std::iter::repeat_n(mark, width).collect();
    let indent = left.chars().count() + source[from..start].chars().count();
    let text = format!("{}{marks} {note}", " ".repeat(indent));
    writeln!(f, "{margin} | {}", text.trim_end())
}
