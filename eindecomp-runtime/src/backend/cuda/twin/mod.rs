//! Generated kernels on the CPU: their text compiled as C++, with checks of every access to memory.
//!
//! `shim.h` makes CUDA C of it: threads of a block are fibers that run in random order from barrier to
//! barrier. A launch fails that leaves an array, reads what was never written, races, or has threads that
//! leave out a barrier. Needs a C++ compiler (`CXX`, `g++` or `clang++`).
#![expect(unsafe_code, reason = "compiled kernels are loaded and called")]

#[cfg(test)]
mod tests;

use std::cell::Cell;
use std::collections::HashMap;
use std::ffi::{c_char, c_int, c_uint};
use std::fmt::Write;
use std::path::PathBuf;
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use libloading::Library;

use super::call::Module;
use super::function::PRELUDE;

/// Modules that are compiled as one unit.
const UNIT: usize = 64;
/// Bytes of an error's text.
const TEXT: usize = 256;

/// Memory of this process that a kernel uses.
#[derive(Clone, Copy)]
pub struct Memory<'a> {
    /// From the argument's address to the end of its array.
    pub bytes: &'a [Cell<u8>],
    /// Per byte, whether it holds a value: not 0. Kept up to date by what kernels write.
    pub known: Option<&'a [Cell<u8>]>,
}

/// An argument.
#[derive(Clone, Copy)]
pub enum Argument<'a> {
    /// An address.
    Memory(Memory<'a>),
    /// An `i64`.
    Int(i64),
    /// An `f64`.
    Float(f64),
}

/// A kernel that is launched.
pub struct Launched<'a> {
    /// Its module, which was compiled.
    pub module: &'a Module,
    /// Its function.
    pub entry: &'static str,
    /// Blocks.
    pub blocks: u32,
    /// Threads of a block.
    pub threads: u32,
    /// In order.
    pub arguments: &'a [Argument<'a>],
    /// Decides the order of blocks and threads.
    pub seed: u64,
    /// Are races looked for?
    pub races: bool,
}

/// What the shim takes as an argument.
#[repr(C)]
struct Slot {
    integer: i64,
    real: f64,
    data: *mut u8,
    known: *mut u8,
    bytes: i64,
}

type Entry = unsafe extern "C" fn(
    *const Slot,
    i64,
    c_uint,
    c_uint,
    u64,
    c_int,
    c_int,
    *mut c_char,
    i64,
) -> c_int;

/// A compiled module: its library, and its number there.
type Place = (Arc<Library>, usize);

/// Compiled modules.
#[derive(Default)]
pub struct Twin {
    modules: Mutex<HashMap<Module, Place>>,
}

impl Twin {
    /// Compiles the modules that are not yet compiled, some at a time, on two threads.
    ///
    /// # Errors
    /// What the compiler says, or why it cannot be run.
    pub fn compile(&self, modules: &[Arc<Module>]) -> Result<(), String> {
        let mut new: Vec<&Module> = Vec::new();
        let known = self.modules.lock().unwrap_or_else(PoisonError::into_inner);
        for module in modules {
            if !known.contains_key(module) && !new.contains(&&**module) {
                new.push(module);
            }
        }
        drop(known);
        let units: Vec<&[&Module]> = new.chunks(UNIT.min(new.len().div_ceil(2).max(1))).collect();
        let next = AtomicUsize::new(0);
        let work = || {
            let mut made = Vec::new();
            while let Some(unit) = units.get(next.fetch_add(1, Ordering::Relaxed)) {
                made.push(library(unit).map(|library| (Arc::new(library), *unit)));
            }
            made
        };
        let made = std::thread::scope(|scope| {
            let other = scope.spawn(work);
            let mut made = work();
            made.extend(other.join().unwrap_or_default());
            made
        });
        let mut known = self.modules.lock().unwrap_or_else(PoisonError::into_inner);
        for unit in made {
            let (library, unit) = unit?;
            for (at, module) in unit.iter().enumerate() {
                known.insert((*module).clone(), (library.clone(), at));
            }
        }
        Ok(())
    }

