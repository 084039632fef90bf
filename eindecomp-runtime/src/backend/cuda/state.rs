//! What a reduction keeps of the points so far, as a C struct: `State`, `empty()`, `join(a, b)`, and how it
//! becomes a partial result or the result.

use eindecomp_core::ein::{
    Agg, Aggregation, DType, EinSum, EinSumSpec, Expr, Operand, RecordAgg, Reduce,
};
use eindecomp_core::graph::NodeId;

use super::loads::{emit, live};
use super::text::{Lines, expression, literal, name, register};
use crate::backend::program::{Kind, Op, Program, Source};

/// How a reduction's state looks.
#[derive(Clone, Debug)]
pub(super) enum State {
    /// One value.
    Row(Agg, DType),
    /// Largest value, and the sum of exponentials of distances to it.
    LogSumExp(DType),
    /// Best value of a kind, and where it is.
    Select(Agg, Kind),
    Record(Box<Record>),
}

/// The record of an aggregation, with its expressions over numbered values.
#[derive(Clone, Debug)]
pub(super) struct Record {
    record: RecordAgg,
    merge: Program,
    finish: Program,
    dtype: DType,
}

impl State {
    /// `kind` is that of the values that are reduced, `dtype` the result's element type.
    pub(super) fn of(reduce: &Reduce, kind: Kind, dtype: DType) -> Option<State> {
        Some(match &reduce.agg {
            Aggregation::Row(Agg::LOGSUMEXP) => State::LogSumExp(reduce.acc),
            Aggregation::Row(agg) if agg.row().selects => State::Select(*agg, kind),
            Aggregation::Row(agg) => State::Row(*agg, reduce.acc),
            Aggregation::Record(record) => {
                let state: Vec<DType> = record.state.iter().map(|c| c.dtype).collect();
                let both = [&state[..], &state].concat();
                let merge = record.state.iter().map(|c| (&c.merge, Some(c.dtype)));
                State::Record(Box::new(Record {
                    merge: scalars(&both, &merge.collect::<Vec<_>>())?,
                    finish: scalars(&state, &[(&record.finish, Some(dtype))])?,
                    record: (**record).clone(),
                    dtype,
                }))
            }
        })
    }

    /// Kinds of the components.
    pub(super) fn kinds(&self) -> Vec<Kind> {
        match self {
            State::Row(_, acc) => vec![Kind::of(*acc)],
            State::LogSumExp(acc) => vec![Kind::of(*acc); 2],
            State::Select(_, kind) => vec![*kind, Kind::I64],
            State::Record(r) => r.record.state.iter().map(|c| Kind::of(c.dtype)).collect(),
        }
    }

    /// Bytes, at most.
    pub(super) fn size(&self) -> usize {
        8 * self.kinds().len()
    }

    /// The struct and its functions.
    pub(super) fn text(&self) -> String {
        let kinds = self.kinds();
        let fields = kinds
            .iter()
            .enumerate()
            .map(|(n, k)| format!(" {} c{n};", register(*k)));
        let mut text = format!("struct State {{{} }};\n", fields.collect::<String>());
        let identity = match self {
            State::Row(agg, acc) => vec![literal(agg.identity(*acc), kinds[0])],
            State::LogSumExp(acc) => vec![
                literal(Agg::LOGSUMEXP.identity(*acc), kinds[0]),
                literal(eindecomp_core::ein::Value::Float(0.0), kinds[1]),
            ],
            State::Select(_, kind) => vec![
                literal(eindecomp_core::ein::Value::Int(0), *kind),
                "-1ll".into(),
            ],
            State::Record(r) => {
                let state = r.record.state.iter();
                state
                    .map(|c| literal(c.identity, Kind::of(c.dtype)))
                    .collect()
            }
        };
        text += &format!(
            "DEVICE State empty() {{ State s = {{ {} }}; return s; }}\n",
            identity.join(", ")
        );
        let mut lines = Lines::default();
        match self {
            State::Row(agg, _) => {
                let row = agg.row();
                let value = expression(row.c, row.c_int, kinds[0], &["a.c0", "b.c0"]);
                lines.add(format!("State s = {{ {value} }};"));
            }
            State::LogSumExp(_) => {
                let (real, f) = (register(kinds[0]), suffix(kinds[0]));
                lines.add(format!(
                    "const {real} m = a.c0 != a.c0 || a.c0 > b.c0 ? a.c0 : b.c0;"
                ));
                lines.add(format!(
                    "const {real} x = a.c1 * (a.c0 == m ? 1 : exp{f}(a.c0 - m));"
                ));
                lines.add(format!(
                    "const {real} y = b.c1 * (b.c0 == m ? 1 : exp{f}(b.c0 - m));"
                ));
                lines.add("State s = { m, x + y };");
            }
            State::Select(agg, _) => {
                // The first NaN, else the first extremum.
                let better = match *agg == Agg::ARGMIN {
                    true => "b.c0 < a.c0",
                    false => "b.c0 > a.c0",
                };
                lines.add("if (b.c1 < 0) return a;");
                lines.add("if (a.c1 < 0) return b;");
                lines.add("const bool an = a.c0 != a.c0, bn = b.c0 != b.c0;");
                lines.add("const bool first = b.c1 < a.c1;");
                lines.add("State s = a;");
                lines.add(format!(
                    "if (an || bn ? bn && (first || !an) : {better} || (b.c0 == a.c0 && first)) s = b;"
                ));
            }
            State::Record(r) => {
                let count = kinds.len();
                let operand = |n: usize| match n < count {
                    true => format!("a.c{n}"),
                    false => format!("b.c{}", n - count),
                };
                let values = scalar_lines(&r.merge, &operand, &mut lines);
                lines.add(format!("State s = {{ {} }};", values.join(", ")));
            }
        }
        lines.add("return s;");
        text += &format!(
            "DEVICE State join(const State& a, const State& b) {{\n{}}}\n",
            lines.finish()
        );
        text
    }

