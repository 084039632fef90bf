//! NVRTC without a GPU: modules compiled to cubins for any architecture, and what `ptxas` says of them.
#![expect(unsafe_code, reason = "a C library is loaded and called")]

use std::ffi::{CString, c_char, c_int, c_void};
use std::path::Path;
use std::sync::Arc;

use libloading::Library;

use super::call::Module;
use super::function::{OPTIONS, PRELUDE};

/// Modules that are compiled as one unit.
const UNIT: usize = 16;

/// The library.
pub struct Nvrtc {
    library: Library,
}

/// What `ptxas` says of a kernel.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Figures {
    /// Number of its module.
    pub module: usize,
    /// Its name: number of the module in its unit, and entry.
    pub entry: String,
    /// Registers of a thread.
    pub registers: u32,
    /// Bytes of static shared memory of a block.
    pub shared: u32,
    /// Bytes of registers that are spilled to memory.
    pub spills: u32,
}

type Program = *mut c_void;

impl Nvrtc {
    /// The library of NVIDIA's Python package `nvidia-cuda-nvrtc-cu12`, which was unpacked into `folder`.
    ///
    /// # Errors
    /// A library that cannot be loaded.
    pub fn open(folder: &Path) -> Result<Nvrtc, String> {
        let path = folder.join("nvidia/cuda_nvrtc/lib/libnvrtc.so.12");
        // SAFETY: NVIDIA's compiler, whose constructors need nothing of this process.
        let library = unsafe { Library::new(&path) };
        let library = library.map_err(|e| format!("{}: {e}", path.display()))?;
        Ok(Nvrtc { library })
    }

    /// Compiles modules for an architecture (`sm_90`), some in one unit: the figures of every kernel.
    ///
    /// # Errors
    /// What the compiler says, warnings included.
    pub fn compile(&self, modules: &[Arc<Module>], arch: &str) -> Result<Vec<Figures>, String> {
        let mut all = Vec::new();
        for (first, modules) in modules.chunks(UNIT).enumerate() {
            let kernels = self.unit(&unit(modules), arch)?;
            all.extend(kernels.into_iter().map(|kernel| Figures {
                module: first * UNIT + kernel.module,
                ..kernel
            }));
        }
        Ok(all)
    }

    fn unit(&self, source: &str, arch: &str) -> Result<Vec<Figures>, String> {
        let text = CString::new(source).map_err(|e| e.to_string())?;
        let own = [
            format!("--gpu-architecture={arch}"),
            "--ptxas-options=-v".into(),
        ];
        let options = own.into_iter().chain(OPTIONS.map(str::to_owned));
        let options: Result<Vec<CString>, _> = options.map(CString::new).collect();
        let options = options.map_err(|e| e.to_string())?;
        let options: Vec<*const c_char> = options.iter().map(|o| o.as_ptr()).collect();
        // SAFETY: the functions have these signatures in every version since 11.1; strings end in 0 and
        // outlive the calls, and buffers have the sizes that the library says.
        let (failed, log, cubin) = unsafe {
            let create = self.library.get::<unsafe extern "C" fn(
                *mut Program,
                *const c_char,
                *const c_char,
                c_int,
                *const *const c_char,
                *const *const c_char,
            ) -> c_int>(b"nvrtcCreateProgram");
            let compile =
                self.library
                    .get::<unsafe extern "C" fn(Program, c_int, *const *const c_char) -> c_int>(
                        b"nvrtcCompileProgram",
                    );
            let destroy = self
                .library
                .get::<unsafe extern "C" fn(*mut Program) -> c_int>(b"nvrtcDestroyProgram");
            let (create, compile, destroy) = (
                create.map_err(|e| e.to_string())?,
                compile.map_err(|e| e.to_string())?,
                destroy.map_err(|e| e.to_string())?,
            );
            let mut program: Program = std::ptr::null_mut();
            let (none, name) = (std::ptr::null(), std::ptr::null());
            if create(&mut program, text.as_ptr(), name, 0, none, none) != 0 {
                return Err("NVRTC makes no program".into());
            }
            let failed = compile(program, options.len() as c_int, options.as_ptr());
            let log = self.text(program, b"nvrtcGetProgramLogSize", b"nvrtcGetProgramLog");
            let cubin = match failed {
                0 => self.text(program, b"nvrtcGetCUBINSize", b"nvrtcGetCUBIN"),
                _ => Ok(Vec::new()),
            };
            destroy(&mut program);
            (failed, log?, cubin?)
        };
        let log = String::from_utf8_lossy(&log);
        let log = log.trim_end_matches('\0');
        if failed != 0 || cubin.is_empty() || log.contains("warning") || log.contains("error") {
            return Err(format!("{arch}: {log}\n{source}"));
        }
        figures(log).ok_or_else(|| format!("{arch}: ptxas says what nobody understands:\n{log}"))
    }

