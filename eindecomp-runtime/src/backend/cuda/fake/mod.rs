//! A driver without GPUs: it executes.
//!
//! Memory is bytes of this process. Commands are queued and done one by one, in any order that streams and
//! events permit, chosen at random by a seed, some when they are queued and some only when they are waited
//! for. Kernels are run by a [`Launcher`], matrix products by `matmul`. `shadow` looks at what every command
//! says it uses: two that may be done in either order and use the same bytes, one of them for writing, are
//! an error whichever came first; bytes of a buffer are poisoned when another one takes them, and may not be
//! read before they are written. `cpu` has kernels that need no compiler.
//!
//! It fails on demand ([`Failure`]) as drivers do.

mod cpu;
mod matmul;
mod memory;
mod shadow;
mod twin;

use std::collections::hash_map::Entry;
use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

pub use cpu::CpuKernels;
use memory::Memory;
use shadow::{Clock, Use};

use super::call::Module;
use super::driver::{
    Address, Argument, Command, DeviceInfo, Driver, EventId, GpuError, GraphId, MemoryId, ModuleId,
    Op, Place, Resource, StreamId, Touch,
};

/// What runs kernels in this process.
pub trait Launcher: Send + Sync {
    /// Takes a module in, as a compiler would.
    ///
    /// # Errors
    /// What a compiler would say.
    fn compile(&self, module: &Module) -> Result<(), String>;

    /// Runs a kernel to its end. Pointers are to memory of this process, of which the kernel uses what its
    /// command says.
    ///
    /// # Errors
    /// What a device would not survive.
    fn launch(&self, launch: &Launched<'_>) -> Result<(), String>;
}

/// A kernel that is launched.
pub struct Launched<'a> {
    /// Its module.
    pub module: &'a Module,
    /// Its function.
    pub entry: &'static str,
    /// Blocks.
    pub grid: [u32; 3],
    /// Threads of a block.
    pub block: [u32; 3],
    /// Bytes of dynamic shared memory.
    pub shared: u32,
    /// In order.
    pub arguments: &'a [HostArgument],
    /// Decides the order of its threads.
    pub seed: u64,
}

/// An argument of a kernel, with addresses of this process.
#[derive(Clone, Copy, Debug)]
pub enum HostArgument {
    /// A pointer, with the number of bytes of the array from there on.
    Pointer(*mut u8, u64),
    /// An `i64`.
    Int(i64),
    /// An `f64`.
    Float(f64),
}

/// What fails, once: the call or command of this number of its kind, from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// An allocation.
    Allocation(u64),
    /// The compilation of a module.
    Compilation(u64),
    /// The start of a list.
    Launch(u64),
    /// A command while it is done: the device is lost.
    Command(u64),
}

/// A driver whose devices are memory of this process.
pub struct Fake {
    devices: Vec<DeviceInfo>,
    launcher: Arc<dyn Launcher>,
    failure: Option<Failure>,
    state: Mutex<State>,
}

/// What is queued.
#[derive(Clone, Debug)]
enum Work {
    Command(Op, Arc<[Touch]>, u64),
    Record(usize),
    Wait(usize),
}

#[derive(Clone, Debug)]
struct Pending {
    work: Work,
    device: u32,
    /// What the host knew to be done when it queued this.
    known: Arc<Clock>,
}

/// What is done one after the other.
#[derive(Default)]
struct Line {
    queue: VecDeque<Pending>,
    clock: Clock,
}

struct State {
    memories: Vec<Option<Memory>>,
    modules: Vec<(u32, Module)>,
    graphs: Vec<Option<(StreamId, Arc<[Command]>)>>,
    /// The device of each stream.
    streams: Vec<u32>,
    events: u32,
    /// Line 0 is the host's; then those of the streams, then those of replays.
    lines: Vec<Line>,
    /// The line of each stream.
    line_of: Vec<usize>,
    /// Per event, the ticket of its last record.
    last: HashMap<EventId, usize>,
    /// Per ticket, what is known where it is waited for; `None` before its record is done.
    tickets: Vec<Option<Clock>>,
    epoch: u64,
    dice: u64,
    lost: Option<GpuError>,
    allocations: u64,
    launches: u64,
    commands: u64,
}

impl Fake {
    /// `devices` devices of `memory` bytes each, whose choices follow from `seed`. If they are not `linked`, they copy
    /// by way of the host.
    pub fn new(
        devices: u32,
        memory: u64,
        linked: bool,
        seed: u64,
        launcher: Arc<dyn Launcher>,
    ) -> Fake {
        let info = |device: u32| DeviceInfo {
            name: "fake".into(),
            card: device,
            memory,
            arch: "sm_80".into(),
            peers: (0..devices)
                .map(|other| linked || other == device)
                .collect(),
        };
        Fake {
            devices: (0..devices).map(info).collect(),
            launcher,
            failure: None,
            state: Mutex::new(State {
                memories: Vec::new(),
                modules: Vec::new(),
                graphs: Vec::new(),
                streams: Vec::new(),
                events: 0,
                lines: vec![Line::default()],
                line_of: Vec::new(),
                last: HashMap::new(),
                tickets: Vec::new(),
                epoch: 0,
                dice: seed,
                lost: None,
                allocations: 0,
                launches: 0,
                commands: 0,
            }),
        }
    }

