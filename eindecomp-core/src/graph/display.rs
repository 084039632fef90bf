//! The dump of an EinGraph, which [`parse`](super::EinGraph::parse) reads back:
//!
//! ```text
//! eingraph {
//!   slot $0 = 0.125
//!   clause S <= 512 from "model.rs:3"
//!   %0 "x" = input f32[B, S]
//!   %1 "w" = weight f32[S, 8]
//!   %2 "h" = sum[s=S; f32] %0[b, s] * %1[s, e] * $0:f32 -> f32[b=B, e=8] pin split("b", 2)
//!   output "y" = %2
//! }
//! ```
//!
//! * A reduction is `agg[labels; accumulator where filter]`; `(h=4, e=8)` is a merged axis.
//! * An access with a value outside is `(%0[i + 1, j] else -inf)`; a gather is `%1[%0[b, s], d]`.
//! * Literals are `0.5:f32`, integers without a type are i64; `{D / H}` is the value of an
//!   extent; `if(c, a, b)` is lazy.
//! * A record aggregation is defined before its use, and used as `&0[labels; result] (arguments)`:
//!   `agg &0 "norm" (f32) { "s": f32 = 0.0 lift @0 * @0 merge @0 + @1 } finish f32 sqrt(@0)`. There
//!   `@n` is argument n, component n of the first record or of the second after it, component n.
//! * A reduction inside an argument is in parentheses: `(sum[e=E; f32] %0[e])`.
//! * Operands are numbered as they are read, filter first. Where one is read twice or never, or in
//!   another order, they are listed: `@0 * @0 of %0[i, j] -> …`.
//! * An opaque kernel is `extern("topk", 1, [n=8], [b]) of %0[b, n] -> i64[b=B, k=2]`: its name, which
//!   result, the indices that only operands have, those that may be split.
//! * A new version of a state ends in `store %0 @1 [all, @2 for S, ring @2 + 1 for S]`: the state, the
//!   operand that is the version before, and per axis what is written, by operands of rank 0.
//! * Names that are no identifiers are quoted; a label that its name does not single out is `#n`.

use std::cell::Cell;
use std::fmt::{self, Display, Formatter, Write};
use std::sync::Arc;

use super::verify::is_identifier;
use super::{EinGraph, NodeId, Op, Pin, Role, Window};
use crate::ein::{
    Aggregation, DType, Dim, EinSum, Expr, Label, LabelId, Opaque, Operand, RecordAgg, Reduce,
    ScalarFn, Value,
};

impl Role {
    /// Its keyword in dumps.
    pub fn keyword(self) -> &'static str {
        match self {
            Role::Data => "input",
            Role::Weight => "weight",
            Role::State => "state",
        }
    }
}

/// Words that a label's name may not be where it stands in an expression.
pub(super) const RESERVED: [&str; 9] = [
    "inf", "nan", "true", "false", "as", "of", "else", "where", "extern",
];

impl Display for EinGraph {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let mut text = String::new();
        dump(self, &mut text, true)?;
        f.write_str(&text)
    }
}

