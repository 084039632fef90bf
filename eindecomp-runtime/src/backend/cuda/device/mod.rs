//! The driver of real GPUs: CUDA through cudarc's bindings, whose libraries are loaded when they are first used.
//!
//! `detect` looks for them before anything else does: a library that is missing is an error, not a panic.
//! `modules` compiles kernels, `matmul` asks cuBLASLt once per shape how it multiplies, `commands` puts work on
//! streams. A list is captured once from the streams of all its devices, in thread-local mode, and replayed.
#![expect(
    unsafe_code,
    reason = "the CUDA driver is called through its C interface"
)]

mod commands;
mod detect;
mod matmul;
mod modules;

use std::collections::HashMap;
use std::ffi::c_void;
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};

use cudarc::driver::result;
use cudarc::driver::sys::{
    self, CUcontext, CUdevice, CUevent, CUevent_flags, CUgraphExec, CUmodule, CUresult, CUstream,
};

use super::call::Module;
use super::driver::{
    Address, Command, DeviceInfo, Driver, EventId, GpuError, GraphId, MemoryId, ModuleId, Place,
    Resource, StreamId,
};
use matmul::Matmuls;

/// GPUs of this machine.
pub struct Cuda {
    infos: Vec<DeviceInfo>,
    cards: Vec<Card>,
    /// The card of each device.
    card_of: Vec<usize>,
    /// Where compiled modules are kept.
    folder: Option<PathBuf>,
    state: Mutex<State>,
}

/// A physical device, with its primary context.
struct Card {
    device: CUdevice,
    context: CUcontext,
    arch: String,
}

// SAFETY: contexts may be used by any thread; they are made current where they are used.
unsafe impl Send for Card {}
// SAFETY: as above.
unsafe impl Sync for Card {}

/// What was given out, by handle.
#[derive(Default)]
struct State {
    memories: Vec<Option<Block>>,
    streams: Vec<Option<(u32, CUstream)>>,
    events: Vec<Option<CUevent>>,
    modules: Vec<CUmodule>,
    /// By card and key of the module.
    known: HashMap<(usize, String), ModuleId>,
    functions: HashMap<(ModuleId, &'static str), sys::CUfunction>,
    graphs: Vec<Option<(CUgraphExec, u32, CUstream)>>,
    matmuls: Matmuls,
}

// SAFETY: the handles may be used by any thread, one after the other: the state is behind a lock.
unsafe impl Send for State {}

/// A block of memory.
#[derive(Clone, Copy)]
struct Block {
    place: Place,
    start: u64,
    bytes: u64,
}

impl State {
    fn at(&self, at: Address, bytes: u64) -> Result<u64, GpuError> {
        let block = self.memories.get(at.memory.0 as usize).copied().flatten();
        match block {
            Some(block) if at.offset.saturating_add(bytes) <= block.bytes => {
                Ok(block.start + at.offset)
            }
            _ => Err(GpuError::Rule(format!(
                "{bytes} bytes at {at:?} are not there"
            ))),
        }
    }

    fn stream(&self, stream: StreamId) -> Result<(u32, CUstream), GpuError> {
        let known = self.streams.get(stream.0 as usize).copied().flatten();
        known.ok_or_else(|| GpuError::Rule(format!("{stream:?} was given back")))
    }

