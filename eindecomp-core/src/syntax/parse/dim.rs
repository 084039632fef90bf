//! Extents.

use super::{Parse, Parser};
use crate::syntax::ast::{Dim, DimKind, DimOp};
use crate::syntax::token::{Delim, Tok};

impl Parser {
    pub(super) fn dim(&mut self) -> Parse<Dim> {
        let start = self.span();
        let mut left = self.dim_product()?;
        loop {
            let op = match self.peek() {
                Some(Tok::Punct("+")) => DimOp::Add,
                Some(Tok::Punct("-")) => DimOp::Sub,
                _ => return Ok(left),
            };
            self.at += 1;
            self.operator()?;
            let right = self.dim_product()?;
            let kind = DimKind::Binary(op, Box::new(left), Box::new(right));
            left = Dim {
                kind,
                span: self.since(start),
            };
        }
    }

    fn dim_product(&mut self) -> Parse<Dim> {
        let start = self.span();
        let mut left = self.dim_atom()?;
        loop {
            let op = match self.peek() {
                Some(Tok::Punct("*")) => DimOp::Mul,
                Some(Tok::Punct("/")) => DimOp::Div,
                Some(Tok::Punct("%")) => DimOp::Rem,
                _ => return Ok(left),
            };
            self.at += 1;
            self.operator()?;
            let right = self.dim_atom()?;
            let kind = DimKind::Binary(op, Box::new(left), Box::new(right));
            left = Dim {
                kind,
                span: self.since(start),
            };
        }
    }

    fn dim_atom(&mut self) -> Parse<Dim> {
        let start = self.span();
        let kind = match self.peek() {
            Some(Tok::Punct("-")) => {
                self.at += 1;
                DimKind::Neg(Box::new(self.nested(Self::dim_atom)?))
            }
            Some(Tok::Punct("..")) => {
                self.at += 1;
                self.third_dot();
                DimKind::Rest(self.ident("a dim after `..`")?)
            }
            Some(Tok::Open(Delim::Paren)) => {
                self.at += 1;
                let inner = self.nested(Self::dim)?;
                if self.is(",") {
                    return self.merged_extent(start, inner);
                }
                self.close(Delim::Paren)?;
                DimKind::Paren(Box::new(inner))
            }
            Some(Tok::Literal(_)) => DimKind::Int(self.integer("an extent")?),
            _ => DimKind::Name(self.path("an extent")?),
        };
        Ok(Dim {
            kind,
            span: self.since(start),
        })
    }
}
