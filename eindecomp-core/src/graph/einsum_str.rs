//! Einsum strings: `graph.einsum_str("bhld,bhmd->bhlm", &[q, k])`.
//!
//! * The output is written out; white space is ignored, except inside an ellipsis; a label is one
//!   letter of any alphabet.
//! * A label repeated in one operand reads its diagonal; a label that is not in the output is
//!   summed.
//! * `...` stands for any number of axes, aligned at the right. Those that are missing or of
//!   extent 1 in an operand stretch, as in NumPy; written labels never do. An ellipsis that stands
//!   for at least one axis must be in the output: sums are over written labels only.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use super::{GraphBuilder, GraphError, NodeId};
use crate::ein::{
    Agg, DType, Dim, EinSum, EinSumSpec, Expr, Label, LabelId, Operand, Reduce, ScalarFn,
};

/// Why an einsum string was refused, and where.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[error("einsum `{text}`, bytes {}..{}: {kind}", range.start, range.end)]
pub struct EinsumStrError {
    /// The string.
    pub text: Arc<str>,
    /// Bytes of the string that the error is about.
    pub range: Range<usize>,
    /// What is wrong.
    #[source]
    pub kind: EinsumStrErrorKind,
}

crate::debug_is_text!(EinsumStrError);

/// What is wrong with an einsum string.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum EinsumStrErrorKind {
    /// A character that is no letter.
    #[error("`{0}` cannot be a label; labels are single letters")]
    BadChar(char),
    /// No arrow, half of one, or a comma after it.
    #[error("exactly one `->` with one output after it is needed")]
    ArrowSyntax,
    /// More than one arrow.
    #[error("more than one `->`")]
    MultipleArrows,
    /// Dots that are not three in a row, or two ellipses in one operand.
    #[error("an ellipsis is `...`, at most once per operand")]
    EllipsisSyntax,
    /// Operands written and given differ in number.
    #[error("{written} operands are written, but {given} tensors are given")]
    OperandCount {
        /// Operands of the string.
        written: usize,
        /// Tensors given.
        given: usize,
    },
    /// An operand has not as many labels as its tensor has axes.
    #[error("{labels} labels are written, but the tensor has {rank} axes")]
    RankMismatch {
        /// Labels written.
        labels: usize,
        /// Axes of the tensor.
        rank: usize,
    },
    /// One label or one ellipsis axis with two extents.
    #[error("`{label}` is {extent} here, but {before} before")]
    ExtentMismatch {
        /// The label, or `...`.
        label: Arc<str>,
        /// Its extent here.
        extent: Dim,
        /// Its extent where it was first read.
        before: Dim,
    },
    /// A label of the output that no operand has.
    #[error("label `{0}` of the output is in no operand")]
    OutputLabelMissing(char),
    /// A label twice in the output.
    #[error("label `{0}` is twice in the output")]
    DuplicateOutputLabel(char),
    /// Axes of an ellipsis that the output leaves out.
    #[error("`...` stands for {0} axes, so it must be in the output: sums are over written labels")]
    EllipsisMissingInOutput(usize),
    /// The tensors have no common element type, or are not in the graph.
    #[error(transparent)]
    Graph(Box<GraphError>),
}

impl EinsumStrErrorKind {
    /// A stable name of the kind.
    pub fn code(&self) -> &'static str {
        match self {
            EinsumStrErrorKind::BadChar(_) => "bad_char",
            EinsumStrErrorKind::ArrowSyntax => "arrow_syntax",
            EinsumStrErrorKind::MultipleArrows => "multiple_arrows",
            EinsumStrErrorKind::EllipsisSyntax => "ellipsis_syntax",
            EinsumStrErrorKind::OperandCount { .. } => "operand_count",
            EinsumStrErrorKind::RankMismatch { .. } => "rank_mismatch",
            EinsumStrErrorKind::ExtentMismatch { .. } => "extent_mismatch",
            EinsumStrErrorKind::OutputLabelMissing(_) => "output_label_missing",
            EinsumStrErrorKind::DuplicateOutputLabel(_) => "duplicate_output_label",
            EinsumStrErrorKind::EllipsisMissingInOutput(_) => "ellipsis_missing_in_output",
            EinsumStrErrorKind::Graph(_) => "graph",
        }
    }
}

