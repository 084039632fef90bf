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
//! * Operands are numbered as they are read, filter first. Where one is read twice or never, or in
//!   another order, they are listed: `@0 * @0 of %0[i, j] -> …`.
//! * Names that are no identifiers are quoted; a label that its name does not single out is `#n`.

use std::fmt::{self, Display, Formatter, Write};

use super::verify::is_identifier;
use super::{EinGraph, Op, Pin, Role};
use crate::ein::{DType, EinSum, Expr, LabelId, Operand, ScalarFn, Value};

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
pub(super) const RESERVED: [&str; 8] = ["inf", "nan", "true", "false", "as", "of", "else", "where"];

impl Display for EinGraph {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        dump(self, f, true)
    }
}

/// The dump; without `names`, labels are numbers, and names, literals' values, clauses and pins
/// are left out.
pub(super) fn dump(graph: &EinGraph, f: &mut dyn Write, names: bool) -> fmt::Result {
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
    for (id, node) in graph.ids() {
        write!(f, "  {id}{} = ", name(&node.name))?;
        match &node.op {
            Op::Input(role) => {
                write!(f, "{} {}", role.keyword(), node.dtype)?;
                list(f, "[", &node.shape, "]", |f, d| write!(f, "{d}"))?;
            }
            Op::EinSum(e) => Statement { e, names }.write(f)?,
        }
        if names {
            for pin in &node.pins {
                match pin {
                    Pin::Whole => write!(f, " pin whole")?,
                    Pin::Split(label, parts) => write!(f, " pin split({:?}, {parts})", &**label)?,
                }
            }
        }
        writeln!(f)?;
    }
    for output in graph.outputs() {
        writeln!(f, "  output{} = {}", name(&output.name), output.node)?;
    }
    writeln!(f, "}}")
}

fn list<T>(
    f: &mut dyn Write,
    open: &str,
    items: &[T],
    close: &str,
    mut item: impl FnMut(&mut dyn Write, &T) -> fmt::Result,
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

struct Statement<'a> {
    e: &'a EinSum,
    names: bool,
}

impl Statement<'_> {
    fn write(&self, f: &mut dyn Write) -> fmt::Result {
        let inline = self.reads_in_order();
        if let Some(r) = &self.e.reduce {
            list(f, &format!("{}[", r.agg), &r.labels, "", |f, l| {
                self.declare(f, *l)
            })?;
            write!(f, "; {}", r.acc)?;
            if let Some(filter) = &r.filter {
                f.write_str(" where ")?;
                self.expr(f, filter, Level::Or, inline)?;
            }
            f.write_str("] ")?;
        }
        self.expr(f, &self.e.body, Level::Or, inline)?;
        if !inline {
            list(f, " of ", &self.e.operands, "", |f, o| {
                self.operand(f, o, inline)
            })?;
        }
        write!(f, " -> {}", self.e.dtype)?;
        list(f, "[", &self.e.out, "]", |f, axis| match axis.as_slice() {
            [l] => self.declare(f, *l),
            merged => list(f, "(", merged, ")", |f, l| self.declare(f, *l)),
        })
    }

    /// Is each operand read exactly once, and are they numbered in that order?
    fn reads_in_order(&self) -> bool {
        fn visit(e: &EinSum, x: &Expr, seen: &mut Vec<usize>) {
            x.visit(&mut |x| {
                if let Expr::Operand(n) = x {
                    if !seen.contains(n) {
                        e.operands[*n].index.iter().for_each(|i| visit(e, i, seen));
                    }
                    seen.push(*n);
                }
            });
        }
        let mut seen = Vec::new();
        let filter = self.e.reduce.as_ref().and_then(|r| r.filter.as_ref());
        for x in filter.into_iter().chain([&self.e.body]) {
            visit(self.e, x, &mut seen);
        }
        seen.into_iter().eq(0..self.e.operands.len())
    }

    fn declare(&self, f: &mut dyn Write, l: LabelId) -> fmt::Result {
        let label = &self.e.labels[l.at()];
        match &*label.name {
            _ if !self.names => write!(f, "#{}", l.0)?,
            name if is_identifier(name) => f.write_str(name)?,
            name => write!(f, "{name:?}")?,
        }
        write!(f, "={}", label.extent)
    }

    fn label(&self, f: &mut dyn Write, l: LabelId) -> fmt::Result {
        let name = &self.e.labels[l.at()].name;
        let unique = self.e.labels.iter().filter(|o| o.name == *name).count() == 1;
        if self.names && unique && is_identifier(name) && !RESERVED.contains(&&**name) {
            f.write_str(name)
        } else {
            write!(f, "#{}", l.0)
        }
    }

    fn operand(&self, f: &mut dyn Write, o: &Operand, inline: bool) -> fmt::Result {
        f.write_str(if o.otherwise.is_some() { "(" } else { "" })?;
        list(f, &format!("{}[", o.node), &o.index, "]", |f, x| {
            self.expr(f, x, Level::Or, inline)
        })?;
        match o.otherwise {
            Some(v) => write!(f, " else {v})"),
            None => Ok(()),
        }
    }

    /// Writes `x`, in parentheses if it binds looser than `least`.
    fn expr(&self, f: &mut dyn Write, x: &Expr, least: Level, inline: bool) -> fmt::Result {
        let own = match x {
            Expr::Call(s, _) => level(*s),
            Expr::Cast(..) => Level::Cast,
            _ => Level::Atom,
        };
        if own < least {
            f.write_str("(")?;
            self.expr(f, x, Level::Or, inline)?;
            return f.write_str(")");
        }
        let args = |f: &mut dyn Write, name: &str, args: &[&Expr]| {
            list(f, &format!("{name}("), args, ")", |f, x| {
                self.expr(f, x, Level::Or, inline)
            })
        };
        match x {
            Expr::Operand(n) if inline => self.operand(f, &self.e.operands[*n], inline),
            Expr::Operand(n) => write!(f, "@{n}"),
            Expr::Const(v, d) => match (v, d) {
                (Value::Int(_), DType::I64) => write!(f, "{v}"),
                _ => write!(f, "{v}:{d}"),
            },
            Expr::Slot(s, d) => write!(f, "${s}:{d}"),
            Expr::Index(l) => self.label(f, *l),
            Expr::Dim(d) => write!(f, "{{{d}}}"),
            Expr::Cast(d, x) => {
                self.expr(f, x, Level::Cast, inline)?;
                write!(f, " as {d}")
            }
            Expr::If(c, a, b) => args(f, "if", &[c, a, b]),
            Expr::Call(s, operands) => match (s.row().symbol, operands.as_slice()) {
                (Some(symbol), [x]) => {
                    f.write_str(symbol)?;
                    match x {
                        // `-1` is a literal; the negation of 1 is `-(1)`.
                        Expr::Const(..) => args(f, "", &[x]),
                        _ => self.expr(f, x, Level::Unary, inline),
                    }
                }
                (Some(symbol), [x, y]) => {
                    let left = if own == Level::Compare {
                        tighter(own)
                    } else {
                        own
                    };
                    self.expr(f, x, left, inline)?;
                    write!(f, " {symbol} ")?;
                    self.expr(f, y, tighter(own), inline)
                }
                (_, operands) => args(f, s.name(), &operands.iter().collect::<Vec<_>>()),
            },
        }
    }
}
