//! GPU kernels carried out on the CPU, task by task, without a driver: one buffer of checked memory per
//! buffer of the task graph.

use std::cell::Cell;
use std::collections::{BTreeMap, HashSet};
use std::sync::{Arc, LazyLock, Mutex, PoisonError};

use eindecomp_core::ein::DType;
use eindecomp_core::graph::{BoundGraph, NodeId};
use eindecomp_core::plan::layout::Region;
use eindecomp_core::reference::RefTensor;
use eindecomp_core::task::{BufferId, BufferRole, TaskGraph, TaskKind};
use eindecomp_runtime::backend::cuda::call::{
    Arg, Call, Compute, FAULT_WORDS, Gemm, Matrix, Module, Place, Pointer, Window, Work,
};
use eindecomp_runtime::backend::cuda::nvrtc::{Figures, Nvrtc};
use eindecomp_runtime::backend::cuda::twin::{Argument, Launched, Memory, Twin};
use eindecomp_runtime::backend::cuda::{GpuKernel, copy_call};
use eindecomp_runtime::{Data, Tensor};
use half::{bf16, f16};

use super::{to_reference, to_runtime};

/// The calls of every task of a graph.
pub struct Prepared {
    graph: Arc<BoundGraph>,
    tasks: TaskGraph,
    kernels: BTreeMap<NodeId, GpuKernel>,
    /// One per task: the weights' loads first.
    work: Vec<(TaskKind, Work)>,
}

/// Bytes whose values are known or not.
struct Bytes {
    memory: Vec<Cell<u8>>,
    known: Vec<Cell<u8>>,
    start: usize,
    length: usize,
}

/// Alignment of a device's memory.
const ALIGN: usize = 256;

impl Bytes {
    fn new(length: usize) -> Bytes {
        let memory = vec![Cell::new(0xa5); length + ALIGN];
        let start = memory.as_ptr().align_offset(ALIGN);
        Bytes {
            known: vec![Cell::new(0); memory.len()],
            memory,
            start,
            length,
        }
    }

    fn part(&self, offset: u64, bytes: u64) -> Memory<'_> {
        let (from, to) = (offset as usize, (offset + bytes) as usize);
        assert!(
            to <= self.length,
            "an array of {to} bytes in {}",
            self.length
        );
        let range = self.start + from..self.start + to;
        Memory {
            bytes: &self.memory[range.clone()],
            known: Some(&self.known[range]),
        }
    }

    fn all(&self) -> Memory<'_> {
        self.part(0, self.length as u64)
    }
}

impl Prepared {
    /// # Errors
    /// A vertex without a kernel, or windows that do not fit.
    pub fn new(graph: &Arc<BoundGraph>, tasks: TaskGraph) -> Result<Prepared, String> {
        Prepared::bounded(graph, tasks, None)
    }

    /// The same with so many elements of intermediate arrays at a time.
    ///
    /// # Errors
    /// As [`Prepared::new`].
    pub fn bounded(
        graph: &Arc<BoundGraph>,
        tasks: TaskGraph,
        staged: Option<usize>,
    ) -> Result<Prepared, String> {
        let mut kernels = BTreeMap::new();
        for (id, node) in graph.ids() {
            if node.einsum().is_some() {
                let kernel = match staged {
                    None => GpuKernel::compile(graph, id),
                    Some(staged) => GpuKernel::bounded(graph, id, staged),
                };
                kernels.insert(id, kernel.map_err(|e| format!("{}: {e}", node.name))?);
            }
        }
        let window = |b: &BufferId| Window {
            dtype: tasks.buffer(*b).dtype,
            region: tasks.buffer(*b).region.clone(),
        };
        let windows = |all: &[BufferId]| all.iter().map(window).collect::<Vec<_>>();
        let mut work = Vec::new();
        for task in tasks.load.iter().chain(&tasks.tasks) {
            let made = match &task.kind {
                TaskKind::Kernel {
                    node,
                    tile,
                    reads,
                    writes,
                    ..
                } => kernels[node].calls(tile, &windows(reads), &windows(writes), graph.slots()),
                TaskKind::Aggregate {
                    node,
                    srcs,
                    dst,
                    region,
                } => kernels[node].fold(&windows(srcs), &window(dst), region),
                TaskKind::Move { src, dst, region }
                | TaskKind::Copy { src, dst, region }
                | TaskKind::Keep { src, dst, region } => {
                    let call = copy_call(&window(src), &window(dst), region);
                    call.map(|call| Work {
                        calls: call.into_iter().collect(),
                        workspace_bytes: 0,
                    })
                }
                _ => Ok(Work::default()),
            };
            work.push((task.kind.clone(), made.map_err(|e| e.to_string())?));
        }
        Ok(Prepared {
            graph: graph.clone(),
            tasks,
            kernels,
            work,
        })
    }