    fn event(&self, event: EventId) -> Result<CUevent, GpuError> {
        let known = self.events.get(event.0 as usize).copied().flatten();
        known.ok_or_else(|| GpuError::Rule(format!("{event:?} was given back")))
    }
}

/// What a result of the driver says.
fn message(error: CUresult) -> String {
    let error = result::DriverError(error);
    let name = error.error_name().map(|n| n.to_string_lossy().into_owned());
    let text = error
        .error_string()
        .map(|n| n.to_string_lossy().into_owned());
    match (name, text) {
        (Ok(name), Ok(text)) => format!("{name}: {text}"),
        _ => format!("error {}", error.0 as u32),
    }
}

/// A call for a device that the driver refused; or the device is lost.
fn done(device: u32, call: &'static str, code: CUresult) -> Result<(), GpuError> {
    match code {
        CUresult::CUDA_SUCCESS => Ok(()),
        CUresult::CUDA_ERROR_ILLEGAL_ADDRESS
        | CUresult::CUDA_ERROR_LAUNCH_FAILED
        | CUresult::CUDA_ERROR_LAUNCH_TIMEOUT
        | CUresult::CUDA_ERROR_HARDWARE_STACK_ERROR
        | CUresult::CUDA_ERROR_ILLEGAL_INSTRUCTION
        | CUresult::CUDA_ERROR_MISALIGNED_ADDRESS
        | CUresult::CUDA_ERROR_INVALID_ADDRESS_SPACE
        | CUresult::CUDA_ERROR_INVALID_PC
        | CUresult::CUDA_ERROR_ECC_UNCORRECTABLE
        | CUresult::CUDA_ERROR_DEVICE_UNAVAILABLE
        | CUresult::CUDA_ERROR_UNKNOWN => Err(GpuError::Lost {
            device,
            message: message(code),
        }),
        code => Err(GpuError::Call {
            call,
            message: message(code),
        }),
    }
}

impl Cuda {
    /// Every GPU of this machine. Compiled modules are kept in `folder`, if there is one.
    ///
    /// # Errors
    /// What is missing: the driver, a library, a version, a device.
    pub fn open(folder: Option<PathBuf>) -> Result<Cuda, GpuError> {
        let count = detect::devices()?;
        Cuda::on((0..count).collect(), folder)
    }

    /// `devices` virtual devices on the first GPU, each with its part of the memory: a test instrument, so that
    /// plans for several run on one.
    ///
    /// # Errors
    /// As [`Cuda::open`].
    pub fn virtual_devices(devices: u32, folder: Option<PathBuf>) -> Result<Cuda, GpuError> {
        detect::devices()?;
        Cuda::on(vec![0; devices.max(1) as usize], folder)
    }

    fn on(card_of: Vec<usize>, folder: Option<PathBuf>) -> Result<Cuda, GpuError> {
        let count = card_of.iter().max().map_or(0, |most| most + 1);
        let mut cards = Vec::new();
        for ordinal in 0..count {
            cards.push(Card::open(ordinal as i32)?);
        }
        let mut infos = Vec::new();
        for &card in &card_of {
            let peers = card_of
                .iter()
                .map(|&other| cards[card].reaches(&cards[other]));
            let share = card_of.iter().filter(|&&c| c == card).count() as u64;
            infos.push(DeviceInfo {
                name: cards[card].name(),
                card: card as u32,
                memory: cards[card].memory()? / share,
                arch: cards[card].arch.clone(),
                peers: peers.collect(),
            });
        }
        Ok(Cuda {
            infos,
            cards,
            card_of,
            folder,
            state: Mutex::default(),
        })
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn card(&self, device: u32) -> &Card {
        &self.cards[self.card_of[device as usize]]
    }

    /// Makes the context of a device the thread's.
    fn enter(&self, device: u32) -> Result<(), GpuError> {
        // SAFETY: the context is retained as long as the card.
        let set = unsafe { sys::cuCtxSetCurrent(self.card(device).context) };
        done(device, "cuCtxSetCurrent", set)
    }
}

impl Card {
    fn open(ordinal: i32) -> Result<Card, GpuError> {
        let at = ordinal as u32;
        let failed = |call| {
            move |error: result::DriverError| GpuError::Call {
                call,
                message: message(error.0),
            }
        };
        let device = result::device::get(ordinal).map_err(failed("cuDeviceGet"))?;
        // SAFETY: the device is one of the driver's; `drop` releases its context.
        let context = unsafe { result::primary_ctx::retain(device) };
        let context = context.map_err(failed("cuDevicePrimaryCtxRetain"))?;
        let mut card = Card {
            device,
            context,
            arch: String::new(),
        };
        let attribute = |which| {
            // SAFETY: as above.
            let value = unsafe { result::device::get_attribute(device, which) };
            value.map_err(failed("cuDeviceGetAttribute"))
        };
        let major =
            attribute(sys::CUdevice_attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR)?;
        let minor =
            attribute(sys::CUdevice_attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR)?;
        if major < 8 {
            return Err(GpuError::TooOld {
                library: "the GPU",
                found: format!("compute capability {major}.{minor} (device {at})"),
                needed: "compute capability 8.0".into(),
            });
        }
        card.arch = format!("sm_{major}{minor}");
        Ok(card)
    }

