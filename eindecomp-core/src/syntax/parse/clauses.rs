//! `where` clauses.

use super::{Parse, Parser};
use crate::syntax::ast::{BinaryOp, Clause, ClauseKind, CmpOp};
use crate::syntax::diag::Fix;
use crate::syntax::token::{Delim, Tok};

impl Parser {
    /// `where …`, if any.
    pub(super) fn clauses(&mut self) -> Parse<Vec<Clause>> {
        let mut clauses = Vec::new();
        if self.eat_clauses() {
            loop {
                clauses.push(self.clause()?);
                if self.is("&&") || self.is("&") || self.is_word("and") {
                    let fix = Fix::replace(self.span(), ",", "clauses are separated by {}");
                    self.slip(self.span(), "each clause must hold", fix);
                    self.at += 1;
                    continue;
                }
                if !self.eat(",") || self.is_open(Delim::Brace) {
                    break;
                }
            }
        }
        Ok(clauses)
    }

    fn clause(&mut self) -> Parse<Clause> {
        let start = self.span();
        let kind = if self.is_word("dim") && self.is_name_at(self.at + 1) {
            self.at += 1;
            let name = self.ident("a dim")?;
            self.expect("=")?;
            ClauseKind::Define(name, self.dim()?)
        } else {
            let left = self.dim()?;
            let op = self.clause_op()?;
            ClauseKind::Compare(left, op, self.dim()?)
        };
        Ok(Clause {
            kind,
            span: self.since(start),
        })
    }

    /// Takes the `where` in front of clauses; another language's word is reported.
    fn eat_clauses(&mut self) -> bool {
        let foreign = ["requires", "require", "given", "with", "if"];
        if foreign.iter().any(|word| self.is_word(word)) {
            let fix = Fix::replace(self.span(), "where", "write {}");
            self.slip(self.span(), "what must hold stands behind `where`", fix);
            self.at += 1;
            return true;
        }
        self.eat_word("where")
    }

    fn clause_op(&mut self) -> Parse<CmpOp> {
        let foreign = match self.foreign_operator() {
            Some((BinaryOp::Cmp(op), tokens)) => Some((op, tokens)),
            _ => self.is("=").then_some((CmpOp::Eq, 1)),
        };
        if let Some((op, tokens)) = foreign.filter(|(op, _)| *op != CmpOp::Ne) {
            let start = self.span();
            self.at += tokens;
            self.respelt(self.since(start), BinaryOp::Cmp(op))?;
            return Ok(op);
        }
        let Some(op) = self.comparison().filter(|op| *op != CmpOp::Ne) else {
            let diag = self.unexpected_diag("`==`, `<=`, `>=`, `<` or `>`");
            return Err(Box::new(match self.is("!=") {
                true => {
                    diag.help("a clause says what a size is: that it is another one cannot be used")
                }
                false => diag,
            }));
        };
        self.at += 1;
        Ok(op)
    }

    /// The comparison that stands here, not taken.
    pub(super) fn comparison(&self) -> Option<CmpOp> {
        let Some(Tok::Punct(punct)) = self.peek() else {
            return None;
        };
        Some(match *punct {
            "==" => CmpOp::Eq,
            "!=" => CmpOp::Ne,
            "<" => CmpOp::Lt,
            "<=" => CmpOp::Le,
            ">" => CmpOp::Gt,
            ">=" => CmpOp::Ge,
            _ => return None,
        })
    }
}
