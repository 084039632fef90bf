//! Scalar expressions compiled to a register program: one instruction per distinct
//! sub-expression, each run over a chunk of points at a time.

use std::collections::HashMap;

use eindecomp_core::ein::access::affine;
use eindecomp_core::ein::{DType, EinSum, Expr, LabelId, ScalarFn, Value};

/// What a register holds: bf16 and f16 are computed in f32, integers in i64.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Kind {
    F32,
    F64,
    I64,
    Bool,
}

impl Kind {
    pub(super) fn of(dtype: DType) -> Kind {
        match dtype {
            DType::F32 | DType::BF16 | DType::F16 => Kind::F32,
            DType::F64 => Kind::F64,
            DType::I64 | DType::I32 | DType::U32 | DType::U8 => Kind::I64,
            DType::Bool => Kind::Bool,
        }
    }
}

/// A register: its number among those of its kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Reg {
    pub(super) kind: Kind,
    pub(super) at: usize,
}

/// How one axis of a load is addressed.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum LoadAxis {
    Affine {
        terms: Vec<(LabelId, i64)>,
        offset: i64,
        /// It may leave the axis, so every point is checked.
        checked: bool,
    },
    Data {
        index: Reg,
        /// The labels that the index depends on.
        labels: Vec<LabelId>,
    },
}

/// The read of one operand.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Load {
    pub(super) operand: usize,
    pub(super) axes: Vec<LoadAxis>,
    pub(super) otherwise: Option<Value>,
    /// Points where this is false read nothing; set only where an index may be out of range.
    pub(super) mask: Option<Reg>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Op {
    /// The same at all points of a run.
    Const(Value, Kind),
    Slot(u32),
    Load(usize),
    /// The value of a label.
    Index(LabelId),
    /// Conversion to the element type, held in the register's kind.
    Cast(DType, Reg),
    Call(ScalarFn, Vec<Reg>),
    Select(Reg, Reg, Reg),
}

/// `dst` has a higher number than every register of its kind that `op` reads.
#[derive(Clone, Debug)]
pub(super) struct Instr {
    pub(super) op: Op,
    pub(super) dst: Reg,
}

#[derive(Clone, Debug)]
pub(super) struct Program {
    /// Filled once per run.
    pub(super) constants: Vec<Instr>,
    /// Run for each chunk.
    pub(super) instrs: Vec<Instr>,
    pub(super) loads: Vec<Load>,
    /// Registers of each kind, by `Kind as usize`.
    pub(super) registers: [usize; 4],
    /// One per body.
    pub(super) results: Vec<Reg>,
    pub(super) filter: Option<Reg>,
}

/// What the compiler knows of the EinSum.
pub(super) struct Source<'a> {
    pub(super) einsum: &'a EinSum,
    /// Extents of the labels.
    pub(super) extents: &'a [usize],
    /// Shape of each operand.
    pub(super) shapes: &'a [Vec<usize>],
    /// Element type of each operand.
    pub(super) dtypes: &'a [DType],
}

impl Program {
    /// The body of the EinSum. `None` if some expression has no element type.
    pub(super) fn compile(source: &Source<'_>) -> Option<Program> {
        let e = source.einsum;
        let dtype = match &e.reduce {
            Some(r) if r.agg.selects() => None,
            Some(r) => Some(r.acc),
            None => Some(e.dtype),
        };
        Program::of(source, &[(&e.body, dtype)])
    }

    /// Bodies over the EinSum's operands and labels, where its filter holds; each is converted to its element
    /// type if one is given. `None` if some expression has no element type.
    pub(super) fn of(source: &Source<'_>, bodies: &[(&Expr, Option<DType>)]) -> Option<Program> {
        let e = source.einsum;
        let mut c = Compiler {
            source,
            memo: HashMap::new(),
            loads: Vec::new(),
            labels: HashMap::new(),
            constants: Vec::new(),
            instrs: Vec::new(),
            registers: [0; 4],
        };
        let filter = match e.reduce.as_ref().and_then(|r| r.filter.as_ref()) {
            Some(f) => Some(c.expr(f, None)?.0),
            None => None,
        };
        let mut results = Vec::with_capacity(bodies.len());
        for (body, to) in bodies {
            let (body, dtype) = c.expr(body, filter)?;
            results.push(to.map_or(body, |to| c.convert(body, dtype, to)));
        }
        Some(Program {
            constants: c.constants,
            instrs: c.instrs,
            loads: c.loads,
            registers: c.registers,
            results,
            filter,
        })
    }

