//! GPUs as the devices of a session.

use eindecomp_core::plan::Cluster;
use eindecomp_runtime::backend::cuda::Gpus;
#[cfg(any(doc, not(feature = "cuda")))]
use eindecomp_runtime::backend::cuda::driver::GpuError;

use crate::Error;

/// The GPUs of this machine; if a number is given, as many virtual devices on the first.
#[cfg(feature = "cuda")]
pub(crate) fn found(virtual_devices: Option<u32>) -> Result<GpuCluster, Error> {
    use eindecomp_runtime::backend::cuda::{Cuda, CudaC};
    use std::sync::Arc;

    // beside the plans
    let kernels = crate::session::default_cache_dir().map(|folder| folder.join("kernels"));
    let driver = match virtual_devices {
        None => Cuda::open(kernels)?,
        Some(devices) => Cuda::virtual_devices(devices, kernels)?,
    };
    GpuCluster::measured(Gpus {
        driver: Arc::new(driver),
        generator: Arc::new(CudaC),
    })
}

/// None can be found by this build.
#[cfg(not(feature = "cuda"))]
pub(crate) fn found(_: Option<u32>) -> Result<GpuCluster, Error> {
    Err(GpuError::NotBuilt.into())
}

/// GPUs of this machine, and their figures, for
/// [`SessionBuilder::cluster`](crate::SessionBuilder::cluster).
#[derive(Clone, Debug)]
pub struct GpuCluster {
    pub(crate) gpus: Gpus,
    pub(crate) cluster: Cluster,
}

impl GpuCluster {
    /// The devices of a driver, with figures that are known.
    pub fn new(gpus: Gpus, cluster: Cluster) -> GpuCluster {
        GpuCluster { gpus, cluster }
    }

    /// The devices of a driver, with figures that are measured now: memory, rates and the links.
    ///
    /// # Errors
    /// [`GpuError`]: a device that fails, or none.
    pub fn measured(gpus: Gpus) -> Result<GpuCluster, Error> {
        let cluster = eindecomp_runtime::backend::cuda::measure(&gpus)?;
        Ok(GpuCluster { gpus, cluster })
    }

    /// What planning knows of them.
    pub fn cluster(&self) -> &Cluster {
        &self.cluster
    }
}