impl GraphBuilder {
    /// Adds the sum of products that `text` says, with an explicit output:
    /// `"ij,jk->ik"`, `"...ij,...jk->...ik"`. The node is called `text`.
    ///
    /// # Errors
    /// What is wrong with the string or does not fit the operands, with its place in the string.
    pub fn einsum_str(
        &mut self,
        text: &str,
        operands: &[NodeId],
    ) -> Result<NodeId, EinsumStrError> {
        let fail = |(kind, range): Fault| EinsumStrError {
            text: text.into(),
            range,
            kind,
        };
        let whole = |e: GraphError| fail((EinsumStrErrorKind::Graph(Box::new(e)), 0..text.len()));
        let (inputs, output) = scan(text).map_err(fail)?;
        if inputs.len() != operands.len() {
            let kind = EinsumStrErrorKind::OperandCount {
                written: inputs.len(),
                given: operands.len(),
            };
            return Err(fail((kind, 0..text.len())));
        }
        let mut shapes = Vec::new();
        for &node in operands {
            let tensor = self.node(node).ok_or_else(|| {
                whole(GraphError::NoNode {
                    statement: text.into(),
                    node,
                })
            })?;
            shapes.push((tensor.shape.clone(), tensor.dtype));
        }
        let dtype = shapes[1..]
            .iter()
            .try_fold(shapes[0].1, |a, b| a.common(b.1))
            .ok_or_else(|| {
                whole(GraphError::DType {
                    statement: text.into(),
                    what: "product",
                })
            })?;
        let hidden = |(term, (shape, _)): (&Term, &(Vec<Dim>, DType))| match term.ellipsis {
            Some(_) => shape.len().saturating_sub(term.labels.len()),
            None => 0,
        };
        let hidden = inputs.iter().zip(&shapes).map(hidden).max().unwrap_or(0);
        if hidden > 0 && output.ellipsis.is_none() {
            let kind = EinsumStrErrorKind::EllipsisMissingInOutput(hidden);
            return Err(fail((kind, output.range)));
        }
        let mut axes = Axes::default();
        for (term, (shape, _)) in inputs.iter().zip(&shapes) {
            axes.read(term, shape).map_err(fail)?;
        }
        let order = axes.order(&inputs, &output).map_err(fail)?;
        let label =
            |key: &Key| LabelId(order.all.iter().position(|k| k == key).unwrap_or(0) as u16);
        let operand =
            |((term, (shape, _)), &node): ((&Term, &(Vec<Dim>, DType)), &NodeId)| Operand {
                node,
                index: axes
                    .keys(term, shape.len())
                    .zip(shape)
                    .map(|(key, extent)| match &key {
                        Key::Ellipsis(_) if *extent != axes.extent(&key) => Expr::int(0),
                        _ => Expr::Index(label(&key)),
                    })
                    .collect(),
                otherwise: None,
            };
        let (out, reduced) = order.all.split_at(order.outputs);
        let spec = EinSumSpec {
            labels: order
                .all
                .iter()
                .map(|key| Label {
                    name: key.to_string().into(),
                    extent: axes.extent(key),
                })
                .collect(),
            out: out.iter().map(|key| vec![label(key)]).collect(),
            reduce: (!reduced.is_empty()).then(|| Reduce {
                agg: Agg::SUM.into(),
                labels: reduced.iter().map(label).collect(),
                acc: dtype.default_accumulator(),
                filter: None,
            }),
            operands: inputs
                .iter()
                .zip(&shapes)
                .zip(operands)
                .map(operand)
                .collect(),
            body: (1..operands.len()).fold(Expr::Operand(0), |product, n| {
                Expr::call(ScalarFn::MUL, [product, Expr::Operand(n)])
            }),
            dtype,
        };
        let einsum = EinSum::new(spec).expect("every label is in the output or reduced, in order");
        self.einsum(text, einsum, Vec::new()).map_err(whole)
    }
}

type Fault = (EinsumStrErrorKind, Range<usize>);

/// One operand, or the output: labels with their places, and where the ellipsis is among them.
#[derive(Default)]
struct Term {
    labels: Vec<(char, Range<usize>)>,
    ellipsis: Option<(usize, Range<usize>)>,
    range: Range<usize>,
}

/// A label, or an axis of the ellipsis counted from its right end.
#[derive(Clone, PartialEq, Eq)]
enum Key {
    Label(char),
    Ellipsis(usize),
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Key::Label(c) => write!(f, "{c}"),
            Key::Ellipsis(n) => write!(f, "_{n}"),
        }
    }
}

