//! Elements of a tensor on the left at positions that another one gives.

use super::{Parse, Parser};
use crate::syntax::ast::Ident;
use crate::syntax::token::{Delim, Tok};

/// Names of indices for the axis that is scattered to.
const NAMES: [&str; 5] = ["n", "m", "p", "q", "r"];

impl Parser {
    /// Fails at an index on the left that is an element of a tensor; `open` is the bracket of `name`.
    pub(super) fn no_scatter(&mut self, name: &Ident, open: usize) -> Parse<()> {
        if !(self.is_name_at(self.at) && self.opens_bracket(self.at + 1)) {
            return Ok(());
        }
        self.at += 1;
        let shown = self
            .gathered(name, open)
            .unwrap_or_else(|| "let y[n] = sum[e where to[e] == n] x[e]".into());
        let help = format!("there is no scatter: an element sums what goes there, `{shown}`");
        Err(Box::new(self.unexpected_diag("`,` or `]`").help(help)))
    }

    fn opens_bracket(&self, at: usize) -> bool {
        self.peek_at(at) == Some(&Tok::Open(Delim::Bracket))
    }

    /// The statement with a sum over what is scattered.
    fn gathered(&self, name: &Ident, open: usize) -> Option<String> {
        let close = self.buffer.partner(open);
        let value = close + 2 + usize::from(self.is_at(close + 1, "+"));
        let ends = |at: &usize| {
            self.is_at(*at, ";") || matches!(self.peek_at(*at), None | Some(Tok::Close(_)))
        };
        let mut end = value;
        let mut several = false;
        while !ends(&end) {
            several |= self.is_at(end, "+") || self.is_at(end, "-");
            end = self.buffer.after_tree(end);
        }
        let assigned = self.is_at(value - 1, "=");
        let used = |name: &&&str| (open..end).any(|at| self.is_word_at(at, name));
        let mut free = NAMES.iter().filter(|name| !used(name));
        let (mut left, mut summed, mut conditions) = (Vec::new(), Vec::new(), Vec::new());
        let mut at = open + 1;
        while at < close {
            let inner = at + 1;
            if self.is_name_at(at) && self.opens_bracket(inner) {
                let behind = self.buffer.partner(inner) + 1;
                let index = free.next()?;
                for at in inner + 1..behind - 1 {
                    let Some(Tok::Ident(name)) = self.peek_at(at) else {
                        self.is_at(at, ",").then_some(())?;
                        continue;
                    };
                    if !summed.contains(name) {
                        summed.push(name.clone());
                    }
                }
                conditions.push(format!("{} == {index}", self.written(at, behind)));
                left.push((*index).to_owned());
                at = behind;
            } else {
                self.is_name_at(at).then_some(())?;
                left.push(self.written(at, at + 1));
                at += 1;
            }
            let more = self.is_at(at, ",");
            (more || at == close).then_some(())?;
            at += usize::from(more);
        }
        let text = self.written(value, end);
        let text = if several { format!("({text})") } else { text };
        (assigned && end > value).then(|| {
            format!(
                "let {name}[{}] = sum[{} where {}] {text}",
                left.join(", "),
                summed.join(", "),
                conditions.join(" && ")
            )
        })
    }
}