    /// # Safety
    /// The functions give the size of something of the program, and the something.
    unsafe fn text(&self, program: Program, size: &[u8], get: &[u8]) -> Result<Vec<u8>, String> {
        // SAFETY: passed on to the caller.
        unsafe {
            let size = self
                .library
                .get::<unsafe extern "C" fn(Program, *mut usize) -> c_int>(size)
                .map_err(|e| e.to_string())?;
            let get = self
                .library
                .get::<unsafe extern "C" fn(Program, *mut c_char) -> c_int>(get)
                .map_err(|e| e.to_string())?;
            let mut length = 0;
            size(program, &mut length);
            let mut bytes = vec![0u8; length];
            get(program, bytes.as_mut_ptr().cast());
            Ok(bytes)
        }
    }
}

/// Modules in one text: namespaces, and names of entries that are different.
fn unit(modules: &[Arc<Module>]) -> String {
    let mut text = PRELUDE.to_owned();
    for (at, module) in modules.iter().enumerate() {
        let own = module.source.strip_prefix(PRELUDE);
        let mut own = own.unwrap_or(&module.source).to_owned();
        for entry in &module.entries {
            own = own.replace(&format!(" {entry}("), &format!(" m{at}_{entry}("));
        }
        text += &format!("namespace m{at} {{\n{own}}}\n");
    }
    text
}

/// The figures in the log of `ptxas -v`.
fn figures(log: &str) -> Option<Vec<Figures>> {
    let number = |line: &str, before: &str| -> Option<u32> {
        let words = line[..line.find(before)?].trim_end();
        words.rsplit(' ').next()?.parse().ok()
    };
    let mut all: Vec<Figures> = Vec::new();
    for line in log.lines() {
        if let Some((_, rest)) = line.split_once("Compiling entry function '") {
            let entry = rest.split('\'').next()?;
            let (module, _) = entry.strip_prefix('m')?.split_once('_')?;
            all.push(Figures {
                module: module.parse().ok()?,
                entry: entry.into(),
                ..Figures::default()
            });
        } else if line.contains("spill stores") {
            let kernel = all.last_mut()?;
            kernel.spills =
                number(line, " bytes spill stores")? + number(line, " bytes spill loads")?;
        } else if line.contains("Used ") {
            let kernel = all.last_mut()?;
            kernel.registers = number(line, " registers")?;
            kernel.shared = number(line, " bytes smem").unwrap_or(0);
        }
    }
    all.iter().all(|k| k.registers > 0).then_some(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_read() {
        let log = "ptxas info    : 1 bytes gmem
ptxas info    : Compiling entry function 'm3_reduce' for 'sm_90'
ptxas info    : Function properties for m3_reduce
ptxas         .     0 bytes stack frame, 8 bytes spill stores, 4 bytes spill loads
ptxas info    : Used 58 registers, used 1 barriers, 1024 bytes smem
ptxas info    : Compile time = 65.959 ms";
        let read = figures(log).expect("figures");
        let want = Figures {
            module: 3,
            entry: "m3_reduce".into(),
            registers: 58,
            shared: 1024,
            spills: 12,
        };
        assert_eq!(read, [want]);
    }
}
