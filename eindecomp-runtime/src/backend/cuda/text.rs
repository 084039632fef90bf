//! Scalars in CUDA C: types, literals, conversions, and the functions of THE table.

use std::fmt::Write;

use eindecomp_core::ein::{DType, ScalarFn, Value};

use crate::backend::program::{Kind, Reg};

/// The type of a register.
pub(super) fn register(kind: Kind) -> &'static str {
    match kind {
        Kind::F32 => "float",
        Kind::F64 => "double",
        Kind::I64 => "i64",
        Kind::Bool => "bool",
    }
}

/// The type of a stored element.
pub(super) fn stored(dtype: DType) -> &'static str {
    match dtype {
        DType::F64 => "double",
        DType::F32 => "float",
        DType::BF16 | DType::F16 => "u16",
        DType::I64 => "i64",
        DType::I32 => "int",
        DType::U32 => "u32",
        DType::U8 | DType::Bool => "u8",
    }
}

/// The name of a register.
pub(super) fn name(reg: Reg) -> String {
    let kind = match reg.kind {
        Kind::F32 => 'f',
        Kind::F64 => 'd',
        Kind::I64 => 'i',
        Kind::Bool => 't',
    };
    format!("{kind}{}", reg.at)
}

/// A stored element as a register.
pub(super) fn load(dtype: DType, x: &str) -> String {
    match dtype {
        DType::BF16 => format!("from_bf16({x})"),
        DType::F16 => format!("from_f16({x})"),
        DType::I32 | DType::U32 | DType::U8 => format!("(i64){x}"),
        DType::Bool => format!("{x} != 0"),
        DType::F64 | DType::F32 | DType::I64 => x.into(),
    }
}

/// A register of kind `from` as a stored element: rounded once, integers wrapped, as Rust's `as`.
pub(super) fn store(dtype: DType, from: Kind, x: &str) -> String {
    match (dtype, from) {
        (DType::BF16, Kind::F64 | Kind::I64) => format!("to_bf16(to_odd({x}))"),
        (DType::F16, Kind::F64 | Kind::I64) => format!("to_f16(to_odd({x}))"),
        (DType::BF16, _) => format!("to_bf16((float){x})"),
        (DType::F16, _) => format!("to_f16((float){x})"),
        _ => {
            let kind = Kind::of(dtype);
            let x = convert(dtype, from, x);
            match register(kind) == stored(dtype) {
                true => x,
                false => format!("({}){x}", stored(dtype)),
            }
        }
    }
}

/// Conversion of a register to the element type, held in a register of its kind.
pub(super) fn convert(to: DType, from: Kind, x: &str) -> String {
    let kind = Kind::of(to);
    match (kind, to, from) {
        (Kind::F32, DType::BF16 | DType::F16, _) => load(to, &store(to, from, x)),
        (Kind::I64, _, Kind::F32 | Kind::F64) => {
            let (lo, hi) = match to {
                DType::I32 => ("-2147483648ll", "2147483647ll"),
                DType::U32 => ("0ll", "4294967295ll"),
                DType::U8 => ("0ll", "255ll"),
                _ => ("-9223372036854775807ll - 1", "9223372036854775807ll"),
            };
            format!("saturate({x}, {lo}, {hi})")
        }
        (Kind::I64, DType::I32 | DType::U32 | DType::U8, _) => format!("(i64)({}){x}", stored(to)),
        (Kind::Bool, _, Kind::F32 | Kind::F64 | Kind::I64) => format!("({x} != 0)"),
        _ if kind == from => x.into(),
        _ => format!("({}){x}", register(kind)),
    }
}

/// A literal.
pub(super) fn literal(value: Value, kind: Kind) -> String {
    match kind {
        Kind::Bool => value.as_bool().to_string(),
        Kind::I64 => match value.as_i64() {
            i64::MIN => "(-9223372036854775807ll - 1)".into(),
            n => format!("{n}ll"),
        },
        Kind::F32 => {
            let x = value.as_f64() as f32;
            match x.is_finite() {
                true => format!("{x:?}f"),
                false => format!("float_of_bits(0x{:x}u)", x.to_bits()),
            }
        }
        Kind::F64 => {
            let x = value.as_f64();
            match x.is_finite() {
                true => format!("{x:?}"),
                false => format!("double_of_bits(0x{:x}ull)", x.to_bits()),
            }
        }
    }
}

/// An expression of a table over values of a kind; the arguments are names.
pub(super) fn expression(c: &str, c_int: &str, kind: Kind, args: &[&str]) -> String {
    let mut text = match kind {
        Kind::F32 => c.replace('F', "f"),
        Kind::F64 => c.replace('F', ""),
        Kind::I64 | Kind::Bool => c_int.into(),
    };
    for (n, arg) in args.iter().enumerate() {
        text = text.replace(&format!("${n}"), arg);
    }
    text
}

/// A scalar function of registers.
pub(super) fn call(f: ScalarFn, args: &[Reg]) -> String {
    let names: Vec<String> = args.iter().map(|&r| name(r)).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let kind = args.first().map_or(Kind::Bool, |r| r.kind);
    expression(f.row().c, f.row().c_int, kind, &names)
}

/// Lines of a function's body.
#[derive(Debug, Default)]
pub(super) struct Lines {
    text: String,
    depth: usize,
}

impl Lines {
    /// Adds a line; one that ends in `{` opens a block, one that starts with `}` closes one.
    pub(super) fn add(&mut self, line: impl AsRef<str>) {
        let line = line.as_ref();
        if line.starts_with('}') {
            self.depth = self.depth.saturating_sub(1);
        }
        let _ = writeln!(self.text, "{:1$}{line}", "", 4 * (self.depth + 1));
        if line.ends_with('{') {
            self.depth += 1;
        }
    }

    pub(super) fn finish(self) -> String {
        self.text
    }
}
