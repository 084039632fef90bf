//! Runs a register program over a chunk of points.
#![expect(unsafe_code, reason = "loads read tensor memory")]

use eindecomp_core::ein::{DType, ScalarFn, Value};
use half::{bf16, f16};

use super::calls;
use super::memory::read;
use super::nest::{Chunk, LANES};
use super::simd::Loop;
use crate::backend::program::{Kind, Op, Program, Reg};
use crate::view::View;

/// What a register's lanes hold, and how it turns into the others.
pub(super) trait Lane: Copy + PartialOrd + Default + 'static {
    fn from_f64(x: f64) -> Self;
    fn from_f32(x: f32) -> Self;
    fn from_i64(x: i64) -> Self;
    fn to_f64(self) -> f64;
    fn to_f32(self) -> f32;
    fn to_i64(self) -> i64;
    /// Rounded once.
    fn to_bf16(self) -> bf16 {
        bf16::from_f64(self.to_f64())
    }
    /// Rounded once.
    fn to_f16(self) -> f16 {
        f16::from_f64(self.to_f64())
    }
    fn from_value(v: Value) -> Self;
    fn file(registers: &mut Registers) -> &mut Vec<Self>;
}

macro_rules! lane {
    ($t:ident, $field:ident, |$v:ident| $value:expr, |$x:ident| $from:expr $(, $own:item)*) => {
        impl Lane for $t {
            $($own)*
            #[inline(always)]
            fn from_f64($x: f64) -> $t {
                $from
            }
            #[inline(always)]
            fn from_f32($x: f32) -> $t {
                $from
            }
            #[inline(always)]
            fn from_i64($x: i64) -> $t {
                $from
            }
            #[inline(always)]
            fn to_f64(self) -> f64 {
                self as f64
            }
            #[inline(always)]
            fn to_f32(self) -> f32 {
                self as f32
            }
            #[inline(always)]
            fn to_i64(self) -> i64 {
                self as i64
            }
            fn from_value($v: Value) -> $t {
                $value
            }
            #[inline(always)]
            fn file(registers: &mut Registers) -> &mut Vec<$t> {
                &mut registers.$field
            }
        }
    };
}
lane!(
    f32,
    f32,
    |v| v.as_f64() as f32,
    |x| x as f32,
    #[inline(always)]
    fn to_bf16(self) -> bf16 {
        round_bf16(self)
    },
    fn to_f16(self) -> f16 {
        f16::from_f32(self)
    }
);
lane!(f64, f64, |v| v.as_f64(), |x| x as f64);
lane!(i64, i64, |v| v.as_i64(), |x| x as i64);
lane!(u8, bool, |v| v.as_bool().into(), |x| u8::from(
    x as f64 != 0.0
));

/// To nearest, ties to even; straight-line code, which vectorises.
#[inline(always)]
fn round_bf16(x: f32) -> bf16 {
    let bits = x.to_bits();
    let odd = (bits >> 16) & 1;
    let rounded = (bits.wrapping_add(0x7fff + odd) >> 16) as u16;
    let quiet = (bits >> 16) as u16 | 0x40;
    bf16::from_bits(if x.is_nan() { quiet } else { rounded })
}

/// The registers of a program, [`LANES`] lanes each.
#[derive(Debug, Default)]
pub(super) struct Registers {
    pub(super) f32: Vec<f32>,
    pub(super) f64: Vec<f64>,
    pub(super) i64: Vec<i64>,
    pub(super) bool: Vec<u8>,
}

