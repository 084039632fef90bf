//! Memory of the devices: allocations, and the window of each buffer in them.
//!
//! *Arena* mode: one allocation per device, in which every buffer is where the task graph says, so
//! that buffers that are never in use at once share bytes; a Move is a copy. *Shared* mode: all boxes of
//! one tensor are windows on one allocation, so that a Move between devices of this machine copies
//! nothing. *Private* mode: every buffer has an allocation of its own, poisoned before a run and
//! after its last use, so that a missing Move cannot go unseen.
#![expect(
    unsafe_code,
    reason = "device memory is raw: windows of several buffers share an allocation"
)]

use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::collections::HashSet;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};

use eindecomp_core::ein::DType;
use eindecomp_core::graph::BoundGraph;
use eindecomp_core::plan::layout::Region;
use eindecomp_core::task::arena::ALIGN;
use eindecomp_core::task::{Buffer, BufferId, BufferRole, TaskGraph, TaskKind};

use crate::error::RunError;
use crate::tensor::{Data, Tensor};
use crate::transport::Message;
use crate::view::{View, ViewMut};

/// How devices of one machine hold their buffers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MemoryMode {
    /// One allocation per device, the plan's arena: what is planned is what is used. Moves are copies.
    #[default]
    Arena,
    /// One allocation per tensor; Moves between devices are aliases.
    Shared,
    /// One allocation per buffer, poisoned when it holds nothing; Moves are copies.
    Private,
}

impl MemoryMode {
    /// Every mode.
    pub const ALL: [MemoryMode; 3] = [MemoryMode::Arena, MemoryMode::Shared, MemoryMode::Private];
}

/// A block of zeroed bytes.
struct Allocation {
    start: NonNull<u8>,
    layout: Layout,
    /// Whose memory it is; where memory is shared, of the first device that has a box of the tensor.
    device: u32,
    /// The end of what tasks were given of it so far.
    used: AtomicU64,
}

// SAFETY: an allocation is plain memory; who reads and writes it when is ordered by task
// dependencies (TaskGraph::verify: every element is written once, before any read; one of a state
// again, after every read of what was there; bytes are another buffer's only after the free of the one before).
unsafe impl Send for Allocation {}
// SAFETY: as above.
unsafe impl Sync for Allocation {}

impl Allocation {
    fn new(device: u32, bytes: u64) -> Result<Allocation, RunError> {
        let size = usize::try_from(bytes.max(1)).map_err(|_| RunError::OutOfMemory { bytes })?;
        let layout = Layout::from_size_align(size, ALIGN as usize)
            .map_err(|_| RunError::OutOfMemory { bytes })?;
        // SAFETY: the size is at least 1.
        let start =
            NonNull::new(unsafe { alloc_zeroed(layout) }).ok_or(RunError::OutOfMemory { bytes })?;
        Ok(Allocation {
            start,
            layout,
            device,
            used: AtomicU64::new(0),
        })
    }
}

impl Drop for Allocation {
    fn drop(&mut self) {
        // SAFETY: allocated in `new` with this layout, freed once.
        unsafe { dealloc(self.start.as_ptr(), self.layout) }
    }
}

/// Where a buffer's elements are: a window on an allocation.
#[derive(Clone)]
struct Place {
    allocation: usize,
    /// Bytes from the start of the allocation to the region's origin.
    offset: usize,
    dtype: DType,
    region: Region,
    /// In elements.
    strides: Vec<isize>,
}

impl Place {
    /// Bytes from the start of the allocation to the end of the window.
    fn end(&self) -> u64 {
        if self.region.is_empty() {
            return 0;
        }
        let axes = self.region.shape().into_iter().zip(&self.strides);
        let last: usize = axes.map(|(n, s)| (n - 1) * *s as usize).sum();
        (self.offset + (last + 1) * self.dtype.size()) as u64
    }
}

/// The memory of every buffer of a task graph.
pub struct Storage {
    allocations: Vec<Allocation>,
    places: Vec<Place>,
    mode: MemoryMode,
}

