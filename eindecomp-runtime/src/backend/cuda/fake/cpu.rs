//! Kernels of the CPU backend as those of a device: one module per vertex, whose text names it.
//!
//! A launch has pointers to its windows first, then what the windows and the tile are, as numbers.
#![expect(
    unsafe_code,
    reason = "a kernel is given pointers into the memory of a fake device"
)]

use std::sync::{Arc, Mutex, PoisonError};

use eindecomp_core::ein::{DType, Value};
use eindecomp_core::graph::{BoundGraph, NodeId};
use eindecomp_core::plan::layout::Region;

use super::{HostArgument, Launched, Launcher};
use crate::backend::cpu::{Kernel, KernelError, KernelRunError, Scratch, copy};
use crate::backend::cuda::call::{
    Arg, Call, FAULT_WORDS, Launch, Module, Place, Pointer, Window, Work,
};
use crate::backend::cuda::vertex::{Generator, Vertex};
use crate::storage::row_major;
use crate::view::{View, ViewMut};

/// What computes a tile, folds and copies.
const TILE: &str = "tile";
const FOLD: &str = "fold";
const COPY: &str = "copy";

/// A generator and what launches its kernels.
#[derive(Default)]
pub struct CpuKernels {
    known: Mutex<Vec<Arc<Known>>>,
}

/// A vertex.
struct Known {
    kernel: Kernel,
    node: NodeId,
    /// Names and shapes of the operands' tensors.
    operands: Vec<(Arc<str>, Vec<usize>)>,
}

struct Compiled {
    known: Arc<Known>,
    module: Arc<Module>,
}

impl Generator for CpuKernels {
    fn vertex(&self, graph: &BoundGraph, node: NodeId) -> Result<Box<dyn Vertex>, KernelError> {
        let einsum = graph.node(node).einsum().ok_or(KernelError::Input(node))?;
        let tensor = |o: &eindecomp_core::ein::Operand| {
            (
                graph.node(o.node).name.clone(),
                graph.shape(o.node).to_vec(),
            )
        };
        let known = Arc::new(Known {
            kernel: Kernel::compile(graph, node)?,
            node,
            operands: einsum.operands.iter().map(tensor).collect(),
        });
        let mut all = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        all.push(known.clone());
        let module = Arc::new(Module {
            source: (all.len() - 1).to_string(),
            entries: vec![TILE, FOLD],
        });
        Ok(Box::new(Compiled { known, module }))
    }

    fn copy(&self, src: &Window, dst: &Window, region: &Region) -> Result<Work, KernelRunError> {
        let module = Arc::new(Module {
            source: COPY.into(),
            entries: vec![COPY],
        });
        let (src, dst) = (std::slice::from_ref(src), std::slice::from_ref(dst));
        Ok(launch(&module, COPY, region, src, dst, &[]))
    }
}

impl Vertex for Compiled {
    fn work(
        &self,
        tile: &Region,
        reads: &[Window],
        writes: &[Window],
        slots: &[Value],
    ) -> Result<Work, KernelRunError> {
        Ok(launch(&self.module, TILE, tile, reads, writes, slots))
    }

    fn fold(
        &self,
        partials: &[Window],
        dst: &Window,
        region: &Region,
    ) -> Result<Work, KernelRunError> {
        let dst = std::slice::from_ref(dst);
        Ok(launch(&self.module, FOLD, region, partials, dst, &[]))
    }

    fn fault(&self, record: &[u64; FAULT_WORDS]) -> Option<KernelRunError> {
        let [site, place, value] = *record;
        let ours = site.checked_sub(1)? >> 16 == u64::from(self.known.node.0);
        let operand = self.known.operands.get((place >> 32) as usize);
        let (tensor, shape) = operand.filter(|_| ours)?;
        let axis = place as u32 as usize;
        Some(KernelRunError::OutOfRange {
            tensor: tensor.clone(),
            axis,
            value: value as i64,
            extent: *shape.get(axis)?,
        })
    }

    fn describe(&self) -> String {
        self.known.kernel.describe()
    }
}

fn launch(
    module: &Arc<Module>,
    entry: &'static str,
    tile: &Region,
    reads: &[Window],
    writes: &[Window],
    slots: &[Value],
) -> Work {
    let pointer = |place, bytes| {
        Arg::Pointer(Pointer {
            place,
            offset: 0,
            bytes,
        })
    };
    let bytes = |w: &Window| w.region.volume() as u64 * w.dtype.size() as u64;
    let mut args = vec![Arg::Fault, number(reads.len()), number(writes.len())];
    let (from, to) = (reads.iter().enumerate(), writes.iter().enumerate());
    args.extend(from.map(|(n, w)| pointer(Place::Read(n), bytes(w))));
    args.extend(to.map(|(n, w)| pointer(Place::Write(n), bytes(w))));
    for window in reads.iter().chain(writes) {
        let dtype = DType::ALL.iter().position(|d| *d == window.dtype);
        args.push(number(dtype.unwrap_or(0)));
        region(&window.region, &mut args);
    }
    region(tile, &mut args);
    for slot in slots {
        args.push(match slot {
            Value::Float(x) => Arg::Float(*x),
            Value::Int(n) => Arg::Int(*n),
            // a pointer is what no number is
            Value::Bool(true) => pointer(Place::Write(0), 0),
            Value::Bool(false) => pointer(Place::Workspace, 0),
        });
    }
    let launch = Launch {
        module: module.clone(),
        entry,
        grid: [1; 3],
        block: [1; 3],
        shared_bytes: 0,
        args,
    };
    Work {
        calls: vec![Call::Launch(launch)],
        workspace_bytes: 0,
    }
}