impl Registers {
    /// Room for a program, its constants filled in.
    pub(super) fn prepare(&mut self, program: &Program, slots: &[Value]) {
        let [f32, f64, i64, bool] = program.registers.map(|n| n * LANES);
        self.f32.resize(self.f32.len().max(f32), 0.0);
        self.f64.resize(self.f64.len().max(f64), 0.0);
        self.i64.resize(self.i64.len().max(i64), 0);
        self.bool.resize(self.bool.len().max(bool), 0);
        for instr in &program.constants {
            let value = match &instr.op {
                Op::Const(v, _) => *v,
                Op::Slot(s) => slots[*s as usize],
                _ => continue,
            };
            match instr.dst.kind {
                Kind::F32 => self.get::<f32>(instr.dst).fill(Lane::from_value(value)),
                Kind::F64 => self.get::<f64>(instr.dst).fill(Lane::from_value(value)),
                Kind::I64 => self.get::<i64>(instr.dst).fill(Lane::from_value(value)),
                Kind::Bool => self.get::<u8>(instr.dst).fill(Lane::from_value(value)),
            }
        }
    }

    /// All lanes of a register.
    #[inline(always)]
    pub(super) fn get<T: Lane>(&mut self, reg: Reg) -> &mut [T] {
        &mut T::file(self)[reg.at * LANES..][..LANES]
    }
}

/// How one axis of a load is kept in range.
#[derive(Clone, Debug)]
pub(super) enum Guard {
    /// Its index is an affine walk, which may leave `0..extent`.
    Walk {
        axis: usize,
        walk: usize,
        extent: usize,
    },
    /// Its index is in a register, the same along a run if `uniform`.
    Data {
        axis: usize,
        index: Reg,
        extent: usize,
        stride: i64,
        uniform: bool,
    },
}

/// A load of this run.
#[derive(Clone, Debug)]
pub(super) struct BoundLoad<'a> {
    pub(super) view: &'a View,
    pub(super) operand: usize,
    /// The walk of the element's place, without the axes of `Data` guards.
    pub(super) walk: usize,
    pub(super) guards: Vec<Guard>,
    pub(super) otherwise: Option<Value>,
    pub(super) mask: Option<Reg>,
}

/// An index that was out of range.
#[derive(Clone, Copy, Debug)]
pub(super) struct Miss {
    pub(super) operand: usize,
    pub(super) axis: usize,
    pub(super) index: i64,
}

/// One execution of a program.
pub(super) struct Execute<'a> {
    pub(super) program: &'a Program,
    pub(super) loads: &'a [BoundLoad<'a>],
    /// The walk of each label's value, where the program uses it.
    pub(super) index_walks: &'a [Option<usize>],
    pub(super) chunk: &'a Chunk,
    /// Value of every walk at the nest's first point.
    pub(super) starts: &'a [i64],
    /// Step of every walk along a run.
    pub(super) steps: &'a [i64],
    pub(super) registers: &'a mut Registers,
}

impl Loop for Execute<'_> {
    type Output = Result<(), Miss>;

    #[inline(always)]
    fn run<const FMA: bool>(self) -> Result<(), Miss> {
        let n = self.chunk.points;
        let regs = self.registers;
        for instr in &self.program.instrs {
            let dst = instr.dst;
            match &instr.op {
                Op::Const(..) | Op::Slot(_) => {}
                Op::Load(at) => {
                    let run = Runs {
                        load: &self.loads[*at],
                        chunk: self.chunk,
                        starts: self.starts,
                        steps: self.steps,
                    };
                    match dst.kind {
                        Kind::F32 => run.load::<f32>(dst, regs)?,
                        Kind::F64 => run.load::<f64>(dst, regs)?,
                        Kind::I64 => run.load::<i64>(dst, regs)?,
                        Kind::Bool => run.load::<u8>(dst, regs)?,
                    }
                }
                Op::Index(l) => {
                    let walk = self.index_walks[l.at()].unwrap_or(0);
                    let step = self.steps[walk];
                    let out = regs.get::<i64>(dst);
                    for (run, &(lane, len)) in self.chunk.runs.iter().enumerate() {
                        let first = self.starts[walk] + self.chunk.offset(run, walk);
                        for (i, x) in out[lane..lane + len].iter_mut().enumerate() {
                            *x = first + i as i64 * step;
                        }
                    }
                }
                Op::Cast(to, src) => cast(regs, *to, *src, dst, n),
                Op::Select(c, a, b) => match dst.kind {
                    Kind::F32 => calls::select(&mut regs.f32, &regs.bool, *c, *a, *b, dst, n),
                    Kind::F64 => calls::select(&mut regs.f64, &regs.bool, *c, *a, *b, dst, n),
                    Kind::I64 => calls::select(&mut regs.i64, &regs.bool, *c, *a, *b, dst, n),
                    Kind::Bool => {
                        let (before, out) = regs.bool.split_at_mut(dst.at * LANES);
                        let lanes = |r: &Reg| &before[r.at * LANES..][..n];
                        let (c, a, b) = (lanes(c), lanes(a), lanes(b));
                        for (i, x) in out[..n].iter_mut().enumerate() {
                            *x = if c[i] != 0 { a[i] } else { b[i] };
                        }
                    }
                },
                Op::Call(f, args) => call::<FMA>(regs, *f, args, dst, n),
            }
        }
        Ok(())
    }
}