    /// Every module that is launched.
    pub fn modules(&self) -> Vec<Arc<Module>> {
        let calls = self.work.iter().flat_map(|(_, work)| &work.calls);
        let modules = calls.filter_map(|call| match call {
            Call::Launch(launch) => Some(launch.module.clone()),
            Call::Matmul(_) => None,
        });
        modules.collect()
    }

    /// How many matrix products are asked of the library.
    pub fn products(&self) -> usize {
        let calls = self.work.iter().flat_map(|(_, work)| &work.calls);
        calls.filter(|c| matches!(c, Call::Matmul(_))).count()
    }

    /// The outputs, in order.
    ///
    /// # Errors
    /// An index out of range in the data; what a check of the kernels found.
    pub fn run(
        &self,
        twin: &Twin,
        inputs: &BTreeMap<Arc<str>, RefTensor>,
        seed: u64,
    ) -> Result<Vec<RefTensor>, String> {
        let buffers: Vec<Bytes> = (self.tasks.buffers.iter())
            .map(|b| Bytes::new(b.bytes() as usize))
            .collect();
        let inputs: BTreeMap<&Arc<str>, Tensor> =
            inputs.iter().map(|(n, t)| (n, to_runtime(t))).collect();
        let mut outputs: Vec<Tensor> = (self.graph.outputs().iter())
            .map(|o| {
                Tensor::zeros(
                    self.graph.node(o.node).dtype,
                    self.graph.shape(o.node).to_vec(),
                )
            })
            .collect();
        let fault = Bytes::new(8 * FAULT_WORDS);
        fault.all().bytes.iter().for_each(|b| b.set(0));
        for (at, (kind, work)) in self.work.iter().enumerate() {
            match kind {
                TaskKind::Load { dst } => {
                    let buffer = self.tasks.buffer(*dst);
                    let tensor = &inputs[&self.graph.node(buffer.node).name];
                    let memory = self.memory(&buffers, *dst).all();
                    let places = places(tensor.shape(), &buffer.region).zip(0..);
                    let size = buffer.dtype.size();
                    for (from, to) in places {
                        let element = &tensor.data().bytes()[from * size..][..size];
                        for (n, &byte) in element.iter().enumerate() {
                            memory.bytes[to * size + n].set(byte);
                        }
                    }
                    set_known(&memory);
                }
                TaskKind::Gather {
                    src,
                    output,
                    region,
                } => {
                    let buffer = self.tasks.buffer(*src);
                    let memory = self.memory(&buffers, *src).all();
                    gather(&memory, &buffer.region, &mut outputs[*output], region)?;
                }
                _ => {}
            }
            let workspace = Bytes::new(work.workspace_bytes as usize);
            let (reads, writes) = (kind.reads(), kind.writes());
            let memory = |p: Pointer| match p.place {
                Place::Read(n) => self.memory(&buffers, reads[n]).part(p.offset, p.bytes),
                Place::Write(n) => self.memory(&buffers, writes[n]).part(p.offset, p.bytes),
                Place::Workspace => workspace.part(p.offset, p.bytes),
            };
            for (n, call) in work.calls.iter().enumerate() {
                match call {
                    Call::Matmul(gemm) => {
                        product(gemm, &memory).map_err(|e| format!("{kind:?}: {e}"))?;
                    }
                    Call::Launch(launch) => {
                        let argument = |arg: &Arg| match *arg {
                            Arg::Pointer(p) => Argument::Memory(memory(p)),
                            Arg::Fault => Argument::Memory(fault.all()),
                            Arg::Int(n) => Argument::Int(n),
                            Arg::Float(x) => Argument::Float(x),
                        };
                        let arguments: Vec<Argument<'_>> =
                            launch.args.iter().map(argument).collect();
                        let launched = Launched {
                            module: &launch.module,
                            entry: launch.entry,
                            blocks: launch.grid[0],
                            threads: launch.block[0],
                            arguments: &arguments,
                            seed: seed.wrapping_add((at * 64 + n) as u64),
                            races: true,
                        };
                        twin.launch(&launched)
                            .map_err(|e| format!("{kind:?}: {e}\n{}", launch.module.source))?;
                    }
                }
            }
            let word = |n: usize| {
                let bytes = fault.all().bytes[8 * n..][..8].iter().map(Cell::get);
                u64::from_ne_bytes(bytes.collect::<Vec<_>>().try_into().expect("8 bytes"))
            };
            let record: [u64; FAULT_WORDS] = std::array::from_fn(word);
            if record[0] != 0 {
                let told = self.kernels.values().find_map(|k| k.fault(&record));
                return Err(told.map_or(format!("no kernel knows {record:?}"), |e| e.to_string()));
            }
        }
        Ok(outputs.iter().map(to_reference).collect())
    }