fn number(n: usize) -> Arg {
    Arg::Int(n as i64)
}

fn region(region: &Region, args: &mut Vec<Arg>) {
    args.push(number(region.0.len()));
    args.extend(
        region
            .0
            .iter()
            .flat_map(|&(lo, hi)| [number(lo), number(hi)]),
    );
}

/// Arguments as they are read.
struct Arguments<'a>(std::slice::Iter<'a, HostArgument>);

impl Arguments<'_> {
    fn number(&mut self) -> Result<usize, String> {
        match self.0.next() {
            Some(HostArgument::Int(n)) => Ok(*n as usize),
            other => Err(format!("{other:?} where a number is expected")),
        }
    }

    fn pointer(&mut self) -> Result<(*mut u8, u64), String> {
        match self.0.next() {
            Some(HostArgument::Pointer(start, left)) => Ok((*start, *left)),
            other => Err(format!("{other:?} where a pointer is expected")),
        }
    }

    fn region(&mut self) -> Result<Region, String> {
        let rank = self.number()?;
        let range = |_| Ok((self.number()?, self.number()?));
        Ok(Region((0..rank).map(range).collect::<Result<_, String>>()?))
    }

    /// A window that starts at a pointer, whose memory holds it.
    fn window(&mut self, (start, left): (*mut u8, u64)) -> Result<Held, String> {
        let dtype = *DType::ALL
            .get(self.number()?)
            .ok_or("no such element type")?;
        let region = self.region()?;
        let bytes = region.volume() as u64 * dtype.size() as u64;
        if bytes > left || !(start as usize).is_multiple_of(dtype.size()) {
            return Err(format!("{dtype} {region} is not in its memory"));
        }
        Ok(Held {
            start,
            dtype,
            region,
        })
    }
}

struct Held {
    start: *mut u8,
    dtype: DType,
    region: Region,
}

impl Held {
    fn view(&self) -> View {
        let strides = row_major(&self.region.shape());
        // SAFETY: `Arguments::window` found the elements in memory of a fake device, which no other command
        // uses while this one runs, and which has bools of 0 and 1 only.
        unsafe { View::new(self.start, self.dtype, self.region.clone(), strides) }
    }

    fn view_mut(&self) -> ViewMut {
        let strides = row_major(&self.region.shape());
        // SAFETY: as above.
        unsafe { ViewMut::new(self.start, self.dtype, self.region.clone(), strides) }
    }
}

impl CpuKernels {
    fn known(&self, module: &Module) -> Result<Arc<Known>, String> {
        let all = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let number: Option<usize> = module.source.parse().ok();
        let known = number.and_then(|n| all.get(n)).cloned();
        known.ok_or_else(|| format!("error: `{}` is no vertex", module.source))
    }
}

impl Launcher for CpuKernels {
    fn compile(&self, module: &Module) -> Result<(), String> {
        match module.source == COPY {
            true => Ok(()),
            false => self.known(module).map(|_| ()),
        }
    }

    fn launch(&self, launched: &Launched<'_>) -> Result<(), String> {
        let mut args = Arguments(launched.arguments.iter());
        let (fault, left) = args.pointer()?;
        let (reads, writes) = (args.number()?, args.number()?);
        let pointers = (0..reads + writes).map(|_| args.pointer());
        let pointers = pointers.collect::<Result<Vec<_>, _>>()?;
        let held = pointers.into_iter().map(|p| args.window(p));
        let held = held.collect::<Result<Vec<_>, _>>()?;
        let tile = args.region()?;
        let slot = |argument: &HostArgument| match argument {
            HostArgument::Float(x) => Value::Float(*x),
            HostArgument::Int(n) => Value::Int(*n),
            HostArgument::Pointer(at, _) => {
                Value::Bool(held.get(reads).is_some_and(|w| w.start == *at))
            }
        };
        let slots: Vec<Value> = args.0.map(slot).collect();
        let views: Vec<View> = held[..reads].iter().map(Held::view).collect();
        let targets: Vec<ViewMut> = held[reads..].iter().map(Held::view_mut).collect();
        let mut scratch = Scratch::default();
        let done = match launched.entry {
            COPY => {
                copy(&views[0], &targets[0], &tile);
                Ok(())
            }
            FOLD => {
                let known = self.known(launched.module)?;
                known.kernel.fold(&views, &targets[0], &tile, &mut scratch)
            }
            _ => {
                let known = self.known(launched.module)?;
                let kernel = &known.kernel;
                let done = kernel.run(&tile, &views, &targets, &slots, &mut scratch);
                if let Err(KernelRunError::OutOfRange {
                    tensor,
                    axis,
                    value,
                    ..
                }) = &done
                {
                    let operand = known.operands.iter().position(|o| o.0 == *tensor);
                    let place = (operand.unwrap_or(0) as i64) << 32 | *axis as i64;
                    let record = [1 + (i64::from(known.node.0) << 16), place, *value];
                    return record_fault(fault, left, record);
                }
                done
            }
        };
        done.map_err(|error| error.to_string())
    }
}

/// Fills a fault record, unless another fault did.
fn record_fault(start: *mut u8, left: u64, record: [i64; FAULT_WORDS]) -> Result<(), String> {
    let start: *mut i64 = start.cast();
    if left < 8 * FAULT_WORDS as u64 || !start.is_aligned() {
        return Err("the fault record is not in its memory".into());
    }
    // SAFETY: as many words are in the memory of a fake device, which nothing else uses meanwhile.
    let words = unsafe { std::slice::from_raw_parts_mut(start, FAULT_WORDS) };
    if words[0] == 0 {
        words.copy_from_slice(&record);
    }
    Ok(())
}