/// Partials that are final: they only go to owned tiles of their tensor, so that where memory is
/// shared they can be written in their place.
fn relayed(tasks: &TaskGraph) -> HashSet<BufferId> {
    let mut relayed = HashSet::new();
    let mut folded = HashSet::new();
    for task in &tasks.tasks {
        match &task.kind {
            TaskKind::Move { src, dst, .. } | TaskKind::Copy { src, dst, .. } => {
                let (from, to) = (tasks.buffer(*src), tasks.buffer(*dst));
                let stays =
                    to.role == BufferRole::Owned && (from.node, from.dtype) == (to.node, to.dtype);
                if stays {
                    relayed.insert(*src)
                } else {
                    folded.insert(*src)
                };
            }
            TaskKind::Aggregate { srcs, .. } => folded.extend(srcs),
            _ => {}
        }
    }
    relayed.retain(|b| !folded.contains(b));
    relayed
}

/// Per tensor: the one whose memory it is in; a version in place of another is in its memory.
fn memory(graph: &BoundGraph, tasks: &TaskGraph) -> Vec<usize> {
    let mut memory: Vec<usize> = (0..graph.nodes().len()).collect();
    for buffer in &tasks.buffers {
        if let BufferRole::Version(over) = buffer.role {
            memory[buffer.node.at()] = memory[tasks.buffer(over).node.at()];
        }
    }
    memory
}

/// Row-major strides in elements.
pub fn row_major(shape: &[usize]) -> Vec<isize> {
    let mut strides = vec![1; shape.len()];
    for axis in (1..shape.len()).rev() {
        strides[axis - 1] = strides[axis] * shape[axis] as isize;
    }
    strides
}

impl Storage {
    /// Allocates every buffer of `tasks` whose device is here. Those of other processes have no memory.
    ///
    /// # Errors
    /// [`RunError::OutOfMemory`].
    pub fn new(
        graph: &BoundGraph,
        tasks: &TaskGraph,
        mode: MemoryMode,
        here: &dyn Fn(u32) -> bool,
    ) -> Result<Storage, RunError> {
        let mut storage = Storage {
            allocations: Vec::new(),
            places: Vec::new(),
            mode,
        };
        match mode {
            MemoryMode::Arena => storage.arenas(tasks, here)?,
            MemoryMode::Shared => storage.tensors(graph, tasks)?,
            MemoryMode::Private => storage.buffers(tasks, here)?,
        }
        storage.allocations.shrink_to_fit();
        for (place, buffer) in storage.places.iter().zip(&tasks.buffers) {
            // zeros, before any task
            if buffer.role == BufferRole::State && here(buffer.device) {
                storage.give(place);
            }
        }
        Ok(storage)
    }

    /// One allocation per device.
    fn arenas(&mut self, tasks: &TaskGraph, here: &dyn Fn(u32) -> bool) -> Result<(), RunError> {
        for (device, &bytes) in (0..).zip(&tasks.arenas) {
            self.allocate(device, if here(device) { bytes } else { 0 })?;
        }
        for buffer in &tasks.buffers {
            self.places.push(Place {
                allocation: buffer.device as usize,
                offset: buffer.offset as usize,
                dtype: buffer.dtype,
                region: buffer.region.clone(),
                strides: row_major(&buffer.region.shape()),
            });
        }
        Ok(())
    }

    /// One allocation per buffer.
    fn buffers(&mut self, tasks: &TaskGraph, here: &dyn Fn(u32) -> bool) -> Result<(), RunError> {
        for buffer in &tasks.buffers {
            let bytes = if here(buffer.device) {
                buffer.bytes()
            } else {
                0
            };
            let place = match buffer.role {
                BufferRole::Version(over) => self.places[over.0 as usize].clone(),
                _ => self.alone(buffer, bytes)?,
            };
            self.places.push(place);
        }
        Ok(())
    }

    /// One allocation per tensor, and per partial that is not final.
    fn tensors(&mut self, graph: &BoundGraph, tasks: &TaskGraph) -> Result<(), RunError> {
        let mut whole: Vec<Option<usize>> = vec![None; graph.nodes().len()];
        let memory = memory(graph, tasks);
        let relayed = relayed(tasks);
        for (n, buffer) in tasks.buffers.iter().enumerate() {
            if buffer.role == BufferRole::Partial && !relayed.contains(&BufferId(n as u32)) {
                let place = self.alone(buffer, buffer.bytes())?;
                self.places.push(place);
                continue;
            }
            let slot = &mut whole[memory[buffer.node.at()]];
            let allocation = match *slot {
                Some(a) => a,
                None => self.allocate(buffer.device, graph.bytes(buffer.node))?,
            };
            *slot = Some(allocation);
            let strides = row_major(graph.shape(buffer.node));
            let corner = buffer.region.0.iter().zip(&strides);
            let first: usize = match buffer.region.is_empty() {
                true => 0,
                false => corner.map(|(r, s)| r.0 * *s as usize).sum(),
            };
            self.places.push(Place {
                allocation,
                offset: first * buffer.dtype.size(),
                dtype: buffer.dtype,
                region: buffer.region.clone(),
                strides,
            });
        }
        self.alias_partials(tasks);
        Ok(())
    }