    /// Runs a kernel to its end.
    ///
    /// # Errors
    /// A module that is not compiled; what a check found.
    pub fn launch(&self, launch: &Launched<'_>) -> Result<(), String> {
        let known = self.modules.lock().unwrap_or_else(PoisonError::into_inner);
        let place = known.get(launch.module).cloned();
        drop(known);
        let (library, at) = place.ok_or("the module is not compiled")?;
        let slot = |argument: &Argument<'_>| {
            let mut slot = Slot {
                integer: 0,
                real: 0.0,
                data: std::ptr::null_mut(),
                known: std::ptr::null_mut(),
                bytes: 0,
            };
            match argument {
                Argument::Int(n) => slot.integer = *n,
                Argument::Float(x) => slot.real = *x,
                Argument::Memory(memory) => {
                    slot.data = memory.bytes.as_ptr().cast::<u8>().cast_mut();
                    slot.bytes = memory.bytes.len() as i64;
                    if let Some(known) = memory.known {
                        assert_eq!(known.len(), memory.bytes.len());
                        slot.known = known.as_ptr().cast::<u8>().cast_mut();
                    }
                }
            }
            slot
        };
        let slots: Vec<Slot> = launch.arguments.iter().map(slot).collect();
        let mut text = [0u8; TEXT];
        let barriers = launch.module.source.contains("__syncthreads();");
        let name = format!("twin_{at}_{}", launch.entry);
        // SAFETY: the library defines the function with this signature (`unit`). It reads and writes no
        // byte but those of the arguments' cells, which this thread alone can reach while it runs, and
        // `text`.
        let failed = unsafe {
            let entry = library
                .get::<Entry>(name.as_bytes())
                .map_err(|e| e.to_string())?;
            entry(
                slots.as_ptr(),
                slots.len() as i64,
                launch.blocks,
                launch.threads,
                launch.seed,
                launch.races.into(),
                barriers.into(),
                text.as_mut_ptr().cast(),
                TEXT as i64,
            )
        };
        if failed == 0 {
            return Ok(());
        }
        let text = String::from_utf8_lossy(&text);
        let what = text.trim_end_matches('\0');
        Err(format!("{}: {what}", launch.entry))
    }
}

/// C++ of several modules.
fn unit(modules: &[&Module]) -> String {
    let mut text = format!("{}{PRELUDE}", include_str!("shim.h"));
    for (at, module) in modules.iter().enumerate() {
        let own = module.source.strip_prefix(PRELUDE);
        let own = own.unwrap_or(&module.source);
        let own = own.replace("extern \"C\" __global__", "static __global__");
        let _ = writeln!(text, "namespace m{at} {{\n{own}}}");
        for entry in &module.entries {
            let _ = writeln!(
                text,
                "extern \"C\" int twin_{at}_{entry}(const twin::Slot* slots, int64_t count, unsigned blocks, unsigned threads, uint64_t seed, int checked, int barriers, char* error, int64_t length) {{\n    return twin::launch(&m{at}::{entry}, slots, count, blocks, threads, seed, checked, barriers, error, length);\n}}"
            );
        }
    }
    text
}

fn library(modules: &[&Module]) -> Result<Library, String> {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let name = format!("eindecomp-twin-{}-{number}", std::process::id());
    let folder = std::env::temp_dir().join(name);
    std::fs::create_dir_all(&folder).map_err(|e| format!("{}: {e}", folder.display()))?;
    let made = compiled(&folder, &unit(modules));
    // What is loaded stays without its file.
    let library = made.and_then(|path| {
        // SAFETY: it runs no code when it is loaded but the constructors of its own empty variables.
        unsafe { Library::new(path) }.map_err(|e| e.to_string())
    });
    let removed = std::fs::remove_dir_all(&folder);
    removed.map_err(|e| format!("{}: {e}", folder.display()))?;
    library
}

fn compiled(folder: &std::path::Path, text: &str) -> Result<PathBuf, String> {
    let (source, library) = (folder.join("twin.cpp"), folder.join("twin.so"));
    std::fs::write(&source, text).map_err(|e| format!("{}: {e}", source.display()))?;
    let named = std::env::var("CXX").ok();
    let compilers = named.as_deref().into_iter().chain(["g++", "clang++"]);
    for compiler in compilers {
        let mut command = Command::new(compiler);
        command.args([
            "-std=c++17",
            "-O1",
            "-fPIC",
            "-shared",
            "-w",
            "-ffp-contract=off",
            "-o",
        ]);
        match command.arg(&library).arg(&source).output() {
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => continue,
            Err(e) => return Err(format!("{compiler}: {e}")),
            Ok(output) if output.status.success() => return Ok(library),
            Ok(output) => {
                let log = String::from_utf8_lossy(&output.stderr);
                return Err(format!("{compiler}:\n{log}"));
            }
        }
    }
    Err("there is no C++ compiler: set CXX, or install g++ or clang++".into())
}