    /// A buffer's memory: that of the version before, for one in its place.
    fn memory<'a>(&self, buffers: &'a [Bytes], mut id: BufferId) -> &'a Bytes {
        while let BufferRole::Version(before) = self.tasks.buffer(id).role {
            id = before;
        }
        &buffers[id.0 as usize]
    }
}

/// Is every element within `tolerance` of the wanted one, or as rounded?
///
/// # Errors
/// The first that is not.
pub fn near(got: &[RefTensor], want: &[RefTensor], tolerance: f64) -> Result<(), String> {
    for (n, (got, want)) in got.iter().zip(want).enumerate() {
        let rounded = to_reference(&to_runtime(want));
        for (at, (g, w)) in got.to_f64().into_iter().zip(rounded.to_f64()).enumerate() {
            let same = g == w || g.is_nan() && w.is_nan();
            if !same
                && (g - w).abs().partial_cmp(&(tolerance * w.abs().max(1.0)))
                    != Some(std::cmp::Ordering::Less)
            {
                return Err(format!("output {n}[{at}] is {g}, not {w}"));
            }
        }
    }
    Ok(())
}

/// Architectures, and of how many modules one is compiled for them; `EINDECOMP_GPU_ARCHS` names those that all
/// are compiled for (`sm_80,sm_90,sm_100`).
const ARCHITECTURES: [(&str, usize); 3] = [("sm_90", 4), ("sm_80", 32), ("sm_100", 32)];
/// Bytes of registers that these kernels may spill, as some were seen to: those that divide 64-bit numbers or have f64 (where
/// calls are the likely cause, which was not proved), and reductions across threads. No other kernel spills.
const SAVED: u32 = 64;

/// Compiles modules for GPUs, each once per process, and looks at the figures of their kernels; how many were
/// new. Without NVRTC (`EINDECOMP_NVRTC`: where its Python package is unpacked) it says so.
///
/// # Panics
/// Where a kernel does not compile without warnings, spills registers, or needs more than a block has.
pub fn compiles(modules: &[Arc<Module>]) -> usize {
    static NVRTC: LazyLock<Option<Nvrtc>> = LazyLock::new(|| {
        let Some(folder) = std::env::var_os("EINDECOMP_NVRTC") else {
            println!("EINDECOMP_NVRTC is not set: kernels are not compiled for GPUs");
            return None;
        };
        Some(Nvrtc::open(folder.as_ref()).unwrap_or_else(|e| panic!("{e}")))
    });
    static DONE: LazyLock<Mutex<HashSet<Arc<Module>>>> = LazyLock::new(Mutex::default);
    let Some(nvrtc) = &*NVRTC else { return 0 };
    let mut done = DONE.lock().unwrap_or_else(PoisonError::into_inner);
    let new = modules.iter().filter(|m| done.insert((*m).clone()));
    let new: Vec<Arc<Module>> = new.cloned().collect();
    drop(done);
    let named = std::env::var("EINDECOMP_GPU_ARCHS").ok();
    let architectures = match &named {
        Some(named) => named.split(',').map(|arch| (arch, 1)).collect(),
        None => ARCHITECTURES.to_vec(),
    };
    for (arch, every) in architectures {
        let some: Vec<Arc<Module>> = new.iter().step_by(every).cloned().collect();
        let figures = nvrtc.compile(&some, arch).unwrap_or_else(|e| panic!("{e}"));
        assert_eq!(figures.len(), some.len());
        for kernel in &figures {
            let module = &some[kernel.module];
            let own = module.source.find("extern \"C\"").unwrap_or(0);
            let calls = ["_rest /= ", "double"].map(|what| module.source[own..].contains(what));
            let reduces = kernel.entry.ends_with("_reduce");
            let saved = match calls.contains(&true) || reduces {
                true => SAVED,
                false => 0,
            };
            let fits = kernel.registers <= 255 && kernel.shared <= 48 << 10;
            let fits = fits && kernel.spills <= saved;
            assert!(fits, "{arch}: {kernel:?}\n{}", module.source);
        }
        let most = |figure: fn(&Figures) -> u32| figures.iter().map(figure).max().unwrap_or(0);
        println!(
            "{arch}: {} kernels of {} modules without warnings, at most {} registers and {} bytes of shared memory; \
             {} spill, at most {} bytes",
            figures.len(),
            some.len(),
            most(|k| k.registers),
            most(|k| k.shared),
            figures.iter().filter(|k| k.spills > 0).count(),
            most(|k| k.spills),
        );
    }
    new.len()
}

fn set_known(memory: &Memory<'_>) {
    memory.known.into_iter().flatten().for_each(|k| k.set(1));
}

/// Places in a dense tensor of the elements of a box, in order.
fn places(shape: &[usize], region: &Region) -> impl Iterator<Item = usize> {
    let mut all = vec![0];
    for (&extent, &(lo, hi)) in shape.iter().zip(&region.0) {
        let along = |&at: &usize| (lo..hi).map(move |i| at * extent + i);
        all = all.iter().flat_map(along).collect();
    }
    all.into_iter()
}