    /// The same, where something fails.
    pub fn failing(mut self, failure: Failure) -> Fake {
        self.failure = Some(failure);
        self
    }

    /// Bytes that are allocated now, of devices and host.
    pub fn bytes(&self) -> u64 {
        self.lock()
            .memories
            .iter()
            .flatten()
            .map(Memory::size)
            .sum()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn fails(&self, failure: Failure) -> bool {
        self.failure == Some(failure)
    }

    /// Queues a list; `lines` has the line of each stream.
    fn queue(&self, state: &mut State, commands: &[Command], lines: &HashMap<StreamId, usize>) {
        let known = Arc::new(state.lines[0].clock.clone());
        for command in commands {
            let line = lines[&command.stream];
            let device = state.streams[command.stream.0 as usize];
            let work = match &command.op {
                Op::Record(event) => {
                    state.tickets.push(None);
                    state.last.insert(*event, state.tickets.len() - 1);
                    Work::Record(state.tickets.len() - 1)
                }
                Op::Wait(event) => match state.last.get(event) {
                    Some(&ticket) => Work::Wait(ticket),
                    // as CUDA has it: an event that was never recorded has happened
                    None => continue,
                },
                op => Work::Command(op.clone(), command.touches.clone().into(), state.epoch),
            };
            let known = known.clone();
            state.lines[line].queue.push_back(Pending {
                work,
                device,
                known,
            });
        }
    }

    /// Does some of what can be done.
    fn some(&self, state: &mut State) -> Result<(), GpuError> {
        let most = state.roll(16);
        for _ in 0..most {
            if !self.one(state)? {
                break;
            }
        }
        Ok(())
    }

    /// Does one thing; is there any?
    fn one(&self, state: &mut State) -> Result<bool, GpuError> {
        if let Some(lost) = &state.lost {
            return Err(lost.clone());
        }
        let ready = |line: &Line| match line.queue.front().map(|p| &p.work) {
            None => false,
            Some(Work::Wait(ticket)) => state.tickets[*ticket].is_some(),
            Some(_) => true,
        };
        let lines = state.lines.iter().enumerate();
        let ready: Vec<usize> = lines.filter(|(_, l)| ready(l)).map(|(at, _)| at).collect();
        if ready.is_empty() {
            return Ok(false);
        }
        let line = ready[state.roll(ready.len())];
        let Some(pending) = state.lines[line].queue.pop_front() else {
            return Ok(false);
        };
        let clock = &mut state.lines[line].clock;
        clock.join(&pending.known);
        match pending.work {
            Work::Record(ticket) => state.tickets[ticket] = Some(clock.clone()),
            Work::Wait(ticket) => {
                if let Some(theirs) = &state.tickets[ticket] {
                    clock.join(theirs);
                }
            }
            Work::Command(op, touches, epoch) => {
                clock.tick(line);
                let clock = clock.clone();
                let user = Use {
                    line,
                    at: clock.of(line),
                };
                let fails = self.fails(Failure::Command(state.commands));
                state.commands += 1;
                let done = match fails {
                    true => Err(GpuError::Lost {
                        device: pending.device,
                        message: "an illegal memory access was encountered".into(),
                    }),
                    false => self.command(state, &op, &touches, epoch, user, &clock),
                };
                if let Err(error) = done {
                    state.lost = Some(error.clone());
                    return Err(error);
                }
            }
        }
        Ok(true)
    }

    fn command(
        &self,
        state: &mut State,
        op: &Op,
        touches: &[Touch],
        epoch: u64,
        user: Use,
        clock: &Clock,
    ) -> Result<(), GpuError> {
        // What is read must be there before anything is written.
        for write in [false, true] {
            for touch in touches.iter().filter(|t| t.write == write) {
                let memory = memory(&mut state.memories, touch.at.memory)?;
                let told = memory.touch(touch, epoch, user, clock);
                told.map_err(|e| GpuError::Rule(format!("{op:?}: {e}")))?;
            }
        }
        match op {
            Op::Launch {
                module,
                entry,
                grid,
                block,
                shared,
                arguments,
            } => {
                let mut given = Vec::new();
                for argument in arguments {
                    given.push(match *argument {
                        Argument::Pointer(at, bytes) => {
                            let memory = memory(&mut state.memories, at.memory)?;
                            HostArgument::Pointer(memory.pointer(at.offset, bytes)?, bytes)
                        }
                        Argument::Int(n) => HostArgument::Int(n),
                        Argument::Float(x) => HostArgument::Float(x),
                    });
                }
                let launched = Launched {
                    module: &state.modules[module.0 as usize].1,
                    entry,
                    grid: *grid,
                    block: *block,
                    shared: *shared,
                    arguments: &given,
                    seed: state.dice,
                };
                let done = self.launcher.launch(&launched);
                done.map_err(|e| GpuError::Rule(format!("{entry}: {e}")))
            }
            Op::Matmul {
                gemm,
                operands: [a, b, c],
                ..
            } => {
                let left = memory(&mut state.memories, a.memory)?
                    .after(a.offset)?
                    .to_vec();
                let right = memory(&mut state.memories, b.memory)?
                    .after(b.offset)?
                    .to_vec();
                let result = memory(&mut state.memories, c.memory)?.after(c.offset)?;
                matmul::run(gemm, &left, &right, result)
            }
            Op::Copy { src, dst, bytes } => {
                let from = memory(&mut state.memories, src.memory)?.range(src.offset, *bytes)?;
                let bytes_ = from.to_vec();
                let to = memory(&mut state.memories, dst.memory)?.range(dst.offset, *bytes)?;
                to.copy_from_slice(&bytes_);
                Ok(())
            }
            Op::Zero { dst, bytes } => {
                let memory = memory(&mut state.memories, dst.memory)?;
                memory.range(dst.offset, *bytes)?.fill(0);
                Ok(())
            }
            Op::Record(_) | Op::Wait(_) => Ok(()),
        }
    }

    /// Uses host memory at once.
    fn host<T>(
        &self,
        at: Address,
        bytes: u64,
        write: bool,
        f: impl FnOnce(&mut [u8]) -> T,
    ) -> Result<T, GpuError> {
        let mut state = self.lock();
        let state = &mut *state;
        let clock = &mut state.lines[0].clock;
        clock.tick(0);
        let clock = clock.clone();
        let user = Use {
            line: 0,
            at: clock.of(0),
        };
        let memory = memory(&mut state.memories, at.memory)?;
        if memory.place != Place::Host {
            return Err(GpuError::Rule("the host uses memory of a device".into()));
        }
        let told = memory.bytes_used(at.offset, bytes, write, user, &clock);
        told.map_err(|e| GpuError::Rule(format!("the host: {e}")))?;
        Ok(f(memory.range(at.offset, bytes)?))
    }
}

impl State {
    /// A number below `n`, at least 1.
    fn roll(&mut self, n: usize) -> usize {
        self.dice = (self.dice.wrapping_mul(6364136223846793005)).wrapping_add(1442695040888963407);
        (self.dice >> 33) as usize % n.max(1)
    }

