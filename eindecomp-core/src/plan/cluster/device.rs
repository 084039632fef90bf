//! Devices and how fast they are.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::{duration, si, two_digits};
use crate::ein::DType;

/// What computes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DeviceKind {
    /// A memory domain of a CPU.
    Cpu,
    /// A GPU.
    Gpu,
}

impl fmt::Display for DeviceKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            DeviceKind::Cpu => "CPU",
            DeviceKind::Gpu => "GPU",
        })
    }
}

/// A device: an address space and what computes on it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Device {
    /// What it is.
    pub kind: DeviceKind,
    /// Bytes of memory.
    pub capacity: u64,
    /// Operations per second at most: of a core where the server's devices share cores, else of the
    /// device.
    pub rates: Rates,
    /// Bytes per second that it reads and writes of its memory at most.
    pub memory_bandwidth: u64,
    /// Bytes per second that it sends, or receives, over all links of its server together.
    pub port: u64,
    /// Nanoseconds that a task takes beside its work.
    pub overhead: u64,
}

impl Device {
    pub(super) fn rounded(&self) -> Device {
        Device {
            rates: self.rates.map(two_digits),
            memory_bandwidth: two_digits(self.memory_bandwidth),
            port: two_digits(self.port),
            overhead: two_digits(self.overhead),
            ..*self
        }
    }
}

/// `80.0 GB, 2.04 TB/s; matmul f32 19.5 Top/s, bf16 312 Top/s; 5 µs per task`
impl fmt::Display for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Rates { f32, bf16, .. } = self.rates;
        write!(
            f,
            "{}B, {}B/s; matmul f32 {}op/s, bf16 {}op/s; {} per task",
            si(self.capacity),
            si(self.memory_bandwidth),
            si(f32.matmul),
            si(bf16.matmul),
            duration(self.overhead)
        )
    }
}

/// What a kernel's rate depends on beside the element type.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ShapeClass {
    /// A sum of products of two operands, of which each has output indices of its own, where the
    /// tile's three sizes (rows, columns, reduced) are all at least [`ShapeClass::SKINNY`].
    Matmul,
    /// The same where one of the sizes is smaller.
    Skinny,
    /// Everything else.
    Elementwise,
}

impl ShapeClass {
    /// The least size of a matmul at full rate.
    pub const SKINNY: u64 = 64;
}

/// Operations per second by shape class, a multiply-add being two.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rate {
    /// Of [`ShapeClass::Matmul`].
    pub matmul: u64,
    /// Of [`ShapeClass::Skinny`].
    pub skinny: u64,
    /// Of [`ShapeClass::Elementwise`]: one operation per scalar function of the body, and one per
    /// point that is reduced.
    pub elementwise: u64,
}

impl Rate {
    /// Of a shape class.
    pub fn of(&self, class: ShapeClass) -> u64 {
        match class {
            ShapeClass::Matmul => self.matmul,
            ShapeClass::Skinny => self.skinny,
            ShapeClass::Elementwise => self.elementwise,
        }
    }

    /// The numbers with what they are of.
    pub fn iter(&self) -> impl Iterator<Item = (&'static str, u64)> {
        let Rate {
            matmul,
            skinny,
            elementwise,
        } = *self;
        [
            ("matmul", matmul),
            ("skinny", skinny),
            ("elementwise", elementwise),
        ]
        .into_iter()
    }

    /// Another number for each.
    pub fn map(&self, f: impl Fn(u64) -> u64) -> Rate {
        Rate {
            matmul: f(self.matmul),
            skinny: f(self.skinny),
            elementwise: f(self.elementwise),
        }
    }
}

/// Rates by element type.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rates {
    /// Of `f64`.
    pub f64: Rate,
    /// Of `f32`.
    pub f32: Rate,
    /// Of `bf16`.
    pub bf16: Rate,
    /// Of `f16`.
    pub f16: Rate,
    /// Of integers and `bool`.
    pub int: Rate,
}

impl Rates {
    /// Of an element type.
    pub fn of(&self, dtype: DType) -> &Rate {
        match dtype {
            DType::F64 => &self.f64,
            DType::F32 => &self.f32,
            DType::BF16 => &self.bf16,
            DType::F16 => &self.f16,
            DType::I64 | DType::I32 | DType::U32 | DType::U8 | DType::Bool => &self.int,
        }
    }

    /// The rates with what is measured: `f64`, `f32`, …
    pub fn iter(&self) -> impl Iterator<Item = (&'static str, &Rate)> {
        let Rates {
            f64,
            f32,
            bf16,
            f16,
            int,
        } = self;
        [
            ("f64", f64),
            ("f32", f32),
            ("bf16", bf16),
            ("f16", f16),
            ("int", int),
        ]
        .into_iter()
    }

    /// Another number for each.
    pub fn map(&self, f: impl Fn(u64) -> u64) -> Rates {
        let Rates {
            f64,
            f32,
            bf16,
            f16,
            int,
        } = self;
        Rates {
            f64: f64.map(&f),
            f32: f32.map(&f),
            bf16: bf16.map(&f),
            f16: f16.map(&f),
            int: int.map(&f),
        }
    }
}
