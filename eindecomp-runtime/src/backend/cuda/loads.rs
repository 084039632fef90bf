//! A register program as straight-line CUDA C: loads, their ranges, and what is computed of them.

use std::collections::HashSet;

use eindecomp_core::ein::{DType, LabelId, Value};

use super::function::{Array, Function, Walk};
use super::text::{call, convert, literal, load, name, register};
use crate::backend::program::{Kind, Load, LoadAxis, Op, Program, Reg};

/// Registers that a result depends on.
pub(super) fn live(program: &Program) -> HashSet<Reg> {
    let mut needed: HashSet<Reg> = program.results.iter().copied().collect();
    needed.extend(program.filter);
    for instr in program.instrs.iter().rev() {
        if !needed.contains(&instr.dst) {
            continue;
        }
        match &instr.op {
            Op::Const(..) | Op::Slot(_) | Op::Index(_) => {}
            Op::Load(n) => {
                let load = &program.loads[*n];
                needed.extend(load.mask);
                needed.extend(load.axes.iter().filter_map(|a| match a {
                    LoadAxis::Data { index, .. } => Some(*index),
                    LoadAxis::Affine { .. } => None,
                }));
            }
            Op::Cast(_, reg) => drop(needed.insert(*reg)),
            Op::Call(_, args) => needed.extend(args),
            Op::Select(c, a, b) => needed.extend([*c, *a, *b]),
        }
    }
    needed
}

/// The value of an instruction that reads no memory and no argument.
pub(super) fn emit(op: &Op, kind: Kind) -> String {
    match op {
        Op::Const(value, kind) => literal(*value, *kind),
        Op::Index(l) => format!("l{}", l.at()),
        Op::Cast(to, reg) => convert(*to, reg.kind, &name(*reg)),
        Op::Call(f, args) => call(*f, args),
        Op::Select(c, a, b) => format!("{} ? {} : {}", name(*c), name(*a), name(*b)),
        // Both are taken apart by the callers.
        Op::Load(_) | Op::Slot(_) => literal(Value::Int(0), kind),
    }
}

/// A program bound to the arrays of its operands.
pub(super) struct Bound<'a> {
    pub(super) program: &'a Program,
    pub(super) reads: &'a [Array],
    pub(super) shapes: &'a [Vec<usize>],
    /// Number in fault records.
    pub(super) site: i64,
}

impl Bound<'_> {
    /// May an index be out of range in the data?
    fn faults(&self) -> bool {
        let faults = |l: &Load| l.otherwise.is_none() && !l.axes.iter().all(is_direct);
        self.program.loads.iter().any(faults)
    }

    /// Parameters of the operands; constants and slots as registers.
    pub(super) fn prepare(&self, f: &mut Function, slots: &[Value]) {
        let needed = live(self.program);
        let mut declared = HashSet::new();
        for load in &self.program.loads {
            if declared.insert(load.operand) {
                f.read(&format!("x{}", load.operand), &self.reads[load.operand]);
            }
        }
        if self.faults() {
            f.fault(self.site);
        }
        for instr in &self.program.constants {
            if !needed.contains(&instr.dst) {
                continue;
            }
            let (kind, reg) = (instr.dst.kind, name(instr.dst));
            let value = match instr.op {
                Op::Slot(s) => {
                    let value = slots[s as usize];
                    let param = format!("v{reg}");
                    match kind {
                        Kind::F32 | Kind::F64 => f.float(&param, value.as_f64()),
                        Kind::I64 | Kind::Bool => f.int(&param, value.as_i64()),
                    }
                    let dtype = match kind {
                        Kind::F32 => DType::F32,
                        Kind::F64 => DType::F64,
                        Kind::I64 => DType::I64,
                        Kind::Bool => DType::Bool,
                    };
                    let from = match kind {
                        Kind::F32 | Kind::F64 => Kind::F64,
                        Kind::I64 | Kind::Bool => Kind::I64,
                    };
                    convert(dtype, from, &param)
                }
                _ => emit(&instr.op, kind),
            };
            f.body
                .add(format!("const {} {reg} = {value};", register(kind)));
        }
    }

    /// The walk of a load's place in its array: of its affine axes, with the array's origin.
    pub(super) fn walk(&self, load: &Load) -> Walk {
        let array = &self.reads[load.operand];
        let mut walk = Walk::default();
        for ((axis, r), stride) in load.axes.iter().zip(&array.region.0).zip(array.strides()) {
            walk.base -= r.0 as i64 * stride;
            if let LoadAxis::Affine { terms, offset, .. } = axis {
                walk.base += offset * stride;
                terms.iter().for_each(|&(l, c)| walk.add(l, c * stride));
            }
        }
        walk
    }

    /// The instructions, at the labels `l0`, `l1`, ….
    pub(super) fn instructions(&self, f: &mut Function) {
        let needed = live(self.program);
        for instr in &self.program.instrs {
            if !needed.contains(&instr.dst) {
                continue;
            }
            match &instr.op {
                Op::Load(n) => self.load(f, *n, instr.dst),
                op => {
                    let (kind, reg) = (register(instr.dst.kind), name(instr.dst));
                    let value = emit(op, instr.dst.kind);
                    f.body.add(format!("const {kind} {reg} = {value};"));
                }
            }
        }
    }

    fn load(&self, f: &mut Function, n: usize, dst: Reg) {
        let of = &self.program.loads[n];
        let array = &self.reads[of.operand];
        let mut place = self.walk(of).expression(f, &format!("b{n}"));
        let mut checks = Vec::new();
        for (axis, (a, stride)) in of.axes.iter().zip(array.strides()).enumerate() {
            let index = match a {
                LoadAxis::Affine { checked: false, .. } => continue,
                LoadAxis::Affine { terms, offset, .. } => affine(terms, *offset),
                LoadAxis::Data { index, .. } => {
                    f.int(format!("s{n}_{axis}"), stride);
                    place += &format!(" + s{n}_{axis} * {}", name(*index));
                    name(*index)
                }
            };
            checks.push((axis, index, self.shapes[of.operand][axis]));
        }
        let (kind, reg) = (register(dst.kind), name(dst));
        let element = load(array.dtype, &format!("x{}[{place}]", of.operand));
        if checks.is_empty() {
            f.body.add(format!("const {kind} {reg} = {element};"));
            return;
        }
        let otherwise = of.otherwise.unwrap_or(Value::Int(0)).cast(array.dtype);
        f.body
            .add(format!("{kind} {reg} = {};", literal(otherwise, dst.kind)));
        let inside: Vec<String> = checks
            .iter()
            .map(|(_, index, extent)| format!("(u64)({index}) < {extent}ull"))
            .collect();
        f.body.add(format!("if ({}) {{", inside.join(" && ")));
        f.body.add(format!("{reg} = {element};"));
        if of.otherwise.is_none() {
            match of.mask {
                Some(mask) => f.body.add(format!("}} else if ({}) {{", name(mask))),
                None => f.body.add("} else {"),
            }
            for ((axis, index, _), inside) in checks.iter().zip(&inside) {
                f.body.add(format!(
                    "if (!({inside})) fault(record, site, {}, {axis}, {index});",
                    of.operand
                ));
            }
        }
        f.body.add("}");
    }
}

fn is_direct(axis: &LoadAxis) -> bool {
    matches!(axis, LoadAxis::Affine { checked: false, .. })
}

/// `offset + Σ c · l`.
fn affine(terms: &[(LabelId, i64)], offset: i64) -> String {
    let mut text = format!("{offset}ll");
    for (l, c) in terms {
        text += &format!(" + {c}ll * l{}", l.at());
    }
    text
}
