//! GPUs as the devices of a session.

use eindecomp_core::plan::Cluster;
use eindecomp_runtime::backend::cuda::Gpus;
#[cfg(doc)]
use eindecomp_runtime::backend::cuda::driver::GpuError;

use crate::Error;

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