/// By the kind of the arguments; a function's arguments have one kind.
#[inline(always)]
fn call<const FMA: bool>(regs: &mut Registers, f: ScalarFn, args: &[Reg], dst: Reg, n: usize) {
    match (args[0].kind, dst.kind) {
        (Kind::F32, Kind::F32) => calls::f32::<FMA>(&mut regs.f32, f, args, dst, n),
        (Kind::F64, Kind::F64) => calls::f64(&mut regs.f64, f, args, dst, n),
        (Kind::I64, Kind::I64) => calls::i64(&mut regs.i64, f, args, dst, n),
        (Kind::F32, _) => calls::compare(&regs.f32, &mut regs.bool, f, args, dst, n),
        (Kind::F64, _) => calls::compare(&regs.f64, &mut regs.bool, f, args, dst, n),
        (Kind::I64, _) => calls::compare(&regs.i64, &mut regs.bool, f, args, dst, n),
        (Kind::Bool, _) => calls::bool(&mut regs.bool, f, args, dst, n),
    }
}

/// Conversion as Rust's `as`: floats saturate at the bounds of integers, integers wrap.
#[inline(always)]
fn cast(regs: &mut Registers, to: DType, src: Reg, dst: Reg, n: usize) {
    let Registers {
        f32,
        f64,
        i64,
        bool,
    } = regs;
    macro_rules! each {
        ($from:ident => $into:ident, $f:expr) => {{
            let (src, f) = (&$from[src.at * LANES..][..n], $f);
            for (d, &s) in $into[dst.at * LANES..][..n].iter_mut().zip(src) {
                *d = f(s);
            }
        }};
        ($file:ident, $f:expr) => {
            calls::unary($file, src, dst, n, $f)
        };
    }
    macro_rules! ints {
        ($from:ident) => {
            match to {
                DType::I32 => each!($from => i64, |x| x as i32 as i64),
                DType::U32 => each!($from => i64, |x| x as u32 as i64),
                DType::U8 => each!($from => i64, |x| x as u8 as i64),
                _ => each!($from => i64, |x| x as i64),
            }
        };
    }
    match (src.kind, dst.kind) {
        (Kind::F32, Kind::F32) => match to {
            DType::BF16 => each!(f32, |x| round_bf16(x).to_f32()),
            DType::F16 => each!(f32, |x| f16::from_f32(x).to_f32()),
            _ => each!(f32, |x| x),
        },
        (Kind::I64, Kind::I64) => match to {
            DType::I32 => each!(i64, |x| x as i32 as i64),
            DType::U32 => each!(i64, |x| x as u32 as i64),
            DType::U8 => each!(i64, |x| x as u8 as i64),
            _ => each!(i64, |x| x),
        },
        (Kind::F64, Kind::F64) => each!(f64, |x| x),
        (Kind::Bool, Kind::Bool) => each!(bool, |x| x),
        (Kind::F64, Kind::F32) => match to {
            DType::BF16 => each!(f64 => f32, |x| bf16::from_f64(x).to_f32()),
            DType::F16 => each!(f64 => f32, |x| f16::from_f64(x).to_f32()),
            _ => each!(f64 => f32, |x| x as f32),
        },
        (Kind::I64, Kind::F32) => match to {
            DType::BF16 => each!(i64 => f32, |x| bf16::from_f64(x as f64).to_f32()),
            DType::F16 => each!(i64 => f32, |x| f16::from_f64(x as f64).to_f32()),
            _ => each!(i64 => f32, |x| x as f32),
        },
        (Kind::Bool, Kind::F32) => each!(bool => f32, |x| x as f32),
        (Kind::F32, Kind::F64) => each!(f32 => f64, |x| x as f64),
        (Kind::I64, Kind::F64) => each!(i64 => f64, |x| x as f64),
        (Kind::Bool, Kind::F64) => each!(bool => f64, |x| x as f64),
        (Kind::F32, Kind::I64) => ints!(f32),
        (Kind::F64, Kind::I64) => ints!(f64),
        (Kind::Bool, Kind::I64) => each!(bool => i64, |x| x as i64),
        (Kind::F32, Kind::Bool) => each!(f32 => bool, |x| (x != 0.0) as u8),
        (Kind::F64, Kind::Bool) => each!(f64 => bool, |x| (x != 0.0) as u8),
        (Kind::I64, Kind::Bool) => each!(i64 => bool, |x| (x != 0) as u8),
    }
}

