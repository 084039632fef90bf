//! Are the driver and its libraries there, and new enough?

use std::panic::{AssertUnwindSafe, catch_unwind};

use cudarc::driver::sys::CUresult;
use cudarc::{cublaslt, driver, nvrtc};

use super::message;
use crate::backend::cuda::driver::GpuError;

/// Least version of driver, compiler and cuBLAS: what the bindings were tried with.
const NEEDED: (i32, i32) = (12, 0);

const DRIVER: &str = "libcuda, the NVIDIA driver,";
const NVRTC: &str = "libnvrtc, CUDA's run-time compiler,";
const CUBLAS: &str = "libcublasLt";
const TOOLKIT: &str = "install the CUDA toolkit, or the Python packages nvidia-cuda-nvrtc and nvidia-cublas, and name \
    their folders in LD_LIBRARY_PATH";

/// How many devices there are, at least one.
///
/// # Errors
/// What is missing.
pub fn devices() -> Result<usize, GpuError> {
    // A library that lacks a function panics where it is first called.
    let found = catch_unwind(AssertUnwindSafe(look));
    found.unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().cloned();
        let text = text.or_else(|| panic.downcast_ref::<&str>().map(|s| s.to_string()));
        Err(GpuError::TooOld {
            library: DRIVER,
            found: text.unwrap_or_else(|| "one that lacks a function".into()),
            needed: written(NEEDED),
        })
    })
}

fn look() -> Result<usize, GpuError> {
    // SAFETY: only libraries of NVIDIA have these names.
    if !unsafe { driver::sys::is_culib_present() } {
        return Err(GpuError::NoLibrary {
            library: DRIVER,
            hint: "install it, or run without GPUs",
        });
    }
    let (mut version, mut count) = (0, 0);
    // SAFETY: the results are written to places of ours.
    let (told, begun) = unsafe {
        (
            driver::sys::cuDriverGetVersion(&mut version),
            driver::sys::cuInit(0),
        )
    };
    if told == CUresult::CUDA_SUCCESS {
        new_enough(DRIVER, (version / 1000, version % 1000 / 10))?;
    }
    if begun != CUresult::CUDA_SUCCESS {
        return Err(GpuError::NoDevice(message(begun)));
    }
    // SAFETY: as above.
    let counted = unsafe { driver::sys::cuDeviceGetCount(&mut count) };
    if counted != CUresult::CUDA_SUCCESS {
        return Err(GpuError::NoDevice(message(counted)));
    }
    if count < 1 {
        return Err(GpuError::NoDevice("it counts 0".into()));
    }
    // SAFETY: as above.
    if !unsafe { nvrtc::sys::is_culib_present() } {
        let (library, hint) = (NVRTC, TOOLKIT);
        return Err(GpuError::NoLibrary { library, hint });
    }
    new_enough(NVRTC, compiler())?;
    // SAFETY: as above.
    if !unsafe { cublaslt::sys::is_culib_present() } {
        let (library, hint) = (CUBLAS, TOOLKIT);
        return Err(GpuError::NoLibrary { library, hint });
    }
    // SAFETY: it asks for nothing.
    let version = unsafe { cublaslt::sys::cublasLtGetVersion() } as i32;
    new_enough(CUBLAS, (version / 10_000, version % 10_000 / 100))?;
    Ok(count as usize)
}

/// The compiler's version.
pub fn compiler() -> (i32, i32) {
    let (mut major, mut minor) = (0, 0);
    // SAFETY: the results are written to places of ours.
    unsafe { nvrtc::sys::nvrtcVersion(&mut major, &mut minor) };
    (major, minor)
}

fn new_enough(library: &'static str, found: (i32, i32)) -> Result<(), GpuError> {
    match found >= NEEDED {
        true => Ok(()),
        false => Err(GpuError::TooOld {
            library,
            found: written(found),
            needed: written(NEEDED),
        }),
    }
}

fn written((major, minor): (i32, i32)) -> String {
    format!("{major}.{minor}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn old_libraries_are_told() {
        assert_eq!(new_enough(DRIVER, (12, 0)), Ok(()));
        assert_eq!(new_enough(DRIVER, (13, 1)), Ok(()));
        let old = new_enough(DRIVER, (11, 8)).expect_err("old").to_string();
        assert_eq!(
            old,
            "libcuda, the NVIDIA driver, is of version 11.8, but 12.0 is needed"
        );
    }

    #[test]
    fn what_is_missing_is_an_error() {
        // On a machine that has all of it, there is nothing to tell.
        if let Err(error) = devices() {
            let told = matches!(
                error,
                GpuError::NoLibrary { .. } | GpuError::TooOld { .. } | GpuError::NoDevice(_)
            );
            assert!(told, "{error}");
        }
    }
}
