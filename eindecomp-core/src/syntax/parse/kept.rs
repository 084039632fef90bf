//! Axes of 1 that other languages keep where they reduce: `let m[i, 0] = max[j] x[i, j];`,
//! `m = x.max(dim=1, keepdim=True)`, and the reads of them, `m[i, 0]`.

use std::sync::Arc;

use super::axes::{axis, over_axis};
use super::compound::not_on;
use super::{Parse, Parser};
use crate::ein::Agg;
use crate::syntax::ast::{Expr, ExprKind, Ident, LeftIndex, Place, Sub};
use crate::syntax::diag::{Code, Diag, Fix};
use crate::syntax::token::{Delim, Span, Tok};

/// A tensor that was reported to keep axes.
pub(super) struct Kept {
    name: Arc<str>,
    /// The axes, of so many.
    axes: Vec<usize>,
    rank: usize,
    /// The place of the error.
    told: Span,
    /// The statement that defines it.
    stmt: Span,
}

/// Is it how other languages say that axes are kept?
fn keeps(word: &str) -> bool {
    matches!(word, "keepdim" | "keepdims")
}

impl Parser {
    /// The indices behind a name on the left, up to the closing bracket.
    pub(super) fn left_indices(&mut self, name: &Ident) -> Parse<Vec<LeftIndex>> {
        let open = self.at - 1;
        let (mut axes, mut told, mut rank) = (Vec::new(), None, 0);
        let indices = self.list(Delim::Bracket, |p| {
            rank += 1;
            let number =
                matches!(p.peek(), Some(Tok::Literal(text)) if matches!(&**text, "0" | "1"));
            let alone =
                p.is_at(p.at + 1, ",") || p.peek_at(p.at + 1) == Some(&Tok::Close(Delim::Bracket));
            if !(number && alone) {
                p.no_scatter(name, open)?;
                return p.left_index().map(Some);
            }
            axes.push(rank - 1);
            told.get_or_insert_with(|| (p.span(), p.unexpected_diag("an index")));
            p.at += 1;
            Ok(None)
        })?;
        let indices: Vec<LeftIndex> = indices.into_iter().flatten().collect();
        let Some((told, diag)) = told else {
            return Ok(indices);
        };
        let help =
            "leave an axis of 1 out, {}: a value without the index is the same for all of it";
        if indices.is_empty() {
            let name = format!("`let {name}[]`");
            return Err(Box::new(diag.help(help.replace("{}", &name))));
        }
        let shown: Vec<String> = indices.iter().map(LeftIndex::to_string).collect();
        let shown = shown.join(", ");
        let help = help.replace("{}", &format!("`let {name}[{shown}]`"));
        let inside = self.within(open);
        self.diags
            .push(diag.fix(Fix::replace(inside, shown, &help)));
        self.kept.push(Kept {
            name: name.name.clone(),
            axes,
            rank,
            told,
            stmt: self.stmt,
        });
        Ok(indices)
    }

    /// What stands in the brackets that open at token `open`.
    fn within(&self, open: usize) -> Span {
        let close = self.buffer.partner(open);
        self.buffer.span(open + 1).join(self.buffer.span(close - 1))
    }

    /// What is read of a tensor, whose indices stand in the brackets at token `open`, without the axes that
    /// it does not keep.
    pub(super) fn without_kept(
        &mut self,
        place: &Place,
        open: usize,
        mut subs: Vec<Sub>,
    ) -> Vec<Sub> {
        let of = |kept: &&Kept| {
            let named = place.as_ident().is_some_and(|name| name.name == kept.name);
            named && kept.rank == subs.len()
        };
        let Some(kept) = self.kept.iter().rev().find(of) else {
            return subs;
        };
        let mut at = 0;
        subs.retain(|_| {
            at += 1;
            !kept.axes.contains(&(at - 1))
        });
        let shown: Vec<String> = subs.iter().map(Sub::to_string).collect();
        let (inside, told) = (self.within(open), kept.told);
        let causes = self.diags.iter_mut().filter(|diag| diag.primary == told);
        for fix in causes.flat_map(|diag| &mut diag.fixes) {
            fix.edits.push((inside, shown.join(", ")));
        }
        subs
    }

