//! What a kernel asks of a device: launches of generated CUDA C and matrix products, in order.
//!
//! The seam between generator and executor. Calls are pure data: the generator sees windows, never
//! addresses; the executor puts addresses in place of [`Pointer`]s and enqueues the calls of a task one
//! after the other on one stream.

use std::sync::Arc;

use eindecomp_core::ein::DType;
use eindecomp_core::plan::layout::Region;

/// A dense row-major box of a tensor in device memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Window {
    /// Stored element type.
    pub dtype: DType,
    /// The box, in the tensor's coordinates.
    pub region: Region,
}

/// Which memory a pointer is into.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Place {
    /// The window of this number among those that are read.
    Read(usize),
    /// The window of this number among those that are written.
    Write(usize),
    /// The stream's workspace, whose contents last for the calls of one [`Work`].
    Workspace,
}

/// An address on the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Pointer {
    /// Where its memory starts: for a window, at the window's first element.
    pub place: Place,
    /// Bytes from there. In the workspace, arrays start at multiples of [`ALIGN`].
    pub offset: u64,
    /// Bytes of the array from there on.
    pub bytes: u64,
}

/// Alignment of arrays in the workspace, in bytes.
pub const ALIGN: u64 = 256;

/// An argument of a kernel; each is 8 bytes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Arg {
    /// An address.
    Pointer(Pointer),
    /// The address of the device's fault record ([`FAULT_WORDS`] words, zero before the run).
    Fault,
    /// An `i64`.
    Int(i64),
    /// An `f64`.
    Float(f64),
}

/// Words of 8 bytes of a fault record: 0 or 1 + the site, `operand << 32 | axis`, the index.
pub const FAULT_WORDS: usize = 3;

/// CUDA C that is compiled as one unit. Equal vertices have equal text, so that compiled modules are found
/// by text, architecture and options.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Module {
    /// The text: complete, without `#include`s.
    pub source: String,
    /// Its `extern "C" __global__` functions.
    pub entries: Vec<&'static str>,
}

/// A kernel launch.
#[derive(Clone, Debug, PartialEq)]
pub struct Launch {
    /// What it is in.
    pub module: Arc<Module>,
    /// The function.
    pub entry: &'static str,
    /// Blocks: at most 2³¹ − 1 along x; one along y and z.
    pub grid: [u32; 3],
    /// Threads of a block.
    pub block: [u32; 3],
    /// Dynamic shared memory of a block, in bytes; at most 48 KiB with the static one.
    pub shared_bytes: u32,
    /// In the order of its parameters.
    pub args: Vec<Arg>,
}

/// A matrix in device memory, `batch` of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Matrix {
    /// Its first element.
    pub start: Pointer,
    /// Element type.
    pub dtype: DType,
    /// Do columns lie densely, instead of rows?
    pub transposed: bool,
    /// Distance between rows, or between columns if `transposed`, in elements.
    pub leading: i64,
    /// Distance between one matrix and the next, in elements; 0 where all use the same one.
    pub stride: i64,
}

/// What products are computed and summed in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Compute {
    /// f64.
    F64,
    /// f32; of bf16 and f16 operands, with tensor cores.
    F32,
}

/// `C[b] = A[b]·B[b]` for `batch` matrices, where A is m×k, B k×n and C m×n: one call of cuBLASLt.
/// C is not read.
///
/// A and B have one element type; C has it or `compute`'s.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Gemm {
    /// Rows of A and C.
    pub m: i64,
    /// Columns of B and C.
    pub n: i64,
    /// Columns of A, rows of B.
    pub k: i64,
    /// How many.
    pub batch: i64,
    /// Left operand.
    pub a: Matrix,
    /// Right operand.
    pub b: Matrix,
    /// Result.
    pub c: Matrix,
    /// What it is computed in.
    pub compute: Compute,
}

/// One step.
#[derive(Clone, Debug, PartialEq)]
pub enum Call {
    /// A generated kernel.
    Launch(Launch),
    /// A matrix product.
    Matmul(Gemm),
}

/// The calls of one task, each after the one before.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Work {
    /// In order.
    pub calls: Vec<Call>,
    /// Bytes of workspace that they use.
    pub workspace_bytes: u64,
}
