//! Assignments with an operator, `+=`: a sum that names its indices, or a store.

use super::whole::Left;
use super::{Parse, Parser};
use crate::syntax::ast::{BinaryOp, Expr, ExprKind, Ident, Pattern, Place, Sub};
use crate::syntax::check::free;
use crate::syntax::diag::{Code, Diag, Fix};
use crate::syntax::names::are_distinct;
use crate::syntax::token::{Span, Tok};

impl Parser {
    /// The operator of a `+=` that stands at `index`.
    pub(super) fn compound(&self, index: usize) -> Option<BinaryOp> {
        let op = match self.peek_at(index) {
            Some(Tok::Punct("+")) => BinaryOp::Add,
            Some(Tok::Punct("-")) => BinaryOp::Sub,
            Some(Tok::Punct("*")) => BinaryOp::Mul,
            Some(Tok::Punct("/")) => BinaryOp::Div,
            _ => return None,
        };
        self.is_at(index + 1, "=").then_some(op)
    }

    /// `let y[i] += …`: a sum that names its indices, or a value like every other.
    pub(super) fn let_compound(&mut self, pattern: &Pattern, op: BinaryOp) -> Parse<Expr> {
        let place = self.span().join(self.buffer.span(self.at + 1));
        self.at += 2;
        let value = self.expr()?;
        let text = "a `let` gives each element its value once";
        let diag = Diag::new(Code::Syntax, place, text);
        let left = Left::of(pattern).indices.unwrap_or_default();
        let over = not_on(&left, &value);
        let fix = Fix::replace(place, "=", "write {}");
        if over.is_empty() || op != BinaryOp::Add {
            return Err(Box::new(match over.is_empty() {
                true => diag.fix(fix),
                false => diag.help("write `=`"),
            }));
        }
        let head = format!("sum[{}] ", over.join(", "));
        let product = matches!(
            value.kind,
            ExprKind::Binary(BinaryOp::Mul | BinaryOp::Div, ..)
                | ExprKind::Access { .. }
                | ExprKind::Call { .. }
                | ExprKind::Paren(_)
        );
        let shown = match product {
            true => format!("{head}{value}"),
            false => format!("{head}({value})"),
        };
        let sum = match product {
            true => Fix::before(value.span, head, ""),
            false => Fix::wrap(value.span, &format!("{head}("), ")", "", ""),
        };
        let edits = fix.edits.into_iter().chain(sum.edits).collect();
        let help = format!("a sum names its indices: `let {pattern} = {shown}`");
        Err(Box::new(diag.fix(Fix { help, edits })))
    }

    /// `k[i] += x[i]`, read as `k[i] = k[i] + x[i]`; the operator is not taken.
    pub(super) fn store_compound(
        &mut self,
        target: &Place,
        subs: &[Expr],
        op: BinaryOp,
    ) -> Parse<Expr> {
        let place = self.span().join(self.buffer.span(self.at + 1));
        self.at += 2;
        let value = self.expr()?;
        let shown: Vec<String> = subs.iter().map(Expr::to_string).collect();
        let old = format!("{target}[{}] {}", shown.join(", "), op.symbol());
        let atom = !matches!(value.kind, ExprKind::Binary(..) | ExprKind::If { .. });
        let shown = match atom {
            true => format!("= {old} {value}"),
            false => format!("= {old} ({value})"),
        };
        let mut fix = Fix::replace(place, format!("= {old}"), &format!("write `{shown}`"));
        if !atom {
            let (start, end) = (value.span.start, value.span.end);
            fix = fix
                .and(Span::new(start, start), "(")
                .and(Span::new(end, end), ")");
        }
        // What is no state is told with the loop around it, of which it may be the sum.
        let element = |name: &Ident| self.over.contains(&name.name);
        let known = |name: &Ident| self.states.contains(&name.name) || element(name);
        let refused = target.as_ident().is_some_and(|name| !known(name));
        let told = self.loops > 0 && refused;
        if !told
            && target
                .as_ident()
                .is_some_and(|name| self.lets.contains(&name.name))
        {
            let text = format!("`{target}` is no state, so nothing can be stored into it");
            let help = format!(
                "make a new tensor of that name: `let {} {shown}`",
                &old[..old.len() - 2]
            );
            let fix =
                Fix { help, ..fix }.and(Span::new(target.span.start, target.span.start), "let ");
            return Err(Box::new(
                Diag::new(Code::StoreTarget, target.span, text).fix(fix),
            ));
        }
        if !told {
            self.slip(place, "a store gives its elements a value", fix);
        }
        let span = value.span;
        let access = ExprKind::Access {
            place: target.clone(),
            subs: subs.iter().cloned().map(Sub::Expr).collect(),
            default: None,
        };
        let access = Expr {
            kind: access,
            span: target.span,
        };
        Ok(Expr {
            kind: ExprKind::Binary(op, Box::new(access), Box::new(value)),
            span,
        })
    }