    /// A buffer with an allocation of its own.
    fn alone(&mut self, buffer: &Buffer, bytes: u64) -> Result<Place, RunError> {
        Ok(Place {
            allocation: self.allocate(buffer.device, bytes)?,
            offset: 0,
            dtype: buffer.dtype,
            region: buffer.region.clone(),
            strides: row_major(&buffer.region.shape()),
        })
    }

    fn allocate(&mut self, device: u32, bytes: u64) -> Result<usize, RunError> {
        self.allocations.push(Allocation::new(device, bytes)?);
        Ok(self.allocations.len() - 1)
    }

    /// A partial that one Move fills becomes a window on the Move's source.
    fn alias_partials(&mut self, tasks: &TaskGraph) {
        for task in &tasks.tasks {
            let TaskKind::Move { src, dst, region } = &task.kind else {
                continue;
            };
            let buffer = tasks.buffer(*dst);
            if buffer.role != BufferRole::Partial || buffer.region != *region || region.is_empty() {
                continue;
            }
            let from = &self.places[src.0 as usize];
            let corner = region.0.iter().zip(&from.region.0).zip(&from.strides);
            let start: usize = corner.map(|((r, o), s)| (r.0 - o.0) * *s as usize).sum();
            let place = Place {
                offset: from.offset + start * from.dtype.size(),
                region: region.clone(),
                ..from.clone()
            };
            let old = std::mem::replace(&mut self.places[dst.0 as usize], place);
            if let Ok(small) = Allocation::new(buffer.device, 1) {
                self.allocations[old.allocation] = small;
            }
        }
    }

    /// The elements of a buffer, for reading.
    pub fn view(&self, buffer: BufferId) -> View {
        let place = &self.places[buffer.0 as usize];
        // SAFETY: the window lies inside the allocation (its region is inside the tensor's, the
        // strides are those of the allocation's shape), which lives as long as `self`; task
        // dependencies order reads after the writes.
        unsafe {
            View::new(
                self.start(place),
                place.dtype,
                place.region.clone(),
                place.strides.clone(),
            )
        }
    }

    /// The elements of a buffer, for writing.
    pub fn view_mut(&self, buffer: BufferId) -> ViewMut {
        let place = &self.places[buffer.0 as usize];
        // SAFETY: as `view`; tasks that may run at once write disjoint boxes.
        unsafe {
            ViewMut::new(
                self.start(place),
                place.dtype,
                place.region.clone(),
                place.strides.clone(),
            )
        }
    }

    /// Counts a buffer as in use, though a tensor of the caller takes its place.
    pub fn lend(&self, buffer: BufferId) {
        self.give(&self.places[buffer.0 as usize]);
    }

    /// Counts a window as in use.
    ///
    /// # Panics
    /// If it is of a device that is not here.
    fn give(&self, place: &Place) {
        let (allocation, end) = (&self.allocations[place.allocation], place.end());
        assert!(
            end <= allocation.layout.size() as u64,
            "device {} is not here",
            allocation.device
        );
        allocation.used.fetch_max(end, Ordering::Relaxed);
    }

    fn start(&self, place: &Place) -> *mut u8 {
        self.give(place);
        // SAFETY: the offset is inside the allocation, or 0.
        unsafe {
            self.allocations[place.allocation]
                .start
                .as_ptr()
                .add(place.offset)
        }
    }

    /// Are two buffers windows on one tensor, so that a box of one is the same box of the other?
    pub fn aliased(&self, a: BufferId, b: BufferId) -> bool {
        self.mode == MemoryMode::Shared
            && self.places[a.0 as usize].allocation == self.places[b.0 as usize].allocation
    }