/// The dump; without `names`, labels are numbers, and names, literals' values, clauses and pins
/// are left out.
pub(super) fn dump(graph: &EinGraph, f: &mut String, names: bool) -> fmt::Result {
    writeln!(f, "eingraph {{")?;
    let name = |name: &str| {
        if names {
            format!(" {name:?}")
        } else {
            String::new()
        }
    };
    if names {
        for (at, value) in graph.slots().iter().enumerate() {
            writeln!(f, "  slot ${at} = {value}")?;
        }
        for c in graph.clauses() {
            let (left, cmp, right) = (&c.left, c.cmp.symbol(), &c.right);
            writeln!(f, "  clause {left} {cmp} {right} from {:?}", &*c.origin)?;
        }
    }
    let records = records(graph);
    for (at, record) in records.iter().enumerate() {
        write!(f, "  agg &{at}{} ", name(&record.name))?;
        let text = Writer {
            labels: &[],
            operands: &[],
            records: &records,
            names,
            inline: None,
        };
        text.define(f, record)?;
        writeln!(f)?;
    }
    for (id, node) in graph.ids() {
        f.write_str("  ")?;
        tensor(f, id);
        if names {
            write!(f, " {:?}", node.name)?;
        }
        f.write_str(" = ")?;
        match &node.op {
            Op::Input(role) => {
                f.write_str(role.keyword())?;
                f.write_str(" ")?;
                f.write_str(node.dtype.name())?;
                list(f, "[", &node.shape, "]", dim)?;
            }
            Op::EinSum(e) => {
                let text = Writer {
                    labels: &e.labels,
                    operands: &e.operands,
                    records: &records,
                    names,
                    inline: Some(Cell::new(0)),
                };
                text.statement(f, e)?;
                if let Some(store) = &node.store {
                    write!(f, " store {} @{} ", store.state, store.old)?;
                    let text = Writer {
                        inline: None,
                        ..text
                    };
                    list(f, "[", &store.windows, "]", |f, w| text.window(f, w))?;
                }
            }
        }
        if names {
            for pin in &node.pins {
                match pin {
                    Pin::Whole => write!(f, " pin whole")?,
                    Pin::Split(label, parts) => write!(f, " pin split({:?}, {parts})", &**label)?,
                    Pin::Owner { parts, devices } => {
                        write!(f, " pin owner({parts:?}")?;
                        if let Some(devices) = devices {
                            write!(f, ", {devices:?}")?;
                        }
                        f.write_str(")")?;
                    }
                }
            }
        }
        f.write_str("\n")?;
    }
    for output in graph.outputs() {
        writeln!(f, "  output{} = {}", name(&output.name), output.node)?;
    }
    writeln!(f, "}}")
}

/// The decimal digits of a number: most of what a dump is made of, and faster than by `write!`.
fn number(f: &mut String, n: u64) {
    f.push_str(itoa::Buffer::new().format(n));
}

/// `%3`
fn tensor(f: &mut String, id: NodeId) {
    f.push('%');
    number(f, id.0.into());
}

/// `#3`
fn numbered(f: &mut String, l: LabelId) {
    f.push('#');
    number(f, l.0.into());
}

/// An extent.
fn dim(f: &mut String, d: &Dim) -> fmt::Result {
    match d.as_const().map(u64::try_from) {
        Some(Ok(n)) => number(f, n),
        _ => write!(f, "{d}")?,
    }
    Ok(())
}

fn list<T>(
    f: &mut String,
    open: &str,
    items: &[T],
    close: &str,
    mut item: impl FnMut(&mut String, &T) -> fmt::Result,
) -> fmt::Result {
    f.write_str(open)?;
    for (at, x) in items.iter().enumerate() {
        f.write_str(if at > 0 { ", " } else { "" })?;
        item(f, x)?;
    }
    f.write_str(close)
}

/// Binding strength of an expression, loosest first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Level {
    Or,
    And,
    Compare,
    Sum,
    Product,
    Cast,
    Unary,
    Atom,
}

fn level(f: ScalarFn) -> Level {
    match f {
        ScalarFn::OR => Level::Or,
        ScalarFn::AND => Level::And,
        ScalarFn::ADD | ScalarFn::SUB => Level::Sum,
        ScalarFn::MUL | ScalarFn::DIV | ScalarFn::REM => Level::Product,
        ScalarFn::NEG | ScalarFn::NOT => Level::Unary,
        f if f.row().symbol.is_some() => Level::Compare,
        _ => Level::Atom,
    }
}

fn tighter(level: Level) -> Level {
    match level {
        Level::Or => Level::And,
        Level::And => Level::Compare,
        Level::Compare => Level::Sum,
        Level::Sum => Level::Product,
        Level::Product => Level::Cast,
        Level::Cast => Level::Unary,
        Level::Unary | Level::Atom => Level::Atom,
    }
}

/// The record aggregations of a graph, in the order of their first use.
fn records(graph: &EinGraph) -> Vec<&Arc<RecordAgg>> {
    let mut found: Vec<&Arc<RecordAgg>> = Vec::new();
    for e in graph.nodes().iter().filter_map(|n| n.einsum()) {
        let filter = e.reduce.as_ref().and_then(|r| r.filter.as_ref());
        e.reduce.iter().for_each(|r| note(r, &mut found));
        filter.into_iter().for_each(|e| inner(e, &mut found));
        inner(&e.body, &mut found);
    }
    found
}