    /// The state of one point, from the registers that its values are in; `index` is the reduced label of a
    /// selection.
    pub(super) fn lift(&self, values: &[String], index: &str) -> String {
        let mut all = values.to_vec();
        match self {
            State::LogSumExp(_) => all.push("1".into()),
            State::Select(..) => all.push(index.into()),
            State::Row(..) | State::Record(_) => {}
        }
        format!("{{ {} }}", all.join(", "))
    }

    /// The components of a partial result of state `s`, with their kinds.
    pub(super) fn parts(&self, s: &str) -> Vec<(String, Kind)> {
        match self {
            State::LogSumExp(_) => vec![self.log(s)],
            _ => {
                let kinds = self.kinds().into_iter().enumerate();
                kinds.map(|(n, k)| (format!("{s}.c{n}"), k)).collect()
            }
        }
    }

    /// A state from the components of a partial result.
    pub(super) fn resume(&self, parts: &[String]) -> String {
        self.lift(parts, "-1ll")
    }

    /// The result of state `s`, with its kind.
    pub(super) fn finish(&self, s: &str, lines: &mut Lines) -> (String, Kind) {
        match self {
            State::Row(_, acc) => (format!("{s}.c0"), Kind::of(*acc)),
            State::LogSumExp(_) => self.log(s),
            State::Select(..) => (format!("{s}.c1"), Kind::I64),
            State::Record(r) => {
                let operand = |n: usize| format!("{s}.c{n}");
                let mut values = scalar_lines(&r.finish, &operand, lines);
                (values.remove(0), Kind::of(r.dtype))
            }
        }
    }

    fn log(&self, s: &str) -> (String, Kind) {
        let kind = self.kinds()[0];
        let f = suffix(kind);
        // inf − inf and NaN − NaN are NaN.
        let value = format!("({s}.c0 - {s}.c0 == 0 ? {s}.c0 + log{f}({s}.c1) : {s}.c0)");
        (value, kind)
    }
}

fn suffix(kind: Kind) -> &'static str {
    match kind {
        Kind::F32 => "f",
        _ => "",
    }
}

/// A program over numbered values.
fn scalars(operands: &[DType], bodies: &[(&Expr, Option<DType>)]) -> Option<Program> {
    let operand = |_: &DType| Operand {
        node: NodeId(0),
        index: Vec::new(),
        otherwise: None,
    };
    let einsum = EinSum::new(EinSumSpec {
        labels: Vec::new(),
        out: Vec::new(),
        reduce: None,
        operands: operands.iter().map(operand).collect(),
        body: Expr::int(0),
        dtype: DType::I64,
    });
    let source = Source {
        einsum: &einsum.ok()?,
        extents: &[],
        shapes: &vec![Vec::new(); operands.len()],
        dtypes: operands,
    };
    Program::of(&source, bodies)
}

/// The lines of such a program; names of its results.
fn scalar_lines(
    program: &Program,
    operand: &dyn Fn(usize) -> String,
    lines: &mut Lines,
) -> Vec<String> {
    let needed = live(program);
    for instr in program.constants.iter().chain(&program.instrs) {
        if !needed.contains(&instr.dst) {
            continue;
        }
        let value = match &instr.op {
            Op::Load(n) => operand(program.loads[*n].operand),
            op => emit(op, instr.dst.kind),
        };
        let (kind, name) = (register(instr.dst.kind), name(instr.dst));
        lines.add(format!("const {kind} {name} = {value};"));
    }
    program.results.iter().map(|r| name(*r)).collect()
}
