//! A kernel's text and its arguments, made together; and the calls of a task.

use std::sync::Arc;

use eindecomp_core::ein::{DType, LabelId};
use eindecomp_core::plan::layout::Region;

use super::call::{ALIGN, Arg, Call, Launch, Module, Place, Pointer, Window, Work};
use super::text::{Lines, stored};

pub(super) const PRELUDE: &str = include_str!("prelude.h");
/// What NVRTC is told of every kernel, whichever card it is for.
#[cfg(any(feature = "cuda", feature = "testing"))]
pub(super) const OPTIONS: [&str; 1] = ["--std=c++17"];

/// Threads of a block.
pub(super) const THREADS: u32 = 256;
/// Most blocks of a launch: loops over blocks take the rest.
const BLOCKS: usize = 1 << 20;

/// A dense row-major box in device memory.
#[derive(Clone, Debug)]
pub(super) struct Array {
    pub(super) dtype: DType,
    pub(super) region: Region,
    pub(super) pointer: Pointer,
}

impl Array {
    pub(super) fn of(window: &Window, place: Place) -> Array {
        Array {
            dtype: window.dtype,
            region: window.region.clone(),
            pointer: Pointer {
                place,
                offset: 0,
                bytes: window.region.volume() as u64 * window.dtype.size() as u64,
            },
        }
    }

    /// Distance between neighbours along each axis, in elements.
    pub(super) fn strides(&self) -> Vec<i64> {
        let mut strides = vec![1; self.region.0.len()];
        for axis in (1..strides.len()).rev() {
            let (lo, hi) = self.region.0[axis];
            strides[axis - 1] = strides[axis] * (hi - lo) as i64;
        }
        strides
    }
}

/// A function under construction: every parameter comes with its argument.
#[derive(Debug, Default)]
pub(super) struct Function {
    params: Vec<String>,
    args: Vec<Arg>,
    /// What comes before it.
    items: String,
    pub(super) body: Lines,
}

impl Function {
    /// After some items.
    pub(super) fn after(items: String) -> Function {
        Function {
            items,
            ..Function::default()
        }
    }

    pub(super) fn int(&mut self, name: impl Into<String>, value: i64) {
        self.params.push(format!("i64 {}", name.into()));
        self.args.push(Arg::Int(value));
    }

    pub(super) fn float(&mut self, name: impl Into<String>, value: f64) {
        self.params.push(format!("double {}", name.into()));
        self.args.push(Arg::Float(value));
    }

    pub(super) fn read(&mut self, name: &str, array: &Array) {
        let stored = stored(array.dtype);
        self.params.push(format!("GLOBAL(const {stored}) {name}"));
        self.args.push(Arg::Pointer(array.pointer));
    }

    pub(super) fn write(&mut self, name: &str, array: &Array) {
        self.params
            .push(format!("GLOBAL({}) {name}", stored(array.dtype)));
        self.args.push(Arg::Pointer(array.pointer));
    }

    pub(super) fn fault(&mut self, site: i64) {
        self.params.push("GLOBAL(u64) record".into());
        self.args.push(Arg::Fault);
        self.int("site", site);
    }

    /// First value and extent of labels of a tile: `lo3`, `n3`.
    pub(super) fn ranges(&mut self, labels: &[LabelId], tile: &Region) {
        for l in labels {
            let (lo, hi) = tile.0[l.at()];
            self.int(format!("lo{}", l.at()), lo as i64);
            self.int(format!("n{}", l.at()), hi.saturating_sub(lo) as i64);
        }
    }

    /// Labels, slow to fast, of point `from` of their nest, as `l3`.
    pub(super) fn labels(&mut self, labels: &[LabelId], from: &str) {
        let rest = format!("{from}_rest");
        if labels.len() > 1 {
            self.body.add(format!("i64 {rest} = {from};"));
        }
        for (at, l) in labels.iter().enumerate().rev() {
            let l = l.at();
            let value = match (at, labels.len()) {
                (0, 1) => format!("lo{l} + {from}"),
                (0, _) => format!("lo{l} + {rest}"),
                _ => format!("lo{l} + {rest} % n{l}"),
            };
            self.body.add(format!("const i64 l{l} = {value};"));
            self.body.add(format!("(void)l{l};"));
            if at > 0 {
                self.body.add(format!("{rest} /= n{l};"));
            }
        }
    }

    /// The launch of enough blocks for so many parts of work.
    pub(super) fn launch(self, entry: &'static str, blocks: usize) -> Call {
        let source = format!(
            "{PRELUDE}{}extern \"C\" __global__ void __launch_bounds__({THREADS}) {entry}({}) {{\n{}}}\n",
            self.items,
            self.params.join(", "),
            self.body.finish()
        );
        Call::Launch(Launch {
            module: Arc::new(Module {
                source,
                entries: vec![entry],
            }),
            entry,
            grid: [blocks.clamp(1, BLOCKS) as u32, 1, 1],
            block: [THREADS, 1, 1],
            shared_bytes: 0,
            args: self.args,
        })
    }
}

/// A walk over labels: `base + Σ step · label`, as parameters.
#[derive(Clone, Debug, Default)]
pub(super) struct Walk {
    pub(super) base: i64,
    pub(super) steps: Vec<(LabelId, i64)>,
}

impl Walk {
    /// As an expression of parameters `{name}`, `{name}_{label}`.
    pub(super) fn expression(&self, f: &mut Function, name: &str) -> String {
        f.int(name, self.base);
        let mut text = name.to_owned();
        for (l, step) in &self.steps {
            let l = l.at();
            f.int(format!("{name}_{l}"), *step);
            text += &format!(" + {name}_{l} * l{l}");
        }
        text
    }

    pub(super) fn step(&self, label: LabelId) -> i64 {
        let of = self.steps.iter().filter(|s| s.0 == label);
        of.map(|s| s.1).sum()
    }

    pub(super) fn add(&mut self, label: LabelId, by: i64) {
        match self.steps.iter_mut().find(|s| s.0 == label) {
            Some(step) => step.1 += by,
            None => self.steps.push((label, by)),
        }
    }

    /// The value at the first point of a tile.
    pub(super) fn start(&self, tile: &Region) -> i64 {
        let terms = self
            .steps
            .iter()
            .map(|(l, step)| step * tile.0[l.at()].0 as i64);
        self.base + terms.sum::<i64>()
    }
}

/// The calls of a task under construction, and their workspace.
#[derive(Debug, Default)]
pub(super) struct Builder {
    pub(super) work: Work,
    used: u64,
}

impl Builder {
    /// An array in the workspace.
    pub(super) fn array(&mut self, dtype: DType, region: Region) -> Array {
        let bytes = region.volume() as u64 * dtype.size() as u64;
        let offset = self.used;
        self.used = offset + bytes.next_multiple_of(ALIGN);
        self.work.workspace_bytes = self.work.workspace_bytes.max(self.used);
        let place = Place::Workspace;
        Array {
            dtype,
            region,
            pointer: Pointer {
                place,
                offset,
                bytes,
            },
        }
    }

    /// Arrays that `of` makes are in memory that is free afterwards.
    pub(super) fn scoped<T>(&mut self, of: impl FnOnce(&mut Builder) -> T) -> T {
        let used = self.used;
        let made = of(self);
        self.used = used;
        made
    }

    pub(super) fn push(&mut self, call: Call) {
        self.work.calls.push(call);
    }
}