    /// Per device, the bytes of its memory that tasks were given so far: of each allocation, up to the end
    /// of the last window.
    pub fn peaks(&self, devices: u32) -> Vec<u64> {
        let mut peaks = vec![0; devices as usize];
        for a in &self.allocations {
            peaks[a.device as usize] += a.used.load(Ordering::Relaxed);
        }
        peaks
    }

    /// Bytes of all allocations.
    pub fn bytes(&self) -> u64 {
        self.allocations
            .iter()
            .map(|a| a.layout.size() as u64)
            .sum()
    }

    /// Overwrites a buffer with a value that no computation makes by chance (NaN for floats).
    /// Does nothing where buffers share memory: others may be using the same bytes.
    pub fn poison(&self, buffer: BufferId) {
        if self.mode == MemoryMode::Private {
            let a = &self.allocations[self.places[buffer.0 as usize].allocation];
            let byte = if self.places[buffer.0 as usize].dtype == DType::Bool {
                1
            } else {
                0xFF
            };
            // SAFETY: a private buffer is its whole allocation, and no other task uses it now: it
            // is poisoned before the run starts and by its `Free`, after every reader.
            unsafe { a.start.as_ptr().write_bytes(byte, a.layout.size()) }
        }
    }
}

/// A host tensor, for reading.
pub fn host_view(tensor: &Tensor) -> View {
    box_view(tensor, Region::whole(tensor.shape()))
}

/// A host tensor whose elements are those of a box of its shape, for reading.
pub fn box_view(tensor: &Tensor, region: Region) -> View {
    debug_assert_eq!(region.volume(), tensor.data().len());
    let bytes = tensor.data().bytes();
    // SAFETY: the bytes are the tensor's elements, row-major; `Executor::execute` keeps it borrowed while the
    // run uses the view.
    unsafe {
        View::new(
            bytes.as_ptr(),
            tensor.dtype(),
            region,
            row_major(tensor.shape()),
        )
    }
}

/// A message whose bytes are the elements of a box, for reading.
///
/// # Panics
/// If they are not as many.
pub fn message_view(message: &Message, dtype: DType, region: Region) -> View {
    assert_eq!(region.volume() * dtype.size(), message.bytes().len());
    let strides = row_major(&region.shape());
    // SAFETY: the bytes are as many elements, aligned for any of them; a bool's are what another
    // view's were. Callers drop the view before the message.
    unsafe { View::new(message.bytes().as_ptr(), dtype, region, strides) }
}

/// A message whose bytes are the elements of a box, for writing.
///
/// # Panics
/// If they are not as many.
pub fn message_view_mut(message: &mut Message, dtype: DType, region: Region) -> ViewMut {
    assert_eq!(region.volume() * dtype.size(), message.bytes().len());
    let strides = row_major(&region.shape());
    // SAFETY: as `message_view`.
    unsafe { ViewMut::new(message.bytes_mut().as_mut_ptr(), dtype, region, strides) }
}

/// A host tensor, for writing.
pub fn host_view_mut(tensor: &mut Tensor) -> ViewMut {
    let region = Region::whole(tensor.shape());
    box_view_mut(tensor, region)
}

/// A host tensor whose elements are those of a box of its shape, for writing.
pub fn box_view_mut(tensor: &mut Tensor, region: Region) -> ViewMut {
    debug_assert_eq!(region.volume(), tensor.data().len());
    let (dtype, shape) = (tensor.dtype(), tensor.shape().to_vec());
    let start = match tensor.data_mut() {
        Data::F64(v) => v.as_mut_ptr().cast(),
        Data::F32(v) => v.as_mut_ptr().cast(),
        Data::BF16(v) => v.as_mut_ptr().cast(),
        Data::F16(v) => v.as_mut_ptr().cast(),
        Data::I64(v) => v.as_mut_ptr().cast(),
        Data::I32(v) => v.as_mut_ptr().cast(),
        Data::U32(v) => v.as_mut_ptr().cast(),
        Data::U8(v) => v.as_mut_ptr(),
        Data::Bool(v) => v.as_mut_ptr().cast(),
    };
    // SAFETY: as `host_view`; kernels store only 0 and 1 as bool.
    unsafe { ViewMut::new(start, dtype, region, row_major(&shape)) }
}