fn note<'a>(reduce: &'a Reduce, found: &mut Vec<&'a Arc<RecordAgg>>) {
    if let Aggregation::Record(record) = &reduce.agg
        && !found.contains(&record)
    {
        found.push(record);
    }
}

fn inner<'a>(e: &'a Expr, found: &mut Vec<&'a Arc<RecordAgg>>) {
    e.visit(&mut |e| {
        if let Expr::Fold(f) = e {
            note(&f.reduce, found);
        }
    });
}

/// What an expression is written with.
struct Writer<'a> {
    labels: &'a [Label],
    operands: &'a [Operand],
    records: &'a [&'a Arc<RecordAgg>],
    names: bool,
    /// Where operands stand where they are read: the number of the next one, past all of them if another was
    /// read there.
    inline: Option<Cell<usize>>,
}

impl Writer<'_> {
    fn statement(&self, f: &mut String, e: &EinSum) -> fmt::Result {
        let start = f.len();
        self.computed(f, e)?;
        if self.inline.as_ref().map(Cell::get) != Some(e.operands.len()) {
            f.truncate(start);
            let apart = Writer {
                inline: None,
                ..*self
            };
            apart.computed(f, e)?;
            list(f, " of ", &e.operands, "", |f, o| apart.operand(f, o))?;
        }
        f.write_str(" -> ")?;
        f.write_str(e.dtype.name())?;
        list(f, "[", &e.out, "]", |f, axis| match axis.as_slice() {
            [l] => self.declare(f, *l),
            merged => list(f, "(", merged, ")", |f, l| self.declare(f, *l)),
        })
    }

    fn computed(&self, f: &mut String, e: &EinSum) -> fmt::Result {
        match (&e.reduce, e.opaque()) {
            (Some(r), _) => self.reduction(f, r, &e.body),
            (None, Some(opaque)) => self.opaque(f, opaque, e.out.iter().flatten().count()),
            (None, None) => self.expr(f, &e.body, Level::Or),
        }
    }

    /// `outputs` are the labels of the result.
    fn opaque(&self, f: &mut String, o: &Opaque, outputs: usize) -> fmt::Result {
        write!(f, "extern({:?}, {}, ", &*o.kernel, o.result)?;
        let rest = outputs..self.labels.len();
        let rest: Vec<LabelId> = rest.map(|at| LabelId(at as u16)).collect();
        list(f, "[", &rest, "]", |f, l| self.declare(f, *l))?;
        list(f, ", [", &o.splits, "])", |f, l| self.label(f, *l))
    }

    fn window(&self, f: &mut String, window: &Window) -> fmt::Result {
        let Some((start, length)) = window.parts() else {
            return f.write_str("all");
        };
        if let Window::Ring { .. } = window {
            f.write_str("ring ")?;
        }
        self.expr(f, start, Level::Or)?;
        write!(f, " for {length}")
    }

    fn reduction(&self, f: &mut String, r: &Reduce, body: &Expr) -> fmt::Result {
        match &r.agg {
            Aggregation::Row(agg) => f.write_str(agg.name())?,
            Aggregation::Record(record) => {
                let at = self.records.iter().position(|known| *known == record);
                write!(f, "&{}", at.unwrap_or_default())?;
            }
        }
        list(f, "[", &r.labels, "", |f, l| self.declare(f, *l))?;
        f.write_str("; ")?;
        f.write_str(r.acc.name())?;
        if let Some(filter) = &r.filter {
            f.write_str(" where ")?;
            self.expr(f, filter, Level::Or)?;
        }
        f.write_str("] ")?;
        match body {
            Expr::Tuple(args) => list(f, "(", args, ")", |f, x| self.expr(f, x, Level::Or)),
            body => self.expr(f, body, Level::Or),
        }
    }

    /// The definition of a record aggregation.
    fn define(&self, f: &mut String, record: &RecordAgg) -> fmt::Result {
        list(f, "(", &record.args, ") { ", |f, d| write!(f, "{d}"))?;
        for component in &record.state {
            if self.names {
                write!(f, "{:?}: ", &*component.name)?;
            }
            write!(f, "{} = {} lift ", component.dtype, component.identity)?;
            self.expr(f, &component.lift, Level::Or)?;
            f.write_str(" merge ")?;
            self.expr(f, &component.merge, Level::Or)?;
            f.write_str("; ")?;
        }
        write!(f, "}} finish {} ", record.dtype)?;
        self.expr(f, &record.finish, Level::Or)
    }

    fn declare(&self, f: &mut String, l: LabelId) -> fmt::Result {
        let label = &self.labels[l.at()];
        match &*label.name {
            _ if !self.names => numbered(f, l),
            name if is_identifier(name) => f.write_str(name)?,
            name => write!(f, "{name:?}")?,
        }
        f.write_str("=")?;
        dim(f, &label.extent)
    }

    fn label(&self, f: &mut String, l: LabelId) -> fmt::Result {
        let name = &self.labels[l.at()].name;
        let unique = || self.labels.iter().filter(|o| o.name == *name).count() == 1;
        if self.names && unique() && is_identifier(name) && !RESERVED.contains(&&**name) {
            f.write_str(name)?;
        } else {
            numbered(f, l);
        }
        Ok(())
    }

    fn operand(&self, f: &mut String, o: &Operand) -> fmt::Result {
        f.write_str(if o.otherwise.is_some() { "(" } else { "" })?;
        tensor(f, o.node);
        list(f, "[", &o.index, "]", |f, x| self.expr(f, x, Level::Or))?;
        match o.otherwise {
            Some(v) => write!(f, " else {v})"),
            None => Ok(()),
        }
    }

    /// Writes `x`, in parentheses if it binds looser than `least`.
    fn expr(&self, f: &mut String, x: &Expr, least: Level) -> fmt::Result {
        let own = match x {
            Expr::Call(s, _) => level(*s),
            Expr::Cast(..) => Level::Cast,
            _ => Level::Atom,
        };
        if own < least {
            f.write_str("(")?;
            self.expr(f, x, Level::Or)?;
            return f.write_str(")");
        }
        let args = |f: &mut String, name: &str, args: &[&Expr]| {
            f.write_str(name)?;
            list(f, "(", args, ")", |f, x| self.expr(f, x, Level::Or))
        };
        match x {
            Expr::Operand(n) => match &self.inline {
                Some(next) => {
                    if *n >= next.get() {
                        self.operand(f, &self.operands[*n])?;
                    }
                    next.set(if *n == next.get() { n + 1 } else { usize::MAX });
                    Ok(())
                }
                None => {
                    f.push('@');
                    number(f, *n as u64);
                    Ok(())
                }
            },
            Expr::Const(v, d) => match (v, d) {
                (Value::Int(_), DType::I64) => write!(f, "{v}"),
                _ => write!(f, "{v}:{}", d.name()),
            },
            Expr::Slot(s, d) => {
                f.push('$');
                number(f, u64::from(*s));
                f.push(':');
                f.write_str(d.name())
            }
            Expr::Index(l) => self.label(f, *l),
            Expr::Dim(d) => write!(f, "{{{d}}}"),
            Expr::Cast(d, x) => {
                self.expr(f, x, Level::Cast)?;
                write!(f, " as {d}")
            }
            Expr::If(c, a, b) => args(f, "if", &[c, a, b]),
            Expr::Tuple(items) => args(f, "", &items.iter().collect::<Vec<_>>()),
            Expr::Fold(fold) => {
                f.write_str("(")?;
                self.reduction(f, &fold.reduce, &fold.body)?;
                f.write_str(")")
            }
            // A whole body, which `statement` writes.
            Expr::Opaque(o) => self.opaque(f, o, self.labels.len()),
            Expr::Call(s, operands) => match (s.row().symbol, operands.as_slice()) {
                (Some(symbol), [x]) => {
                    f.write_str(symbol)?;
                    match x {
                        // `-1` is a literal; the negation of 1 is `-(1)`.
                        Expr::Const(..) => args(f, "", &[x]),
                        _ => self.expr(f, x, Level::Unary),
                    }
                }
                (Some(symbol), [x, y]) => {
                    let left = if own == Level::Compare {
                        tighter(own)
                    } else {
                        own
                    };
                    self.expr(f, x, left)?;
                    f.write_str(" ")?;
                    f.write_str(symbol)?;
                    f.write_str(" ")?;
                    self.expr(f, y, tighter(own))
                }
                (_, operands) => args(f, s.name(), &operands.iter().collect::<Vec<_>>()),
            },
        }
    }
}
