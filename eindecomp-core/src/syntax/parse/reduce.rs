//! Reductions, behind their names.

use super::{Parse, Parser};
use crate::syntax::ast::{BinaryOp, Expr, ExprKind, IndexDecl, Path, Reduce, ReduceBody};
use crate::syntax::diag::Fix;
use crate::syntax::token::{Delim, Tok};

impl Parser {
    /// An expression starts behind the brackets, so that they can only be meant as a reduction's.
    /// A name in front of the closing brace is the block's result behind a forgotten `;`, whatever
    /// comma stands between.
    pub(super) fn attempts_reduction(&self, after: usize) -> bool {
        let ends = |at: usize| self.peek_at(at) == Some(&Tok::Close(Delim::Brace));
        match self.peek_at(after) {
            Some(Tok::Literal(_)) => true,
            Some(Tok::Ident(word)) if **word == *"if" => true,
            Some(Tok::Ident(_)) => {
                let next = after + 1;
                let result = ends(next) || self.is_at(next, ",") && ends(next + 1);
                self.is_name_at(after) && !result && !self.is_at(next, "=")
            }
            _ => false,
        }
    }

    pub(super) fn reduction(
        &mut self,
        agg: Path,
        body: impl FnOnce(&mut Self) -> Parse<ReduceBody>,
    ) -> Parse<ExprKind> {
        self.open(Delim::Bracket)?;
        let mut indices = self.reduced_indices()?;
        let filter = if self.eat_where() {
            Some(self.filter()?)
        } else {
            None
        };
        let acc = match self.eat(";") {
            true => Some(self.ident("a dtype")?),
            false => self.acc_of(&mut indices),
        };
        if !self.is_close(Delim::Bracket) {
            let diag = self.unexpected_diag("`,`, `where`, `;` or `]`");
            let condition = self.comparison().zip(indices.last());
            return Err(Box::new(match condition {
                Some((_, decl)) if decl.extent.is_none() => self.bare_condition(diag, &indices),
                _ => diag,
            }));
        }
        self.at += 1;
        let body = self.nested(body)?;
        Ok(ExprKind::Reduce(Box::new(Reduce {
            agg,
            indices,
            filter,
            acc,
            body,
        })))
    }

    /// The indices of a reduction, up to what stands behind them.
    fn reduced_indices(&mut self) -> Parse<Vec<IndexDecl>> {
        let mut indices = Vec::new();
        loop {
            while !self.is_close(Delim::Bracket) && !self.is(";") && !self.is_word("where") {
                if self.is("..") {
                    let diag = self.unexpected_diag("an index to reduce");
                    let help = "a reduction names each axis, `sum[i, j]`: `..l` stands on the left and in reads";
                    return Err(Box::new(diag.help(help)));
                }
                if self.is("-") || matches!(self.peek(), Some(Tok::Literal(_))) {
                    let diag = self.unexpected_diag("an index to reduce");
                    let help = "an axis is reduced by the index that reads it: `sum[j] x[i, j]`";
                    return Err(Box::new(diag.help(help)));
                }
                let option = self.span();
                if self.keeping() {
                    let text = "a reduced axis is not kept: the result has the indices on the left";
                    let comma = self.buffer.span(self.at.saturating_sub(4));
                    let fix = Fix::replace(
                        comma.join(self.buffer.span(self.at - 1)),
                        "",
                        "leave it out",
                    );
                    self.slip(option, text, fix);
                } else {
                    indices.push(self.index_decl(true)?);
                }
                if !self.eat(",") {
                    break;
                }
            }
            // More of them, `sum[i][j] x[i, j]`.
            let after = self.at + 1;
            let more = self.is_close(Delim::Bracket)
                && self.peek_at(after) == Some(&Tok::Open(Delim::Bracket));
            if indices.is_empty() || !more {
                break;
            }
            let between = self.span().join(self.buffer.span(after));
            let shown = indices.iter().map(IndexDecl::to_string);
            let shown: Vec<String> = shown.chain([self.inside(after)]).collect();
            self.at += 2;
            self.joined_brackets(between, &format!("[{}]", shown.join(", ")));
        }
        if indices.is_empty() {
            return self.unexpected("an index to reduce");
        }
        Ok(indices)
    }

    /// The condition of a reduction; several are reported and read as one.
    fn filter(&mut self) -> Parse<Expr> {
        let mut cond = self.conditional()?;
        while self.is(",") {
            let fix = Fix::replace(self.span(), " &&", "write {}");
            self.slip(self.span(), "conditions are joined by `&&`", fix);
            self.at += 1;
            self.operator()?;
            let right = self.conditional()?;
            let span = cond.span.join(right.span);
            let kind = ExprKind::Binary(BinaryOp::And, Box::new(cond), Box::new(right));
            cond = Expr { kind, span };
        }
        Ok(cond)
    }
}