    /// `y += …`, which is no statement.
    pub(super) fn carry_compound(&self, name: &Ident) -> Diag {
        let text = "an assignment without `let` calls a block";
        let place = self.span().join(self.buffer.span(self.at + 1));
        let diag = Diag::new(Code::Syntax, place, text);
        let state = self.elements_of_state(name);
        diag.help(match (self.loops, state) {
            (0, Some(state)) => {
                format!("a state is stored into by its elements: `{state} = {state} + …;`")
            }
            (0, None) => format!("`let {name}2[…] = {name}[…] + …;` defines a new tensor"),
            _ => carried(name),
        })
    }

    /// `mu[n, m]` for a state `mu: f32[N, M]`.
    fn elements_of_state(&self, name: &Ident) -> Option<String> {
        let shape = self
            .shapes
            .get(&name.name)
            .filter(|shape| are_distinct(shape))?;
        self.states
            .contains(&name.name)
            .then(|| format!("{name}[{}]", shape.join(", ")))
    }

    /// `mu = 0.9 * mu + m` as a store into the state `mu`, where it is one, by the elements of what is
    /// computed with whole tensors of as many axes.
    pub(super) fn whole_store(&self, name: &Ident, value: &Expr) -> Option<Fix> {
        let state = self.elements_of_state(name)?;
        let shape = self.shapes.get(&name.name)?;
        let mut whole = Vec::new();
        whole_names(value, &mut whole)?;
        let whole = whole
            .into_iter()
            .filter_map(|read| Some((read, self.shapes.get(&read.name)?)));
        let whole: Vec<(&Ident, &Vec<String>)> = whole.collect();
        if whole.iter().any(|(_, other)| other.len() != shape.len()) {
            return None;
        }
        let indices = format!("[{}]", shape.join(", "));
        let mut read: Vec<String> = Vec::new();
        for (name, _) in &whole {
            let shown = format!("`{name}{indices}`");
            if !read.contains(&shown) {
                read.push(shown);
            }
        }
        let help = format!("a state is stored into by its elements: `{state} = …;`");
        let help = match read.is_empty() {
            true => help,
            false => format!("{help} with {}", read.join(" and ")),
        };
        let fix = Fix::after(name.span, &*indices, &help);
        Some(whole.iter().fold(fix, |fix, (read, _)| {
            fix.and(Span::new(read.span.end, read.span.end), &*indices)
        }))
    }
}

/// What to do where a round of a loop changes a tensor.
fn carried(name: impl std::fmt::Display) -> String {
    format!(
        "a loop carries the result of a block: make what a round does a `fn`, and call it, \
         `{name} = step({name});`"
    )
}

/// The names in an expression that reads no element and reduces nothing.
fn whole_names<'e>(e: &'e Expr, out: &mut Vec<&'e Ident>) -> Option<()> {
    match &e.kind {
        ExprKind::Access { .. } | ExprKind::Reduce(_) => return None,
        ExprKind::Name(place) => out.extend(place.as_ident()),
        _ => {}
    }
    e.children()
        .into_iter()
        .try_for_each(|e| whole_names(e, out))
}

/// The free names of a value that are no indices of the left side.
pub(super) fn not_on<'e>(left: &[String], value: &'e Expr) -> Vec<&'e str> {
    let names = free(value).into_iter();
    names
        .filter(|name| left.iter().all(|l| l != name))
        .collect()
}