    /// Everything is done and known to be: what was used by whom does not matter any more.
    fn forget(&mut self) {
        self.lines.truncate(1 + self.streams.len());
        self.lines
            .iter_mut()
            .for_each(|line| line.clock = Clock::default());
        self.memories.iter_mut().flatten().for_each(Memory::forget);
        self.tickets.clear();
        self.last.clear();
    }
}

fn memory(memories: &mut [Option<Memory>], id: MemoryId) -> Result<&mut Memory, GpuError> {
    let memory = memories.get_mut(id.0 as usize).and_then(Option::as_mut);
    memory.ok_or_else(|| GpuError::Rule(format!("memory {} is used after it was given back", id.0)))
}

impl Driver for Fake {
    fn devices(&self) -> &[DeviceInfo] {
        &self.devices
    }

    fn allocate(&self, place: Place, bytes: u64) -> Result<MemoryId, GpuError> {
        let mut state = self.lock();
        let number = state.allocations;
        state.allocations += 1;
        let all = state.memories.iter().flatten().filter(|m| m.place == place);
        let used: u64 = all.map(Memory::size).sum();
        let most = match place {
            Place::Device(device) => self.devices[device as usize].memory,
            Place::Host => u64::MAX,
        };
        if self.fails(Failure::Allocation(number)) || used.saturating_add(bytes) > most {
            return Err(GpuError::OutOfMemory { place, bytes });
        }
        state.memories.push(Some(Memory::new(place, bytes)));
        Ok(MemoryId(state.memories.len() as u32 - 1))
    }

    fn module(&self, device: u32, module: &Module) -> Result<ModuleId, GpuError> {
        let mut state = self.lock();
        let known = state
            .modules
            .iter()
            .position(|(d, m)| *d == device && m == module);
        if let Some(known) = known {
            return Ok(ModuleId(known as u32));
        }
        let number = state.modules.len() as u64;
        let arch = self.devices[device as usize].arch.clone();
        if self.fails(Failure::Compilation(number)) {
            let log = "error: identifier is undefined".into();
            return Err(GpuError::Compile { arch, log });
        }
        let compiled = self.launcher.compile(module);
        compiled.map_err(|log| GpuError::Compile { arch, log })?;
        state.modules.push((device, module.clone()));
        Ok(ModuleId(number as u32))
    }