/// One load over the runs of a chunk.
struct Runs<'a> {
    load: &'a BoundLoad<'a>,
    chunk: &'a Chunk,
    starts: &'a [i64],
    steps: &'a [i64],
}

impl Runs<'_> {
    #[inline(always)]
    fn load<T: Lane>(&self, dst: Reg, regs: &mut Registers) -> Result<(), Miss> {
        let load = self.load;
        let (start, step) = (self.starts[load.walk], self.steps[load.walk]);
        let scattered = load
            .guards
            .iter()
            .any(|g| matches!(g, Guard::Data { uniform: false, .. }));
        if scattered {
            return self.gather::<T>(dst, regs);
        }
        for (run, &(lane, len)) in self.chunk.runs.iter().enumerate() {
            let mut at = start + self.chunk.offset(run, load.walk);
            let (mut lo, mut hi) = (0, len);
            for guard in &load.guards {
                let (first, by, extent) = match *guard {
                    Guard::Walk { walk, extent, .. } => {
                        let first = self.starts[walk] + self.chunk.offset(run, walk);
                        (first, self.steps[walk], extent)
                    }
                    Guard::Data {
                        index,
                        extent,
                        stride,
                        ..
                    } => {
                        let first = regs.get::<i64>(index)[lane];
                        at = at.wrapping_add(first.wrapping_mul(stride));
                        (first, 0, extent)
                    }
                };
                let (a, b) = inside(first, by, extent as i64, len);
                (lo, hi) = (lo.max(a), hi.min(b));
            }
            hi = hi.max(lo);
            for missed in [0..lo, hi..len] {
                self.miss::<T>(dst, regs, run, lane + missed.start..lane + missed.end)?;
            }
            if lo < hi {
                let out = &mut regs.get::<T>(dst)[lane + lo..lane + hi];
                // SAFETY: `lo..hi` are points whose every index is in the operand (unguarded axes
                // by the program's own proof), and the run's caller checked that the window covers
                // the footprint of its tile.
                unsafe { read(load.view, at + lo as i64 * step, step, out) };
            }
        }
        Ok(())
    }

    /// Every point with an address of its own.
    #[inline(always)]
    fn gather<T: Lane>(&self, dst: Reg, regs: &mut Registers) -> Result<(), Miss> {
        let load = self.load;
        for (run, &(lane, len)) in self.chunk.runs.iter().enumerate() {
            let base = self.starts[load.walk] + self.chunk.offset(run, load.walk);
            for i in 0..len {
                let mut at = base + i as i64 * self.steps[load.walk];
                let mut ok = true;
                for guard in &load.guards {
                    let (x, extent) = match *guard {
                        Guard::Walk { walk, extent, .. } => {
                            let first = self.starts[walk] + self.chunk.offset(run, walk);
                            (first + i as i64 * self.steps[walk], extent)
                        }
                        Guard::Data {
                            index,
                            extent,
                            stride,
                            ..
                        } => {
                            let x = regs.i64[index.at * LANES + lane + i];
                            at = at.wrapping_add(x.wrapping_mul(stride));
                            (x, extent)
                        }
                    };
                    ok &= (0..extent as i64).contains(&x);
                }
                if ok {
                    let out = &mut regs.get::<T>(dst)[lane + i..=lane + i];
                    // SAFETY: every index of the point is in the operand, and the window covers
                    // the footprint: every index that a point computes, the whole axis where it
                    // is data.
                    unsafe { read(load.view, at, 1, out) };
                } else {
                    self.miss::<T>(dst, regs, run, lane + i..lane + i + 1)?;
                }
            }
        }
        Ok(())
    }

    /// Lanes of a run whose index is out of range: the value instead, or nothing where masked.
    #[inline(always)]
    fn miss<T: Lane>(
        &self,
        dst: Reg,
        regs: &mut Registers,
        run: usize,
        lanes: std::ops::Range<usize>,
    ) -> Result<(), Miss> {
        if lanes.is_empty() {
            return Ok(());
        }
        let load = self.load;
        if load.otherwise.is_none() {
            let selected = match load.mask {
                Some(m) => regs.get::<u8>(m)[lanes.clone()]
                    .iter()
                    .position(|&x| x != 0),
                None => Some(0),
            };
            if let Some(first) = selected {
                return Err(self.blame(regs, run, lanes.start + first));
            }
        }
        let value = load.otherwise.map_or(T::default(), T::from_value);
        regs.get::<T>(dst)[lanes].fill(value);
        Ok(())
    }

    #[cold]
    fn blame(&self, regs: &mut Registers, run: usize, lane: usize) -> Miss {
        let first = self.chunk.runs[run].0;
        let miss = |axis, index| Miss {
            operand: self.load.operand,
            axis,
            index,
        };
        let mut last = miss(0, 0);
        for guard in &self.load.guards {
            let (axis, x, extent) = match *guard {
                Guard::Walk { axis, walk, extent } => {
                    let at = self.starts[walk] + self.chunk.offset(run, walk);
                    (axis, at + (lane - first) as i64 * self.steps[walk], extent)
                }
                Guard::Data {
                    axis,
                    index,
                    extent,
                    ..
                } => (axis, regs.get::<i64>(index)[lane], extent),
            };
            last = miss(axis, x);
            if !(0..extent as i64).contains(&x) {
                break;
            }
        }
        last
    }
}

/// The `t` in `0..len` with `0 ≤ first + by·t < extent`: an interval.
fn inside(first: i64, by: i64, extent: i64, len: usize) -> (usize, usize) {
    let len = len as i64;
    let ceil = |a: i64, b: i64| a.div_euclid(b) + i64::from(a.rem_euclid(b) != 0);
    let (lo, hi) = match by {
        0 if (0..extent).contains(&first) => (0, len),
        0 => (0, 0),
        c if c > 0 => (ceil(-first, c), ceil(extent - first, c)),
        c => (ceil(first - extent + 1, -c), first.div_euclid(-c) + 1),
    };
    let lo = lo.clamp(0, len);
    (lo as usize, hi.clamp(lo, len) as usize)
}