    /// The first result.
    pub(super) fn result(&self) -> Reg {
        self.results[0]
    }
}

struct Compiler<'a> {
    source: &'a Source<'a>,
    memo: HashMap<Op, Reg>,
    loads: Vec<Load>,
    /// Labels that a register depends on.
    labels: HashMap<Reg, Vec<LabelId>>,
    constants: Vec<Instr>,
    instrs: Vec<Instr>,
    registers: [usize; 4],
}

impl Compiler<'_> {
    /// The register that holds `op`'s value.
    fn emit(&mut self, op: Op, kind: Kind, labels: Vec<LabelId>) -> Reg {
        if let Some(&reg) = self.memo.get(&op) {
            return reg;
        }
        let count = &mut self.registers[kind as usize];
        let dst = Reg { kind, at: *count };
        *count += 1;
        let list = match op {
            Op::Const(..) | Op::Slot(_) => &mut self.constants,
            _ => &mut self.instrs,
        };
        list.push(Instr {
            op: op.clone(),
            dst,
        });
        self.memo.insert(op, dst);
        self.labels.insert(dst, labels);
        dst
    }

    fn labels(&self, regs: &[Reg]) -> Vec<LabelId> {
        let mut all: Vec<LabelId> = regs.iter().flat_map(|r| &self.labels[r]).copied().collect();
        all.sort();
        all.dedup();
        all
    }

    /// `reg`, of element type `from`, as a value of `to`; within a kind only integers change.
    fn convert(&mut self, reg: Reg, from: DType, to: DType) -> Reg {
        let kind = Kind::of(to);
        if reg.kind == kind && (kind != Kind::I64 || from.widens_to(to)) {
            return reg;
        }
        let labels = self.labels(&[reg]);
        // Widening to f32 registers is no rounding to bf16.
        let to = if kind == Kind::F32 { DType::F32 } else { to };
        self.emit(Op::Cast(to, reg), kind, labels)
    }

    /// The value of `e` at points where `mask` holds, and its element type.
    fn expr(&mut self, e: &Expr, mask: Option<Reg>) -> Option<(Reg, DType)> {
        Some(match e {
            Expr::Operand(n) => {
                let dtype = self.source.dtypes[*n];
                (self.load(*n, mask)?, dtype)
            }
            Expr::Const(v, d) => (self.constant(v.cast(*d), *d), *d),
            Expr::Slot(s, d) => (self.emit(Op::Slot(*s), Kind::of(*d), Vec::new()), *d),
            Expr::Dim(d) => (
                self.constant(Value::Int(d.as_const()?), DType::I64),
                DType::I64,
            ),
            Expr::Index(l) => (self.emit(Op::Index(*l), Kind::I64, vec![*l]), DType::I64),
            Expr::Cast(to, inner) => {
                let (reg, from) = self.expr(inner, mask)?;
                if from.widens_to(*to) && Kind::of(from) == Kind::of(*to) {
                    return Some((reg, *to));
                }
                let labels = self.labels(&[reg]);
                (self.emit(Op::Cast(*to, reg), Kind::of(*to), labels), *to)
            }
            Expr::Call(f, args) => self.call(*f, args, mask)?,
            // Taken apart before (`fused`, `records`).
            Expr::Tuple(_) | Expr::Fold(_) => return None,
            // The function makes the values; this stands for their element type.
            Expr::Opaque(o) => (self.constant(Value::Int(0).cast(o.dtype), o.dtype), o.dtype),
            Expr::If(cond, yes, no) => {
                let (cond, _) = self.expr(cond, mask)?;
                let taken = self.and(mask, cond);
                let (yes, a) = self.expr(yes, Some(taken))?;
                let not = self.not(cond);
                let refused = self.and(mask, not);
                let (no, b) = self.expr(no, Some(refused))?;
                let dtype = a.common(b)?;
                let (yes, no) = (self.convert(yes, a, dtype), self.convert(no, b, dtype));
                let labels = self.labels(&[cond, yes, no]);
                (
                    self.emit(Op::Select(cond, yes, no), yes.kind, labels),
                    dtype,
                )
            }
        })
    }

    fn constant(&mut self, value: Value, dtype: DType) -> Reg {
        let kind = Kind::of(dtype);
        self.emit(Op::Const(value, kind), kind, Vec::new())
    }

    fn call(&mut self, f: ScalarFn, args: &[Expr], mask: Option<Reg>) -> Option<(Reg, DType)> {
        let mut regs = Vec::with_capacity(args.len());
        let mut dtypes = Vec::with_capacity(args.len());
        for (n, arg) in args.iter().enumerate() {
            // The right operand of `&&` and `||` is read only where it matters.
            let mask = match (f, n) {
                (ScalarFn::AND, 1) => Some(self.and(mask, regs[0])),
                (ScalarFn::OR, 1) => {
                    let not = self.not(regs[0]);
                    Some(self.and(mask, not))
                }
                _ => mask,
            };
            let (reg, dtype) = self.expr(arg, mask)?;
            regs.push(reg);
            dtypes.push(dtype);
        }
        let result = f.result_dtype(&dtypes)?;
        let common = dtypes[1..]
            .iter()
            .try_fold(dtypes[0], |a, &b| a.common(b))?;
        for (reg, &dtype) in regs.iter_mut().zip(&dtypes) {
            *reg = self.convert(*reg, dtype, common);
        }
        let labels = self.labels(&regs);
        let mut reg = self.emit(Op::Call(f, regs), Kind::of(result), labels.clone());
        if result.is_int() && result != DType::I64 {
            reg = self.emit(Op::Cast(result, reg), Kind::I64, labels);
        }
        Some((reg, result))
    }

    fn and(&mut self, mask: Option<Reg>, cond: Reg) -> Reg {
        match mask {
            None => cond,
            Some(m) if m == cond => cond,
            Some(m) => {
                let labels = self.labels(&[m, cond]);
                self.emit(Op::Call(ScalarFn::AND, vec![m, cond]), Kind::Bool, labels)
            }
        }
    }

    fn not(&mut self, cond: Reg) -> Reg {
        let labels = self.labels(&[cond]);
        self.emit(Op::Call(ScalarFn::NOT, vec![cond]), Kind::Bool, labels)
    }

    fn load(&mut self, n: usize, mask: Option<Reg>) -> Option<Reg> {
        let source = self.source;
        let operand = &source.einsum.operands[n];
        let mut axes = Vec::with_capacity(operand.index.len());
        let mut labels = Vec::new();
        for (index, &extent) in operand.index.iter().zip(&source.shapes[n]) {
            axes.push(match affine(index) {
                Some((terms, offset)) => {
                    labels.extend(terms.iter().map(|t| t.0));
                    let checked = !stays_inside(&terms, offset, source.extents, extent);
                    LoadAxis::Affine {
                        terms,
                        offset,
                        checked,
                    }
                }
                None => {
                    let (index, _) = self.expr(index, mask)?;
                    let of = self.labels(&[index]);
                    labels.extend(&of);
                    LoadAxis::Data { index, labels: of }
                }
            });
        }
        let may_miss = axes
            .iter()
            .any(|a| !matches!(a, LoadAxis::Affine { checked: false, .. }));
        let load = Load {
            operand: n,
            axes,
            otherwise: operand.otherwise,
            mask: mask.filter(|_| may_miss && operand.otherwise.is_none()),
        };
        let at = match self.loads.iter().position(|l| *l == load) {
            Some(at) => at,
            None => {
                self.loads.push(load);
                self.loads.len() - 1
            }
        };
        labels.sort();
        labels.dedup();
        Some(self.emit(Op::Load(at), Kind::of(source.dtypes[n]), labels))
    }
}

/// Does `offset + Σ c·l` stay in `0..extent` for all values of the labels?
pub(super) fn stays_inside(
    terms: &[(LabelId, i64)],
    offset: i64,
    extents: &[usize],
    extent: usize,
) -> bool {
    let (mut lo, mut hi) = (i128::from(offset), i128::from(offset));
    for &(l, c) in terms {
        let last = extents[l.at()] as i128 - 1;
        if last < 0 {
            return true;
        }
        let by = i128::from(c) * last;
        lo += by.min(0);
        hi += by.max(0);
    }
    lo >= 0 && hi < extent as i128
}