    fn stream(&self, device: u32) -> Result<StreamId, GpuError> {
        let mut state = self.lock();
        state.streams.push(device);
        // lines of replays come after those of streams, and there is none now
        state.lines.push(Line::default());
        let line = state.lines.len() - 1;
        state.line_of.push(line);
        Ok(StreamId(state.streams.len() as u32 - 1))
    }

    fn event(&self, _: u32) -> Result<EventId, GpuError> {
        let mut state = self.lock();
        state.events += 1;
        Ok(EventId(state.events - 1))
    }

    fn submit(&self, commands: &[Command]) -> Result<(), GpuError> {
        let mut state = self.lock();
        let streams = state.line_of.iter().enumerate();
        let lines = streams.map(|(s, &l)| (StreamId(s as u32), l)).collect();
        state.epoch += 1;
        self.queue(&mut state, commands, &lines);
        self.some(&mut state)
    }

    fn instantiate(&self, origin: StreamId, commands: &[Command]) -> Result<GraphId, GpuError> {
        let mut state = self.lock();
        state.graphs.push(Some((origin, commands.into())));
        Ok(GraphId(state.graphs.len() as u32 - 1))
    }

    fn replay(&self, graph: GraphId) -> Result<(), GpuError> {
        let mut state = self.lock();
        let number = state.launches;
        state.launches += 1;
        let graph = state.graphs.get(graph.0 as usize).cloned().flatten();
        let (origin, commands) = graph
            .ok_or_else(|| GpuError::Rule("a list is replayed after it was given back".into()))?;
        let device = state.streams[origin.0 as usize];
        if self.fails(Failure::Launch(number)) {
            return Err(GpuError::Launch {
                device,
                what: "the list of a run".into(),
                message: "too many resources requested for launch".into(),
            });
        }
        state.epoch += 1;
        let known = Arc::new(state.lines[0].clock.clone());
        let own = state.line_of[origin.0 as usize];
        let ticket = |state: &mut State, line: usize, record: bool, ticket: usize| {
            let work = match record {
                true => Work::Record(ticket),
                false => Work::Wait(ticket),
            };
            let known = known.clone();
            state.lines[line].queue.push_back(Pending {
                work,
                device,
                known,
            });
        };
        // after what is on the stream so far, before what comes later
        state.tickets.push(None);
        let start = state.tickets.len() - 1;
        ticket(&mut state, own, true, start);
        let mut lines = HashMap::new();
        for command in commands.iter() {
            if let Entry::Vacant(vacant) = lines.entry(command.stream) {
                state.lines.push(Line::default());
                let line = state.lines.len() - 1;
                vacant.insert(line);
                ticket(&mut state, line, false, start);
            }
        }
        self.queue(&mut state, &commands, &lines);
        let mut ends: Vec<usize> = lines.into_values().collect();
        ends.sort_unstable();
        for line in ends {
            state.tickets.push(None);
            let end = state.tickets.len() - 1;
            ticket(&mut state, line, true, end);
            ticket(&mut state, own, false, end);
        }
        self.some(&mut state)
    }

    fn synchronise(&self, stream: StreamId) -> Result<(), GpuError> {
        let mut state = self.lock();
        let line = state.line_of[stream.0 as usize];
        while !state.lines[line].queue.is_empty() {
            if !self.one(&mut state)? {
                return Err(GpuError::Rule("every stream waits for another one".into()));
            }
        }
        let theirs = state.lines[line].clock.clone();
        state.lines[0].clock.join(&theirs);
        if state.lines.iter().all(|l| l.queue.is_empty()) {
            let all = state
                .lines
                .iter()
                .all(|l| state.lines[0].clock.knows(&l.clock));
            if all {
                state.forget();
            }
        }
        Ok(())
    }

    fn write(&self, to: Address, bytes: &[u8]) -> Result<(), GpuError> {
        self.host(to, bytes.len() as u64, true, |held| {
            held.copy_from_slice(bytes)
        })
    }

    fn read(&self, from: Address, bytes: &mut [u8]) -> Result<(), GpuError> {
        self.host(from, bytes.len() as u64, false, |held| {
            bytes.copy_from_slice(held)
        })
    }

    fn release(&self, resource: Resource) {
        let mut state = self.lock();
        match resource {
            Resource::Memory(id) => state.memories[id.0 as usize] = None,
            Resource::Graph(id) => state.graphs[id.0 as usize] = None,
            Resource::Stream(_) | Resource::Event(_) => {}
        }
    }
}