    fn name(&self) -> String {
        result::device::get_name(self.device).unwrap_or_else(|_| "GPU".into())
    }

    fn memory(&self) -> Result<u64, GpuError> {
        // SAFETY: the device is one of the driver's.
        let bytes = unsafe { result::device::total_mem(self.device) };
        let bytes = bytes.map_err(|error| GpuError::Call {
            call: "cuDeviceTotalMem",
            message: message(error.0),
        })?;
        Ok(bytes as u64)
    }

    /// May it copy straight to another card? If so, that is switched on.
    fn reaches(&self, other: &Card) -> bool {
        if self.device == other.device {
            return true;
        }
        let mut can = 0;
        // SAFETY: both devices are the driver's, both contexts are retained. That access is on already is no
        // error here.
        unsafe {
            let asked = sys::cuDeviceCanAccessPeer(&mut can, self.device, other.device);
            if asked != CUresult::CUDA_SUCCESS || can == 0 {
                return false;
            }
            if sys::cuCtxSetCurrent(self.context) != CUresult::CUDA_SUCCESS {
                return false;
            }
            matches!(
                sys::cuCtxEnablePeerAccess(other.context, 0),
                CUresult::CUDA_SUCCESS | CUresult::CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED
            )
        }
    }
}

impl Drop for Card {
    fn drop(&mut self) {
        // SAFETY: retained once by `open`.
        let _ = unsafe { result::primary_ctx::release(self.device) };
    }
}

impl Driver for Cuda {
    fn devices(&self) -> &[DeviceInfo] {
        &self.infos
    }

    fn allocate(&self, place: Place, bytes: u64) -> Result<MemoryId, GpuError> {
        let size = bytes.max(1) as usize;
        let (mut device_start, mut host_start) = (0, std::ptr::null_mut::<c_void>());
        // SAFETY: the results are written to places of ours; the context is current.
        let code = unsafe {
            match place {
                Place::Device(device) => {
                    self.enter(device)?;
                    sys::cuMemAlloc_v2(&mut device_start, size)
                }
                Place::Host => {
                    self.enter(0)?;
                    sys::cuMemHostAlloc(&mut host_start, size, sys::CU_MEMHOSTALLOC_PORTABLE)
                }
            }
        };
        if code == CUresult::CUDA_ERROR_OUT_OF_MEMORY {
            return Err(GpuError::OutOfMemory { place, bytes });
        }
        let (device, start) = match place {
            Place::Device(device) => (device, device_start),
            Place::Host => (0, host_start as u64),
        };
        done(device, "cuMemAlloc", code)?;
        let mut state = self.lock();
        state.memories.push(Some(Block {
            place,
            start,
            bytes,
        }));
        Ok(MemoryId(state.memories.len() as u32 - 1))
    }

    fn module(&self, device: u32, module: &Module) -> Result<ModuleId, GpuError> {
        self.load(device, module)
    }

    fn stream(&self, device: u32) -> Result<StreamId, GpuError> {
        self.enter(device)?;
        let mut stream = std::ptr::null_mut();
        let flags = sys::CUstream_flags::CU_STREAM_NON_BLOCKING as u32;
        // SAFETY: the context is current.
        done(device, "cuStreamCreate", unsafe {
            sys::cuStreamCreate(&mut stream, flags)
        })?;
        let mut state = self.lock();
        state.streams.push(Some((device, stream)));
        Ok(StreamId(state.streams.len() as u32 - 1))
    }

    fn event(&self, device: u32) -> Result<EventId, GpuError> {
        self.enter(device)?;
        let event = self.new_event(device)?;
        let mut state = self.lock();
        state.events.push(Some(event));
        Ok(EventId(state.events.len() as u32 - 1))
    }

    fn submit(&self, commands: &[Command]) -> Result<(), GpuError> {
        let mut state = self.lock();
        self.prepare(&mut state, commands)?;
        commands.iter().try_for_each(|c| self.enqueue(&state, c))
    }