fn gather(
    memory: &Memory<'_>,
    window: &Region,
    output: &mut Tensor,
    region: &Region,
) -> Result<(), String> {
    let inner = region.0.iter().zip(&window.0);
    let inner = Region(inner.map(|(r, w)| (r.0 - w.0, r.1 - w.0)).collect());
    let held = window.shape();
    let from = places(&held, &inner);
    let (dtype, shape) = (output.dtype(), output.shape().to_vec());
    let size = dtype.size();
    let mut bytes = output.data().bytes().to_vec();
    for (from, to) in from.zip(places(&shape, region)) {
        for n in 0..size {
            if memory
                .known
                .is_some_and(|known| known[from * size + n].get() == 0)
            {
                return Err("a result that was never written".into());
            }
            bytes[to * size + n] = memory.bytes[from * size + n].get();
        }
    }
    let data = Data::from_bytes(dtype, &bytes).ok_or("a result that is no tensor")?;
    *output = Tensor::new(shape, data).ok_or("a result that is no tensor")?;
    Ok(())
}

/// A matrix product, element by element.
fn product<'a>(gemm: &Gemm, memory: &dyn Fn(Pointer) -> Memory<'a>) -> Result<(), String> {
    let [a, b, c] = [&gemm.a, &gemm.b, &gemm.c].map(|m| memory(m.start));
    for (matrix, rows, columns) in [
        (&gemm.a, gemm.m, gemm.k),
        (&gemm.b, gemm.k, gemm.n),
        (&gemm.c, gemm.m, gemm.n),
    ] {
        let least = if matrix.transposed { rows } else { columns };
        if matrix.leading < least || matrix.stride < 0 {
            return Err(format!("a matrix of {rows} by {columns} in {gemm:?}"));
        }
    }
    for batch in 0..gemm.batch {
        for row in 0..gemm.m {
            for column in 0..gemm.n {
                let mut sum = 0.0;
                for k in 0..gemm.k {
                    let x = element(&a, &gemm.a, [batch, row, k])?;
                    let y = element(&b, &gemm.b, [batch, k, column])?;
                    sum = match gemm.compute {
                        Compute::F64 => sum + x * y,
                        Compute::F32 => (sum as f32 + x as f32 * y as f32).into(),
                    };
                }
                set(&c, &gemm.c, [batch, row, column], sum)?;
            }
        }
    }
    Ok(())
}

fn place(
    memory: &Memory<'_>,
    m: &Matrix,
    [batch, row, column]: [i64; 3],
) -> Result<std::ops::Range<usize>, String> {
    let (slow, fast) = if m.transposed {
        (column, row)
    } else {
        (row, column)
    };
    let at = (batch * m.stride + slow * m.leading + fast) as usize * m.dtype.size();
    let range = at..at + m.dtype.size();
    match range.end <= memory.bytes.len() {
        true => Ok(range),
        false => Err(format!(
            "{m:?} leaves its array of {} bytes",
            memory.bytes.len()
        )),
    }
}

fn element(memory: &Memory<'_>, m: &Matrix, at: [i64; 3]) -> Result<f64, String> {
    let range = place(memory, m, at)?;
    let known = memory.known.map(|known| &known[range.clone()]);
    if known.into_iter().flatten().any(|k| k.get() == 0) {
        return Err(format!("{m:?} holds what was never written"));
    }
    let bytes: Vec<u8> = memory.bytes[range].iter().map(Cell::get).collect();
    let of = Data::from_bytes(m.dtype, &bytes).ok_or("no element")?;
    Ok(match of {
        Data::F64(x) => x[0],
        Data::F32(x) => x[0].into(),
        Data::BF16(x) => x[0].into(),
        Data::F16(x) => x[0].into(),
        _ => return Err(format!("a product of {}", m.dtype)),
    })
}

fn set(memory: &Memory<'_>, m: &Matrix, at: [i64; 3], x: f64) -> Result<(), String> {
    let range = place(memory, m, at)?;
    let bytes = match m.dtype {
        DType::F64 => x.to_ne_bytes().to_vec(),
        DType::F32 => (x as f32).to_ne_bytes().to_vec(),
        DType::BF16 => bf16::from_f64(x).to_ne_bytes().to_vec(),
        DType::F16 => f16::from_f64(x).to_ne_bytes().to_vec(),
        _ => return Err(format!("a product of {}", m.dtype)),
    };
    for (cell, byte) in memory.bytes[range.clone()].iter().zip(bytes) {
        cell.set(byte);
    }
    for known in memory.known.iter().flat_map(|known| &known[range.clone()]) {
        known.set(1);
    }
    Ok(())
}