    /// Another tensor has the name now.
    pub(super) fn not_kept(&mut self, name: &Ident) {
        let stmt = self.stmt;
        self.kept
            .retain(|kept| kept.name != name.name || kept.stmt == stmt);
    }

    /// Takes `, keepdim=True` here; what it does is told by the error at `told`.
    pub(super) fn keeping(&mut self) -> bool {
        let word = matches!(self.peek(), Some(Tok::Ident(word)) if keeps(word));
        let value = matches!(
            self.peek_at(self.at + 2),
            Some(Tok::Ident(_) | Tok::Literal(_))
        );
        let keeping = word && self.is_at(self.at + 1, "=") && value;
        self.at += if keeping { 3 } else { 0 };
        keeping
    }

    /// The arguments of what reduces axes of a whole tensor, and whether these are kept.
    pub(super) fn axis_arguments(&mut self) -> Parse<(Vec<Expr>, bool)> {
        let mut keeps = false;
        let args = self.list(Delim::Paren, |p| {
            if p.keeping() {
                keeps = true;
                return Ok(None);
            }
            p.argument().map(Some)
        })?;
        Ok((args.into_iter().flatten().collect(), keeps))
    }

    /// The axis of the tensor of this statement that the error at `told` says is not kept.
    pub(super) fn keeps_axis(&mut self, told: Span, args: &[Expr], rank: usize) {
        let Some(left) = &self.left else { return };
        let [e] = args else { return };
        let Some(at) = axis(e, rank) else { return };
        self.kept.push(Kept {
            name: left.name.as_str().into(),
            axes: vec![at],
            rank,
            told,
            stmt: self.stmt,
        });
    }

    /// Is an aggregation called here by a tensor and the name of an axis, `max(x, axis=1)`?
    pub(super) fn is_by_axis(&self, name: &Ident) -> bool {
        let close = self.buffer.partner(self.at);
        let named = |at: usize| match self.peek_at(at) {
            Some(Tok::Ident(word)) => {
                (matches!(&**word, "axis" | "dim") || keeps(word)) && self.is_at(at + 1, "=")
            }
            _ => false,
        };
        let mut at = self.at + 1;
        while at < close && !named(at) {
            at = self.buffer.after_tree(at);
        }
        at < close && Agg::from_name(name.as_str()).is_some()
    }

    /// `max(x, axis=1, keepdim=True)`, at its arguments.
    pub(super) fn by_axis(&mut self, name: &Ident) -> Parse<Box<Diag>> {
        let text = format!("`{name}` is an aggregation, so it names the indices it reduces");
        let diag = Diag::new(Code::UnknownFunction, name.span, text);
        self.at += 1;
        let (args, keeps) = self.axis_arguments()?;
        // Those of what it would keep.
        if self.is_open(Delim::Bracket) {
            self.at = self.buffer.after_tree(self.at);
        }
        let whole = self.since(name.span);
        let tensor = match args.first().map(|first| &first.kind) {
            Some(ExprKind::Name(place)) => self.tensor(place),
            _ => None,
        };
        // What else the statement reads has all of the axes.
        let element = tensor.as_ref().and_then(|(root, shape)| {
            let left = self.left.as_ref().and_then(|left| left.indices.as_deref());
            let given = Some(left.unwrap_or(shape));
            over_axis(
                Agg::from_name(name.as_str())?,
                (root, shape),
                args.get(1),
                given,
            )
        });
        let fix = tensor.and_then(|(root, shape)| {
            let fix = self.method_fix((&root, &shape), name.as_str(), &args[1..], whole);
            if keeps {
                self.keeps_axis(name.span, &args[1..], shape.len());
            }
            fix
        });
        let elements = self
            .left
            .as_ref()
            .zip(args.first())
            .and_then(|(left, arg)| {
                let over = not_on(left.indices.as_deref()?, arg).join(", ");
                let text = format!("({name}[{over}] {arg})");
                let read = matches!(arg.kind, ExprKind::Access { .. }) && !over.is_empty();
                read.then(|| Fix::replace(whole, text, "write {}"))
            });
        Ok(Box::new(match fix.or(elements) {
            Some(fix) => diag.fix(fix),
            None => diag.help(match element {
                Some((text, _)) => format!("an element of it is `{text}`"),
                None => format!("write `{name}[i] x[i]`"),
            }),
        }))
    }
}
