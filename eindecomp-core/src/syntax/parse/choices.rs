//! `if on { h[n] = x[n]; }`: statements in an `if`, which here chooses a value.

use super::{Parse, Parser};
use crate::syntax::ast::{Ident, StmtKind};
use crate::syntax::diag::{Code, Diag, Fix};
use crate::syntax::token::{Delim, Span, Tok};

/// The only statement in a branch.
struct Branch {
    /// Its left side, with its `let`: the tokens from the first to the second, an `=`.
    left: (usize, usize),
    /// Does it end with a `;`?
    ends: bool,
    close: usize,
}

impl Parser {
    /// Does an `if` with statements in it stand here?
    pub(super) fn is_choice(&self) -> bool {
        let open = self.is_word("if").then(|| self.brace(self.at)).flatten();
        open.is_some_and(|open| self.assigned(open + 1).is_some())
    }

    /// The opening brace behind a condition.
    fn brace(&self, mut at: usize) -> Option<usize> {
        while self.peek_at(at)? != &Tok::Open(Delim::Brace) {
            if matches!(self.peek_at(at)?, Tok::Close(_) | Tok::Punct(";")) {
                return None;
            }
            at = self.buffer.after_tree(at);
        }
        Some(at)
    }

    /// The `=` of the statement that starts at `start`, if one does.
    fn assigned(&self, start: usize) -> Option<usize> {
        let defines = self.is_word_at(start, "let");
        let mut at = start + usize::from(defines);
        if !self.is_name_at(at) {
            return None;
        }
        at += 1;
        if self.peek_at(at) == Some(&Tok::Open(Delim::Bracket)) {
            at = self.buffer.after_tree(at);
        }
        self.is_at(at, "=").then_some(at)
    }

    /// The branch in the braces at `open`, if it is one statement.
    fn only_statement(&self, open: usize) -> Option<Branch> {
        let close = self.buffer.partner(open);
        let equals = self.assigned(open + 1)?;
        let ends = self.is_at(close - 1, ";");
        let mut at = equals;
        while at < close - usize::from(ends) {
            if self.is_at(at, ";") {
                return None;
            }
            at = self.buffer.after_tree(at);
        }
        Some(Branch {
            left: (open + 1, equals),
            ends,
            close,
        })
    }

    /// Reads over an `if` with statements in it, and reports what it is written as.
    pub(super) fn choice(&mut self) -> Parse<StmtKind> {
        let start = self.at;
        let text = "an `if` chooses a value: there are no statements in it";
        let diag = Diag::new(Code::Syntax, self.span(), text);
        let (mut opens, mut chained, mut last) = (Vec::new(), false, start);
        let mut at = start;
        while let Some(open) = self.brace(at) {
            opens.push(open);
            last = self.buffer.partner(open);
            if !self.is_word_at(last + 1, "else") {
                break;
            }
            chained |= self.is_word_at(last + 2, "if");
            at = last + 2;
        }
        let names = opens.iter().filter_map(|open| {
            let at = open + 1 + usize::from(self.is_word_at(open + 1, "let"));
            match self.peek_at(at)? {
                Tok::Ident(name) if self.is_name_at(at) => Some(Ident {
                    name: name.clone(),
                    span: self.buffer.span(at),
                }),
                _ => None,
            }
        });
        let names: Vec<Ident> = names.collect();
        let branches: Option<Vec<Branch>> = opens
            .iter()
            .map(|open| self.only_statement(*open))
            .collect();
        let fix = branches
            .filter(|_| !chained)
            .and_then(|branches| self.as_value(start, &branches));
        self.diags.push(match fix {
            Some(fix) => diag.fix(fix),
            None => diag.help(
                "write a statement for each of what it sets: `h[n] = if … { … } else { h[n] };`",
            ),
        });
        self.at = last + 1;
        Ok(StmtKind::Error(names))
    }

    /// One statement whose value the branches give; where there is no `else`, what is stored into keeps its elements.
    fn as_value(&self, start: usize, branches: &[Branch]) -> Option<Fix> {
        let (first, last) = (branches.first()?, branches.last()?);
        let left = |branch: &Branch| self.written(branch.left.0, branch.left.1);
        let target = left(first);
        if branches.iter().any(|branch| left(branch) != target) {
            return None;
        }
        let otherwise = match branches.len() {
            1 if self.is_word_at(first.left.0, "let") => return None,
            1 => format!(" else {{ {target} }};"),
            _ => ";".to_owned(),
        };
        let help = match branches.len() {
            1 => format!("write `{target} = if … {{ … }} else {{ {target} }};`"),
            _ => format!("write `{target} = if … {{ … }} else {{ … }};`"),
        };
        let mut fix = Fix::before(self.buffer.span(start), format!("{target} = "), &help);
        for branch in branches {
            let (from, to) = branch.left;
            fix = fix.and(self.buffer.span(from).join(self.buffer.span(to)), "");
            if branch.ends {
                fix = fix.and(self.buffer.span(branch.close - 1), "");
            }
        }
        let end = self.buffer.span(last.close).end;
        Some(fix.and(Span::new(end, end), otherwise))
    }
}