fn scan(text: &str) -> Result<(Vec<Term>, Term), Fault> {
    let arrows: Vec<usize> = text.match_indices("->").map(|(at, _)| at).collect();
    if let Some(&second) = arrows.get(1) {
        return Err((EinsumStrErrorKind::MultipleArrows, second..second + 2));
    }
    let mut terms = vec![Term::default()];
    let mut arrow = false;
    let mut chars = text.char_indices().peekable();
    while let Some((at, c)) = chars.next() {
        let range = at..at + c.len_utf8();
        let term = terms.last_mut().expect("never empty");
        match c {
            _ if c.is_whitespace() => {}
            '-' if chars.next_if(|&(_, c)| c == '>').is_some() => {
                term.range.end = at;
                arrow = true;
                terms.push(Term {
                    range: at + 2..at + 2,
                    ..Term::default()
                });
            }
            '-' | '>' => return Err((EinsumStrErrorKind::ArrowSyntax, range)),
            ',' if arrow => return Err((EinsumStrErrorKind::ArrowSyntax, range)),
            ',' => {
                term.range.end = at;
                terms.push(Term {
                    range: at + 1..at + 1,
                    ..Term::default()
                });
            }
            '.' => {
                let dots = (0..2).all(|_| chars.next_if(|&(_, c)| c == '.').is_some());
                if !dots || term.ellipsis.is_some() {
                    return Err((EinsumStrErrorKind::EllipsisSyntax, range));
                }
                term.ellipsis = Some((term.labels.len(), at..at + 3));
            }
            _ if c.is_alphabetic() => term.labels.push((c, range)),
            _ => return Err((EinsumStrErrorKind::BadChar(c), range)),
        }
    }
    if !arrow {
        return Err((EinsumStrErrorKind::ArrowSyntax, text.len()..text.len()));
    }
    let mut output = terms.pop().expect("never empty");
    output.range.end = text.len();
    Ok((terms, output))
}

/// Labels in canonical order: those of the output, then the summed ones as first seen.
struct Order {
    all: Vec<Key>,
    outputs: usize,
}

/// Extents, as found in the operands.
#[derive(Default)]
struct Axes {
    labels: Vec<(char, Dim)>,
    /// From the right end.
    ellipsis: Vec<Dim>,
}

