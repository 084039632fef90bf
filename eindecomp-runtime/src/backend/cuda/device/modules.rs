//! Kernels: compiled by NVRTC for the device at hand, and kept on disk.

use std::ffi::{CString, c_char};
use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use cudarc::driver::sys::{self, CUmodule};
use cudarc::nvrtc;
use sha2::{Digest, Sha256};

use super::{Cuda, detect, done};
use crate::backend::cuda::call::Module;
use crate::backend::cuda::driver::{GpuError, ModuleId};
use crate::backend::cuda::function::OPTIONS;

/// Bytes of the hash in front of a kept file.
const HASH: usize = 32;

impl Cuda {
    /// Compiles and loads a module, unless it is known or kept.
    pub(super) fn load(&self, device: u32, module: &Module) -> Result<ModuleId, GpuError> {
        let card = self.card_of[device as usize];
        let arch = &self.cards[card].arch;
        let key = key(arch, detect::compiler(), &module.source);
        if let Some(&known) = self.lock().known.get(&(card, key.clone())) {
            return Ok(known);
        }
        let kept = self.folder.as_deref().and_then(|folder| read(folder, &key));
        let image = match kept {
            Some(image) => image,
            None => {
                let image = compile(arch, &module.source)?;
                if let Some(folder) = &self.folder
                    && let Err(error) = store(folder, &key, &image)
                {
                    tracing::warn!(%error, folder = %folder.display(), "a compiled kernel is not kept");
                }
                image
            }
        };
        self.enter(device)?;
        let mut loaded: CUmodule = std::ptr::null_mut();
        // SAFETY: the image is what the compiler made.
        done(device, "cuModuleLoadData", unsafe {
            sys::cuModuleLoadData(&mut loaded, image.as_ptr().cast())
        })?;
        let mut functions = Vec::new();
        for &entry in &module.entries {
            let name = CString::new(entry).unwrap_or_default();
            let mut function = std::ptr::null_mut();
            // SAFETY: the module was loaded just now.
            done(device, "cuModuleGetFunction", unsafe {
                sys::cuModuleGetFunction(&mut function, loaded, name.as_ptr())
            })?;
            functions.push((entry, function));
        }
        let mut state = self.lock();
        let id = ModuleId(state.modules.len() as u32);
        state.modules.push(loaded);
        state.known.insert((card, key), id);
        let functions = functions.into_iter();
        state
            .functions
            .extend(functions.map(|(entry, f)| ((id, entry), f)));
        Ok(id)
    }
}

/// What a compiled module depends on, as a hash.
fn key(arch: &str, (major, minor): (i32, i32), source: &str) -> String {
    let options = OPTIONS.join(" ");
    let all = format!("nvrtc {major}.{minor} {arch} {options}\n{source}");
    let hash = Sha256::digest(all.as_bytes());
    hash.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn compile(arch: &str, source: &str) -> Result<Vec<u8>, GpuError> {
    let failed = |log: String| GpuError::Compile {
        arch: arch.into(),
        log,
    };
    let text = CString::new(source).map_err(|e| failed(e.to_string()))?;
    let told = |e: nvrtc::result::NvrtcError| failed(e.to_string());
    let program = nvrtc::result::create_program(&text, None).map_err(told)?;
    let mut options = vec![format!("--gpu-architecture={arch}")];
    options.extend(OPTIONS.iter().map(|option| option.to_string()));
    // SAFETY: the program was created just now, and is destroyed behind its last use.
    unsafe {
        let compiled = nvrtc::result::compile_program(program, &options);
        let image = match compiled {
            Err(error) => Err(failed(match nvrtc::result::get_program_log(program) {
                Ok(log) => {
                    let bytes = log.into_iter().map(|c| c as u8).filter(|c| *c != 0);
                    String::from_utf8_lossy(&bytes.collect::<Vec<u8>>()).into_owned()
                }
                Err(_) => error.to_string(),
            })),
            Ok(()) => binary(program).map_err(told),
        };
        let _ = nvrtc::result::destroy_program(program);
        image
    }
}

/// # Safety
/// The program is compiled for a real architecture.
unsafe fn binary(program: nvrtc::sys::nvrtcProgram) -> Result<Vec<u8>, nvrtc::result::NvrtcError> {
    let mut size = 0;
    // SAFETY: the caller's; the buffer has the size that the compiler says.
    unsafe {
        nvrtc::sys::nvrtcGetCUBINSize(program, &mut size).result()?;
        let mut image = vec![0u8; size];
        nvrtc::sys::nvrtcGetCUBIN(program, image.as_mut_ptr().cast::<c_char>()).result()?;
        Ok(image)
    }
}

/// A kept module, if it is there and whole.
fn read(folder: &Path, key: &str) -> Option<Vec<u8>> {
    let bytes = fs::read(folder.join(format!("{key}.cubin"))).ok()?;
    let (hash, image) = bytes.split_at_checked(HASH)?;
    (Sha256::digest(image).as_slice() == hash).then(|| image.to_vec())
}

/// Keeps a module, whole or not at all.
fn store(folder: &Path, key: &str, image: &[u8]) -> io::Result<()> {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    fs::create_dir_all(folder)?;
    let (process, count) = (std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
    let temporary = folder.join(format!(".{key}.{process}.{count}.tmp"));
    let mut file = OpenOptions::new()
        .write(true)
        .create_new(true)
        .open(&temporary)?;
    let written = file
        .write_all(&Sha256::digest(image))
        .and_then(|()| file.write_all(image))
        .and_then(|()| file.sync_all())
        .and_then(|()| fs::rename(&temporary, folder.join(format!("{key}.cubin"))));
    if written.is_err() {
        let _ = fs::remove_file(&temporary);
    }
    written
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modules_are_kept_whole() {
        let folder = std::env::temp_dir().join(format!("eindecomp-modules-{}", std::process::id()));
        let key = key("sm_90", (12, 9), "source");
        assert_eq!(read(&folder, &key), None);
        store(&folder, &key, b"image").expect("a folder");
        assert_eq!(read(&folder, &key).as_deref(), Some(&b"image"[..]));
        let path = folder.join(format!("{key}.cubin"));
        let mut bytes = fs::read(&path).expect("it is there");
        for at in 0..bytes.len() {
            bytes[at] ^= 1;
            fs::write(&path, &bytes).expect("a folder");
            assert_eq!(read(&folder, &key), None, "byte {at} is another");
            bytes[at] ^= 1;
        }
        fs::write(&path, &bytes[..20]).expect("a folder");
        assert_eq!(read(&folder, &key), None);
        fs::remove_dir_all(&folder).expect("it is there");
    }

    #[test]
    fn keys_differ_by_what_a_module_depends_on() {
        let all = [
            key("sm_90", (12, 9), "a"),
            key("sm_80", (12, 9), "a"),
            key("sm_90", (13, 0), "a"),
            key("sm_90", (12, 9), "b"),
        ];
        let mut unlike = all.to_vec();
        unlike.sort();
        unlike.dedup();
        assert_eq!(unlike.len(), all.len());
    }
}