    fn instantiate(&self, origin: StreamId, commands: &[Command]) -> Result<GraphId, GpuError> {
        let mut state = self.lock();
        self.prepare(&mut state, commands)?;
        let (device, stream) = state.stream(origin)?;
        let graph = self.capture(&state, origin, commands)?;
        let mut ready = std::ptr::null_mut();
        self.enter(device)?;
        // SAFETY: the graph was captured just now, and is not used any more when it is made ready.
        let code = unsafe {
            let code = sys::cuGraphInstantiateWithFlags(&mut ready, graph, 0);
            sys::cuGraphDestroy(graph);
            code
        };
        done(device, "cuGraphInstantiate", code)?;
        state.graphs.push(Some((ready, device, stream)));
        Ok(GraphId(state.graphs.len() as u32 - 1))
    }

    fn replay(&self, graph: GraphId) -> Result<(), GpuError> {
        let state = self.lock();
        let known = state.graphs.get(graph.0 as usize).copied().flatten();
        let (graph, device, stream) =
            known.ok_or_else(|| GpuError::Rule(format!("{graph:?} was given back")))?;
        self.enter(device)?;
        // SAFETY: both were given out and not given back.
        let code = unsafe { sys::cuGraphLaunch(graph, stream) };
        match done(device, "cuGraphLaunch", code) {
            Err(GpuError::Call { message, .. }) => Err(GpuError::Launch {
                device,
                what: "the list of a run".into(),
                message,
            }),
            other => other,
        }
    }

    fn synchronise(&self, stream: StreamId) -> Result<(), GpuError> {
        let (device, stream) = self.lock().stream(stream)?;
        self.enter(device)?;
        // SAFETY: the stream was given out; others may use the driver meanwhile.
        done(device, "cuStreamSynchronize", unsafe {
            sys::cuStreamSynchronize(stream)
        })
    }

    fn write(&self, to: Address, bytes: &[u8]) -> Result<(), GpuError> {
        let start = self.host(to, bytes.len())?;
        // SAFETY: as many bytes of host memory are there, and no command uses them now (contract of lists).
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), start, bytes.len()) }
        Ok(())
    }

    fn read(&self, from: Address, bytes: &mut [u8]) -> Result<(), GpuError> {
        let start = self.host(from, bytes.len())?;
        // SAFETY: as above.
        unsafe { std::ptr::copy_nonoverlapping(start, bytes.as_mut_ptr(), bytes.len()) }
        Ok(())
    }

    fn release(&self, resource: Resource) {
        let mut state = self.lock();
        // SAFETY: each was given out by this driver and is given back once; what fails now was lost before.
        unsafe {
            match resource {
                Resource::Memory(id) => {
                    let Some(block) = state.memories[id.0 as usize].take() else {
                        return;
                    };
                    match block.place {
                        Place::Device(device) if self.enter(device).is_ok() => {
                            sys::cuMemFree_v2(block.start);
                        }
                        Place::Host if self.enter(0).is_ok() => {
                            sys::cuMemFreeHost(block.start as *mut c_void);
                        }
                        _ => {}
                    }
                }
                Resource::Stream(id) => {
                    if let Some((_, stream)) = state.streams[id.0 as usize].take() {
                        sys::cuStreamDestroy_v2(stream);
                    }
                }
                Resource::Event(id) => {
                    if let Some(event) = state.events[id.0 as usize].take() {
                        sys::cuEventDestroy_v2(event);
                    }
                }
                Resource::Graph(id) => {
                    if let Some((graph, ..)) = state.graphs[id.0 as usize].take() {
                        sys::cuGraphExecDestroy(graph);
                    }
                }
            }
        }
    }
}

impl Cuda {
    fn host(&self, at: Address, bytes: usize) -> Result<*mut u8, GpuError> {
        let state = self.lock();
        let block = state.memories.get(at.memory.0 as usize).copied().flatten();
        match block.map(|b| b.place) {
            Some(Place::Host) => Ok(state.at(at, bytes as u64)? as *mut u8),
            _ => Err(GpuError::Rule(format!("{at:?} is not host memory"))),
        }
    }

    /// An event without a time; the context is current.
    fn new_event(&self, device: u32) -> Result<CUevent, GpuError> {
        let mut event = std::ptr::null_mut();
        let flags = CUevent_flags::CU_EVENT_DISABLE_TIMING as u32;
        // SAFETY: the result is written to a place of ours.
        done(device, "cuEventCreate", unsafe {
            sys::cuEventCreate(&mut event, flags)
        })?;
        Ok(event)
    }
}