impl Axes {
    /// The axes of an operand of `rank` axes that has at least as many as labels.
    fn keys<'a>(&self, term: &'a Term, rank: usize) -> impl Iterator<Item = Key> + use<'a> {
        let at = term.ellipsis.as_ref().map_or(term.labels.len(), |e| e.0);
        let hidden = rank - term.labels.len();
        let (before, after) = term.labels.split_at(at);
        let key = |l: &(char, _)| Key::Label(l.0);
        let middle = (0..hidden).rev().map(Key::Ellipsis);
        before
            .iter()
            .map(key)
            .chain(middle)
            .chain(after.iter().map(key))
    }

    fn extent(&self, key: &Key) -> Dim {
        let found = match key {
            Key::Label(c) => self.labels.iter().find(|l| l.0 == *c).map(|l| &l.1),
            Key::Ellipsis(n) => self.ellipsis.get(*n),
        };
        found.cloned().unwrap_or_default()
    }

    fn read(&mut self, term: &Term, shape: &[Dim]) -> Result<(), Fault> {
        let (labels, rank) = (term.labels.len(), shape.len());
        if labels > rank || (term.ellipsis.is_none() && labels < rank) {
            let kind = EinsumStrErrorKind::RankMismatch { labels, rank };
            return Err((kind, term.range.clone()));
        }
        let keys: Vec<Key> = self.keys(term, rank).collect();
        for (axis, (key, extent)) in keys.iter().zip(shape).enumerate() {
            let clash = |before: &Dim| {
                let (label, range) = match (key, &term.ellipsis) {
                    (Key::Ellipsis(_), Some((_, range))) => ("...".into(), range.clone()),
                    (key, _) => {
                        let hidden = keys[..axis].iter();
                        let hidden = hidden.filter(|k| matches!(k, Key::Ellipsis(_))).count();
                        let range = term.labels[axis - hidden].1.clone();
                        (key.to_string().into(), range)
                    }
                };
                let kind = EinsumStrErrorKind::ExtentMismatch {
                    label,
                    extent: extent.clone(),
                    before: before.clone(),
                };
                Err((kind, range))
            };
            match key {
                Key::Label(c) => match self.labels.iter().find(|l| l.0 == *c) {
                    Some((_, before)) if before != extent => return clash(before),
                    Some(_) => {}
                    None => self.labels.push((*c, extent.clone())),
                },
                Key::Ellipsis(n) => {
                    let one = Dim::from(1);
                    if self.ellipsis.len() <= *n {
                        self.ellipsis.resize(*n + 1, one.clone());
                    }
                    let before = &mut self.ellipsis[*n];
                    if *before == one {
                        *before = extent.clone();
                    } else if *extent != one && extent != before {
                        return clash(before);
                    }
                }
            }
        }
        Ok(())
    }

    fn order(&self, inputs: &[Term], output: &Term) -> Result<Order, Fault> {
        for (at, (c, range)) in output.labels.iter().enumerate() {
            if output.labels[..at].iter().any(|l| l.0 == *c) {
                return Err((EinsumStrErrorKind::DuplicateOutputLabel(*c), range.clone()));
            }
            if self.labels.iter().all(|l| l.0 != *c) {
                return Err((EinsumStrErrorKind::OutputLabelMissing(*c), range.clone()));
            }
        }
        let hidden = self.ellipsis.len();
        let mut all: Vec<Key> = self.keys(output, output.labels.len() + hidden).collect();
        let outputs = all.len();
        for (c, _) in inputs.iter().flat_map(|t| &t.labels) {
            let key = Key::Label(*c);
            if !all.contains(&key) {
                all.push(key);
            }
        }
        Ok(Order { all, outputs })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::Role;

    fn build(text: &str, shapes: &[&[i64]]) -> Result<EinSum, (&'static str, Range<usize>)> {
        let mut g = GraphBuilder::new();
        let input = |(n, shape): (usize, &&[i64])| {
            let shape = shape.iter().map(|&b| Dim::from(b)).collect();
            g.input(format!("x{n}"), Role::Data, DType::F32, shape)
                .unwrap()
        };
        let ids: Vec<NodeId> = shapes.iter().enumerate().map(input).collect();
        let id = g
            .einsum_str(text, &ids)
            .map_err(|e| (e.kind.code(), e.range))?;
        Ok(g.node(id).unwrap().einsum().unwrap().clone())
    }

    #[test]
    fn labels_are_output_then_summed_as_first_seen() {
        let e = build("c b a , a d -> b d", &[&[2, 3, 4], &[4, 5]]).unwrap();
        let names: Vec<&str> = e.labels.iter().map(|l| &*l.name).collect();
        assert_eq!(names, ["b", "d", "c", "a"]);
        assert_eq!(e.shape(), [Dim::from(3), Dim::from(5)]);
    }

    #[test]
    fn ellipsis_axes_stretch_and_written_labels_do_not() {
        let e = build("...i,...i->...", &[&[2, 1, 3], &[4, 3]]).unwrap();
        assert_eq!(e.shape(), [Dim::from(2), Dim::from(4)]);
        assert_eq!(e.operands[0].index[1], Expr::int(0));
        let error = build("ij,ij->j", &[&[1, 5], &[5, 5]]).unwrap_err();
        assert_eq!(error, ("extent_mismatch", 3..4));
    }

    #[test]
    fn errors_say_where() {
        for (text, shapes, code, range) in [
            ("i1->i", &[&[2, 3][..]][..], "bad_char", 1..2),
            ("ij", &[&[2, 3]], "arrow_syntax", 2..2),
            ("ij-ij", &[&[2, 3]], "arrow_syntax", 2..3),
            ("i->i->i", &[&[2]], "multiple_arrows", 4..6),
            ("..i->i", &[&[2]], "ellipsis_syntax", 0..1),
            ("i,->i", &[&[2]], "operand_count", 0..5),
            ("ij,k->i", &[&[2], &[2]], "rank_mismatch", 0..2),
            ("i->j", &[&[2]], "output_label_missing", 3..4),
            ("i->ii", &[&[2]], "duplicate_output_label", 4..5),
            ("...i->i", &[&[2, 2]], "ellipsis_missing_in_output", 6..7),
            (
                "...i,...->i",
                &[&[2, 2], &[3]],
                "ellipsis_missing_in_output",
                10..11,
            ),
        ] {
            assert_eq!(build(text, shapes).unwrap_err(), (code, range), "{text}");
        }
    }
}
